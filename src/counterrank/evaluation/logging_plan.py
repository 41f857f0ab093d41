"""What planning found about one logging policy, for any number of sessions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from counterrank.clicks.users import MOST
from counterrank.common.errors import CounterrankError
from counterrank.evaluation.judgement import FEWEST_EXPECTED_CLICKS


@dataclass(frozen=True)
class Outlook:
    """What an estimate is expected to be, and how far it will be off.

    Attributes:
        value: its expectation.
        variance: of the estimate, times the number of sessions.
        floor: the variance that is left however many sessions there are; 0 for target "these-queries".
        equal_clicks: a session's share in how many equal clicks would make as skewed a sum.
    """

    value: float
    variance: float
    floor: float
    equal_clicks: float

    def width(self, sessions: float, confidence: float) -> float | None:
        """From one end of the interval to the other; None where nothing would be clicked.

        >>> outlook = Outlook(0.5, variance=1.0, floor=0.0, equal_clicks=0.1)
        >>> round(outlook.width(400, confidence=0.95), 4)  # 2 * 1.96 / 20
        0.196
        """
        width = 2.0 * _quantile(confidence) * math.sqrt(self.variance / sessions + self.floor)
        return width if self.equal_clicks > 0.0 and math.isfinite(width) else None

    def sessions_for(self, width: float, confidence: float) -> int | None:
        """How many sessions bring the interval down to a width that can be trusted; None where none up to 10**14 do.

        >>> Outlook(0.5, variance=1.0, floor=0.0, equal_clicks=0.1).sessions_for(0.196, confidence=0.95)
        400
        >>> Outlook(0.5, variance=1.0, floor=0.01, equal_clicks=0.1).sessions_for(0.196, confidence=0.95) is None
        True
        """
        left = (width / (2.0 * _quantile(confidence))) ** 2 - self.floor
        if left <= 0.0 or self.equal_clicks <= 0.0 or not math.isfinite(self.variance):
            return None
        return _amount(max(self.variance / left, FEWEST_EXPECTED_CLICKS / self.equal_clicks))


@dataclass(frozen=True)
class Expected:
    """What is expected after so many sessions.

    Attributes:
        sessions: how many.
        clicks: on all documents.
        effective_sample_size: (sum of the weights of clicks)^2 / sum of their squares.
        ips_width: of the interval of the metric per session, as `estimate` calls it; None if nothing is clicked.
        self_normalized_width: of the self-normalised metric.
        equal_clicks: how many equal clicks would make as skewed a sum; below 10 intervals are doubtful.
        seen: the share of candidates that is examined at least once.
    """

    sessions: int
    clicks: float
    effective_sample_size: float
    ips_width: float | None
    self_normalized_width: float | None
    equal_clicks: float
    seen: float

    @property
    def is_doubtful(self) -> bool:
        """Whether the interval would hang on a few rare clicks, and hold the truth less often than it says."""
        return self.equal_clicks < FEWEST_EXPECTED_CLICKS


@dataclass(frozen=True)
class LoggingPlan:
    """What one policy would bring, and what it costs.

    Attributes:
        policy: its name.
        metric: of the ranker to be judged and of the displayed pages.
        target: what intervals speak of.
        confidence: how often they shall hold the truth.
        clicks: of a session.
        effective_sample_size: of a session.
        ips: the metric per session.
        self_normalized: the metric per relevant document.
        covered: the share of candidates that can be examined at all.
        reached: the share of what the estimate is to find that lies on such candidates; below 1 it is biased.
        displayed: the metric of the displayed pages by the labels, over queries with a relevant document; None without
            labels.
        price: the share of it that is lost against showing the top of the ranking; negative where pages get better.
        sampled_pages: pages drawn for each query to tell how its places vary together; 0 where that is exact.
        expected: by number of sessions.
    """

    policy: str
    metric: str
    target: str
    confidence: float
    clicks: float
    effective_sample_size: float
    ips: Outlook
    self_normalized: Outlook
    covered: float
    reached: float
    displayed: float | None
    price: float | None
    sampled_pages: int
    expected: tuple[Expected, ...]

    @property
    def is_biased(self) -> bool:
        """Whether part of what the estimate is to find lies on documents that can never be examined."""
        return self.reached < 1.0 - 1e-12

    def with_sessions(self, amounts: Sequence[tuple[int, float]]) -> LoggingPlan:
        """The same for numbers of sessions, each with the share of candidates seen by then."""
        return replace(self, expected=tuple(self._expected(sessions, seen) for sessions, seen in amounts))

    def _expected(self, sessions: int, seen: float) -> Expected:
        return Expected(
            sessions=sessions,
            clicks=sessions * self.clicks,
            effective_sample_size=sessions * self.effective_sample_size,
            ips_width=self.ips.width(sessions, self.confidence),
            self_normalized_width=self.self_normalized.width(sessions, self.confidence),
            equal_clicks=sessions * self.ips.equal_clicks,
            seen=seen,
        )

    def sessions_for_width(self, width: float) -> int | None:
        """How many sessions bring the interval of `ips` down to this width; None where no number up to 10**14 does.

        At least as many as make the interval trustworthy. None, too, where part of what it is to find can never be
        clicked: it would close in on a wrong value.
        """
        _check(width, "width")
        return None if self.is_biased else self.ips.sessions_for(width, self.confidence)

    def sessions_for_effective(self, size: float) -> int | None:
        """How many sessions have this effective sample size; None where no number up to 10**14 does."""
        _check(size, "effective")
        return _amount(size / self.effective_sample_size) if self.effective_sample_size > 0.0 else None


def _check(value: float, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < math.inf:
        raise CounterrankError(f"{name}={value!r}: expected a number above 0")


def _amount(sessions: float) -> int | None:
    """A whole number of sessions, but for what is rounding; None where there are more than anyone has."""
    return max(1, math.ceil(sessions * (1.0 - 1e-12))) if sessions <= MOST else None


def _quantile(confidence: float) -> float:
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)

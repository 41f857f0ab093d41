"""A claim as it is written down: sentence, place in the paper, verdict, and one line of numbers for a reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from counterrank.experiments.claims.checks import FAILS, HOLDS, OPEN, Check, judge
from counterrank.experiments.claims.readings import Figure


@dataclass(frozen=True)
class Setting:
    """What all claims share.

    Attributes:
        confidence: of single intervals.
        margin: relative; differences up to this are taken as none, as the eye would in the paper's plots.
        documents: documents per query on average, None where unknown.
        targets: shares of the gap to be closed, by number of sessions.
    """

    confidence: float
    margin: float
    documents: float | None = None
    targets: Mapping[int, float] = field(default_factory=dict)

    @property
    def noticeable(self) -> float:
        """A quarter of the margin: an advantage surely smaller than this refutes that there is one."""
        return self.margin / 4.0


@dataclass(frozen=True)
class Claim:
    """What is claimed, and where.

    Attributes:
        id: stable, for programs.
        statement: one sentence.
        paper: section and figure.
        somewhere: whether one true check is enough; otherwise all have to be true.
        own: whether it is ours, on what the paper leaves open.
    """

    id: str
    statement: str
    paper: str
    somewhere: bool = False
    own: bool = False


def conclude(
    claim: Claim, figure: Figure, checks: Sequence[Check], setting: Setting, *, note: str = "", lack: str = ""
) -> dict[str, Any]:
    """The claim with its verdict, as a summary holds it.

    Args:
        claim: what is claimed.
        figure: where the numbers are from.
        checks: what was checked; empty where nothing could be.
        setting: levels and margins.
        note: more numbers worth reading, appended to the line.
        lack: why there are no checks, where the figure itself has points.
    """
    outcome = judge(checks, setting.confidence, claim.somewhere)
    if figure.lack or not checks:
        numbers, note = figure.lack or lack or f"figure {figure.number} lacks the points for it", ""
    elif outcome.decisive is None:
        numbers = _without_interval(checks)
    else:
        numbers = _line(outcome.decisive, checks, setting.confidence, claim.somewhere)
    return {
        "id": claim.id,
        "statement": claim.statement,
        "paper": claim.paper,
        "own": claim.own,
        "figure": figure.number,
        "verdict": outcome.verdict,
        "numbers": "; ".join(filter(None, [numbers, note])),
        "checks": [check.as_dict(setting.confidence) for check in checks] if not figure.lack else [],
    }


def _line(decisive: Check, checks: Sequence[Check], confidence: float, somewhere: bool) -> str:
    found = decisive.interval(confidence)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    text = f"{decisive.what}: {percent(found.value)} ({_signed(found.low)} to {_signed(found.high)})"
    if len(checks) > 1:
        verdicts = [check.verdict(confidence) for check in checks]
        counts = f"{verdicts.count(HOLDS)} hold, {verdicts.count(FAILS)} do not, {verdicts.count(OPEN)} open"
        text += f", the {'strongest' if somewhere else 'weakest'} of {len(checks)} checks ({counts})"
    return f"{text}; {found.runs} runs"


def _without_interval(checks: Sequence[Check]) -> str:
    told = next((check for check in checks if check.sample.runs), None)
    if told is None:
        return "no run has all the values that this compares"
    return f"{told.what}: {percent(told.sample.mean)}; one run tells nothing of the spread, two are needed"


def _signed(share: float) -> str:
    rounded = round(100.0 * share, 1)
    return f"{rounded:+.1f}" if rounded else "0.0"


def percent(share: float) -> str:
    """A share as a reader expects it.

    >>> percent(-0.0061), percent(0.0)
    ('-0.6 %', '0.0 %')
    """
    return f"{_signed(share)} %"


def plain_percent(share: float) -> str:
    """Without a sign.

    >>> plain_percent(0.02)
    '2 %'
    """
    return f"{100.0 * share:g} %"


def clicks_text(clicks: float) -> str:
    """Numbers of clicks as the axes write them.

    >>> clicks_text(100_000), clicks_text(25_000)
    ('10^5', '25,000')
    """
    power = len(str(int(clicks))) - 1
    return f"10^{power}" if clicks == 10**power else f"{int(clicks):,}"


def first_within(shares: dict[float, float | None], margin: float) -> float | None:
    """The smallest x from which on all means stay above minus the margin.

    >>> first_within({1: -0.1, 10: -0.01, 100: -0.03, 1000: 0.0}, 0.02)
    1000
    """
    found = None
    for x in sorted(shares, reverse=True):
        share = shares[x]
        if share is None or share < -margin:
            break
        found = x
    return found

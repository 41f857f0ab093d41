"""Deployment test: is a ranking better than another by the confidence interval of their difference?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from counterrank.common.checks import check_number
from counterrank.common.errors import CounterrankError
from counterrank.common.notebook import POPULATIONS, Shown, Summary, interval_decimals, level_text
from counterrank.evaluation.click_metrics import Estimate
from counterrank.evaluation.confidence_intervals import Interval
from counterrank.evaluation.evaluation_cards import verdict_card
from counterrank.evaluation.metrics import higher_is_better

MOST_UNCOVERED = 0.05  # share of a difference on uncovered documents above which there is no verdict


@dataclass(frozen=True)
class Verdict(Shown):
    """The result of a deployment test: whether one ranking is better than another, and whether by a margin.

    Attributes:
        decision: "better" (lower > 0), "worse" (upper < 0) or "undecided".
        passes: lower > margin.
        metric: its name.
        estimate: the gain, positive where the first ranking is better: for ARP the difference with its sign changed.
            None where there is no estimate.
        lower, upper: the confidence interval of the gain; None where there is none, which is undecided.
        margin: what the lower bound was compared with, in the unit of the gain.
        target: the target population, "queries" or "these-queries".
        confidence: the confidence level.
        kind: "per session", or "self-normalised" for ARP.
        doubts: why the interval may not hold; see `Estimate`.
        sentence: the verdict in words, the difference with the metric's natural sign.
    """

    decision: str
    passes: bool
    metric: str
    estimate: float | None
    lower: float | None
    upper: float | None
    margin: float
    target: str
    confidence: float
    kind: str
    doubts: tuple[str, ...]
    sentence: str

    @property
    def population(self) -> str:
        """The target population of the interval; another name of `target`."""
        return self.target

    @property
    def exit_code(self) -> int:
        """The exit code of a gate: 0 if it passes, 4 if it is worse and does not pass, 3 otherwise."""
        return 0 if self.passes else 4 if self.decision == "worse" else 3

    def summary(self) -> Summary:
        """All fields, as a dict that prints as a table."""
        return Summary(asdict(self))

    def _repr_html_(self) -> str:
        return verdict_card(self)


def verdict(
    difference: Estimate, margin: float = 0.0, *, names: tuple[str, str] = ("the first ranker", "the second")
) -> Verdict:
    """Decide by its confidence interval whether the first ranking of a comparison is better, worse or undecided.

        better:  lower > 0        worse:  upper < 0        passes:  lower > margin

    The interval is that of the gain: per session (`ips`) for DCG and precision; self-normalised for ARP, where the gain
    is minus the difference. A margin above 0 requires a gain of at least so much, one below 0 no loss of more
    (non-inferiority). Without an interval it is undecided, and so it is where more than 5 % of the difference is on
    documents that the clicks do not cover (`Estimate.uncovered`).

    Arguments:
        difference: of one metric, from `compare`.
        margin: what the lower bound must exceed, in the unit of the metric.
        names: of the two rankings, for the sentence.

    >>> about = {"effective_sample_size": 900.0, "largest_share": 0.01, "target": "queries", "confidence": 0.95}
    >>> about |= {"n_queries": 500, "n_sessions": 10_000, "n_clicks": 4000, "doubts": (), "is_difference": True}
    >>> found = verdict(Estimate("dcg@5", 0.07, 0.12, (0.021, 0.119), (0.04, 0.2), **about), names=("new", "old"))
    >>> found.decision, found.passes, found.exit_code
    ('better', True, 0)
    >>> print(found.sentence)
    new is better than old: dcg@5 per session +0.070 (95 % confidence interval 0.021 to 0.119), for queries like these.
    """
    if not isinstance(difference, Estimate):
        raise CounterrankError(f"difference: {type(difference).__name__}; expected an Estimate from evaluation.compare")
    if not difference.is_difference:
        raise CounterrankError("difference: an Estimate of one ranking; expected one from evaluation.compare")
    limit = check_margin(margin)
    higher = higher_is_better(difference.metric)
    value = difference.ips if higher else difference.self_normalized
    interval = difference.ips_interval if higher else difference.self_normalized_interval
    kind, sign = ("per session", 1.0) if higher else ("self-normalised", -1.0)
    lower, upper = (None, None) if interval is None else sorted(sign * bound + 0.0 for bound in interval)
    decision = "undecided"
    blind = difference.uncovered > MOST_UNCOVERED
    if lower is not None and upper is not None and not lower <= 0.0 <= upper and not blind:
        decision = "better" if lower > 0.0 else "worse"
    about = POPULATIONS[difference.population]
    gap = _difference_in_words(difference, value, interval, sign * limit)
    lead = _decision_in_words(decision, lower, upper, limit, names)
    if blind:
        lead += (
            f" ({100.0 * difference.uncovered:.2g} % of the difference is on documents that the clicks do not cover)"
        )
    return Verdict(
        decision=decision,
        passes=lower is not None and lower > limit and not blind,
        metric=difference.metric,
        estimate=None if value is None else sign * value + 0.0,
        lower=lower,
        upper=upper,
        margin=limit,
        target=difference.population,
        confidence=difference.confidence,
        kind=kind,
        doubts=difference.doubts,
        sentence=f"{lead}: {difference.metric} {kind} {gap}, for {about}{', in-sample' * difference.in_sample}.",
    )


def check_margin(margin: Any) -> float:
    """A margin of a verdict: any finite number.

    >>> check_margin(-0.01)
    -0.01
    """
    return check_number(margin, "margin", also=", such as 0.01")


def _decision_in_words(
    decision: str, lower: float | None, upper: float | None, margin: float, names: tuple[str, str]
) -> str:
    """The decision, and what the margin adds to it."""
    lead = f"undecided whether {names[0]} is better than {names[1]}"
    if decision != "undecided":
        lead = f"{names[0]} is {decision} than {names[1]}"
    if lower is None or upper is None or margin == 0.0:
        return lead
    size, passes = f"the margin of {abs(margin):g}", lower > margin
    if margin > 0.0:
        if passes:
            return f"{lead} by more than {size}"
        if decision != "better":
            return lead
        return f"{lead}, but not by {size}" if upper <= margin else f"{lead}, but perhaps not by {size}"
    if passes:
        return lead if decision == "better" else f"{lead}, but within {size}"
    if upper <= margin:
        return f"{lead} by more than {size}"
    return f"{lead}, {'and perhaps' if decision == 'worse' else 'and perhaps worse'} by more than {size}"


def _difference_in_words(difference: Estimate, value: float | None, interval: Interval | None, limit: float) -> str:
    """The difference with its natural sign, and its confidence interval."""
    if value is None:
        return "cannot be estimated from these clicks"
    lower_is_better = "" if higher_is_better(difference.metric) else "; lower is better"
    if interval is None:
        return f"{value:+.3g} (no confidence interval, since there is too little data{lower_is_better})"
    digits = interval_decimals(value, interval, (0.0, limit))
    low, high = (f"{round(bound, digits) + 0.0:.{digits}f}" for bound in interval)
    level = level_text(difference.confidence)
    return f"{round(value, digits) + 0.0:+.{digits}f} ({level} {low} to {high}{lower_is_better})"

"""Metrics of a ranking from clicks alone, with intervals: `estimate` for one ranking, `compare` for two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import is_real
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData
from counterrank.estimators.propensities import Propensities
from counterrank.evaluation.click_evidence import Method, document_values, weigh_clicks
from counterrank.evaluation.held_out import check_held_out, scores_of
from counterrank.evaluation.intervals import Asked
from counterrank.evaluation.judgement import Estimate, flagged, judge
from counterrank.evaluation.metrics import higher_is_better, metric_names

MOST_UNCOVERED = 0.05  # share of a difference on uncovered documents above which there is no verdict


def estimate(
    scores: Any,
    data: RankingData,
    clicks: ClickCounts,
    rho: ArrayLike | Propensities | None = None,
    metrics: Sequence[str] = ("arp", "dcg@5"),
    *,
    target: str = "queries",
    confidence: float = 0.95,
    replicates: int = 2000,
    noise: tuple[float, float] | None = None,
    ties: str = "average",
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
    method: str = "ips",
    relevance: ArrayLike | None = None,
    exam: ArrayLike | Examination | None = None,
    in_sample: bool = False,
) -> dict[str, Estimate]:
    """The quality of a ranking by the clicks that another one got.

        ips             = sum(omega * lambda) / sessions       sessions of all queries
        self_normalized = sum(omega * lambda) / sum(omega)     for dcg: per relevant document
        omega(d)        = sum over clicks on d of 1 / rho(d)   never clipped (eq:policyaware)

    lambda is the rank of the document for arp (lower is better) and D(rank) for dcg (higher is better), see
    `rank_values`. Metrics that need to know all relevant documents are refused.

    With P(click | examined) = e0 + (e1 - e0) * relevance and rho > 0 for every candidate, the expectations are an
    increasing function (affine, and the same for all rankers) of the label metric,
    `evaluate(..., query_weights=sessions, empty="zero")`. `noise` takes off what is not relevance.

    method="dr" starts from a model of relevance R and weighs only what it did not foresee (doubly robust):

        omega(d) = sessions * R(d) + sum over impressions of d of (click - P(examined | rank) R(d)) / rho(d)

    Its expectation is that of "ips" whatever R is if rho is right, and whatever rho is if R is right; documents that
    cannot be seen keep sessions * R. Intervals are narrower where the chance of which document was shown matters, see
    docs/intervals.md.

    Arguments:
        scores: one per document, a higher score ranks first; or a ranker that predicts them, which is checked not to
            have been trained on these clicks, or stopped by them.
        data: what the clicks were counted against; labels are not looked at.
        clicks: what was shown and clicked.
        rho: the propensity of each document, as `policy.propensity(scores, offsets, exam)` gives it; None for those
            logged with the clicks.
        metrics: "arp", "dcg", "dcg@k", "precision@k".
        target: what the intervals speak of. "queries": how the ranking will do on queries like these (bootstrap over
            queries). "these-queries": what more clicks on these queries would show, with the same number of sessions.
        confidence: how often an interval shall hold the truth.
        replicates: resamples of the queries; those of target "these-queries" need none.
        noise: (e0, e1), the chances of a click on an irrelevant and on a relevant document once examined. omega becomes
            (omega - e0 * sessions of the query) / (e1 - e0) where rho > 0.
        ties: "average" for the expected value over all orders of documents with equal scores, "order" for document
            order.
        seed: of the resamples.
        threads: how many to use; the result is the same for any number.
        method: "ips", or "dr" for doubly robust.
        relevance: for "dr", R = P(click | examined) of each document, from 0 to 1: an array, or what `fit_relevance`
            gives. Clicks on a query must not have told its own R, else the estimate is biased. None to fit it here by
            `fit_relevance`, which sees to that.
        exam: for "dr" and for logs of several policies, P(examined | rank), the curve that rho was made with; None for
            what simulated clicks remember.
        in_sample: whether clicks that the ranker was trained on, or stopped by, are in order; the result then says so.

    Returns:
        an `Estimate` for each metric. An `IntervalWarning` says which intervals lie outside the range where they were
        shown to hold.

    >>> import warnings
    >>> from counterrank.data.identity import identity
    >>> data = RankingData([[0.0], [0.0], [0.0]], offsets=[0, 3])
    >>> docs, ranks, shown, clicked = np.array([[0, 1, 2], [1, 2, 2], [10, 5, 5], [4, 1, 2]])
    >>> clicks = ClickCounts(identity(data), data.offsets, np.array([10]), docs, ranks, shown, clicked)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # seven clicks are far too few
    ...     found = estimate([1.0, 2.0, 3.0], data, clicks, rho=[1.0, 0.25, 0.25], target="these-queries")
    >>> found["arp"].self_normalized  # ranks 3, 2, 1 with weights 4, 4, 8
    1.75
    >>> round(found["dcg@5"].ips, 6)  # (4 / 2 + 4 / log2(3) + 8) / 10
    1.252372
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     found = estimate(
    ...         [1.0, 2.0, 3.0], data, clicks, [1.0, 0.25, 0.25], method="dr", relevance=[0.4, 0.4, 0.4], exam=[1, 0.5]
    ...     )
    >>> found["arp"].self_normalized  # weights 4 + 0 / 1, 4 + (1 - 5 * 0.2) / 0.25, 4 + (2 - 5 * 0.2) / 0.25
    1.75
    """
    asked = Asked.checked(target, confidence, replicates, seed, threads)
    names = metric_names(metrics, ())
    weighed = weigh_clicks(data, clicks, rho, noise, asked.threads, Method(method, relevance, exam))
    seen = check_held_out({"the ranker": scores}, data, clicks, target, in_sample)
    values = document_values(scores_of(scores, data), data, names, ties, asked.threads)
    return dict(zip(names, flagged(judge(weighed, values, names, asked), seen), strict=True))


def compare(
    scores_a: Any,
    scores_b: Any,
    data: RankingData,
    clicks: ClickCounts,
    rho: ArrayLike | Propensities | None = None,
    metrics: Sequence[str] = ("arp", "dcg@5"),
    *,
    target: str = "queries",
    confidence: float = 0.95,
    replicates: int = 2000,
    noise: tuple[float, float] | None = None,
    ties: str = "average",
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
    method: str = "ips",
    relevance: ArrayLike | None = None,
    exam: ArrayLike | Examination | None = None,
    in_sample: bool = False,
) -> dict[str, Estimate]:
    """The difference of two rankings, a minus b, by the same clicks.

        ips             = sum(omega * (lambda_a - lambda_b)) / sessions
        self_normalized = sum(omega * (lambda_a - lambda_b)) / sum(omega)

    Both are judged by the same clicks and the same resamples, so that much of the chance cancels: an interval that does
    not hold 0 says which is better. Of dcg a positive difference speaks for a, of arp a negative one.

    Arguments:
        scores_a, scores_b: one per document each, or rankers that predict them.
        data, clicks, rho, metrics, target, confidence, replicates, noise, ties, seed, threads: as in `estimate`.
        method, relevance, exam, in_sample: as in `estimate`; omega is doubly robust for "dr".

    >>> import warnings
    >>> from counterrank.data.identity import identity
    >>> data = RankingData([[0.0], [0.0]], offsets=[0, 2])
    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [9, 9], [6, 1]])
    >>> clicks = ClickCounts(identity(data), data.offsets, np.array([9]), docs, ranks, shown, clicked)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     found = compare([2.0, 1.0], [1.0, 2.0], data, clicks, [1.0, 0.5], ["arp"], target="these-queries")
    >>> found["arp"].self_normalized  # weights 6, 2: (6 * (1 - 2) + 2 * (2 - 1)) / 8
    -0.5
    """
    asked = Asked.checked(target, confidence, replicates, seed, threads)
    names = metric_names(metrics, ())
    weighed = weigh_clicks(data, clicks, rho, noise, asked.threads, Method(method, relevance, exam))
    seen = check_held_out({"ranker a": scores_a, "ranker b": scores_b}, data, clicks, target, in_sample)
    values = document_values(scores_of(scores_a, data, "scores_a"), data, names, ties, asked.threads, "scores_a")
    values -= document_values(scores_of(scores_b, data, "scores_b"), data, names, ties, asked.threads, "scores_b")
    found = flagged(judge(weighed, values, names, asked), seen)
    return {name: replace(each, is_difference=True) for name, each in zip(names, found, strict=True)}


@dataclass(frozen=True)
class Verdict:
    """Whether one ranking is better than another, and whether by a margin, for a script to go by.

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
    def exit_code(self) -> int:
        """What a gate exits with: 0 if it passes, 4 if it is worse and does not pass, 3 otherwise."""
        return 0 if self.passes else 4 if self.decision == "worse" else 3


def verdict(
    difference: Estimate, margin: float = 0.0, *, names: tuple[str, str] = ("the first ranker", "the second")
) -> Verdict:
    """Whether the first ranking of a comparison is better, worse or undecided, by its confidence interval.

        better:  lower > 0        worse:  upper < 0        passes:  lower > margin

    The interval is that of the gain: per session (`ips`) for DCG and precision; self-normalised for ARP, where the gain
    is minus the difference. A margin above 0 asks for a gain of at least so much, one below 0 for no loss of more
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
    about = {"queries": "queries like these", "these-queries": "these queries"}[difference.target]
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
        target=difference.target,
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
    if not is_real(margin) or not math.isfinite(margin):
        raise CounterrankError(f"margin={margin!r}: expected a finite number, such as 0.01")
    return float(margin)


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


def _difference_in_words(
    difference: Estimate, value: float | None, interval: tuple[float, float] | None, limit: float
) -> str:
    """The difference with its natural sign, and its confidence interval."""
    if value is None:
        return "cannot be estimated from these clicks"
    lower_is_better = "" if higher_is_better(difference.metric) else "; lower is better"
    if interval is None:
        return f"{value:+.3g} (no confidence interval, since there is too little to tell by{lower_is_better})"
    digits = _decimals(value, interval, limit)
    low, high = (f"{round(bound, digits) + 0.0:.{digits}f}" for bound in interval)
    level = f"{100.0 * difference.confidence:.4g} % confidence interval"
    return f"{round(value, digits) + 0.0:+.{digits}f} ({level} {low} to {high}{lower_is_better})"


def _decimals(value: float, interval: tuple[float, float], limit: float) -> int:
    """So many that half the interval's width has two digits, and no bound looks as if it were 0 or the margin."""
    half = (interval[1] - interval[0]) / 2.0 or abs(value) or 1.0
    digits = min(12, max(0, 1 - math.floor(math.log10(half))))
    while digits < 12 and any(
        bound != mark and round(bound, digits) == round(mark, digits) for bound in interval for mark in (0.0, limit)
    ):
        digits += 1
    return digits

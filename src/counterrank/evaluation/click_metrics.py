"""Metrics of a ranking from clicks alone, with intervals: `estimate` for one ranking, `compare` for two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.data import RankingData
from counterrank.estimators.logged import Propensities
from counterrank.evaluation.click_evidence import document_values, weigh_clicks
from counterrank.evaluation.foreseen import Method
from counterrank.evaluation.held_out import check_held_out, scores_of
from counterrank.evaluation.intervals import Asked
from counterrank.evaluation.judgement import Estimate, flagged, judge
from counterrank.evaluation.metrics import metric_names


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
        exam: for "dr", P(examined | rank), the curve that rho was made with; None for what simulated clicks remember.

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
    return dict(zip(names, flagged(judge(weighed, values, names, asked), seen), strict=True))

"""The clicks of a log with their importance weights 1 / propensity, and sums and variances of them.

With `method="dr"` a model of relevance predicts the clicks (the direct method), and only the residuals, click minus
prediction, are weighted: the prediction is a control variate, and the estimate doubly robust.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.clicks.browsing import SequentialExamination, sequential
from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination, is_user_model, lines_of
from counterrank.clicks.exposure import examined, examined_on_pages, examined_times
from counterrank.common.checks import FloatArray, IntArray, check_choice, check_vector
from counterrank.common.errors import CounterrankError, brief
from counterrank.common.parallel import for_queries
from counterrank.data import RankingData
from counterrank.data.ids import query_of
from counterrank.data.scores import refuse_column
from counterrank.estimators.propensities import (
    SMALLEST,
    Propensities,
    capped_inverse,
    propensities_of,
    refuse_impossible,
    refuse_unseen,
    sessions_of_documents,
    warn_if_apart,
    without_stale_propensities,
)
from counterrank.estimators.relevance import check_relevance, fit_relevance
from counterrank.estimators.weights import mean_relevance, warn_if_contradicted, warn_unless_sometimes_seen
from counterrank.evaluation import click_kernels as _click_kernels
from counterrank.evaluation.click_kernels import Cells, Pages
from counterrank.evaluation.metrics import prefix_sums, rank_values

BoolArray = NDArray[np.bool_]
METHODS = ("ips", "dr")
CONTROLS = ("none", "optimal")


class Method(NamedTuple):
    """How to estimate, unchecked."""

    name: Any = "ips"  # or "dr"
    relevance: Any = None  # R of each document, for "dr"; None to fit it
    exam: Any = None  # P(examined | rank), for "dr", control variates, logs of several policies; None: of the clicks
    control: Any = "none"  # or "optimal", see `control_variates`


class ClickPredictor(NamedTuple):
    """Predicts clicks: P(click | document, rank) = alpha_rank R(document) + beta_rank."""

    relevance: FloatArray | None  # R, P(click | examined) of each document; None where only beta predicts clicks
    exam: Examination
    base: Examination | None  # beta; None where it is 0

    def of_cells(self, clicks: ClickCounts) -> FloatArray:
        """P(click) of an impression in each cell."""
        return self._probabilities(clicks, clicks.docs, examined)

    def of_pages(self, clicks: ClickCounts) -> FloatArray:
        """P(click) of each place of the displayed pages in a session."""
        assert clicks.displays is not None
        return self._probabilities(clicks, clicks.displays.docs, examined_on_pages)

    def _probabilities(self, clicks: ClickCounts, docs: IntArray, seen: Callable[..., FloatArray]) -> FloatArray:
        predicted = np.zeros(len(docs)) if self.base is None else seen(self.base, clicks)
        return predicted if self.relevance is None else predicted + seen(self.exam, clicks) * self.relevance[docs]


def _click_predictor(
    method: Method, data: RankingData, clicks: ClickCounts, rho: FloatArray | None
) -> ClickPredictor | None:
    """The model that the method needs, fitted (cross-fitted over queries) where none was given.

    None for "ips", unless users have trust bias: the clicks that it explains are then predicted.
    """
    if method.name == "ips":
        if method.relevance is not None:
            raise CounterrankError("relevance: given, but method='ips' does not use it; expected method='dr'")
        exam, base = (None, None) if method.exam is None else lines_of(method.exam)
        if exam is None or base is None:
            return None
        refuse_unseen(exam, base, clicks)
        return ClickPredictor(None, exam, base)
    exam, base = _check_exam(method, clicks)
    if method.relevance is None:
        users = exam if base is None else method.exam
        return ClickPredictor(fit_relevance(data, clicks, rho, exam=users).values, exam, base)
    if rho is not None:
        warn_if_apart(float(examined_times(exam, clicks).sum()), float((sessions_of_documents(clicks) * rho).sum()))
    relevance = check_relevance(method.relevance, clicks.n_docs)
    outside = (relevance < 0.0) | (relevance > 1.0)
    if outside.any():
        doc = int(np.argmax(outside))
        query = int(query_of(doc, clicks.offsets))
        raise CounterrankError(
            f"relevance: {relevance[doc]:g} for document {doc - clicks.offsets[query]} of query {query}; expected "
            "P(click | examined), from 0 to 1"
        )
    return ClickPredictor(relevance, exam, base)


def _check_exam(method: Method, clicks: ClickCounts) -> tuple[Examination, Examination | None]:
    """The user model that was given or remembered, if it explains the clicks."""
    exam = clicks.examination if method.exam is None else method.exam
    if exam is None:
        asked = "method='dr'" if method.name == "dr" else f"control={method.control!r}"
        raise CounterrankError(
            f"exam: None, and the clicks do not hold the curve they were made with; {asked} requires P(examined | "
            "rank), exam=[1, 0.5, ...] or an Examination: with n * rho instead it would be plain method='ips' again"
        )
    curve, base = lines_of(exam)
    refuse_unseen(curve, base, clicks)
    return curve, base


class Shown(NamedTuple):
    """All that was shown, clicked or not: what residuals by other predictions are made of."""

    counts: ClickCounts
    inverse: FloatArray  # 1 / propensity of each cell of the counts
    predictor: ClickPredictor  # that of the method; for "ips" without trust bias it predicts no clicks
    covered: BoolArray  # the documents that can be examined, as far as is known


@dataclass(frozen=True, eq=False)
class WeightedClicks:
    """The clicks of a log, each with its importance weight 1 / propensity; for "dr" the residuals of a predictor."""

    offsets: IntArray  # of the data
    sessions: IntArray  # of each query
    cells: Cells  # the clicked ones; for "dr" those shown
    pages: Pages | None  # whole pages, if they were kept
    rho: FloatArray | None  # the propensity of each document; None if only those of clicks are known
    relevance: FloatArray | None  # R of each document for "dr", None for "ips"
    unexaminable: IntArray  # the documents with propensity 0
    noise: tuple[float, float] | None  # (e0, e1), or None to leave clicks as they are
    effective_sample_size: float  # Kish's, of the importance weights of the clicks
    largest_share: float  # the largest weight of a click over the sum of all
    threads: int | None
    unseen: FloatArray | None  # under trust bias, the mean relevance for documents without exposure; else None
    uncovered: IntArray  # the documents that the clicks do not cover; none for "dr", which predicts them
    source: str  # where the propensities come from, see `Propensities`
    shown: Shown | None = None  # for control variates; None where none were asked for
    control: FloatArray | None = None  # what they add to the predicted P(click | examined) of each document

    @property
    def sessions_of_documents(self) -> IntArray:
        """The sessions of the query of each document."""
        return np.repeat(self.sessions, np.diff(self.offsets))

    @property
    def noise_scale(self) -> float:
        """e1 - e0; 1 without a correction for click noise."""
        return 1.0 if self.noise is None else self.noise[1] - self.noise[0]

    @property
    def method(self) -> str:
        """How the estimates are made, "ips" or "dr"."""
        return "ips" if self.relevance is None else "dr"


@dataclass(frozen=True, eq=False)
class QuerySums:
    """Numerators and denominators of the estimates, one row for each query with sessions."""

    sessions: FloatArray
    omega: FloatArray  # the sum of the weights of the documents
    terms: FloatArray  # the sum of weight * lambda, a column for each metric or ranker


def weight_clicks(
    data: RankingData,
    clicks: ClickCounts,
    rho: ArrayLike | Propensities | None,
    noise: Any,
    threads: int | None,
    method: Method,
) -> WeightedClicks:
    """Check everything and divide each click, or its residual, by its propensity; weights are never clipped."""
    counts = check_counts(clicks)
    counts.check_data(data)
    for values, name in ((rho, "rho"), (method.relevance, "relevance")):
        refuse_column(values, data, name)
    if not counts.sessions.any():
        raise CounterrankError("clicks: no sessions; expected at least one result page that was shown")
    check_choice(method.name, METHODS, "method")
    if is_user_model(method.exam):
        counts = without_stale_propensities(counts, quietly=rho is not None)
    check_choice(method.control, CONTROLS, "control")
    found = propensities_of(counts, rho, method.exam, all_shown=method.name == "dr" or method.control != "none")
    given = found.by_document if found.source == "given" else None
    if given is not None and sequential(method.exam) is not None:
        raise CounterrankError(
            "rho: given together with users whose clicks depend on each other; expected None, so that what the log "
            "shows was examined is taken (no --policy and --logger)"
        )
    name = "propensities" if given is None else "rho"
    model = _click_predictor(method, data, counts, given)
    predictor = model if method.control == "none" else _with_curve(model, method, counts, given)
    if model is None or model.base is None:
        inverse = capped_inverse(found.by_cell, np.inf, counts, counts.clicks, counts.docs, counts.ranks, name)
    else:
        chances = np.nan_to_num(found.by_document) + examined_times(model.base, counts)
        refuse_impossible(chances, counts.by_document(counts.clicks), counts, name)
        inverse = np.zeros(len(counts.docs))
    corrected = _check_noise(noise, given, model)
    if given is not None:
        warn_if_contradicted(counts, given, "rho")
    chances = found.chances()
    is_predicted = model is not None and model.relevance is not None
    if not is_predicted:
        warn_unless_sometimes_seen(counts, chances, name)
    if predictor is not None:
        np.divide(1.0, found.by_cell, out=inverse, where=found.by_cell >= SMALLEST)
    if is_predicted and found.source == "realised":  # no click can correct the model of what was never shown
        chances = np.nan_to_num(found.by_document)
    cells = _cells(counts, inverse, model)
    shown = None
    if predictor is not None and method.control != "none":
        by_document = np.nan_to_num(found.by_document) if found.source == "realised" else found.chances()
        covered = by_document >= SMALLEST
        covered[found.uncovered] = False
        shown = Shown(counts, inverse, predictor, covered)
    effective, largest = concentration(cells.clicks, cells.inverse)
    return WeightedClicks(
        offsets=counts.offsets,
        sessions=counts.sessions,
        cells=cells,
        pages=_pages(counts, cells, model),
        rho=given,
        relevance=None if model is None else model.relevance,
        unexaminable=np.flatnonzero(chances < SMALLEST),
        noise=corrected,
        effective_sample_size=effective,
        largest_share=largest,
        threads=threads,
        unseen=None if is_predicted or model is None else _unseen(found, counts, model),
        uncovered=np.empty(0, np.int64) if is_predicted else found.uncovered,
        source=found.source,
        shown=shown,
    )


def _with_curve(
    model: ClickPredictor | None, method: Method, clicks: ClickCounts, rho: FloatArray | None
) -> ClickPredictor:
    """The model of the method with the examination curve, which control variates need of "ips" too."""
    if model is not None:
        return model
    exam, _ = _check_exam(method, clicks)
    if rho is not None:
        warn_if_apart(float(examined_times(exam, clicks).sum()), float((sessions_of_documents(clicks) * rho).sum()))
    return ClickPredictor(None, exam, None)


def with_control(weighted: WeightedClicks, control: FloatArray) -> WeightedClicks:
    """The clicks with more of them predicted, `control` times P(examined | rank) for each document that can be seen."""
    assert weighted.shown is not None
    counts, inverse, predictor, covered = weighted.shown
    added = np.where(covered, control, 0.0)
    relevance = added if predictor.relevance is None else predictor.relevance + added
    model = predictor._replace(relevance=relevance)
    cells = _cells(counts, inverse, model)
    return replace(weighted, cells=cells, pages=_pages(counts, cells, model), control=added)


def _unseen(found: Propensities, counts: ClickCounts, model: ClickPredictor) -> FloatArray:
    """The mean relevance of documents that are seldom shown for those without exposure, 0 for the others."""
    hidden = ~(np.nan_to_num(found.by_document) >= SMALLEST)
    return np.where(hidden, mean_relevance(counts, model.exam, model.base), 0.0)


def _cells(counts: ClickCounts, inverse: FloatArray, model: ClickPredictor | None) -> Cells:
    """Those that were clicked, or where a click was predicted.

    Of n impressions with c clicks, each predicted with probability p, the residuals are c times 1 - p and n - c times
    -p. Their mean squared, times n, has the unbiased estimate c (c - 1) / (n - 1) - 2 p c + n p^2.
    """
    predicted = None if model is None else model.of_cells(counts)
    kept = counts.clicks > 0 if predicted is None else (inverse > 0.0) & ((counts.clicks > 0) | (predicted != 0.0))
    chosen = np.flatnonzero(kept)
    docs, clicks, shown = counts.docs[chosen], counts.clicks[chosen], counts.impressions[chosen]
    sums = squares = fourths = clicks.astype(np.float64)
    steady = np.where(shown > 1, clicks * (clicks - 1) / np.maximum(shown - 1, 1), clicks)
    if predicted is not None:
        p, missed = predicted[chosen], shown - clicks
        sums = clicks - shown * p
        squares, fourths = (clicks * (1.0 - p) ** power + missed * p**power for power in (2, 4))
        steady = steady - 2.0 * p * clicks + shown * p**2
    bounds = np.searchsorted(docs, counts.offsets)
    return Cells(bounds, docs, counts.ranks[chosen] - 1, clicks, inverse[chosen], sums, squares, fourths, steady)


def concentration(numbers: ArrayLike, weights: ArrayLike) -> tuple[float, float]:
    """How far the sum of weighted clicks depends on a few of them.

        effective sample size = (sum of weights)^2 / sum of their squares   (Kish)
        largest share         = the largest weight / sum of weights

    `numbers` says how many clicks have each of the `weights`. (0.0, 0.0) without a click with a weight above 0.

    >>> concentration([6, 1], [1.0, 2.0])  # eight in all; 64 / (6 * 1 + 4), 2 / 8
    (6.4, 0.25)
    >>> concentration([], [])
    (0.0, 0.0)
    """
    times, each = np.asarray(numbers, np.float64), np.asarray(weights, np.float64)
    total = float((times * each).sum())
    if not total:
        return 0.0, 0.0
    return total**2 / float((times * each**2).sum()), float(each[times > 0].max()) / total


def _pages(counts: ClickCounts, cells: Cells, model: ClickPredictor | None) -> Pages | None:
    """The pages that were kept; each document has one propensity, but for rounding."""
    pages = counts.displays
    if pages is None or (model is not None and isinstance(model.exam, SequentialExamination)):
        return None  # of pages it is not known which of their clicks were expected, only of documents at ranks
    inverse = np.zeros(counts.n_docs)
    inverse[cells.docs] = cells.inverse
    sums = pages.clicks.astype(np.float64)
    if model is not None:
        sums -= np.repeat(pages.sessions, np.diff(pages.offsets)) * model.of_pages(counts)
    bounds = np.searchsorted(pages.docs[pages.offsets[:-1]], counts.offsets)
    return Pages(bounds, pages.offsets, pages.docs, pages.sessions, pages.clicks, sums, inverse)


def document_values(
    scores: FloatArray, data: RankingData, metrics: Sequence[str], ties: str, threads: int | None
) -> FloatArray:
    """lambda of each metric at the rank of each document, by checked scores: (n_docs, n_metrics)."""
    check_choice(ties, ("average", "order"), "ties")
    longest = int(data.lengths.max())
    prefix = np.stack([prefix_sums(rank_values(metric, longest)) for metric in metrics])
    values = np.empty((data.n_docs, len(metrics)))
    kernel = _click_kernels.document_values
    for_queries(kernel, data.offsets, scores, ties == "average", prefix, values, threads=threads)
    return values


def query_sums(weighted: WeightedClicks, values: FloatArray) -> QuerySums:
    """Sums of omega and of omega * lambda for each query with sessions, corrected for click noise where that is set.

    For "dr" omega includes the prediction of the model, sessions * R. With noise=(e0, e1) omega of a document that can
    be examined, or has a prediction, becomes (omega - e0 * sessions of its query) / (e1 - e0).
    """
    omega, terms = np.zeros(len(weighted.sessions)), np.zeros((len(weighted.sessions), values.shape[1]))
    options = {"threads": weighted.threads}
    for_queries(_click_kernels.query_sums, weighted.offsets, weighted.cells, values, omega, terms, **options)

    def add(per_session: FloatArray, times: float) -> None:
        """Add to omega of every document, in each session of its query, `times * per_session`."""
        nonlocal omega, terms
        own, own_terms = np.zeros_like(omega), np.zeros_like(terms)
        kernel = _click_kernels.document_sums
        for_queries(kernel, weighted.offsets, per_session, values, own, own_terms, **options)
        omega += times * weighted.sessions * own
        terms += times * weighted.sessions[:, None] * own_terms

    for predicted in (weighted.relevance, weighted.unseen, weighted.control):
        if predicted is not None:
            add(predicted, 1.0)
    if weighted.noise is not None:
        noisy = np.ones(len(values)) if weighted.rho is None or weighted.relevance is not None else weighted.rho > 0.0
        add(noisy.astype(np.float64), -weighted.noise[0])
    kept, scale = weighted.sessions > 0, weighted.noise_scale
    return QuerySums(weighted.sessions[kept].astype(np.float64), omega[kept] / scale, terms[kept] / scale)


def _check_noise(noise: Any, rho: FloatArray | None, model: ClickPredictor | None) -> tuple[float, float] | None:
    if noise is None:
        return None
    expected = "expected a pair (e0, e1), P(click | examined) of irrelevant and of relevant documents, e0 < e1"
    if isinstance(noise, str) or not hasattr(noise, "__len__") or len(noise) != 2:
        raise CounterrankError(f"noise={brief(noise)}: {expected}")
    e0, e1 = (float(e) for e in check_vector(noise, 2, "noise", "chances"))
    if not 0.0 <= e0 < e1 <= 1.0:
        raise CounterrankError(f"noise={brief(noise)}: {expected}, both from 0 to 1")
    if rho is None and model is None:
        raise CounterrankError(
            "noise: requires rho, since logged propensities do not say which documents that were never shown could "
            "have been; pass rho=policy.propensity(scores, offsets, exam)"
        )
    return e0, e1


class Variance(NamedTuple):
    """The variance of a sum for each column, and its degrees of freedom as far as numbers of sessions limit them."""

    values: FloatArray
    degrees_of_freedom: FloatArray


def click_variance(weighted: WeightedClicks, values: FloatArray, centres: FloatArray) -> Variance:
    """The variance of the sum over all sessions of Y = sum over the page of residual * (value - centre) / rho.

    A residual is the click, less its prediction for "dr". The variance is the sum over queries of n times the sample
    variance of Y over the n sessions of the query. Where pages were kept, Y is that of the whole page; else the ranks
    of a page are taken as independent. Queries with a single session have no variance of their own and are taken
    together as if they were one query: what lies between them counts too, so that it is too large rather than too small
    (collapsed strata; Cochran, Sampling Techniques, 5A.12).
    """
    if weighted.pages is not None:
        return _page_variance(weighted, values, centres)
    variances = np.zeros((len(weighted.sessions), len(centres)))
    given = weighted.offsets, weighted.cells, weighted.sessions, values, centres, variances
    for_queries(_click_kernels.session_variances, *given, threads=weighted.threads)
    total = variances.sum(axis=0) + _single_sessions(weighted, values, centres)
    return Variance(np.maximum(total, 0.0), np.full(len(centres), np.inf))  # a variance of 0 may round to less


def _page_variance(weighted: WeightedClicks, values: FloatArray, centres: FloatArray) -> Variance:
    """Degrees of freedom by Welch and Satterthwaite: variance^2 / sum over queries of own variance^2 / (n - 1)."""
    moments = np.empty((len(weighted.sessions), len(centres), 2))
    given = weighted.offsets, weighted.pages, values, centres, moments
    for_queries(_click_kernels.page_moments, *given, threads=weighted.threads)
    several, single = weighted.sessions > 1, weighted.sessions == 1
    together = moments[single].sum(axis=0)[None]
    n = np.append(weighted.sessions[several], np.count_nonzero(single))[:, None]
    moments = np.concatenate([moments[several], together])
    squares, sums = moments[..., 0], moments[..., 1]
    # n times the sample variance of the n sessions; of a single one its square
    scaled = np.maximum(squares - sums**2 / np.maximum(n, 1), 0.0) * n / np.maximum(n - 1, 1)
    own = np.where(n > 1, scaled, squares)
    total, squares = own.sum(axis=0), (own**2 / np.maximum(n - 1, 1)).sum(axis=0)
    return Variance(total, np.divide(total**2, squares, out=np.full(len(total), np.inf), where=squares > 0.0))


def _single_sessions(weighted: WeightedClicks, values: FloatArray, centres: FloatArray) -> FloatArray:
    """The variance of queries with one session each, by rank over all of them."""
    cells = weighted.cells
    owner = np.repeat(np.arange(len(weighted.sessions)), np.diff(cells.bounds))
    chosen = np.flatnonzero(weighted.sessions[owner] == 1)
    n = int(np.count_nonzero(weighted.sessions == 1))
    terms = (values[cells.docs[chosen]] - centres) * cells.inverse[chosen, None]
    terms *= cells.sums[chosen, None]  # shown once each
    squares: FloatArray = (terms**2).sum(axis=0)
    if n < 2 or not len(chosen):
        return squares
    by_rank = np.stack([np.bincount(cells.ranks[chosen], weights=column) for column in terms.T])
    return np.asarray(np.maximum(squares - (by_rank**2).sum(axis=1) / n, 0.0) * n / (n - 1))


def worst_factor(weighted: WeightedClicks, values: FloatArray, centres: FloatArray) -> FloatArray:
    """How many times too narrow intervals may be, at worst, since the ranks of a page were taken as independent.

    The ranks of a page may be correlated through the documents it holds, so of the variance of each rank only the part
    between documents can matter. At worst these parts are perfectly correlated. 1 where pages were kept, or at most one
    rank of each query varies.
    """
    if weighted.pages is not None:
        return np.ones(len(centres))
    more = np.zeros((len(weighted.sessions), len(centres)))
    given = weighted.offsets, weighted.cells, weighted.sessions, values, centres, more
    for_queries(_click_kernels.correlated_ranks, *given, threads=weighted.threads)
    total = click_variance(weighted, values, centres).values
    return np.asarray(np.sqrt(1.0 + np.divide(more.sum(axis=0), total, out=np.zeros(len(centres)), where=total > 0.0)))

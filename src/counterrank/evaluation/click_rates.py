"""Click rates of documents without position bias: clicks divided by expected examinations.

`click_rates` requires neither features nor propensities.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.clicks.contexts import EstimatedByContext
from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import CurvesByContext, Examination, lines_of
from counterrank.clicks.exposure import examined_times
from counterrank.clicks.position_bias import EstimatedExamination, connected_ranks
from counterrank.clicks.user_estimation import estimate as estimate_examination
from counterrank.clicks.user_models import users_of
from counterrank.common.checks import FloatArray, IntArray, check_choice, check_confidence, check_whole
from counterrank.common.errors import CounterrankError, ExaminationWarning
from counterrank.common.files import PathLike
from counterrank.common.notebook import Shown, Summary, text_of
from counterrank.common.numerics import clopper_pearson
from counterrank.data.scores import file_format, write_run
from counterrank.estimators.model_assisted import check_strength, strength_and_likelihood
from counterrank.estimators.propensities import refuse_unseen
from counterrank.estimators.relevance import Examinations
from counterrank.estimators.users_from_log import FoundUsers
from counterrank.evaluation.evaluation_cards import rates_card, rates_plot

PRIORS = ("query", "overall")
COLUMNS = (
    "query_id", "doc_id", "impressions", "clicks", "examinations", "raw_rate", "rate", "rate_low", "rate_high",
    "shrunk_rate",
)  # fmt: skip
_SOURCES = {
    "given": "as given",
    "simulation": "that of the simulation",
    "estimated": "estimated from these clicks by all pairs",
    "one rank": "1: the log shows rank 1 alone",
}
_QUERY_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, inf)
_ROUNDS = 3  # of the strengths, each with the weights that follow from the last
_FIRST_STRENGTH = 10.0
_MOST_FITTED = 200_000  # documents from which the strengths are estimated
_CONTRADICTED = 0.01  # share of right curves that the warning about the curve accuses


@dataclass(frozen=True, eq=False)
class ClickRates(Shown):
    """The debiased click rate of each (query, document) that was shown; made by `click_rates`.

    Attributes:
        query_ids: the query of each row; rows are in the order of queries.
        doc_ids: its document.
        impressions: how often it was shown.
        clicks: how often it was clicked.
        examinations: its expected examinations, the sum of P(examined | rank) over impressions; under trust bias of
            alpha.
        raw_rate: clicks / impressions.
        rate: the debiased rate, the most likely P(click | examined), from 0 to 1; nan where nothing was examined.
        rate_low: the lower end of the confidence interval of `rate`, which lies within it.
        rate_high: its upper end.
        shrunk_rate: the estimate shrunk towards `prior_rate`, from 0 to 1. The interval is not that of this one: where
            impressions are few, it may lie outside.
        unclipped_rate: `rate` before it is clipped to 0 and 1: unbiased, so that with few impressions it may be above
            1; for means over documents.
        prior_rate: what a document of this query is expected to have by the other documents.
        strength: how many examinations the prior counts for.
        query_strength: how many well-known documents the overall rate counts for in the prior of a query; infinity
            where queries do not differ, or `prior="overall"`.
        confidence: the confidence level of each interval.
        examination: the curve that was used; alpha under trust bias.
        beta: P(click) of an irrelevant document by rank, under trust bias.
        curve_source: "given", "simulation", "estimated" or "one rank".
        estimated: the estimated curve with its confidence intervals, where that was used.
        n_unshown: candidates that were never shown, which have no row.
    """

    query_ids: NDArray[Any]
    doc_ids: NDArray[Any]
    impressions: IntArray
    clicks: IntArray
    examinations: FloatArray
    raw_rate: FloatArray
    rate: FloatArray
    rate_low: FloatArray
    rate_high: FloatArray
    shrunk_rate: FloatArray
    unclipped_rate: FloatArray
    prior_rate: FloatArray
    strength: float
    query_strength: float
    confidence: float
    examination: Examination
    beta: Examination | None
    curve_source: str
    estimated: EstimatedExamination | EstimatedByContext | None
    n_unshown: int

    def __len__(self) -> int:
        return len(self.rate)

    def to_arrow(self) -> Any:
        """An Arrow table with a row for each document; the columns are those of `COLUMNS`, unknown rates are null."""
        import pyarrow as pa

        names = {"query_id": "query_ids", "doc_id": "doc_ids"}
        columns = {name: getattr(self, names.get(name, name)) for name in COLUMNS}
        return pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})

    def save(self, path: PathLike) -> None:
        """Write the table to Parquet (.parquet, .pq) or CSV (.csv, .tsv, also .gz); the write is atomic."""
        check_rates_file(path)
        write_run(self.to_arrow(), path)

    def top(self, queries: int = 5, documents: int = 3) -> list[dict[str, Any]]:
        """Rows of the documents with the largest shrunk rate, for the queries with the most impressions.

        Arguments:
            queries: the number of queries.
            documents: the number of documents of each.
        """
        n, m = check_whole(queries, "queries"), check_whole(documents, "documents")
        begins = np.flatnonzero(_is_new(self.query_ids))
        ends = np.append(begins[1:], len(self))
        shown = np.add.reduceat(self.impressions, begins) if len(begins) else np.zeros(0, np.int64)
        rows: list[dict[str, Any]] = []
        for query in np.argsort(-shown, kind="stable")[:n]:
            own = np.arange(begins[query], ends[query])
            rows += [self._row(i) for i in own[np.argsort(-self.shrunk_rate[own], kind="stable")[:m]]]
        return rows

    def _row(self, i: int) -> dict[str, Any]:
        values = (self.query_ids[i], self.doc_ids[i], *(getattr(self, name)[i] for name in COLUMNS[2:]))
        plain = [value.item() if isinstance(value, np.generic) else value for value in values]
        return {name: None if value != value else value for name, value in zip(COLUMNS, plain, strict=True)}

    @property
    def n_queries(self) -> int:
        """The number of queries with rows."""
        return int(_is_new(self.query_ids).sum())

    @property
    def n_clipped(self) -> int:
        """The number of debiased rates above 1, or below 0 under trust bias, before clipping."""
        return int(((self.unclipped_rate > 1.0) | (self.unclipped_rate < 0.0)).sum())

    def summary(self) -> Summary:
        """Counts, curve and prior, as a dict that prints as a table."""
        depth = self.examination.k or (None if self.estimated is None else len(self.estimated.values))
        return Summary(
            documents=len(self),
            queries=self.n_queries,
            impressions=int(self.impressions.sum()),
            clicks=int(self.clicks.sum()),
            examinations=float(self.examinations.sum()),
            candidates_never_shown=self.n_unshown,
            rates_clipped=self.n_clipped,
            never_examined=int(np.isnan(self.rate).sum()),
            confidence=self.confidence,
            prior_strength=self.strength,
            query_strength=None if self.query_strength == inf else self.query_strength,
            examination_source=self.curve_source,
            examination=_values(self.examination, depth),
            beta=None if self.beta is None else _values(self.beta, self.beta.k),
        )

    def plot(self, queries: int = 5, documents: int = 3) -> Any:
        """Debiased rates with their confidence intervals, and shrunk rates, of the rows of `top`; an altair chart."""
        return rates_plot(self, self.top(queries, documents))

    @property
    def about_curve(self) -> str:
        """A description of where the examination curve comes from."""
        return _SOURCES[self.curve_source]

    @property
    def about_prior(self) -> str:
        """A description of the prior that rates are shrunk towards."""
        towards = "the overall rate" if self.query_strength == inf else "the rate of the query"
        return f"towards {towards} with the weight of {text_of(float(f'{self.strength:.3g}'))} examinations"

    def __repr__(self) -> str:
        return (
            f"ClickRates({len(self):,} documents of {self.n_queries:,} queries, {self.clicks.sum():,} "
            f"clicks of {self.impressions.sum():,} impressions, examination {self.about_curve})"
        )

    def _repr_html_(self) -> str:
        return rates_card(self, self.top())


def _is_new(ids: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each entry differs from the one before."""
    found = np.ones(len(ids), np.bool_)
    found[1:] = ids[1:] != ids[:-1]
    return found


def check_rates_file(path: PathLike) -> None:
    """An error unless the name is one that `ClickRates.save` can write.

    >>> check_rates_file("rates.txt")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: rates.txt: unknown kind of file; expected .parquet, .csv or .tsv
    """
    if file_format(path) not in ("parquet", "csv", "tsv") or str(path).lower().endswith((".parquet.gz", ".pq.gz")):
        raise CounterrankError(f"{path}: unknown kind of file; expected .parquet, .csv or .tsv")


def click_rates(
    clicks: ClickCounts,
    exam: Any = None,
    *,
    alpha: ArrayLike | Examination | None = None,
    beta: ArrayLike | Examination | None = None,
    prior: str = "query",
    strength: float | None = None,
    confidence: float = 0.95,
) -> ClickRates:
    """Debiased click rates of each (query, document): clicks divided by expected examinations.

        E(d)    = sum over ranks of impressions(d, rank) * P(examined | rank)
        rate(d) = clicks(d) / E(d), at most 1                                   the most likely P(click | examined)
        shrunk  = (clicks(d) + m p(d)) / (E(d) + m)

    Under trust bias, P(click | relevance r, rank) = alpha r + beta, E(d) is the sum of impressions times alpha, and the
    sum of impressions times beta is taken off the clicks. With a curve estimated from a log, rates are relative to
    rank 1: P(click at rank 1).

    With few impressions at low ranks clicks(d) / E(d) is often above 1, which is no probability. Rate and interval are
    clipped alike, so that the rate lies within its interval; `unclipped_rate` is unbiased, for means over documents.

    Intervals are those of the rate, not of the shrunk one. The clicks on a document are a sum of n independent
    impressions with the mean probability (rate E + B) / n, B being the clicks that beta brings. The interval of this
    mean is that of Clopper and Pearson (1934) for a binomial, which holds for such a sum too (Hoeffding, On the
    distribution of the number of successes in independent trials, 1956): coverage is at least the confidence level for
    every number of impressions. If the curve was estimated, the lower end takes examinations from the upper ends of its
    confidence intervals, and the upper end from the lower ones.

    Shrinkage is empirical Bayes, clicks(d) ~ Binomial(n, E / n * r), r ~ Beta(m p, m (1 - p)), see
    `estimators.best_strength`. The prior mean p(d) is the rate of the other documents of its query, itself shrunk
    towards the overall rate,

        p(d) = (sum of clicks / (E + m) + k p0) / (sum of E / (E + m) + k)      sums over the others of the query

    and m and k maximise the likelihood of the clicks of all documents. Documents with far more than m examinations
    keep their own rate.

    Arguments:
        clicks: of any log, counted with or without ranking data; all its policies count together.
        exam: P(examined | rank), as a curve, a list, or a result of `examination.estimate`; or a user model with trust
            bias. None for that of the simulation, or else for the one estimated from these clicks, which is an error
            where documents do not connect all ranks.
        alpha, beta: instead of `exam`, by rank, under trust bias; mapped to the canonical gauge, see
            `examination.Affine`.
        prior: "query" to shrink towards the rate of the query, "overall" towards that of all documents.
        strength: m, in examinations; None for the most likely one.
        confidence: the confidence level of each interval.

    Returns:
        a row for each document that was shown. An `ExaminationWarning` says where clicks contradict the curve.

    >>> docs, ranks, shown, clicked = np.array([[0, 0, 1], [1, 2, 2], [60, 40, 100], [30, 8, 20]])
    >>> ids = {"query_ids": np.array(["lamp"]), "doc_ids": np.array(["red", "blue"])}
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([100]), docs, ranks, shown, clicked, **ids)
    >>> found = click_rates(clicks, exam=[1.0, 0.4])
    >>> found.examinations.tolist(), found.rate.tolist()  # 38 / (60 + 0.4 * 40), 20 / 40
    ([76.0, 40.0], [0.5, 0.5])
    >>> found.raw_rate.tolist()
    [0.38, 0.2]
    >>> found.rate_low.round(2).tolist(), found.rate_high.round(2).tolist()
    ([0.37, 0.32], [0.63, 0.73])
    """
    counts, level = check_counts(clicks), check_confidence(confidence)
    check_choice(prior, PRIORS, "prior")
    wanted = None if strength is None else check_strength(strength)
    if counts.query_ids is None or counts.doc_ids is None:
        raise CounterrankError(
            "clicks: hold no ids of queries and documents (counted by an earlier version); count the log again"
        )
    if not counts.n_impressions:
        raise CounterrankError("clicks: nothing was shown; expected a log with pages")
    curves = _curves(counts, exam, alpha, beta)
    refuse_unseen(curves.gain, curves.base, counts)
    rows = np.flatnonzero(counts.by_document(counts.impressions) > 0.0)
    seen = _counted(counts, curves, rows)
    queries = np.searchsorted(counts.offsets, rows, side="right") - 1
    low, high = (np.clip(end, 0.0, 1.0) for end in _ends(seen, (1.0 - level) / 2.0))
    _warn_if_contradicted(seen, counts, rows, queries)
    with np.errstate(invalid="ignore", divide="ignore"):
        unclipped = np.where(seen.times > 0.0, seen.net / seen.times, np.nan)
    fitted = _fit_prior(seen, queries, prior, wanted)
    means = _prior_means(seen, queries, fitted.strength, fitted.query_strength)
    below = seen.times + fitted.strength
    shrunk = np.where(below > 0.0, (seen.net + fitted.strength * means) / np.where(below > 0.0, below, 1.0), means)
    return ClickRates(
        query_ids=counts.query_ids[queries],
        doc_ids=counts.doc_ids[rows],
        impressions=seen.shown.astype(np.int64),
        clicks=seen.clicks.astype(np.int64),
        examinations=seen.times,
        raw_rate=seen.clicks / seen.shown,
        rate=np.clip(unclipped, 0.0, 1.0),
        rate_low=low,
        rate_high=high,
        shrunk_rate=np.clip(shrunk, 0.0, 1.0),
        unclipped_rate=unclipped,
        prior_rate=means,
        strength=fitted.strength,
        query_strength=fitted.query_strength,
        confidence=level,
        examination=curves.gain,
        beta=curves.base,
        curve_source=curves.source,
        estimated=curves.estimated,
        n_unshown=counts.n_docs - len(rows) if counts.knows_candidates else 0,
    )


def _values(curve: Examination, depth: int | None) -> Any:
    """The values of a curve by rank; of each context, where there are several."""
    if isinstance(curve, CurvesByContext):
        return {name: None if each is None else _values(each, depth) for name, each in curve.curves.items()}
    return str(curve) if depth is None else curve.curve(depth).tolist()


class _Curves(NamedTuple):
    gain: Examination
    base: Examination | None
    source: str
    estimated: EstimatedExamination | EstimatedByContext | None = None


def _curves(clicks: ClickCounts, exam: Any, alpha: Any, beta: Any) -> _Curves:
    """The curve to divide by, from where it is known."""
    if (alpha is None) != (beta is None):
        raise CounterrankError("alpha, beta: one without the other; expected both, one value for each rank")
    if alpha is not None and exam is not None:
        raise CounterrankError("exam: given together with alpha and beta; expected either")
    if alpha is not None:
        return _Curves(*lines_of(users_of(alpha, beta)), "given")
    if isinstance(exam, FoundUsers):
        exam = exam.users
    if exam is not None:
        estimates = EstimatedExamination | EstimatedByContext
        return _Curves(*lines_of(exam), "given", exam if isinstance(exam, estimates) else None)
    if clicks.examination is not None:
        return _Curves(clicks.examination, None, "simulation")
    if int(clicks.ranks[clicks.impressions > 0].max()) == 1:
        return _Curves(Examination([1.0]), None, "one rank")
    groups = connected_ranks(clicks)
    if len(groups) > 1 and not clicks.contexts:
        raise CounterrankError(
            f"exam: not given, and cannot be estimated from this log: ranks fall into {len(groups)} groups that no "
            "clicked document connects; expected a curve from elsewhere (inverse rank, values by rank, or estimated "
            "from a log in which documents move between ranks)"
        )
    try:
        found = estimate_examination(clicks)
    except CounterrankError as error:
        raise CounterrankError(
            f"exam: not given, and cannot be estimated from this log ({error}); expected a curve from elsewhere"
        ) from None
    return _Curves(found.examination, None, "estimated", found)


class _Counted(NamedTuple):
    """One number of each kind for each document that was shown."""

    shown: FloatArray
    clicks: FloatArray
    times: FloatArray  # expected examinations
    least: FloatArray  # by the lower ends of an estimated curve
    most: FloatArray  # by its upper ends
    base: FloatArray  # clicks that beta brings

    @property
    def net(self) -> FloatArray:
        """The clicks less those that beta brings."""
        return np.asarray(self.clicks - self.base)


def _counted(clicks: ClickCounts, curves: _Curves, rows: IntArray) -> _Counted:
    times = examined_times(curves.gain, clicks)[rows]
    least = most = times
    if curves.estimated is not None:
        least, most = (
            np.zeros(len(rows)) if end is None else examined_times(end, clicks)[rows] for end in curves.estimated.ends()
        )
    base = np.zeros(len(rows)) if curves.base is None else examined_times(curves.base, clicks)[rows]
    shown, total = (clicks.by_document(column)[rows] for column in (clicks.impressions, clicks.clicks))
    return _Counted(shown, total, times, least, most, base)


def _ends(seen: _Counted, tail: float) -> tuple[FloatArray, FloatArray]:
    """Where the rate may lie, also outside 0 and 1; everywhere without examinations."""
    low, high = clopper_pearson(seen.clicks, seen.shown, tail)
    first, last = low * seen.shown - seen.base, high * seen.shown - seen.base
    below, above = np.full(len(low), -inf), np.full(len(low), inf)
    np.divide(first, np.where(first < 0.0, seen.least, seen.most), out=below, where=seen.least > 0.0)
    np.divide(last, np.where(last < 0.0, seen.most, seen.least), out=above, where=seen.least > 0.0)
    return below, above


def _warn_if_contradicted(seen: _Counted, clicks: ClickCounts, rows: IntArray, queries: IntArray) -> None:
    """Warn of documents whose clicks the curve cannot explain, by intervals that hold for all documents together."""
    low, high = _ends(seen, _CONTRADICTED / (2.0 * len(rows)))
    wrong = (low > 1.0 + 1e-9) | (high < -1e-9)
    if not wrong.any():
        return
    assert clicks.query_ids is not None
    assert clicks.doc_ids is not None
    first = int(np.argmax(np.where(wrong, np.maximum(low, -high), -inf)))
    warnings.warn(
        f"exam: {np.count_nonzero(wrong):,} of {len(rows):,} documents have more clicks than the curve allows or fewer "
        f"than beta brings, such as document {clicks.doc_ids[rows[first]]} of query "
        f"{clicks.query_ids[queries[first]]}: {seen.clicks[first]:,.0f} clicks of {seen.shown[first]:,.0f} "
        f"impressions that count for {seen.times[first]:,.1f} examinations; rates of such documents are wrong",
        ExaminationWarning,
        stacklevel=3,
    )


class _Prior(NamedTuple):
    strength: float
    query_strength: float
    likelihood: float = -inf


def _fit_prior(seen: _Counted, queries: IntArray, prior: str, strength: float | None) -> _Prior:
    """The strengths under which the clicks are most likely, each document predicted from the others."""
    used = np.flatnonzero(seen.times > 0.0)
    if len(used) > _MOST_FITTED:
        _, place = np.unique(queries[used], return_inverse=True)
        used = used[place % -(-len(used) // _MOST_FITTED) == 0]  # whole queries
    part, own = _Counted(*(column[used] for column in seen)), queries[used]
    zero = np.zeros(len(used))
    trials = Examinations(zero, part.net, zero, part.times, part.shown, zero)
    found = _Prior(_FIRST_STRENGTH if strength is None else strength, inf)
    for _ in range(_ROUNDS):
        tried = []
        for query_strength in _QUERY_STRENGTHS if prior == "query" else (inf,):
            means = _prior_means(part, own, found.strength, query_strength)
            best, likelihood = strength_and_likelihood(trials, means, strength)
            tried.append(_Prior(best, query_strength, likelihood))
        found = max(tried, key=lambda each: (each.likelihood, each.query_strength))
    return found


def _prior_means(seen: _Counted, queries: IntArray, strength: float, query_strength: float) -> FloatArray:
    """The rate expected of each document by the others: of its query, shrunk towards all; see `click_rates`."""
    below = np.maximum(seen.times + strength, 1e-12)
    clicks, times = seen.net / below, seen.times / below

    def rest(values: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(values.sum() - values, 0.0))

    others = rest(times)
    means = np.full(len(times), clicks.sum() / max(times.sum(), 1e-12))  # of a single document, its own
    np.divide(clicks.sum() - clicks, others, out=means, where=others > 1e-9)
    means = np.clip(means, 0.0, 1.0)
    if query_strength < inf:
        _, group = np.unique(queries, return_inverse=True)
        above, weight = (np.bincount(group, values)[group] - values for values in (clicks, times))
        means = (above + query_strength * means) / (np.maximum(weight, 0.0) + query_strength)
    return np.asarray(np.clip(means, 0.0, 1.0))

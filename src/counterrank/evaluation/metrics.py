"""Metrics of a ranking: the registry of their names, metrics from relevance labels, and those of weighted documents.

`rank_values` gives lambda, the value of a rank, which losses, estimates from clicks and the metric that training
monitors share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.checks import FloatArray, check_choice, check_offsets, check_vector, check_whole
from counterrank.common.errors import CounterrankError, brief
from counterrank.common.parallel import for_queries
from counterrank.data import RankingData
from counterrank.data.labels import check_gain_labels, check_labels, check_threshold, relevant_documents
from counterrank.data.scores import document_scores
from counterrank.evaluation import metric_kernels as _kernels
from counterrank.evaluation.metric_kernels import weighted_queries
from counterrank.losses import dcg_discounts

_GAINS = 2.0 ** np.arange(16) - 1.0  # of the whole labels that occur in practice


@dataclass(frozen=True)
class MetricKind:
    """A metric without its cutoff.

    Attributes:
        name: what stands before the "@".
        cutoff: whether the name carries one: "never", "optional" or "always".
        description: its definition, for the table in docs/reference/metrics.md.
        values: lambda, the value of a relevant document at each of the ranks 1 to n, without the cutoff; None where
            documents have no value of their own, so that the metric cannot be estimated from clicks.
        higher_is_better: whether a larger value is a better ranking.
    """

    name: str
    cutoff: str
    description: str
    values: Callable[[FloatArray, int | None], FloatArray] | None = None
    higher_is_better: bool = True

    @property
    def names(self) -> list[str]:
        """The forms that its name can take."""
        return [self.name] * (self.cutoff != "always") + [f"{self.name}@k"] * (self.cutoff != "never")


METRICS = {
    kind.name: kind
    for kind in (
        MetricKind("arp", "never", "mean rank of the relevant documents, pooled over queries (eq:ARP)",
                   lambda ranks, k: ranks, higher_is_better=False),
        MetricKind("dcg", "optional", "sum of D(rank) = 1 / log2(1 + rank) of the relevant documents (eq:DCG, negated)",
                   lambda ranks, k: dcg_discounts(ranks)),
        MetricKind("ndcg", "optional", "dcg / dcg of a perfect ranking"),
        MetricKind("precision", "always", "relevant documents up to rank k / k, also in shorter queries",
                   lambda ranks, k: np.full(len(ranks), 1.0 / (k or 1))),
        MetricKind("recall", "always", "relevant documents up to rank k / relevant documents"),
        MetricKind("mrr", "never", "1 / rank of the first relevant document"),
        MetricKind("map", "never", "mean over the relevant documents of the precision at their rank"),
        MetricKind("ndcg_graded", "optional", "ndcg with the gain 2**label - 1 in place of relevance"),
    )
}  # fmt: skip
"""The metrics by name, without their cutoff."""


def metric_table() -> list[str]:
    """The registered metrics as lines of a Markdown table, as docs/reference/metrics.md shows it.

    >>> metric_table()[2]
    '| `arp` | mean rank of the relevant documents, pooled over queries (eq:ARP) | lower | yes |'
    """
    lines = ["| metric | definition | better | from clicks |", "|---|---|---|---|"]
    for kind in METRICS.values():
        names = ", ".join(f"`{name}`" for name in kind.names)
        better, estimable = "higher" if kind.higher_is_better else "lower", "yes" if kind.values else "no"
        lines.append(f"| {names} | {kind.description} | {better} | {estimable} |")
    return lines


def parse_metric(name: str) -> tuple[str, int | None]:
    """The kind of a metric and its cutoff.

    >>> parse_metric("dcg@5"), parse_metric("mrr")
    (('dcg', 5), ('mrr', None))
    >>> parse_metric("precision")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: metric 'precision': expected a cutoff, such as 'precision@5'
    """
    kind, at, digits = name.partition("@") if isinstance(name, str) else ("", "", "")
    if kind not in METRICS:
        forms = ", ".join(form for each in METRICS.values() for form in each.names)
        raise CounterrankError(f"metric {brief(name)}: unknown; expected one of {forms}")
    if not at and METRICS[kind].cutoff == "always":
        raise CounterrankError(f"metric {brief(name)}: expected a cutoff, such as '{kind}@5'")
    if at and METRICS[kind].cutoff == "never":
        raise CounterrankError(f"metric {brief(name)}: {kind} has no cutoff; expected {brief(kind)}")
    if at and not (digits.isascii() and digits.isdigit() and int(digits) >= 1):
        raise CounterrankError(f"metric {brief(name)}: expected a whole number of at least 1 after '@'")
    return kind, int(digits) if at else None


def higher_is_better(metric: str) -> bool:
    """Whether a larger value is a better ranking: true for all metrics but `arp`.

    >>> higher_is_better("dcg@5"), higher_is_better("arp")
    (True, False)
    """
    return METRICS[parse_metric(metric)[0]].higher_is_better


def metric_names(metrics: Sequence[str] | None, ks: Any) -> list[str]:
    """The metrics that are named, each once; all of them, with the cutoffs `ks`, if none are named.

    >>> metric_names(None, [5])
    ['arp', 'dcg', 'dcg@5', 'ndcg', 'ndcg@5', 'precision@5', 'recall@5', 'mrr', 'map', 'ndcg_graded@5']
    """
    if metrics is not None:
        if isinstance(metrics, str) or not len(metrics):
            raise CounterrankError(f"metrics={brief(metrics)}: expected a list of names, such as ['dcg@5', 'mrr']")
        for name in metrics:
            parse_metric(name)
        return list(dict.fromkeys(metrics))
    if isinstance(ks, str) or not isinstance(ks, Iterable):
        raise CounterrankError(f"ks={brief(ks)}: expected a list of cutoffs, such as (1, 3, 5, 10)")
    cutoffs = sorted({check_whole(k, "ks") for k in ks})
    names = []
    for kind in METRICS.values():
        names += [kind.name] * (kind.cutoff != "always" and kind.name != "ndcg_graded")
        names += [f"{kind.name}@{k}" for k in cutoffs if kind.cutoff != "never"]
    return names


def rank_values(metric: str, n_max: int) -> FloatArray:
    """The value lambda of a relevant document at each of the ranks 1 to `n_max`, with its natural sign.

        arp:          rank                                      (eq:ARP)
        dcg:          D(rank) = 1 / log2(1 + rank)              (eq:DCG without its minus: higher is better)
        dcg@k:        D(rank) if rank <= k else 0
        precision@k:  1 / k   if rank <= k else 0

    Other metrics do not give each relevant document a value of its own, and are an error.

    >>> rank_values("dcg@2", 4).round(4).tolist()
    [1.0, 0.6309, 0.0, 0.0]
    >>> rank_values("arp", 4).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    kind, k = parse_metric(metric)
    function = METRICS[kind].values
    if function is None:
        raise CounterrankError(
            f"metric {brief(metric)}: needs to know all relevant documents, weights are not enough; "
            f"expected {', '.join(name for each in METRICS.values() if each.values for name in each.names)}"
        )
    values = function(np.arange(1.0, n_max + 1.0), k)
    if k is not None:
        values[k:] = 0.0
    return values


def weighted_metric(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, metric: str, *, threads: int | None = None
) -> float:
    """The metric of a ranking, with weighted documents.

        sum over documents of omega * lambda(rank)  /  sum of |omega|

    lambda is the rank for "arp" (eq:ARP) and D(rank) for "dcg" (eq:DCG without its minus sign), see
    `rank_values`. Documents with equal scores get the mean of lambda over their ranks.

    Arguments:
        scores: one per document; a higher score ranks first.
        weights: one per document; negative ones are legal, but not all may be 0.
        offsets: where the documents of each query begin, and their number at the end.
        metric: "arp", "dcg", "dcg@k" or "precision@k".
        threads: how many to use; the result is the same for any number.

    >>> weighted_metric([3.0, 2.0, 1.0], [0, 2, 1], offsets=[0, 3], metric="arp")  # (2 * 2 + 1 * 3) / 3
    2.3333333333333335
    >>> weighted_metric([1.0, 1.0, 1.0], [0, 2, 1], offsets=[0, 3], metric="arp")  # tied: mean rank 2
    2.0
    """
    given = check_vector(scores, None, "scores")
    omega = check_vector(weights, len(given), "weights")
    bounds = check_offsets(offsets, len(given))
    values = rank_values(metric, int(np.diff(bounds).max()))
    total = float(np.abs(omega).sum())
    if total == 0.0:
        raise CounterrankError("weights: all are 0; expected at least one other")
    sums = np.empty(len(bounds) - 1)
    for_queries(weighted_queries, bounds, given, omega, prefix_sums(values), sums, threads=threads)
    return float(sums.sum()) / total


def prefix_sums(values: FloatArray) -> FloatArray:
    """Sums over the first 0, 1, 2, ... ranks; documents tied on the ranks a+1 to b share sums[b] - sums[a].

    >>> prefix_sums(np.array([1.0, 2.0, 3.0])).tolist()
    [0.0, 1.0, 3.0, 6.0]
    """
    sums = np.zeros(len(values) + 1)
    np.cumsum(values, out=sums[1:])
    return sums


def evaluate(
    scores: Any,
    data: RankingData,
    relevance_threshold: float = 3,
    *,
    metrics: Sequence[str] | None = None,
    ks: Sequence[int] = (1, 3, 5, 10),
    ties: str = "average",
    query_weights: ArrayLike | None = None,
    empty: str = "skip",
    threads: int | None = None,
) -> dict[str, float]:
    """Compute metrics of a ranking from labels; a document is relevant if its label is at least the threshold.

        arp             mean rank of the relevant documents, pooled over queries; lower is better (eq:ARP)
        dcg, dcg@k      sum of D(rank) = 1 / log2(1 + rank) of the relevant documents, up to rank k
                        (eq:DCG without its minus sign)
        ndcg, ndcg@k    dcg / dcg of a perfect ranking
        precision@k     relevant documents up to rank k / k, also in shorter queries
        recall@k        relevant documents up to rank k / relevant documents
        mrr             1 / rank of the first relevant document
        map             mean over the relevant documents of the precision at their rank
        ndcg_graded@k   ndcg@k with the gain 2**label - 1 in place of relevance; labels below 0 count as 0

    All but arp are averaged over the queries with a relevant document (ndcg_graded: with a label above 0).

    Arguments:
        scores: a ranker, a frame with ids, or one score per document, as `data.document_scores` takes them; a higher
            score ranks first.
        data: ranking data with labels.
        relevance_threshold: the smallest label of a relevant document.
        metrics: names of metrics, such as ["dcg@5", "mrr"]; None for all of them.
        ks: the cutoffs when `metrics` is None.
        ties: "average" for the exact expected value over all orders of documents with equal scores, "order"
            for document order, which often leaks labels.
        query_weights: how much each query counts, 0 or more; in arp so does each of its relevant documents.
        empty: "skip" leaves out queries without a relevant document, "zero" counts them as 0; arp is the same
            either way.
        threads: how many to use; the result is the same for any number.

    >>> data = RankingData([[0.0], [0.0], [0.0]], offsets=[0, 3], labels=[0, 4, 0])
    >>> evaluate([3.0, 2.0, 1.0], data, metrics=["arp", "precision@1", "mrr"])
    {'arp': 2.0, 'precision@1': 0.0, 'mrr': 0.5}
    >>> evaluate([0.0, 0.0, 0.0], data, metrics=["mrr"])  # (1 + 1/2 + 1/3) / 3
    {'mrr': 0.6111111111111112}
    """
    check_choice(empty, ("skip", "zero"), "empty")
    names = metric_names(metrics, ks)
    ranked = _rank(scores, data, relevance_threshold, names, ties, threads)
    weights = _check_query_weights(query_weights, data.n_queries)
    return {name: _mean(ranked, name, weights, empty) for name in names}


def evaluate_queries(
    scores: ArrayLike,
    data: RankingData,
    relevance_threshold: float = 3,
    *,
    metrics: Sequence[str] | None = None,
    ks: Sequence[int] = (1, 3, 5, 10),
    ties: str = "average",
    threads: int | None = None,
) -> dict[str, FloatArray]:
    """The metrics of `evaluate` for each query: float64 (n_queries,), nan where a query does not count.

    For paired comparisons of rankers. The arp of a query is the mean rank of its own relevant documents.

    >>> data = RankingData([[0.0], [0.0], [0.0]], offsets=[0, 2, 3], labels=[0, 4, 0])
    >>> evaluate_queries([2.0, 1.0, 0.0], data, metrics=["mrr"])
    {'mrr': array([0.5, nan])}
    """
    names = metric_names(metrics, ks)
    ranked = _rank(scores, data, relevance_threshold, names, ties, threads)
    return {name: ranked.values(name) for name in names}


def evaluate_groups(
    scores: ArrayLike,
    data: RankingData,
    groups: NDArray[np.integer],
    relevance_threshold: float = 3,
    *,
    metrics: Sequence[str],
    threads: int | None = None,
) -> tuple[dict[str, float], dict[str, FloatArray]]:
    """The metrics of `evaluate`, and each of them by group of queries: contributions whose mean is the metric.

    A metric is a ratio of sums over queries, m = N / D. By linearisation (the delta method), G groups contribute

        m + G (N_g - m D_g) / D

    and the variance of m over samples of queries is that of the mean of these. D counts relevant documents for arp,
    and queries with a relevant document for others.

    Arguments:
        groups: of each query, from 0; queries that do not count may have any.

    >>> data = RankingData([[0.0]] * 4, offsets=[0, 2, 4], labels=[4, 0, 0, 4])
    >>> evaluate_groups([2.0, 1.0, 2.0, 1.0], data, np.array([0, 1]), metrics=["mrr"])
    ({'mrr': 0.75}, {'mrr': array([1. , 0.5])})
    """
    ranked = _rank(scores, data, relevance_threshold, list(metrics), "average", threads)
    whole = {name: _mean(ranked, name, np.ones(data.n_queries), "skip") for name in metrics}
    n = int(groups.max()) + 1
    by_group = {}
    for name, value in whole.items():
        counts = ranked.counts(name).astype(np.float64)
        above, below = ranked.values(name, otherwise=0.0), counts
        if name == "arp":
            above, below = ranked.statistics.rank_sum, ranked.statistics.n_relevant
        rest = np.bincount(groups, above - value * below, minlength=n)
        by_group[name] = value + n * rest / below.sum()
    return whole, by_group


@dataclass(frozen=True)
class _RankedQueries:
    """Statistics of each ranked query; every metric is a ratio of two of them."""

    statistics: _kernels.QueryStatistics
    columns: dict[int | None, int]  # cutoff -> column of hits, dcg and ideal
    gain_columns: dict[int | None, int]  # the same for the graded gains
    ideal: FloatArray  # dcg of a perfect ranking
    has_relevant: NDArray[np.bool_]
    has_gain: NDArray[np.bool_]

    def counts(self, name: str) -> NDArray[np.bool_]:
        """Whether each query counts in this metric."""
        return self.has_gain if parse_metric(name)[0] == "ndcg_graded" else self.has_relevant

    def values(self, name: str, otherwise: float = np.nan) -> FloatArray:
        """The metric of each query; `otherwise` where it does not count."""
        above, below = self._ratio(*parse_metric(name))
        values = np.full(len(above), otherwise)
        np.divide(above, below, out=values, where=self.counts(name))
        return values

    def _ratio(self, kind: str, k: int | None) -> tuple[FloatArray, FloatArray | float]:
        found = self.statistics
        if kind == "arp":
            return found.rank_sum, found.n_relevant
        if kind == "mrr":
            return found.reciprocal_rank, 1.0
        if kind == "map":
            return found.precision_sum, found.n_relevant
        if kind == "ndcg_graded":
            column = self.gain_columns[k]
            return found.gain_dcg[:, column], found.gain_ideal[:, column]
        column = self.columns[k]
        if kind == "dcg":
            return found.dcg[:, column], 1.0
        if kind == "ndcg":
            return found.dcg[:, column], self.ideal[:, column]
        return found.hits[:, column], found.n_relevant if kind == "recall" else float(k or 1)


def _rank(
    scores: ArrayLike,
    data: RankingData,
    relevance_threshold: float,
    names: list[str],
    ties: str,
    threads: int | None,
) -> _RankedQueries:
    """Rank every query once, and take from the ranking what the named metrics need."""
    check_choice(ties, ("average", "order"), "ties")
    labels = check_labels(data)
    given = document_scores(scores, data)
    metrics = [parse_metric(name) for name in names]
    columns, gain_columns = (
        {k: column for column, k in enumerate(dict.fromkeys(k for kind, k in metrics if kind in kinds))}
        for kinds in (("dcg", "ndcg", "precision", "recall"), ("ndcg_graded",))
    )
    if all(kind == "ndcg_graded" for kind, _ in metrics):
        relevant = labels >= check_threshold(relevance_threshold)
    else:
        relevant = relevant_documents(data, relevance_threshold)
    if gain_columns:
        check_gain_labels(data)

    longest = int(data.lengths.max())
    cutoffs, gain_cutoffs = (
        np.array([longest if k is None else min(k, longest) for k in ks], dtype=np.int64)
        for ks in (columns, gain_columns)
    )
    deepest = int(gain_cutoffs.max(initial=0))
    sums = prefix_sums(rank_values("dcg", longest))
    request = _kernels.RankingRequest(ties == "average", cutoffs, gain_cutoffs, deepest, sums, _GAINS)
    widths = (len(cutoffs), len(cutoffs), len(gain_cutoffs), len(gain_cutoffs))
    single = [np.zeros(data.n_queries) for _ in range(4)]
    found = _kernels.QueryStatistics(*single, *(np.zeros((data.n_queries, width)) for width in widths))
    for_queries(_kernels.label_queries, data.offsets, given, relevant, labels, request, found, threads=threads)
    if gain_columns:
        for_queries(_kernels.ideal_queries, data.offsets, labels, request, found, threads=threads)
    best = np.minimum(found.n_relevant[:, None].astype(np.int64), cutoffs)
    has_gain = found.gain_ideal.sum(axis=1) > 0
    return _RankedQueries(found, columns, gain_columns, sums[best], found.n_relevant > 0, has_gain)


def _mean(ranked: _RankedQueries, name: str, weights: FloatArray, empty: str) -> float:
    """The weighted mean over queries; for arp over their relevant documents."""
    counts = ranked.counts(name)
    counted = float((weights * counts).sum())
    if counted == 0.0:
        what = "label above 0" if name.startswith("ndcg_graded") else "relevant document"
        raise CounterrankError(
            f"query_weights: 0 for every query with a {what}, so {name} is not defined; expected one above 0"
        )
    # sums rather than dot products: BLAS would wake its threads for each of these short vectors
    if name == "arp":
        return float((weights * ranked.statistics.rank_sum).sum() / (weights * ranked.statistics.n_relevant).sum())
    total = float(weights.sum()) if empty == "zero" else counted
    return float((weights * ranked.values(name, otherwise=0.0)).sum()) / total


def _check_query_weights(query_weights: ArrayLike | None, n_queries: int) -> FloatArray:
    if query_weights is None:
        return np.ones(n_queries)
    weights = check_vector(query_weights, n_queries, "query_weights", "queries")
    if (weights < 0).any():
        place = int(np.argmax(weights < 0))
        raise CounterrankError(f"query_weights: entry {place} is {weights[place]:g}; expected 0 or more")
    return weights

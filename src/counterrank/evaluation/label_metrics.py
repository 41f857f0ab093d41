"""Metrics of a ranking from relevance labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.checks import FloatArray, check_choice, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import for_queries
from counterrank.data import RankingData
from counterrank.data.ranking_data import check_gain_labels, check_labels, check_threshold, relevant_documents
from counterrank.evaluation import metric_kernels as _kernels
from counterrank.evaluation.metrics import metric_names, parse_metric, prefix_sums, rank_values

_GAINS = 2.0 ** np.arange(16) - 1.0  # of the whole labels that occur in practice


def evaluate(
    scores: ArrayLike,
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
    """Metrics of a ranking from labels; a document is relevant if its label reaches the threshold.

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
        scores: one per document; a higher score ranks first.
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
    given = check_vector(scores, data.n_docs, "scores")
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

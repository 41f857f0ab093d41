"""The registry of metrics, the value they give to each rank, and metrics of weighted documents.

`METRICS` is what names are parsed by; `rank_values` gives lambda, which losses, estimates from clicks and the metric
that training monitors share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, check_offsets, check_vector, check_whole
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import for_queries
from counterrank.evaluation.metric_kernels import weighted_queries as weighted_queries
from counterrank.losses import dcg_discounts


@dataclass(frozen=True)
class MetricKind:
    """A metric without its cutoff.

    Attributes:
        name: what stands before the "@".
        cutoff: whether the name carries one: "never", "optional" or "always".
        description: its definition, for the table in docs/metrics.md.
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


def metric_table() -> list[str]:
    """The registered metrics as lines of a Markdown table, as docs/metrics.md shows it.

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
        raise CounterrankError(f"metric {name!r}: unknown; expected one of {forms}")
    if not at and METRICS[kind].cutoff == "always":
        raise CounterrankError(f"metric {name!r}: expected a cutoff, such as '{kind}@5'")
    if at and METRICS[kind].cutoff == "never":
        raise CounterrankError(f"metric {name!r}: {kind} has no cutoff; expected {kind!r}")
    if at and not (digits.isascii() and digits.isdigit() and int(digits) >= 1):
        raise CounterrankError(f"metric {name!r}: expected a whole number of at least 1 after '@'")
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
            raise CounterrankError(f"metrics={metrics!r}: expected a list of names, such as ['dcg@5', 'mrr']")
        for name in metrics:
            parse_metric(name)
        return list(dict.fromkeys(metrics))
    if isinstance(ks, str) or not isinstance(ks, Iterable):
        raise CounterrankError(f"ks={ks!r}: expected a list of cutoffs, such as (1, 3, 5, 10)")
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
            f"metric {metric!r}: needs to know all relevant documents, weights are not enough; "
            f"expected {', '.join(name for each in METRICS.values() if each.values for name in each.names)}"
        )
    values = function(np.arange(1.0, n_max + 1.0), k)
    if k is not None:
        values[k:] = 0.0
    return values


def weighted_metric(
    scores: ArrayLike, weights: ArrayLike, offsets: ArrayLike, metric: str, *, threads: int | None = None
) -> float:
    """The metric of a ranking, each document counted with its weight.

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

"""What tells one built-in loss from another, as the plain numbers the kernels take, and the table of their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, as_array, check_cutoff
from counterrank.common.errors import CounterrankError
from counterrank.losses._query import ARP, DCG, HINGE, LAMBDALOSS, LAMBDARANK, LOGISTIC

NO_CUTOFF = 2**62
Discounts = ArrayLike | Callable[[FloatArray], ArrayLike]


class LossSpec(NamedTuple):
    """The arguments of `query_loss` that say which loss it is, in its order."""

    kind: int
    alpha: int = ARP
    k: int = NO_CUTOFF
    band: int = NO_CUTOFF
    table: FloatArray = np.zeros(1)


def dcg_discounts(ranks: FloatArray) -> FloatArray:
    """D(n) = 1 / log2(1 + n) (`eq:DCG`).

    >>> dcg_discounts(np.array([1.0, 3.0])).tolist()
    [1.0, 0.5]
    """
    result: FloatArray = 1.0 / np.log2(1.0 + ranks)
    return result


def discount_table(discounts: Discounts, longest: int) -> FloatArray:
    """The discounts of ranks 1 to `longest` + 1; an array's last value goes on beyond its end.

    >>> discount_table([1.0, 0.5], 3).tolist()
    [1.0, 0.5, 0.5, 0.5]
    """
    ranks = np.arange(1.0, longest + 2.0)
    raw = np.atleast_1d(as_array(discounts(ranks) if callable(discounts) else discounts, "discounts"))
    if raw.dtype.kind not in "iufb":
        raise CounterrankError(f"discounts: type {raw.dtype}; expected real numbers by rank, or a function of ranks")
    given = raw.astype(np.float64)
    if given.ndim != 1 or not len(given) or (callable(discounts) and given.shape != ranks.shape):
        raise CounterrankError(
            f"discounts: shape {given.shape}; expected one value for each rank, {len(ranks)} from a function"
        )
    if not np.isfinite(given).all():
        place = int(np.argmin(np.isfinite(given)))
        raise CounterrankError(f"discounts: {given[place]} at rank {place + 1}; expected finite numbers")
    rises = np.flatnonzero(np.diff(given) > 0)
    if len(rises):
        n = int(rises[0])
        raise CounterrankError(
            f"discounts: rise from {given[n]:g} at rank {n + 1} to {given[n + 1]:g} at rank {n + 2}; "
            "expected non-increasing values (for a metric to minimise, negate it)"
        )
    extended: FloatArray = given[np.minimum(np.arange(longest + 1), len(given) - 1)]
    return extended


def cut_discounts(table: FloatArray, k: int | None) -> FloatArray:
    """The same discounts with zeros beyond rank k."""
    if k is None:
        return table
    cut = np.where(np.arange(1, len(table) + 1) <= k, table, 0.0)
    if k < len(table) and cut[k - 1] < 0.0:
        raise CounterrankError(f"k={k}: negative discounts cannot be cut to zero beyond k; expected values >= 0")
    return cut


def lambdaloss_spec(table: FloatArray, truncate: int | None) -> LossSpec:
    """LambdaLoss with the discounts of `table`: the deltas by distance, and how far apart they last."""
    deltas = np.concatenate(([0.0], table[:-1] - table[1:]))  # deltas[d] = D_d - D_(d+1)
    non_zero = np.flatnonzero(deltas)
    band = int(non_zero[-1]) if len(non_zero) else 0
    return LossSpec(LAMBDALOSS, k=truncate or NO_CUTOFF, band=band, table=deltas)


def lambdarank_spec(table: FloatArray, k: int | None) -> LossSpec:
    """LambdaRank with the discounts of `table`, cut at k."""
    return LossSpec(LAMBDARANK, k=k or NO_CUTOFF, table=cut_discounts(table, k))


@dataclass(frozen=True)
class NamedLoss:
    """A loss the library knows by name.

    Attributes:
        name: as on the command line.
        takes_k: whether it has a cutoff.
        build: from the cutoff and the length of the longest query to the kernel's arguments.
        family: the metric it stands for, "arp" or "dcg".
    """

    name: str
    takes_k: bool
    build: Callable[[int | None, int], LossSpec]
    family: str = "dcg"

    def metric(self, k: int | None) -> str:
        """The metric the loss stands for: ARP, DCG@k where there is a k, else DCG."""
        return self.family if k is None or self.family == "arp" else f"{self.family}@{k}"

    def spec(self, k: int | None, longest: int) -> LossSpec:
        """The kernel's arguments, after a check of the cutoff."""
        cutoff = check_cutoff(k)
        if cutoff is not None and not self.takes_k:
            raise CounterrankError(f"k={k}: {self.name} has no cutoff; leave k out")
        return self.build(cutoff, longest)


def _monotonic(kind: int, alpha: int) -> Callable[[int | None, int], LossSpec]:
    return lambda k, longest: LossSpec(kind, alpha, k or NO_CUTOFF)


def _dcg_table(longest: int) -> FloatArray:
    return discount_table(dcg_discounts, longest)


_ALL = (
    NamedLoss("arp-hinge", False, _monotonic(HINGE, ARP), "arp"),
    NamedLoss("arp-logistic", False, _monotonic(LOGISTIC, ARP), "arp"),
    NamedLoss("dcg-hinge", True, _monotonic(HINGE, DCG)),
    NamedLoss("dcg-logistic", True, _monotonic(LOGISTIC, DCG)),
    NamedLoss("lambdaloss-dcg", False, lambda k, n: lambdaloss_spec(_dcg_table(n), None)),
    NamedLoss("lambdaloss-dcg-at-k", True, lambda k, n: lambdaloss_spec(cut_discounts(_dcg_table(n), k), None)),
    NamedLoss("lambdaloss-truncated", True, lambda k, n: lambdaloss_spec(_dcg_table(n), k)),
    NamedLoss("lambdarank", True, lambda k, n: lambdarank_spec(_dcg_table(n), k)),
)
LOSSES = {loss.name: loss for loss in _ALL}


def named_loss(name: str | NamedLoss) -> NamedLoss:
    """The loss of this name; dashes and underscores are alike. A loss given as such is returned as it is.

    >>> named_loss("lambdaloss_truncated").metric(5)
    'dcg@5'
    """
    if isinstance(name, NamedLoss):
        return name
    found = LOSSES.get(name.replace("_", "-")) if isinstance(name, str) else None
    if found is None:
        raise CounterrankError(f"loss={name!r}: expected one of {', '.join(LOSSES)}")
    return found


def make_lambdaloss(name: str, discounts: Discounts, truncate: int | None = None) -> NamedLoss:
    """A LambdaLoss with discounts of your own that `Ranker(loss=...)` takes; say which `metric=` it should watch.

    Arguments as for `losses.lambdaloss`.

    >>> make_lambdaloss("precision-at-3", [1.0, 1.0, 1.0, 0.0]).name
    'precision-at-3'
    """
    cutoff = check_cutoff(truncate, "truncate")
    discount_table(discounts, 1)
    return NamedLoss(name, False, lambda k, n: lambdaloss_spec(discount_table(discounts, n), cutoff))

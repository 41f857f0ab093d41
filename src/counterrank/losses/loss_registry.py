"""The losses by name: what each takes, the metric it stands for, its formula and equation, and how to make it.

Training, the command's choices and the tables of the documentation read this. A new loss is a `NamedLoss` in `_ALL`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, check_cutoff
from counterrank.common.errors import CounterrankError, brief, did_you_mean
from counterrank.common.ranking import longest_query
from counterrank.losses.exposure_limits import ExposureLimit
from counterrank.losses.lambdaloss import (
    Discounts,
    cut_discounts,
    dcg_discounts,
    discount_table,
    lambdaloss_spec,
    lambdarank_spec,
)
from counterrank.losses.loss_kernels import LossSpec, check_inputs, run_second_order
from counterrank.losses.monotonic import ARP, DCG, HINGE, LOGISTIC, monotonic_spec
from counterrank.losses.plackett_luce import check_samples, plackett_luce_spec


@dataclass(frozen=True)
class NamedLoss:
    """An entry of the registry of losses.

    Attributes:
        name: as on the command line.
        takes_k: whether it has a cutoff.
        build: from the cutoff and the length of the longest query to the kernel and its numbers.
        family: the metric it stands for, "arp" or "dcg".
        formula: what it sums, over documents d or over pairs with w_n > w_m.
        equation: the label of its equation in the paper, or a citation.
        hyperparameters: what each of its own is, by name; `Ranker(params=...)` takes them.
        configure: from values of hyperparameters to the loss with them, where it has any.
        limit: the limit on exposure that it is trained with; then it learns from `SafeWeights`.
    """

    name: str
    takes_k: bool
    build: Callable[[int | None, int], LossSpec]
    family: str = "dcg"
    formula: str = ""
    equation: str = ""
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    configure: Callable[..., NamedLoss] | None = None
    limit: ExposureLimit | None = None

    def configured(self, **given: Any) -> NamedLoss:
        """The loss with these hyperparameters; itself without any.

        >>> named_loss("plackett-luce").configured(samples=10).spec(5, 20).parameters.samples
        10
        """
        for name in given:
            if name not in self.hyperparameters:
                known = ", ".join(self.hyperparameters) or "none"
                wrong = did_you_mean(name, self.hyperparameters)
                raise CounterrankError(f"params: {self.name} has no hyperparameter {name!r}{wrong}; expected {known}")
        return self.configure(**given) if given and self.configure is not None else self

    def metric(self, k: int | None) -> str:
        """The metric that the loss bounds: ARP, DCG@k if it has a k, else DCG."""
        return self.family if k is None or self.family == "arp" else f"{self.family}@{k}"

    def spec(self, k: int | None, longest: int) -> LossSpec:
        """The kernel's arguments, after a check of the cutoff."""
        cutoff = check_cutoff(k)
        if cutoff is not None and not self.takes_k:
            raise CounterrankError(f"k={k}: {self.name} has no cutoff; leave k out")
        return self.build(cutoff, longest)


def _plackett_luce(
    samples: int = 100, risk: str = "none", delta: float = 0.05, low: float = 0.5, high: float = 2.0
) -> NamedLoss:
    """The entry of `losses.plackett_luce` with these hyperparameters."""
    count = check_samples(samples)
    return NamedLoss(
        "plackett-luce",
        takes_k=True,
        build=lambda k, longest: plackett_luce_spec(k, longest, count),
        formula="- w_d E[D_(rank of d)], ranks drawn by the softmax of s, D_n = 1 / log2(1 + n) up to k, 0 beyond",
        equation="Oosterhuis, SIGIR 2022 (PL-Rank-3)",
        hyperparameters={
            "samples": "rankings drawn for each query and step, 100",
            "risk": "none; exposure or prpo for a limit on exposure",
            "delta": "of risk=exposure: the error of its bound, 0.05",
            "low": "of risk=prpo: the least ratio of exposures, 0.5",
            "high": "of risk=prpo: the largest one, 2",
        },
        configure=_plackett_luce,
        limit=ExposureLimit.check(risk, delta, low, high),
    )


_LAMBDALOSS = "(D_|n-m| - D_(|n-m|+1)) (w_n - w_m) log2(1 + exp(s_m - s_n))"


def _dcg_table(longest: int) -> FloatArray:
    return discount_table(dcg_discounts, longest)


_ALL = (
    NamedLoss(
        "arp-hinge",
        takes_k=False,
        build=lambda k, longest: monotonic_spec(HINGE, ARP, k),
        family="arp",
        formula="w_d sum over d' of max(1 - (s_d - s_d'), 0)",
        equation="eq:linearupperbound",
    ),
    NamedLoss(
        "arp-logistic",
        takes_k=False,
        build=lambda k, longest: monotonic_spec(LOGISTIC, ARP, k),
        family="arp",
        formula="w_d sum over d' of log2(1 + exp(s_d' - s_d))",
        equation="eq:logupperbound",
    ),
    NamedLoss(
        "dcg-hinge",
        takes_k=True,
        build=lambda k, longest: monotonic_spec(HINGE, DCG, k),
        formula="w_d (-1 / log2(1 + bound_d) + [rank_d > k] / log2(1 + k)), bound of arp-hinge",
        equation="eq:kmonotonic",
    ),
    NamedLoss(
        "dcg-logistic",
        takes_k=True,
        build=lambda k, longest: monotonic_spec(LOGISTIC, DCG, k),
        formula="w_d (-1 / log2(1 + bound_d) + [rank_d > k] / log2(1 + k)), bound of arp-logistic",
        equation="eq:kmonotonic",
    ),
    NamedLoss(
        "lambdaloss-dcg",
        takes_k=False,
        build=lambda k, longest: lambdaloss_spec(_dcg_table(longest), None),
        formula=f"{_LAMBDALOSS}, D_n = 1 / log2(1 + n)",
        equation="eq:embound",
    ),
    NamedLoss(
        "lambdaloss-dcg-at-k",
        takes_k=True,
        build=lambda k, longest: lambdaloss_spec(cut_discounts(_dcg_table(longest), k), None),
        formula=f"{_LAMBDALOSS}, D_n = 1 / log2(1 + n) up to k, 0 beyond",
        equation="eq:embound",
    ),
    NamedLoss(
        "lambdaloss-truncated",
        takes_k=True,
        build=lambda k, longest: lambdaloss_spec(_dcg_table(longest), k),
        formula=f"[n <= k or m <= k] {_LAMBDALOSS}, D_n = 1 / log2(1 + n)",
        equation="eq:truncembound",
    ),
    NamedLoss(
        "lambdarank",
        takes_k=True,
        build=lambda k, longest: lambdarank_spec(_dcg_table(longest), k),
        formula="|D_n - D_m| (w_n - w_m) log2(1 + exp(s_m - s_n)), D_n = 1 / log2(1 + n) up to k, 0 beyond",
        equation="eq:embound",
    ),
    _plackett_luce(),
)
LOSSES: dict[str, NamedLoss] = {}
"""The losses by the name that `Ranker` and `--loss` accept; `register_loss` adds one."""


def register_loss(loss: NamedLoss, replace: bool = False) -> NamedLoss:
    """Add a loss to the registry, so that `Ranker(loss=name)` and `--loss` accept it.

    `replace=True` where it takes the place of another of its name.

    >>> _ = register_loss(make_lambdaloss("lambdaloss-reciprocal", lambda ranks: 1.0 / ranks))
    >>> LOSSES.pop("lambdaloss-reciprocal").takes_k
    False
    """
    if loss.name in LOSSES and not replace:
        raise CounterrankError(f"loss {loss.name!r}: registered already; expected another name, or replace=True")
    LOSSES[loss.name] = loss
    return loss


for _loss in _ALL:
    register_loss(_loss)


def named_loss(name: str | NamedLoss) -> NamedLoss:
    """The loss of this name; dashes and underscores are equivalent. A `NamedLoss` is returned unchanged.

    >>> named_loss("lambdaloss_truncated").metric(5)
    'dcg@5'
    """
    if isinstance(name, NamedLoss):
        return name
    found = LOSSES.get(name.replace("_", "-")) if isinstance(name, str) else None
    if found is None:
        raise CounterrankError(f"loss={brief(name)}: expected one of {', '.join(LOSSES)}")
    return found


def make_lambdaloss(name: str, discounts: Discounts, truncate: int | None = None) -> NamedLoss:
    """A LambdaLoss with your own discounts, for `Ranker(loss=..., metric=...)`.

    Arguments as for `losses.lambdaloss`.

    >>> make_lambdaloss("precision-at-3", [1.0, 1.0, 1.0, 0.0]).name
    'precision-at-3'
    """
    cutoff = check_cutoff(truncate, "truncate")
    discount_table(discounts, 1)
    return NamedLoss(name, False, lambda k, n: lambdaloss_spec(discount_table(discounts, n), cutoff))


def second_order(
    loss: str | NamedLoss,
    scores: ArrayLike,
    weights: ArrayLike,
    offsets: ArrayLike,
    k: int | None = None,
    *,
    threads: int | None = None,
) -> tuple[float, FloatArray, FloatArray]:
    """Value, gradient, and for each document a positive second-order term of a loss, with ranks held fixed.

    Pairs (LambdaLoss, LambdaRank): the second derivative of the loss, which adds to both documents of a pair

        factor_nm |w_n - w_m| log2(e) p (1 - p),    p = 1 / (1 + exp(s_better - s_worse)).

    Logistic bound: the curvature of the bound times |d loss / d bound|, to both documents of each term of the bound

        |w_d alpha'(bound_d)| log2(e) p (1 - p),    p = 1 / (1 + exp(s_d - s_d')).

    For ARP and weights >= 0 that is the second derivative. For DCG -alpha is concave in the bound: its tangent lies
    above it, and the loss with the tangent in its place has this curvature, where the second derivative may be
    negative. The same is done where a weight is negative.

    Hinge: piecewise linear, so its second derivative is 0. Each term with s_d - s_d' < 1 adds to both documents

        |w_d alpha'(bound_d)| / 2.

    A parabola that touches max(1 - z, 0) at z <= 0 with curvature 1/2 lies above it everywhere, and no smaller
    curvature does so at z = 0: minimising it lowers the loss for sure where documents are tied or in the wrong order.

    No term is less than 1/20 of the document's |gradient|, so that no Newton step is longer than 20, even for
    pairs at which the logistic function is flat.

    Arguments:
        loss: a name from `LOSSES`, or a `NamedLoss`.
        scores, weights: one number per document; negative weights are legal.
        offsets: where each query starts and ends.
        k: the loss's cutoff, or None.
        threads: None for all cores.

    Returns the value and the gradient as the loss itself does, and the terms.

    >>> value, gradient, curvature = second_order("lambdarank", [0.0, 0.0], [0.0, 1.0], [0, 2], k=1)
    >>> (curvature / gradient).tolist()  # both have |1 - 0| (1 - 0) log2(e), times p (1 - p) = 1/4 and p = 1/2
    [0.5, -0.5]
    """
    s, w, o = check_inputs(scores, weights, offsets)
    return run_second_order(named_loss(loss).spec(k, longest_query(o)), s, w, o, threads)

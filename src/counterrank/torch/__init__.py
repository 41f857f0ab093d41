"""The losses as differentiable torch functions, for your own training loops. Requires the extra `torch`.

Each loss takes the scores of all documents of a batch of whole queries, their weights, and the query offsets. A
training loop:

>>> import torch
>>> import counterrank as cr
>>> data = cr.make_ranking_data("mslr", n_queries=50, seed=0).normalized()
>>> weights = cr.estimators.full_information(data, relevance_threshold=3)
>>> features, loss = torch.tensor(data.features), cr.torch.loss("lambdaloss-truncated", k=5)
>>> _ = torch.manual_seed(0)
>>> model = torch.nn.Linear(data.n_features, 1)
>>> optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
>>> reached = []
>>> for step in range(10):
...     scores = model(features)
...     optimizer.zero_grad()
...     loss(scores, weights, data.offsets).backward()
...     optimizer.step()
...     reached.append(cr.evaluation.evaluate(scores[:, 0].detach(), data, relevance_threshold=3)["dcg@5"])
>>> reached[-1] > 1.5 * reached[0]
True

`Ranker(model=my_module)` does this with mini-batches, early stopping and storage.

The loss is a node of torch's graph whose gradient the kernels of `counterrank.losses` have computed. Nodes are made
when first needed, so that importing this module does not import torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, check_cutoff
from counterrank.common.errors import CounterrankError, require
from counterrank.common.parallel import thread_count
from counterrank.common.random import derive_key, seed_key
from counterrank.common.ranking import longest_query
from counterrank.losses import NamedLoss, named_loss
from counterrank.losses.loss_kernels import check_inputs, run_loss

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["loss"]


def __dir__() -> list[str]:
    return sorted(__all__)


def loss(
    name: str | NamedLoss,
    k: int | None = None,
    threads: int | None = None,
    *,
    params: Mapping[str, Any] | None = None,
    seed: int | np.random.Generator = 0,
) -> Callable[[Tensor, Tensor | ArrayLike, Tensor | ArrayLike], Tensor]:
    """The loss of this name as a function of torch tensors: f(scores, weights, offsets) -> scalar tensor.

    The value is that of `counterrank.losses`, a plain sum over queries and documents, and backward gives its gradient
    for the scores with ranks held fixed. Weights and offsets get none. Second derivatives are refused.

    The function takes

    - scores: a floating tensor of shape (n,) or (n, 1), on any device. Value and gradient have its type and device;
      in between all is float64 on the CPU, without copies where the scores are that already.
    - weights: one number per document; a tensor, numpy array or list. float64 on the CPU is not copied.
    - offsets: where each query begins, and the number of documents; whole numbers from 0 on.

    Arguments:
        name: a name from `counterrank.losses.LOSSES`, or a `NamedLoss`.
        k: the loss's cutoff, or None.
        threads: None for all cores; the result does not depend on it.
        params: hyperparameters of the loss, such as {"samples": 100} of "plackett-luce".
        seed: of a loss that draws rankings, "plackett-luce": each call draws others.

    >>> import torch
    >>> scores = torch.tensor([0.0, 0.5], requires_grad=True)
    >>> value = loss("arp-hinge")(scores, [1.0, 0.0], [0, 2])
    >>> value.backward()
    >>> value.item(), scores.grad.tolist()  # 1 + max(1 - (0 - 0.5), 0)
    (2.5, [-1.0, 1.0])
    """
    chosen, cutoff, used = named_loss(name).configured(**(params or {})), check_cutoff(k), thread_count(threads)
    key, calls = seed_key(seed), count(1)
    chosen.spec(cutoff, 1)  # a cutoff that the loss does not take is found here, not at the first call
    require("torch", "torch", "counterrank.torch")

    def differentiable(scores: Tensor, weights: Tensor | ArrayLike, offsets: Tensor | ArrayLike) -> Tensor:
        flat = check_scores(scores).reshape(-1)
        s, w, o = check_inputs(as_numpy(flat), as_numpy(weights), as_numpy(offsets))
        spec = chosen.spec(cutoff, longest_query(o)).with_key(derive_key(key, next(calls)))
        value, gradient = run_loss(spec, s, w, o, used)
        return known_gradient(scores, value, gradient)

    return differentiable


def check_scores(scores: Any, name: str = "scores") -> Tensor:
    """A floating tensor with one number per document.

    >>> import torch
    >>> check_scores(torch.tensor([1, 2]))
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: scores: type torch.int64; expected floating numbers
    """
    import torch

    if not isinstance(scores, torch.Tensor):
        raise CounterrankError(f"{name}: {type(scores).__name__}; expected a torch tensor")
    if scores.layout != torch.strided:
        raise CounterrankError(f"{name}: layout {scores.layout}; expected a dense tensor")
    if scores.ndim != 1 and tuple(scores.shape[1:]) != (1,):
        raise CounterrankError(f"{name}: shape {tuple(scores.shape)}; expected (n,) or (n, 1) for n documents")
    if not scores.is_floating_point():
        raise CounterrankError(f"{name}: type {scores.dtype}; expected floating numbers")
    checked: Tensor = scores
    return checked


def as_numpy(values: Any) -> Any:
    """A tensor as a numpy array, floating ones as float64, sharing memory where it can; all else as it is.

    >>> import torch
    >>> as_numpy(torch.tensor([0, 2])), as_numpy([0, 2])
    (array([0, 2]), [0, 2])
    """
    import torch

    if not isinstance(values, torch.Tensor):
        return values
    here = values.detach().cpu()
    # numpy knows no bfloat16
    return (here.double() if here.is_floating_point() else here).numpy(force=True)


class Nodes(NamedTuple):
    """The two `torch.autograd.Function`s: of the value, and of its gradient."""

    value: Any
    gradient: Any


def known_gradient(scores: Tensor, value: float, gradient: FloatArray) -> Tensor:
    """`value` as a tensor like the scores, whose derivative for them is `gradient`."""
    result: Tensor = nodes().value.apply(scores, value, gradient)
    return result


@cache
def nodes() -> Nodes:
    """Make the nodes; `type` rather than `class`, since a base that is not there before cannot be checked."""
    import torch

    def forward(ctx: Any, scores: Tensor, value: float, gradient: FloatArray) -> Any:
        if ctx.needs_input_grad[0]:
            slopes = torch.from_numpy(gradient).to(scores.device, scores.dtype).reshape(scores.shape)
            ctx.save_for_backward(slopes, scores)
        return torch.tensor(value, dtype=scores.dtype, device=scores.device)

    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        return made.gradient.apply(upstream, *ctx.saved_tensors), None, None

    def scaled(ctx: Any, upstream: Tensor, slopes: Tensor, scores: Tensor) -> Tensor:
        return upstream * slopes

    def refuse(ctx: Any, *upstream: Tensor) -> NoReturn:
        # the gradient depends on the scores, but not in a way that is known here: silence would be a wrong number
        raise CounterrankError(
            "counterrank.torch.loss: differentiated twice; expected first derivatives only (ranks are held fixed)"
        )

    def node(name: str, ahead: Any, back: Any) -> Any:
        functions = {"forward": staticmethod(ahead), "backward": staticmethod(back), "__module__": __name__}
        return type(name, (torch.autograd.Function,), functions)

    made = Nodes(node("RankingLoss", forward, backward), node("RankingLossGradient", scaled, refuse))
    return made

"""A scalar whose gradient is known already, as a node of torch's graph.

The nodes are made when first needed, so that importing this module does not import torch.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from counterrank.common.checks import FloatArray
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from torch import Tensor


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

"""The layers of a plain network, read from its torch module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.common.errors import ExportError


@dataclass(frozen=True)
class Layer:
    """x -> weights x + bias, followed by max(0, .) where `relu`; one row of weights for each output."""

    weights: FloatArray
    bias: FloatArray
    relu: bool


def layers_of(module: Any) -> list[Layer]:
    """The layers of an `nn.Sequential` of `Linear`, `ReLU` and `Dropout` in double, which `Ranker(model="mlp")` makes.

    Any other module does what only its author knows, and is refused.
    """
    from torch import float64, nn

    layers: list[Layer] = []
    for part in module if type(module) is nn.Sequential else [module]:
        # exact types, since a class of its own may do as it likes with its parameters
        if type(part) is nn.Linear and part.weight.dtype == float64:
            weights = _numbers(part.weight)
            bias = np.zeros(len(weights)) if part.bias is None else _numbers(part.bias)
            layers.append(Layer(weights, bias, relu=False))
        elif type(part) is nn.ReLU and layers:
            layers[-1] = Layer(layers[-1].weights, layers[-1].bias, relu=True)
        elif type(part) is not nn.Dropout:  # which does nothing once training is over
            raise ExportError(
                f"model: {type(module).__name__} is a module of your own; export ranker.model_.module with torch.onnx, "
                "and scale features before it as ranker.model_.scaler does, or train mlp"
            )
    if not layers or len(layers[-1].weights) != 1:
        raise ExportError("model: the network does not end in one score a document, so it cannot be exported")
    return layers


def _numbers(tensor: Any) -> FloatArray:
    numbers: FloatArray = tensor.detach().cpu().numpy()
    return numbers

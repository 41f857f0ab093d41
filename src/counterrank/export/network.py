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
    """The layers of an `nn.Sequential` of `Linear`, `ReLU` and `Dropout` that ends in one score.

    Any other module does what only its author knows, and is refused.
    """
    from torch import nn

    layers: list[Layer] = []
    for part in module if isinstance(module, nn.Sequential) else [module]:
        if isinstance(part, nn.Linear):
            weights = _numbers(part.weight)
            bias = np.zeros(len(weights)) if part.bias is None else _numbers(part.bias)
            layers.append(Layer(weights, bias, relu=False))
        elif isinstance(part, nn.ReLU) and layers:
            layers[-1] = Layer(layers[-1].weights, layers[-1].bias, relu=True)
        elif not isinstance(part, nn.Dropout | nn.Identity | nn.Flatten):  # these change no score once trained
            raise ExportError(
                f"model: a {type(part).__name__} of your own cannot be read; export ranker.model_.module with "
                "torch.onnx, and scale features first as ranker.model_.scaler does"
            )
    if not layers or len(layers[-1].weights) != 1:
        raise ExportError("model: the network does not end in one score a document, so it cannot be exported")
    return layers


def _numbers(tensor: Any) -> FloatArray:
    numbers: FloatArray = tensor.detach().cpu().double().numpy()
    return numbers

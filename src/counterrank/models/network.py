"""The network behind `Ranker(model="mlp")`: layers of rectified units between features and one score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.common.errors import CounterrankError, require


@dataclass(frozen=True)
class NetworkShape:
    """What has to be known to build the network.

    Attributes:
        hidden: how many units each hidden layer has; without any the network is linear.
        dropout: the share of units left out in each step of training.
    """

    hidden: tuple[int, ...] = (64,)
    dropout: float = 0.1

    @classmethod
    def check(cls, hidden: Any, dropout: Any) -> NetworkShape:
        """A shape that can be built, or an error.

        >>> NetworkShape.check([64], 0).hidden
        (64,)
        """
        hidden = hidden.tolist() if isinstance(hidden, np.ndarray) else hidden
        if not isinstance(hidden, Sequence) or isinstance(hidden, str) or not all(map(_is_size, hidden)):
            raise CounterrankError(f"hidden={hidden!r}: expected sizes of layers, such as [128, 64]")
        if isinstance(dropout, bool) or not isinstance(dropout, int | float | np.floating) or not 0.0 <= dropout < 1.0:
            raise CounterrankError(f"dropout={dropout!r}: expected a number from 0 to below 1")
        return cls(tuple(map(int, hidden)), float(dropout))

    def build(self, n_features: int) -> Any:
        """A `torch.nn.Sequential` of Linear, ReLU and Dropout for each hidden layer, and a last Linear to one score.

        >>> [type(layer).__name__ for layer in NetworkShape((8,)).build(3)]
        ['Linear', 'ReLU', 'Dropout', 'Linear']
        """
        require("torch", "torch", "a neural ranker")
        from torch import nn

        layers: list[Any] = []
        width = n_features
        for size in self.hidden:
            layers += [nn.Linear(width, size), nn.ReLU(), nn.Dropout(self.dropout)]
            width = size
        return nn.Sequential(*layers, nn.Linear(width, 1))


def _is_size(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)

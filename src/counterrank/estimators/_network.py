"""A small network of click rates: one hidden layer, learned by torch, used without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.common.checks import Float32Array, FloatArray, IntArray
from counterrank.common.errors import require

_HIDDEN, _BATCH, _LEARNING_RATE = 32, 512, 3e-3
_MOST_EPOCHS, _PATIENCE, _UNTOLD_EPOCHS = 40, 5, 5
_ROWS = 1 << 15  # predicted at once


@dataclass(frozen=True, eq=False)
class Network:
    """max(0, x A + a) b + c."""

    inner: Float32Array  # A, (features, hidden)
    inner_bias: Float32Array  # a
    outer: Float32Array  # b, (hidden, 1)
    outer_bias: Float32Array  # c, (1,)
    epochs: int

    @property
    def about(self) -> str:
        """The model in words."""
        return f"network with a hidden layer of {len(self.outer)}, {self.epochs} epochs"

    def predict(self, features: Float32Array) -> FloatArray:
        """A click rate for each row."""
        values = np.empty(len(features))
        for begin in range(0, len(features), _ROWS):
            rows = slice(begin, begin + _ROWS)
            hidden = np.maximum(features[rows] @ self.inner + self.inner_bias, 0.0)
            values[rows] = (hidden @ self.outer + self.outer_bias)[:, 0]
        return values


def train(
    evidence: Any, rows: IntArray, held_out: IntArray | None, rounds: int | None, seed: int
) -> tuple[Network, int]:
    """A network from these rows: for a given number of epochs, or as many as do best on rows held out.

    Arguments:
        evidence: features, targets and weights, see `regressors.Evidence`.
        rows: to learn from.
        held_out: rows to stop by, or None.
        rounds: without rows to stop by the number of epochs; None where nothing could be held out.
        seed: of the first coefficients and the order of rows.
    """
    require("torch", "torch", "a relevance model that is a network")
    import torch

    generator = np.random.default_rng(seed)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # steps are small, and the result is to be the same on every machine
    try:
        return _train(evidence, rows, held_out, rounds, generator)
    finally:
        torch.set_num_threads(threads)


def _train(
    evidence: Any, rows: IntArray, held_out: IntArray | None, rounds: int | None, generator: np.random.Generator
) -> tuple[Network, int]:
    import torch

    weights = (evidence.weights / evidence.weights[rows].mean()).astype(np.float32)
    targets = evidence.targets.astype(np.float32)
    tensors = [torch.from_numpy(array).requires_grad_() for array in _start(evidence, rows, generator)]
    optimizer = torch.optim.Adam(tensors, lr=_LEARNING_RATE)
    last = _MOST_EPOCHS if held_out is not None else rounds or _UNTOLD_EPOCHS
    best, kept, least = last, None, np.inf
    for epoch in range(1, last + 1):
        order = generator.permutation(rows)
        for begin in range(0, len(order), _BATCH):
            part = order[begin : begin + _BATCH]
            x, y, w = (torch.from_numpy(array[part]) for array in (evidence.features, targets, weights))
            inner, inner_bias, outer, outer_bias = tensors
            off = (torch.relu(x @ inner + inner_bias) @ outer + outer_bias)[:, 0] - y
            optimizer.zero_grad()
            (w * off * off).mean().backward()
            optimizer.step()
        if held_out is None:
            continue
        now = _network(tensors, epoch)
        error = float(weights[held_out] @ (now.predict(evidence.features[held_out]) - targets[held_out]) ** 2)
        if error < least:
            best, kept, least = epoch, now, error
        elif epoch >= best + _PATIENCE:
            break
    return kept or _network(tensors, best), best


def _start(evidence: Any, rows: IntArray, generator: np.random.Generator) -> list[Float32Array]:
    """Coefficients to begin with: the mean rate for all, and small slopes."""
    width = evidence.features.shape[1]
    mean = np.average(evidence.targets[rows], weights=evidence.weights[rows])
    inner = generator.normal(0.0, np.sqrt(2.0 / max(width, 1)), (width, _HIDDEN))
    outer = generator.normal(0.0, 0.1 / np.sqrt(_HIDDEN), (_HIDDEN, 1))
    return [np.asarray(array, np.float32) for array in (inner, np.zeros(_HIDDEN), outer, [mean])]


def _network(tensors: list[Any], epochs: int) -> Network:
    inner, inner_bias, outer, outer_bias = (tensor.detach().numpy().copy() for tensor in tensors)
    return Network(inner, inner_bias, outer, outer_bias, epochs)

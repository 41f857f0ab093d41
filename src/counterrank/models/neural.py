"""Neural rankers: a score is what a torch module makes of scaled features."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common.checks import Float32Array, FloatArray, IntArray
from counterrank.common.errors import CounterrankError, require
from counterrank.data import RankingData
from counterrank.models.network import NetworkShape
from counterrank.models.scaling import Scaler
from counterrank.models.tensors import put_tensors, read_tensors, write_tensors

# documents that are scored at once, but never less than a query
_AT_ONCE = 8192


@dataclass(frozen=True)
class NeuralModel:
    """A torch module in the state it is used in, and the scaling it was learned with.

    Attributes:
        module: from the scaled features of whole queries to their scores; with `shape`, of float64.
        scaler: how raw features are scaled before the module sees them.
        n_features: how many features a document has.
        shape: of the library's own network; None for a module of the user's.
    """

    module: Any
    scaler: Scaler
    n_features: int
    shape: NetworkShape | None = None

    def __post_init__(self) -> None:
        self.module.eval()

    def predict(self, data: RankingData, threads: int | None = None) -> FloatArray:
        """A score for each document."""
        scores = network_scores(
            self.module,
            data.offsets,
            lambda first, last: self.scaler.apply(data.subset(slice(first, last)), threads),
        )
        check_finite(scores)
        return scores

    def vectors(self) -> dict[str, FloatArray]:
        """Nothing beside the scaling."""
        return {}

    def write(self, folder: Path) -> dict[str, Any]:
        """Every tensor of the module as an array of its own, and the shape of the network if it is the library's."""
        shape = {} if self.shape is None else {"hidden": list(self.shape.hidden), "dropout": self.shape.dropout}
        return {**shape, "tensors": write_tensors(folder, self.module.state_dict())}

    @classmethod
    def restore(
        cls, folder: Path, content: dict[str, Any], n_features: int, scaler: Scaler, module: Any = None
    ) -> NeuralModel:
        """Read what `write` wrote, into a copy of `module`, or into the library's network if there is none."""
        require("torch", "torch", "a neural ranker")
        import torch

        if module is not None:
            filled = put_tensors(copied(module), read_tensors(folder, content["tensors"], module), folder)
            return cls(filled, scaler, n_features)
        shape = NetworkShape.check(content["hidden"], content["dropout"])
        with torch.device("meta"):  # takes no memory, whatever sizes the file asks for
            network = shape.build(n_features).double()
        tensors = read_tensors(folder, content["tensors"], network)
        return cls(put_tensors(network, tensors, folder), scaler, n_features, shape)


def copied(module: Any) -> Any:
    """A copy that shares nothing with the module given."""
    try:
        return deepcopy(module)
    except Exception as error:  # whatever a module of the user's own raises
        raise CounterrankError(f"model: {type(module).__name__} cannot be copied ({error})") from None


def network_scores(module: Any, offsets: IntArray, rows: Callable[[int, int], Float32Array]) -> FloatArray:
    """The scores of all documents, finite or not; `rows` gives the scaled features of a range of queries."""
    import torch

    scores = np.empty(offsets[-1])
    with torch.no_grad():
        for first, last in query_ranges(offsets, _AT_ONCE):
            start, end = offsets[first], offsets[last]
            found = call_module(module, rows(first, last), offsets[first : last + 1] - start)
            scores[start:end] = found.double().numpy(force=True)
    return scores


def call_module(module: Any, features: Float32Array, offsets: IntArray) -> Any:
    """The scores of whole queries as a tensor of shape (n,) on the module's device.

    Features come in the type and on the device of the module's parameters. A module whose `forward` has a parameter
    `offsets` is told where each query begins.
    """
    import torch

    device, dtype = place_of(module)
    given = torch.tensor(features, dtype=dtype, device=device)
    if takes_offsets(module):
        scores = module(given, offsets=torch.tensor(offsets, device=device))
    else:
        scores = module(given)
    name, n = type(module).__name__, len(features)
    if not isinstance(scores, torch.Tensor) or not scores.is_floating_point():
        kind = scores.dtype if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise CounterrankError(f"model: {name} gave {kind}; expected a tensor of floating numbers")
    if tuple(scores.shape) not in ((n,), (n, 1)):
        raise CounterrankError(
            f"model: {name} gave shape {tuple(scores.shape)} for {n} documents; expected ({n},) or ({n}, 1)"
        )
    return scores.reshape(n)


def check_finite(scores: FloatArray) -> None:
    """An error that names the first score that is not a finite number."""
    finite = np.isfinite(scores)
    if not finite.all():
        place = int(np.argmin(finite))
        raise CounterrankError(f"model: gave {scores[place]} for document {place}; expected finite scores")


def place_of(module: Any) -> tuple[Any, Any]:
    """The device of the module, and the type its features should have."""
    import torch

    tensors = [*module.parameters(), *module.buffers()]
    device = tensors[0].device if tensors else torch.device("cpu")
    return device, next((tensor.dtype for tensor in tensors if tensor.is_floating_point()), torch.float32)


def takes_offsets(module: Any) -> bool:
    """Whether the module wants to know where each query begins."""
    try:
        return "offsets" in inspect.signature(module.forward).parameters
    except (TypeError, ValueError):  # compiled modules tell nothing
        return False


def query_ranges(offsets: IntArray, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of queries with at most `size` documents each, or a single query with more.

    >>> list(query_ranges(np.array([0, 3, 4, 6, 20]), 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    first, n_queries = 0, len(offsets) - 1
    while first < n_queries:
        fits = int(np.searchsorted(offsets, offsets[first] + size, side="right")) - 1
        last = max(first + 1, fits)
        yield first, last
        first = last

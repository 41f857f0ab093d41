"""Neural rankers: a score is the output of a torch module for scaled features.

`Ranker(model="mlp")` has a network of the library's own, `NetworkShape`; other modules are the user's. The tensors of a
saved module are plain numpy files: nothing is pickled, and nothing that a file names is imported. `model.json` lists
name, file, shape and type of each; they are read into a module that exists already, and only if names, shapes and types
are those of the module.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common.checks import Float32Array, FloatArray, IntArray, check_number, is_whole
from counterrank.common.errors import CounterrankError, ModelError, brief, require
from counterrank.data import RankingData
from counterrank.data.features import refuse_missing
from counterrank.models.model import TREES_INSTEAD, Scaler, read_array


@dataclass(frozen=True)
class NetworkShape:
    """The network of `Ranker(model="mlp")`: layers of rectified units between features and one score.

    Attributes:
        hidden: the number of units of each hidden layer; without any the network is linear.
        dropout: the share of units left out in each training step.
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
        if (
            not isinstance(hidden, Sequence)
            or isinstance(hidden, str)
            or not all(is_whole(size) and size >= 1 for size in hidden)
        ):
            raise CounterrankError(f"hidden={brief(hidden)}: expected sizes of layers, such as [128, 64]")
        return cls(tuple(map(int, hidden)), check_number(dropout, "dropout", at_least=0, below=1))

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


# how numpy holds each type; it knows no bfloat16, whose bits are kept as whole numbers
_SAME = "float64 float32 float16 complex64 complex128 bool uint8 int8 int16 int32 int64"
_STORED = {name: name for name in _SAME.split()} | {"bfloat16": "int16"}


def write_tensors(folder: Path, state: dict[str, Any]) -> list[dict[str, Any]]:
    """One file for each tensor of a module's state; returns what to remember about them."""
    import torch

    listed = []
    for number, (name, tensor) in enumerate(state.items()):
        if not isinstance(tensor, torch.Tensor):
            raise ModelError(f"model: {name!r} of its state is no tensor; only tensors can be saved")
        kind = _type_name(tensor)
        if kind not in _STORED or tensor.layout != torch.strided:
            raise ModelError(f"model: {name!r} is {kind} ({tensor.layout}), which cannot be saved")
        plain = tensor.detach().cpu().contiguous()
        if kind == "bfloat16":
            plain = plain.view(torch.int16)
        file = f"tensor-{number:04d}.npy"
        np.save(folder / file, plain.numpy(force=True), allow_pickle=False)
        listed.append({"name": name, "file": file, "shape": list(tensor.shape), "dtype": kind})
    return listed


def read_tensors(folder: Path, listed: Any, module: Any) -> dict[str, Any]:
    """The tensors that `write_tensors` listed, as far as they fit the module."""
    state = module.state_dict()
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise ModelError(f"{folder}: 'tensors' in model.json; expected a list of names, files, shapes and types")
    by_name = {entry["name"]: entry for entry in listed}
    _check_names(folder, [entry["name"] for entry in listed], list(state))
    learned = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    return {name: _read_tensor(folder, by_name[name], state[name], name in learned) for name in state}


def put_tensors(module: Any, tensors: dict[str, Any], folder: Path) -> Any:
    """The module with these tensors as its state; on the meta device they become its own."""
    is_empty = any(tensor.is_meta for tensor in module.state_dict().values())
    try:
        module.load_state_dict(tensors, strict=True, assign=is_empty)
    except Exception as error:  # whatever a module of the user's own raises
        raise ModelError(f"{folder}: {type(module).__name__} does not take the saved tensors ({error})") from None
    return module


def _check_names(folder: Path, saved: list[Any], own: list[str]) -> None:
    if len(set(map(str, saved))) < len(saved):
        raise ModelError(f"{folder}: a tensor is listed twice in model.json; the file is damaged")
    for these, others, what in ((own, saved, "is not among those saved"), (saved, own, "is not in the module")):
        lacking = [name for name in these if name not in others]
        if lacking:
            more = f" (and {len(lacking) - 1} others)" if len(lacking) > 1 else ""
            raise ModelError(f"{folder}: tensor {lacking[0]!r} {what}{more}; expected a module like the one saved")


def _read_tensor(folder: Path, entry: dict[str, Any], own: Any, is_learned: bool) -> Any:
    import torch

    if isinstance(own, torch.nn.parameter.UninitializedTensorMixin):
        raise ModelError(
            f"{folder}: tensor {entry['name']!r} of the module has no size yet; expected a module whose lazy layers "
            "have seen features once"
        )
    name, kind, shape = entry["name"], _type_name(own), tuple(own.shape)
    if entry["dtype"] != kind or entry["shape"] != list(shape):
        raise ModelError(
            f"{folder}: tensor {name!r} is {entry['dtype']} of shape {tuple(entry['shape'])}; "
            f"the module's is {kind} of shape {shape}"
        )
    array = read_array(folder, entry["file"], shape, _STORED[kind], finite=False)
    tensor = torch.from_numpy(array)
    if kind == "bfloat16":
        tensor = tensor.view(torch.bfloat16)
    # a mask may hold infinities, what was learned may not
    fault = tensor.isnan() | tensor.isinf() if is_learned else tensor.isnan()
    if fault.any():
        place = int(fault.reshape(-1).int().argmax())
        raise ModelError(f"{folder / entry['file']}: tensor {name!r}, entry {place} is not finite; the file is damaged")
    return tensor


def _type_name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


# documents that are scored at once, but never less than a query
_AT_ONCE = 8192


@dataclass(frozen=True)
class NeuralModel:
    """A neural model: a torch module that scores all documents of a query, and feature scaling.

    `shape` is that of the library's own network, then of float64; None for a module of the user's.
    """

    module: Any
    scaler: Scaler
    n_features: int
    shape: NetworkShape | None = None

    def __post_init__(self) -> None:
        self.module.eval()

    def predict(self, data: RankingData, threads: int | None = None) -> FloatArray:
        """A score for each document; missing values are an error."""
        refuse_missing(data, "a neural network", TREES_INSTEAD)
        scores = network_scores(
            self.module, data.offsets, lambda first, last: self.scaler.apply(data.subset(slice(first, last)), threads)
        )
        check_finite(scores)
        return scores

    def vectors(self) -> dict[str, FloatArray]:
        """Nothing besides the scaling."""
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
    `offsets` gets the offsets of the queries.
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
    except (TypeError, ValueError):  # compiled modules have no signature
        return False


def scores_within_queries(model: Any) -> bool:
    """Whether the score of a document depends on the others of its query: by scaling, or in a listwise module."""
    is_listwise = isinstance(model, NeuralModel) and takes_offsets(model.module)
    return bool(model.scaler.kind == "query" or is_listwise)


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

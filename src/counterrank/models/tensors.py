"""The tensors of a torch module as plain numpy files, and back; nothing is pickled, nothing a file names is imported.

`model.json` lists name, file, shape and type of each. What is read goes into a module that is there already, and only
if names, shapes and types are those of the module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common.errors import ModelError
from counterrank.models.arrays import read_array

# how numpy holds each type; it knows no bfloat16, whose bits are kept as whole numbers
_STORED = {
    **{name: name for name in ("float64", "float32", "float16", "complex64", "complex128", "bool", "uint8")},
    **{name: name for name in ("int8", "int16", "int32", "int64")},
    "bfloat16": "int16",
}


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


def _check_names(folder: Path, saved: list[Any], wanted: list[str]) -> None:
    if len(set(map(str, saved))) < len(saved):
        raise ModelError(f"{folder}: a tensor is listed twice in model.json; the file is damaged")
    for these, others, what in ((wanted, saved, "is not among those saved"), (saved, wanted, "is not in the module")):
        lacking = [name for name in these if name not in others]
        if lacking:
            more = f" (and {len(lacking) - 1} others)" if len(lacking) > 1 else ""
            raise ModelError(f"{folder}: tensor {lacking[0]!r} {what}{more}; expected a module like the one saved")


def _read_tensor(folder: Path, entry: dict[str, Any], wanted: Any, is_learned: bool) -> Any:
    import torch

    if isinstance(wanted, torch.nn.parameter.UninitializedTensorMixin):
        raise ModelError(
            f"{folder}: tensor {entry['name']!r} of the module has no size yet; expected a module whose lazy layers "
            "have seen features once"
        )
    name, kind, shape = entry["name"], _type_name(wanted), tuple(wanted.shape)
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

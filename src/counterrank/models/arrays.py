"""Arrays of a saved model: plain numpy files that are looked at before they are believed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.errors import ModelError


def read_array(
    folder: Path, name: Any, shape: tuple[int, ...], dtype: Any = np.float64, finite: bool = True
) -> NDArray[Any]:
    """The array in the file of this name, if it lies in the folder and has this shape, this type and finite entries.

    With `finite=False` entries may be anything.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/low.npy", np.zeros(2))
    ...     read_array(Path(folder), "low.npy", (2,)).tolist()
    [0.0, 0.0]
    """
    if os.path.basename(name) != name:
        raise ModelError(f"{folder}: array file {name!r} is outside the folder")
    file = folder / name
    if not file.is_file():
        raise ModelError(f"{file}: missing; the ranker is incomplete")
    try:
        # a view of the file: a damaged header cannot ask for more memory than the file has, nor for pickled objects
        array: NDArray[Any] = np.array(np.lib.format.open_memmap(file, mode="r"))
    except Exception as error:  # numpy raises many kinds for damaged headers
        raise ModelError(f"{file}: not a plain numpy array ({error})") from None
    if array.shape != shape or array.dtype != dtype:
        raise ModelError(
            f"{file}: {array.dtype} of shape {array.shape}; expected {np.dtype(dtype)} of shape {tuple(shape)}"
        )
    if finite and not np.isfinite(array).all():
        place = int(np.argmin(np.isfinite(array).ravel()))
        raise ModelError(f"{file}: entry {place} is not finite; the file is damaged")
    return array

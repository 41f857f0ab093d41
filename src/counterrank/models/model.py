"""What every model has in common: the scaling of raw features, `predict`, and the arrays of a saved ranker."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from counterrank.common.checks import Float32Array, FloatArray
from counterrank.common.errors import ModelError
from counterrank.common.jit import Array, exact_kernel, kernel
from counterrank.common.parallel import for_queries
from counterrank.data import RankingData
from counterrank.data.features import present_counts, query_scale, scale_queries

TREES_INSTEAD = "a ranker with model='lambdamart'"  # the remedy for missing values
NORMALIZE = ("query", "standard", "none")


class Scales(NamedTuple):
    """x' = (x - low) * inverse: one row for each query of a data set, or one that all queries share."""

    low: FloatArray
    inverse: FloatArray
    shared: bool


@kernel
def column_sums(first: int, last: int, offsets: Array, features: Array, center: Array, power: int, out: Array) -> None:
    """out[q, f] = sum over the documents of q whose x_f is not missing of (x_f - center_f)^power, power 1 or 2."""
    for q in range(first, last):
        out[q] = 0.0
        for row in range(offsets[q], offsets[q + 1]):
            for f in range(features.shape[1]):
                x = features[row, f] - center[f]
                x = 0.0 if np.isnan(x) else x
                out[q, f] += x if power == 1 else x * x


@exact_kernel
def scale_rows(
    first: int, last: int, offsets: Array, features: Array, low: Array, inverse: Array, scaled: Array
) -> None:
    """x' = (x - low) * inverse of all documents of the queries, with one scaling for all."""
    for row in range(offsets[first], offsets[last]):
        for f in range(features.shape[1]):
            scaled[row, f] = (features[row, f] - low[f]) * inverse[f]


@exact_kernel
def query_scales(first: int, last: int, offsets: Array, features: Array, low: Array, inverse: Array) -> None:
    """low = min x and inverse = 1 / (max x - min x) over the documents of each query, one row each."""
    small, large = np.empty(features.shape[1], np.float32), np.empty(features.shape[1], np.float32)
    for q in range(first, last):
        query_scale(features, offsets[q], offsets[q + 1], small, large, low[q], inverse[q])


@dataclass(frozen=True)
class Scaler:
    """Feature scaling; part of the model, so that `predict` accepts raw data.

        query:     (x - min) / (max - min) over the documents of the query, 0 where all are equal
        standard:  (x - mean) / standard deviation over the training data
        none:      x

    Missing values stay missing, and have no part in minimum, maximum, mean and deviation.

    >>> data = RankingData([[1.0], [3.0]], [0, 2])
    >>> Scaler.learn("query", data).scales(data).inverse.tolist()
    [[0.5]]
    """

    kind: str
    low: FloatArray
    inverse: FloatArray

    @classmethod
    def none(cls, n_features: int, kind: str = "none") -> Scaler:
        """A scaler without learned parameters: of kind "none", or "query"."""
        return cls(kind, np.zeros(n_features), np.ones(n_features))

    @classmethod
    def learn(cls, kind: str, data: RankingData, threads: int | None = None) -> Scaler:
        """Mean and standard deviation of the training data for "standard", nothing for the others."""
        if kind != "standard":
            return cls.none(data.n_features, kind)

        counts = np.maximum(present_counts(data), 1)

        def mean_of(center: FloatArray, power: int) -> FloatArray:
            sums = np.empty((data.n_queries, data.n_features))
            for_queries(column_sums, data.offsets, data.features, center, power, sums, threads=threads)
            return np.asarray(sums.sum(axis=0) / counts)

        mean = mean_of(np.zeros(data.n_features), 1)
        deviation = np.sqrt(mean_of(mean, 2))
        # a constant column has a deviation of nothing but rounding
        constant = deviation <= 1e-7 * np.abs(mean)
        return cls(kind, mean, np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, deviation)))

    def scales(self, data: RankingData, threads: int | None = None) -> Scales:
        """The numbers to scale this data set with."""
        if self.kind != "query":
            return Scales(self.low[None, :], self.inverse[None, :], True)
        low, inverse = np.empty((2, data.n_queries, data.n_features))
        for_queries(query_scales, data.offsets, data.features, low, inverse, threads=threads)
        return Scales(low, inverse, False)

    def apply(self, data: RankingData, threads: int | None = None) -> Float32Array:
        """The scaled features as a matrix of their own; those of the data themselves where nothing is to be done.

        >>> data = RankingData([[1.0], [3.0], [2.0]], [0, 3])
        >>> Scaler.learn("query", data).apply(data).tolist()
        [[0.0], [1.0], [0.5]]
        """
        if self.kind == "none":
            return data.features
        scaled: Float32Array = np.empty_like(data.features)
        if self.kind == "query":
            for_queries(scale_queries, data.offsets, data.features, scaled, threads=threads)
        else:
            for_queries(scale_rows, data.offsets, data.features, self.low, self.inverse, scaled, threads=threads)
        return scaled


class Model(Protocol):
    """The interface of models, which compute scores from raw features and are stored with a ranker."""

    @property
    def scaler(self) -> Scaler:
        """How raw features are scaled."""

    @property
    def n_features(self) -> int:
        """The number of features."""

    def predict(self, data: RankingData, threads: int | None = None) -> FloatArray:
        """A score for each document of raw data."""

    def vectors(self) -> dict[str, FloatArray]:
        """Arrays of one number per feature that make up the model, by name."""

    def write(self, folder: Path) -> dict[str, Any]:
        """Write further files of the model; returns its metadata as JSON values."""


def read_array(
    folder: Path, name: Any, shape: tuple[int, ...], dtype: Any = np.float64, finite: bool = True
) -> NDArray[Any]:
    """An array of a saved model, if it lies in the folder and has this shape, this type and finite entries.

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

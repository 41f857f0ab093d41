"""Plain arrays with a query for each row, as scikit-learn and its relatives pass them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.checks import as_array
from counterrank.common.errors import CounterrankError, DataError
from counterrank.data.ranking_data import RankingData


def from_arrays(
    features: ArrayLike, qid: ArrayLike | None = None, group: ArrayLike | None = None, name: str = "X"
) -> RankingData:
    """Ranking data of a matrix and either the query of each row (`qid`) or the number of rows of each query (`group`).

    The rows of a query must follow each other. `name` is what an error calls the matrix.

    >>> from_arrays([[1.0], [2.0], [3.0]], qid=[7, 7, 9]).offsets.tolist()
    [0, 2, 3]
    >>> from_arrays([[1.0], [2.0], [3.0]], group=[1, 2]).offsets.tolist()
    [0, 1, 3]
    """
    matrix = as_array(features, name)
    if matrix.ndim != 2:
        raise DataError(f"{name}: shape {matrix.shape}; expected one row per document and one column per feature")
    if qid is not None and group is None:
        ids, offsets = _runs(as_array(qid, "qid"), len(matrix))
        return RankingData(matrix, offsets, query_ids=ids)
    if group is None or qid is not None:
        raise CounterrankError(f"qid, group: expected one of them beside the array {name}, to tell its queries apart")
    sizes = as_array(group, "group")
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or not len(sizes) or sizes.min() < 1:
        raise CounterrankError("group: expected the number of rows of each query, whole numbers of at least 1")
    if sizes.sum() != len(matrix):
        raise CounterrankError(f"group: {int(sizes.sum())} rows in all; expected {len(matrix)}, as {name} has")
    return RankingData(matrix, np.concatenate(([0], np.cumsum(sizes))))


def _runs(qid: NDArray[Any], n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The queries in the order they come in, and where each begins."""
    if qid.shape != (n,):
        raise CounterrankError(f"qid: shape {qid.shape}; expected ({n},), the query of each row")
    if qid.dtype.kind == "O":
        qid = qid.astype(str)
    starts = np.flatnonzero(np.concatenate(([True], qid[1:] != qid[:-1])))
    ids = qid[starts]
    seen, first = np.unique(ids, return_index=True)
    if len(seen) < len(ids):
        again = int(np.setdiff1d(np.arange(len(ids)), first)[0])
        raise CounterrankError(
            f"qid: row {int(starts[again])} takes up query {ids[again]!s} again; expected the rows of a query together "
            "(sort by qid)"
        )
    return ids, np.append(starts, n)

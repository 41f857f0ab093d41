"""A fold as plain arrays on disk, which any number of processes map into memory: one copy for all of them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common.errors import DataError
from counterrank.common.files import PathLike, atomic_folder, read_stamp
from counterrank.data import Fold, RankingData
from counterrank.data.identity import identity

_MARKER, _FORMAT, _VERSION = "fold.json", "counterrank-shared-fold", 1
_PARTS = ("train", "validation", "test")
_ARRAYS = ("features", "offsets", "labels", "query_ids", "doc_ids")


def share_fold(fold: Fold, folder: PathLike) -> None:
    """Write the arrays of a fold; the folder appears whole or not at all.

    >>> import tempfile
    >>> part = RankingData([[1.0], [2.0]], [0, 2], labels=[0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     share_fold(Fold(part, part, part), f"{folder}/fold")
    ...     shared_fold(f"{folder}/fold").train
    RankingData(1 query, 2 documents, 1 feature, 2 documents a query, labels 0: 50.0 %, 1: 50.0 %)
    """
    with atomic_folder(folder, _MARKER, ("*.npy",)) as target:
        for name in _PARTS:
            for array in _ARRAYS:
                np.save(target / f"{name}-{array}.npy", getattr(getattr(fold, name), array), allow_pickle=False)
        (target / _MARKER).write_text(json.dumps({"format": _FORMAT, "version": _VERSION}), encoding="utf-8")


def shared_fold(folder: PathLike) -> Fold:
    """The fold that `share_fold` wrote, its arrays mapped and not read."""
    path = Path(folder)
    read_stamp(path, _MARKER, _FORMAT, _VERSION, "counterrank reproduce", DataError)

    def part(name: str) -> RankingData:
        return RankingData._trusted(*(np.load(path / f"{name}-{array}.npy", mmap_mode="r") for array in _ARRAYS))

    return Fold(*(part(name) for name in _PARTS))


def fingerprint(fold: Fold) -> str:
    """A digest of all that cells see of a fold: queries, documents, features and labels.

    >>> one, other = (RankingData([[1.0], [2.0]], [0, 2], labels=[0, label]) for label in (1, 2))
    >>> fingerprint(Fold(one, one, one)) == fingerprint(Fold(one, one, other))
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for name in _PARTS:
        part: RankingData = getattr(fold, name)
        digest.update(identity(part).encode())
        for array in (part.features, part.labels):
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def describe_fold(source: str, fold: Fold, relevance_threshold: float) -> dict[str, Any]:
    """What a report says of the data, as JSON has it.

    >>> part = RankingData([[1.0], [2.0]], [0, 2], labels=[0, 1])
    >>> describe_fold("mine", Fold(part, part, part), 1)["parts"]["train"]["relevant_share"]
    0.5
    """
    return {"source": source, "parts": {name: _describe(getattr(fold, name), relevance_threshold) for name in _PARTS}}


def _describe(part: RankingData, relevance_threshold: float) -> dict[str, Any]:
    assert part.labels is not None
    relevant = part.labels >= np.float32(relevance_threshold)
    return {
        "queries": part.n_queries,
        "documents": part.n_docs,
        "features": part.n_features,
        "documents_per_query": part.n_docs / part.n_queries,
        "shortest": int(part.lengths.min()),
        "longest": int(part.lengths.max()),
        "relevant_share": float(relevant.mean()),
        "queries_with_relevant": int(np.count_nonzero(np.maximum.reduceat(relevant, part.offsets[:-1]))),
    }

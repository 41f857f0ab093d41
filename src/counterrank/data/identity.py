"""Which data something was counted against: a digest of its queries and documents, in their order."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.data.ranking_data import RankingData


def identity(data: RankingData) -> str:
    """A name for the queries and documents of the data; features and labels play no part in it.

    >>> data = RankingData([[1.0], [3.0]], [0, 2])
    >>> identity(data) == identity(data.normalized()), identity(data) == identity(data.subset([0]))
    (True, True)
    >>> identity(data) == identity(RankingData([[1.0], [3.0]], [0, 2], doc_ids=["a", "b"]))
    False
    """
    return digest_of(data.offsets, data.query_ids, data.doc_ids)


def digest_of(offsets: NDArray[np.int64], *columns: NDArray[Any]) -> str:
    """The same for queries that begin at these offsets, with the ids of queries and documents.

    >>> digest_of(np.array([0, 1]), np.array(["q"]), np.array([7])) == digest_of(np.array([0, 1]), np.array(["q"]))
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    digest.update(offsets.tobytes())
    for ids in columns:
        _add(digest, ids)
    return digest.hexdigest()


def _add(digest: Any, ids: NDArray[Any]) -> None:
    digest.update(ids.dtype.kind.encode())
    if ids.dtype.kind != "U":
        digest.update(ids.astype("<i8").tobytes())
        return
    # as text of its own length: the width of numpy's strings depends on what else was in the array
    import pyarrow as pa

    texts = pa.array(ids).cast(pa.large_string())
    lengths, content = texts.buffers()[1:]
    digest.update(np.frombuffer(lengths, np.int64, len(ids) + 1).tobytes())
    if content is not None:
        digest.update(content)

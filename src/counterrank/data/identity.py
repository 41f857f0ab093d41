"""Which data something was counted against or learned from: a digest of all of it, and a key for each query."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.jit import Array, exact_kernel
from counterrank.common.parallel import for_queries, for_range
from counterrank.common.random import HashArray, mixed
from counterrank.data.ranking_data import RankingData


@exact_kernel
def hash_texts(first: int, last: int, letters: Array, out: Array) -> None:
    """A hash of each row of code points; trailing zeros do not count, since they only pad shorter texts."""
    for row in range(first, last):
        found = np.uint64(0)
        for place in range(letters.shape[1]):
            if letters[row, place]:
                found = mixed(found + (np.uint64(place) << np.uint64(32)) + np.uint64(letters[row, place]))
        out[row] = found


@exact_kernel
def hash_queries(
    first: int, last: int, offsets: Array, bits: Array, factors: Array, documents: Array, queries: Array, out: Array
) -> None:
    """A hash of each query: its own id, and the ids and feature values of its documents in whatever order.

    Arguments:
        first, last, offsets: the queries.
        bits: the features as whole numbers of 32 bits; zeros do not count, with either sign.
        factors: an odd number for each feature.
        documents, queries: hashes of the ids.
        out: gets the hash of each query.
    """
    for q in range(first, last):
        total = np.uint64(0)
        for row in range(offsets[q], offsets[q + 1]):
            values = np.uint64(0)
            for f in range(len(factors)):
                word = np.uint64(bits[row, f])
                values += factors[f] * (word if word != np.uint64(0x80000000) else np.uint64(0))
            total += mixed(documents[row] ^ mixed(values))
        out[q] = mixed(total + queries[q])


def identity(data: RankingData) -> str:
    """A name for the queries and documents of the data; features and labels play no part in it.

    >>> data = RankingData([[1.0], [3.0]], [0, 2])
    >>> identity(data) == identity(data.normalized()), identity(data) == identity(data.subset([0]))
    (True, True)
    >>> identity(data) == identity(RankingData([[1.0], [3.0]], [0, 2], doc_ids=["a", "b"]))
    False
    """
    found: str = data._cached("identity", lambda: digest_of(data.offsets, data.query_ids, data.doc_ids))
    return found


def query_keys(data: RankingData) -> HashArray:
    """A 64-bit key of each query, from its id, the ids of its documents and their features.

    Equal ids in different data have different keys. The order of documents and columns of zeros behind the last feature
    do not matter. Made once for each data.

    >>> data = RankingData([[1.0], [3.0], [2.0]], [0, 2, 3])
    >>> wide, other = data.widened(2), RankingData([[1.0], [4.0], [2.0]], [0, 2, 3])
    >>> (query_keys(wide) == query_keys(data)).tolist(), (query_keys(other) == query_keys(data)).tolist()
    ([True, True], [False, True])
    """
    keys: HashArray = data._cached("query_keys", lambda: _query_keys(data))
    return keys


def _query_keys(data: RankingData) -> HashArray:
    factors: HashArray = np.array([int(mixed(np.uint64(f + 1))) | 1 for f in range(data.n_features)], np.uint64)
    keys: HashArray = np.empty(data.n_queries, np.uint64)
    documents, queries = hash_ids(data.doc_ids), hash_ids(data.query_ids)
    for_queries(hash_queries, data.offsets, data.features.view(np.uint32), factors, documents, queries, keys)
    keys.flags.writeable = False
    return keys


def hash_ids(ids: NDArray[Any]) -> HashArray:
    """A 64-bit hash of each id.

    >>> bool(hash_ids(np.array(["a"]))[0] == hash_ids(np.array(["a", "longer"]))[0])
    True
    """
    words = np.ascontiguousarray(_as_numbers(ids))
    letters = words.view(np.uint32).reshape(len(ids), words.dtype.itemsize // 4)
    found: HashArray = np.empty(len(ids), np.uint64)
    for_range(hash_texts, len(ids), letters, found)
    return found


def _as_numbers(ids: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers where all ids are, also as texts: a number and its text are one id.

    >>> _as_numbers(np.array(["7", "12"])).tolist(), _as_numbers(np.array(["7", "07"])).tolist()
    ([7, 12], ['7', '07'])
    """
    if ids.dtype.kind != "U":
        return ids.astype(np.int64)
    try:
        numbers = ids.astype(np.int64)
    except (ValueError, OverflowError):
        return ids
    return numbers if (numbers.astype(ids.dtype) == ids).all() else ids


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

"""Ids of queries and documents, int64 where they are whole numbers and strings otherwise; the rows they stand for; and
digests of them, which name the data that something was counted against or learned from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.checks import IntArray, as_array
from counterrank.common.errors import DataError, quoted
from counterrank.common.jit import Array, exact_kernel
from counterrank.common.parallel import for_queries, for_range
from counterrank.common.random import HashArray, mixed
from counterrank.common.ranking import longest_of

if TYPE_CHECKING:
    from counterrank.data import RankingData


def check_ids(ids: ArrayLike, n: int, name: str) -> NDArray[Any]:
    """Ids as an int64 or string array of length `n`.

    >>> check_ids(["q1", "q2"], 2, "query_ids")
    array(['q1', 'q2'], dtype='<U2')
    """
    given = as_array(ids, name)
    if given.dtype == object and all(isinstance(value, str) for value in given.ravel()):
        given = given.astype(np.str_)
    if given.shape != (n,):
        raise DataError(f"{name}: shape {given.shape}; expected ({n},)")
    if given.dtype.kind in "iu":
        if given.dtype == np.uint64 and n and given.max() > np.iinfo(np.int64).max:
            raise DataError(f"{name}: entry {np.argmax(given)} is {given.max()}; expected an int64")
        return np.array(given, dtype=np.int64)
    if given.dtype.kind in "UT":
        return given.astype(np.str_)
    raise DataError(f"{name}: type {given.dtype}; expected whole numbers or strings")


def is_id_type(kind: Any) -> bool:
    """Whether an Arrow type, or that of a dictionary's values, can hold ids.

    >>> import pyarrow as pa
    >>> is_id_type(pa.int32()), is_id_type(pa.dictionary(pa.int8(), pa.string())), is_id_type(pa.float64())
    (True, True, False)
    """
    import pyarrow.types as kinds

    kind = kind.value_type if kinds.is_dictionary(kind) else kind
    return bool(kinds.is_integer(kind) or kinds.is_string(kind) or kinds.is_large_string(kind))


def place_in_query(offsets: IntArray) -> IntArray:
    """For each row its place in its query, from 0.

    >>> place_in_query(np.array([0, 2, 5])).tolist()
    [0, 1, 0, 1, 2]
    """
    places: IntArray = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    return places


def query_of_rows(offsets: IntArray) -> IntArray:
    """For each row the index of its query.

    >>> query_of_rows(np.array([0, 2, 5])).tolist()
    [0, 0, 1, 1, 1]
    """
    queries: IntArray = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return queries


def query_of(rows: ArrayLike, offsets: IntArray) -> Any:
    """The index of the query that each of some rows belongs to.

    >>> query_of([4, 0], np.array([0, 2, 5])).tolist()
    [1, 0]
    """
    return np.searchsorted(offsets, rows, side="right") - 1


def query_index(queries: ArrayLike | slice, n_queries: int, query_ids: NDArray[Any] | None = None) -> IntArray:
    """The chosen queries as indices, each once: of indices, a boolean mask over queries, or a slice.

    With `query_ids`, texts are ids. Whole numbers are indices all the same; ids that are numbers are found by their
    texts.

    >>> query_index([True, False, True], 3).tolist(), query_index(slice(1, None), 3).tolist()
    ([0, 2], [1, 2])
    >>> query_index(["tv"], 2, np.array(["radio", "tv"])).tolist(), query_index("7", 2, np.array([5, 7])).tolist()
    ([1], [1])
    """
    if isinstance(queries, slice):
        index = np.arange(n_queries)[queries]
    elif query_ids is not None and (wanted := _texts(as_array(queries, "queries"))) is not None:
        index = find_rows(wanted, query_ids)
        missing = np.flatnonzero(index < 0)
        if len(missing):
            raise DataError(
                f"queries: {quoted(wanted[missing[0]])} is no query id ({len(missing):,} of {len(index):,} are none); "
                f"expected ids as in the data, such as {quoted(query_ids[0])}, or indices"
            )
    else:
        index = np.atleast_1d(as_array(queries, "queries"))
        if index.dtype == np.bool_:
            if index.shape != (n_queries,):
                raise DataError(f"queries: mask of shape {index.shape}; expected ({n_queries},)")
            index = np.flatnonzero(index)
    if not len(index):
        raise DataError("queries: none chosen; expected at least one")
    if index.ndim != 1 or not np.issubdtype(index.dtype, np.integer):
        raise DataError(f"queries: {index.dtype} of shape {index.shape}; expected query indices or a mask")
    outside = (index < 0) | (index >= n_queries)
    if outside.any():
        first = index[outside][0]
        is_id = query_ids is not None and find_rows(np.array([str(first)]), query_ids)[0] >= 0
        hint = f" (whole numbers are indices; the query with this id is '{first}', as a text)" if is_id else ""
        raise DataError(f"queries: index {first}; expected 0 to {n_queries - 1}{hint}")
    values, counts = np.unique(index, return_counts=True)
    if len(values) < len(index):
        raise DataError(f"queries: index {values[counts > 1][0]} is chosen more than once")
    return index.astype(np.int64)


def _texts(given: NDArray[Any]) -> NDArray[Any] | None:
    """One or several texts as an array of them; None where something else was given."""
    flat = np.atleast_1d(given)
    is_text = flat.ndim == 1 and len(flat) > 0 and (flat.dtype.kind in "UT" or all(isinstance(x, str) for x in flat))
    return flat.astype(np.str_) if is_text else None


def take_ranges(offsets: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """The rows of some ranges one behind the other, and the offsets of these: those of chosen queries, for example.

    >>> offsets, rows = take_ranges(np.array([0, 2, 3, 5]), np.array([2, 0]))
    >>> offsets.tolist(), rows.tolist()
    ([0, 2, 4], [3, 4, 0, 1])
    """
    lengths = np.diff(offsets)[chosen]
    found: IntArray = np.concatenate(([0], np.cumsum(lengths)))
    rows: IntArray = np.arange(found[-1]) + np.repeat(offsets[:-1][chosen] - found[:-1], lengths)
    return found, rows


def encode(ids: NDArray[Any]) -> tuple[IntArray, NDArray[Any]]:
    """Each id as a number counted from 0 in order of first appearance, and the distinct ids in that order.

    >>> codes, distinct = encode(np.array(["b", "a", "b"]))
    >>> codes.tolist(), distinct.tolist()
    ([0, 1, 0], ['b', 'a'])
    """
    import pyarrow as pa

    encoded = pa.array(ids).dictionary_encode()
    codes: IntArray = encoded.indices.to_numpy().astype(np.int64)
    distinct = encoded.dictionary.to_numpy(zero_copy_only=False)
    return codes, distinct.astype(ids.dtype)


def group_rows(codes: IntArray, n_queries: int) -> tuple[IntArray, IntArray, bool]:
    """Gather rows by query, otherwise in their order: offsets, the new place of each row, and whether any row moved.

    >>> offsets, place, moved = group_rows(np.array([0, 1, 0]), 2)
    >>> offsets.tolist(), place.tolist(), moved
    ([0, 2, 3], [0, 2, 1], True)
    """
    offsets: IntArray = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=n_queries))))
    if np.all(codes[1:] >= codes[:-1]):
        return offsets, np.arange(len(codes)), False
    place = np.empty(len(codes), dtype=np.int64)
    place[np.argsort(codes, kind="stable")] = np.arange(len(codes))
    return offsets, place, True


@exact_kernel
def first_query_with_repeat(first: int, last: int, offsets: Array, codes: Array) -> int:
    """The first query in which a number of `codes` occurs twice, or -1."""
    rows = np.empty(4 * longest_of(first, last, offsets), np.int64)  # of one query, found by the hash of their codes
    for q in range(first, last):
        size = 1
        while size < 2 * (offsets[q + 1] - offsets[q]):
            size *= 2
        rows[:size] = -1
        for row in range(offsets[q], offsets[q + 1]):
            slot = np.int64(mixed(np.uint64(codes[row])) & np.uint64(size - 1))
            while rows[slot] >= 0:
                if codes[rows[slot]] == codes[row]:
                    return q
                slot = (slot + 1) % size
            rows[slot] = row
    return -1


def first_repeat_in_query(
    doc_ids: NDArray[Any], offsets: IntArray, threads: int | None = None
) -> tuple[int, int, int] | None:
    """The first query that names a document twice, with the two rows; None where all is well.

    >>> first_repeat_in_query(np.array([7, 8, 7, 7]), np.array([0, 3, 4]))
    (0, 0, 2)
    """
    codes = doc_ids if doc_ids.dtype == np.int64 else encode(doc_ids)[0]
    for query in for_queries(first_query_with_repeat, offsets, codes, threads=threads):
        if query >= 0:
            start, end = offsets[query], offsets[query + 1]
            seen: dict[Any, int] = {}
            for row in range(start, end):
                if (code := codes[row]) in seen:
                    return int(query), seen[code], row
                seen[code] = row
    return None


def find_rows(wanted: Any, ids: Any, queries: IntArray | None = None, offsets: IntArray | None = None) -> IntArray:
    """Where each wanted id stands among `ids`, which are unique; -1 where it is not.

    With `queries`, each wanted id is looked for among the rows of its own query (ids are unique within queries), and
    not at all where its query is -1. Numbers and the strings that write them are the same id. Ids are numpy or Arrow
    arrays.

    >>> find_rows(np.array([7, 5, 9]), np.array([5, 7])).tolist()
    [1, 0, -1]
    >>> find_rows(np.array(["a", "b"]), np.array(["a", "a"]), np.array([1, 0]), np.array([0, 1, 2])).tolist()
    [1, -1]
    """
    import pyarrow.compute as pc

    looked_up, known = _comparable(wanted, ids)
    encoded = known.dictionary_encode()
    codes, distinct = encoded.indices.to_numpy().astype(np.int64), encoded.dictionary
    places = pc.index_in(looked_up, value_set=distinct).fill_null(-1)
    found: IntArray = places.to_numpy(zero_copy_only=False).astype(np.int64)
    if queries is None or offsets is None:
        return found
    keys = query_of_rows(offsets) * len(distinct) + codes
    order = np.argsort(keys, kind="stable")
    looked_for = np.where((queries < 0) | (found < 0), -1, queries * len(distinct) + found)
    places = np.minimum(np.searchsorted(keys[order], looked_for), len(keys) - 1)
    rows: IntArray = np.where(keys[order][places] == looked_for, order[places], -1)
    return rows


def _comparable(*columns: Any) -> list[Any]:
    """Ids as Arrow arrays of one type: int64 where all are whole numbers that fit, else texts."""
    import pyarrow as pa

    arrays = [column if isinstance(column, pa.Array) else pa.array(column) for column in columns]
    if all(pa.types.is_integer(array.type) for array in arrays):
        try:
            return [array.cast(pa.int64()) for array in arrays]
        except pa.ArrowInvalid:  # beyond int64
            pass
    return [array.cast(pa.large_string()) for array in arrays]


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
        bits: the features as whole numbers of 32 bits; zeros do not count, with either sign, and missing values (NaN)
            are all the same.
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
                if (word & np.uint64(0x7FFFFFFF)) > np.uint64(0x7F800000):
                    word = np.uint64(0x7FC00000)
                values += factors[f] * (word if word != np.uint64(0x80000000) else np.uint64(0))
            total += mixed(documents[row] ^ mixed(values))
        out[q] = mixed(total + queries[q])


def identity(data: RankingData) -> str:
    """A name for the queries and documents of the data; features and labels play no part in it.

    >>> from counterrank.data import RankingData
    >>> data = RankingData([[1.0], [3.0]], [0, 2])
    >>> identity(data) == identity(data.normalized()), identity(data) == identity(data.subset([0]))
    (True, True)
    >>> identity(data) == identity(RankingData([[1.0], [3.0]], [0, 2], doc_ids=["a", "b"]))
    False
    """
    found: str = data._cached("identity", lambda: digest_of(data.offsets, data.query_ids, data.doc_ids))
    return found


def query_keys(data: RankingData, features: Sequence[str] | None = None) -> HashArray:
    """A 64-bit key of each query, from its id, the ids of its documents and their features.

    Equal ids in different data have different keys. The order of documents does not matter, nor that of features with
    names, nor columns of zeros behind the last feature. Made once for each data.

    Arguments:
        data: the queries.
        features: the names that count, where the data has all of them and others; all features if None.

    >>> from counterrank.data import RankingData
    >>> data = RankingData([[1.0], [3.0], [2.0]], [0, 2, 3])
    >>> wide, other = data.widened(2), RankingData([[1.0], [4.0], [2.0]], [0, 2, 3])
    >>> (query_keys(wide) == query_keys(data)).tolist(), (query_keys(other) == query_keys(data)).tolist()
    ([True, True], [False, True])
    """
    if features is not None and data.has_feature_names and set(features) < set(data.feature_names):
        return _query_keys(data, set(features))
    keys: HashArray = data._cached("query_keys", lambda: _query_keys(data, set(data.feature_names)))
    return keys


def _query_keys(data: RankingData, features: set[str]) -> HashArray:
    factors: HashArray = np.array([_factor(name) * (name in features) for name in data.feature_names], np.uint64)
    keys: HashArray = np.empty(data.n_queries, np.uint64)
    documents, queries = hash_ids(data.doc_ids), hash_ids(data.query_ids)
    for_queries(hash_queries, data.offsets, data.features.view(np.uint32), factors, documents, queries, keys)
    keys.flags.writeable = False
    return keys


def _factor(name: str) -> int:
    """An odd number for a feature, by its name; by its number where it has none, since its name is `feature_7` then."""
    number = name.removeprefix("feature_")
    if number != name and number.isascii() and number.isdigit() and len(number) < 10:
        return int(mixed(np.uint64(int(number)))) | 1
    return int(hash_ids(np.array([name]))[0]) | 1


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


def uniform_keys(ids: NDArray[Any], seed: int = 0) -> NDArray[np.float64]:
    """A number in [0, 1) for each id, uniform over ids: a hash of its text and the seed, the same everywhere.

    A number and its text have the same one.

    >>> uniform_keys(np.array([7])) == uniform_keys(np.array(["7"]))
    array([ True])
    """
    salt = seed.to_bytes(16, "little")
    texts = (str(each).encode("utf-8", "surrogatepass") for each in ids.tolist())
    digests = b"".join(hashlib.blake2b(text, digest_size=8, salt=salt).digest() for text in texts)
    # 53 bits, all that a float64 holds exactly
    return (np.frombuffer(digests, "<u8") >> np.uint64(11)).astype(np.float64) / 2.0**53


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
    """`identity` of queries that begin at these offsets, with the ids of queries and documents.

    >>> digest_of(np.array([0, 1]), np.array(["q"]), np.array([7])) == digest_of(np.array([0, 1]), np.array(["q"]))
    False
    """
    digest = hashlib.blake2b(offsets.tobytes(), digest_size=16)
    for ids in columns:
        digest.update(ids.dtype.kind.encode())
        if ids.dtype.kind != "U":
            digest.update(ids.astype("<i8").tobytes())
            continue
        import pyarrow as pa

        # as text of its own length: the width of numpy's strings depends on what else was in the array
        lengths, content = pa.array(ids).cast(pa.large_string()).buffers()[1:]
        digest.update(np.frombuffer(lengths, np.int64, len(ids) + 1).tobytes())
        if content is not None:
            digest.update(content)
    return digest.hexdigest()


def in_rows(values: NDArray[Any], rows: IntArray) -> NDArray[Any]:
    """Each value at its row.

    >>> in_rows(np.array([5, 7]), np.array([1, 0])).tolist()
    [7, 5]
    """
    placed = np.empty_like(values)
    placed[rows] = values
    return placed

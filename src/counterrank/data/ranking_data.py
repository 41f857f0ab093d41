"""`RankingData`: the documents of many queries as one matrix, without padding; `Fold`: its train, validation and test
parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.checks import (
    Float32Array,
    IntArray,
    as_array,
    check_number,
    check_offsets,
    check_type,
    check_vector,
    check_whole,
    make_generator,
)
from counterrank.common.errors import CounterrankError, DataError, did_you_mean
from counterrank.common.files import PathLike
from counterrank.common.notebook import Shown, Summary
from counterrank.common.parallel import for_queries
from counterrank.data.data_cards import data_card, data_summary, fold_card, fold_summary
from counterrank.data.feature_columns import SourceColumns
from counterrank.data.features import (
    align_features,
    as_matrix,
    check_feature_names,
    check_finite,
    count_missing,
    scale_queries,
)
from counterrank.data.ids import (
    check_ids,
    first_repeat_in_query,
    place_in_query,
    query_index,
    take_ranges,
    uniform_keys,
)
from counterrank.data.parquet import parquet_fields, write_parquet


class RankingData(Shown):
    """Features, labels and ids of query-document pairs; immutable, and validated on construction.

    The documents of query `i` are rows `offsets[i]:offsets[i + 1]`. What is handed over is copied, unless
    it is float32 in C order and read-only already (`array.flags.writeable = False` saves the copy of a large matrix).

    Arguments:
        features: one row per document; NaN where a value is missing, which only trees accept.
        offsets: where each query starts, and the number of documents at the end; no query is empty.
        labels: relevance, one number per document, or None.
        query_ids: one id per query (whole numbers or strings); counted from 0 if None.
        doc_ids: one id per document, unique within its query; its place in the query from 0 if None.
        feature_names: one name per feature, all different; `feature_1` and so on if None.

    >>> data = RankingData([[1.0], [3.0], [2.0]], offsets=[0, 2, 3], labels=[0, 1, 1])
    >>> data
    RankingData(2 queries, 3 documents, 1 feature, 1-2 documents a query, labels 0: 33.3 %, 1: 66.7 %)
    >>> data.doc_ids.tolist()
    [0, 1, 0]
    """

    __slots__ = (
        "_cache", "_columns", "_doc_ids", "_feature_names", "_features", "_labels", "_offsets", "_query_ids",
        "_regrouped", "_source",
    )  # fmt: skip

    _features: Float32Array
    _offsets: IntArray
    _labels: Float32Array | None
    _query_ids: NDArray[Any]
    _doc_ids: NDArray[Any]
    _source: str | None
    _regrouped: bool
    _feature_names: tuple[str, ...] | None
    _columns: SourceColumns | None
    _cache: dict[str, Any]

    def __init__(
        self,
        features: ArrayLike,
        offsets: ArrayLike,
        labels: ArrayLike | None = None,
        query_ids: ArrayLike | None = None,
        doc_ids: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        matrix = as_matrix(features)
        # a copy: kernels go where the offsets point, so nobody may change them behind the checks
        bounds = check_offsets(offsets, len(matrix)).copy()
        check_finite(matrix, bounds)
        given = None if labels is None else _as_labels(labels, len(matrix))
        n_queries = len(bounds) - 1
        if query_ids is None:
            queries: NDArray[Any] = np.arange(n_queries)
        else:
            queries = check_ids(query_ids, n_queries, "query_ids")
            _check_unique_queries(queries)
        if doc_ids is None:
            documents: NDArray[Any] = place_in_query(bounds)
        else:
            documents = check_ids(doc_ids, len(matrix), "doc_ids")
            _check_unique_documents(documents, queries, bounds)
        names = None if feature_names is None else check_feature_names(feature_names, matrix.shape[1])
        self._set(matrix, bounds, given, queries, documents, feature_names=names)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: ranking data cannot be changed; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name}: ranking data cannot be changed; make a new one")

    def _set(
        self,
        features: Float32Array,
        offsets: IntArray,
        labels: Float32Array | None,
        query_ids: NDArray[Any],
        doc_ids: NDArray[Any],
        source: str | None = None,
        regrouped: bool = False,
        feature_names: tuple[str, ...] | None = None,
        columns: SourceColumns | None = None,
    ) -> None:
        names = ("_features", "_offsets", "_labels", "_query_ids", "_doc_ids")
        for name, array in zip(names, (features, offsets, labels, query_ids, doc_ids), strict=True):
            object.__setattr__(self, name, None if array is None else _frozen(array))
        object.__setattr__(self, "_source", source)
        object.__setattr__(self, "_regrouped", regrouped)
        object.__setattr__(self, "_feature_names", feature_names)
        object.__setattr__(self, "_columns", columns)
        object.__setattr__(self, "_cache", {})

    @classmethod
    def _trusted(cls, *fields: Any) -> RankingData:
        """From arrays that are known to be right (made by this package from checked ones); arguments of `_set`."""
        data = cls.__new__(cls)
        data._set(*fields)
        return data

    def _fields(self) -> tuple[Any, ...]:
        arrays = (self._features, self._offsets, self._labels, self._query_ids, self._doc_ids)
        return *arrays, self._source, self._regrouped, self._feature_names, self._columns

    def __reduce__(self) -> tuple[Any, ...]:
        return RankingData._trusted, self._fields()

    def __copy__(self) -> RankingData:
        return self  # nothing in it can change

    def __deepcopy__(self, memo: dict[int, Any]) -> RankingData:
        return self

    @property
    def features(self) -> Float32Array:
        """The feature matrix, (documents, features), C order."""
        return self._features

    @property
    def labels(self) -> Float32Array | None:
        """The relevance label of each document, or None."""
        return self._labels

    @property
    def offsets(self) -> IntArray:
        """Where the rows of each query begin and end, (queries + 1)."""
        return self._offsets

    @property
    def query_ids(self) -> NDArray[Any]:
        """The id of each query, int64 or strings."""
        return self._query_ids

    @property
    def doc_ids(self) -> NDArray[Any]:
        """The id of each document, int64 or strings."""
        return self._doc_ids

    @property
    def source(self) -> str | None:
        """The file that the data was read from, or how it was made; None if unknown."""
        return self._source

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of each feature: as given, else `feature_1` and so on.

        >>> RankingData([[1.0, 3.0]], [0, 1]).feature_names
        ('feature_1', 'feature_2')
        """
        if self._feature_names is not None:
            return self._feature_names
        return tuple(f"feature_{i + 1}" for i in range(self.n_features))

    @property
    def has_feature_names(self) -> bool:
        """Whether feature names were given, rather than numbered."""
        return self._feature_names is not None

    @property
    def columns(self) -> SourceColumns | None:
        """The columns of the frame or file that the data was made from; None if it had none.

        A dict from the role ("query", "document", "label") to the name of the column; its attributes `features` and
        `left_out` have the other columns.

        >>> import pyarrow as pa
        >>> frame = pa.table({"search": ["tv"], "sku": [3], "price": [9.5], "title": ["32 inch"]})
        >>> columns = RankingData.from_frame(frame, query="search", document="sku").columns
        >>> columns, columns.features, columns.left_out
        ({'query': 'search', 'document': 'sku'}, ('price',), {'title': 'text'})
        """
        found = self._columns
        return None if found is None else SourceColumns(found, self.feature_names, found.left_out)

    @property
    def n_missing(self) -> int:
        """The number of missing values (NaN) among the features."""
        return int(self._cached("n_missing", lambda: sum(for_queries(count_missing, self._offsets, self._features))))

    def _cached(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` computes from this data, computed once: nothing in it can change."""
        if name not in self._cache:
            self._cache[name] = make()
        return self._cache[name]

    @property
    def regrouped(self) -> bool:
        """Whether the rows of the file were brought into another order, because rows of a query were not contiguous."""
        return self._regrouped

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self._offsets) - 1

    @property
    def n_docs(self) -> int:
        """The number of documents of all queries together."""
        return len(self._features)

    @property
    def n_features(self) -> int:
        """The number of features of a document."""
        return int(self._features.shape[1])

    @property
    def lengths(self) -> IntArray:
        """The number of documents of each query."""
        return np.diff(self._offsets)

    def __len__(self) -> int:
        return self.n_queries

    def __repr__(self) -> str:
        low, high = int(self.lengths.min()), int(self.lengths.max())
        parts = [
            _count(self.n_queries, "query", "queries"),
            _count(self.n_docs, "document", "documents"),
            _count(self.n_features, "feature", "features"),
            *([_count(self.n_missing, "missing value", "missing values")] if self.n_missing else []),
            f"{_count(low, 'document', 'documents') if low == high else f'{low:,}-{high:,} documents'} a query",
            "no labels" if self._labels is None else f"labels {_describe_labels(self._labels)}",
        ]
        return f"RankingData({', '.join(parts)})"

    def summary(self) -> Summary:
        """Sizes, labels and source, as a dict that prints as a table.

        >>> RankingData([[1.0], [3.0]], [0, 2]).summary()["documents"]
        2
        """
        return data_summary(self)

    def _repr_html_(self) -> str:
        return data_card(self)

    def subset(self, queries: ArrayLike | slice) -> RankingData:
        """The chosen queries, in the order given: indices, a boolean mask over queries, or a slice.

        >>> RankingData([[1.0], [3.0], [2.0]], [0, 2, 3], doc_ids=["a", "b", "c"]).subset([1]).doc_ids
        array(['c'], dtype='<U1')
        """
        index = query_index(queries, self.n_queries)
        offsets, rows = take_ranges(self._offsets, index)
        chosen = RankingData._trusted(
            self._features[rows],
            offsets,
            None if self._labels is None else self._labels[rows],
            self._query_ids[index],
            self._doc_ids[rows],
            *self._fields()[5:],
        )
        if "query_keys" in self._cache:
            chosen._cache["query_keys"] = self._cache["query_keys"][index]
        return chosen

    def split(self, shares: Sequence[float], seed: int = 0) -> Fold:
        """A fold with these shares of the queries: train, validation and test, or train and test.

        The part of a query follows from a hash of its id's text and the seed alone, so it is the same in later or
        larger data, on every machine, whatever the other queries are; the shares are met on average. With u the hash in
        [0, 1), train is u < shares[0] and test u >= 1 - shares[-1]. Other shares therefore move the boundaries only:
        test keeps its queries where it keeps its share, and train keeps those it has where it grows.

        Arguments:
            shares: 2 or 3 numbers above 0 that sum to 1.
            seed: another seed gives another split.

        >>> data = RankingData(np.zeros((100, 1)), np.arange(101))
        >>> fold = data.split([0.6, 0.2, 0.2])
        >>> fold.train.n_queries, fold.validation.n_queries, fold.test.n_queries
        (62, 20, 18)
        """
        given = [check_number(share, "shares", above=0, below=1) for share in shares]
        if len(given) not in (2, 3) or abs(sum(given) - 1.0) > 1e-6:
            shown = ",".join(f"{share:g}" for share in given)
            raise CounterrankError(f"shares={shown}: expected 2 or 3 numbers that sum to 1, such as 0.6,0.2,0.2")
        keys = uniform_keys(self._query_ids, check_whole(seed, "seed", 0))
        train, test = keys < given[0], keys >= 1.0 - given[-1]
        masks = {"train": train & ~test, "validation": ~train & ~test, "test": test}
        if len(given) == 2:
            masks["train"] = ~test
            del masks["validation"]
        for name, mask in masks.items():
            if not mask.any():
                raise DataError(f"shares: no query falls into {name}, of {self.n_queries:,}; expected more queries")
        parts = {name: self.subset(mask) for name, mask in masks.items()}
        return Fold(parts["train"], parts.get("validation"), parts["test"])

    def normalized(self) -> RankingData:
        """Every feature scaled to [0, 1] within each query; features constant in a query become 0.

        Missing values stay missing; the others are scaled by the smallest and the largest of them.

        >>> RankingData([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]], [0, 3]).normalized().features.tolist()
        [[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]]
        """
        scaled = np.empty_like(self._features)
        for_queries(scale_queries, self._offsets, self._features, scaled)
        return RankingData._trusted(scaled, *self._fields()[1:])

    def select_features(self, names: Sequence[str]) -> RankingData:
        """The features with these names, in this order; the matrix is copied.

        >>> data = RankingData([[1.0, 2.0, 3.0]], [0, 1], feature_names=["price", "stock", "rating"])
        >>> data.select_features(["rating", "price"]).features.tolist()
        [[3.0, 1.0]]
        """
        wanted = [names] if isinstance(names, str) else list(names)
        place = {name: column for column, name in enumerate(self.feature_names)}
        unknown = [name for name in wanted if name not in place]
        if unknown:
            hint = did_you_mean(unknown[0], place)
            raise DataError(f"names: {unknown[0]!r} is no feature of the data; expected names in feature_names{hint}")
        if not wanted:
            raise DataError("names: none; expected at least one feature")
        chosen = check_feature_names(wanted, len(wanted), "names")
        matrix = self._features[:, [place[name] for name in chosen]]
        *others, _, columns = self._fields()[1:]
        return RankingData._trusted(np.ascontiguousarray(matrix), *others, chosen, columns)

    def widened(self, n_features: int) -> RankingData:
        """The same data with columns of zeros appended, up to `n_features`; itself if it already has that many.

        >>> RankingData([[1.0], [3.0]], [0, 2]).widened(2).features.tolist()
        [[1.0, 0.0], [3.0, 0.0]]
        """
        if n_features < self.n_features:
            raise DataError(f"n_features={n_features}: expected at least the {self.n_features} there are")
        if n_features == self.n_features:
            return self
        wide = np.zeros((self.n_docs, n_features), np.float32)
        wide[:, : self.n_features] = self._features
        *others, names, columns = self._fields()[1:]
        if names is not None:
            names = names + tuple(f"feature_{i + 1}" for i in range(self.n_features, n_features))
        return RankingData._trusted(wide, *others, names, columns)

    def equals(self, other: object) -> bool:
        """Whether the other is ranking data with the same features and their names, offsets, labels and ids.

        >>> data = RankingData([[1.0], [3.0]], [0, 2])
        >>> data.equals(data.subset([0])), data.equals(data.normalized())
        (True, False)
        """
        if not isinstance(other, RankingData) or (self._labels is None) != (other._labels is None):
            return False
        pairs = zip(self._fields()[:5], other._fields()[:5], strict=True)
        return self.feature_names == other.feature_names and all(
            a is b or (a.dtype.kind == b.dtype.kind and np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
            for a, b in pairs
        )

    def save(self, path: PathLike) -> None:
        """Write one Parquet file: `query_id`, `doc_id`, `label` (if any), `features` as fixed-size list."""
        write_parquet(self, path)

    @classmethod
    def load(cls, path: PathLike) -> RankingData:
        """Read what `save` wrote, or any Parquet file with those columns."""
        return read_parquet(path)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        query: str | None = None,
        document: str | None = None,
        label: str | None = None,
        features: Sequence[str] | None = None,
    ) -> RankingData:
        """Ranking data from a frame with one row for each query-document pair and one column for each feature.

        Queries are in order of their first row, and the documents of a query in the order of their rows, which need not
        stand together. The matrix of features is the only copy. Nulls in features become NaN. Ids are whole numbers or
        texts, also of categories; whole numbers held as floats (17.0) are read as such. Rows in messages count from 0.

        Arguments:
            frame: a frame of pandas or polars (a lazy one is collected), an Arrow table, batch or reader, a DuckDB
                relation, or any object with the method `__arrow_c_stream__`. The index of a pandas frame is left out.
            query, document: the columns with the ids; a document has one row in a query. They may be left out for a
                table that `to_arrow` made.
            label: the column with labels, if any.
            features: the columns to use, in this order, where numbers may be held as text; all columns of numbers and
                booleans that are left if None. `columns` says which these are, and why others are left out.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"search": ["tv", "radio", "tv"], "sku": [3, 3, 5], "price": [9.5, 2.0, None]})
        >>> data = RankingData.from_frame(frame, query="search", document="sku")
        >>> data.feature_names, data.query_ids.tolist(), data.features.ravel().tolist()
        (('price',), ['tv', 'radio'], [9.5, nan, 2.0])
        """
        from counterrank.data.frames import from_frame  # which needs this class

        return from_frame(frame, query, document, label, features)

    def to_arrow(self) -> Any:
        """An Arrow table with one row per document: query, id, label (if any), and one column per feature.

        The columns have the names of the frame that the data was made from, else `query_id`, `doc_id` and `label`.
        Missing values are null. `from_frame(table)` is this data again; `table.to_pandas()` and
        `polars.from_arrow(table)` make frames of it.

        >>> RankingData([[1.0], [3.0]], [0, 2], labels=[0, 1], feature_names=["price"]).to_arrow().to_pydict()
        {'query_id': [0, 0], 'doc_id': [0, 1], 'label': [0.0, 1.0], 'price': [1.0, 3.0]}
        """
        from counterrank.data.frames import to_arrow

        return to_arrow(self)


def _as_labels(labels: ArrayLike, n_docs: int) -> Float32Array:
    """Labels as finite float32, one per document."""
    values = check_vector(labels, n_docs, "labels")
    with np.errstate(over="ignore"):
        small = values.astype(np.float32)
    if not np.isfinite(small).all():
        row = int(np.argmin(np.isfinite(small)))
        raise DataError(f"labels: entry {row} is {values[row]}; expected numbers that fit float32")
    return small


def _check_unique_queries(query_ids: NDArray[Any]) -> None:
    """An error that names the two queries that share an id."""
    values, counts = np.unique(query_ids, return_counts=True)
    if len(values) < len(query_ids):
        again = values[counts > 1][0]
        places = np.flatnonzero(query_ids == again)[:2].tolist()
        raise DataError(f"query_ids: {again!s} stands for queries {places[0]} and {places[1]}; expected unique ids")


def _check_unique_documents(doc_ids: NDArray[Any], query_ids: NDArray[Any], offsets: IntArray) -> None:
    """An error that names the two rows of a query that share an id."""
    found = first_repeat_in_query(doc_ids, offsets)
    if found is not None:
        query, first, second = found
        raise DataError(
            f"doc_ids: document {doc_ids[first]!s} occurs twice in query {query_ids[query]!s} "
            f"(rows {first} and {second}); expected each document once per query"
        )


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written, nor be made so again."""
    array.flags.writeable = False
    view = array.view()
    view.flags.writeable = False
    return view


def _count(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def _describe_labels(labels: Float32Array) -> str:
    values, counts = np.unique(labels, return_counts=True)
    if len(values) > 8:
        return f"{values[0]:g} to {values[-1]:g}"
    shares = [f"{value:g}: {share:.1%}" for value, share in zip(values, counts / len(labels), strict=True)]
    return ", ".join(shares).replace("%", " %")


def read_parquet(path: PathLike) -> RankingData:
    """Ranking data from one Parquet file with the columns `write_parquet` writes; others are ignored.

    Features may be lists of any one length, float32 or float64. Rows of a query may stand apart.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "data.parquet"
    >>> write_parquet(RankingData([[1.0], [2.0]], [0, 2], doc_ids=["a", "b"]), file)
    >>> read_parquet(file).doc_ids.tolist()
    ['a', 'b']
    """
    return RankingData._trusted(*parquet_fields(path))


def from_arrays(
    features: ArrayLike, qid: ArrayLike | None = None, group: ArrayLike | None = None, name: str = "X"
) -> RankingData:
    """Ranking data of a matrix with the query of each row (`qid`) or the number of rows of each query (`group`).

    The rows of a query must follow each other. `name` is what an error calls the matrix; a frame gives its features
    the names of its columns.

    >>> from_arrays([[1.0], [2.0], [3.0]], qid=[7, 7, 9]).offsets.tolist()
    [0, 2, 3]
    >>> from_arrays([[1.0], [2.0], [3.0]], group=[1, 2]).offsets.tolist()
    [0, 1, 3]
    """
    matrix = as_array(features, name)
    if matrix.ndim != 2:
        raise DataError(f"{name}: shape {matrix.shape}; expected one row per document and one column per feature")
    names = _column_names(features, matrix.shape[1])
    if qid is not None and group is None:
        ids, offsets = _runs(as_array(qid, "qid"), len(matrix))
        return RankingData(matrix, offsets, query_ids=ids, feature_names=names)
    if group is None or qid is not None:
        raise CounterrankError(f"qid, group: expected one of them with the array {name}, to separate its queries")
    sizes = as_array(group, "group")
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or not len(sizes) or sizes.min() < 1:
        raise CounterrankError("group: expected the number of rows of each query, whole numbers of at least 1")
    if sizes.sum() != len(matrix):
        raise CounterrankError(f"group: {int(sizes.sum())} rows in all; expected {len(matrix)}, as {name} has")
    return RankingData(matrix, np.concatenate(([0], np.cumsum(sizes))), feature_names=names)


def _column_names(matrix: Any, n: int) -> list[str] | None:
    """The names of the columns of a frame; None of an array, and where columns have no names."""
    # of the type, since an attribute of a frame may be a column
    attribute = next((name for name in ("column_names", "columns") if hasattr(type(matrix), name)), None)
    names = [] if attribute is None else list(getattr(matrix, attribute))
    return names if len(names) == n and all(isinstance(name, str) for name in names) else None


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
            f"qid: row {int(starts[again])} continues query {ids[again]!s}; expected the rows of a query together "
            "(sort by qid)"
        )
    return ids, np.append(starts, n)


@dataclass(frozen=True, repr=False)
class Fold(Shown):
    """Train, validation (or None) and test data with the same features.

    Features of the other parts are brought into the order of train where they have names.

    >>> part = RankingData([[1.0], [2.0]], [0, 1, 2])
    >>> Fold(train=part, validation=None, test=part)
    Fold(train=RankingData(2 queries, 2 documents, 1 feature, 1 document a query, no labels), validation=None, \
test=RankingData(2 queries, 2 documents, 1 feature, 1 document a query, no labels))
    """

    train: RankingData
    validation: RankingData | None
    test: RankingData

    def __post_init__(self) -> None:
        for name, part in list(vars(self).items()):
            if part is None and name == "validation":
                continue
            check_type(part, RankingData, name)
            number = f"expected {self.train.n_features}, as in train"
            given = self.train.feature_names, self.train.has_feature_names
            aligned = align_features(part, *given, what=name, reference="train", number=number)
            object.__setattr__(self, name, aligned)

    def __repr__(self) -> str:
        return f"Fold({', '.join(f'{name}={part!r}' for name, part in vars(self).items())})"

    def summary(self) -> Summary:
        """The summary of each part, as a dict that prints as a table."""
        return fold_summary(self)

    def _repr_html_(self) -> str:
        return fold_card(self)

    @property
    def n_features(self) -> int:
        """The number of features, the same in all parts."""
        return self.train.n_features

    def split_validation(self, share: float = 0.15, seed: int | np.random.Generator = 0) -> Fold:
        """A fold whose validation part is a random share of train's queries, taken out of train.

        Both parts keep the order of train and have at least one query.

        >>> part = RankingData(np.zeros((10, 1)), np.arange(11))
        >>> fold = Fold(train=part, validation=None, test=part).split_validation(share=0.2, seed=0)
        >>> fold.train.n_queries, fold.validation.n_queries
        (8, 2)
        """
        if self.validation is not None:
            raise DataError(
                f"validation: the fold has one already ({self.validation.n_queries} queries); expected None"
            )
        check_number(share, "share", above=0, below=1)
        n = self.train.n_queries
        if n < 2:
            raise DataError("train: 1 query; expected at least 2 to split off a validation part")
        chosen = np.zeros(n, dtype=np.bool_)
        size = min(max(round(share * n), 1), n - 1)
        chosen[make_generator(seed).choice(n, size=size, replace=False)] = True
        return replace(self, train=self.train.subset(~chosen), validation=self.train.subset(chosen))

"""Ranking data from columns, one for each feature: frames of pandas, polars, DuckDB and all else that speaks Arrow.

Columns are written straight into the feature matrix, some rows at a time, so that there is one copy of the features.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.checks import Float32Array, IntArray
from counterrank.common.errors import CounterrankError, DataError, brief, did_you_mean, listed, printable, warn_caller
from counterrank.data.feature_columns import (
    ROLES,
    SHOWN,
    Columns,
    SourceColumns,
    check_once,
    choose_features,
    is_number,
    is_text,
    numbers,
)
from counterrank.data.ids import first_repeat_in_query, group_rows, in_rows, place_in_query, query_of_rows
from counterrank.data.ranking_data import RankingData

_ROLE_PREFIX = "counterrank."  # of the metadata that `to_arrow` writes
BLOCK_ROWS, _COLUMNS = 1 << 14, 16  # written at a time: a line of the cache for each row, 1 MiB in all
_KINDS = "a frame of pandas or polars, an Arrow table, a DuckDB relation, or another Arrow stream"
_EXACT = 2.0**53  # whole numbers below it are exact in float64


def is_frame(value: object) -> bool:
    """Whether a value is a table of named columns: what `arrow_table` reads.

    >>> import pyarrow as pa
    >>> is_frame(pa.table({"query": [1]})), is_frame(np.zeros((2, 2))), is_frame({"query": [1]})
    (True, False, False)
    """
    import pyarrow as pa

    if isinstance(value, pa.Table | pa.RecordBatch | pa.RecordBatchReader) or _is_pandas(value) or _is_lazy(value):
        return True
    # a column alone has the interface too
    return hasattr(value, "__arrow_c_stream__") and not isinstance(value, pa.ChunkedArray) and not _is_series(value)


def _is_pandas(value: object) -> bool:
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)  # whoever made such a frame has imported it
    return frame is not None and isinstance(value, frame)


def _is_lazy(value: object) -> bool:
    return _is_polars(value) and type(value).__name__ == "LazyFrame"


def _is_polars(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "polars"


def _is_series(value: object) -> bool:
    return type(value).__name__ == "Series"


def is_column(value: object) -> bool:
    """Whether a value is a column of a frame: a Series of pandas or polars, or an Arrow array.

    >>> import pyarrow as pa
    >>> is_column(pa.array([1])), is_column(np.zeros(1)), is_column(pa.table({"query": [1]}))
    (True, False, False)
    """
    import pyarrow as pa

    return _is_series(value) or isinstance(value, pa.Array | pa.ChunkedArray)


def arrow_table(frame: Any, name: str = "frame") -> Any:
    """A frame as an Arrow table; the index of a pandas frame is left out. Numbers are not copied where Arrow can.

    Arguments:
        frame: a frame of pandas or polars (a lazy one is collected), an Arrow table, batch or reader, a DuckDB
            relation, or any object with the method `__arrow_c_stream__`.
        name: of the argument, for messages.

    >>> import pandas as pd
    >>> arrow_table(pd.DataFrame({"query": ["a", "b"]}, index=[7, 9])).to_pydict()
    {'query': ['a', 'b']}
    """
    if not is_frame(frame):
        raise DataError(f"{name}: {type(frame).__name__}; expected {_KINDS}")
    try:
        return _as_table(frame, name)
    except (MemoryError, DataError):
        raise
    except Exception as error:  # of whatever library the frame is
        raise DataError(f"{name}: {type(frame).__name__} that cannot be read as Arrow ({shortened(error)})") from error


def _as_table(frame: Any, name: str) -> Any:
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, pa.RecordBatchReader):
        return frame.read_all()
    if _is_pandas(frame):
        columns = PandasColumns(frame, name)
        return pa.table([columns.column(each) for each in columns.names], names=columns.names)
    if _is_polars(frame):  # its stream has types of text that older versions of pyarrow do not know
        return (frame.collect() if _is_lazy(frame) else frame).to_arrow()
    return pa.table(frame)


def shortened(error: Exception) -> str:
    """The message of an error in one line that is not too long."""
    words = printable(str(error))
    return words if len(words) <= 200 else words[:197] + "..."


class FrameColumns(Columns):
    """The columns of a frame in memory."""

    def __init__(self, name: str, names: list[str], n_rows: int) -> None:
        self.name, self._names, self._n_rows = name, names, n_rows

    @property
    def names(self) -> list[str]:
        """See `Columns`."""
        return self._names

    @property
    def n_rows(self) -> int:
        """See `Columns`."""
        return self._n_rows

    def mapping(self, role: str, name: str) -> str:
        """See `Columns`."""
        return f"{role}={name!r}"

    def metadata(self) -> dict[str, str]:
        """What the schema says besides; a frame of pandas has nothing."""
        return {}


class ArrowColumns(FrameColumns):
    """The columns of an Arrow table."""

    def __init__(self, table: Any, name: str = "frame") -> None:
        super().__init__(name, list(table.column_names), table.num_rows)
        self.table = table

    def kind(self, name: str) -> Any:
        """See `Columns`."""
        return self.table.schema.field(name).type

    def column(self, name: str) -> Any:
        """See `Columns`."""
        return self.table.column(name)

    def blocks(self, names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
        """See `Columns`."""
        columns = [self.table.column(name) for name in names]
        for start in range(0, self.n_rows, BLOCK_ROWS):
            yield start, [one_array(column.slice(start, BLOCK_ROWS)) for column in columns]

    def metadata(self) -> dict[str, str]:
        """See `FrameColumns`."""
        found = self.table.schema.metadata or {}
        return {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in found.items()}


class PandasColumns(FrameColumns):
    """The columns of a pandas frame, converted some rows at a time: pandas may hold them as rows of a matrix."""

    def __init__(self, frame: Any, name: str = "frame") -> None:
        super().__init__(name, [str(each) for each in frame.columns], len(frame))
        self.frame = frame
        named = (str(each) for each in frame.index.names if each is not None)
        self.in_index = [each for each in named if each not in self.names]

    def kind(self, name: str) -> Any:
        """See `Columns`."""
        series = self._series(name)
        # the type of Python objects is known only after all of them have been seen
        return self.column(name).type if series.dtype == object else self._converted(name, series.iloc[:0]).type

    def column(self, name: str) -> Any:
        """See `Columns`."""
        import pyarrow as pa

        found = self._converted(name, self._series(name))
        return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])

    def blocks(self, names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
        """See `Columns`."""
        columns = [self.column(name) if self._series(name).dtype == object else self._series(name) for name in names]
        for start in range(0, self.n_rows, BLOCK_ROWS):
            yield (
                start,
                [
                    one_array(
                        column.slice(start, BLOCK_ROWS)
                        if hasattr(column, "chunks")
                        else self._converted(name, column.iloc[start : start + BLOCK_ROWS])
                    )
                    for name, column in zip(names, columns, strict=True)
                ],
            )

    def _series(self, name: str) -> Any:
        return self.frame.iloc[:, self.names.index(name)]

    def _converted(self, name: str, series: Any) -> Any:
        import pyarrow as pa

        try:
            return pa.array(series, from_pandas=True)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            kinds: dict[str, int] = {}  # by type, the first row
            for row, (value, is_missing) in enumerate(zip(series, series.isna(), strict=True)):
                if not is_missing:
                    kinds.setdefault(type(value).__name__, row)
            why = f"cannot be read as Arrow ({shortened(error)})"
            if len(kinds) > 1:
                why = "holds values of several types, " + " and ".join(f"{each} in row {kinds[each]}" for each in kinds)
            raise DataError(
                f"{self.name}: column {name!r} {why}; expected one type of values: cast it, such as "
                f"frame[{name!r}].astype('string'), or leave it out"
            ) from None


def one_array(column: Any) -> Any:
    """An Arrow array, of a chunked one too; not copied where it has one chunk."""
    import pyarrow as pa

    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def frame_columns(frame: Any, name: str = "frame") -> ArrowColumns | PandasColumns:
    """The columns of a frame of any kind."""
    found = PandasColumns(frame, name) if _is_pandas(frame) else ArrowColumns(arrow_table(frame, name), name)
    if found.n_rows == 0:
        raise DataError(f"{name}: no rows; expected at least one document")
    return found


def from_frame(
    frame: Any,
    query: str | None = None,
    document: str | None = None,
    label: str | None = None,
    features: Sequence[str] | None = None,
) -> RankingData:
    """`RankingData.from_frame`, which says what it takes."""
    columns = frame_columns(frame)
    known = columns.metadata()
    if query is None and document is None and label is None:  # a table of `to_arrow` says which column is which
        query, document, label = (known.get(_ROLE_PREFIX + role) for role in ROLES)
    roles = {"query": query, "document": document, "label": label}
    for role in ("query", "document"):
        if roles[role] is None:
            raise CounterrankError(
                f"{role}: not given; expected the name of a column, of {listed(columns.names, SHOWN)}"
            )
    given = {role: name for role, name in roles.items() if name is not None}
    for role, name in given.items():
        if not isinstance(name, str):
            raise CounterrankError(f"{role}={brief(name)}: expected the name of a column")
        if name not in columns.names:
            raise DataError(
                f"{role}={name!r}: no such column; the frame has {listed(columns.names, SHOWN)}{_hint(columns, name)}"
            )
    return read_columns(columns, given, features)


def _hint(columns: FrameColumns, name: str) -> str:
    """The end of a message about a column that is not there: it is in the index of pandas, or has another name."""
    if name in columns.in_index:
        return "; it is in the index: frame.reset_index() makes it a column"
    return did_you_mean(name, columns.names)


def prediction_frame(frame: Any, query: str | None, features: Sequence[str]) -> tuple[RankingData, IntArray]:
    """Ranking data without labels from a frame, and for each row of the frame its row in the data.

    Scores of the data in the order of the frame are `scores[rows]`. Documents are numbered by their place in the query.

    Arguments:
        frame: what `arrow_table` reads, or its `frame_columns`; columns that are not named are ignored.
        query: the column with the query of each row; the rows of a query need not stand together. None to take all
            rows as one query.
        features: the columns to use as features, in this order.

    >>> import pyarrow as pa
    >>> frame = pa.table({"query": ["b", "a", "b"], "price": [1, 2, None]})
    >>> data, rows = prediction_frame(frame, "query", ["price"])
    >>> data.query_ids.tolist(), data.features.ravel().tolist(), rows.tolist()
    (['b', 'a'], [1.0, nan, 2.0], [0, 2, 1])
    """
    columns = frame if isinstance(frame, ArrowColumns | PandasColumns) else frame_columns(frame)
    if query is not None and query not in columns.names:
        hint = _hint(columns, query)
        raise DataError(f"query={query!r}: no such column; the frame has {listed(columns.names, SHOWN)}{hint}")
    roles = {} if query is None else {"query": query}
    names, left_out = choose_features(columns, roles, features)
    if query is None:
        ids, offsets, rows, moved = (
            np.zeros(1, np.int64),
            np.array([0, columns.n_rows]),
            np.arange(columns.n_rows),
            False,
        )
    else:
        check_once(columns, query)
        ids, offsets, rows, moved = _grouped(columns, query)
    matrix = _matrix(columns, names, rows, moved)
    source = SourceColumns(roles, left_out=left_out) if roles else None
    fields = matrix, offsets, None, ids, place_in_query(offsets), None, moved, names, source
    return RankingData._trusted(*fields), rows


def read_columns(
    columns: Columns, roles: Mapping[str, str], features: Sequence[str] | None, source: str | None = None
) -> RankingData:
    """Ranking data of columns, of which `roles` names those that hold queries, documents and labels (if any)."""
    for role, name in roles.items():
        check_once(columns, name)
        other = next((each for each in roles if each != role and roles[each] == name), None)
        if other is not None:
            raise DataError(f"{columns.name}: column {name!r} is {role} and {other}; expected two different columns")
    names, left_out = choose_features(columns, roles, features)
    query_ids, offsets, rows, moved = _grouped(columns, roles["query"])
    doc_ids = in_rows(_numpy_ids(read_ids(columns, roles["document"])), rows)
    _check_unique(columns, doc_ids, query_ids, offsets, rows)
    _warn_if_swapped(columns, roles, doc_ids, offsets)
    labels = in_rows(_labels(columns, roles["label"]), rows) if "label" in roles else None
    matrix = _matrix(columns, names, rows, moved)
    return RankingData._trusted(
        matrix, offsets, labels, query_ids, doc_ids, source, moved, names, SourceColumns(roles, left_out=left_out)
    )  # all is checked by here, with the rows of the source at hand


def _matrix(columns: Columns, names: Sequence[str], rows: IntArray, moved: bool) -> Float32Array:
    """The features in the order of `rows`, the new place of each row."""
    matrix = np.empty((columns.n_rows, len(names)), np.float32)
    for first in range(0, len(names), _COLUMNS):
        for start, arrays in columns.blocks(names[first : first + _COLUMNS]):
            end = start + len(arrays[0])
            where = rows[start:end] if moved else slice(start, end)
            for place, array in enumerate(arrays, first):
                matrix[where, place] = _finite(columns, names[place], start, array)
    return matrix


def _finite(columns: Columns, name: str, start: int, array: Any) -> Float32Array:
    """Rows of a column from `start` on as float32; NaN where they are missing, and an error where they are infinite."""
    values = numbers(columns, name, start, array)
    with np.errstate(over="ignore"):
        small: Float32Array = values.astype(np.float32, copy=False)
    infinite = np.isinf(small)
    if infinite.any():
        i = int(np.argmax(infinite))
        raise DataError(
            f"{columns.name}: column {name!r} is {values[i]} in {columns.place(start + i)}; expected finite float32 "
            "numbers, or null where a value is missing"
        )
    return small


def _grouped(columns: Columns, query: str) -> tuple[NDArray[Any], IntArray, IntArray, bool]:
    """The distinct queries in order of appearance, their offsets, the new place of each row, whether any moved."""
    encoded = read_ids(columns, query).dictionary_encode()
    query_ids = _numpy_ids(encoded.dictionary)
    codes: IntArray = encoded.indices.to_numpy().astype(np.int64)
    return query_ids, *group_rows(codes, len(query_ids))


def read_ids(columns: Columns, name: str) -> Any:
    """A column of ids as one Arrow array, int64 or texts.

    Whole numbers of floating point are ids where they are exact: pandas makes them of whole numbers on its own.
    """
    import pyarrow as pa

    column = columns.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    expected = "whole numbers or texts as ids"
    if pa.types.is_boolean(kind) or not (is_text(kind) or is_number(kind) or pa.types.is_null(kind)):
        raise DataError(f"{columns.name}: column {name!r} is {kind}; expected {expected} (cast it to text)")
    _check_no_nulls(columns, name, column, "an id")
    if is_text(kind):
        return one_array(column.cast(pa.large_string()))
    if pa.types.is_floating(kind):
        values = column.to_numpy()
        wrong = (np.floor(values) != values) | ~(np.abs(values) < _EXACT)  # true for NaN
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"{columns.name}: column {name!r} is {values[row]} in {columns.place(row)}; expected {expected}"
            )
        return pa.array(values.astype(np.int64))
    try:
        return one_array(column.cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise DataError(f"{columns.name}: column {name!r} has an id beyond int64 ({shortened(error)})") from None


def _numpy_ids(ids: Any) -> NDArray[Any]:
    values: NDArray[Any] = ids.to_numpy(zero_copy_only=False)
    return values.astype(np.str_) if values.dtype == object else values


def _labels(columns: Columns, name: str) -> Float32Array:
    column = columns.column(name)
    if not (is_number(column.type) or is_text(column.type)):
        raise DataError(f"{columns.name}: column {name!r} is {column.type}; expected numbers as labels")
    _check_no_nulls(columns, name, column, "a label in each row; fill it, or leave the label out and name the features")
    values = np.concatenate([numbers(columns, name, 0, chunk, label=True) for chunk in column.chunks])
    with np.errstate(over="ignore"):
        labels: Float32Array = values.astype(np.float32)
    finite = np.isfinite(labels)
    if not finite.all():
        row = int(np.argmin(finite))
        raise DataError(
            f"{columns.name}: column {name!r} is {values[row]} in {columns.place(row)}; expected a finite label"
        )
    return labels


def _check_no_nulls(columns: Columns, name: str, column: Any, expected: str) -> None:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        more = f" and {column.null_count - 1:,} more" if column.null_count > 1 else ""
        raise DataError(f"{columns.name}: column {name!r} is null in {columns.place(row)}{more}; expected {expected}")


def _check_unique(
    columns: Columns, doc_ids: NDArray[Any], query_ids: NDArray[Any], offsets: IntArray, rows: IntArray
) -> None:
    repeat = first_repeat_in_query(doc_ids, offsets)
    if repeat is not None:
        query, *places = repeat
        first, second = (columns.place(int(row)) for row in np.flatnonzero(np.isin(rows, places)))
        raise DataError(
            f"{columns.name}: document {doc_ids[places[0]]!s} twice in query {query_ids[query]!s} "
            f"({first} and {second}); expected each document once per query"
        )


def _warn_if_swapped(columns: Columns, roles: Mapping[str, str], doc_ids: NDArray[Any], offsets: IntArray) -> None:
    """Warn where ids of queries and documents seem to be swapped.

    Queries then have one or two documents, and each document is in many queries. Where two are the rule, as in data of
    pairs, or the documents are not far fewer than the queries, nothing is said.
    """
    lengths = np.diff(offsets)
    single = np.count_nonzero(lengths == 1)
    if 4 * single < len(lengths) or np.median(lengths) > 2:
        return
    n_documents = len(np.unique(doc_ids))
    if len(doc_ids) >= 10 * n_documents and len(lengths) >= 5 * n_documents:
        warn_caller(
            f"{columns.name}: {single:,} of {len(lengths):,} queries (column {roles['query']!r}) have one document, "
            f"and each of {n_documents:,} documents (column {roles['document']!r}) is in "
            f"{len(doc_ids) / n_documents:.0f} queries on average; are query and document swapped?"
        )


def to_arrow(data: RankingData) -> Any:
    """`RankingData.to_arrow`, which says what it gives."""
    import pyarrow as pa

    names = {**ROLES, **(data.columns or {})}
    if data.labels is None:
        del names["label"]
    clash = next((role for role, name in names.items() if name in data.feature_names), None)
    if clash is not None:
        raise DataError(f"feature_names: {names[clash]!r} is the name of a feature and of the column of {clash}")
    columns = {
        names["query"]: data.query_ids[query_of_rows(data.offsets)],
        names["document"]: data.doc_ids,
    }
    if data.labels is not None:
        columns[names["label"]] = data.labels
    arrays = {name: pa.array(values) for name, values in columns.items()}
    for place, name in enumerate(data.feature_names):
        arrays[name] = pa.array(data.features[:, place], from_pandas=True)  # NaN becomes null
    return pa.table(arrays).replace_schema_metadata({_ROLE_PREFIX + role: name for role, name in names.items()})

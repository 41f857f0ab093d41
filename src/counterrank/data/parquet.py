"""Ranking data in Parquet: columns `query_id`, `doc_id`, `label` (if any) and `features`, a fixed-size list.

Names of features, where they were given, are metadata of that column. A missing value is written as NaN; a null in a
list is read as one.
Both ways are streamed, so that little more than the matrix itself is in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.checks import Float32Array, IntArray
from counterrank.common.errors import DataError, printable
from counterrank.common.files import PathLike, atomic_file, existing
from counterrank.data.features import check_feature_names
from counterrank.data.ids import encode, first_repeat_in_query, group_rows, in_rows, is_id_type, query_of

if TYPE_CHECKING:
    from counterrank.data.ranking_data import RankingData

_NAMES = b"feature_names"  # in the metadata of the column `features`, a JSON list
_GROUP_BYTES = 8 << 20  # of the matrix in one row group: what a writer or reader holds besides the matrix


def write_parquet(data: RankingData, path: PathLike) -> None:
    """Write ranking data to one Parquet file; the write is atomic.

    >>> import pathlib, tempfile
    >>> from counterrank.data import RankingData
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "data.parquet"
    >>> write_parquet(RankingData([[1.0], [2.0]], [0, 2], labels=[0, 1]), path)
    >>> RankingData.load(path)
    RankingData(1 query, 2 documents, 1 feature, 2 documents a query, labels 0: 50.0 %, 1: 50.0 %)
    """
    import pyarrow.parquet as pq

    schema, step = _schema(data), _rows_per_group(data.n_features)
    try:
        with (
            atomic_file(path) as temporary,
            # features rarely repeat, so a dictionary of them is lost work
            pq.ParquetWriter(temporary, schema, use_dictionary=["query_id"], compression="zstd") as writer,
        ):
            for start in range(0, data.n_docs, step):
                writer.write_batch(_batch(data, schema, start, min(start + step, data.n_docs)))
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror or error})") from error


def _rows_per_group(n_features: int) -> int:
    return max(1, _GROUP_BYTES // (4 * n_features))


def _schema(data: RankingData) -> Any:
    import pyarrow as pa

    ids = {"query_id": data.query_ids, "doc_id": data.doc_ids}
    columns = [(name, pa.int64() if each.dtype == np.int64 else pa.string()) for name, each in ids.items()]
    if data.labels is not None:
        columns.append(("label", pa.float32()))
    item = pa.field("element", pa.float32(), nullable=False)
    names = {_NAMES: json.dumps(data.feature_names).encode()} if data.has_feature_names else None
    features = pa.field("features", pa.list_(item, data.n_features), nullable=False, metadata=names)
    return pa.schema([*(pa.field(name, kind, nullable=False) for name, kind in columns), features])


def _batch(data: RankingData, schema: Any, start: int, end: int) -> Any:
    """Rows `start:end` as a record batch; the features are a view of the matrix, not a copy."""
    import pyarrow as pa

    query = query_of(np.arange(start, end), data.offsets)
    values = {"query_id": data.query_ids[query], "doc_id": data.doc_ids[start:end]}
    if data.labels is not None:
        values["label"] = data.labels[start:end]
    arrays = [pa.array(column, type=schema.field(name).type) for name, column in values.items()]
    flat = pa.array(data.features[start:end].reshape(-1))
    arrays.append(pa.FixedSizeListArray.from_arrays(flat, type=schema.field("features").type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def parquet_fields(path: PathLike) -> tuple[Any, ...]:
    """The fields of `RankingData` in a Parquet file: features, offsets, labels, ids, source, regrouped, names."""
    import pyarrow.parquet as pq

    if existing(path, "Parquet file").is_dir():
        raise DataError(f"{path}: is a folder; expected one Parquet file")
    with parquet_errors(path), pq.ParquetFile(Path(path), pre_buffer=False) as file:
        return _Reader(path, file).read()


@contextmanager
def parquet_errors(path: PathLike) -> Iterator[None]:
    """An error of Arrow becomes one line about this file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a Parquet file that can be read ({printable(str(error))})") from None


class _Reader:
    """One open file; reads its columns row group by row group into arrays made beforehand."""

    def __init__(self, path: PathLike, file: Any) -> None:
        self.path, self.file = path, file
        self.schema = file.schema_arrow
        self.n_rows: int = file.metadata.num_rows
        self._check_columns()
        if self.n_rows == 0:
            raise DataError(f"{path}: no rows; expected at least one document")

    def read(self) -> tuple[Any, ...]:
        codes, query_ids = encode(self._column("query_id"))
        offsets, rows, regrouped = group_rows(codes, len(query_ids))
        doc_ids = in_rows(self._column("doc_id"), rows)
        self._check_unique(doc_ids, query_ids, offsets, rows)
        labels = in_rows(self._labels(), rows) if "label" in self.schema.names else None
        # all is checked by here, with the rows of the file at hand
        features = self._features(rows)
        names = self._names(features.shape[1])
        return features, offsets, labels, query_ids, doc_ids, str(self.path), regrouped, names

    def _names(self, n_features: int) -> tuple[str, ...] | None:
        text = (self.schema.field("features").metadata or {}).get(_NAMES)
        if text is None:
            return None
        try:
            return check_feature_names(json.loads(text), n_features)
        except (ValueError, TypeError) as error:
            raise DataError(f"{self.path}: names in the metadata of column 'features': {error}") from None

    def _check_unique(self, doc_ids: NDArray[Any], query_ids: NDArray[Any], offsets: IntArray, rows: IntArray) -> None:
        repeat = first_repeat_in_query(doc_ids, offsets)
        if repeat is not None:
            query, *places = repeat
            first, second = np.flatnonzero(np.isin(rows, places))
            raise DataError(
                f"{self.path}: column 'doc_id' is {doc_ids[places[0]]!s} twice in query {query_ids[query]!s} "
                f"(rows {first} and {second}); expected each document once per query"
            )

    def _check_columns(self) -> None:
        wanted = {
            "query_id": (is_id_type, "whole numbers or strings"),
            "doc_id": (is_id_type, "whole numbers or strings"),
            "label": (_is_number, "numbers"),
            "features": (_is_list, "lists of float32 or float64"),
        }
        for name, (fits, expected) in wanted.items():
            count = self.schema.names.count(name)
            if count == 0 and name == "label":
                continue
            if count != 1:
                has = f"{count} columns {name!r}" if count else f"no column {name!r}"
                raise DataError(f"{self.path}: {has} among {', '.join(self.schema.names)}; expected one, of {expected}")
            kind = self.schema.field(name).type
            if not fits(kind):
                raise DataError(f"{self.path}: column {name!r} is {kind}; expected {expected}")

    def _batches(self, name: str) -> Any:
        """The row number at which each batch of a column begins, and the batch; nulls are an error."""
        start = 0
        size = _rows_per_group(getattr(self.schema.field("features").type, "list_size", 1024))
        for batch in self.file.iter_batches(batch_size=size, columns=[name], use_threads=False):
            column = batch.column(0)
            column = column.dictionary_decode() if hasattr(column, "dictionary_decode") else column
            if column.null_count:
                row = start + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                raise DataError(f"{self.path}: column {name!r} is null in row {row}; expected a value")
            yield start, column
            start += len(column)

    def _column(self, name: str) -> NDArray[Any]:
        parts = [column.to_numpy(zero_copy_only=False) for _, column in self._batches(name)]
        values: NDArray[Any] = np.concatenate(parts)
        if values.dtype == object:
            return values.astype(np.str_)
        if values.dtype == np.uint64 and values.max() > np.iinfo(np.int64).max:
            row = int(np.argmax(values))
            raise DataError(f"{self.path}: column {name!r} is {values[row]} in row {row}; expected an int64")
        return values.astype(np.int64)

    def _labels(self) -> Float32Array:
        parts = [column.to_numpy(zero_copy_only=False) for _, column in self._batches("label")]
        with np.errstate(over="ignore"):
            labels: Float32Array = np.concatenate(parts).astype(np.float32)
        if not np.isfinite(labels).all():
            row = int(np.argmin(np.isfinite(labels)))
            raise DataError(
                f"{self.path}: column 'label' is {labels[row]} in row {row}; expected a finite float32 number"
            )
        return labels

    def _features(self, rows: IntArray) -> Float32Array:
        features: Float32Array | None = None
        for start, column in self._batches("features"):
            width = self._width(column, start, None if features is None else features.shape[1])
            if features is None:
                features = np.empty((self.n_rows, width), np.float32)
            values = column.flatten()
            with np.errstate(over="ignore"):
                block = values.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)  # nulls become NaN
            self._check_finite(block, start, width)
            features[rows[start : start + len(column)]] = block.reshape(-1, width)
        assert features is not None  # there is at least one row, hence one batch
        return features

    def _check_finite(self, block: Float32Array, start: int, width: int) -> None:
        infinite = np.isinf(block)
        if infinite.any():
            entry = int(np.argmax(infinite))
            raise DataError(
                f"{self.path}: column 'features' holds {block[entry]} in row {start + entry // width} "
                f"(feature {entry % width}); expected finite float32 numbers"
            )

    def _width(self, column: Any, start: int, width: int | None) -> int:
        """The length of all lists in a batch, which must be that of the ones before."""
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        expected = int(lengths[0]) if width is None else width
        wrong = np.flatnonzero(lengths != expected)
        if len(wrong) or expected == 0:
            row = int(wrong[0]) if len(wrong) else 0
            need = f"{expected}, as in row 0" if expected else "at least one"
            raise DataError(
                f"{self.path}: column 'features' has {lengths[row]} entries in row {start + row}; expected {need}"
            )
        return expected


def _is_number(kind: Any) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_integer(kind) or kinds.is_floating(kind))


def _is_list(kind: Any) -> bool:
    import pyarrow.types as kinds

    lists = kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)
    return bool(lists and kinds.is_floating(kind.value_type))

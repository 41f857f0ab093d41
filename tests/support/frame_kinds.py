"""The same rows as a frame of every kind."""

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa


class Stream:
    """Only what the Arrow PyCapsule interface asks for."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def chunked(table):
    """The columns in chunks of different lengths."""
    columns = []
    for place, column in enumerate(table.columns):
        step = 1 + place % 3
        chunks = [column.slice(i, step).combine_chunks() for i in range(0, len(column), step)]
        chunks = [chunk for part in chunks for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
        columns.append(pa.chunked_array(chunks, column.type))
    return pa.table(columns, names=table.column_names)


def relation(table):
    return duckdb.from_arrow(table)  # of a connection that stays open


KINDS = {
    "pandas": lambda table: table.to_pandas(),
    "pandas with an index": lambda table: table.to_pandas().set_index(pd.Index(range(9, 9 + len(table)), name="i")),
    "pandas of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas of rows": lambda table: pd.DataFrame(table.to_pylist()),
    "pandas of objects": lambda table: table.to_pandas().astype(object),
    "polars": pl.from_arrow,
    "lazy polars": lambda table: pl.from_arrow(table).lazy(),
    "Arrow": lambda table: table,
    "Arrow in chunks": chunked,
    "Arrow batch": lambda table: table.combine_chunks().to_batches()[0],
    "Arrow reader": lambda table: table.to_reader(max_chunksize=2),
    "DuckDB": relation,
    "stream": Stream,
}

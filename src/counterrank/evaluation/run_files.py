"""Rankings as files: Parquet, CSV and TREC runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import check_cutoff, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.files import PathLike, atomic_file
from counterrank.data import RankingData
from counterrank.data.scores import COMMA, NUMPY, PARQUET, TEXT, file_format


def ranked_rows(scores: ArrayLike, data: RankingData, depth: int | None = None) -> Any:
    """An Arrow table with `query_id`, `doc_id`, `rank` and `score`, by query and rank; equal scores in document order.

    >>> data = RankingData([[1.0], [2.0]], [0, 2], doc_ids=["a", "b"])
    >>> ranked_rows([0.5, 0.7], data).to_pydict()
    {'query_id': [0, 0], 'doc_id': ['b', 'a'], 'rank': [1, 2], 'score': [0.7, 0.5]}
    """
    import pyarrow as pa

    checked = check_vector(scores, data.n_docs, "scores")
    cutoff = check_cutoff(depth, "depth")
    queries = np.repeat(np.arange(data.n_queries), data.lengths)
    order = np.lexsort((-checked, queries))  # stable, so document order settles ties
    ranks = np.arange(data.n_docs) - np.repeat(data.offsets[:-1], data.lengths) + 1
    if cutoff is not None:
        order, queries, ranks = order[ranks <= cutoff], queries[ranks <= cutoff], ranks[ranks <= cutoff]
    return pa.table(
        {
            "query_id": data.query_ids[queries],
            "doc_id": data.doc_ids[order],
            "rank": ranks,
            "score": checked[order],
        }
    )


def write_run(rows: Any, path: PathLike, tag: str = "counterrank") -> None:
    """Write ranked rows in the format of the file's ending, gzipped where it ends in .gz.

    Parquet (.parquet, .pq), CSV (.csv, .tsv), else a TREC run (query Q0 document rank score tag). `read_scores` reads
    the same scores back from each.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "run.trec"
    >>> data = RankingData([[1.0], [2.0]], [0, 2], doc_ids=["a", "b"])
    >>> write_run(ranked_rows([0.5, 0.7], data), file)
    >>> file.read_text()
    '0 Q0 b 1 0.7 counterrank\\n0 Q0 a 2 0.5 counterrank\\n'
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if not tag or len(tag.split()) != 1 or tag != tag.strip():
        raise CounterrankError(f"tag={tag!r}: expected one word without spaces")
    kind = file_format(path)
    if kind == NUMPY:
        raise CounterrankError(f"{path}: .npy holds no ids; expected .parquet, .csv, or another name for a TREC run")
    lines = _trec_lines(rows, tag) if kind == TEXT else None
    with atomic_file(path) as temporary:
        if kind == PARQUET:
            pa.parquet.write_table(rows, temporary)
            return
        packed = "gzip" if str(path).lower().endswith(".gz") else None
        with pa.output_stream(str(temporary), compression=packed) as stream:
            if lines is not None:
                stream.write(lines)
            else:
                # quoting "needed" is every text, so that blanks and line ends in ids are kept
                options = pa.csv.WriteOptions(delimiter="," if kind == COMMA else "\t", quoting_style="needed")
                pa.csv.write_csv(rows, stream, options)


def _trec_lines(rows: Any, tag: str) -> bytes:
    """The lines of a TREC run."""
    import pyarrow as pa
    import pyarrow.compute as pc

    n = rows.num_rows
    columns = [rows["query_id"], pa.repeat("Q0", n), rows["doc_id"], rows["rank"], rows["score"], pa.repeat(tag, n)]
    words = [_word(column) for column in columns]
    lines = pc.binary_join_element_wise(*words, pa.scalar(" ", pa.large_string()))
    whole = pa.ListArray.from_arrays(np.array([0, n], np.int32), lines.combine_chunks())
    text: bytes = pc.binary_join(whole, pa.scalar("\n", pa.large_string()))[0].as_buffer().to_pybytes()
    return text + b"\n"


def _word(column: Any) -> Any:
    """A column as texts; empty strings and white space would break a TREC run's columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = column.cast(pa.large_string())
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return texts
    spaced = pc.match_substring_regex(texts, r"^$|[\s\v]")
    if pc.any(spaced).as_py():
        example = pc.filter(texts, spaced)[0].as_py()
        raise CounterrankError(
            f"id {example!r}: nothing or white space breaks a TREC run; write .parquet or .csv instead"
        )
    return texts

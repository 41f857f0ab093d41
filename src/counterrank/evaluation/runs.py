"""Rankings as files: TREC runs and Parquet."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import check_cutoff, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.files import PathLike, atomic_file
from counterrank.data import RankingData


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
    """Write ranked rows: Parquet where the name ends in .parquet, else a TREC run (query Q0 document rank score tag).

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
    with atomic_file(path) as temporary:
        if str(path).endswith(".parquet"):
            pa.parquet.write_table(rows, temporary)
            return
        n = rows.num_rows
        columns = [rows["query_id"], pa.repeat("Q0", n), rows["doc_id"], rows["rank"], rows["score"], pa.repeat(tag, n)]
        table = pa.table([_word(column) for column in columns], names=list("abcdef"))
        options = pa.csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
        pa.csv.write_csv(table, temporary, options)


def _word(column: Any) -> Any:
    """Empty strings and white space would break a TREC run's columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
        return column
    spaced = pc.match_substring_regex(column, r"^$|\s")
    if pc.any(spaced).as_py():
        example = pc.filter(column, spaced)[0].as_py()
        raise CounterrankError(f"id {example!r}: nothing or white space breaks a TREC run; write .parquet instead")
    return column

"""`counterrank rank`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from counterrank.cli.options import Data, Force, Json, Part, SavedRanker, Threads, option
from counterrank.cli.output import print_json
from counterrank.cli.writing import check_out


def rank(
    ranker: SavedRanker,
    data: Data,
    out: Annotated[
        Path, option(help="The file to write: .parquet, .csv, or a TREC run by any other name.", metavar="PATH")
    ],
    part: Part = "test",
    depth: Annotated[int | None, option(help="The most documents to write for a query.", metavar="N")] = None,
    tag: Annotated[str, option(help="Name of the run in a TREC run.", metavar="NAME")] = "counterrank",
    force: Force = False,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Rank the documents of each query with a saved ranker; the file can be used as --logger and --against.

    Example: counterrank rank ranker synthetic:mslr --out run.trec
    """
    from counterrank.cli.evidence import load_model_and_data
    from counterrank.data.scores import ranked_rows, write_run

    check_out(out, force, (ranker, data))
    loaded, chosen = load_model_and_data(ranker, data, part, threads)
    rows = ranked_rows(loaded.predict(chosen), chosen, depth)
    write_run(rows, out, tag)
    if json:
        print_json({"out": str(out), "queries": chosen.n_queries, "rows": rows.num_rows})
    else:
        print(f"{out}: {rows.num_rows:,} rows for {chosen.n_queries:,} queries")

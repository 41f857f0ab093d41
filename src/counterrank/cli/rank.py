"""`counterrank rank`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counterrank.cli.options import Data, Json, Model, Part, Threads
from counterrank.cli.output import print_json
from counterrank.cli.writing import Force, check_out


def rank(
    model: Model,
    data: Data,
    out: Annotated[Path, typer.Option(help="The file to write: .parquet, .csv, or a TREC run by any other name.")],
    part: Part = "test",
    depth: Annotated[int | None, typer.Option(help="The most documents to write for a query.")] = None,
    tag: Annotated[str, typer.Option(help="The run's name in a TREC run.")] = "counterrank",
    force: Force = False,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Rank the documents of each query with a saved ranker; the file serves as scores for --logger and --against.

    Example: counterrank rank ranker synthetic:mslr --out run.trec
    """
    from counterrank.cli.evidence import load_model_and_data
    from counterrank.evaluation.run_files import ranked_rows, write_run

    check_out(out, force, (model, data))
    ranker, chosen = load_model_and_data(model, data, part, threads)
    rows = ranked_rows(ranker.predict(chosen), chosen, depth)
    write_run(rows, out, tag)
    if json:
        print_json({"out": str(out), "queries": chosen.n_queries, "rows": rows.num_rows})
    else:
        print(f"{out}: {rows.num_rows:,} rows for {chosen.n_queries:,} queries")

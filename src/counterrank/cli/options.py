"""Options that several commands share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    str,
    typer.Argument(
        help="A LETOR file, a fold folder, a Parquet file, or synthetic:mslr / synthetic:yahoo, also with settings: "
        "synthetic:mslr:queries=2000,seed=1."
    ),
]
Model = Annotated[Path, typer.Argument(help="A folder written by train.")]
Part = Annotated[str, typer.Option(help="Which part of a fold: train, validation or test.")]
Threshold = Annotated[float, typer.Option(help="The smallest label that counts as relevant.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Threads = Annotated[int | None, typer.Option(help="How many threads to use; all cores if not given.")]
Seed = Annotated[int, typer.Option(help="One seed gives one result.")]
Clicks = Annotated[Path | None, typer.Option(help="Click counts: a folder written by simulate.")]
Log = Annotated[
    Path | None, typer.Option(help="A click log in Parquet, or a folder with train.parquet and validation.parquet.")
]
Policy = Annotated[
    str | None,
    typer.Option(
        help="The logging policy: deterministic:k=5, replace-last:k=5, epsilon-greedy:k=5,epsilon=0.1, "
        "uniform-insert:k=5 or plackett-luce:k=5,temperature=1. Not needed where propensities were logged."
    ),
]
Examination = Annotated[
    str | None,
    typer.Option(
        help="P(examined | rank): inverse-rank:eta=1, also with k=5, or values such as 1,0.5,0.3; "
        "that of the clicks if it is known."
    ),
]
Logger = Annotated[
    Path | None,
    typer.Option(help="What the policy ranked by: a ranker's folder, or scores (.npy, or text with one a line)."),
]
Metrics = Annotated[str, typer.Option(help="Comma-separated: arp, dcg, dcg@k, precision@k.")]
Target = Annotated[
    str, typer.Option(help="What intervals speak of: queries (such as these) or these-queries (and no others).")
]
Noise = Annotated[
    str | None,
    typer.Option(help="P(click | examined) of irrelevant and relevant documents, such as 0.1,1, to be taken off."),
]

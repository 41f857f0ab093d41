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

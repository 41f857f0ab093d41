"""Options that several commands share, each described once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from counterrank.common.errors import CounterrankError

Data = Annotated[
    str,
    typer.Argument(
        help="A LETOR file, a fold folder, a Parquet file, or synthetic:mslr / synthetic:yahoo, also with settings: "
        "synthetic:mslr:queries=2000,seed=1."
    ),
]
Model = Annotated[Path, typer.Argument(help="A folder written by train.")]
SCORES = (
    "scores in a file: Parquet or CSV with query_id, doc_id and score, a TREC run, or a plain list (.npy, or text with "
    "one number a line)"
)
ModelOrScores = Annotated[Path, typer.Argument(help=f"A folder written by train, or {SCORES}.")]
RankedBy = Annotated[Path, typer.Option(help=f"What ranks the pages: a ranker's folder, or {SCORES}.")]
FeatureNames = Annotated[
    Path | None,
    typer.Option(
        help='What the features are called: JSON such as {"1": "title_bm25"} with LETOR\'s numbers, a JSON list in '
        "order, or one name a line; feature_1 and so on if not given."
    ),
]
ModelKind = Annotated[str, typer.Option("--model", help="linear, mlp (a network) or lambdamart (boosted trees).")]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        help="A setting of the model's own, such as num_leaves=15 for lambdamart or hidden=[64,32] for mlp; several "
        "times for several.",
    ),
]
Part = Annotated[str, typer.Option(help="Which part of a fold: train, validation or test.")]
Threshold = Annotated[float, typer.Option(help="The smallest label that counts as relevant.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Threads = Annotated[int | None, typer.Option(help="How many threads to use; all cores if not given.")]
Seed = Annotated[int, typer.Option(help="One seed gives one result.")]
Clicks = Annotated[
    list[Path] | None,
    typer.Option(help="Click counts: a folder written by simulate or aggregate; several times for several."),
]
Align = Annotated[
    bool,
    typer.Option(
        "--align",
        help="Map click counts onto this data by the ids of queries and documents, where the data has grown since they "
        "were counted.",
    ),
]
InSample = Annotated[
    bool,
    typer.Option("--in-sample", help="Accept clicks that a ranker was trained on or stopped by; the result says so."),
]
Log = Annotated[
    str | None,
    typer.Option(
        help="A click log: a file, a folder or a pattern, in Parquet, CSV, JSON Lines, UBI or metarank's events. Files "
        "train.*, validation.* and test.* in a folder are the logs of these parts; else queries tell the parts."
    ),
]
Policy = Annotated[
    list[str] | None,
    typer.Option(
        help="The logging policy: deterministic:k=5, replace-last:k=5, epsilon-greedy:k=5,epsilon=0.1, "
        "uniform-insert:k=5 or plackett-luce:k=5,temperature=1; estimated or fitted-plackett-luce where it is not "
        "known. Several of one log by name: --policy new=replace-last:k=5 --policy old=deterministic:k=5. Not needed "
        "where propensities were logged."
    ),
]
Examination = Annotated[
    str | None,
    typer.Option(
        help="P(examined | rank): inverse-rank:eta=1, also with k=5, values such as 1,0.5,0.3, or a file with an "
        "estimated curve; that of the clicks if it is known."
    ),
]
Logger = Annotated[
    list[str] | None,
    typer.Option(
        help=f"What the policy ranked by: a ranker's folder, {SCORES}, feature:25, or "
        "logging_score of the log. For several policies new=FOLDER and so on."
    ),
]
Metrics = Annotated[str, typer.Option(help="Comma-separated: arp, dcg, dcg@k, precision@k.")]
Target = Annotated[
    str, typer.Option(help="What intervals speak of: queries (such as these) or these-queries (and no others).")
]
Noise = Annotated[
    str | None,
    typer.Option(help="P(click | examined) of irrelevant and relevant documents, such as 0.1,1, to be taken off."),
]
Method = Annotated[
    str,
    typer.Option(
        help="ips (inverse propensities), or dr (doubly robust): a model of relevance fitted to the clicks, corrected "
        "by what it did not foresee; needs the examination curve."
    ),
]


def parse_params(given: list[str] | None) -> dict[str, Any] | None:
    """Names and values of `--param`; a value is read as JSON where it is that, else it is text.

    >>> parse_params(["num_leaves=15", "boosting=dart", "hidden=[64, 32]"])
    {'num_leaves': 15, 'boosting': 'dart', 'hidden': [64, 32]}
    """
    if not given:
        return None
    params: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or name in params:
            raise CounterrankError(f"--param {text}: expected NAME=VALUE, each name once")
        try:
            params[name] = json.loads(value)
        except ValueError:
            params[name] = value
    return params

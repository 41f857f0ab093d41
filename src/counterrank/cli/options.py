"""Options that several commands share, each described once; those of click logs are handed over as one."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank.clicks.logs.columns import LogOptions

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


_PANEL = "How a log is read"


def _option(*names: str, help: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=_PANEL)


def _of_logs(
    map: Annotated[
        str | None, _option(help="Other names of columns, as rank=position,clicked=is_click (ours=theirs).")
    ] = None,
    rank_base: Annotated[int, _option(help="The number of the first rank, 0 or 1.")] = 1,
    format: Annotated[
        str, _option(help="parquet, csv, jsonl, ubi (OpenSearch) or metarank; auto goes by names and first lines.")
    ] = "auto",
    click_actions: Annotated[
        str, _option(help="Which actions (of ubi) or types (of metarank) are clicks, as click,click_through.")
    ] = "click",
    impressions: Annotated[
        bool, _option("--impressions", help="Each row is a page of its own; session_id and query_id may be missing.")
    ] = False,
    only_policy: Annotated[
        list[str] | None,
        _option(
            help="Use the sessions of this policy only, by its name in the column policy; several times for several."
        ),
    ] = None,
    on_error: Annotated[
        str, _option(help="What to do about wrong rows: fail, or skip to drop the pages they are on.")
    ] = "fail",
    strict: Annotated[
        bool,
        _option("--strict", help="Rows of queries or documents that the data does not have are wrong rows too."),
    ] = False,
    trust: Annotated[
        bool,
        _option(
            "--trust",
            help="Do not look at pages: sessions that are missing or have two queries, gaps, "
            "documents or ranks that come twice.",
        ),
    ] = False,
    memory: Annotated[
        str, _option(help="How much memory DuckDB may use; beyond it, it spills to the folder that TMPDIR names.")
    ] = "1GB",
    engine: Annotated[str, _option(help="duckdb here, or spark on the cluster --master.")] = "duckdb",
    master: Annotated[str | None, _option(help="local[*], spark://HOST:PORT or sc://HOST:PORT.")] = None,
    threads: int | None = None,
) -> LogOptions:
    from counterrank.clicks.logs.columns import LogOptions, parse_map

    return LogOptions(
        columns=parse_map(map),
        rank_base=rank_base,
        format=format,
        click_actions=tuple(click_actions.split(",")),
        impressions=impressions,
        only_policies=tuple(only_policy or ()),
        on_error=on_error,
        strict=strict,
        trust=trust,
        memory=memory,
        threads=threads,
        engine=engine,
        master=master,
    )


def reads_logs(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of logs; it gets them as `reading`, which must be one of its arguments."""
    own = inspect.signature(command)
    added = [each for name, each in inspect.signature(_of_logs).parameters.items() if name != "threads"]
    kept = [each for name, each in own.parameters.items() if name != "reading"]

    @wraps(command)
    def wrapper(**given: Any) -> None:
        about = {each.name: given.pop(each.name) for each in added}
        command(**given, reading=_of_logs(**about, threads=given.get("threads")))

    named = {"LogOptions": Any}  # imported where logs are read and not before
    hints = get_type_hints(command, localns=named, include_extras=True)
    hints = {**get_type_hints(_of_logs, localns=named, include_extras=True), **hints}
    parameters = [each.replace(annotation=hints[each.name]) for each in (*kept, *added)]
    signature = own.replace(parameters=parameters, return_annotation=None)
    wrapper.__dict__.update(__signature__=signature)
    del wrapper.__dict__["__wrapped__"]  # typer would look at the command's own arguments
    wrapper.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapper

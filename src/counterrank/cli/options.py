"""Options that several commands share, each described once; those of click logs are handed over as one."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from counterrank.cli.command import BASICS
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank.clicks.logs.columns import LogOptions

CLICKS, ESTIMATOR, TRAINING, USERS, EVALUATION = "Clicks and policy", "Estimator", "Training", "Users", "Evaluation"
EXPERIMENT, LOG, OUTPUT = "Experiment", "How a log is read", "Output"


def option(*names: str, help: str, panel: str = BASICS, metavar: str | None = None) -> Any:
    """An option in one of the groups of the help; names in braces are those of a registry, see `flags.choices`."""
    return typer.Option(*names, help=help, rich_help_panel=panel, metavar=metavar)


SCORES = (
    "a file of scores (Parquet or CSV with query_id, doc_id and score, a TREC run, .npy, or text with one number a "
    "line)"
)
Data = Annotated[
    str,
    typer.Argument(
        help="A LETOR file, a fold folder, a Parquet file, or synthetic:mslr / synthetic:yahoo, also with parameters: "
        "synthetic:mslr:queries=2000,seed=1."
    ),
]
SavedRanker = Annotated[Path, typer.Argument(help="A folder written by train.")]
RankerOrScores = Annotated[Path, typer.Argument(help=f"A folder written by train, or {SCORES}.")]
RankedBy = Annotated[
    Path, option(help=f"What the policy ranks by: a ranker's folder, or {SCORES}.", panel=CLICKS, metavar="PATH")
]
FeatureNames = Annotated[
    Path | None,
    option(
        help='Names of the features: JSON such as {"1": "title_bm25"} with LETOR\'s numbers, a JSON list in order, or '
        "one name a line; feature_1 and so on if not given.",
        metavar="PATH",
    ),
]
ModelKind = Annotated[
    str, option("--model", help="linear, mlp (a neural network) or lambdamart (boosted trees).", metavar="NAME")
]
Params = Annotated[
    list[str] | None,
    option(
        "--param",
        help="A hyperparameter of the model, such as num_leaves=15 for lambdamart or hidden=[64,32] for mlp; repeat "
        "for several.",
        panel=TRAINING,
        metavar="NAME=VALUE",
    ),
]
Part = Annotated[str, option(help="Part of a fold: train, validation or test.", metavar="NAME")]
Threshold = Annotated[float, option(help="The smallest label of a relevant document.", panel=USERS, metavar="X")]
Json = Annotated[bool, option("--json", help="Print one JSON object instead of a table.", panel=OUTPUT)]
Threads = Annotated[int | None, option(help="Number of threads; all cores if not given.", panel=OUTPUT, metavar="N")]
Seed = Annotated[int, option(help="Random seed: one seed gives one result.", panel=OUTPUT, metavar="N")]
Clicks = Annotated[
    list[Path] | None,
    option(help="Click counts: a folder written by simulate or aggregate; repeat for several.", metavar="PATH"),
]
Align = Annotated[
    bool,
    option(
        "--align",
        help="Map click counts onto this data by query and document ids, where the data has grown since they were "
        "counted.",
        panel=CLICKS,
    ),
]
InSample = Annotated[
    bool,
    option(
        "--in-sample",
        help="Accept clicks that a ranker was trained on or stopped by; the result says so.",
        panel=EVALUATION,
    ),
]
Log = Annotated[
    str | None,
    option(
        help="A click log: a file, a folder or a pattern ({formats}). Files train.*, validation.* and test.* in a "
        "folder are the logs of these parts; otherwise a log is split by the queries of the parts.",
        metavar="PATH",
    ),
]
Policy = Annotated[
    list[str] | None,
    option(
        help="The logging policy: {policies}; if it is unknown, estimated or fitted-plackett-luce. Several policies "
        "of one log by name: --policy new=replace-last:k=5 --policy old=deterministic:k=5. Not needed where "
        "propensities were logged.",
        panel=CLICKS,
        metavar="POLICY",
    ),
]
Examination = Annotated[
    str | None,
    option(
        help="Examination curve, P(examined | rank): inverse-rank:eta=1, also with k=5; values such as 1,0.5,0.3; or a "
        "file with an estimated curve. That of the clicks if it is known.",
        panel=CLICKS,
        metavar="CURVE",
    ),
]
KnownExamination = Annotated[
    str,
    option(
        help="Examination curve, P(examined | rank): inverse-rank:eta=1, also with k=5; values such as 1,0.5,0.3; or a "
        "file with an estimated curve.",
        panel=CLICKS,
        metavar="CURVE",
    ),
]
Logger = Annotated[
    list[str] | None,
    option(
        help=f"What the policy ranked by: a ranker's folder, {SCORES}, feature:25, or logging_score, a column of the "
        "log. Of several policies: new=FOLDER and so on.",
        panel=CLICKS,
        metavar="PATH",
    ),
]
Metrics = Annotated[str, option(help="Comma-separated: arp, dcg, dcg@k, precision@k.", metavar="LIST")]
Population = Annotated[
    str,
    option(
        help="Target population of the confidence intervals: queries (queries like these) or these-queries (these and "
        "no others).",
        panel=EVALUATION,
        metavar="NAME",
    ),
]
Confidence = Annotated[float, option(help="Confidence level of the intervals.", panel=EVALUATION, metavar="X")]
Noise = Annotated[
    str | None,
    option(
        help="Correct for click noise: P(click | examined) of irrelevant and of relevant documents, such as 0.1,1.",
        panel=EVALUATION,
        metavar="X,X",
    ),
]
Method = Annotated[
    str,
    option(
        help="ips (inverse propensity scoring), or dr (doubly robust: with a model of relevance fitted to the clicks; "
        "requires the examination curve).",
        panel=EVALUATION,
        metavar="NAME",
    ),
]
Relevant = Annotated[float, option(help="P(click | examined) of a relevant document.", panel=USERS, metavar="X")]
Other = Annotated[float, option(help="P(click | examined) of any other document.", panel=USERS, metavar="X")]
Displays = Annotated[
    bool, option("--displays", help="Keep the distinct pages, for the estimator rerank.", panel=OUTPUT)
]
Force = Annotated[
    bool, option("--force", help="Replace what exists already; without it, what exists is kept.", panel=OUTPUT)
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


def _of_logs(
    map: Annotated[
        str | None,
        option(
            help="Other names of columns, as rank=position,clicked=is_click (ours=theirs).", panel=LOG, metavar="LIST"
        ),
    ] = None,
    rank_base: Annotated[int, option(help="The number of the first rank, 0 or 1.", panel=LOG, metavar="N")] = 1,
    format: Annotated[
        str, option(help="{formats}; auto goes by names and first lines of the files.", panel=LOG, metavar="NAME")
    ] = "auto",
    click_actions: Annotated[
        str,
        option(
            help="Which actions (of ubi) or types (of metarank) are clicks, as click,click_through.",
            panel=LOG,
            metavar="LIST",
        ),
    ] = "click",
    impressions: Annotated[
        bool,
        option(
            "--impressions", help="Each row is a page of its own; session_id and query_id may be missing.", panel=LOG
        ),
    ] = False,
    only_policy: Annotated[
        list[str] | None,
        option(
            help="Use the sessions of this policy only, by its name in the column policy; repeat for several.",
            panel=LOG,
            metavar="NAME",
        ),
    ] = None,
    on_error: Annotated[
        str,
        option(
            help="What to do about invalid rows: fail, or skip to drop the pages they are on.",
            panel=LOG,
            metavar="NAME",
        ),
    ] = "fail",
    strict: Annotated[
        bool,
        option("--strict", help="Rows of queries or documents that the data does not have are invalid too.", panel=LOG),
    ] = False,
    skip_page_checks: Annotated[
        bool,
        option(
            "--skip-page-checks",
            help="Do not check pages: missing sessions, sessions of two queries, gaps, duplicate documents or ranks.",
            panel=LOG,
        ),
    ] = False,
    memory: Annotated[
        str,
        option(help="Memory limit of DuckDB; beyond it, it spills to the folder TMPDIR.", panel=LOG, metavar="SIZE"),
    ] = "1GB",
    engine: Annotated[
        str, option(help="duckdb here, or spark on the cluster --master.", panel=LOG, metavar="NAME")
    ] = "duckdb",
    master: Annotated[
        str | None,
        option(help="Spark master: local[*], spark://HOST:PORT or sc://HOST:PORT.", panel=LOG, metavar="URL"),
    ] = None,
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
        skip_page_checks=skip_page_checks,
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

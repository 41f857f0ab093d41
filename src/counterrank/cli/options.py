"""Options that several commands share, each described once; those of click logs are handed over as one."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from counterrank.cli.command import BASICS, CLICKS, ESTIMATOR, EVALUATION, LOG, OUTPUT, TRAINING, USERS
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank.clicks.logs.columns import LogOptions


def option(help: str, metavar: str | None = None, panel: str = BASICS, name: str | None = None) -> Any:
    """An option in one of the groups of the help; names in braces are those of a registry, see `choices`."""
    return typer.Option(*([] if name is None else [name]), help=help, rich_help_panel=panel, metavar=metavar)


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
RankedBy = Annotated[Path, option(f"What the policy ranks by: a ranker's folder, or {SCORES}.", "PATH", CLICKS)]
FeatureNames = Annotated[
    Path | None,
    option(
        'Names of the features: JSON such as {"1": "title_bm25"} with LETOR\'s numbers, a JSON list in order, or '
        "one name a line; feature_1 and so on if not given.",
        "PATH",
    ),
]
ModelKind = Annotated[
    str, option("linear, mlp (a neural network) or lambdamart (boosted trees).", "NAME", name="--model")
]
Params = Annotated[
    list[str] | None,
    option(
        "A hyperparameter of the model, such as num_leaves=15 for lambdamart or hidden=[64,32] for mlp; repeat "
        "for several.",
        "NAME=VALUE",
        TRAINING,
        name="--param",
    ),
]
EstimatorParams = Annotated[
    list[str] | None,
    option(
        "A hyperparameter of the estimator, such as clip=30 for policy-aware or strength=2 for shrinkage; repeat for "
        "several.",
        "NAME=VALUE",
        ESTIMATOR,
        "--estimator-param",
    ),
]
Part = Annotated[str, option("Part of a fold: train, validation or test.", "NAME")]
Threshold = Annotated[float, option("The smallest label of a relevant document.", "X", USERS)]
Json = Annotated[bool, option("Print one JSON object instead of a table.", panel=OUTPUT, name="--json")]
Threads = Annotated[int | None, option("Number of threads; all cores if not given.", "N", OUTPUT)]
Seed = Annotated[int, option("Random seed: one seed gives one result.", "N", OUTPUT)]
Clicks = Annotated[
    list[Path] | None, option("Click counts: a folder written by simulate or aggregate; repeat for several.", "PATH")
]
Align = Annotated[
    bool,
    option(
        "Map click counts onto this data by query and document ids, where the data has grown since they were counted.",
        panel=CLICKS,
        name="--align",
    ),
]
InSample = Annotated[
    bool,
    option(
        "Accept clicks that a ranker was trained on or stopped by; the result says so.",
        panel=EVALUATION,
        name="--in-sample",
    ),
]
Log = Annotated[
    str | None,
    option(
        "A click log: a file, a folder or a pattern ({formats}). Files train.*, validation.* and test.* in a "
        "folder are the logs of these parts; otherwise a log is split by the queries of the parts.",
        "PATH",
    ),
]
Policy = Annotated[
    list[str] | None,
    option(
        "The logging policy: {policies}; if it is unknown, estimated or fitted-plackett-luce. Several policies "
        "of one log by name: --policy new=replace-last:k=5 --policy old=deterministic:k=5. Not needed where "
        "propensities were logged.",
        "POLICY",
        CLICKS,
    ),
]
_CURVE = (
    "Examination curve, P(examined | rank): inverse-rank:eta=1, also with k=5; values such as 1,0.5,0.3; or a file "
    "with an estimated curve."
)
Examination = Annotated[str | None, option(f"{_CURVE} That of the clicks if it is known.", "CURVE", CLICKS)]
KnownExamination = Annotated[str, option(_CURVE, "CURVE", CLICKS)]
Alpha = Annotated[
    str | None,
    option(
        "Trust bias, by rank: how much relevance adds to P(click), such as 0.9,0.4,0.2; requires --beta.",
        "LIST",
        CLICKS,
    ),
]
Beta = Annotated[
    str | None,
    option(
        "Trust bias, by rank: P(click) of an irrelevant document, such as 0.1,0.05,0.02; requires --alpha.",
        "LIST",
        CLICKS,
    ),
]
Logger = Annotated[
    list[str] | None,
    option(
        f"What the policy ranked by: a ranker's folder, {SCORES}, feature:25, or logging_score, a column of the "
        "log. Of several policies: new=FOLDER and so on.",
        "PATH",
        CLICKS,
    ),
]
Metrics = Annotated[str, option("Comma-separated: arp, dcg, dcg@k, precision@k.", "LIST")]
Population = Annotated[
    str,
    option(
        "Target population of the confidence intervals: queries (queries like these) or these-queries (these and "
        "no others).",
        "NAME",
        EVALUATION,
    ),
]
Confidence = Annotated[float, option("Confidence level of the intervals.", "X", EVALUATION)]
Noise = Annotated[
    str | None,
    option(
        "Correct for click noise: P(click | examined) of irrelevant and of relevant documents, such as 0.1,1.",
        "X,X",
        EVALUATION,
    ),
]
Method = Annotated[
    str,
    option(
        "ips (inverse propensity scoring), or dr (doubly robust: with a model of relevance fitted to the clicks; "
        "requires the examination curve).",
        "NAME",
        EVALUATION,
    ),
]
Relevant = Annotated[float, option("P(click | examined) of a relevant document.", "X", USERS)]
Other = Annotated[float, option("P(click | examined) of any other document.", "X", USERS)]
Displays = Annotated[
    bool, option("Keep the distinct pages, for the estimator rerank.", panel=OUTPUT, name="--displays")
]
Force = Annotated[
    bool, option("Replace what exists already; without it, what exists is kept.", panel=OUTPUT, name="--force")
]


def parse_params(given: list[str] | None, name: str = "--param") -> dict[str, Any] | None:
    """Names and values of `--param`; a value is read as JSON where it is that, else it is text.

    >>> parse_params(["num_leaves=15", "boosting=dart", "hidden=[64, 32]"])
    {'num_leaves': 15, 'boosting': 'dart', 'hidden': [64, 32]}
    """
    params: dict[str, Any] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key or key in params:
            raise CounterrankError(f"{name} {text}: expected NAME=VALUE, each name once")
        try:
            params[key] = json.loads(value)
        except ValueError:
            params[key] = value
    return params or None


def positive_or(text: str, name: str, *words: str) -> float | str:
    """A number above 0 from the text of an option, or one of the words that the option takes instead.

    >>> positive_or("0.5", "--learning-rate", "auto"), positive_or("auto", "--learning-rate", "auto")
    (0.5, 'auto')
    """
    if text in words:
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise CounterrankError(f"{name} {text}: expected {', '.join(words)} or a number above 0")
    return value


def _of_logs(
    map: Annotated[
        str | None, option("Other names of columns, as rank=position,clicked=is_click (ours=theirs).", "LIST", LOG)
    ] = None,
    rank_base: Annotated[int, option("The number of the first rank, 0 or 1.", "N", LOG)] = 1,
    format: Annotated[str, option("{formats}; or auto, by names and first lines of the files.", "NAME", LOG)] = "auto",
    click_actions: Annotated[
        str, option("Which actions (of ubi) or types (of metarank) are clicks, as click,click_through.", "LIST", LOG)
    ] = "click",
    impressions: Annotated[
        bool,
        option(
            "Each row is a page of its own; session_id and query_id may be missing.", panel=LOG, name="--impressions"
        ),
    ] = False,
    only_policy: Annotated[
        list[str] | None,
        option(
            "Use the sessions of this policy only, by its name in the column policy; repeat for several.", "NAME", LOG
        ),
    ] = None,
    on_error: Annotated[
        str, option("What to do about invalid rows: fail, or skip to drop the pages they are on.", "NAME", LOG)
    ] = "fail",
    strict: Annotated[
        bool,
        option("Rows of queries or documents that the data does not have are invalid too.", panel=LOG, name="--strict"),
    ] = False,
    skip_page_checks: Annotated[
        bool,
        option(
            "Do not check pages: missing sessions, sessions of two queries, gaps, duplicate documents or ranks.",
            panel=LOG,
            name="--skip-page-checks",
        ),
    ] = False,
    memory: Annotated[
        str, option("Memory limit of DuckDB; beyond it, it spills to the folder TMPDIR.", "SIZE", LOG)
    ] = "1GB",
    engine: Annotated[str, option("duckdb here, or spark on the cluster --master.", "NAME", LOG)] = "duckdb",
    master: Annotated[
        str | None, option("Spark master: local[*], spark://HOST:PORT or sc://HOST:PORT.", "URL", LOG)
    ] = None,
    threads: int | None = None,
) -> LogOptions:
    from counterrank.clicks.logs.columns import LogOptions, parse_map

    if not all(word.strip() for word in click_actions.split(",")):
        raise CounterrankError(f"--click-actions {click_actions!r}: expected names, such as click,click_through")
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

"""Options that several commands share, each described once; those of click logs are handed over as one."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from counterrank.cli.command import (
    BASICS,
    CLICKS,
    DATA,
    ESTIMATOR,
    EVALUATION,
    LOG,
    OUTPUT,
    TRAINING,
    USERS,
    explicit_options,
)
from counterrank.cli.output import say, show_warnings
from counterrank.common.errors import CounterrankError, listed

if TYPE_CHECKING:
    from counterrank import ClickCounts
    from counterrank.cli.evidence import ClickSource
    from counterrank.clicks.logs.columns import LogOptions
    from counterrank.data.sources import DataOptions


def option(help: str, metavar: str | None = None, panel: str = BASICS, name: str | None = None) -> Any:
    """An option in one of the groups of the help; names in braces are those of a registry, see `choices`."""
    return typer.Option(*([] if name is None else [name]), help=help, rich_help_panel=panel, metavar=metavar)


SCORES = (
    "a file of scores (Parquet or CSV with query_id and doc_id, or their names in the data, and score; a TREC run, "
    ".npy, or text with one number a line)"
)
Data = Annotated[
    str,
    typer.Argument(
        help="A LETOR, Parquet or CSV file, the folder of a fold (files train.*, validation.*, test.*) or of "
        "partitions, or synthetic:mslr / synthetic:yahoo, also with parameters: synthetic:mslr:queries=2000,seed=1."
    ),
]
DataOfLog = Annotated[
    str | None,
    option("The ranking data: only its queries and documents count, and candidates that were never shown are known.",
           "DATA"),
]  # fmt: skip
LogOrCounts = Annotated[
    str,
    typer.Argument(help="A click log (file, folder or pattern), or click counts (a folder of simulate or aggregate)."),
]
SavedRanker = Annotated[Path, typer.Argument(help="A folder written by train.")]
RankerOrScores = Annotated[Path, typer.Argument(help=f"A folder written by train, or {SCORES}.")]
RankedBy = Annotated[
    Path, option(f"What the policy ranks by: a ranker's folder, {SCORES}, or feature:25.", "PATH", CLICKS)
]
FeatureNames = Annotated[
    Path | None,
    option(
        'Names of the features: JSON such as {"1": "title_bm25"} with LETOR\'s numbers, a JSON list in order, or '
        "one name a line; those of the training data if not given.",
        "PATH",
    ),
]
ModelKind = Annotated[
    str, option("linear, mlp (a neural network) or lambdamart (boosted trees).", "NAME", name="--model")
]
Params = Annotated[
    list[str] | None,
    option(
        "A hyperparameter of the model, such as num_leaves=15 for lambdamart, hidden=[64,32] for mlp or device=cuda "
        "for linear; repeat for several.",
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
Users = Annotated[
    str | None,
    option(
        "How users click: auto to fit trust bias or position bias to the log, the default where nothing else says it; "
        "features if pages hardly move documents, so that features have to link ranks; or a file of a user model.",
        "USERS",
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
Control = Annotated[
    str,
    option(
        "none, or optimal: subtract the control variates that narrow intervals most; requires the examination curve.",
        "NAME",
        EVALUATION,
    ),
]
Relevant = Annotated[float, option("P(click | examined) of a relevant document.", "X", USERS)]
Other = Annotated[float, option("P(click | examined) of any other document.", "X", USERS)]
SimulatedUsers = Annotated[
    str | None,
    option(
        "How users examine and click: paper (--examination, --relevant, --other), baidu or yandex (from measurements), "
        "or a file that save of a user model or inspect --examination-out wrote. Of a file --other and --relevant are "
        "the relevance of irrelevant and of relevant documents.",
        "NAME|FILE",
        USERS,
    ),
]
Displays = Annotated[
    bool, option("Keep the distinct pages, for the estimator rerank.", panel=OUTPUT, name="--displays")
]
LastClicks = Annotated[
    bool,
    option(
        "Also count by the rank of the last click above, for --users FILE of a browsing model, and with --displays of "
        "a dependent click model.",
        panel=OUTPUT,
        name="--last-clicks",
    ),
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


def positive_or(text: str, flag: str, *words: str) -> float | str:
    """A number above 0 from the text of an option, or one of the words that the option takes instead.

    `flag` is what stands before the text on the command: `--clip ` or `--estimator-param clip=`.

    >>> positive_or("0.5", "--learning-rate ", "auto"), positive_or("auto", "--learning-rate ", "auto")
    (0.5, 'auto')
    """
    if text in words:
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise CounterrankError(f"{flag}{text}: expected {', '.join(words)} or a number above 0")
    return value


def comma_separated(text: str, flag: str) -> list[str]:
    """Names between commas; one with a comma, a quote or outer blanks in it stands in double quotes, as in CSV.

    >>> comma_separated('price, "size, EU","5"" or more"', "--feature-columns")
    ['price', 'size, EU', '5" or more']
    """
    return [_unquoted(item, text, flag) for item in _COMMA.split(text)]


_COMMA = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')  # with an even number of quotes behind it


def _unquoted(item: str, text: str, flag: str) -> str:
    quoted = re.fullmatch(r'\s*"((?:[^"]|"")*)"\s*', item)
    if quoted is not None:
        return quoted[1].replace('""', '"')
    if '"' in item:
        raise CounterrankError(
            f"{flag} {text}: {item.strip()!r}; expected quotes around a whole name, and twice within"
        )
    return item.strip()


@dataclass(frozen=True)
class ColumnMap:
    """Other names of columns, as `--map` gives them.

    Attributes:
        data: by column of ranking data, its name in the data.
        log: by column of a log, its name in the log.
        both: of `query_id` and `doc_id`, names that may be those of the data, of the log, or of both.
    """

    data: Mapping[str, str]
    log: Mapping[str, str]
    both: Mapping[str, str]

    @classmethod
    def parse(cls, text: str | None) -> ColumnMap:
        """From the text of the option.

        >>> ColumnMap.parse("label=grade,data:query_id=q,doc_id=sku,rank=position")
        ColumnMap(data={'label': 'grade', 'query_id': 'q'}, log={'rank': 'position'}, both={'doc_id': 'sku'})
        >>> ColumnMap.parse('label="grade, 0 to 4"').data
        {'label': 'grade, 0 to 4'}
        """
        found: dict[str, dict[str, str]] = {"data": {}, "log": {}, "both": {}}
        names: dict[str, str] = {}
        for item in [] if text is None else _COMMA.split(text):
            key, _, value = item.partition("=")
            key, name = key.strip(), _unquoted(value, str(text), "--map")
            if not key or not name or key in names:
                raise CounterrankError(f"--map {text}: {item!r}; expected each column once, such as rank=position")
            names[key] = name
        for key, name in names.items():
            of, colon, column = key.rpartition(":")
            if not colon:
                of = "both" if column in _SHARED else "data" if column == "label" else "log"
            if of not in found or (colon and of == "both"):
                raise CounterrankError(f"--map {text}: {key!r}; expected data: or log: before the name of a column")
            found[of][column] = name
        return cls(**found)

    def of_data(self, source: str | None, has_log: bool) -> dict[str, str]:
        """Columns of the data; names that the data does not have are left to the log, if there is one."""
        both = {key: name for key, name in self.both.items() if key not in self.data}
        if has_log and source is not None:
            there = _data_columns(source)
            # where the data has neither name, the error names the one that was given
            both = {key: name for key, name in both.items() if name in there or (there and key not in there)}
        return {**both, **self.data}

    def of_log(self, source: str | None) -> tuple[dict[str, str], tuple[str, ...]]:
        """Columns of the log, and those of them whose usual name will do, since the data has the other one."""
        both = {key: name for key, name in self.both.items() if key not in self.log}
        there = () if source is None else _data_columns(source)
        return {**both, **self.log}, tuple(key for key, name in both.items() if name in there)


_SHARED = ("query_id", "doc_id")


def _data_columns(source: str) -> tuple[str, ...]:
    from counterrank.data.flat_files import column_names

    return tuple(column_names(source) or ())


Map = Annotated[
    str | None,
    option(
        "Other names of columns (ours=theirs), as label=grade,rank=position: query_id, doc_id and label of ranking "
        "data; session_id, query_id, doc_id, rank, clicked and others of a log. Where the two differ: "
        'data:query_id=q,log:query_id=query. Names with commas or quotes in double quotes: label="grade, final".',
        "LIST",
        DATA,
    ),
]


def data_options(
    map: Map = None,
    feature_columns: Annotated[
        str | None,
        option(
            "Columns of Parquet or CSV to use as features, as price,rating; all columns of numbers if not given.",
            "LIST",
            DATA,
        ),
    ] = None,
    split: Annotated[
        str | None,
        option(
            "Split data that is not a fold by a hash of its query ids: shares of train, validation and test "
            "(0.6,0.2,0.2), or of train and test (0.8,0.2).",
            "LIST",
            DATA,
        ),
    ] = None,
    *,
    source: str | None = None,
    has_log: bool = False,
) -> DataOptions:
    """How the ranking data `source` is read; `map` may be about a log too, if one is read."""
    from counterrank.data.sources import DataOptions

    renamed = ColumnMap.parse(map)
    if renamed.log and not has_log:
        names = ",".join(f"{key}={name}" for key, name in renamed.log.items())
        raise CounterrankError(f"--map {names}: of a log, and none is read; expected query_id, doc_id or label")
    if source is None:
        given = {"--map": ",".join(f"{key}={name}" for key, name in renamed.data.items()), "--split": split}
        given["--feature-columns"] = feature_columns
        for flag, value in given.items():
            if value:
                raise CounterrankError(f"{flag} {value}: of ranking data, and none is read; expected --data too")
        return DataOptions()
    columns = renamed.of_data(source, has_log)
    features = None if feature_columns is None else comma_separated(feature_columns, "--feature-columns")
    return DataOptions(columns, features, None if split is None else _shares(split), _read_data)


def _read_data(source: str, **options: Any) -> Any:
    """`open_data`, with its warnings, and a line that says which columns became features where none were chosen."""
    from counterrank.data import Fold, open_data
    from counterrank.data.feature_columns import with_reasons

    with show_warnings():
        found = open_data(source, **options)
    columns = (found.train if isinstance(found, Fold) else found).columns
    if columns is not None and options["features"] is None:
        left_out = f"; left out: {with_reasons(columns.left_out)}" if columns.left_out else ""
        say(f"{source}: features {listed(columns.features, 10)}{left_out}.")
    return found


def _shares(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise CounterrankError(f"--split {text}: expected 2 or 3 numbers that sum to 1, such as 0.6,0.2,0.2") from None


def _of_logs(
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
    context: Annotated[
        list[str] | None,
        option(
            "A column of the log with the context of each page, such as device, in which users may examine ranks "
            "differently; repeat for several.",
            "COLUMN",
            LOG,
        ),
    ] = None,
    hold_out_sessions: Annotated[
        float,
        option(
            "Hold out this share of the sessions, by a hash of their ids, for promote, which uses no others.", "X", LOG
        ),
    ] = 0.0,
    held_out: Annotated[
        bool,
        option(
            "Use the sessions that --hold-out-sessions holds out, and no others.", panel=LOG, name="--only-held-out"
        ),
    ] = False,
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
    map: str | None = None,
    source: str | None = None,
    threads: int | None = None,
) -> LogOptions:
    from counterrank.clicks.logs.columns import LogOptions

    if not all(word.strip() for word in click_actions.split(",")):
        raise CounterrankError(f"--click-actions {click_actions!r}: expected names, such as click,click_through")
    columns, fallback = ColumnMap.parse(map).of_log(source)
    return LogOptions(
        columns=columns,
        fallback=fallback,
        rank_base=rank_base,
        format=format,
        click_actions=tuple(click_actions.split(",")),
        impressions=impressions,
        only_policies=tuple(only_policy or ()),
        context=tuple(context or ()),
        hold_out_sessions=hold_out_sessions,
        held_out=held_out,
        on_error=on_error,
        strict=strict,
        skip_page_checks=skip_page_checks,
        memory=memory,
        threads=threads,
        engine=engine,
        master=master,
    )


def _of_clicks(
    clicks: Clicks = None,
    log: Log = None,
    policy: Policy = None,
    examination: Examination = None,
    logger: Logger = None,
    align: Align = False,
    users: Users = None,
    **known: Any,
) -> ClickSource:
    from counterrank.cli.evidence import ClickSource

    return ClickSource(clicks or [], log, policy or [], examination, logger or [], align=align, users=users, **known)


@dataclass(frozen=True)
class EstimateOptions:
    """How metrics are estimated from clicks; see `evaluation.estimate`."""

    population: str
    noise: tuple[float, float] | None
    method: str
    control: str
    in_sample: bool
    seed: int
    threads: int | None

    def settings(self, source: ClickSource, counts: ClickCounts) -> dict[str, Any]:
        """The arguments of `evaluation.estimate`: "dr" and control need the curve, all need models of trust bias."""
        needs_curve = self.method == "dr" or self.control != "none"
        exam = source.users_of(counts) if needs_curve or source.has_user_model(counts) else None
        return {**vars(self), "exam": exam}


def _of_estimates(
    population: Population = "queries",
    noise: Noise = None,
    method: Method = "ips",
    control: Control = "none",
    in_sample: InSample = False,
    seed: Seed = 0,
    threads: int | None = None,
) -> EstimateOptions:
    from counterrank.cli.evidence import parse_pair

    return EstimateOptions(population, parse_pair(noise, "--noise"), method, control, in_sample, seed, threads)


# by the argument of a command, what makes it of options that take its place
_MAKERS: dict[str, Callable[..., Any]] = {
    "source": _of_clicks,
    "how": _of_estimates,
    "opening": data_options,
    "reading": _of_logs,
}


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of ranking data; it gets them as `opening`, which must be one of its arguments."""

    def prepare(given: dict[str, Any], about: dict[str, dict[str, Any]]) -> dict[str, Any]:
        return {"opening": data_options(**about["opening"], source=given.get("data"))}

    return _with_options(command, ("opening",), prepare)


def reads_logs(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of ranking data and of logs; it gets them as `opening` and `reading`.

    With an argument `source` it gets the options of clicks, of which the log is one, as a `ClickSource` that knows how
    the log is read; with `how`, those of estimates as `EstimateOptions`.
    """
    own = [name for name in _MAKERS if name in inspect.signature(command).parameters]

    def prepare(given: dict[str, Any], about: dict[str, dict[str, Any]]) -> dict[str, Any]:
        from counterrank.clicks.stored_clicks import holds_counts

        data, threads = given.get("data"), given.get("threads")
        log = about["source"]["log"] if "source" in about else given.get("log")
        # `inspect` and `rates` take a log or click counts as their argument
        has_log = not holds_counts(given["clicks"]) if "clicks" in given else log is not None
        if not has_log and (flags := explicit_options("hold_out_sessions", "held_out")):
            raise CounterrankError(f"{flags[0]}: requires --log; click counts do not know which session is which")
        made = {
            "opening": data_options(**about["opening"], source=data, has_log=has_log),
            "reading": _of_logs(**about["reading"], map=about["opening"]["map"], source=data, threads=threads),
        }
        if "source" in own:
            trust = {name: given[name] for name in ("alpha", "beta") if name in given}
            made["source"] = _of_clicks(**about["source"], reading=made.pop("reading"), threads=threads, **trust)
        if "how" in own:
            made["how"] = _of_estimates(**about["how"], threads=threads)
        return made

    return _with_options(command, dict.fromkeys((*own, "reading")), prepare)


def _hints(of: Callable[..., Any]) -> dict[str, Any]:
    """The types of parameters; classes that are imported where they are needed, and not before, are of any type."""
    later = ("ClickCounts", "ClickSource", "DataOptions", "LogOptions")
    return get_type_hints(of, localns=dict.fromkeys(later, Any), include_extras=True)


def _added(maker: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of a maker of options that are options."""
    hints = _hints(maker)
    return {
        name: each.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, each in inspect.signature(maker).parameters.items()
        if hasattr(hints[name], "__metadata__")
    }


def _with_options(
    command: Callable[..., None],
    made: Iterable[str],
    prepare: Callable[[dict[str, Any], dict[str, dict[str, Any]]], dict[str, Any]],
) -> Callable[..., None]:
    """The command with options in the place of some arguments, which `prepare` makes of them."""
    own, hints = inspect.signature(command), _hints(command)
    added = {name: _added(_MAKERS[name]) for name in made}

    @wraps(command)
    def wrapper(**given: Any) -> None:
        about = {name: {key: given.pop(key) for key in options} for name, options in added.items()}
        command(**given, **prepare(given, about))

    parameters: list[inspect.Parameter] = []
    for name in dict.fromkeys((*own.parameters, *added)):
        if name in added:
            parameters += added[name].values()
        else:
            each = own.parameters[name]
            parameters.append(each.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
    wrapper.__dict__.update(__signature__=own.replace(parameters=parameters, return_annotation=None))
    del wrapper.__dict__["__wrapped__"]  # typer would look at the command's own arguments
    wrapper.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapper

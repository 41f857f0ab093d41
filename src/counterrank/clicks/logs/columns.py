"""How to read a click log: `LogOptions`, and the columns of the log, under their names and types in the files."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

from counterrank.clicks.counts import check_policy_names
from counterrank.common.checks import check_choice, check_number, is_whole
from counterrank.common.errors import CounterrankError, DataError, brief, close_names

IDS = ("session_id", "query_id", "doc_id")
NEEDED = (*IDS, "rank", "clicked")
OPTIONAL = ("propensity", "display_probability", "logging_score", "policy", "timestamp")
MINUTE = 60  # seconds
MEMORY = "1GB"
CLICK_ACTIONS = ("click",)
EARLIEST, LATEST = 631_152_000, 4_102_444_800  # 1990 and 2100 in seconds since 1970; other times are no dates of a log
_CLICKED = {True: ("1", "true", "t", "yes", "y", "1.0"), False: ("0", "false", "f", "no", "n", "0.0")}  # in any case
_NO_CLICKED = ("", "nan", "null", "none", "na")  # texts that say nothing, in any case
CLICK_WORDS = " or ".join(", ".join(words) for words in _CLICKED.values())
_EXACT = 2**53  # whole numbers below it are exact as floats
_HUGE = 10**15  # what is beyond is no rank anyway, and here it can still be counted up

# what a column holds, whatever an engine calls its type
WHOLE, FLOAT, BOOL, TEXT, TIME, EMPTY = "whole", "float", "bool", "text", "time", "empty"
_EXPECTED = {
    **dict.fromkeys(IDS, ((WHOLE, FLOAT, TEXT, EMPTY), "whole numbers or texts")),
    "policy": ((WHOLE, TEXT, EMPTY), "whole numbers or texts"),
    "rank": ((WHOLE, FLOAT, TEXT, EMPTY), "whole numbers"),
    "clicked": ((BOOL, WHOLE, FLOAT, TEXT, EMPTY), "booleans, 0 and 1, or texts such as yes and no"),
    **dict.fromkeys(("propensity", "display_probability", "logging_score"), ((WHOLE, FLOAT, TEXT, EMPTY), "numbers")),
    "timestamp": ((TIME, WHOLE, FLOAT, TEXT, EMPTY), "times"),
}
_OF_CONTEXTS = (WHOLE, BOOL, TEXT, EMPTY)
_HELD_OUT = "held out "  # before session ids, so that their hashes are not those of other uses
SEPARATOR = "\x1f"  # between the policy and the context of a page; ASCII's own for that purpose
# what columns are also called in logs; names are compared in lower case, with _ between their words
_ALSO_CALLED = {
    "session_id": "session page page_id request request_id impression_id serp_id view_id",
    "query_id": "query search search_id search_term q qid keyword term",
    "doc_id": "doc docid document document_id item item_id product product_id sku",
    "rank": "position pos slot place ranking",
    "clicked": "click clicks is_click is_clicked was_clicked",
    "propensity": "prop props propensities exam_prob examination_probability p_examined",
    "policy": "policies variant arm bucket experiment experiment_group ab_group ab_test treatment logger ranker model",
    "timestamp": "ts time datetime date event_time event_date created_at shown_at logged_at server_time epoch utc",
}
_TELLING = {"propensity": "propensity propensities", "policy": "policy", "timestamp": "timestamp ts"}  # words in names


def suggested_columns(wanted: Sequence[str], found: Sequence[str]) -> dict[str, str]:
    """For columns of a log that are not there, by name, a column of the files that seems to be meant, if there is one.

    >>> suggested_columns(("policy", "propensity", "timestamp"), ["Logging Policy", "prop", "eventTS", "price"])
    {'policy': 'Logging Policy', 'propensity': 'prop', 'timestamp': 'eventTS'}
    """
    chosen: dict[str, str] = {}
    for column in wanted:
        left = [name for name in found if name not in chosen.values()]
        also, words = _ALSO_CALLED.get(column, "").split(), _TELLING.get(column, "").split()
        if close := close_names(column, left, also, words, cutoff=0.8):
            chosen[column] = close[0]
    return chosen


@dataclass(frozen=True)
class LogOptions:
    """Options for reading a log.

    Attributes:
        columns: for columns of the log that have another name in the files, that name.
        fallback: of these, the columns that are read under their usual name where the files do not have the other one.
        rank_base: the number of the first rank, 0 or 1.
        format: a name of `FORMATS`; "auto" detects it from the names and first lines of the files.
        click_actions: which events of OpenSearch UBI (their action_name) or metarank (their type) are clicks.
        impressions: each row is a page of its own, session_id is not needed, and query_id is one constant if missing.
        only_policies: use the sessions of these policies only, by their names in the column `policy`; all if empty.
        context: columns that say in which context a page was shown, such as ["device"], by their names in the files.
            Users may behave differently in each, see docs/how-to/contexts.md; a page has one context, of several
            columns all values together, "mobile, de".
        on_error: "fail", or "skip" to drop the pages that have something wrong in them.
        strict: rows of queries that the data does not have, and of documents that are not candidates of their query,
            are faults too; else they are counted and left out.
        skip_page_checks: do not check whether pages are whole and name each document once; `trust` is its old name.
        memory: how much DuckDB may use, such as "500MB"; beyond it, it spills to the folder that TMPDIR names.
        threads: how many DuckDB may use.
        hold_out_sessions: the share of the sessions to hold out, for `promote`; 0 to use all. Which they are follows
            from a hash of the session id, so that sessions stay where they are when the log grows.
        held_out: read the sessions that are held out, and not the others.
        engine: "duckdb", or "spark" on the cluster that `master` names.
        master: "local[*]", "spark://HOST:PORT" or "sc://HOST:PORT"; or a SparkSession, which stays open.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    rank_base: int = 1
    format: str = "auto"
    click_actions: Sequence[str] = CLICK_ACTIONS
    impressions: bool = False
    only_policies: Sequence[str] = ()
    on_error: str = "fail"
    strict: bool = False
    skip_page_checks: bool = False
    memory: str = MEMORY
    threads: int | None = None
    engine: str = "duckdb"
    master: Any = None
    fallback: Sequence[str] = ()
    context: Sequence[str] = ()
    hold_out_sessions: float = 0.0
    held_out: bool = False
    trust: InitVar[bool | None] = None

    def __post_init__(self, trust: bool | None) -> None:
        if trust is not None:
            warnings.warn("trust is deprecated; use skip_page_checks", DeprecationWarning, stacklevel=4)
            object.__setattr__(self, "skip_page_checks", trust)
        renamed = self.columns
        if not isinstance(renamed, Mapping) or not all(isinstance(name, str) for name in renamed.values()):
            raise CounterrankError(
                f"columns={brief(renamed)}: expected names by column, such as {{'rank': 'position'}}"
            )
        if not isinstance(self.only_policies, list | tuple) or self.only_policies:
            check_policy_names(self.only_policies)
        context = (self.context,) if isinstance(self.context, str) else self.context
        if not isinstance(context, list | tuple) or not all(isinstance(name, str) and name for name in context):
            raise CounterrankError(f"context={brief(context)}: expected names of columns, such as ['device']")
        object.__setattr__(self, "context", tuple(dict.fromkeys(context)))
        share = check_number(self.hold_out_sessions, "hold_out_sessions", at_least=0.0, below=1.0, also=", such as 0.2")
        if share and self.impressions:
            raise CounterrankError("hold_out_sessions: there are no sessions where each row is a page of its own")
        if self.held_out and not share:
            raise CounterrankError("held_out: requires hold_out_sessions, the share that was held out of training")
        check_choice(self.on_error, ("fail", "skip"), "on_error")
        check_choice(self.engine, ("duckdb", "spark"), "engine")
        if self.engine == "duckdb" and self.master is not None:
            raise CounterrankError(f"master={brief(self.master)}: of a Spark cluster; expected engine='spark' too")
        names = self.click_actions
        listed = isinstance(names, list | tuple | set | frozenset) and len(names) > 0
        if not listed or not all(isinstance(name, str) and name.strip() for name in names):
            raise CounterrankError(f"click_actions={brief(names)}: expected names of actions, such as ('click',)")


@dataclass(frozen=True)
class Columns:
    """How the columns of the log are read from those of its files.

    Attributes:
        source: for each column of the log that is there, the quoted name it has in the files.
        kinds: for each of these, what it holds.
        rank_base: the number of the first rank, 0 or 1.
        impressions: whether each row is a page of its own.
        timed: whether the minute of each row is read too.
        table: what the rows are read from: `raw`, or some of it.
        only_policies: the policies whose rows these are; empty for all.
        names: for each column of the log that is there, the name it has in the files, as it is.
        unused: the names of columns of the files that are not used.
        suggested: for optional columns of a log that are not there, one of these that seems to be meant.
        contexts: the columns of the context of a page, as they are called in `source`; their values become a part of
            the policy's name, see `split_entry`, so that each policy in each context is counted as one.
    """

    source: dict[str, str]
    kinds: dict[str, str]
    rank_base: int
    impressions: bool
    timed: bool = False
    table: str = "raw"
    only_policies: tuple[str, ...] = ()
    names: dict[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    suggested: dict[str, str] = field(default_factory=dict)
    contexts: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether the log has this column; a log with contexts has policies, though they may have no names."""
        return name in self.source or (name == "policy" and bool(self.contexts))

    def has_whole_ids(self, name: str) -> bool:
        """Whether the ids of this column are whole numbers; the only query of a log without queries is one."""
        return self.kinds.get(name, WHOLE) in (WHOLE, FLOAT)

    @property
    def needed(self) -> tuple[str, ...]:
        """What each row must have."""
        return tuple(name for name in (*NEEDED, "propensity", "policy", *self.contexts) if name in self.source)

    def read(self, name: str) -> str:
        """The column as SQL: what it says in the log's own terms, null where it says nothing that makes sense."""
        column, kind = self.source[name], self.kinds[name]
        if name in IDS and kind == FLOAT:  # as pandas holds whole numbers where some are missing
            small = f"abs({column}) < {_EXACT}"
            return f"case when {small} then case when {column} = floor({column}) then cast({column} as bigint) end end"
        if name in (*IDS, "policy", *self.contexts):
            return f"cast({column} as {'bigint' if kind == WHOLE and name in IDS else 'string'})"
        if name == "rank":
            return self._rank(column, kind)
        if name == "clicked":
            return _clicked(column, kind)
        return _number(column, kind)

    def is_missing(self, name: str) -> str:
        """Whether a row has nothing in this column, as SQL; of clicks also NaN, which a join leaves in frames."""
        column, kind = self.source[name], self.kinds[name]
        if name != "clicked" or kind not in (FLOAT, TEXT):
            return f"{column} is null"
        # as texts: DuckDB skips groups of rows by what Parquet says of their numbers, which leaves NaN out
        return f"{column} is null or lower(trim(cast({column} as string))) in ({', '.join(map(repr, _NO_CLICKED))})"

    def _rank(self, column: str, kind: str) -> str:
        shift = " + 1" if self.rank_base == 0 else ""
        if kind == WHOLE:
            return f"least(cast({column} as bigint), {_HUGE}){shift}" if shift else f"cast({column} as bigint)"
        number = _number(column, kind)
        small = f"least({number}, {_HUGE})"
        whole = f"case when {small} = floor({small}) then cast({small} as bigint){shift} end"
        # one after the other: Spark's floor is a whole number, which overflows
        return f"case when {number} between -{_HUGE} and 1e300 then {whole} end"

    def seconds(self, moment: str, number: str) -> str:
        """A time in seconds since 1970, as SQL; null where it is no date from 1990 to 2099.

        Numbers are seconds, milliseconds, microseconds or nanoseconds since 1970, whichever gives such a date. Times
        that name no zone are in UTC.

        Arguments:
            moment: what holds the timestamp as the files have it.
            number: what holds it as `number_of_time` reads it.
        """
        kind = self.kinds["timestamp"]
        if kind == TIME:
            return _within(f"unix_seconds(cast({moment} as timestamp))")
        scales = [f"when {number} >= {EARLIEST}e{e} and {number} < {LATEST}e{e} then {number} / 1e{e}" for e in _SCALES]
        scaled = f"case {' '.join(scales)} end"
        if kind != TEXT:
            return scaled
        return f"case when {number} is null then {_within(f'seconds_in({moment})')} else {scaled} end"

    def number_of_time(self) -> str:
        """The timestamp as a number, as SQL; null where it is a time or another text."""
        kind = self.kinds["timestamp"]
        return "cast(null as double)" if kind == TIME else _number(self.source["timestamp"], kind)

    def normalised(self, *more: str) -> str:
        """The log as a query over its files: the columns that are counted, and `more`."""
        chosen = [f"{self.read(name)} as {name}" for name in self.needed if name not in self._of_page]
        if self.has("policy"):
            chosen.append(f"{self._entry()} as policy")
        if not self.has("query_id"):
            chosen.append("cast(0 as bigint) as query_id")
        if not self.has("timestamp"):
            return f"select {', '.join((*chosen, *more))} from {self.table}"
        chosen += [f"{self.source['timestamp']} as moment", f"{self.number_of_time()} as instant"]
        rows = f"select {', '.join((*chosen, *more))} from {self.table}"
        # one after the other, so that each text is taken for a number and for a time only once
        dated = f"select *, {self.seconds('moment', 'instant')} as seconds from ({rows}) as timed"
        minute = f"cast(floor(seconds / {MINUTE}) as bigint)"
        return f"select *, {minute} as minute from ({dated}) as dated" if self.timed else dated

    @property
    def _of_page(self) -> tuple[str, ...]:
        return ("policy", *self.contexts)

    def _entry(self) -> str:
        """The policy of a page and its context as one text, as SQL; null where one of them is."""
        policy = self.read("policy") if "policy" in self.source else "''"
        context = " || ', ' || ".join(map(self.read, self.contexts))
        return f"{policy} || chr({ord(SEPARATOR)}) || {context}" if self.contexts else policy

    def of_policies(self, names: Sequence[str], text: Callable[[str], str]) -> str:
        """The rows of some policies, as a query over the files; those that name none stay, as faults.

        `text` writes a text as SQL has it.
        """
        policy = self.read("policy")
        return f"select * from raw where {policy} is null or {policy} in ({', '.join(map(text, names))})"

    def of_sessions(self, share: float, held_out: bool) -> str:
        """The rows of the sessions that are held out, or of the others, as a query over the files.

        By the first 8 digits of the MD5 of the session id, which is the same for all engines. Rows without a session
        are among the others, as faults.
        """
        digits = f"substr(md5('{_HELD_OUT}' || cast({self.read('session_id')} as string)), 1, 8)"
        below = f"{digits} < '{min(round(share * 16**8), 16**8 - 1):08x}'"
        return f"select * from {self.table} where {below if held_out else f'not coalesce({below}, false)'}"


def _number(column: str, kind: str) -> str:
    """Texts go through a function of the engine: each reads `1_000`, `1d` or `+-1` in its own way, and none should."""
    return f"number_in({column})" if kind == TEXT else f"try_cast({column} as double)"


def split_entry(entry: str) -> tuple[str, str]:
    """The name of the policy and the context, "" without one, of what `Columns.normalised` calls policy.

    >>> split_entry("v2\\x1fmobile"), split_entry("v2")
    (('v2', 'mobile'), ('v2', ''))
    """
    policy, _, context = entry.partition(SEPARATOR)
    return policy, context


_SCALES = (0, 3, 6, 9)  # seconds, milliseconds, microseconds, nanoseconds


def _within(seconds: str) -> str:
    return f"case when {seconds} >= {EARLIEST} and {seconds} < {LATEST} then {seconds} end"


def _clicked(column: str, kind: str) -> str:
    if kind == BOOL:
        return column
    if kind == TEXT:
        words = {value: ", ".join(f"'{word}'" for word in known) for value, known in _CLICKED.items()}
        found = [f"when lower(trim({column})) in ({words[value]}) then {str(value).lower()}" for value in words]
        return f"case {' '.join(found)} end"
    return f"case when {column} = 1 then true when {column} = 0 then false end"


def plan_columns(name: str, found: Mapping[str, tuple[str, str]], options: LogOptions, events: bool = False) -> Columns:
    """Which column of the files is which column of the log.

    Arguments:
        name: of the log, for messages.
        found: for each column of the files its quoted name and the name of its type, as the engine has them.
        options: of these, `columns`, `rank_base` and `impressions` count.
        events: whether the files were made of events; their column `orphan` marks clicks without an impression.
    """
    renamed, rank_base, impressions = options.columns, options.rank_base, options.impressions
    if not is_whole(rank_base) or rank_base not in (0, 1):
        raise CounterrankError(f"rank_base={brief(rank_base)}: expected 0 or 1, the number of the first rank")
    known = (*NEEDED, *OPTIONAL)
    for key in renamed:
        if key not in known:
            raise CounterrankError(f"columns: no column {brief(key)} in a click log; expected {', '.join(known)}")
    optional = ("session_id", "query_id") if impressions else ()
    source, kinds, names = {}, {}, {}
    for column in known:
        wanted = renamed.get(column, column)
        if column in options.fallback and wanted not in found and column in found:
            wanted = column
        if wanted not in found:
            if column in renamed or (column in NEEDED and column not in optional):
                raise DataError(_missing(name, column, wanted, found))
            continue
        quoted, kind = found[wanted]
        allowed, expected = _EXPECTED[column]
        if kind not in allowed:
            raise DataError(f"{name}: column {wanted!r} has type {kind}; expected {expected}")
        source[column], kinds[column], names[column] = quoted, kind, wanted
    contexts = tuple(f"context_{i}" for i in range(1, len(options.context) + 1))
    for column, wanted in zip(contexts, options.context, strict=True):
        if wanted not in found:
            there = ", ".join(map(repr, found)) or "none"
            raise DataError(f"{name}: no column {wanted!r} for the context; the log has {there}")
        quoted, kind = found[wanted]
        if kind not in _OF_CONTEXTS:
            raise DataError(f"{name}: column {wanted!r} has type {kind}; expected whole numbers or texts as context")
        source[column], kinds[column], names[column] = quoted, kind, wanted
    if impressions:
        source.pop("session_id", None)
    if events and "orphan" in found:
        source["orphan"], kinds["orphan"] = found["orphan"]
    # events are made into these columns here, so none of theirs is left over
    unused = () if events else tuple(each for each in found if each not in names.values())
    suggested = suggested_columns([column for column in OPTIONAL if column not in source], unused)
    return Columns(
        source, kinds, rank_base, impressions, names=names, unused=unused, suggested=suggested, contexts=contexts
    )


def _missing(name: str, column: str, wanted: str, found: Mapping[str, object]) -> str:
    there = ", ".join(map(repr, found)) or "none"
    hint = "; use impressions=True if each row is a page of its own" if column == wanted == "session_id" else ""
    close = suggested_columns((column,), list(found)).get(column)
    other = "NAME} gives another name" if close in (None, column) else f"{close!r}}} if that is it"
    return f"{name}: no column {wanted!r}; the log has {there}; columns={{{column!r}: {other}{hint}"

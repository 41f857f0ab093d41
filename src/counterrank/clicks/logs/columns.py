"""How to read a click log: `LogOptions`, and the columns of the log, under their names and types in the files."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

from counterrank.clicks.counts import check_policy_names
from counterrank.common.checks import check_choice
from counterrank.common.errors import CounterrankError, DataError

IDS = ("session_id", "query_id", "doc_id")
NEEDED = (*IDS, "rank", "clicked")
OPTIONAL = ("propensity", "display_probability", "logging_score", "policy", "timestamp")
MINUTE = 60  # seconds
MEMORY = "1GB"
CLICK_ACTIONS = ("click",)
_HUGE = 10**15  # what is beyond is no rank anyway, and here it can still be counted up

# what a column holds, whatever an engine calls its type
WHOLE, FLOAT, BOOL, TEXT, TIME, EMPTY = "whole", "float", "bool", "text", "time", "empty"
_EXPECTED = {
    **dict.fromkeys((*IDS, "policy"), ((WHOLE, TEXT, EMPTY), "whole numbers or texts")),
    "rank": ((WHOLE, FLOAT, TEXT, EMPTY), "whole numbers"),
    "clicked": ((BOOL, WHOLE, FLOAT, TEXT, EMPTY), "0, 1 or booleans"),
    **dict.fromkeys(("propensity", "display_probability", "logging_score"), ((WHOLE, FLOAT, TEXT, EMPTY), "numbers")),
    "timestamp": ((TIME, WHOLE, FLOAT, TEXT, EMPTY), "times"),
}


@dataclass(frozen=True)
class LogOptions:
    """How a log is to be read.

    Attributes:
        columns: for columns of the log that have another name in the files, that name.
        fallback: of these, the columns that are read under their usual name where the files do not have the other one.
        rank_base: the number of the first rank, 0 or 1.
        format: a name of `FORMATS`; "auto" goes by the names and first lines of the files.
        click_actions: which events of OpenSearch UBI (their action_name) or metarank (their type) are clicks.
        impressions: each row is a page of its own, session_id is not needed, and query_id is one constant if missing.
        only_policies: use the sessions of these policies only, by their names in the column `policy`; all if empty.
        on_error: "fail", or "skip" to drop the pages that have something wrong in them.
        strict: rows of queries that the data does not have, and of documents that are not candidates of their query,
            are faults too; else they are counted and left out.
        skip_page_checks: do not check whether pages are whole and name each document once; `trust` is its old name.
        memory: how much DuckDB may use, such as "500MB"; beyond it, it spills to the folder that TMPDIR names.
        threads: how many DuckDB may use.
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
    trust: InitVar[bool | None] = None

    def __post_init__(self, trust: bool | None) -> None:
        if trust is not None:
            warnings.warn("trust is deprecated; use skip_page_checks", DeprecationWarning, stacklevel=4)
            object.__setattr__(self, "skip_page_checks", trust)
        if self.only_policies is None or len(self.only_policies):
            check_policy_names(self.only_policies)
        check_choice(self.on_error, ("fail", "skip"), "on_error")
        check_choice(self.engine, ("duckdb", "spark"), "engine")
        if self.engine == "duckdb" and self.master is not None:
            raise CounterrankError(f"master={self.master!r}: of a Spark cluster; expected engine='spark' too")
        names = self.click_actions
        if isinstance(names, str) or not names or not all(isinstance(name, str) and name.strip() for name in names):
            raise CounterrankError(f"click_actions={names!r}: expected names of actions, such as ('click',)")


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
    """

    source: dict[str, str]
    kinds: dict[str, str]
    rank_base: int
    impressions: bool
    timed: bool = False
    table: str = "raw"
    only_policies: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether the log has this column."""
        return name in self.source

    @property
    def needed(self) -> tuple[str, ...]:
        """What each row must have."""
        return tuple(name for name in (*NEEDED, "propensity", "policy") if self.has(name))

    def read(self, name: str) -> str:
        """The column as SQL: what it says in the log's own terms, null where it says nothing that makes sense."""
        column, kind = self.source[name], self.kinds[name]
        if name in (*IDS, "policy"):
            return f"cast({column} as {'bigint' if kind == WHOLE and name != 'policy' else 'string'})"
        if name == "rank":
            return self._rank(column, kind)
        if name == "clicked":
            return _clicked(column, kind)
        return _number(column, kind)

    def _rank(self, column: str, kind: str) -> str:
        shift = " + 1" if self.rank_base == 0 else ""
        if kind == WHOLE:
            return f"least(cast({column} as bigint), {_HUGE}){shift}" if shift else f"cast({column} as bigint)"
        number = _number(column, kind)
        small = f"least({number}, {_HUGE})"
        whole = f"case when {small} = floor({small}) then cast({small} as bigint){shift} end"
        # one after the other: Spark's floor is a whole number, which overflows
        return f"case when {number} between -{_HUGE} and 1e300 then {whole} end"

    def seconds(self, column: str) -> str:
        """A time in seconds since 1970, whatever it is written in; of a column that holds what `timestamp` does."""
        kind = self.kinds["timestamp"]
        if kind == TIME:
            return f"unix_seconds(cast({column} as timestamp))"
        number = _number(column, kind)
        scaled = (
            f"case when {number} > 1e17 then {number} / 1e9 when {number} > 1e14 then {number} / 1e6 "
            f"when {number} > 1e11 then {number} / 1e3 else {number} end"
        )
        return f"coalesce({scaled}, unix_seconds(try_cast({column} as timestamp)))" if kind == TEXT else scaled

    def normalised(self, *more: str) -> str:
        """The log as a query over its files: the columns that are counted, and `more`."""
        chosen = [f"{self.read(name)} as {name}" for name in self.needed]
        if not self.has("query_id"):
            chosen.append("cast(0 as bigint) as query_id")
        if self.has("timestamp"):
            chosen.append(f"{self.source['timestamp']} as moment")
        if self.timed:
            seconds = f"({self.seconds(self.source['timestamp'])})"
            minute = f"cast(floor({seconds} / {MINUTE}) as bigint)"
            chosen.append(f"case when abs({seconds}) < 1e12 then {minute} end as minute")
        return f"select {', '.join((*chosen, *more))} from {self.table}"

    def of_policies(self, names: Sequence[str], text: Callable[[str], str]) -> str:
        """The rows of some policies, as a query over the files; those that name none stay, as faults.

        `text` writes a text as SQL has it.
        """
        policy = self.read("policy")
        return f"select * from raw where {policy} is null or {policy} in ({', '.join(map(text, names))})"


def _number(column: str, kind: str) -> str:
    """Texts go through a function of the engine: each reads `1_000`, `1d` or `+-1` in its own way, and none should."""
    return f"number_in({column})" if kind == TEXT else f"try_cast({column} as double)"


def _clicked(column: str, kind: str) -> str:
    if kind == BOOL:
        return column
    if kind == TEXT:
        word = f"lower({column})"
        return f"case when {word} in ('1', 'true', '1.0') then true when {word} in ('0', 'false', '0.0') then false end"
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
    if rank_base not in (0, 1) or isinstance(rank_base, bool):
        raise CounterrankError(f"rank_base={rank_base!r}: expected 0 or 1, the number of the first rank")
    known = (*NEEDED, *OPTIONAL)
    for key in renamed:
        if key not in known:
            raise CounterrankError(f"columns: no column {key!r} in a click log; expected {', '.join(known)}")
    optional = ("session_id", "query_id") if impressions else ()
    source, kinds = {}, {}
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
        source[column], kinds[column] = quoted, kind
    if impressions:
        source.pop("session_id", None)
    if events and "orphan" in found:
        source["orphan"], kinds["orphan"] = found["orphan"]
    return Columns(source, kinds, rank_base, impressions)


def _missing(name: str, column: str, wanted: str, found: Mapping[str, object]) -> str:
    there = ", ".join(map(repr, found)) or "none"
    hint = "; use impressions=True if each row is a page of its own" if column == wanted == "session_id" else ""
    return f"{name}: no column {wanted!r}; the log has {there}; columns={{{column!r}: NAME}} gives another name{hint}"


def parse_map(text: str | None) -> dict[str, str]:
    """Names of columns as the command line gives them: those of the log, each with its name in the files.

    >>> parse_map("rank=position,clicked=is_click")
    {'rank': 'position', 'clicked': 'is_click'}
    """
    result: dict[str, str] = {}
    for item in text.split(",") if text else ():
        key, equals, value = item.partition("=")
        if not equals or not key.strip() or not value.strip() or key.strip() in result:
            raise CounterrankError(f"map={text!r}: {item!r}; expected each column once, such as rank=position")
        result[key.strip()] = value.strip()
    return result

"""Faults of a click log: the rules that find them, what is dropped because of them, and the report on all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from unicodedata import normalize

from counterrank.clicks.displays import DEEPEST_RANK
from counterrank.clicks.logs.columns import CLICK_WORDS, FLOAT, IDS, Columns
from counterrank.clicks.logs.engine import Engine, Unreadable, disable_statistics
from counterrank.common.deprecation import deprecated_method
from counterrank.common.errors import printable, quoted

# Faults of whole pages and of ids, in the order they are reported; those of rows come before them.
TWO_QUERIES = "are one session under several queries"
TWO_POLICIES = "are one session under several policies"
DOCUMENT_TWICE = "show a document twice"
RANK_TWICE = "show two documents at one rank"
GAP = "have a gap in their ranks"
UNKNOWN_QUERY = "have a query that is not in the ranking data"
UNKNOWN_DOCUMENT = "have a document that is not among the candidates of its query"
TOO_DEEP = "have a rank beyond the candidates of their query"
UNREADABLE = "cannot be read"
ORPHAN = "are a click without an impression"
NO_CLICKED = "have no clicked"
BAD_CLICKED = "have a clicked that is not 0 or 1"
_REMEDIES = {
    NO_CLICKED: "; missing clicks are not taken for 0: fill in 0 where they mean no click",
    BAD_CLICKED: f"; clicked is {CLICK_WORDS}, in any case",
}

_NO_DATE = "have a timestamp that is not a date"
# Share of rows of unknown queries up to which nothing is said: a log always has some queries that are newer than the
# data, and 5 % of the rows hardly change a result (verdicts, too, allow this share to be uncovered).
MANY_UNKNOWN = 0.05
_LISTED = 10  # names of columns in a message
_FEW = 0.1  # share of numbers in `timestamp` that cannot be times, up to which the others are used

# The rules by which `exact` finds them.
PAGE_RULES = {
    TWO_QUERIES: "queries > 1",
    TWO_POLICIES: "policies > 1",
    DOCUMENT_TWICE: "again > 0",
    RANK_TWICE: "shared > 0",
    GAP: "ranks = n and shared = 0 and lowest >= 1 and highest > n",
}


@dataclass(frozen=True)
class Fault:
    """One kind of fault in a log.

    Attributes:
        kind: what is wrong, in words that go on from "rows" or "pages".
        unit: "rows", "pages" or "lines".
        count: how many have it; one may have several.
        example: the first of them.
    """

    kind: str
    unit: str
    count: int
    example: str

    def __str__(self) -> str:
        return f"{self.counted()} ({self.example})"

    def counted(self) -> str:
        """The number of rows with this fault, without the example."""
        if self.count != 1:
            return f"{self.count:,} {self.unit} {self.kind}"
        verb, _, rest = self.kind.partition(" ")
        singular = {"are": "is", "have": "has", "show": "shows"}.get(verb, verb)
        return f"1 {self.unit[:-1]} {singular} {rest.replace('their ', 'its ')}"


@dataclass(frozen=True)
class LogReport:
    """Numbers of rows of a log: `rows` is the sum of `used`, all that was `dropped` and all that is `unknown`.

    Attributes:
        name: of the log.
        rows: how many were read, lines that cannot be read included.
        used: how many of them were counted.
        pages: how many pages these are.
        dropped: how many rows were dropped, by the first fault of their page.
        dropped_pages: how many pages were dropped.
        faults: all that was found.
        unknown: rows of queries that the data does not have, and of documents that are not candidates of their query;
            left out, and no faults (unless the log is read with `strict`).
        notes: rows whose timestamp is not a date. They count, but not over time.
        dated: whether timestamps are used; not so where the log has none that is a date, or more than a tenth of
            them are numbers that cannot be times.
        unused_columns: the columns of the files that are not used.
        suggested_columns: for optional columns of a log that it does not have, one of these that seems to be meant.
        id_hint: why the data may not have some ids, if that can be seen from how they are written.
    """

    name: str
    rows: int
    used: int
    pages: int
    dropped: dict[str, int] = field(default_factory=dict)
    dropped_pages: int = 0
    faults: tuple[Fault, ...] = ()
    unknown: tuple[Fault, ...] = ()
    notes: tuple[Fault, ...] = ()
    dated: bool = False
    unused_columns: tuple[str, ...] = ()
    suggested_columns: dict[str, str] = field(default_factory=dict)
    id_hint: str = ""

    @property
    def unknown_queries(self) -> int:
        """The number of rows with a query that is not in the data."""
        return sum(each.count for each in self.unknown if each.kind == UNKNOWN_QUERY)

    @property
    def unknown_documents(self) -> int:
        """The number of rows with a query of the data and a document that is not among its candidates."""
        return sum(each.count for each in self.unknown if each.kind == UNKNOWN_DOCUMENT)

    def summary(self) -> dict[str, Any]:
        """The numbers as plain values."""
        return {
            "log": self.name,
            "rows": self.rows,
            "rows_used": self.used,
            "pages": self.pages,
            "rows_dropped": sum(self.dropped.values()),
            "pages_dropped": self.dropped_pages,
            "dropped": dict(self.dropped),
            "faults": [asdict(each) for each in self.faults],
            "rows_of_unknown_queries": self.unknown_queries,
            "rows_of_unknown_documents": self.unknown_documents,
            "unknown": [asdict(each) for each in self.unknown],
            "notes": [asdict(each) for each in self.notes],
            "dated": self.dated,
            "unused_columns": list(self.unused_columns),
            "suggested_columns": dict(self.suggested_columns),
        }

    def messages(self) -> list[str]:
        """What to know before using the counts, one sentence each."""
        found = (
            self.drop_message() if self.dropped else None,
            self.unknown_message(),
            self.date_message(),
            self.column_message() if self.suggested_columns else None,
        )
        return [each for each in found if each is not None]

    def drop_message(self) -> str:
        """One sentence about what was dropped."""
        shares = ", ".join(f"{n:,} because they or their page {kind}" for kind, n in self.dropped.items())
        return (
            f"{self.name}: dropped {sum(self.dropped.values()):,} of {self.rows:,} rows, with {self.dropped_pages:,} "
            f"pages: {shares}{_REMEDIES[NO_CLICKED] if NO_CLICKED in self.dropped else ''}"
        )

    def left_out(self) -> str:
        """What was left out because the data does not have it, to follow another sentence; empty if nothing was."""
        return "".join(f"; {each.counted()}" for each in self.unknown)

    def unknown_message(self) -> str | None:
        """One sentence about queries and documents that the data does not have.

        None if there are no such documents, and such queries have at most 5 % of the rows.
        """
        rows, words, rest = self.used + self.unknown_queries + self.unknown_documents, [], ""
        for each in self.unknown:
            if each.kind == UNKNOWN_DOCUMENT:
                share = each.count / (self.used + each.count)
                words.append(f"{each}, {share:.2%} of the impressions of queries in the data")
                rest = ", the rest of their pages is counted"
            elif each.count > MANY_UNKNOWN * rows:
                words.append(f"{each}, {each.count / rows:.2%} of the rows")
        return f"{self.name}: {'; '.join(words)}; they are left out{rest}{self.id_hint}" if words else None

    def date_message(self) -> str | None:
        """One sentence about timestamps that are not dates; None if there are none."""
        if not self.notes:
            return None
        rest = "these rows count, but not over time" if self.dated else "timestamps are not used"
        expected = "ISO 8601, or seconds, milliseconds or microseconds since 1970, from 1990 to 2099"
        return f"{self.name}: {'; '.join(map(str, self.notes))}; {rest}; expected {expected}"

    def column_message(self) -> str | None:
        """One sentence about columns that are not used, and what some of them may be; None if all are used."""
        if not self.unused_columns:
            return None
        names = ", ".join(map(quoted, self.unused_columns[:_LISTED]))
        more = len(self.unused_columns) - _LISTED
        hints = [
            f"; if {quoted(name)} is the {column}, use columns={{{column!r}: {name!r}}}"
            for column, name in self.suggested_columns.items()
        ]
        return f"{self.name}: columns not used: {names}{f' and {more:,} more' if more > 0 else ''}{''.join(hints)}"

    words = deprecated_method("words", "drop_message")
    warning = deprecated_method("warning", "unknown_message")


def row_rules(columns: Columns) -> dict[str, str]:
    """For each fault of a row, when a row of the files has it."""
    called = {name: columns.names[name] if name in columns.contexts else name for name in columns.needed}
    rules = {f"have no {called[name]}": columns.is_missing(name) for name in columns.needed}
    fractions = [name for name in IDS if columns.has(name) and columns.kinds[name] == FLOAT]
    rules |= {f"have a {name} that is not whole": _not(columns, name, "is not null") for name in fractions}
    rules["have a rank below 1 or not whole"] = _not(columns, "rank", ">= 1")
    rules[f"have a rank beyond {DEEPEST_RANK:,}"] = f"coalesce(({columns.read('rank')}) > {DEEPEST_RANK}, false)"
    rules[BAD_CLICKED] = _not(columns, "clicked", "is not null")
    if columns.has("propensity"):
        rules["have a propensity outside 0 to 1"] = _not(columns, "propensity", "between 0 and 1")
        rules["are a click at propensity 0"] = f"({columns.read('clicked')}) and ({columns.read('propensity')}) = 0"
    if columns.has("orphan"):
        orphan = columns.source["orphan"]
        return {ORPHAN: orphan} | {kind: f"not {orphan} and ({rule})" for kind, rule in rules.items()}
    return rules


def _not(columns: Columns, name: str, rule: str) -> str:
    """What is there but breaks the rule."""
    return f"not ({columns.is_missing(name)}) and not coalesce(({columns.read(name)}) {rule}, false)"


def exact(columns: Columns) -> str:
    """What is wrong with each of the `suspects`, all of it counted exactly; pages that are in order are left out.

    Only values that are there are compared: a page that lacks one has a fault of its rows, and not another for that.
    """
    policies = "count(distinct policy)" if columns.has("policy") else "1"
    shown = "where rank is not null " if columns.has("orphan") else ""  # clicks on nothing shown have no rank
    return (
        "select * from (select session_id, count(*) as n, "
        "count(distinct query_id) as queries, " + policies + " as policies, "
        "count(doc_id) - count(distinct doc_id) as again, count(rank) - count(distinct rank) as shared, "
        "count(rank) as ranks, min(rank) as lowest, max(rank) as highest from log "
        f"semi join suspects on log.session_id = suspects.session_id {shown}"
        "group by session_id) as page "
        f"where {' or '.join(f'({rule})' for rule in PAGE_RULES.values())}"
    )


def is_sound(columns: Columns) -> str:
    """Whether all rows of a cell say something that makes sense."""
    rules = [
        "query_id is not null",
        "doc_id is not null",
        f"rank between 1 and {DEEPEST_RANK}",
        "readable = impressions",
    ]
    if columns.has("policy"):
        rules.append("policy is not null")
    if columns.has("propensity"):
        rules += ["propensity between 0 and 1", "not (clicks > 0 and propensity = 0)"]
    return "(" + " and ".join(rules) + ")"


_UNKNOWN = (
    "create or replace temp table unknown as select query_id, doc_id, min(rank) as rank, "
    "query is null as whole_query, cast(sum(impressions) as bigint) as impressions from matched "
    "where row is null and query_id is not null and doc_id is not null "
    "group by query_id, doc_id, query is null"
)
# How deep the pages of each query can be: documents that are no candidates have ranks too, unless they are faults.
_LENGTHS = (
    "create or replace temp table lengths as select query, n + coalesce(more, 0) as n from "
    "(select query, count(*) as n from candidates group by query) as known left join "
    "(select query, count(distinct doc_id) as more from matched where row is null and query is not null and {counted} "
    "group by query) as others using (query)"
)
_DEEP = (
    "create or replace temp table deep as select query_id, doc_id, rank, "
    "cast(sum(impressions) as bigint) as impressions from matched join lengths using (query) "
    "where row is not null and rank > n group by query_id, doc_id, rank"
)
# kind, table, which of its rows, and what names a cell of it
_BAD_CELLS = (
    (UNKNOWN_QUERY, "unknown", "whole_query", ("query_id", "doc_id")),
    (UNKNOWN_DOCUMENT, "unknown", "not whole_query", ("query_id", "doc_id")),
    (TOO_DEEP, "deep", "true", ("query_id", "doc_id", "rank")),
)


class Diagnosis:
    """The faults of one log, found on the way from its tables `cells`, `pages` and `matched`."""

    def __init__(self, engine: Engine, columns: Columns, matched: bool, tolerated: Sequence[str] = ()) -> None:
        """`tolerated` are kinds of `_BAD_CELLS` that are left out and no faults."""
        self.engine, self.local, self.columns = engine, engine.local, columns
        self.matched, self.tolerated = matched, tolerated
        self.bad_cells = [each for each in _BAD_CELLS if matched and each[0] not in tolerated]
        self.rules = row_rules(columns)
        self.faults: tuple[Fault, ...] = ()
        self._rejected, self._bad_rows, self._from_zero = 0, False, False

    def find_faults(self, unreadable: Unreadable, odd_rows: bool, checks_pages: bool) -> None:
        """Find everything; `unreadable` are the lines of the files that are no rows at all."""
        self._rejected, self._bad_rows = unreadable.number, odd_rows
        if self._rejected:
            example = f"{unreadable.place or 'the first'}: {_short(unreadable.line)}"
            self._add(UNREADABLE, "lines", self._rejected, example)
        self.local.execute("create or replace temp table wrong as select 0 as session_id where false")
        if odd_rows:
            disable_statistics(self.local)
            self._rows()
        if checks_pages:
            self._pages()
        if self.matched:
            self._ids()

    def message(self) -> str:
        """All faults in one line, and what they may come from."""
        hints = [remedy for kind, remedy in _REMEDIES.items() if any(fault.kind == kind for fault in self.faults)]
        hints += ["; use rank_base=0: the ranks here seem to begin with 0"] if self._from_zero else []
        return "; ".join(map(str, self.faults)) + "".join(hints)

    def _rows(self) -> None:
        ranks = [f"coalesce(({self.columns.read('rank')}) = {rank}, false)" for rank in (0, 1)]
        counts = ", ".join(f"count_if({rule}) as n{i}" for i, rule in enumerate([*self.rules.values(), *ranks]))
        self.engine.reduce("odd", f"select {counts} from {self.columns.table}", "looking for faults")
        *numbers, zeros, ones = self.local.execute("select * from odd").fetchone()
        # a page has its first rank at least as often as its second; a few zeros are something else
        self._from_zero = bool(self.columns.rank_base and zeros and zeros >= ones / 2)
        for i, (kind, rule) in enumerate(self.rules.items()):
            if numbers[i]:
                self._add(kind, "rows", numbers[i], self._first(rule))

    def _pages(self) -> None:
        if not self.local.execute("select count(*) from suspects").fetchone()[0]:
            return
        self.engine.lend("suspects")
        self.engine.reduce("wrong", exact(self.columns), "checking pages")
        for kind, rule in PAGE_RULES.items():
            found = self.local.execute(f"select count(*), min(session_id) from wrong where {rule}").fetchone()
            if found[0]:
                example = f"such as session {quoted(found[1])}"
                if kind == TWO_POLICIES and self.columns.contexts:
                    example += ", a page of which one context is expected"
                self._add(kind, "pages", found[0], self._placed(example, session_id=found[1]))

    def _ids(self) -> None:
        self.local.execute(_LENGTHS.format(counted=str(UNKNOWN_DOCUMENT in self.tolerated).lower()))
        self._make_unknown_tables()
        found = [self._pairs(kind, table, rule, placed=True) for kind, table, rule, _ in self.bad_cells]
        self.faults = (*self.faults, *filter(None, found))

    def _make_unknown_tables(self) -> None:
        self.local.execute(_UNKNOWN)
        self.local.execute(_DEEP)

    def left_out(self) -> tuple[Fault, ...]:
        """What is not in the data and no fault, of the rows that were not dropped."""
        if not self.matched:
            return ()
        self.local.execute(_UNKNOWN)
        found = [self._pairs(kind, table, rule) for kind, table, rule, _ in _BAD_CELLS if kind in self.tolerated]
        return tuple(filter(None, found))

    def _pairs(self, kind: str, table: str, rule: str, placed: bool = False) -> Fault | None:
        found = self.local.execute(
            f"select sum(impressions), count(*), count(distinct query_id) from {table} where {rule}"
        ).fetchone()
        if not found[0]:
            return None
        first = self.local.execute(
            f"select query_id, doc_id, rank from {table} where {rule} order by query_id, doc_id limit 1"
        ).fetchone()
        queries = f"{found[2]:,} {'query' if found[2] == 1 else 'queries'}"
        if kind == UNKNOWN_QUERY and not placed:
            most = self.local.execute(
                f"select query_id from {table} where {rule} group by query_id order by sum(impressions) desc, query_id "
                "limit 3"
            ).fetchall()
            return Fault(
                kind, "rows", int(found[0]), f"{queries}, such as {', '.join(quoted(each) for (each,) in most)}"
            )
        pairs = f"{found[1]:,} {'pair' if found[1] == 1 else 'pairs'} of {queries}"
        example = f"{pairs}, such as query {quoted(first[0])}, document {quoted(first[1])}, rank {first[2]}"
        if placed:  # which takes another pass, and what is left out is found in most logs
            rank = first[2] - 1 + self.columns.rank_base
            example = self._placed(example, query_id=first[0], doc_id=first[1], rank=rank)
        return Fault(kind, "rows", int(found[0]), example)

    def id_hint(self) -> str:
        """Why the data may not have some ids, to follow another sentence; empty where it cannot be seen from them."""
        queries = ("query", "select distinct query_id as id from unknown where whole_query", "queries", "true")
        documents = (
            "document",
            "select distinct query, doc_id as id from matched where row is null and query is not null",
            "candidates",
            "strays.query = candidates.query",
        )
        return "".join(self._id_hint(*each) for each in (queries, documents))

    def _id_hint(self, what: str, strays: str, known: str, same: str) -> str:
        column = f"{known}.{'query_id' if what == 'query' else 'doc_id'}"
        near = self.local.execute(
            f"select count(distinct strays.id), min_by(strays.id, cast(strays.id as string)), "
            f"min_by({column}, cast(strays.id as string)) from ({strays}) as strays join {known} on {same} and "
            f"{_usual('strays.id')} = {_usual(column)}"
        ).fetchone()
        plural = "queries" if what == "query" else "documents"
        if near[0]:
            show = ascii if normalize("NFC", str(near[1])) == normalize("NFC", str(near[2])) else quoted
            return (
                f"; {near[0]:,} of these {plural} are in the data with other blanks, letter case, zeros or Unicode "
                f"form (NFC, NFD), such as {show(near[1])} in the log and {show(near[2])} in the data"
            )
        number = "regexp_full_match(cast({0} as string), '-?[0-9]+')"
        kinds = f"select min({{0}}), bool_and({number}), bool_and(not {number}) from {{1}}"
        log, numbers, texts = self.local.execute(kinds.format("id", f"({strays}) as strays")).fetchone()
        data, known_numbers, known_texts = self.local.execute(kinds.format(column, known)).fetchone()
        if not (numbers and known_texts) and not (texts and known_numbers):
            return ""
        one, other = ("numbers", "texts") if numbers else ("texts", "numbers")
        return (
            f"; {what} ids are {one} in the log, such as {quoted(log)}, and {other} in the data, such as {quoted(data)}"
        )

    def drop(self) -> tuple[dict[str, int], int]:
        """Take what is wrong out of `log`; dropped rows by the first fault of their page, and dropped pages."""
        order = [*self.rules, *PAGE_RULES, UNKNOWN_QUERY, UNKNOWN_DOCUMENT, TOO_DEEP]
        numbers = {kind: i for i, kind in enumerate(order)}
        first = "case " + " ".join(f"when {rule} then {i}" for i, rule in enumerate(self.rules.values())) + " end"
        fault = first if self._bad_rows else "cast(null as int)"
        self.engine.view("checked", self.columns.normalised(f"{fault} as fault"))
        if self.columns.impressions:
            dropped = self._drop_rows()
            pages = sum(dropped.values())
        else:
            dropped, pages = self._drop_pages(numbers)
        found = {UNREADABLE: self._rejected} if self._rejected else {}
        return found | {order[number]: count for number, count in sorted(dropped.items())}, pages

    def _drop_rows(self) -> dict[int, int]:
        """Where each row is a page: those that are wrong in themselves; unknown ids are dropped after counting."""
        self.engine.view("log", "select * from checked where fault is null")
        bad = "select fault, count(*) as n from checked where fault is not null group by fault"
        self.engine.reduce("dropped", bad, "finding bad rows")
        return self._table("dropped")

    def drop_cells(self) -> dict[str, int]:
        """Where each row is a page: take unknown ids, and ranks that cannot be, out of `cells` and `matched`."""
        self._make_unknown_tables()
        dropped = {}
        for kind, table, rule, keys in self.bad_cells:
            rows = self.local.execute(f"select coalesce(sum(impressions), 0) from {table} where {rule}").fetchone()[0]
            if rows:
                dropped[kind] = int(rows)
                same = " and ".join(f"{{0}}.{key} = {table}.{key}" for key in keys)
                for each in ("cells", "matched"):
                    self.local.execute(f"delete from {each} using {table} where {same.format(each)} and {rule}")
        return dropped

    def _drop_pages(self, numbers: dict[str, int]) -> tuple[dict[int, int], int]:
        parts = ["select session_id, fault from checked where fault is not null and session_id is not null"]
        for kind, table, rule, keys in self.bad_cells:
            self.engine.lend(table)
            same = " and ".join(f"checked.{key} = {table}.{key}" for key in keys)
            parts.append(
                f"select session_id, {numbers[kind]} as fault from checked join {table} on {same} "
                f"where {rule} and session_id is not null"
            )
        if self.local.execute("select count(*) from wrong").fetchone()[0]:
            case = " ".join(f"when {rule} then {numbers[kind]}" for kind, rule in PAGE_RULES.items())
            faults = f"select session_id, case {case} end as fault from wrong"
            self.local.execute(f"create or replace temp table wrong_pages as {faults}")
            self.engine.lend("wrong_pages")
            parts.append("select session_id, fault from wrong_pages")
        together = " union all ".join(parts)
        bad = f"select session_id, min(fault) as fault from ({together}) as found group by session_id"
        self.engine.reduce("bad", bad, "finding bad pages")
        self.engine.lend("bad")
        self.engine.reduce(
            "dropped",
            "select coalesce(bad.fault, checked.fault) as fault, count(*) as n from checked "
            "left join bad on checked.session_id = bad.session_id "
            "where bad.session_id is not null or checked.session_id is null group by 1",
            "finding bad pages",
        )
        self.engine.view(
            "log",
            "select checked.* from checked anti join bad on checked.session_id = bad.session_id "
            "where checked.session_id is not null",
        )
        return self._table("dropped"), self.local.execute("select count(*) from bad").fetchone()[0]

    def _table(self, name: str) -> dict[int, int]:
        return {int(key): int(value) for key, value in self.local.execute(f"select * from {name}").fetchall()}

    def bad_dates(self) -> tuple[Fault | None, bool]:
        """The rows whose timestamp is no date, if there are any; and whether the others are used.

        Numbers of which more than a tenth cannot be times are something else, and those that could be times too.
        """
        if not self.columns.has("timestamp"):
            return None, False
        found = self.local.execute(
            "select sum(timed), sum(dated), sum(numbers), sum(odd_numbers) from cells"
        ).fetchone()
        timed, dated, numbers, odd = (int(number or 0) for number in found)
        used = dated > 0 and odd <= _FEW * numbers
        if timed == dated:
            return None, used
        moment = self.columns.source["timestamp"]
        seconds = self.columns.seconds(moment, self.columns.number_of_time())
        rule = f"{moment} is not null and ({seconds}) is null"
        return Fault(_NO_DATE, "rows", timed - dated, self._first(rule, ("timestamp",))), used

    def _first(self, rule: str, shown: Sequence[str] = ()) -> str:
        """The first row that a rule holds for, as the files have it, and where it is.

        `shown` are the columns to show, all if empty. Rows made of events have no order but that of their ids.
        """
        names = [name for name in self.columns.source if name != "orphan"]
        columns = ", ".join(f"{self.columns.source[name]} as {name}" for name in names)
        if self.engine.rows_of is None:
            order = ", ".join(f"{i + 1} nulls last" for i in range(len(names)))
            sql = f"select {columns} from {self.columns.table} where {rule} order by {order} limit 1"
            self.engine.reduce("example", sql, "looking for faults")
        else:
            self.engine.first_row("example", columns, self.columns.table, rule)
        # DuckDB needs pytz to hand over times with a zone, which is no dependency: they are shown as texts
        kinds = {name: kind for name, kind, *_ in self.local.execute("describe example").fetchall()}
        zoned = {name for name in names if "TIME ZONE" in kinds[name]}
        shown_as = ", ".join(f"cast({name} as varchar)" if name in zoned else name for name in names)
        values = self.local.execute(f"select {shown_as} from example").fetchone()
        texts = self.local.execute(f"select {', '.join(f'cast({name} as varchar)' for name in names)} from example")
        place = self._place(dict(zip(names, texts.fetchone(), strict=True)))
        pairs = zip(names, values, strict=True)
        words = {name: str(value) if name in zoned else quoted(value) for name, value in pairs}
        called = {name: self.columns.names[name] for name in self.columns.contexts}
        row = ", ".join(f"{called.get(name, name)} {words[name]}" for name in names if not shown or name in shown)
        if all(value is None for value in values):
            row = "nothing in it that can be read"
        return f"{place or 'the first'}: {row}"

    def _place(self, row: dict[str, str | None]) -> str:
        """Where a row is, by what some columns of the log hold as texts."""
        names = self.columns.names
        return self.engine.place_of({names[name]: value for name, value in row.items() if name in names})

    def _placed(self, example: str, **row: Any) -> str:
        """An example with the place of a row that has these ids or ranks."""
        floats = [name for name in row if self.columns.kinds.get(name) == FLOAT]
        texts = {name: str(float(value) if name in floats else value) for name, value in row.items()}
        place = self._place({name: value for name, value in texts.items() if self.columns.has(name)})
        return f"{example}, {place}" if place else example

    def _add(self, kind: str, unit: str, count: Any, example: str) -> None:
        self.faults = (*self.faults, Fault(kind, unit, int(count), example))


def _usual(value: str) -> str:
    """An id in its usual form, as SQL: no blanks around it, lower case, NFC, numbers without zeros around them."""
    text = f"trim(cast({value} as string))"
    whole = f"case when regexp_full_match({text}, '[0-9]{{1,18}}([.]0+)?') then split_part({text}, '.', 1) end"
    plain = f"nfc_normalize(lower(regexp_replace({text}, '\\s+', ' ', 'g')))"
    return f"coalesce(cast(try_cast({whole} as bigint) as string), {plain})"


def _short(value: Any) -> str:
    """A value from a log as one short line, whatever is in it.

    >>> _short("a\\nb")
    'a b'
    """
    words = printable(str(value))
    return words if len(words) <= 60 else words[:60] + "..."

"""The one definition of how a click log is counted, as SQL that DuckDB and Spark both run.

The table `log` holds one row per displayed document. Two passes over it are enough for a clean log:

- `cells`: impressions and clicks of each query, document, rank (policy, propensity). Wrong values show as cells of
  their own, so that finding them costs nothing.
- `pages`: how many pages each query (and policy) had. Pages that look wrong are kept apart by their session.

A page is looked at closely only if it looks wrong from afar. Its ranks are gathered in a mask of bits, which is full
for ranks 1 to n. A document that is twice on a page has been seen at two ranks of its query; where few documents have,
these are counted exactly, else documents are gathered in masks by their hashes, and a page that has fewer bits than
rows in each of its masks is suspect. Pages that are so long that most would look suspect are counted exactly, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.counts_files import DEEPEST_RANK
from counterrank.clicks.displays import Displays, merge_pages, offsets_of
from counterrank.clicks.logs import faults as kinds
from counterrank.clicks.logs.columns import MINUTE, TEXT, Columns
from counterrank.clicks.logs.engine import Engine, disable_statistics
from counterrank.clicks.logs.faults import PAGE_RULES, Fault, first_fault, row_rules
from counterrank.clicks.logs.matching import Candidates
from counterrank.common.checks import IntArray
from counterrank.common.errors import printable

DEEPEST = 62  # ranks in the mask; pages that are longer are all looked at closely
_WORD = 62  # bits of a word in the masks of documents

# A page is shown by one policy and answers one query.
GROUPS = ("query_id", "policy")


def cells(columns: Columns) -> str:
    """Impressions and clicks by query, document, rank, and policy and propensity where they are logged.

    `readable` counts the rows whose `clicked` is 0 or 1; `earliest` and `latest` are as the files write times. Texts
    are compared as such, which is right for ISO 8601, and for numbers of as many digits.
    """
    keys = ", ".join(("query_id", "doc_id", "rank", *(n for n in ("policy", "propensity") if columns.has(n))))
    times = ", min(moment) as earliest, max(moment) as latest" if columns.has("timestamp") else ""
    return (
        f"select {keys}, count(*) as impressions, cast(count_if(clicked) as bigint) as clicks, "
        f"count(clicked) as readable{times} from log group by {keys}"
    )


def moving() -> str:
    """Documents that `cells` has at several ranks of their query, with their impressions."""
    return (
        "select query_id, doc_id, cast(sum(impressions) as bigint) as impressions from cells "
        "group by query_id, doc_id having min(rank) < max(rank)"
    )


def masks_for(length: float) -> tuple[int, ...]:
    """The masks of documents for pages of this mean length, each by its number of bits; none if the pages are too long.

    Of the clean pages of 5 documents 0.07 % look suspect, of those of 10 9 %, of those of 20 30 %. The time is that of
    gathering the masks and of looking at the suspects again: one wide mask, or eight words for short pages, take more.

    >>> masks_for(10), masks_for(50)
    ((62, 61, 59, 57), ())
    """
    if length <= 12:
        return (_WORD, _WORD - 1, _WORD - 3, _WORD - 5)  # without a common divisor, thus independent
    return (4 * _WORD, 4 * _WORD - 1) if length <= 30 else ()


def pages(columns: Columns, masks: Sequence[int] = (), usual: bool = False) -> str:
    """Pages by query and policy; those that look wrong by session too, counted as `suspects`.

    Arguments:
        columns: of the log.
        masks: the bits of each mask of documents in which those that are twice on a page are looked for.
        usual: whether all ranks are known to fit into the mask of ranks.
    """
    groups = [name for name in GROUPS if name != "policy" or columns.has("policy")]
    place = "rank - 1" if usual else f"greatest(least(rank, {DEEPEST + 1}), 1) - 1"
    inner = ["session_id", "count(*) as n", f"bit_or(bit_at({place})) as ranks"]
    outer = [f"n > {DEEPEST} or ranks <> bit_at(least(n, {DEEPEST})) - 1", "session_id is null"]
    for name in groups:
        if name == "policy" or columns.kinds.get(name) == TEXT:
            inner += [f"any_value({name}) as {name}", f"min(xxhash64({name})) as {name}_a"]
            inner.append(f"max(xxhash64({name})) as {name}_b")
            outer.append(f"{name} is null or {name}_a <> {name}_b")
        else:
            inner += [f"min({name}) as {name}", f"max({name}) as {name}_b"]
            outer.append(f"{name} is null or {name} <> {name}_b")
    source = "log"
    if masks:
        places = ", ".join(f"pmod(hash, {bits}) as place{i}" for i, bits in enumerate(masks))
        source = f"(select *, {places} from (select *, xxhash64(doc_id) as hash from log) as hashed) as placed"
        short = []
        for i, bits in enumerate(masks):
            words = range(-(-bits // _WORD))
            inner += [_word(i, j, len(words)) for j in words]
            short.append(" + ".join(f"bit_count(mask{i}_{j})" for j in words) + " < n")
        outer.append(" and ".join(short))
    shown = ", ".join(groups)
    return (
        f"select {shown}, case when suspect then session_id end as session_id, count(*) as pages, "
        "cast(count_if(suspect) as bigint) as suspects from ("
        f"select {shown}, session_id, {' or '.join(f'({rule})' for rule in outer)} as suspect from ("
        f"select {', '.join(inner)} from {source} group by session_id) as page) as judged "
        f"group by {shown}, case when suspect then session_id end"
    )


def pages_on_trust(columns: Columns) -> str:
    """Pages by query and policy from `cells` alone: each page has one document at rank 1, or is one row."""
    groups = ", ".join(name for name in GROUPS if name != "policy" or columns.has("policy"))
    first = "" if columns.impressions else "where rank = 1 "
    return f"select {groups}, cast(sum(impressions) as bigint) as pages from cells {first}group by {groups}"


def _word(mask: int, word: int, words: int) -> str:
    """One word of a mask of documents."""
    place, begin = f"place{mask}", word * _WORD
    bit = f"bit_at({place} - {begin})" if begin else f"bit_at({place})"
    if words > 1:
        bit = f"case when {place} between {begin} and {begin + _WORD - 1} then {bit} else 0 end"
    return f"bit_or({bit}) as mask{mask}_{word}"


def twice() -> str:
    """The sessions that may show one of the `moving` documents twice; exact where ids are those of the log."""
    return (
        "select distinct session_id from (select session_id from log "
        "semi join moving on log.query_id = moving.query_id and log.doc_id = moving.doc_id "
        "group by session_id, log.query_id, log.doc_id having count(*) > 1) as repeated"
    )


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


def page_by_page(columns: Columns, in_order: Callable[[str], str]) -> str:
    """The distinct pages of each policy with what was clicked on them, and how often each was shown so.

    `in_order` makes a list of a column by rank, which engines write in different ways.
    """
    policy = "any_value(policy)" if columns.has("policy") else "''"
    return (
        "select query_id, policy, docs, clicks, count(*) as sessions from (select any_value(query_id) as query_id, "
        f"{policy} as policy, {in_order('doc_id')} as docs, {in_order('clicked')} as clicks from log "
        "group by session_id) as page group by query_id, policy, docs, clicks"
    )


# --- distinct pages, for estimators that use whole pages


def distinct_pages(engine: Engine, columns: Columns, counts: ClickCounts, matched: bool) -> ClickCounts:
    """The same counts with the distinct pages of `log`.

    Arguments:
        engine: that has read the log; its table `matched`, or else `pairs`, has the row of each pair.
        columns: of the log.
        counts: of the same log.
        matched: whether the log was counted against ranking data.
    """
    engine.reduce("shown", page_by_page(columns, engine.in_order), "gathering pages")
    known = "select distinct query_id, doc_id, row from matched where row is not null" if matched else "from pairs"
    found = engine.local.execute(
        "select number, row, cast(clicked as bigint) * sessions as clicks, sessions, policy from ("
        "select number, query_id, policy, sessions, generate_subscripts(docs, 1) as place, unnest(docs) as doc_id, "
        "unnest(clicks) as clicked from "
        "(select row_number() over (order by query_id, policy, docs, clicks) as number, * from shown) "
        "as numbered) as places "
        f"join ({known}) as known using (query_id, doc_id) order by number, place"
    ).fetchnumpy()
    number = np.asarray(found["number"], np.int64)
    begins = np.flatnonzero(np.diff(number, prepend=-1))
    named = np.asarray(found["policy"])[begins].astype(np.str_)
    pages = Displays(
        offsets_of(np.diff(np.append(begins, len(number)))),
        np.ascontiguousarray(found["row"], np.int64),
        np.ascontiguousarray(found["sessions"], np.int64)[begins],
        np.ascontiguousarray(found["clicks"], np.int64),
        None if counts.policies is None else np.searchsorted(np.array(counts.policy_names), named),
    )
    return replace(counts, displays=merge_pages(counts.offsets, pages))


# --- pages and clicks over time


# how wide stretches of time may be, in seconds
_WIDTHS = (MINUTE, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400)
_MOST_STRETCHES = 60


def drift_of_parts(
    engine: Engine, columns: Columns, known: Candidates | None, unknown_documents: bool = False
) -> list[list[dict[str, Any]]]:
    """Pages, impressions and clicks of each part of the data in stretches of time; rows without a time are left out.

    `unknown_documents` says whether the table `unknown` has documents of known queries, which are not counted.
    """
    join, keys, used = "", "minute", "true"
    if known is not None:
        known.name_parts("query_parts")
        engine.lend("query_parts")
        join = f"join query_parts on cast(log.query_id as {known.query_type}) = query_parts.query_id "
        keys = "part, minute"
    if unknown_documents:
        engine.local.execute(
            "create or replace temp table left_out as select query_id, doc_id from unknown where not whole_query"
        )
        engine.lend("left_out")
        join += "left join left_out on log.query_id = left_out.query_id and log.doc_id = left_out.doc_id "
        used = "left_out.doc_id is null"
    first = "count(*)" if columns.impressions else "count_if(rank = 1)"
    engine.reduce(
        "minutes",
        f"select {keys}, cast({first} as bigint) as pages, cast(count_if({used}) as bigint) as impressions, "
        f"cast(count_if(clicked and {used}) as bigint) as clicks from log {join}where minute is not null "
        f"group by {keys}",
        "looking at time",
    )
    found = engine.local.execute("select * from minutes order by minute").fetchnumpy()
    whole = {name: np.asarray(column, np.int64) for name, column in found.items()}
    if known is None:
        return [_stretches(whole)]
    own = [whole["part"] == part for part in range(len(known.parts))]
    return [_stretches({name: column[which] for name, column in whole.items()}) for which in own]


def _stretches(minutes: dict[str, IntArray]) -> list[dict[str, Any]]:
    """Minutes put together, so that there are not too many stretches."""
    seconds = minutes["minute"] * MINUTE
    if not len(seconds):
        return []
    span = int(seconds[-1] - seconds[0]) + MINUTE
    width = next((width for width in _WIDTHS if span <= width * _MOST_STRETCHES), _WIDTHS[-1])
    begins, where = np.unique(seconds // width * width, return_inverse=True)
    columns = {
        name: np.bincount(where, weights=minutes[name]).astype(np.int64) for name in ("pages", "impressions", "clicks")
    }
    return [
        {
            "begin": str(np.datetime64(int(begin), "s")).replace("T", " ")[:16],
            "seconds": width,
            **{name: int(column[i]) for name, column in columns.items()},
        }
        for i, begin in enumerate(begins)
    ]


# --- faults: what is wrong, how often, where first, and which pages to drop


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
    (kinds.UNKNOWN_QUERY, "unknown", "whole_query", ("query_id", "doc_id")),
    (kinds.UNKNOWN_DOCUMENT, "unknown", "not whole_query", ("query_id", "doc_id")),
    (kinds.TOO_DEEP, "deep", "true", ("query_id", "doc_id", "rank")),
)


class Diagnosis:
    """The faults of one log, found on the way from its tables `cells`, `pages` and `matched`."""

    def __init__(
        self, engine: Engine, columns: Columns, name: str, matched: bool, tolerated: Sequence[str] = ()
    ) -> None:
        """`tolerated` are kinds of `_BAD_CELLS` that are left out and no faults."""
        self.engine, self.local, self.columns, self.name = engine, engine.local, columns, name
        self.matched, self.tolerated = matched, tolerated
        self.bad_cells = [each for each in _BAD_CELLS if matched and each[0] not in tolerated]
        self.rules = row_rules(columns)
        self.faults: tuple[Fault, ...] = ()
        self._rejected = 0
        self._bad_rows = False

    def add_unreadable(self, count: int, line: str) -> None:
        """Lines of the files that are no rows at all."""
        self._rejected = count
        if count:
            self._add(kinds.UNREADABLE, "lines", count, f"the first: {_short(line)}")

    def find_faults(self, odd_rows: bool, checks_pages: bool) -> None:
        """Find everything."""
        self._bad_rows = odd_rows
        self.local.execute("create or replace temp table wrong as select 0 as session_id where false")
        if odd_rows:
            disable_statistics(self.local)
            self._rows()
        if checks_pages:
            self._pages()
        if self.matched:
            self._ids()

    def _rows(self) -> None:
        counts = ", ".join(f"count_if({rule}) as n{i}" for i, rule in enumerate(self.rules.values()))
        self.engine.reduce("odd", f"select {counts} from {self.columns.table}", "looking for faults")
        numbers = self.local.execute("select * from odd").fetchone()
        for i, (kind, rule) in enumerate(self.rules.items()):
            if numbers[i]:
                self._add(kind, "rows", numbers[i], f"the first: {self._first(rule)}")

    def _pages(self) -> None:
        if not self.local.execute("select count(*) from suspects").fetchone()[0]:
            return
        self.engine.lend("suspects")
        self.engine.reduce("wrong", exact(self.columns), "checking pages")
        for kind, rule in kinds.PAGE_RULES.items():
            found = self.local.execute(f"select count(*), min(session_id) from wrong where {rule}").fetchone()
            if found[0]:
                self._add(kind, "pages", found[0], f"such as session {_short(found[1])}")

    def _ids(self) -> None:
        self.local.execute(_LENGTHS.format(counted=str(kinds.UNKNOWN_DOCUMENT in self.tolerated).lower()))
        self._make_unknown_tables()
        found = [self._pairs(kind, table, rule) for kind, table, rule, _ in self.bad_cells]
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

    def _pairs(self, kind: str, table: str, rule: str) -> Fault | None:
        found = self.local.execute(
            f"select sum(impressions), count(*), count(distinct query_id) from {table} where {rule}"
        ).fetchone()
        if not found[0]:
            return None
        first = self.local.execute(
            f"select query_id, doc_id, rank from {table} where {rule} order by query_id, doc_id limit 1"
        ).fetchone()
        example = (
            f"{found[1]:,} pairs of {found[2]:,} queries, such as query {_short(first[0])}, "
            f"document {_short(first[1])}, rank {first[2]}"
        )
        return Fault(kind, "rows", int(found[0]), example)

    def drop(self) -> tuple[dict[str, int], int]:
        """Take what is wrong out of `log`; dropped rows by the first fault of their page, and dropped pages."""
        order = [*self.rules, *kinds.PAGE_RULES, kinds.UNKNOWN_QUERY, kinds.UNKNOWN_DOCUMENT, kinds.TOO_DEEP]
        numbers = {kind: i for i, kind in enumerate(order)}
        fault = first_fault(self.rules) if self._bad_rows else "cast(null as int)"
        self.engine.view("judged", self.columns.normalised(f"{fault} as fault"))
        if self.columns.impressions:
            dropped = self._drop_rows()
            pages = sum(dropped.values())
        else:
            dropped, pages = self._drop_pages(numbers)
        found = {kinds.UNREADABLE: self._rejected} if self._rejected else {}
        return found | {order[number]: count for number, count in sorted(dropped.items())}, pages

    def _drop_rows(self) -> dict[int, int]:
        """Where each row is a page: those that are wrong in themselves; unknown ids are dropped after counting."""
        self.engine.view("log", "select * from judged where fault is null")
        bad = "select fault, count(*) as n from judged where fault is not null group by fault"
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
        parts = ["select session_id, fault from judged where fault is not null and session_id is not null"]
        for kind, table, rule, keys in self.bad_cells:
            self.engine.lend(table)
            same = " and ".join(f"judged.{key} = {table}.{key}" for key in keys)
            parts.append(
                f"select session_id, {numbers[kind]} as fault from judged join {table} on {same} "
                f"where {rule} and session_id is not null"
            )
        if self.local.execute("select count(*) from wrong").fetchone()[0]:
            case = " ".join(f"when {rule} then {numbers[kind]}" for kind, rule in kinds.PAGE_RULES.items())
            self.local.execute(
                f"create or replace temp table bad as select session_id, case {case} end as fault from wrong"
            )
            self.local.execute("create or replace temp table wrong as select * from bad")
            self.engine.lend("wrong")
            parts.append("select session_id, fault from wrong")
        together = " union all ".join(parts)
        bad = f"select session_id, min(fault) as fault from ({together}) as found group by session_id"
        self.engine.reduce("bad", bad, "finding bad pages")
        self.engine.lend("bad")
        self.engine.reduce(
            "dropped",
            "select coalesce(bad.fault, judged.fault) as fault, count(*) as n from judged "
            "left join bad on judged.session_id = bad.session_id "
            "where bad.session_id is not null or judged.session_id is null group by 1",
            "finding bad pages",
        )
        self.engine.view(
            "log",
            "select judged.* from judged anti join bad on judged.session_id = bad.session_id "
            "where judged.session_id is not null",
        )
        return self._table("dropped"), self.local.execute("select count(*) from bad").fetchone()[0]

    def _table(self, name: str) -> dict[int, int]:
        return {int(key): int(value) for key, value in self.local.execute(f"select * from {name}").fetchall()}

    def _first(self, rule: str) -> str:
        """One row that has a fault, as the files have it: the first by session, query, document and so on."""
        names = [name for name in self.columns.source if name != "orphan"]
        shown = ", ".join(f"{self.columns.source[name]} as {name}" for name in names)
        order = ", ".join(f"{i + 1} nulls last" for i in range(len(names)))
        sql = f"select {shown} from {self.columns.table} where {rule} order by {order} limit 1"
        self.engine.reduce("example", sql, "looking for faults")
        values = self.local.execute("select * from example").fetchone()
        if all(value is None for value in values):
            return "nothing in it that can be read"
        return ", ".join(f"{name} {_short(value)}" for name, value in zip(names, values, strict=True))

    def _add(self, kind: str, unit: str, count: Any, example: str) -> None:
        self.faults = (*self.faults, Fault(kind, unit, int(count), example))


def _short(value: Any) -> str:
    """A value from a log as one short line, whatever is in it.

    >>> _short("a\\nb")
    'a b'
    """
    words = printable(str(value))
    return words if len(words) <= 60 else words[:60] + "..."

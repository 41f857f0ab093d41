"""A closer look at a log in which something is wrong: what, how often, where first, and which pages to drop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterrank.clicks.logs import faults as kinds
from counterrank.clicks.logs import passes
from counterrank.clicks.logs.columns import Columns
from counterrank.clicks.logs.engine import Engine, doubt_statistics
from counterrank.clicks.logs.faults import Fault, first_fault, row_rules
from counterrank.common.errors import printable

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

    def look(self, odd_rows: bool, checks_pages: bool) -> None:
        """Find everything."""
        self._bad_rows = odd_rows
        self.local.execute("create or replace temp table wrong as select 0 as session_id where false")
        if odd_rows:
            doubt_statistics(self.local)
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
        self.engine.reduce("wrong", passes.exact(self.columns), "checking pages")
        for kind, rule in kinds.PAGE_RULES.items():
            found = self.local.execute(f"select count(*), min(session_id) from wrong where {rule}").fetchone()
            if found[0]:
                self._add(kind, "pages", found[0], f"such as session {_short(found[1])}")

    def _ids(self) -> None:
        self.local.execute(_LENGTHS.format(counted=str(kinds.UNKNOWN_DOCUMENT in self.tolerated).lower()))
        self._unknown_tables()
        found = [self._pairs(kind, table, rule) for kind, table, rule, _ in self.bad_cells]
        self.faults = (*self.faults, *filter(None, found))

    def _unknown_tables(self) -> None:
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
        self._unknown_tables()
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

"""Faults of a click log: how each is found, counted and reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from counterrank.clicks.counts_files import DEEPEST_RANK
from counterrank.clicks.logs.columns import Columns

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

# The rules by which `passes.exact` finds them.
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
        """How many have it, without the example."""
        unit = self.unit if self.count != 1 else self.unit[:-1]
        return f"{self.count:,} {unit} {_singular(self.kind) if self.count == 1 else self.kind}"


def _singular(kind: str) -> str:
    first, _, rest = kind.partition(" ")
    return {"are": "is", "have": "has", "show": "shows"}.get(first, first) + " " + rest.replace("their ", "its ")


@dataclass(frozen=True)
class LogReport:
    """What became of the rows of a log: `rows` is `used`, all that was `dropped` and all that is `unknown`.

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
    """

    name: str
    rows: int
    used: int
    pages: int
    dropped: dict[str, int] = field(default_factory=dict)
    dropped_pages: int = 0
    faults: tuple[Fault, ...] = ()
    unknown: tuple[Fault, ...] = ()

    @property
    def unknown_queries(self) -> int:
        """How many rows have a query that the data does not have."""
        return sum(each.count for each in self.unknown if each.kind == UNKNOWN_QUERY)

    @property
    def unknown_documents(self) -> int:
        """How many rows have a query of the data and a document that is not among its candidates."""
        return sum(each.count for each in self.unknown if each.kind == UNKNOWN_DOCUMENT)

    def summary(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "log": self.name,
            "rows": self.rows,
            "rows_used": self.used,
            "pages": self.pages,
            "rows_dropped": sum(self.dropped.values()),
            "pages_dropped": self.dropped_pages,
            "dropped": dict(self.dropped),
            "faults": [_plain(each) for each in self.faults],
            "rows_of_unknown_queries": self.unknown_queries,
            "rows_of_unknown_documents": self.unknown_documents,
            "unknown": [_plain(each) for each in self.unknown],
        }

    def drop_message(self) -> str:
        """One sentence about what was dropped."""
        shares = ", ".join(f"{n:,} because they or their page {kind}" for kind, n in self.dropped.items())
        return (
            f"{self.name}: dropped {sum(self.dropped.values()):,} of {self.rows:,} rows, with {self.dropped_pages:,} "
            f"pages: {shares}"
        )

    def left_out(self) -> str:
        """What was left out because the data does not have it, to follow another sentence; empty if nothing was."""
        return "".join(f"; {each.counted()}" for each in self.unknown)

    def unknown_message(self) -> str | None:
        """One sentence about documents that the data does not have; None if there are none."""
        for each in self.unknown:
            if each.kind == UNKNOWN_DOCUMENT:
                share = each.count / (self.used + each.count)
                return (
                    f"{self.name}: {each}, {share:.2%} of the impressions of queries in the data; they are left out, "
                    "the rest of their pages is counted"
                )
        return None


def _plain(fault: Fault) -> dict[str, Any]:
    return {"kind": fault.kind, "unit": fault.unit, "count": fault.count, "example": fault.example}


def row_rules(columns: Columns) -> dict[str, str]:
    """For each fault of a row, when a row of the files has it."""
    rules: dict[str, str] = {}
    for name in columns.needed:
        rules[f"have no {name}"] = f"{columns.source[name]} is null"
    rules["have a rank below 1 or not whole"] = _not(columns, "rank", ">= 1")
    rules[f"have a rank beyond {DEEPEST_RANK:,}"] = f"coalesce(({columns.read('rank')}) > {DEEPEST_RANK}, false)"
    rules["have a clicked that is not 0 or 1"] = _not(columns, "clicked", "is not null")
    if columns.has("propensity"):
        rules["have a propensity outside 0 to 1"] = _not(columns, "propensity", "between 0 and 1")
        rules["are a click at propensity 0"] = f"({columns.read('clicked')}) and ({columns.read('propensity')}) = 0"
    if columns.has("orphan"):
        orphan = columns.source["orphan"]
        return {ORPHAN: orphan} | {kind: f"not {orphan} and ({rule})" for kind, rule in rules.items()}
    return rules


def _not(columns: Columns, name: str, rule: str) -> str:
    """What is there but breaks the rule."""
    return f"{columns.source[name]} is not null and not coalesce(({columns.read(name)}) {rule}, false)"


def first_fault(rules: dict[str, str]) -> str:
    """The number of the first rule that a row breaks, as SQL; null if it breaks none."""
    return "case " + " ".join(f"when {rule} then {i}" for i, rule in enumerate(rules.values())) + " end"

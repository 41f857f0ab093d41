"""Reading a click log: two passes if it is clean, a closer look if it is not."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.logs import passes
from counterrank.clicks.logs.columns import FLOAT, Columns
from counterrank.clicks.logs.diagnosis import Diagnosis
from counterrank.clicks.logs.drift import drift_of_parts
from counterrank.clicks.logs.engine import Engine, doubt_statistics
from counterrank.clicks.logs.faults import UNKNOWN_DOCUMENT, UNKNOWN_QUERY, Fault, LogReport
from counterrank.clicks.logs.matching import Candidates, seen_only
from counterrank.clicks.logs.options import LogOptions
from counterrank.clicks.logs.origins import with_origins
from counterrank.clicks.logs.pages import distinct_pages
from counterrank.common.errors import DataError, printable
from counterrank.data import RankingData

# Where more of what was shown than this moves between ranks, pages are looked through by masks.
_FEW = 0.05


@dataclass(frozen=True, eq=False)
class Reading:
    """A click log, counted.

    Attributes:
        counts: what was shown and clicked; one for each part of the data, or one without data.
        report: what became of each row.
        drift: for each of the counts, pages, impressions and clicks over time; None if that was not asked for, or the
            log has no timestamp.
    """

    counts: tuple[ClickCounts, ...]
    report: LogReport
    drift: tuple[list[dict[str, Any]], ...] | None = None


class Reader:
    """One log on one engine; reads it whole."""

    def __init__(self, engine: Engine, name: str, columns: Columns, options: LogOptions, displays: bool) -> None:
        self.engine, self.local, self.name, self.columns = engine, engine.local, name, columns
        self.skip, self.displays = options.on_error == "skip", displays
        self.checks_pages = not (options.trust or columns.impressions)
        # a page that is kept without some of its documents would have wrong ranks
        self.tolerated = () if options.strict else (UNKNOWN_QUERY,) if displays else (UNKNOWN_QUERY, UNKNOWN_DOCUMENT)

    def read(self, parts: Sequence[RankingData]) -> Reading:
        """Count the log against parts of the data, or against nothing but itself."""
        if FLOAT in (self.columns.kinds["rank"], self.columns.kinds["clicked"]):
            doubt_statistics(self.local)
        self.engine.view("log", self.columns.normalised())
        self.engine.reduce("cells", passes.cells(self.columns), "counting clicks")
        self._check_policies()
        rejected, line = self.engine.rejected()
        rows = rejected + self._number("select coalesce(sum(impressions), 0) from cells")
        if not rows:
            raise DataError(f"{self.name}: no rows; expected one for each displayed document")
        self._count_pages()
        known = Candidates(self.local, self.columns, parts) if parts else None
        if known is not None:
            known.match()
        diagnosis = Diagnosis(self.engine, self.columns, self.name, known is not None, self.tolerated)
        diagnosis.add_unreadable(rejected, line)
        diagnosis.look(self._odd_rows(), self.checks_pages)
        dropped: dict[str, int] = {}
        dropped_pages = 0
        if diagnosis.faults:
            if not self.skip:
                raise DataError(
                    f"{self.name}: {_listed(diagnosis.faults)}{self._why(diagnosis.faults)}; --on-error skip drops the "
                    "pages with such rows"
                )
            dropped, dropped_pages = self._without_bad_pages(diagnosis, known)
        counts = with_origins(self.engine, self.columns, known, self._counts(known), self.name)
        used, pages = (sum(getattr(part, what) for part in counts) for what in ("n_impressions", "n_sessions"))
        unknown = diagnosis.left_out()
        report = LogReport(self.name, rows, used, pages, dropped, dropped_pages, diagnosis.faults, unknown)
        if unknown and not used:
            raise DataError(
                f"{self.name}: none of its rows belongs to the ranking data: {_listed(unknown)}; expected query_id and "
                f"doc_id as in the data, such as query {printable(str(parts[0].query_ids[0]))}, document "
                f"{printable(str(parts[0].doc_ids[0]))}"
            )
        for warning in (report.words() if dropped else None, report.warning()):
            if warning is not None:
                warnings.warn(warning, stacklevel=4)
        strays = bool(report.unknown_documents)
        drift = tuple(drift_of_parts(self.engine, self.columns, known, strays)) if self.columns.timed else None
        return Reading(tuple(counts), report, drift)

    def _check_policies(self) -> None:
        """An error where one of the policies that were chosen has no rows."""
        if not self.columns.only_policies:
            return
        found = self.local.execute("select distinct policy from cells").fetchall()
        for name in self.columns.only_policies:
            if (name,) not in found:
                everything = f"select distinct {self.columns.read('policy')} as policy from raw"
                self.engine.reduce("named", everything, "looking for policies")
                names = self.local.execute("select policy from named where policy is not null order by 1").fetchall()
                there = ", ".join(repr(printable(other)) for (other,) in names) or "none"
                raise DataError(f"{self.name}: no rows of policy {printable(name)!r}; the log has {there}")

    def _why(self, faults: Sequence[Fault]) -> str:
        """Why unknown documents are a fault where pages are kept."""
        if UNKNOWN_QUERY not in self.tolerated or not any(fault.kind == UNKNOWN_DOCUMENT for fault in faults):
            return ""
        return "; without these documents the displayed pages that are kept would have wrong ranks"

    def _counts(self, known: Candidates | None) -> list[ClickCounts]:
        counts = seen_only(self.local, self.columns) if known is None else known.counts(self.columns)
        if self.displays:
            counts = distinct_pages(self.engine, self.columns, counts, known is not None)
        return [counts] if known is None else known.split(counts)

    def _count_pages(self) -> None:
        """Make `pages`, and `suspects`: the sessions of pages that may be wrong."""
        self.local.execute("create or replace temp table suspects as select 0 as session_id where false")
        if not self.checks_pages:
            self.local.execute(f"create or replace temp table pages as {passes.pages_on_trust(self.columns)}")
            return
        self.local.execute(f"create or replace temp table moving as {passes.moving()}")
        moved = self._number("select coalesce(sum(impressions), 0) from moving")
        shown, first, lost, unusual = self._numbers(_SHOWN)
        # a document moves within its query: where that is not known, only masks tell
        masks = passes.masks_for(shown / max(first, 1)) if moved > _FEW * shown else ()
        masks = masks or (passes.masks_for(1) if lost else ())
        self.engine.reduce("pages", passes.pages(self.columns, masks, usual=not unusual), "checking pages")
        suspects = "select session_id from pages where session_id is not null"
        if moved and not masks:
            self.engine.lend("moving")
            self.engine.reduce("repeated", passes.twice(), "checking pages")
            suspects += " union select session_id from repeated"
        self.local.execute(f"create or replace temp table suspects as {suspects}")

    def _odd_rows(self) -> bool:
        """Whether a cell, or a page without a session, shows that some row is wrong."""
        odd = f"select count(*) from cells where not coalesce({passes.is_sound(self.columns)}, false)"
        nowhere = "select count(*) from pages where suspects > 0 and session_id is null"
        return bool(self._number(odd) or (self.checks_pages and self._number(nowhere)))

    def _without_bad_pages(self, diagnosis: Diagnosis, known: Candidates | None) -> tuple[dict[str, int], int]:
        """Count again without what is wrong; rows that are dropped by kind of fault, and pages."""
        dropped, pages = diagnosis.drop()
        self.engine.reduce("cells", passes.cells(self.columns), "counting clicks again")
        self.local.execute(f"create or replace temp table pages as {passes.pages_on_trust(self.columns)}")
        if known is not None:
            known.match()
            if self.columns.impressions:
                unknown = diagnosis.drop_cells()
                dropped, pages = dropped | unknown, pages + sum(unknown.values())
                self.local.execute(f"create or replace temp table pages as {passes.pages_on_trust(self.columns)}")
        if not self._number("select count(*) from cells"):
            raise DataError(f"{self.name}: nothing is left without what is wrong: {_listed(diagnosis.faults)}")
        return dropped, pages

    def _number(self, sql: str) -> int:
        return self._numbers(sql)[0]

    def _numbers(self, sql: str) -> list[int]:
        return [int(number or 0) for number in self.local.execute(sql).fetchone()]  # older count_if of nothing is null


_SHOWN = (
    "select coalesce(sum(impressions), 0), coalesce(sum(case when rank = 1 then impressions end), 0), "
    f"count_if(query_id is null), count_if(not coalesce(rank between 1 and {passes.DEEPEST}, false)) from cells"
)


def _listed(faults: Sequence[Fault]) -> str:
    """All faults in one line, and what they may come from."""
    hint = ""
    if any("rank below" in fault.kind and re.search(r"\brank 0(\.0)?(,|$)", fault.example) for fault in faults):
        hint = "; where ranks begin with 0, say --rank-base 0"
    return "; ".join(map(str, faults)) + hint

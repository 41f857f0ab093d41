"""Reading a click log: `read_log` counts it, in two passes if it is clean, with a closer look if it is not;
`read_display_probabilities` and `read_logging_scores` read what else the logging policy wrote down.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks.click_cards import fold_clicks_card, fold_clicks_summary
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.logs import passes
from counterrank.clicks.logs.columns import FLOAT, NEEDED, Columns, LogOptions, plan_columns, split_entry
from counterrank.clicks.logs.engine import Engine, Unreadable, disable_statistics, duckdb_engine
from counterrank.clicks.logs.events import plain_log
from counterrank.clicks.logs.faults import (
    UNKNOWN_DOCUMENT,
    UNKNOWN_QUERY,
    Diagnosis,
    LogReport,
    is_sound,
)
from counterrank.clicks.logs.formats import LogFiles, find_log, frame_log
from counterrank.clicks.logs.matching import Candidates, shown_only, with_origins
from counterrank.clicks.logs.passes import distinct_pages, drift_of_parts, last_clicks
from counterrank.clicks.logs.spark_engine import spark_engine
from counterrank.common.checks import FloatArray, IntArray, check_type
from counterrank.common.errors import CounterrankError, DataError, LogWarning, brief, printable, quoted
from counterrank.common.files import PathLike, spill_folder
from counterrank.common.notebook import Shown, Summary
from counterrank.common.spark import LOCAL
from counterrank.data import Fold, RankingData
from counterrank.data.frames import is_frame
from counterrank.data.sources import PARTS

# Where more of what was shown than this moves between ranks, pages are looked through by masks.
_FEW = 0.05


@dataclass(frozen=True, eq=False)
class Reading:
    """A click log, counted.

    Attributes:
        counts: what was shown and clicked; one for each part of the data, or one without data.
        report: how many rows were used, dropped and unknown.
        drift: for each of the counts, pages, impressions and clicks over time; None without `drift`, where the log has
            no timestamp, or where timestamps are not dates (`report.dated`).
    """

    counts: tuple[ClickCounts, ...]
    report: LogReport
    drift: tuple[list[dict[str, Any]], ...] | None = None


class Reader:
    """One log on one engine; reads it whole."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        columns: Columns,
        options: LogOptions,
        displays: bool,
        last_clicks: bool = False,
    ) -> None:
        self.engine, self.local, self.name, self.columns = engine, engine.local, name, columns
        self.skip, self.displays = options.on_error == "skip", displays
        self.last_clicks = last_clicks
        self.checks_pages = not (options.skip_page_checks or columns.impressions)
        # a page that is kept without some of its documents would have wrong ranks
        self.tolerated = () if options.strict else (UNKNOWN_QUERY,) if displays else (UNKNOWN_QUERY, UNKNOWN_DOCUMENT)

    def read(self, parts: Sequence[RankingData]) -> Reading:
        """Count the log against parts of the data, or against nothing but itself."""
        if any(self.columns.kinds.get(name) == FLOAT for name in (*NEEDED, "timestamp")):
            disable_statistics(self.local)
        self.engine.view("log", self.columns.normalised())
        self.engine.reduce("cells", passes.cells(self.columns), "counting clicks")
        self._check_policies()
        unreadable = self.engine.rejected()
        rows = unreadable.number + self._number("select coalesce(sum(impressions), 0) from cells")
        if not rows:
            raise DataError(f"{self.name}: no rows; expected one for each displayed document")
        self._count_pages()
        known = Candidates(self.local, self.columns, parts) if parts else None
        if known is not None:
            known.match()
        diagnosis = Diagnosis(self.engine, self.columns, known is not None, self.tolerated)
        diagnosis.find_faults(unreadable, self._odd_rows(), self.checks_pages)
        dropped, dropped_pages = dict[str, int](), 0
        if diagnosis.faults:
            if not self.skip:
                raise DataError(
                    f"{self.name}: {diagnosis.message()}{self._why(diagnosis)}; on_error='skip' drops the "
                    "pages with such rows"
                )
            dropped, dropped_pages = self._without_bad_pages(diagnosis, known)
        note, dated = diagnosis.bad_dates()
        counts = with_origins(self.engine, self.columns, known, self._counts(known), self.name, dated)
        used, pages = (sum(getattr(part, what) for part in counts) for what in ("n_impressions", "n_sessions"))
        unknown = diagnosis.left_out()
        report = LogReport(
            self.name,
            rows,
            used,
            pages,
            dropped,
            dropped_pages,
            diagnosis.faults,
            unknown,
            () if note is None else (note,),
            dated,
            self.columns.unused,
            self.columns.suggested,
        )
        if unknown and (not used or report.unknown_message() is not None):
            report = replace(report, id_hint=diagnosis.id_hint())
        if unknown and not used:
            raise DataError(
                f"{self.name}: none of its rows belongs to the ranking data: "
                f"{'; '.join(map(str, unknown))}{report.id_hint}; "
                f"expected query_id and doc_id as in the data, such as query {quoted(parts[0].query_ids[0])}, document "
                f"{quoted(parts[0].doc_ids[0])}"
            )
        for warning in (report.drop_message() if dropped else None, report.unknown_message()):
            if warning is not None:
                warnings.warn(warning, LogWarning, stacklevel=4)
        if not self.columns.timed or not dated:
            return Reading(tuple(counts), report)
        drift = drift_of_parts(self.engine, self.columns, known, bool(report.unknown_documents))
        return Reading(tuple(counts), report, tuple(drift))

    def _check_policies(self) -> None:
        """An error where one of the policies that were chosen has no rows."""
        if not self.columns.only_policies:
            return
        entries = self.local.execute("select distinct policy from cells where policy is not null").fetchall()
        found = {split_entry(entry)[0] for (entry,) in entries}
        for name in self.columns.only_policies:
            if name not in found:
                everything = f"select distinct {self.columns.read('policy')} as policy from raw"
                there = ", ".join(map(repr, _policies(self.engine, everything))) or "none"
                raise DataError(f"{self.name}: no rows of policy {printable(name)!r}; the log has {there}")

    def _why(self, diagnosis: Diagnosis) -> str:
        """Why ids may be unknown, and why unknown documents are a fault where pages are kept."""
        kinds = {fault.kind for fault in diagnosis.faults}
        hint = diagnosis.id_hint() if kinds & {UNKNOWN_QUERY, UNKNOWN_DOCUMENT} else ""
        if UNKNOWN_QUERY not in self.tolerated or UNKNOWN_DOCUMENT not in kinds:
            return hint
        return f"{hint}; without these documents the displayed pages that are kept would have wrong ranks"

    def _counts(self, known: Candidates | None) -> list[ClickCounts]:
        counts = shown_only(self.local, self.columns) if known is None else known.counts(self.columns)
        if self.displays:
            counts = distinct_pages(self.engine, self.columns, counts, known is not None, self.last_clicks)
        if self.last_clicks:
            counts = last_clicks(self.engine, self.columns, counts, known is not None)
        return [counts] if known is None else known.split(counts)

    def _count_pages(self) -> None:
        """Make `pages`, and `suspects`: the sessions of pages that may be wrong."""
        self.local.execute("create or replace temp table suspects as select 0 as session_id where false")
        if not self.checks_pages:
            self.local.execute(f"create or replace temp table pages as {passes.unchecked_pages(self.columns)}")
            return
        self.local.execute(f"create or replace temp table moving as {passes.moving()}")
        moved = self._number("select coalesce(sum(impressions), 0) from moving")
        shown, first, lost, unusual = self._numbers(_SHOWN)
        # a document moves within its query: where that is not known, masks are needed
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
        odd = f"select count(*) from cells where not coalesce({is_sound(self.columns)}, false)"
        nowhere = "select count(*) from pages where suspects > 0 and session_id is null"
        return bool(self._number(odd) or (self.checks_pages and self._number(nowhere)))

    def _without_bad_pages(self, diagnosis: Diagnosis, known: Candidates | None) -> tuple[dict[str, int], int]:
        """Count again without what is wrong; rows that are dropped by kind of fault, and pages."""
        dropped, pages = diagnosis.drop()
        self.engine.reduce("cells", passes.cells(self.columns), "counting clicks again")
        self.local.execute(f"create or replace temp table pages as {passes.unchecked_pages(self.columns)}")
        if known is not None:
            known.match()
            if self.columns.impressions:
                unknown = diagnosis.drop_cells()
                dropped, pages = dropped | unknown, pages + sum(unknown.values())
                self.local.execute(f"create or replace temp table pages as {passes.unchecked_pages(self.columns)}")
        if not self._number("select count(*) from cells"):
            raise DataError(f"{self.name}: nothing is left without what is wrong: {diagnosis.message()}")
        return dropped, pages

    def _number(self, sql: str) -> int:
        return self._numbers(sql)[0]

    def _numbers(self, sql: str) -> list[int]:
        return [int(number or 0) for number in self.local.execute(sql).fetchone()]  # older count_if of nothing is null


_SHOWN = (
    "select coalesce(sum(impressions), 0), coalesce(sum(case when rank = 1 then impressions end), 0), "
    f"count_if(query_id is null), count_if(not coalesce(rank between 1 and {passes.DEEPEST}, false)) from cells"
)


def _policies(engine: Engine, sql: str) -> list[str]:
    """The names of policies that a query over the log finds."""
    engine.reduce("named", sql, "looking for policies")
    names = engine.local.execute("select policy from named where policy is not null order by policy").fetchall()
    return [printable(name) for (name,) in names]


@contextmanager
def opened(path: PathLike | Any, options: LogOptions) -> Iterator[tuple[Engine, LogFiles, Columns]]:
    """An engine over the files of a log or a frame, and the columns it reads them by."""
    log = frame_log(path, options) if is_frame(path) else find_log(path, options.format)
    with spill_folder() as spill, _engine(log, options, spill) as engine:
        plain = plain_log(log, engine.local, spill, options)
        if plain is None:
            engine.rows_of = log
        else:
            engine.put_aside = Unreadable(plain.rejected, plain.line)
        opened_log = log if plain is None else plain.log
        engine.open(_in_a_file(opened_log, spill) if options.engine == "spark" else opened_log, spill)
        columns = plan_columns(log.name, engine.columns(), options, events=plain is not None)
        if options.only_policies:
            columns = _restricted(engine, columns, options.only_policies, log.name)
        if options.hold_out_sessions:
            engine.view("part_of_sessions", columns.of_sessions(options.hold_out_sessions, options.held_out))
            columns = replace(columns, table="part_of_sessions")
        yield engine, log, columns


def _in_a_file(log: LogFiles, folder: Path) -> LogFiles:
    """A log of files; a frame is written to the folder, as Parquet."""
    import pyarrow.parquet as pq

    if log.table is None:
        return log
    file = folder / "frame.parquet"
    pq.write_table(log.table, file)
    return replace(log, files=(file,), table=None)


def _restricted(engine: Engine, columns: Columns, policies: Sequence[str], log: str) -> Columns:
    """The columns of the rows of some policies."""
    if "policy" not in columns.source:
        names = ", ".join(map(printable, policies))
        raise DataError(
            f"{log}: no column 'policy' to choose {names} by; expected it, or its name by columns={{'policy': NAME}}"
        )
    engine.view("chosen", columns.of_policies(policies, engine.text))
    return replace(columns, table="chosen", only_policies=tuple(policies))


def _engine(log: LogFiles, options: LogOptions, spill: Path) -> AbstractContextManager[Engine]:
    if options.engine == "spark":
        return spark_engine(log, options.master or LOCAL, options.memory, options.threads, spill)
    return duckdb_engine(log, options.memory, options.threads, spill)


def read_parts(
    path: PathLike | Any,
    parts: Sequence[RankingData],
    *,
    displays: bool = False,
    last_clicks: bool = False,
    drift: bool = False,
    options: LogOptions | None = None,
) -> Reading:
    """Count a log as `read_log` does, for several parts of the data at once, with a report on its rows.

    Arguments:
        parts: queries with all their candidates, shown or not, each query in one of them; none to count what was shown.
        drift: also count over time, if the log has a timestamp.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> rows = "1,q,a,1,1,2026-01-01 00:00:30\\n2,q,a,1,0,2026-01-01 00:01:10\\n"
    >>> _ = file.write_text("session_id,query_id,doc_id,rank,clicked,timestamp\\n" + rows)
    >>> found = read_parts(file, (), drift=True)
    >>> found.report.used, [(each["begin"], each["clicks"]) for each in found.drift[0]]
    (2, [('2026-01-01 00:00', 1), ('2026-01-01 00:01', 0)])
    """
    chosen = options or LogOptions()
    for part in parts:
        check_type(part, RankingData, "data")
    if (displays or last_clicks) and chosen.impressions:
        name = "displays" if displays else "last_clicks"
        raise CounterrankError(f"{name}: there are no pages where each row is one; expected it without impressions")
    with opened(path, chosen) as (engine, log, columns):
        columns = replace(columns, timed=drift and columns.has("timestamp"))
        return Reader(engine, log.name, columns, chosen, displays, last_clicks).read(parts)


@dataclass(frozen=True, eq=False, repr=False)
class FoldClicks(Shown):
    """The clicks of a log by the parts of a fold.

    Attributes:
        train, validation, test: those of each part; `validation` is None where the fold has none.
        report: what became of each row; `report.unknown_queries` rows are of queries that are in no part.
    """

    train: ClickCounts
    validation: ClickCounts | None
    test: ClickCounts
    report: LogReport

    def __repr__(self) -> str:
        parts = {name: getattr(self, name) for name in PARTS}
        sessions = [f"{name}=" + ("None" if part is None else f"{part.n_sessions:,}") for name, part in parts.items()]
        return (
            f"FoldClicks(sessions: {', '.join(sessions)}; {self.report.used:,} of {self.report.rows:,} rows used, "
            f"{self.report.unknown_queries:,} of queries that are in no part)"
        )

    def summary(self) -> Summary:
        """The summary of each part and the numbers of rows used and dropped, as a dict that prints as a table."""
        return fold_clicks_summary(self)

    def _repr_html_(self) -> str:
        return fold_clicks_card(self)


@overload
def read_log(
    path: PathLike | Any,
    data: RankingData | None = None,
    *,
    displays: bool = False,
    last_clicks: bool = False,
    **options: Any,
) -> ClickCounts: ...


@overload
def read_log(
    path: PathLike | Any, data: Fold, *, displays: bool = False, last_clicks: bool = False, **options: Any
) -> FoldClicks: ...


def read_log(
    path: PathLike | Any,
    data: RankingData | Fold | None = None,
    *,
    displays: bool = False,
    last_clicks: bool = False,
    **options: Any,
) -> ClickCounts | FoldClicks:
    """Count the impressions and clicks of a log.

    DuckDB reads it out of core, or a Spark cluster. Whatever is wrong in it is an error that counts it by kind and
    shows the first row of each; `on_error="skip"` drops the pages concerned and warns. Rows of queries that the data
    does not have are left out, with a warning where they are more than 5 % of the rows. So are rows of documents that
    are not candidates of their query, always with a warning; the rest of their page is counted. `strict=True` makes
    both of them faults. Timestamps that are no dates are warned about, and columns that are not used where their names
    suggest that they should be. Warnings are of the class `LogWarning`.

    Arguments:
        path: Parquet, CSV or JSON Lines, compressed or not, OpenSearch UBI, or events of metarank: a file, a pattern
            such as `logs/*.csv.gz`, or a folder (`policy=new/` in it is a column). Or a frame with the same columns: of
            pandas or polars, an Arrow table, a DuckDB relation, or anything with the method `__arrow_c_stream__`.
            Messages call it "frame" and count its rows from 0.
        data: the queries and all their candidates, shown or not. Without it the counts know what was shown and no
            more: enough for `examination.estimate`, not for training. For a fold the log is read once, and the result
            has the clicks of each part as `train`, `validation` and `test`, and the `report` on all rows.
        displays: also keep the distinct pages, which `estimators.rerank` needs. A page with a document that is not a
            candidate is then a fault.
        last_clicks: also count by the rank of the last click above, which `examination.Browsing` needs; with `displays`
            also keep in which ways each page was clicked, which `examination.Dependent` needs.
        options: those of `LogOptions`: columns, rank_base, format, click_actions, impressions, only_policies, context,
            hold_out_sessions, held_out, on_error, strict, skip_page_checks, memory, threads, engine and master.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = file.write_text("session_id,query_id,doc_id,position,clicked\\n1,q,a,0,yes\\n1,q,b,1,no\\n")
    >>> counts = read_log(file, columns={"rank": "position"}, rank_base=0)
    >>> counts.n_sessions, counts.ranks.tolist(), counts.clicks.tolist()
    (1, [1, 2], [1, 0])
    """
    if data is not None and not isinstance(data, RankingData | Fold):
        raise CounterrankError(f"data: {type(data).__name__}; expected RankingData, a Fold, or None")
    named = {name: getattr(data, name) for name in PARTS} if isinstance(data, Fold) else {"train": data}
    parts = {name: part for name, part in named.items() if part is not None}
    found = read_parts(
        path, list(parts.values()), displays=displays, last_clicks=last_clicks, options=LogOptions(**options)
    )
    columns = found.report.column_message() if found.report.suggested_columns else None
    for message in (found.report.date_message(), columns):
        if message is not None:
            warnings.warn(message, LogWarning, stacklevel=2)
    if not isinstance(data, Fold):
        return found.counts[0]
    counts: dict[str, Any] = dict.fromkeys(PARTS) | dict(zip(parts, found.counts, strict=True))
    return FoldClicks(**counts, report=found.report)


@dataclass(frozen=True, eq=False)
class DisplayedImpressions:
    """Impressions with the probability that the policy had for them.

    Attributes:
        query_ids, doc_ids: of each kind of impression.
        ranks: from 1.
        display_probabilities: P(shown at this rank | query, policy) as logged.
        impressions: how many of this kind there were.
        clicks: how many of them were clicked.
    """

    query_ids: NDArray[Any]
    doc_ids: NDArray[Any]
    ranks: IntArray
    display_probabilities: FloatArray
    impressions: IntArray
    clicks: IntArray


def read_display_probabilities(path: PathLike, options: LogOptions | None = None) -> DisplayedImpressions:
    """Impressions and clicks by query, document, rank and logged display probability.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = file.write_text("item,position,click,p\\n7,1,1,0.25\\n7,1,0,0.25\\n")
    >>> names = {"doc_id": "item", "rank": "position", "clicked": "click", "display_probability": "p"}
    >>> found = read_display_probabilities(file, LogOptions(columns=names, impressions=True))
    >>> found.impressions.tolist(), found.clicks.tolist(), found.display_probabilities.tolist()
    ([2], [1], [0.25])
    """
    with opened(path, replace(options or LogOptions(), context=())) as (engine, log, columns):
        _check_column(columns, "display_probability", log.name)
        engine.view("log", columns.normalised(f"{columns.read('display_probability')} as shown"))
        _check_one_policy(engine, columns, log.name)
        keys = "query_id, doc_id, rank, shown"
        counted = (
            f"select {keys}, count(*) as n, cast(count_if(clicked) as bigint) as clicks, count(clicked) as readable "
            f"from log group by {keys}"
        )
        engine.reduce("displayed", counted, "counting clicks")
        _check_readable(engine, log.name)
        wrong = engine.local.execute(
            "select cast(coalesce(sum(n), 0) as bigint) from displayed where not coalesce(query_id is not null and "
            "doc_id is not null and rank >= 1 and readable = n and shown > 0 and shown <= 1, false)"
        ).fetchone()[0]
        if wrong:
            raise DataError(
                f"{log.name}: {wrong:,} rows lack something or have a display_probability outside 0 to 1; expected "
                "one above 0 for everything that was shown"
            )
        found = engine.local.execute(f"select * from displayed order by {keys}").fetchnumpy()
    return DisplayedImpressions(
        *(np.asarray(found[name]) for name in ("query_id", "doc_id", "rank", "shown", "n", "clicks"))
    )


def read_logging_scores(
    path: PathLike, parts: Sequence[RankingData], options: LogOptions | None = None
) -> list[FloatArray]:
    """The scores that the policy ranked by, from the log's `logging_score`, for each document of the data.

    Each candidate must have been shown, always with one score: a log has no scores of the others.
    """
    with opened(path, replace(options or LogOptions(), context=())) as (engine, log, columns):
        _check_column(columns, "logging_score", log.name)
        engine.view("log", columns.normalised(f"{columns.read('logging_score')} as score"))
        scores = "select query_id, doc_id, min(score) as low, max(score) as high from log group by query_id, doc_id"
        engine.reduce("cells", scores, "reading scores")
        _check_readable(engine, log.name)
        known = Candidates(engine.local, columns, parts)
        known.match()
        found = engine.local.execute("select row, low, high from matched where row is not null").fetchnumpy()
    result = np.full(int(known.rows[-1]), np.nan)
    result[np.asarray(found["row"], np.int64)] = np.ma.filled(found["low"], np.nan)
    changed = int(np.count_nonzero(np.asarray(found["low"]) != np.asarray(found["high"])))
    if changed:
        raise DataError(f"{log.name}: {changed:,} documents have several values of logging_score; expected one of each")
    missing = int(np.count_nonzero(~np.isfinite(result)))
    if missing:
        raise DataError(
            f"{log.name}: no logging_score of {missing:,} of {len(result):,} candidates, which were never shown; "
            "expected the scores of all of them, in a file or as a ranker"
        )
    return np.split(result, known.rows[1:-1])


def _check_one_policy(engine: Engine, columns: Columns, log: str) -> None:
    """An error for impressions of several policies: each by its own probability would lose what one cannot show."""
    if not columns.has("policy"):
        return
    names = _policies(engine, "select distinct policy from log")
    if len(names) > 1:
        raise DataError(
            f"{log}: several policies ({', '.join(map(repr, names))}), whose display probabilities cannot be taken "
            f"together; expected one, as by only_policies=[{names[-1]!r}]"
        )


def _check_readable(engine: Engine, log: str) -> None:
    found = engine.rejected()
    if found.number:
        place = f"{found.place}: " if found.place else ""
        raise DataError(
            f"{log}: {found.number:,} lines cannot be read, such as {place}{brief(found.line)}; expected whole rows"
        )


def _check_column(columns: Columns, name: str, log: str) -> None:
    if not columns.has(name):
        raise DataError(f"{log}: no column {name!r}; expected it, or its name by columns={{{name!r}: NAME}}")

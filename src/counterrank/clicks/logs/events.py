"""Logs of events, turned into plain ones: a row for each document that was shown, and whether it was clicked.

What was shown and what was clicked come as events of their own there, each told by its reader (`ubi`, `metarank`) as
one of two relations that share the page and the document. Here the events are read, once, and the two are joined. The
result is a Parquet file in the folder of what is spilled, which any engine reads as a plain log; its column `orphan`
marks clicks on what was not shown.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from counterrank.clicks.logs.duckdb_engine import file_list
from counterrank.clicks.logs.engine import one_line, run, text
from counterrank.clicks.logs.files import LogFiles, format_of
from counterrank.clicks.logs.recognition import layout
from counterrank.common.errors import DataError

_LARGEST = 1 << 24  # bytes of one JSON value; DuckDB sets aside twice as many for each thread


@dataclass(frozen=True)
class Plain:
    """A log of events as a plain one.

    Attributes:
        log: the file it was written to.
        rejected: lines of the events that could not be read.
        line: what one of them is.
    """

    log: LogFiles
    rejected: int
    line: str


class EventFormat(Protocol):
    """What a format of events has to tell."""

    def records(self) -> str:
        """A query over `documents` (columns `file` and `json`, null where a line is no JSON).

        Its columns: `kind`, null for what cannot be read; `session`, `doc`, `action` and what else the others need.
        """

    def shown(self, records: str, local: Any, name: str, first_rank: int) -> str:
        """What was shown: session, query, doc, rank and timestamp, over the file of records."""

    def clicked(self) -> str:
        """Which records may be clicks; `action` tells of each whether it is."""

    def others(self) -> str:
        """Which of these are known to be something else."""


def as_plain(
    log: LogFiles, local: Any, folder: Path, format: EventFormat, rank_base: int, click_actions: Sequence[str]
) -> Plain:
    """Turn a log of events into a plain one.

    Arguments:
        log: its files.
        local: a DuckDB connection; it keeps to its limit of memory and spills.
        folder: for the result.
        format: how the events are to be understood.
        rank_base: the number of the first rank, which is counted on where the log tells ranks by an order.
        click_actions: the names of what is a click, in whatever case.
    """
    local.execute("set TimeZone = 'UTC'")  # times that name no zone mean the same on every machine
    files = folder / "records.parquet", folder / "plain.parquet"
    _write(local, f"with documents as ({_documents(log)}) {format.records()}", files[0], "reading events", log.name)
    records = f"read_parquet({file_list([files[0]])})"
    is_click = f"action in ({', '.join(text(name.strip().lower()) for name in click_actions)})"
    _warn_without_clicks(local, records, format, is_click, log.name, click_actions)
    shown = format.shown(records, local, log.name, rank_base)
    clicks = f"select session, doc, timestamp from {records} where {format.clicked()} and {is_click}"
    _write(local, _joined(shown, clicks), files[1], "joining events", log.name)
    rejected, line = local.execute(f"select count(*), min(line) from {records} where kind is null").fetchone()
    return Plain(replace(log, format="parquet", files=(files[1],), root=None), int(rejected), str(line))


def _write(local: Any, sql: str, file: Path, what: str, name: str) -> None:
    run(local, f"copy ({sql}) to {text(str(file))} (format parquet)", what, name)


def _joined(shown: str, clicks: str) -> str:
    """Several clicks on one document of a page are one; clicks on what is not on the page are rows of their own.

    The latter have neither query nor rank, so that no cell counts them.
    """
    return (
        f"with shown as ({shown}), clicks as ({clicks}), "
        "once as (select distinct session, doc from clicks) "
        "select shown.session as session_id, query as query_id, shown.doc as doc_id, rank, "
        "once.session is not null as clicked, timestamp, false as orphan "
        "from shown left join once on shown.session = once.session and shown.doc = once.doc "
        "union all "
        "select session, null, clicks.doc, null, true, clicks.timestamp, true "
        "from clicks anti join shown on clicks.session = shown.session and clicks.doc = shown.doc"
    )


def _warn_without_clicks(
    local: Any, records: str, format: EventFormat, is_click: str, name: str, click_actions: Sequence[str]
) -> None:
    found = local.execute(
        f"select action, count_if({is_click}) as n from {records} "
        f"where {format.clicked()} and action is not null and not ({format.others()}) group by action order by action"
    ).fetchall()
    if found and not any(n for _, n in found):
        there = ", ".join(repr(action) for action, _ in found[:8])
        warnings.warn(
            f"{name}: no event is called {' or '.join(map(repr, click_actions))}; others are called {there}; "
            "where some of these are clicks, name them by click_actions",
            stacklevel=7,
        )


def _documents(log: LogFiles) -> str:
    """All JSON values of the files; arrays and answers to searches are taken apart, `_source` is taken out.

    Looking for a word is much cheaper than parsing, and most documents do not have it.
    """
    groups: dict[str, list[Path]] = {}
    for file in log.files:
        groups.setdefault("parquet" if format_of(file) == "parquet" else layout(file), []).append(file)
    lines = " union all ".join(_read(kind, files) for kind, files in groups.items())
    return (
        "select file, case when contains(json, '\"_source\"') then coalesce(json_extract(json, '$._source'), json) "
        "else json end as json from (select file, unnest(case "
        "when left(json, 1) = '[' then json_extract(json, '$[*]') when contains(json, '\"hits\"') "
        "and json_type(json, '$.hits.hits') = 'ARRAY' then json_extract(json, '$.hits.hits[*]') "
        f"else [json] end) as json from ({lines}) as lines) as single"
    )


def _read(kind: str, files: Sequence[Path]) -> str:
    listed = file_list(files)
    if kind == "parquet":
        return (
            "select file_name as file, to_json(columns) as json from "
            f"(select file_name, columns from (select filename as file_name, * exclude (filename) "
            f"from read_parquet({listed}, union_by_name = true, filename = true)) as columns)"
        )
    whole = max(file.stat().st_size for file in files) if kind == "unstructured" else 0
    largest = min(max(_LARGEST, whole), _LARGEST << 4)
    lenient = ", ignore_errors = true" if kind == "newline_delimited" else ""
    return (
        f"select filename as file, json from read_json_objects({listed}, format = {text(kind)}, filename = true, "
        f"maximum_object_size = {largest}{lenient})"
    )


def fields(**paths: Sequence[str]) -> str:
    """For each name the first of its JSON paths that is there, as text; a document is parsed once for all.

    >>> fields(a=["$.a", "$.b"], c=["$.c"]).count("coalesce")
    1
    """
    listed = [path for group in paths.values() for path in group]
    chosen, at = [], 1
    for name, group in paths.items():
        values = ", ".join(f"found[{at + i}]" for i in range(len(group)))
        chosen.append(f"{f'coalesce({values})' if len(group) > 1 else values} as {name}")
        at += len(group)
    return (
        f"select file, json, {', '.join(chosen)} from (select file, json, "
        f"json_extract_string(json, [{', '.join(map(text, listed))}]) as found from documents) as extracted"
    )


def same_query(column: str) -> str:
    """A text that a user typed, without what does not change it: case and blanks; null if nothing is left."""
    return f"nullif(trim(regexp_replace(lower({column}), '\\s+', ' ', 'g')), '')"


def time_of(column: str) -> str:
    """A time in UTC, written as ISO 8601 or as milliseconds since 1970; null if it is neither."""
    milliseconds = f"try_cast({column} as double)"
    return (
        f"coalesce(timezone('UTC', try_cast({column} as timestamptz)), "
        f"case when {milliseconds} between 0 and 1e14 then make_timestamp(cast({milliseconds} * 1000 as bigint)) end)"
    )


def line_of(json: str = "json") -> str:
    """What is told of a line that cannot be read."""
    return f"coalesce(left({json}, 100), 'no JSON, in ' || file)"


def asked(local: Any, sql: str, name: str) -> Any:
    """One value of a small query."""
    import duckdb

    try:
        return local.execute(sql).fetchone()[0]
    except duckdb.Error as error:
        raise DataError(f"{name}: cannot be read ({one_line(error)})") from None

"""Logs of events, turned into plain ones: a row for each document that was shown, and whether it was clicked.

Impressions and clicks come as separate events there; each format (`Ubi`, `Metarank`) describes them as two relations
that share the page and the document. The events are read once, and the two are joined to a Parquet file in the spill
folder, which any engine reads as a plain log; its column `orphan` marks clicks without an impression.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from counterrank.clicks.logs.columns import CLICK_ACTIONS, LogOptions
from counterrank.clicks.logs.engine import file_list, one_line, run, text
from counterrank.clicks.logs.formats import FORMATS, LogFiles, LogFormat, PlainLog, format_of, layout, register_format
from counterrank.common.errors import CounterrankError, DataError, LogWarning, printable

_LARGEST = 1 << 24  # bytes of one JSON value; DuckDB sets aside twice as many for each thread


class EventFormat(Protocol):
    """How the events of a format are read, as SQL."""

    def records(self) -> str:
        """A query over `documents` (columns `file` and `json`, null where a line is no JSON).

        Its columns: `kind`, null for what cannot be read; `session`, `doc`, `action` and what else the others need.
        """

    def shown(self, records: str, local: Any, name: str, first_rank: int) -> str:
        """What was shown: session, query, doc, rank and timestamp, over the file of records."""

    def clicked(self) -> str:
        """Which records may be clicks; `click_actions` decides by their `action`."""

    def non_clicks(self) -> str:
        """Which of these are known to be something else."""


def join_events(log: LogFiles, local: Any, folder: Path, options: LogOptions, format: EventFormat) -> PlainLog:
    """Turn a log of events into a plain one, in the folder.

    Of the options, `rank_base` is the first rank where ranks follow from an order, and `click_actions` names the events
    that are clicks, in any case.
    """
    click_actions = options.click_actions
    local.execute("set TimeZone = 'UTC'")  # times that name no zone mean the same on every machine
    files = folder / "records.parquet", folder / "plain.parquet"
    _write(local, f"with documents as ({_documents(log)}) {format.records()}", files[0], "reading events", log.name)
    records = f"read_parquet({file_list([files[0]])})"
    is_click = f"action in ({', '.join(text(name.strip().lower()) for name in click_actions)})"
    _warn_without_clicks(local, records, format, is_click, log.name, click_actions)
    shown = format.shown(records, local, log.name, options.rank_base)
    clicks = f"select session, doc, timestamp from {records} where {format.clicked()} and {is_click}"
    _write(local, _joined(shown, clicks), files[1], "joining events", log.name)
    rejected, line = local.execute(f"select count(*), min(line) from {records} where kind is null").fetchone()
    return PlainLog(replace(log, format="parquet", files=(files[1],), root=None), int(rejected), str(line))


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
        f"where {format.clicked()} and action is not null and not ({format.non_clicks()}) "
        "group by action order by action"
    ).fetchall()
    if found and not any(n for _, n in found):
        there = ", ".join(repr(action) for action, _ in found[:8])
        warnings.warn(
            f"{name}: no event is called {' or '.join(map(repr, click_actions))}; others are called {there}; "
            "where some of these are clicks, name them by click_actions",
            LogWarning,
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


def normalised_query(column: str) -> str:
    """The text of a query in lower case with single blanks; null if nothing is left."""
    return f"nullif(trim(regexp_replace(lower({column}), '\\s+', ' ', 'g')), '')"


def time_of(column: str) -> str:
    """A time in UTC, written as ISO 8601 or as milliseconds since 1970; null if it is neither."""
    milliseconds = f"try_cast({column} as double)"
    return (
        f"coalesce(timezone('UTC', try_cast({column} as timestamptz)), "
        f"case when {milliseconds} between 0 and 1e14 then make_timestamp(cast({milliseconds} * 1000 as bigint)) end)"
    )


def line_of(json: str = "json") -> str:
    """How a line that cannot be read is quoted."""
    return f"coalesce(left({json}, 100), 'no JSON, in ' || file)"


def fetch_value(local: Any, sql: str, name: str) -> Any:
    """One value of a small query."""
    import duckdb

    try:
        return local.execute(sql).fetchone()[0]
    except duckdb.Error as error:
        raise DataError(f"{name}: cannot be read ({one_line(error)})") from None


_ATTRIBUTES = "$.event_attributes"
_BULK = ("index", "create", "update", "delete")
_HITS = ("query_response_hit_ids", "query_response_object_ids", "query_response_objects_ids", "query_response")


def is_ubi(event: Mapping[str, Any]) -> bool:
    """Whether this is an event or a query of UBI, or a line of a bulk request for its indexes.

    >>> is_ubi({"action_name": "click", "query_id": "s1"}), is_ubi({"query_id": "s1", "rank": 1})
    (True, False)
    """
    if isinstance(event.get("action_name"), str) and any(key.startswith(("event_attr", "query_id")) for key in event):
        return True
    if "query_id" in event and any(key in event for key in ("user_query", *_HITS)):
        return True
    bulk = [event[word] for word in _BULK if isinstance(event.get(word), dict)]
    return len(event) == 1 and any(str(action.get("_index", "")).startswith("ubi_") for action in bulk)


class Ubi:
    """OpenSearch User Behavior Insights: the indexes `ubi_queries` and `ubi_events`.

    Their schema is that of the UBI specification 1.0 to 1.3 (https://github.com/o19s/ubi). What it calls query_id is
    one search and so one page here; the query is what the user typed. docs/reference/log-formats.md lists what is
    read from where.
    """

    def records(self) -> str:
        """A row for each search, event and line that is neither."""
        found = fields(
            action=["$.action_name"],
            session=["$.query_id"],
            query=["$.user_query"],
            timestamp=["$.timestamp"],
            doc=[f"{_ATTRIBUTES}.object.object_id", '$."event_attributes.object.object_id"'],
            # as in the specification; as in its first versions; flattened; as found in applications, and as the
            # generator of sample data in the plugin's repository writes it
            rank=[
                f"{_ATTRIBUTES}.position.ordinal.index",
                f"{_ATTRIBUTES}.position.ordinal",
                '$."event_attributes.position.ordinal"',
                f"{_ATTRIBUTES}.object.position.ordinal",
                f"{_ATTRIBUTES}.rank",
            ],
            hits=[
                "$.query_response_hit_ids",
                "$.query_response_object_ids",
                "$.query_response_objects_ids",
                "$.query_response.query_response_hit_ids",
                "$.query_response.query_response_object_ids",
            ],
            more=["$.query_response_id", "$.query_attributes", "$.object_id_field", "$.client_id"],
            attributes=[_ATTRIBUTES],
            bulk=["$.index", "$.create", "$.update", "$.delete"],
        )
        kind = (
            "case when action is not null then 'event' "
            "when attributes is null and coalesce(query, hits) is not null then 'query' "
            "when attributes is null and session is not null and more is not null then 'query' "
            "when bulk is not null and session is null then 'bulk' end"
        )
        listed = (
            "case when left(hits, 1) = '[' then json_extract_string(try_cast(hits as json), '$[*]') else [hits] end"
        )
        return (
            "select kind, lower(trim(action)) as action, nullif(session, '') as session, nullif(doc, '') as doc, rank, "
            f"{normalised_query('query')} as query, "
            f"case when kind = 'query' and hits is not null then {listed} end as hits, "
            f"{time_of('timestamp')} as timestamp, case when kind is null then {line_of()} end as line "
            f"from (select *, {kind} as kind from ({found}) as found) as known"
        )

    def shown(self, records: str, local: Any, name: str, first_rank: int) -> str:
        """The impressions, or the lists of what searches returned if there are no impressions."""
        typed = (
            "select session, unnest(coalesce(list(distinct query) filter (where query is not null), [session])) "
            f"as query from {records} where kind = 'query' and session is not null group by session"
        )
        if fetch_value(local, f"select count_if(kind = 'event' and action = 'impression') from {records}", name):
            pages = _by_impressions(records)
        elif fetch_value(local, f"select count_if(kind = 'query' and hits is not null) from {records}", name):
            pages = _by_lists(records, first_rank)
        else:
            raise DataError(
                f"{name}: no impressions; expected events with action_name 'impression', or "
                "query_response_hit_ids in the queries"
            )
        return (
            "select pages.session, coalesce(typed.query, pages.query) as query, doc, rank, timestamp "
            f"from ({pages}) as pages left join ({typed}) as typed on pages.session = typed.session"
        )

    def clicked(self) -> str:
        """Events; the queries have no action."""
        return "kind = 'event'"

    def non_clicks(self) -> str:
        """Impressions are no clicks."""
        return "action = 'impression'"


def _by_impressions(records: str) -> str:
    """An impression that is logged again, as scrolling back does, is one; those that lack something stay apart."""
    return (
        "select session, query, doc, rank, timestamp from (select session, any_value(query) as query, doc, rank, "
        "min(timestamp) as timestamp, unnest(range(case when session is null or doc is null or rank is null "
        f"then count(*) else 1 end)) as copy from {records} where kind = 'event' and action = 'impression' "
        "group by session, doc, rank) as logged"
    )


def _by_lists(records: str, first_rank: int) -> str:
    """The same list logged again for the same search is one."""
    return (
        "select session, query, unnest(hits) as doc, "
        f"cast(unnest(range(len(hits))) + {first_rank} as varchar) as rank, timestamp from ("
        f"select session, any_value(query) as query, hits, min(timestamp) as timestamp from {records} "
        "where kind = 'query' and hits is not null group by session, hits) as logged"
    )


_QUERY_FIELD = "query"
# The fields of each kind of event; `metadata` is what `item` was called at first.
_METARANK = {
    "ranking": ("id", "items"),
    "interaction": ("item", "type"),
    "item": ("item", "fields"),
    "user": ("user", "fields"),
    "metadata": ("item", "fields"),
}


def is_metarank(event: Mapping[str, Any]) -> bool:
    """Whether this is an event of metarank.

    >>> is_metarank({"event": "ranking", "id": "r1", "items": []}), is_metarank({"event": "ranking"})
    (True, False)
    """
    kind = event.get("event")
    return isinstance(kind, str) and kind in _METARANK and all(key in event for key in _METARANK[kind])


class Metarank:
    """Events of metarank: rankings, with the items in the order they were shown, and interactions with them.

    Their schema is doc/event-schema.md of https://github.com/metarank/metarank. docs/reference/log-formats.md lists
    what is read from where.
    """

    def records(self) -> str:
        """A row for each event and for each line that is none."""
        found = fields(
            event=["$.event"],
            id=["$.id"],
            ranking=["$.ranking"],
            action=["$.type"],
            item=["$.item"],
            timestamp=["$.timestamp"],
            fields=["$.fields"],
            items=["$.items"],
        )
        kind = (
            "case when event = 'ranking' and left(items, 1) = '[' then 'ranking' when event = 'interaction' then "
            "'interaction' when event in ('item', 'user', 'metadata') then 'metadata' end"
        )
        query = (
            "json_extract_string(list_filter(json_extract(try_cast(fields as json), '$[*]'), "
            f"lambda field: json_extract_string(field, '$.name') = '{_QUERY_FIELD}')[1], '$.value')"
        )
        item = (
            "case when json_type(item) = 'OBJECT' then json_extract_string(item, '$.id') "
            "else json_extract_string(item, '$') end"
        )
        shown = f"list_transform(json_extract(try_cast(items as json), '$[*]'), lambda item: {item})"
        return (
            "select kind, lower(trim(action)) as action, "
            "nullif(case when kind = 'ranking' then id else ranking end, '') as session, "
            f"case when kind = 'ranking' then coalesce({normalised_query(query)}, nullif(id, '')) end as query, "
            f"nullif(item, '') as doc, case when kind = 'ranking' then {shown} end as items, "
            f"{time_of('timestamp')} as timestamp, case when kind is null then {line_of()} end as line "
            f"from (select *, {kind} as kind from ({found}) as found) as known"
        )

    def shown(self, records: str, local: Any, name: str, first_rank: int) -> str:
        """The items of each ranking; a ranking that is logged twice shows each of them twice, which is a fault."""
        if not fetch_value(local, f"select count_if(kind = 'ranking') from {records}", name):
            raise DataError(f"{name}: no impressions; expected events of kind 'ranking' with items")
        return (
            "select session, query, nullif(unnest(items), '') as doc, "
            f"cast(unnest(range(len(items))) + {first_rank} as varchar) as rank, timestamp "
            f"from {records} where kind = 'ranking'"
        )

    def clicked(self) -> str:
        """Interactions; their type is the action."""
        return "kind = 'interaction'"

    def non_clicks(self) -> str:
        """Any interaction may be a click."""
        return "false"


register_format(
    LogFormat(
        "ubi",
        "OpenSearch User Behavior Insights",
        recognise=is_ubi,
        reader=partial(join_events, format=Ubi()),
        has_actions=True,
    )
)
register_format(
    LogFormat(
        "metarank",
        "events of metarank",
        recognise=is_metarank,
        reader=partial(join_events, format=Metarank()),
        has_actions=True,
    )
)


def plain_log(log: LogFiles, local: Any, folder: Path, options: LogOptions) -> PlainLog | None:
    """What the reader of its format makes of a log, in the folder; None where engines read it themselves."""
    format = FORMATS[log.format]
    if not format.has_actions and tuple(options.click_actions) != CLICK_ACTIONS:
        formats = " or ".join(each.name for each in FORMATS.values() if each.has_actions)
        raise CounterrankError(
            f"click_actions={options.click_actions!r}: {log.name} is {log.format}; expected it only with {formats}"
        )
    if format.reader is None:
        return None
    try:
        return format.reader(log, local, folder, options)
    except CounterrankError:
        raise
    except Exception as error:  # of whatever a registered reader does
        about = printable(f"{type(error).__name__}: {error}")
        raise DataError(f"{log.name}: cannot be read as {format.name} ({about})") from error

"""Events of metarank: rankings, with the items in the order they were shown, and interactions with them.

Their schema is doc/event-schema.md of https://github.com/metarank/metarank. docs/log-formats.md tells what is read from
where.
"""

from __future__ import annotations

from typing import Any

from counterrank.clicks.logs.events import asked, fields, line_of, same_query, time_of
from counterrank.common.errors import DataError

_QUERY_FIELD = "query"


class Metarank:
    """How events of metarank are understood."""

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
            f"case when kind = 'ranking' then coalesce({same_query(query)}, nullif(id, '')) end as query, "
            f"nullif(item, '') as doc, case when kind = 'ranking' then {shown} end as items, "
            f"{time_of('timestamp')} as timestamp, case when kind is null then {line_of()} end as line "
            f"from (select *, {kind} as kind from ({found}) as found) as known"
        )

    def shown(self, records: str, local: Any, name: str, first_rank: int) -> str:
        """The items of each ranking; a ranking that is told twice shows each of them twice, which is a fault."""
        if not asked(local, f"select count_if(kind = 'ranking') from {records}", name):
            raise DataError(f"{name}: nothing tells what was shown; expected events of kind 'ranking' with items")
        return (
            "select session, query, nullif(unnest(items), '') as doc, "
            f"cast(unnest(range(len(items))) + {first_rank} as varchar) as rank, timestamp "
            f"from {records} where kind = 'ranking'"
        )

    def clicked(self) -> str:
        """Interactions; their type is the action."""
        return "kind = 'interaction'"

    def others(self) -> str:
        """Any interaction may be a click."""
        return "false"

"""OpenSearch User Behavior Insights: the indexes `ubi_queries` and `ubi_events`.

Their schema is that of the UBI specification 1.0 to 1.3 (https://github.com/o19s/ubi). What it calls query_id is one
search and so one page here; the query is what the user typed. docs/log-formats.md tells what is read from where.
"""

from __future__ import annotations

from typing import Any

from counterrank.clicks.logs.events import asked, fields, line_of, same_query, time_of
from counterrank.common.errors import DataError

_ATTRIBUTES = "$.event_attributes"


class Ubi:
    """How events and queries of UBI are understood."""

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
            f"{same_query('query')} as query, case when kind = 'query' and hits is not null then {listed} end as hits, "
            f"{time_of('timestamp')} as timestamp, case when kind is null then {line_of()} end as line "
            f"from (select *, {kind} as kind from ({found}) as found) as known"
        )

    def shown(self, records: str, local: Any, name: str, first_rank: int) -> str:
        """What impressions tell, or the lists of what searches returned if there are no impressions."""
        typed = (
            "select session, unnest(coalesce(list(distinct query) filter (where query is not null), [session])) "
            f"as query from {records} where kind = 'query' and session is not null group by session"
        )
        if asked(local, f"select count_if(kind = 'event' and action = 'impression') from {records}", name):
            pages = _by_impressions(records)
        elif asked(local, f"select count_if(kind = 'query' and hits is not null) from {records}", name):
            pages = _by_lists(records, first_rank)
        else:
            raise DataError(
                f"{name}: nothing tells what was shown; expected events with action_name 'impression', or "
                "query_response_hit_ids in the queries"
            )
        return (
            "select pages.session, coalesce(typed.query, pages.query) as query, doc, rank, timestamp "
            f"from ({pages}) as pages left join ({typed}) as typed on pages.session = typed.session"
        )

    def clicked(self) -> str:
        """Events; the queries have no action."""
        return "kind = 'event'"

    def others(self) -> str:
        """Impressions are no clicks."""
        return "action = 'impression'"


def _by_impressions(records: str) -> str:
    """An impression that is told again, as scrolling back does, is one; those that lack something stay apart."""
    return (
        "select session, query, doc, rank, timestamp from (select session, any_value(query) as query, doc, rank, "
        "min(timestamp) as timestamp, unnest(range(case when session is null or doc is null or rank is null "
        f"then count(*) else 1 end)) as copy from {records} where kind = 'event' and action = 'impression' "
        "group by session, doc, rank) as told"
    )


def _by_lists(records: str, first_rank: int) -> str:
    """The same list told again for the same search is one."""
    return (
        "select session, query, unnest(hits) as doc, "
        f"cast(unnest(range(len(hits))) + {first_rank} as varchar) as rank, timestamp from ("
        f"select session, any_value(query) as query, hits, min(timestamp) as timestamp from {records} "
        "where kind = 'query' and hits is not null group by session, hits) as told"
    )

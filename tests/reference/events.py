"""Slow, obvious versions of how events become rows: session, query, document, rank, clicked, orphan."""

from __future__ import annotations

import re


def same_query(text):
    return re.sub(r"\s+", " ", text.lower()).strip() or None if text is not None else None


def as_text(value):
    """An id as text; an empty one is none."""
    return None if value is None or value == "" else str(value)


def plain_rows(shown, clicks):
    rows = []
    for session, query, doc, rank in shown:
        clicked = session is not None and doc is not None and (session, doc) in clicks
        rows.append((session, query, doc, rank, clicked, False))
    pairs = {(session, doc) for session, _, doc, _ in shown if session is not None and doc is not None}
    for session, doc in clicks:
        if (session, doc) not in pairs:
            rows.append((session, None, doc, None, True, True))
    return rows


def ubi_rows(documents, click_actions=("click",), first_rank=1):
    events = [each for each in documents if "action_name" in each]
    queries = [each for each in documents if "action_name" not in each]
    typed = {}
    for each in queries:
        typed.setdefault(as_text(each["query_id"]), set()).add(same_query(each.get("user_query")))
    typed.pop(None, None)
    typed = {session: (names - {None}) or {session} for session, names in typed.items()}
    impressions = [each for each in events if each["action_name"].lower() == "impression"]
    shown, seen = [], set()
    keys = []
    own = {}  # of impressions that are repeated, the query that one of them names
    for each in impressions:
        attributes = each["event_attributes"]
        rank = attributes["position"].get("ordinal")
        keys.append((as_text(each.get("query_id")), as_text(attributes["object"].get("object_id")), as_text(rank)))
        own[keys[-1]] = own.get(keys[-1]) or same_query(each.get("user_query"))
    for key in keys:
        if None in key or key not in seen:
            seen.add(key)
            for query in typed.get(key[0], {own[key]}):
                shown.append((key[0], query, key[1], key[2]))
    if not impressions:
        for each in queries:
            session, hits = as_text(each["query_id"]), each.get("query_response_hit_ids")
            key = (session, str(hits))
            if hits is not None and key not in seen:
                seen.add(key)
                for query in typed.get(session, {same_query(each.get("user_query"))}):
                    shown += [(session, query, doc, str(i + first_rank)) for i, doc in enumerate(hits)]
    clicks = [
        (as_text(each.get("query_id")), as_text(each["event_attributes"]["object"].get("object_id")))
        for each in events
        if each["action_name"].lower() in click_actions
    ]
    return plain_rows(shown, clicks)


def metarank_rows(events, click_actions=("click",), first_rank=1):
    shown, clicks = [], []
    for each in events:
        if each["event"] == "ranking":
            query = [field["value"] for field in each.get("fields", []) if field["name"] == "query"]
            query = same_query(query[0]) if query else None
            session = as_text(each["id"])
            shown += [
                (session, query or session, as_text(item.get("id")), str(i + first_rank))
                for i, item in enumerate(each["items"])
            ]
        elif each["event"] == "interaction" and each["type"].lower() in click_actions:
            clicks.append((as_text(each.get("ranking")), as_text(each["item"])))
    return plain_rows(shown, clicks)

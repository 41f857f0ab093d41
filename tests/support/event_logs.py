"""Small logs of events: OpenSearch UBI and metarank, and the rows they are."""

from __future__ import annotations

import json
from collections import Counter

from counterrank.clicks.logs import LogOptions
from counterrank.clicks.logs.log_reader import opened

TIME = "2024-05-16T12:34:56.789Z"


def event(action, search, item=None, ordinal=None, **more):
    found = {"action_name": action, "query_id": search, "client_id": "c", "timestamp": TIME, "message": None}
    attributes = {"object": {"object_id": item, "object_id_field": "sku"}, "position": {"ordinal": ordinal}}
    return {**found, "event_attributes": attributes, **more}


def search(name, query, hits=None, **more):
    found = {"query_id": name, "user_query": query, "client_id": "c", "timestamp": TIME, "query_attributes": {}}
    return {**found, **({} if hits is None else {"query_response_hit_ids": hits}), **more}


def ranking(name, query, items):
    fields = [{"name": "source", "value": "search"}, {"name": "query", "value": query}]
    found = {"event": "ranking", "id": name, "timestamp": "1599391467000", "user": "u", "session": "s"}
    return {**found, "fields": fields, "items": [{"id": item, "relevancy": 1.0} for item in items]}


def interaction(name, item, kind="click"):
    found = {"event": "interaction", "id": "i", "timestamp": 1599391467000, "user": "u", "session": "s"}
    return {**found, "ranking": name, "item": item, "type": kind, "fields": []}


def lines(path, documents):
    path.write_text("".join(json.dumps(each) + "\n" for each in documents))
    return path


def rows(path, **options):
    """The rows of the plain log: session, query, document, rank, clicked, orphan."""
    with opened(path, LogOptions(**options)) as (engine, _, _):
        named = "session_id, query_id, doc_id, rank, clicked, orphan"
        return Counter(engine.local.execute(f"select {named} from raw").fetchall())


SEARCHES = [search("s1", " Red  SHOES ", ["a", "b", "c"]), search("s2", "red shoes", ["c", "a"])]
EVENTS = [
    event("impression", "s1", "a", 1),
    event("impression", "s1", "b", 2),
    event("Click", "s1", "b", 2),
    event("click", "s1", "b", 2),  # again on the same
    event("add_to_cart", "s1", "b", 2),
    event("view", "s1", "z"),  # a look at a product is neither
    event("impression", "s2", "c", 1),
    event("impression", "s2", "c", 1),  # scrolled back
    event("login", None),
]
FROM_IMPRESSIONS = {
    ("s1", "red shoes", "a", "1", False, False): 1,
    ("s1", "red shoes", "b", "2", True, False): 1,
    ("s2", "red shoes", "c", "1", False, False): 1,
}
FROM_LISTS = {
    ("s1", "red shoes", "a", "1", False, False): 1,
    ("s1", "red shoes", "b", "2", True, False): 1,
    ("s1", "red shoes", "c", "3", False, False): 1,
    ("s2", "red shoes", "c", "1", False, False): 1,
    ("s2", "red shoes", "a", "2", False, False): 1,
}
CLICKS_ONLY = [each for each in EVENTS if each["action_name"] != "impression"]


def as_bulk(index, documents):
    return [part for each in documents for part in ({"index": {"_index": index, "_id": "x"}}, each)]


def as_export(index, documents):
    return [{"_index": index, "_id": "x", "_score": 1, "_source": each} for each in documents]


RANKED = [
    {"event": "item", "id": "1", "timestamp": "1599391467000", "item": "a", "fields": [{"name": "t", "value": "x"}]},
    {"event": "user", "id": "2", "timestamp": "1599391467000", "user": "u", "fields": []},
    ranking("r1", "Cat ", ["a", "b", "c"]),
    interaction("r1", "b"),
    interaction("r1", "b"),
    interaction("r1", "c", "purchase"),
    {"event": "ranking", "id": "r2", "timestamp": "1599391467000", "items": [{"id": "b"}, {"id": "a"}]},
    {"event": "ranking", "id": "r3", "timestamp": "1599391467000", "fields": [], "items": []},
]
FROM_RANKINGS = {
    ("r1", "cat", "a", "1", False, False): 1,
    ("r1", "cat", "b", "2", True, False): 1,
    ("r1", "cat", "c", "3", False, False): 1,
    ("r2", "r2", "b", "1", False, False): 1,
    ("r2", "r2", "a", "2", False, False): 1,
}

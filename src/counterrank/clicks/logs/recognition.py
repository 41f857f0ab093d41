"""Which format a file of JSON or Parquet is in, by its first lines: a plain log, OpenSearch UBI, or events of metarank.

No file is read further than its first mebibyte for this.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_HEAD = 1 << 20
_LINES = 20
_BULK = ("index", "create", "update", "delete")
_HITS = ("query_response_hit_ids", "query_response_object_ids", "query_response_objects_ids", "query_response")
# What each kind of event of metarank has beside its name; `metadata` is what `item` was called at first.
_METARANK = {
    "ranking": ("id", "items"),
    "interaction": ("item", "type"),
    "item": ("item", "fields"),
    "user": ("user", "fields"),
    "metadata": ("item", "fields"),
}


def recognised(file: Path, is_parquet: bool) -> str | None:
    """ "ubi" or "metarank", or None for a plain log and for what is neither."""
    if is_parquet:
        return event_format(dict.fromkeys(_parquet_names(file), ""))
    return next((found for each in first_objects(file) if (found := event_format(each))), None)


def event_format(event: Mapping[str, Any]) -> str | None:
    """The format that an event belongs to, if it is one. A row of a plain log may well have a column `event`.

    >>> event_format({"event": "ranking", "id": "r1", "items": []})
    'metarank'
    >>> event_format({"event": "ranking", "session_id": 1, "doc_id": "a", "clicked": 0}) is None
    True
    """
    if "doc_id" in event or "clicked" in event:
        return None
    if isinstance(event.get("action_name"), str) and any(key.startswith(("event_attr", "query_id")) for key in event):
        return "ubi"
    if "query_id" in event and any(key in event for key in ("user_query", *_HITS)):
        return "ubi"
    if any(_is_bulk_line(event.get(word)) for word in _BULK if len(event) == 1):
        return "ubi"
    kind = event.get("event")
    if isinstance(kind, str) and kind in _METARANK and all(key in event for key in _METARANK[kind]):
        return "metarank"
    return None


def _is_bulk_line(action: Any) -> bool:
    return isinstance(action, dict) and str(action.get("_index", "")).startswith("ubi_")


def first_objects(file: Path) -> Iterator[Mapping[str, Any]]:
    """The JSON objects at the beginning of a file: on lines of their own, in an array, or in the answer to a search."""
    head = _head(file)
    values: list[Any] = []
    for line in head.splitlines()[:_LINES]:
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    if not values or layout_of(head) != "newline_delimited":
        values = [_first_value(head)]
    for value in values:
        for each in _inside(value):
            if isinstance(each, dict):
                inner = each.get("_source")
                yield inner if isinstance(inner, dict) else each


def _inside(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value[:_LINES]
    hits = value.get("hits") if isinstance(value, dict) else None
    if isinstance(hits, dict) and isinstance(hits.get("hits"), list):
        return list(hits["hits"][:_LINES])
    return [value]


def _first_value(head: str) -> Any:
    """The first value of a text that may be cut off; of an array, the first that is in it."""
    for text in (head, head.lstrip("[ \t\r\n"), head.partition('"hits":')[2].partition("[")[2].lstrip()):
        try:
            return json.JSONDecoder().raw_decode(text)[0]
        except (ValueError, RecursionError):
            continue
    return None


def layout(file: Path) -> str:
    """How the values of a JSON file lie in it, as DuckDB calls it."""
    return layout_of(_head(file))


def layout_of(head: str) -> str:
    """The same by the beginning of the file.

    >>> layout_of('{"a": 1}\\n{"a": 2}'), layout_of('[{"a": 1},\\n{"a": 2}]'), layout_of('{\\n"a": 1\\n}')
    ('newline_delimited', 'array', 'unstructured')
    >>> layout_of('[{"a": 1}]\\n[{"a": 2}]'), layout_of('{"a": \\n{"a": 2}')
    ('newline_delimited', 'newline_delimited')
    """
    line, _, rest = head.partition("\n")
    if len(head) >= _HEAD and not rest:
        return "array" if line.startswith("[") else "unstructured"  # one very long value, or several
    try:
        json.loads(line)
        return "array" if line.startswith("[") and not rest.strip() else "newline_delimited"
    except (ValueError, RecursionError):
        pass
    if line.startswith("["):
        return "array"
    if not line.startswith("{") or not rest:
        return "newline_delimited"
    try:
        json.JSONDecoder().raw_decode(head)
    except json.JSONDecodeError as error:
        # one value over several lines, cut off, unless something is wrong already where its second line begins
        fine = error.pos > len(line) + 1 and not rest.lstrip().startswith(("{", "["))
        return "unstructured" if fine else "newline_delimited"
    except RecursionError:
        return "newline_delimited"
    return "unstructured"


def _head(file: Path) -> str:
    """The beginning of a file, unpacked; nothing where it cannot be read, which is told when it is."""
    import pyarrow as pa

    read = b""
    try:
        with pa.input_stream(str(file), compression="detect") as stream:
            while len(read) < _HEAD and (more := stream.read(_HEAD - len(read))):
                read += more
    except OSError:
        return ""
    return read.decode("utf-8-sig", errors="replace").lstrip()


def _parquet_names(file: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(file).names)
    except (OSError, pa.ArrowException):
        return []

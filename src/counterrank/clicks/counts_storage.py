"""Folders of click counts: `clicks.json`, and Parquet tables of cells, queries, documents and pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks.displays import DEEPEST_RANK, Displays
from counterrank.clicks.examination import from_description
from counterrank.clicks.last_clicks import LastClicks
from counterrank.clicks.origin import Origin
from counterrank.common.errors import CounterrankError, DataError
from counterrank.common.files import PathLike, atomic_folder, existing, read_stamp
from counterrank.data.parquet import parquet_errors

if TYPE_CHECKING:
    from counterrank.clicks.counts import ClickCounts

_FORMAT, _VERSION, _MARKER = "counterrank-clicks", 1, "clicks.json"


def save_counts(clicks: ClickCounts, path: PathLike) -> None:
    """Write the folder whole or not at all; older click counts in its place are replaced. No pickle, no code."""
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "identity": clicks.identity,
        "policy_names": list(clicks.policy_names),
        "examination": None if clicks.examination is None else clicks.examination.describe(),
        "sessions": clicks.n_sessions,
        "clicks": clicks.n_clicks,
        "displays": clicks.displays is not None,
        "unexaminable": clicks.unexaminable is not None,
        "last_clicks": clicks.last_clicks is not None,
        "origin": clicks.known_origin().describe(),
        "unknown_impressions": clicks.unknown_impressions,
    }
    if clicks.contexts:
        content["contexts"] = list(clicks.contexts)
    has_ids = clicks.query_ids is not None and clicks.doc_ids is not None
    cells = {
        "doc": clicks.docs,
        "rank": clicks.ranks,
        "impressions": clicks.impressions,
        "clicks": clicks.clicks,
        "propensity": clicks.propensities,
        "policy": clicks.policies,
    }
    queries = {
        "documents": np.diff(clicks.offsets),
        "sessions": clicks.sessions,
        "query_id": clicks.query_ids if has_ids else None,
        "unknown": clicks.unknown_by_query if clicks.unknown_impressions else None,
    }
    if clicks.policy_sessions is not None:
        queries |= {f"sessions_{i}": row for i, row in enumerate(clicks.policy_sessions)}
    with atomic_folder(path, _MARKER, ("*.parquet",)) as folder:
        _write(folder / "cells.parquet", cells)
        _write(folder / "queries.parquet", queries)
        if has_ids:
            _write(folder / "documents.parquet", {"doc_id": clicks.doc_ids})
        if clicks.unexaminable is not None:
            _write(folder / "unexaminable.parquet", {"doc": clicks.unexaminable})
        if clicks.displays is not None:
            pages = clicks.displays
            shown = {"documents": np.diff(pages.offsets), "sessions": pages.sessions, "policy": pages.policies}
            shown["pattern"] = pages.patterns
            _write(folder / "pages.parquet", shown)
            _write(folder / "places.parquet", {"doc": pages.docs, "clicks": pages.clicks})
        if clicks.last_clicks is not None:
            own = clicks.last_clicks
            rows = {"doc": own.docs, "rank": own.ranks, "above": own.above, "policy": own.policies}
            rows |= {"impressions": own.impressions, "clicks": own.clicks}
            _write(folder / "last_clicks.parquet", rows)
        (folder / _MARKER).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def load_fields(path: PathLike) -> dict[str, Any]:
    """The fields of `ClickCounts` in a folder written by `save`."""
    folder = existing(path, "click counts")
    content = read_stamp(folder, _MARKER, _FORMAT, _VERSION, "ClickCounts.save", DataError)
    try:
        cells, queries = _read(folder / "cells.parquet"), _read(folder / "queries.parquet")
        offsets = _offsets(queries["documents"], folder / "queries.parquet")
        names = tuple(str(name) for name in content["policy_names"])
        described, origin = content["examination"], content.get("origin")  # version 0.1 wrote no origin
        doc_ids = _read(folder / "documents.parquet")["doc_id"] if "query_id" in queries else None
        contexts = tuple(str(name) for name in content.get("contexts", ()))  # older folders have none
        if contexts and len(contexts) != len(names):
            raise ValueError(f"{len(contexts)} contexts of {len(names)} policies")
        policies = cells["policy"] if names else None
        return {
            "identity": str(content["identity"]),
            "offsets": offsets,
            "sessions": queries["sessions"],
            "docs": cells["doc"],
            "ranks": cells["rank"],
            "impressions": cells["impressions"],
            "clicks": cells["clicks"],
            "propensities": cells.get("propensity"),
            "policies": policies,
            "policy_names": names,
            "contexts": contexts,
            "policy_sessions": np.stack([queries[f"sessions_{i}"] for i in range(len(names))]) if names else None,
            "displays": _read_displays(folder) if content["displays"] else None,
            "unexaminable": _read(folder / "unexaminable.parquet")["doc"] if content["unexaminable"] else None,
            "examination": None if described is None else from_description(described),
            "query_ids": queries.get("query_id"),
            "doc_ids": doc_ids,
            "origin": None if origin is None else Origin.from_description(origin),
            "unknown_impressions": int(content.get("unknown_impressions", 0)),  # older folders have none
            "unknown_by_query": queries.get("unknown"),
            "last_clicks": _read_last_clicks(folder) if content.get("last_clicks") else None,  # older folders have none
        }
    except CounterrankError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: lacks or misuses {error}; the folder is damaged") from None


def _read_displays(folder: Path) -> Displays:
    pages, places = _read(folder / "pages.parquet"), _read(folder / "places.parquet")
    offsets = _offsets(pages["documents"], folder / "pages.parquet")
    if offsets[-1] != len(places["doc"]):
        raise DataError(f"{folder}: pages of {offsets[-1]:,} places, but {len(places['doc']):,} are there; damaged")
    return Displays(
        offsets, places["doc"], pages["sessions"], places["clicks"], pages.get("policy"), pages.get("pattern")
    )


def _read_last_clicks(folder: Path) -> LastClicks:
    rows = _read(folder / "last_clicks.parquet")
    keys = rows["doc"], rows["rank"], rows["above"]
    return LastClicks(*keys, rows["impressions"], rows["clicks"], rows.get("policy"))


def check_loaded(clicks: ClickCounts, path: PathLike) -> None:
    """An error unless rows lie inside the data, no count is below 0, and cells are in order."""
    n = clicks.n_docs
    # documents that are not known have ranks too
    deepest = n if clicks.knows_candidates and not clicks.unknown_impressions else max(n, DEEPEST_RANK)
    pages, last_policy = clicks.displays, len(clicks.policy_names) - 1
    columns: list[tuple[str, NDArray[Any] | None, int, int | None]] = [
        ("doc", clicks.docs, 0, n - 1),
        ("rank", clicks.ranks, 1, deepest),
        ("impressions", clicks.impressions, 0, None),
        ("sessions", clicks.sessions, 0, None),
        ("policy", clicks.policies, 0, last_policy),
        ("page's doc", None if pages is None else pages.docs, 0, n - 1),
        ("page's policy", None if pages is None else pages.policies, 0, last_policy),
        ("unexaminable doc", clicks.unexaminable, 0, n - 1),
    ]
    if clicks.doc_ids is not None and len(clicks.doc_ids) != n:
        raise DataError(f"{path}: {len(clicks.doc_ids):,} ids for {n:,} documents; the folder is damaged")
    for name, values, low, high in columns:
        if values is not None and len(values) and (values.min() < low or (high is not None and values.max() > high)):
            raise DataError(f"{path}: a {name} outside {low} to {high}; the folder is damaged")
    if (clicks.clicks < 0).any() or (clicks.clicks > clicks.impressions).any():
        raise DataError(f"{path}: a cell has more clicks than impressions, or fewer than 0; the folder is damaged")
    _check_last_clicks(clicks, path)
    if clicks.unknown_impressions < 0:
        raise DataError(f"{path}: unknown_impressions below 0; the folder is damaged")
    unknown = clicks.unknown_by_query
    if unknown is not None and (unknown.min() < 0 or unknown.sum() != clicks.unknown_impressions):
        raise DataError(f"{path}: unknown impressions by query that do not add up; the folder is damaged")
    _check_sampled(clicks, path)
    docs, ranks = np.diff(clicks.docs), np.diff(clicks.ranks)
    if ((docs < 0) | ((docs == 0) & (ranks < 0))).any():
        raise DataError(f"{path}: cells are not in the order of document and rank; the folder is damaged")
    logged = clicks.propensities
    if logged is not None and not ((logged >= 0.0) & (logged <= 1.0)).all():
        raise DataError(f"{path}: a propensity outside 0 to 1; the folder is damaged")


def _check_last_clicks(clicks: ClickCounts, path: PathLike) -> None:
    """An error unless counts by last click are those of the cells, taken apart."""
    rows = clicks.last_clicks
    if rows is None:
        return
    sound = not len(rows) or (
        rows.docs.min() >= 0
        and rows.docs.max() < clicks.n_docs
        and rows.above.min() >= 0
        and (rows.above < rows.ranks).all()
        and (rows.policies is None or (rows.policies.min() >= 0 and rows.policies.max() < len(clicks.policy_names)))
        and rows.clicks.min() >= 0
        and (rows.clicks <= rows.impressions).all()
    )
    if not sound or rows.impressions.sum() != clicks.n_impressions or rows.clicks.sum() != clicks.n_clicks:
        raise DataError(f"{path}: counts by last click that are not those of the cells; the folder is damaged")


def _check_sampled(clicks: ClickCounts, path: PathLike) -> None:
    """An error unless the sampled sessions are of queries that are there."""
    samples = [source.sample for source in clicks.known_origin().sources if source.sample is not None]
    for queries in [sample.queries for sample in samples if sample.queries is not None]:
        if len(queries) and (queries.min() < 0 or queries.max() >= clicks.n_queries):
            raise DataError(f"{path}: a sampled session of a query that is not there; the folder is damaged")


def _offsets(lengths: NDArray[Any], file: Path) -> NDArray[np.int64]:
    if not len(lengths) or lengths.min() < 1:
        raise DataError(f"{file}: expected at least one row, each with at least one document; the file is damaged")
    return np.concatenate(([0], np.cumsum(lengths)))


def _write(file: Path, columns: dict[str, Any]) -> None:
    """A table of the columns that are not None."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({name: column for name, column in columns.items() if column is not None})
    pq.write_table(table, file, compression="zstd")


def _read(file: Path) -> dict[str, NDArray[Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not file.is_file():
        raise DataError(f"{file}: missing; the click counts are incomplete")
    with parquet_errors(file):
        table = pq.read_table(file)
    columns: dict[str, NDArray[Any]] = {}
    for name in table.column_names:
        kind = np.float64 if name == "propensity" else np.int64
        column = table[name]
        if name in ("query_id", "doc_id") and not column.null_count and pa.types.is_string(column.type):
            columns[name] = column.to_numpy().astype(np.str_)
            continue
        if column.null_count or column.type != pa.from_numpy_dtype(kind):
            raise DataError(f"{file}: column {name!r} has type {column.type} or nulls; the file is damaged")
        columns[name] = np.array(column.to_numpy(), dtype=kind)
    return columns

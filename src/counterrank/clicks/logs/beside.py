"""What a log tells beside impressions and clicks: scores, display probabilities, and how clicks change over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks.logs.columns import TEXT, TIME, Columns
from counterrank.clicks.logs.matching import Candidates
from counterrank.clicks.logs.opening import opened
from counterrank.clicks.logs.options import LogOptions
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import DataError
from counterrank.common.files import PathLike
from counterrank.data import RankingData

_MINUTE = 60
# how wide stretches of time may be, in seconds
_WIDTHS = (_MINUTE, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400)
_MOST_STRETCHES = 60


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
    with opened(path, options or LogOptions()) as (engine, log, columns):
        _need(columns, "display_probability", log.name)
        engine.view("log", columns.normalised(f"{columns.read('display_probability')} as shown"))
        keys = "query_id, doc_id, rank, shown"
        counted = (
            f"select {keys}, count(*) as n, cast(count_if(clicked) as bigint) as clicks, count(clicked) as told "
            f"from log group by {keys}"
        )
        engine.reduce("displayed", counted, "counting clicks")
        wrong = engine.local.execute(
            "select cast(coalesce(sum(n), 0) as bigint) from displayed where not coalesce(query_id is not null and "
            "doc_id is not null and rank >= 1 and told = n and shown > 0 and shown <= 1, false)"
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


def read_scores(path: PathLike, parts: Sequence[RankingData], options: LogOptions | None = None) -> list[FloatArray]:
    """The scores that the policy ranked by, from the log's `logging_score`, for each document of the data.

    Each candidate must have been shown, always with one score: of the others a log tells nothing.
    """
    with opened(path, options or LogOptions()) as (engine, log, columns):
        _need(columns, "logging_score", log.name)
        engine.view("log", columns.normalised(f"{columns.read('logging_score')} as score"))
        scores = "select query_id, doc_id, min(score) as low, max(score) as high from log group by query_id, doc_id"
        engine.reduce("cells", scores, "reading scores")
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


def read_drift(path: PathLike, options: LogOptions | None = None) -> list[dict[str, Any]] | None:
    """Pages, impressions and clicks over time, in stretches of a natural width; None if the log has no timestamp.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> rows = "1,q,a,1,1,2026-01-01 00:00:30\\n2,q,a,1,0,2026-01-01 00:01:10\\n"
    >>> _ = file.write_text("session_id,query_id,doc_id,rank,clicked,timestamp\\n" + rows)
    >>> [(each["begin"], each["clicks"]) for each in read_drift(file)]
    [('2026-01-01 00:00', 1), ('2026-01-01 00:01', 0)]
    """
    with opened(path, options or LogOptions()) as (engine, _, columns):
        if not columns.has("timestamp"):
            return None
        minute = f"cast(floor(({_seconds(columns)}) / {_MINUTE}) as bigint) as minute"
        engine.view("log", columns.normalised(minute))
        first = "count(*)" if columns.impressions else "count_if(rank = 1)"
        shown = " and rank is not null" if columns.has("orphan") else ""
        counted = (
            f"select minute, {first} as pages, count(*) as impressions, count_if(clicked) as clicks from log "
            f"where minute is not null{shown} group by minute"
        )
        engine.reduce("minutes", counted, "looking at time")
        found = engine.local.execute("select * from minutes order by minute").fetchnumpy()
    return _stretches({name: np.asarray(column, np.int64) for name, column in found.items()})


def _seconds(columns: Columns) -> str:
    """The time of a row in seconds since 1970, whatever it is written in."""
    column, kind = columns.source["timestamp"], columns.kinds["timestamp"]
    if kind == TIME:
        return f"unix_seconds(cast({column} as timestamp))"
    number = f"try_cast({column} as double)"
    scaled = (
        f"case when {number} > 1e17 then {number} / 1e9 when {number} > 1e14 then {number} / 1e6 "
        f"when {number} > 1e11 then {number} / 1e3 else {number} end"
    )
    return f"coalesce({scaled}, unix_seconds(try_cast({column} as timestamp)))" if kind == TEXT else scaled


def _stretches(minutes: dict[str, IntArray]) -> list[dict[str, Any]]:
    """Minutes put together, so that there are not too many stretches."""
    seconds = minutes["minute"] * _MINUTE
    if not len(seconds):
        return []
    span = int(seconds[-1] - seconds[0]) + _MINUTE
    width = next((width for width in _WIDTHS if span <= width * _MOST_STRETCHES), _WIDTHS[-1])
    begins, where = np.unique(seconds // width * width, return_inverse=True)
    columns = {
        name: np.bincount(where, weights=minutes[name]).astype(np.int64) for name in ("pages", "impressions", "clicks")
    }
    return [
        {
            "begin": str(np.datetime64(int(begin), "s")).replace("T", " ")[:16],
            "seconds": width,
            **{name: int(column[i]) for name, column in columns.items()},
        }
        for i, begin in enumerate(begins)
    ]


def _need(columns: Columns, name: str, log: str) -> None:
    if not columns.has(name):
        raise DataError(f"{log}: no column {name!r}; expected it, or its other name by --map {name}=NAME")

"""Other columns of a log: the scores that the policy ranked by, and its display probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks.logs.columns import Columns, LogOptions
from counterrank.clicks.logs.engine import Engine
from counterrank.clicks.logs.log_reader import opened
from counterrank.clicks.logs.matching import Candidates
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import DataError, printable
from counterrank.common.files import PathLike
from counterrank.data import RankingData


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
    with opened(path, options or LogOptions()) as (engine, log, columns):
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
    engine.reduce("named", "select distinct policy from log where policy is not null", "looking for policies")
    names = [printable(name) for (name,) in engine.local.execute("select policy from named order by policy").fetchall()]
    if len(names) > 1:
        raise DataError(
            f"{log}: several policies ({', '.join(map(repr, names))}), whose display probabilities cannot be taken "
            f"together; expected one, as by only_policies=[{names[-1]!r}]"
        )


def _check_readable(engine: Engine, log: str) -> None:
    count, line = engine.rejected()
    if count:
        raise DataError(f"{log}: {count:,} lines cannot be read, such as {printable(line)}; expected whole rows")


def _check_column(columns: Columns, name: str, log: str) -> None:
    if not columns.has(name):
        raise DataError(f"{log}: no column {name!r}; expected it, or its other name by --map {name}=NAME")

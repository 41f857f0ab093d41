"""How pages and clicks change over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterrank.clicks.logs.columns import MINUTE, Columns
from counterrank.clicks.logs.engine import Engine
from counterrank.clicks.logs.matching import Candidates
from counterrank.common.checks import IntArray

# how wide stretches of time may be, in seconds
_WIDTHS = (MINUTE, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400)
_MOST_STRETCHES = 60


def drift_of_parts(
    engine: Engine, columns: Columns, known: Candidates | None, strays: bool = False
) -> list[list[dict[str, Any]]]:
    """Pages, impressions and clicks of each part of the data in stretches of time; rows without a time are left out.

    `strays` tells whether the table `unknown` has documents of known queries: these are no impressions.
    """
    join, keys, used = "", "minute", "true"
    if known is not None:
        known.name_parts("asked")
        engine.lend("asked")
        join = f"join asked on cast(log.query_id as {known.query_type}) = asked.query_id "
        keys = "part, minute"
    if strays:
        engine.local.execute(
            "create or replace temp table strays as select query_id, doc_id from unknown where not whole_query"
        )
        engine.lend("strays")
        join += "left join strays on log.query_id = strays.query_id and log.doc_id = strays.doc_id "
        used = "strays.doc_id is null"
    first = "count(*)" if columns.impressions else "count_if(rank = 1)"
    engine.reduce(
        "minutes",
        f"select {keys}, cast({first} as bigint) as pages, cast(count_if({used}) as bigint) as impressions, "
        f"cast(count_if(clicked and {used}) as bigint) as clicks from log {join}where minute is not null "
        f"group by {keys}",
        "looking at time",
    )
    found = engine.local.execute("select * from minutes order by minute").fetchnumpy()
    whole = {name: np.asarray(column, np.int64) for name, column in found.items()}
    if known is None:
        return [_stretches(whole)]
    own = [whole["part"] == part for part in range(len(known.parts))]
    return [_stretches({name: column[which] for name, column in whole.items()}) for which in own]


def _stretches(minutes: dict[str, IntArray]) -> list[dict[str, Any]]:
    """Minutes put together, so that there are not too many stretches."""
    seconds = minutes["minute"] * MINUTE
    if not len(seconds):
        return []
    span = int(seconds[-1] - seconds[0]) + MINUTE
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

"""The distinct pages of a log, for estimators that look at whole pages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from counterrank.clicks._pages import offsets_of
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.displays import Displays, merge_pages
from counterrank.clicks.logs import passes
from counterrank.clicks.logs.columns import Columns
from counterrank.clicks.logs.engine import Engine


def distinct_pages(engine: Engine, columns: Columns, counts: ClickCounts, matched: bool) -> ClickCounts:
    """The same counts with the distinct pages of `log`.

    Arguments:
        engine: that has read the log; its table `matched`, or else `seen`, tells the row of each pair.
        columns: of the log.
        counts: of the same log.
        matched: whether the log was counted against ranking data.
    """
    engine.reduce("shown", passes.page_by_page(columns, engine.in_order), "gathering pages")
    known = "select distinct query_id, doc_id, row from matched where row is not null" if matched else "from seen"
    found = engine.local.execute(
        "select number, row, cast(clicked as bigint) * sessions as clicks, sessions, policy from ("
        "select number, query_id, policy, sessions, generate_subscripts(docs, 1) as place, unnest(docs) as doc_id, "
        "unnest(clicks) as clicked from "
        "(select row_number() over (order by query_id, policy, docs, clicks) as number, * from shown) "
        "as numbered) as places "
        f"join ({known}) as known using (query_id, doc_id) order by number, place"
    ).fetchnumpy()
    number = np.asarray(found["number"], np.int64)
    begins = np.flatnonzero(np.diff(number, prepend=-1))
    named = np.asarray(found["policy"])[begins].astype(np.str_)
    pages = Displays(
        offsets_of(np.diff(np.append(begins, len(number)))),
        np.ascontiguousarray(found["row"], np.int64),
        np.ascontiguousarray(found["sessions"], np.int64)[begins],
        np.ascontiguousarray(found["clicks"], np.int64),
        None if counts.policies is None else np.searchsorted(np.array(counts.policy_names), named),
    )
    return replace(counts, displays=merge_pages(counts.offsets, pages))

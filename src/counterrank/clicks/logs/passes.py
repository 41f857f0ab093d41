"""The one definition of how a click log is counted, as SQL that DuckDB and Spark both run.

The table `log` holds one row per displayed document. Two passes over it are enough for a clean log:

- `cells`: impressions and clicks of each query, document, rank (policy, propensity). Wrong values show as cells of
  their own, so that finding them costs nothing.
- `pages`: how many pages each query (and policy) had. Pages that look wrong are kept apart by their session.

A page is looked at closely only if it looks wrong from afar. Its ranks are gathered in a mask of bits, which is full
for ranks 1 to n. A document that is twice on a page has been seen at two ranks of its query; where few documents have,
these are counted exactly, else documents are gathered in masks by their hashes, and a page that has fewer bits than
rows in each of its masks is suspect. Pages that are so long that most would look suspect are counted exactly, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.displays import Displays, merge_pages, offsets_of, with_patterns
from counterrank.clicks.last_clicks import LastClicks, added_up
from counterrank.clicks.logs.columns import MINUTE, SEPARATOR, TEXT, Columns
from counterrank.clicks.logs.engine import Engine
from counterrank.clicks.logs.matching import Candidates
from counterrank.common.checks import IntArray

DEEPEST = 62  # ranks in the mask; pages that are longer are all looked at closely
_WORD = 62  # bits of a word in the masks of documents


def cells(columns: Columns) -> str:
    """Impressions and clicks by query, document, rank, and policy and propensity where they are logged.

    `readable` counts the rows whose `clicked` is 0 or 1, `timed` those with a timestamp, `dated` those where it is a
    date, `numbers` those where it is a number, and `odd_numbers` those where it is one that is no date; `earliest` and
    `latest` are in seconds since 1970.
    """
    keys = ", ".join(("query_id", "doc_id", "rank", *(n for n in ("policy", "propensity") if columns.has(n))))
    times = ""
    if columns.has("timestamp"):
        odd = "cast(count_if(instant is not null and seconds is null) as bigint) as odd_numbers"
        times = (
            f", count(moment) as timed, count(seconds) as dated, count(instant) as numbers, {odd}, "
            "min(seconds) as earliest, max(seconds) as latest"
        )
    return (
        f"select {keys}, count(*) as impressions, cast(count_if(clicked) as bigint) as clicks, "
        f"count(clicked) as readable{times} from log group by {keys}"
    )


def moving() -> str:
    """Documents that `cells` has at several ranks of their query, with their impressions."""
    return (
        "select query_id, doc_id, cast(sum(impressions) as bigint) as impressions from cells "
        "group by query_id, doc_id having min(rank) < max(rank)"
    )


def masks_for(length: float) -> tuple[int, ...]:
    """The masks of documents for pages of this mean length, each by its number of bits; none if the pages are too long.

    Of the clean pages of 5 documents 0.07 % look suspect, of those of 10 9 %, of those of 20 30 %. The time is that of
    gathering the masks and of looking at the suspects again: one wide mask, or eight words for short pages, take more.

    >>> masks_for(10), masks_for(50)
    ((62, 61, 59, 57), ())
    """
    if length <= 12:
        return (_WORD, _WORD - 1, _WORD - 3, _WORD - 5)  # without a common divisor, thus independent
    return (4 * _WORD, 4 * _WORD - 1) if length <= 30 else ()


def pages(columns: Columns, masks: Sequence[int] = (), usual: bool = False) -> str:
    """Pages by query and policy; those that look wrong by session too, counted as `suspects`.

    `masks` are the bits of each mask of documents in which those that are twice on a page are looked for. `usual` says
    whether all ranks are known to fit into the mask of ranks.
    """
    groups = _groups(columns)
    place = "rank - 1" if usual else f"greatest(least(rank, {DEEPEST + 1}), 1) - 1"
    inner = ["session_id", "count(*) as n", f"bit_or(bit_at({place})) as ranks"]
    outer = [f"n > {DEEPEST} or ranks <> bit_at(least(n, {DEEPEST})) - 1", "session_id is null"]
    for name in groups:
        if name == "policy" or columns.kinds.get(name) == TEXT:
            inner += [f"any_value({name}) as {name}", f"min(xxhash64({name})) as {name}_a"]
            inner.append(f"max(xxhash64({name})) as {name}_b")
            outer.append(f"{name} is null or {name}_a <> {name}_b")
        else:
            inner += [f"min({name}) as {name}", f"max({name}) as {name}_b"]
            outer.append(f"{name} is null or {name} <> {name}_b")
    source = "log"
    if masks:
        places = ", ".join(f"pmod(hash, {bits}) as place{i}" for i, bits in enumerate(masks))
        source = f"(select *, {places} from (select *, xxhash64(doc_id) as hash from log) as hashed) as placed"
        short = []
        for i, bits in enumerate(masks):
            words = range(-(-bits // _WORD))
            inner += [_word(i, j, len(words)) for j in words]
            short.append(" + ".join(f"bit_count(mask{i}_{j})" for j in words) + " < n")
        outer.append(" and ".join(short))
    shown = ", ".join(groups)
    return (
        f"select {shown}, case when suspect then session_id end as session_id, count(*) as pages, "
        "cast(count_if(suspect) as bigint) as suspects from ("
        f"select {shown}, session_id, {' or '.join(f'({rule})' for rule in outer)} as suspect from ("
        f"select {', '.join(inner)} from {source} group by session_id) as page) as checked "
        f"group by {shown}, case when suspect then session_id end"
    )


def unchecked_pages(columns: Columns) -> str:
    """Pages by query and policy from `cells` alone: each page has one document at rank 1, or is one row."""
    groups = ", ".join(_groups(columns))
    first = "" if columns.impressions else "where rank = 1 "
    return f"select {groups}, cast(sum(impressions) as bigint) as pages from cells {first}group by {groups}"


def _groups(columns: Columns) -> tuple[str, ...]:
    """What a page has one of: the query it answers and, where it is logged, the policy that shows it."""
    return ("query_id", "policy") if columns.has("policy") else ("query_id",)


def _word(mask: int, word: int, words: int) -> str:
    """One word of a mask of documents."""
    place, begin = f"place{mask}", word * _WORD
    bit = f"bit_at({place} - {begin})" if begin else f"bit_at({place})"
    if words > 1:
        bit = f"case when {place} between {begin} and {begin + _WORD - 1} then {bit} else 0 end"
    return f"bit_or({bit}) as mask{mask}_{word}"


def twice() -> str:
    """The sessions that may show one of the `moving` documents twice; exact where ids are those of the log."""
    return (
        "select distinct session_id from (select session_id from log "
        "semi join moving on log.query_id = moving.query_id and log.doc_id = moving.doc_id "
        "group by session_id, log.query_id, log.doc_id having count(*) > 1) as repeated"
    )


def page_by_page(columns: Columns, in_order: Callable[[str], str]) -> str:
    """The distinct pages of each policy with what was clicked on them, and how often each was shown so.

    `in_order` makes a list of a column by rank, which engines write in different ways.
    """
    policy = "any_value(policy)" if columns.has("policy") else "''"
    return (
        "select query_id, policy, docs, clicks, count(*) as sessions from (select any_value(query_id) as query_id, "
        f"{policy} as policy, {in_order('doc_id')} as docs, {in_order('clicked')} as clicks from log "
        "group by session_id) as page group by query_id, policy, docs, clicks"
    )


def distinct_pages(
    engine: Engine, columns: Columns, counts: ClickCounts, matched: bool, patterns: bool = False
) -> ClickCounts:
    """The counts of a log with its distinct pages; the table `matched`, or else `pairs`, has the row of each pair.

    `patterns` says whether a page that was clicked in several ways is to be there once for each.
    """
    engine.reduce("shown", page_by_page(columns, engine.in_order), "gathering pages")
    known = "select distinct query_id, doc_id, row from matched where row is not null" if matched else "from pairs"
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
    entries = _entries(counts)
    pages = Displays(
        offsets_of(np.diff(np.append(begins, len(number)))),
        np.ascontiguousarray(found["row"], np.int64),
        np.ascontiguousarray(found["sessions"], np.int64)[begins],
        np.ascontiguousarray(found["clicks"], np.int64),
        None if counts.policies is None else np.searchsorted(np.array(entries), named),
    )
    if patterns:
        pages = with_patterns(pages)
    return replace(counts, displays=merge_pages(counts.offsets, pages))


def _entries(counts: ClickCounts) -> list[str]:
    """What the log calls each number of a policy: its name, and behind it its context."""
    contexts = [f"{SEPARATOR}{context}" for context in counts.contexts] or [""] * len(counts.policy_names)
    return [f"{name}{context}" for name, context in zip(counts.policy_names, contexts, strict=True)]


def by_last_click(columns: Columns) -> str:
    """Impressions and clicks by query, document, rank and rank of the last click above, by one window over each page.

    Clicks on documents that the data does not have are clicks above others too.
    """
    keys = ", ".join(("query_id", "doc_id", "rank", *(("policy",) if columns.has("policy") else ())))
    last = "max(case when clicked then rank end) over (partition by session_id order by rank"
    return (
        f"select {keys}, above, count(*) as impressions, cast(count_if(clicked) as bigint) as clicks from ("
        f"select {keys}, clicked, coalesce({last} rows between unbounded preceding and 1 preceding), 0) as above "
        f"from log) as placed group by {keys}, above"
    )


def last_clicks(engine: Engine, columns: Columns, counts: ClickCounts, matched: bool) -> ClickCounts:
    """The counts of a log with those by last click; the table `matched`, or else `pairs`, has the row of each pair."""
    engine.reduce("placed", by_last_click(columns), "looking at last clicks")
    known = "select distinct query_id, doc_id, row from matched where row is not null" if matched else "from pairs"
    policy = "policy" if columns.has("policy") else "''"
    found = engine.local.execute(
        f"select row, rank, above, impressions, clicks, {policy} as policy from placed "
        f"join ({known}) as known using (query_id, doc_id)"
    ).fetchnumpy()
    names = ("row", "rank", "above", "impressions", "clicks")
    rows = LastClicks(*(np.ascontiguousarray(found[name], np.int64) for name in names))
    if counts.policies is not None:
        shown = np.asarray(found["policy"]).astype(np.str_)
        rows = replace(rows, policies=np.searchsorted(np.array(_entries(counts)), shown))
    return replace(counts, last_clicks=added_up(rows))


# how wide stretches of time may be, in seconds
_WIDTHS = (MINUTE, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400)
_MOST_STRETCHES = 60


def drift_of_parts(
    engine: Engine, columns: Columns, known: Candidates | None, unknown_documents: bool = False
) -> list[list[dict[str, Any]]]:
    """Pages, impressions and clicks of each part of the data in stretches of time; rows without a time are left out.

    `unknown_documents` says whether the table `unknown` has documents of known queries, which are not counted.
    """
    join, keys, used = "", "minute", "true"
    if known is not None:
        engine.lend("queries")
        join, keys = known.join_queries("log") + " ", "part, minute"
    if unknown_documents:
        engine.local.execute(
            "create or replace temp table left_out as select query_id, doc_id from unknown where not whole_query"
        )
        engine.lend("left_out")
        join += "left join left_out on log.query_id = left_out.query_id and log.doc_id = left_out.doc_id "
        used = "left_out.doc_id is null"
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

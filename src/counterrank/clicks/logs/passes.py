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

from counterrank.clicks.logs.columns import MOST, TEXT, Columns
from counterrank.clicks.logs.faults import PAGE_RULES

DEEPEST = 62  # ranks in the mask; pages that are longer are all looked at closely
_WORD = 62  # bits of a word in the masks of documents

# A page is shown by one policy and answers one query.
GROUPS = ("query_id", "policy")


def cells(columns: Columns) -> str:
    """Impressions and clicks by query, document, rank, and policy and propensity where they are logged.

    `told` counts the rows whose click makes sense; `earliest` and `latest` are as the files write times. Texts are
    compared as such, which is right for ISO 8601, and for numbers of as many digits.
    """
    keys = ", ".join(("query_id", "doc_id", "rank", *(n for n in ("policy", "propensity") if columns.has(n))))
    times = ", min(moment) as earliest, max(moment) as latest" if columns.has("timestamp") else ""
    return (
        f"select {keys}, count(*) as impressions, cast(count_if(clicked) as bigint) as clicks, "
        f"count(clicked) as told{times} from log group by {keys}"
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

    Arguments:
        columns: of the log.
        masks: the bits of each mask of documents in which those that are twice on a page are looked for.
        usual: whether all ranks are known to fit into the mask of ranks.
    """
    groups = [name for name in GROUPS if name != "policy" or columns.has("policy")]
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
        f"select {', '.join(inner)} from {source} group by session_id) as page) as judged "
        f"group by {shown}, case when suspect then session_id end"
    )


def pages_on_trust(columns: Columns) -> str:
    """Pages by query and policy from `cells` alone: each page has one document at rank 1, or is one row."""
    groups = ", ".join(name for name in GROUPS if name != "policy" or columns.has("policy"))
    first = "" if columns.impressions else "where rank = 1 "
    return f"select {groups}, cast(sum(impressions) as bigint) as pages from cells {first}group by {groups}"


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


def exact(columns: Columns) -> str:
    """What is wrong with each of the `suspects`, all of it counted exactly; pages that are in order are left out.

    Only values that are there are compared: a page that lacks one has a fault of its rows, and not another for that.
    """
    policies = "count(distinct policy)" if columns.has("policy") else "1"
    shown = "where rank is not null " if columns.has("orphan") else ""  # clicks on nothing shown have no rank
    return (
        "select * from (select session_id, count(*) as n, "
        "count(distinct query_id) as queries, " + policies + " as policies, "
        "count(doc_id) - count(distinct doc_id) as again, count(rank) - count(distinct rank) as shared, "
        "count(rank) as ranks, min(rank) as lowest, max(rank) as highest from log "
        f"semi join suspects on log.session_id = suspects.session_id {shown}"
        "group by session_id) as page "
        f"where {' or '.join(f'({rule})' for rule in PAGE_RULES.values())}"
    )


def is_sound(columns: Columns) -> str:
    """Whether all rows of a cell say something that makes sense."""
    rules = ["query_id is not null", "doc_id is not null", f"rank between 1 and {MOST}", "told = impressions"]
    if columns.has("policy"):
        rules.append("policy is not null")
    if columns.has("propensity"):
        rules += ["propensity between 0 and 1", "not (clicks > 0 and propensity = 0)"]
    return "(" + " and ".join(rules) + ")"


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

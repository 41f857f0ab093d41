"""Click logs counted row by row in plain Python: the slow, obvious reference of `counterrank.clicks.logs`."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field

NEEDED = ("session_id", "query_id", "doc_id", "rank", "clicked")
PAGE_KINDS = (
    "are one session under several queries",
    "are one session under several policies",
    "show a document twice",
    "show two documents at one rank",
    "have a gap in their ranks",
)
UNKNOWN_QUERY = "have a query that is not in the ranking data"
UNKNOWN_DOCUMENT = "have a document that is not among the candidates of its query"
TOO_DEEP = "have a rank beyond the candidates of their query"
ID_KINDS = (UNKNOWN_QUERY, UNKNOWN_DOCUMENT, TOO_DEEP)
UNREADABLE = "cannot be read"


@dataclass
class Expected:
    """What reading a log must come to; `error` where it cannot be read in any way."""

    rows: int = 0
    faults: list = field(default_factory=list)  # (kind, unit, count)
    dropped: dict = field(default_factory=dict)
    dropped_pages: int = 0
    cells: dict = field(default_factory=dict)  # (query, document, rank, policy, propensity) -> impressions, clicks
    sessions: dict = field(default_factory=dict)  # (query, policy) -> pages
    pages: dict = field(default_factory=dict)  # (query, documents) -> sessions and clicks of each
    unknown: dict = field(default_factory=dict)  # kind -> rows that are left out and no faults
    unknown_impressions: dict = field(default_factory=dict)  # query -> rows of documents that are no candidates
    error: str | None = None


def text_of(value):
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def number_of(value):
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def rank_of(value, base):
    number = number_of(value)
    if number is None or not math.isfinite(number) or number != math.floor(number):
        return None
    return int(number) + 1 - base


def is_missing(name, value):
    return value is None or (
        name == "clicked" and text_of(value).strip(" ").lower() in ("", "nan", "null", "none", "na")
    )


def clicked_of(value):
    word = (text_of(value) or "").strip(" ").lower()
    if word in ("1", "true", "t", "yes", "y", "1.0"):
        return True
    return False if word in ("0", "false", "f", "no", "n", "0.0") else None


class Row:
    """One row, with what its columns say."""

    def __init__(self, raw, columns, base):
        self.raw = {name: raw.get(name) for name in columns}
        self.session, self.query, self.doc, self.policy = (
            text_of(raw.get(name)) for name in ("session_id", "query_id", "doc_id", "policy")
        )
        if "query_id" not in columns:
            self.query = "0"
        self.rank = rank_of(raw.get("rank"), base)
        self.clicked = clicked_of(raw.get("clicked"))
        self.propensity = number_of(raw.get("propensity"))

    def faults(self, columns):
        """The kinds of faults of this row alone, in the order of the report."""
        order = [name for name in (*NEEDED, "propensity", "policy") if name in columns]
        found = [f"have no {name}" for name in order if is_missing(name, self.raw[name])]
        if self.raw["rank"] is not None and (self.rank is None or self.rank < 1):
            found.append("have a rank below 1 or not whole")
        if self.rank is not None and self.rank > 1_000_000:
            found.append("have a rank beyond 1,000,000")
        if not is_missing("clicked", self.raw["clicked"]) and self.clicked is None:
            found.append("have a clicked that is not 0 or 1")
        if "propensity" in columns:
            if self.raw["propensity"] is not None and not (self.propensity is not None and 0 <= self.propensity <= 1):
                found.append("have a propensity outside 0 to 1")
            if self.clicked and self.propensity == 0:
                found.append("are a click at propensity 0")
        return found


def page_faults(rows):
    """The kinds of faults of one page, from what its rows do say."""
    ranks = [row.rank for row in rows if row.rank is not None]
    docs = [row.doc for row in rows if row.doc is not None]
    found = (
        len({row.query for row in rows} - {None}) > 1,
        len({row.policy for row in rows} - {None}) > 1,
        len(set(docs)) < len(docs),
        len(set(ranks)) < len(ranks),
        len(ranks) == len(rows) == len(set(ranks)) and min(ranks) >= 1 and max(ranks) > len(rows),
    )
    return [kind for kind, there in zip(PAGE_KINDS, found, strict=True) if there]


def id_fault(row, data, others):
    """What is wrong with the ids; `others` are documents of its query that have ranks but are no candidates."""
    if row.query is None or row.doc is None:
        return None
    if row.query not in data:
        return UNKNOWN_QUERY
    if row.doc not in data[row.query]:
        return UNKNOWN_DOCUMENT
    most = len(data[row.query]) + len(others[row.query])
    return TOO_DEEP if row.rank is not None and row.rank > most else None


def read(raw, columns, *, base=1, impressions=False, data=None, skip=False, unreadable=0, strict=False, displays=False):
    """What becomes of the rows `raw` (dicts), of which the files have these columns.

    Arguments:
        raw: one dict per row, values as the files give them; None is a null.
        columns: the columns that the files have.
        base: the number of the first rank.
        impressions: whether each row is a page.
        data: for each query its candidates, all as texts; None to count what was seen.
        skip: whether bad pages are dropped.
        unreadable: how many lines are no rows.
        strict: whether rows that do not belong to the data are faults.
        displays: whether pages are kept, so that documents which are no candidates are faults.
    """
    columns = [name for name in columns if not (impressions and name == "session_id")]
    missing = [name for name in NEEDED if name not in columns]
    if set(missing) - ({"session_id", "query_id"} if impressions else set()):
        return Expected(error="no column")
    rows = [Row(each, columns, base) for each in raw]
    if not rows and not unreadable:
        return Expected(error="no rows")
    expected = Expected(rows=len(rows) + unreadable)
    of_row = {id(row): row.faults(columns) for row in rows}
    by_page = defaultdict(list)
    for i, row in enumerate(rows):
        by_page[i if impressions else row.session].append(row)
    of_page = {
        session: [] if impressions or session is None else page_faults(page) for session, page in by_page.items()
    }
    tolerated = () if strict or data is None else (UNKNOWN_QUERY,) if displays else (UNKNOWN_QUERY, UNKNOWN_DOCUMENT)
    others = defaultdict(set)
    for row in rows:
        if UNKNOWN_DOCUMENT in tolerated and row.doc is not None and row.doc not in data.get(row.query, [row.doc]):
            others[row.query].add(row.doc)
    ids = {id(row): None if data is None else id_fault(row, data, others) for row in rows}
    of_id = {key: None if kind in tolerated else kind for key, kind in ids.items()}
    order = [kind for row in rows for kind in of_row[id(row)]]
    order = [*sorted(set(order), key=_place), *PAGE_KINDS, *ID_KINDS]
    _tell(expected, order, of_row, of_page, of_id, unreadable)
    if expected.faults and not skip:
        return expected
    kept = []
    dropped = Counter()
    for session, page in by_page.items():
        if not impressions and session is None:
            for row in page:
                dropped[of_row[id(row)][0]] += 1
            continue
        kinds = {kind for row in page for kind in of_row[id(row)]} | set(of_page[session])
        kinds |= {of_id[id(row)] for row in page} - {None}
        if kinds:
            dropped[min(kinds, key=order.index)] += len(page)
            expected.dropped_pages += 1
        else:
            kept.append(page)
    expected.dropped = dict(dropped) | ({UNREADABLE: unreadable} if unreadable else {})
    if not kept:
        expected.error = "nothing is left"
    for page in kept:
        for row in page:
            if ids[id(row)] is not None:
                expected.unknown[ids[id(row)]] = expected.unknown.get(ids[id(row)], 0) + 1
            if ids[id(row)] == UNKNOWN_DOCUMENT:
                expected.unknown_impressions[row.query] = expected.unknown_impressions.get(row.query, 0) + 1
        _count(expected, page, impressions, {id(row) for row in page if ids[id(row)] is None}, data)
    if kept and not expected.cells:
        expected.error = "nothing belongs"
    return expected


def _place(kind):
    starts = (*(f"have no {name}" for name in (*NEEDED, "propensity", "policy")), "have a rank below", "have a rank be")
    starts += ("have a clicked", "have a propensity", "are a click")
    return next(i for i, start in enumerate(starts) if kind.startswith(start))


def _tell(expected, order, of_row, of_page, of_id, unreadable):
    counts = Counter(kind for kinds in of_row.values() for kind in kinds)
    counts.update(kind for kind in of_id.values() if kind)
    pages = Counter(kind for kinds in of_page.values() for kind in kinds)
    if unreadable:
        expected.faults.append((UNREADABLE, "lines", unreadable))
    for kind in order:
        if kind in PAGE_KINDS and pages[kind]:
            expected.faults.append((kind, "pages", pages[kind]))
        elif counts[kind]:
            expected.faults.append((kind, "rows", counts[kind]))


def _count(expected, page, impressions, known, data):
    query = page[0].query
    if data is not None and query not in data:
        return
    for row in page:
        if id(row) not in known:
            continue
        key = (query, row.doc, row.rank, row.policy, row.propensity)
        impressions_so_far, clicks = expected.cells.get(key, (0, 0))
        expected.cells[key] = (impressions_so_far + 1, clicks + row.clicked)
    key = (query, page[0].policy)
    expected.sessions[key] = expected.sessions.get(key, 0) + 1
    if not impressions:
        shown = sorted(page, key=lambda row: row.rank)
        sessions, clicks = expected.pages.get((query, tuple(row.doc for row in shown)), (0, (0,) * len(shown)))
        added = tuple(n + row.clicked for n, row in zip(clicks, shown, strict=True))
        expected.pages[query, tuple(row.doc for row in shown)] = (sessions + 1, added)

"""Click logs for both engines, and what must be the same for both."""

import gzip
from dataclasses import fields

import numpy as np

from counterrank.clicks.logs import LogOptions, read_parts

NAMES = ("session_id", "query_id", "doc_id", "rank", "clicked", "policy", "propensity")


def read_both(path, *parts, displays=False, master="local[2]", **options):
    """A log read by both engines, which must agree on everything but the examples of faults."""
    one = read_parts(path, parts, displays=displays, options=LogOptions(**options))
    spark = LogOptions(engine="spark", master=master, **options)
    other = read_parts(path, parts, displays=displays, options=spark)
    for a, b in zip(one.counts, other.counts, strict=True):
        same_fields(a, b)
    a, b = one.report, other.report
    for name in ("rows", "used", "pages", "dropped", "dropped_pages"):
        assert getattr(a, name) == getattr(b, name), name
    assert [(f.kind, f.unit, f.count) for f in a.faults] == [(f.kind, f.unit, f.count) for f in b.faults]
    assert [(f.kind, f.count) for f in a.unknown] == [(f.kind, f.count) for f in b.unknown]
    assert a.rows == a.used + sum(a.dropped.values()) + a.unknown_queries + a.unknown_documents
    return other


def same_fields(one, other):
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name == "displays" and a is not None:
            same_fields(a, b)
        elif field.name == "origin":
            assert a.describe() == b.describe()  # the same sample of sessions, whichever engine drew it
        elif isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b, err_msg=field.name)
        else:
            assert a == b, field.name


def pages(n, seed, text="{}", depth=4, start=0):
    """Pages of five queries with eight documents each, as columns."""
    rng = np.random.default_rng(seed)
    docs = np.concatenate([rng.permutation(8)[:depth] for _ in range(n)])
    ranks = np.tile(np.arange(1, depth + 1), n)
    sessions = np.repeat(np.arange(start, start + n), depth)
    queries = np.repeat(rng.integers(0, 5, n), depth)
    if text != "{}":
        docs, queries, sessions = ([text.format(value) for value in ids] for ids in (docs, queries, sessions))
    return {
        "session_id": sessions,
        "query_id": queries,
        "doc_id": docs,
        "rank": ranks,
        "clicked": rng.random(len(ranks)) < 0.3,
        "policy": np.repeat(rng.choice(["new", "old"], n), depth),
        "propensity": np.array([0.5, 0.25, 1.0, 0.0625])[ranks - 1],
    }


def write_csv(path, rows, names=NAMES, delimiter=",", end="\n"):
    """Rows of texts, or bytes as they are."""
    lines = [delimiter.join(names), *(row if isinstance(row, bytes) else delimiter.join(map(str, row)) for row in rows)]
    data = b"".join((line if isinstance(line, bytes) else line.encode()) + end.encode() for line in lines)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def faulty_rows(n=12):
    """Each fault in a page of its own, and good pages between."""
    good = [[f"s{i}", f"q{i % 3}", f"d{r}", r, r % 2, "new", 0.5] for i in range(n) for r in (1, 2, 3)]
    wrong = {
        "session_id": [""],
        "query_id": ["", "q9"],
        "doc_id": ["", "d99"],
        "rank": ["", "0", "1.5", "2000000", "nan", "x", "1_0", "1d", "9" * 30, "-1", "0x1p0", "+-1", "7"],
        "clicked": ["", "2", "yes", "0.5", "nan"],
        "policy": [""],
        "propensity": ["", "1.5", "-0.1", "nan", "inf", "1_0", "1f", "0", "1e-400"],
    }
    bad = []
    for column, values in wrong.items():
        for value in values:
            page = [[f"bad{len(bad)}", "q1", "d1", 1, 1, "new", 0.5], [f"bad{len(bad)}", "q1", "d2", 2, 1, "new", 0.5]]
            page[0][NAMES.index(column)] = value
            bad.append(page)
    sound = [["ok1", "q1", "d1", "1.0", "TRUE", "new", "+.5"], ["ok2", "q1", "d1", "1e0", "0.0", "new", " 5e-1 "]]
    pages = [
        [("two", "q1", "d1", 1, 0, "new", 1), ("two", "q2", "d2", 2, 0, "new", 1)],
        [("half", "q1", "d1", 1, 0, "new", 1), ("half", "q1", "d2", 2, 0, "old", 1)],
        [("twice", "q1", "d1", 1, 0, "new", 1), ("twice", "q1", "d1", 2, 0, "new", 1)],
        [("same", "q1", "d1", 1, 0, "new", 1), ("same", "q1", "d2", 1, 0, "new", 1)],
        [("gap", "q1", "d1", 1, 0, "new", 1), ("gap", "q1", "d2", 3, 0, "new", 1)],
    ]
    return [*good, *sound, *(row for page in (*bad, *pages) for row in page)]


LINES = [
    b'l1,q1,"d1",1,1,new,0.5',
    b'l2,q1,"d""1",1,0,new,0.5',
    b'l3,q1,"d,1" ,1,0,new,0.5,,',
    b'l4,q1, "d1",1,0,new,0.5',
    b'l5,q1,  "d1",1,0,new,0.5',
    b'l6,q1,d"1,1,0,new,0.5',
    b'l7,q1,"d1"x,1,0,new,0.5',
    b'l8,q1,""d1"",1,0,new,0.5',
    b"l9,q1,d1,1,0,new",
    b"l10,q1,d1,1,0,new,0.5,x",
    b"l11,q1,\xff,1,0,new,0.5",
    b"l12,q1,\xef\xbf\xbd,1,0,new,0.5",
    b'l13,q1,"",1,0,new,0.5',
    b"",
    b"   ",
    ",".join(NAMES).encode(),
    b"l14,q1,'d1',1,0,new,0.5",
    b"l15,q1,a\\b,1,0,new,0.5",
    b"l16,q1, d1 ,1,0,new,0.5",
    b"l17,q1,NULL,1,0,new,0.5",
]

"""CSV that is not UTF-8: lines with such bytes are put aside in every pass alike, whichever column they are in."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.clicks.logs import LogOptions, read_parts
from counterrank.common.errors import CounterrankError

HEADER = b"session_id,query_id,doc_id,rank,clicked,note\n"
CLEAN = b"1,q,a,1,0,x\n1,q,b,2,1,x\n"


def read(tmp_path, rows, on_error="fail"):
    (tmp_path / "log.csv").write_bytes(HEADER + rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_parts(tmp_path / "log.csv", (), options=LogOptions(on_error=on_error))


@pytest.mark.parametrize(
    "row", [b"2\xff,q,a,1,0,x", b"2,q\xff,a,1,0,x", b"2,q,a\xff,1,0,x", b"2,q,a,\xff1,0,x", b"2,q,a,1,0,\xff"]
)
def test_one_bad_byte(tmp_path, row):
    rows = CLEAN + row + b"\n2,q,b,2,1,x\n"
    with pytest.raises(CounterrankError, match=r"1 line cannot be read .*1 page has a gap"):
        read(tmp_path, rows)
    report = read(tmp_path, rows, "skip").report
    assert (report.rows, report.used, report.pages) == (4, 2, 1)
    assert report.rows == report.used + sum(report.dropped.values())


def test_a_page_without_a_readable_session(tmp_path):
    with pytest.raises(CounterrankError, match="2 lines cannot be read"):
        read(tmp_path, CLEAN + b"\xff,q,a,1,0,x\n\xff,q,b,2,0,x\n")


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 60), st.sampled_from([b"\xff", b"\xc3", b"\x80"])), max_size=3))
def test_bytes_anywhere(tmp_path_factory, bad):
    """Whatever is hit, each line is used or reported."""
    rows = bytearray(CLEAN + b"2,q,a,1,0,x\n2,q,b,2,1,x\n3,q,b,1,1,x\n")
    for place, byte in bad:
        if place < len(rows) and rows[place : place + 1] not in (b"\n", b","):
            rows[place : place + 1] = byte
    folder = tmp_path_factory.mktemp("bytes")
    try:
        found = read(folder, bytes(rows), "skip")
    except CounterrankError:  # nothing was left
        return
    assert found.report.rows == 5 == found.report.used + sum(found.report.dropped.values())
    assert found.report.used == found.counts[0].n_impressions

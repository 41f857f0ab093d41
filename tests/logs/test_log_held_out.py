"""Sessions that are held out: by a hash of their id, whatever the engine, and for good."""

import hashlib

import numpy as np
import pytest

from counterrank import CounterrankError, RankingData, read_log
from counterrank.clicks.origin import shared_sessions
from tests.support.log_files import write
from tests.support.spark_cluster import needs_spark

SHARE = 0.3


def log_rows(n, name=str):
    return [
        {"session_id": name(i), "query_id": i % 3, "doc_id": d, "rank": d + 1, "clicked": int((i + d) % 4 == 0)}
        for i in range(n)
        for d in range(2)
    ]


def is_held_out(session):
    """The definition: the first eight digits of the MD5 of a prefix and the id, as a share of what they may be."""
    digits = hashlib.md5(f"held out {session}".encode(), usedforsecurity=False).hexdigest()[:8]
    return int(digits, 16) < round(SHARE * 16**8)


def expected_sessions(n, name=str):
    found = np.zeros(3, int)
    for i in range(n):
        found[i % 3] += is_held_out(name(i))
    return found.tolist()


@pytest.fixture
def data():
    return RankingData(np.zeros((6, 1)), [0, 2, 4, 6], doc_ids=[0, 1] * 3)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("name", [int, lambda i: f"s-{i}", lambda i: f"0{i}"], ids=["whole", "text", "zero"])
def test_a_session_is_held_out_by_its_hash(tmp_path, data, name, suffix):
    if suffix == "csv":
        name = (lambda i: f"s-{i}") if name is not int else int  # a CSV takes 07 for a number
    path = tmp_path / f"log.{suffix}"
    write(path, log_rows(200, name))
    own, others = (read_log(path, data, hold_out_sessions=SHARE, held_out=held) for held in (True, False))
    assert own.sessions.tolist() == expected_sessions(200, name)
    assert (own.sessions + others.sessions).tolist() == read_log(path, data).sessions.tolist()
    assert shared_sessions(own.known_origin(), others.known_origin()) == 0.0


def test_sessions_stay_where_they_are_when_the_log_grows(tmp_path, data):
    write(tmp_path / "early.csv", log_rows(100))
    write(tmp_path / "late.csv", log_rows(300))
    early, late = (
        read_log(tmp_path / f"{name}.csv", data, hold_out_sessions=SHARE, held_out=True) for name in ("early", "late")
    )
    assert late.n_sessions > early.n_sessions
    assert shared_sessions(early.known_origin(), late.known_origin()) == 1.0


@needs_spark
@pytest.mark.usefixtures("local_spark")
@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("name", [int, lambda i: f"s-{i}"], ids=["whole", "text"])
def test_spark_holds_out_the_same_sessions(tmp_path, data, name, suffix):
    path = tmp_path / f"log.{suffix}"
    write(path, log_rows(200, name))
    found = read_log(path, data, hold_out_sessions=SHARE, held_out=True, engine="spark")
    assert found.sessions.tolist() == expected_sessions(200, name)


@needs_spark
@pytest.mark.usefixtures("local_spark")
def test_spark_takes_floats_for_whole_numbers(tmp_path, data):
    write(tmp_path / "log.parquet", log_rows(200, lambda i: 1e9 + i))
    found = read_log(tmp_path / "log.parquet", data, hold_out_sessions=SHARE, held_out=True, engine="spark")
    assert found.sessions.tolist() == expected_sessions(200, lambda i: 10**9 + i)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hold_out_sessions": 1.0}, "hold_out_sessions=1.0: expected a number from 0 to below 1"),
        ({"hold_out_sessions": "some"}, "hold_out_sessions='some': expected"),
        ({"held_out": True}, "held_out: requires hold_out_sessions"),
        ({"hold_out_sessions": 0.2, "impressions": True}, "hold_out_sessions: there are no sessions"),
    ],
)
def test_bad_options_are_named(tmp_path, options, message):
    with pytest.raises(CounterrankError, match=message):
        read_log(tmp_path / "log.csv", **options)

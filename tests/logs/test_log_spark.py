"""Click logs counted by Spark: the same numbers as DuckDB, whatever is in the files."""

import json
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.clicks.logs import LogOptions, log_reader, read_parts
from counterrank.clicks.logs.spark_engine import urls
from counterrank.common.errors import CounterrankError
from tests.support.event_logs import EVENTS, SEARCHES, event, lines
from tests.support.spark_cluster import needs_spark
from tests.support.spark_logs import LINES, NAMES, faulty_rows, pages, read_both, same_fields, write_csv

pytestmark = pytest.mark.filterwarnings("ignore:.*dropped:UserWarning")


def ranking(queries, text="{}", cut=1):
    """Ranking data with some of the queries, and fewer documents than the log has for the last of them."""
    docs = [d for q in queries for d in range(8)][: 8 * len(queries) - cut]
    ids = (list(queries), docs) if text == "{}" else ([text.format(q) for q in queries], [text.format(d) for d in docs])
    return cr.RankingData(np.zeros((len(docs), 1)), np.append(np.arange(0, len(docs), 8), len(docs)), None, *ids)


@needs_spark
def test_parquet_in_folders_with_numbers(local_spark, tmp_path):
    """Each folder a policy, each file with types of its own, and columns that are not read."""
    log = tmp_path / "a log"
    for i, policy in enumerate(("new%20one", "old")):
        columns = pages(60, seed=i, start=1000 * i)
        del columns["policy"]
        hostile = {
            'a`b"; drop table raw; --': np.zeros(240),
            "lists": [[1]] * 240,
            "at": pa.array([1] * 240, pa.timestamp("ns")),
        }
        kinds = (pa.int32(), pa.uint8()) if i else (pa.int64(), pa.float32())
        columns["doc_id"], columns["rank"] = pa.array(columns["doc_id"], kinds[0]), pa.array(columns["rank"], kinds[1])
        (log / f"policy={policy}").mkdir(parents=True)
        pq.write_table(
            pa.table({**columns, **(hostile if i else {})}),
            log / f"policy={policy}" / ("a:b,c.parquet" if i else "a,b*[1]{x}.parquet"),
        )
    found = read_both(log, displays=True)
    assert found.counts[0].policy_names == ("new one", "old")
    assert found.counts[0].n_sessions == 120
    rest = cr.RankingData(np.zeros((8, 1)), [0, 8], None, [4], range(8))
    found = read_both(log, ranking(range(4)), rest, on_error="skip", displays=True)
    assert all(part.n_sessions for part in found.counts)
    assert {fault.kind[:15] for fault in found.report.faults} == {"have a document"}


@needs_spark
def test_csv_with_everything_wrong_in_it(local_spark, tmp_path):
    rows = faulty_rows()
    write_csv(tmp_path / "it's 100%25 a;b.csv", rows[:50] + LINES)
    order = (6, 5, 4, 3, 2, 1, 0)
    turned = [[row[i] for i in order] for row in rows[50:]]
    write_csv(tmp_path / "b.tsv.gz", turned, [NAMES[i] for i in order], "\t", "\r\n")
    data = cr.RankingData(np.zeros((8, 1)), [0, 4, 8], None, ["q0", "q1"], [f"d{i}" for i in (1, 2, 3, 4)] * 2)
    other = cr.RankingData(np.zeros((3, 1)), [0, 3], None, ["q2"], ["d1", "d2", "d3"])
    found = read_both(tmp_path, data, other, on_error="skip", strict=True, displays=True)
    assert found.report.dropped["cannot be read"] == 6
    assert len(found.report.faults) == 21
    assert all(part.n_sessions for part in found.counts)
    found = read_both(tmp_path, data, other, on_error="skip", displays=True)
    assert (len(found.report.faults), found.report.unknown_queries) == (20, 0)  # the page has another fault too
    found = read_both(tmp_path, data, on_error="skip")
    assert found.report.unknown_documents == found.counts[0].unknown_impressions > 0
    assert found.report.unknown_queries > 1


@needs_spark
def test_csv_with_fields_of_several_lines(local_spark, tmp_path):
    columns = ("session_id", "query_id", "doc_id", "rank", "clicked", 'a`b"; drop view raw; --', "corrupt")
    rows = [b'1,q,"d\n1",1,1,x,y', b'1,q,"d""2\n\n",2,0,x,y', b"2,q,d3,1,0,x", b'3,q,"d,3",1,0,"x\n",y']
    header = [name if '"' not in name else '"' + name.replace('"', '""') + '"' for name in columns]
    write_csv(tmp_path / "log.csv", rows, header)
    found = read_both(tmp_path / "log.csv", on_error="skip", columns={"query_id": columns[5]})
    assert found.report.dropped == {"cannot be read": 1}
    assert found.counts[0].n_impressions == 2 + 1


@needs_spark
def test_json_lines(local_spark, tmp_path):
    rows = [dict(zip(NAMES, row, strict=True)) for row in faulty_rows()]
    texts = [json.dumps(row) for row in rows]
    whole = {"session_id": 7, "query_id": "q1", "doc_id": 3, "rank": 1.0, "clicked": True, "policy": "new"}
    texts += [
        json.dumps({**whole, "session_id": i, "propensity": p}) for i, p in enumerate((1, 0.1, 1e-7, None, [1], {}))
    ]
    texts += [texts[0] + texts[1], texts[0][:-1], texts[0] + " x", "[" + texts[0] + "]", "[]", "1", "null", "", "  "]
    texts += [texts[0].replace('"', "'"), "{}", '{"session_id":{"a":}}', texts[0].replace("s0", "é\\u00e9\\n")]
    data = "\n".join(texts).encode() + b"\n" + texts[0].encode().replace(b"s0", b"\xff")
    (tmp_path / "policy=x").mkdir()
    (tmp_path / "policy=x" / "a b.jsonl").write_bytes(data)
    found = read_both(tmp_path / "policy=x" / "a b.jsonl", on_error="skip")
    assert found.counts[0].policy_names == ("new",)
    found = read_both(tmp_path, on_error="skip", skip_page_checks=True)
    assert found.counts[0].policy_names == ("x",)


@needs_spark
def test_types_of_parquet(local_spark, tmp_path):
    """Unsigned and decimal numbers, enumerations, booleans, UUIDs, times, columns without a value."""
    n = 6
    ids = [uuid.UUID(int=i).bytes for i in (1, 1, 2, 2, 3, 3)]
    table = pa.table(
        {
            "session_id": pa.array(ids, pa.uuid()),
            "query_id": pa.array([2**64 - 1] * n, pa.uint64()),
            "doc_id": pa.array(["a", "b"] * 3).dictionary_encode(),
            "rank": pa.array([1, 2, 1, 2, 1, 7]).cast(pa.decimal128(21, 2)),
            "clicked": pa.array([0.0, 1.0, 0.0, 0.0, 1.0, 2.0], pa.float32()),
            "propensity": pa.array([0.1] * n, pa.float32()),
            "policy": pa.nulls(n),
            "timestamp": pa.array([10**18] * n, pa.timestamp("ns")),
            "Rank": pa.array(["none"] * n),
        }
    )
    pq.write_table(table.drop(["policy", "Rank"]), tmp_path / "log.parquet")
    found = read_both(tmp_path / "log.parquet", on_error="skip")
    assert found.counts[0].n_impressions == 4
    pq.write_table(table.drop(["Rank"]), tmp_path / "log.parquet")
    for engine in ("duckdb", "spark"):
        with pytest.raises(CounterrankError, match="6 rows have no policy"):
            read_parts(tmp_path / "log.parquet", [], options=LogOptions(engine=engine))


@needs_spark
def test_impressions_and_what_is_wrong_in_them(local_spark, tmp_path):
    columns = pages(50, seed=3, text="x{}")
    columns["clicked"] = [2, *columns["clicked"][1:].astype(int)]
    columns["doc_id"][7] = "nobody's"
    del columns["session_id"]
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    fixed = (tmp_path / "log.parquet", ranking(range(5), "x{}"))
    found = read_both(*fixed, impressions=True, on_error="skip", strict=True)
    assert sum(found.report.dropped.values()) > 2
    found = read_both(*fixed, impressions=True, on_error="skip")
    assert (sum(found.report.dropped.values()), found.report.unknown_documents) == (1, 5)
    del columns["query_id"]
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    assert read_both(tmp_path / "log.parquet", impressions=True, on_error="skip").counts[0].n_sessions == 199


@needs_spark
def test_time_of_a_log_that_shows_more_than_the_data_has(local_spark, tmp_path):
    columns = pages(50, seed=4)
    columns["timestamp"] = pa.array(np.arange(200) * 60 + 10**9, pa.timestamp("s"))
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    data = cr.RankingData(np.zeros((12, 1)), [0, 6, 12], None, [1, 2], [*range(6), *range(6)])
    read_both(tmp_path / "log.parquet", data)
    found = [
        read_parts(tmp_path / "log.parquet", [data], drift=True, options=LogOptions(engine=engine))
        for engine in ("duckdb", "spark")
    ]
    assert found[0].drift == found[1].drift
    counts = found[0].counts[0]
    assert counts.unknown_impressions > 0
    totals = [sum(period[name] for period in found[0].drift[0]) for name in ("pages", "impressions", "clicks")]
    assert totals == [counts.n_sessions, counts.n_impressions, counts.n_clicks]


@needs_spark
def test_long_pages_where_few_documents_move(local_spark, tmp_path):
    """Documents that are twice on a page are found without masks; a page may be longer than a mask is wide."""
    ranks = np.tile(np.arange(1, 71), 40)
    docs = ranks.copy()
    docs[700:702] = docs[701], docs[700]
    docs[1405] = docs[1410]
    columns = {
        "session_id": np.repeat(np.arange(40), 70),
        "query_id": np.zeros(2800, int),
        "doc_id": docs,
        "rank": ranks,
    }
    pq.write_table(pa.table({**columns, "clicked": ranks == 3}), tmp_path / "log.parquet")
    found = read_both(tmp_path / "log.parquet", on_error="skip", rank_base=1)
    assert found.report.dropped == {"show a document twice": 70}


def test_files_that_spark_would_pass_over(tmp_path):
    with pytest.raises(CounterrankError, match="Spark passes over names that begin with '_'"):
        urls([tmp_path / "_log.parquet"])


@needs_spark
def test_events_times_scores_and_display_probabilities(local_spark, tmp_path):
    """What is read besides the counts, and logs that are no plain ones."""
    log = lines(tmp_path / "events.jsonl", [*SEARCHES, *EVENTS, event("click", "s1", "z", 1)])
    assert "are a click without an impression" in read_both(log, on_error="skip").report.dropped
    columns = pages(100, seed=8)
    columns["policy"] = np.repeat("new", 400)
    columns["display_probability"], columns["logging_score"] = columns["propensity"], columns["doc_id"] / 2
    for i, times in enumerate((pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.string())):
        at = pa.array(np.datetime64("2026-01-01T00:00:30", "us") + np.arange(400) * np.timedelta64(7, "s"))
        at = at.cast(pa.timestamp("us", "UTC")) if i == 1 else at.cast(times)
        part = pa.table({**columns, "timestamp": at}).set_column(0, "session_id", [pa.array(columns["session_id"])])
        (tmp_path / str(i)).mkdir()
        pq.write_table(part, tmp_path / str(i) / "log.parquet")
        both = [LogOptions(engine=engine) for engine in ("duckdb", "spark")]
        found = [read_parts(tmp_path / str(i), (), drift=True, options=options).drift[0] for options in both]
        assert found[0] == found[1]
        assert len(found[0]) > 5
    same_fields(*(log_reader.read_display_probabilities(tmp_path / "0", options) for options in both))
    scores = [log_reader.read_logging_scores(tmp_path / "0", [ranking(range(5), cut=0)], options) for options in both]
    np.testing.assert_array_equal(*(each[0] for each in scores))

"""Logs with columns that say in which context a page was shown."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.logs import read_log
from counterrank.common.errors import CounterrankError, DataError
from tests.support.spark_cluster import needs_spark
from tests.support.spark_logs import read_both


def frame(sessions=120, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for session in range(sessions):
        page = ["phone", "pc"][session % 2], ["de", "us", "fr"][session % 5 % 3], f"v{session % 7 % 2}"
        for rank, doc in enumerate(rng.permutation(4)[:3], 1):
            rows.append((session, session % 3, int(doc), rank, int(rng.random() < 0.4), *page))
    names = ["session_id", "query_id", "doc_id", "rank", "clicked", "device", "country", "policy"]
    return pd.DataFrame(rows, columns=names)


DATA = cr.RankingData(np.zeros((12, 1)), [0, 4, 8, 12], None, [0, 1, 2], [0, 1, 2, 3] * 3)
LOG = frame()


def slowly(log, *columns):
    """{(policy, context, query, document, rank): (impressions, clicks)}, row by row."""
    found = {}
    for row in log.to_dict("records"):
        context = ", ".join(str(row[name]) for name in columns)
        key = row.get("policy", ""), context, row["query_id"], row["doc_id"], row["rank"]
        n, c = found.get(key, (0, 0))
        found[key] = n + 1, c + row["clicked"]
    return found


def cells(counts):
    queries, docs = counts.query_ids[counts.queries()], counts.doc_ids[counts.docs]
    return {
        (counts.policy_names[p], counts.contexts[p], int(q), int(d), int(r)): (int(n), int(c))
        for q, d, p, r, n, c in zip(
            queries, docs, counts.policies, counts.ranks, counts.impressions, counts.clicks, strict=True
        )
    }


@pytest.mark.parametrize("columns", [("device",), ("device", "country")])
@pytest.mark.parametrize("policy", [True, False])
@pytest.mark.parametrize("data", [DATA, None])
def test_cells_by_context(columns, policy, data):
    log = LOG if policy else LOG.drop(columns="policy")
    counts = read_log(log, data, context=columns, displays=True)
    assert cells(counts) == slowly(log, *columns)
    pages = counts.displays
    by_entry = np.bincount(pages.policies, pages.sessions, len(counts.policy_names))
    np.testing.assert_array_equal(by_entry, counts.policy_sessions.sum(axis=1))
    assert bool(counts.distinct_policies) == policy


def test_contexts_merged_are_the_log_without_them():
    counts, plain = read_log(LOG, DATA, context="device"), read_log(LOG, DATA)
    np.testing.assert_array_equal(counts.sessions, plain.sessions)
    np.testing.assert_array_equal(counts.by_document(counts.clicks), plain.by_document(plain.clicks))
    assert counts.n_sessions == plain.n_sessions == 120
    with pytest.raises(CounterrankError, match="in the others too"):  # the same sessions, whatever their contexts
        ClickCounts.concat([counts, read_log(LOG[LOG.session_id < 100], DATA, context="device")])


def test_policies_and_parts():
    counts = read_log(LOG, DATA, context="device", only_policies=["v1"])
    assert set(counts.policy_names) == {"v1"}
    assert cells(counts) == slowly(LOG[LOG.policy == "v1"], "device")
    days = [read_log(LOG[LOG.session_id < 60], DATA, context="device"),
            read_log(LOG[LOG.session_id >= 60], DATA, context="device")]  # fmt: skip
    assert cells(ClickCounts.concat(days)) == slowly(LOG, "device")


def test_whole_numbers_and_booleans_are_contexts():
    log = LOG.drop(columns="policy")
    assert read_log(log.assign(device=log.session_id % 2 == 0), DATA, context="device").contexts == ("false", "true")
    assert read_log(log.assign(device=log.session_id % 2), DATA, context="device").contexts == ("0", "1")


def test_pages_without_a_context():
    log = LOG.copy()
    log.loc[log.session_id == 3, "device"] = None
    with pytest.raises(DataError, match=r"3 rows have no device \(row 9: .*device None"):
        read_log(log, DATA, context="device")
    with pytest.warns(UserWarning, match="dropped"):
        assert read_log(log, DATA, context="device", on_error="skip").n_sessions == 119
    two = LOG.assign(device=np.where((LOG.session_id == 3) & (LOG["rank"] == 2), "tv", LOG.device))
    with pytest.raises(
        DataError, match=r"several policies \(such as session 3, a page of which one context is expected"
    ):
        read_log(two, DATA, context="device")


@pytest.mark.parametrize(
    ("context", "message"),
    [("dev", "no column 'dev' for the context"), (["device", 3], "names of columns"), ([""], "names of columns")],
)
def test_bad_contexts(context, message):
    with pytest.raises(CounterrankError, match=message):
        read_log(LOG, DATA, context=context)


def test_fractions_are_no_contexts():
    with pytest.raises(DataError, match="as context"):
        read_log(LOG.assign(device=LOG.session_id / 7), DATA, context="device")


@needs_spark
def test_spark_counts_contexts_alike(local_spark, tmp_path):
    pq.write_table(pa.Table.from_pandas(LOG), tmp_path / "log.parquet")
    LOG.to_csv(tmp_path / "log.csv", index=False)
    for name in ("log.parquet", "log.csv"):
        found = read_both(tmp_path / name, DATA, displays=True, context=("device", "country"))
        assert cells(found.counts[0]) == slowly(LOG, "device", "country")

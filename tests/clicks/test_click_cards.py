"""What a notebook shows of click counts and examination curves."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import counterrank as cr
from counterrank import examination, policies, simulation
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.position_bias import EstimatedExamination
from counterrank.common.errors import CounterrankError
from tests.support.cards import card_text, check_shown
from tests.support.click_counts import count

EVIL = "<script>alert(1)</script>"
# two queries of 3 and 1 documents; two sessions of the first
LOG = count([3, 1], [(0, (0, 1), {1}), (0, (1, 2), {1, 2})], displays=False)


def test_click_counts_show_what_was_shown_and_clicked():
    text = check_shown(LOG)
    assert text.startswith("ClickCounts 3 clicks in 2 sessions of 1 queries")
    assert "queries with sessions 1 of 2" in text
    assert "documents shown 3 of 4" in text
    assert "documents clicked 3" in text
    assert "1 2 2 100 %" in text  # rank, impressions, clicks, click rate
    assert "2 2 1 50.0 %" in text
    found = LOG.summary()
    assert (found["documents_shown"], found["documents_clicked"], found["clicks_per_session"]) == (3, 3, 1.5)
    json.dumps(found)


def test_policies_and_unknown_documents_are_shown():
    sessions = np.array([[1, 0], [1, 0]])
    log = replace(LOG, policies=np.zeros(4, np.int64), policy_names=(EVIL, "v2"), policy_sessions=sessions,
                  unknown_impressions=1200)  # fmt: skip
    text = check_shown(log)
    assert f"policy sessions {EVIL} 1 v2 1" in text
    assert "1,200 impressions of documents that the data does not have are left out" in text
    assert log.summary()["sessions_by_policy"] == {EVIL: 1, "v2": 1}


def test_the_clicks_of_a_fold(tmp_path):
    data = cr.RankingData(np.zeros((3, 1)), [0, 1, 2, 3], query_ids=["a", "b", EVIL])
    log = pa.table({"session_id": [1, 2, 3, 4], "query_id": ["a", "b", "b", f"{EVIL} 2"], "doc_id": [0] * 4,
                    "rank": [1] * 4, "clicked": [1, 0, 1, 0]})  # fmt: skip
    with pytest.warns(cr.LogWarning, match="1 row has a query that is not in the ranking data"):
        clicks = cr.read_log(log, cr.Fold(data.subset([0]), None, data.subset([1, 2])))
    text = check_shown(clicks)
    assert text.startswith("FoldClicks 3 of 4 rows of frame used ! frame: 1 row has a query that is not in the ranking")
    assert "train 1 1 of 1 1 of 1 1 1 100 % validation none test 2 1 of 2 1 of 2 2 1 50.0 %" in text
    assert repr(clicks) == (
        "FoldClicks(sessions: train=1, validation=None, test=2; 3 of 4 rows used, 1 of queries that are in no part)"
    )
    found = clicks.summary()
    assert (found["test"]["clicks"], found["validation"], found["read"]["rows_of_unknown_queries"]) == (1, None, 1)
    json.dumps(found)


def test_counts_of_an_empty_log():
    nothing = np.zeros(0, np.int64)
    log = ClickCounts("", np.array([0, 2]), np.array([0]), nothing, nothing, nothing, nothing)
    assert "0 clicks in 0 sessions" in check_shown(log)
    assert log.summary()["clicks_per_session"] is None
    with pytest.raises(CounterrankError, match="no values to draw"):
        log.plot()


def test_the_click_rate_is_drawn_by_rank():
    drawn = LOG.plot().to_dict()
    (values,) = drawn["datasets"].values() if "datasets" in drawn else [drawn["data"]["values"]]
    assert [(row["rank"], row["value"]) for row in values] == [(1, 1.0), (2, 0.5)]
    dashed = replace(LOG, examination=examination.inverse_rank(k=2)).plot().to_dict()
    (values,) = dashed["datasets"].values() if "datasets" in dashed else [dashed["data"]["values"]]
    assert [row["expected"] for row in values] == [1.0, 0.5]
    assert "dashed" in dashed["title"]["subtitle"] if "title" in dashed else "dashed" in str(dashed)


def test_examination_curves():
    assert "Examination 3 ranks, 0 beyond rank P(examined) 1 1 2 0.5 3 0.3" in check_shown(
        examination.Examination([1, 0.5, 0.3])
    )
    text = check_shown(examination.inverse_rank())
    assert "no last rank" in text
    assert text.endswith("10 0.1 …")
    assert examination.inverse_rank().summary()["ranks"] is None
    assert examination.inverse_rank(k=2).summary() == {"ranks": 2, "values": [1.0, 0.5]}
    assert "…" in card_text(examination.inverse_rank(k=50))
    for exam in (examination.inverse_rank(), examination.Examination([0.5])):
        assert exam.plot().to_dict()["layer"]


def estimated(**changes):
    fields = {
        "values": np.array([1.0, 0.5, 1.02]),
        "intervals": np.array([[1.0, 1.0], [0.45, 0.55], [0.8, 1.3]]),
        "ranks": np.arange(1, 4),
        "method": "em",
        "target": "these-queries",
        "confidence": 0.9,
        "n_sessions": 1000,
        "n_queries": 20,
        "n_documents": 40,
        "n_clicks": 300,
    }
    return EstimatedExamination(**fields | changes)


def test_estimated_curves_show_intervals_and_warnings():
    found = estimated(warnings=("rank 3 is above rank 1",))
    text = check_shown(found)
    assert "rank 3 is above rank 1" in text
    assert "90 % confidence intervals, each for one rank, for these queries" in text
    assert "1 1 by definition 2 0.500 0.450 to 0.550 3 1.02 0.80 to 1.30" in text
    assert found.summary()["values"]["rank 2"] == 0.5
    json.dumps(found.summary())
    assert "0.55" in str(found.plot().to_dict())


def test_a_real_estimate_shows_itself():
    data = cr.RankingData(np.zeros((600, 1)), np.arange(0, 601, 20), labels=np.arange(600) % 5)
    exam = examination.inverse_rank(k=3)
    log = simulation.simulate(data, np.zeros(600), policies.PlackettLuce(k=3), exam, sessions=50_000, seed=0)
    assert "all-pairs" in check_shown(examination.estimate(log))
    check_shown(log)

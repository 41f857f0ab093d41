"""The benchmark of LambdaMART from clicks: how results are put together, and which rows its learners are given."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.click_learners import Boosted, click_rate_rows
from benchmarks.lambdamart_clicks import ROUNDS, theirs
from benchmarks.lambdamart_clicks_table import AWARE, HIGH, LOW, read, summary

from counterrank.clicks.counts import ClickCounts
from counterrank.common.errors import DataError
from counterrank.data import RankingData


def row(method, seed, **more):
    return {"set": "s", "part": "p", "seed": seed, "fingerprint": seed, "method": method, **more}


def test_shares_and_paired_differences_by_hand():
    rows = [row(LOW, 0, **{"dcg@5": 1.0}), row(HIGH, 0, **{"dcg@5": 2.0}), row(AWARE, 0, **{"dcg@5": 1.9})]
    rows += [row(LOW, 1, **{"dcg@5": 1.0}), row(HIGH, 1, **{"dcg@5": 3.0}), row(AWARE, 1, **{"dcg@5": 2.5})]
    rounds = {"own": 1, "aware": 5, "all": 100}
    rows += [row("x", 0, **{"by rule": {"own": 1.0, "aware": 1.5, "all": 1.2}, "rounds": rounds})]
    rows += [row("x", 1, **{"by rule": {"own": 1.9, "aware": 1.7, "all": 1.2}, "rounds": rounds})]
    rows += [row("x", 2, **{"by rule": {"own": 9.0, "aware": 0.0, "all": 0.0}, "rounds": rounds})]  # alone
    found = summary(rows)["s"]
    assert found[AWARE]["share"] == pytest.approx(((1.9 + 2.5) / 2 - 1.0) / ((2.0 + 3.0) / 2 - 1.0))
    assert (found["x"]["runs"], found["x"]["rule"], found["x"]["rounds"]) == (2, "aware", [5, 5])
    assert found["x"]["dcg@5"] == pytest.approx((1.5 + 1.7) / 2)
    assert found["x"]["aware minus this"] == pytest.approx(((1.9 - 1.5) + (2.5 - 1.7)) / 2)
    # differences 0.4 and 0.8: standard error 0.2, t with one degree of freedom 12.706
    assert found["x"]["half"] == pytest.approx(12.706 * 0.2, rel=1e-4)


def test_results_of_other_clicks_are_not_mixed():
    rows = [row(LOW, 0, **{"dcg@5": 1.0}), {**row(HIGH, 0, **{"dcg@5": 2.0}), "fingerprint": 1}]
    with pytest.raises(DataError, match="p, seed 0: results of several logs"):
        summary(rows)


def test_an_unfinished_line_is_left_out(tmp_path):
    path = tmp_path / "results.jsonl"
    assert read(path) == []
    path.write_text(json.dumps({"a": 1}) + '\n{"a": ')
    assert read(path) == [{"a": 1}]


def test_trees_are_chosen_by_each_rule():
    """An estimate that is best after 10 trees, and an evaluation that gives how many there were."""
    data = SimpleNamespace(features=np.zeros((1, 1)))
    log = SimpleNamespace(
        held_out=data, fold=SimpleNamespace(test=data), estimated=lambda n: -abs(n - 10), evaluated=lambda n: n / 1000
    )
    found = theirs(log, Boosted(lambda features, n: n, 3, {}))
    assert found["rounds"] == {"own": 3, "aware": 10, "all": ROUNDS}
    assert found["by rule"] == {"own": 0.003, "aware": 0.01, "all": ROUNDS / 1000}


def test_click_rates_of_all_candidates():
    data = RankingData(np.zeros((4, 1), np.float32), [0, 4])
    cells = np.array([1, 0, 3]), np.array([1, 2, 2]), np.array([9, 6, 3]), np.array([3, 1, 0])
    rows = click_rate_rows(data, ClickCounts("", np.array([0, 4]), np.array([9]), *cells))
    assert rows.labels.tolist() == [17, 33, 0, 0]  # 1 of 6, 3 of 9, never shown, never clicked
    assert rows.positions.tolist() == [2, 1, 2, 2]

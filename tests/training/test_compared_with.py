"""The benchmark that compares with LightGBM and XGBoost: its runs, its summary, and what its page shows."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import compared_with
from benchmarks.click_learners import Boosted, click_rate_rows, sessions_a_copy
from benchmarks.compared_with import CASES, COMPARED, ESTIMATED, ROUNDS, applies, by_rule, cells, shortlisted
from benchmarks.compared_with_table import AWARE, HIGH, LOW, PER_SESSION, read, summary, tables

from counterrank import make_fold
from counterrank.clicks.counts import ClickCounts
from counterrank.common.errors import DataError
from counterrank.data import RankingData
from tests.support.paths import ROOT

PAGE = "docs/concepts/compared-with.md"
SUMMARY = ROOT / "docs" / "results" / "compared-with.json"


def row(method, seed, *, case="c", clicks=100, **rules):
    """A result with the same value of both metrics for each rule; `_` is the only rule of counterrank's own."""
    found = {rule.replace("_", ""): {"dcg@5": value, "ndcg@5": value} for rule, value in rules.items()}
    cell = {"set": "s", "case": case, "clicks": clicks, "part": "p", "seed": seed}
    log = {"sessions": 50, "impressions": 250, "fingerprint": seed}
    rounds = {"own": 1, "aware": 5, "all": 100}
    return {**cell, **log, "method": method, "by rule": found, "rounds": rounds, "rows": 10 + seed, "seconds": 0.5}


def six_results():
    rows = [row(LOW, 0, _=1.0), row(HIGH, 0, _=2.0), row(AWARE, 0, _=1.9)]
    rows += [row(LOW, 1, _=1.0), row(HIGH, 1, _=3.0), row(AWARE, 1, _=2.5)]
    rows += [row("LightGBM position=", 0, own=1.0, aware=1.5, all=1.2)]
    rows += [row("LightGBM position=", 1, own=1.9, aware=1.7, all=1.2)]
    rows += [row("LightGBM position=", 2, own=9.0, aware=0.0, all=0.0)]  # without the others
    return rows


def test_shares_and_paired_differences_by_hand():
    (log,) = summary(six_results(), (LOW, HIGH, AWARE, "LightGBM position=", "never run"))
    assert (log["case"], log["set"], log["clicks"], log["impressions"]) == ("c", "s", 100, 250)
    assert list(log["methods"]) == [LOW, HIGH, AWARE, "LightGBM position="]
    assert log["methods"][AWARE]["share"] == pytest.approx(((1.9 + 2.5) / 2 - 1.0) / ((2.0 + 3.0) / 2 - 1.0))
    found = log["methods"]["LightGBM position="]
    assert (found["runs"], found["rule"], found["trees"], found["rows"]) == (2, "aware", 5, 10.5)
    assert found["by rule"] == pytest.approx({"own": 1.45, "aware": 1.6, "all": 1.2})
    assert found["dcg@5"][0] == found["ndcg@5"][0] == pytest.approx((1.5 + 1.7) / 2)
    # differences -0.4 and -0.8: standard error 0.2, t with one degree of freedom 12.706
    assert found["minus policy-aware trees"] == pytest.approx([-0.6, 12.706 * 0.2], rel=1e-4)


def test_a_group_per_session_is_paired_with_merged_sessions_and_shown_with_the_costs():
    apart = f"LightGBM position={PER_SESSION}"
    rows = [*six_results(), row(apart, 0, own=1.3, aware=1.5, all=1.0), row(apart, 1, own=1.7, aware=1.9, all=1.0)]
    rows += [{**each, "clicks": 2000} for each in rows]
    few, many = summary(rows, (LOW, HIGH, "LightGBM position=", AWARE, apart))
    # held-out pages: differences 0.3 and -0.2, standard error 0.25
    assert few["methods"][apart]["minus merged"]["own"] == pytest.approx([0.05, 12.706 * 0.25], rel=1e-4)
    assert few["methods"][apart]["minus merged"]["all"][0] == pytest.approx(-0.2)
    shown = tables([few, many])
    assert not any(apart in line for line in shown["c, s"].splitlines())
    named = [line.split(" | ")[0] for line in shown["c, s, cost"].splitlines()]
    assert named[named.index("| LightGBM position=") + 1] == f"| {apart}"


def test_tables_by_number_of_clicks_or_by_data_set():
    few = tables(summary(six_results(), (LOW, AWARE, "LightGBM position=")))
    assert list(few) == ["c, 100 clicks", "number of trees"]
    assert few["c, 100 clicks"].splitlines()[0] == "| learner | s |"
    assert few["c, 100 clicks"].splitlines()[-1] == "| LightGBM position= | 1.600 (-0.600 ± 2.541) |"
    assert few["number of trees"].splitlines()[-1] == "| c, s, 100 clicks | 1.450 | 1.600 | 1.200 |"
    more = [row(method, 0, clicks=2000, _=value) for method, value in ((LOW, 1.0), (HIGH, 2.0), (AWARE, 1.5))]
    both = tables(summary([*six_results(), *more], (LOW, AWARE, "LightGBM position=")))
    assert list(both) == ["c, s", "c, s, cost", "number of trees"]
    assert both["c, s"].splitlines()[0] == "| learner | 100 clicks | 2,000 clicks |"
    assert both["c, s"].splitlines()[2] == "| production | 1.000 (-1.200 ± 3.812) | 1.000 (-0.500) |"  # a single run
    assert both["c, s"].splitlines()[-1] == "| LightGBM position= | 1.600 (-0.600 ± 2.541) |  |"
    assert "| counterrank, policy-aware, trees | 10 rows, 0.5 s | 10 rows, 0.5 s |" in both["c, s, cost"]


def test_results_of_other_clicks_are_not_mixed():
    rows = [row(LOW, 0, _=1.0), {**row(HIGH, 0, _=2.0), "fingerprint": 1}]
    with pytest.raises(DataError, match="s, p, seed 0: results of several logs"):
        summary(rows, (LOW, HIGH))


def test_an_unfinished_line_is_left_out(tmp_path):
    path = tmp_path / "results.jsonl"
    assert read(path) == []
    path.write_text(json.dumps({"a": 1}) + '\n{"a": ')
    assert read(path) == [{"a": 1}]


def test_trees_are_chosen_by_each_rule():
    """An estimate that is best after 10 trees, and an evaluation that gives how many there were."""
    data = SimpleNamespace(features=np.zeros((1, 1)))
    log = SimpleNamespace(held_out=data, test=data, estimated=lambda n: -abs(n - 10), evaluated=lambda n: n / 1000)
    found = by_rule(log, Boosted(lambda features, n: n, 3, {}))
    assert found["rounds"] == {"own": 3, "aware": 10, "all": ROUNDS}
    assert found["by rule"] == {"own": 0.003, "aware": 0.01, "all": ROUNDS / 1000}


def test_click_rates_of_all_candidates():
    data = RankingData(np.zeros((4, 1), np.float32), [0, 4])
    cells = np.array([1, 0, 3]), np.array([1, 2, 2]), np.array([9, 6, 3]), np.array([3, 1, 0])
    rows = click_rate_rows(data, ClickCounts("", np.array([0, 4]), np.array([9]), *cells))
    assert rows.labels.tolist() == [17, 33, 0, 0]  # 1 of 6, 3 of 9, never shown, never clicked
    assert rows.positions.tolist() == [2, 1, 2, 2]


def test_the_production_rankers_best_documents_are_kept():
    data = RankingData(np.arange(6)[:, None], [0, 4, 6], labels=[0, 1, 2, 3, 4, 5], query_ids=["a", "b"])
    few = shortlisted(data, np.array([3.0, 1.0, 1.0, 2.0, 0.0, 9.0]), 3)
    assert few.offsets.tolist() == [0, 3, 5]
    assert few.labels.tolist() == [0, 1, 3, 4, 5]  # equal scores keep document order
    assert (few.doc_ids.tolist(), few.query_ids.tolist()) == ([0, 1, 3, 0, 1], ["a", "b"])


def test_runs_take_all_folds_before_another_seed():
    assert list(cells("mq2008", 3)) == [("Fold1", 0), ("Fold2", 0), ("Fold1", 1)]


def test_small_logs_are_not_merged_for_xgboost():
    assert [sessions_a_copy(clicks) for clicks in (1, 10**4, 10**5, 10**6, 10**7)] == [1, 1, 2, 20, 20]


def test_methods_run_only_where_they_can():
    assert [case for case in CASES if applies("LightGBM position=, click rates", case)] == ["replace-last"]
    assert [case for case in CASES if applies(f"{ESTIMATED}, trees", case)] == [
        "uniform-insert",
        "all shown, one moved",
    ]
    assert all(applies("policy-aware, trees", case) for case in CASES)


@pytest.mark.parametrize("case", CASES)
def test_a_short_run_of_every_method(case, tmp_path, monkeypatch, capsys):
    """All methods on the clicks of 30 queries; a second start computes nothing again."""
    pytest.importorskip("lightgbm")
    fold = make_fold("mslr", 50, seed=0)
    monkeypatch.setattr(compared_with, "read_part", lambda *_: fold)
    monkeypatch.setattr(compared_with, "ROUNDS", 5)
    methods = [each for each in COMPARED if not each.startswith(("XGBoost", "auto"))]
    methods += [f"LightGBM position={PER_SESSION}"]
    try:
        import xgboost  # noqa: F401

        methods += ["XGBoost unbiased"]
    except ImportError:
        pass
    out, found = tmp_path / "out.jsonl", tmp_path / "summary.json"
    arguments = ["--sets", "synthetic:mslr", "--cases", case, "--clicks", "3000", "--runs", "1", "--out", str(out)]
    compared_with.main([*arguments, "--json", str(found), "--methods", *methods])
    (log,) = json.loads(found.read_text())
    order = [*COMPARED, f"LightGBM position={PER_SESSION}"]
    assert list(log["methods"]) == [each for each in order if each in methods and applies(each, case)]
    assert all(0 <= result["dcg@5"][0] < 3 and 0 <= result["ndcg@5"][0] <= 1 for result in log["methods"].values())
    assert log["methods"]["LightGBM position="]["rows"] <= log["impressions"]
    assert log["methods"][f"LightGBM position={PER_SESSION}"]["rows"] == log["impressions"]
    before = out.read_bytes()
    compared_with.main([*arguments, "--methods", *methods])
    assert out.read_bytes() == before
    assert f"**{case}, 3,000 clicks**" in capsys.readouterr().out


def test_the_page_shows_the_measured_tables():
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    for title, table in tables(json.loads(SUMMARY.read_text(encoding="utf-8"))).items():
        assert table in page, f"{title}: run python -m benchmarks.compared_with --show and update {PAGE}"


def test_the_code_of_the_page(tmp_path, monkeypatch):
    """Blocks run one after the other: the log, then each library; all rank better than chance."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        for package in ("lightgbm", "xgboost"):
            if f"import {package}" in code:
                pytest.importorskip(package)
        exec(compile(code, PAGE, "exec"), names)
    found = names["found"]
    assert set(found) == {"production", "counterrank", "LightGBM", "XGBoost"}
    assert min(found.values()) > 0.0

"""`--users` of simulate, plan and reproduce."""

from __future__ import annotations

import json

import numpy as np
import pytest

import counterrank as cr
from counterrank import examination, simulation
from counterrank.common.errors import CounterrankError
from counterrank.data.sources import open_data
from tests.support.command import as_json, attempt, invoke

DATA = "synthetic:yahoo:queries=60,seed=1"
SIMULATE = ("simulate", DATA, "--logger", "feature:1", "--policy", "uniform-insert:k=4", "--n-sessions", "2e5")
PLAN = ("plan", DATA, "--logger", "feature:1", "--page", 5, "--n-sessions", "1e5")


def test_presets_are_those_of_the_library(tmp_path):
    told = as_json(*SIMULATE, "--users", "yandex", "--out", tmp_path / "clicks")
    assert (told["users"], told["click_model"], told["examination"]) == ("yandex", None, None)
    clicks = cr.ClickCounts.load(tmp_path / "clicks" / "train")
    longest = max(int(part.lengths.max()) for part in vars(open_data(DATA)).values())
    assert clicks.examination.curve(4).round(6).tolist() == [1.0, 0.49, 0.30, 0.22]
    assert clicks.examination.k == longest


def test_the_papers_users_are_the_default(tmp_path):
    for name, more in (("one", ()), ("other", ("--users", "paper"))):
        invoke(*SIMULATE, *more, "--out", tmp_path / name)
    one, other = (cr.ClickCounts.load(tmp_path / name / "train") for name in ("one", "other"))
    assert np.array_equal(one.clicks, other.clicks)
    assert one.examination == other.examination


def test_a_curve_fitted_to_a_log_is_simulated(tmp_path):
    """From clicks to a curve by inspect, to clicks of such users, and to their curve."""
    invoke(*SIMULATE, "--users", "baidu", "--as-log", "--out", tmp_path / "log")
    invoke("inspect", tmp_path / "log", "--examination-out", tmp_path / "users.json")
    like = ("--users", tmp_path / "users.json", "--other", 0.25, "--relevant", 0.69)
    invoke(*SIMULATE, *like, "--as-log", "--out", tmp_path / "again")
    invoke("inspect", tmp_path / "again", "--examination-out", tmp_path / "found.json")
    fitted, found = (examination.load_estimate(tmp_path / name) for name in ("users.json", "found.json"))
    np.testing.assert_allclose(found.values, fitted.values, rtol=0.15)
    assert found.n_clicks == pytest.approx(fitted.n_clicks, rel=0.05)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--users", "bing"), "--users bing: expected one of paper, baidu, yandex, or a file"),
        (("--users", "yandex", "--relevant", 0.9), "--relevant: given together with --users yandex"),
        (("--users", "yandex", "--examination", "inverse-rank"), "--examination: given together with --users yandex"),
        (("--users", "baidu", "--trust-bias", 0.5), "--trust-bias: given together with --users baidu"),
    ],
)
def test_users_that_are_said_twice_are_refused(more, message, tmp_path):
    with pytest.raises(CounterrankError, match=message):
        attempt(*SIMULATE, *more, "--out", tmp_path / "clicks")


def test_plans_are_made_for_users():
    chosen = ("--policy", "uniform-insert", "--policy", "replace-last")
    paper = as_json(*PLAN, "--users", "paper", *chosen)
    assert paper["plans"] == as_json(*PLAN, "--examination", "inverse-rank:eta=1", *chosen)["plans"]
    found = as_json(*PLAN, "--users", "yandex", *chosen)
    assert (found["assumed"]["examination"], found["assumed"]["clicks"]) == ("that of yandex", "those of yandex")
    insert, last = found["plans"]
    assert insert["sessions_to_fit"]["position-based"] < insert["sessions_to_fit"]["affine"]
    assert last["sessions_to_fit"] == {"position-based": None, "affine": None}
    assert insert["clicks"] > paper["plans"][0]["clicks"]
    with pytest.raises(CounterrankError, match="--click-rate: given together with --users yandex"):
        attempt(*PLAN, "--users", "yandex", "--click-rate", 0.1)
    with pytest.raises(CounterrankError, match="--examination: required, or --users"):
        attempt(*PLAN)


def test_the_plan_adds_a_mixture_at_the_price_of_replace_last(tmp_path):
    np.save(tmp_path / "logger.npy", open_data(DATA).train.labels)
    arguments = ("plan", DATA, "--logger", tmp_path / "logger.npy", "--page", 5, "--users", "baidu")
    found = as_json(*arguments, "--n-sessions", "1e5", "--out", tmp_path / "plan.html")
    prices = {row["policy"]: row["price"] for row in found["plans"]}
    mixture = found["plans"][-1]["policy"]
    assert mixture.endswith("*deterministic:k=5")
    assert 0.9 * prices["replace-last:k=5"] < prices[mixture] <= prices["replace-last:k=5"]
    assert found["advice"][2].startswith(f"Log with {mixture} rather than replace-last:k=5")
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "What the log tells about users" in page
    assert "Sessions to fit: affine" in page


def test_settings_hold_the_users_of_a_file(tmp_path):
    from counterrank.experiments.cells import Cell, all_cells, grid
    from counterrank.experiments.settings import Settings

    simulation.users("yandex", 5).save(tmp_path / "users.json")
    users = Settings(users=str(tmp_path / "users.json")).users
    assert json.loads(users)["alpha"] == simulation.users("yandex", 5).alpha.tolist()
    some = {"figures": (2,), "clicks": (100,), "runs": 1}
    for chosen in (users, "baidu"):
        cell = all_cells(grid(Settings(**some, users=chosen)))[0]
        assert Cell.from_plain(json.loads(json.dumps(cell.plain()))) == cell
        assert cell.traffic("train").users == chosen
    assert "users" not in all_cells(grid(Settings(**some)))[0].plain()  # so that keys of older results stay
    with pytest.raises(CounterrankError, match="users, noise: these users have a curve"):
        Settings(users="yandex", noise=(0.2, 1.0))


def test_a_run_with_other_users_has_other_results(tmp_path):
    """One cell of figure 2 with each users, in this process."""
    from counterrank.experiments.cell_runner import CellRunner
    from counterrank.experiments.cells import grid
    from counterrank.experiments.settings import Settings

    fold = cr.make_fold("yahoo", n_queries=60, seed=0)
    rates = {}
    for users in ("paper", "yandex"):
        settings = Settings(figures=(2,), clicks=(10**4,), runs=1, max_epochs=2, learning_rate=1.0, users=users)
        (cell,) = next(point for point in grid(settings) if point.series == "policy-aware").cells
        row = CellRunner({0: fold}).run(cell)
        rates[users] = row["clicks"] / row["sessions"]
    assert rates["yandex"] > 1.5 * rates["paper"]

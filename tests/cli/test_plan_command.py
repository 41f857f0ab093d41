"""`counterrank plan`, its ranges of policies, its advice and its page."""

from __future__ import annotations

import json
import re
import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

import counterrank as cr
from counterrank.cli import app
from counterrank.clicks.policies.parsing import parse_policies, score_spread
from counterrank.common.errors import CounterrankError
from counterrank.data.parquet import write_parquet
from counterrank.data.sources import open_data
from counterrank.evaluation import advise_logging, plan_comparison, plan_logging
from tests.report.test_report_browser import CHROMIUM, visit
from tests.support.command import invoke, run
from tests.support.paths import ROOT

DATA = "synthetic:yahoo:queries=60,seed=1"
BARE = ("--examination", "inverse-rank:eta=1")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Scores of a logger and of a ranker to evaluate."""
    folder = tmp_path_factory.mktemp("plan")
    train = open_data(DATA).train
    rng = np.random.default_rng(0)
    np.save(folder / "logger.npy", train.labels + 2.0 * rng.standard_normal(train.n_docs))
    np.save(folder / "other.npy", train.labels + rng.standard_normal(train.n_docs))
    return folder


def plan(place, *arguments):
    return invoke("plan", DATA, "--logger", place / "logger.npy", *BARE, *arguments)


def test_the_command_says_what_the_library_finds(place):
    chosen = ("--policy", "replace-last:k=5", "--policy", "uniform-insert:k=5", "--ranker", place / "other.npy")
    found = json.loads(plan(place, *chosen, "--n-sessions", "1e4,1e6", "--width", 0.05, "--json").stdout)
    train = open_data(DATA).train
    names = ["replace-last:k=5", "uniform-insert:k=5"]
    wanted = plan_logging(
        train,
        np.load(place / "logger.npy"),
        {name: cr.policies.parse_policy(name) for name in names},
        cr.examination.inverse_rank(),
        [10**4, 10**6],
        scores=np.load(place / "other.npy"),
    )
    *advice, about = found["advice"]
    assert advice == advise_logging(wanted, width=0.05)
    assert "--population these-queries" in about
    assert [row["policy"] for row in found["plans"]] == names
    for row, own in zip(found["plans"], wanted, strict=True):
        assert row["price"] == pytest.approx(own.price)
        assert row["needed_for_width"] == own.sessions_for_width(0.05)
        assert [at["sessions"] for at in row["expected"]] == [10**4, 10**6]
        assert row["expected"][1]["ips_width"] == pytest.approx(own.expected[1].ips_width)
        assert row["expected"][1]["effective_sample_size"] == pytest.approx(own.expected[1].effective_sample_size)


def test_the_table_begins_with_advice(place):
    shown = plan(place, "--page", 5, "--n-sessions", "1e5", "--effective-sample-size", 1000).stdout
    assert shown.startswith("For an effective sample size of 1,000, ")
    assert "sessions for size 1,000" in shown
    assert "deterministic:k=5 can never show" in shown
    assert "whose documents are shown most; --ranker names another." in shown
    for policy in ("replace-last:k=5", "epsilon-greedy:k=5,epsilon=0.01", "plackett-luce:k=5,temperature"):
        assert policy in shown


def test_the_page_and_the_chart_are_written(place):
    for name in ("plan.html", "plan.png", "plan.svg"):
        plan(
            place,
            "--page",
            5,
            "--n-sessions",
            "1e5",
            "--width",
            0.1,
            "--effective-sample-size",
            1000,
            "--out",
            place / name,
        )
    page = (place / "plan.html").read_text(encoding="utf-8")
    assert "Sessions for width 0.1" in page
    assert "epsilon-greedy:k=5,epsilon=0.03" in page
    specs = json.loads(re.search(r'id="specs">(.*?)</script>', page, re.DOTALL)[1])
    assert set(specs) == {"size", "width"}
    assert (place / "plan.png").read_bytes()[1:4] == b"PNG"
    assert "epsilon-greedy 0.3" in (place / "plan.svg").read_text(encoding="utf-8")


def test_without_labels_the_page_says_that_there_is_no_price(place, tmp_path):
    text = "".join(f"0 qid:{q} 1:{d}\n" for q in range(3) for d in range(8))
    (tmp_path / "data.txt").write_text(text)
    data = cr.read_letor(tmp_path / "data.txt")
    write_parquet(cr.RankingData(data.features, data.offsets), tmp_path / "data.parquet")
    np.save(tmp_path / "scores.npy", data.features[:, 0])
    fixed = ("plan", tmp_path / "data.parquet", "--logger", tmp_path / "scores.npy", *BARE, "--page", 5)
    result = CliRunner().invoke(app, list(map(str, fixed)))
    assert "has no labels; expected --click-rate" in str(result.exception)
    page = tmp_path / "plan.html"
    found = json.loads(invoke(*fixed, "--click-rate", 0.2, "--out", page, "--json").stdout)
    assert {row["price"] for row in found["plans"]} == {None}
    assert found["assumed"]["clicks"] == "0.2 of examined documents"
    assert "there is no price" in page.read_text(encoding="utf-8")
    result = CliRunner().invoke(app, [*map(str, fixed), "--click-rate", "0.2", "--out", str(tmp_path / "plan.png")])
    assert "no price without labels" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--page: required where --policy has no k"),
        (("--policy", "nonsense"), "--policy nonsense: unknown; expected one of"),
        (("--policy", "replace-last:k=5,epsilon=1"), "no setting 'epsilon'; expected k"),
        (("--policy", "epsilon-greedy:k=5,epsilon=0.5..0.1"), "epsilon=0.5..0.1; expected a range such as 0.01..0.5"),
        (("--policy", "epsilon-greedy:k=5,epsilon=0.5..2"), "epsilon=1.4: expected a number from 0 to 1"),
        (("--policy", "epsilon-greedy:k=5,epsilon=0..1"), "epsilon=0..1; expected a range"),
        (("--page", "5", "--policy", "epsilon-greedy:5"), "expected settings such as k=5"),
        (("--policy", "0.5*deterministic:k=5 + 0.5*epsilon-greedy:k=5,epsilon=0.1..1"), "a range in a mixture"),
        (("--page", "5", "--n-sessions", "many"), "--n-sessions many: expected a whole number"),
        (("--page", "5", "--n-sessions", "1e5,"), "--n-sessions : expected a whole number"),
        (("--page", "0"), "--page 0: expected a whole number of at least 1"),
        (("--page", "5", "--out", "plan.pdf"), "plan.pdf: unknown kind of file; expected one that ends in .html"),
        (("--page", "5", "--width", "0"), "--width 0.0: expected a number above 0"),
        (("--page", "5", "--effective-sample-size", "-3"), "--effective-sample-size -3.0: expected a number above 0"),
        (("--page", "5", "--metric", "arp"), "--metric arp: has no value per session"),
        (("--page", "5", "--population", "all"), "--population all: expected one of"),
        (("--page", "5", "--relevance-threshold", "9"), "--relevance-threshold 9: no document is relevant"),
        (("--page", "5", "--other", "2"), "--other 2.0: expected probabilities from 0 to 1"),
        (("--page", "5", "--click-rate", "0"), "--click-rate 0.0: expected a number above 0"),
    ],
)
def test_what_is_wrong_is_said(place, arguments, message):
    result = CliRunner().invoke(app, ["plan", DATA, "--logger", str(place / "logger.npy"), *BARE, *arguments])
    assert isinstance(result.exception, CounterrankError)
    assert message in str(result.exception)


def test_examination_is_never_assumed(place):
    done = run("plan", DATA, "--logger", place / "logger.npy", "--page", 5)
    assert done.returncode == 2
    assert "--examination" in done.stderr
    assert done.stdout == ""


def test_help_shows_an_example():
    assert "Example: counterrank plan synthetic:mslr" in " ".join(invoke("plan", "--help").stdout.split())


def test_ranges_have_five_values():
    names = list(parse_policies(["epsilon-greedy:k=5,epsilon=0.01..1", "replace-last:k=2..20"]))
    assert names == [
        "epsilon-greedy:k=5,epsilon=0.01",
        "epsilon-greedy:k=5,epsilon=0.032",
        "epsilon-greedy:k=5,epsilon=0.1",
        "epsilon-greedy:k=5,epsilon=0.32",
        "epsilon-greedy:k=5,epsilon=1",
        "replace-last:k=2",
        "replace-last:k=4",
        "replace-last:k=6",
        "replace-last:k=11",
        "replace-last:k=20",
    ]
    mixture = "0.9*deterministic:k=5 + 0.1*plackett-luce:k=5,temperature=2"
    assert list(parse_policies([mixture, mixture])) == [mixture]


def test_too_many_policies_are_refused():
    with pytest.raises(CounterrankError, match="more than 200 policies"):
        parse_policies(["epsilon-greedy:k=1..900,epsilon=0.1..1"] + [f"replace-last:k={k}" for k in range(1, 201)])


def test_temperatures_follow_the_scores():
    assert score_spread([1.0, 1.0], [0, 2]) == 1.0
    names = list(parse_policies(["plackett-luce:k=5"], spread=100.0))
    assert names[0] == "plackett-luce:k=5,temperature=10"
    assert len(names) == 4


@pytest.fixture(scope="module")
def plans():
    train = open_data(DATA).train
    rng = np.random.default_rng(0)
    logger, ranker = train.labels + 2.0 * rng.standard_normal((2, train.n_docs))
    families = ["deterministic", "replace-last", "uniform-insert", "plackett-luce:temperature=9"]
    chosen = parse_policies(families, page=5)
    exam = cr.examination.inverse_rank()
    return {
        population: plan_logging(train, logger, chosen, exam, [10**5], scores=ranker, population=population)
        for population in ("these-queries", "queries")
    }


def test_advice_names_the_quickest_and_the_cheapest(plans):
    chosen = [plan for plan in plans["these-queries"] if plan.covered == 1.0]
    needs = {plan.policy: plan.sessions_for_effective(1000) for plan in chosen}
    quickest = min(needs, key=needs.get)
    cheapest = min(chosen, key=lambda plan: max(plan.price, 0.0) * needs[plan.policy]).policy
    said = advise_logging(plans["these-queries"], effective_sample_size=1000)
    with pytest.warns(DeprecationWarning, match="effective= is deprecated; use effective_sample_size="):
        assert advise_logging(plans["these-queries"], effective=1000) == said
    start = f"For an effective sample size of 1,000, {quickest} needs the fewest sessions, {needs[quickest]:,},"
    assert said[0].startswith(start)
    assert cheapest != quickest
    assert said[1].startswith(f"{cheapest} costs least in all: {needs[cheapest]:,} sessions")
    assert said[-1].startswith("deterministic:k=5 can never show")


def test_no_number_of_sessions_mends_a_bias(plans):
    fixed = plans["these-queries"][0]
    assert fixed.policy == "deterministic:k=5"
    assert fixed.reached < 1.0
    assert fixed.expected[0].ips_width is not None
    assert fixed.sessions_for_width(0.5) is None


def test_advice_says_what_cannot_be_had(plans):
    (first, *_) = advise_logging(plans["queries"], width=0.001)
    assert "more queries are needed: with these the width stays above" in first
    (first, *_) = advise_logging(plans["these-queries"][:1])
    assert first.startswith("With 100,000 sessions deterministic:k=5")  # there is no other
    with pytest.raises(CounterrankError, match="plans: none"):
        advise_logging([])


PAGE = (ROOT / "docs" / "how-to" / "plan.md").read_text(encoding="utf-8")


def test_the_commands_of_the_docs_run_in_their_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in _joined(block)]
    ran = ["train", "train", "plan", "simulate", "estimate", "train", "simulate", "plan"]
    assert [line.split()[1] for line in lines] == ran
    results = [CliRunner().invoke(app, [*shlex.split(line)[1:], "--json"], catch_exceptions=False) for line in lines]
    assert [result.exit_code for result in results] == [0] * len(ran)
    assert (tmp_path / "plan.html").is_file()
    planned, log = (json.loads(results[i].stdout) for i in (2, 4))
    at = next(row for row in planned["plans"] if row["policy"] == "uniform-insert:k=5")["expected"][0]
    found = log["estimates"]["dcg@5"]
    for name, plan, real in (
        ("clicks", at["clicks"], found["n_clicks"]),
        ("effective sample size", at["effective_sample_size"], found["effective_sample_size"]),
        ("width of DCG@5 per session", at["ips_width"], np.ptp(found["ips_interval"])),
        ("width of the self-normalised DCG@5", at["self_normalized_width"], np.ptp(found["self_normalized_interval"])),
    ):
        shown = re.search(rf"\| {name} \| ([\d.,]+) \| ([\d.,]+) \|", PAGE).groups()
        # other processors round other ways, and training with them
        assert [float(number.replace(",", "")) for number in shown] == pytest.approx([plan, real], rel=0.03)
    compared = {row["policy"]: row for row in json.loads(results[-1].stdout)["plans"]}
    for name in ("uniform-insert:k=5", "ab-test:k=5", "logopt:k=5"):
        needs, deviation = re.search(rf"\| {name} \| ([\d,]+) \| ([\d.]+) \|", PAGE).groups()
        assert float(deviation) == pytest.approx(compared[name]["deviation"], rel=0.05)
        assert float(needs.replace(",", "")) == pytest.approx(compared[name]["sessions"], rel=0.25)


def _joined(block):
    """Lines of a shell, those that end with a backslash joined with the next."""
    return [line for line in block.replace("\\\n", " ").splitlines() if line.startswith("counterrank ")]


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, which is not installed here")
@pytest.mark.parametrize("width", [1280, 480])
def test_the_page_opens_without_a_word(place, tmp_path, width):
    page = tmp_path / "plan.html"
    plan(place, "--page", 5, "--n-sessions", "1e5", "--ranker", place / "other.npy", "--out", page)
    seen = visit(page.read_text(encoding="utf-8"), tmp_path, width)
    assert seen.messages == []
    assert seen.fetched == []
    assert not seen.wide
    assert list(seen.charts) == ["size", "width"]
    assert all(chart["drawn"] and not chart["wide"] for chart in seen.charts.values())
    assert "epsilon-greedy 0.3" in seen.charts["size"]["labels"]
    assert seen.charts["size"]["symbols"] >= 8


@pytest.fixture(scope="module")
def compared(place):
    """Another ranker to compare with."""
    train = open_data(DATA).train
    np.save(place / "third.npy", train.labels + np.random.default_rng(1).standard_normal(train.n_docs))
    return ("--page", 5, "--compare", place / "other.npy", place / "third.npy")


def test_a_comparison_is_planned_as_the_library_does(place, compared):
    found = json.loads(plan(place, *compared, "--policy", "uniform-insert", "--effect", 0.02, "--json").stdout)
    train = open_data(DATA).train
    wanted = plan_comparison(
        train,
        np.load(place / "other.npy"),
        np.load(place / "third.npy"),
        cr.examination.inverse_rank(),
        production=np.load(place / "logger.npy"),
        policies={"uniform-insert:k=5": cr.policies.UniformInsert(5)},
        effect=0.02,
        names=(str(place / "other.npy"), str(place / "third.npy")),
    )
    assert found["advice"] == wanted.advice()
    names = [row["policy"] for row in found["plans"]]
    assert names == [each.policy for each in wanted]
    assert {"uniform-insert:k=5", "ab-test:k=5", "team-draft:k=5", "logopt:k=5"} < set(names)
    for row, own in zip(found["plans"], wanted, strict=True):
        assert row["sessions"] == own.sessions
        assert row["price"] == pytest.approx(own.price)
    assert found["recommended"] == wanted.recommended.policy
    assert found["assumed"]["A"] == str(place / "other.npy")


def test_a_comparison_writes_its_page_and_the_scores_to_log_with(place, compared, tmp_path):
    page, scores = tmp_path / "page.html", tmp_path / "scores.parquet"
    shown = plan(place, *compared, "--out", page, "--logopt-scores", scores).stdout
    assert "decides with the fewest sessions" in shown
    assert "unbiased for" in shown
    assert "team-draft:k=5 cannot decide by DCG@5, only by DCG@3" in shown
    text = page.read_text(encoding="utf-8")
    assert "Sessions to decide" in text
    assert "logopt:k=5" in text
    train = open_data(DATA).train
    found = cr.data.read_scores(scores, train)
    assert (np.diff(np.sort(found)) >= 0).all()
    assert len(found) == train.n_docs
    plan(place, *compared, "--out", tmp_path / "page.svg")
    assert "ab-test" in (tmp_path / "page.svg").read_text(encoding="utf-8")


def test_the_guess_of_a_comparison_comes_from_an_earlier_log(place, compared, tmp_path):
    train = open_data(DATA).train
    clicks = cr.simulation.simulate(
        train, np.load(place / "logger.npy"), cr.policies.UniformInsert(5), [1, 0.5, 0.3, 0.2, 0.1], sessions=5000
    )
    clicks.save(tmp_path / "train")
    found = json.loads(plan(place, *compared, "--relevance", tmp_path, "--json").stdout)
    assert found["guess"] == "a fitted relevance model"
    assert found["assumed"]["clicks"] == f"by {tmp_path}"
    np.save(tmp_path / "rates.npy", np.linspace(0.1, 0.9, train.n_docs))
    found = json.loads(plan(place, *compared, "--relevance", tmp_path / "rates.npy", "--json").stdout)
    assert found["guess"] == "the relevance given"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--compare", "logger", "other"), "--page: required with --compare"),
        (("--compare", "logger", "other", "--page", "5", "--width", "1"), "--width: expected no --compare with it"),
        (("--page", "5", "--power", "0.9"), "--power: expected --compare A B with it"),
        (("--compare", "logger", "other", "--page", "5", "--power", "2"), "--power 2.0: expected a number"),
        (("--compare", "logger", "other", "--page", "5", "--click-rate", "0.1"), "--effect: None"),
        (("--compare", "logger", "other", "--page", "5", "--metric", "arp"), "--metric arp: has no value per session"),
    ],
)
def test_what_is_wrong_with_a_comparison_is_said(place, arguments, message):
    names = [str(place / f"{word}.npy") if word in ("logger", "other") else word for word in arguments]
    result = CliRunner().invoke(app, ["plan", DATA, "--logger", str(place / "logger.npy"), *BARE, *names])
    assert isinstance(result.exception, CounterrankError)
    assert message in str(result.exception)

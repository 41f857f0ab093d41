"""Runs that look at the claims after 10, 20, 40 and 80 runs; results with and without metrics by test query."""

import contextlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from counterrank.cli.report import print_claims
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData, make_fold
from counterrank.evaluation import evaluate, evaluate_queries
from counterrank.evaluation.metrics import evaluate_groups
from counterrank.experiments.cell_runner import CellRunner, query_groups
from counterrank.experiments.cells import all_cells, grid
from counterrank.experiments.claims import claims_document
from counterrank.experiments.engines import CellFailure
from counterrank.experiments.reproduction import LOOKS, read_run, reproduce, summarize
from counterrank.experiments.run_folder import RESULTS, read_results
from counterrank.experiments.settings import Settings
from counterrank.experiments.summary import OPEN
from counterrank.report.page import claims_markdown
from counterrank.report.summary_text import looks_sentence, sort_claims, variance_sentence
from tests.support.command import invoke, run

DATA = "synthetic:yahoo:queries=40"
SETTINGS = Settings(figures=(2,), clicks=(10**5, 10**6), runs=3, max_epochs=2)
LEVELS = {"policy-aware": 1.0, "full-information": 1.01, "rerank": 0.6, "policy-oblivious": 0.7, "production": 0.5}


class World:
    """An engine that makes results up: a level for each estimator, with deviations by run and by group of queries."""

    def __init__(self, by_run=0.0, by_query=0.0, groups=True, stop_after=None):
        self.by_run, self.by_query, self.groups, self.stop_after = by_run, by_query, groups, stop_after
        self.cells, self.opened = [], 0

    @contextlib.contextmanager
    def __call__(self, folders, log):
        self.opened += 1
        yield [self]

    def run(self, cell):
        if self.stop_after is not None and len(self.cells) >= self.stop_after:
            raise KeyboardInterrupt
        self.cells.append(cell)
        rng = np.random.default_rng(cell.seed_for(cell.estimator, cell.loss, cell.policy, cell.clicks))
        level = LEVELS[cell.estimator] * (1.1 if cell.clicks > 10**5 and cell.estimator == "policy-aware" else 1.0)
        queries = np.random.default_rng(len(cell.estimator)).standard_normal(16)
        by_group = level + self.by_run * rng.standard_normal() + self.by_query * (queries - queries.mean())
        values = {"arp": (20.0 - 10.0 * by_group).tolist(), "dcg@5": by_group.tolist()}
        row = {"metrics": {name: float(np.mean(each)) for name, each in values.items()}, "seconds": 0.1}
        return {**row, "groups": values} if self.groups else row


def decide(folder, world, settings=SETTINGS):
    return reproduce(DATA, folder, settings, engine=world, until_decided=True)


def test_clear_claims_need_one_look(tmp_path):
    world = World(by_run=1e-3)
    found = decide(tmp_path / "run", world)
    assert found.settings.runs == LOOKS[0]
    assert Counter(cell.run for cell in world.cells).keys() == set(range(LOOKS[0]))
    summary = summarize(found)
    assert (summary.confidence, summary.looks) == (1.0 - 0.05 / 4, LOOKS)
    assert all(claim.verdict != OPEN for claim in summary.claims if claim.checks)
    document = claims_document(summary)
    assert (document["confidence"], document["looks"], document["runs"]) == (0.9875, [10, 20, 40, 80], 10)


def test_unclear_claims_need_all_looks(tmp_path, capsys):
    """Deviations by query do not become smaller with more runs: the last look leaves claims open, and says why."""
    world = World(by_run=0.01, by_query=1.0)
    found = decide(tmp_path / "run", world)
    assert found.settings.runs == LOOKS[-1]
    assert (world.opened, found.missing()) == (1, [])
    assert len(set(world.cells)) == len(world.cells)  # no cell is run twice
    summary = summarize(found)
    open_claims = [claim for claim in summary.claims if claim.checks and claim.verdict == OPEN]
    assert any(claim.projection.test_queries for claim in open_claims)
    assert "more runs cannot decide it: it needs about" in claims_markdown(summary.claims)
    assert json.loads(json.dumps(claims_document(summary)))["claims"]
    print_claims(summary)
    needed = sum(claim.projection.test_queries is not None for claim in open_claims)
    assert f"{needed} with more test queries only." in " ".join(capsys.readouterr().err.split())


def test_it_resumes_where_it_was_stopped(tmp_path):
    """Looks at what is there start no worker; only cells that are missing are run."""
    whole = World(by_run=0.01, by_query=1.0)
    decide(tmp_path / "whole", whole)
    with pytest.raises(KeyboardInterrupt):
        decide(tmp_path / "run", World(by_run=0.01, by_query=1.0, stop_after=len(whole.cells) // 3))
    rest = World(by_run=0.01, by_query=1.0)
    found = decide(tmp_path / "run", rest)
    assert len(rest.cells) == len(whole.cells) - len(whole.cells) // 3
    assert (found.settings, found.missing()) == (replace(SETTINGS, runs=80), [])
    assert read_results(tmp_path / "run") == read_results(tmp_path / "whole")
    again = World()
    decide(tmp_path / "run", again)
    assert (again.opened, again.cells) == (0, [])
    assert not (tmp_path / "run" / "data").exists()


def test_cells_that_fail_stop_it(tmp_path):
    class Failing(World):
        def run(self, cell):
            if cell.run == 3 and cell.estimator == "rerank":
                raise CellFailure("no luck")
            return super().run(cell)

    found = decide(tmp_path / "run", Failing())
    assert found.settings.runs == LOOKS[0]
    assert {cell.run for cell in found.missing()} == {3}


def test_a_fixed_number_of_runs_has_the_whole_error(tmp_path):
    summary = summarize(reproduce(DATA, tmp_path / "run", SETTINGS, engine=World(by_run=1e-3)))
    assert (summary.confidence, summary.looks, summary.runs) == (0.95, (), 3)
    assert looks_sentence(summary) == ""


def test_the_command(tmp_path):
    with pytest.raises(CounterrankError, match=r"--until-decided: chooses the number of runs; expected no --runs"):
        invoke("reproduce", "--data", DATA, "--out", tmp_path / "run", "--until-decided", "--runs", 3)
    decide(tmp_path / "run", World(by_run=1e-3))
    found = run("report", tmp_path / "run")
    assert found.returncode == 0, found.stderr
    page = (tmp_path / "run" / "report.html").read_text()
    assert "98.75 % confidence intervals" in page
    assert "looked at after 10, 20, 40 and 80 runs" in page
    assert "crosses runs and test queries" in page


# Results of older versions -------------------------------------------------------------------------------------------


def test_results_without_groups(tmp_path):
    """They are read as before, with a variance over runs alone, and the report says so."""
    older, newer = World(by_run=1e-3, by_query=1.0, groups=False), World(by_run=1e-3, by_query=1.0)
    alone = summarize(reproduce(DATA, tmp_path / "older", SETTINGS, engine=older))
    crossed = summarize(reproduce(DATA, tmp_path / "newer", SETTINGS, engine=newer))
    assert variance_sentence(sort_claims(crossed).present).startswith("Their variance crosses runs and test queries")
    assert "over runs alone" in variance_sentence(sort_claims(alone).present)
    for one, other in zip(alone.claims, crossed.claims, strict=True):
        for check, wider in zip(one.checks, other.checks, strict=True):
            assert check.value == pytest.approx(wider.value, abs=1e-9)
            assert (check.query_groups, wider.query_groups) == (None, 16)
            if " against " in check.what:  # others have the same deviations on both sides
                assert wider.high - wider.low > check.high - check.low
    # a folder with results of both: over runs alone, since runs are compared with each other
    folder = tmp_path / "older"
    more = reproduce(DATA, folder, replace(SETTINGS, runs=4), engine=newer)
    assert {check.query_groups for claim in summarize(more).claims for check in claim.checks} == {None}


# Cells ---------------------------------------------------------------------------------------------------------------


def test_a_cell_has_groups_and_stages():
    fold = make_fold("yahoo", 60, seed=1)
    settings = Settings(figures=(2,), clicks=(1000,), runs=1, max_epochs=2, clip="none", learning_rate=1.0)
    runner = CellRunner({0: fold})
    for cell in all_cells(grid(settings))[:6]:
        row = json.loads(json.dumps(runner.run(cell)))
        assert row["groups"].keys() == {"arp", "dcg@5"}
        for name, values in row["groups"].items():
            assert np.mean(values) == pytest.approx(row["metrics"][name], rel=1e-6)
        assert row["stages"].keys() == {"simulation", "training", "evaluation"}
        assert sum(row["stages"].values()) == pytest.approx(row["seconds"], abs=0.002)


@pytest.mark.parametrize("shape", ["yahoo", "mslr"])
def test_metrics_by_group(shape):
    """The same metrics as `evaluate`; groups of one query each have that query's own, where each counts alike."""
    data = make_fold(shape, 200, seed=2).train
    scores = np.random.default_rng(0).random(data.n_docs).round(1)  # ties
    groups, names = query_groups(data, 3), ["arp", "dcg@5", "ndcg@5", "precision@5"]
    metrics, by_group = evaluate_groups(scores, data, groups, metrics=names)
    assert metrics == evaluate(scores, data, metrics=names)
    assert {name: values.mean() for name, values in by_group.items()} == pytest.approx(metrics)
    single = query_ids_in_order(data)
    _, alone = evaluate_groups(scores, data, single, metrics=["dcg@5"])
    own = evaluate_queries(scores, data, metrics=["dcg@5"])["dcg@5"]
    assert np.sort(alone["dcg@5"]) == pytest.approx(np.sort(own[np.isfinite(own)]))


def query_ids_in_order(data):
    """A group of its own for each query with a relevant document."""
    relevant = np.add.reduceat(data.labels >= 3, data.offsets[:-1]) > 0
    return np.where(relevant, np.cumsum(relevant) - 1, 0)


@pytest.mark.statistical
def test_the_variance_of_arp_is_that_of_new_queries():
    """ARP is a ratio of sums; from 200 sets of queries its standard deviation has a relative error of 5 %, that of one
    set by groups of 9 %: by chance they differ by more than 40 % less than once in 1,000 seeds.
    """
    found = []
    for seed in range(200):
        data = make_fold("yahoo", 160, seed=seed).train
        value, by_group = evaluate_groups(data.features[:, 0], data, query_groups(data, 3), metrics=["arp"])
        found.append((value["arp"], by_group["arp"].var(ddof=1) / len(by_group["arp"])))
    values, variances = np.array(found).T
    assert np.sqrt(variances.mean()) == pytest.approx(values.std(ddof=1), rel=0.2)


def test_groups_of_queries():
    data = make_fold("yahoo", 400, seed=3).train
    relevant = np.add.reduceat(data.labels >= 3, data.offsets[:-1]) > 0
    groups = query_groups(data, 3)
    sizes = np.bincount(groups[relevant], minlength=64)
    assert (len(sizes), sizes.max() - sizes.min() <= 1) == (64, True)
    turned = data.subset(np.arange(data.n_queries)[::-1])  # a group goes with the id of its query, not with its place
    assert query_groups(turned, 3)[::-1][relevant].tolist() == groups[relevant].tolist()
    one = RankingData([[0.0]], [0, 1], labels=[4])
    assert query_groups(one, 3).tolist() == [0]


def test_queries_of_training_and_of_test_are_cut_apart(tmp_path):
    settings = replace(SETTINGS, queries=12, test_queries=None)
    for given, source, test in ((None, DATA, 8), (5 * 2, "synthetic:yahoo", 10), (10, DATA, 8)):
        folder = tmp_path / f"{given}{test}"
        about = reproduce(source, folder, replace(settings, test_queries=given), engine=World()).about
        assert [about["data"][0]["parts"][part]["queries"] for part in ("train", "test")] == [12, test]


def test_a_run_in_workers_has_it_all(tmp_path):
    settings = Settings(figures=(2,), clicks=(100,), runs=2, max_epochs=1, clip="none", learning_rate=1.0)
    summary = summarize(reproduce(DATA, tmp_path / "run", settings, jobs=1))
    assert summary.stages.keys() == {"simulation", "training", "evaluation"}
    assert sum(summary.stages.values()) == pytest.approx(sum(row.total_seconds for row in summary.timings), abs=0.1)
    lines = (tmp_path / "run" / RESULTS).read_text().splitlines()
    assert all("groups" in json.loads(line) for line in lines)
    assert isinstance(read_run(tmp_path / "run").folder, Path)

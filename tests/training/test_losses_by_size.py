"""The benchmark of losses by number of training queries: its samples, variants, resumption and intervals."""

import json
from itertools import pairwise

import numpy as np
import pytest
from benchmarks import losses_by_size
from benchmarks.losses_by_size import (
    COMPARED,
    PLAIN,
    VARIANTS,
    VARIED,
    AveragedRun,
    Job,
    ShrunkRun,
    by_group,
    descend,
    effective_share,
    mean_model,
    run_job,
    splits,
    untrained,
)
from benchmarks.losses_by_size_tables import compare, percent

from counterrank import make_ranking_data
from counterrank.estimators import full_information
from counterrank.experiments.demo import train_production
from counterrank.losses import lambdaloss_truncated
from counterrank.models import LinearModel


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(losses_by_size, "N_TEST", 40)
    monkeypatch.setattr(losses_by_size, "N_VALIDATION", 25)
    monkeypatch.setattr(losses_by_size, "CLICKS", 100)


@pytest.fixture
def split(small, tmp_path):
    (found,) = splits(tmp_path, "synthetic:yahoo", 60, 0)
    return found


def test_runs_all_losses_and_variants_and_resumes(small, tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    arguments = ["--out", str(out), "--data", "synthetic:yahoo", "--sizes", "60", "--runs", "2"]
    arguments += ["--evidence", "labels,clicks,rerank"]
    losses_by_size.main([*arguments, "--variants", "orders"])
    losses_by_size.main([*arguments, "--variants", ",".join(VARIANTS)])
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    found = [(row["evidence"], row["run"], row["loss"], row["variant"]) for row in rows]

    def allowed(loss, variant):
        return loss == "lambdaloss-truncated" or not variant.startswith("top-")

    plain = {(kind, run, loss, PLAIN) for kind in ("labels", "clicks") for run in (0, 1) for loss in COMPARED}
    varied = {
        ("labels", run, loss, variant)
        for run in (0, 1)
        for loss in VARIED
        for variant in VARIANTS
        if allowed(loss, variant)
    }
    rerank = {("rerank", run, "lambdaloss-truncated", PLAIN) for run in (0, 1)}
    production = {(kind, run, "production", PLAIN) for kind in ("labels", "clicks", "rerank") for run in (0, 1)}
    assert sorted(found) == sorted(plain | varied | rerank | production)
    for row in rows:
        assert 0 < row["test dcg@5"] < 3
        assert 0 < row["train dcg@5"] < 3
        assert 0 < row.get("effective documents", 1.0) <= 1
        assert np.mean(row["groups"]) == pytest.approx(row["test dcg@5"], abs=1e-5)
    before = out.read_bytes()
    losses_by_size.main([*arguments, "--show"])
    losses_by_size.main([*arguments, "--variants", ",".join(VARIANTS)])
    assert out.read_bytes() == before
    assert "relative to lambdaloss-truncated" in capsys.readouterr().out


def test_samples_of_synthetic_data(small, tmp_path):
    """Smaller samples are the first queries of larger ones; test queries and the production ranker are shared."""
    sizes = [next(splits(tmp_path, "synthetic:mslr", queries, 1)) for queries in (500, 520)]
    for small_one, large in pairwise(sizes):
        assert (large.train.subset(range(500)).features == small_one.train.features).all()
        assert small_one.test is large.test
        assert (large.production.model_.coefficients == small_one.production.model_.coefficients).all()
    other = next(splits(tmp_path, "synthetic:mslr", 500, 2))
    assert other.test is sizes[0].test
    assert other.train.features[0].tolist() != sizes[0].train.features[0].tolist()


@pytest.mark.parametrize(("queries", "learned_from"), [(50, 3), (499, 3), (500, 20), (520, 20)])
def test_production_rankers_of_synthetic_data(small, tmp_path, monkeypatch, queries, learned_from):
    sizes = []

    def spy(*arguments):
        ranker, size = train_production(*arguments)
        sizes.append(size)
        return ranker, size

    monkeypatch.setattr(losses_by_size, "train_production", spy)
    next(splits(tmp_path, "synthetic:mslr", queries, 1))
    assert sizes == [learned_from]


def test_a_run_on_real_data_tests_each_query_once(small, tmp_path, monkeypatch):
    monkeypatch.setattr(losses_by_size, "pool", lambda folder, name: make_ranking_data("yahoo", 50, seed=0))
    places, seen = [], []
    for part in splits(tmp_path, "ohsumed", 1000, 0):
        assert (part.train.n_queries, part.validation.n_queries, part.test.n_queries) == (30, 10, 10)
        ids = [set(one.query_ids.tolist()) for one in (part.train, part.validation, part.test)]
        assert len(set.union(*ids)) == 50
        places += part.places.tolist()
        seen += part.test.query_ids.tolist()
    assert sorted(places) == list(range(50))
    assert seen == places
    (row, _) = run_job(tmp_path, Job("ohsumed", 20, "labels", 0), {("arp-hinge", PLAIN), ("production", PLAIN)})
    assert len(row["groups"]) == 50


def test_runs_of_the_benchmark_are_those_of_a_ranker(split):
    """Without shrinking, coefficients are those of `Ranker.fit` bit for bit."""
    weights = tuple(full_information(part, 3) for part in (split.train, split.validation))
    base = untrained("lambdaloss-truncated", 3, learning_rate=1.0)
    base.fit(split.train, weights[0], validation=(split.validation, weights[1]))
    same = descend(ShrunkRun, split, weights, base, (1.0,))
    assert same.model.coefficients.tolist() == base.model_.coefficients.tolist()
    assert same.about["best_epoch"] == base.best_epoch_
    shrunk = descend(ShrunkRun, split, weights, base, (0.5,)).model.coefficients
    assert 0.0 < np.linalg.norm(shrunk) < np.linalg.norm(base.model_.coefficients)


def test_mean_of_epochs(split):
    """The kept coefficients are the mean of those after each of the last ten epochs up to the best one."""
    weights = tuple(full_information(part, 3) for part in (split.train, split.validation))
    base = untrained("lambdaloss-truncated", 3, learning_rate=0.05)
    base.fit(split.train, weights[0], validation=(split.validation, weights[1]))
    model, about = descend(AveragedRun, split, weights, base, (1.0,))
    assert about["best_epoch"] > 1
    last = [
        untrained("lambdaloss-truncated", 3, learning_rate=0.05, max_epochs=epochs).fit(split.train, weights[0])
        for epochs in range(max(1, about["best_epoch"] - 9), about["best_epoch"] + 1)
    ]
    mean = np.mean([ranker.model_.coefficients for ranker in last], axis=0)
    assert model.coefficients == pytest.approx(mean)


def test_effective_share_of_relevant_documents(split):
    """It follows from the gradient of the loss for the scores."""
    weights = full_information(split.train, 3)
    ranker = untrained("lambdaloss-truncated", 0).fit(split.train, weights)
    _, gradient = lambdaloss_truncated(ranker.predict(split.train), weights, split.train.offsets, 5)
    relevant = [abs(g) for g, w in zip(gradient, weights, strict=True) if w > 0]
    expected = sum(relevant) ** 2 / sum(g * g for g in relevant) / len(relevant)
    assert effective_share(ranker, split.train, weights) == pytest.approx(expected)


def test_mean_model_does_not_depend_on_scale(split):
    scaler = split.production.model_.scaler
    found = mean_model(LinearModel(np.array(one), scaler) for one in ([3.0, 4.0], [0.0, 0.1]))
    assert found.coefficients.tolist() == pytest.approx([0.3, 0.9])


def test_groups_have_the_mean_of_queries():
    values = np.array([1.0, np.nan, 3.0, 0.5] * 40)
    assert np.mean(by_group(values)) == pytest.approx(np.nanmean(values), abs=1e-6)


def test_compares_runs_that_both_have():
    def row(run, level):
        return {"run": run, "groups": [level - 0.1, level + 0.1], "train dcg@5": level}

    one, other = [row(0, 1.1), row(1, 1.1), row(5, 9.0)], [row(1, 1.0), row(0, 1.0)]
    for metric in ("test dcg@5", "train dcg@5"):
        found = compare(one, other, metric)
        assert found.runs == 2
        assert found.value == pytest.approx(0.1)
    assert percent(compare(one, [])) == ""

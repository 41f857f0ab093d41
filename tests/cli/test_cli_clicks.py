"""The commands that deal with clicks: a newcomer's path on files alone, and what goes wrong on it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import counterrank as cr
from counterrank.cli import app
from counterrank.clicks import read_log
from counterrank.data.sources import open_data
from tests.support.command import as_json, attempt, invoke, run

DATA = "synthetic:yahoo:queries=120,seed=1"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A production ranker, clicks on its pages (counts, pages and logs), and a ranker learned from them."""
    folder = tmp_path_factory.mktemp("clicks")
    production, clicks = folder / "production", folder / "clicks"
    invoke("train", DATA, "--share", 0.05, "--loss", "arp-hinge", "--max-epochs", 20, "--out", production)
    fixed = ("simulate", DATA, "--logger", production, "--policy", "replace-last:k=5")
    invoke(*fixed, "--n-clicks", "1e5", "--displays", "--out", clicks)
    invoke(*fixed, "--n-sessions", 20000, "--as-log", "--out", folder / "log")
    aware = ("train", DATA, "--clicks", clicks, "--max-epochs", 20)
    invoke(*aware, "--k", 5, "--out", folder / "aware")
    invoke(*aware, "--loss", "arp-hinge", "--out", folder / "aware-arp")
    return folder


def test_simulate_writes_clicks_of_every_part(place):
    about = json.loads((place / "clicks" / "simulation.json").read_text())
    assert [row["part"] for row in about["parts"]] == ["train", "validation", "test"]
    fold = open_data(DATA)
    for part, wanted in (("train", 100_000), ("validation", 15_000), ("test", 15_000)):
        counts = cr.ClickCounts.load(place / "clicks" / part)
        counts.check_data(getattr(fold, part))
        assert wanted <= counts.n_clicks < wanted + 5
        assert counts.displays is not None
        rho = cr.policies.ReplaceLast(5).propensity(
            cr.Ranker.load(place / "production").predict(getattr(fold, part)),
            getattr(fold, part).offsets,
            cr.examination.inverse_rank(),
        )
        np.testing.assert_allclose(counts.propensities, rho[counts.docs])


def test_parts_do_not_repeat_each_other(place):
    parts = [cr.ClickCounts.load(place / "clicks" / part) for part in ("validation", "test")]
    assert parts[0].sessions[:20].tolist() != parts[1].sessions[:20].tolist()


def test_a_log_and_its_counts_give_the_same_results(place):
    train = open_data(DATA).train
    counts = read_log(place / "log" / "train.parquet", train)
    assert counts.n_sessions == 20000
    assert counts.impressions[counts.ranks == 1].sum() == 20000


@pytest.mark.parametrize("estimator", ["naive", "policy-oblivious", "policy-aware", "rerank"])
@pytest.mark.parametrize("source", ["clicks", "log"])
def test_train_with_every_estimator(place, tmp_path, source, estimator):
    curve = ("--examination", "inverse-rank:eta=1") if source == "log" else ()
    found = as_json(
        "train", DATA, f"--{source}", place / source, "--estimator", estimator, *curve, "--k", 5, "--max-epochs", 2,
        "--learning-rate", 1, "--out", tmp_path / "ranker",
    )  # fmt: skip
    assert found["estimator"] == estimator
    assert found["validation_clicks"] > 0
    assert cr.Ranker.load(tmp_path / "ranker").best_epoch_ == found["best_epoch"]


def test_train_says_what_the_library_does(place, tmp_path):
    fold = open_data(DATA)
    counts = {part: cr.ClickCounts.load(place / "clicks" / part) for part in ("train", "validation")}
    weights = {part: cr.estimators.policy_aware(counts[part], clip=20 if part == "train" else None) for part in counts}
    same = cr.Ranker(k=5, max_epochs=3).fit(
        fold.train, weights["train"], validation=(fold.validation, weights["validation"])
    )
    arguments = ("--clicks", place / "clicks", "--clip", 20, "--k", 5, "--max-epochs", 3, "--out", tmp_path / "ranker")
    invoke("train", DATA, *arguments)
    np.testing.assert_array_equal(cr.Ranker.load(tmp_path / "ranker").predict(fold.test), same.predict(fold.test))


def test_propensities_of_a_named_policy_are_those_logged(place, tmp_path):
    fixed = ("train", DATA, "--clicks", place / "clicks", "--k", 5, "--max-epochs", 2, "--learning-rate", 1)
    invoke(*fixed, "--out", tmp_path / "logged")
    policy = ("--policy", "replace-last:k=5", "--logger", place / "production", "--examination", "inverse-rank:eta=1")
    invoke(*fixed, *policy, "--out", tmp_path / "named")
    test = open_data(DATA).test
    one, other = (cr.Ranker.load(tmp_path / name).predict(test) for name in ("logged", "named"))
    np.testing.assert_allclose(one, other)


def test_clips_are_tried(place, tmp_path):
    arguments = ("--clip", "auto", "--k", 5, "--max-epochs", 2, "--learning-rate", 1, "--out", tmp_path / "ranker")
    found = as_json("train", DATA, "--clicks", place / "clicks", *arguments)
    assert found["clips_tried"].count(":") == 6


def test_estimate(place):
    found = as_json("estimate", place / "aware", DATA, "--clicks", place / "clicks", "--metrics", "dcg@5,arp")
    estimate = found["estimates"]["dcg@5"]
    low, high = estimate["self_normalized_interval"]
    assert low < estimate["self_normalized"] < high
    fold = open_data(DATA)
    counts = cr.ClickCounts.load(place / "clicks" / "test")
    scores = cr.Ranker.load(place / "aware").predict(fold.test)
    with pytest.warns(cr.evaluation.IntervalWarning):  # 24 queries are few
        same = cr.evaluation.estimate(scores, fold.test, counts, metrics=["dcg@5"])["dcg@5"]
    assert estimate["ips"] == pytest.approx(same.ips)
    assert estimate["ips_interval"] == pytest.approx(same.ips_interval)


def test_estimate_says_what_it_doubts(place):
    result = invoke("estimate", place / "aware", DATA, "--clicks", place / "clicks", "--metrics", "dcg@5")
    assert "24 queries" in result.stdout
    assert "Warning: " in result.stderr


def test_estimate_against_another(place):
    arguments = (DATA, "--clicks", place / "clicks", "--metrics", "dcg@5", "--noise", "0.1,1")
    policy = ("--policy", "replace-last:k=5", "--logger", place / "production")
    found = as_json("estimate", place / "aware", *arguments, "--against", place / "production", *policy)
    back = as_json("estimate", place / "production", *arguments, "--against", place / "aware", *policy)
    assert found["estimates"]["dcg@5"]["ips"] == pytest.approx(-back["estimates"]["dcg@5"]["ips"])


def test_estimate_ends_with_a_verdict(place):
    fixed = ("estimate", place / "aware", DATA, "--clicks", place / "clicks", "--against", place / "production")
    *_, last = invoke(*fixed, "--population", "these-queries").stdout.splitlines()
    assert last.startswith(f"{place / 'aware'} is better than {place / 'production'}: dcg@5 per session +")
    assert last.endswith("), for these queries.")
    verdict = as_json(*fixed, "--population", "these-queries")["verdict"]
    assert (verdict["decision"], verdict["passes"], verdict["exit_code"], verdict["sentence"]) == (
        "better",
        True,
        0,
        last,
    )
    estimate = as_json(*fixed, "--population", "these-queries")["estimates"]["dcg@5"]
    assert [verdict["estimate"], verdict["lower"], verdict["upper"]] == [estimate["ips"], *estimate["ips_interval"]]
    by_rank = as_json(*fixed, "--metrics", "arp,dcg@5")  # the first metric is what counts
    low, high = by_rank["estimates"]["arp"]["self_normalized_interval"]
    assert (by_rank["verdict"]["lower"], by_rank["verdict"]["upper"]) == (-high, -low)
    single = invoke(*fixed[:5], "--metrics", "dcg@5").stdout
    assert "better than" not in single
    assert as_json(*fixed[:5], "--metrics", "dcg@5")["verdict"] is None


@pytest.mark.parametrize(
    ("model", "other", "more", "code"),
    [
        ("aware", "production", (), 0),
        ("production", "aware", (), 4),
        ("aware", "aware", (), 3),
        ("aware", "aware", ("--margin", "-0.001"), 0),
        ("aware", "production", ("--margin", "1000"), 3),
        ("production", "aware", ("--margin", "-1000"), 0),
        ("production", "aware-arp", ("--metrics", "arp"), 4),
        ("aware-arp", "production", ("--metrics", "arp", "--json"), 0),
    ],
)
def test_the_gate(place, model, other, more, code):
    fixed = ("estimate", place / model, DATA, "--clicks", place / "clicks", "--against", place / other)
    fixed += ("--population", "these-queries", *more)
    result = attempt(*fixed, "--gate")
    assert result.exit_code == code
    if "--json" in more:
        assert json.loads(result.stdout)["verdict"]["exit_code"] == code
    assert invoke(*fixed).stdout == result.stdout  # without it the exit code is 0 whatever the verdict


def test_exit_codes_of_the_gate_as_a_script_sees_them(place):
    fixed = ("--clicks", place / "clicks", "--population", "these-queries", "--gate", "--against")
    better = run("estimate", place / "aware", DATA, *fixed, place / "production")
    worse = run("estimate", place / "production", DATA, *fixed, place / "aware")
    same = run("estimate", place / "aware", DATA, *fixed, place / "aware")
    bad = run("estimate", place / "aware", DATA, *fixed, place / "nowhere")
    assert [each.returncode for each in (better, worse, same, bad)] == [0, 4, 3, 2]
    assert "undecided whether" in same.stdout.splitlines()[-1]
    assert bad.stdout == ""


def test_doubly_robust_estimates(place):
    """The curve is that which simulated clicks remember."""
    arguments = (DATA, "--clicks", place / "clicks", "--metrics", "dcg@5", "--method", "dr")
    found = as_json("estimate", place / "aware", *arguments)["estimates"]["dcg@5"]
    assert found["method"] == "dr"
    fold = open_data(DATA)
    counts = cr.ClickCounts.load(place / "clicks" / "test")
    scores = cr.Ranker.load(place / "aware").predict(fold.test)
    with pytest.warns(cr.evaluation.IntervalWarning):
        same = cr.evaluation.estimate(scores, fold.test, counts, metrics=["dcg@5"], method="dr")["dcg@5"]
    assert found["ips"] == pytest.approx(same.per_session)
    assert found["ips_interval"] == pytest.approx(same.per_session_interval)
    against = as_json("estimate", place / "aware", *arguments, "--against", place / "production")
    assert against["estimates"]["dcg@5"]["method"] == "dr"
    assert "doubly robust" in invoke("estimate", place / "aware", *arguments).stdout
    rankers = (place / "production", place / "aware")
    chosen = as_json("select", DATA, *rankers, "--clicks", place / "clicks", "--method", "dr", "--part", "test")
    assert [row["estimate"]["method"] for row in chosen["rankers"]] == ["dr", "dr"]


def test_control_variates(place):
    """The curve is that which simulated clicks remember."""
    arguments = (DATA, "--clicks", place / "clicks", "--metrics", "dcg@5", "--control", "optimal")
    found = as_json("estimate", place / "aware", *arguments)["estimates"]["dcg@5"]
    assert found["control"] == "optimal"
    fold = open_data(DATA)
    counts = cr.ClickCounts.load(place / "clicks" / "test")
    scores = cr.Ranker.load(place / "aware").predict(fold.test)
    with pytest.warns(cr.evaluation.IntervalWarning):
        same = cr.evaluation.estimate(scores, fold.test, counts, metrics=["dcg@5"], control="optimal")["dcg@5"]
    assert found["ips"] == pytest.approx(same.ips)
    assert found["ips_interval"] == pytest.approx(same.ips_interval)
    assert "with control variates" in invoke("estimate", place / "aware", *arguments).stdout
    rankers = (place / "production", place / "aware")
    chosen = as_json("select", DATA, *rankers, "--clicks", place / "clicks", "--control", "optimal", "--part", "test")
    assert [row["estimate"]["control"] for row in chosen["rankers"]] == ["optimal", "optimal"]


def test_select_among_rankers(place, tmp_path):
    rankers = (place / "production", place / "aware")
    found = as_json(
        "select", DATA, *rankers, "--clicks", place / "clicks", "--part", "test", "--out", tmp_path / "best"
    )
    assert found["best"] in map(str, rankers)
    shares = [row["chosen_in_resamples"] for row in found["rankers"]]
    assert sum(shares) == pytest.approx(1.0)
    assert found["stability"] == shares[list(map(str, rankers)).index(found["best"])]
    test = open_data(DATA).test
    best = cr.Ranker.load(tmp_path / "best").predict(test)
    np.testing.assert_array_equal(best, cr.Ranker.load(found["best"]).predict(test))


def test_select_trains_losses_first(place, tmp_path):
    losses = "dcg-hinge,lambdaloss-truncated"
    arguments = ("--losses", losses, "--k", 5, "--clicks", place / "clicks", "--out", tmp_path / "best")
    found = as_json("select", DATA, *arguments)
    assert [row["ranker"] for row in found["rankers"]] == losses.split(",")
    assert cr.Ranker.load(tmp_path / "best").loss == found["best"]


def test_losses_with_and_without_cutoff_are_trained_side_by_side(place):
    arguments = ("--losses", "arp-hinge,lambdaloss-truncated", "--k", 5, "--clicks", place / "clicks")
    assert len(as_json("select", DATA, *arguments)["rankers"]) == 2
    assert "a little too good" in invoke("select", DATA, *arguments).stderr


@pytest.mark.parametrize("estimator", ["naive", "policy-oblivious", "rerank", "shrinkage", "full-information"])
def test_select_trains_with_another_estimator(place, tmp_path, estimator):
    losses = ("--losses", "lambdaloss-truncated", "--k", 5, "--estimator", estimator)
    found = as_json("select", DATA, *losses, "--clicks", place / "clicks", "--out", tmp_path / "best")
    assert cr.Ranker.load(tmp_path / "best").provenance_["estimator"]["name"] == estimator
    assert found["in_sample"] is (estimator not in ("shrinkage", "full-information"))  # these stop by other evidence


def test_hyperparameters_of_the_estimator(place, tmp_path):
    test = open_data(DATA).test
    fixed = ("--clicks", place / "clicks", "--k", 5, "--max-epochs", 5, "--learning-rate", 10, "--out")
    invoke("train", DATA, "--clip", 10, *fixed, tmp_path / "flag")
    invoke("train", DATA, "--estimator-param", "clip=10", *fixed, tmp_path / "named")
    flag, named = (cr.Ranker.load(tmp_path / name) for name in ("flag", "named"))
    assert named.provenance_["estimator"]["clip"] == 10.0
    np.testing.assert_array_equal(flag.predict(test), named.predict(test))


def test_hyperparameters_of_a_registered_estimator(place, tmp_path, monkeypatch):
    def weigh(data, evidence, power=1.0):
        return evidence.clicks.by_document(evidence.clicks.clicks) ** power

    needs, own = ("clicks",), {"power": "exponent of the number of clicks"}
    entry = cr.estimators.Estimator("power", "a power of clicks", "clicks(d)**power", "never", needs, own, weigh=weigh)
    monkeypatch.setitem(cr.estimators.ESTIMATORS, "power", entry)
    fixed = ("train", DATA, "--clicks", place / "clicks", "--max-epochs", 2, "--estimator", "power")
    invoke(*fixed, "--estimator-param", "power=0.5", "--out", tmp_path / "ranker")
    assert cr.Ranker.load(tmp_path / "ranker").provenance_["estimator"]["power"] == 0.5
    with pytest.raises(cr.CounterrankError, match=r"--estimator-param tau=1: .* has no tau, a hyperparameter of auto"):
        attempt(*fixed, "--estimator-param", "tau=1", "--out", tmp_path / "other")


def test_inspect(place):
    found = as_json("inspect", place / "clicks", "--part", "train", "--examination", "inverse-rank:eta=1")
    assert found["overview"]["clicks"] == sum(row["clicks"] for row in found["ranks"])
    assert [row["P(examined)"] for row in found["ranks"]] == [1 / rank for rank in range(1, 6)]
    assert 0 < found["weights"]["effective_sample_size"] <= found["overview"]["clicks"]
    assert found["coverage"]["policy-aware_condition_holds"] == "yes"  # data, policy and logger are remembered


def test_inspect_of_clicks_alone(place, tmp_path):
    shutil.copytree(place / "clicks" / "train", tmp_path / "clicks")
    found = as_json("inspect", tmp_path / "clicks")["coverage"]
    assert found["candidates"] >= found["never_shown"]
    assert "by_old_rank" not in found


def test_inspect_with_a_policy_reports_its_coverage(place):
    logger = ("--data", DATA, "--logger", place / "production", "--policy")
    assert as_json("inspect", place / "clicks", *logger, "replace-last:k=5")["coverage"]["never_examinable"] == 0
    found = as_json("inspect", place / "clicks", *logger, "deterministic:k=5")["coverage"]
    assert found["never_examinable"] > 0
    assert found["policy-aware_condition_holds"] == "no"


def test_tables_for_people(place):
    assert "By rank" in invoke("inspect", place / "clicks").stdout
    assert "self-normalised" in invoke("estimate", place / "aware", DATA, "--clicks", place / "clicks").stdout
    assert "chosen" in invoke("select", DATA, place / "aware", "--clicks", place / "clicks", "--part", "test").stdout


def test_a_warning_where_an_estimator_is_biased(place, tmp_path):
    arguments = ("--estimator", "policy-oblivious", "--k", 5, "--max-epochs", 2, "--learning-rate", 1)
    result = invoke("train", DATA, "--clicks", place / "clicks", *arguments, "--out", tmp_path / "ranker")
    assert "Warning: " in result.stderr
    assert "eq:agnosticcond" in result.stderr


def test_scores_as_logger(place, tmp_path):
    fold = open_data(DATA)
    fold.train.save(tmp_path / "train.parquet")
    scores = cr.Ranker.load(place / "production").predict(fold.train)
    np.save(tmp_path / "scores.npy", scores)
    np.savetxt(tmp_path / "scores.txt", scores)
    for name in ("scores.npy", "scores.txt"):
        out = tmp_path / name.replace(".", "-")
        fixed = ("simulate", tmp_path / "train.parquet", "--logger", tmp_path / name, "--n-sessions", 1000)
        invoke(*fixed, "--policy", "deterministic:k=3", "--out", out)
    counts = [cr.ClickCounts.load(tmp_path / name / "train") for name in ("scores-npy", "scores-txt")]
    np.testing.assert_array_equal(counts[0].docs, counts[1].docs)
    np.testing.assert_array_equal(counts[0].clicks, counts[1].clicks)


def test_click_models_on_the_command_line(place, tmp_path):
    fixed = ("simulate", DATA, "--logger", place / "production", "--n-sessions", 20000)
    n_clicks = {}
    for name, options in {"plain": (), "graded": ("--click-gain", "graded"), "trust": ("--trust-bias", 1)}.items():
        invoke(*fixed, *options, "--out", tmp_path / name)
        n_clicks[name] = cr.ClickCounts.load(tmp_path / name / "train").n_clicks
    assert len(set(n_clicks.values())) == 3
    assert n_clicks["trust"] > n_clicks["plain"]


SIMULATE = ("simulate", DATA, "--logger", "{place}/production", "--out", "{out}")
BAD = {
    SIMULATE: "--n-clicks, --n-sessions: expected one of the two",
    (*SIMULATE, "--n-clicks", "many"): "--n-clicks many: expected a whole number",
    (*SIMULATE, "--n-clicks", "10", "--as-log"): "--as-log: requires --n-sessions",
    (*SIMULATE, "--n-clicks", "10", "--policy", "best:k=5"): "--policy best:k=5: unknown; expected one of",
    (*SIMULATE, "--n-clicks", "10", "--policy", "replace-last:k=0"): "--policy replace-last:k=0: k=0: expected a whole",
    (*SIMULATE, "--n-clicks", "10", "--policy", "replace-last:depth=5"): "no setting 'depth'; expected k",
    (*SIMULATE, "--n-clicks", "10", "--examination", "1,2"): "--examination 1,2: 2 at rank 2",
    (*SIMULATE, "--n-clicks", "10", "--relevant", "2"): "--relevant 2.0: expected probabilities from 0 to 1",
    (*SIMULATE, "--n-clicks", "10", "--trust-bias", "5"): "--trust-bias 5.0: expected a number from 0 to 1",
    (*SIMULATE, "--n-sessions", "10", "--as-log", "--displays"): "--displays, --as-log: a log holds every page anyway",
    ("train", DATA, "--policy", "replace-last:k=5", "--out", "{out}"): "require --clicks or --log",
    ("select", DATA, "--clicks", "{place}/clicks", "--losses", "arp-hinge,best", "--k", "5"): "--losses best: expected",
    (
        "simulate",
        DATA,
        "--logger",
        "nowhere",
        "--out",
        "{out}",
        "--n-clicks",
        "10",
    ): "nowhere: no such ranker or scores",
    (
        "train",
        DATA,
        "--estimator",
        "policy-aware",
        "--out",
        "{out}",
    ): "--estimator policy-aware: requires --clicks or --log",
    (
        "train",
        DATA,
        "--clicks",
        "{place}/clicks",
        "--estimator",
        "full-information",
        "--out",
        "{out}",
    ): "requires labels",
    (
        "train",
        DATA,
        "--clicks",
        "{place}/clicks",
        "--estimator",
        "best",
        "--out",
        "{out}",
    ): "--estimator best: expected",
    ("train", DATA, "--clicks", "{place}/clicks", "--share", "0.5", "--out", "{out}"): "--share: is for labels",
    ("train", DATA, "--clicks", "{place}/clicks", "--clip", "low", "--out", "{out}"): "--clip low: expected none",
    ("train", DATA, "--clicks", "{place}/production", "--out", "{out}"): "no click counts in it",
    ("train", DATA, "--clicks", "{place}/clicks", "--log", "{place}/log", "--out", "{out}"): "expected one of the two",
    (
        "train",
        DATA,
        "--log",
        "{place}/log",
        "--estimator",
        "rerank",
        "--out",
        "{out}",
    ): "requires the examination curve",
    ("train", "synthetic:yahoo", "--clicks", "{place}/clicks", "--out", "{out}"): "counted against other data",
    ("estimate", "{place}/aware", DATA): "--clicks, --log: expected one of the two",
    ("estimate", "{place}/aware", DATA, "--clicks", "{place}/clicks", "--metrics", "ndcg@5"): "--metrics ndcg@5: ",
    ("estimate", "{place}/aware", DATA, "--clicks", "{place}/clicks", "--noise", "0.1"): "--noise 0.1: expected 2",
    (
        "estimate",
        "{place}/aware",
        DATA,
        "--clicks",
        "{place}/clicks",
        "--population",
        "all",
    ): "--population all: expected",
    ("estimate", "{place}/aware", DATA, "--clicks", "{place}/clicks", "--policy", "deterministic"): "expected both",
    ("estimate", "{place}/aware", DATA, "--clicks", "{place}/clicks", "--method", "best"): "--method best: expected",
    ("estimate", "{place}/aware", DATA, "--log", "{place}/log", "--method", "dr"): "--examination: not known",
    ("estimate", "{place}/aware", DATA, "--clicks", "{place}/clicks", "--gate"): "require --against",
    ("estimate", "{place}/aware", DATA, "--clicks", "{place}/clicks", "--margin", "0.1"): "require --against",
    ("estimate", "nowhere", DATA, "--against", "nowhere", "--margin", "nan"): "--margin nan: expected a number",
    ("train", DATA, "--clip", "5", "--out", "{out}"): "--clip 5: full-information has no clip, a hyperparameter of",
    (
        "train",
        DATA,
        "--clicks",
        "{place}/clicks",
        "--gain",
        "binary",
        "--out",
        "{out}",
    ): "a hyperparameter of full-information",
    (
        "train",
        DATA,
        "--clicks",
        "{place}/clicks",
        "--relevance-threshold",
        "2",
        "--out",
        "{out}",
    ): "a hyperparameter of full-information",
    ("inspect", "{place}/clicks", "--policy", "replace-last:k=5"): "expected --data too",
    ("demo", "--shape", "web"): "--shape web: expected one of",
    ("demo", "--queries", "3"): "--queries 3: expected a whole number of at least 20",
    ("select", DATA, "--clicks", "{place}/clicks"): "nothing to choose from",
    ("inspect", "{place}/clicks", "--part", "all"): "--part all: expected one of train, validation, test",
    ("inspect", "{place}/clicks", "--data", DATA, "--policy", "replace-last:k=5"): "expected --logger too",
}


@pytest.mark.parametrize(("arguments", "message"), BAD.items())
def test_bad_input(place, tmp_path, arguments, message):
    filled = [str(word).format(place=place, out=tmp_path / "out") for word in arguments]
    result = CliRunner().invoke(app, filled)
    assert isinstance(result.exception, cr.CounterrankError)
    assert message in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_an_older_simulation_is_replaced_and_other_folders_are_not(place, tmp_path):
    fixed = ("simulate", DATA, "--logger", place / "production", "--n-sessions", 100, "--out")
    invoke(*fixed, tmp_path / "clicks")
    invoke(*fixed, tmp_path / "clicks", "--force")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    with pytest.raises(cr.CounterrankError, match="left untouched"):
        attempt(*fixed, tmp_path / "mine", "--force")
    shutil.rmtree(tmp_path / "clicks" / "train")
    with pytest.raises(cr.CounterrankError, match="no clicks of the train part"):
        attempt("inspect", tmp_path / "clicks")


def test_a_policy_that_cannot_show_every_candidate_is_warned_about(place, tmp_path):
    fixed = ("simulate", DATA, "--logger", place / "production", "--n-sessions", 5000, "--policy", "deterministic:k=3")
    invoke(*fixed, "--out", tmp_path / "clicks")
    arguments = ("--clicks", tmp_path / "clicks", "--k", 3, "--max-epochs", 2, "--learning-rate", 1)
    assert "eq:awarecond" in invoke("train", DATA, *arguments, "--out", tmp_path / "ranker").stderr
    result = invoke("estimate", tmp_path / "ranker", DATA, "--clicks", tmp_path / "clicks")
    assert "eq:awarecond" in result.stderr


@pytest.mark.parametrize("content", [b"", b"not numpy"])
def test_broken_scores(place, tmp_path, content):
    (tmp_path / "scores.npy").write_bytes(content)
    with pytest.raises(cr.CounterrankError, match="not scores that can be read"):
        attempt("simulate", DATA, "--logger", tmp_path / "scores.npy", "--n-sessions", 10, "--out", tmp_path / "out")


def test_a_policy_that_contradicts_the_log_is_warned_about(place, tmp_path):
    fixed = ("train", DATA, "--clicks", place / "clicks", "--logger", place / "production", "--max-epochs", 2)
    wrong = invoke(*fixed, "--policy", "uniform-insert:k=5", "--out", tmp_path / "ranker")
    assert "rho differs from the propensities logged with the clicks" in wrong.stderr
    right = invoke(*fixed, "--policy", "replace-last:k=5", "--out", tmp_path / "other")
    assert "rho differs" not in right.stderr


def test_training_without_validation(place, tmp_path):
    found = as_json("train", DATA, "--validation", "none", "--max-epochs", 2, "--out", tmp_path / "ranker")
    assert (found["validation"], found["best_epoch"]) == (None, 2)


@pytest.mark.process
def test_a_signal_in_the_middle_leaves_nothing(place, tmp_path):
    """Plackett-Luce sessions take long enough to be stopped inside a kernel."""
    command = [sys.executable, "-m", "counterrank", "simulate", DATA, "--logger", str(place / "production")]
    command += ["--policy", "plackett-luce:k=5", "--n-sessions", "1e10", "--out", str(tmp_path / "out")]
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        # SIGINT would be ignored if the tests themselves run in the background
        process = subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=_listen)
        time.sleep(4.0)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (code, b"")
        assert list(tmp_path.iterdir()) == []


def _listen():
    signal.signal(signal.SIGINT, signal.default_int_handler)

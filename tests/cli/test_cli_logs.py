"""The commands on click logs: of all parts at once, under other names, of several policies, with faults."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank import examination, policies, simulation
from counterrank.data.sources import open_data
from tests.support.command import as_json, attempt, run

DATA = "synthetic:yahoo:queries=120,seed=1"
CURVE = ("--examination", "inverse-rank:eta=1")
QUICK = ("--k", 5, "--max-epochs", 2, "--learning-rate", 1)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A log of every part in one folder, by two policies that rank by one feature; and the same as CSV."""
    folder = tmp_path_factory.mktemp("logs")
    fold, exam = open_data(DATA), examination.inverse_rank()
    shown = {"old": policies.Deterministic(5), "new": policies.UniformInsert(5)}
    (folder / "log").mkdir()
    first = 0
    for part in ("train", "validation", "test"):
        data = getattr(fold, part)
        for name, policy in shown.items():
            file = folder / "log" / f"{name}-{part}.parquet"
            simulation.write_log(
                data, data.features[:, 0], policy, exam, file, sessions=4000, seed=first, propensities=False,
                policy_name=name, first_session=first,
            )  # fmt: skip
            first += 4000
    table = pq.read_table(folder / "log")
    renamed = ["session_id", "query_id", "doc_id", "position", "is_click", "policy"]
    table = table.select(["session_id", "query_id", "doc_id", "rank", "clicked", "policy"]).rename_columns(renamed)
    table = table.set_column(3, "position", pa.array(table["position"].to_numpy() - 1))
    pa.csv.write_csv(table, folder / "log.csv")
    return folder


BOTH = ("--policy", "old=deterministic:k=5", "--policy", "new=uniform-insert:k=5", "--logger", "feature:1", *CURVE)


def test_a_log_of_all_parts_is_split_by_its_queries(place, tmp_path):
    found = as_json("aggregate", place / "log", "--data", DATA, "--out", tmp_path / "clicks")
    assert [row["part"] for row in found["parts"]] == ["train", "validation", "test"]
    assert [row["pages"] for row in found["parts"]] == [8000, 8000, 8000]
    (report,) = found["read"]  # read once
    assert report["rows"] == report["rows_used"] == sum(row["impressions"] for row in found["parts"])
    counts = cr.ClickCounts.load(tmp_path / "clicks" / "validation")
    counts.check_data(open_data(DATA).validation)
    assert counts.policy_names == ("new", "old")


def test_several_policies_give_the_propensities_of_both(place, tmp_path):
    fold = open_data(DATA)
    as_json("aggregate", place / "log", "--data", DATA, "--out", tmp_path / "clicks")
    counts = cr.ClickCounts.load(tmp_path / "clicks" / "train")
    scores = fold.train.features[:, 0].astype(float)
    named = {"old": (policies.Deterministic(5), scores), "new": (policies.UniformInsert(5), scores)}
    rho = policies.several_policies(counts, named, examination.inverse_rank())
    weights = cr.estimators.policy_aware(counts, rho)
    same = cr.Ranker(k=5, max_epochs=2, learning_rate=1.0).fit(fold.train, weights)
    fixed = ("train", DATA, "--validation", "none", *QUICK, *BOTH)
    as_json(*fixed, "--clicks", tmp_path / "clicks", "--out", tmp_path / "a")
    as_json(*fixed, "--log", place / "log", "--out", tmp_path / "b")
    for name in "ab":
        ranker = cr.Ranker.load(tmp_path / name)
        np.testing.assert_array_equal(ranker.predict(fold.test), same.predict(fold.test))
    estimate = ("estimate", tmp_path / "a", DATA, "--log", place / "log", *BOTH, "--metrics", "dcg@5")
    assert as_json(*estimate)["estimates"]["dcg@5"]["n_sessions"] == 8000


def test_other_names_and_ranks_from_zero(place, tmp_path):
    names = ("--map", "rank=position,clicked=is_click", "--rank-base", 0)
    as_json("aggregate", place / "log.csv", *names, "--data", DATA, "--out", tmp_path / "csv")
    as_json("aggregate", place / "log", "--data", DATA, "--out", tmp_path / "parquet")
    for part in ("train", "test"):
        one, other = (cr.ClickCounts.load(tmp_path / name / part) for name in ("csv", "parquet"))
        for field in ("docs", "ranks", "impressions", "clicks", "sessions", "policies"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


@pytest.mark.parametrize("policy", ["estimated", "estimated:smoothing=auto", "fitted-plackett-luce:k=5"])
def test_unknown_policies(place, tmp_path, policy):
    fixed = ("train", DATA, "--log", place / "log", *QUICK, *CURVE, "--out", tmp_path / "ranker")
    found = as_json(*fixed, "--policy", policy)
    assert found["clicks"] > 1000
    assert found["validation_clicks"] > 1000


@pytest.mark.parametrize("known", [(), BOTH[:6]], ids=["by what the log shows", "by the policies"])
def test_affine(place, tmp_path, known):
    fixed = ("train", DATA, "--log", place / "log", *QUICK, "--estimator", "affine", "--out", tmp_path / "ranker")
    line = ("--alpha", "0.9,0.45,0.3,0.2,0.15", "--beta", "0.1,0.05,0.03,0.02,0.02")
    assert as_json(*fixed, *line, *known)["validation_clicks"] > 1000
    with pytest.raises(cr.CounterrankError, match="--alpha, --beta: expected both"):
        attempt(*fixed, *line[:2], "--force")


def test_an_estimated_curve_serves_as_examination(place, tmp_path):
    found = as_json("inspect", place / "log", "--examination-out", tmp_path / "curve.json")
    assert found["read"]["rows"] == found["read"]["rows_used"] == found["overview"]["impressions"]
    curve = examination.load(tmp_path / "curve.json").curve(5)
    assert curve[0] == 1.0
    assert (np.diff(curve) < 0.0).all()
    fixed = ("train", DATA, "--log", place / "log", "--estimator", "policy-oblivious", *QUICK, "--out", tmp_path / "r")
    assert as_json(*fixed, "--examination", tmp_path / "curve.json")["clicks"] > 1000


def test_inspect_with_data_and_both_policies(place, tmp_path):
    found = as_json("inspect", place / "log", "--data", DATA, "--part", "test", *BOTH, "--out", tmp_path / "page.html")
    assert found["overview"]["sessions"] == 8000
    assert {item["about"]: item["level"] for item in found["verdict"]}["policy-aware"] != "bad"
    assert (tmp_path / "page.html").stat().st_size > 100_000


@pytest.mark.parametrize("k", [None, 3])
def test_scores_that_stand_in_the_log(tmp_path, k):
    data, exam = open_data(DATA).train, examination.inverse_rank()
    scores, policy = data.features[:, 0].astype(float), policies.Deterministic(k)
    simulation.write_log(
        data, scores, policy, exam, tmp_path.parent / f"plain-{k}.parquet", sessions=3000, propensities=False
    )
    table = pq.read_table(tmp_path.parent / f"plain-{k}.parquet")
    pairs = zip(np.repeat(data.query_ids, data.lengths), data.doc_ids, strict=True)
    row = {pair: i for i, pair in enumerate(pairs)}
    shown = [row[pair] for pair in zip(table["query_id"].to_pylist(), table["doc_id"].to_pylist(), strict=True)]
    pq.write_table(table.append_column("logging_score", pa.array(scores[shown])), tmp_path / "train.parquet")
    fixed = ("train", DATA, "--log", tmp_path, *QUICK, *CURVE, "--logger", "logging_score", "--out", tmp_path / "r")
    fixed = (*fixed, "--policy", f"deterministic:k={'none' if k is None else k}")
    if k is None:
        assert as_json(*fixed)["sessions"] == 3000
        return
    never = data.n_docs - len(set(shown))
    with pytest.raises(cr.CounterrankError, match=f"no logging_score of {never:,} of {data.n_docs:,} candidates"):
        attempt(*fixed)


def faulty(place, tmp_path):
    table = pq.read_table(place / "log" / "new-train.parquet")
    ranks = table["rank"].to_numpy().copy()
    ranks[0] = 7
    pq.write_table(
        table.set_column(table.column_names.index("rank"), "rank", pa.array(ranks)), tmp_path / "bad.parquet"
    )
    return tmp_path / "bad.parquet"


def test_faults_stop_or_are_dropped(place, tmp_path):
    log = faulty(place, tmp_path)
    stopped = run("aggregate", log, "--data", DATA, "--out", tmp_path / "clicks")
    assert stopped.returncode == 2
    assert stopped.stderr.startswith(f"counterrank: {log}: 1 page has a gap")
    assert len(stopped.stderr.splitlines()) == 1
    assert not (tmp_path / "clicks").exists()
    found = as_json("aggregate", log, "--data", DATA, "--on-error", "skip", "--out", tmp_path / "clicks")
    assert found["read"][0]["pages_dropped"] == 1
    assert found["read"][0]["rows_dropped"] + found["read"][0]["rows_used"] == found["read"][0]["rows"]
    assert found["parts"][0]["pages"] == 3999
    shown = attempt("inspect", log, "--on-error", "skip").output
    assert "What is wrong in the log" in shown


def test_examination_is_fitted_where_the_log_tells_and_assumed_nowhere(place, tmp_path):
    fixed = ("train", DATA, "--log", place / "log", *QUICK, "--out", tmp_path / "ranker")
    assert "users fitted to the log: position-based" in run(*fixed).stderr
    one_order = (*fixed, "--only-policy", "old", "--force")
    with pytest.raises(cr.CounterrankError, match=r"requires the propensity.*counterrank inspect LOG"):
        attempt(*one_order)
    with pytest.raises(cr.CounterrankError, match=r"expected --examination; counterrank inspect"):
        attempt(*one_order, "--estimator", "policy-oblivious")


def test_estimates_without_propensities_take_display_frequencies(place, tmp_path):
    fold = open_data(DATA)
    np.save(tmp_path / "scores.npy", fold.test.features[:, 1])
    fixed = ("estimate", tmp_path / "scores.npy", DATA, "--log", place / "log", "--metrics", "dcg@5")
    with pytest.raises(cr.CounterrankError, match=r"requires how often each document was examined; expected --exam"):
        attempt(*fixed, "--only-policy", "old")
    assert "users fitted to the log" in run(*fixed).stderr
    found = as_json(*fixed, *CURVE)["estimates"]["dcg@5"]
    assert found["propensities"] == "realised"
    named = as_json(*fixed, *CURVE, "--policy", "estimated")["estimates"]["dcg@5"]
    assert named["ips"] == pytest.approx(found["ips"])
    shown = run(*fixed, *CURVE)
    assert "Note: no propensities in this log: display frequencies are used as propensities." in shown.stderr


def test_counts_without_data_do_not_train(place, tmp_path):
    as_json("aggregate", place / "log", "--out", tmp_path / "seen")
    with pytest.raises(cr.CounterrankError, match="counted without ranking data"):
        attempt("train", DATA, "--clicks", tmp_path / "seen", "--k", 5, "--out", tmp_path / "ranker")
    assert "examination.estimate" in attempt("inspect", tmp_path / "seen").output


def test_a_policy_that_did_not_make_the_log_is_refused(place, tmp_path):
    pq.write_table(pq.read_table(place / "log" / "new-train.parquet").drop(["policy"]), tmp_path / "log.parquet")
    fixed = ("train", DATA, "--log", tmp_path / "log.parquet", *QUICK, *CURVE, "--out", tmp_path / "ranker", "--force")
    assert as_json(*fixed, "--policy", "uniform-insert:k=5", "--logger", "feature:1")["sessions"] == 4000
    for wrong in (
        ("deterministic:k=5", "feature:1"),
        ("uniform-insert:k=5", "feature:2"),
        ("replace-last:k=5", "feature:1"),
    ):
        with pytest.raises(cr.CounterrankError, match=r"% of what the log shows cannot come from"):
            attempt(*fixed, "--policy", wrong[0], "--logger", wrong[1])
    shown = attempt(*fixed, "--policy", "plackett-luce:k=5,temperature=1", "--logger", "feature:1").output
    assert "more or less often than the policy would" in shown


def test_each_of_several_policies_is_compared_with_its_own_pages(place, tmp_path):
    swapped = (
        "--policy",
        "new=deterministic:k=5",
        "--policy",
        "old=uniform-insert:k=5",
        "--logger",
        "feature:1",
        *CURVE,
    )
    for command in ("train", "inspect"):
        data = (DATA, "--log", place / "log") if command == "train" else (place / "log", "--data", DATA)
        with pytest.raises(cr.CounterrankError, match="cannot come from new"):
            attempt(command, *data, *swapped, *(QUICK if command == "train" else ()), "--out", tmp_path / "x.html")


def test_a_curve_that_ends_before_the_clicks(place, tmp_path):
    fixed = ("train", DATA, "--log", place / "log", *QUICK, "--policy", "estimated", "--out", tmp_path / "ranker")
    with pytest.raises(cr.CounterrankError, match=r"0 at rank 3, but there are clicks.*reaches rank 5"):
        attempt(*fixed, "--examination", "1,0.5")


def test_the_report_comes_even_if_the_curve_is_refused(tmp_path):
    data = open_data(DATA).train
    shown = (policies.ReplaceLast(5), examination.inverse_rank())
    simulation.write_log(data, data.features[:, 0], *shown, tmp_path / "log.parquet", sessions=2000, propensities=False)
    stopped = run("inspect", tmp_path / "log.parquet", "--examination-out", tmp_path / "curve.json")
    assert stopped.returncode == 2
    assert "By rank" in stopped.stdout
    assert "cannot separate position bias from relevance" in stopped.stderr.splitlines()[-1]
    assert not (tmp_path / "curve.json").exists()


def test_nothing_is_written_over_but_curves(place, tmp_path):
    log = tmp_path / "log.parquet"
    log.write_bytes((place / "log" / "new-train.parquet").read_bytes())
    before = log.read_bytes()
    other = tmp_path / "other.parquet"
    other.write_bytes(before)
    with pytest.raises(cr.CounterrankError, match=r"log.parquet: is an input of this command"):
        attempt("inspect", log, "--examination-out", log, "--force")
    with pytest.raises(cr.CounterrankError, match="exists and is no examination curve"):
        attempt("inspect", log, "--examination-out", other, "--force")
    assert log.read_bytes() == other.read_bytes() == before
    for _ in range(2):
        attempt("inspect", log, "--examination-out", tmp_path / "curve.json", "--force")
    assert examination.load(tmp_path / "curve.json").k == 5


def test_drift_is_of_the_same_pages(place, tmp_path):
    table = pq.read_table(place / "log")
    at = pa.array(np.datetime64("2026-01-01T00:00:00", "s") + np.arange(len(table)) * np.timedelta64(1, "s"))
    ranks = table["rank"].to_numpy().copy()
    ranks[0] = 9
    table = table.append_column("timestamp", at).set_column(table.column_names.index("rank"), "rank", pa.array(ranks))
    pq.write_table(table, tmp_path / "log.parquet")
    fixed = ("inspect", tmp_path / "log.parquet", "--on-error", "skip")
    for more in ((), ("--data", DATA), ("--data", DATA, "--part", "test")):
        found = as_json(*fixed, *more)
        periods = found["drift"]["periods"]
        assert sum(period["pages"] for period in periods) == found["overview"]["sessions"]
        assert sum(period["clicks"] for period in periods) == found["overview"]["clicks"]


def test_parts_in_folders_that_do_not_add_up(place, tmp_path):
    table = pq.read_table(place / "log" / "new-train.parquet")
    pq.write_table(table, tmp_path / "train.1.parquet")
    pq.write_table(table, tmp_path / "train.2.parquet")
    with pytest.raises(cr.CounterrankError, match="both name the train part"):
        attempt("aggregate", tmp_path, "--data", DATA, "--out", tmp_path / "clicks")
    (tmp_path / "train.2.parquet").rename(tmp_path / "more.parquet")
    with pytest.raises(cr.CounterrankError, match=r"more\.parquet: next to files of train"):
        attempt("aggregate", tmp_path, "--data", DATA, "--out", tmp_path / "clicks")


BAD = [
    (("--map", "rank"), "--map rank: "),
    (("--map", "place=x"), "--map: no column 'place' in a click log"),
    (("--map", "rank=nope"), "no column 'nope'; the log has 'session_id'"),
    (("--rank-base", 2), "--rank-base 2: expected 0 or 1"),
    (("--format", "xml"), "--format xml: "),
    (("--on-error", "ignore"), "--on-error ignore: "),
    (("--memory", "lots"), "--memory lots: not an amount"),
    (("--engine", "hadoop"), "--engine hadoop: "),
    (("--master", "local[2]"), "expected --engine spark too"),
    (("--policy", "a=replace-last:k=5", "--policy", "b=replace-last:k=5", "--logger", "feature:1"), "'old'"),
    (
        ("--policy", "replace-last:k=5", "--policy", "b=replace-last:k=5", "--logger", "feature:1"),
        "not each with its own",
    ),
    (("--policy", "replace-last:k=5"), "--policy, --logger: expected both"),
    (("--policy", "replace-last:k=5", "--logger", "feature:9999"), "feature:9999: no such feature"),
    (("--policy", "estimated", "--logger", "feature:1"), "is estimated from the log"),
    (("--policy", "estimated:k=5"), "expected parameters of estimated"),
    (("--policy", "fitted-plackett-luce:k=nan"), "k=nan; expected a whole number"),
    (("--policy", "uniform-insert:k=5", "--logger", "feature:1"), "one for a log of several (new, old)"),
    (("--examination", "missing.json", "--policy", "estimated"), "missing.json"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input(place, tmp_path, arguments, message):
    curve = () if "--examination" in arguments else CURVE
    fixed = ("train", DATA, "--log", place / "log", *QUICK, *curve, "--out", tmp_path / "ranker")
    with pytest.raises(cr.CounterrankError) as error:
        attempt(*fixed, *arguments)
    assert message in str(error.value)
    assert not (tmp_path / "ranker").exists()

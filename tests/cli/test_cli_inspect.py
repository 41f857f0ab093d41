"""`counterrank inspect` on click counts and on logs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank import examination
from counterrank.data.sources import open_data
from tests.support.command import as_json, attempt, invoke, run
from tests.support.simulated_pages import sample, users

DATA = "synthetic:yahoo:queries=60,seed=1"


def levels(found):
    return {item["about"]: item["level"] for item in found["verdict"]}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Scores of the training part, and counts and a log of pages that were made by them."""
    folder = tmp_path_factory.mktemp("inspect")
    train = open_data(DATA).train
    train.save(folder / "data.parquet")
    np.save(folder / "scores.npy", np.random.default_rng(0).normal(size=train.n_docs))
    fixed = ("simulate", folder / "data.parquet", "--logger", folder / "scores.npy", "--n-sessions", 20_000)
    for name in ("replace-last", "uniform-insert", "deterministic"):
        invoke(*fixed, "--policy", f"{name}:k=3", "--out", folder / name)
    invoke(*fixed, "--policy", "uniform-insert:k=3", "--as-log", "--out", folder / "log")
    return folder


def known(place, policy, *more):
    return ("--data", place / "data.parquet", "--logger", place / "scores.npy", "--policy", policy, *more)


def test_the_verdict_of_what_is_remembered(place):
    found = as_json("inspect", place / "replace-last")
    assert found["known"]["policy"] == "ReplaceLast(k=3)"
    assert levels(found)["examination.estimate"] == levels(found)["policy-oblivious"] == "bad"
    assert levels(found)["policy-aware"] != "bad"
    assert levels(as_json("inspect", place / "deterministic"))["policy-aware"] == "bad"


def test_a_wrong_policy_is_found_out(place):
    found = as_json("inspect", place / "uniform-insert", *known(place, "replace-last:k=3"))
    assert found["policy_check"]["contradicted"]
    assert levels(found)["policy-aware"] == "bad"
    right = as_json("inspect", place / "uniform-insert", *known(place, "uniform-insert:k=3"))
    assert not right["policy_check"]["contradicted"]
    assert right["policy_check"]["impossible_impressions"] == 0


def test_data_without_a_policy(place):
    found = as_json("inspect", place / "uniform-insert", "--data", place / "data.parquet")
    assert found["known"]["policy"] is None
    assert found["coverage"]["candidates"] == found["overview"]["documents"]


def test_a_log_and_the_counts_of_it_say_the_same(place):
    log = next((place / "log").glob("*.parquet"))
    options = known(place, "uniform-insert:k=3", "--examination", "inverse-rank:eta=1")
    found = as_json("inspect", log, *options)
    counts = cr.clicks.read_log(log, cr.RankingData.load(place / "data.parquet"))
    assert found["overview"]["clicks"] == counts.n_clicks
    assert found["overview"]["sessions"] == counts.n_sessions == 20_000
    assert levels(found)["examination.estimate"] == "good"
    assert found["coverage"]["never_examinable"] == 0
    assert not found["policy_check"]["contradicted"]
    alone = as_json("inspect", log)
    assert alone["coverage"] is None
    assert alone["overview"]["clicks"] == counts.n_clicks


def test_the_target(place):
    easy, hard = (as_json("inspect", place / "replace-last", "--effective-sample-size", n) for n in (10, 10**7))
    assert levels(easy)["policy-aware"] == "good"
    assert levels(hard)["policy-aware"] == "warning"
    assert any("10,000,000" in line for line in hard["advice"])


def test_tables_for_people(place):
    printed = invoke("inspect", place / "deterministic").stdout
    for words in (
        "can never be examined",
        "What to change",
        "By rank",
        "Importance weights",
        "By rank under the logger",
    ):
        assert words in printed
    assert printed.index("can never be examined") < printed.index("Overview")
    assert "What other policies would bring" in printed


def test_a_page(place, tmp_path):
    out = tmp_path / "inspection.html"
    result = invoke("inspect", place / "replace-last", "--out", out)
    assert out.as_uri() in result.stderr
    assert "What this log can and cannot support" in out.read_text(encoding="utf-8")
    invoke("inspect", place / "replace-last", "--out", out, "--json", "--force")  # one of its own is replaced
    mine = tmp_path / "mine.html"
    mine.write_text("keep me")
    with pytest.raises(cr.CounterrankError, match="exists and is no page of counterrank inspect"):
        attempt("inspect", place / "replace-last", "--out", mine)
    assert mine.read_text() == "keep me"
    with pytest.raises(cr.CounterrankError, match="a folder; expected the name of a page"):
        attempt("inspect", place / "replace-last", "--out", tmp_path)


def test_a_curve(place, tmp_path):
    curve = tmp_path / "curve.json"
    assert f"--examination {curve}" in invoke("inspect", place / "uniform-insert", "--examination-out", curve).stderr
    found = as_json("inspect", place / "uniform-insert", "--examination", curve)
    values = [row["P(examined)"] for row in found["ranks"]]
    assert values[0] == 1.0
    assert values[1:] == pytest.approx([1 / 2, 1 / 3], rel=0.2)


def test_what_was_written_is_said(place, tmp_path):
    curve = tmp_path / "a curve.json"
    result = invoke("inspect", place / "uniform-insert", "--examination-out", curve)
    assert f"Wrote {curve}: the examination curve by all-pairs from" in result.stderr
    values = examination.load_estimate(curve)
    low, high = values.intervals[1]
    assert f"with 95% intervals: 1, {values.values[1]:.3g} ({low:.3g} to {high:.3g}), " in result.stderr
    assert f"--examination '{curve}'" in result.stderr
    assert "Examination curve estimated from the log, relative to rank 1" in result.stdout
    assert [row["P(examined)"] for row in as_json("inspect", place / "uniform-insert")["estimated_curve"]["ranks"]] == (
        values.values.tolist()
    )
    assert "Examination curve" not in invoke("inspect", place / "replace-last").stdout


def test_texts_about_a_log(place):
    log = next((place / "log").glob("*.parquet"))
    texts = {item["about"]: item["text"] for item in as_json("inspect", log)["verdict"]}
    assert texts["rerank"].startswith("Whole pages are in the log, where train --log reads them.")


def test_two_policies_that_are_named(place, tmp_path):
    fixed = ("simulate", place / "data.parquet", "--logger", place / "scores.npy", "--n-sessions", 2000, "--as-log")
    for i, name in enumerate(("replace-last", "uniform-insert")):
        out = ("--out", tmp_path / name, "--policy-name", name, "--first-session", 2000 * i)
        invoke(*fixed, "--policy", f"{name}:k=3", *out)
    named = [f"{name}={name}:k=3" for name in ("replace-last", "uniform-insert")]
    options = (
        "--data",
        place / "data.parquet",
        "--logger",
        place / "scores.npy",
        "--examination",
        "inverse-rank:eta=1",
    )
    found = as_json("inspect", f"{tmp_path}/*/*.parquet", *options, "--policy", named[0], "--policy", named[1])
    texts = {item["about"]: item["text"] for item in found["verdict"]}
    assert found["known"]["policy"] == ", ".join(named)
    assert "must be known" not in texts["affine"]
    assert "Requires" not in texts["affine"]


def test_timestamps_that_are_no_dates(place, tmp_path):
    table = pq.read_table(next((place / "log").glob("*.parquet")))
    years = np.datetime64("2110-01-01") + np.arange(table.num_rows) // 3 % 80 * 365
    times = pa.array(years.astype("datetime64[us]"))
    pq.write_table(table.append_column("timestamp", times), tmp_path / "log.parquet")
    found = as_json("inspect", tmp_path / "log.parquet")
    assert found["drift"] is None
    done = invoke("inspect", tmp_path / "log.parquet", "--out", tmp_path / "page.html")
    assert "dates" in done.stdout + done.stderr
    assert "Over time" not in done.stdout
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"Note: {table.num_rows:,} rows have a timestamp that is not a date" in page
    assert "Timestamps are not used." in page


def test_a_logger_without_a_policy(place):
    """Where the old ranking had the candidates is known without the policy."""
    found = as_json("inspect", place / "replace-last", "--data", place / "data.parquet", "--logger", "feature:1")
    assert found["coverage"]["by_old_rank"]
    assert found["known"]["policy"] is None
    with pytest.raises(cr.CounterrankError, match="no such"):
        attempt("inspect", place / "replace-last", "--data", place / "data.parquet", "--logger", "nowhere")


def test_simulated_clicks_by_a_feature_are_remembered(tmp_path):
    invoke("simulate", "synthetic:yahoo:queries=20", "--logger", "feature:1", "--n-sessions", 200, "--out",
           tmp_path / "clicks")  # fmt: skip
    found = as_json("inspect", tmp_path / "clicks")
    assert found["data"] == "synthetic:yahoo:queries=20"
    assert found["known"]["policy"] is not None


def test_a_curve_that_cannot_be_learned_is_refused(place, tmp_path):
    arguments = ("inspect", place / "replace-last", "--examination-out", tmp_path / "curve.json")
    with pytest.raises(cr.CounterrankError, match="no clicked document was shown at ranks of two"):
        attempt(*arguments, "--out", tmp_path / "page.html")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]  # all else is printed nevertheless


BAD = {
    ("--policy", "replace-last:k=3"): "expected --data too",
    ("--data", "{place}/data.parquet", "--policy", "replace-last:k=3"): "expected --logger too",
    ("--data", "synthetic:yahoo"): "counted against other data",
    ("--effective-sample-size", "0"): "--effective-sample-size 0: expected a whole number of at least 1",
    ("--examination", "steep"): "--examination steep",
    ("--part", "test"): "no clicks of the test part",
}


@pytest.mark.parametrize(("arguments", "message"), BAD.items())
def test_bad_input(place, tmp_path, arguments, message):
    filled = [word.format(place=place) for word in arguments]
    with pytest.raises(cr.CounterrankError) as error:
        attempt("inspect", place / "replace-last", *filled, "--out", tmp_path / "page.html")
    assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_the_user_model_that_a_log_supports(place, tmp_path):
    """These users are the paper's: position-based. Click counts hold no pages one by one."""
    log = next((place / "log").glob("*.parquet"))
    found = as_json("inspect", log)["users"]
    assert found["recommended"] == "position-based"
    assert {row["name"] for row in found["models"]} >= {"position-based", "affine", "browsing", "dependent"}
    assert found["fitted_pages"] + found["held_out_pages"] == 20_000
    shown = invoke("inspect", log, "--out", tmp_path / "page.html").output
    assert "Which user model does this log support?" in shown
    assert "This log supports the position-based model" in " ".join(shown.split())
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Which user model does this log support?" in page
    assert 'id="last-clicks"' in page
    assert as_json("inspect", place / "uniform-insert")["users"] is None
    failed = run("inspect", place / "uniform-insert", "--users-out", tmp_path / "users.json")
    assert failed.returncode == 2
    assert "expected a log" in failed.stderr


def test_the_recommended_user_model_is_saved(place, tmp_path):
    log = next((place / "log").glob("*.parquet"))
    invoke("inspect", log, "--users-out", tmp_path / "users.json")
    assert examination.load(tmp_path / "users.json").curve(3)[0] == 1.0
    same = tmp_path / "same.json"
    failed = run("inspect", log, "--users-out", same, "--examination-out", same)
    assert failed.returncode == 2
    assert "is both --examination-out and --users-out" in failed.stderr


def test_browsing_users_are_saved_from_their_log(tmp_path):
    pages = sample("browsing", n_pages=3000, n_queries=30, k=3, seed=0)
    columns = {"session_id": pages.pages(), "query_id": pages.queries[pages.pages()], "doc_id": pages.docs}
    pq.write_table(pa.table({**columns, "rank": pages.ranks(), "clicked": pages.clicked}), tmp_path / "log.parquet")
    shown = invoke("inspect", tmp_path / "log.parquet", "--users-out", tmp_path / "users.json").output
    assert "This log supports the user browsing model" in " ".join(shown.split())
    found = examination.load(tmp_path / "users.json")
    wanted = users("browsing", 3)["gamma"]
    assert found.chances(3)[1:, :2] / found.chances(3)[0, 0] == pytest.approx(wanted[1:, :2], rel=0.2)

"""Every command that is suggested as the next one runs as it stands, whatever is in the names of files and options."""

from __future__ import annotations

import shlex

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.cli.demo import _NEXT
from tests.support import log_files
from tests.support.command import invoke, run

DATA = "synthetic:yahoo:queries=40,seed=0"
NAMES = ('it\'s a "log" & more', "$HOME `ls` (1)")
QUICK = ("--max-epochs", 1)
CURVE = ("--examination", "inverse-rank:eta=1")
SPLIT = ("--split", "0.6,0.2,0.2")
OF_DATA = "query_id=the query,doc_id=sku,label=grade"
OF_LOG = "log:query_id=q,log:doc_id=item,session_id=page,rank=the place,clicked=is click"


def next_of(stderr):
    """The words of the suggested command, as a shell reads them; None where there is none."""
    lines = [line for line in stderr.splitlines() if "Next: " in line]
    if not lines:
        return None
    assert len(lines) == 1
    words = shlex.split(lines[0].partition("Next: ")[2])
    assert words[0] == "counterrank"
    return words[1:]


def follow(*arguments, folder):
    """Run a command and then what it suggests, until nothing is suggested; the names of the suggested commands."""
    names, words = [], [str(each) for each in arguments]
    while words is not None:
        done = run(*words, *(QUICK if words[0] == "train" and "--max-epochs" not in words else ()), folder=folder)
        assert done.returncode == 0, (words, done.stderr)
        words = next_of(done.stderr)
        names += [] if words is None else [words[0]]
    return names


@pytest.fixture(scope="module")
def logger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a logger")
    invoke("train", DATA, "--max-epochs", 1, "--out", folder / "it is; a ranker", "--relevance-threshold", 1)
    return folder / "it is; a ranker"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Flat files with names of their own, and logs of one and two policies with and without propensities."""
    folder = tmp_path_factory.mktemp("a shop")
    rng = np.random.default_rng(0)
    n = 80 * 8
    table = pa.table(
        {
            "the query": np.repeat([f"red shoes {i}" for i in range(80)], 8),
            "sku": [f"s {i}" for i in range(n)],
            "grade": rng.integers(0, 5, n),
            **{f"signal {i}": rng.normal(size=n) for i in range(3)},
        }
    )
    pq.write_table(table, folder / "products.parquet")
    pyarrow.csv.write_csv(table, folder / "products.csv")
    common = ("simulate", folder / "products.csv", "--map", OF_DATA, *SPLIT, "--logger", "feature:signal 0",
              "--n-sessions", 2000, "--as-log")  # fmt: skip
    tables = []
    for i, policy in enumerate(("uniform-insert:k=4", "replace-last:k=4")):
        out = folder / f"raw {i}"
        invoke(*common, "--policy", policy, "--policy-name", f"v{i}", "--first-session", 10_000 * i, "--out", out)
        for part in ("train", "validation", "test"):
            tables.append(pq.read_table(out / f"{part}.parquet"))
    renamed = {"query_id": "q", "doc_id": "item", "session_id": "page", "rank": "the place", "clicked": "is click"}
    kept = {"one": tables[:3], "two": tables}
    for name, parts in kept.items():
        log = pa.concat_tables(parts, promote_options="default")
        log = log.rename_columns([renamed.get(column, column) for column in log.column_names])
        bare = log.drop_columns([each for each in ("propensity", "display_probability") if each in log.column_names])
        pq.write_table(log if name == "two" else log.drop_columns(["policy"]), folder / f"{name} log.parquet")
        pyarrow.csv.write_csv(bare if name == "two" else bare.drop_columns(["policy"]), folder / f"{name} bare.csv")
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_names_that_a_shell_would_change(tmp_path, logger, name):
    folder = tmp_path / name
    folder.mkdir()
    common = ("--logger", logger, "--policy", "replace-last:k=5", "--n-sessions", 3000, "--relevance-threshold", 1)
    assert follow("simulate", DATA, *common, "--out", folder / "clicks", folder=folder) == ["train", "estimate"]
    # once more, with another name for the ranker, since there is one
    more = follow("simulate", DATA, *common, "--out", folder / "logs", "--as-log", folder=folder)
    assert more == ["train", "estimate"]
    assert sorted(each.name for each in folder.iterdir()) == ["clicks", "from-clicks", "from-clicks-2", "logs"]
    assert follow("aggregate", folder / "logs", "--data", DATA, "--out", folder / "counts", folder=folder) == [
        "inspect"
    ]
    labels = ("train", DATA, "--out", folder / "labels", "--relevance-threshold", 1)
    assert follow(*labels, folder=folder) == ["evaluate"]


def test_logs_without_propensities_are_inspected(tmp_path, logger):
    done = ("simulate", DATA, "--logger", logger, "--n-sessions", 3000, "--as-log", "--no-propensities")
    assert follow(*done, "--relevance-threshold", 1, "--out", tmp_path / "logs", folder=tmp_path) == ["inspect"]


@pytest.mark.parametrize("file", ["products.csv", "products.parquet"])
@pytest.mark.parametrize("more", [(), ("--as-log",), ("--as-log", "--no-propensities")], ids=["counts", "log", "bare"])
def test_simulated_clicks_on_flat_files(shop, tmp_path, file, more):
    names = follow("simulate", shop / file, "--map", OF_DATA, *SPLIT, "--logger", "feature:signal 0", "--n-sessions",
                   1500, *more, "--out", tmp_path / "clicks", folder=tmp_path)  # fmt: skip
    assert names == (["inspect"] if len(more) > 1 else ["train", "estimate"])


@pytest.mark.parametrize("log", ["one log.parquet", "one bare.csv", "two log.parquet", "two bare.csv"])
def test_a_log_is_aggregated(shop, tmp_path, log):
    """Columns of the log have their usual names in the counts, those of the data keep theirs."""
    both = ("--map", f"{OF_DATA},{OF_LOG}")
    common = ("aggregate", shop / log, "--data", shop / "products.csv", *both)
    assert follow(*common, *SPLIT, "--out", tmp_path / "split", folder=tmp_path) == ["inspect"]
    assert follow(*common, "--out", tmp_path / "whole", folder=tmp_path) == ["inspect"]
    alone = ("--map", OF_LOG.replace("log:", ""), "--out", tmp_path / "alone")
    assert follow("aggregate", shop / log, *alone, folder=tmp_path) == ["inspect"]


def test_a_part_alone_is_aggregated(shop, tmp_path):
    (tmp_path / "log").mkdir()
    pq.write_table(pq.read_table(shop / "raw 0" / "test.parquet"), tmp_path / "log" / "test.parquet")
    for more in ((), ("--data", shop / "products.csv", "--map", OF_DATA, *SPLIT)):
        out = tmp_path / f"counts {len(more)}"
        assert follow("aggregate", tmp_path / "log", *more, "--out", out, folder=tmp_path) == ["inspect"]


TRAINED = {
    "logged propensities": ("one log.parquet", (), "estimate"),
    "auto": ("one log.parquet", ("--estimator", "auto", "--folds", 2), "estimate"),
    "auto with a curve": ("one bare.csv", ("--estimator", "auto", "--folds", 2, *CURVE), "estimate"),
    "naive": ("one bare.csv", ("--estimator", "naive"), "inspect"),
    "policy-oblivious": ("one bare.csv", ("--estimator", "policy-oblivious", *CURVE), "estimate"),
    "rerank": ("one bare.csv", ("--estimator", "rerank", *CURVE), "estimate"),
    "estimated policy": ("one bare.csv", ("--policy", "estimated", *CURVE), "estimate"),
    "fitted policy": ("one bare.csv", ("--policy", "fitted-plackett-luce:k=4", *CURVE), "estimate"),
    "known policy": (
        "one bare.csv", ("--policy", "uniform-insert:k=4", "--logger", "feature:signal 0", *CURVE), "estimate"
    ),
    "trust bias": (
        "one log.parquet",
        ("--estimator", "affine", "--alpha", "0.9,0.5,0.3,0.2", "--beta", "0.1,0.05,0.03,0.02"),
        "estimate",
    ),
    "trust bias without propensities": (
        "one bare.csv",
        ("--estimator", "direct", "--alpha", "0.9,0.5,0.3,0.2", "--beta", "0.1,0.05,0.03,0.02", "--folds", 2),
        "inspect",
    ),
    "two policies": ("two log.parquet", CURVE, "estimate"),
    "two policies by name": (
        "two bare.csv",
        ("--policy", "v0=uniform-insert:k=4", "--policy", "v1=replace-last:k=4", "--logger", "feature:signal 0",
         *CURVE),
        "estimate",
    ),
    "one of two policies": ("two log.parquet", ("--only-policy", "v1"), "estimate"),
    "two policies without propensities": ("two bare.csv", ("--estimator", "auto", "--folds", 2, *CURVE), "estimate"),
    "naive on two policies": ("two log.parquet", ("--estimator", "naive"), "inspect"),
}  # fmt: skip


@pytest.mark.parametrize(("log", "options", "suggested"), TRAINED.values(), ids=TRAINED)
def test_training_on_a_log(shop, tmp_path, log, options, suggested):
    names = follow("train", shop / "products.csv", "--log", shop / log, "--map", f"{OF_DATA},{OF_LOG}", *SPLIT,
                   *options, "--out", tmp_path / "ranker", folder=tmp_path)  # fmt: skip
    assert names == [suggested]


def test_training_without_held_out_clicks_suggests_nothing(shop, tmp_path):
    common = ("train", shop / "products.csv", "--log", shop / "one log.parquet", "--map", f"{OF_DATA},{OF_LOG}", *QUICK)
    done = invoke(*common, "--out", tmp_path / "ranker")
    assert next_of(done.stderr) is None
    assert "clicks that it was not trained on" in done.stderr


LABELS = {
    "split": ((*SPLIT, "--relevance-threshold", 2), "evaluate"),
    "two parts": (("--split", "0.7,0.3"), "evaluate"),
    "exponential gain": ((*SPLIT, "--gain", "exponential"), "evaluate"),
    "no test part": ((), "explain"),
    "some features": ((*SPLIT, "--feature-columns", "signal 2,signal 0"), "evaluate"),
}


@pytest.mark.parametrize(("options", "suggested"), LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("file", ["products.csv", "products.parquet"])
def test_training_on_labels(shop, tmp_path, file, options, suggested):
    names = follow("train", shop / file, "--map", OF_DATA, *options, "--out", tmp_path / "ranker", folder=tmp_path)
    assert names == [suggested]


def test_options_of_reading_are_repeated(shop, tmp_path):
    """Ranks from 0, and rows that are no whole pages."""
    table = pq.read_table(shop / "one log.parquet")
    place = table.column_names.index("the place")
    pq.write_table(
        table.set_column(place, "the place", pa.array(table["the place"].to_numpy() - 1)), tmp_path / "log.parquet"
    )
    words = ("--rank-base", 0, "--skip-page-checks", "--on-error", "skip")
    done = invoke("train", shop / "products.csv", "--log", tmp_path / "log.parquet", *CURVE, *words, "--map",
                  f"{OF_DATA},{OF_LOG}", *SPLIT, "--estimator", "policy-oblivious", *QUICK,
                  "--out", tmp_path / "ranker")  # fmt: skip
    again = next_of(done.stderr)
    for word in map(str, words):
        assert word in again
    invoke(*again)


def test_a_curve_and_where_it_is(tmp_path):
    rows = [
        (s, "q", d, r + 1, int(s % (r + 2) == 0)) for s in range(300) for r, d in enumerate("ab" if s % 2 else "ba")
    ]
    log_files.write(tmp_path / "log.parquet", log_files.as_rows(rows))
    done = invoke("inspect", tmp_path / "log.parquet", "--examination-out", tmp_path / "a curve.json")
    words = shlex.split(done.stderr.rpartition("Use it with ")[2].rstrip().removesuffix("."))
    assert words == ["--examination", str(tmp_path / "a curve.json")]
    assert cr.examination.load(words[1]).k == 2
    invoke("rates", tmp_path / "log.parquet", *words)


def test_what_the_demo_suggests(tmp_path):
    """Step by step, and on a log of one's own; all experiments of the paper are run elsewhere."""
    own = "synthetic:yahoo:queries=120,seed=1"
    _, steps, log = (commands.splitlines() for commands, _ in _NEXT)
    for line in [*steps, *log]:
        words = shlex.split(line.replace("DATA", own).replace("LOG", "logs").replace("1e6", "1e4"))[1:]
        if words[0] == "inspect":
            policy = ("--policy", "replace-last:k=5", "--n-sessions", 2000, "--as-log", "--out", "logs")
            assert run("simulate", own, "--logger", "production", *policy, folder=tmp_path).returncode == 0
        more = ("--force", *QUICK) if words[0] == "train" and "--log" in words else ()
        done = run(*words, *more, folder=tmp_path)
        assert done.returncode == 0, (line, done.stderr)

"""Commands whose results `benchmarks.compare_versions` records: their `--json` output and the files they write.

Each command runs as `python -m counterrank` does, in this process, except `reproduce`, which starts workers.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import counterrank as cr
from benchmarks.compare_inputs import case, counts, order, text_content
from benchmarks.compare_results import exact, trained

DATA = "synthetic:mslr:queries=60,seed=1"
FAST = ("--k", 5, "--max-epochs", 5)
CURVE = ("--examination", "inverse-rank:eta=1")
SETUP = ("--policy", "replace-last:k=5", "--logger", "production", *CURVE)
GRID = ("--runs", 2, "--clicks", "100,1000", "--max-epochs", 2, "--clips", 2, "--production-share", 0.2)


class Exit(Exception):
    """A command failed that should succeed."""


def command(*words: Any, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """The exit code and the JSON object of a command."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv
    sys.argv = ["counterrank", *map(str, words), "--json"]
    code: Any = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            runpy.run_module("counterrank", run_name="__main__")
    except SystemExit as done:
        code = done.code or 0
    finally:
        sys.argv = before
    return _checked(code, out.getvalue(), err.getvalue(), codes)


def command_in_process(*words: Any) -> dict[str, Any]:
    line = [sys.executable, "-m", "counterrank", *map(str, words), "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return _checked(done.returncode, done.stdout, done.stderr, (0,))


def _checked(code: Any, out: str, err: str, codes: tuple[int, ...]) -> dict[str, Any]:
    if code not in codes:
        raise Exit(f"exit code {code}: {err.strip()[-500:]}")
    return {"exit_code": code, "json": json.loads(out) if out.strip() else None}


@cache
def prepare(displays: bool = False) -> str:
    """A production ranker, and clicks on its pages; the folder of the clicks."""
    if not Path("production").exists():
        command("train", DATA, "--share", 0.2, "--loss", "arp-hinge", "--max-epochs", 5, "--out", "production")
    out = "clicks-displays" if displays else "clicks"
    command("simulate", DATA, "--logger", "production", "--clicks", "4000", "--out", out, *["--displays"] * displays)
    return out


@cache
def prepare_log() -> str:
    prepare()
    options = ("--sessions", 1500, "--log", "--seed", 3)
    command("simulate", DATA, "--logger", "production", *options, "--out", "logs")
    return "logs"


@cache
def prepare_ranker(name: str = "linear", *options: Any) -> str:
    out = f"command-{name}"
    command("train", DATA, "--clicks", prepare(), *FAST, *options, "--out", out)
    return out


@cache
def held_out() -> cr.RankingData:
    return cr.make_fold("mslr", n_queries=60, seed=1).test


def scores_of(folder: str) -> dict[str, Any]:
    scores = cr.Ranker.load(folder).predict(held_out())
    return {"scores": trained(scores), "order": order(scores, held_out())}


def folder_counts(folder: str) -> dict[str, Any]:
    return {part: counts(cr.ClickCounts.load(Path(folder, part))) for part in ("train", "validation", "test")}


# Clicks and logs -----------------------------------------------------------------------------------------------------

SIMULATED = {
    "clicks": ("--clicks", "1e3"),
    "displays": ("--sessions", 1000, "--displays", "--policy", "plackett-luce:k=4,temperature=0.5"),
    "trust": ("--sessions", 1000, "--trust", 0.7, "--policy", "uniform-insert:k=5", "--policy-name", "v1"),
    "graded": ("--clicks", 500, "--gain", "graded", "--relevant", 0.9, "--other", 0.2, "--examination", "1,0.6,0.3"),
}


@case("simulate/{}", *SIMULATED)
def _(name):
    prepare()
    out = f"simulated-{name}"
    found = command("simulate", DATA, "--logger", "production", *SIMULATED[name], "--seed", 5, "--out", out)
    return found | {"counts": folder_counts(out)}


@case("simulate/log")
def _():
    prepare()
    options = ("--sessions", 400, "--log", "--policy", "epsilon-greedy:k=5,epsilon=0.2", "--first-session", 10)
    found = command("simulate", DATA, "--logger", "production", *options, "--out", "simulated-log")
    table = pq.read_table("simulated-log/train.parquet")
    return found | {"log": {name: table[name].to_numpy() for name in table.column_names}}


@case("aggregate/{}", "plain", "displays", "unmapped")
def _(name):
    log, out = prepare_log(), f"aggregated-{name}"
    if name == "unmapped":  # without ranking data
        found = command("aggregate", f"{log}/train.parquet", "--out", out)
        return found | {"files": sorted(str(file.relative_to(out)) for file in Path(out).rglob("*.json"))}
    found = command("aggregate", log, "--data", DATA, "--out", out, *["--displays"] * (name == "displays"))
    return found | {"counts": folder_counts(out)}


INSPECTED = {
    "clicks": (),
    "policy": ("--data", DATA, *SETUP, "--target-size", 500),
    "unknown policy": ("--data", DATA, "--policy", "estimated", *CURVE),
}


@case("inspect/{}", *INSPECTED)
def _(name):
    return command("inspect", prepare(displays=True), *INSPECTED[name])


@case("inspect/log")
def _():
    return command("inspect", f"{prepare_log()}/train.parquet", "--data", DATA, *SETUP, "--out", "inspection.html") | {
        "page": Path("inspection.html").stat().st_size > 10_000
    }


@case("inspect/examination")
def _():
    prepare()
    options = ("--clicks", 3000, "--policy", "uniform-insert:k=5", "--seed", 8)
    command("simulate", DATA, "--logger", "production", *options, "--out", "moving")
    found = command("inspect", "moving", "--examination-out", "curve.json")
    return found | {"file": json.loads(Path("curve.json").read_text(encoding="utf-8"))}


# Training ------------------------------------------------------------------------------------------------------------

TRAINED = {
    "full-information": ("--estimator", "full-information", *FAST),
    "exponential gain": ("--gain", "exponential", "--relevance-threshold", 2, *FAST, "--share", 0.7, "--seed", 3),
    "mlp": ("--model", "mlp", "--param", "hidden=[8]", *FAST),
    "lambdamart": ("--model", "lambdamart", "--param", "num_leaves=7", *FAST),
    "without validation": ("--validation", "none", "--loss", "dcg-hinge", "--learning-rate", 0.05, *FAST),
}
FROM_CLICKS = {
    "policy-aware": ("--estimator", "policy-aware"),
    "policy-aware by policy": ("--estimator", "policy-aware", *SETUP),
    "policy-aware clip auto": ("--estimator", "policy-aware", "--clip", "auto"),
    "policy-aware lambdamart": ("--model", "lambdamart", "--clip", 50),
    "policy-oblivious": ("--estimator", "policy-oblivious", *CURVE),
    "rerank": ("--estimator", "rerank", "--metric", "dcg@3"),
    "naive": ("--estimator", "naive", "--loss", "arp-logistic"),
    "affine": ("--estimator", "affine", "--alpha", "0.9,0.4,0.3,0.2,0.2", "--beta", "0.1,0.05,0.03,0.02,0.02", *SETUP),
    "auto": ("--estimator", "auto", "--folds", 3),
    "direct": ("--estimator", "direct", "--relevance-model", "lightgbm"),
    "doubly-robust": ("--estimator", "doubly-robust", "--tau", 0.05),
    "shrinkage": ("--estimator", "shrinkage", "--strength", 3, *SETUP),
}


def _options(name: str, options: tuple[Any, ...]) -> tuple[Any, ...]:
    """With the usual cutoff, where the loss has one."""
    return (*options, "--max-epochs", 5) if "arp-logistic" in options else (*options, *FAST)


@case("train/labels, {}", *TRAINED, tolerance="trained")
def _(name):
    out = f"train-{name}"
    return command("train", DATA, *TRAINED[name], "--out", out) | scores_of(out)


@case("train/clicks, {}", *FROM_CLICKS, tolerance="trained")
def _(name):
    out = f"train-clicks-{name}"
    options = _options(name, FROM_CLICKS[name])
    return command("train", DATA, "--clicks", prepare(displays=True), *options, "--out", out) | scores_of(out)


@case("train/log, {}", "policy-aware", "auto", "affine", tolerance="trained")
def _(name):
    out = f"train-log-{name}"
    options = _options(name, FROM_CLICKS["affine"] if name == "affine" else ("--estimator", name, *SETUP))
    return command("train", DATA, "--log", prepare_log(), *options, "--out", out) | scores_of(out)


@case("train/bad input {}", "--k=0", "--estimator=nonsense", "--clicks=missing", "--loss=nonsense")
def _(option):
    return command("train", DATA, option, "--out", "never", codes=(2,)) | {"written": Path("never").exists()}


# Use -----------------------------------------------------------------------------------------------------------------


@case("evaluate/all", tolerance="trained")
def _():
    return command("evaluate", prepare_ranker(), DATA)


@case("evaluate/some", tolerance="trained")
def _():
    options = ("--metrics", "dcg@5,mrr,arp", "--ties", "order", "--part", "validation", "--relevance-threshold", 2)
    return command("evaluate", prepare_ranker(), DATA, *options)


ESTIMATED = {
    "one": (),
    "against": ("--against", "production"),
    "gate": ("--against", "production", "--gate", "--metrics", "dcg@3,precision@5"),
    "margin": ("--against", "production", "--gate", "--margin", "-5", "--target", "these-queries"),
    "noise": ("--noise", "0.1,1", "--confidence", 0.9, "--part", "validation", "--in-sample", *SETUP),
    "dr": ("--method", "dr", "--against", "production", *SETUP),
    "unknown policy": ("--policy", "estimated", *CURVE),
}


@case("estimate/{}", *ESTIMATED, tolerance="trained")
def _(name):
    return command(
        "estimate", prepare_ranker(), DATA, "--clicks", prepare(), *ESTIMATED[name], codes=(0, 3, 4)
    )  # fmt: skip


@case("estimate/scores in files")
def _():
    prepare()
    data, rng = held_out(), np.random.default_rng(1)
    queries = np.repeat(data.query_ids, data.lengths)
    for name, values in {"random": rng.normal(size=data.n_docs), "labels": data.labels + 0.0}.items():
        with open(f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            rows = zip(queries.tolist(), data.doc_ids.tolist(), values.tolist(), strict=True)
            csv.writer(file).writerows([("query_id", "doc_id", "score"), *rows])
    options = ("--against", "random.csv", "--gate")
    return {
        "worse": command("estimate", "random.csv", DATA, "--clicks", "clicks", "--against", "labels.csv", "--gate",
                         "--target", "these-queries", codes=(0, 3, 4)),
        "better": command("estimate", "labels.csv", DATA, "--clicks", "clicks", *options, codes=(0, 3, 4)),
        "log": command("estimate", "labels.csv", DATA, "--log", prepare_log(), *options, codes=(0, 3, 4)),
    }  # fmt: skip


@case("select/rankers", tolerance="trained")
def _():
    rankers = [prepare_ranker(), prepare_ranker("dcg-hinge", "--loss", "dcg-hinge"), "production"]
    return command("select", DATA, *rankers, "--clicks", prepare(), "--part", "test", "--metric", "dcg@3")


@case("select/losses", tolerance="trained")
def _():
    options = ("--losses", "dcg-hinge,lambdaloss-truncated", "--k", 5, "--out", "selected")
    return command("select", DATA, *options, "--clicks", prepare()) | scores_of("selected")


@case("rank/{}", "csv", "trec", "parquet", tolerance="trained")
def _(ending):
    out = f"ranked.{ending}"
    found = command("rank", prepare_ranker(), DATA, "--depth", 4, "--tag", "mine", "--out", out)
    if ending != "parquet":
        return found | text_content(out)
    table = pq.read_table(out)
    return found | {"table": {name: table[name].to_numpy() for name in table.column_names}}


@case("explain/{}", "linear", "lambdamart", "auto", tolerance="trained")
def _(kind):
    options = {"lambdamart": ("--model", "lambdamart"), "auto": ("--estimator", "auto", "--folds", 2)}.get(kind, ())
    return command("explain", prepare_ranker(f"explained-{kind}", *options), "--top", 7)


@case("export/command {}", "onnx", "es-ltr", "solr", "json", tolerance="trained")
def _(target):
    out = f"command-export.{target}"
    ranker = prepare_ranker("plain", "--normalize", "standard")
    found = command("export", ranker, "--to", target, "--name", "mine", "--out", out)
    return found | ({} if target == "onnx" else text_content(out))


@case("plan/{}", "given", "all families")
def _(name):
    prepare()
    given = ("--policy", "epsilon-greedy:k=5,epsilon=0.1..0.3", "--policy", "replace-last:k=5", "--width", 0.02)
    options = given if name == "given" else ("--page", 4, "--click-rate", 0.2, "--effective", 500)
    return command("plan", DATA, "--logger", "production", *CURVE, "--sessions", "1e3,1e5", *options)


@case("demo/yahoo", tolerance="trained")
def _():
    found = command("demo", "--shape", "yahoo", "--queries", 200, "--out", "demo.html")
    return found | {"page": Path("demo.html").stat().st_size > 10_000}


# Experiments ---------------------------------------------------------------------------------------------------------


def run_content(folder: str) -> dict[str, Any]:
    """The cells of a run by their keys, its claims and the data of its figures."""
    lines = Path(folder, "results.jsonl").read_text(encoding="utf-8").splitlines()
    rows = sorted((json.loads(line) for line in lines), key=lambda row: row["key"])
    return {
        "cells": trained({row["key"]: row for row in rows}),
        "run": exact(json.loads(Path(folder, "run.json").read_text(encoding="utf-8"))["settings"]),
        "claims": trained(json.loads(Path(folder, "claims.json").read_text(encoding="utf-8"))),
        "figures": {file.name: text_content(file) for file in sorted(Path(folder, "figures").glob("*.csv"))},
        "report": Path(folder, "report.html").stat().st_size > 10_000,
    }


EXPERIMENTS = {
    "figures 1 and 2": ("--figures", "1,2", "--ks", "2,5", "--clicks-by-k", 500),
    "figures 3 and 4": ("--figures", "3,4", "--losses", "dcg-hinge,lambdaloss-truncated"),
}


@case("reproduce/{}", *EXPERIMENTS, tolerance="trained")
def _(name):
    out = f"run-{name.replace(' ', '-')}"
    return command_in_process("reproduce", "--data", DATA, *EXPERIMENTS[name], *GRID, "--out", out) | run_content(out)


@case("reproduce/few-clicks", tolerance="trained")
def _():
    options = ("--sessions", "200,1000", "--estimators", "auto,direct,policy-aware,policy-aware:clip=30")
    options += ("--runs", 2, "--max-epochs", 3, "--production-share", 0.2)
    return command_in_process("reproduce", "few-clicks", "--data", DATA, *options, "--out", "run-few") | run_content(
        "run-few"
    )


@case("report/again", tolerance="trained")
def _():
    for file in ("claims.json", "report.html"):
        Path("run-few", file).unlink()
    return command("report", "run-few") | run_content("run-few")

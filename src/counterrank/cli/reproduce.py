"""`counterrank reproduce`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterrank.cli.command import EXPERIMENT, OUTPUT, TRAINING
from counterrank.cli.evidence import parse_count, parse_pair
from counterrank.cli.options import Json, option, positive_or
from counterrank.cli.output import check_not_input, print_json, say, show_warnings
from counterrank.cli.report import check_report, print_claims, write_all
from counterrank.common.checks import check_choice
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import thread_count

if TYPE_CHECKING:
    from counterrank.experiments.engines import Engine
    from counterrank.experiments.run_folder import Run
    from counterrank.experiments.settings import Settings
    from counterrank.experiments.summary import CellCounts

_FLAGS = {"ks": "--pages", "clicks": "--n-clicks", "sessions": "--n-sessions"}  # of settings with other names
# settings that do not matter to every experiment
_ONLY = {
    "paper": ("figures", "ks", "clicks_by_k", "clicks", "losses", "policies"),
    "few-clicks": ("sessions", "estimators"),
    "safety": ("sessions", "methods"),
}


def _setting(help: str, metavar: str, panel: str = EXPERIMENT) -> Any:
    """An option of an experiment; its default, which settings and presets hold, comes after the last semicolon."""
    text, _, default = help.rstrip(".").rpartition("; ")
    return option(f"{text}. [default: {default}]", metavar, panel)


def reproduce(
    data: Annotated[
        list[str],
        option(
            "A fold folder, or synthetic:mslr / synthetic:yahoo, also with parameters: "
            "synthetic:mslr:queries=2000,seed=1. Repeat for several folds.",
            "DATA",
        ),
    ],
    out: Annotated[Path, option("The run folder; one that was begun is continued.", "PATH")],
    experiment: Annotated[
        str,
        typer.Argument(
            help="paper, figures 1 to 4; few-clicks, estimators against the number of sessions; or safety, what keeps "
            "a ranker from being worse than production."
        ),
    ] = "paper",
    preset: Annotated[
        str | None,
        option("Settings by name ({presets}) or in a TOML file of your own; other options override it.", "NAME"),
    ] = None,
    quick: Annotated[bool, option("A reduced grid on few training queries, in a few minutes.", name="--quick")] = False,
    figures: Annotated[str | None, _setting("Which of 1,2,3,4; all.", "LIST")] = None,
    runs: Annotated[int | None, _setting("Independent runs on each fold; 5, few-clicks and safety 8.", "N")] = None,
    until_decided: Annotated[
        bool,
        option(
            "Look at the claims after 10, 20, 40 and 80 runs, each time at a quarter of the error, and stop when all "
            "that can be checked are decided.",
            panel=EXPERIMENT,
            name="--until-decided",
        ),
    ] = False,
    seed: Annotated[int | None, _setting("Random seed of all runs; 0.", "N")] = None,
    pages: Annotated[str | None, _setting("Figure 1: results on a page; 1,2,3,5,7,10,...,100.", "LIST")] = None,
    clicks_by_k: Annotated[str | None, _setting("Figure 1: number of clicks; 1e8.", "N")] = None,
    n_clicks: Annotated[str | None, _setting("Figures 2 to 4: numbers of clicks; 1e2,1e3,...,1e8.", "LIST")] = None,
    n_sessions: Annotated[
        str | None,
        _setting(
            "few-clicks, safety: numbers of sessions; 500,2000,10000,60000,1e6,1e7, safety 1e2,1e3,...,1e7.", "LIST"
        ),
    ] = None,
    estimators: Annotated[
        str | None,
        option(
            "few-clicks: comma-separated, some of {compared_estimators}; "
            "also with hyperparameters: doubly-robust:tau=0.03, shrinkage:strength=2, policy-aware:clip=30.",
            "LIST",
            EXPERIMENT,
        ),
    ] = None,
    methods: Annotated[
        str | None, _setting("safety: some of unsafe,exposure-risk,prpo,blend,gate; all.", "LIST")
    ] = None,
    page: Annotated[int | None, _setting("Figures 2 to 6: results on a page; 5.", "N")] = None,
    k: Annotated[int | None, _setting("Cutoff of the losses and of the metric DCG@k; 5.", "N")] = None,
    losses: Annotated[str | None, _setting("Figure 3: losses to compare; those of the paper.", "LIST")] = None,
    policies: Annotated[
        str | None, _setting("Figure 4: logging policies, separated by semicolons; one of each kind.", "LIST")
    ] = None,
    relevance_threshold: Annotated[float | None, _setting("Smallest label of a relevant document; 3.", "X")] = None,
    production_share: Annotated[
        float | None, _setting("Share of queries the production ranker is trained on; 0.01, 3 at least.", "X")
    ] = None,
    production_norm: Annotated[float | None, _setting("Norm of its coefficients; 5.", "X")] = None,
    production_seed: Annotated[
        str | None, _setting("Which queries these are; or each, for another ranker in each run; 0.", "N")
    ] = None,
    eta: Annotated[float | None, _setting("P(examined at rank r) = r ** -eta; 1.", "X")] = None,
    noise: Annotated[
        str | None, _setting("P(click | examined) of irrelevant and relevant documents; 0.1,1.", "X,X")
    ] = None,
    users: Annotated[
        str | None,
        _setting(
            "How users examine and click: paper (--eta, --noise), baidu or yandex (from measurements), or the file of "
            "a user model; paper.",
            "NAME|FILE",
        ),
    ] = None,
    validation_share: Annotated[float | None, _setting("Validation clicks per training click; 0.15.", "X")] = None,
    max_epochs: Annotated[int | None, _setting("The most epochs; 1000.", "N", TRAINING)] = None,
    patience: Annotated[
        int | None, _setting("Early stopping: epochs without improvement; 20 or 30 + 10 log10(clicks).", "N", TRAINING)
    ] = None,
    tolerance: Annotated[
        float | None,
        _setting("Early stopping: least improvement that counts; 1e-4 for ARP and 1e-6 for DCG.", "X", TRAINING),
    ] = None,
    learning_rate: Annotated[str | None, _setting("auto, or a number for all losses; auto.", "X", TRAINING)] = None,
    clip: Annotated[
        str | None, _setting("Cap on 1 / propensity: grid, none, a number, or schedule:a=-3,b=32; grid.", "X", TRAINING)
    ] = None,
    clips: Annotated[int | None, _setting("Number of clips in a grid; 6.", "N", TRAINING)] = None,
    queries: Annotated[int | None, _setting("The most training, and validation, queries; all.", "N")] = None,
    test_queries: Annotated[
        int | None, _setting("The most test queries; synthetic data that names no size gets as many; all.", "N")
    ] = None,
    jobs: Annotated[
        int | None,
        option(
            "Cells to run at once; one for each core if not given, on a GPU 512, or 64 with a grid of clips.",
            "N",
            OUTPUT,
        ),
    ] = None,
    device: Annotated[
        str,
        option(
            "cpu; cuda, which trains many rankers at once on a GPU (requires the extra of that name); or auto.",
            "NAME",
            OUTPUT,
        ),
    ] = "cpu",
    engine: Annotated[str, option("local, or spark (requires the extra of that name).", "NAME", OUTPUT)] = "local",
    master: Annotated[str | None, option("Spark master, such as spark://host:7077.", "URL", OUTPUT)] = None,
    report: Annotated[
        bool,
        option(
            "Write claims and report; counterrank report does it later, also elsewhere.",
            panel=OUTPUT,
            name="--report/--no-report",
        ),
    ] = True,
    json: Json = False,
) -> None:
    """Reproduce the experiments of the paper on your data: figures, claims and a report.

    Example: counterrank reproduce --data MSLR-WEB30K/Fold1 --out runs/mslr

    few-clicks: how well estimators do with few sessions, and how well auto chooses among them.

    safety: limits on exposure, blends and tests on held-out clicks, for honest users and for inverted clicks.

    Results are written as they come in; run the same command again to continue after an interruption.
    """
    from counterrank.experiments.reproduction import reproduce as run_cells

    given: dict[str, Any] = {
        "figures": _figures(figures),
        "runs": runs,
        "seed": seed,
        "ks": _whole_numbers(pages, "--pages"),
        "clicks_by_k": None if clicks_by_k is None else parse_count(clicks_by_k, "--clicks-by-k"),
        "clicks": _whole_numbers(n_clicks, "--n-clicks"),
        "sessions": _whole_numbers(n_sessions, "--n-sessions"),
        "estimators": _estimators(estimators),
        "methods": _words(methods, ","),
        "page": page,
        "cutoff": k,
        "losses": _words(losses, ","),
        "policies": _words(policies, ";"),
        "relevance_threshold": relevance_threshold,
        "production_share": production_share,
        "production_norm": production_norm,
        "eta": eta,
        "noise": parse_pair(noise, "--noise"),
        "users": users,
        "validation_share": validation_share,
        "max_epochs": max_epochs,
        "patience": patience,
        "tolerance": tolerance,
        "learning_rate": None if learning_rate is None else positive_or(learning_rate, "--learning-rate ", "auto"),
        "clip": clip,
        "clips": clips,
        "queries": queries,
        "test_queries": test_queries,
    }
    if until_decided and runs is not None:
        raise CounterrankError("--until-decided: chooses the number of runs; expected no --runs")
    chosen = _settings(experiment, preset, quick, given, production_seed)
    notes = {"preset": preset, "quick": quick, "command": shlex.join(["counterrank", *sys.argv[1:]])}
    check_not_input(out, (data, preset, users))
    check_report(out)
    cluster = _engine(engine, master, jobs)
    with show_warnings():
        run = run_cells(
            data, out, chosen, jobs=jobs, engine=cluster, device=device, notes=notes, until_decided=until_decided
        )
    cells = _finish(run, json, quick, report)
    if cells.failed:
        first = cells.failures[0]
        raise CounterrankError(
            f"{cells.failed} cells failed, the first: {first.cell}: {first.error}; the same command tries them again"
        )


def _finish(run: Run, json: bool, quick: bool, report: bool) -> CellCounts:
    """Write the report if it is wanted, and print the claims and how many cells are done."""
    from counterrank.experiments.reproduction import count_cells
    from counterrank.experiments.summary import to_json

    page, claims = None, {}
    if report:
        from counterrank.report.summary_text import sort_claims

        summary, files = write_all(run)
        page, claims = str(files[0]), {claim.id: claim.verdict for claim in sort_claims(summary).present}
    cells = summary.cells if report else count_cells(run)
    if json:
        print_json({"out": str(run.folder), "report": page, "cells": to_json(cells), "claims": claims})
        return cells
    if report:
        print_claims(summary)
    command = shlex.join(["counterrank", "report", str(run.folder)])
    where = f"The report is at {page}." if report else f"For the report: {command}"
    say(f"{cells.done} of {cells.wanted} cells done. {where}")
    if report and quick:
        more = "Run" if run.about.get("looks") else "--until-decided adds runs; or run"
        say(f"A quick run learns from few queries. {more} without --quick, in another folder.")
    return cells


def _settings(
    experiment: str, preset: str | None, is_quick: bool, given: dict[str, Any], production_seed: str | None
) -> Settings:
    """Options, over presets and defaults; an option of another experiment is an error."""
    from counterrank.experiments.figure_registry import experiments
    from counterrank.experiments.settings import choose_settings

    check_choice(experiment, tuple(experiments()), "experiment")
    said = {name: value for name, value in given.items() if value is not None}
    for name in said:
        mine = [other for other, names in _ONLY.items() if name in names]
        if mine and experiment not in mine:
            flag = _FLAGS.get(name, f"--{name.replace('_', '-')}")
            raise CounterrankError(f"{flag}: applies to {' and '.join(mine)} only")
    if "learning_rate" in said:
        said["learning_rates"] = {}
    if production_seed is not None:
        said["production_seed"] = _production_seed(production_seed)
    return choose_settings(experiment, preset, is_quick, said)


def _engine(name: str, master: str | None, jobs: int | None) -> Engine | None:
    check_choice(name, ("local", "spark"), "engine")
    if name == "local":
        if master is not None:
            raise CounterrankError("--master: requires --engine spark")
        return None
    if master is None:
        raise CounterrankError("--engine spark: requires --master, such as spark://host:7077 or local[4]")
    from counterrank.experiments.spark_cells import spark_engine

    return partial(spark_engine, master=master, slots=None if jobs is None else thread_count(jobs, "jobs"))


def _words(text: str | None, between: str) -> tuple[str, ...] | None:
    return None if text is None else tuple(word.strip() for word in text.split(between) if word.strip())


def _estimators(text: str | None) -> tuple[str, ...] | None:
    """Estimators are separated by commas, and so are their hyperparameters: `shrinkage:strength=2,folds=5,direct`."""
    found: list[str] = []
    for word in _words(text, ",") or ():
        if found and "=" in word and ":" not in word:
            found[-1] += f",{word}"
        else:
            found.append(word)
    return None if text is None else tuple(found)


def _whole_numbers(text: str | None, name: str) -> tuple[int, ...] | None:
    words: Sequence[str] | None = _words(text, ",")
    return None if words is None else tuple(parse_count(word, name) for word in words)


def _figures(text: str | None) -> tuple[int, ...] | None:
    words = _words(text, ",")
    if words is not None and not set(words) <= {"1", "2", "3", "4"}:
        raise CounterrankError(f"--figures {text}: expected some of 1,2,3,4, separated by commas")
    return None if words is None else tuple(sorted({int(word) for word in words}))


def _production_seed(text: str) -> int | None:
    if text == "each":
        return None
    if not (text.isascii() and text.isdigit()):
        raise CounterrankError(f"--production-seed {text}: expected each or a whole number of at least 0")
    return int(text)

"""`counterrank reproduce`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterrank.cli.clicks import parse_count, parse_pair
from counterrank.cli.options import Json
from counterrank.cli.output import print_json, say
from counterrank.cli.report import check_report, print_claims, write_all
from counterrank.cli.writing import check_not_input
from counterrank.common.checks import check_choice
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import thread_count

if TYPE_CHECKING:
    from counterrank.experiments.engines import Engine
    from counterrank.experiments.run_folder import Run
    from counterrank.experiments.settings import Settings
    from counterrank.experiments.summary import CellCounts

# options that mean something to one experiment alone
_ONLY = {
    "paper": ("figures", "ks", "clicks_by_k", "clicks", "losses", "policies"),
    "few-clicks": ("sessions", "estimators"),
}


def reproduce(
    data: Annotated[
        list[str],
        typer.Option(
            help="A fold folder, or synthetic:mslr / synthetic:yahoo, also with settings: "
            "synthetic:mslr:queries=2000,seed=1. Name it several times for several folds."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The run folder; one that was begun goes on where it was.")],
    experiment: Annotated[
        str, typer.Argument(help="paper, figures 1 to 4; or few-clicks, estimators against the number of sessions.")
    ] = "paper",
    preset: Annotated[
        str | None,
        typer.Option(
            help="Settings by name (paper-mslr, paper-yahoo, ohsumed, mq2008, mslr-sample; few-clicks-ohsumed, "
            "few-clicks-mq2008, few-clicks-mslr-sample) or in a TOML file of your own; other options win over it."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A reduced grid on few queries, in a few minutes.")] = False,
    figures: Annotated[str | None, typer.Option(help="Which of 1,2,3,4; all if not given.")] = None,
    runs: Annotated[int | None, typer.Option(help="Independent runs on each fold; 5, few-clicks 8.")] = None,
    seed: Annotated[int | None, typer.Option(help="Fixes all runs; 0.")] = None,
    ks: Annotated[str | None, typer.Option(help="Figure 1: how many results pages show; 1,2,3,5,7,10,...,100.")] = None,
    clicks_by_k: Annotated[str | None, typer.Option(help="Figure 1: how many clicks; 1e8.")] = None,
    clicks: Annotated[str | None, typer.Option(help="Figures 2 to 4: how many clicks; 1e2,1e3,...,1e8.")] = None,
    sessions: Annotated[
        str | None, typer.Option(help="few-clicks: how many pages are shown; 500,2000,10000,60000,1e6,1e7.")
    ] = None,
    estimators: Annotated[
        str | None,
        typer.Option(
            help="few-clicks: auto, direct, doubly-robust, shrinkage, policy-aware, policy-oblivious, naive; also "
            "doubly-robust:tau=0.03, shrinkage:strength=2, policy-aware:clip=30; separated by commas."
        ),
    ] = None,
    page: Annotated[int | None, typer.Option(help="Figures 2 to 5: how many results pages show; 5.")] = None,
    k: Annotated[int | None, typer.Option(help="The losses' cutoff, and that of the metric DCG@k; 5.")] = None,
    losses: Annotated[str | None, typer.Option(help="Figure 3: the losses to compare; those of the paper.")] = None,
    policies: Annotated[
        str | None,
        typer.Option(help="Figure 4: logging policies, separated by semicolons; one of each kind if not given."),
    ] = None,
    relevance_threshold: Annotated[float | None, typer.Option(help="The smallest relevant label; 3.")] = None,
    production_share: Annotated[
        float | None, typer.Option(help="The share of queries the production ranker learns from; 0.01, 3 at least.")
    ] = None,
    production_norm: Annotated[float | None, typer.Option(help="The norm of its coefficients; 5.")] = None,
    production_seed: Annotated[
        str | None, typer.Option(help="Which queries these are; or each, for another ranker in each run; 0.")
    ] = None,
    eta: Annotated[float | None, typer.Option(help="P(examined at rank r) = r ** -eta; 1.")] = None,
    noise: Annotated[
        str | None, typer.Option(help="P(click | examined) of irrelevant and relevant documents; 0.1,1.")
    ] = None,
    validation_share: Annotated[float | None, typer.Option(help="Validation clicks per training click; 0.15.")] = None,
    max_epochs: Annotated[int | None, typer.Option(help="The most passes over the queries; 1000.")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Epochs without improvement; 20 or 30 + 10 log10(clicks) if not given.")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="What is no improvement; 1e-4 for ARP and 1e-6 for DCG if not given.")
    ] = None,
    step_size: Annotated[str | None, typer.Option(help="auto, or a number for all losses; auto.")] = None,
    clip: Annotated[
        str | None,
        typer.Option(help="Cap on 1 / propensity: grid, none, a number, or schedule:a=-3,b=32; grid."),
    ] = None,
    clips: Annotated[int | None, typer.Option(help="How many clips a grid has; 6.")] = None,
    queries: Annotated[int | None, typer.Option(help="The most queries of each part; all if not given.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Cells to run at once; one for each core if not given.")] = None,
    engine: Annotated[str, typer.Option(help="local, or spark (needs the extra of that name).")] = "local",
    master: Annotated[str | None, typer.Option(help="The Spark master, such as spark://host:7077.")] = None,
    report: Annotated[
        bool, typer.Option(help="Write claims and report; counterrank report does it later, also elsewhere.")
    ] = True,
    json: Json = False,
) -> None:
    """Redo the experiments of the paper on your data: figures, claims and a report.

    Example: counterrank reproduce --data MSLR-WEB30K/Fold1 --out runs/mslr

    With few-clicks: what estimators learn from few sessions, and whether "auto" chooses well among them.

    Results are written as they come in; run the same command again to go on after an interruption.
    """
    from counterrank.experiments.reproduction import reproduce as run_cells

    given: dict[str, Any] = {
        "figures": _figures(figures),
        "runs": runs,
        "seed": seed,
        "ks": _whole_numbers(ks, "ks"),
        "clicks_by_k": None if clicks_by_k is None else parse_count(clicks_by_k, "clicks-by-k"),
        "clicks": _whole_numbers(clicks, "clicks"),
        "sessions": _whole_numbers(sessions, "sessions"),
        "estimators": _estimators(estimators),
        "page": page,
        "cutoff": k,
        "losses": _words(losses, ","),
        "policies": _words(policies, ";"),
        "relevance_threshold": relevance_threshold,
        "production_share": production_share,
        "production_norm": production_norm,
        "eta": eta,
        "noise": parse_pair(noise, "noise"),
        "validation_share": validation_share,
        "max_epochs": max_epochs,
        "patience": patience,
        "tolerance": tolerance,
        "step_size": _step_size(step_size),
        "clip": clip,
        "clips": clips,
        "queries": queries,
    }
    chosen = _settings(experiment, preset, quick, given, production_seed)
    notes = {"preset": preset, "quick": quick, "command": shlex.join(["counterrank", *sys.argv[1:]])}
    check_not_input(out, (data, preset))
    check_report(out)
    run = run_cells(data, out, chosen, jobs=jobs, engine=_engine(engine, master, jobs), notes=notes)
    cells = _tell(run, json, quick) if report else _tell_cells(run, json)
    if cells.failed:
        first = cells.failures[0]
        raise CounterrankError(
            f"{cells.failed} cells failed, the first: {first.cell}: {first.error}; the same command tries them again"
        )


def _tell(run: Run, json: bool, quick: bool) -> CellCounts:
    """The report, its claims on the screen, and how many cells there are."""
    from counterrank.experiments.summary import to_json
    from counterrank.report.summary_text import sort_claims

    summary, files = write_all(run)
    cells = summary.cells
    if json:
        claims = {claim.id: claim.verdict for claim in sort_claims(summary).present}
        print_json({"out": str(run.folder), "report": str(files[0]), "cells": to_json(cells), "claims": claims})
        return cells
    print_claims(summary)
    say(f"{cells.done} of {cells.wanted} cells done. The report is at {files[0]}.")
    if quick:
        say("A quick run shows directions. More runs settle more claims, such as --runs 10; or leave out --quick.")
    return cells


def _tell_cells(run: Run, json: bool) -> CellCounts:
    """How many cells there are, and no report: needs nothing to draw with."""
    from counterrank.experiments.reproduction import count_cells
    from counterrank.experiments.summary import to_json

    cells = count_cells(run)
    if json:
        print_json({"out": str(run.folder), "report": None, "cells": to_json(cells), "claims": {}})
    else:
        say(f"{cells.done} of {cells.wanted} cells done. For the report: counterrank report {run.folder}")
    return cells


def _settings(
    experiment: str, preset: str | None, is_quick: bool, given: dict[str, Any], production_seed: str | None
) -> Settings:
    """What was said, over presets and defaults; an option of the other experiment is an error."""
    from counterrank.experiments.figure_registry import experiment_names
    from counterrank.experiments.settings import choose_settings

    check_choice(experiment, tuple(experiment_names()), "experiment")
    said = {name: value for name, value in given.items() if value is not None}
    for name in (name for other, names in _ONLY.items() if other != experiment for name in names):
        if name in said:
            raise CounterrankError(f"--{name.replace('_', '-')}: means nothing to {experiment}; expected it left out")
    if "step_size" in said:
        said["step_sizes"] = {}
    if production_seed is not None:
        said["production_seed"] = _production_seed(production_seed)
    return choose_settings(experiment, preset, is_quick, said)


def _engine(name: str, master: str | None, jobs: int | None) -> Engine | None:
    check_choice(name, ("local", "spark"), "engine")
    if name == "local":
        if master is not None:
            raise CounterrankError("--master: names a Spark master; expected --engine spark with it")
        return None
    if master is None:
        raise CounterrankError("--engine spark: expected --master too, such as spark://host:7077 or local[4]")
    from counterrank.experiments.spark_cells import spark_engine

    return partial(spark_engine, master=master, slots=None if jobs is None else thread_count(jobs, "jobs"))


def _words(text: str | None, between: str) -> tuple[str, ...] | None:
    return None if text is None else tuple(word.strip() for word in text.split(between) if word.strip())


def _estimators(text: str | None) -> tuple[str, ...] | None:
    """Estimators are separated by commas, and so is what they are told: `shrinkage:strength=2,folds=5,direct`."""
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
        raise CounterrankError(f"figures={text!r}: expected some of 1,2,3,4, separated by commas")
    return None if words is None else tuple(sorted({int(word) for word in words}))


def _production_seed(text: str) -> int | None:
    if text == "each":
        return None
    if not (text.isascii() and text.isdigit()):
        raise CounterrankError(f"production-seed={text!r}: expected 'each' or a whole number of at least 0")
    return int(text)


def _step_size(text: str | None) -> float | str | None:
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise CounterrankError(f"step-size={text!r}: expected 'auto' or a number") from None

"""`counterrank report`."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counterrank.cli.options import Json
from counterrank.cli.output import print_json, print_table, say
from counterrank.common.errors import CounterrankError
from counterrank.common.files import atomic_file
from counterrank.common.progress import progress

if TYPE_CHECKING:
    from counterrank.experiments import Run, Summary

CLAIMS = "claims.json"
_CLAIMED = {"few-clicks": "What is claimed of few clicks", "safety": "What is claimed of safety"}
_MARKS = {"holds": "yes", "does not hold": "no", "not enough evidence": "?"}


def report(
    run: Annotated[Path, typer.Argument(help="A folder written by reproduce, finished or not.")],
    json: Json = False,
) -> None:
    """Write the report of a run again: report.html, claims.json, and the figures as PNG, SVG and CSV.

    Example: counterrank report runs/mslr

    The report of an earlier run in this folder is replaced.
    """
    from counterrank.experiments.reproduction import read_run
    from counterrank.experiments.summary import to_json

    found = read_run(run)
    check_report(run)
    summary, files = write_all(found)
    if json:
        print_json({"files": [str(file) for file in files], "cells": to_json(summary.cells)})
        return
    print_claims(summary)
    say(f"{summary.cells.done} of {summary.cells.wanted} cells done. The report is at {files[0]}.")


def check_report(folder: Path) -> None:
    """Refuse to replace a report.html or claims.json that no report of ours left in the run folder."""
    for name, mark in (("report.html", "counterrank report"), (CLAIMS, "counterrank-claims")):
        file = folder / name
        if file.is_dir() or (file.exists() and mark not in file.read_text(encoding="utf-8", errors="replace")):
            raise CounterrankError(f"{file}: exists and was not written by counterrank report; move it elsewhere")


def write_all(run: Run) -> tuple[Summary, list[Path]]:
    """The summary of a run, its claims and its report; the page comes first among the files."""
    from counterrank.experiments import claims_document, summarize
    from counterrank.report import write_report

    summary = summarize(run)
    with atomic_file(run.folder / CLAIMS) as file:
        file.write_text(json_format.dumps(claims_document(summary), indent=1) + "\n", encoding="utf-8")
    with progress("writing the report"):
        files = write_report(summary, run.folder)
    return summary, [*files, run.folder / CLAIMS]


def print_claims(summary: Summary) -> None:
    """The claims about the figures of this run as a table, and how many hold."""
    from counterrank.report.summary_text import experiment_name, sort_claims

    claims = sort_claims(summary).present
    what = _CLAIMED.get(experiment_name(summary.figures), "What the paper found (and what it left open)")
    print_table(
        f"{what}, and whether it holds here; ? = not enough evidence",
        ("holds", "claim", "in the paper"),
        [(_MARKS[claim.verdict], claim.statement, claim.paper) for claim in claims],
    )
    count = [sum(claim.verdict == verdict for claim in claims) for verdict in _MARKS]
    say(
        f"{count[0]} hold, {count[1]} do not, {count[2]} lack evidence; the numbers are in claims.md and in the report."
    )
    needed = [claim.projection for claim in claims if claim.projection is not None]
    runs = [each.runs for each in needed if each.runs is not None]
    queries = sum(each.test_queries is not None for each in needed)
    if needed:
        more = f"{len(runs)} with up to {max(runs):,} runs" if runs else "none with more runs"
        say(f"Of these, by projection {more} would be decided, {queries} with more test queries only.")

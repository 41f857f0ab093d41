"""`counterrank promote`."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterrank.cli import options as shared
from counterrank.cli.command import EVALUATION, explicit_options
from counterrank.cli.evidence import ClickSource, load_scored, parts_of
from counterrank.cli.options import option, reads_logs
from counterrank.cli.output import print_json, print_table, say, show_warnings
from counterrank.common.errors import CounterrankError
from counterrank.common.files import existing

if TYPE_CHECKING:
    from counterrank.data.sources import DataOptions
    from counterrank.training import Decision


@reads_logs
def promote(
    ranker: Annotated[
        Path | None, typer.Argument(help=f"The new ranker: a folder written by train, or {shared.SCORES}.")
    ] = None,
    data: Annotated[
        str | None, typer.Argument(help="The ranking data of the logged queries; as for the other commands.")
    ] = None,
    *,
    source: ClickSource,
    against: Annotated[
        Path | None, option("The ranker that is in place; if not given, the version that --to serves.", "PATH")
    ] = None,
    also: Annotated[
        list[Path] | None,
        option("Another candidate; each gets its share of the error rate. Repeat for several.", "PATH"),
    ] = None,
    to: Annotated[
        Path | None,
        option("The deployment folder, whose pointer current.json is set to the new ranker if it passes.", "DIR"),
    ] = None,
    rollback: Annotated[
        bool, option("Go back to the version that --to served before the current one.", name="--rollback")
    ] = False,
    evidence: Annotated[
        str,
        option(
            "Level of evidence that must be met: finite-sample, asymptotic or model-assisted; commas for several.",
            "LIST",
            EVALUATION,
        ),
    ] = "asymptotic",
    margin: Annotated[
        float, option("How much better it must be; below 0, how much worse it may be.", "X", EVALUATION)
    ] = 0.0,
    metric: Annotated[str, option("dcg, dcg@k or precision@k.", "NAME", EVALUATION)] = "dcg@5",
    confidence: Annotated[float, option("Confidence level of each bound.", "X", EVALUATION)] = 0.95,
    in_sample: shared.InSample = False,
    part: shared.Part = "train",
    threads: shared.Threads = None,
    json: shared.Json = False,
    opening: DataOptions,
) -> None:
    """Deploy a ranker only if clicks of held-out sessions show that it is better than the current one.

    Exit code 0 if it is deployed, 3 if that is undecided, 4 if it is worse.

    Example: counterrank promote new synthetic:mslr --against old --log log.parquet --hold-out-sessions 0.2 --to live

    To go back: counterrank promote --rollback --to live
    """
    from counterrank.evaluation.evidence_levels import check_question
    from counterrank.training import Pointer, roll_back
    from counterrank.training import promote as decide

    if rollback:
        others = sorted({*explicit_options()} - {"--rollback", "--to", "--json"})
        if to is None or ranker is not None or others:
            also_given = f"; {', '.join(others)} given" if others else ""
            raise CounterrankError(f"--rollback: expected --to DIR, and no ranker or other options{also_given}")
        pointer = roll_back(to)
        about = {"version": pointer.current, "path": str(pointer.path)}
        print_json(about) if json else print(f"{to} serves version {pointer.current} again: {pointer.path}")
        return
    if ranker is None or data is None:
        raise CounterrankError("RANKER, DATA: expected both, or --rollback with --to")
    if against is None and (to is None or not (to / "current.json").is_file()):
        raise CounterrankError("--against: requires the ranker that is in place, unless --to serves one")
    if not source.given:
        raise CounterrankError("--log, --clicks: expected one of the two, with clicks of held-out sessions")
    candidates, levels = [ranker, *(also or [])], [name.strip() for name in evidence.split(",")]
    check_question(metric, confidence, margin, levels)
    if in_sample and to is not None:
        raise CounterrankError("--in-sample: given together with --to; clicks that were trained on decide nothing")
    for each in (*candidates, *([] if against is None else [against])):
        existing(each, "ranker or scores")
    chosen, known = _held_out(source, data, part, threads, opening)
    if to is None:
        new: list[Any] = [load_scored(each, chosen, threads) for each in candidates]
        current: Any = None if against is None else load_scored(against, chosen, threads)
    else:
        new, current = list(candidates), against
    with show_warnings():
        decision = decide(
            new if also else new[0],
            current,
            chosen,
            known,
            metric=metric,
            confidence=confidence,
            margin=margin,
            evidence=levels,
            to=to,
            in_sample=in_sample,
            threads=threads,
        )
    path = None if to is None or decision.version is None else str(Pointer.read(to).path)
    if json:
        tests = [{"ranker": str(name), **asdict(test)} for name, test in zip(candidates, decision.tests, strict=True)]
        print_json(
            {"deploy": decision.deploy, "estimate": decision.estimate, "lower": decision.lower,
             "upper": decision.upper, "why": decision.why, "ranker": str(candidates[decision.index]),
             "version": decision.version, "path": path, "exit_code": decision.exit_code, "candidates": tests}
        )  # fmt: skip
    else:
        _print(decision, candidates, data)
        if path is not None:
            print(f"{to} serves version {decision.version}: {path}")
    raise typer.Exit(decision.exit_code)


def _held_out(source: ClickSource, data: str, part: str, threads: int | None, opening: DataOptions) -> tuple[Any, Any]:
    """The data of the logged queries, and the clicks of held-out sessions with all that is known about them."""
    from counterrank.data.sources import choose_part

    if source.reading is not None and source.reading.hold_out_sessions:
        source.reading = replace(source.reading, held_out=True)
    opened = opening.open(data, threads)
    chosen, parts = choose_part(opened, part, data), parts_of(opened, part)
    keeps_pages = source.log is not None and not (source.reading is not None and source.reading.impressions)
    counts = source.load(part, parts, keeps_pages)
    source.fit_users((counts, chosen))
    with show_warnings():
        known = source.about(counts, part, parts)
    source.say_what_it_read()
    if source.log is not None and not (source.reading is not None and source.reading.hold_out_sessions):
        say(
            "Note: no --hold-out-sessions: all sessions of the log are used; make sure that no ranker was trained on "
            "them."
        )
    return chosen, known


def _print(decision: Decision, candidates: list[Path], data: str) -> None:
    """The levels of evidence of each candidate as a table, and the decision."""
    test = decision.test
    rows: list[tuple[Any, ...]] = []
    for name, each in zip(candidates, decision.tests, strict=True):
        for level in each.levels.values():
            label = f"{name}: {level.name}" if len(candidates) > 1 else level.name
            required = " (required)" if level.name in each.required else ""
            more = None if level.more_sessions is None else f"{level.more_sessions:,}"
            rows.append((f"{label}{required}", level.estimate, level.lower, level.upper,
                         "yes" if level.passes else "no", more, level.reason))  # fmt: skip
    print_table(
        f"{test.metric} per session, new minus current, on {data}: {test.n_clicks:,} clicks in {test.n_sessions:,} "
        f"sessions of {test.n_queries:,} queries, effective sample size {test.effective_sample_size:,.0f}",
        ("evidence", "estimate", "lower bound", "upper bound", f"above {test.margin:g}", "more sessions", "note"),
        rows,
        left=("note",),
    )
    print(decision.why)

"""`counterrank inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counterrank.cli.inspect_tables import print_inspection
from counterrank.cli.inspected import Inspected, load_inspected
from counterrank.cli.log_options import reads_logs
from counterrank.cli.options import Examination, Json, Logger, Part, Policy, Threads
from counterrank.cli.output import print_json, say
from counterrank.cli.writing import Force, check_out, check_page
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank import ClickCounts
    from counterrank.clicks.logs.columns import LogOptions
    from counterrank.evaluation.inspection import Inspection


@reads_logs
def inspect(
    clicks: Annotated[str, typer.Argument(help="A click log (file, folder or pattern), or click counts of simulate.")],
    part: Part = "train",
    data: Annotated[str | None, typer.Option(help="The ranking data, for candidates that were never shown.")] = None,
    policy: Policy = None,
    examination: Examination = None,
    logger: Logger = None,
    target_size: Annotated[
        int, typer.Option(help="The effective sample size to aim at; 10,000 gives a total weight to about 1 percent.")
    ] = 10_000,
    out: Annotated[Path | None, typer.Option(help="Also write a page (HTML) with the verdict and charts.")] = None,
    examination_out: Annotated[
        Path | None,
        typer.Option(help="Also estimate P(examined | rank) from the clicks and write it, for --examination."),
    ] = None,
    force: Force = False,
    threads: Threads = None,
    json: Json = False,
    *,
    reading: LogOptions,
) -> None:
    """Tell what clicks can and cannot support: a verdict, what to change in logging, and the numbers behind both.

    Data, policy and logger of simulated clicks are remembered; name them for others.

    Example: counterrank inspect clicks.parquet --data Fold1 --out inspection.html
    """
    inputs = (clicks, data, logger, examination)
    check_out(out, force, inputs, _check_page)
    check_out(examination_out, force, inputs, _check_curve_file)
    if out is not None and examination_out is not None and out.resolve() == examination_out.resolve():
        raise CounterrankError(f"{out}: is both --out and --examination-out; expected two names")
    loaded = load_inspected(clicks, part, data, policy or [], logger or [], examination, threads, reading)
    found = _inspected(loaded, target_size)
    read = None if loaded.report is None else loaded.report.summary()
    summary = {"clicks": loaded.path, "data": loaded.source, "read": read} | found.summary()
    if out is not None:
        from counterrank.report import write_inspection_report

        write_inspection_report(summary, out)
    if json:
        print_json(summary)
    else:
        print_inspection(summary)
    _say_more(loaded, part, out)
    if examination_out is not None:  # last, since it may be refused
        _write_curve(loaded.counts, examination_out)


def _say_more(loaded: Inspected, part: str, out: Path | None) -> None:
    if loaded.report is not None:
        of = f"the {part} part" if loaded.data is not None or loaded.is_part else "all of it"
        say(f"Read {loaded.report.rows:,} rows of {loaded.report.name}; this is about {of}{loaded.report.left_out()}.")
    if out is not None:
        say(f"The page is at {out.resolve().as_uri()}.")
    if loaded.data is None:
        say("With --data, --policy and --logger: which candidates the policy can never show, and where they ranked.")


def _inspected(loaded: Inspected, target_size: int) -> Inspection:
    from counterrank.clicks.policies.parsing import parse_policy
    from counterrank.evaluation.inspection import inspect_clicks

    return inspect_clicks(
        loaded.counts,
        policy=None if loaded.policy is None else parse_policy(loaded.policy),
        scores=loaded.scores,
        rho=loaded.rho,
        exam=loaded.exam,
        drift=loaded.drift,
        target_size=target_size,
    )


def _write_curve(counts: ClickCounts, path: Path) -> None:
    """The estimated curve; where ranks are not connected the estimate refuses, and says why."""
    from counterrank.cli.output import heard
    from counterrank.clicks import examination

    with heard():
        examination.estimate(counts).save(path)
    say(f"The examination curve is in {path}; use it with --examination {path}.")


def _check_curve_file(path: Path) -> None:
    """Refuse to write over anything but an older curve, the log for one."""
    from counterrank.clicks import examination

    if path.exists():
        try:
            examination.load(path)
        except (CounterrankError, OSError):
            raise CounterrankError(f"{path}: exists and is no examination curve; choose another name") from None


def _check_page(out: Path) -> None:
    """Refuse at once what could not be written at the end, and what is not a page of ours to replace."""
    if not out.is_dir() and out.suffix.lower() not in (".html", ".htm"):
        raise CounterrankError(f"{out}: unknown kind of file; expected one that ends in .html")
    check_page(out, "counterrank inspect", "inspection.html")

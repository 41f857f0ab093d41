"""`counterrank inspect`."""

from __future__ import annotations

import json as json_format
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterrank.cli.clicks import ClickSource, load_scores
from counterrank.cli.inspect_tables import print_inspection
from counterrank.cli.options import Examination, Json, Logger, Part, Policy, Threads
from counterrank.cli.output import print_json, say
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank import ClickCounts, RankingData
    from counterrank.evaluation.inspection import Inspection


def inspect(
    clicks: Annotated[Path, typer.Argument(help="Click counts: a folder written by simulate.")],
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
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Tell what clicks can and cannot support: a verdict, what to change in logging, and the numbers behind both.

    Data, policy and logger of simulated clicks are remembered; name them for others.

    Example: counterrank inspect clicks --out inspection.html
    """
    if out is not None:
        _check_page(out)
    loaded = _load(clicks, part, data, policy, logger, examination, threads)
    found = _inspected(loaded, target_size)
    summary = {"clicks": str(loaded.path), "data": loaded.source} | found.summary()
    if examination_out is not None:
        _write_curve(loaded.counts, examination_out)
    if out is not None:
        from counterrank.report import write_inspection_report

        write_inspection_report(summary, out)
    if json:
        print_json(summary)
        return
    print_inspection(summary)
    if out is not None:
        say(f"The page is at {out.resolve().as_uri()}.")
    if loaded.data is None:
        say("With --data, --policy and --logger: which candidates the policy can never show, and where they ranked.")


@dataclass(frozen=True)
class _Loaded:
    """The clicks, and all that was named or is remembered about them.

    Attributes:
        path: where the clicks are.
        counts: the clicks.
        source: the name of the ranking data.
        data: the ranking data.
        policy: the name of the policy.
        scores: what it ranked by.
        exam: the examination curve.
        drift: clicks over time, as `inspect_clicks` takes them.
    """

    path: Path
    counts: ClickCounts
    source: str | None = None
    data: RankingData | None = None
    policy: str | None = None
    scores: Any = None
    exam: Any = None
    drift: list[dict[str, Any]] | None = None


def _load(
    clicks: Path,
    part: str,
    data: str | None,
    policy: str | None,
    logger: Path | None,
    examination: str | None,
    threads: int | None,
) -> _Loaded:
    """Everything the options name. This is the place where clicks come from."""
    from counterrank import ClickCounts
    from counterrank.cli.clicks import counts_folder

    if data is None and (policy is not None or logger is not None):
        raise CounterrankError("--policy, --logger: tell of coverage of the data; expected --data too")
    if policy is not None and logger is None:
        raise CounterrankError("--policy: ranks by scores; expected --logger too")
    folder = counts_folder(clicks, part)
    if folder is None:
        raise CounterrankError(f"{clicks}: no clicks of the {part} part in it")
    counts = ClickCounts.load(folder)
    about = _remembered(clicks) if data is None else {}
    data, policy = data or about.get("data"), policy or about.get("policy")
    logger = logger or (Path(about["logger"]) if about else None)
    source = ClickSource(clicks, None, policy, examination, logger, threads)
    known = examination is not None or counts.examination is not None
    chosen = None if data is None else _checked_data(counts, folder, data, part, threads)
    return _Loaded(
        path=folder,
        counts=counts,
        source=data,
        data=chosen,
        policy=policy,
        scores=None if logger is None or chosen is None else load_scores(logger, chosen, threads),
        exam=source.curve(counts) if known else None,
    )


def _checked_data(counts: ClickCounts, folder: Path, data: str, part: str, threads: int | None) -> RankingData:
    from counterrank.data.sources import choose_part, open_data

    chosen = choose_part(open_data(data, threads=threads), part, data)
    counts.check_data(chosen, str(folder))
    return chosen


def _remembered(clicks: Path) -> dict[str, Any]:
    """What simulate noted beside the clicks, if the data and the logger are still where they were."""
    file = clicks / "simulation.json"
    if not file.is_file():
        return {}
    about: dict[str, Any] = json_format.loads(file.read_text(encoding="utf-8"))
    there = Path(about["logger"]).exists() and (about["data"].startswith("synthetic:") or Path(about["data"]).exists())
    return about if there else {}


def _inspected(loaded: _Loaded, target_size: int) -> Inspection:
    from counterrank.clicks.policies.named import parse_policy
    from counterrank.evaluation.inspection import inspect_clicks

    return inspect_clicks(
        loaded.counts,
        policy=None if loaded.policy is None else parse_policy(loaded.policy),
        scores=loaded.scores,
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


def _check_page(out: Path) -> None:
    """Refuse at once what could not be written at the end, and what is not a page of ours to replace."""
    if out.is_dir():
        raise CounterrankError(f"{out}: a folder; expected the name of a page to write, such as {out}/inspection.html")
    if out.exists() and "counterrank inspect" not in out.read_text(encoding="utf-8", errors="replace"):
        raise CounterrankError(f"{out}: exists and is no page of inspect; choose another --out")

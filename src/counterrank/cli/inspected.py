"""What `counterrank inspect` looks at: clicks, and all that was named or is remembered about them."""

from __future__ import annotations

import json as json_format
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterrank.cli.clicks import PARTS, WHOLE, ClickSource, parts_of
from counterrank.cli.policies import ESTIMATED, FITTED, named_policies, scores_of, single
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank import ClickCounts, RankingData
    from counterrank.clicks.logs.columns import LogOptions
    from counterrank.clicks.logs.faults import LogReport


@dataclass(frozen=True)
class Inspected:
    """The clicks, and what is known about them.

    Attributes:
        path: where the clicks are.
        counts: the clicks.
        source: the name of the ranking data.
        data: the ranking data.
        policy: the name of the policy, if there is one that ranks by scores.
        scores: what it ranked by.
        rho: the propensities of several policies, or of one that was estimated.
        exam: the examination curve.
        drift: clicks over time.
        report: what became of the rows of a log.
        is_part: whether the log is one of several, each of a part of the data.
    """

    path: str
    counts: ClickCounts
    source: str | None = None
    data: RankingData | None = None
    policy: str | None = None
    scores: Any = None
    rho: Any = None
    exam: Any = None
    drift: list[dict[str, Any]] | None = None
    report: LogReport | None = None
    is_part: bool = False


def load_inspected(
    clicks: str,
    part: str,
    data: str | None,
    policies: list[str],
    loggers: list[str],
    examination: str | None,
    threads: int | None,
    reading: LogOptions,
) -> Inspected:
    """Everything the options name."""
    from counterrank.data.sources import check_part

    check_part(part)
    if data is None and (policies or loggers):
        raise CounterrankError("--policy, --logger: need the candidates; expected --data too")
    is_log = not _holds_counts(Path(clicks))
    about = {} if is_log or data is not None else _remembered(Path(clicks))
    data = data or about.get("data")
    if about:
        policies, loggers = policies or [about["policy"]], loggers or [about["logger"]]
    source = ClickSource(
        [] if is_log else [Path(clicks)], clicks if is_log else None, policies, examination, loggers, threads, reading,
        with_drift=True,
    )  # fmt: skip
    parts = _parts(data, part, threads)
    counts = _counts(source, part, parts)
    known = examination is not None or counts.examination is not None
    found: dict[str, Any] = {"exam": source.curve(counts) if known else None}
    if policies and parts:
        found |= _policy(source, counts, part, parts)
    if is_log:
        found |= {
            "drift": source.drift.get(part),
            "report": source.reports[0],
            "is_part": source.file_of(part) is not None,
        }
    return Inspected(clicks, counts, data, parts.get(part), **found)


def _holds_counts(path: Path) -> bool:
    return any((path / inside / WHOLE).is_file() for inside in ("", *PARTS))


def _parts(data: str | None, part: str, threads: int | None) -> dict[str, RankingData]:
    from counterrank.data.sources import choose_part, open_data

    if data is None:
        return {}
    opened = open_data(data, threads=threads)
    choose_part(opened, part, data)
    return parts_of(opened, part)


def _counts(source: ClickSource, part: str, parts: dict[str, RankingData]) -> ClickCounts:
    """The clicks of a part; without data, those of the part's own file or of all there is."""
    from counterrank.cli.output import heard
    from counterrank.clicks.logs import read_parts

    if parts:
        return source.load(part, parts)
    if source.clicks:
        kept = source.kept(part, None)
        if kept is None:
            raise CounterrankError(f"{source.name}: no clicks of the {part} part in it")
        return kept
    with heard():
        found = read_parts(source.file_of(part) or str(source.log), (), drift=True, options=source.reading)
    source.reports.append(found.report)
    source.drift |= dict(zip([part], found.drift or (), strict=False))
    return found.counts[0]


def _policy(source: ClickSource, counts: ClickCounts, part: str, parts: dict[str, RankingData]) -> dict[str, Any]:
    """The policy and its scores; propensities alone where there are several policies, or an estimated one."""
    first = source.policies[0].partition(":")[0]
    if first in (ESTIMATED, FITTED) or named_policies(source.policies) is not None:
        found = source.propensities(counts, part, parts)
        return {"rho": found.by_document if found.source == "given" else found}
    if not source.loggers:
        raise CounterrankError("--policy: ranks by scores; expected --logger too")
    if len(counts.policy_names) > 1:
        source.propensities(counts, part, parts)  # says how to name several
    return {"policy": source.policies[0], "scores": scores_of(source, single(source.loggers), part, parts)}


def _remembered(clicks: Path) -> dict[str, Any]:
    """What simulate noted beside the clicks, if the data and the logger are still where they were."""
    file = clicks / "simulation.json"
    if not file.is_file():
        return {}
    about: dict[str, Any] = json_format.loads(file.read_text(encoding="utf-8"))
    there = Path(about["logger"]).exists() and (about["data"].startswith("synthetic:") or Path(about["data"]).exists())
    return about if there else {}

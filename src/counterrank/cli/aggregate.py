"""`counterrank aggregate`."""

from __future__ import annotations

import json as json_format
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterrank.cli.command import DATA_OPTIONS, options_again
from counterrank.cli.evidence import ClickSource, parts_of
from counterrank.cli.inspect import print_read
from counterrank.cli.options import Displays, Force, Json, LastClicks, Threads, option, reads_logs
from counterrank.cli.output import check_out, folder_with, print_json, print_table, say_next, show_warnings
from counterrank.common.files import atomic_folder

if TYPE_CHECKING:
    from counterrank import ClickCounts
    from counterrank.clicks.logs.columns import LogOptions
    from counterrank.data.sources import DataOptions

MARKER, FOLDERS = "aggregation.json", ("train", "validation", "test")


@reads_logs
def aggregate(
    log: Annotated[str, typer.Argument(help="A click log: a file, a folder or a pattern.")],
    out: Annotated[Path, option("The folder to write to: one folder of click counts for each part.", "PATH")],
    data: Annotated[
        str | None,
        option("The ranking data; without it only what was shown is counted, which cannot train a ranker.", "DATA"),
    ] = None,
    displays: Displays = False,
    last_clicks: LastClicks = False,
    force: Force = False,
    threads: Threads = None,
    json: Json = False,
    *,
    opening: DataOptions,
    reading: LogOptions,
) -> None:
    """Count a click log once, for --clicks of the other commands: a large log becomes a small folder.

    Example: counterrank aggregate 'logs/*.parquet' --data Fold1 --out clicks
    """
    check_out(out, force, (log, data), folder_with(MARKER, FOLDERS))
    begin = time.perf_counter()
    source = ClickSource([], log, [], None, [], threads, reading)
    with show_warnings():
        counted = _counted(source, data, (displays, last_clicks), opening)
    rows = [_row(part, counts) for part, counts in counted.items()]
    about = {"log": log, "data": data, "parts": rows, "read": [report.summary() for report in source.reports]}
    with atomic_folder(out, MARKER, FOLDERS) as folder:
        for part, counts in counted.items():
            counts.save(folder / part)
        (folder / MARKER).write_text(json_format.dumps(about, indent=1) + "\n", encoding="utf-8")
    if json:
        print_json({"out": str(out), **about, "seconds": time.perf_counter() - begin})
        return
    for report in source.reports:
        print_read(report.summary())
    print_table(f"{out}", tuple(rows[0]), [tuple(row.values()) for row in rows])
    source.say_what_it_read()
    again = ["--part", next(iter(counted))] if "train" not in counted else []
    if data:
        # click counts are no log, whose columns have no other names any more
        renamed = ",".join(f"{column}={name}" for column, name in opening.columns.items())
        again += ["--data", data, *options_again(*DATA_OPTIONS, map=renamed)]
    say_next("inspect", out, *again)


def _counted(
    source: ClickSource, data: str | None, kept: tuple[bool, bool], opening: DataOptions
) -> dict[str, ClickCounts]:
    """The clicks of each part that has some; without data all of a log that is not in parts as one.

    `kept` says whether to keep displayed pages, and counts by last click.
    """
    from counterrank.clicks.logs import read_parts
    from counterrank.common.errors import CounterrankError

    if data is None:
        logs = {part: log for part in FOLDERS if (log := source.file_of(part)) is not None}
        counted = {}
        for part, log in (logs or {"train": str(source.log)}).items():
            found = read_parts(log, (), displays=kept[0], last_clicks=kept[1], options=source.reading)
            source.reports.append(found.report)
            counted[part] = found.counts[0]
        return counted
    parts = parts_of(opening.open(data, source.threads))
    found_parts = {part: source.stored.find(part, parts, *kept) for part in parts}
    with_clicks = {part: counts for part, counts in found_parts.items() if counts is not None}
    if not with_clicks:
        raise CounterrankError(f"{source.log}: no clicks on any query of {data}")
    return with_clicks


def _row(part: str, counts: ClickCounts) -> dict[str, Any]:
    return {
        "part": part,
        "pages": counts.n_sessions,
        "impressions": counts.n_impressions,
        "clicks": counts.n_clicks,
        "queries": int((counts.sessions > 0).sum()),
        "documents shown": int((counts.by_document(counts.impressions) > 0).sum()),
        "documents": counts.n_docs,
    }

"""Logs of events as plain logs, whichever format they are in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterrank.clicks.logs.events import Plain, as_plain
from counterrank.clicks.logs.files import EVENTS, LogFiles
from counterrank.clicks.logs.metarank import Metarank
from counterrank.clicks.logs.options import CLICK_ACTIONS, LogOptions
from counterrank.clicks.logs.ubi import Ubi
from counterrank.common.errors import CounterrankError


def plain_log(log: LogFiles, local: Any, folder: Path, options: LogOptions) -> Plain | None:
    """Events of OpenSearch UBI or metarank as a plain log in Parquet, which any engine can read; None if it is plain.

    Arguments:
        log: the files.
        local: a DuckDB connection; it does the work, within its limit of memory.
        folder: for the result.
        options: how to read them.
    """
    if log.format in EVENTS:
        reader = Ubi() if log.format == "ubi" else Metarank()
        return as_plain(log, local, folder, reader, options.rank_base, options.click_actions)
    if tuple(options.click_actions) != CLICK_ACTIONS:
        raise CounterrankError(
            f"click_actions={options.click_actions!r}: {log.name} is {log.format}; expected it only with "
            f"{' or '.join(EVENTS)}"
        )
    return None

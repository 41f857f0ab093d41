"""Click logs: their formats, checks for faults, and counting of impressions and clicks, on one machine or a cluster."""

from counterrank.clicks.logs.columns import LogOptions
from counterrank.clicks.logs.faults import Fault, LogReport
from counterrank.clicks.logs.formats import FORMATS, LogFiles, LogFormat, PlainLog, register_format
from counterrank.clicks.logs.log_reader import (
    DisplayedImpressions,
    FoldClicks,
    Reading,
    read_display_probabilities,
    read_log,
    read_parts,
)
from counterrank.clicks.logs.page_reader import read_pages
from counterrank.clicks.page_sample import PageSample

__all__ = [
    "FORMATS",
    "DisplayedImpressions",
    "Fault",
    "FoldClicks",
    "LogFiles",
    "LogFormat",
    "LogOptions",
    "LogReport",
    "PageSample",
    "PlainLog",
    "Reading",
    "read_display_probabilities",
    "read_log",
    "read_pages",
    "read_parts",
    "register_format",
]


def __dir__() -> list[str]:
    return sorted(__all__)

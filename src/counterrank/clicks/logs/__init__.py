"""Click logs of any size: their files, what is wrong in them, and how they are counted, here or on a cluster."""

from counterrank.clicks.logs.columns import LogOptions
from counterrank.clicks.logs.faults import Fault, LogReport
from counterrank.clicks.logs.reading import Reading, read_log, read_parts

__all__ = ["Fault", "LogOptions", "LogReport", "Reading", "read_log", "read_parts"]

"""Click logs of any size: their files, what is wrong in them, and how they are counted, here or on a cluster."""

from counterrank.clicks.logs.faults import Fault, LogReport
from counterrank.clicks.logs.opening import read_log, read_parts
from counterrank.clicks.logs.options import LogOptions
from counterrank.clicks.logs.reading import Reading

__all__ = ["Fault", "LogOptions", "LogReport", "Reading", "read_log", "read_parts"]

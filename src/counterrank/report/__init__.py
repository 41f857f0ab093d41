"""Reports: one self-contained page per run or demo, and the figures of a run as files."""

from counterrank.report.demo import write_demo_report
from counterrank.report.writing import write_report

__all__ = ["write_demo_report", "write_report"]

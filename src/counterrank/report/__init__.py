"""Reports: one self-contained page per run, and its figures as files."""

from counterrank.report.writing import write_report

__all__ = ["write_report"]

"""Reports: one self-contained page per run, demo, plan or inspection, and the figures of a run as files."""

from counterrank.report.demo import write_demo_report
from counterrank.report.inspection import write_inspection_report
from counterrank.report.planning import write_plan_report
from counterrank.report.writing import write_report

__all__ = ["write_demo_report", "write_inspection_report", "write_plan_report", "write_report"]

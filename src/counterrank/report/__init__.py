"""Reports: one self-contained HTML page per run, demo, plan or inspection, and the figures of a run as files."""

from counterrank.report.demo_page import write_demo_report
from counterrank.report.inspection_page import write_inspection_report
from counterrank.report.page import write_report
from counterrank.report.plan_page import write_comparison_report, write_plan_report

__all__ = [
    "write_comparison_report",
    "write_demo_report",
    "write_inspection_report",
    "write_plan_report",
    "write_report",
]

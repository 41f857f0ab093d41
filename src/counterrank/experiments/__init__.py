"""Experiments: the demo, and the figures and claims of the paper."""

from counterrank.experiments import figures
from counterrank.experiments.claims import check_claims, claims_document
from counterrank.experiments.demo import Comparison, DemoResult, compare_estimators, run_demo, train_production
from counterrank.experiments.figure_registry import FigureSpec, register_figure
from counterrank.experiments.reproduction import Run, Settings, choose_settings, read_run, reproduce, summarize
from counterrank.experiments.summary import Summary

__all__ = [
    "Comparison",
    "DemoResult",
    "FigureSpec",
    "Run",
    "Settings",
    "Summary",
    "check_claims",
    "choose_settings",
    "claims_document",
    "compare_estimators",
    "figures",
    "read_run",
    "register_figure",
    "reproduce",
    "run_demo",
    "summarize",
    "train_production",
]

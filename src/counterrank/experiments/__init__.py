"""Experiments: whole stories from data to figures."""

from counterrank.experiments.demo import DemoResult, run_demo
from counterrank.experiments.from_clicks import Comparison, compare_estimators
from counterrank.experiments.production import train_production

__all__ = ["Comparison", "DemoResult", "compare_estimators", "run_demo", "train_production"]

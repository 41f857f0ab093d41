"""Experiments: whole stories from data to figures."""

from counterrank.experiments.demo import DemoResult, run_demo, train_production

__all__ = ["DemoResult", "run_demo", "train_production"]

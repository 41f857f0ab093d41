"""The paper's experiments, and one with few clicks: settings, cells, engines that run them, and run folders."""

from counterrank.experiments.reproduction.layers import choose_settings
from counterrank.experiments.reproduction.reproduce import reproduce
from counterrank.experiments.reproduction.runs import Run, read_run
from counterrank.experiments.reproduction.settings import Settings
from counterrank.experiments.reproduction.summary import summarize

__all__ = ["Run", "Settings", "choose_settings", "read_run", "reproduce", "summarize"]

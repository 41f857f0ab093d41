"""Clicks: who examines what, what logging policies show, simulated clicks and their counts."""

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.displays import Displays
from counterrank.clicks.examination import Examination
from counterrank.clicks.logs import read_log
from counterrank.clicks.policies.standard import Policy

__all__ = ["ClickCounts", "Displays", "Examination", "Policy", "read_log"]

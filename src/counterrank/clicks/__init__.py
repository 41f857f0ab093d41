"""Clicks: examination curves, logging policies, simulation, and counts of impressions and clicks."""

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.displays import Displays
from counterrank.clicks.examination import Examination
from counterrank.clicks.logs import read_log
from counterrank.clicks.policies.standard import Policy
from counterrank.clicks.stored_clicks import StoredClicks

__all__ = ["ClickCounts", "Displays", "Examination", "Policy", "StoredClicks", "read_log"]


def __dir__() -> list[str]:
    return sorted(__all__)

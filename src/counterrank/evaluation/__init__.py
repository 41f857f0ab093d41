"""How good a ranking is: metrics from labels, and the metric of weighted documents that training watches.

Without labels `estimate`, `compare` and `select` judge by clicks, with intervals. `plan_logging` tells before any click
how wide they will be.
"""

from counterrank.evaluation.click_metrics import Verdict, compare, estimate, verdict
from counterrank.evaluation.click_rates import ClickRate, ClickRateDifference, click_rate, compare_click_rates
from counterrank.evaluation.held_out import InSampleWarning
from counterrank.evaluation.inspection import Inspection, inspect_clicks
from counterrank.evaluation.judgement import Estimate, IntervalWarning
from counterrank.evaluation.label_metrics import evaluate, evaluate_queries
from counterrank.evaluation.metrics import (
    higher_is_better,
    parse_metric,
    prefix_sums,
    rank_values,
    weighted_metric,
    weighted_queries,
)
from counterrank.evaluation.planning import LoggingPlan, plan_logging
from counterrank.evaluation.planning_advice import advise_logging
from counterrank.evaluation.run_files import ranked_rows, write_run
from counterrank.evaluation.selection import Selection, select

__all__ = [
    "ClickRate",
    "ClickRateDifference",
    "Estimate",
    "InSampleWarning",
    "Inspection",
    "IntervalWarning",
    "LoggingPlan",
    "Selection",
    "Verdict",
    "advise_logging",
    "click_rate",
    "compare",
    "compare_click_rates",
    "estimate",
    "evaluate",
    "evaluate_queries",
    "higher_is_better",
    "inspect_clicks",
    "parse_metric",
    "plan_logging",
    "prefix_sums",
    "rank_values",
    "ranked_rows",
    "select",
    "verdict",
    "weighted_metric",
    "weighted_queries",
    "write_run",
]

"""Evaluation of rankings: metrics from labels, estimates from clicks with confidence intervals, and planning.

Without labels `estimate`, `compare` and `select` use clicks, `verdict` decides by their confidence intervals and
`deployment_test` by three levels of evidence, and `inspect_clicks` reports which estimators a log supports.
`plan_logging` predicts the width of confidence intervals before any click is logged.
"""

from counterrank.data.scores import ranked_rows, write_run
from counterrank.evaluation.click_metrics import (
    Estimate,
    Estimates,
    InSampleWarning,
    IntervalWarning,
    Selection,
    compare,
    estimate,
    select,
)
from counterrank.evaluation.click_rates import ClickRates
from counterrank.evaluation.deployment import Verdict, verdict
from counterrank.evaluation.evidence_levels import DeploymentTest, Level, deployment_test
from counterrank.evaluation.inspection import Inspection, UserComparison, compare_users, inspect_clicks
from counterrank.evaluation.logging_plan import LoggingPlan, LoggingPlans, advise_logging, plan_logging
from counterrank.evaluation.metric_kernels import weighted_queries
from counterrank.evaluation.metrics import (
    METRICS,
    MetricKind,
    evaluate,
    evaluate_queries,
    higher_is_better,
    metric_table,
    parse_metric,
    prefix_sums,
    rank_values,
    weighted_metric,
)
from counterrank.evaluation.off_policy_rate import ClickRate, ClickRateDifference, click_rate, compare_click_rates

__all__ = [
    "METRICS",
    "ClickRate",
    "ClickRateDifference",
    "ClickRates",
    "DeploymentTest",
    "Estimate",
    "Estimates",
    "InSampleWarning",
    "Inspection",
    "IntervalWarning",
    "Level",
    "LoggingPlan",
    "LoggingPlans",
    "MetricKind",
    "Selection",
    "UserComparison",
    "Verdict",
    "advise_logging",
    "click_rate",
    "compare",
    "compare_click_rates",
    "compare_users",
    "deployment_test",
    "estimate",
    "evaluate",
    "evaluate_queries",
    "higher_is_better",
    "inspect_clicks",
    "metric_table",
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


def __dir__() -> list[str]:
    return sorted(__all__)

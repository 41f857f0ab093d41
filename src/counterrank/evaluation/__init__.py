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
from counterrank.evaluation.comparison_plan import (
    Arm,
    ComparisonPlan,
    ComparisonPlans,
    advise_comparison,
    plan_comparison,
)
from counterrank.evaluation.deployment import Verdict, verdict
from counterrank.evaluation.evidence_levels import DeploymentTest, Level, deployment_test
from counterrank.evaluation.inspection import Inspection, UserComparison, compare_users, inspect_clicks
from counterrank.evaluation.interleaving import TeamDraftCredit, compare_interleaved, team_draft_credit
from counterrank.evaluation.logging_advice import advise_logging
from counterrank.evaluation.logging_plan import LoggingPlan, LoggingPlans, plan_logging
from counterrank.evaluation.logopt import LogOpt
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
    "Arm",
    "ClickRate",
    "ClickRateDifference",
    "ClickRates",
    "ComparisonPlan",
    "ComparisonPlans",
    "DeploymentTest",
    "Estimate",
    "Estimates",
    "InSampleWarning",
    "Inspection",
    "IntervalWarning",
    "Level",
    "LogOpt",
    "LoggingPlan",
    "LoggingPlans",
    "MetricKind",
    "Selection",
    "TeamDraftCredit",
    "UserComparison",
    "Verdict",
    "advise_comparison",
    "advise_logging",
    "click_rate",
    "compare",
    "compare_click_rates",
    "compare_interleaved",
    "compare_users",
    "deployment_test",
    "estimate",
    "evaluate",
    "evaluate_queries",
    "higher_is_better",
    "inspect_clicks",
    "metric_table",
    "parse_metric",
    "plan_comparison",
    "plan_logging",
    "prefix_sums",
    "rank_values",
    "ranked_rows",
    "select",
    "team_draft_credit",
    "verdict",
    "weighted_metric",
    "weighted_queries",
    "write_run",
]


def __dir__() -> list[str]:
    return sorted(__all__)

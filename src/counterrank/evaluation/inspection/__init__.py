"""What a click log can and cannot support: numbers, and findings that follow from them."""

from typing import Any

from counterrank.estimators.policy_check import check_policy
from counterrank.evaluation.inspection.assessment import assessed_names
from counterrank.evaluation.inspection.log_inspection import TARGET_SIZE, inspect_clicks
from counterrank.evaluation.inspection.result import LEVELS, Finding, Inspection, Known
from counterrank.evaluation.inspection.user_comparison import USER_MODELS, UserComparison, compare_users

__all__ = [
    "LEVELS",
    "TARGET_SIZE",
    "USER_MODELS",
    "Finding",
    "Inspection",
    "Known",
    "UserComparison",
    "assessed_names",
    "check_policy",
    "compare_users",
    "inspect_clicks",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name == "ESTIMATORS":
        return assessed_names()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

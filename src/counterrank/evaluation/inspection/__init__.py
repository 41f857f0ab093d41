"""What a click log can and cannot support: numbers, and a verdict that follows from them."""

from counterrank.evaluation.inspection.coverage import check_policy
from counterrank.evaluation.inspection.findings import ESTIMATORS, LEVELS, Finding, Inspection, Known
from counterrank.evaluation.inspection.inspecting import TARGET_SIZE, inspect_clicks

__all__ = ["ESTIMATORS", "LEVELS", "TARGET_SIZE", "Finding", "Inspection", "Known", "check_policy", "inspect_clicks"]

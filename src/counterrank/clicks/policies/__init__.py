"""Logging policies: the pages they show with their probabilities, and the propensity of each document.

>>> from counterrank import examination, policies
>>> policy, exam = policies.ReplaceLast(k=3), examination.inverse_rank(k=3)
>>> rho = policy.propensity([4.0, 3.0, 2.0, 1.0], [0, 4], exam)
>>> rho.round(3).tolist()
[1.0, 0.5, 0.167, 0.167]
"""

from counterrank.clicks.policies.fitted import FittedPlackettLuce, fit_plackett_luce
from counterrank.clicks.policies.from_log import LogPropensity, propensity_from_log, several_policies
from counterrank.clicks.policies.live import Page
from counterrank.clicks.policies.parsing import POLICIES, PolicyEntry, parse_policy, register_policy
from counterrank.clicks.policies.propensity import Coverage, EstimatedPropensity
from counterrank.clicks.policies.standard import (
    Deterministic,
    EpsilonGreedy,
    Explicit,
    ExplicitQueries,
    Mixture,
    PlackettLuce,
    Policy,
    ReplaceLast,
    TeamDraft,
    UniformInsert,
    coverage,
    estimate_propensity,
)

__all__ = [
    "POLICIES",
    "Coverage",
    "Deterministic",
    "EpsilonGreedy",
    "EstimatedPropensity",
    "Explicit",
    "ExplicitQueries",
    "FittedPlackettLuce",
    "LogPropensity",
    "Mixture",
    "Page",
    "PlackettLuce",
    "Policy",
    "PolicyEntry",
    "ReplaceLast",
    "TeamDraft",
    "UniformInsert",
    "coverage",
    "estimate_propensity",
    "fit_plackett_luce",
    "parse_policy",
    "propensity_from_log",
    "register_policy",
    "several_policies",
]


def __dir__() -> list[str]:
    return sorted(__all__)

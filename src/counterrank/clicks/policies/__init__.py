"""Logging policies: which pages were shown, how likely, and how likely each document was examined.

>>> from counterrank import examination, policies
>>> policy, exam = policies.ReplaceLast(k=3), examination.inverse_rank(k=3)
>>> rho = policy.propensity([4.0, 3.0, 2.0, 1.0], [0, 4], exam)
>>> rho.round(3).tolist()
[1.0, 0.5, 0.167, 0.167]
"""

from counterrank.clicks.policies.base import Page, Policy
from counterrank.clicks.policies.fitted import FittedPlackettLuce, fit_plackett_luce
from counterrank.clicks.policies.from_log import LogPropensity, propensity_from_log
from counterrank.clicks.policies.named import parse_policy
from counterrank.clicks.policies.propensity import Coverage, EstimatedPropensity, coverage, estimate_propensity
from counterrank.clicks.policies.several import several_policies
from counterrank.clicks.policies.standard import (
    Deterministic,
    EpsilonGreedy,
    Explicit,
    ExplicitQueries,
    Mixture,
    PlackettLuce,
    ReplaceLast,
    UniformInsert,
)

__all__ = [
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
    "ReplaceLast",
    "UniformInsert",
    "coverage",
    "estimate_propensity",
    "fit_plackett_luce",
    "parse_policy",
    "propensity_from_log",
    "several_policies",
]

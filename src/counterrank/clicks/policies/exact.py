"""Exact probabilities of examination and of display, for every policy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks._plackett_luce import plackett_luce_propensities
from counterrank.clicks.examination import Examination, check_examination
from counterrank.clicks.policies import _plan
from counterrank.clicks.policies.base import as_policy, propensity_of
from counterrank.clicks.policies.pages import PageSource
from counterrank.common.checks import FloatArray, check_cutoff
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import for_queries
from counterrank.common.ranking import longest_query


def exact_propensity(
    policy: Any, scores: ArrayLike, offsets: ArrayLike, exam: Any, threads: int | None = None
) -> FloatArray:
    """P(examined | query, policy) of each document: the shares of its components times theirs, eq:expexam."""
    curve = check_examination(exam)
    source = PageSource.make(as_policy(policy), scores, offsets, threads)
    theta = curve.curve(longest_query(source.offsets))
    rho = np.zeros(len(source.plan.scores))
    for c, part in enumerate(source.parts):
        if part.custom is not None:
            rho += part.share * propensity_of(part.custom, source.plan.scores, source.offsets, curve)
        elif part.kind == _plan.PLACKETT_LUCE:
            rho += part.share * _plackett_luce(source, c, theta)
        else:
            args = (source.plan, c, theta, len(source.offsets) - 1, rho)
            for_queries(_plan.add_propensities, source.offsets, *args, threads=threads)
    return np.minimum(rho, 1.0, out=rho)  # sums of shares may round above


def rank_probabilities(
    policy: Any, scores: ArrayLike, offsets: ArrayLike, k: int, threads: int | None = None
) -> FloatArray:
    """P(shown at rank r) is the propensity when rank r alone is examined, and always."""
    depth = check_cutoff(k)
    if depth is None:
        raise CounterrankError("k=None: expected the number of ranks to tell of")
    columns = []
    for rank in range(depth):
        only = Examination(np.eye(depth)[rank])
        columns.append(exact_propensity(policy, scores, offsets, only, threads))
    return np.stack(columns, axis=1)


def _plackett_luce(source: PageSource, c: int, theta: FloatArray) -> FloatArray:
    shown = theta[: source.plan.ks[c]]
    seen = np.flatnonzero(shown)
    rho = np.zeros(len(source.plan.scores))
    if len(seen):
        logits = source.plan.scores / source.plan.values[c]
        for_queries(
            plackett_luce_propensities,
            source.offsets,
            logits,
            np.ascontiguousarray(shown[: seen[-1] + 1]),
            rho,
            threads=source.threads,
        )
    return rho

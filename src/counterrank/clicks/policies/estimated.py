"""Propensities of a policy of which only samples can be had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.examination import check_examination
from counterrank.clicks.policies.base import as_policy
from counterrank.clicks.policies.pages import check_sample
from counterrank.common.checks import FloatArray, check_cutoff, check_offsets, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.random import derive_key, seed_key
from counterrank.common.ranking import longest_query
from counterrank.data.ids import place_in_query


@dataclass(frozen=True, eq=False)
class EstimatedPropensity:
    """Propensities from sampled pages.

    One over an estimate is too large on average, by about its squared relative error. Prefer exact propensities.

    Attributes:
        propensities: P(examined | query, policy), one per document.
        standard_errors: of each of them; nan for documents that were on no page, of which samples tell nothing.
        samples: how many pages were drawn for each query.
    """

    propensities: FloatArray
    standard_errors: FloatArray
    samples: int

    def largest_relative_error(self) -> float:
        """The largest standard error in units of its propensity, among documents that were shown."""
        shown = self.propensities > 0.0
        return float((self.standard_errors[shown] / self.propensities[shown]).max(initial=0.0))


def estimate_propensity(
    policy: Any,
    scores: ArrayLike,
    offsets: ArrayLike,
    exam: Any,
    *,
    samples: int = 1000,
    seed: int | np.random.Generator = 0,
) -> EstimatedPropensity:
    """Propensities of any policy that can `sample`: the mean of theta at the rank shown, 0 where it is not.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> from counterrank.clicks.policies import ReplaceLast
    >>> estimate = estimate_propensity(ReplaceLast(k=2), [3.0, 2.0, 1.0], [0, 3], inverse_rank(k=2), samples=100)
    >>> estimate.propensities[0], estimate.standard_errors[0]
    (np.float64(1.0), np.float64(0.0))
    """
    if check_cutoff(samples, "samples") in (None, 1):
        raise CounterrankError(f"samples={samples!r}: expected a whole number of at least 2")
    given = check_vector(scores, None, "scores")
    bounds = check_offsets(offsets, len(given))
    theta = check_examination(exam).curve(longest_query(bounds))
    total, squares = np.zeros(len(given)), np.zeros(len(given))
    chosen, key = as_policy(policy), seed_key(seed)
    for i in range(samples):
        drawn = chosen.sample(given, bounds, seed=int(derive_key(key, i) >> np.uint64(1)))
        docs, begins = check_sample(drawn[0], drawn[1], bounds)
        seen = theta[place_in_query(begins)]
        total[docs] += seen
        squares[docs] += seen * seen
    mean = total / samples
    variance = np.maximum(squares / samples - mean * mean, 0.0) / (samples - 1)
    return EstimatedPropensity(mean, np.where(total > 0.0, np.sqrt(variance), np.nan), samples)

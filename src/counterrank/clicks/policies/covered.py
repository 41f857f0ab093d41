"""What a policy lets users see, and which estimators can live with that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.clicks.examination import Examination, check_examination
from counterrank.clicks.policies import _plan
from counterrank.clicks.policies.base import Component, Policy, as_policy, components_of, propensity_of
from counterrank.common.checks import FloatArray, IntArray, check_offsets
from counterrank.common.ranking import longest_query

_CERTAIN = 1.0 - 1e-7  # probabilities are sums that round, of Plackett-Luce an integral


@dataclass(frozen=True, eq=False)
class Coverage:
    """Which documents can be examined under a policy.

    Whether a document is relevant is not known from clicks, so conditions are asked of every candidate.

    Attributes:
        offsets: of the queries.
        examinable: for each document whether it is examined with some probability on some page, eq:awarecond and
            eq:awarecond2.
        always_examinable: whether it is so on every page that can be shown, eq:agnosticcond.
    """

    offsets: IntArray
    examinable: NDArray[np.bool_]
    always_examinable: NDArray[np.bool_]

    @property
    def never_examined(self) -> FloatArray:
        """For each query the share of its candidates that can never be examined."""
        return self._shares(~self.examinable)

    @property
    def not_always_examined(self) -> FloatArray:
        """For each query the share of its candidates that are missing, or out of sight, on some page."""
        return self._shares(~self.always_examinable)

    @property
    def supports_policy_aware(self) -> bool:
        """Whether eq:awarecond holds for every candidate: policy-aware weights are unbiased for all of them."""
        return bool(self.examinable.all())

    @property
    def supports_policy_oblivious(self) -> bool:
        """Whether eq:agnosticcond holds for every candidate: policy-oblivious weights are unbiased."""
        return bool(self.always_examinable.all())

    def _shares(self, which: NDArray[np.bool_]) -> FloatArray:
        lengths = np.diff(self.offsets)
        return np.add.reduceat(which.astype(np.float64), self.offsets[:-1]) / lengths

    def __str__(self) -> str:
        lines = []
        for name, holds, which in (
            ("policy-aware (eq:awarecond)", self.supports_policy_aware, ~self.examinable),
            ("policy-oblivious (eq:agnosticcond)", self.supports_policy_oblivious, ~self.always_examinable),
        ):
            queries = np.count_nonzero(self._shares(which))
            fault = "can never be examined" if "aware" in name else "are not examinable on every page"
            lines.append(
                f"{name}: holds for all {len(which):,} candidates"
                if holds
                else f"{name}: violated, {which.sum():,} of {len(which):,} candidates ({which.mean():.1%}) {fault}, "
                f"in {queries:,} of {len(self.offsets) - 1:,} queries"
            )
        return "\n".join(lines)


def coverage(policy: Any, scores: ArrayLike, offsets: ArrayLike, exam: Any) -> Coverage:
    """Which documents a policy lets users see: the conditions of the policy-aware and policy-oblivious estimators.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> from counterrank.clicks.policies import Deterministic
    >>> covered = coverage(Deterministic(k=1), [3.0, 2.0], [0, 2], inverse_rank(k=1))
    >>> covered.examinable.tolist(), covered.never_examined.tolist(), covered.supports_policy_aware
    ([True, False], [0.5], False)
    """
    chosen, curve = as_policy(policy), check_examination(exam)
    bounds = check_offsets(offsets)
    # with every rank that can be examined examined for sure, P(examined) is P(shown where it can be seen)
    seen = curve.curve(longest_query(bounds)) > 0.0
    shown = propensity_of(chosen, scores, bounds, Examination(seen)) if seen.any() else np.zeros(bounds[-1])
    return Coverage(bounds, shown > 0.0, shown >= _CERTAIN)


def can_show_all(policy: Policy) -> bool:
    """Whether a policy shows every document of a query sometimes, however long the query is.

    A mixture does so if one of its parts does. Listed pages do not; of a policy of the user's own it is believed.

    >>> from counterrank.clicks.policies.named import parse_policy
    >>> [can_show_all(parse_policy(name)) for name in ("replace-last:k=5", "deterministic:k=5", "deterministic:k=none")]
    [True, False, True]
    >>> can_show_all(parse_policy("0.5*deterministic:k=5 + 0.5*deterministic:k=3"))
    False
    """
    return not all(map(_is_fixed, components_of(policy)))


def _is_fixed(part: Component) -> bool:
    """Whether a part of a policy shows a few documents and never any other."""
    never_drawn = part.kind == _plan.LAST and part.value == 0.0 and part.k < _plan.NO_CUTOFF
    return never_drawn or part.kind == _plan.LISTED

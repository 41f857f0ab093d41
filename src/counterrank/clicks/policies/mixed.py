"""Policies made of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterrank.clicks.policies.base import Component, Policy, as_policy, check_shares, components_of
from counterrank.common.errors import CounterrankError


class Mixture(Policy):
    """One of several policies per session, chosen by its share.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> from counterrank.clicks.policies import Deterministic, ReplaceLast
    >>> half = Mixture([Deterministic(k=2), ReplaceLast(k=2)], [0.5, 0.5])
    >>> half.propensity([3.0, 2.0, 1.0], [0, 3], inverse_rank(k=2))
    array([1.   , 0.375, 0.125])
    """

    def __init__(self, policies: Sequence[Any], shares: Sequence[float]) -> None:
        if isinstance(policies, str) or not hasattr(policies, "__iter__"):
            raise CounterrankError(f"policies: {type(policies).__name__}; expected a list of policies")
        self.policies = tuple(as_policy(policy) for policy in policies)
        self.shares = tuple(check_shares(shares, "shares"))
        if not self.policies or len(self.policies) != len(self.shares):
            raise CounterrankError(
                f"shares: {len(self.shares)} of them for {len(self.policies)} policies; expected one for each"
            )

    def components(self) -> list[Component]:
        """The parts of all its policies, those of mixtures inside it too; shares of 0 are left out."""
        return [
            part._replace(share=share * part.share)
            for policy, share in zip(self.policies, self.shares, strict=True)
            for part in components_of(policy)
            if share * part.share > 0.0
        ]

    def __repr__(self) -> str:
        return f"Mixture({list(self.policies)}, {list(self.shares)})"

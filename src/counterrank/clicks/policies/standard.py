"""Policies that change one place of the ranking by scores, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.clicks.policies import page_kernels as _plan
from counterrank.clicks.policies.base import (
    Component,
    Policy,
    Table,
    as_policy,
    check_positive,
    check_share,
    check_shares,
    components_of,
)
from counterrank.common.checks import check_cutoff
from counterrank.common.errors import CounterrankError


def _cutoff(k: int | None) -> int:
    return _plan.NO_CUTOFF if k is None else min(int(k), _plan.NO_CUTOFF)


@dataclass(frozen=True)
class Deterministic(Policy):
    """The top k, always.

    >>> Deterministic(k=2).sample([1.0, 3.0, 2.0], [0, 3])[0]
    array([1, 2])
    """

    k: int | None = None

    def __post_init__(self) -> None:
        check_cutoff(self.k)

    def components(self) -> list[Component]:
        """One part: nothing is replaced."""
        return [Component(1.0, _plan.LAST, _cutoff(self.k), 0.0)]


@dataclass(frozen=True)
class ReplaceLast(Policy):
    """The paper's: the top k-1, then one drawn uniformly from all the others.

        P(examined) = theta_rank                  for ranks below k
                      theta_k / (n - k + 1)       for the others

    >>> from counterrank.clicks.examination import inverse_rank
    >>> ReplaceLast(k=2).propensity([1.0, 3.0, 2.0], [0, 3], inverse_rank(k=2))
    array([0.25, 1.  , 0.25])
    """

    k: int | None = None

    def __post_init__(self) -> None:
        check_cutoff(self.k)

    def components(self) -> list[Component]:
        """One part: the last place is always drawn."""
        return [Component(1.0, _plan.LAST, _cutoff(self.k), 1.0)]


@dataclass(frozen=True)
class EpsilonGreedy(Policy):
    """With probability epsilon as `ReplaceLast`, else the top k.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> EpsilonGreedy(k=2, epsilon=0.5).propensity([1.0, 3.0, 2.0], [0, 3], inverse_rank(k=2))
    array([0.125, 1.   , 0.375])
    """

    k: int | None = None
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        check_cutoff(self.k)
        check_share(self.epsilon, "epsilon")

    def components(self) -> list[Component]:
        """One part: the last place is drawn with probability epsilon."""
        return [Component(1.0, _plan.LAST, _cutoff(self.k), float(self.epsilon))]


@dataclass(frozen=True)
class UniformInsert(Policy):
    """One document from outside the top k-1 at a uniform rank of 1 to k; the top k-1 keep their order around it.

        P(examined) = (k - i) / k theta_i + i / k theta_(i+1)        for rank i below k
                      mean of theta_1 to theta_k / (n - k + 1)       for the others
                      theta_rank                                     where n < k

    >>> from counterrank.clicks.examination import inverse_rank
    >>> UniformInsert(k=2).propensity([1.0, 3.0, 2.0], [0, 3], inverse_rank(k=2))
    array([0.375, 0.75 , 0.375])
    """

    k: int | None = None

    def __post_init__(self) -> None:
        check_cutoff(self.k)

    def components(self) -> list[Component]:
        """One part."""
        return [Component(1.0, _plan.INSERT, _cutoff(self.k))]


@dataclass(frozen=True)
class PlackettLuce(Policy):
    """Drawn without replacement, each time by the softmax of scores / temperature.

    Propensities are computed by a deterministic integral, not by sampling.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> PlackettLuce(k=1).propensity([0.0, 0.0], [0, 2], inverse_rank(k=1)).round(6)
    array([0.5, 0.5])
    """

    k: int | None = None
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_cutoff(self.k)
        check_positive(self.temperature, "temperature")

    def components(self) -> list[Component]:
        """One part."""
        return [Component(1.0, _plan.PLACKETT_LUCE, _cutoff(self.k), float(self.temperature))]


# Policies given page by page.


class Explicit(Policy):
    """Listed pages with their probabilities, for one query; `{query index: Explicit}` serves several.

    A page lists documents by their place in the query, from 0; pages may differ in length. Scores play no part.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> both = Explicit([[0, 1], [2, 1]], [0.75, 0.25])
    >>> both.propensity([0.0, 0.0, 0.0], [0, 3], inverse_rank(k=2))
    array([0.75, 0.5 , 0.25])
    """

    def __init__(self, rankings: Sequence[Sequence[int]], probabilities: Sequence[float]) -> None:
        self.probabilities = tuple(check_shares(probabilities, "probabilities"))
        if not hasattr(rankings, "__iter__"):
            raise CounterrankError(f"rankings: {type(rankings).__name__}; expected a list of pages")
        self.rankings = tuple(_check_page(page, i) for i, page in enumerate(rankings))
        if len(self.rankings) != len(self.probabilities):
            raise CounterrankError(
                f"probabilities: {len(self.probabilities)} of them for {len(self.rankings)} rankings; "
                "expected one for each"
            )

    def components(self) -> list[Component]:
        """One part, with a table of its pages."""
        return [Component(1.0, _plan.LISTED, table=Table({None: self.listed()}))]

    def listed(self) -> tuple[list[list[int]], list[float]]:
        """The pages that can occur, and their probabilities."""
        both = zip(self.rankings, self.probabilities, strict=True)
        kept = [(list(page), share) for page, share in both if share > 0.0]
        return [page for page, _ in kept], [share for _, share in kept]

    def __repr__(self) -> str:
        return f"Explicit({[list(page) for page in self.rankings]}, {list(self.probabilities)})"


class ExplicitQueries(Policy):
    """What `{query index: Explicit}` stands for: every query has its own list of pages.

    >>> policy = ExplicitQueries({0: Explicit([[0]], [1.0]), 1: Explicit([[1]], [1.0])})
    >>> policy.sample([0.0, 0.0, 0.0, 0.0], [0, 2, 4])[0]
    array([0, 3])
    """

    def __init__(self, queries: dict[int, Explicit]) -> None:
        for query, policy in queries.items():
            if isinstance(query, bool) or not isinstance(query, int | np.integer) or query < 0:
                raise CounterrankError(f"policy: key {query!r}; expected query indices, from 0")
            if not isinstance(policy, Explicit):
                raise CounterrankError(f"policy: {type(policy).__name__} for query {query}; expected Explicit")
        if not queries:
            raise CounterrankError("policy: an empty dict; expected {query index: Explicit}")
        self.queries = {int(query): policy for query, policy in queries.items()}

    def components(self) -> list[Component]:
        """One part, with a table of all pages."""
        pages: dict[int | None, tuple[list[list[int]], list[float]]]
        pages = {query: policy.listed() for query, policy in self.queries.items()}
        return [Component(1.0, _plan.LISTED, table=Table(pages))]

    def __repr__(self) -> str:
        return repr(self.queries)


def _check_page(page: Any, number: int) -> tuple[int, ...]:
    try:
        given = np.asarray(page)
    except ValueError:
        given = np.empty((0, 0))
    if given.ndim != 1 or not len(given) or given.dtype.kind not in "iu":
        raise CounterrankError(f"rankings[{number}]: {page!r}; expected places of documents in the query, from 0")
    places = tuple(int(place) for place in given)
    if min(places) < 0:
        raise CounterrankError(f"rankings[{number}]: {min(places)}; expected places in the query, from 0")
    if len(set(places)) < len(places):
        raise CounterrankError(f"rankings[{number}]: {list(places)} lists a document twice")
    return places


# Policies made of others.


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

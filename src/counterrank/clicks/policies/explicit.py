"""Policies given page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from counterrank.clicks.policies import _plan
from counterrank.clicks.policies.base import Component, Policy, Table, check_shares
from counterrank.common.errors import CounterrankError


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

"""The base class `Policy`, the logging policies of the library, and their coverage and propensities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.examination import Examination
from counterrank.clicks.policies import page_kernels as kernels
from counterrank.clicks.policies.live import Page, display
from counterrank.clicks.policies.pages import Component, ListedPages, PageSource, components_of, is_custom
from counterrank.clicks.policies.propensity import (
    Coverage,
    EstimatedPropensity,
    estimated_with_warning,
    exact_propensity,
    policy_coverage,
    rank_probabilities,
    sampled_propensity,
)
from counterrank.clicks.policies.team_draft import MOST
from counterrank.common.checks import FloatArray, IntArray, as_array, check_cutoff, check_number, check_whole
from counterrank.common.errors import CounterrankError, brief


class Policy:
    """A logging policy: the pages it shows for a query, and their probabilities.

    Policies of your own need `sample` and `propensity`, with the arguments here. With `sample` alone, propensities are
    estimated from samples. Deriving from this class adds `display`, `coverage` and `rank_probabilities`.
    """

    samples_components = True  # whether `sample` draws from `components`
    estimates_propensity = True  # whether a custom policy inherits `propensity`

    def __init_subclass__(cls) -> None:
        cls.samples_components = cls.sample is Policy.sample
        cls.estimates_propensity = cls.propensity is Policy.propensity

    def components(self) -> list[Component]:
        """The components of the policy; one unless it is a mixture."""
        return [Component(1.0, custom=self)]

    def sample(
        self, scores: ArrayLike, offsets: ArrayLike, seed: int | np.random.Generator = 0
    ) -> tuple[IntArray, IntArray]:
        """One displayed page for each query: documents by rank as row indices, and where each page begins.

        >>> from counterrank.clicks.policies import Deterministic
        >>> Deterministic(k=2).sample([1.0, 3.0, 2.0], [0, 3], seed=0)
        (array([1, 2]), array([0, 2]))
        """
        if is_custom(self):
            raise CounterrankError(f"policy: {type(self).__name__} has no `sample`; a policy of your own needs one")
        return PageSource.make(self, scores, offsets).one_each(seed)

    def propensity(
        self, scores: ArrayLike, offsets: ArrayLike, exam: Examination, *, threads: int | None = None
    ) -> FloatArray:
        """P(examined | query, policy) of each document, eq:expexam, exactly.

        >>> from counterrank.clicks.examination import inverse_rank
        >>> from counterrank.clicks.policies import ReplaceLast
        >>> ReplaceLast(k=2).propensity([3.0, 2.0, 1.0], [0, 3], inverse_rank(k=2))
        array([1.  , 0.25, 0.25])
        """
        if is_custom(self):
            return estimated_with_warning(self, scores, offsets, exam)
        return exact_propensity(self, scores, offsets, exam, threads)

    def rank_probabilities(
        self, scores: ArrayLike, offsets: ArrayLike, k: int, *, threads: int | None = None
    ) -> FloatArray:
        """P(shown at rank r | query, policy) of each document for r = 1 to k, float64 (n_docs, k).

        >>> from counterrank.clicks.policies import ReplaceLast
        >>> ReplaceLast(k=2).rank_probabilities([3.0, 2.0, 1.0], [0, 3], k=2).tolist()
        [[1.0, 0.0], [0.0, 0.5], [0.0, 0.5]]
        """
        return rank_probabilities(self, scores, offsets, k, threads)

    def display(self, scores: ArrayLike, exam: Examination, seed: int | np.random.Generator) -> Page:
        """One page for one query in a live service, with the values to log.

        Arguments:
            scores: of the candidates; a higher score ranks first.
            exam: how likely each rank is examined; a curve that ends before the longest page does is an error. A
                query with fewer documents than k has shorter pages.
            seed: a generator that lives as long as the service, or a number never used before.

        >>> from counterrank.clicks.examination import inverse_rank
        >>> from counterrank.clicks.policies import Deterministic
        >>> page = Deterministic(k=2).display([1.0, 3.0, 2.0], inverse_rank(k=2), seed=1)
        >>> page.docs.tolist(), page.propensities.tolist()
        ([1, 2], [1.0, 0.5])
        """
        return display(self, scores, exam, seed)

    def coverage(self, scores: ArrayLike, offsets: ArrayLike, exam: Examination) -> Coverage:
        """Which documents can be examined under this policy, see `counterrank.policies.coverage`."""
        return policy_coverage(self, scores, offsets, exam)


@dataclass(frozen=True)
class _TopK(Policy):
    """A policy whose pages begin with the top of the ranking; `k=None` for no cutoff."""

    k: int | None = None

    def __post_init__(self) -> None:
        check_cutoff(self.k)

    def _component(self, kind: int, value: float = 0.0) -> list[Component]:
        k = kernels.NO_CUTOFF if self.k is None else min(int(self.k), kernels.NO_CUTOFF)
        return [Component(1.0, kind, k, float(value))]


@dataclass(frozen=True)
class Deterministic(_TopK):
    """The top k, without randomisation.

    >>> Deterministic(k=2).sample([1.0, 3.0, 2.0], [0, 3])[0]
    array([1, 2])
    """

    def components(self) -> list[Component]:
        """One component: nothing is replaced."""
        return self._component(kernels.LAST, 0.0)


@dataclass(frozen=True)
class ReplaceLast(_TopK):
    """The policy of the paper: the top k-1, then one drawn uniformly from all the others.

        P(examined) = theta_rank                  for ranks below k
                      theta_k / (n - k + 1)       for the others

    >>> from counterrank.clicks.examination import inverse_rank
    >>> ReplaceLast(k=2).propensity([1.0, 3.0, 2.0], [0, 3], inverse_rank(k=2))
    array([0.25, 1.  , 0.25])
    """

    def components(self) -> list[Component]:
        """One component: the last rank is always drawn."""
        return self._component(kernels.LAST, 1.0)


@dataclass(frozen=True)
class EpsilonGreedy(_TopK):
    """With probability epsilon as `ReplaceLast`, else the top k.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> EpsilonGreedy(k=2, epsilon=0.5).propensity([1.0, 3.0, 2.0], [0, 3], inverse_rank(k=2))
    array([0.125, 1.   , 0.375])
    """

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self.epsilon, "epsilon", at_least=0, at_most=1)

    def components(self) -> list[Component]:
        """One component: the last rank is drawn with probability epsilon."""
        return self._component(kernels.LAST, self.epsilon)


@dataclass(frozen=True)
class UniformInsert(_TopK):
    """One document from outside the top k-1 at a uniform rank of 1 to k; the top k-1 keep their order around it.

        P(examined) = (k - i) / k theta_i + i / k theta_(i+1)        for rank i below k
                      mean of theta_1 to theta_k / (n - k + 1)       for the others
                      theta_rank                                     where n < k

    >>> from counterrank.clicks.examination import inverse_rank
    >>> UniformInsert(k=2).propensity([1.0, 3.0, 2.0], [0, 3], inverse_rank(k=2))
    array([0.375, 0.75 , 0.375])
    """

    def components(self) -> list[Component]:
        """One component."""
        return self._component(kernels.INSERT)


@dataclass(frozen=True)
class PlackettLuce(_TopK):
    """Drawn without replacement, each time by the softmax of scores / temperature.

    Propensities are computed by a deterministic integral, not by sampling.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> PlackettLuce(k=1).propensity([0.0, 0.0], [0, 2], inverse_rank(k=1)).round(6)
    array([0.5, 0.5])
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self.temperature, "temperature", above=0)

    def components(self) -> list[Component]:
        """One component."""
        return self._component(kernels.PLACKETT_LUCE, self.temperature)


@dataclass(frozen=True)
class TeamDraft(Policy):
    """Interleaves two rankings: in each round both add their best document that is not shown yet, in random order.

        P(d at rank r) = number of paths with d at r / 2**ceil(k / 2)     a path: who begins in each round

    `sample`, `propensity`, `display` and all that take scores then take a list of two score arrays. Propensities are
    exact. Documents below rank ceil(k / 2) in both rankings may never be shown, so that a log of it compares the two
    rankings by metrics cut at ceil(k / 2), and by no others: for these put it in a `Mixture` with a policy that shows
    all documents, such as `ReplaceLast`, which ranks by the first of the two.

    Arguments:
        k: the number of documents on a page, from 1 to 20; required, as the paths of the coins are enumerated.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> a, b = [3.0, 2.0, 1.0], [1.0, 2.0, 3.0]
    >>> TeamDraft(k=2).propensity([a, b], [0, 3], inverse_rank(k=2))  # pages 0, 2 and 2, 0
    array([0.75, 0.  , 0.75])
    """

    k: int | None = None

    def __post_init__(self) -> None:
        if check_whole(self.k, "k", 1) > MOST:
            raise CounterrankError(f"k={self.k}: expected at most {MOST}, since coins have 2**ceil(k / 2) paths")

    def components(self) -> list[Component]:
        """One component: its pages follow from the two rankings."""
        return [Component(1.0, kernels.LISTED, check_whole(self.k, "k", 1), interleaved=True)]


class Explicit(Policy):
    """Listed pages with their probabilities, for one query; `{query index: Explicit}` serves several.

    A page lists documents by their place in the query, from 0; pages may differ in length. Scores play no part.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> both = Explicit([[0, 1], [2, 1]], [0.75, 0.25])
    >>> both.propensity([0.0, 0.0, 0.0], [0, 3], inverse_rank(k=2))
    array([0.75, 0.5 , 0.25])
    """

    def __init__(self, rankings: Sequence[Sequence[int]], probabilities: Sequence[float]) -> None:
        self.probabilities = tuple(_check_shares(probabilities, "probabilities"))
        if not hasattr(rankings, "__iter__"):
            raise CounterrankError(f"rankings: {type(rankings).__name__}; expected a list of pages")
        self.rankings = tuple(_check_page(page, i) for i, page in enumerate(rankings))
        if len(self.rankings) != len(self.probabilities):
            raise CounterrankError(
                f"probabilities: {len(self.probabilities)} of them for {len(self.rankings)} rankings; "
                "expected one for each"
            )

    def components(self) -> list[Component]:
        """One component, with its list of pages."""
        return [Component(1.0, kernels.LISTED, listed={None: self.listed()})]

    def listed(self) -> tuple[list[list[int]], list[float]]:
        """The pages that can occur, and their probabilities."""
        both = zip(self.rankings, self.probabilities, strict=True)
        kept = [(list(page), share) for page, share in both if share > 0.0]
        return [page for page, _ in kept], [share for _, share in kept]

    def __repr__(self) -> str:
        return f"Explicit({[list(page) for page in self.rankings]}, {list(self.probabilities)})"


class ExplicitQueries(Policy):
    """Listed pages for several queries, as given by `{query index: Explicit}`.

    >>> policy = ExplicitQueries({0: Explicit([[0]], [1.0]), 1: Explicit([[1]], [1.0])})
    >>> policy.sample([0.0, 0.0, 0.0, 0.0], [0, 2, 4])[0]
    array([0, 3])
    """

    def __init__(self, queries: dict[int, Explicit]) -> None:
        for query, policy in queries.items():
            if isinstance(query, bool) or not isinstance(query, int | np.integer) or query < 0:
                raise CounterrankError(f"policy: key {brief(query)}; expected query indices, from 0")
            if not isinstance(policy, Explicit):
                raise CounterrankError(f"policy: {type(policy).__name__} for query {query}; expected Explicit")
        if not queries:
            raise CounterrankError("policy: an empty dict; expected {query index: Explicit}")
        self.queries = {int(query): policy for query, policy in queries.items()}

    def components(self) -> list[Component]:
        """One component, with the pages of all queries."""
        pages: ListedPages = {query: policy.listed() for query, policy in self.queries.items()}
        return [Component(1.0, kernels.LISTED, listed=pages)]

    def __repr__(self) -> str:
        return repr(self.queries)


def _check_page(page: Any, number: int) -> tuple[int, ...]:
    given = as_array(page, f"rankings[{number}]")
    if given.ndim != 1 or not len(given) or given.dtype.kind not in "iu":
        raise CounterrankError(f"rankings[{number}]: {brief(page)}; expected places of documents in the query, from 0")
    places = tuple(int(place) for place in given)
    if min(places) < 0:
        raise CounterrankError(f"rankings[{number}]: {min(places)}; expected places in the query, from 0")
    if len(set(places)) < len(places):
        raise CounterrankError(f"rankings[{number}]: {list(places)} lists a document twice")
    return places


class Mixture(Policy):
    """One of several policies per session, chosen by its share.

    With a part that interleaves two rankings, `TeamDraft`, scores are a list of two arrays; all other parts rank by the
    first.

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
        self.shares = tuple(_check_shares(shares, "shares"))
        if not self.policies or len(self.policies) != len(self.shares):
            raise CounterrankError(
                f"shares: {len(self.shares)} of them for {len(self.policies)} policies; expected one for each"
            )

    def components(self) -> list[Component]:
        """The components of all its policies, those of mixtures inside it too; shares of 0 are left out."""
        return [
            part._replace(share=share * part.share)
            for policy, share in zip(self.policies, self.shares, strict=True)
            for part in components_of(policy)
            if share * part.share > 0.0
        ]

    def __repr__(self) -> str:
        return f"Mixture({list(self.policies)}, {list(self.shares)})"


def _check_shares(values: Sequence[Any], name: str) -> list[float]:
    """Numbers from 0 to 1 that sum to 1."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise CounterrankError(f"{name}={brief(values)}: expected a list of numbers that sum to 1")
    shares = [check_number(value, f"{name}[{i}]", at_least=0, at_most=1) for i, value in enumerate(values)]
    if abs(sum(shares) - 1.0) > 1e-9:
        raise CounterrankError(f"{name}: sum to {sum(shares):g}; expected 1")
    return shares


def as_policy(policy: Any) -> Any:
    """A policy; of `{query index: Explicit}` the one that serves all these queries.

    >>> as_policy(3)
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: policy: int; expected a policy, such as policies.ReplaceLast(k=5)
    """
    if isinstance(policy, dict):
        return ExplicitQueries(policy)
    if not callable(getattr(policy, "sample", None)):
        raise CounterrankError(f"policy: {type(policy).__name__}; expected a policy, such as policies.ReplaceLast(k=5)")
    return policy


def coverage(policy: Any, scores: ArrayLike, offsets: ArrayLike, exam: Any) -> Coverage:
    """Which documents can be examined under a policy, and which estimators are unbiased under it.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> from counterrank.clicks.policies import Deterministic
    >>> covered = coverage(Deterministic(k=1), [3.0, 2.0], [0, 2], inverse_rank(k=1))
    >>> covered.examinable.tolist(), covered.never_examined.tolist(), covered.supports_policy_aware
    ([True, False], [0.5], False)
    """
    return policy_coverage(as_policy(policy), scores, offsets, exam)


def estimate_propensity(
    policy: Any,
    scores: ArrayLike,
    offsets: ArrayLike,
    exam: Any,
    *,
    samples: int = 1000,
    seed: int | np.random.Generator = 0,
) -> EstimatedPropensity:
    """Estimate propensities for any policy that can `sample`: the mean of theta at the displayed rank, 0 if not shown.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> from counterrank.clicks.policies import ReplaceLast
    >>> estimate = estimate_propensity(ReplaceLast(k=2), [3.0, 2.0, 1.0], [0, 3], inverse_rank(k=2), samples=100)
    >>> float(estimate.propensities[0]), float(estimate.standard_errors[0])
    (1.0, 0.0)
    """
    return sampled_propensity(as_policy(policy), scores, offsets, exam, samples, seed)

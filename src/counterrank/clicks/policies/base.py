"""What every logging policy offers, and what it is made of."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.examination import Examination
from counterrank.clicks.policies import page_kernels as _plan
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError


class Table(NamedTuple):
    """Listed pages by query index; None as index serves data of a single query."""

    pages: dict[int | None, tuple[list[list[int]], list[float]]]


class Component(NamedTuple):
    """One part of a mixture: a kind that kernels know, or a policy of the user's own."""

    share: float
    kind: int = -1
    k: int = _plan.NO_CUTOFF
    value: float = 0.0
    table: Table | None = None
    custom: Any = None


@dataclass(frozen=True)
class Page:
    """One displayed page, and what must be logged with it.

    Attributes:
        docs: the documents from rank 1 down, as places in the scores that were given.
        ranks: their ranks, from 1.
        propensities: P(examined | query, policy) of each.
        display_probabilities: P(shown at this rank | query, policy) of each.
    """

    docs: IntArray
    ranks: IntArray
    propensities: FloatArray
    display_probabilities: FloatArray


class Policy:
    """A logging policy: which pages it shows for a query, and how often.

    Policies of your own need `sample` and `propensity`, with the arguments here. With `sample` alone, propensities are
    estimated from samples. Deriving from this class adds `display`, `coverage` and `rank_probabilities`.
    """

    def components(self) -> list[Component]:
        """What the policy is a mixture of; of one part, if it is none."""
        return [Component(1.0, custom=self)]

    def sample(
        self, scores: ArrayLike, offsets: ArrayLike, seed: int | np.random.Generator = 0
    ) -> tuple[IntArray, IntArray]:
        """One displayed page for each query: documents by rank as row indices, and where each page begins.

        >>> from counterrank.clicks.policies import Deterministic
        >>> Deterministic(k=2).sample([1.0, 3.0, 2.0], [0, 3], seed=0)
        (array([1, 2]), array([0, 2]))
        """
        from counterrank.clicks.policies.pages import PageSource

        if _is_own(self):
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
        from counterrank.clicks.policies.propensity import exact_propensity

        return (
            estimated_with_warning(self, scores, offsets, exam)
            if _is_own(self)
            else exact_propensity(self, scores, offsets, exam, threads)
        )

    def rank_probabilities(
        self, scores: ArrayLike, offsets: ArrayLike, k: int, *, threads: int | None = None
    ) -> FloatArray:
        """P(shown at rank r | query, policy) of each document for r = 1 to k, float64 (n_docs, k).

        >>> from counterrank.clicks.policies import ReplaceLast
        >>> ReplaceLast(k=2).rank_probabilities([3.0, 2.0, 1.0], [0, 3], k=2).tolist()
        [[1.0, 0.0], [0.0, 0.5], [0.0, 0.5]]
        """
        from counterrank.clicks.policies.propensity import rank_probabilities

        return rank_probabilities(self, scores, offsets, k, threads)

    def display(self, scores: ArrayLike, exam: Examination, seed: int | np.random.Generator) -> Page:
        """One page for one query in a live service, with what must be logged beside it.

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
        from counterrank.clicks.policies.live import display

        return display(self, scores, exam, seed)

    def coverage(self, scores: ArrayLike, offsets: ArrayLike, exam: Examination) -> Any:
        """What this policy lets users see, see `counterrank.policies.coverage`."""
        from counterrank.clicks.policies.propensity import coverage

        return coverage(self, scores, offsets, exam)


def _is_own(policy: Any) -> bool:
    """Whether a policy is of the user's own making, so that kernels do not know its pages."""
    return any(part.custom is policy for part in components_of(policy))


def knows_propensity(policy: Any) -> bool:
    """Whether a policy can tell its propensities, rather than have them estimated from samples.

    >>> from counterrank.clicks.policies import Deterministic
    >>> knows_propensity(Deterministic(k=3))
    True
    """
    if not _is_own(policy):
        return all(part.custom is None or knows_propensity(part.custom) for part in policy.components())
    own = getattr(policy, "propensity", None)
    return callable(own) and getattr(own, "__func__", own) is not Policy.propensity


def propensity_of(policy: Any, scores: ArrayLike, offsets: ArrayLike, exam: Examination) -> FloatArray:
    """The propensities of any policy: its own, or estimated with a warning where it only has `sample`.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> from counterrank.clicks.policies import Deterministic
    >>> propensity_of(Deterministic(k=1), [1.0, 2.0], [0, 2], inverse_rank())
    array([0., 1.])
    """
    if _is_own(policy) and not knows_propensity(policy):
        return estimated_with_warning(policy, scores, offsets, exam)
    rho: FloatArray = policy.propensity(scores, offsets, exam)
    return rho


def estimated_with_warning(policy: Any, scores: ArrayLike, offsets: ArrayLike, exam: Examination) -> FloatArray:
    """Propensities from samples, and a warning that says how good they are.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> from counterrank.clicks.policies import Deterministic
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     estimated_with_warning(Deterministic(k=1), [1.0, 2.0], [0, 2], inverse_rank())
    array([0., 1.])
    """
    from counterrank.clicks.policies.propensity import estimate_propensity

    estimate = estimate_propensity(policy, scores, offsets, exam)
    unseen = int((estimate.propensities == 0.0).sum())
    warnings.warn(
        f"{type(policy).__name__} has no `propensity`; estimated from {estimate.samples:,} pages a query, with "
        f"relative standard errors up to {estimate.largest_relative_error():.2g}, and as 0 for {unseen:,} documents "
        "on none of these pages. Inverse weights are biased by such errors; see policies.estimate_propensity",
        stacklevel=3,
    )
    return estimate.propensities


def as_policy(policy: Any) -> Any:
    """A policy; of `{query index: Explicit}` the one that serves all these queries.

    >>> as_policy(3)
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: policy: int; expected a policy, such as policies.ReplaceLast(k=5)
    """
    from counterrank.clicks.policies.standard import ExplicitQueries

    if isinstance(policy, dict):
        return ExplicitQueries(policy)
    if not callable(getattr(policy, "sample", None)):
        raise CounterrankError(f"policy: {type(policy).__name__}; expected a policy, such as policies.ReplaceLast(k=5)")
    return policy


def components_of(policy: Any) -> list[Component]:
    """What a policy is a mixture of, also one that only has `sample` and `propensity`.

    >>> from counterrank.clicks.policies import Deterministic
    >>> len(components_of(Deterministic(k=3)))
    1
    """
    if isinstance(policy, Policy) and type(policy).sample is Policy.sample:
        return policy.components()
    return [Component(1.0, custom=policy)]  # also where someone derived from one of ours and draws in another way


def check_share(value: Any, name: str) -> float:
    """A number from 0 to 1.

    >>> check_share(0.5, "epsilon")
    0.5
    """
    numeric = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not numeric or not 0.0 <= float(value) <= 1.0:
        raise CounterrankError(f"{name}={value!r}: expected a number from 0 to 1")
    return float(value)


def check_shares(values: Sequence[Any], name: str) -> list[float]:
    """Numbers from 0 to 1 that sum to 1.

    >>> check_shares([0.25, 0.75], "shares")
    [0.25, 0.75]
    """
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise CounterrankError(f"{name}={values!r}: expected a list of numbers that sum to 1")
    shares = [check_share(value, f"{name}[{i}]") for i, value in enumerate(values)]
    if abs(sum(shares) - 1.0) > 1e-9:
        raise CounterrankError(f"{name}: sum to {sum(shares):g}; expected 1")
    return shares


def check_positive(value: Any, name: str) -> float:
    """A finite number above 0.

    >>> check_positive(2, "temperature")
    2.0
    """
    numeric = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not numeric or not 0.0 < float(value) < np.inf:
        raise CounterrankError(f"{name}={value!r}: expected a number above 0")
    return float(value)

"""Propensities P(examined | query, policy), display probabilities, and which documents a policy covers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.clicks.curves import Examination, check_examination
from counterrank.clicks.policies import page_kernels as kernels
from counterrank.clicks.policies.components import Component, components_of, is_custom, knows_propensity
from counterrank.clicks.policies.pages import PageSource, check_sample
from counterrank.clicks.policies.plackett_luce_kernels import plackett_luce_propensities
from counterrank.common.checks import FloatArray, IntArray, check_cutoff, check_offsets, check_vector, check_whole
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import for_queries
from counterrank.common.random import derive_key, seed_key
from counterrank.common.ranking import longest_query
from counterrank.data.ids import place_in_query


def propensity_of(policy: Any, scores: ArrayLike, offsets: ArrayLike, exam: Examination) -> FloatArray:
    """The propensities of any policy: its own, or estimated with a warning where it only has `sample`.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> from counterrank.clicks.policies import Deterministic
    >>> propensity_of(Deterministic(k=1), [1.0, 2.0], [0, 2], inverse_rank())
    array([0., 1.])
    """
    if is_custom(policy) and not knows_propensity(policy):
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
    estimate = sampled_propensity(policy, scores, offsets, exam, samples=1000, seed=0)
    never_shown = int((estimate.propensities == 0.0).sum())
    warnings.warn(
        f"{type(policy).__name__} has no `propensity`; estimated from {estimate.samples:,} pages a query, with "
        f"relative standard errors up to {estimate.largest_relative_error():.2g}, and as 0 for {never_shown:,} "
        "documents on none of these pages. Inverse weights are biased by such errors; see policies.estimate_propensity",
        stacklevel=3,
    )
    return estimate.propensities


def exact_propensity(
    policy: Any, scores: ArrayLike, offsets: ArrayLike, exam: Any, threads: int | None = None
) -> FloatArray:
    """P(examined | query, policy) of each document: the shares of its components times theirs, eq:expexam."""
    curve = check_examination(exam)
    source = PageSource.make(policy, scores, offsets, threads)
    theta = curve.curve(longest_query(source.offsets))
    rho = np.zeros(len(source.arrays.scores))
    for c, part in enumerate(source.parts):
        if part.custom is not None:
            rho += part.share * propensity_of(part.custom, source.arrays.scores, source.offsets, curve)
        elif part.kind == kernels.PLACKETT_LUCE:
            rho += part.share * _plackett_luce(source, c, theta)
        else:
            args = (source.arrays, c, theta, rho)
            for_queries(kernels.add_propensities, source.offsets, *args, threads=threads)
    return np.minimum(rho, 1.0, out=rho)  # sums of shares may round above


def rank_probabilities(
    policy: Any, scores: ArrayLike, offsets: ArrayLike, k: int, threads: int | None = None
) -> FloatArray:
    """P(shown at rank r) is the propensity when rank r alone is examined, and always."""
    depth = check_cutoff(k)
    if depth is None:
        raise CounterrankError("k=None: expected the number of ranks")
    columns = []
    for rank in range(depth):
        only = Examination(np.eye(depth)[rank])
        columns.append(exact_propensity(policy, scores, offsets, only, threads))
    return np.stack(columns, axis=1)


def _plackett_luce(source: PageSource, c: int, theta: FloatArray) -> FloatArray:
    shown = theta[: source.arrays.ks[c]]
    seen = np.flatnonzero(shown)
    rho = np.zeros(len(source.arrays.scores))
    if len(seen):
        logits = source.arrays.scores / source.arrays.values[c]
        for_queries(
            plackett_luce_propensities,
            source.offsets,
            logits,
            np.ascontiguousarray(shown[: seen[-1] + 1]),
            rho,
            threads=source.threads,
        )
    return rho


# --- estimated from samples


@dataclass(frozen=True, eq=False)
class EstimatedPropensity:
    """Propensities from sampled pages.

    One over an estimate is too large on average, by about its squared relative error. Prefer exact propensities.

    Attributes:
        propensities: P(examined | query, policy), one per document.
        standard_errors: of each of them; nan for documents that were on no page.
        samples: how many pages were drawn for each query.
    """

    propensities: FloatArray
    standard_errors: FloatArray
    samples: int

    def largest_relative_error(self) -> float:
        """The largest standard error in units of its propensity, among documents that were shown."""
        shown = self.propensities > 0.0
        return float((self.standard_errors[shown] / self.propensities[shown]).max(initial=0.0))


def sampled_propensity(
    policy: Any, scores: ArrayLike, offsets: ArrayLike, exam: Any, samples: int, seed: int | np.random.Generator
) -> EstimatedPropensity:
    """See `counterrank.policies.estimate_propensity`."""
    check_whole(samples, "samples", 2)
    given = check_vector(scores, None, "scores")
    bounds = check_offsets(offsets, len(given))
    theta = check_examination(exam).curve(longest_query(bounds))
    total, squares = np.zeros(len(given)), np.zeros(len(given))
    key = seed_key(seed)
    for i in range(samples):
        drawn = policy.sample(given, bounds, seed=int(derive_key(key, i) >> np.uint64(1)))
        docs, begins = check_sample(drawn[0], drawn[1], bounds)
        seen = theta[place_in_query(begins)]
        total[docs] += seen
        squares[docs] += seen * seen
    mean = total / samples
    variance = np.maximum(squares / samples - mean * mean, 0.0) / (samples - 1)
    return EstimatedPropensity(mean, np.where(total > 0.0, np.sqrt(variance), np.nan), samples)


# --- coverage: the conditions of the estimators


_CERTAIN = 1.0 - 1e-7  # probabilities are sums that round, of Plackett-Luce an integral


@dataclass(frozen=True, eq=False)
class Coverage:
    """Which documents can be examined under a policy.

    Whether a document is relevant is not known from clicks, so the conditions are checked for every candidate.

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


def policy_coverage(policy: Any, scores: ArrayLike, offsets: ArrayLike, exam: Any) -> Coverage:
    """See `counterrank.policies.coverage`."""
    curve = check_examination(exam)
    bounds = check_offsets(offsets)
    # with every rank that can be examined examined for sure, P(examined) is P(shown at such a rank)
    examined = curve.curve(longest_query(bounds)) > 0.0
    shown = propensity_of(policy, scores, bounds, Examination(examined)) if examined.any() else np.zeros(bounds[-1])
    return Coverage(bounds, shown > 0.0, shown >= _CERTAIN)


def can_show_all(policy: Any) -> bool:
    """Whether a policy shows every document of a query sometimes, however long the query is.

    A mixture does so if one of its parts does. Listed pages do not; a custom policy is assumed to.

    >>> from counterrank.clicks.policies import parse_policy
    >>> [can_show_all(parse_policy(name)) for name in ("replace-last:k=5", "deterministic:k=5", "deterministic:k=none")]
    [True, False, True]
    >>> can_show_all(parse_policy("0.5*deterministic:k=5 + 0.5*deterministic:k=3"))
    False
    """
    return not all(map(_is_fixed, components_of(policy)))


def _is_fixed(part: Component) -> bool:
    """Whether a part of a policy shows a few documents and never any other."""
    never_drawn = part.kind == kernels.LAST and part.value == 0.0 and part.k < kernels.NO_CUTOFF
    return never_drawn or part.kind == kernels.LISTED

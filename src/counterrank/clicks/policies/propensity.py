"""Propensities P(examined | query, policy) (`eq:expexam`), display probabilities, and which documents a policy covers.

    rho_i = sum_r theta_r P(document i at rank r)

Where pages can be counted they are sums over pages (`page_kernels.add_propensities`). Plackett-Luce fills a page by
drawing documents without replacement with odds w_i = exp(logit_i). Give every document an exponential clock of rate
w_i: the order of the alarms is the policy's ranking. Given that document i's clock rings at time t, its rank less one
is the number of other clocks that rang before, each with chance p_j = 1 - exp(-w_j t), so

    rho_i = integral over u of w_i t exp(-w_i t) E[theta_(1 + number of others before t)],   t = exp(u),

and the trapezoid rule over u, with the same nodes for all documents of a query, is all but exact. Let T_r be the time
of the r-th alarm. Whatever the ranking turns out to be, T_r is a sum of r independent exponential times whose rates
only fall, as what is left of the query gets less. From this follow bounds that hold for each document in terms of its
own rho_i, however unlikely the document is:

- step: the trapezoid rule does worst where the rates are equal (seen in all tests, not proven); there its error is
  2 |Gamma(r + i omega)| / Gamma(r) at omega = 2 pi / step, about 2e-8 for the step taken here.
- first node: rank 1 has a closed form, and P(T_2 < t) < (W t)^2 / 2, W being the sum of all rates.
- last node: P(T_r > t) is at most that of a sum of r exponential times at the rate of the n - r + 1 slowest clocks.
- between: where the rates are far apart, no alarm is due from long after those of the fast clocks to long before the
  first of the slow ones, and the nodes there are left out.

All terms are positive and nothing is subtracted, so small propensities are as precise as large ones: the relative
error comes to a few 1e-8. Propensities below about 1e-250 are only known to be below it.

The count of the others comes without a division: the chances of 0, 1, ... alarms among the documents ranked above i
(`_from_above`) meet what each count is worth given the documents ranked below i (`_from_below`).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.clicks.click_cards import propensity_card, propensity_summary, propensity_text
from counterrank.clicks.examination import Examination, lines_of
from counterrank.clicks.policies import page_kernels as kernels
from counterrank.clicks.policies.pages import (
    Component,
    PageSource,
    check_sample,
    check_scores,
    components_of,
    is_custom,
    knows_propensity,
)
from counterrank.common.checks import (
    FloatArray,
    IntArray,
    check_cutoff,
    check_offsets,
    check_whole,
)
from counterrank.common.errors import CounterrankError
from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel, inner_kernel
from counterrank.common.notebook import Shown, Summary
from counterrank.common.numerics import exp_negative
from counterrank.common.parallel import for_queries
from counterrank.common.random import derive_key, seed_key
from counterrank.common.ranking import longest_of, longest_query, rank_order
from counterrank.data.ids import place_in_query

# nodes worked on at a time: the innermost loops run over them as vector code
_NODES = 48
_ROOM = 1 << 24  # numbers of the largest scratch array, 128 MB
# (W t)^2 / 2 = 8e-9 at the first node, and W t = 9e-9 at the first node after a gap
_FIRST, _AFTER_GAP = 9.0, 18.5
# a larger distance between neighbouring logits gives the same propensities, or others below 1e-300
_WIDEST = 800.0
# exp(-w t) is next to nothing from here on
_LATE = 690.0
_LOG_LATE = math.log(_LATE)


@exact_inner_kernel
def _levels(logits: Array, order: Array, levels: Array, log_tails: Array) -> None:
    """Logits in rank order, from 0 downwards, and log sum_(j >= i) exp(level_j), the rate left after i alarms.

    Gaps are cut to `_WIDEST`, so that no number gets so large that it swallows the step.
    """
    n = len(logits)
    base, base_level = logits[order[0]], 0.0
    levels[0] = 0.0
    for i in range(1, n):
        levels[i] = base_level + (logits[order[i]] - base)
        if levels[i] < levels[i - 1] - _WIDEST:
            base, base_level = logits[order[i]], levels[i - 1] - _WIDEST
            levels[i] = base_level
    tail = 1.0
    log_tails[n - 1] = levels[n - 1]
    for i in range(n - 2, -1, -1):
        tail = 1.0 + tail * math.exp(levels[i + 1] - levels[i])
        log_tails[i] = levels[i] + math.log(tail)


@exact_inner_kernel
def _clock(level: float, node: float, growth: Array, rang: Array, silent: Array, density: Array) -> None:
    """Of one document by node: 1 - exp(-w t), exp(-w t), and w t exp(-w t), the density of its alarm over u.

    The nodes are u = node + log(growth).
    """
    start = _LATE * exp_negative(min(level + node - _LOG_LATE, 0.0))
    for b in range(len(growth)):
        wt = min(start * growth[b], _LATE)
        stays = exp_negative(-wt)
        # 1 - exp(-w t) would lose the digits of a small chance
        series = wt * (1.0 - wt * (0.5 - wt * (1.0 / 6.0 - wt * (1.0 / 24.0))))
        rang[b] = series if wt < 1e-3 else 1.0 - stays
        silent[b] = stays
        density[b] = wt * stays


@exact_inner_kernel
def _from_below(rang: Array, silent: Array, expected: Array) -> None:
    """`expected[i, a]` is E[theta_(1 + a + number of documents i, i+1, ... before t)], from `expected[n]` upwards."""
    n, m = rang.shape
    k = expected.shape[1]
    for i in range(n - 1, 0, -1):
        p, q = rang[i], silent[i]
        for a in range(k - 1):
            same, more, out = expected[i + 1, a], expected[i + 1, a + 1], expected[i, a]
            for b in range(m):
                out[b] = q[b] * same[b] + p[b] * more[b]
        same, out = expected[i + 1, k - 1], expected[i, k - 1]
        for b in range(m):
            out[b] = q[b] * same[b]


@inner_kernel
def _from_above(
    rang: Array, silent: Array, density: Array, expected: Array, chance: Array, gain: Array, total: Array
) -> None:
    """Add each document's integrand to its `total`; `chance[a]` is P(a of the documents above it before t)."""
    n, m = rang.shape
    k = expected.shape[1]
    chance[:] = 0.0
    chance[0] = 1.0
    for i in range(n):
        p, q, own = rang[i], silent[i], density[i]
        fewer, value = chance[k - 1], expected[i + 1, k - 1]
        for b in range(m):
            gain[b] = fewer[b] * value[b]
        for a in range(k - 2, -1, -1):
            here, fewer, value = fewer, chance[a], expected[i + 1, a]
            for b in range(m):
                gain[b] += fewer[b] * value[b]
                here[b] = q[b] * here[b] + p[b] * fewer[b]
        integral = 0.0
        for b in range(m):
            integral += own[b] * gain[b]
            fewer[b] *= q[b]
        total[i] += integral


@exact_inner_kernel
def _most_nodes(n: int, k: int) -> int:
    """The most nodes to take at once: fewer for a page so long that they would fill the memory."""
    return max(4, min(_NODES, _ROOM // ((n + 1) * max(k, 1)) // 4 * 4))


@exact_inner_kernel
def _nodes_now(left: float, most: int) -> int:
    """How many nodes to take at once, of about `left` to go: equal parts of at most `most`, whole vectors."""
    parts = math.ceil(left / most)
    return min(most, 4 * math.ceil(left / (4 * parts)))


@exact_inner_kernel
def _add_nodes(
    curve: Array, levels: Array, node: float, growth: Array, clocks: Array, expected: Array, chance: Array, total: Array
) -> None:
    """Add the integrand at the nodes `node + log(growth)` to `total`. The rest is scratch, cut to contiguous parts."""
    n, k, m = len(levels), len(curve), len(growth)
    rang, silent = clocks[0, : n * m].reshape(n, m), clocks[1, : n * m].reshape(n, m)
    density = clocks[2, : n * m].reshape(n, m)
    value = expected[: (n + 1) * k * m].reshape(n + 1, k, m)
    for a in range(k):
        value[n, a] = curve[a]
    for i in range(n):
        _clock(levels[i], node, growth, rang[i], silent[i], density[i])
    _from_below(rang, silent, value)
    # what is expected with all documents in is of no use to any of them, so its place is free for `gain`
    _from_above(rang, silent, density, value, chance[: k * m].reshape(k, m), value[0, 0], total)


@exact_inner_kernel
def _after_gaps(node: float, passed: int, k: int, reach: float, levels: Array, log_tails: Array) -> tuple[float, int]:
    """The next node: this one, or where a gap ends in which no alarm is due; and how many documents it is past."""
    while passed < k - 1 and node > reach - levels[passed]:
        passed += 1
        node = max(node, -log_tails[passed] - _AFTER_GAP)
    return node, passed


@exact_inner_kernel
def _integrate(
    curve: Array,
    levels: Array,
    log_tails: Array,
    growth: Array,
    clocks: Array,
    expected: Array,
    chance: Array,
    total: Array,
) -> None:
    """Fill `total` with the integrals, from the first node to the last, over gaps; from `growth` on, all is scratch."""
    k = len(curve)
    step = 1.0 / math.sqrt(k + 4.0)
    reach = math.log(k + 6.5 * math.sqrt(k) + 16.0)  # P(sum of k exponential times > exp(reach)) < 1e-9
    for b in range(_NODES):
        growth[b] = math.exp(b * step)
    total[:] = 0.0
    node = -log_tails[0] - _FIRST
    end = reach - log_tails[k - 1]
    passed = 0
    while node < end:
        m = _nodes_now((end - node) / step, _most_nodes(len(levels), k))
        _add_nodes(curve, levels, node, growth[:m], clocks, expected, chance, total)
        node, passed = _after_gaps(node + m * step, passed, k, reach, levels, log_tails)
    for i in range(len(total)):
        total[i] *= step


@exact_inner_kernel
def _last_examined(theta: Array, n: int) -> int:
    """The lowest rank of non-zero examination on a page of n documents; 0 where there is none."""
    k = min(len(theta), n)
    while k > 0 and theta[k - 1] == 0.0:
        k -= 1
    return k


@exact_kernel
def plackett_luce_propensities(first: int, last: int, offsets: Array, logits: Array, theta: Array, out: Array) -> None:
    """Fill `out` with rho_i = sum_r theta_r P(i at rank r) (`eq:expexam`) of the documents of the queries.

    Arguments:
        offsets: int64, the places of each query's documents.
        logits: float64, finite, scores divided by the temperature.
        theta: float64, not negative, the examination probability by rank, 0 beyond its end.

    >>> from counterrank.common.checks import read_only
    >>> out, offsets, logits = np.empty(3), read_only(np.array([0, 3])), np.log([1.0, 1.0, 2.0])
    >>> plackett_luce_propensities(0, 1, offsets, logits, np.array([1.0, 0.5]), out)
    >>> out.round(6).tolist()
    [0.416667, 0.416667, 0.666667]
    """
    n = longest_of(first, last, offsets)
    k = _last_examined(theta, n)
    order, keys, spare = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    levels, log_tails = np.empty(n), np.empty(n)
    clocks = np.empty((3, n * _NODES))
    space = 0
    for q in range(first, last):
        own = offsets[q + 1] - offsets[q]
        deep = _last_examined(theta, own)
        space = max(space, (own + 1) * deep * _most_nodes(own, deep))
    expected = np.empty(space)
    chance = np.empty(k * _NODES)
    growth, total = np.empty(_NODES), np.empty(n)
    curve = theta[:k].copy()
    curve[:1] = 0.0  # rank 1 has a closed form
    for q in range(first, last):
        begin, end = offsets[q], offsets[q + 1]
        n = end - begin
        out[begin:end] = 0.0
        k = _last_examined(theta, n)
        if k == 0:
            continue
        rank_order(logits[begin:end], order, keys, spare)
        _levels(logits[begin:end], order, levels, log_tails)
        for i in range(n):
            out[begin + order[i]] = theta[0] * math.exp(levels[i] - log_tails[0])
        if k == 1:
            continue
        _integrate(curve[:k], levels[:n], log_tails[:n], growth, clocks, expected, chance, total[:n])
        for i in range(n):
            out[begin + order[i]] += total[i]


@inner_kernel
def _count(rang: Array, silent: Array, chance: Array) -> None:
    """`chance[a]`, P(a alarms before t) by node, with one more document; more than len(chance) - 1 are left out."""
    m = len(rang)
    for a in range(len(chance) - 1, 0, -1):
        here, fewer = chance[a], chance[a - 1]
        for b in range(m):
            here[b] = silent[b] * here[b] + rang[b] * fewer[b]
    here = chance[0]
    for b in range(m):
        here[b] *= silent[b]


@exact_kernel
def plackett_luce_page(logits: Array, theta: Array, page: Array, rho: Array, shares: Array) -> None:
    """Of the documents of a page: rho_i = sum_r theta_r P(i at rank r) (`eq:expexam`), and `shares`, P(i at its rank).

    The same integrals as `plackett_luce_propensities` with the same nodes, for the page alone: alarms of documents that
    are not on it are counted once for all, and those of the page, but for i itself, on top of them for each i. So it is
    O(n k + k^3) a node.

    >>> from counterrank.common.checks import read_only
    >>> rho, shares = np.empty((2, 2))
    >>> plackett_luce_page(np.log([1.0, 1.0, 2.0]), np.array([1.0, 0.5]), np.array([2, 0]), rho, shares)
    >>> rho.round(6).tolist(), shares.round(6).tolist()
    ([0.666667, 0.416667], [0.5, 0.333333])
    """
    n, k = len(logits), len(page)
    order, keys, spare = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    levels, log_tails = np.empty(n), np.empty(n)
    rank_order(logits, order, keys, spare)
    _levels(logits, order, levels, log_tails)
    places, is_shown = spare[:k], keys
    for i in range(n):
        is_shown[i] = -1
    for i in range(k):
        is_shown[page[i]] = i
    for i in range(n):
        if is_shown[order[i]] >= 0:
            places[is_shown[order[i]]] = i
    for i in range(k):
        first = math.exp(levels[places[i]] - log_tails[0])
        rho[i] = theta[0] * first
        shares[i] = first if i == 0 else 0.0
    if k == 1:
        return
    step = 1.0 / math.sqrt(k + 4.0)
    reach = math.log(k + 6.5 * math.sqrt(k) + 16.0)
    growth = np.empty(_NODES)
    for b in range(_NODES):
        growth[b] = math.exp(b * step)
    clocks = np.empty((k + 1, 3, _NODES))
    others, chance = np.empty((k, _NODES)), np.empty((k, _NODES))
    node = -log_tails[0] - _FIRST
    end = reach - log_tails[k - 1]
    passed = 0
    while node < end:
        m = _nodes_now((end - node) / step, _NODES)
        grown = growth[:m]
        others[:] = 0.0
        others[0] = 1.0
        free = clocks[k]
        for i in range(n):
            if is_shown[order[i]] < 0:
                _clock(levels[i], node, grown, free[0, :m], free[1, :m], free[2, :m])
                _count(free[0, :m], free[1, :m], others)
        for i in range(k):
            _clock(levels[places[i]], node, grown, clocks[i, 0, :m], clocks[i, 1, :m], clocks[i, 2, :m])
        for i in range(k):
            chance[:] = others
            for j in range(k):
                if j != i:
                    _count(clocks[j, 0, :m], clocks[j, 1, :m], chance)
            own = clocks[i, 2]
            for a in range(1, k):
                integral = 0.0
                for b in range(m):
                    integral += own[b] * chance[a, b]
                rho[i] += theta[a] * step * integral
                if a == i:
                    shares[i] += step * integral
        node, passed = _after_gaps(node + m * step, passed, k, reach, levels, log_tails)


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
    curve = lines_of(exam)[0]
    source = PageSource.make(policy, scores, offsets, threads)
    theta = curve.curve(longest_query(source.offsets))
    rho = np.zeros(len(source.arrays.scores))
    for c, part in enumerate(source.parts):
        if part.custom is not None:
            rho += part.share * propensity_of(part.custom, source.arrays.scores, source.offsets, curve)
        elif part.kind == kernels.PLACKETT_LUCE:
            rho += part.share * plackett_luce_of(source, c, theta)
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


def plackett_luce_of(source: PageSource, c: int, theta: FloatArray) -> FloatArray:
    """The propensities of component `c`, which is Plackett-Luce, for a curve of numbers that are not negative."""
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


@dataclass(frozen=True, eq=False, repr=False)
class EstimatedPropensity(Shown):
    """Propensities from sampled pages; usable wherever an array of propensities is.

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

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is None:  # which numpy 1 does not know
            return np.asarray(self.propensities, dtype)
        return np.array(self.propensities, dtype, copy=copy)

    def summary(self) -> Summary:
        """Sizes, and the range of propensities and errors, as a dict that prints as a table."""
        return propensity_summary(self)

    def __repr__(self) -> str:
        return propensity_text(self)

    def _repr_html_(self) -> str:
        return propensity_card(self)


def sampled_propensity(
    policy: Any, scores: ArrayLike, offsets: ArrayLike, exam: Any, samples: int, seed: int | np.random.Generator
) -> EstimatedPropensity:
    """See `counterrank.policies.estimate_propensity`."""
    check_whole(samples, "samples", 2)
    given = check_scores(policy, scores)
    bounds = check_offsets(offsets, given.shape[-1])
    theta = lines_of(exam)[0].curve(longest_query(bounds))
    total, squares = np.zeros((2, given.shape[-1]))
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
        """For each query the share of its candidates that some page does not show at an examined rank."""
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
    curve = lines_of(exam)[0]
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

"""The expected DCG of a stochastic ranking, and the same with limits on exposure: Plackett-Luce losses by PL-Rank-3.

A Plackett-Luce policy draws documents without replacement, each time by the softmax of the scores s of those that are
left. With weights w and discounts theta_x of ranks x = 1 to k (0 beyond) its reward is

    U = E_y[sum over x <= k of theta_x w_(y_x)] = sum over d of w_d rho_d,     rho_d = sum_x theta_x P(y_x = d),

and from N drawn rankings y (Oosterhuis, SIGIR 2022, PL-Rank-3)

    dU / ds_d = E_y[ sum_(x > r) theta_x w_(y_x)
                     + e^(s_d) sum_(x <= r) (w_d theta_x - sum_(z >= x) theta_z w_(y_z)) / Z_x ],

r the rank of d in y (k if it is beyond), Z_x the sum of e^s over documents that are not yet placed at rank x. It is
unbiased for any N, and so it is with two changes that reduce its noise. Let v_x be the mean of w by e^s / Z_x over
documents not yet placed at rank x, and F_x = sum_(z > x) theta_z (w_(y_z) - v_x) the reward below x less that of v_x:

    dU / ds_d = E_y[ [d placed] F_r + e^(s_d) sum_(x <= r) (theta_x (w_d - v_x) - F_x) / Z_x ].

There is no noise for k = 1, nor where weights are equal. The exposure rho_d is estimated from the same draws,

    rho_d = E_y[sum over x <= r of theta_x e^(s_d) / Z_x].

Everything is computed by document in rank order. Let m be the first document, in that order, which is not yet placed
at rank x. All documents above m are placed, so Z_x is the sum of e^s from m on less the few that are placed below m,
each of which is at most e^(s_m): nothing that matters is lost by subtracting, however far scores are apart. The next
document is drawn from the sums from m on by bisection, and drawn anew if it is placed: at least one draw in k is not.
What documents share at rank x, 1 / Z_x, is added up by m; so a query costs O(n log n + N k log n).

Sums of e^s are relative to a document of the group: a group ends where scores fall by more than `_SPAN` among the
first k, so that no sum underflows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, check_cutoff, check_whole
from counterrank.common.errors import CounterrankError
from counterrank.common.jit import Array, argument_kernel, exact_inner_kernel
from counterrank.common.numerics import exp_negative
from counterrank.common.random import GOLDEN, mixed, seed_key, start_stream
from counterrank.common.ranking import longest_query, rank_order
from counterrank.losses.lambdaloss import cut_discounts, dcg_discounts, discount_table
from counterrank.losses.loss_kernels import NO_CUTOFF, Documents, LossSpec, Parameters, Room, check_inputs, run_loss

# what `Parameters.form` says: the plain reward, or with a limit on exposure
PLAIN, EXPOSURE, RISK, PRPO = 0, 1, 2, 3
_SPAN = 300.0
_S11 = np.uint64(11)


class Ranked(NamedTuple):
    """A query's documents in rank order.

    Attributes:
        scores, rewards: of each.
        odds: e^(s - s of the first document of its group).
        tails: sum of the odds from this document on, relative to its own group.
        reward_tails: the same of odds times rewards.
        order: places in the query.
        begins, ends: of the first k, where their group begins and ends; the last group has all others.
    """

    scores: Array
    rewards: Array
    odds: Array
    tails: Array
    reward_tails: Array
    order: Array
    begins: Array
    ends: Array


class Drawn(NamedTuple):
    """One ranking, by rank: the document, the first one not yet placed, the rank after which that is beyond it.

    Attributes:
        page: places in rank order.
        first: m, the first document that is not yet placed.
        left: Z_x relative to the group of m; `_add` turns it into 1 / Z_x.
        rewards_left: the same with each e^s times the reward.
        passed: by document, how many ranks had m at or above it.
        marks: by document, the number of the last ranking that it is in.
    """

    page: Array
    first: Array
    left: Array
    rewards_left: Array
    passed: Array
    marks: Array


class Totals(NamedTuple):
    """Sums over rankings, by document in rank order.

    Attributes:
        gradient: of the reward.
        exposure: sum over x <= r of theta_x e^(s_d) / Z_x.
        shares, futures: by m, sums of theta_x / Z_x and of (F_x + theta_x v_x) / Z_x.
        share_sums, future_sums: scratch: the same over the ranks of one ranking so far, from the first of a group on.
        ahead: scratch: by rank, (F_x + theta_x v_x) / Z_x.
    """

    gradient: Array
    exposure: Array
    shares: Array
    futures: Array
    share_sums: Array
    future_sums: Array
    ahead: Array


@exact_inner_kernel
def _rank(scores: Array, weights: Array, depth: int, ranked: Ranked, keys: Array, spare: Array) -> None:
    """Fill `ranked` with the documents of a query."""
    n = len(scores)
    rank_order(scores, ranked.order, keys, spare)
    begin = 0
    for i in range(n):
        ranked.scores[i] = scores[ranked.order[i]]
        ranked.rewards[i] = weights[ranked.order[i]]
        if i < depth:
            if ranked.scores[i] < ranked.scores[begin] - _SPAN:
                begin = i
            ranked.begins[i] = begin
    for i in range(n):
        begin = ranked.begins[min(i, depth - 1)]
        ranked.odds[i] = exp_negative(ranked.scores[i] - ranked.scores[begin])
    end = n
    total = 0.0
    for i in range(n - 1, -1, -1):
        if i + 1 < depth and ranked.begins[i + 1] == i + 1:
            end = i + 1
            total *= exp_negative(ranked.scores[i + 1] - ranked.scores[ranked.begins[i]])
        total += ranked.odds[i]
        ranked.tails[i] = total
        if i < depth:
            ranked.ends[i] = end


@exact_inner_kernel
def _sum_rewards(ranked: Ranked, depth: int) -> None:
    """Fill `reward_tails`."""
    n = len(ranked.scores)
    total = 0.0
    for i in range(n - 1, -1, -1):
        if i + 1 < depth and ranked.begins[i + 1] == i + 1:
            total *= exp_negative(ranked.scores[i + 1] - ranked.scores[ranked.begins[i]])
        total += ranked.odds[i] * ranked.rewards[i]
        ranked.reward_tails[i] = total


@exact_inner_kernel
def _odds(ranked: Ranked, i: int, m: int) -> float:
    """e^(s_i - s of the first document of the group of m), for i below m."""
    if i < ranked.ends[m]:
        found: float = ranked.odds[i]
        return found
    return exp_negative(ranked.scores[i] - ranked.scores[ranked.begins[m]])


@exact_inner_kernel
def _below(ranked: Ranked, m: int) -> float:
    """The odds of all documents below the group of m, relative to it."""
    end = ranked.ends[m]
    if end == len(ranked.scores):
        return 0.0
    below: float = ranked.tails[end] * exp_negative(ranked.scores[end] - ranked.scores[ranked.begins[m]])
    return below


@exact_inner_kernel
def _draw(ranked: Ranked, depth: int, number: int, drawn: Drawn, state: Array) -> None:
    """Draw the first `depth` ranks of ranking `number`."""
    tails = ranked.tails
    page, marks, passed = drawn.page, drawn.marks, drawn.passed
    m = 0
    placed_below = 0.0
    rewards_below = 0.0
    group_below = _below(ranked, m)
    word = state[0]
    for x in range(depth):
        while True:
            begin, end, rest = m, ranked.ends[m], group_below
            word += GOLDEN
            mass = (float(mixed(word) >> _S11) + 0.5) * 2.0**-53 * tails[begin]
            while mass <= rest:  # it is one of a lower group
                begin = end
                end, rest = ranked.ends[begin], _below(ranked, begin)
                word += GOLDEN
                mass = (float(mixed(word) >> _S11) + 0.5) * 2.0**-53 * tails[begin]
            # the last document whose tail is at least the mass
            length = end - begin
            while length > 1:
                half = length >> 1
                begin = begin + half if tails[begin + half] >= mass else begin
                length -= half
            if marks[begin] != number:
                break
        page[x] = begin
        marks[begin] = number
        drawn.first[x] = m
        drawn.left[x] = tails[m] - placed_below
        drawn.rewards_left[x] = ranked.reward_tails[m] - rewards_below
        if begin != m:
            passed[begin] = depth
            odds = _odds(ranked, begin, m)
            placed_below += odds
            rewards_below += odds * ranked.rewards[begin]
        elif x + 1 < depth:
            while marks[m] == number:
                passed[m] = x + 1
                m += 1
            group_below = _below(ranked, m)
            placed_below = 0.0
            rewards_below = 0.0
            for y in range(x):
                if page[y] > m:
                    odds = _odds(ranked, page[y], m)
                    placed_below += odds
                    rewards_below += odds * ranked.rewards[page[y]]
        else:
            passed[begin] = depth
    state[0] = word


@exact_inner_kernel
def _add(ranked: Ranked, theta: Array, depth: int, drawn: Drawn, totals: Totals) -> None:
    """Add one ranking to the totals; what documents share is added by m, less what they are placed above."""
    page, first, left, passed = drawn.page, drawn.first, drawn.left, drawn.passed
    begins, ahead = ranked.begins, totals.ahead
    future = 0.0
    examined = 0.0
    for x in range(depth - 1, -1, -1):
        inverse = 1.0 / left[x]
        mean = drawn.rewards_left[x] * inverse
        excess = future - examined * mean
        totals.gradient[page[x]] += excess
        ahead[x] = inverse * (excess + theta[x] * mean)
        left[x] = inverse
        future += theta[x] * ranked.rewards[page[x]]
        examined += theta[x]
    shares = 0.0
    futures = 0.0
    group = 0
    for x in range(depth):
        m = first[x]
        if begins[m] != group:
            group = begins[m]
            shares = 0.0
            futures = 0.0
        share = theta[x] * left[x]
        totals.shares[m] += share
        totals.futures[m] += ahead[x]
        shares += share
        futures += ahead[x]
        totals.share_sums[x] = shares
        totals.future_sums[x] = futures
    for r in range(depth):
        place, last = page[r], passed[page[r]] - 1
        if last <= r:
            continue
        if place < ranked.ends[first[r]] and begins[first[r]] == begins[first[last]]:
            odds = ranked.odds[place]
            totals.exposure[place] -= odds * (totals.share_sums[last] - totals.share_sums[r])
            totals.gradient[place] += odds * (totals.future_sums[last] - totals.future_sums[r])
        else:
            for x in range(r + 1, last + 1):
                odds = _odds(ranked, place, first[x])
                totals.exposure[place] -= odds * theta[x] * left[x]
                totals.gradient[place] += odds * ahead[x]


@exact_inner_kernel
def _finish(ranked: Ranked, depth: int, samples: int, totals: Totals) -> None:
    """Give each document what it shares with others, and divide by the number of rankings.

    Documents at m and below have e^(s_d - s_m) times the sums of m: they are passed on from m to m + 1.
    """
    n = len(ranked.scores)
    share = 0.0
    future = 0.0
    for i in range(depth):
        if i > 0:
            fall = exp_negative(ranked.scores[i] - ranked.scores[i - 1])
            share *= fall
            future *= fall
        share += ranked.odds[i] * totals.shares[i]
        future += ranked.odds[i] * totals.futures[i]
        totals.exposure[i] += share
        totals.gradient[i] -= future
    inverse = 1.0 / ranked.odds[depth - 1]
    for i in range(depth, n):
        factor = ranked.odds[i] * inverse
        totals.exposure[i] += factor * share
        totals.gradient[i] -= factor * future
    for i in range(n):
        exposure = max(totals.exposure[i], 0.0) / samples
        totals.exposure[i] = exposure
        totals.gradient[i] = totals.gradient[i] / samples + ranked.rewards[i] * exposure


@exact_inner_kernel
def _sample(
    ranked: Ranked, theta: Array, depth: int, samples: int, begin: int, drawn: Drawn, totals: Totals, state: Array
) -> None:
    """Estimates of gradient and exposure from so many rankings, numbered after `begin`."""
    n = len(ranked.scores)
    totals.gradient[:n] = 0.0
    totals.exposure[:n] = 0.0
    totals.shares[:depth] = 0.0
    totals.futures[:depth] = 0.0
    _sum_rewards(ranked, depth)
    for i in range(samples):
        _draw(ranked, depth, begin + i + 1, drawn, state)
        _add(ranked, theta, depth, drawn, totals)
    _finish(ranked, depth, samples, totals)


@exact_inner_kernel
def _limit(loss: Parameters, start: int, ranked: Ranked, exposure: Array) -> float:
    """Change the rewards for a limit on exposure, given rho; returns what does not depend on the policy any more.

    EXPOSURE    w_d - scale logged_d rho_d           logged_d = (share of sessions) / rho0_d
    RISK        -logged_d rho_d
    PRPO        w_d, or 0 where rho_d / rho0_d is above `high` (w_d >= 0) or below `low` (w_d < 0)
    """
    fixed = 0.0
    for i in range(len(ranked.scores)):
        logged, weight = loss.logged[start + ranked.order[i]], ranked.rewards[i]
        if loss.form == EXPOSURE:
            ranked.rewards[i] = weight - loss.scale * logged * exposure[i]
        elif loss.form == RISK:
            ranked.rewards[i] = -logged * exposure[i]
        else:
            limit = loss.high if weight >= 0.0 else loss.low
            if (exposure[i] - limit * logged) * weight >= 0.0:
                ranked.rewards[i] = 0.0
                fixed += limit * logged * weight
    return fixed


@argument_kernel
def plackett_luce_query(loss: Parameters, docs: Documents, curvature: Array | None, room: Room) -> float:
    """-U and its gradient, of one query, from `loss.samples` rankings; theta is `loss.table`, k `loss.k`.

    With a limit on exposure (`loss.form`, see `_limit`), rewards depend on rho, which is estimated from as many
    rankings of their own: then the gradient is unbiased for the rewards of EXPOSURE and RISK.
    """
    n, floats, ints = len(docs.scores), room.floats, room.ints
    depth = min(min(loss.k, n), len(loss.table))
    ranked = Ranked(floats[0][:n], floats[1], floats[2], floats[3], floats[12], ints[0], ints[1], ints[2])
    drawn = Drawn(ints[3], ints[4], floats[4], floats[13], ints[5], ints[6])
    totals = Totals(floats[5], floats[6], floats[7], floats[8], floats[9], floats[10], floats[11])
    _rank(docs.scores, docs.weights, depth, ranked, ints[5], ints[6])
    for i in range(n):
        drawn.marks[i] = 0
    start_stream(room.words, loss.key, docs.start)
    fixed = 0.0
    begin = n - n  # for a plain 0 numba would compile callees again
    if loss.form != PLAIN:
        _sample(ranked, loss.table, depth, loss.samples, begin, drawn, totals, room.words)
        fixed = _limit(loss, docs.start, ranked, totals.exposure)
        begin = loss.samples
    _sample(ranked, loss.table, depth, loss.samples, begin, drawn, totals, room.words)
    value = -fixed
    for i in range(n):
        value -= ranked.rewards[i] * totals.exposure[i]
        docs.gradient[ranked.order[i]] = -totals.gradient[i]
        if curvature is not None:
            curvature[ranked.order[i]] = 0.0
    return value


_MOST_SAMPLES = 2**31


def check_samples(samples: Any) -> int:
    """A number of rankings to draw.

    >>> check_samples(10)
    10
    """
    count = check_whole(samples, "samples")
    if count > _MOST_SAMPLES:
        raise CounterrankError(f"samples={count}: expected at most {_MOST_SAMPLES}")
    return count


def plackett_luce_spec(k: int | None, longest: int, samples: int) -> LossSpec:
    """The expected DCG@k of a Plackett-Luce policy."""
    table = cut_discounts(discount_table(dcg_discounts, longest), k)[: k or longest]
    return LossSpec(plackett_luce_query, Parameters(PLAIN, k=k or NO_CUTOFF, table=table, samples=samples))


def plackett_luce(
    scores: ArrayLike,
    weights: ArrayLike,
    offsets: ArrayLike,
    k: int | None = None,
    *,
    samples: int = 100,
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
) -> tuple[float, FloatArray]:
    """Minus the expected DCG@k of stochastic rankings, drawn by the softmax of the scores (PL-Rank-3).

        - sum over queries and d of w_d rho_d,     rho_d = sum over x <= k of D_x P(d at rank x)

    with D_x = 1 / log2(1 + x). Value and gradient are estimated from drawn rankings, unbiased for any number of them.
    Oosterhuis, Learning-to-Rank at the Speed of Sampling, SIGIR 2022.

    Arguments:
        scores, weights: one number per document; negative weights are legal.
        offsets: where each query starts and ends.
        k: the cutoff; None for whole rankings.
        samples: how many rankings are drawn for each query.
        seed: of the draws.
        threads: None for all cores; the result does not depend on it.

    Returns the value and its gradient for the scores.

    >>> value, gradient = plackett_luce([0.0, 0.0], [0.0, 1.0], [0, 2], k=1)
    >>> value, gradient.tolist()  # at rank 1 with probability p = 1/2, with slope p (1 - p); no noise, as k is 1
    (-0.5, [0.25, -0.25])
    """
    s, w, o = check_inputs(scores, weights, offsets)
    spec = plackett_luce_spec(check_cutoff(k), longest_query(o), check_samples(samples))
    return run_loss(spec.with_key(seed_key(seed)), s, w, o, threads)

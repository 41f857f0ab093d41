"""Slow references for the Plackett-Luce propensities: all ordered pages, and all ways to draw from a few groups."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log2

from numpy import array


def chances(logits):
    """The softmax; nothing is subtracted but the largest logit, so small chances keep their digits."""
    top = max(logits)
    weights = [exp(logit - top) for logit in logits]
    return [w / sum(weights) for w in weights]


def propensities(logits, theta):
    """sum_r theta_r P(document at rank r), from every page that the policy may show."""
    result = [0.0] * len(logits)

    def draw(rank, left, probability):
        if rank == len(theta) or not left:
            return
        for doc, chance in zip(left, chances([logits[i] for i in left]), strict=True):
            result[doc] += probability * chance * theta[rank]
            draw(rank + 1, [i for i in left if i != doc], probability * chance)

    draw(0, list(range(len(logits))), 1.0)
    return result


def propensities_of_groups(logits, sizes, theta):
    """As `propensities` for a query with `sizes[g]` documents of logit `logits[g]`; one value for each group.

    Documents of a group are alike, so it is enough to know how many of each have been drawn.
    """
    groups = range(len(sizes))
    result = [0.0] * len(sizes)
    reached = {(0,) * len(sizes): 1.0}
    for examined in theta[: sum(sizes)]:
        after = {}
        for drawn, probability in reached.items():
            left = [g for g in groups if drawn[g] < sizes[g]]
            top = max(logits[g] for g in left)
            weights = {g: (sizes[g] - drawn[g]) * exp(logits[g] - top) for g in left}
            for g in left:
                part = probability * weights[g] / sum(weights.values())
                result[g] += part * examined / sizes[g]
                state = (*drawn[:g], drawn[g] + 1, *drawn[g + 1 :])
                after[state] = after.get(state, 0.0) + part
        reached = after
    return result


def law_of_alias_table(thresholds, aliases, shift):
    """P(place) of one draw, exactly: 64 equally likely bits, read as a column and a coin of `shift` bits."""
    coins = 2**shift
    ways = [0] * (2**64 // coins)
    for column in range(len(ways)):
        ways[column] += thresholds[column]
        ways[aliases[column]] += coins - thresholds[column]
    return [Fraction(own, 2**64) for own in ways]


def dcg_theta(k, n):
    """1 / log2(1 + rank) up to k, as far as there are documents."""
    return [1.0 / log2(1 + rank) for rank in range(1, min(n, k or n) + 1)]


def expected_reward(scores, weights, theta):
    """sum_d w_d rho_d of the policy that draws by the softmax of the scores."""
    return sum(w * rho for w, rho in zip(weights, propensities(scores, theta), strict=True))


def rankings(scores, depth):
    """All rankings of so many documents with their probability, and the gradient of its logarithm for the scores."""
    found = []

    def draw(page, left, probability, slopes):
        if len(page) == depth or not left:
            found.append((page, probability, slopes))
            return
        for doc, chance in zip(left, shares := chances([scores[i] for i in left]), strict=True):
            after = list(slopes)
            after[doc] += 1.0
            for other, share in zip(left, shares, strict=True):
                after[other] -= share
            draw([*page, doc], [i for i in left if i != doc], probability * chance, after)

    draw([], list(range(len(scores))), 1.0, [0.0] * len(scores))
    return found


def exposure_gradient(scores, theta):
    """d rho_d / d s_i of all pairs: sum over rankings of P(y) theta_(rank of d) d log P(y) / d s_i."""
    jacobian = [[0.0] * len(scores) for _ in scores]
    for page, probability, slopes in rankings(scores, len(theta)):
        for doc, examined in zip(page, theta, strict=False):
            for i, slope in enumerate(slopes):
                jacobian[doc][i] += probability * examined * slope
    return jacobian


def reward_gradient(scores, weights, theta):
    """d sum_d w_d rho_d / d s_i."""
    jacobian = exposure_gradient(scores, theta)
    return array([sum(w * row[i] for w, row in zip(weights, jacobian, strict=True)) for i in range(len(scores))])

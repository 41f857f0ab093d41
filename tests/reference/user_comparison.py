"""Predictions of user models and their comparison, slow and obvious."""

import itertools
import math


def last_clicks(pages):
    """For each place of each page (lists of 0 and 1) the rank of the last click above, 0 without one."""
    found = []
    for clicked in pages:
        for j in range(len(clicked)):
            found.append(max([i + 1 for i in range(j) if clicked[i]], default=0))
    return found


def posterior(cells, low, high, prior, grid):
    """The posterior over the grid of one document, cells being (kind, impressions, clicks); and its likelihood."""
    weights = []
    for t, share in zip(grid, prior, strict=True):
        value = share
        for kind, n, c in cells:
            p = low[kind] + (high[kind] - low[kind]) * t
            value *= p**c * (1.0 - p) ** (n - c)
        weights.append(value)
    total = sum(weights)
    return [value / total for value in weights], total


def ways(clicked, relevance, going_on):
    """All that may have happened on a page of dependent clicks: (how far the user read, probability) for each.

    Reading on after the click at rank j has probability going_on[j]; without a click everyone reads on.
    """
    k = len(clicked)
    stops = [j for j in range(k) if clicked[j]]
    for stop in [*stops, None]:  # the click after which the user left
        end = k if stop is None else stop + 1
        if any(clicked[end:]):
            continue
        value = 1.0
        for j in range(end):
            value *= relevance[j] if clicked[j] else 1.0 - relevance[j]
            if clicked[j] and j != stop:
                value *= going_on[j]
        yield end, value * (1.0 if stop is None else 1.0 - going_on[stop])


def page_probability(clicked, relevance, going_on):
    return sum(value for _, value in ways(clicked, relevance, going_on))


def examined(clicked, relevance, going_on):
    """P(examined | all clicks of the page) of each place."""
    total = page_probability(clicked, relevance, going_on)
    return [
        sum(value for end, value in ways(clicked, relevance, going_on) if j < end) / total for j in range(len(clicked))
    ]


def chance(clicked, j, relevance, going_on):
    """P(click at place j | clicks above), by adding up all pages that begin alike."""
    k = len(clicked)
    total = [0.0, 0.0]
    for rest in itertools.product([0, 1], repeat=k - j):
        page = [*clicked[:j], *rest]
        total[rest[0]] += page_probability(page, relevance, going_on)
    return total[1] / sum(total)


def compared(p, other, clicked, ranks, clusters):
    """Mean log-likelihood, perplexity by rank, and the paired difference with its variance over clusters."""
    values = [math.log(x) if y else math.log(1.0 - x) for x, y in zip(p, clicked, strict=True)]
    others = [math.log(x) if y else math.log(1.0 - x) for x, y in zip(other, clicked, strict=True)]
    by_rank = []
    for rank in range(max(ranks) + 1):
        own = [v for v, r in zip(values, ranks, strict=True) if r == rank]
        by_rank.append(math.exp(-sum(own) / len(own)))
    mean = sum(values) / len(values)
    difference = mean - sum(others) / len(others)
    squares, names = 0.0, sorted(set(clusters))
    for name in names:
        own = [a - b - difference for a, b, c in zip(values, others, clusters, strict=True) if c == name]
        squares += sum(own) ** 2
    variance = squares * len(names) / (len(names) - 1) / len(values) ** 2
    return mean, by_rank, difference, variance

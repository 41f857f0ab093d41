"""Slow, obvious references for the propensities of several policies and of the affine estimator: page by page."""

from __future__ import annotations

import math

from tests.reference.policies import pages_of


def canonical(alpha, beta) -> tuple[list[float], list[float], float, float]:
    """alpha and beta where r = 0 and r = 1 are the ends of what gives probabilities; these ends in the old gauge."""
    low = max(-b / a for a, b in zip(alpha, beta, strict=True) if a > 0.0)
    high = min((1.0 - b) / a for a, b in zip(alpha, beta, strict=True) if a > 0.0)
    return [a * (high - low) for a in alpha], [b + a * low for a, b in zip(alpha, beta, strict=True)], low, high


def expected_at_rank(policy, scores, offsets, curve) -> list[float]:
    """E[curve at the rank of each document] over all pages the policy may show; 0 where it is not shown."""
    total = [0.0] * offsets[-1]
    for query in range(len(offsets) - 1):
        own = scores[offsets[query] : offsets[query + 1]]
        for page, probability in pages_of(policy, own, query).items():
            for rank, place in enumerate(page):
                total[offsets[query] + place] += probability * (curve[rank] if rank < len(curve) else 0.0)
    return total


def mean_over_policies(policies, sessions, offsets, curve) -> list[float]:
    """`policies` lists (policy, scores), `sessions` the sessions of each by query."""
    total = [0.0] * offsets[-1]
    for query in range(len(offsets) - 1):
        total_sessions = sum(own[query] for own in sessions)
        for (policy, scores), own in zip(policies, sessions, strict=True):
            expected = expected_at_rank(policy, scores, offsets, curve)
            for doc in range(offsets[query], offsets[query + 1]):
                total[doc] += own[query] / total_sessions * expected[doc] if total_sessions else 0.0
    return total


def affine(lengths, sessions, mean_alpha, mean_beta, shown, clip=None) -> list[float]:
    """`sessions` as in naive_estimators: (query, page, ranks clicked); `shown` are alpha and beta by `frequencies`."""
    weights, first = [], 0
    n = [
        sum(query == session[0] for session in sessions) for query, length in enumerate(lengths) for _ in range(length)
    ]
    mean = mean_of_seldom_shown(lengths, sessions, n, shown)
    for query, length in enumerate(lengths):
        own = [session for session in sessions if session[0] == query]
        for place in range(length):
            clicks = sum(page.index(place) + 1 in clicked for _, page, clicked in own if place in page)
            gain, base = mean_alpha[first + place], mean_beta[first + place]
            inverse = min(1.0 / gain, math.inf if clip is None else clip) if gain > 0.0 else 0.0
            weights.append((clicks - len(own) * base) * inverse if gain > 0.0 else len(own) * mean)
        first += length
    return weights


def mean_of_seldom_shown(lengths, sessions, n, shown) -> float:
    """The relevance of documents on less than half of the pages of their query, or of all where there are none."""
    pairs = [(query, place) for query, length in enumerate(lengths) for place in range(length)]
    every = []
    for d, (query, place) in enumerate(pairs):
        own = [(page, clicked) for of, page, clicked in sessions if of == query and place in page]
        clicks = sum(page.index(place) + 1 in clicked for page, clicked in own)
        every.append((2 * len(own) < n[d], n[d] * shown[0][d], clicks - n[d] * shown[1][d]))
    seldom = [each for each in every if each[0]]
    used = seldom if sum(times for _, times, _ in seldom) > 0.0 else every
    times, net = sum(each[1] for each in used), sum(each[2] for each in used)
    return min(max(net / times, 0.0), 1.0) if times > 0.0 else 0.0


def frequencies(lengths, sessions, curve) -> list[float]:
    """The mean of the curve at the rank of each document over the sessions of its query, 0 where it is not shown."""
    found = []
    for query, length in enumerate(lengths):
        pages = [page for shown, page, _ in sessions if shown == query]
        for place in range(length):
            seen = [curve[page.index(place)] for page in pages if place in page and page.index(place) < len(curve)]
            found.append(sum(seen) / len(pages) if pages else 0.0)
    return found

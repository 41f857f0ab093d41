"""A slow, obvious reference for planning: every page, every pattern of clicks on it, with its probability."""

from __future__ import annotations

from itertools import pairwise, product
from math import log2, sqrt

from tests.reference.estimate import values
from tests.reference.policies import pages_of, propensities


def outcomes(policy, scores, theta, attraction, query=0):
    """(probability, page, clicks on it as 0 and 1) of everything that may happen in one session."""
    for page, shown in pages_of(policy, scores, query).items():
        for clicks in product((0, 1), repeat=len(page)):
            probability = shown
            for rank, (place, click) in enumerate(zip(page, clicks, strict=True)):
                chance = (theta[rank] if rank < len(theta) else 0.0) * attraction[place]
                probability *= chance if click else 1.0 - chance
            if probability > 0.0:
                yield probability, page, clicks


def moments(policy, logger, value, theta, attraction, offsets):
    """Mean and variance of Y = sum of click * value / rho, for each query."""
    found = []
    for q, (start, end) in enumerate(pairwise(offsets)):
        own = list(logger[start:end])
        rho = propensities(pages_of(policy, own, q), end - start, theta)
        first = second = 0.0
        for probability, page, clicks in outcomes(policy, own, theta, list(attraction[start:end]), q):
            y = sum(value[start + place] / rho[place] for place, click in zip(page, clicks, strict=True) if click)
            first += probability * y
            second += probability * y * y
        found.append((first, second - first**2))
    return found


def plan(policy, logger, scores, labels, offsets, theta, metric, frequencies, sessions, threshold=3):
    """All that a plan says of one policy, target "these-queries", as a dict."""
    attraction = [1.0 if label >= threshold else 0.1 for label in labels]
    value = values(metric, scores, offsets)
    rho, often = [], []
    for q, (start, end) in enumerate(pairwise(offsets)):
        rho += propensities(pages_of(policy, list(logger[start:end]), q), end - start, theta)
        often += [frequencies[q]] * (end - start)
    docs = [d for d in range(len(rho)) if rho[d] > 0.0]
    weight = sum(often[d] * attraction[d] for d in docs)
    squares = sum(often[d] * attraction[d] / rho[d] for d in docs)
    ips = sum(often[d] * attraction[d] * value[d] for d in docs)
    ratio = ips / weight
    plain = moments(policy, logger, value, theta, attraction, offsets)
    centred = moments(policy, logger, [v - ratio for v in value], theta, attraction, offsets)
    return {
        "clicks": sum(o * a * r for o, a, r in zip(often, attraction, rho, strict=True)),
        "effective_sample_size": weight**2 / squares,
        "ips": ips,
        "ips_variance": sum(f * own for f, (_, own) in zip(frequencies, plain, strict=True)),
        "self_normalized": ratio,
        "self_normalized_variance": sum(f * own for f, (_, own) in zip(frequencies, centred, strict=True)) / weight**2,
        "covered": len(docs) / len(rho),
        "seen": sum(1.0 - (1.0 - o * r) ** sessions for o, r in zip(often, rho, strict=True)) / len(rho),
        "displayed": displayed(policy, logger, labels, offsets, metric, frequencies, threshold),
        "width": 2
        * 1.959963984540054
        * sqrt(max(0.0, sum(f * own for f, (_, own) in zip(frequencies, plain, strict=True))) / sessions),
    }


def displayed(policy, logger, labels, offsets, metric, frequencies, threshold=3):
    """The expected metric of the displayed pages, over queries with a relevant document."""
    kind, _, k = metric.partition("@")
    assert kind == "dcg"
    total = below = 0.0
    for q, (start, end) in enumerate(pairwise(offsets)):
        relevant = [label >= threshold for label in labels[start:end]]
        if any(relevant):
            below += frequencies[q]
            for page, probability in pages_of(policy, list(logger[start:end]), q).items():
                for rank, place in enumerate(page, 1):
                    if relevant[place] and (not k or rank <= int(k)):
                        total += frequencies[q] * probability / log2(1 + rank)
    return total / below


def comparison(arms, value_a, value_b, theta, attraction, offsets, frequencies):
    """Mean and variance of Y = sum of click * (lambda_A - lambda_B) / rho where several policies share the sessions.

    `arms` are (share, policy, scores). Also P(examined) of each document.
    """
    total = below = 0.0
    rhos = []
    for q, (start, end) in enumerate(pairwise(offsets)):
        pages = {}
        for share, policy, scores in arms:
            two = hasattr(scores[0], "__len__")
            own = [list(each[start:end]) for each in scores] if two else list(scores[start:end])
            for page, probability in pages_of(policy, own, q).items():
                pages[page] = pages.get(page, 0.0) + share * probability
        rho = propensities(pages, end - start, theta)
        rhos += rho
        first = second = 0.0
        for page, shown in pages.items():
            for clicks in product((0, 1), repeat=len(page)):
                probability, y = shown, 0.0
                for rank, (place, click) in enumerate(zip(page, clicks, strict=True)):
                    chance = (theta[rank] if rank < len(theta) else 0.0) * attraction[start + place]
                    probability *= chance if click else 1.0 - chance
                    if click:
                        y += (value_a[start + place] - value_b[start + place]) / rho[place] if rho[place] else 0.0
                first += probability * y
                second += probability * y * y
        total += frequencies[q] * first
        below += frequencies[q] * (second - first**2)
    return total, below, rhos

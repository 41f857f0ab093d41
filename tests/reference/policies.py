"""Every page a policy may show for one query, with its probability, straight from the table of policies.

Slow and obvious: whole pages are listed, nothing is simplified. Also one page drawn in the words of the table.
"""

from __future__ import annotations

import itertools
import math


def ranked(scores):
    """Places of the documents, best score first; equal scores keep document order."""
    return sorted(range(len(scores)), key=lambda place: (-scores[place], place))


def pages_of(policy, scores, query=0):
    """{page: probability}; a page is the tuple of the places it shows from rank 1 down.

    `scores` are two lists for policies that interleave two rankings; other parts of a mixture take the first.
    """
    found = {}
    two = len(scores) > 0 and hasattr(scores[0], "__len__")
    given = [[float(score) for score in each] for each in scores] if two else [float(score) for score in scores]
    for page, probability in _listed(policy, given, query):
        if probability > 0.0:
            found[page] = found.get(page, 0.0) + probability
    assert math.isclose(sum(found.values()), 1.0, rel_tol=1e-9)
    return found


def _listed(policy, scores, query):
    if isinstance(policy, dict):
        return _listed(policy[query], scores, query)
    name = type(policy).__name__
    if name == "Explicit":
        return [(tuple(page), p) for page, p in zip(policy.rankings, policy.probabilities, strict=True)]
    if name == "Mixture":
        return [
            (page, share * probability)
            for part, share in zip(policy.policies, policy.shares, strict=True)
            for page, probability in _listed(getattr(part, "queries", part), scores, query)
        ]
    if name == "TeamDraft":
        return [(page, probability) for page, _, probability in drafts(*scores, policy.k)]
    if hasattr(scores[0], "__len__"):
        scores = scores[0]
    if hasattr(policy, "enumerate_pages"):  # a policy of a test's own
        return policy.enumerate_pages(scores)
    n, k = len(scores), policy.k
    if name == "PlackettLuce":
        return _plackett_luce([score / policy.temperature for score in scores], n if k is None else min(k, n))
    order = ranked(scores)
    if k is None or n < k:
        return [(tuple(order), 1.0)]
    top, head, rest = order[:k], order[: k - 1], order[k - 1 :]
    if name == "Deterministic":
        return [(tuple(top), 1.0)]
    replaced = [((*head, document), 1.0 / len(rest)) for document in rest]
    if name == "ReplaceLast":
        return replaced
    if name == "EpsilonGreedy":
        epsilon = policy.epsilon
        return [(tuple(top), 1.0 - epsilon), *((page, epsilon * probability) for page, probability in replaced)]
    assert name == "UniformInsert"
    return [
        ((*head[: rank - 1], document, *head[rank - 1 :]), 1.0 / len(rest) / k)
        for document in rest
        for rank in range(1, k + 1)
    ]


def drafts(first, second, k):
    """(page, the team of each of its documents, probability) of each path of the coins.

    The ranking with the smaller team picks; if they are equal, a coin says which.
    """
    orders, found = (ranked(first), ranked(second)), []

    def pick(page, teams, probability):
        if len(page) == min(k, len(first)):
            found.append((page, teams, probability))
            return
        behind = [team for team in (0, 1) if teams.count(team) == min(teams.count(0), teams.count(1))]
        for team in behind:
            best = next(place for place in orders[team] if place not in page)
            pick((*page, best), (*teams, team), probability / len(behind))

    pick((), (), 1.0)
    return found


def _plackett_luce(logits, length):
    found = []

    def draw(page, probability):
        left = [place for place in range(len(logits)) if place not in page]
        if len(page) == length:
            found.append((page, probability))
            return
        largest = max(logits[place] for place in left)
        weights = [math.exp(logits[place] - largest) for place in left]
        for place, weight in zip(left, weights, strict=True):
            draw((*page, place), probability * weight / sum(weights))

    draw((), 1.0)
    return found


def rank_probabilities(pages, n, k):
    """P(shown at rank r) of each of n documents for r = 1 to k."""
    shown = [[0.0] * k for _ in range(n)]
    for page, probability in pages.items():
        for rank, place in enumerate(page[:k]):
            shown[place][rank] += probability
    return shown


def propensities(pages, n, theta):
    """P(examined) of each of n documents, eq:expexam: a sum over pages; theta is 0 past its end."""
    rho = [0.0] * n
    for page, probability in pages.items():
        for examined, place in zip(theta, page, strict=False):
            rho[place] += probability * examined
    return rho


def draw_page(policy, scores, rng, query=0):
    """One page, drawn as the table says it."""
    if isinstance(policy, dict):
        return draw_page(policy[query], scores, rng, query)
    name = type(policy).__name__
    if name == "Explicit":
        return tuple(policy.rankings[rng.choice(len(policy.rankings), p=policy.probabilities)])
    if name == "Mixture":
        part = policy.policies[rng.choice(len(policy.policies), p=policy.shares)]
        return draw_page(getattr(part, "queries", part), scores, rng, query)
    if hasattr(policy, "enumerate_pages"):
        listed = policy.enumerate_pages(scores)
        return listed[rng.choice(len(listed), p=[probability for _, probability in listed])][0]
    n, k = len(scores), policy.k
    length = n if k is None else min(k, n)
    if name == "PlackettLuce":  # largest sums of logit and Gumbel noise
        noisy = [score / policy.temperature + rng.gumbel() for score in scores]
        return tuple(ranked(noisy)[:length])
    order = ranked(scores)
    if k is None or n < k or name == "Deterministic":
        return tuple(order[:length])
    head, drawn = order[: k - 1], order[rng.integers(k - 1, n)]
    if name == "EpsilonGreedy" and rng.random() >= policy.epsilon:
        return tuple(order[:k])
    if name == "UniformInsert":
        rank = int(rng.integers(1, k + 1))
        return (*head[: rank - 1], drawn, *head[rank - 1 :])
    return (*head, drawn)


def page_dcg(policy, scores, labels, offsets, cutoff, threshold):
    """The expected DCG@cutoff of the displayed pages, page by page, over queries with a relevant document."""
    values = []
    for query, (begin, end) in enumerate(itertools.pairwise(offsets)):
        relevant = [label >= threshold for label in labels[begin:end]]
        if not any(relevant):
            continue
        expected = 0.0
        for page, probability in pages_of(policy, scores[begin:end], query).items():
            for rank, place in enumerate(page[:cutoff], 1):
                expected += probability * relevant[place] / math.log2(1 + rank)
        values.append(expected)
    return sum(values) / len(values)

"""Slow, obvious references for the estimates from clicks, and a simulator that shows one page after the other."""

from __future__ import annotations

from itertools import pairwise
from math import log2

import numpy as np
from numba import njit

from tests.reference.streams import Stream
from tests.reference.student import student_quantile


def lambda_of(metric, rank):
    kind, _, k = metric.partition("@")
    if kind == "arp":
        return float(rank)
    if k and rank > int(k):
        return 0.0
    return 1 / log2(1 + rank) if kind == "dcg" else 1 / int(k)


def values(metric, scores, offsets, ties="average"):
    """lambda of each document, the mean over the ranks that its ties may give it."""
    found = []
    for start, end in pairwise(offsets):
        own = list(scores[start:end])
        for i, score in enumerate(own):
            if ties == "order":
                above = sum(s > score or (s == score and j < i) for j, s in enumerate(own))
                tied = 1
            else:
                above, tied = sum(s > score for s in own), sum(s == score for s in own)
            ranks = range(above + 1, above + tied + 1)
            found.append(sum(lambda_of(metric, rank) for rank in ranks) / tied)
    return found


def each_click(clicks, rho):
    """(query, document, rank, propensity) of every single click."""
    for i, doc in enumerate(clicks.docs.tolist()):
        query = next(q for q, end in enumerate(clicks.offsets[1:]) if doc < end)
        propensity = clicks.propensities[i] if rho is None else rho[doc]
        for _ in range(clicks.clicks[i]):
            yield query, doc, int(clicks.ranks[i]), float(propensity)


def query_sums(value, clicks, rho, noise=None):
    """sessions, omega and omega * lambda of each query with sessions, by adding up its documents."""
    omega = [0.0] * clicks.n_docs
    for _, doc, _, propensity in each_click(clicks, rho):
        omega[doc] += 1 / propensity
    rows = []
    for q, (start, end) in enumerate(pairwise(clicks.offsets.tolist())):
        n = int(clicks.sessions[q])
        own = omega[start:end]
        if noise is not None:
            e0, e1 = noise
            seen = [p > 0 for p in rho[start:end]]
            own = [(w - e0 * n) / (e1 - e0) if s else 0.0 for w, s in zip(own, seen, strict=True)]
        if n:
            rows.append((n, sum(own), sum(w * v for w, v in zip(own, value[start:end], strict=True))))
    return rows


def kish(clicks, rho):
    weights = [1 / propensity for *_, propensity in each_click(clicks, rho)]
    if not weights:
        return 0.0, 0.0
    return sum(weights) ** 2 / sum(w * w for w in weights), max(weights) / sum(weights)


def click_variance(value, centre, clicks, rho):
    """Variance of the sum of click * (value - centre) / rho: of every rank a list with one entry for each session.

    Queries of one session go into one list.
    """
    found = {}
    for query, doc, rank, propensity in each_click(clicks, rho):
        stratum = query if clicks.sessions[query] > 1 else "single"
        found.setdefault((stratum, rank), []).append((value[doc] - centre) / propensity)
    total = 0.0
    for (stratum, _), entries in found.items():
        n = int((clicks.sessions == 1).sum() if stratum == "single" else clicks.sessions[stratum])
        entries = entries + [0.0] * (n - len(entries))
        total += n * float(np.var(entries, ddof=1)) if n > 1 else entries[0] ** 2
    return total


def click_width(value, centre, clicks, rho, confidence=0.95):
    """Half the width of the interval of that sum: Student's t with the freedom that the clicks leave its variance."""
    terms = [(value[doc] - centre) / propensity for _, doc, _, propensity in each_click(clicks, rho)]
    squares, fourths = sum(x**2 for x in terms), sum(x**4 for x in terms)
    freedom = 2 * squares**2 / fourths if fourths else np.inf
    return student_quantile(confidence, freedom) * np.sqrt(click_variance(value, centre, clicks, rho))


def bootstrap_width(terms, belows, confidence, replicates, seed):
    """Half the width of the symmetric bootstrap-t interval of sum(terms) / sum(belows)."""
    terms, belows = np.asarray(terms, float), np.asarray(belows, float)
    n = len(terms)

    def ratio_and_error(t, b):
        ratio = t.sum() / b.sum()
        return ratio, np.sqrt(n / (n - 1) * ((t - ratio * b) ** 2).sum()) / b.sum()

    ratio, error = ratio_and_error(terms, belows)
    distances = []
    for r in range(replicates):
        stream = Stream(seed, r)
        drawn = [stream.below(n) for _ in range(n)]
        if belows[drawn].sum() <= 0:
            continue
        again, own = ratio_and_error(terms[drawn], belows[drawn])
        rounding = np.sqrt(1e-12 * ((terms - ratio * belows)[drawn] ** 2).sum()) / belows[drawn].sum()
        if own > 1.5 * rounding:
            distances.append(abs(again - ratio) / own)
    return float(np.quantile(distances, confidence) * error) if 2 * len(distances) > replicates else None


DETERMINISTIC, EPSILON, INSERT, PLACKETT_LUCE = 0, 1, 2, 3


@njit(cache=True)
def show_pages(kind, epsilon, theta, offsets, scores, order, chance, sessions, rng, shown, clicked):
    """One page after the other; `shown` and `clicked` count by document and rank."""
    k = len(theta)
    page, keys = np.empty(k, np.int64), np.empty(np.diff(offsets).max())
    for q in range(len(sessions)):
        own = order[offsets[q] : offsets[q + 1]]
        n = len(own)
        depth = min(n, k)
        for _ in range(sessions[q]):
            page[:depth] = own[:depth]
            if kind == 1 and n >= k and rng.random() < epsilon:
                page[k - 1] = own[rng.integers(k - 1, n)]
            elif kind == 2 and n >= k:
                place, inserted = rng.integers(0, k), own[rng.integers(k - 1, n)]
                for j in range(k - 1, place, -1):
                    page[j] = own[j - 1]
                page[place] = inserted
            elif kind == 3:
                for i in range(n):
                    keys[i] = scores[own[i]] - np.log(-np.log(rng.random()))
                for j in range(depth):
                    best = np.argmax(keys[:n])
                    page[j] = own[best]
                    keys[best] = -np.inf
            for j in range(depth):
                shown[page[j], j] += 1
                if rng.random() < theta[j] * chance[page[j]]:
                    clicked[page[j], j] += 1


def order_of(scores, offsets):
    """The documents of each query by descending score, as rows."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.lexsort((-np.asarray(scores), owner))


def page_width(value, centre, clicks, rho, confidence=0.95):
    """Half the width of the interval of the sum of click * (value - centre) / rho over whole pages.

    The variance is added up two places at a time; queries of one session go into one list.
    """
    pages, moments = clicks.displays, {}
    for p, (start, end) in enumerate(pairwise(pages.offsets.tolist())):
        query = next(q for q, last in enumerate(clicks.offsets[1:]) if pages.docs[start] < last)
        stratum = query if clicks.sessions[query] > 1 else "single"
        squares, total = moments.get(stratum, (0.0, 0.0))
        places = [(int(pages.clicks[j]), pages.docs[j]) for j in range(start, end) if pages.clicks[j]]
        worth = [(times, (value[doc] - centre) / rho[doc]) for times, doc in places]
        for i, (times, own) in enumerate(worth):
            total += times * own
            squares += times * own**2
            squares += sum(times * more * own * v / pages.sessions[p] for j, (more, v) in enumerate(worth) if j != i)
        moments[stratum] = squares, total
    variances, known = [], 0.0
    for stratum, (squares, total) in moments.items():
        n = int((clicks.sessions == 1).sum() if stratum == "single" else clicks.sessions[stratum])
        variances.append(max(squares - total**2 / n, 0.0) * n / (n - 1) if n > 1 else squares)
        known += variances[-1] ** 2 / max(n - 1, 1)
    terms = [(value[doc] - centre) / propensity for _, doc, _, propensity in each_click(clicks, rho)]
    squares, fourths = sum(x**2 for x in terms), sum(x**4 for x in terms)
    freedom = min(2 * squares**2 / fourths if fourths else np.inf, sum(variances) ** 2 / known if known else np.inf)
    return student_quantile(confidence, freedom) * np.sqrt(
        max(sum(variances), 0.0)
    )  # rounding may leave less than nothing

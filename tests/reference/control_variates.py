"""Slow, obvious reference for control variates: covariances from lists with one entry for each session."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def folds_of(sessions):
    """The fold of each query with sessions."""
    logged = [q for q, n in enumerate(sessions) if n]
    number = np.random.default_rng(0).permutation(len(logged)) % min(10, len(logged))
    return dict(zip(logged, number.tolist(), strict=True))


def gap(value, centre):
    """The difference to the centre, 0 where it is rounding."""
    return 0.0 if abs(value - centre) <= 1e-12 * (abs(value) + abs(centre)) else value - centre


def entries(clicks, q, value, centre, rho, exam, pages):
    """For each independent slot of a page of the query (a rank; with pages, all of it) rows (x, y) of its sessions.

    Of pages it is not known which clicks happened together; only the mean over the sessions of a page matters to a
    covariance with what is the same in all of them.
    """
    start, end = clicks.offsets[q], clicks.offsets[q + 1]
    found = {}
    if pages:
        shown = clicks.displays
        for p, (first, last) in enumerate(pairwise(shown.offsets.tolist())):
            if start <= shown.docs[first] < end:
                times, x, y = int(shown.sessions[p]), 0.0, 0.0
                for rank, j in enumerate(range(first, last)):
                    doc = shown.docs[j]
                    worth = gap(value[doc], centre) / rho[doc]
                    x += worth * shown.clicks[j] / times
                    y += worth * exam[rank]
                found.setdefault("page", []).extend([(x, y)] * times)
        return found
    for i, doc in enumerate(clicks.docs.tolist()):
        if start <= doc < end and rho[doc] > 0:
            worth = gap(value[doc], centre) / rho[doc]
            for j in range(int(clicks.impressions[i])):
                x = worth * (j < clicks.clicks[i])
                found.setdefault(int(clicks.ranks[i]), []).append((x, worth * exam[clicks.ranks[i] - 1]))
    for rows in found.values():
        rows += [(0.0, 0.0)] * (int(clicks.sessions[q]) - len(rows))
    return found


def betas(value, centre, clicks, rho, exam, pages=False):
    """beta of each query with sessions, from the queries of the other folds."""
    folds = folds_of(clicks.sessions.tolist())
    alone = {}
    for q in folds:
        if clicks.sessions[q] == 1:
            rows = [row for own in entries(clicks, q, value, centre, rho, exam, pages).values() for row in own]
            docs = range(clicks.offsets[q], clicks.offsets[q + 1])
            expected = sum(gap(value[d], centre) for d in docs if rho[d] > 0)
            alone[q] = sum(x for x, _ in rows), sum(y for _, y in rows) - expected
    mean = np.mean([x for x, _ in alone.values()]) if alone else 0.0
    covariance, variance = {}, {}
    for q in folds:
        if q in alone:
            x, y = alone[q]
            covariance[q], variance[q] = (x - mean) * y, y * y
        else:
            n, both = int(clicks.sessions[q]), np.zeros((2, 2))
            for rows in entries(clicks, q, value, centre, rho, exam, pages).values():
                both += n * np.cov(np.array(rows).T, ddof=1)
            covariance[q], variance[q] = both[0, 1], both[1, 1]
        size = sum(y * y for own in entries(clicks, q, value, centre, rho, exam, pages).values() for _, y in own)
        if variance[q] <= 1e-8 * size:  # nothing but rounding
            covariance[q] = variance[q] = 0.0
    found = {}
    for q, fold in folds.items():
        others = [o for o in folds if folds[o] != fold]
        above, below = sum(covariance[o] for o in others), sum(variance[o] for o in others)
        found[q] = min(max(above / below, 0.0), 1.0) if below > 0.0 else 0.0
    return found


def predictions(value, centre, clicks, rho, exam, pages=False):
    """What is subtracted from the clicks of each document, as the R of a doubly robust estimate."""
    found = betas(value, centre, clicks, rho, exam, pages)
    relevance = [0.0] * clicks.n_docs
    for q, beta in found.items():
        for d in range(clicks.offsets[q], clicks.offsets[q + 1]):
            relevance[d] = beta if rho[d] > 0 else 0.0
    return relevance

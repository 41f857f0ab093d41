"""Slow, obvious references for doubly robust estimates from clicks: one impression after the other."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tests.reference.student import student_quantile


def each_impression(clicks, rho, relevance, exam):
    """(query, document, rank, propensity, surprise) of every impression that has a chance to be clicked."""
    for i, doc in enumerate(clicks.docs.tolist()):
        query = next(q for q, end in enumerate(clicks.offsets[1:]) if doc < end)
        propensity = float(clicks.propensities[i] if rho is None else rho[doc])
        rank = int(clicks.ranks[i])
        for j in range(int(clicks.impressions[i]) if propensity > 0 else 0):
            click = 1 if j < clicks.clicks[i] else 0
            yield query, doc, rank, propensity, click - exam[rank - 1] * relevance[doc]


def query_sums(value, clicks, rho, relevance, exam, noise=None):
    """sessions, omega and omega * lambda of each query with sessions."""
    sessions = np.repeat(clicks.sessions, np.diff(clicks.offsets))
    omega = [n * r for n, r in zip(sessions.tolist(), relevance, strict=True)]
    for _, doc, _, propensity, surprise in each_impression(clicks, rho, relevance, exam):
        omega[doc] += surprise / propensity
    if noise is not None:
        e0, e1 = noise
        omega = [(w - e0 * n) / (e1 - e0) for w, n in zip(omega, sessions.tolist(), strict=True)]
    rows = []
    for q, (start, end) in enumerate(pairwise(clicks.offsets.tolist())):
        if clicks.sessions[q]:
            terms = sum(w * v for w, v in zip(omega[start:end], value[start:end], strict=True))
            rows.append((int(clicks.sessions[q]), sum(omega[start:end]), terms))
    return rows


def click_variance(value, centre, clicks, rho, relevance, exam):
    """Variance of the sum of surprise * (value - centre) / rho.

    Of every rank of a query a list with one entry for each session; queries of one session go into one list.
    """
    found = {}
    for query, doc, rank, propensity, surprise in each_impression(clicks, rho, relevance, exam):
        stratum = query if clicks.sessions[query] > 1 else "single"
        found.setdefault((stratum, rank), []).append(surprise * (value[doc] - centre) / propensity)
    total = 0.0
    for (stratum, _), entries in found.items():
        n = int((clicks.sessions == 1).sum() if stratum == "single" else clicks.sessions[stratum])
        entries = entries + [0.0] * (n - len(entries))
        total += n * float(np.var(entries, ddof=1)) if n > 1 else entries[0] ** 2
    return total


def click_width(value, centre, clicks, rho, relevance, exam):
    """Half the width of the 95 % interval of that sum."""
    terms = _terms(value, centre, clicks, rho, relevance, exam)
    variance = click_variance(value, centre, clicks, rho, relevance, exam)
    return student_quantile(0.95, _freedom(terms)) * np.sqrt(variance)


def page_width(value, centre, clicks, rho, relevance, exam):
    """The same over whole pages: the variance of a page is added up two places at a time."""
    pages, moments = clicks.displays, {}
    for p, (start, end) in enumerate(pairwise(pages.offsets.tolist())):
        query = next(q for q, last in enumerate(clicks.offsets[1:]) if pages.docs[start] < last)
        stratum = query if clicks.sessions[query] > 1 else "single"
        squares, total = moments.get(stratum, (0.0, 0.0))
        shown, worth = int(pages.sessions[p]), []
        for rank, j in enumerate(range(start, end), 1):
            doc, clicked = pages.docs[j], int(pages.clicks[j])
            chance = exam[rank - 1] * relevance[doc]
            own = [(click - chance) * (value[doc] - centre) / rho[doc] for click in [1] * clicked + [0] * shown][:shown]
            worth.append(own)
        for i, own in enumerate(worth):
            total += sum(own)
            squares += sum(x**2 for x in own)
            squares += sum(sum(own) * sum(more) / shown for j, more in enumerate(worth) if j != i)
        moments[stratum] = squares, total
    variances, known = [], 0.0
    for stratum, (squares, total) in moments.items():
        n = int((clicks.sessions == 1).sum() if stratum == "single" else clicks.sessions[stratum])
        variances.append(max(squares - total**2 / n, 0.0) * n / (n - 1) if n > 1 else squares)
        known += variances[-1] ** 2 / max(n - 1, 1)
    terms = _terms(value, centre, clicks, rho, relevance, exam)
    freedom = min(_freedom(terms), sum(variances) ** 2 / known if known else np.inf)
    return student_quantile(0.95, freedom) * np.sqrt(max(sum(variances), 0.0))  # rounding


def _terms(value, centre, clicks, rho, relevance, exam):
    found = each_impression(clicks, rho, relevance, exam)
    return [surprise * (value[doc] - centre) / propensity for _, doc, _, propensity, surprise in found]


def _freedom(terms):
    squares, fourths = sum(x**2 for x in terms), sum(x**4 for x in terms)
    return 2 * squares**2 / fourths if fourths else np.inf


def worst_factor(value, centre, clicks, rho, relevance, exam):
    """How many times too narrow the interval of `click_width` is if the ranks of a page vary together.

    The square of the mean of a cell shown more than once is the mean product of two of its impressions.
    """
    cells = {}
    for query, doc, rank, propensity, surprise in each_impression(clicks, rho, relevance, exam):
        worth = surprise * (value[doc] - centre) / propensity
        cells.setdefault((query, rank), {}).setdefault(doc, []).append(worth)
    more, roots = 0.0, {}
    for (query, rank), own in cells.items():
        n = int(clicks.sessions[query])
        if n > 1:
            steady = 0.0
            for each in own.values():
                pairs = sum(each) ** 2 - sum(x**2 for x in each)
                steady += pairs / (len(each) - 1) if len(each) > 1 else each[0] ** 2
            total = sum(sum(each) for each in own.values())
            roots[query, rank] = np.sqrt(max(steady - total**2 / n, 0.0) * n / (n - 1))
    for query in {query for query, _ in roots}:
        own = [root for (q, _), root in roots.items() if q == query]
        more += sum(own) ** 2 - sum(x**2 for x in own)
    variance = click_variance(value, centre, clicks, rho, relevance, exam)
    return np.sqrt(1 + more / variance) if variance > 0 else 1.0

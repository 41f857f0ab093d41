"""Slow, obvious references for the estimators of few clicks: document by document, and least squares fit by fit."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

PENALTIES = [10.0 ** (-4 + i / 2) for i in range(15)]


def tallies(lengths, sessions, exam=None, beta=None) -> list[tuple[float, float, float]]:
    """Sessions, clicks less those of trust, and examinations of each document; `sessions` as in naive_estimators."""
    found = []
    for query, length in enumerate(lengths):
        own = [session for session in sessions if session[0] == query]
        for place in range(length):
            clicks, times = 0.0, 0.0
            for _, page, clicked in own:
                if place in page:
                    rank = page.index(place) + 1
                    clicks += (rank in clicked) - (beta[rank - 1] if beta else 0.0)
                    times += exam[rank - 1] if exam else 0.0
            found.append((float(len(own)), clicks, times))
    return found


def examined_times(tally, rho) -> list[float]:
    """n * rho of each document."""
    return [n * p for (n, _, _), p in zip(tally, rho, strict=True)]


def doubly_robust(tally, rho, times, relevance, tau) -> list[float]:
    weights = []
    for (n, clicks, _), p, t, r in zip(tally, rho, times, relevance, strict=True):
        weights.append(n * r + ((clicks - t * r) / max(p, tau) if p > 0.0 else 0.0))
    return weights


def shrinkage(tally, times, relevance, strength) -> list[float]:
    weights = []
    for (n, clicks, _), t, r in zip(tally, times, relevance, strict=True):
        weights.append(n * (clicks + strength * r) / (t + strength) if t + strength > 0.0 else n * r)
    return weights


def shown(lengths, sessions) -> list[float]:
    """How often each document was shown."""
    return [
        float(sum(place in page for shown, page, _ in sessions if shown == query))
        for query, length in enumerate(lengths)
        for place in range(length)
    ]


def log_likelihood(strength, clicks, trials, times, relevance) -> float:
    """Beta-binomial, without the binomial coefficients; clicks are brought between 0 and the trials."""
    total = 0.0
    for clicked, k, t, predicted in zip(clicks, trials, times, relevance, strict=True):
        if t > 0.0:
            c, r, exposure = min(max(clicked, 0.0), k), min(max(predicted, 1e-3), 1.0 - 1e-3), min(t / k, 1.0)
            mean, variance = exposure * r, exposure**2 * r * (1.0 - r) / (strength + 1.0)
            own = mean * (1.0 - mean) / variance - 1.0
            yes, no = own * mean, own * (1.0 - mean)
            if c == int(c) and k == int(k):  # as products, since logarithms of large gammas agree in most digits
                total += log_product(yes, int(c)) + log_product(no, int(k - c)) - log_product(own, int(k))
            else:
                total += log_beta(c + yes, k - c + no) - log_beta(yes, no)
    return total


def log_product(x, n) -> float:
    """ln x (x + 1) ... (x + n - 1)."""
    return sum(math.log(x + i) for i in range(n)) if n < 1000 else math.lgamma(x + n) - math.lgamma(x)


def log_beta(a, b) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def normalized(features, offsets):
    """Each feature from 0 to 1 within each query."""
    scaled = np.zeros(np.shape(features))
    for begin, end in pairwise(offsets):
        for f in range(scaled.shape[1]):
            column = [float(features[row][f]) for row in range(begin, end)]
            spread = max(column) - min(column)
            scaled[begin:end, f] = [(value - min(column)) / spread if spread else 0.0 for value in column]
    return scaled


def ridge(x, y, w, penalty):
    """Slopes and intercept by least squares: rows by the root of their weight, and a row for each penalised slope."""
    if not w.sum() > 0.0:
        return np.zeros(x.shape[1] + 1)
    means = (w[:, None] * x).sum(axis=0) / w.sum()
    squares = (w[:, None] * (x - means) ** 2).sum() / x.shape[1]
    price = penalty * squares + 1e-12 * w.sum()
    root = np.sqrt(w)
    above = np.column_stack((x, np.ones(len(x)))) * root[:, None]
    below = np.column_stack((np.eye(x.shape[1]) * math.sqrt(price), np.zeros(x.shape[1])))
    wanted = np.concatenate((y * root, np.zeros(x.shape[1])))
    return np.linalg.lstsq(np.vstack((above, below)), wanted, rcond=None)[0]


def squared_error(coefficients, x, y, w) -> float:
    return sum(wi * (yi - xi @ coefficients[:-1] - coefficients[-1]) ** 2 for xi, yi, wi in zip(x, y, w, strict=True))


def best_ridges(x, y, w, parts):
    """The ridge with the penalty of the least error on each part, learned from the others; of one part the largest.

    A list, since penalties that are as good but for rounding are as right.
    """
    known = [part for part in sorted(set(parts)) if w[parts == part].sum() > 0.0]
    if len(known) < 2:
        return [ridge(x, y, w, PENALTIES[-1])]
    errors = []
    for penalty in PENALTIES:
        errors.append(0.0)
        for part in known:
            out = parts == part
            errors[-1] += squared_error(ridge(x[~out], y[~out], w[~out], penalty), x[out], y[out], w[out])
    least = min(errors) + 1e-7 * (1.0 + w @ y**2)
    return [ridge(x, y, w, penalty) for penalty, error in zip(PENALTIES, errors, strict=True) if error <= least]


def fit_relevance(features, offsets, clicks, times, folds, parts, saturation):
    """For each fold its rows and the rates they may have; and what all documents may have by a model of all queries.

    `folds` and `parts` are by query.
    """
    x = normalized(features, offsets)
    y = np.array([c / t if t > 0.0 else 0.0 for c, t in zip(clicks, times, strict=True)])
    w = np.array([t / (1.0 + t / saturation) for t in times])
    lengths = np.diff(offsets)
    fold, part = np.repeat(folds, lengths), np.repeat(parts, lengths)
    cross_fitted = []
    for out in sorted(set(folds)):
        others, mine = fold != out, fold == out
        models = best_ridges(x[others], y[others], w[others], part[others])
        cross_fitted.append((mine, [rates(x[mine], model) for model in models]))
    return cross_fitted, [rates(x, model) for model in best_ridges(x, y, w, part)]


def rates(x, coefficients):
    return np.clip(x @ coefficients[:-1] + coefficients[-1], 0.0, 1.0)

"""Pages with clicks of users of known models, drawn in the obvious way."""

import numpy as np

from counterrank.clicks.page_sample import PageSample

THETA = np.array([1.0, 0.6, 0.45, 0.35, 0.28, 0.24, 0.21, 0.19, 0.17, 0.15])


def moving_pages(n_pages, n_queries, n_docs, k, rng, spread=2.0):
    """Queries and documents of pages: all of a query's documents in an order that scatters about the logging order."""
    queries = rng.integers(0, n_queries, n_pages)
    places = np.argsort(np.arange(n_docs) + spread * rng.gumbel(size=(n_pages, n_docs)), axis=1)[:, :k]
    return queries, queries[:, None] * n_docs + places


def relevance_of(n_queries, n_docs, rng):
    """Relevance that falls with the logging order, in noise."""
    order = np.tile(np.arange(n_docs) / n_docs, n_queries)
    return np.clip(0.55 - 0.35 * order + 0.2 * rng.normal(size=n_queries * n_docs), 0.03, 0.95)


def click(docs, relevance, users, rng):
    """Clicks on pages, rank by rank; `users` has P(examined) and base by rank and last click, or lambda."""
    n, k = docs.shape
    clicked, last, going = np.zeros((n, k), np.bool_), np.zeros(n, np.int64), np.ones(n, np.bool_)
    for j in range(k):
        r = relevance[docs[:, j]]
        if "lambda" in users:
            p = going * r
        elif "gamma" in users:
            p = users["gamma"][j, last] * r
        else:
            p = users["alpha"][j] * r + users["beta"][j]
        clicked[:, j] = rng.random(n) < p
        if "lambda" in users:
            going &= ~clicked[:, j] | (rng.random(n) < users["lambda"][j])
        last = np.where(clicked[:, j], j + 1, last)
    return clicked


def users(kind, k):
    """Parameters of users of a model."""
    theta = THETA[:k]
    if kind == "position-based":
        return {"alpha": theta, "beta": np.zeros(k)}
    if kind == "affine":  # P(click) of irrelevant documents about half of that of relevant ones, more at the top
        trust = np.array([0.30, 0.2, 0.16, 0.13, 0.11, 0.1, 0.09, 0.08, 0.07, 0.06])[:k]
        return {"alpha": theta * (1.0 - trust), "beta": theta * trust}
    if kind == "browsing":
        gamma = np.ones((k, k))
        for j in range(k):
            for last in range(j + 1):
                gamma[j, last] = theta[j] if not last else min(1.0, 0.95 / (1 + 0.6 * (j - last)))
        return {"gamma": gamma}
    return {"lambda": np.linspace(0.7, 0.4, k)}


def sample(kind, n_pages=20_000, n_queries=40, n_docs=12, k=5, seed=0, spread=2.0):
    """A sample of pages clicked by users of a model."""
    rng = np.random.default_rng(seed)
    relevance = relevance_of(n_queries, n_docs, rng)
    queries, docs = moving_pages(n_pages, n_queries, n_docs, k, rng, spread)
    clicked = click(docs, relevance, users(kind, k), rng)
    return PageSample.of(np.arange(n_pages), queries, np.arange(n_pages + 1) * k, docs.ravel(), clicked.ravel())

"""Milliseconds a query of the Plackett-Luce loss on one core, and how many times as long PL-Rank-3 in numpy takes.

`python -m benchmarks.plackett_luce`: 120 documents a query, the top 5, 100 drawn rankings; CPU time of one thread, the
median of runs that take turns. Both compute the same gradient: the difference of their averages over many draws,
relative to the largest entry, is printed too.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import thread_time
from typing import Any

import numpy as np

from benchmarks.timing import row
from counterrank import losses
from counterrank.common.checks import FloatArray

DOCUMENTS, TOP, SAMPLES, QUERIES = 120, 5, 100, 200
LIMIT_MS = 0.05


def plrank3(scores: FloatArray, weights: FloatArray, k: int, samples: int, rng: np.random.Generator) -> FloatArray:
    """The gradient of the expected DCG@k of one query, with numpy alone."""
    n = len(scores)
    k = min(k, n)
    theta = 1.0 / np.log2(np.arange(2, k + 2))
    noisy = scores + rng.gumbel(size=(samples, n))
    top = np.argpartition(-noisy, k - 1, axis=1)[:, :k] if k < n else np.tile(np.arange(n), (samples, 1))
    top = np.take_along_axis(top, np.argsort(-np.take_along_axis(noisy, top, 1), axis=1), 1)
    rewards = weights[top] * theta
    ahead = np.cumsum(rewards[:, ::-1], axis=1)[:, ::-1]
    odds = np.exp(scores - scores.max())
    placed = np.cumsum(odds[top], axis=1)
    left = odds.sum() - placed + odds[top]
    share, future = np.cumsum(theta / left, axis=1), np.cumsum(ahead / left, axis=1)
    gradient = odds * (weights * share[:, -1].sum() - future[:, -1].sum())
    own = odds[top] * (weights[top] * (share - share[:, -1:]) - (future - future[:, -1:])) + ahead - rewards
    gradient += np.bincount(top.ravel(), weights=own.ravel(), minlength=n)
    return np.asarray(gradient / samples)


def cpu_seconds(actions: list[Callable[[], None]], repeats: int) -> list[float]:
    """The median CPU time of each, run in turn, after one run that compiles."""
    taken: list[list[float]] = [[] for _ in actions]
    for i in range(repeats + 1):
        for times, action in zip(taken, actions, strict=True):
            begin = thread_time()
            action()
            if i:
                times.append(thread_time() - begin)
    return [statistics.median(times) for times in taken]


def run() -> list[dict[str, Any]]:
    """The rows of the table."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(QUERIES, DOCUMENTS))
    weights = np.where(rng.random((QUERIES, DOCUMENTS)) < 0.1, rng.exponential(size=(QUERIES, DOCUMENTS)), 0.0)
    offsets = np.arange(QUERIES + 1) * DOCUMENTS
    flat = scores.ravel(), weights.ravel(), offsets

    def compiled() -> None:
        losses.plackett_luce(*flat, k=TOP, samples=SAMPLES, threads=1)

    def plain() -> None:
        for s, w in zip(scores, weights, strict=True):
            plrank3(s, w, TOP, SAMPLES, rng)

    ours, theirs = (1e3 * seconds / QUERIES for seconds in cpu_seconds([compiled, plain], 7))
    one = scores[0], weights[0]
    expected = -losses.plackett_luce(*one, [0, DOCUMENTS], k=TOP, samples=200_000)[1]
    found = np.mean([plrank3(*one, TOP, 1000, rng) for _ in range(200)], axis=0)
    apart = float(np.abs(found - expected).max() / np.abs(expected).max())
    return [
        row("ms a query, compiled", ours / 1e3, ours, f"<= {LIMIT_MS}", ours <= LIMIT_MS),
        row("ms a query, numpy", theirs / 1e3, theirs),
        row("numpy / compiled", None, theirs / ours),
        row("largest difference of the gradients, relative", None, apart),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['name']:50} {each['ratio']:.4f} {each['target']}")

"""Labels at the ends of lines, moved as little as possible so that none covers another."""

from __future__ import annotations

from collections.abc import Sequence


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places in the same order at least `gap` apart and within `low` and `high`, as near as can be to those given.

    Neighbours that are too close form a block around their mean (isotonic regression on the places less their share of
    gaps). If they do not fit between `low` and `high`, they are spaced evenly.

    >>> spread([10, 12, 50], gap=10, low=0, high=100)
    [6.0, 16.0, 50.0]
    >>> spread([1, 2, 3], gap=10, low=0, high=10)
    [0.0, 5.0, 10.0]
    """
    n = len(places)
    if n > 1 and (n - 1) * gap > high - low:
        gap = (high - low) / (n - 1)
    order = sorted(range(n), key=lambda i: places[i])
    blocks: list[tuple[float, int]] = []  # mean of places less gaps, how many
    for position, i in enumerate(order):
        mean, size = float(places[i]) - position * gap, 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        blocks.append((mean, size))
    result = [0.0] * n
    position = 0
    for mean, size in blocks:
        kept = min(max(mean, low), high - (n - 1) * gap)
        for _ in range(size):
            result[order[position]] = kept + position * gap
            position += 1
    return result

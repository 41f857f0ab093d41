"""Wealth of a gambler session by session, and the worst way to put the parts of sessions together."""

from __future__ import annotations

import math


def wealth(values, fractions, weights, mean):
    """sum over bets of weight * product over sessions of (1 + fraction * (value - mean))."""
    return sum(
        weight * math.prod(1.0 + fraction * (value - mean) for value in values)
        for fraction, weight in zip(fractions, weights, strict=True)
    )


def sessions_of(parts, size, base):
    """One value for each of `size` sessions: of each part the largest value first; each part is a list of values."""
    filled = [sorted([*part, *[0.0] * (size - len(part))], reverse=True) for part in parts]
    return [base + sum(part[i] for part in filled) for i in range(size)]


def shuffled_sessions(parts, size, base, rng):
    """The same with the values of each part in any order, as they may have come."""
    filled = [[*part, *[0.0] * (size - len(part))] for part in parts]
    for part in filled:
        rng.shuffle(part)
    return [base + sum(part[i] for part in filled) for i in range(size)]


def largest_page(pages, amounts):
    """The largest sum of amounts of a page that may be shown; pages are tuples of places."""
    return max(sum(amounts[place] for place in page) for page in pages)

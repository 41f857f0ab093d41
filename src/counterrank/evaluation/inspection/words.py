"""Numbers as the verdict writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def percent(share: float) -> str:
    """A share with two digits that matter.

    >>> percent(0.123), percent(0.00123), percent(0.0), percent(1.0), percent(0.9999)
    ('12 %', '0.12 %', '0 %', '100 %', 'over 99 %')
    """
    value = 100.0 * share
    if 99.5 <= value < 100.0:
        return "over 99 %"
    if value == 0.0 or value >= 9.95:
        return f"{value:.0f} %"
    return f"{value:.2g} %"


def some(n: int, what: str, many: str = "") -> str:
    """A count with its word.

    >>> some(1, "click"), some(1200, "query", "queries")
    ('1 click', '1,200 queries')
    """
    return f"{n:,} {what if n == 1 else many or what + 's'}"


def about(value: float) -> str:
    """A large number to two or three digits.

    >>> about(123456), about(99.4), about(1204)
    ('123,000', '99', '1,200')
    """
    if value < 1000:
        return f"{value:,.0f}"
    step = 10 ** (len(str(int(value))) - (2 if value < 10_000 else 3))
    return f"{round(value / step) * step:,}"


def rank_list(ranks: Sequence[int]) -> str:
    """Ranks with runs written short.

    >>> rank_list([1, 2, 3, 5]), rank_list([4])
    ('1 to 3, 5', '4')
    """
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def old_ranks(rows: Sequence[dict[str, Any]], column: str) -> str:
    """Where in the old ranking the documents counted in a column stand.

    >>> old_ranks([{"old_rank_from": 1, "old_rank_to": 5, "n": 0}, {"old_rank_from": 6, "old_rank_to": 9, "n": 3}], "n")
    'at ranks 6 to 9 of the old ranking'
    """
    own = [row for row in rows if row[column]]
    if not own:
        return ""
    ranks = [rank for row in own for rank in range(row["old_rank_from"], min(row["old_rank_to"], 10_000) + 1)]
    return f"at ranks {rank_list(ranks)} of the old ranking"

"""Where the relevant documents that the old ranker buried end up: one dot for each hundredth of them.

Every row shows the same documents under another ranker, sorted into bands of ranks; what reaches the first page is
filled with the ranker's colour.
"""

from __future__ import annotations

from typing import Any

from counterrank.report.names import percent, readable
from counterrank.report.styles import GREY, Style

DOTS = 100
ACROSS = 12  # dots side by side in a cell
_PALE = "#c3c9d0"


def bands(page: int, beyond: int, longest: int) -> list[tuple[int, int]]:
    """First and last rank of each band: the page, the ranks down to `beyond`, and those below it.

    >>> bands(5, 20, 180)
    [(1, 5), (6, 10), (11, 20), (21, 50), (51, 180)]
    """
    edges = [page]
    edges += [edge for edge in (10, 20, 50) if page < edge < min(beyond, longest)]
    edges += [edge for edge in (beyond, 50, 100) if edges[-1] < edge < longest and (edge <= beyond or edge == 50)]
    edges = sorted({*edges, max(longest, page)})
    return list(zip([1, *(edge + 1 for edge in edges[:-1])], edges, strict=True))


def dots_per_band(counts: list[int], cut: list[tuple[int, int]], dots: int = DOTS) -> list[int]:
    """How many of the dots fall into each band, rounded so that they add up (largest remainder).

    >>> dots_per_band([1, 0, 2], [(1, 1), (2, 3)], dots=10)
    [3, 7]
    """
    sums = [sum(counts[first - 1 : last]) for first, last in cut]
    total = sum(sums)
    if total == 0:
        return [0] * len(cut)
    shares = [dots * count / total for count in sums]
    whole = [int(share) for share in shares]
    order = sorted(range(len(cut)), key=lambda i: whole[i] - shares[i])
    for i in order[: dots - sum(whole)]:
        whole[i] += 1
    return whole


def buried_table(
    ranks: dict[str, list[int]], page: int, beyond: int, styles: dict[str, Style]
) -> dict[str, list[dict[str, Any]]]:
    """The picture as rows of cells, each with its dots as SVG and its share in words.

    >>> table = buried_table({"production": [0] * 20 + [4]}, page=5, beyond=20, styles={})
    >>> [band["name"] for band in table["bands"]]
    ['1–5', '6–10', '11–20', '21']
    >>> table["rows"][0]["cells"][-1]["share"]
    '100 %'
    """
    cut = bands(page, beyond, max((len(row) for row in ranks.values()), default=1))
    dots = {name: dots_per_band(row, cut) for name, row in ranks.items()}
    deep = max((-(-count // ACROSS) for row in dots.values() for count in row), default=1)
    rows = []
    for name, counts in ranks.items():
        color = styles[name].color if name in styles else GREY
        total = sum(counts) or 1
        shares = [percent(sum(counts[first - 1 : last]) / total, 0) for first, last in cut]
        cells = [
            {"share": share, "svg": _dots(count, deep, color if place == 0 else _PALE)}
            for place, (share, count) in enumerate(zip(shares, dots[name], strict=True))
        ]
        rows.append({"label": readable(name), "cells": cells})
    names = [f"{first}–{last}" if first < last else str(first) for first, last in cut]
    return {"bands": [{"name": name} for name in names], "rows": rows}


def _dots(count: int, deep: int, color: str) -> str:
    circles = "".join(
        f'<circle cx="{10 * (i % ACROSS) + 5}" cy="{10 * (i // ACROSS) + 5}" r="4"/>' for i in range(count)
    )
    return f'<svg viewBox="0 0 {10 * ACROSS} {10 * deep}" fill="{color}" aria-hidden="true">{circles}</svg>'

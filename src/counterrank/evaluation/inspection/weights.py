"""How unequal clicks weigh: propensities, effective sample size, and what the heaviest clicks hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts
from counterrank.common.checks import FloatArray, IntArray
from counterrank.evaluation.click_evidence import concentration

# A click that had a smaller chance than this did not happen (as in `estimators`).
_SMALLEST = 1e-200


def weight_table(clicks: ClickCounts, propensities: FloatArray, rho: FloatArray | None = None) -> dict[str, Any]:
    """What the weights 1 / propensity of the clicks add up to, from the propensity of each cell.

    Clicks on documents with no chance to be examined are counted apart: policy-aware weights refuse them. Where the
    propensities `rho` of all documents are known, see `expected_size` for what else they tell.
    """
    possible = propensities >= _SMALLEST
    own = possible & (clicks.clicks > 0)
    numbers, weights = clicks.clicks[own], 1.0 / propensities[own]
    size, largest = concentration(numbers, weights)
    n = int(numbers.sum())
    return {
        "clicks": n,
        "impossible_clicks": int(clicks.clicks[~possible].sum()),
        "effective_sample_size": size,
        "effective_share_of_clicks": size / n if n else 0.0,
        "expected_effective_sample_size": None if rho is None else expected_size(clicks, float(numbers @ weights), rho),
        "largest_weight": float(weights.max(initial=0.0)),
        "largest_share": largest,
        "share_of_heaviest_percent": heaviest_share(numbers, weights, 0.01),
        "histogram": propensity_histogram(
            propensities[possible], clicks.impressions[possible], clicks.clicks[possible]
        ),
    }


def expected_size(clicks: ClickCounts, weight: float, rho: FloatArray) -> float:
    """The effective sample size to be expected were all candidates that can be examined equally click-worthy.

        a (sum of s)^2 / sum of s / rho,   a = weight / sum of s,   s the sessions of each document's query

    The size of the clicks themselves is too good where some documents are hardly ever examined: their clicks would be
    the heaviest, and mostly have not happened yet. This one does not hang on which of them did.

    Arguments:
        weight: the sum of all weights.
        rho: of every document.

    >>> three = np.array([0, 1])
    >>> log = ClickCounts("", np.array([0, 2]), np.array([10]), three, 0 * three + 1, 0 * three + 5, 0 * three + 2)
    >>> expected_size(log, 8.0, np.array([0.5, 0.5]))  # 0.4 * 20^2 / 40
    4.0
    """
    sessions = np.repeat(clicks.sessions, np.diff(clicks.offsets))
    own = (sessions > 0) & (rho >= _SMALLEST)
    total, below = float(sessions[own].sum()), float((sessions[own] / rho[own]).sum())
    return weight * total / below if below else 0.0


def heaviest_share(numbers: IntArray, weights: FloatArray, share: float) -> float:
    """The part of all weight that the heaviest `share` of the clicks holds, of at least one click; 0 without clicks.

    >>> heaviest_share(np.array([99, 1]), np.array([1.0, 101.0]), 0.01)
    0.505
    """
    total, n = float((numbers * weights).sum()), int(numbers.sum())
    if not total:
        return 0.0
    order = np.argsort(-weights, kind="stable")
    wanted = max(1.0, np.ceil(share * n - 1e-9))
    before = np.concatenate(([0.0], np.cumsum(numbers[order])[:-1]))
    taken = np.clip(wanted - before, 0.0, numbers[order])
    return float((taken * weights[order]).sum()) / total


def propensity_histogram(propensities: FloatArray, impressions: IntArray, clicks: IntArray) -> list[dict[str, Any]]:
    """Impressions, clicks and the share of weight by propensity, in bins that end at 1, 0.5, 0.2, 0.1, 0.05 ...

    A bin holds propensities above `from` and up to `to`; bins below the smallest one are left out.

    >>> [(row["from"], row["to"], row["clicks"]) for row in propensity_histogram(
    ...     np.array([1.0, 0.5, 0.3]), np.array([4, 4, 4]), np.array([3, 2, 1]))]
    [(0.2, 0.5, 3), (0.5, 1.0, 3)]
    """
    shown = impressions > 0
    if not shown.any():
        return []
    rounded = propensities * (1.0 - 1e-12)  # computed ones may lie a rounding error above an end
    smallest = float(rounded[shown].min())
    n = 1
    while _edge(n) >= smallest and n < 60:
        n += 1
    ends = np.array([_edge(i) for i in range(n, -1, -1)])
    which = np.clip(np.searchsorted(ends, rounded, side="left") - 1, 0, len(ends) - 2)
    weight = np.where(clicks > 0, clicks / np.maximum(propensities, _SMALLEST), 0.0)
    total = float(weight.sum()) or 1.0
    sums = [np.bincount(which, values, len(ends) - 1) for values in (impressions, clicks, weight / total)]
    return [
        {"from": float(ends[i]), "to": float(ends[i + 1]), "impressions": int(sums[0][i]), "clicks": int(sums[1][i])}
        | {"share_of_weight": float(sums[2][i])}
        for i in range(len(ends) - 1)
    ]


def _edge(i: int) -> float:
    """1, 0.5, 0.2, 0.1, 0.05 ...: the i-th end of a bin from above."""
    return float(f"{(1, 5, 2)[i % 3]}e-{(i + 2) // 3}")

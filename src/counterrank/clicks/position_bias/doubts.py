"""What speaks against an estimated curve, in words. The limits were measured, see docs/position-bias.md."""

from __future__ import annotations

import numpy as np

from counterrank.clicks.position_bias.compared import Seen
from counterrank.clicks.position_bias.em import MOST_STEPS
from counterrank.clicks.position_bias.fit import Fit
from counterrank.common.checks import FloatArray

# impressions from which a document's free relevance is known well enough, and how many clicks may lie on others
WELL_SHOWN = 50
MOST_RARE = 0.05
# the half width of an interval, relative to the value
WIDE = 0.2


def doubts(fit: Fit, table: Seen, method: str, intervals: FloatArray, target: str, asked: bool) -> tuple[str, ...]:
    """One sentence for each."""
    found = [
        *_above_one(fit),
        *(_rare(table) if method == "em" else ()),
        *_wide(fit, intervals),
        *([] if asked or target == "queries" else [_few_queries(fit)]),
    ]
    if fit.iterations >= MOST_STEPS:
        found.append(f"EM still moved after {MOST_STEPS:,} steps, so the values are not the likeliest ones")
    if method == "regression-em" and (fit.theta[1:] >= 1.0 - 1e-6).any():
        found.append(
            "rank 1 is not the most examined one, which regression-EM takes for granted; compare with 'all-pairs'"
        )
    return tuple(found)


def rare_share(table: Seen) -> float:
    """The share of the compared clicks on documents shown fewer than `WELL_SHOWN` times."""
    rare = table.by_document(table.impressions) < WELL_SHOWN
    return float(table.by_document(table.clicks)[rare].sum() / table.clicks.sum())


def _rare(table: Seen) -> list[str]:
    share = rare_share(table)
    if share <= MOST_RARE:
        return []
    return [
        f"{share:.0%} of the clicks compared are on documents shown fewer than {WELL_SHOWN} times, too few for a free "
        "relevance each: EM is then off by up to 10 % and more, and its intervals do not show it; use 'all-pairs', or "
        "'regression-em' where features explain the relevance"
    ]


def _above_one(fit: Fit) -> list[str]:
    above = np.flatnonzero(fit.theta > 1.0 + 1e-9)
    if not len(above):
        return []
    shown = ", ".join(f"{fit.theta[rank]:.3g} at rank {rank + 1}" for rank in above[:3])
    return [
        f"{shown}{' and others' if len(above) > 3 else ''}: more than at rank 1; `examination` holds 1 there, `values` "
        "what was estimated"
    ]


def _wide(fit: Fit, intervals: FloatArray) -> list[str]:
    half = (intervals[:, 1] - intervals[:, 0]) / (2.0 * fit.theta)
    if half.max() <= WIDE:
        return []
    worst = int(np.argmax(half))
    return [
        f"too few clicks for a narrow interval: from {intervals[worst, 0]:.3g} to {intervals[worst, 1]:.3g} at rank "
        f"{worst + 1}; log more sessions or estimate fewer ranks (k=)"
    ]


def _few_queries(fit: Fit) -> str:
    return (
        f"the log speaks with the weight of {fit.effective_queries:.1f} queries, too few for intervals over queries: "
        "these hold for new clicks on these very queries, if clicks on a page are independent"
    )

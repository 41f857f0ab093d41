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
WIDE = 0.1


def doubts(fit: Fit, table: Seen, method: str, intervals: FloatArray, reference: Fit, target: str) -> tuple[str, ...]:
    """One sentence for each; `reference` is the fit of all pairs."""
    found = [
        *_above_one(fit),
        *(_rare(table) if method == "em" else ()),
        *(_apart(fit, reference, target) if method != "all-pairs" else ()),
        *_wide(fit, intervals),
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
        "relevance each: EM is then off, by 10 % where nearly all are, and its intervals do not show it; use "
        "'all-pairs', or 'regression-em' where features explain the relevance"
    ]


def _apart(fit: Fit, reference: Fit, target: str) -> list[str]:
    """Outside intervals of all pairs that hold for all ranks together (Bonferroni): one sound curve in 20 at most."""
    low, high = reference.intervals(target, 1.0 - 0.05 / (len(fit.theta) - 1)).T
    off = np.where((fit.theta < low) | (fit.theta > high), np.abs(np.log(fit.theta / reference.theta)), 0.0)
    worst = int(np.argmax(off))
    if off[worst] <= 1e-6:
        return []
    return [
        f"{fit.theta[worst]:.3g} at rank {worst + 1}, where all pairs say {reference.theta[worst]:.3g} "
        f"({low[worst]:.3g} to {high[worst]:.3g}): what this method takes for relevance does not fit the log, and its "
        "intervals do not show it; trust 'all-pairs'"
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


def few_queries(fit: Fit) -> str:
    """What intervals over these very queries are worth."""
    return (
        f"the log speaks with the weight of {fit.effective_queries:.1f} queries, too few for intervals over queries: "
        "these hold for new clicks on these very queries, if clicks on a page are independent"
    )

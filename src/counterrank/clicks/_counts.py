"""Adding up click counts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.clicks._cells import merge_cells
from counterrank.clicks.displays import Displays, join_pages, merge_pages
from counterrank.common.checks import IntArray
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank.clicks.counts import ClickCounts


def concat(parts: Sequence[ClickCounts]) -> ClickCounts:
    """See `ClickCounts.concat`."""
    from counterrank.clicks.counts import ClickCounts, check_counts

    if not isinstance(parts, Sequence):
        raise CounterrankError(f"clicks: {type(parts).__name__}; expected a list of ClickCounts")
    given = [check_counts(part, f"clicks {i}") for i, part in enumerate(parts)]
    if not given:
        raise CounterrankError("clicks: nothing to put together; expected at least one ClickCounts")
    first = given[0]
    for i, part in enumerate(given):
        if part.identity != first.identity:
            raise CounterrankError(f"clicks {i}: counted against other data than clicks 0; expected the same data")
        for name in ("propensities", "displays"):
            if (getattr(part, name) is None) != (getattr(first, name) is None):
                raise CounterrankError(f"clicks {i}: {name} kept in some parts and not in others; expected all or none")
    names = tuple(dict.fromkeys(name for part in given for name in _names(part)))
    small_first = sorted(given, key=lambda part: len(part.docs))
    cells = reduce(_merged, [_sorted_cells(part, names) for part in small_first])
    named = names != ("",)
    return ClickCounts(
        identity=first.identity,
        offsets=first.offsets,
        sessions=np.sum([part.sessions for part in given], axis=0),
        docs=cells[0],
        ranks=cells[1],
        impressions=cells[4],
        clicks=cells[5],
        propensities=None if first.propensities is None else cells[3],
        policies=cells[2] if named else None,
        policy_names=names if named else (),
        policy_sessions=_policy_sessions(given, names) if named else None,
        displays=_displays(given),
        unexaminable=_unexaminable(given),
        unknown_impressions=sum(part.unknown_impressions for part in given),
        examination=first.examination if all(part.examination == first.examination for part in given) else None,
    )


def _merged(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Both lists of cells as one; read-only as those of click counts are, for which the kernel is compiled."""
    merged: tuple[Any, ...] = merge_cells(a, b)
    for column in merged:
        column.flags.writeable = False
    return merged


def _names(part: ClickCounts) -> tuple[str, ...]:
    return ("",) if part.policies is None else part.policy_names


def _sorted_cells(part: ClickCounts, names: tuple[str, ...]) -> tuple[Any, ...]:
    """The cells with policies numbered as in `names`, in order."""
    number = np.array([names.index(name) for name in _names(part)])
    policies = np.full(len(part.docs), number[0]) if part.policies is None else number[part.policies]
    propensities = np.zeros(len(part.docs)) if part.propensities is None else part.propensities
    for column in (policies, propensities):
        column.flags.writeable = False
    cells: tuple[Any, ...] = (part.docs, part.ranks, policies, propensities, part.impressions, part.clicks)
    if (np.diff(number) < 0).any():
        order = np.lexsort((propensities, policies, part.ranks, part.docs))
        cells = tuple(column[order] for column in cells)
    return cells


def _policy_sessions(parts: Sequence[ClickCounts], names: tuple[str, ...]) -> IntArray:
    total = np.zeros((len(names), parts[0].n_queries), np.int64)
    for part in parts:
        own = part.sessions[None] if part.policy_sessions is None else part.policy_sessions
        total[[names.index(name) for name in _names(part)]] += own
    return total


def _unexaminable(parts: Sequence[ClickCounts]) -> IntArray | None:
    """Documents that none of the policies shows where they can be examined; None if one of them does not tell."""
    known = [part.unexaminable for part in parts if part.unexaminable is not None]
    return reduce(np.intersect1d, known) if len(known) == len(parts) else None


def _displays(parts: Sequence[ClickCounts]) -> Displays | None:
    kept = [part.displays for part in parts if part.displays is not None]
    return merge_pages(parts[0].offsets, join_pages(kept)) if kept else None

"""Logs that cannot tell: ranks that no clicked document connects, and ranks without comparable clicks."""

from __future__ import annotations

import numpy as np

from counterrank.clicks.position_bias import _cells
from counterrank.clicks.position_bias.compared import Seen
from counterrank.common.checks import FloatArray
from counterrank.common.errors import CounterrankError


def connected_groups(table: Seen) -> list[list[int]]:
    """Ranks from 1 that documents of the table join, directly or through other ranks; smallest first."""
    labels = _cells.join_ranks(table.starts, table.ranks, table.n_ranks)
    return [(np.flatnonzero(labels == label) + 1).tolist() for label in np.unique(labels)]


def check_connected(table: Seen) -> None:
    """An error unless documents join all ranks with rank 1."""
    groups = connected_groups(table)
    if len(groups) == 1:
        return
    first = groups[0]
    fewer = f", or k={first[-1]}" if first == list(range(1, len(first) + 1)) and len(first) > 1 else ""
    raise CounterrankError(
        f"clicks: no clicked document was seen at ranks of two of the groups {written(groups)}, so this log cannot "
        "tell whether positions or documents set them apart; expected documents seen at several ranks: show some pages "
        "under uniform-insert or plackett-luce, or swap two ranks on some pages (replace-last alone, or a fixed order, "
        f"shows each document at one rank){fewer}"
    )


def check_clicked(pairs: FloatArray) -> None:
    """An error unless clicks lead from each rank to rank 1 and back: else the likeliest curve has a 0 or no bound.

    A step leads from k to l where a document seen at both was clicked at k.
    """
    reach = (pairs > 0.0) | np.eye(len(pairs), dtype=np.bool_)
    for _ in range(int(np.ceil(np.log2(len(pairs)))) + 1):
        reach = (reach.astype(np.float64) @ reach.astype(np.float64)) > 0.0
    lost = np.flatnonzero(~(reach[0] & reach[:, 0])) + 1
    if len(lost):
        last = int(lost[0]) - 1
        fewer = f"more sessions, or k={last}" if last > 1 else "more sessions"
        raise CounterrankError(
            f"clicks: too few at rank{'s' if len(lost) > 1 else ''} {', '.join(map(str, lost))}, or at rank 1 on the "
            f"same documents, to compare the two (no chain of clicks leads there and back); expected {fewer}"
        )


def written(groups: list[list[int]]) -> str:
    """Groups of ranks in short: {1-3, 5}, {4}.

    >>> written([[1, 2, 3, 5], [4]])
    '{1-3, 5}, {4}'
    """
    texts = []
    for group in groups:
        runs = np.split(group, np.flatnonzero(np.diff(group) > 1) + 1)
        texts.append(", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs))
    return ", ".join(f"{{{text}}}" for text in texts)

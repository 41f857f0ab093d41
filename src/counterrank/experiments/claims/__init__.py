"""Claims: what the paper found, checked on the figures of a run, each with numbers, an interval and a verdict.

`checks.py` says how a verdict is reached. One module for each figure holds its claims, and the constants that put the
paper's words ("small k", "many clicks") into numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from counterrank.common.errors import CounterrankError
from counterrank.experiments.claims.click_numbers import click_number_claims
from counterrank.experiments.claims.conclusion import Setting
from counterrank.experiments.claims.few_clicks import few_click_claims
from counterrank.experiments.claims.logging_policies import policy_claims
from counterrank.experiments.claims.loss_functions import loss_claims
from counterrank.experiments.claims.page_size import page_size_claims
from counterrank.experiments.claims.readings import documents_per_query, read_figure

__all__ = ["check_claims", "claims_document"]

CONFIDENCE = 0.95
MARGIN = 0.02

_GROUPS = {1: page_size_claims, 2: click_number_claims, 3: loss_claims, 4: policy_claims}
_FEW_CLICKS = {5: few_click_claims}


def check_claims(
    figures: Sequence[Mapping[str, Any]],
    *,
    data: Iterable[Mapping[str, Any]] = (),
    confidence: float = CONFIDENCE,
    margin: float = MARGIN,
    targets: Mapping[int, float] | None = None,
) -> list[dict[str, Any]]:
    """Each claim of the paper's results, and some of our own, as a statistical check over runs; in the paper's order.

    All numbers of checks are relative and positive where something is better, for ARP as well.

    Args:
        figures: as a run's summary holds them.
        data: the summary's description of the data; some claims depend on how long queries are.
        confidence: of single intervals; a verdict is wrong with probability 1 - confidence at most.
        margin: relative difference up to which two methods are taken as equal; a quarter of it is noticeable: an
            advantage that is surely smaller counts as none.
        targets: shares of the gap that "auto" is to close, by number of sessions. Figure 5 has claims of its own,
            and those on the paper's figures are left out with it.

    >>> claims = check_claims([])
    >>> claims[0]["id"], claims[0]["verdict"], claims[0]["numbers"]
    ('baselines-below-at-small-k', 'not enough evidence', 'figure 1 is not part of this run')
    """
    for name, value in (("confidence", confidence), ("margin", margin)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < 1.0:
            raise CounterrankError(f"{name}={value!r}: expected a number between 0 and 1")
    setting = Setting(float(confidence), float(margin), documents_per_query(data), dict(targets or {}))
    groups = _FEW_CLICKS if any(figure.get("number") in _FEW_CLICKS for figure in figures) else _GROUPS
    return [claim for number, group in groups.items() for claim in group(read_figure(figures, number), setting)]


def claims_document(
    claims: Sequence[Mapping[str, Any]],
    summary: Mapping[str, Any],
    confidence: float = CONFIDENCE,
    margin: float = MARGIN,
) -> dict[str, Any]:
    """What `claims.json` holds: the claims, and which run they are about.

    >>> claims_document([], {"preset": "paper-mslr", "quick": False, "data": [{"source": "synthetic:mslr"}]})["data"]
    ['synthetic:mslr']
    """
    return {
        "format": "counterrank-claims",
        "version": 1,
        "preset": summary.get("preset"),
        "quick": bool(summary.get("quick", False)),
        "data": [fold.get("source") for fold in summary.get("data", ())],
        "runs": _most_runs(summary.get("figures", ())),
        "confidence": confidence,
        "margin": margin,
        "noticeable": Setting(confidence, margin).noticeable,
        "claims": [dict(claim) for claim in claims],
    }


def _most_runs(figures: Iterable[Mapping[str, Any]]) -> int:
    """The number of runs of the point that has most of them."""
    panels = [panel for figure in figures for panel in figure.get("panels", ())]
    points = [point for panel in panels for series in panel.get("series", ()) for point in series.get("points", ())]
    return max((sum(value is not None for value in point.get("values", ())) for point in points), default=0)

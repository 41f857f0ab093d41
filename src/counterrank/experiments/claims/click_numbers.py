"""Claims on the number of clicks, on pages of five: Figure 2 and Section 6.1 of the paper."""

from __future__ import annotations

from typing import Any

from counterrank.common.checks import FloatArray
from counterrank.experiments.claims.checks import Check, at_least, at_most, within
from counterrank.experiments.claims.conclusion import (
    Claim,
    Setting,
    clicks_text,
    conclude,
    first_within,
    plain_percent,
)
from counterrank.experiments.claims.page_size import ALL_BASELINES, AWARE
from counterrank.experiments.claims.readings import FULL, Figure, Panel, against
from counterrank.experiments.claims.statistics import mean_interval

NO_CUTOFF = "no-cutoff"

STABLE_CLICKS = 10**5
"""From here on the paper sees the baselines at rest."""

STABLE_CLICKS_RERANK_ARP = 10**6
"""Rerank, optimised for ARP, comes to rest later."""

MANY_CLICKS = 10**6
"""The end of a grid that stops before this does not show what many clicks do; the paper's ends at 10^8."""

DECADE = 10
"""Between being at rest and the end of the grid clicks have to grow tenfold, or nothing can be seen to stop."""


def click_number_claims(figure: Figure, setting: Setting) -> list[dict[str, Any]]:
    """All claims on Figure 2, in the paper's order."""
    return [
        _baselines_stop(figure, setting),
        _aware_goes_on(figure, setting),
        _aware_arrives(figure, setting),
        _equals_no_cutoff(figure, setting),
        _needs_more(figure, setting),
    ]


def many_clicks(panel: Panel) -> list[float]:
    """The largest number of clicks on the grid, where it is many; at most one."""
    return [clicks for clicks in panel.xs()[-1:] if clicks >= MANY_CLICKS]


def too_few(panel: Panel) -> str:
    """Why there is no end with many clicks to look at."""
    most = f"the grid ends at {clicks_text(panel.xs()[-1])} clicks" if panel.xs() else "there are no points"
    return f"{most}, {clicks_text(MANY_CLICKS)} are needed"


def _late_gains(panel: Panel, start: float) -> list[tuple[float, float]]:
    """From where to where the gain of late clicks is measured: from the first grid point that is late enough."""
    late = [clicks for clicks in panel.xs() if clicks >= start]
    return [(late[0], late[-1])] if late and late[-1] >= DECADE * late[0] else []


def _gain(panel: Panel, series: str, first: float, last: float) -> FloatArray:
    return against(panel.at(series, last), panel.at(series, first))


def _gain_text(panel: Panel, series: str, first: float, last: float) -> str:
    return f"{panel.metric} gained by {series} from {clicks_text(first)} to {clicks_text(last)} clicks"


def _rests_from(panel: Panel, series: str) -> float:
    """From how many clicks on the paper sees a baseline at rest."""
    slow = series.startswith("rerank") and panel.metric == "ARP"
    return STABLE_CLICKS_RERANK_ARP if slow else STABLE_CLICKS


def _baselines_stop(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "baselines-stop-improving",
        f"Beyond {clicks_text(STABLE_CLICKS)} clicks ({clicks_text(STABLE_CLICKS_RERANK_ARP)} for the ARP of rerank)"
        f" more clicks improve the baselines by no more than {plain_percent(setting.margin)}.",
        "Section 6.1, Figure 2",
    )
    checks = []
    for panel in figure.compared:
        for series in ALL_BASELINES:
            for ends in _late_gains(panel, _rests_from(panel, series)):
                gain = _gain(panel, series, *ends)
                checks.append(Check(_gain_text(panel, series, *ends), gain, at_most(setting.margin)))
    return conclude(claim, figure, checks, setting, lack=_no_decade())


def _no_decade() -> str:
    return f"the grid does not span a decade of clicks beyond {clicks_text(STABLE_CLICKS)}"


def _aware_goes_on(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "aware-goes-on-improving",
        f"Policy-aware still gains from clicks beyond {clicks_text(STABLE_CLICKS)}, and more than every baseline does"
        f" (beyond {clicks_text(STABLE_CLICKS_RERANK_ARP)} for the ARP of rerank).",
        "Section 6.1, Figure 2",
    )
    checks, rule = [], at_least(0.0, setting.noticeable)
    for panel in figure.compared:
        for ends in _late_gains(panel, STABLE_CLICKS):
            checks.append(Check(_gain_text(panel, AWARE, *ends), _gain(panel, AWARE, *ends), rule))
        for series in ALL_BASELINES:
            for ends in _late_gains(panel, _rests_from(panel, series)):
                more = _gain(panel, AWARE, *ends) - _gain(panel, series, *ends)
                checks.append(Check(f"{_gain_text(panel, AWARE, *ends)}, less that of {series}", more, rule))
    return conclude(claim, figure, checks, setting, lack=_no_decade())


def _aware_arrives(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "aware-reaches-full-information",
        f"With the most clicks policy-aware is within {plain_percent(setting.margin)} of full-information, or better.",
        "Section 6.1, Figure 2",
    )
    checks = [
        Check(
            f"{panel.metric} of {AWARE} against {FULL} at {clicks_text(most)} clicks",
            against(panel.at(AWARE, most), panel.level(FULL)),
            at_least(-setting.margin),
        )
        for panel in figure.compared
        for most in many_clicks(panel)
    ]
    return conclude(claim, figure, checks, setting, lack=_why(figure))


def _why(figure: Figure) -> str:
    return too_few(figure.compared[0]) if figure.compared else ""


def _equals_no_cutoff(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "aware-equals-no-cutoff",
        "With the most clicks policy-aware, from cut pages, and learning from pages without cutoff differ by no"
        f" more than {plain_percent(setting.margin)}.",
        "Section 6.1, Figure 2",
    )
    checks = [
        Check(
            f"{panel.metric} of {AWARE} against {NO_CUTOFF} at {clicks_text(most)} clicks",
            against(panel.at(AWARE, most), panel.at(NO_CUTOFF, most)),
            within(setting.margin),
        )
        for panel in figure.compared
        for most in many_clicks(panel)
    ]
    return conclude(claim, figure, checks, setting, lack=_why(figure))


def _needs_more(figure: Figure, setting: Setting) -> dict[str, Any]:
    """A mean over the grid nets out curves that cross, and asks one question rather than one at each point."""
    claim = Claim(
        "aware-needs-more-clicks",
        "Before the end of the grid, averaged over its numbers of clicks, policy-aware is behind learning without"
        " cutoff: it needs more clicks.",
        "Section 6.1, Figure 2",
    )
    checks, notes = [], []
    for panel in figure.compared:
        before = panel.xs()[:-1]
        if before:
            ahead = against(panel.mean_over(NO_CUTOFF, before), panel.mean_over(AWARE, before))
            where = f"mean over fewer than {clicks_text(panel.xs()[-1])} clicks"
            checks.append(
                Check(
                    f"{panel.metric} of {NO_CUTOFF} against {AWARE}, {where}", ahead, at_least(0.0, setting.noticeable)
                )
            )
            notes.append(needed_clicks(panel, (NO_CUTOFF, AWARE), setting))
    return conclude(
        claim, figure, checks, setting, note="; ".join(notes), lack="the grid has one number of clicks only"
    )


def needed_clicks(panel: Panel, series: tuple[str, ...], setting: Setting) -> str:
    """From how many clicks on the means of these series stay within the margin of full-information, for a reader."""
    told = []
    for name in series:
        shares = {
            clicks: mean_interval(against(panel.at(name, clicks), panel.level(FULL))).value for clicks in panel.xs()
        }
        first = first_within(shares, setting.margin)
        told.append(f"{name} {'never' if first is None else f'from {clicks_text(first)} clicks on'}")
    return f"mean {panel.metric} stays within {plain_percent(setting.margin)} of {FULL}: {', '.join(told)}"

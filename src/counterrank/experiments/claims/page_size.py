"""Claims on the page size k: Figure 1 and Section 6.1 of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from counterrank.common.checks import FloatArray
from counterrank.experiments.claims.checks import HOLDS, Check, Rule, at_least, at_most
from counterrank.experiments.claims.conclusion import Claim, Setting, conclude, first_within, plain_percent
from counterrank.experiments.claims.query_length import are_long, are_short, why_neither, why_not_long
from counterrank.experiments.claims.readings import FULL, Figure, Panel, against, relative
from counterrank.experiments.claims.statistics import mean_interval

AWARE = "policy-aware"
BASELINES = ("policy-oblivious", "rerank")
ALL_BASELINES = ("policy-oblivious", "policy-oblivious+random", "rerank", "rerank+random")

SMALL_K = 10
"""Up to here a page is small. The paper's baselines come near the optimum at k > 20 at the earliest."""

LARGE_K = 50
"""Beyond this a page is large: there the paper sees the baselines' DCG@5 at the optimum on both sets."""

ARP_GAP_K = 15
"""Beyond this the paper sees a small gap between the ARP of policy-aware and full-information (on MSLR)."""

ARP_GAP_LIMIT = 0.05
"""A gap beyond 5 % would no longer be called small."""

OUTPERFORMS_BELOW_K = 20
"""Where queries are short (Yahoo), the paper sees policy-aware ahead of the baselines below this k; else at every k."""

HALF = 0.5
"""Randomisation that closes less than half of the gap to full-information has not rescued a baseline."""


def page_size_claims(figure: Figure, setting: Setting) -> list[dict[str, Any]]:
    """All claims on Figure 1, in the paper's order."""
    return [
        _baselines_below(figure, setting),
        _baselines_arp(figure, setting),
        _baselines_reach(figure, setting),
        _randomisation(figure, setting),
        _exception(figure, setting),
        _aware_near(figure, setting, "arp"),
        _aware_near(figure, setting, "dcg"),
        _arp_gap(figure, setting),
        _at_least_as_good(figure, setting),
        _outperforms(figure, setting),
    ]


def _to_full(panel: Panel, series: str, k: float) -> FloatArray:
    return against(panel.at(series, k), panel.level(FULL))


def _what(panel: Panel, k: float, series: str, other: str = FULL) -> str:
    return f"{panel.metric} of {series} against {other} at k = {k:g}"


def _pages(panel: Panel, series: str) -> list[float]:
    """The k of the whole grid. Reranking a page of one document is nothing, so it has no point at k = 1."""
    return [k for k in panel.xs() if k > 1 or not series.startswith("rerank")]


def _below(panel: Panel, series: str, k: float, setting: Setting) -> Check:
    return Check(_what(panel, k, series), _to_full(panel, series, k), at_most(-setting.margin))


def _near(panel: Panel, series: str, k: float, setting: Setting) -> Check:
    return Check(_what(panel, k, series), _to_full(panel, series, k), at_least(-setting.margin))


def _near_at_large_k(panel: Panel, setting: Setting) -> list[Check]:
    """Both baselines at the largest k of the grid, where that is large."""
    return [_near(panel, series, k, setting) for series in BASELINES for k in panel.xs()[-1:] if k > LARGE_K]


def _reached(panel: Panel, series: str, setting: Setting) -> str:
    """From which k on the means stay within the margin, for a reader."""
    shares = {k: mean_interval(_to_full(panel, series, k)).value for k in _pages(panel, series)}
    k = first_within(shares, setting.margin)
    return f"{series} {'never' if k is None else f'from k = {k:g} on'}"


def _reach_note(panel: Panel, setting: Setting) -> str:
    told = ", ".join(_reached(panel, series, setting) for series in BASELINES)
    return f"mean {panel.metric} stays within {plain_percent(setting.margin)} of {FULL}: {told}"


def _baselines_below(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "baselines-below-at-small-k",
        f"On small pages (k up to {SMALL_K}) policy-oblivious and rerank stay more than {plain_percent(setting.margin)}"
        " below full-information.",
        "Section 6.1, Figure 1",
    )
    checks = [
        _below(panel, series, k, setting)
        for panel in figure.compared
        for series in BASELINES
        for k in _pages(panel, series)
        if k <= SMALL_K
    ]
    return conclude(claim, figure, checks, setting, lack=f"the grid has no k up to {SMALL_K}")


def _baselines_arp(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "baselines-arp-by-query-length",
        f"Where queries are short, policy-oblivious and rerank come near the ARP of full-information at large k; where"
        f" they are long, they stay more than {plain_percent(setting.margin)} behind at every k.",
        "Section 6.1, Figure 1 (short: Yahoo, long: MSLR)",
    )
    panel = figure.panel("ARP")
    checks: list[Check] = []
    if are_long(setting):
        checks = [_below(panel, series, k, setting) for series in BASELINES for k in _pages(panel, series)]
    elif are_short(setting):
        checks = _near_at_large_k(panel, setting)
    lack = why_neither(setting) or f"the grid has no k > {LARGE_K}"
    return conclude(claim, figure, checks, setting, note=_reach_note(panel, setting), lack=lack)


def _baselines_reach(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "baselines-reach-dcg-at-large-k",
        f"On the largest pages (k > {LARGE_K}) policy-oblivious and rerank come within"
        f" {plain_percent(setting.margin)} of the DCG of full-information.",
        "Section 6.1, Figure 1",
    )
    panel = figure.panel("DCG@")
    checks = _near_at_large_k(panel, setting)
    lack = f"the grid has no k > {LARGE_K}"
    return conclude(claim, figure, checks, setting, note=_reach_note(panel, setting), lack=lack)


def _randomisation(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "randomisation-alone-does-not-rescue",
        "Logging with randomisation closes less than half of the gap between a baseline and full-information, at every"
        " k > 1 where the baseline is surely behind by more than the margin.",
        "Section 6.1, Figure 1",
    )
    checks, closed = [], []
    for panel in figure.compared:
        full = panel.level(FULL)
        for series in BASELINES:
            for k in panel.xs():
                if k == 1 or _below(panel, series, k, setting).verdict(setting.confidence) != HOLDS:
                    continue
                plain, random = panel.at(series, k), panel.at(f"{series}+random", k)
                beyond_half = relative((random - plain) - HALF * (full - plain), full)
                what = f"{panel.metric} gained by {series} through randomisation, less half its gap, at k = {k:g}"
                checks.append(Check(what, beyond_half, at_most(0.0)))
                closed.append(mean_interval(relative(random - plain, full - plain)).value)
    shares = [share for share in closed if share is not None]
    note = f"on average {100 * sum(shares) / len(shares):.0f} % of the gap is closed" if shares else ""
    lack = "no baseline is surely behind by more than the margin at any k > 1"
    return conclude(claim, figure, checks, setting, note=note, lack=lack)


def _exception(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "exception-at-k-1",
        "With a single random result on the page (k = 1), policy-oblivious is within"
        f" {plain_percent(setting.margin)} of full-information.",
        "Section 6.1, Figure 1",
    )
    checks = [_near(panel, "policy-oblivious+random", 1, setting) for panel in figure.compared if 1 in panel.xs()]
    return conclude(claim, figure, checks, setting, lack="the grid has no k = 1")


def _aware_near(figure: Figure, setting: Setting, metric: str) -> dict[str, Any]:
    claim = Claim(
        f"aware-near-full-information-{metric}",
        f"The {metric.upper()} of policy-aware is within {plain_percent(setting.margin)} of full-information, or"
        " better, at every k.",
        "Section 6.1, Figure 1",
    )
    panel = figure.panel("ARP" if metric == "arp" else "DCG@")
    checks = [_near(panel, AWARE, k, setting) for k in panel.xs()]
    return conclude(claim, figure, checks, setting)


def _arp_gap(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "small-arp-gap-at-larger-k",
        f"Averaged over k > {ARP_GAP_K}, the ARP of policy-aware is behind full-information, but by less than"
        f" {plain_percent(ARP_GAP_LIMIT)}.",
        "Section 6.1, Figure 1 (MSLR only)",
    )
    panel = figure.panel("ARP")
    pages = [k for k in panel.xs() if k > ARP_GAP_K]
    lack = why_not_long(setting) or ("" if pages else f"the grid has no k > {ARP_GAP_K}")
    behind = -against(panel.mean_over(AWARE, pages), panel.level(FULL))
    named = f"ARP gap of policy-aware to full-information, mean over k > {ARP_GAP_K}"
    checks = [
        Check(f"{named}, that there is one", behind, at_least(0.0, setting.noticeable)),
        Check(f"{named}, that it is small", behind, at_most(ARP_GAP_LIMIT)),
    ]
    return conclude(claim, figure, [] if lack else checks, setting, lack=lack)


def _at_least_as_good(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "aware-at-least-as-good-as-baselines",
        f"Policy-aware is nowhere more than {plain_percent(setting.margin)} behind a baseline, with or without"
        " randomisation, at any k.",
        "Section 6.1, Figure 1",
    )
    checks = _aware_against(figure, lambda series, k: True, at_least(-setting.margin))
    return conclude(claim, figure, checks, setting)


def _outperforms(figure: Figure, setting: Setting) -> dict[str, Any]:
    claim = Claim(
        "aware-outperforms-baselines",
        f"Policy-aware is ahead of every baseline at k < {OUTPERFORMS_BELOW_K} where queries are short, and at every k"
        " where they are long (but for the exception at k = 1).",
        "Section 6.1, Figure 1 (short: Yahoo, long: MSLR)",
    )
    lack = why_neither(setting)
    largest = OUTPERFORMS_BELOW_K if are_short(setting) else math.inf

    def asked(series: str, k: float) -> bool:
        return k < largest and not (k == 1 and series == "policy-oblivious+random")

    checks = [] if lack else _aware_against(figure, asked, at_least(0.0, setting.noticeable))
    return conclude(claim, figure, checks, setting, lack=lack)


def _aware_against(figure: Figure, asked: Callable[[str, float], bool], rule: Rule) -> list[Check]:
    """Policy-aware against every baseline at every k that is asked for."""
    return [
        Check(_what(panel, k, AWARE, series), against(panel.at(AWARE, k), panel.at(series, k)), rule)
        for panel in figure.compared
        for series in ALL_BASELINES
        for k in _pages(panel, series)
        if asked(series, k)
    ]

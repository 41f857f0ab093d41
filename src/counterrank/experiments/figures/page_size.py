"""Figure 1 and its claims (Section 6.1 of the paper): the effect of how many results k a page shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

from counterrank.experiments.cells import CellFactory, GridPoint
from counterrank.experiments.claims import (
    FULL,
    Check,
    FigureValues,
    PanelValues,
    Rule,
    at_least,
    at_most,
    plain_percent,
)
from counterrank.experiments.figure_registry import FigureSpec
from counterrank.experiments.statistics import against, mean_interval, relative
from counterrank.experiments.summary import HOLDS, Axis, ClaimResult

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


def _grid(make: CellFactory) -> Iterator[GridPoint]:
    for panel, loss in make.panels:
        for k in make.settings.ks:
            yield from make.estimators(panel, loss, k, page=k, clicks=make.settings.clicks_by_k)
        yield from make.levels(panel, loss)


def _pages(panel: PanelValues, series: str) -> list[float]:
    """The k of the whole grid. Reranking a page of one document is nothing, so it has no point at k = 1."""
    return [k for k in panel.xs() if k > 1 or not series.startswith("rerank")]


def _below(panel: PanelValues, series: str, k: float, margin: float) -> Check:
    return panel.compare(series, FULL, k, f"k = {k:g}", at_most(-margin))


def _near(panel: PanelValues, series: str, k: float, margin: float) -> Check:
    return panel.compare(series, FULL, k, f"k = {k:g}", at_least(-margin))


def _near_at_large_k(panel: PanelValues, margin: float) -> list[Check]:
    """Both baselines at the largest k of the grid, where that is large."""
    return [_near(panel, series, k, margin) for series in BASELINES for k in panel.xs()[-1:] if k > LARGE_K]


def _reach_note(panel: PanelValues, margin: float) -> str:
    """From which k on the means stay within the margin, for a reader."""
    first = {series: panel.first_near(series, _pages(panel, series), margin) for series in BASELINES}
    found = [f"{series} {'never' if k is None else f'from k = {k:g} on'}" for series, k in first.items()]
    return f"mean {panel.metric} stays within {plain_percent(margin)} of {FULL}: {', '.join(found)}"


def _baselines_below(figure: FigureValues) -> ClaimResult:
    margin = figure.criteria.margin
    checks = [
        _below(panel, series, k, margin)
        for panel in figure.compared
        for series in BASELINES
        for k in _pages(panel, series)
        if k <= SMALL_K
    ]
    return figure.conclude(
        "baselines-below-at-small-k",
        f"On small pages (k up to {SMALL_K}) policy-oblivious and rerank stay more than {plain_percent(margin)}"
        " below full-information.",
        "Section 6.1, Figure 1",
        checks,
        lack=f"the grid has no k up to {SMALL_K}",
    )


def _baselines_arp(figure: FigureValues) -> ClaimResult:
    criteria, panel = figure.criteria, figure.panel("ARP")
    checks: list[Check] = []
    if criteria.long_queries:
        checks = [_below(panel, series, k, criteria.margin) for series in BASELINES for k in _pages(panel, series)]
    elif criteria.short_queries:
        checks = _near_at_large_k(panel, criteria.margin)
    lack = criteria.unknown_length() or f"the grid has no k > {LARGE_K}"
    return figure.conclude(
        "baselines-arp-by-query-length",
        f"Where queries are short, policy-oblivious and rerank come near the ARP of full-information at large k; where"
        f" they are long, they stay more than {plain_percent(criteria.margin)} behind at every k.",
        "Section 6.1, Figure 1 (short: Yahoo, long: MSLR)",
        checks,
        note=_reach_note(panel, criteria.margin),
        lack=lack,
    )


def _baselines_reach(figure: FigureValues) -> ClaimResult:
    margin, panel = figure.criteria.margin, figure.panel("DCG@")
    lack = f"the grid has no k > {LARGE_K}"
    return figure.conclude(
        "baselines-reach-dcg-at-large-k",
        f"On the largest pages (k > {LARGE_K}) policy-oblivious and rerank come within"
        f" {plain_percent(margin)} of the DCG of full-information.",
        "Section 6.1, Figure 1",
        _near_at_large_k(panel, margin),
        note=_reach_note(panel, margin),
        lack=lack,
    )


def _randomisation(figure: FigureValues) -> ClaimResult:
    checks, closed = [], []
    for panel in figure.compared:
        for series in BASELINES:
            for k in panel.xs():
                below = _below(panel, series, k, figure.criteria.margin)
                if k == 1 or below.verdict(figure.criteria.confidence) != HOLDS:
                    continue
                plain, random, full = (panel.at(name, k) for name in (series, f"{series}+random", FULL))
                beyond_half = relative((random - plain) - HALF * (full - plain), full)
                what = f"{panel.metric} gained by {series} through randomisation, less half its gap, at k = {k:g}"
                checks.append(Check(what, beyond_half, at_most(0.0)))
                closed.append(mean_interval(relative(random - plain, full - plain)).value)
    shares = [share for share in closed if share is not None]
    note = f"on average {100 * sum(shares) / len(shares):.0f} % of the gap is closed" if shares else ""
    lack = "no baseline is surely behind by more than the margin at any k > 1"
    return figure.conclude(
        "randomisation-alone-does-not-rescue",
        "Logging with randomisation closes less than half of the gap between a baseline and full-information, at every"
        " k > 1 where the baseline is surely behind by more than the margin.",
        "Section 6.1, Figure 1",
        checks,
        note=note,
        lack=lack,
    )


def _exception(figure: FigureValues) -> ClaimResult:
    margin = figure.criteria.margin
    checks = [_near(panel, "policy-oblivious+random", 1, margin) for panel in figure.compared if 1 in panel.xs()]
    return figure.conclude(
        "exception-at-k-1",
        "With a single random result on the page (k = 1), policy-oblivious is within"
        f" {plain_percent(margin)} of full-information.",
        "Section 6.1, Figure 1",
        checks,
        lack="the grid has no k = 1",
    )


def _aware_near(figure: FigureValues, metric: str) -> ClaimResult:
    margin = figure.criteria.margin
    panel = figure.panel("ARP" if metric == "arp" else "DCG@")
    return figure.conclude(
        f"aware-near-full-information-{metric}",
        f"The {metric.upper()} of policy-aware is within {plain_percent(margin)} of full-information, or"
        " better, at every k.",
        "Section 6.1, Figure 1",
        [_near(panel, AWARE, k, margin) for k in panel.xs()],
    )


def _arp_gap(figure: FigureValues) -> ClaimResult:
    panel = figure.panel("ARP")
    pages = [k for k in panel.xs() if k > ARP_GAP_K]
    lack = figure.criteria.not_long() or ("" if pages else f"the grid has no k > {ARP_GAP_K}")
    behind = -against(panel.mean_over(AWARE, pages), panel.at(FULL, None))
    named = f"ARP gap of policy-aware to full-information, mean over k > {ARP_GAP_K}"
    checks = [
        Check(f"{named}, that there is one", behind, at_least(0.0, figure.criteria.noticeable)),
        Check(f"{named}, that it is small", behind, at_most(ARP_GAP_LIMIT)),
    ]
    return figure.conclude(
        "small-arp-gap-at-larger-k",
        f"Averaged over k > {ARP_GAP_K}, the ARP of policy-aware is behind full-information, but by less than"
        f" {plain_percent(ARP_GAP_LIMIT)}.",
        "Section 6.1, Figure 1 (MSLR only)",
        [] if lack else checks,
        lack=lack,
    )


def _at_least_as_good(figure: FigureValues) -> ClaimResult:
    margin = figure.criteria.margin
    return figure.conclude(
        "aware-at-least-as-good-as-baselines",
        f"Policy-aware is nowhere more than {plain_percent(margin)} behind a baseline, with or without"
        " randomisation, at any k.",
        "Section 6.1, Figure 1",
        _aware_against(figure, lambda series, k: True, at_least(-margin)),
    )


def _outperforms(figure: FigureValues) -> ClaimResult:
    criteria = figure.criteria
    lack = criteria.unknown_length()
    largest = OUTPERFORMS_BELOW_K if criteria.short_queries else math.inf

    def claimed(series: str, k: float) -> bool:
        return k < largest and not (k == 1 and series == "policy-oblivious+random")

    checks = [] if lack else _aware_against(figure, claimed, at_least(0.0, criteria.noticeable))
    return figure.conclude(
        "aware-outperforms-baselines",
        f"Policy-aware is ahead of every baseline at k < {OUTPERFORMS_BELOW_K} where queries are short, and at every k"
        " where they are long (but for the exception at k = 1).",
        "Section 6.1, Figure 1 (short: Yahoo, long: MSLR)",
        checks,
        lack=lack,
    )


def _aware_against(figure: FigureValues, claimed: Callable[[str, float], bool], rule: Rule) -> list[Check]:
    """Policy-aware against every baseline at every k of which something is claimed."""
    return [
        panel.compare(AWARE, series, k, f"k = {k:g}", rule)
        for panel in figure.compared
        for series in ALL_BASELINES
        for k in _pages(panel, series)
        if claimed(series, k)
    ]


FIGURE = FigureSpec(
    number=1,
    title="Effect of the number of results shown",
    caption=(
        "Each point is a ranker learned from clicks on pages that show k results. A line that stays near full "
        "information is not harmed by short pages; a line that comes near it only at the right needs long ones."
    ),
    x=Axis("k", "Results shown, k", log=True),
    grid=_grid,
    claims=(
        _baselines_below,
        _baselines_arp,
        _baselines_reach,
        _randomisation,
        _exception,
        partial(_aware_near, metric="arp"),
        partial(_aware_near, metric="dcg"),
        _arp_gap,
        _at_least_as_good,
        _outperforms,
    ),
)

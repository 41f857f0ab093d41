"""From the sums of the queries to estimates with intervals, and the warning where these are not to be trusted."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterrank.common.checks import FloatArray
from counterrank.evaluation.click_evidence import Evidence, query_sums
from counterrank.evaluation.intervals import Asked, Ratios, expected_clicks, over_clicks, over_queries
from counterrank.evaluation.metrics import parse_metric

# What the intervals were measured to need, see docs/intervals.md
FEWEST_QUERIES = 100
LEAST_EVENNESS = 20.0
FEWEST_EXPECTED_CLICKS = 10.0

Interval = tuple[float, float]


class IntervalWarning(UserWarning):
    """An interval outside the range in which intervals were shown to hold as often as they say."""


@dataclass(frozen=True)
class Estimate:
    """What clicks say about one metric of a ranking, or about the difference of two rankings.

    Attributes:
        metric: its name.
        ips: sum(omega * lambda) / sessions; None for arp.
        self_normalized: sum(omega * lambda) / sum(omega); None if that sum is not above 0.
        ips_interval: from and to; None where there is no `ips`, or too little to tell.
        self_normalized_interval: the same for `self_normalized`.
        effective_sample_size: (sum of the weights of clicks)^2 / sum of their squares, each click weighing 1 / rho.
        largest_share: the largest weight of a click over the sum of all.
        target: what the intervals speak of, "queries" or "these-queries".
        confidence: how often such intervals hold the truth.
        n_queries: how many queries were asked.
        n_sessions: how many pages were shown.
        n_clicks: how many clicks there were.
    """

    metric: str
    ips: float | None
    self_normalized: float | None
    ips_interval: Interval | None
    self_normalized_interval: Interval | None
    effective_sample_size: float
    largest_share: float
    target: str
    confidence: float
    n_queries: int
    n_sessions: int
    n_clicks: int


def judge(evidence: Evidence, values: FloatArray, names: Sequence[str], asked: Asked) -> list[Estimate]:
    """An estimate for each column of the values, and one warning for all that may be wrong with them."""
    sums = query_sums(evidence, values)
    kinds = {"ips": sums.sessions}
    if sums.omega.sum() > 0.0:
        kinds["self_normalized"] = sums.omega
    else:
        text = f"self_normalized: the weights of all documents sum to {sums.omega.sum():g}, not above 0; it is None"
        warnings.warn(text, stacklevel=3)
    belows = list(kinds.values())
    centres = [np.zeros(len(names)) if kind == "ips" else sums.terms.sum(axis=0) / kinds[kind].sum() for kind in kinds]
    if asked.target == "queries":
        found = over_queries(sums.terms, belows, asked)
    else:
        found = [
            over_clicks(evidence, sums.terms, below, values, centre, asked)
            for below, centre in zip(belows, centres, strict=True)
        ]
    ratios = dict(zip(kinds, found, strict=True))
    _warn(evidence, values, names, asked, ratios, dict(zip(kinds, centres, strict=True)))
    return [_collected(evidence, name, m, asked, ratios) for m, name in enumerate(names)]


def _collected(evidence: Evidence, name: str, m: int, asked: Asked, ratios: dict[str, Ratios]) -> Estimate:
    pairs: dict[str, tuple[float | None, Interval | None]] = {"ips": (None, None), "self_normalized": (None, None)}
    for kind, ratio in ratios.items():
        if _has(kind, name):
            value, half = float(ratio.values[m]), float(ratio.half_widths[m])
            pairs[kind] = (value, (value - half, value + half) if np.isfinite(half) else None)
    return Estimate(
        metric=name,
        ips=pairs["ips"][0],
        self_normalized=pairs["self_normalized"][0],
        ips_interval=pairs["ips"][1],
        self_normalized_interval=pairs["self_normalized"][1],
        effective_sample_size=evidence.effective_sample_size,
        largest_share=evidence.largest_share,
        target=asked.target,
        confidence=asked.confidence,
        n_queries=int(np.count_nonzero(evidence.sessions)),
        n_sessions=int(evidence.sessions.sum()),
        n_clicks=int(evidence.cells.clicks.sum()),
    )


def _warn(
    evidence: Evidence,
    values: FloatArray,
    names: Sequence[str],
    asked: Asked,
    ratios: dict[str, Ratios],
    centres: dict[str, FloatArray],
) -> None:
    """One warning that names all intervals outside the range in which they were shown to hold."""
    reasons = []
    n_queries = int(np.count_nonzero(evidence.sessions))
    if asked.target == "queries" and n_queries < FEWEST_QUERIES:
        reasons.append(f"{n_queries:,} queries, expected at least {FEWEST_QUERIES}")
    for kind, ratio in ratios.items():
        expected = expected_clicks(evidence, values, centres[kind])
        for m, name in enumerate(names):
            if not _has(kind, name) or ratio.half_widths[m] == 0.0 == np.ptp(values[:, m]):
                continue
            if expected[m] < FEWEST_EXPECTED_CLICKS:
                reasons.append(
                    f"{kind} of {name} hangs on rare clicks, as {expected[m]:.2g} equal ones would, expected at least "
                    f"{FEWEST_EXPECTED_CLICKS:g}"
                )
            elif not ratio.evenness[m] >= LEAST_EVENNESS:
                what = "queries" if asked.target == "queries" else "clicks"
                reasons.append(
                    f"{kind} of {name} hangs on few {what}, as {ratio.evenness[m]:.2g} equal ones would, expected at "
                    f"least {LEAST_EVENNESS:g}"
                )
    if reasons:
        text = f"intervals may hold the truth less often than {asked.confidence:.0%}: {'; '.join(reasons)}"
        warnings.warn(text, IntervalWarning, stacklevel=4)


def _has(kind: str, name: str) -> bool:
    """Whether an estimate of this kind exists for the metric: the sum of ranks per session means nothing."""
    return kind != "ips" or parse_metric(name)[0] != "arp"

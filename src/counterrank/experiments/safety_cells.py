"""Cells of the experiment on safety: what a method serves, how good it is, and how far it moves exposure.

Stochastic methods learn a Plackett-Luce policy and serve pages drawn from it, the others a ranking. Where there is too
little to learn from, production stays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks.examination import Examination
from counterrank.clicks.policies.parsing import parse_policy
from counterrank.common.checks import FloatArray
from counterrank.data import RankingData
from counterrank.data.labels import relevant_documents
from counterrank.estimators import Evidence
from counterrank.evaluation import deployment_test
from counterrank.experiments.cells import Cell, Row
from counterrank.training import FitReport, Ranker, fit_ranker

LOSS = "plackett-luce"
LOGGING = "logging policy"
RISKS = {"unsafe": "none", "exposure-risk": "exposure", "prpo": "prpo"}
"""The stochastic methods, and the limit on exposure of each."""

LOW, HIGH = 0.5, 2.0
"""The limits of PRPO on the ratio of exposures."""

_CONFIDENCE, _FOLDS = 0.95, 5


class Part(NamedTuple):
    """One part of the data with its clicks, and what is known of the logging policy there."""

    data: RankingData
    evidence: Evidence


class Served(NamedTuple):
    """What is served, None for nothing; and what a method would serve without a test, None where there is no test."""

    ranker: Ranker | None
    new: Ranker | None = None


def parameters(method: str) -> dict[str, Any] | None:
    """The parameters of the ranker.

    >>> parameters("unsafe")
    {'risk': 'none'}
    """
    if method not in RISKS:
        return None
    return {"risk": RISKS[method]} | ({"low": LOW, "high": HIGH} if method == "prpo" else {})


def learn(
    cell: Cell, ranker: Ranker, train: Part, validation: Part, held_out: Part | None, production: Ranker
) -> tuple[Served, FitReport, Row]:
    """Learn by the method of the cell.

    Arguments:
        ranker: untrained.
        held_out: sessions on training queries, for the gate.
        production: what is served where the new ranker does not pass.
    """
    other = (validation.data, validation.evidence)
    if cell.method in RISKS:
        report = fit_ranker(train.data, train.evidence, cell.estimator, ranker, validation=other)
        return Served(report.ranker), report, {}
    report = fit_ranker(
        train.data,
        train.evidence,
        cell.estimator,
        ranker,
        validation=other,
        folds=_FOLDS,
        model="ridge",
        production=production if cell.method == "blend" else None,
        safety=_CONFIDENCE,
        seed=cell.seed_for("model"),
    )
    if cell.method == "blend":
        assert report.weight is not None
        return Served(report.ranker, report.new), report, {"served": {"weight": float(report.weight)}}
    assert held_out is not None
    metric = f"dcg@{cell.cutoff}"
    found = deployment_test(
        report.ranker, production, held_out.data, held_out.evidence, metric=metric, confidence=_CONFIDENCE
    )
    passed = {name: level.passes for name, level in found.levels.items()}
    served = report.ranker if found.deploy else production
    return Served(served, report.ranker), report, {"served": {"weight": float(found.deploy), "levels": passed}}


def served_policy(cell: Cell) -> Any:
    """The stochastic policy that a cell serves; None where it serves a ranking."""
    if cell.method == LOGGING:
        return parse_policy(cell.policy)
    return parse_policy(f"plackett-luce:k={cell.page},temperature=1") if cell.method in RISKS else None


def expected_dcg(
    policy: Any, scores: FloatArray, data: RankingData, cutoff: int, relevance_threshold: float, threads: int | None
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """The expected DCG@cutoff of the pages a policy shows, by query, and which queries have a relevant document.

        sum over relevant documents of E[1 / log2(1 + rank on the page)]

    The expectation is exact: it is the propensity under an examination curve that equals the discounts.
    """
    discounts = Examination(1.0 / np.log2(1.0 + np.arange(1, cutoff + 1)))
    expected = policy.propensity(scores, data.offsets, discounts, threads=threads)
    relevant = relevant_documents(data, relevance_threshold)
    sums: FloatArray = np.add.reduceat(np.where(relevant, expected, 0.0), data.offsets[:-1])
    return sums, np.add.reduceat(relevant.astype(np.int64), data.offsets[:-1]) > 0


def by_group(sums: FloatArray, some: NDArray[np.bool_], groups: NDArray[np.int64]) -> FloatArray:
    """The mean over queries that count, by group of queries, as `evaluate_groups` has it.

    >>> by_group(np.array([1.0, 0.0, 3.0]), np.array([True, False, True]), np.array([0, 0, 1])).tolist()
    [1.0, 3.0]
    """
    mean, n = sums[some].mean(), int(groups.max()) + 1
    rest = np.bincount(groups, np.where(some, sums - mean, 0.0), minlength=n)
    found: FloatArray = mean + n * rest / some.sum()
    return found


def exposure_reached(new: FloatArray, old: FloatArray) -> dict[str, float]:
    """How far exposure moved from that of the logging policy.

        above = sum max(rho - HIGH rho0, 0) / sum rho0          below = sum max(LOW rho0 - rho, 0) / sum rho0

    `least` and `most` are the ratios rho / rho0, with quantiles over documents, and `outside` is the share of documents
    beyond the limits.

    >>> found = exposure_reached(np.array([0.25, 1.0, 0.75]), np.array([1.0, 0.75, 0.25]))
    >>> found["least"], found["most"], found["above"], found["below"]
    (0.25, 3.0, 0.125, 0.125)
    """
    ratio, total = new / old, old.sum()
    low, middle, high = np.quantile(ratio, (0.05, 0.5, 0.95))
    numbers = {
        "least": ratio.min(),
        "q05": low,
        "median": middle,
        "q95": high,
        "most": ratio.max(),
        "outside": ((ratio < LOW) | (ratio > HIGH)).mean(),
        "above": np.maximum(new - HIGH * old, 0.0).sum() / total,
        "below": np.maximum(LOW * old - new, 0.0).sum() / total,
    }
    return {name: float(f"{value:.7g}") for name, value in numbers.items()}

"""How much randomisation, or how many more sessions, would make the clicks weigh enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.clicks.policies import Deterministic, PlackettLuce, ReplaceLast, UniformInsert
from counterrank.common.checks import FloatArray
from counterrank.data.ids import query_of_rows
from counterrank.evaluation.inspection.coverage import examinable_documents
from counterrank.evaluation.inspection.samples import QuerySample

DOCUMENTS = 50_000
_STEPS = sorted({round(lead * 10.0**-p, 6) for p in range(4) for lead in (1, 1.5, 2, 3, 5, 7) if lead * 10.0**-p <= 1})
_HEATS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # temperatures, in standard deviations of scores


@dataclass(frozen=True, eq=False)
class Expected:
    """What clicks would weigh under any policy, from the click-worthiness that this log estimates.

    With a = P(click | examined) of a document, s sessions of its query and propensity rho', clicks expect

        number s a rho',   sum of weights s a,   sum of squared weights s a / rho'

    so that the effective sample size is about (sum of s a)^2 / sum of s a / rho'. This log estimates s a without bias
    as the policy-aware weight, clicks / rho. Documents that it cannot speak for are taken to be as click-worthy as the
    others are on average.

    Attributes:
        sample: the queries it was computed on.
        scores: of their documents.
        worth: s a of each.
        assumed: the click rate taken where this log has none; None where it was not needed.
        exam: how likely each rank is examined.
        page: how many documents a page holds.
    """

    sample: QuerySample
    scores: FloatArray
    worth: FloatArray
    assumed: float | None
    exam: Examination
    page: int

    @classmethod
    def of(
        cls, clicks: ClickCounts, by_cell: FloatArray, rho: FloatArray | None, scores: FloatArray, exam: Examination
    ) -> Expected:
        """From the propensities of the cells, and those of all documents where they are known."""
        sample = QuerySample.of(clicks, DOCUMENTS)
        weights = np.zeros(len(by_cell))
        np.divide(clicks.clicks, by_cell, out=weights, where=by_cell > 0.0)
        omega = clicks.by_document(weights)[sample.rows]
        sessions = clicks.sessions[sample.queries][query_of_rows(sample.offsets)].astype(np.float64)
        known = examinable_documents(clicks, rho)[sample.rows]
        below = sessions[known].sum()
        mean = float(omega[known].sum() / below) if below else 0.0
        worth = np.where(known, omega, sessions * mean)
        page = int(clicks.ranks[clicks.impressions > 0].max(initial=1))
        return cls(sample, scores[sample.rows], worth, None if known.all() else mean, exam, page)

    def size(self, rho: FloatArray) -> float:
        """The effective sample size with these propensities, over all queries; 0 if they leave a document out."""
        own = self.worth > 0.0
        if not own.any() or (rho[own] <= 0.0).any():
            return 0.0
        total = float(self.worth[own].sum())
        return total**2 / float((self.worth[own] / rho[own]).sum()) / self.sample.share

    def row(self, name: str, rho: FloatArray, sessions: int, target: int, moves: bool) -> dict[str, Any]:
        """A policy with what it would bring at as many sessions as this log has."""
        size = self.size(rho)
        return {
            "policy": name,
            "effective_sample_size": size,
            "clicks": float((self.worth * rho).sum()) / self.sample.share,
            "sessions_for_target": int(np.ceil(sessions * target / size)) if size else None,
            "reaches_target": size >= target,
            "learns_position_bias": moves,
        }


def remedies(expected: Expected, sessions: int, target: int) -> dict[str, Any]:
    """Policies on pages as long as these, and of each family the least random one that reaches the target.

    Epsilon-greedy and mixtures have propensities that are linear in their share, so a fine grid of shares is tried; of
    Plackett-Luce temperatures are tried from a tenth to ten times the standard deviation of scores within queries.
    """
    k, scores, offsets = expected.page, expected.scores, expected.sample.offsets
    fixed = Deterministic(k).propensity(scores, offsets, expected.exam)
    last = ReplaceLast(k).propensity(scores, offsets, expected.exam)
    insert = UniformInsert(k).propensity(scores, offsets, expected.exam)
    families: dict[str, list[dict[str, Any]]] = {"epsilon-greedy": [], "uniform-insert": [], "plackett-luce": []}
    for share in _STEPS:
        name = f"epsilon-greedy:k={k},epsilon={share:g}" if share < 1 else f"replace-last:k={k}"
        mixed = (1.0 - share) * fixed + share * last
        families["epsilon-greedy"].append(expected.row(name, mixed, sessions, target, False))
        name = f"{1 - share:g}*deterministic:k={k} + {share:g}*uniform-insert:k={k}" if share < 1 else ""
        mixed = (1.0 - share) * fixed + share * insert
        row = expected.row(name or f"uniform-insert:k={k}", mixed, sessions, target, True)
        families["uniform-insert"].append(row)
    spread = _spread(scores, offsets)
    for heat in _HEATS if spread else ():
        temperature = float(f"{heat * spread:.2g}")
        rho = PlackettLuce(k, temperature).propensity(scores, offsets, expected.exam)
        name = f"plackett-luce:k={k},temperature={temperature:g}"
        families["plackett-luce"].append(expected.row(name, rho, sessions, target, k > 1))
    return {
        "target": target,
        "sessions": sessions,
        "page": k,
        "queries_computed": len(expected.sample.queries),
        "assumed_click_rate": expected.assumed,
        "families": {name: _chosen(rows) for name, rows in families.items() if rows},
    }


def _chosen(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The least random one that reaches the target, and the one with the largest effective sample size."""
    return {
        "least": next((row for row in rows if row["reaches_target"]), None),
        "best": max(rows, key=lambda row: row["effective_sample_size"]),
    }


def _spread(scores: FloatArray, offsets: Any) -> float:
    """The standard deviation of scores within queries, pooled over documents; 0 if there is none."""
    lengths = np.diff(offsets)
    means = np.add.reduceat(scores, offsets[:-1]) / lengths
    return float(np.sqrt(np.square(scores - np.repeat(means, lengths)).mean()))

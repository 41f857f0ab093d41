"""`estimate` with its 2,000 resamples, against one pass over the click counts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.timing import median_seconds, row
from counterrank import ClickCounts, evaluation, examination, policies, simulation
from counterrank.common.parallel import thread_count
from counterrank.data import RankingData

METRICS = ("arp", "dcg@5")


def run(data: RankingData, repeats: int = 5) -> list[dict[str, Any]]:
    """Rows of median seconds and their ratio to adding up clicks / propensity by document."""
    rng = np.random.default_rng(0)
    logging, one, other = data.labels + 2.0 * rng.standard_normal((3, data.n_docs))
    policy, exam = policies.ReplaceLast(k=5), examination.inverse_rank(k=5)
    rho = policy.propensity(logging, data.offsets, exam)
    log = simulation.simulate(data, logging, policy, exam, clicks=10**8, seed=0)
    several = [data.labels + rng.standard_normal(data.n_docs) for _ in range(8)]
    threads = thread_count()
    cases = [
        ("one pass over the counts", lambda: _pass(log, rho), None),
        (f"estimate, queries, {threads} threads", lambda: evaluation.estimate(one, data, log, rho, METRICS), 5.0),
        ("estimate, queries, 1 thread", lambda: evaluation.estimate(one, data, log, rho, METRICS, threads=1), None),
        (
            f"estimate, these-queries, {threads} threads",
            lambda: evaluation.estimate(one, data, log, rho, METRICS, population="these-queries"),
            None,
        ),
        (f"compare, queries, {threads} threads", lambda: evaluation.compare(one, other, data, log, rho, METRICS), None),
        (f"select among 8, {threads} threads", lambda: evaluation.select(several, data, log, rho), None),
    ]
    rows, base = [], 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, action, limit in cases:
            seconds = median_seconds(action, repeats)
            base = base if rows else seconds
            target, met = ("", None) if limit is None else (f"< {limit:g} s", seconds < limit)
            rows.append(row(name, seconds, seconds / base, target, met))
    return rows


def _pass(log: ClickCounts, rho: Any) -> Any:
    """omega, which any estimate from these counts has to compute."""
    return log.by_document(log.clicks / rho[log.docs])

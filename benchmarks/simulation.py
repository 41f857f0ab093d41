"""Simulated clicks at the size of MSLR-WEB30K: cost by clicks, against session by session, and as a log."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import at_least, at_most, best_seconds, row
from counterrank import RankingData, examination, policies, simulation
from counterrank.clicks.simulation_kernels import click_probability
from counterrank.clicks.users import SessionSimulator
from counterrank.common.jit import exact_kernel
from counterrank.common.random import below, start_stream, uniform

SESSIONS_ONE_BY_ONE = 4_000_000
LOG_SESSIONS = 1_000_000


def run(data: RankingData) -> list[dict[str, Any]]:
    scores = np.random.default_rng(0).normal(size=data.n_docs)
    exam = examination.inverse_rank(k=5)

    def clicks(n: int, policy: Any, **more: Any) -> Any:
        return lambda: simulation.simulate(data, scores, policy, exam, clicks=n, seed=1, **more)

    replace_last = policies.ReplaceLast(k=5)
    sizes = (10**7, 10**8, 10**9)
    few, many, most = best_seconds([clicks(n, replace_last) for n in sizes], repeats=3)
    rows = [
        row("10^7 clicks, replace-last", few),
        row("10^8 clicks", many, None, "< 2 s", many < 2.0),
        at_most("10^9 clicks / 10^8", most, many, 1.3),
        at_most("10^9 clicks / 10^7", most, few, None),
    ]
    (pages,) = best_seconds([clicks(10**8, replace_last, displays=True)], repeats=1)
    rows.append(at_most("10^8 clicks with displays=True / without", pages, many, None))
    others = {
        "deterministic": policies.Deterministic(5),
        "epsilon-greedy": policies.EpsilonGreedy(5, 0.1),
        "uniform-insert": policies.UniformInsert(5),
        "half replace-last, half uniform-insert": policies.Mixture(
            [replace_last, policies.UniformInsert(5)], [0.5, 0.5]
        ),
    }
    for name, policy in others.items():
        (seconds,) = best_seconds([clicks(10**8, policy)], repeats=1)
        rows.append(at_most(f"10^8 clicks, {name} / replace-last", seconds, many, None))
    rows += one_by_one(data, scores, exam, many)
    rows.append(log(data, scores, exam))
    return rows


@exact_kernel
def replace_last_sessions(sessions: int, offsets: Any, order: Any, world: Any, k: int, shown: Any, clicked: Any) -> int:
    """The reference: one session at a time, counted as it is drawn. Cells are (document, head or last place)."""
    state = np.empty(1, np.uint64)
    start_stream(state, np.uint64(1), 0)
    clicks = 0
    for _ in range(sessions):
        q = below(state, len(offsets) - 1)
        begin, n = offsets[q], offsets[q + 1] - offsets[q]
        length = min(k, n)
        for rank in range(length):
            place = rank if rank < length - 1 else rank + below(state, n - length + 1)
            doc = begin + order[begin + place]
            shown[doc] += 1
            if uniform(state) < click_probability(world, doc, rank):
                clicked[doc] += 1
                clicks += 1
    return clicks


def one_by_one(data: RankingData, scores: Any, exam: Any, aggregated: float) -> list[dict[str, Any]]:
    """The compiled reference that draws every session, and Plackett-Luce, which always draws every session."""
    users = SessionSimulator.make(data, scores, policies.ReplaceLast(5), exam, 3, None, None, None)
    made: Any = {}

    def reference() -> None:
        counts = np.zeros((2, data.n_docs), np.int64)
        fixed = (data.offsets, users.source.arrays.order, users.user_model, 5)
        made["clicks"] = replace_last_sessions(SESSIONS_ONE_BY_ONE, *fixed, counts[0], counts[1])

    def softmax() -> None:
        fixed = (data, scores, policies.PlackettLuce(5), exam)
        log = simulation.simulate(*fixed, sessions=SESSIONS_ONE_BY_ONE, seed=1, propensities=False)
        made["plackett-luce"] = log.n_clicks

    reference_seconds, softmax_seconds = best_seconds([reference, softmax], repeats=2)
    return [
        at_least(
            "10^8 clicks against a compiled loop over sessions, one thread (extrapolated)",
            aggregated,
            reference_seconds * 10**8 / made["clicks"],
            None,
        ),
        row(
            "10^8 clicks, Plackett-Luce, one session after the other (extrapolated)",
            softmax_seconds * 10**8 / made["plackett-luce"],
        ),
    ]


def log(data: RankingData, scores: Any, exam: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.parquet"
        made: Any = {}

        def write() -> None:
            made["rows"] = simulation.write_log(
                data, scores, policies.ReplaceLast(5), exam, file, sessions=LOG_SESSIONS, seed=1
            )

        (seconds,) = best_seconds([write], repeats=2)
    millions = made["rows"] / seconds / 1e6
    return row("write_log, million rows a second", seconds, millions, ">= 2", millions >= 2.0)

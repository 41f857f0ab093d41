"""Simulated clicks at the size of MSLR-WEB30K: cost by clicks, against session by session, and as a log."""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.timing import at_least, at_most, best_seconds, row
from counterrank import RankingData, examination, policies, simulation
from counterrank.clicks.policies.page_kernels import draw_by_alias, draw_by_tree, load, new_drawer
from counterrank.clicks.simulation_kernels import click_probability
from counterrank.clicks.users import SessionSimulator
from counterrank.common.jit import exact_kernel
from counterrank.common.random import below, start_stream, uniform

SESSIONS_ONE_BY_ONE = 4_000_000
LOG_SESSIONS = 1_000_000
DRAWN_QUERIES, DRAWN_PAGES = 500, 2_000  # for pages of Plackett-Luce, on one thread


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
    rows.append(one_by_one(data, scores, exam, many))
    rows += plackett_luce(data, scores, exam)
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


def one_by_one(data: RankingData, scores: Any, exam: Any, aggregated: float) -> dict[str, Any]:
    """The compiled reference that draws every session."""
    users = SessionSimulator.make(data, scores, policies.ReplaceLast(5), exam, 3, None, None, None)
    made: Any = {}

    def reference() -> None:
        counts = np.zeros((2, data.n_docs), np.int64)
        fixed = (data.offsets, users.source.arrays.order, users.user_model, 5)
        made["clicks"] = replace_last_sessions(SESSIONS_ONE_BY_ONE, *fixed, counts[0], counts[1])

    (seconds,) = best_seconds([reference], repeats=2)
    return at_least(
        "10^8 clicks against a compiled loop over sessions, one thread (extrapolated)",
        aggregated,
        seconds * 10**8 / made["clicks"],
        None,
    )


@exact_kernel
def plackett_luce_pages(queries: int, pages: int, offsets: Any, scores: Any, by_alias: bool, shown: Any) -> None:
    """So many pages of 5 for each query, counted; from alias tables, or all of them from trees, as in 0.2."""
    state, page = np.empty(1, np.uint64), np.empty(5, np.int64)
    drawer = new_drawer(np.int64(2000))
    for q in range(queries):
        start_stream(state, np.uint64(1), q)
        logits = scores[offsets[q] : offsets[q + 1]]
        own = page[: min(5, len(logits))]
        load(logits, 1.0, len(own), drawer)
        for _ in range(pages):
            placed = draw_by_alias(drawer, state, own) if by_alias else np.int64(0)
            if placed < len(own):
                draw_by_tree(logits, 1.0, placed, drawer, state, own)
            for place in own:
                shown[offsets[q] + place] += 1


def plackett_luce(data: RankingData, scores: Any, exam: Any) -> list[dict[str, Any]]:
    """Pages of Plackett-Luce, which are drawn one by one: alias tables against trees, and a whole simulation."""
    rows = []
    for spread in (1.0, 10.0):
        shown = np.zeros(data.n_docs, np.int64)
        fixed = (min(DRAWN_QUERIES, data.n_queries), DRAWN_PAGES, data.offsets, spread * scores)
        new, old = best_seconds(
            [lambda f=fixed, a=alias, s=shown: plackett_luce_pages(*f, a, s) for alias in (True, False)], repeats=5
        )
        name = f"10^6 Plackett-Luce pages, scores of deviation {spread:g}, one thread: alias tables against trees"
        rows.append(at_least(name, new, old, None))
    fixed = (data, scores, policies.PlackettLuce(5), exam)
    simulation.simulate(*fixed, clicks=10**6, seed=1)
    used: list[float] = []

    def simulate() -> None:
        begin = process_time()
        simulation.simulate(*fixed, clicks=10**8, seed=1)
        used.append(process_time() - begin)

    (seconds,) = best_seconds([simulate], repeats=1)
    return [
        *rows,
        row("10^8 clicks, Plackett-Luce", seconds, None, "<= 15 s", seconds <= 15.0),
        row("the same, processor time of all threads", min(used)),
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

"""Populations on a GPU: milliseconds of a ranker-epoch by number of rankers and of orders, beside the CPU's.

python -m benchmarks.gpu                   the size of MSLR-WEB30K: 18,900 queries of 120 documents with 136 features
python -m benchmarks.gpu --queries 2000    smaller

Steps of all losses are compared with the CPU's first, and an epoch is repeated; differences end the run. Times include
the copies of coefficients. Weights are shared: `WEIGHTS` different ones, each used by every so many rankers.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np

from benchmarks.timing import median_seconds, seconds_of
from counterrank.data import RankingData
from counterrank.losses import LOSSES
from counterrank.models.model import Scaler, Scales
from counterrank.training import gpu
from counterrank.training.executor import CpuExecutor, Epoch, Executor, Metric
from counterrank.training.gradient_descent import LinearProblem
from counterrank.training.problem import LinearMetric, TrainingWeights

WEIGHTS = 32
MEMBERS = (1, 8, 32, 132, 264, 528, 1056, 2112, 4224, 10_000)
ORDERS = (1, 4, 33, 132)
TIMED = ("lambdaloss-truncated", "arp-hinge")


def make_data(n_queries: int, n_docs: int, n_features: int) -> RankingData:
    """Random features, all queries of the same length."""
    features = np.random.default_rng(0).random((n_queries * n_docs, n_features), np.float32)
    return RankingData(features, np.arange(0, len(features) + 1, n_docs))


def make_problems(data: RankingData, scales: Scales, loss: str, n: int) -> list[LinearProblem]:
    """Weights of a fifth of the documents, and k=5."""
    rng = np.random.default_rng(1)
    spec = LOSSES[loss].spec(5 if LOSSES[loss].takes_k else None, int(data.lengths.max()))
    problems = []
    for _ in range(n):
        weights = np.where(rng.random(data.n_docs) < 0.2, rng.random(data.n_docs), 0.0)
        problems.append(LinearProblem.make(data, weights, scales, spec))
    return problems


def make_requests(problems: list[LinearProblem], n: int, n_orders: int) -> list[Epoch]:
    """Epochs of n rankers with different learning rates."""
    rng = np.random.default_rng(2)
    orders = [rng.permutation(problems[0].n_queries) for _ in range(n_orders)]
    return [
        Epoch(
            problems[i % len(problems)],
            orders[i * n_orders // n],
            0.1 * (1.0 + i / n),
            1,
            np.zeros(problems[0].n_features),
        )
        for i in range(n)
    ]


def check(executor: Executor) -> None:
    """Steps of one query, a repeated epoch, and a metric; ends the run where they differ from what is expected."""
    data = make_data(40, 130, 136)
    scales = Scaler.learn("query", data).scales(data)
    rng = np.random.default_rng(3)
    for loss in (name for name, each in LOSSES.items() if not each.spec(None, 2).draws):  # others: on the CPU alone
        (problem,) = make_problems(data, scales, loss, 1)
        starts = [rng.normal(size=data.n_features) for _ in range(data.n_queries)]
        order = np.arange(data.n_queries)
        requests = [
            Epoch(replace(problem, queries=np.array([q])), order, 1e-3, 1, start.copy())
            for q, start in enumerate(starts)
        ]
        executor.run(requests)
        worst = 0.0
        for q, (request, start) in enumerate(zip(requests, starts, strict=True)):
            expected = start.copy()
            problem.epoch(np.array([q]), 1e-3, 1, expected, 1)
            moved = np.abs(expected - start).max()
            worst = max(worst, float(np.abs(request.coefficients - expected).max() / moved))
        print(f"{loss:22} steps differ from the CPU's by {worst:.1e} of their size", flush=True)
        if not worst < 1e-5:
            sys.exit("more than 1e-5: the kernels are wrong on this GPU")
    found = []
    for _ in range(2):
        requests = make_requests([problem], 40, 2)
        executor.run(requests)
        found.append(np.stack([request.coefficients for request in requests]))
    metric = LinearMetric("dcg@5", data, TrainingWeights(problem.kernel_data.weights, None), scales)
    (parts,) = executor.run([Metric(metric, starts[0])])
    if not np.array_equal(*found) or not np.allclose(parts, metric(starts[0], 1), rtol=1e-12, atol=0):
        sys.exit("an epoch did not repeat, or a metric differs: the kernels are wrong on this GPU")
    print("an epoch repeats bit for bit; the metric is the CPU's", flush=True)


def used_bytes() -> int:
    """Memory of the GPU in use by arrays."""
    import cupy

    return int(cupy.get_default_memory_pool().used_bytes())


def print_row(*cells: object) -> None:
    print(f"{cells[0]!s:22} {cells[1]!s:>28} {cells[2]:>12} {cells[3]:>14}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--queries", type=int, default=18_900)
    parser.add_argument("--docs", type=int, default=120)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--members", default=",".join(map(str, MEMBERS)), help="numbers of rankers")
    parser.add_argument("--seconds", type=float, default=240.0, help="begin no further measurement after this long")
    options = parser.parse_args()
    begin = perf_counter()
    executor = gpu.executor()
    check(executor)
    data = make_data(options.queries, options.docs, options.features)
    scales = Scaler.learn("query", data).scales(data)
    before, cores = used_bytes(), os.cpu_count() or 1
    print_row("loss", "rankers", "epoch, ms", "ms a ranker")
    for loss in TIMED:
        problems = make_problems(data, scales, loss, WEIGHTS)
        single, many = make_requests(problems[:1], 1, 1), make_requests(problems, 2 * cores, 1)
        alone = median_seconds(partial(CpuExecutor(1).run, single), 3)
        print_row(loss, "1 on one core", f"{1e3 * alone:.1f}", f"{1e3 * alone:.3f}")
        seconds = seconds_of(partial(CpuExecutor(cores).run, many))
        print_row(loss, f"{len(many)} on {cores} cores", f"{1e3 * seconds:.1f}", f"{1e3 * seconds / len(many):.3f}")
        counts = [int(n) for n in options.members.split(",")]
        cases = [(n, 1) for n in counts] + [(max(n for n in counts if n <= 4224), orders) for orders in ORDERS[1:]]
        for n, orders in cases:
            if perf_counter() - begin > options.seconds:
                print("no time left for further measurements")
                return
            requests = make_requests(problems, n, orders)
            seconds = median_seconds(partial(executor.run, requests), 3)
            name = f"{n:,}" if orders == 1 else f"{n:,} in {orders} orders"
            print_row(loss, name, f"{1e3 * seconds:.1f}", f"{1e3 * seconds / n:.4f}")
        if loss == TIMED[0]:
            fixed = 4 * gpu.pitch_of(data.n_features) * data.n_docs
            each = (used_bytes() - before - fixed) / WEIGHTS
            print(f"memory: {fixed / 1e9:.2f} GB for the features; {each / 1e6:.1f} MB for the weights of each ranker")


if __name__ == "__main__":
    main()

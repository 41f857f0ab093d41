"""Which model, which loss, which estimator: the figures behind docs/how-to/choosing.md.

    python -m benchmarks.choosing --data ../shared/data --out choosing.jsonl --workers 2
    python -m benchmarks.choosing --out choosing.jsonl --show

Pages of 5 under replace-last, logged by a linear ranker that learned from 1 % of the training queries (three at least);
examination 1 / rank; validation clicks 15 % of training clicks. Every cell is one ranker, trained on one thread, and
one line of the file; cells that are in the file are not run again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.choosing_tables import show
from counterrank import Fold, Ranker, make_fold, read_fold
from counterrank.clicks import policies, simulation
from counterrank.clicks.examination import inverse_rank
from counterrank.estimators import Evidence, full_information
from counterrank.estimators.registry import named_estimator
from counterrank.evaluation import evaluate
from counterrank.experiments.demo import train_production
from counterrank.losses import LOSSES
from counterrank.training.problem import KINDS

SETS = {
    "ohsumed": (("ohsumed/Fold1", "ohsumed/Fold2", "ohsumed/Fold3"), 2),
    "mq2008": (("mq2008/Fold1", "mq2008/Fold2"), 1),
    "mslr-sample": (("mslr-sample",), 2),
    "synthetic:mslr": (("mslr:1500",), 3),
}
# number of queries; three fifths are training queries
SIZES = {f"synthetic:mslr, {n} queries": ((f"mslr:{n}",), 3) for n in (250, 1000, 4000, 16000)}
MODELS = ("linear", "mlp", "lambdamart")
ESTIMATORS = ("naive", "policy-oblivious", "rerank", "policy-aware")
LABELS = "full-information"
METRICS = ("dcg@5", "ndcg@5", "arp")
K = 5


class Cell(NamedTuple):
    """One ranker: where, of what kind, with which loss, from which evidence; clicks are 0 for labels."""

    data: str
    fold: str
    seed: int
    model: str
    loss: str
    estimator: str
    clicks: int


def cells(seeds: int) -> Iterator[Cell]:
    """All cells, the most important first."""
    everywhere = [(name, fold) for name, (folds, _) in SETS.items() for fold in folds]
    some = [pair for pair in everywhere if pair[0] in ("ohsumed", "synthetic:mslr")]
    evidence = ((LABELS, 0), ("policy-aware", 10**6))
    for seed, (name, fold), model, by in itertools.product(range(seeds), everywhere, MODELS, evidence):
        yield Cell(name, fold, seed, model, KINDS[model].loss, *by)
    for name, model in itertools.product(SIZES, MODELS):
        yield Cell(name, SIZES[name][0][0], 0, model, KINDS[model].loss, LABELS, 0)
    for seed, (name, fold), model, estimator, power in itertools.product(
        range(seeds), some, ("linear", "lambdamart"), ESTIMATORS, (3, 4, 5, 6, 7)
    ):
        yield Cell(name, fold, seed, model, KINDS[model].loss, estimator, 10**power)
    for seed, (name, fold), model, loss, by in itertools.product(
        range(seeds), everywhere, ("linear", "lambdamart"), LOSSES, evidence
    ):
        yield Cell(name, fold, seed, model, loss, *by)


@cache
def load(folder: Path, fold: str) -> Fold:
    shape, colon, size = fold.partition(":")
    return make_fold(shape, int(size), seed=0) if colon else read_fold(folder / fold)


def run_cell(folder: Path, cell: Cell) -> dict[str, Any]:
    """Train the ranker, and evaluate it on the labels of the test part."""
    fold, threshold = load(folder, cell.fold), (SETS | SIZES)[cell.data][1]
    production, _ = train_production(fold.train, 0.01, threshold, cell.seed, 1)

    def weigh(part: Any, clicks: int, number: int) -> Any:
        if cell.estimator == LABELS:
            return full_information(part, threshold)
        exam = inverse_rank(K)
        counts = simulation.simulate(
            part, production.predict(part), policies.ReplaceLast(K), exam, clicks=clicks,
            seed=1000 * cell.seed + number, relevance_threshold=threshold, displays=cell.estimator == "rerank",
            threads=1,
        )  # fmt: skip
        return named_estimator(cell.estimator).weigh(part, Evidence(counts, exam=exam))

    held_out = fold.validation
    weights = weigh(fold.train, cell.clicks, 1)
    validation = weigh(held_out, max(1, round(0.15 * cell.clicks)), 2)
    ranker = Ranker(cell.loss, K if LOSSES[cell.loss].takes_k else None, cell.model, threads=1, seed=cell.seed)
    begin = time.perf_counter()
    ranker.fit(fold.train, weights, validation=(held_out, validation))
    seconds = time.perf_counter() - begin
    found = {
        name: evaluate(one.predict(fold.test), fold.test, threshold, metrics=METRICS)
        for name, one in (("ranker", ranker), ("production", production))
    }
    return {
        **cell._asdict(), **found["ranker"], "production": found["production"], "seconds": seconds,
        "epochs": len(ranker.history_), "epoch_seconds": sum(row["seconds"] for row in ranker.history_),
    }  # fmt: skip


def attempt(folder: Path, cell: Cell) -> dict[str, Any]:
    """The cell's row, or why it could not be trained."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return run_cell(folder, cell)
        except ValueError as error:
            return {**cell._asdict(), "error": str(error)}


def read(out: Path) -> list[dict[str, Any]]:
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    return [json.loads(line) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choosing", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with the LETOR data sets")
    parser.add_argument("--out", type=Path, default=Path("choosing.jsonl"), help="the file of results")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no cell after this time")
    parser.add_argument("--show", action="store_true", help="print the tables of existing results, and run nothing")
    options = parser.parse_args()
    rows = read(options.out)
    if options.show:
        show(rows)
        return
    done = {tuple(row[name] for name in Cell._fields) for row in rows}
    todo = [cell for cell in dict.fromkeys(cells(options.seeds)) if tuple(cell) not in done]
    end = time.monotonic() + 60 * options.minutes
    with (
        options.out.open("a", encoding="utf-8") as file,
        ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool,
    ):
        waiting, running = iter(todo), set()
        while True:
            while len(running) < options.workers and time.monotonic() < end and (cell := next(waiting, None)):
                running.add(pool.submit(attempt, options.data, cell))
            if not running:
                break
            first = next(as_completed(running))
            running.discard(first)
            file.write(json.dumps(first.result()) + "\n")
            file.flush()
            print(json.dumps(first.result()), file=sys.stderr)
    show(read(options.out))


if __name__ == "__main__":
    main()

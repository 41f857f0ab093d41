"""Does `learning_rate="auto"` find a good learning rate? Against the best of a 12-point grid, for every loss.

Each case is a data set, a loss, and training with or without validation data. The grid spans seven and a half powers of
ten around the loss's natural learning rate, at points that the search of "auto" does not try itself. Its best point has
the best training objective, the metric sum(omega * lambda) / sum(|omega|) at the ranks of the model `fit` returns. A
case passes if "auto" comes within 1 % of that objective, or if the paired 95 % confidence interval of the difference in
the test metric, over test queries, contains zero or shows "auto" to be better.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

import counterrank as cr
from counterrank.common.parallel import thread_count
from counterrank.common.ranking import longest_query
from counterrank.data import Fold
from counterrank.estimators import full_information
from counterrank.evaluation import evaluate_queries, higher_is_better, weighted_metric
from counterrank.losses import LOSSES
from counterrank.models import Scaler
from counterrank.training.gradient_descent import LinearProblem
from counterrank.training.linear_training import natural_learning_rate

DATA = Path(__file__).parents[2] / "shared" / "data"
GRID = 10.0 ** np.linspace(-2.75, 4.75, 12)  # times the natural learning rate
CLOSE = 1.0  # percent of the training objective


class DataSet(NamedTuple):
    """Where the queries come from, which labels are relevant, and how long to train."""

    name: str
    load: Callable[[], Fold]
    relevance_threshold: float
    max_epochs: int
    folder: str | None = None


def data_sets(quick: bool) -> list[DataSet]:
    small, large, queries = (20, 10, 200) if quick else (100, 30, 1000)
    return [
        DataSet("ohsumed", lambda: cr.read_fold(DATA / "ohsumed" / "Fold1"), 2, small, "ohsumed/Fold1"),
        DataSet("mq2008", lambda: cr.read_fold(DATA / "mq2008" / "Fold1"), 1, small, "mq2008/Fold1"),
        DataSet("mslr-sample", lambda: cr.read_fold(DATA / "mslr-sample"), 2, small, "mslr-sample"),
        DataSet("synthetic:mslr", lambda: cr.make_fold("mslr", queries, 0), 3, large),
        DataSet("synthetic:yahoo", lambda: cr.make_fold("yahoo", queries, 0), 3, large),
    ]


class Outcome(NamedTuple):
    """The training objective of a ranker, and its test metric on each query."""

    objective: float
    test: np.ndarray
    learning_rate: float


class Case:
    """One data set, one loss, with or without validation data."""

    def __init__(self, data: DataSet, fold: Fold, loss: str, with_validation: bool) -> None:
        self.data, self.fold, self.loss = data, fold, loss
        self.k = 5 if LOSSES[loss].takes_k else None
        self.metric = LOSSES[loss].metric(self.k)
        self.weights = full_information(fold.train, data.relevance_threshold)
        self.validation = None
        if with_validation and fold.validation is not None:
            self.validation = (fold.validation, full_information(fold.validation, data.relevance_threshold))
        self.name = f"{data.name}, {loss}, {'with' if with_validation else 'no'} validation"

    def fit(self, learning_rate: float | str, seed: int, threads: int | None = None) -> cr.Ranker:
        ranker = cr.Ranker(
            self.loss, self.k, learning_rate=learning_rate, max_epochs=self.data.max_epochs, seed=seed, threads=threads
        )
        return ranker.fit(self.fold.train, self.weights, validation=self.validation)

    def outcome(self, ranker: cr.Ranker) -> Outcome:
        train, test = self.fold.train, self.fold.test
        objective = weighted_metric(ranker.predict(train), self.weights, train.offsets, self.metric)
        metrics = evaluate_queries(ranker.predict(test), test, self.data.relevance_threshold, metrics=[self.metric])
        return Outcome(objective, metrics[self.metric], ranker.learning_rate_)

    def natural_learning_rate(self) -> float:
        train = self.fold.train
        scales = Scaler.learn("query", train).scales(train)
        spec = LOSSES[self.loss].spec(self.k, longest_query(train.offsets))
        problem = LinearProblem.make(train, self.weights, scales, spec)
        return natural_learning_rate(problem.gradient_norms(np.zeros(train.n_features)))

    def on_grid(self, rate: float, seeds: Sequence[int]) -> list[Outcome] | None:
        """The outcomes of one learning rate, or None if it diverges."""
        try:
            return [self.outcome(self.fit(rate, seed, threads=1)) for seed in seeds]
        except cr.CounterrankError as error:
            if "diverged" not in str(error):
                raise
            return None


def run(quick: bool = False, seeds: Sequence[int] = (0,)) -> list[dict[str, Any]]:
    """One row for each case: name, auto, best_of_grid, objective_gap_percent, interval, verdict and seconds."""
    return list(_rows(quick, seeds))


def _rows(quick: bool, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    for data in data_sets(quick):
        if data.folder is not None and not (DATA / data.folder).is_dir():
            yield _row(data.name, verdict=f"skipped: no ../shared/data/{data.folder}")
            continue
        fold = data.load()
        for with_validation in (False, True):
            for loss in LOSSES:
                yield compare(Case(data, fold, loss, with_validation), seeds)


def compare(case: Case, seeds: Sequence[int]) -> dict[str, Any]:
    """Auto against the best of the grid; with several seeds, their means."""
    begin = perf_counter()
    rankers = [case.fit("auto", seed) for seed in seeds]
    middle = perf_counter()
    for ranker, seed in zip(rankers, seeds, strict=True):
        case.fit(ranker.learning_rate_, seed)
    end = perf_counter()
    auto = [case.outcome(ranker) for ranker in rankers]
    rates = (case.natural_learning_rate() * GRID).tolist()
    with ThreadPoolExecutor(thread_count()) as pool:
        grid = list(pool.map(lambda rate: case.on_grid(rate, seeds), rates))

    sign = 1.0 if higher_is_better(case.metric) else -1.0
    finished = [place for place, outcomes in enumerate(grid) if outcomes is not None]
    best_place = max(finished, key=lambda place: sign * _objective(grid[place]))
    best = grid[best_place]
    gap = 100.0 * sign * (_objective(best) - _objective(auto)) / _objective(best)
    low, high = _interval(np.mean([a.test - b.test for a, b in zip(auto, best, strict=True)], axis=0) * sign)
    verdict = "close" if gap <= CLOSE else "no worse" if high >= 0.0 else "worse"
    if best_place in (0, len(GRID) - 1) and not any(
        100.0 * sign * (_objective(best) - _objective(grid[place])) / _objective(best) <= CLOSE
        for place in finished
        if 0 < place < len(GRID) - 1
    ):
        verdict += ", best at the edge of the grid"
    return _row(
        case.name,
        verdict=verdict,
        auto={"objective": _objective(auto), "learning_rate": auto[0].learning_rate},
        best_of_grid={"objective": _objective(best), "learning_rate": rates[best_place]},
        objective_gap_percent=gap,
        interval=(low, high),
        seconds_auto=(middle - begin) / len(seeds),
        seconds_one=(end - middle) / len(seeds),
    )


def _objective(outcomes: list[Outcome] | None) -> float:
    return float(np.mean([outcome.objective for outcome in outcomes or []]))


def _interval(differences: np.ndarray) -> tuple[float, float]:
    """95 % interval of the mean, from the differences of the queries that count; above 0 favours auto."""
    counted = differences[np.isfinite(differences)]
    half = 1.96 * float(counted.std(ddof=1)) / len(counted) ** 0.5
    return float(counted.mean()) - half, float(counted.mean()) + half


def _row(name: str, verdict: str, **values: Any) -> dict[str, Any]:
    columns = ("auto", "best_of_grid", "objective_gap_percent", "interval")
    seconds = ("seconds_auto", "seconds_one")
    row = {"name": name, **{column: values.get(column) for column in columns}, "verdict": verdict}
    return {**row, **{column: values.get(column) for column in seconds}}


def _line(row: dict[str, Any]) -> str:
    if row["auto"] is None:
        return f"{row['name']:55s} {row['verdict']}"
    auto, best, (low, high) = row["auto"], row["best_of_grid"], row["interval"]
    return (
        f"{row['name']:55s} {auto['objective']:8.4f} @{auto['learning_rate']:9.3g} "
        f"{best['objective']:8.4f} @{best['learning_rate']:9.3g} {row['objective_gap_percent']:+7.2f} % "
        f"[{low:+.4f}, {high:+.4f}] {row['seconds_auto']:6.2f} {row['seconds_one']:6.2f}  {row['verdict']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer epochs and queries")
    parser.add_argument("--seeds", type=int, default=1, help="average over this many seeds")
    arguments = parser.parse_args()
    print(
        f"{'case':55s} {'auto':>8s} {'rate':>10s} {'grid':>8s} {'rate':>10s} {'gap':>9s} "
        f"{'test, auto - grid, 95 %':>18s} {'s auto':>6s} {'s one':>6s}  verdict"
    )
    rows = []
    for row in _rows(arguments.quick, range(arguments.seeds)):
        print(_line(row), flush=True)
        rows.append(row)
    compared = [row for row in rows if row["auto"] is not None]
    worse = [row["name"] for row in compared if row["verdict"].startswith("worse")]
    print(f"{len(compared) - len(worse)} of {len(compared)} cases close or no worse")


if __name__ == "__main__":
    main()

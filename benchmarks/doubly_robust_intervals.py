"""Width and coverage of doubly robust confidence intervals: `python -m benchmarks.doubly_robust_intervals`.

Queries, pages and clicks as in `benchmarks.interval_coverage`, each document with five features that correlate with
its label. Relevance is fitted by `fit_relevance` on the clicks of the log itself, cross-fitted, and compared with the
true relevance (the best possible model) and a wrong one (1 - the true one). A second table chooses among rankers. With
`--data FOLD`, the training queries of a LETOR fold with their own features: the first logs, others are evaluated.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any, NamedTuple

import numpy as np

from benchmarks.interval_coverage import (
    BY_PAGE,
    EVEN,
    EXAM,
    METRICS,
    Population,
    make_policy,
    note_of,
    truth_of,
    values_of,
)
from counterrank import CounterrankError, RankingData, evaluation, simulation
from counterrank.data.sources import choose_part, open_data
from counterrank.estimators import fit_relevance

# shape, policy (with + pages are kept), target, queries, sessions a query
CASES = [
    ("yahoo", "replace-last", "queries", 300, 10),
    ("yahoo", "replace-last", "queries", 300, 100),
    ("yahoo", "uniform-insert", "queries", 300, 30),
    ("yahoo", "plackett-luce", "queries", 300, 30),
    ("mslr", "replace-last", "queries", 300, 300),
    ("yahoo", "replace-last", "these-queries", 100, 30),
    ("yahoo", "replace-last", "these-queries", 100, 300),
    ("yahoo", "replace-last+", "these-queries", 100, 300),
    ("yahoo", "uniform-insert+", "these-queries", 100, 100),
    ("yahoo", "plackett-luce+", "these-queries", 100, 100),
    ("yahoo", "page-or-last+", "these-queries", 100, 300),
    ("mslr", "replace-last", "these-queries", 100, 300),
]
SHOWN = [
    ("one", "dcg@5", "ips"),
    ("one", "dcg@5", "self_normalized"),
    ("one", "arp", "self_normalized"),
    ("difference", "dcg@5", "ips"),
    ("difference", "dcg@5", "self_normalized"),
    ("difference", "arp", "self_normalized"),
]
MODELS = ("ips", "fitted", "true", "wrong")
OF_DATA = [
    ("data", "replace-last", "these-queries", 60, 300),
    ("data", "replace-last", "these-queries", 60, 3000),
    ("data", "plackett-luce+", "these-queries", 60, 300),
    ("data", "uniform-insert+", "these-queries", 60, 300),
]
# queries, sessions a query
AMOUNTS = [(100, 3), (100, 10), (100, 30), (100, 100), (1000, 1), (1000, 3), (1000, 10)]
CHOICES = [("yahoo", "replace-last", *amount) for amount in AMOUNTS]


class World(NamedTuple):
    """Queries to draw from, with the features of their documents."""

    population: Population
    features: Any

    @classmethod
    def make(cls, shape: str, policy: str, path: str) -> World:
        """Synthetic queries, or those of a fold; its labels count as relevant from 2 on."""
        rng = np.random.default_rng(2)
        if shape != "data":
            population = Population.make(shape, policy)
            features = 0.4 * population.labels[:, None] + rng.standard_normal((len(population.labels), 5))
            return cls(population, features)
        read = choose_part(open_data(path), "train", path)
        data = RankingData(read.features, read.offsets, 4 * (read.labels >= 2))
        features = data.normalized().features
        logging, one, other = features[:, 0], features.mean(axis=1), features[:, features.shape[1] // 2]
        scores = [column + 1e-6 * rng.random(data.n_docs) for column in (logging, logging, one, other)]  # no ties
        return cls(Population.of(data, policy, *scores), features)

    def draw(self, queries: Any) -> tuple[RankingData, Any, Any]:
        """Data of these queries with features, the rows they come from, and P(click | examined) of each document."""
        data, rows = self.population.drawn(queries)
        chance = np.where(data.labels >= 3, 1.0, 0.1)
        return RankingData(self.features[rows].astype(np.float32), data.offsets, data.labels), rows, chance


def options_of(model: str, data: RankingData, log: Any, rho: Any, chance: Any) -> dict[str, Any]:
    """The method and its relevance."""
    if model == "ips":
        return {}
    given = {"fitted": lambda: fit_relevance(data, log, rho, exam=log.examination).values, "true": lambda: chance}
    return {"method": "dr", "relevance": given.get(model, lambda: 1.0 - chance)()}


def run_case(case: tuple[Any, ...], world: World, repetitions: int) -> dict[tuple[str, ...], Any]:
    """Covered, doubted, error and width of each repetition, by model and estimand."""
    _, policy, target, n_queries, each = case
    population = world.population
    rng = np.random.default_rng(1)
    found: dict[tuple[str, ...], list[Any]] = {}
    queries = rng.integers(len(population.omega), size=n_queries)
    for repetition in range(repetitions):
        if target == "queries":
            queries = rng.integers(len(population.omega), size=n_queries)
        data, rows, chance = world.draw(queries)
        shown_by = make_policy(policy, population.logging[rows], population.second[rows], data.offsets)
        amount = {"sessions": n_queries * each, "seed": repetition, "propensities": False}
        amount["displays"] = policy.endswith("+")
        log = simulation.simulate(data, population.logging[rows], shown_by, exam_of(policy), **amount)
        truth = truth_of(population, None if target == "queries" else (queries, log.sessions))
        rho = population.rho[rows]
        for model in MODELS:
            options = {"metrics": METRICS[:2], "population": target, "replicates": 1000, "seed": repetition}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                options |= options_of(model, data, log, rho, chance)
                alone = evaluation.estimate(population.one[rows], data, log, rho, **options)
                differ = evaluation.compare(population.one[rows], population.other[rows], data, log, rho, **options)
            for what, metric, kind in SHOWN:
                estimate = (alone if what == "one" else differ)[metric]
                note = note_of(estimate, kind, truth[what, kind][METRICS.index(metric)])
                if note is not None:
                    found.setdefault((model, what, metric, kind), []).append(note)
    return {key: np.array(notes, float) for key, notes in found.items()}


def exam_of(policy: str) -> Any:
    """The curve that pages of the policy are examined by."""
    return EVEN if policy.rstrip("+") in BY_PAGE else EXAM


def print_case(case: tuple[Any, ...], found: Any) -> None:
    shape, policy, target, queries, each = case
    head = f"{shape:6}{policy:16}{target:14}{queries:8}{each:9} "
    for model in MODELS:
        cells = []
        for key in SHOWN:
            covered, doubted, errors, width = found[(model, *key)].T
            base = found[("ips", *key)].T
            text = f"{100 * covered.mean():.1f}"
            text = f"({text})" if doubted.mean() > 0.5 else f"{text} "
            if model != "ips":
                ratio, spread = np.nanmedian(width) / np.nanmedian(base[3]), errors.std() / base[2].std()
                text += f" {ratio:.2f} {spread:.2f}"
            cells.append(f"{text:>18}")
        print(f"{head}{model:8}" + "".join(cells), flush=True)
        head = " " * len(head)


def run_choice(case: tuple[Any, ...], world: World, repetitions: int) -> dict[str, Any]:
    """Of each model, how often the best of six rankers is chosen, and how much dcg@5 is lost."""
    _, policy, n_queries, each = case
    population = world.population
    rng = np.random.default_rng(3)
    noise = rng.standard_normal((6, len(population.labels)))
    rankers = [(0.6 + 0.04 * i) * population.labels + noise[i] for i in range(6)]
    chances = np.where(population.labels >= 3, 1.0, 0.1)
    place = METRICS.index("dcg@5")
    values = np.array([values_of(r, population.offsets)[:, place] @ chances for r in rankers]) / len(population.omega)
    found: dict[str, list[Any]] = {}
    for repetition in range(repetitions):
        data, rows, chance = world.draw(rng.integers(len(population.omega), size=n_queries))
        shown_by = make_policy(policy, population.logging[rows], population.second[rows], data.offsets)
        amount = {"sessions": n_queries * each, "seed": repetition, "propensities": False}
        log = simulation.simulate(data, population.logging[rows], shown_by, EXAM, **amount)
        rho = population.rho[rows]
        for model in MODELS[:3]:
            options = {"metric": "dcg@5", "replicates": 100} | options_of(model, data, log, rho, chance)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    chosen = evaluation.select([r[rows] for r in rankers], data, log, rho, **options).index
                except CounterrankError:  # the weights sum to 0 or less
                    chosen = 0
            found.setdefault(model, []).append((chosen == np.argmax(values), values.max() - values[chosen]))
    return {model: np.array(notes, float) for model, notes in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.doubly_robust_intervals", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100, help="for each case (default 100)")
    parser.add_argument("--only", default="", help="only cases that contain these words, such as 'mslr queries'")
    parser.add_argument("--choices", action="store_true", help="only the choice among rankers")
    parser.add_argument("--data", help="a LETOR fold to draw from instead of synthetic queries")
    options = parser.parse_args()
    worlds: dict[tuple[str, str], World] = {}

    def world(case: tuple[Any, ...]) -> World:
        place = case[0], case[1].rstrip("+")
        if place not in worlds:
            worlds[place] = World.make(*place, options.data)
        return worlds[place]

    if not options.choices:
        print(LEGEND)
        columns = "".join(f"{text:>18}" for text in 2 * ("dcg@5", "dcg@5 sn", "arp sn"))
        print(f"{'':62}{'one ranking':>18}{'difference':>54}")
        print(f"{'shape':6}{'policy':16}{'population':14}{'queries':>8}{'sessions':>9} {'model':8}{columns}")
        for case in OF_DATA if options.data else CASES:
            if set(options.only.split()) <= {str(part) for part in case}:
                print_case(case, run_case(case, world(case), options.repetitions))
    if options.choices or not (options.only or options.data):
        models = "".join(f"{model:>16}" for model in MODELS[:3])
        print("\nOf six rankers, how often the best is chosen by dcg@5 (%), and how much dcg@5 is lost (times 1000)\n")
        print(f"{'shape':6}{'policy':16}{'queries':>8}{'sessions':>9} {models}")
        for choice in CHOICES:
            found = run_choice(choice, world(choice), options.repetitions)
            cells = [f"{100 * notes[:, 0].mean():.0f} {1000 * notes[:, 1].mean():.2f}" for notes in found.values()]
            shape, policy, queries, each = choice
            print(f"{shape:6}{policy:16}{queries:8}{each:9} " + "".join(f"{cell:>16}" for cell in cells), flush=True)


LEGEND = """\
Coverage: how many of 100 intervals contain the true value, in brackets where more than half are doubted; then the width
of the median interval, and the standard deviation of the estimates, each relative to ips.
"""


if __name__ == "__main__":
    main()

"""Coverage of 95 % confidence intervals from clicks: `python -m benchmarks.interval_coverage`.

Queries come from a synthetic population whose expected clicks are known exactly. For the population "queries" each
repetition draws new queries, and the true value is that of the whole population; for "these-queries" the queries stay,
and the true value is theirs, each weighted by its sessions. An interval is doubted if it comes with an
`IntervalWarning`.

Policies for these queries alone (`BY_PAGE`) are studied with "these-queries" only.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from counterrank import RankingData, evaluation, examination, make_ranking_data, policies, simulation

METRICS = ("arp", "dcg@5", "precision@5")
EXAM = examination.inverse_rank(k=5)
EVEN = examination.inverse_rank(k=5, eta=0.0)
POLICIES = {
    "deterministic": policies.Deterministic(k=5),
    "replace-last": policies.ReplaceLast(k=5),
    "epsilon-greedy": policies.EpsilonGreedy(k=5, epsilon=0.3),
    "uniform-insert": policies.UniformInsert(k=5),
    "plackett-luce": policies.PlackettLuce(k=5),
    "half-random": policies.Mixture([policies.Deterministic(k=5), policies.PlackettLuce(k=5)], [0.5, 0.5]),
}
# made for each set of queries: one of two whole pages; or one of them against replace-last. All ranks are examined
BY_PAGE = ("two-pages", "page-or-last")
# shape, policy (with + pages are kept), target, queries, sessions a query
CASES = [
    ("yahoo", "replace-last", "queries", 30, 300),
    ("yahoo", "replace-last", "queries", 100, 100),
    ("yahoo", "replace-last", "queries", 300, 3),
    ("yahoo", "replace-last", "queries", 300, 100),
    ("yahoo", "replace-last", "queries", 1000, 1),
    ("yahoo", "replace-last", "queries", 1000, 30),
    ("yahoo", "replace-last", "queries", 3000, 30),
    ("yahoo", "deterministic", "queries", 100, 10),
    ("yahoo", "epsilon-greedy", "queries", 300, 100),
    ("yahoo", "uniform-insert", "queries", 300, 30),
    ("yahoo", "plackett-luce", "queries", 300, 30),
    ("mslr", "replace-last", "queries", 100, 1000),
    ("mslr", "replace-last", "queries", 300, 10),
    ("mslr", "replace-last", "queries", 300, 300),
    ("yahoo", "replace-last", "these-queries", 10, 1000),
    ("yahoo", "replace-last", "these-queries", 100, 100),
    ("yahoo", "replace-last", "these-queries", 300, 3),
    ("yahoo", "replace-last", "these-queries", 3000, 1),
    ("yahoo", "deterministic", "these-queries", 100, 30),
    ("yahoo", "deterministic", "these-queries", 1000, 1),
    ("yahoo", "epsilon-greedy", "these-queries", 100, 300),
    ("yahoo", "uniform-insert", "these-queries", 100, 100),
    ("yahoo", "plackett-luce", "these-queries", 100, 100),
    ("mslr", "replace-last", "these-queries", 100, 10),
    ("mslr", "replace-last", "these-queries", 100, 300),
    ("mslr", "uniform-insert", "these-queries", 100, 300),
    ("mslr", "plackett-luce", "these-queries", 100, 100),
    ("yahoo", "two-pages", "these-queries", 100, 100),
    ("yahoo", "page-or-last", "these-queries", 100, 1000),
    ("yahoo", "half-random", "these-queries", 100, 300),
    ("yahoo", "two-pages+", "these-queries", 100, 100),
    ("yahoo", "page-or-last+", "these-queries", 100, 1000),
    ("yahoo", "half-random+", "these-queries", 100, 300),
    ("yahoo", "replace-last+", "these-queries", 100, 100),
    ("yahoo", "uniform-insert+", "these-queries", 100, 100),
    ("yahoo", "plackett-luce+", "these-queries", 100, 100),
    ("yahoo", "two-pages+", "these-queries", 100, 3),
    ("yahoo", "two-pages+", "these-queries", 100, 10),
]


@dataclass(frozen=True)
class Population:
    """Queries to draw from, with what a session of each is expected to add to the estimates."""

    offsets: Any
    labels: Any
    logging: Any
    second: Any  # what the second of two pages is ranked by
    one: Any  # the rankings to be evaluated
    other: Any
    rho: Any
    terms: Any  # (queries, metrics, 2): of the first ranking, and of the difference of the two
    omega: Any  # (queries,)

    @classmethod
    def make(cls, shape: str, policy: str, n_queries: int = 3000) -> Population:
        data = make_ranking_data(shape, n_queries, seed=0)
        rng = np.random.default_rng(0)
        noise = rng.standard_normal((3, data.n_docs))
        logging = 0.5 * data.labels + noise[0]
        one, other = data.labels + 0.9 * noise[2], 0.7 * data.labels + 0.6 * noise[0] + 0.8 * noise[1]
        return cls.of(data, policy, logging, noise[1], one, other)

    @classmethod
    def of(cls, data: RankingData, policy: str, logging: Any, second: Any, one: Any, other: Any) -> Population:
        """Of labelled data and scores for its documents."""
        rho = make_policy(policy, logging, second, data.offsets).propensity(
            logging, data.offsets, EVEN if policy in BY_PAGE else EXAM
        )
        chance = np.where(rho > 0, np.where(data.labels >= 3, 1.0, 0.1), 0.0)
        values = [values_of(scores, data.offsets) for scores in (one, other)]
        both = np.stack([values[0], values[0] - values[1]], axis=2) * chance[:, None, None]
        starts = data.offsets[:-1]
        return cls(
            data.offsets,
            data.labels,
            logging,
            second,
            one,
            other,
            rho,
            np.add.reduceat(both, starts, axis=0),
            np.add.reduceat(chance, starts),
        )

    def drawn(self, queries: Any) -> tuple[RankingData, Any]:
        """Data of these queries, which may repeat, and the rows they come from."""
        lengths = np.diff(self.offsets)[queries]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        rows = np.repeat(self.offsets[queries] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return RankingData(np.zeros((len(rows), 1), np.float32), offsets, self.labels[rows]), rows


def make_policy(name: str, logging: Any, second: Any, offsets: Any) -> Any:
    """The policy of that name, for these queries."""
    name = name.rstrip("+")
    if name not in BY_PAGE:
        return POLICIES[name]
    queries = {}
    for q, (start, end) in enumerate(pairwise(offsets)):
        orders = [np.argsort(-scores[start:end])[:5].tolist() for scores in (logging, second)]
        queries[q] = policies.Explicit(*((orders, [0.5, 0.5]) if name == "two-pages" else (orders[1:], [1.0])))
    pages = policies.ExplicitQueries(queries)
    return pages if name == "two-pages" else policies.Mixture([pages, policies.ReplaceLast(k=5)], [0.5, 0.5])


def values_of(scores: Any, offsets: Any) -> Any:
    """lambda of each document for each metric; scores have no ties."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    ranks = np.empty(len(scores), np.int64)
    ranks[np.lexsort((-scores, owner))] = np.arange(len(scores)) - offsets[owner]
    longest = int(np.diff(offsets).max())
    return np.stack([evaluation.rank_values(metric, longest)[ranks] for metric in METRICS], axis=1)


def run_case(case: tuple[Any, ...], population: Population, repetitions: int) -> dict[tuple[str, str, str], Any]:
    """Covered, doubted, error and width of each repetition, of one ranking and the difference, by metric and kind."""
    _, policy, target, n_queries, each = case
    rng = np.random.default_rng(1)
    found: dict[tuple[str, str, str], list[Any]] = {}
    queries = rng.integers(len(population.omega), size=n_queries)
    data, rows = population.drawn(queries)
    exam = EVEN if policy.rstrip("+") in BY_PAGE else EXAM
    shown_by = make_policy(policy, population.logging[rows], population.second[rows], data.offsets)
    for repetition in range(repetitions):
        if target == "queries":
            queries = rng.integers(len(population.omega), size=n_queries)
            data, rows = population.drawn(queries)
        amount = {"sessions": n_queries * each, "seed": repetition, "propensities": False}
        amount["displays"] = policy.endswith("+")
        log = simulation.simulate(data, population.logging[rows], shown_by, exam, **amount)
        truth = truth_of(population, None if target == "queries" else (queries, log.sessions))
        options = {"metrics": METRICS, "population": target, "replicates": 1000, "seed": repetition}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = data, log, population.rho[rows]
            alone = evaluation.estimate(population.one[rows], *given, **options)
            differ = evaluation.compare(population.one[rows], population.other[rows], *given, **options)
        for what, estimates in (("one", alone), ("difference", differ)):
            for m, metric in enumerate(METRICS):
                for kind in ("ips", "self_normalized"):
                    note = note_of(estimates[metric], kind, truth[what, kind][m])
                    if note is not None:
                        found.setdefault((what, metric, kind), []).append(note)
    return {key: np.array(notes, float) for key, notes in found.items()}


def truth_of(population: Population, share: Any) -> dict[tuple[str, str], Any]:
    """Expected estimates: of the population, or of some queries by their sessions."""
    terms, omega = population.terms, population.omega
    weights = np.ones(len(omega))
    if share is not None:
        weights = share[1].astype(float)
        terms, omega = terms[share[0]], omega[share[0]]
    total = (weights[:, None, None] * terms).sum(axis=0)
    belows = {"ips": weights.sum(), "self_normalized": (weights * omega).sum()}
    columns = (("one", 0), ("difference", 1))
    return {(what, kind): total[:, c] / below for what, c in columns for kind, below in belows.items()}


def note_of(estimate: Any, kind: str, truth: float) -> tuple[bool, bool, float, float] | None:
    """Covered, doubted, error and width; None where there is no such estimate."""
    value, bounds = getattr(estimate, kind), getattr(estimate, f"{kind}_interval") or (np.nan, np.nan)
    if value is None:
        return None
    other = ("ips", "dr") if kind == "self_normalized" else ("self-normalised",)
    doubted = any(not text.startswith(other) for text in estimate.doubts)  # about this kind, or both
    return bounds[0] <= truth <= bounds[1], doubted, value - truth, bounds[1] - bounds[0]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.interval_coverage", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100, help="for each case (default 100)")
    parser.add_argument("--only", default="", help="only cases that contain these words, such as 'mslr queries'")
    options = parser.parse_args()
    print(LEGEND)
    print(f"{'':54}{'one ranking':40}difference")
    print(f"{'':54}" + 2 * f"{'arp':>7}{'dcg@5':>16}{'prec@5':>16} ")
    columns = "".join(f"{kind:>7} " for kind in ("sn", "ips", "sn", "ips", "sn"))
    print(f"{'shape':6}{'policy':16}{'population':14}{'queries':>8}{'sessions':>9} {columns}{columns}")
    populations: dict[tuple[str, str], Population] = {}
    everything = []
    for case in CASES:
        if not set(options.only.split()) <= {str(part) for part in case}:
            continue
        place = case[0], case[1].rstrip("+")
        if place not in populations:
            populations[place] = Population.make(*place)
        found = run_case(case, populations[place], options.repetitions)
        everything += [(case, key, notes) for key, notes in found.items()]
        _print(case, found)
    _print_summary(everything)


LEGEND = """\
First line of a case: coverage, how many of 100 intervals contain the true value; in brackets where more than half of
them are doubted. Second line: the width of the median interval over that of +- 1.96 standard deviations of estimates.
"""


def _print(case: tuple[Any, ...], found: Any) -> None:
    shape, policy, target, queries, each = case
    cells, widths = [], []
    for notes in found.values():
        covered, doubted, errors, width = notes.T
        cells.append(f"({100 * covered.mean():.1f})" if doubted.mean() > 0.5 else f"{100 * covered.mean():.1f} ")
        widths.append(f"{np.nanmedian(width) / (2 * 1.96 * max(errors.std(), 1e-300)):.2f} ")
    print(f"{shape:6}{policy:16}{target:14}{queries:8}{each:9} " + "".join(f"{cell:>8}" for cell in cells))
    print(" " * 54 + "".join(f"{width:>8}" for width in widths), flush=True)


def _print_summary(everything: list[tuple[Any, Any, Any]]) -> None:
    """Coverage of all intervals without a doubt, and of all with one."""
    for target in ("queries", "these-queries"):
        chosen = [notes for case, _, notes in everything if case[2] == target]
        if chosen:
            notes = np.concatenate(chosen)
            for text, own in (("without a doubt", notes[notes[:, 1] == 0]), ("doubted", notes[notes[:, 1] == 1])):
                coverage = own[:, 0].mean() if len(own) else np.nan
                print(f"{target}, {text}: {coverage:.1%} of {len(own):,} contain the true value")


if __name__ == "__main__":
    main()

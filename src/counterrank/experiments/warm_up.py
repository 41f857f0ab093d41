"""What an experiment needs compiled, compiled ahead: on the first run after installation, two processes share the work.

Each job calls on a problem of a few documents what the experiment will call on its own, so that numba finds the code on
disk. `python -m counterrank.experiments.warm_up mslr showing` does two of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import numpy as np

from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import ReplaceLast
from counterrank.clicks.simulation import simulate
from counterrank.clicks.simulation_kernels import simulate_queries
from counterrank.common.jit import exit_with_parent, needs_compiling, run_processes
from counterrank.data import RankingData, make_fold
from counterrank.data.synthetic_worlds import fill_mslr, fill_yahoo
from counterrank.estimators import full_information
from counterrank.evaluation import evaluate
from counterrank.evaluation.metric_kernels import label_queries
from counterrank.training import Ranker
from counterrank.training.gradient_descent import sgd_epoch


def warm_up(shape: str, on_start: Callable[[int], None], on_done: Callable[[], None]) -> None:
    """Compile what the demo needs, unless it has been before.

    Arguments:
        shape: of the data, "mslr" or "yahoo".
        on_start: called with the number of jobs, if there are any.
        on_done: called after each job.

    >>> warm_up("yahoo", on_start=lambda jobs: None, on_done=lambda: None)
    """
    wanted = {
        "learning": sgd_epoch,
        shape: fill_mslr if shape == "mslr" else fill_yahoo,
        "showing": simulate_queries,
        "judging": label_queries,
    }
    missing = [job for job, compiled in wanted.items() if needs_compiling(compiled)]
    if missing:
        on_start(len(missing))
        # learning takes as long as all the others
        groups = [[job for job in missing if (job == "learning") == first] for first in (True, False)]
        run_processes("counterrank.experiments.warm_up", [group for group in groups if group], lambda line: on_done())


def _small() -> RankingData:
    rng = np.random.default_rng(0)
    return RankingData(rng.random((60, 8)), np.arange(0, 61, 10), labels=np.arange(60) % 10 // 2)


def _learning() -> None:
    data = _small()
    weights = full_information(data, 3)
    Ranker("arp-hinge", max_epochs=1, threads=1).fit(data, weights)  # as the production ranker
    ranker = Ranker("lambdaloss-truncated", k=5, max_epochs=1, threads=1)
    ranker.fit(data, weights, validation=(data, weights)).predict(data)


def _showing() -> None:
    data = _small()
    simulate(data, data.features[:, 0], ReplaceLast(5), inverse_rank(5), clicks=10**6, threads=1)


def _judging() -> None:
    data = _small()
    evaluate(data.features[:, 0], data, 3, metrics=("dcg@5", "ndcg@5", "precision@5", "arp"), threads=1)


JOBS: dict[str, Callable[[], object]] = {
    "learning": _learning,
    "mslr": partial(make_fold, "mslr", 20, threads=1),
    "yahoo": partial(make_fold, "yahoo", 20, threads=1),
    "showing": _showing,
    "judging": _judging,
}

if __name__ == "__main__":
    exit_with_parent()
    for name in sys.argv[1:]:
        JOBS[name]()
        print(name, flush=True)

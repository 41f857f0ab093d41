"""`Ranker(model="mlp")` against the linear model, both with their defaults and full information.

For each data set: binary DCG@5 and NDCG@5 on the test queries, averaged over folds and seeds; the paired 95 %
confidence interval of the difference in DCG@5 over test queries; processor time of training.

    python -m benchmarks.networks
    python -m benchmarks.networks --loss lambdaloss-dcg
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import counterrank as cr
from counterrank.data import Fold
from counterrank.evaluation import evaluate_queries
from counterrank.losses import LOSSES

DATA = Path(__file__).parents[2] / "shared" / "data"
K = 5


class DataSet(NamedTuple):
    """Folds of one collection, and from which label on a document is relevant."""

    name: str
    folds: Callable[[], list[Fold]]
    relevance_threshold: float


def data_sets() -> Iterator[DataSet]:
    for name, threshold in (("ohsumed", 2), ("mq2008", 1), ("mslr-sample", 2)):
        folder = DATA / name
        if folder.is_dir():
            yield DataSet(name, lambda folder=folder: [cr.read_fold(path) for path in fold_folders(folder)], threshold)
    yield DataSet("synthetic:mslr", lambda: [cr.make_fold("mslr", 1000, seed=0)], 3)


def fold_folders(folder: Path) -> list[Path]:
    return sorted(folder.glob("Fold*")) or [folder]


class Outcome(NamedTuple):
    """Metrics of each test query, and the processor time of training."""

    dcg: np.ndarray
    ndcg: np.ndarray
    seconds: float


def train(fold: Fold, threshold: float, loss: str, model: str, seed: int) -> Outcome:
    weights = [cr.estimators.full_information(part, threshold) for part in (fold.train, fold.validation)]
    k = K if LOSSES[loss].takes_k else None
    ranker = cr.Ranker(loss, k, model=model, metric=f"dcg@{K}", seed=seed)
    begin = time.process_time()
    ranker.fit(fold.train, weights[0], validation=(fold.validation, weights[1]))
    seconds = time.process_time() - begin
    names = [f"dcg@{K}", f"ndcg@{K}"]
    found = evaluate_queries(ranker.predict(fold.test), fold.test, threshold, metrics=names)
    return Outcome(found[names[0]], found[names[1]], seconds)


def compare(data: DataSet, loss: str, seeds: range) -> str:
    """A line of the table."""
    folds = data.folds()
    outcomes = {
        model: [[train(fold, data.relevance_threshold, loss, model, seed) for seed in seeds] for fold in folds]
        for model in ("linear", "mlp")
    }
    means = {
        (model, field): np.concatenate([np.mean([getattr(one, field) for one in fold], axis=0) for fold in found])
        for model, found in outcomes.items()
        for field in ("dcg", "ndcg")
    }
    difference = means["mlp", "dcg"] - means["linear", "dcg"]
    difference = difference[np.isfinite(difference)]
    half = 1.96 * difference.std(ddof=1) / np.sqrt(len(difference))
    values = " | ".join(f"{np.nanmean(means[model, f]):.3f}" for f in ("dcg", "ndcg") for model in ("linear", "mlp"))
    seconds = " | ".join(
        f"{np.mean([one.seconds for fold in outcomes[model] for one in fold]):.1f}" for model in ("linear", "mlp")
    )
    middle = difference.mean()
    return f"| {data.name} | {values} | [{middle - half:+.3f}, {middle + half:+.3f}] | {seconds} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loss", default="lambdaloss-truncated", choices=list(LOSSES))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print("| data | DCG@5 linear | mlp | NDCG@5 linear | mlp | difference in DCG@5, 95 % | s linear | s mlp |")
    print("|---|---|---|---|---|---|---|---|")
    for data in data_sets():
        print(compare(data, options.loss, range(options.seeds)), flush=True)


if __name__ == "__main__":
    main()

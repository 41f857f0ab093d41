"""LambdaMART from clicks: policy-aware weights against others, and against LightGBM's and XGBoost's own debiasing.

    python -m benchmarks.lambdamart_clicks --out runs/lambdamart-clicks.jsonl --seeds 4

A production ranker (ARP hinge on 3 training queries) ranks pages of 5 under replace-last, examined as 1 / rank, until
there are 10^7 training clicks; validation clicks are 15 %. All learn from these same clicks: ours from weights of
documents, the others from pages, see `benchmarks.click_learners`. At most 100 trees of 8 leaves with learning rate
0.1 for all; ours stop by the metric of the validation weights. The others are evaluated three times: with the number of
trees that their own NDCG@5 of held-out pages chooses, with that which the policy-aware estimate from validation clicks
chooses, as for ours, and with all trees. The judge is test DCG@5 from labels.

Results are added to `--out` line by line; what is there already is not computed again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import click_learners, lambdamart_clicks_table
from benchmarks.merged_pages import MergedPages, merge_sessions
from counterrank import Ranker, make_fold, read_fold
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import ReplaceLast
from counterrank.clicks.simulation import simulate
from counterrank.common.errors import CoverageWarning
from counterrank.data import Fold, RankingData
from counterrank.estimators import Evidence, full_information, policy_aware
from counterrank.estimators.registry import named_estimator
from counterrank.evaluation import evaluate, weighted_metric
from counterrank.experiments.demo import train_production

K, EXAM = 5, inverse_rank(5)
ROUNDS, STEP = 100, 5  # the others' scores are looked at after every STEP trees
SETS = {"ohsumed": (("Fold1", "Fold2", "Fold3"), 2), "synthetic:mslr": (("synthetic",), 3)}
# what ours learn: which model, which loss with which cutoff
MODELS: dict[str, tuple[str, str, int]] = {
    "trees": ("lambdamart", "lambdarank", 30),
    "trees, DCG bound": ("lambdamart", "dcg-logistic", K),
    "trees, truncated LambdaLoss": ("lambdamart", "lambdaloss-truncated", K),
    "linear": ("linear", "lambdaloss-truncated", K),
}
BEST = ("policy-aware", "full-information")
OURS = (
    "production",
    *(f"{name}, trees" for name in ("naive", "policy-oblivious", "rerank", *BEST)),
    *(f"{name}, {model}" for model in list(MODELS)[1:] for name in BEST),
)
LIGHTGBM: dict[str, dict[str, Any]] = {
    "LightGBM position=": {},
    "LightGBM position=, regularised": {"lambdarank_position_bias_regularization": 0.5},
    "LightGBM position=, no norm": {"lambdarank_norm": False},
    "LightGBM without position=": {"with_positions": False},
}
RATES: dict[str, dict[str, Any]] = {
    "LightGBM position=, click rates": {},
    "LightGBM without position=, click rates": {"with_positions": False},
}
XGBOOST: dict[str, dict[str, Any]] = {
    "XGBoost unbiased": {},
    "XGBoost unbiased, bias norm 0": {"lambdarank_bias_norm": 0.0},
    "XGBoost unbiased, pairwise": {"objective": "rank:pairwise"},
}
METHODS = (*OURS, *LIGHTGBM, *RATES, *XGBOOST)


def read_part(folder: Path, part: str) -> Fold:
    """A fold of OHSUMED; or 300 training, 100 validation and 600 test queries of synthetic MSLR data."""
    if part != "synthetic":
        return read_fold(folder / "ohsumed" / part)
    whole = make_fold("mslr", 3000, seed=0)
    assert whole.validation is not None
    return Fold(whole.train.subset(np.arange(300)), whole.validation.subset(np.arange(100)), whole.test)


class Log:
    """One production ranker and its clicks, and what is computed from them at its first use."""

    def __init__(self, fold: Fold, threshold: float, seed: int, clicks: int, threads: int | None) -> None:
        assert fold.validation is not None
        self.fold, self.train, self.held_out = fold, fold.train, fold.validation
        self.threshold, self.seed, self.threads = threshold, seed, threads
        self.production = train_production(self.train, 0.01, threshold, seed, threads)[0]
        self.clicks = self._simulate(self.train, clicks, 1)
        self.held_out_clicks = self._simulate(self.held_out, round(0.15 * clicks), 2)

    def _simulate(self, data: RankingData, clicks: int, number: int) -> ClickCounts:
        return simulate(
            data, self.production.predict(data), ReplaceLast(K), EXAM, clicks=clicks, displays=True,
            seed=np.random.default_rng([self.seed, number]), relevance_threshold=self.threshold, threads=self.threads,
        )  # fmt: skip

    def fingerprint(self) -> int:
        """A number that identifies these clicks."""
        arrays = [each for log in (self.clicks, self.held_out_clicks) for each in (log.docs, log.ranks, log.clicks)]
        return zlib.crc32(b"".join(np.ascontiguousarray(each, np.int64).tobytes() for each in arrays))

    @cached_property
    def pages(self) -> MergedPages:
        return merge_sessions(self.clicks, self.seed).with_pairs()

    @cached_property
    def held_out_rows(self) -> click_learners.Rows:
        pages = merge_sessions(self.held_out_clicks, self.seed).with_pairs()
        return click_learners.page_rows(self.held_out, pages, self.held_out_clicks.n_sessions)

    @cached_property
    def held_out_weights(self) -> Any:
        return policy_aware(self.held_out_clicks)

    def estimated(self, scores: Any) -> float:
        """DCG@5 by the policy-aware estimate from validation clicks."""
        return weighted_metric(scores, self.held_out_weights, self.held_out.offsets, f"dcg@{K}", threads=self.threads)

    def evaluated(self, scores: Any) -> float:
        """Test DCG@5 from labels."""
        metric = f"dcg@{K}"
        return float(evaluate(scores, self.fold.test, self.threshold, metrics=[metric], threads=self.threads)[metric])


def ours(log: Log, name: str) -> dict[str, float]:
    """A ranker of this library, evaluated; trees where its name says so."""
    if name == "production":
        return {"dcg@5": log.evaluated(log.production.predict(log.fold.test))}
    estimator, model = name.split(", ", 1)
    if estimator == "full-information":
        weights = [full_information(data, log.threshold) for data in (log.train, log.held_out)]
    else:
        weigh = named_estimator(estimator).weigh
        parts = (log.train, log.clicks), (log.held_out, log.held_out_clicks)
        weights = [weigh(data, Evidence(clicks, exam=EXAM)) for data, clicks in parts]
    kind, loss, cutoff = MODELS[model]
    settings: dict[str, Any] = {"max_epochs": 100}
    if kind == "lambdamart":
        params = {"num_leaves": click_learners.LEAVES}
        rate = click_learners.LEARNING_RATE
        settings = {"max_epochs": ROUNDS, "patience": ROUNDS, "params": params, "learning_rate": rate}
    ranker = Ranker(loss, cutoff, kind, metric=f"dcg@{K}", seed=log.seed, threads=log.threads, **settings)
    ranker.fit(log.train, weights[0], validation=(log.held_out, weights[1]))
    return {"dcg@5": log.evaluated(ranker.predict(log.fold.test)), "rounds": ranker.best_epoch_}


def theirs(log: Log, learned: click_learners.Boosted) -> dict[str, Any]:
    """Other learners' models, evaluated after as many trees as each rule chooses."""
    rounds = range(STEP, ROUNDS + 1, STEP)
    estimates = [log.estimated(learned.scores(log.held_out.features, n)) for n in rounds]
    chosen = {"own": learned.own_best, "aware": rounds[int(np.argmax(estimates))], "all": ROUNDS}
    found = {rule: log.evaluated(learned.scores(log.fold.test.features, n)) for rule, n in chosen.items()}
    return {"by rule": found, "rounds": chosen, "biases": learned.biases}


def computed(log: Log, names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The results of the methods with these names, one after the other; rows are made once for all of a kind."""
    threads = log.threads or 0
    for name in (each for each in OURS if each in names):
        yield name, ours(log, name)
    kinds: list[tuple[dict[str, dict[str, Any]], Callable[[], Any], Callable[..., Any]]] = [
        (LIGHTGBM, lambda: log.pages, click_learners.learn_lightgbm),
        (XGBOOST, lambda: log.pages.copied(click_learners.SESSIONS_A_COPY), click_learners.learn_xgboost),
    ]
    for settings, pages, learn in kinds:
        if wanted := [name for name in settings if name in names]:
            rows = click_learners.page_rows(log.train, pages(), log.clicks.n_sessions)
            for name in wanted:
                yield name, theirs(log, learn(rows, log.held_out_rows, ROUNDS, threads, **settings[name]))
    for name in (each for each in RATES if each in names):
        rows = click_learners.click_rate_rows(log.train, log.clicks)
        held_out = click_learners.click_rate_rows(log.held_out, log.held_out_clicks)
        yield name, theirs(log, click_learners.learn_lightgbm(rows, held_out, ROUNDS, threads, **RATES[name]))


def run_cell(add: Callable[[dict[str, Any]], None], fold: Fold, cell: tuple[str, str, int], todo: list[str],
             clicks: int, threads: int | None) -> None:  # fmt: skip
    """All methods that are still to do for one fold and seed."""
    name, part, seed = cell
    log = Log(fold, SETS[name][1], seed, clicks, threads)
    common = {"set": name, "part": part, "seed": seed, "clicks": clicks, "fingerprint": log.fingerprint()}
    since = time.perf_counter()
    for method, result in computed(log, todo):
        now = time.perf_counter()
        add({**common, "method": method, **result, "seconds": round(now - since, 1)})
        since = now


def _added(path: Path, row: dict[str, Any]) -> None:
    print(json.dumps(row), file=sys.stderr, flush=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lambdamart_clicks", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with OHSUMED")
    parser.add_argument("--out", type=Path, required=True, help="results, one a line; added to")
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated")
    parser.add_argument("--methods", nargs="*", default=METHODS, choices=METHODS, metavar="NAME")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--clicks", type=int, default=10**7)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--show", action="store_true", help="only show what is there")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", CoverageWarning)  # what comes of it is the point
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for name in [] if options.show else options.sets.split(","):
        for part in SETS[name][0]:
            fold = read_part(options.data, part)
            for seed in seeds:
                rows = lambdamart_clicks_table.read(options.out)
                done = {row["method"] for row in rows if (row["set"], row["part"], row["seed"]) == (name, part, seed)}
                if todo := [method for method in options.methods if method not in done]:
                    add = partial(_added, options.out)
                    run_cell(add, fold, (name, part, seed), todo, options.clicks, options.threads)
    rows = lambdamart_clicks_table.read(options.out)
    rows.sort(key=lambda row: (list(SETS).index(row["set"]), METHODS.index(row["method"])))
    found = lambdamart_clicks_table.summary(rows)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        lambdamart_clicks_table.show(found)


if __name__ == "__main__":
    main()

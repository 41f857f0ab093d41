"""counterrank, LightGBM's `position=` and XGBoost's `lambdarank_unbiased` on the same simulated clicks.

    python -m benchmarks.compared_with --out runs/compared-with.jsonl --json docs/results/compared-with.json

A production ranker (ARP hinge on 3 labelled training queries) ranks the pages of one of `CASES`; rank r is examined
with probability 1 / r. All methods learn from these same clicks: counterrank from one weight per document, the others
from pages, see `benchmarks.click_learners`. Validation clicks are 15 % of the training clicks. At most 100 trees of 8
leaves with learning rate 0.1 for all; counterrank stops by the metric of the validation weights. The others are
evaluated with three numbers of trees: that with the best NDCG@5 of held-out pages, as they would choose themselves;
that with the best policy-aware estimate from validation clicks; and all. Metrics are DCG@5 and NDCG@5 on test labels.

Results are added to `--out` line by line; those in the file are not computed again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import click_learners, compared_with_table
from benchmarks.merged_pages import MergedPages, merge_sessions
from counterrank import Ranker, examination, fit_ranker, make_fold, policies, read_fold
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.simulation import simulate
from counterrank.common.errors import CoverageWarning, ExaminationWarning
from counterrank.data import Fold, RankingData
from counterrank.data.ids import query_of_rows
from counterrank.estimators import Evidence, full_information, policy_aware
from counterrank.estimators.registry import named_estimator
from counterrank.evaluation import evaluate, weighted_metric
from counterrank.experiments.demo import train_production

K, METRICS = 5, ("dcg@5", "ndcg@5")
ROUNDS, STEP = 100, 5  # the others are evaluated after every STEP trees
SETS = {
    "synthetic:mslr": (("synthetic",), 3),
    "ohsumed": (("Fold1", "Fold2", "Fold3"), 2),
    "mq2008": (("Fold1", "Fold2"), 1),
}


@dataclass(frozen=True)
class Case:
    """How pages are made: the policy, and how many candidates production keeps of each query (None for all)."""

    policy: Any
    shortlist: int | None = None

    @property
    def exam(self) -> examination.Examination:
        return examination.inverse_rank(self.policy.k)


CASES = {
    "replace-last": Case(policies.ReplaceLast(5)),
    "uniform-insert": Case(policies.UniformInsert(5)),
    "deterministic": Case(policies.Deterministic(5)),
    "all shown, fixed order": Case(policies.Deterministic(10), shortlist=10),
    "all shown, one moved": Case(policies.UniformInsert(10), shortlist=10),
}
# what counterrank learns: which model, which loss with which cutoff
MODELS: dict[str, tuple[str, str, int]] = {
    "trees": ("lambdamart", "lambdarank", 30),
    "trees, DCG bound": ("lambdamart", "dcg-logistic", K),
    "trees, truncated LambdaLoss": ("lambdamart", "lambdaloss-truncated", K),
    "linear": ("linear", "lambdaloss-truncated", K),
}
BEST = ("policy-aware", "full-information")
ESTIMATED = "policy-aware from the log alone"  # examination curve and display probabilities estimated
OURS = (
    "production",
    *(f"{name}, trees" for name in ("naive", "policy-oblivious", "rerank", *BEST)),
    *(f"{name}, {model}" for model in list(MODELS)[1:] for name in BEST),
    "auto, linear",
    f"{ESTIMATED}, trees",
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
PER_SESSION = tuple(f"{name}{compared_with_table.PER_SESSION}" for name in ("LightGBM position=", "XGBoost unbiased"))
METHODS = (*OURS, *LIGHTGBM, *RATES, *XGBOOST, *PER_SESSION)
COMPARED = (
    "production", "LightGBM without position=", "LightGBM position=", "LightGBM position=, regularised",
    "LightGBM position=, click rates", "XGBoost unbiased", "policy-aware, trees", f"{ESTIMATED}, trees",
    "policy-aware, linear", "auto, linear", "full-information, trees", "full-information, linear",
)  # fmt: skip


def applies(method: str, case: str) -> bool:
    """Click rates need all documents shown, each at one rank; estimated curves need documents at several ranks."""
    if method in RATES:
        return case == "replace-last"
    return not method.startswith(ESTIMATED) or isinstance(CASES[case].policy, policies.UniformInsert)


def read_part(folder: Path, name: str, part: str) -> Fold:
    """A fold of real data; or 300 training, 100 validation and 600 test queries of synthetic MSLR data."""
    if part != "synthetic":
        return read_fold(folder / name / part)
    whole = make_fold("mslr", 3000, seed=0)
    assert whole.validation is not None
    return Fold(whole.train.subset(np.arange(300)), whole.validation.subset(np.arange(100)), whole.test)


def shortlisted(data: RankingData, scores: np.ndarray, size: int) -> RankingData:
    """The `size` documents of each query with the largest scores."""
    query = query_of_rows(data.offsets)
    order = np.lexsort((-scores, query))
    kept = np.sort(order[np.arange(data.n_docs) - data.offsets[:-1][query] < size])
    offsets = np.concatenate(([0], np.cumsum(np.bincount(query[kept], minlength=data.n_queries))))
    assert data.labels is not None
    return RankingData(data.features[kept], offsets, data.labels[kept], data.query_ids, data.doc_ids[kept])


class Log:
    """One production ranker and its clicks, and what is derived from them when first used."""

    def __init__(self, fold: Fold, threshold: float, case: Case, seed: int, clicks: int, threads: int | None) -> None:
        assert fold.validation is not None
        self.threshold, self.case, self.seed, self.threads = threshold, case, seed, threads
        self.production = train_production(fold.train, 0.01, threshold, seed, threads)[0]
        parts = (fold.train, fold.validation, fold.test)
        if case.shortlist is not None:
            parts = tuple(shortlisted(data, self.production.predict(data), case.shortlist) for data in parts)
        self.train, self.held_out, self.test = parts
        self.clicks = self._simulate(self.train, clicks, 1)
        self.held_out_clicks = self._simulate(self.held_out, round(0.15 * clicks), 2)

    def _simulate(self, data: RankingData, clicks: int, number: int) -> ClickCounts:
        return simulate(
            data, self.production.predict(data), self.case.policy, self.case.exam, clicks=clicks, displays=True,
            seed=np.random.default_rng([self.seed, number]), relevance_threshold=self.threshold, threads=self.threads,
        )  # fmt: skip

    def facts(self) -> dict[str, int]:
        """The size of the training log, and a checksum of its clicks."""
        arrays = [each for log in (self.clicks, self.held_out_clicks) for each in (log.docs, log.ranks, log.clicks)]
        fingerprint = zlib.crc32(b"".join(np.ascontiguousarray(each, np.int64).tobytes() for each in arrays))
        impressions = int(self.clicks.impressions.sum())
        return {"sessions": self.clicks.n_sessions, "impressions": impressions, "fingerprint": fingerprint}

    @cached_property
    def sessions(self) -> MergedPages:
        return merge_sessions(self.clicks, self.seed)

    @cached_property
    def held_out_rows(self) -> click_learners.Rows:
        pages = merge_sessions(self.held_out_clicks, self.seed).with_pairs()
        return click_learners.page_rows(self.held_out, pages, self.held_out_clicks.n_sessions)

    @cached_property
    def held_out_weights(self) -> Any:
        return policy_aware(self.held_out_clicks)

    def estimated(self, scores: Any) -> float:
        """The policy-aware estimate of DCG@5 from validation clicks."""
        return weighted_metric(scores, self.held_out_weights, self.held_out.offsets, f"dcg@{K}", threads=self.threads)

    def evaluated(self, scores: Any) -> dict[str, float]:
        """Test metrics from labels."""
        found = evaluate(scores, self.test, self.threshold, metrics=list(METRICS), threads=self.threads)
        return {metric: float(found[metric]) for metric in METRICS}


def ours(log: Log, name: str) -> tuple[Ranker, int]:
    """A ranker of this library, and the documents that have weights."""
    estimator, model = name.split(", ", 1)
    kind, loss, cutoff = MODELS[model]
    settings: dict[str, Any] = {"max_epochs": 100}
    if kind == "lambdamart":
        params = {"num_leaves": click_learners.LEAVES}
        rate = click_learners.LEARNING_RATE
        settings = {"max_epochs": ROUNDS, "patience": ROUNDS, "params": params, "learning_rate": rate}
    ranker = Ranker(loss, cutoff, kind, metric=f"dcg@{K}", seed=log.seed, threads=log.threads, **settings)
    if estimator == "full-information":
        weights = [full_information(data, log.threshold) for data in (log.train, log.held_out)]
        return ranker.fit(log.train, weights[0], validation=(log.held_out, weights[1])), log.train.n_docs
    exam = examination.estimate(log.clicks) if estimator == ESTIMATED else log.case.exam
    evidence = [Evidence(each, exam=exam, threads=log.threads) for each in (log.clicks, log.held_out_clicks)]
    if estimator == "auto":
        found = fit_ranker(log.train, evidence[0], "auto", ranker, validation=(log.held_out, evidence[1]), folds=5)
        return found.ranker, log.train.n_docs
    if estimator == ESTIMATED:
        estimator, evidence = "policy-aware", [each.with_display_frequencies() for each in evidence]
    weigh = named_estimator(estimator).weigh
    weights = [weigh(data, each) for data, each in zip((log.train, log.held_out), evidence, strict=True)]
    return ranker.fit(log.train, weights[0], validation=(log.held_out, weights[1])), log.train.n_docs


def theirs(log: Log, name: str) -> tuple[click_learners.Boosted, int]:
    """The model of LightGBM or XGBoost, and the number of its rows."""
    threads = log.threads or 0
    held_out = log.held_out_rows
    if name in RATES:
        rows = click_learners.click_rate_rows(log.train, log.clicks)
        held_out = click_learners.click_rate_rows(log.held_out, log.held_out_clicks)
    elif name in PER_SESSION:
        rows = click_learners.page_rows(log.train, log.sessions.copied(1), log.clicks.n_sessions)
    else:
        pages = log.sessions.with_pairs()
        if name in XGBOOST:
            pages = pages.copied(click_learners.sessions_a_copy(log.clicks.n_clicks))
        rows = click_learners.page_rows(log.train, pages, log.clicks.n_sessions)
    learn = click_learners.learn_xgboost if name.startswith("XGBoost") else click_learners.learn_lightgbm
    settings = (LIGHTGBM | RATES | XGBOOST).get(name, {})
    return learn(rows, held_out, ROUNDS, threads, **settings), len(rows.labels)


def by_rule(log: Log, learned: click_learners.Boosted) -> dict[str, Any]:
    """The models of other packages, evaluated with the number of trees that each rule chooses."""
    rounds = range(STEP, ROUNDS + 1, STEP)
    estimates = [log.estimated(learned.scores(log.held_out.features, n)) for n in rounds]
    chosen = {"own": learned.own_best, "aware": rounds[int(np.argmax(estimates))], "all": ROUNDS}
    found = {rule: log.evaluated(learned.scores(log.test.features, n)) for rule, n in chosen.items()}
    return {"by rule": found, "rounds": chosen, "biases": learned.biases}


def computed(log: Log, method: str) -> dict[str, Any]:
    """One method trained and evaluated; seconds are processor time of making its rows and of training."""
    if method == "production":
        return {"by rule": {"": log.evaluated(log.production.predict(log.test))}}
    if method not in OURS:
        _ = log.sessions, log.held_out_rows  # rebuilt from counts, which no real log needs
    since = time.process_time()
    if method in OURS:
        ranker, rows = ours(log, method)
        cost = {"rows": rows, "seconds": round(time.process_time() - since, 2)}
        found = {"by rule": {"": log.evaluated(ranker.predict(log.test))}, "rounds": {"": ranker.best_epoch_}}
        return found | cost
    learned, rows = theirs(log, method)
    cost = {"rows": rows, "seconds": round(time.process_time() - since, 2)}
    return by_rule(log, learned) | cost


def cells(name: str, runs: int) -> Iterator[tuple[str, int]]:
    """This many pairs of a part and a seed: all parts with seed 0, then all with seed 1, and so on."""
    return islice(((part, seed) for seed in count() for part in SETS[name][0]), runs)


def run(options: argparse.Namespace, name: str, case: str, clicks: int) -> None:
    """All methods that are still missing for one data set, case and number of clicks."""
    for part, seed in cells(name, options.runs):
        cell = {"set": name, "case": case, "clicks": clicks, "part": part, "seed": seed}
        rows = compared_with_table.read(options.out)
        done = {row["method"] for row in rows if cell.items() <= row.items()}
        if todo := [each for each in options.methods if each not in done and applies(each, case)]:
            fold = read_part(options.data, name, part)
            log = Log(fold, SETS[name][1], CASES[case], seed, clicks, options.threads)
            for method in todo:
                _added(options.out, {**cell, **log.facts(), "method": method, **computed(log, method)})


def _place(row: dict[str, Any]) -> tuple[int, int, int]:
    return list(CASES).index(row["case"]), list(SETS).index(row["set"]), row["clicks"]


def _added(path: Path, row: dict[str, Any]) -> None:
    print(json.dumps(row), file=sys.stderr, flush=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compared_with", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with OHSUMED and MQ2008")
    parser.add_argument("--out", type=Path, required=True, help="results, one per line; new ones are appended")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS, metavar="NAME")
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=CASES, metavar="NAME")
    parser.add_argument("--methods", nargs="*", default=COMPARED, choices=METHODS, metavar="NAME")
    parser.add_argument("--clicks", nargs="*", type=int, default=[10**4, 10**5, 10**6])
    parser.add_argument("--runs", type=int, default=6, help="of each data set; folds first, then seeds")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="only show existing results")
    parser.add_argument("--json", type=Path, help="write the summary to this file")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = _options(arguments)
    for category in (CoverageWarning, ExaminationWarning):  # the results show it
        warnings.simplefilter("ignore", category)
    for case in [] if options.show else options.cases:
        for clicks in options.clicks:
            for name in options.sets:
                run(options, name, case, clicks)
    order = (*COMPARED, *(method for method in METHODS if method not in COMPARED))
    rows = sorted(compared_with_table.read(options.out), key=_place)
    found = compared_with_table.summary(rows, order)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for title, table in compared_with_table.tables(found).items():
        print(f"**{title}**\n\n{table}")


if __name__ == "__main__":
    main()

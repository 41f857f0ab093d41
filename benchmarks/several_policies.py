"""Estimates from a log of two policies, against the true value: python -m benchmarks.several_policies

v1 shows the production ranker's top 5, v2 its top 4 with a random document inserted (uniform-insert). A ranker trained
on all labels is compared with production from the clicks of both: the difference in dcg@5 per session, as a share of
its exact expectation, mean and standard error over logs. A minute on two cores.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import counterrank as cr
from counterrank import estimators, evaluation, examination, policies, simulation
from counterrank.clicks.counts import ClickCounts

EXAM = examination.inverse_rank(k=5)
V1, V2 = policies.Deterministic(5), policies.UniformInsert(5)


def own_propensities(clicks, data, new, old):
    """Each click divided by the propensity of its own policy, which is biased."""
    weights = clicks.by_document(clicks.clicks / clicks.propensities)
    return float((weights * (value(new, data) - value(old, data))).sum() / clicks.n_sessions)


def value(scores, data):
    """The discount of each document at its rank, 0 beyond 5."""
    queries = np.repeat(np.arange(data.n_queries), data.lengths)
    order = np.lexsort((-scores, queries))
    ranks = np.empty(data.n_docs, np.int64)
    ranks[order] = np.arange(data.n_docs) - np.repeat(data.offsets[:-1], data.lengths) + 1
    return np.where(ranks <= 5, 1.0 / np.log2(1.0 + ranks), 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=40)
    parser.add_argument("--sessions", type=int, default=100_000)
    given = parser.parse_args()
    fold = cr.make_fold("mslr", 500, seed=0)
    few = fold.train.subset(np.arange(6))
    weights = estimators.full_information(few, 3)
    old = cr.Ranker("arp-hinge", max_epochs=20).fit(few, weights).predict(fold.test)
    labels = [estimators.full_information(part, 3) for part in (fold.train, fold.validation)]
    best = cr.Ranker(k=5, max_epochs=30).fit(fold.train, labels[0], validation=(fold.validation, labels[1]))
    data, new = fold.test, best.predict(fold.test)
    clicked = np.where(data.labels >= 3, 1.0, 0.1)
    truth = float((clicked * (value(new, data) - value(old, data))).sum() / data.n_queries)
    size = f"{data.n_queries} queries, {given.sessions:,} sessions, {given.logs} logs"
    print(f"{size}; true difference {truth:.4f} per session")
    print("| sessions under v2 | own propensity (biased) | every policy named | realised exposure | v2 only |")
    print("|---|---|---|---|---|")
    for share in (0.1, 0.3, 0.5, 0.7, 0.9):
        rows = []
        for seed in range(given.logs):
            many = round(share * given.sessions)
            logs = [
                simulation.simulate(data, old, policy, EXAM, sessions=n, seed=2 * seed + i, policy_name=name)
                for i, (policy, n, name) in enumerate(((V1, given.sessions - many, "v1"), (V2, many, "v2")))
            ]
            log = ClickCounts.concat(logs)
            rho = policies.several_policies(log, {"v1": (V1, old), "v2": (V2, old)}, EXAM)
            options = {"metrics": ["dcg@5"], "replicates": 100}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = [
                    evaluation.compare(new, old, data, log, rho, **options),
                    evaluation.compare(new, old, data, log, exam=EXAM, **options),
                    evaluation.compare(new, old, data, log.only_policies(["v2"]), **options),
                ]
            rows.append([own_propensities(log, data, new, old), *(each["dcg@5"].ips for each in found)])
        shares = np.array(rows) / truth
        means, errors = shares.mean(axis=0), shares.std(axis=0, ddof=1) / np.sqrt(len(shares))
        cells = " | ".join(f"{100 * m:.0f} % ± {100 * e:.0f}" for m, e in zip(means, errors, strict=True))
        print(f"| {share:.0%} | {cells} |")


if __name__ == "__main__":
    main()

"""Coverage of 95 % intervals with users fitted to the same clicks: `python -m benchmarks.fitted_intervals --out FILE`.

Each log draws queries of 10 documents from a population of 3,000, shows them under uniform-insert with pages of 5, and
has users click whom nobody describes: `learn_users` fits them. dcg@5 of one ranking and the difference of two are
estimated per session (ips) and self-normalised from realised exposure, and doubly robust (dr) with the propensities
that the policy has with these users. Intervals are compared with those that

    fixed       hold the fitted users for the truth
    told        are told the true users

The true value is that of the population with the true users, in the canonical gauge. A line of JSON for each log is
appended to the file; logs that are in the file are not repeated. `--logs 0` shows what is in the file, and how often
`.test` rejects position-based users.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from benchmarks.auto_cost import read_lines
from benchmarks.real_users import page_of
from counterrank import RankingData, evaluation, policies, simulation
from counterrank.clicks.examination import Examination
from counterrank.clicks.user_models import Affine
from counterrank.estimators import learn_users
from counterrank.evaluation import fitted_users

K, DOCS, RELEVANT = 5, 10, 3
METRIC = "dcg@5"
POLICY = policies.UniformInsert(K)
# users, queries, sessions a query
CASES = [(users, *size) for size in ((60, 100), (200, 100), (200, 1000)) for users in ("paper", "realistic")]


class Pool(NamedTuple):
    """Queries to draw from; one row each of documents."""

    labels: Any
    logging: Any
    one: Any
    other: Any
    features: Any


@cache
def pool(n_queries: int = 3000) -> Pool:
    """A fifth of the documents is relevant; scores correlate with that."""
    rng = np.random.default_rng(0)
    merit, *noise = rng.standard_normal((4, n_queries, DOCS))
    labels = np.where(merit >= np.quantile(merit, 0.8), 4.0, 0.0)
    scores = [0.5 * merit + np.sqrt(0.75) * noise[0], merit + 0.9 * noise[1], 0.6 * merit + noise[2]]
    return Pool(labels, *scores, np.stack([merit + noise[1], noise[2]], axis=2))


def true_users(users: str) -> Affine:
    """alpha and beta in the canonical gauge, with the relevance of irrelevant and relevant documents."""
    curve, model = page_of(users, K)
    return Affine(*model.affine(curve, K), relevance=(0.0, 1.0))


def truths(users: str) -> dict[str, float]:
    """The true values of the population."""
    own, levels = pool(), true_users(users).relevance
    assert levels is not None
    relevance = np.where(own.labels >= RELEVANT, levels[1], levels[0])
    one, other = (
        (evaluation.rank_values(METRIC, DOCS)[np.argsort(np.argsort(-scores, axis=1), axis=1)] * relevance).sum(axis=1)
        for scores in (own.one, own.other)
    )
    below = relevance.sum(axis=1).mean()
    found = {"one": float(one.mean()), "difference": float((one - other).mean())}
    return found | {f"{what} self-normalised": value / below for what, value in found.items()}


def one_log(users: str, n_queries: int, each: int, seed: int) -> dict[str, Any]:
    """What was fitted; and value, half the width, that with fixed users, and with the true ones, of each estimate."""
    curve, model = page_of(users, K)
    own, chosen = pool(), np.random.default_rng([seed, 1]).integers(len(pool().labels), size=n_queries)
    labels, logging, one, other = (each_of[chosen].ravel() for each_of in own[:4])
    data = RankingData(own.features[chosen].reshape(-1, 2), np.arange(n_queries + 1) * DOCS, labels)
    log = simulation.simulate(
        data, logging, POLICY, Examination(curve), sessions=n_queries * each, seed=seed,
        relevance_threshold=RELEVANT, click_model=model, propensities=False, threads=1,
    )  # fmt: skip
    log = replace(log, examination=None)
    found = learn_users(log)
    values: dict[str, Any] = {}
    refits: dict[bytes, Any] = {}

    def refit_once(fitted: Any, clicks: Any, ranking_data: Any = None) -> Any:
        """All estimates leave out the same queries."""
        key = clicks.sessions.tobytes()
        if key not in refits:
            refits[key] = refit(fitted, clicks, ranking_data)
        return refits[key]

    refit = fitted_users.refit
    with patch.object(fitted_users, "refit", refit_once):
        for method in ("ips", "dr"):
            for how, exam in (("fitted", found), ("fixed", found.users), ("told", true_users(users))):
                # with realised exposure predictions cancel, and dr would be ips
                rho = POLICY.propensity(logging, data.offsets, exam.examination) if method == "dr" else None
                given = {"metrics": [METRIC], "method": method, "exam": exam, "replicates": 1000, "threads": 1}
                alone = evaluation.estimate(one, data, log, rho, **given)[METRIC]
                differ = evaluation.compare(one, other, data, log, rho, **given)[METRIC]
                for what, estimate in (("one", alone), ("difference", differ)):
                    for kind, name in (("ips", what), ("self_normalized", f"{what} self-normalised")):
                        low, high = getattr(estimate, f"{kind}_interval")
                        value = getattr(estimate, kind)
                        values.setdefault(f"{method} {name}", {})[how] = [value, (high - low) / 2.0]
    return {
        "users": users, "queries": n_queries, "sessions": each, "seed": seed, "kind": found.kind,
        "weight": found.weight, "p_value": found.p_value, "estimates": values,
    }  # fmt: skip


def show(lines: list[dict[str, Any]]) -> None:
    """Tables of coverage and of false alarms."""
    cases: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        cases[line["users"], line["queries"], line["sessions"]].append(line)
    print("Coverage in %, fitted / fixed / told; bias and half width of the median fitted interval in standard errors.")
    for (users, queries, sessions), own in sorted(cases.items()):
        affine = np.mean([line["kind"] == "affine" for line in own])
        tested = np.array([line["p_value"] for line in own if line["p_value"] is not None])
        print(f"\n{users}, {queries} queries x {sessions} sessions: {len(own)} logs, affine in {affine:.1%}, ", end="")
        rejected = ", ".join(f"{(tested < level).mean():.1%} at {level:.0%}" for level in (0.05, 0.01))
        print(f"position-based users rejected in {rejected} of {len(tested)}")
        true = truths(users)
        for name in own[0]["estimates"]:
            truth = true[name.partition(" ")[2]]
            found = {
                how: np.array([line["estimates"][name][how] for line in own], float)
                for how in ("fitted", "fixed", "told")
            }
            covered = [100 * np.mean(np.abs(each[:, 0] - truth) <= each[:, 1]) for each in found.values()]
            value, half = found["fitted"].T
            error = value.std()
            print(f"  {name:32}" + " / ".join(f"{each:5.1f}" for each in covered), end="")
            print(f"   bias {(value.mean() - truth) / error:+.2f}   half width {np.median(half) / error:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fitted_intervals",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="a file of JSON lines, appended to")
    parser.add_argument("--logs", type=int, default=200, help="for each case (default 200)")
    parser.add_argument("--cases", default="", help="comma-separated numbers, from 0; all by default")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = ("users", "queries", "sessions", "seed")
    done = {tuple(line[name] for name in names) for line in read_lines(options.out)}
    chosen = [CASES[int(number)] for number in options.cases.split(",")] if options.cases else CASES
    for seed in range(options.logs):
        for case in chosen:
            if (*case, seed) not in done:
                line = one_log(*case, seed)
                with options.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
    show(read_lines(options.out))


if __name__ == "__main__":
    main()

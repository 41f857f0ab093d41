"""Errors of `examination.estimate(clicks, model="affine")` on logs of known users: `python -m benchmarks.affine_users`.

    accuracy       synthetic:mslr under uniform-insert, realistic users, against an estimator that is told the relevance
    impressions    bias and error of alpha_k / alpha_1 by impressions of a document of the tail
    test           how often position-based users are rejected at 5 %, and affine ones; coverage of intervals

A line of JSON for each run is appended to `--out`; runs that are in the file are not repeated. Without `--run` the
results of the file are shown. "Realistic" users click relevant documents with .69 and others with .41 at rank 1 down to
.25 once examined, as measured on real pages with editorial grades; "flat" ones click others with .41 at every rank.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from counterrank import RankingData, examination, make_ranking_data, policies, simulation
from counterrank.clicks.users import ClickModel
from counterrank.common.errors import CounterrankError
from counterrank.experiments.demo import train_production

RELEVANT = 3
OTHERS = [0.41, 0.36, 0.36, 0.33, 0.30, 0.28, 0.27, 0.26, 0.25, 0.25]
EXAMINED = [1.0, 0.49, 0.30, 0.22, 0.17, 0.14, 0.12, 0.10, 0.09, 0.08]
IMPRESSIONS = (3, 10, 50, 1000)
QUERIES = 600  # as many as the training part of synthetic:mslr


def users_of(name: str, k: int) -> tuple[ClickModel, Any]:
    """Click model and examination of users by name."""
    if name == "paper":
        return ClickModel(), examination.inverse_rank(k=k)
    others = OTHERS if name == "realistic" else OTHERS[0]
    return ClickModel(relevant=0.69, other=others), examination.Examination(EXAMINED[:k])


@cache
def mslr(n_queries: int, seed: int) -> tuple[RankingData, Any]:
    """Data, and the scores of a production ranker from three queries."""
    data = make_ranking_data("mslr", n_queries=n_queries, seed=seed)
    ranker, _ = train_production(data, 1e-6, RELEVANT, seed, 1)
    return data, ranker.predict(data)


def small(n_queries: int, docs: int, seed: int, share: float = 0.1) -> tuple[RankingData, Any]:
    """Queries of so many documents, whose scores correlate 0.5 with what makes the top `share` relevant."""
    rng = np.random.default_rng(seed)
    merit = rng.standard_normal(n_queries * docs)
    scores = 0.5 * merit + np.sqrt(0.75) * rng.standard_normal(len(merit))
    labels = np.where(merit >= np.quantile(merit, 1.0 - share), 4.0, 0.0)
    return RankingData(merit[:, None].astype(np.float32), np.arange(n_queries + 1) * docs, labels), scores


def told(data: RankingData, clicks: Any, k: int) -> Any:
    """alpha_k / alpha_1 of an estimator that knows which documents are relevant: differences of click rates."""
    relevant = data.labels[clicks.docs] >= RELEVANT  # type: ignore[index]
    found = []
    for rank in range(1, k + 1):
        here = clicks.ranks == rank
        rates = [
            clicks.clicks[here & own].sum() / clicks.impressions[here & own].sum() for own in (relevant, ~relevant)
        ]
        found.append(rates[0] - rates[1])
    return np.array(found) / found[0]


def one_run(world: tuple[RankingData, Any], users: str, k: int, sessions: int, seed: int) -> dict[str, Any]:
    """Errors, coverage and cost of one fit."""
    data, scores = world
    model, exam = users_of(users, k)
    alpha, beta = model.affine(exam, k)
    true = examination.Affine(alpha, beta)
    clicks = simulation.simulate(
        data,
        scores,
        policies.UniformInsert(k),
        exam,
        sessions=sessions,
        seed=seed,
        relevance_threshold=RELEVANT,
        click_model=model,
        propensities=False,
    )
    begin = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = examination.estimate(clicks, model="affine", k=k)
        except CounterrankError as error:
            return {"refused": str(error)}
    ratio = true.alpha / true.alpha[0]

    def inside(intervals: Any, values: Any) -> list[bool]:
        return [bool(low <= value <= high) for (low, high), value in zip(intervals, values, strict=True)]

    return {
        "seconds": process_time() - begin,
        "errors": (found.ratios / ratio - 1.0)[1:].tolist(),
        "told": (told(data, clicks, k) / ratio - 1.0)[1:].tolist(),
        "alpha": (found.alpha - true.alpha).tolist(),
        "beta": (found.beta - true.beta).tolist(),
        "p": found.test.p_value if found.test else None,
        "ratio_covered": inside(found.ratio_interval, ratio)[1:],
        "alpha_covered": inside(found.alpha_interval, true.alpha),
        "beta_covered": inside(found.beta_interval, true.beta),
        "ratio_half_width": ((found.ratio_interval[:, 1] - found.ratio_interval[:, 0]) / 2.0 / ratio)[1:].tolist(),
    }


def world_of(part: str, case: list[Any], seed: int) -> tuple[tuple[RankingData, Any], str, int, int]:
    """Data with scores, users, k and sessions of a case: users, k, queries, then sessions or impressions."""
    users, k, n_queries, amount = str(case[0]), *map(int, map(float, case[1:]))
    if part == "impressions":  # of each of 16 documents of the tail: one of them is on each page
        return small(n_queries, 16 + k - 1, seed), users, k, n_queries * 16 * amount
    if part == "test":
        return small(n_queries, 20, seed, 0.2), users, k, amount
    return mslr(n_queries, seed), users, k, amount


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.affine_users",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", default="affine_users.jsonl")
    parser.add_argument("--run", choices=("accuracy", "impressions", "test"))
    parser.add_argument(
        "--case", default=f"realistic,5,{QUERIES},1e6", help="users,k,queries,sessions (or impressions)"
    )
    parser.add_argument("--seeds", default="0:8")
    options = parser.parse_args()
    path = Path(options.out)
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if options.run is None:
        show(lines)
        return
    case, (first, last) = options.case.split(","), map(int, options.seeds.split(":"))
    done = {(each["part"], each["case"], each["seed"]) for each in lines}
    for seed in range(first, last):
        if (options.run, options.case, seed) in done:
            continue
        row = one_run(*world_of(options.run, case, seed), seed)
        with path.open("a") as file:
            file.write(json.dumps({"part": options.run, "case": options.case, "seed": seed, **row}) + "\n")


def show(lines: list[dict[str, Any]]) -> None:
    """A row for each case."""
    groups: dict[Any, list[Any]] = defaultdict(list)
    for line in lines:
        groups[line["part"], line["case"]].append(line)
    print("| part | users, k, queries, amount | runs (refused) | worst error: fitted, told, ratio", end=" | ")
    print("bias of the last rank | position-based rejected | coverage: ratio, alpha, beta | CPU seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for (part, case), rows in sorted(groups.items()):
        kept = [row for row in rows if "errors" in row]
        head = f"| {part} | {case} | {len(rows)} ({len(rows) - len(kept)}) |"
        if not kept:
            print(head)
            continue
        worst = np.mean([np.abs(row["errors"]).max() for row in kept])
        known = np.mean([np.abs(row["told"]).max() for row in kept])
        bias = np.mean([row["errors"][-1] for row in kept])
        covered = [np.mean([np.mean(row[f"{name}_covered"]) for row in kept]) for name in ("ratio", "alpha", "beta")]
        rejected = np.mean([row["p"] < 0.05 for row in kept])
        print(
            f"{head} {worst:.1%}, {known:.1%}, {worst / known:.2f} | {bias:+.1%} | {rejected:.1%} | "
            f"{', '.join(f'{each:.1%}' for each in covered)} | {np.mean([row['seconds'] for row in kept]):.1f} |"
        )


if __name__ == "__main__":
    main()

"""What estimators do on clicks of users other than those they assume: position-based, affine, browsing and dependent.

    python -m benchmarks.wrong_users --runs 8 --out wrong_users.jsonl        # appends a line for each run
    python -m benchmarks.wrong_users --table wrong_users.jsonl               # the lines as a Markdown table

Each run makes synthetic data, a production ranker, and a log of pages of 5 (uniform-insert, or `--policy replace-last`)
by each kind of users, fits each model to it, and takes what it says was examined for the propensity. All are
`examination.estimate` of the log; where documents do not identify alpha and beta, features link the ranks.

    correlation   of weights with relevance over the documents that were shown, weighted by impressions
    bias          of the production top 5: weight = a + b relevant + c top 5 by least squares, c / b; 0 without bias,
                  above 0 where position is taken for relevance
    gap           test DCG@5 of a linear ranker from the weights: 0 is the production ranker, 1 one from labels
"""

from __future__ import annotations

import argparse
import json
import warnings
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

from counterrank import Ranker, make_fold
from counterrank.clicks.browsing import Browsing, Dependent
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.clicks.policies import ReplaceLast, UniformInsert
from counterrank.clicks.simulation import simulate
from counterrank.clicks.user_estimation import estimate
from counterrank.clicks.users import ClickModel
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData
from counterrank.estimators import full_information, policy_aware
from counterrank.evaluation import evaluate_queries
from counterrank.experiments.demo import train_production

PAGE, THRESHOLD = 5, 3.0
CURVE = [1.0, 0.49, 0.30, 0.22, 0.17]
FLAT = ClickModel(0.69, 0.36)
USERS: dict[str, tuple[Any, ClickModel]] = {
    "position-based": (Examination(CURVE), FLAT),
    "affine": (Examination(CURVE), ClickModel(0.69, [0.41, 0.36, 0.36, 0.33, 0.30])),
    "browsing": (
        Browsing([[1.0], [0.45, 0.75], [0.25, 0.4, 0.7], [0.17, 0.25, 0.4, 0.65], [0.12, 0.2, 0.25, 0.4, 0.6]]),
        FLAT,
    ),
    "dependent": (Dependent([0.6, 0.5, 0.45, 0.4]), FLAT),
}
POLICIES = {"uniform-insert": UniformInsert(PAGE), "replace-last": ReplaceLast(PAGE)}
ASSUMED = ("position-based", "affine", "browsing", "dependent")


def assumed_model(name: str, clicks: ClickCounts, data: RankingData) -> Any:
    """The model of this name that fits the log."""
    try:
        return estimate(clicks, model=name)  # type: ignore[call-overload]
    except CounterrankError:
        if name != "affine":
            raise
        return estimate(clicks, model=name, method="features", data=data)


def bias(weights: Any, clicks: ClickCounts, scores: Any, data: RankingData) -> tuple[float, float]:
    """The correlation of weights with relevance, and how much more the production top 5 weighs at equal relevance."""
    relevant = np.asarray(data.labels) >= THRESHOLD
    shown = clicks.by_document(clicks.impressions)
    rates = weights / np.repeat(clicks.sessions, np.diff(clicks.offsets))
    ranks = [np.argsort(np.argsort(-scores[a:b], kind="stable")) for a, b in pairwise(data.offsets)]
    seen = shown > 0
    roots = np.sqrt(shown[seen])
    columns = np.stack([np.ones(len(roots)), relevant[seen], np.concatenate(ranks)[seen] < PAGE], axis=1)
    fitted = np.linalg.lstsq(columns * roots[:, None], rates[seen] * roots, rcond=None)[0]
    x, y = (values - np.average(values, weights=shown[seen]) for values in (rates[seen], columns[:, 1]))
    spread = np.average(x * x, weights=shown[seen]) * np.average(y * y, weights=shown[seen])
    return float(np.average(x * y, weights=shown[seen]) / np.sqrt(spread)), float(fitted[2] / fitted[1])


def one_run(seed: int, queries: int, sessions: int, policy: str) -> list[dict[str, Any]]:
    """A line for each kind of users and each model."""
    fold = make_fold("mslr", queries, seed=seed)
    assert fold.validation is not None
    production, _ = train_production(fold.train, 1e-6, THRESHOLD, seed, 1)

    def dcg(ranker: Ranker) -> float:
        found = evaluate_queries(ranker.predict(fold.test), fold.test, THRESHOLD, metrics=["dcg@5"], threads=1)
        return float(np.nanmean(found["dcg@5"]))

    def learned(train: Any, validation: Any) -> float:
        ranker = Ranker(k=PAGE, seed=seed, threads=1)
        return dcg(ranker.fit(fold.train, train, validation=(fold.validation, validation)))

    parts = (fold.train, fold.validation)
    low, high = dcg(production), learned(*(full_information(part, THRESHOLD) for part in parts))
    lines = []
    for users, (exam, model) in USERS.items():
        logs = [
            simulate(
                part, production.predict(part), POLICIES[policy], exam, sessions=n, seed=seed, click_model=model,
                displays=True, last_clicks=True, propensities=False, threads=1,
            )
            for part, n in zip(parts, (sessions, sessions * 15 // 100), strict=True)
        ]  # fmt: skip
        for name in ASSUMED:
            about = {"seed": seed, "queries": queries, "sessions": sessions, "policy": policy, "users": users}
            about["assumed"] = name
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = assumed_model(name, logs[0], fold.train)
                    weights = [policy_aware(log, exam=found) for log in logs]
            except CounterrankError as refusal:
                lines.append(about | {"refused": str(refusal)})
                continue
            correlation, top = bias(weights[0], logs[0], production.predict(fold.train), fold.train)
            gap = (learned(*weights) - low) / (high - low)
            lines.append(about | {"correlation": correlation, "bias": top, "gap": gap})
    return lines


def table(lines: list[dict[str, Any]]) -> str:
    """Means over runs, with the half width of a 95 % interval of the gap; of models that half of the logs allow."""
    rows = [
        "| policy | users | estimator assumes | correlation | bias of the top 5 | share of the gap |",
        "|---|---|---|---|---|---|",
    ]
    for policy, users, name in product(POLICIES, USERS, ASSUMED):
        every = [line for line in lines if (line["policy"], line["users"], line["assumed"]) == (policy, users, name)]
        own = [line for line in every if "refused" not in line]
        mark = "**" if users == name else ""
        start = f"| {policy} | {users} | {mark}{name}{mark} |"
        if every and 2 * len(own) < len(every):
            rows.append(f"{start} refused | | |")
        elif own:
            mean = {key: np.mean([line[key] for line in own]) for key in ("correlation", "bias", "gap")}
            gaps = [line["gap"] for line in own]
            reach = t.ppf(0.975, len(gaps) - 1) * np.std(gaps, ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
            rows.append(f"{start} {mean['correlation']:.3f} | {mean['bias']:+.3f} | {mean['gap']:.2f} ± {reach:.2f} |")
    return "\n".join(rows)


def main() -> None:
    """Run, or show a table of what was run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--queries", type=int, default=600)
    parser.add_argument("--policy", choices=POLICIES, default="uniform-insert")
    parser.add_argument("--sessions", type=int, default=2_000_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table is not None:
        print(table([json.loads(line) for line in options.table.read_text(encoding="utf-8").splitlines()]))
        return
    for seed in range(options.runs):
        lines = one_run(seed, options.queries, options.sessions, options.policy)
        if options.out is not None:
            with options.out.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
        else:
            print(table(lines))


if __name__ == "__main__":
    main()

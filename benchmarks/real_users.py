"""What `auto` loses on clicks of real users: told how they click, told their examination curve only, or fitted.

    python -m benchmarks.real_users --data OHSUMED --folds 1,2,3 --relevance-threshold 2 --policies replace-last \\
        --users realistic --told curve,truth --sessions 2000,2000000 --runs 16 --out real_users.jsonl

runs `auto` once for each fold, policy, kind of users, number of sessions, seed and told, and appends a line to the file
for each; those that are in the file are not run again. All told of a run see the same clicks:

    curve       told the examination curve of the users, and no trust bias
    truth       told alpha and beta
    fitted      told nothing: `estimators.learn_users` fits users to the training log
    documents   alpha and beta from documents that were seen at several ranks
    features    alpha and beta from documents with like features at different ranks

Where a fit refuses the log, `auto` is told the curve, and the line says why. Comparisons are paired by run:

    python -m benchmarks.real_users --compare real_users.jsonl --first curve --second features --third truth

With `--third` it also shows how far the second is beyond the middle between the first and the third. Otherwise as in
`auto_cost`: a production ranker from 3 queries, pages of 5, 15 % as many sessions on validation queries, and shares of
the gap in test DCG@5 between production and full information. `--data synthetic:mslr` makes data, its seed the fold.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.auto_cost import Difference, difference_of_shares, read_lines
from counterrank import Fold, Ranker, make_fold, read_fold
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination, lines_of
from counterrank.clicks.policies import Deterministic, EpsilonGreedy, Mixture, ReplaceLast, UniformInsert
from counterrank.clicks.simulation import simulate
from counterrank.clicks.user_estimation import estimate
from counterrank.clicks.user_models import Affine
from counterrank.clicks.users import ClickModel
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData
from counterrank.estimators import full_information, learn_users
from counterrank.evaluation import evaluate_queries
from counterrank.experiments.demo import train_production
from counterrank.training import fit_from_clicks

_PAGE = 5

POLICIES = {
    "replace-last": ReplaceLast(_PAGE),
    "uniform-insert": UniformInsert(_PAGE),
    "epsilon-greedy": EpsilonGreedy(_PAGE, 0.3),
    "mixture": Mixture([UniformInsert(_PAGE), Deterministic(_PAGE)], [0.3, 0.7]),
}


class Users(NamedTuple):
    """Simulated users: examination by rank, and clicks once examined."""

    curve: list[float]
    clicks: ClickModel

    @property
    def truth(self) -> Affine:
        """alpha and beta."""
        return Affine(*self.clicks.affine(self.curve, len(self.curve)))


USERS = {
    "paper": Users([1.0 / rank for rank in range(1, 11)], ClickModel()),
    "realistic": Users(
        [1.0, 0.49, 0.30, 0.22, 0.17, 0.14, 0.12, 0.10, 0.09, 0.08],
        ClickModel(0.69, [0.41, 0.36, 0.36, 0.33, 0.30, 0.28, 0.27, 0.26, 0.25, 0.25]),
    ),
}


def page_of(users: str, page: int = _PAGE) -> Users:
    """Users who see so many ranks."""
    return Users(USERS[users].curve[:page], USERS[users].clicks)


class Log(NamedTuple):
    """One part of the data, its clicks, and the production scores that they were logged with."""

    data: RankingData
    clicks: ClickCounts
    scores: Any


def simulate_log(
    part: RankingData, scores: Any, policy: str, users: str, sessions: int, threshold: float, seed: Any
) -> Log:
    """The clicks of one part."""
    curve, model = page_of(users)
    clicks = simulate(
        part, scores, POLICIES[policy], Examination(curve), sessions=sessions, seed=seed,
        relevance_threshold=threshold, click_model=model, propensities=False, threads=1,
    )  # fmt: skip
    return Log(part, clicks, scores)


def fitted(users: Users, log: Log) -> Any:
    """What `fit_from_clicks` finds where it is told nothing."""
    found = learn_users(log.clicks, prior=True)
    return found.examination if found.base is None else found.users


# What is told: a function of the users and the training log to a user model
TOLD: dict[str, Callable[[Users, Log], Any]] = {
    "curve": lambda users, log: Examination(users.curve),
    "truth": lambda users, log: users.truth,
    "fitted": fitted,
    "documents": lambda users, log: estimate(log.clicks, model="affine"),
    "features": lambda users, log: estimate(log.clicks, model="affine", method="features", data=log.data),
}


@lru_cache(maxsize=1)
def baselines(fold: Fold, threshold: float, seed: int) -> tuple[Ranker, dict[str, list[float]]]:
    """The production ranker; and test DCG@5 by query of it and of the ranker from labels."""
    production, _ = train_production(fold.train, 1e-6, threshold, seed, 1)
    train, other = fold.train, fold.validation
    full = Ranker(k=_PAGE, seed=seed, threads=1)
    full.fit(train, full_information(train, threshold), validation=(other, full_information(other, threshold)))
    return production, {
        "production": dcg(production, fold.test, threshold),
        "full-information": dcg(full, fold.test, threshold),
    }


def dcg(ranker: Ranker, test: RankingData, threshold: float) -> list[float]:
    """DCG@5 of each query with relevant documents."""
    values = evaluate_queries(ranker.predict(test), test, threshold, metrics=["dcg@5"], threads=1)["dcg@5"]
    return [float(value) for value in values[~np.isnan(values)]]


def one_run(
    fold: Fold, threshold: float, policy: str, users: str, sessions: int, seed: int, told: list[str]
) -> list[dict[str, Any]]:
    """A line for each told, of the same clicks."""
    assert fold.validation is not None
    production, known = baselines(fold, threshold, seed)
    logs = [
        simulate_log(part, production.predict(part), policy, users, n, threshold, np.random.default_rng([seed, number]))
        for part, n, number in ((fold.train, sessions, 2), (fold.validation, sessions * 15 // 100, 3))
    ]
    found: dict[str, list[float]] = {}

    def learn(model: Any) -> list[float]:
        key = repr(list(map(repr, lines_of(model))))  # refused, or of paper users: the same model again
        if key not in found:
            curve = model if isinstance(model, Examination) else model.examination
            parts = [
                (log.data, log.clicks, POLICIES[policy].propensity(log.scores, log.data.offsets, curve)) for log in logs
            ]
            ranker = Ranker(k=_PAGE, seed=seed, threads=1)
            report = fit_from_clicks(*parts[0], validation=parts[1], ranker=ranker, exam=model, seed=seed)
            found[key] = dcg(report.ranker, fold.test, threshold)
        return found[key]

    lines = []
    for name in told:
        about: dict[str, Any] = {"told": name}
        try:
            model = TOLD[name](page_of(users), logs[0])
        except CounterrankError as refusal:
            model, about["refused"] = Examination(page_of(users).curve), str(refusal)
        if isinstance(model, Examination):
            about |= {"alpha": model.curve(_PAGE).tolist(), "beta": [0.0] * _PAGE}
        else:
            about |= {"alpha": model.alpha.tolist(), "beta": model.beta.tolist()}
            about["warnings"] = list(getattr(model, "warnings", ()))
        lines.append(about | {"dcg": {"auto": learn(model), **known}})
    return lines


def key_of(line: dict[str, Any]) -> tuple[Any, ...]:
    """What distinguishes lines of a file, told apart."""
    return tuple(line[name] for name in ("data", "fold", "policy", "users", "sessions", "seed"))


def read_part(data: str, fold: str, queries: int) -> Fold:
    """One fold of a folder, or synthetic data."""
    if data.startswith("synthetic:"):
        return make_fold(data.partition(":")[2], queries, seed=int(fold))
    return read_fold(Path(data) / f"Fold{fold}")


def middle(curve: dict[str, Any], truth: dict[str, Any]) -> dict[str, Any]:
    """A run in the middle between two; every baseline is the same."""
    halves = zip(curve["dcg"]["auto"], truth["dcg"]["auto"], strict=True)
    return curve | {"dcg": curve["dcg"] | {"auto": [(one + other) / 2.0 for one, other in halves]}}


def compare(lines: list[dict[str, Any]], first: str, second: str, third: str | None) -> list[dict[str, Any]]:
    """A row for each data set, policy, users and number of sessions; differences in points, paired by run."""
    told = {name: {key_of(line): line for line in lines if line["told"] == name} for name in (first, second, third)}
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for key in told[first]:
        if all(key in told[name] for name in (second, third) if name):
            data, _, policy, users, sessions, _ = key
            groups.setdefault((data, policy, users, sessions), []).append(key)
    rows = []
    for group, every in sorted(groups.items()):
        seeds = Counter(key[1] for key in every)
        keys = [key for key in every if seeds[key[1]] > 1]  # one run of a fold has no variance
        if not keys:
            continue
        pairs = [(told[first][key], told[second][key]) for key in keys]
        row: dict[str, Any] = dict(zip(("data", "policy", "users", "sessions"), group, strict=True))
        row |= {"runs": len(keys), "refused": sum("refused" in told[second][key] for key in keys)}
        row["difference"] = difference_of_shares(pairs)
        if third:
            ends = [(told[first][key], told[third][key]) for key in keys]
            row["whole"] = difference_of_shares(ends)
            row["middle"] = difference_of_shares(
                [(middle(*end), second_run) for end, (_, second_run) in zip(ends, pairs, strict=True)]
            )
        rows.append(row)
    return rows


def interval(found: Difference) -> str:
    """The difference and two bounds, each of which holds with 95 %: over runs on these test queries."""
    reach = found.difference - found.bounds[0]
    return f"{found.difference:+.1f} ({found.difference - reach:+.1f} to {found.difference + reach:+.1f})"


def _show(rows: list[dict[str, Any]], first: str, second: str, third: str | None) -> None:
    columns = ["data", "policy", "users", "sessions", "runs", "refused", first, second, f"{second} - {first}"]
    if third:
        columns += [third, f"{third} - {first}", f"{second} beyond the middle"]
    table = Table(*columns)
    for row in rows:
        found = row["difference"]
        cells = [row["data"], row["policy"], row["users"], f"{row['sessions']:,}", str(row["runs"])]
        cells += [str(row["refused"]), f"{found.before:.1f}", f"{found.after:.1f}", interval(found)]
        if third:
            cells += [f"{row['whole'].after:.1f}", interval(row["whole"]), interval(row["middle"])]
        table.add_row(*cells)
    Console(width=200).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real_users",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", help="a folder with the folders Fold1, Fold2, ...; or synthetic:mslr")
    parser.add_argument("--folds", default="1", help="comma-separated numbers; seeds of synthetic data")
    parser.add_argument("--queries", type=int, default=600, help="of synthetic data, 60 %% to train on (default 600)")
    parser.add_argument("--relevance-threshold", type=float, default=3.0)
    parser.add_argument("--policies", default="replace-last", help=f"comma-separated, of {', '.join(POLICIES)}")
    parser.add_argument("--users", default="realistic", help=f"comma-separated, of {', '.join(USERS)}")
    parser.add_argument("--told", default="curve,truth", help=f"comma-separated, of {', '.join(TOLD)}")
    parser.add_argument("--sessions", default="2000,20000,2000000", help="comma-separated")
    parser.add_argument("--runs", type=int, default=16, help="seeds for each fold (default 16)")
    parser.add_argument("--first-seed", type=int, default=0, help="of those seeds (default 0)")
    parser.add_argument("--out", type=Path, help="a file of JSON lines, appended to")
    parser.add_argument("--compare", nargs="+", type=Path, metavar="FILE", help="such files")
    parser.add_argument("--first", default="curve", help="what is compared: told (default curve)")
    parser.add_argument("--second", default="truth", help="with what (default truth)")
    parser.add_argument("--third", help="and how far the second is beyond the middle between the first and this")
    options = parser.parse_args()
    if options.compare:
        lines = [line for path in options.compare for line in read_lines(path)]
        names = options.first, options.second, options.third
        _show(compare(lines, *names), *names)
        return
    if not (options.data and options.out):
        parser.error("expected --data and --out, or --compare")
    warnings.simplefilter("ignore")
    out, name = options.out, options.data if ":" in options.data else Path(options.data).name
    done: dict[tuple[Any, ...], set[str]] = {}
    for line in read_lines(out):
        done.setdefault(key_of(line), set()).add(line["told"])
    folds = {number: read_part(options.data, number, options.queries) for number in options.folds.split(",")}
    grid = [options.policies.split(","), options.users.split(","), map(int, options.sessions.split(","))]
    cells = list(product(*grid))
    for seed in range(options.first_seed, options.first_seed + options.runs):
        for number, fold in folds.items():
            for policy, users, sessions in cells:
                about = {"data": name, "fold": number, "policy": policy, "users": users, "sessions": sessions}
                about["seed"] = seed
                missing = [one for one in options.told.split(",") if one not in done.get(key_of(about), ())]
                if missing:
                    found = one_run(fold, options.relevance_threshold, policy, users, sessions, seed, missing)
                    with out.open("a") as file:
                        file.writelines(json.dumps(about | line) + "\n" for line in found)


if __name__ == "__main__":
    main()

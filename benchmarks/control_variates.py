"""What control variates do to estimates from clicks: `python -m benchmarks.control_variates --out runs/control.jsonl`.

Queries, pages and clicks as in `benchmarks.doubly_robust_intervals`, on synthetic queries and on LETOR folds (`--data
NAME=FOLD`). On each log dcg@5 of one ranking and of the difference of two is estimated by inverse propensities and
doubly robust, both without and with `control="optimal"`. Repetitions go round all cases; a run that was stopped goes on
where it ended. `--table` prints what was measured, and runs nothing.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.doubly_robust_intervals import EXAM, World
from benchmarks.interval_coverage import METRICS, make_policy, note_of, truth_of
from counterrank import evaluation, simulation
from counterrank.estimators import fit_relevance

METRIC = "dcg@5"
KINDS = ("ips", "self_normalized")
METHODS = ("ips", "ips+", "dr", "dr+")  # with + control="optimal"
QUERIES = 100
SESSIONS = (1_000, 10_000, 100_000)  # of the whole log


def cases(data: list[str], small: bool) -> list[tuple[str, str, str, int]]:
    """Data, policy (pages are kept where several ranks vary), target population and sessions."""
    if small:
        return [("yahoo", "replace-last", target, 10_000) for target in ("queries", "these-queries")]
    return [
        (name, policy, target, sessions)
        for name in ("mslr", *data)
        for policy in ("replace-last", "uniform-insert+")
        for target in ("queries", "these-queries")
        for sessions in SESSIONS
    ]


def run(case: tuple[str, str, str, int], world: World, repetition: int, small: bool) -> dict[str, Any]:
    """Covered, doubted, error and width by method, estimand and kind, of one log."""
    _, policy, target, sessions = case
    population = world.population
    fixed = np.random.default_rng(1)
    rng = np.random.default_rng((2, repetition)) if target == "queries" else fixed
    queries = rng.integers(len(population.omega), size=QUERIES)
    data, rows, _ = world.draw(queries)
    shown_by = make_policy(policy, population.logging[rows], population.second[rows], data.offsets)
    amount = {"sessions": sessions, "seed": repetition, "propensities": False, "displays": policy.endswith("+")}
    log = simulation.simulate(data, population.logging[rows], shown_by, EXAM, **amount)
    truth = truth_of(population, None if target == "queries" else (queries, log.sessions))
    rho = population.rho[rows]
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = None if small else fit_relevance(data, log, rho, exam=EXAM).values
        for method in METHODS[:2] if small else METHODS:
            options: dict[str, Any] = {"metrics": [METRIC], "population": target, "replicates": 500, "threads": 1}
            options |= {"control": "optimal"} if method.endswith("+") else {}
            options |= {"method": "dr", "relevance": fitted} if method.startswith("dr") else {}
            one, other = population.one[rows], population.other[rows]
            alone = evaluation.estimate(one, data, log, rho, **options)[METRIC]
            differ = evaluation.compare(one, other, data, log, rho, **options)[METRIC]
            for what, estimate in (("one", alone), ("difference", differ)):
                for kind in KINDS:
                    note = note_of(estimate, kind, truth[what, kind][METRICS.index(METRIC)])
                    if note is not None:
                        found[f"{method} {what} {kind}"] = [float(x) for x in note]
    return found


def show(results: list[dict[str, Any]]) -> None:
    """A line for each case and estimand: coverage of each method, then width and spread relative to ips."""
    named: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for each in results:
        named.setdefault(tuple(each["case"]), []).append(each["found"])
    print("coverage in per cent (in brackets where mostly doubted), median width and standard deviation over those of")
    print("ips, and the mean error in standard errors")
    for case, logs in sorted(named.items()):
        for what in ("one", "difference"):
            for kind in KINDS:
                text = ""
                base = None
                for method in METHODS:
                    rows = [log[key] for log in logs if (key := f"{method} {what} {kind}") in log]
                    if not rows:
                        continue
                    covered, doubted, errors, width = np.array(rows, float).T
                    base = (width, errors) if base is None else base
                    cover = f"{100 * covered.mean():.1f}"
                    cover = f"({cover})" if doubted.mean() > 0.5 else cover
                    ratio = np.nanmedian(width) / np.nanmedian(base[0])
                    spread, bias = errors.std() / base[1].std(), errors.mean() / (errors.std() / np.sqrt(len(errors)))
                    text += f" | {method:4}{cover:>7} {ratio:.3f} {spread:.3f} {bias:+.1f}"
                print(" ".join(f"{part!s:15}" for part in case) + f"{len(logs):5} {what:11}{kind:16}{text}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.control_variates", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/control.jsonl"))
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--data", action="append", default=[], help="NAME=FOLD, a LETOR fold; repeat for several")
    parser.add_argument("--small", action="store_true", help="only one cheap case, without the click model")
    parser.add_argument("--table", action="store_true", help="print what was measured")
    options = parser.parse_args()
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    results = [json.loads(line) for line in lines if line.endswith("}")]
    if options.table:
        show(results)
        return
    done = {(*each["case"], each["repetition"]) for each in results}
    folds = dict(each.split("=", 1) for each in options.data)
    worlds: dict[tuple[str, str], World] = {}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for repetition in range(options.repetitions):
        for case in cases(list(folds), options.small):
            if (*case, repetition) in done:
                continue
            place = case[0], case[1].rstrip("+")
            if place not in worlds:
                worlds[place] = World.make("data" if case[0] in folds else case[0], place[1], folds.get(case[0], ""))
            found = run(case, worlds[place], repetition, options.small)
            with options.out.open("a") as file:
                file.write(json.dumps({"case": case, "repetition": repetition, "found": found}) + "\n")


if __name__ == "__main__":
    main()

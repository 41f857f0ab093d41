"""How often verdicts are wrong where the truth is known: `python -m benchmarks.known_worlds`.

A world has a true relative difference between two methods, and deviations from it that runs, groups of test queries and
both together cause. A claim is then judged as `counterrank reproduce` does: with a variance that crosses runs and test
queries, and for comparison with the variance over runs alone, as if other test queries did not matter. A verdict is
wrong if it says "holds" of a false statement or "does not hold" of a true one; nominal is 5 % of the claims at most.

`--run FOLDER` adds a world for each panel of a run folder, with the median standard deviations of its curves against
full-information.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from counterrank.experiments.claims import FAILS, HOLDS, MARGIN, OPEN, Check, Rule, at_least, at_most, judge, within
from counterrank.experiments.reproduction import LOOKS
from counterrank.experiments.statistics import CONFIDENCE

NOTICEABLE = MARGIN / 4


class World(NamedTuple):
    """Standard deviations of a relative difference: of runs, of groups of test queries, and of both together.

    `skewed` draws those of queries from an exponential distribution.
    """

    name: str
    run: float
    query: float
    both: float
    groups: int = 64
    skewed: bool = False


class Statement(NamedTuple):
    """A statement, the true difference, and whether the statement is true of it."""

    name: str
    rule: Rule
    truth: float
    is_true: bool


# medians over curves, by `--run`: of `--quick` on synthetic:mslr with 5,000 test queries, of an early one with 200, and
# of OHSUMED Fold1, each of whose queries is a group; in the last world only queries matter
WORLDS = (
    World("synthetic, figure 1, ARP", 0.039, 0.083, 0.026),
    World("synthetic, figure 1, DCG@5", 0.059, 0.086, 0.103),
    World("the same, skewed", 0.059, 0.086, 0.103, skewed=True),
    World("synthetic, figure 3, DCG@5", 0.089, 0.073, 0.129),
    World("synthetic, 200 test queries, figure 2, DCG@5", 0.081, 0.697, 0.775),
    World("OHSUMED, figure 2, ARP", 0.009, 0.118, 0.214, groups=20),
    World("OHSUMED, figure 2, DCG@5, skewed", 0.057, 0.216, 0.537, groups=20, skewed=True),
    World("runs hardly differ", 0.001, 0.100, 0.010),
)
STATEMENTS = (
    Statement("ahead; truly equal", at_least(0.0, NOTICEABLE), 0.0, False),
    Statement("ahead; truly by the noticeable 0.5 %", at_least(0.0, NOTICEABLE), NOTICEABLE, True),
    Statement("not behind by more than 2 %; truly by 2 %", at_least(-MARGIN), -MARGIN, False),
    Statement("not behind by more than 2 %; truly by 1.9 %", at_least(-MARGIN), -0.95 * MARGIN, True),
    Statement("within 2 %; truly 2 % apart", within(MARGIN), MARGIN, False),
    Statement("within 2 %; truly equal", within(MARGIN), 0.0, True),
    Statement("behind by more than 2 %; truly by 3 %", at_most(-MARGIN), -1.5 * MARGIN, True),
    Statement("behind by more than 2 %; truly equal", at_most(-MARGIN), 0.0, False),
)


def draw(world: World, truth: float, checks: int, runs: int, rng: np.random.Generator) -> np.ndarray:
    """(checks, 1, runs, groups): half of the variance of runs and of queries is common to all checks of a claim."""

    def deviations(*shape: int) -> np.ndarray:
        return rng.standard_exponential(shape) - 1.0 if world.skewed else rng.standard_normal(shape)

    def shared(one: np.ndarray, own: np.ndarray) -> np.ndarray:
        return np.sqrt(0.5) * (one + own)

    by_run = shared(rng.standard_normal((1, runs, 1)), rng.standard_normal((checks, runs, 1)))
    by_query = shared(deviations(1, 1, world.groups), deviations(checks, 1, world.groups))
    both = rng.standard_normal((checks, runs, world.groups))
    found = truth + world.run * by_run + world.query * by_query + world.both * both
    return np.asarray(found[:, None])


def verdicts(values: np.ndarray, rule: Rule, confidence: float = CONFIDENCE) -> tuple[str, str]:
    """Of a claim that all checks are true: crossing runs and queries, and over runs alone."""
    crossed = judge([Check("", each, rule) for each in values], confidence).verdict
    alone = judge([Check("", each.mean(axis=2)[0], rule) for each in values], confidence).verdict
    return crossed, alone


def until_decided(values: np.ndarray, rule: Rule) -> tuple[str, str]:
    """The verdicts where one stops at the first look that decides, each at its share of the error."""
    level = 1.0 - (1.0 - CONFIDENCE) / len(LOOKS)
    looks = [verdicts(values[:, :, :runs], rule, level) for runs in LOOKS]
    first, second = (next((word for word in words if word != OPEN), OPEN) for words in zip(*looks, strict=True))
    return first, second


def rates(
    world: World, statement: Statement, runs: int | None, checks: int, repetitions: int, seed: int
) -> dict[str, float]:
    """Shares of wrong and of right verdicts; `runs` None for looks at 10, 20, 40 and 80 runs.

    >>> found = rates(WORLDS[0], STATEMENTS[0], runs=5, checks=1, repetitions=50, seed=0)
    >>> found["wrong"] <= found["wrong over runs alone"]
    True
    """
    rng = np.random.default_rng(seed)
    wrong, right = (FAILS, HOLDS) if statement.is_true else (HOLDS, FAILS)
    found = []
    for _ in range(repetitions):
        values = draw(world, statement.truth, checks, runs or LOOKS[-1], rng)
        found.append(until_decided(values, statement.rule) if runs is None else verdicts(values, statement.rule))
    words = np.array(found)
    return {
        "wrong": float((words[:, 0] == wrong).mean()),
        "wrong over runs alone": float((words[:, 1] == wrong).mean()),
        "right": float((words[:, 0] == right).mean()),
    }


def worlds_of(folder: str) -> Iterator[World]:
    """The median standard deviations over all checks of each panel of a run folder."""
    from counterrank.experiments import read_run, summarize
    from counterrank.experiments.claims import PanelValues
    from counterrank.experiments.statistics import against, sample

    summary = summarize(read_run(folder))
    for figure in summary.figures:
        for panel in figure.panels:
            values = PanelValues.of(panel)
            if values.shape is None or "full-information" not in values.levels:
                continue
            full = values.at("full-information", None)
            parts = []
            for series, points in values.points.items():
                for row in points.values():
                    found = against(row, full)
                    one = sample(found)
                    if series == "production" or one.runs < 2:
                        continue
                    groups = found.shape[2]
                    fold = found[0][np.isfinite(found[0]).all(axis=1)]
                    rest = fold - fold.mean(axis=1, keepdims=True) - fold.mean(axis=0) + fold.mean()
                    both = (rest**2).sum() / ((len(fold) - 1) * (groups - 1))
                    run = max(0.0, one.run_variance * one.runs - both / groups)
                    parts.append(np.sqrt([run, one.query_variance * groups, both]))
            if parts:
                run_sd, query_sd, both_sd = np.median(parts, axis=0).tolist()
                yield World(f"figure {figure.number}, {panel.name}", run_sd, query_sd, both_sd, values.shape[2])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of error rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run", help="a run folder, for its standard deviations")
    given = parser.parse_args(arguments)
    worlds = (*WORLDS, *(worlds_of(given.run) if given.run else ()))
    designs: list[tuple[str, dict[str, Any]]] = [
        ("3 runs", {"runs": 3, "checks": 1}),
        ("10 runs", {"runs": 10, "checks": 1}),
        ("10 runs, 8 checks", {"runs": 10, "checks": 8}),
        ("until decided", {"runs": None, "checks": 1}),
    ]
    worst: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in designs}
    for world in worlds:
        print(f"\n{world.name}: runs {world.run:.3f}, queries {world.query:.3f}, both {world.both:.3f}")
        for name, design in designs:
            for statement in STATEMENTS:
                found = rates(world, statement, repetitions=given.repetitions, seed=given.seed, **design)
                worst[name].append((found["wrong"], found["wrong over runs alone"]))
                print(
                    f"  {name:18} {statement.name:45} wrong {found['wrong']:6.1%}"
                    f"   over runs alone {found['wrong over runs alone']:6.1%}   right {found['right']:6.1%}",
                    flush=True,
                )
    print("\nlargest share of wrong verdicts, crossed and over runs alone:")
    for name, pairs in worst.items():
        print(f"  {name:18} {max(pair[0] for pair in pairs):6.1%} {max(pair[1] for pair in pairs):6.1%}")


if __name__ == "__main__":
    main()

"""Single checks, and how a claim's verdict follows from them.

A check compares one number over runs, mostly a relative difference, with two kinds of regions: where the claim would be
true, and where it would be false. With the interval of the number wholly inside a true region the check holds; wholly
inside a false one it is refuted; otherwise the runs do not tell. A check whose truth lies in a false region holds by
chance with probability 1 - confidence at most, and the same the other way around.

A claim over several checks, of which all have to be true (*all of them*):

- holds where every check holds. No correction is needed: were one of them false, that one alone would have to hold by
  chance (an intersection-union test).
- does not hold where some check is refuted at a level corrected for the number of checks m: 1 - (1 - confidence) / m
  (Bonferroni), for each of them is a chance to err.

A claim that something occurs *somewhere* is judged the other way around: it holds where some check holds at the
corrected level, and does not hold where every check is refuted.

The unit is a run. Intervals speak of more runs like these, on the same data; not of other data. Runs differ in their
clicks, in the fold where there are several, and in the production ranker only where each run trains its own; where all
share one, as in the paper, intervals do not speak of other production rankers, and what depends on it alone (the cost
of a page) does not vary at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from counterrank.common.checks import FloatArray
from counterrank.experiments.claims.statistics import Interval, Sample, sample

HOLDS = "holds"
FAILS = "does not hold"
OPEN = "not enough evidence"

Region = tuple[float, float]

# two methods that are equal but for rounding shall not differ "in every run"
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Rule:
    """Where a number makes a check true, and where false.

    The two meet at a bar. Only "better" (`at_least` with a second bar) lets them overlap: what is sure and small is
    true there, what may be nothing and is surely small is false.

    Attributes:
        true: open regions, tried first.
        false: closed regions.
    """

    true: tuple[Region, ...]
    false: tuple[Region, ...]

    def verdict(self, interval: Interval) -> str:
        """Of one number with its interval."""
        low, high = interval.low, interval.high
        if low is None or high is None:
            return OPEN
        if any(left + _ROUNDING < low and high < right - _ROUNDING for left, right in self.true):
            return HOLDS
        return FAILS if any(left <= low and high <= right for left, right in self.false) else OPEN

    def support(self, interval: Interval) -> float:
        """How far the interval lies inside a true region; negative where it sticks out; -inf without an interval."""
        low, high = interval.low, interval.high
        if low is None or high is None:
            return -math.inf
        return max(min(low - left, right - high) for left, right in self.true)


def at_least(bar: float, refuted_below: float | None = None) -> Rule:
    """True above the bar; false below it, or below another bar.

    `at_least(-margin)` is "not worse by more than the margin". `at_least(0.0, small)` is "better": any sure advantage
    will do, and one that is surely smaller than `small` is none. Without the second bar two equal methods could never
    refute it.

    >>> at_least(-0.02).verdict(Interval(-0.01, -0.015, -0.005, 8))
    'holds'
    """
    return Rule(((bar, math.inf),), ((-math.inf, bar if refuted_below is None else refuted_below),))


def at_most(bar: float) -> Rule:
    """True below the bar, false above.

    >>> at_most(0.02).verdict(Interval(0.05, 0.03, 0.07, 8))
    'does not hold'
    """
    return Rule(((-math.inf, bar),), ((bar, math.inf),))


def within(margin: float) -> Rule:
    """True where the number lies within plus and minus the margin.

    >>> within(0.02).verdict(Interval(0.0, -0.03, 0.03, 2))
    'not enough evidence'
    """
    return Rule(((-margin, margin),), ((-math.inf, -margin), (margin, math.inf)))


def beyond(margin: float) -> Rule:
    """True where the number lies outside plus and minus the margin: the opposite of `within`.

    >>> beyond(0.02).verdict(Interval(0.0, -0.01, 0.01, 8))
    'does not hold'
    """
    return Rule(((-math.inf, -margin), (margin, math.inf)), ((-margin, margin),))


@dataclass(frozen=True, eq=False)
class Check:
    """One number over runs, and what it has to be.

    Attributes:
        what: names the number for a reader.
        values: one per run, nan where missing.
        rule: what it has to be.
    """

    what: str
    values: FloatArray
    rule: Rule

    @cached_property
    def sample(self) -> Sample:
        """The mean and its standard error."""
        return sample(self.values)

    def interval(self, confidence: float) -> Interval:
        """The mean with its interval."""
        return self.sample.interval(confidence)

    def verdict(self, confidence: float) -> str:
        """At this level."""
        return self.rule.verdict(self.interval(confidence))

    def support(self, confidence: float) -> float:
        """How far the interval lies inside what the check asks for."""
        return self.rule.support(self.interval(confidence))

    def as_dict(self, confidence: float) -> dict[str, Any]:
        """As claims list it: all numbers relative (0.01 is 1 %), the verdict without correction."""
        found = self.interval(confidence)
        verdict = self.rule.verdict(found)
        numbers = {"value": found.value, "low": found.low, "high": found.high}
        return {"what": self.what, **numbers, "unit": "relative", "runs": found.runs, "verdict": verdict}


@dataclass(frozen=True)
class Outcome:
    """The verdict over checks, and the check that speaks loudest: None where there is none with an interval."""

    verdict: str
    decisive: Check | None


def judge(checks: Sequence[Check], confidence: float, somewhere: bool = False) -> Outcome:
    """The verdict of a claim that all of the checks, or `somewhere` one of them, are true; see the top of this module.

    >>> import numpy as np
    >>> judge([Check("a", np.array([0.1, 0.1]), at_least(0.0))], 0.95).verdict
    'holds'
    """
    told = [check for check in checks if check.sample.runs >= 2]
    if not told:
        return Outcome(OPEN, None)
    corrected = 1.0 - (1.0 - confidence) / len(told)
    easy, hard = (FAILS, HOLDS) if somewhere else (HOLDS, FAILS)
    # at both levels: an advantage that is sure and tiny holds at the first, and may look like none at the second
    loudest = [check for check in told if check.verdict(corrected) == hard == check.verdict(confidence)]
    if loudest:
        return Outcome(hard, _extreme(loudest, confidence, somewhere))
    every = all(check.verdict(confidence) == easy for check in checks)
    return Outcome(easy if every else OPEN, _extreme(told, confidence, somewhere))


def _extreme(checks: Sequence[Check], confidence: float, strongest: bool) -> Check:
    """The check that is nearest to failing where all have to be true, nearest to being true where one is enough."""
    choose = max if strongest else min
    return choose(checks, key=lambda check: check.support(confidence))

"""LogOpt: Plackett-Luce logging scores that minimise the variance of an estimated difference of two rankers.

Oosterhuis and de Rijke, "Taking the Counterfactual Online: Efficient and Unbiased Online Evaluation for Ranking"
(ICTIR 2020). The variance needs a guess of relevance; propensities stay exact, so a wrong guess costs sessions, and
never makes the estimate biased.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.clicks.policies.pages import PageSource
from counterrank.clicks.policies.propensity import exact_propensity, plackett_luce_propensities
from counterrank.clicks.policies.standard import PlackettLuce
from counterrank.common.checks import FloatArray, IntArray, check_number, check_whole
from counterrank.common.parallel import for_queries
from counterrank.common.random import derive_key, seed_key
from counterrank.data.ids import place_in_query, query_of_rows
from counterrank.evaluation.logopt_gradient import variance_gradients
from counterrank.evaluation.session_moments import session_moments

_LIMIT = 8.0  # no logit of a document that matters is farther below the highest of its query: rho stays above e^-8
_GAP = 6.0  # between a document that does not matter and the next: their order is all but fixed
_RATE, _LAST_RATE = 0.3, 0.02  # learning rates of Adam, of the first step and of the last
_MEMORY, _MEMORY_OF_SQUARES = 0.9, 0.99
_AVERAGED = 0.25  # share of the steps, the last ones, whose logits are averaged


@dataclass(frozen=True)
class LogOpt:
    """How LogOpt is run; the defaults suit pages of five to ten results.

    Attributes:
        exploration: the share of the mean in the guess that is optimised for: a document whose guess is too low is then
            still shown now and then.
        steps: of Adam.
        pages: drawn of each query in each step.
        relevance: P(click | examined) of each document to optimise for, such as `estimators.fit_relevance` gives for an
            earlier log; None for the guess of the plan.

    >>> LogOpt(steps=50)
    LogOpt(exploration=0.1, steps=50, pages=64, relevance=None)
    """

    exploration: float = 0.1
    steps: int = 150
    pages: int = 64
    relevance: Any = None

    def __post_init__(self) -> None:
        check_number(self.exploration, "exploration", at_least=0, at_most=1)
        check_whole(self.steps, "steps", 1)
        check_whole(self.pages, "pages", 2)


@dataclass(frozen=True, eq=False)
class LoggingProblem:
    """What the variance of an estimated difference depends on besides the policy.

    Attributes:
        offsets: of the queries.
        theta: P(examined | rank), for the longest query.
        k: the number of results on a page.
        attraction: P(click | examined) of each document, the guess.
        values: lambda of ranker A less lambda of ranker B for each document.
        production: scores; documents that do not matter are shown in their order.
        threads: how many to use.
    """

    offsets: IntArray
    theta: FloatArray
    k: int
    attraction: FloatArray
    values: FloatArray
    production: FloatArray
    threads: int | None = None

    def variances(self, scores: FloatArray, seed: Any) -> FloatArray:
        """Var(Y | query) of Plackett-Luce with these scores; inf where a document that matters is never examined."""
        policy = PlackettLuce(self.k)
        source = PageSource.make(policy, scores, self.offsets, self.threads)
        rho = exact_propensity(policy, scores, self.offsets, self.theta, self.threads)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            values = np.where(self.values == 0.0, 0.0, self.values / rho)
            found = session_moments(source, rho, self.theta, self.attraction, values[:, None], seed).variances[:, 0]
        return np.where(np.isfinite(found), found, np.inf)


def optimal_scores(
    problem: LoggingProblem, settings: LogOpt, starts: Sequence[FloatArray] = (), seed: int | np.random.Generator = 0
) -> FloatArray:
    """Logging scores for `PlackettLuce(k)` at temperature 1 that minimise Var(Y | query) of each query.

        Y = sum over the page of click * (lambda_A - lambda_B) / rho

    Only documents that the two rankers value differently matter. Adam minimises E[Y^2 | query] over their logits, with
    exact propensities and gradients from drawn pages, from logits log(|lambda_A - lambda_B| sqrt(attraction)), which
    would be best if propensities could be chosen freely. For each query the best of the result and the `starts` is
    kept, by variances from the same drawn pages that a plan with this seed takes.

    Arguments:
        problem: what the variance depends on.
        settings: of the optimisation.
        starts: scores of other Plackett-Luce policies at temperature 1, none of which the result is worse than.
        seed: of drawn pages.

    >>> theta, values = np.array([1.0, 0.5, 0.0]), np.array([0.5, 0.0, -0.5])
    >>> problem = LoggingProblem(np.array([0, 3]), theta, 2, np.ones(3), values, np.zeros(3))
    >>> scores = optimal_scores(problem, LogOpt())  # one page with both documents that matter, in either order
    >>> bool(scores[1] < scores[0] - 5.0), bool(abs(scores[0] - scores[2]) < 1.0)
    (True, True)
    """
    key = seed_key(seed)
    best = _with_others(problem, *_optimised(problem, settings, derive_key(key, 1)))
    least = problem.variances(best, key)
    query = query_of_rows(problem.offsets)
    for start in starts:
        found = problem.variances(start, key)
        better = found < least
        best = np.where(better[query], start, best)
        least = np.minimum(least, found)
    return best


def _optimised(problem: LoggingProblem, settings: LogOpt, key: Any) -> tuple[IntArray, FloatArray]:
    """The documents that matter, and their logits: 0 for the highest of each query."""
    rows = np.flatnonzero(problem.values)
    query = query_of_rows(problem.offsets)[rows]
    asked, bounds = np.unique(query, return_index=True)
    if not len(asked):
        return rows, np.empty(0)
    offsets = np.append(bounds, len(rows))
    values, guess = np.ascontiguousarray(problem.values[rows]), problem.attraction[rows]
    mean = np.add.reduceat(guess, bounds) / np.diff(offsets)
    guess = (1.0 - settings.exploration) * guess + settings.exploration * np.repeat(mean, np.diff(offsets))
    theta = np.ascontiguousarray(problem.theta[: min(problem.k, len(problem.theta))])
    with np.errstate(divide="ignore"):
        logits = _bounded(np.log(np.abs(values) * np.sqrt(guess)), offsets)
    gradient, rho, moments = np.empty(len(rows)), np.empty(len(rows)), np.empty(len(asked))
    first, second, averaged = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
    tail = max(1, round(_AVERAGED * settings.steps))
    for step in range(settings.steps):
        for_queries(plackett_luce_propensities, offsets, logits, theta, rho, threads=problem.threads)
        args = (logits, rho, theta, guess, values, derive_key(key, step), settings.pages, gradient, moments)
        for_queries(variance_gradients, offsets, *args, threads=problem.threads)
        # each query in units of its own moment, so that one rate serves all
        scaled = gradient / np.repeat(np.where(moments > 0.0, moments, 1.0), np.diff(offsets))
        first += (1.0 - _MEMORY) * (scaled - first)
        second += (1.0 - _MEMORY_OF_SQUARES) * (scaled**2 - second)
        rate = _LAST_RATE + (_RATE - _LAST_RATE) * 0.5 * (1.0 + math.cos(math.pi * step / settings.steps))
        mean_step = first / (1.0 - _MEMORY ** (step + 1))
        size = np.sqrt(second / (1.0 - _MEMORY_OF_SQUARES ** (step + 1)))
        logits = _bounded(logits - rate * mean_step / (size + 1e-9), offsets)
        if step >= settings.steps - tail:
            averaged += logits / tail
    return rows, averaged


def _bounded(logits: FloatArray, offsets: IntArray) -> FloatArray:
    """Logits from 0 for the highest of each query down to `-_LIMIT`."""
    highest: FloatArray = np.repeat(np.maximum.reduceat(logits, offsets[:-1]), np.diff(offsets))
    finite = np.where(np.isfinite(highest), highest, 0.0)
    found: FloatArray = np.maximum(logits - finite, -_LIMIT)
    return np.where(np.isfinite(highest), found, 0.0)


def _with_others(problem: LoggingProblem, rows: IntArray, logits: FloatArray) -> FloatArray:
    """Scores of all documents: those that do not matter come below the others, in the order of production.

    No more than fill a page are in order; the others are equal, so that propensities stay far from the smallest number.
    """
    matters = np.zeros(len(problem.values), np.bool_)
    matters[rows] = True
    query = query_of_rows(problem.offsets)
    order = np.lexsort((np.arange(len(query)), -problem.production, matters, query))  # the others first
    place = np.empty(len(query), np.int64)
    place[order] = place_in_query(problem.offsets)
    scores: FloatArray = np.multiply(-_GAP, np.minimum(place, problem.k) + 1.0) - _LIMIT
    scores[rows] = logits
    return scores

"""EM for the position-based model with one free relevance for each query and document.

    P(click | document d, rank k) = theta_k gamma_d

    E:  of an impression without a click  P(examined) = theta (1 - gamma) / (1 - theta gamma)
                                          P(relevant) = gamma (1 - theta) / (1 - theta gamma);  of a click both are 1
    M:  theta_k = mean of P(examined) over the impressions at rank k
        gamma_d = mean of P(relevant) over the impressions of d

(Wang et al., WSDM 2018, section 4.1; their regression in place of gamma is in `regression`.) Impressions of a cell
share their posterior, so a step costs one pass over cells. The log-likelihood is concave in (log theta, log gamma), so
all its maxima are one, and steps may be extrapolated (SQUAREM, Varadhan and Roland, 2008) as long as it rises.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from counterrank.clicks.position_bias import _em
from counterrank.clicks.position_bias.compared import Seen
from counterrank.clicks.position_bias.fit import Fit
from counterrank.common.checks import FloatArray

MOST_STEPS = 15_000
_CLOSE = 1e-7  # a curve that moves no more than this in a step has its first four digits

Step = Callable[[FloatArray], tuple[FloatArray, float]]


def em(table: Seen) -> Fit:
    """The curve relative to rank 1, and what its intervals need."""
    n_ranks = table.n_ranks

    def step(logs: FloatArray) -> tuple[FloatArray, float]:
        state, new = np.exp(logs), np.empty_like(logs)
        new[:n_ranks], value = _em.em_step(*table.cells(), state[:n_ranks], state[n_ranks:], new[n_ranks:])
        return np.log(new), value

    logs, steps = accelerate(step, np.full(n_ranks + table.n_docs, np.log(0.5)), n_ranks, bounded=None)
    theta, gamma = np.exp(logs[:n_ranks]), np.exp(logs[n_ranks:])
    information, over_queries, said = _em.em_scores(table.query_starts, *table.cells(), theta, gamma)
    # of a likelihood that is right the scores vary as much as the information says
    return Fit(theta / theta[0], information, over_queries, information, said, steps)


def accelerate(step: Step, state: FloatArray, n_ranks: int, bounded: int | None) -> tuple[FloatArray, int]:
    """Where `step` leads to, and the number of steps; `step` returns the next state and the value of the present one.

    The first `n_ranks` entries are log theta; the first `bounded` (None: all) are at most 0, logarithms of
    probabilities. Two steps give a direction and how fast it fades; the extrapolated point is kept if its value is no
    lower than that of the second step's beginning.
    """
    for count in range(0, MOST_STEPS, 3):
        first, _ = step(state)
        second, value = step(first)
        if np.abs(second[:n_ranks] - first[:n_ranks]).max() < _CLOSE:
            return second, count + 2
        r, v = first - state, second - 2.0 * first + state
        bend = float(np.sqrt(v @ v))
        length = float(np.sqrt(r @ r)) / bend if bend > 0.0 else 1.0
        if length <= 1.0:
            state = second
            continue
        jump = state + 2.0 * length * r + length**2 * v
        jump[:bounded] = np.minimum(jump[:bounded], 0.0)
        landed, reached = step(jump)
        state = landed if reached >= value else second
    return state, MOST_STEPS

"""AllPairs: intervention harvesting from documents that were shown at several ranks.

Under the position-based model P(click | document d, rank k) = theta_k gamma_d. For a pair of ranks k, l take the
documents shown at both (the interventional set of Agarwal et al., WSDM 2019), and weight the clicks so that both ranks
have the same exposure h = n_k n_l / (n_k + n_l) of each document, n being its impressions and c its clicks:

    A_kl = sum_d h_d c_dk / n_dk = sum_d c_dk n_dl / (n_dk + n_dl)         E[A_kl] = theta_k sum_d h_d gamma_d

so that A_kl / A_lk estimates theta_k / theta_l whatever the relevances. (It is the risk ratio of Mantel and Haenszel
with a stratum for each document, which needs no stratum to be large.) All pairs are combined by the likelihood of a
click falling on k rather than on l at equal exposure, theta_k / (theta_k + theta_l), a Bradley-Terry model:

    maximise  sum_{k != l} A_kl log(theta_k / (theta_k + theta_l))         with theta_1 = 1

It is concave in log theta, with one maximum where clicks lead from every rank to every other. Its score,

    S_k = sum_l [A_kl theta_l - A_lk theta_k] / (theta_k + theta_l)

has expectation 0 at the true curve for any numbers of impressions, even with few per document.
"""

from __future__ import annotations

import numpy as np

from counterrank.clicks.position_bias import _all_pairs
from counterrank.clicks.position_bias.compared import Seen
from counterrank.clicks.position_bias.fit import Fit
from counterrank.common.checks import FloatArray

_STEPS = 200
_CLOSE = 1e-12


def all_pairs(table: Seen) -> Fit:
    """The curve relative to rank 1, and what its intervals need."""
    pairs = _all_pairs.pair_clicks(*table.cells(), table.n_ranks)
    theta = np.exp(bradley_terry(pairs))
    over_queries, over_clicks, said = _all_pairs.pair_scores(table.query_starts, *table.cells(), theta)
    return Fit(theta, _information(pairs, theta), over_queries, over_clicks, said)


def bradley_terry(wins: FloatArray) -> FloatArray:
    """log theta of each rank, 0 for the first: the maximum of sum A_kl log(theta_k / (theta_k + theta_l)), by Newton.

    >>> np.exp(bradley_terry(np.array([[0.0, 6.0], [3.0, 0.0]]))).round(12).tolist()
    [1.0, 0.5]
    """
    beta = np.zeros(len(wins))
    value = _likelihood(wins, beta)
    for _ in range(_STEPS):
        theta = np.exp(beta)
        score = (wins - (wins + wins.T) * _share(theta)).sum(axis=1)
        step = np.zeros(len(wins))
        step[1:] = np.linalg.solve(_information(wins, theta)[1:, 1:], score[1:])
        size = 1.0
        least = value - 1e-12 * abs(value)  # below it rounding alone decides
        while (new := _likelihood(wins, beta + size * step)) < least and size > 1e-10:
            size /= 2.0
        beta, value = beta + size * step, new
        if np.abs(step).max() < _CLOSE:
            break
    return beta


def _share(theta: FloatArray) -> FloatArray:
    share: FloatArray = theta[:, None] / (theta[:, None] + theta[None, :])
    np.fill_diagonal(share, 0.0)
    return share


def _likelihood(wins: FloatArray, beta: FloatArray) -> float:
    return -float((wins * np.logaddexp(0.0, beta[None, :] - beta[:, None])).sum())


def _information(wins: FloatArray, theta: FloatArray) -> FloatArray:
    """Minus the second derivative for log theta: -(A_kl + A_lk) theta_k theta_l / (theta_k + theta_l)^2 for k != l."""
    share = _share(theta)
    between = (wins + wins.T) * share * share.T
    information: FloatArray = np.diag(between.sum(axis=1)) - between
    return information

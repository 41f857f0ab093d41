"""What clicks can tell about users: the Fisher information on alpha and beta, with relevance unknown.

    P(click | document d, rank j) = alpha_j r_d + beta_j

A position-based model has beta = 0 and r_d = P(click | examined).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from counterrank.common.checks import FloatArray

MODELS = ("position-based", "affine")
_BLOCK = 1 << 16  # documents at a time, to bound memory
_NEAR = 1e-6  # a click probability nearer to 0 or 1 would carry information without limit
_RANK = 1e-10  # eigenvalues below this share of the information with known relevance are rounding


@dataclass(frozen=True, eq=False)
class UserInformation:
    """Fisher information of a log on the parameters of a user model, relevance profiled out.

    Attributes:
        model: "position-based", parameters theta_1 to theta_k, or "affine", alpha_1 to alpha_k, then beta_1 to beta_k.
        alpha: by rank, where the information was computed.
        matrix: the information.
        known: its diagonal if relevance were known, which gives the scale of `matrix`.
    """

    model: str
    alpha: FloatArray
    matrix: FloatArray
    known: FloatArray

    @property
    def rank(self) -> int:
        """How many combinations of the parameters the log tells something about."""
        values = self._decomposed()[0]
        return int(np.count_nonzero(values > _RANK))

    @property
    def identified(self) -> bool:
        """Whether all parameters are identified, but for the scale of relevance, and its origin in an affine model."""
        k = len(self.alpha)
        return self.rank >= (2 * k - 2 if self.model == "affine" else k - 1)

    def ratio_errors(self) -> FloatArray:
        """The relative standard error of alpha_j / alpha_1 for each rank; infinite where they are not identified.

        The square root of g' I^+ g with g the gradient of log(alpha_j / alpha_1), which does not depend on the gauge.
        """
        k = len(self.alpha)
        if not self.identified or (self.alpha <= 0.0).any():
            return np.where(np.arange(k) == 0, 0.0, math.inf)
        values, vectors = self._decomposed()
        gradient = np.zeros((len(self.matrix), k))
        gradient[:k] = np.diag(1.0 / self.alpha)
        gradient[0] -= 1.0 / self.alpha[0]
        sees = values > _RANK
        parts = vectors[:, sees].T @ (gradient / self._scale()[:, None])
        found: FloatArray = np.sqrt((parts**2 / values[sees, None]).sum(axis=0))
        return found

    def _scale(self) -> FloatArray:
        return np.sqrt(np.where(self.known > 0.0, self.known, 1.0))

    def _decomposed(self) -> tuple[FloatArray, FloatArray]:
        scale = self._scale()
        values, vectors = np.linalg.eigh(self.matrix / np.outer(scale, scale))
        return values, vectors


def user_information(
    shown: FloatArray, relevance: FloatArray, alpha: FloatArray, beta: FloatArray | None = None, model: str = "affine"
) -> UserInformation:
    """The expected information of impressions of documents at ranks.

        I = sum_d (A_d - b_d b_d' / c_d),   A_d = sum_j w_dj v_dj v_dj',   b_d = sum_j w_dj alpha_j v_dj,
            c_d = sum_j w_dj alpha_j^2,   w_dj = f(n_d) shown_dj / (P_dj (1 - P_dj)),   v_dj = (r_d e_j, e_j)

    e_j is the unit vector of rank j; a position-based model has v_dj = r_d e_j. n_d is the sum of shown_dj over ranks,
    and f(n) = 1 - (1 - exp(-n)) / n the share of it that remains if one impression of each document that is shown at
    all (a Poisson number of times) is spent on its relevance. A document that is shown at one rank only adds nothing,
    and so do all documents of an affine model where their relevance is equal.

    Arguments:
        shown: expected impressions of each document (row) at each rank (column).
        relevance: r of each document, in the gauge of alpha and beta.
        alpha: by rank.
        beta: by rank; None for 0.
        model: "affine" or "position-based".

    >>> shown = np.array([[50.0, 50.0], [50.0, 50.0]])
    >>> two = user_information(shown, np.array([0.2, 0.8]), np.array([1.0, 0.5]))
    >>> two.identified, user_information(shown, np.array([0.5, 0.5]), np.array([1.0, 0.5])).identified
    (True, False)
    >>> fixed = user_information(np.diag([100.0, 100.0]), np.array([0.2, 0.8]), np.array([1.0, 0.5]))
    >>> fixed.rank, fixed.ratio_errors().tolist()
    (0, [0.0, inf])
    """
    k = len(alpha)
    size = 2 * k if model == "affine" else k
    base = np.zeros(k) if beta is None else beta
    matrix, known = np.zeros((size, size)), np.zeros(size)
    for begin in range(0, len(shown), _BLOCK):
        r = relevance[begin : begin + _BLOCK, None]
        p = np.clip(alpha * r + base, _NEAR, 1.0 - _NEAR)
        part = shown[begin : begin + _BLOCK]
        total = part.sum(axis=1, keepdims=True)
        left = 1.0 + np.divide(np.expm1(-total), total, out=np.full_like(total, -1.0), where=total > 0.0)
        weight = left * part / (p * (1.0 - p))
        mixed = weight * alpha  # b_d of beta; that of alpha has the factor r
        scale = (mixed * alpha).sum(axis=1, keepdims=True)
        scaled = mixed / np.sqrt(np.where(scale > 0.0, scale, 1.0))
        parts, sums = [scaled * r], [weight * r**2]
        if model == "affine":
            parts.append(scaled)
            sums.append(weight)
            cross = (weight * r).sum(axis=0)
            matrix[:k, k:] += np.diag(cross)
            matrix[k:, :k] += np.diag(cross)
        diagonal = np.concatenate([each.sum(axis=0) for each in sums])
        outer = np.concatenate(parts, axis=1)
        matrix += np.diag(diagonal) - outer.T @ outer
        known += diagonal
    return UserInformation(model, np.array(alpha, np.float64), matrix, known)

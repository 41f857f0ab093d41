"""Click models: how likely an examined document is clicked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.clicks.examination import check_examination
from counterrank.common.checks import FloatArray, as_array, check_choice, check_cutoff
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData
from counterrank.data.labels import exponential_gains, relevant_documents


@dataclass(frozen=True)
class ClickModel:
    """P(click | examined, document, rank) = other + (relevant - other) * attractiveness of the document.

        attractiveness = 1 if label >= relevance_threshold else 0       gain="binary"
        attractiveness = (2**label - 1) / (2**largest label - 1)        gain="graded"

    A number holds at every rank. A list gives one number for each rank, the last of them for all ranks below: then
    users trust high ranks, and policy-aware weights are biased by that; `estimators.affine` is not.

    Attributes:
        relevant: the probability for the most attractive documents; the paper's 1.0.
        other: the probability for the least attractive ones; the paper's 0.1.
        gain: "binary" or "graded".

    >>> ClickModel(relevant=[1.0, 0.8], other=0.1).by_rank(3)[1].tolist()
    [1.0, 0.8, 0.8]
    """

    relevant: float | Sequence[float] = 1.0
    other: float | Sequence[float] = 0.1
    gain: str = "binary"

    def __post_init__(self) -> None:
        check_choice(self.gain, ("binary", "graded"), "gain")
        for name in ("relevant", "other"):
            _check(getattr(self, name), name)

    def by_rank(self, n: int) -> tuple[FloatArray, FloatArray]:
        """`other` and `relevant` for the ranks 1 to n."""
        return _extended(self.other, n), _extended(self.relevant, n)

    def affine(self, exam: Any, k: int) -> tuple[list[float], list[float]]:
        """alpha and beta of P(click | attractiveness r, rank j) = alpha_j r + beta_j, for the ranks 1 to k.

            alpha_j = theta_j (relevant_j - other_j),      beta_j = theta_j other_j

        They are what `estimators.affine` takes.

        >>> alpha, beta = ClickModel(relevant=1.0, other=[0.5, 0.25]).affine([1.0, 0.5], k=2)
        >>> alpha, beta
        ([0.5, 0.375], [0.5, 0.125])
        """
        depth = check_cutoff(k)
        if depth is None:
            raise CounterrankError("k=None: expected the number of ranks to tell of")
        theta, (other, relevant) = check_examination(exam).curve(depth), self.by_rank(depth)
        return (theta * (relevant - other)).tolist(), (theta * other).tolist()

    def attractiveness(self, data: RankingData, relevance_threshold: float) -> FloatArray:
        """A number from 0 to 1 for each document."""
        if self.gain == "binary":
            return relevant_documents(data, relevance_threshold).astype(np.float64)
        gains = exponential_gains(data)
        scaled: FloatArray = gains / gains.max()
        return scaled


def trust_bias(k: int = 10, strength: float = 1.0, relevant: float = 1.0, other: float = 0.1) -> ClickModel:
    """A click model in which users trust high ranks: irrelevant documents there are clicked more often.

        P(click | examined, irrelevant, rank) = other + strength * (relevant - other) * 0.65 / (rank + 1) ** 0.5

    capped at `relevant`. It bends what clicks say by rank, which inverse propensities of examination do not mend.

    >>> trust_bias(k=3, strength=0.5).by_rank(3)[0].round(3).tolist()
    [0.307, 0.269, 0.246]
    """
    for name, value in (("relevant", relevant), ("other", other)):
        _check(value, name)
    if isinstance(strength, bool) or not isinstance(strength, int | float | np.number) or not strength >= 0.0:
        raise CounterrankError(f"strength={strength!r}: expected a number of at least 0")
    ranks = np.arange(1.0, (check_cutoff(k) or 1) + 1.0)
    raised = np.minimum(other + strength * (relevant - other) * 0.65 / np.sqrt(ranks + 1.0), relevant)
    return ClickModel(relevant=relevant, other=raised.tolist())


def _check(value: Any, name: str) -> None:
    given = as_array(value, name)
    if given.ndim > 1 or not given.size or given.dtype.kind not in "fiu":
        raise CounterrankError(f"{name}={value!r}: expected a probability, or one for each rank")
    if not ((given >= 0.0) & (given <= 1.0)).all():
        raise CounterrankError(f"{name}={value!r}: expected probabilities from 0 to 1")


def _extended(value: Any, n: int) -> FloatArray:
    given = np.atleast_1d(np.asarray(value, dtype=np.float64))[:n]
    return np.concatenate((given, np.full(n - len(given), given[-1])))

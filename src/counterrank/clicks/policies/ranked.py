"""Policies that change one place of the ranking by scores, or none."""

from __future__ import annotations

from dataclasses import dataclass

from counterrank.clicks.policies import _plan
from counterrank.clicks.policies.base import Component, Policy, check_positive, check_share
from counterrank.common.checks import check_cutoff


def _cutoff(k: int | None) -> int:
    return _plan.NO_CUTOFF if k is None else min(int(k), _plan.NO_CUTOFF)


@dataclass(frozen=True)
class Deterministic(Policy):
    """The top k, always.

    >>> Deterministic(k=2).sample([1.0, 3.0, 2.0], [0, 3])[0]
    array([1, 2])
    """

    k: int | None = None

    def __post_init__(self) -> None:
        check_cutoff(self.k)

    def components(self) -> list[Component]:
        """One part: nothing is replaced."""
        return [Component(1.0, _plan.LAST, _cutoff(self.k), 0.0)]


@dataclass(frozen=True)
class ReplaceLast(Policy):
    """The paper's: the top k-1, then one drawn uniformly from all the others.

        P(examined) = theta_rank                  for ranks below k
                      theta_k / (n - k + 1)       for the others

    >>> from counterrank.clicks.examination import inverse_rank
    >>> ReplaceLast(k=2).propensity([1.0, 3.0, 2.0], [0, 3], inverse_rank(k=2))
    array([0.25, 1.  , 0.25])
    """

    k: int | None = None

    def __post_init__(self) -> None:
        check_cutoff(self.k)

    def components(self) -> list[Component]:
        """One part: the last place is always drawn."""
        return [Component(1.0, _plan.LAST, _cutoff(self.k), 1.0)]


@dataclass(frozen=True)
class EpsilonGreedy(Policy):
    """With probability epsilon as `ReplaceLast`, else the top k.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> EpsilonGreedy(k=2, epsilon=0.5).propensity([1.0, 3.0, 2.0], [0, 3], inverse_rank(k=2))
    array([0.125, 1.   , 0.375])
    """

    k: int | None = None
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        check_cutoff(self.k)
        check_share(self.epsilon, "epsilon")

    def components(self) -> list[Component]:
        """One part: the last place is drawn with probability epsilon."""
        return [Component(1.0, _plan.LAST, _cutoff(self.k), float(self.epsilon))]


@dataclass(frozen=True)
class UniformInsert(Policy):
    """One document from outside the top k-1 at a uniform rank of 1 to k; the top k-1 keep their order around it.

        P(examined) = (k - i) / k theta_i + i / k theta_(i+1)        for rank i below k
                      mean of theta_1 to theta_k / (n - k + 1)       for the others
                      theta_rank                                     where n < k

    >>> from counterrank.clicks.examination import inverse_rank
    >>> UniformInsert(k=2).propensity([1.0, 3.0, 2.0], [0, 3], inverse_rank(k=2))
    array([0.375, 0.75 , 0.375])
    """

    k: int | None = None

    def __post_init__(self) -> None:
        check_cutoff(self.k)

    def components(self) -> list[Component]:
        """One part."""
        return [Component(1.0, _plan.INSERT, _cutoff(self.k))]


@dataclass(frozen=True)
class PlackettLuce(Policy):
    """Drawn without replacement, each time by the softmax of scores / temperature.

    Propensities are computed by a deterministic integral, not by sampling.

    >>> from counterrank.clicks.examination import inverse_rank
    >>> PlackettLuce(k=1).propensity([0.0, 0.0], [0, 2], inverse_rank(k=1)).round(6)
    array([0.5, 0.5])
    """

    k: int | None = None
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_cutoff(self.k)
        check_positive(self.temperature, "temperature")

    def components(self) -> list[Component]:
        """One part."""
        return [Component(1.0, _plan.PLACKETT_LUCE, _cutoff(self.k), float(self.temperature))]

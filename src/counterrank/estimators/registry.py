"""Estimators by the names the command and the experiments use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import check_choice
from counterrank.estimators.clips import clip_grid
from counterrank.estimators.views import rerank
from counterrank.estimators.weights import naive, policy_aware, policy_oblivious

ESTIMATORS = ("naive", "policy-oblivious", "rerank", "policy-aware")


def weigher(
    name: str, clicks: ClickCounts, exam: Examination | None = None, rho: ArrayLike | None = None
) -> Callable[..., Any]:
    """A function of `clip=` that makes weights of the clicks, or displayed sets for "rerank".

    Arguments:
        name: one of `ESTIMATORS`.
        clicks: what was shown and clicked.
        exam: how likely each rank is examined: for "policy-oblivious" and "rerank".
        rho: the propensity of each document: for "policy-aware"; None for those logged with the clicks.

    >>> import numpy as np
    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [9, 9], [4, 2]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([9]), docs, ranks, shown, clicked)
    >>> weigher("policy-oblivious", clicks, Examination([1.0, 0.5]))(clip=None).tolist()
    [4.0, 4.0]
    """
    check_choice(name, ESTIMATORS, "estimator")
    if name == "naive":
        return partial(naive, clicks)
    if name == "policy-aware":
        return partial(policy_aware, clicks, rho)
    estimator: Callable[..., Any] = rerank if name == "rerank" else policy_oblivious
    return partial(estimator, clicks, exam)


def clips_for(
    name: str, clicks: ClickCounts, exam: Examination | None = None, rho: ArrayLike | None = None, n: int = 6
) -> list[float | None]:
    """The clips to choose from with this estimator, see `clip_grid`; the naive one has nothing to clip.

    >>> import numpy as np
    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [9, 9], [4, 4]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([9]), docs, ranks, shown, clicked)
    >>> clips_for("policy-oblivious", clicks, Examination([1.0, 0.25]), n=2)
    [2.0, None]
    """
    check_choice(name, ESTIMATORS, "estimator")
    if name == "naive":
        return [None]
    return clip_grid(clicks, rho, n) if name == "policy-aware" else clip_grid(clicks, n=n, exam=exam)

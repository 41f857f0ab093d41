"""Click models for `benchmarks.clicklog`: fitted on some pages, evaluated on others.

All smooth in one way. A rate is (c + m r) / (n + m): clicks c out of exposure n, drawn to the rate r of the whole log
by m pseudo-impressions. Exposure is the number of impressions; in the position-based model an impression at rank k
counts theta_k, so that

    gamma_d = (c_d + m r) / (sum_k n_dk theta_k + m),     r = sum c / sum n theta,     P(click) = theta_k gamma_d

Each model has the m from one grid that predicts best on a third of the training pages.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# the method that gives the curve; of the others, what the rate belongs to
MODELS = {
    "one rate": "nothing",
    "rate by rank": "rank",
    "rate by document": "document",
    "position-based, all-pairs": "all-pairs",
    "position-based, em": "em",
}
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_LEAST = 1e-6


def log_likelihoods(name: str, log: Any, train: Any, test: Any, curve: Any, strength: float) -> Any:
    """Of each impression on the test pages; train and test are 0 or 1 for each page."""
    learned, tested = train[log.pages] > 0, test[log.pages] > 0
    exposure = np.ones(len(log.pages)) if curve is None else curve[log.ranks - 1]
    belongs = {"nothing": np.zeros_like(log.docs), "rank": log.ranks}.get(MODELS[name], log.docs)
    size = int(belongs.max()) + 1
    clicks = np.bincount(belongs[learned], log.clicked[learned], size)
    shown = np.bincount(belongs[learned], exposure[learned], size)
    rates = (clicks + strength * clicks.sum() / shown.sum()) / (shown + strength)
    p = np.clip(rates[belongs[tested]] * exposure[tested], _LEAST, 1.0 - _LEAST)
    return np.where(log.clicked[tested] > 0, np.log(p), np.log1p(-p))


def choose_strength(name: str, log: Any, train: Any, test: Any, curve: Any) -> float:
    """The number of pseudo-impressions that predicts the test pages best."""
    means = [log_likelihoods(name, log, train, test, curve, strength).mean() for strength in STRENGTHS]
    return STRENGTHS[int(np.argmax(means))]

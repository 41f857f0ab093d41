"""Learn rankers from the clicks of top-k result pages, without the biases those clicks carry.

Everything public is reached from here and loaded when first used, so that `import counterrank` costs next to nothing:

>>> import counterrank as cr
>>> data = cr.make_ranking_data("mslr", n_queries=50, seed=0)
>>> weights = cr.estimators.full_information(data, relevance_threshold=3)
>>> ranker = cr.Ranker(loss="lambdaloss-truncated", k=5, max_epochs=5).fit(data, weights)
>>> ranker.predict(data).shape == (data.n_docs,)
True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterrank import (
        clicks,
        data,
        estimators,
        evaluation,
        examination,
        export,
        losses,
        models,
        policies,
        simulation,
        torch,
        training,
    )
    from counterrank.clicks import ClickCounts, read_log
    from counterrank.common.errors import (
        CounterrankError,
        CoverageWarning,
        ExaminationWarning,
        LogWarning,
        RegroupedWarning,
    )
    from counterrank.data import (
        Fold,
        RankingData,
        make_fold,
        make_ranking_data,
        open_data,
        read_fold,
        read_letor,
        read_scores,
    )
    from counterrank.estimators import Evidence
    from counterrank.evaluation import InSampleWarning, IntervalWarning, select
    from counterrank.evaluation.click_rates import click_rates
    from counterrank.training import Member, Ranker, fit_from_clicks, fit_many, fit_ranker, promote, specialise

_HOMES = {
    "clicks": ("ClickCounts", "read_log"),
    "common.errors": ("CounterrankError", "CoverageWarning", "ExaminationWarning", "LogWarning", "RegroupedWarning"),
    "data": (
        "Fold",
        "RankingData",
        "make_fold",
        "make_ranking_data",
        "open_data",
        "read_fold",
        "read_letor",
        "read_scores",
    ),
    "estimators": ("Evidence",),
    "evaluation": ("InSampleWarning", "IntervalWarning", "select"),
    "evaluation.click_rates": ("click_rates",),
    "training": ("Member", "Ranker", "fit_from_clicks", "fit_many", "fit_ranker", "promote", "specialise"),
}
_NAMES = {name: f"counterrank.{home}" for home, names in _HOMES.items() for name in names}

__all__ = [
    "ClickCounts",
    "CounterrankError",
    "CoverageWarning",
    "Evidence",
    "ExaminationWarning",
    "Fold",
    "InSampleWarning",
    "IntervalWarning",
    "LogWarning",
    "Member",
    "Ranker",
    "RankingData",
    "RegroupedWarning",
    "__version__",
    "click_rates",
    "clicks",
    "data",
    "estimators",
    "evaluation",
    "examination",
    "export",
    "fit_from_clicks",
    "fit_many",
    "fit_ranker",
    "losses",
    "make_fold",
    "make_ranking_data",
    "models",
    "open_data",
    "policies",
    "promote",
    "read_fold",
    "read_letor",
    "read_log",
    "read_scores",
    "select",
    "simulation",
    "specialise",
    "torch",
    "training",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from counterrank.common.errors import installed_version

        value: Any = installed_version()
    elif name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    elif name in __all__:
        value = importlib.import_module(f"counterrank.{name}")
    else:
        raise AttributeError(f"module 'counterrank' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""From an experiment, a preset and single choices to settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterrank.common.checks import check_choice
from counterrank.common.errors import CounterrankError
from counterrank.experiments.reproduction.settings import FEW_CLICKS, Settings, read_preset

EXPERIMENTS = ("paper", "few-clicks")

# `--quick`: a reduced grid, over data of a size that trains in moments
QUICK: dict[str, Any] = {
    "runs": 3,
    "ks": (1, 2, 5, 20),
    "clicks_by_k": 10**6,
    "clicks": (10**3, 10**5, 10**6),
    "policies": (),
    "max_epochs": 30,
    "patience": 10,
    "clips": 3,
    "queries": 300,
}
_QUICK_FEW: dict[str, Any] = {
    "runs": 3,
    "sessions": (500, 2000, 10**4, 6 * 10**4),
    "max_epochs": 30,
    "patience": 10,
    "queries": 300,
}


def choose_settings(
    experiment: str = "paper",
    preset: str | None = None,
    quick: bool = False,
    given: Mapping[str, Any] | None = None,
) -> Settings:
    """Defaults, then the preset, then the quick grid, then what was given.

    Arguments:
        experiment: "paper" for figures 1 to 4, "few-clicks" for figure 5, whose defaults are the preset of that name.
        preset: see `read_preset`.
        quick: whether to take the reduced grid.
        given: settings that win over all others.

    >>> choose_settings("few-clicks", "few-clicks-ohsumed").targets[2000]
    0.62
    """
    is_few = check_choice(experiment, EXPERIMENTS, "experiment") == "few-clicks"
    layers: list[Mapping[str, Any]] = [
        read_preset("few-clicks") if is_few else {},
        {} if preset is None else read_preset(preset),
        (_QUICK_FEW if is_few else QUICK) if quick else {},
        given or {},
    ]
    settings = Settings(**{name: value for layer in layers for name, value in layer.items()})
    if (settings.figures == (FEW_CLICKS,)) != is_few:
        right = EXPERIMENTS[not is_few]
        raise CounterrankError(
            f"figures={','.join(map(str, settings.figures))}: those of {right}; expected counterrank reproduce {right}"
        )
    return settings

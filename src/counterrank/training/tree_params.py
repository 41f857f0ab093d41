"""The settings of LightGBM that a ranker of boosted trees takes from the user, and those it answers for itself."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from counterrank.common.errors import CounterrankError
from counterrank.training.task import Settings

DEFAULT_LEARNING_RATE = 0.1

# Settings a user must not pass on, by LightGBM's main name for them, and what to do instead.
_OWNED = {
    "objective": "it is loss= (--loss)",
    "num_class": "a ranker has one score",
    "num_iterations": "the number of rounds is max_epochs= (--max-epochs)",
    "learning_rate": "it is learning_rate= (--learning-rate)",
    "early_stopping_round": "it is patience= (--patience), with validation data",
    "early_stopping_min_delta": "it is tolerance=",
    "first_metric_only": "what is watched is metric= (--metric)",
    "metric": "what is watched is metric= (--metric)",
    "num_threads": "it is threads= (--threads)",
    "seed": "it is seed= (--seed)",
    "deterministic": "one seed gives one result here in any case",
    "verbosity": "training is silent but for its progress bar",
    "data": "the data are given to fit",
    "valid": "validation data are given to fit",
    "input_model": "training starts from nothing; Ranker.load reads a model",
    "output_model": "Ranker.save writes a model",
    "task": "fit trains and predict predicts",
    "config": "give the settings themselves",
    "use_quantized_grad": "with it trees depend on the number of threads",
    "boost_from_average": "scores start at 0",
    "lambdarank_truncation_level": "the cutoff is k= (--k)",
    "lambdarank_norm": "it is of LightGBM's own objective",
    "label_gain": "gains are in the weights",
    "sigmoid": "it is of LightGBM's own objective",
    "eval_at": "what is watched is metric= (--metric)",
    "label_column": "weights are given to fit",
    "weight_column": "weights are given to fit",
    "group_column": "queries are given to fit",
    "ignore_column": "leave the column out of the data",
    "num_machines": "training is on one machine",
    "machines": "training is on one machine",
    "tree_learner": "training is on one machine",
}
_BOOSTING = ("gbdt", "gbrt", "goss")


def tree_params(settings: Settings, aliases: Mapping[str, list[str]]) -> dict[str, Any]:
    """All settings for LightGBM: the user's, checked, and ours.

    Arguments:
        settings: with the user's own in `params`.
        aliases: every name LightGBM knows, with its other names.
    """
    main = {other: name for name, others in aliases.items() for other in (name, *others)}
    chosen: dict[str, Any] = {}
    for given, value in settings.params.items():
        name = main.get(str(given))
        if name is None:
            close = get_close_matches(str(given), main, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise CounterrankError(f"params: LightGBM has no setting {given!r}{hint}")
        if name in _OWNED:
            raise CounterrankError(f"params: {given} is not passed on; {_OWNED[name]}")
        if name in chosen:
            raise CounterrankError(f"params: {given} is given twice, under two names; expected one")
        if name == "boosting" and value not in _BOOSTING:
            raise CounterrankError(
                f"params: {given}={value!r} changes trees of earlier rounds, so that no best round can be kept; "
                f"expected one of {', '.join(_BOOSTING)}"
            )
        chosen[name] = value
    return {
        **chosen,
        "objective": "none",
        "metric": "none",
        "boost_from_average": False,
        "learning_rate": settings.learning_rate or DEFAULT_LEARNING_RATE,
        "num_threads": settings.threads,
        "seed": settings.entropy % 2**31,
        "deterministic": True,
        "verbosity": -1,
    }

"""Estimators as figure 5 names them: a kind, and what it may be told, such as "doubly-robust:tau=0.03"."""

from __future__ import annotations

from typing import NamedTuple

from counterrank.common.errors import CounterrankError
from counterrank.experiments.reproduction.clip_rules import check_clip_rule

# those that weigh clicks alone, which are trained as in the paper, and what each kind may be told
_WEIGHING = {"policy-aware": "clip", "policy-oblivious": "clip", "naive": ""}
_PREDICTING = {"auto": "", "direct": "", "doubly-robust": "tau", "shrinkage": "strength"}
KINDS = {**_PREDICTING, **_WEIGHING}
_FORMS = [f"{kind}:{option}=..." if option else kind for kind, option in KINDS.items()]


class Recipe(NamedTuple):
    """An estimator, and what it was told.

    Attributes:
        text: as it is written; equal estimators are written alike.
        kind: its name.
        tau: of "doubly-robust"; None for its own choice.
        strength: of "shrinkage"; None for its own choice.
        clip: of those that weigh clicks alone: grid, none or a number; None for the experiment's.
    """

    text: str
    kind: str
    tau: float | None = None
    strength: float | None = None
    clip: str | None = None

    @property
    def predicts(self) -> bool:
        """Whether a model of relevance may take part, so that it is learned by `fit_from_clicks`."""
        return self.kind in _PREDICTING


def parse_recipe(text: str) -> Recipe:
    """An estimator from its text.

    >>> parse_recipe("doubly-robust:tau=0.030")
    Recipe(text='doubly-robust:tau=0.03', kind='doubly-robust', tau=0.03, strength=None, clip=None)
    >>> parse_recipe("policy-aware:clip=grid").clip
    'grid'
    """
    kind, colon, rest = text.strip().partition(":")
    option, equals, value = rest.partition("=")
    if kind not in KINDS or (colon and not (equals and option and option == KINDS[kind])):
        raise CounterrankError(f"estimators: {text!r}; expected some of {', '.join(_FORMS)}")
    if not colon:
        return Recipe(kind, kind)
    if option == "clip":
        rule = value.strip() if value.strip() in ("grid", "none") else _number(text, value, 0.0, float("inf"))
        return Recipe(f"{kind}:clip={rule}", kind, clip=check_clip_rule(str(rule)))
    number = _number(text, value, 0.0, 1.0 if option == "tau" else 1e300)
    told = float(number)
    tau, strength = (told, None) if option == "tau" else (None, told)
    return Recipe(f"{kind}:{option}={number}", kind, tau, strength)


def _number(text: str, value: str, least: float, most: float) -> str:
    """The number as it is written the shortest way."""
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise CounterrankError(f"estimators: {text!r}; expected a number from {least:g} to {most:g}, not {value!r}")
    return f"{number:.15g}"

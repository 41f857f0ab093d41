"""Estimators as figure 5 names them: a kind, and what it may be told, such as "doubly-robust:tau=0.03"."""

from __future__ import annotations

from typing import NamedTuple

from counterrank.common.errors import CounterrankError
from counterrank.experiments.reproduction.clip_rules import check_clip_rule

# Those that weigh clicks alone, which are trained as in the paper, and what each kind may be told. All are stopped by
# the validation part, but for "auto" and those that are told a number of folds: these learn from both parts.
_WEIGHING = {"policy-aware": ("clip", "folds"), "policy-oblivious": ("clip",), "naive": ()}
_PREDICTING = {"auto": (), "direct": ("folds",), "doubly-robust": ("tau", "folds"), "shrinkage": ("strength", "folds")}
KINDS: dict[str, tuple[str, ...]] = {**_PREDICTING, **_WEIGHING}
_FORMS = [f"{kind}:{','.join(f'{name}=...' for name in names)}" if names else kind for kind, names in KINDS.items()]
_MOST = {"tau": 1.0, "strength": 1e300, "folds": 100.0, "clip": float("inf")}


class Recipe(NamedTuple):
    """An estimator, and what it was told.

    Attributes:
        text: as it is written; equal estimators are written alike.
        kind: its name.
        tau: of "doubly-robust"; None for its default.
        strength: of "shrinkage"; None for its own choice.
        clip: of those that weigh clicks alone: grid, none or a number; None for the experiment's.
        folds: over how many folds of all queries the mean is taken; None to stop by the validation part.
    """

    text: str
    kind: str
    tau: float | None = None
    strength: float | None = None
    clip: str | None = None
    folds: int | None = None

    @property
    def is_cross_fitted(self) -> bool:
        """Whether it is learned by `fit_from_clicks`, with a model of relevance or over folds."""
        return self.kind in _PREDICTING or self.folds is not None


def parse_recipe(text: str) -> Recipe:
    """An estimator from its text.

    >>> parse_recipe("doubly-robust:tau=0.030")
    Recipe(text='doubly-robust:tau=0.03', kind='doubly-robust', tau=0.03, strength=None, clip=None, folds=None)
    >>> parse_recipe("policy-aware:clip=grid").clip, parse_recipe("shrinkage:folds=5,strength=2").text
    ('grid', 'shrinkage:strength=2,folds=5')
    """
    kind, colon, rest = text.strip().partition(":")
    told: dict[str, str] = {}
    for item in rest.split(",") if colon else []:
        option, equals, value = (word.strip() for word in item.partition("="))
        if kind not in KINDS or not equals or option not in KINDS[kind] or option in told:
            raise _unknown(text)
        told[option] = value if option == "clip" and value in ("grid", "none") else _number(text, option, value)
    if kind not in KINDS:
        raise _unknown(text)
    shown = ",".join(f"{option}={told[option]}" for option in KINDS[kind] if option in told)
    clip = told.get("clip")
    if "folds" in told and clip in ("grid", "none"):
        raise CounterrankError(f"estimators: {text!r}; expected a number as clip beside folds")
    return Recipe(
        f"{kind}:{shown}" if shown else kind,
        kind,
        float(told["tau"]) if "tau" in told else None,
        float(told["strength"]) if "strength" in told else None,
        None if clip is None else check_clip_rule(clip),
        int(told["folds"]) if "folds" in told else None,
    )


def _unknown(text: str) -> CounterrankError:
    return CounterrankError(f"estimators: {text!r}; expected some of {', '.join(_FORMS)}")


def _number(text: str, option: str, value: str) -> str:
    """The number as it is written the shortest way."""
    least, most = 2.0 if option == "folds" else 0.0, _MOST[option]
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not least <= number <= most or (option == "folds" and number % 1.0):
        kind = "a whole number" if option == "folds" else "a number"
        raise CounterrankError(f"estimators: {text!r}; expected {kind} from {least:g} to {most:g}, not {value!r}")
    return f"{number:.15g}"

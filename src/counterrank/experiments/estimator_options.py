"""Options of estimators as texts: "doubly-robust:tau=0.03" of figure 5, and how importance weights are clipped."""

from __future__ import annotations

from typing import Any, NamedTuple

from counterrank.common.errors import CounterrankError
from counterrank.estimators import Evidence, clip_schedule
from counterrank.estimators.registry import named_estimator

# Those that weigh clicks alone, which are trained as in the paper, and the hyperparameters of each kind. All stop early
# by the validation part, but for "auto" and those with a number of folds: these are cross-fitted on both parts.
_WEIGHING = {"policy-aware": ("clip", "folds"), "policy-oblivious": ("clip",), "naive": ()}
_PREDICTING = {"auto": (), "direct": ("folds",), "doubly-robust": ("tau", "folds"), "shrinkage": ("strength", "folds")}
KINDS: dict[str, tuple[str, ...]] = {**_PREDICTING, **_WEIGHING}
_FORMS = [f"{kind}:{','.join(f'{name}=...' for name in names)}" if names else kind for kind, names in KINDS.items()]
_MOST = {"tau": 1.0, "strength": 1e300, "folds": 100.0, "clip": float("inf")}


class EstimatorOption(NamedTuple):
    """An estimator with its hyperparameters.

    Attributes:
        text: as it is written; equal estimators are written alike.
        kind: its name.
        tau: of "doubly-robust"; None for its default.
        strength: of "shrinkage"; None for its own choice.
        clip: of those that weigh clicks alone: grid, none or a number; None for the experiment's.
        folds: cross-validation folds over all queries, whose rankers are averaged; None to stop early by the
            validation part.
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


def parse_estimator(text: str) -> EstimatorOption:
    """An estimator from its text.

    >>> parse_estimator("doubly-robust:tau=0.030")
    EstimatorOption(text='doubly-robust:tau=0.03', kind='doubly-robust', tau=0.03, strength=None, clip=None, folds=None)
    >>> parse_estimator("policy-aware:clip=grid").clip, parse_estimator("shrinkage:folds=5,strength=2").text
    ('grid', 'shrinkage:strength=2,folds=5')
    """
    kind, colon, rest = text.strip().partition(":")
    given: dict[str, str] = {}
    for item in rest.split(",") if colon else []:
        option, equals, value = (word.strip() for word in item.partition("="))
        if kind not in KINDS or not equals or option not in KINDS[kind] or option in given:
            raise _unknown(text)
        given[option] = value if option == "clip" and value in ("grid", "none") else _number(text, option, value)
    if kind not in KINDS:
        raise _unknown(text)
    shown = ",".join(f"{option}={given[option]}" for option in KINDS[kind] if option in given)
    clip = given.get("clip")
    if "folds" in given and clip in ("grid", "none"):
        raise CounterrankError(f"estimators: {text!r}; expected a number as clip together with folds")
    return EstimatorOption(
        f"{kind}:{shown}" if shown else kind,
        kind,
        float(given["tau"]) if "tau" in given else None,
        float(given["strength"]) if "strength" in given else None,
        None if clip is None else check_clip_rule(clip),
        int(given["folds"]) if "folds" in given else None,
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


def check_clip_rule(rule: Any) -> str:
    """The rule itself, if it is one.

    >>> check_clip_rule("schedule:a=-57,b=86")
    'schedule:a=-57,b=86'
    """
    if not isinstance(rule, str):
        raise CounterrankError(f"clip={rule!r}: expected a text, such as '100'")
    if rule not in ("grid", "none"):
        _fixed_clip(rule, 10**12)  # a schedule looks at its factors only with many clicks
    return rule


def clips_by_rule(rule: str, n: int, estimator: str, evidence: Evidence, wanted: int) -> list[float | None]:
    """The clips to train with: one, or several to choose from.

    Arguments:
        rule: see `Settings.clip`.
        n: how many clips a grid has.
        estimator: what the clips are for.
        evidence: the clicks to train on.
        wanted: the number of clicks of the settings; the last session may add a few.

    >>> import numpy as np
    >>> from counterrank import ClickCounts
    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [9, 9], [4, 2]])
    >>> clicks = ClickCounts("", np.array([0, 2]), np.array([9]), docs, ranks, shown, clicked)
    >>> clips_by_rule("schedule:a=-3,b=32", 6, "policy-aware", Evidence(clicks, exam=[1.0, 0.5]), wanted=10**6)
    [123.0]
    """
    if rule == "grid":
        return named_estimator(estimator).clips(evidence, n)
    return [None] if rule == "none" else [_fixed_clip(rule, wanted)]


def _fixed_clip(rule: str, wanted: int) -> float:
    try:
        if rule.startswith("schedule:"):
            factors = dict(item.split("=") for item in rule.removeprefix("schedule:").split(","))
            return clip_schedule(wanted, float(factors.pop("a")), float(factors.pop("b")), **factors)
        clip = float(rule)
        if 0.0 < clip < float("inf"):
            return clip
    except (ValueError, KeyError, TypeError):
        pass
    raise CounterrankError(f"clip={rule!r}: expected grid, none, a number above 0, or schedule:a=-3,b=32")

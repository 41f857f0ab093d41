"""The settings of the experiments: every choice, with the paper's value as default; their rules, and presets."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from counterrank.clicks.policies.parsing import parse_policy
from counterrank.common.checks import check_choice
from counterrank.common.errors import CounterrankError
from counterrank.estimators import Evidence, clip_schedule
from counterrank.estimators.registry import named_estimator
from counterrank.experiments.figure_registry import PAPER_EXPERIMENT, experiment_of, experiments
from counterrank.losses import named_loss

# Options of estimators as texts: "doubly-robust:tau=0.03" of figure 5, and how importance weights are clipped.


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
        given[option] = value if option == "clip" and value in ("grid", "none") else _option_value(text, option, value)
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


def _option_value(text: str, option: str, value: str) -> str:
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


FIGURES = (1, 2, 3, 4)
LOSSES = ("dcg-hinge", "dcg-logistic", "lambdaloss-dcg", "lambdaloss-dcg-at-k", "lambdaloss-truncated")
ESTIMATORS = (
    "auto",
    "policy-aware",
    "policy-aware:clip=30",
    "direct",
    "doubly-robust",
    "shrinkage",
    "naive",
)


@dataclass(frozen=True)
class Settings:
    """All choices of the experiments.

    Attributes:
        figures: which figures to make, of the paper's 1 to 4; or 5, the experiment with few clicks.
        runs: independent runs, each with clicks of its own.
        seed: fixes all of them.
        ks: figure 1: how many results a page shows.
        clicks_by_k: figure 1: how many clicks.
        clicks: figures 2 to 4: how many clicks.
        sessions: figure 5: how many pages are shown.
        estimators: figure 5: those to compare, see `parse_estimator`.
        targets: figure 5: the share of the gap that "auto" is to close, by number of sessions.
        page: figures 2 to 5: how many results a page shows.
        cutoff: the k of DCG@k, as a loss and as a metric.
        losses: figure 3: those to compare and to select from.
        policies: figure 4: as on the command line; () for one of each kind with pages of `page`.
        relevance_threshold: the smallest label of a relevant document.
        production_share: the share of the training queries whose labels the production ranker sees (3 at least).
        production_norm: the norm its coefficients are scaled to; matters to Plackett-Luce alone.
        production_seed: the seed of the production ranker; None for another one in each run.
        eta: P(examined at rank r) = r ** -eta.
        noise: P(click | examined) of irrelevant and of relevant documents.
        validation_share: validation clicks, as a share of training clicks.
        max_epochs: the most passes over the queries.
        patience: None for the authors', which grows with the clicks (see `patience_for`), or a number of epochs.
        tolerance: None for the authors' (1e-4 for ARP, 1e-6 for DCG), or a number: less does not count as better.
        step_size: "auto", or a number for losses that `step_sizes` does not name.
        step_sizes: by loss, such as "arp-hinge"; "figure3/dcg-hinge" holds for that figure only.
        clip: "grid" (several, chosen by unclipped validation clicks), "none", a number, or "schedule:a=-3,b=32".
        clips: how many clips a grid has.
        queries: None for all, or the most queries of each part.

    >>> Settings().page
    5
    """

    figures: tuple[int, ...] = FIGURES
    runs: int = 5
    seed: int = 0
    ks: tuple[int, ...] = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100)
    clicks_by_k: int = 10**8
    clicks: tuple[int, ...] = (10**2, 10**3, 10**4, 10**5, 10**6, 10**7, 10**8)
    sessions: tuple[int, ...] = (500, 2000, 10**4, 6 * 10**4, 10**6, 10**7)
    estimators: tuple[str, ...] = ESTIMATORS
    targets: Mapping[int, float] = field(default_factory=dict)
    page: int = 5
    cutoff: int = 5
    losses: tuple[str, ...] = LOSSES
    policies: tuple[str, ...] = ()
    relevance_threshold: float = 3.0
    production_share: float = 0.01
    production_norm: float = 5.0
    production_seed: int | None = 0
    eta: float = 1.0
    noise: tuple[float, float] = (0.1, 1.0)
    validation_share: float = 0.15
    max_epochs: int = 1000
    patience: int | None = None
    tolerance: float | None = None
    step_size: float | str = "auto"
    step_sizes: Mapping[str, float] = field(default_factory=dict)
    clip: str = "grid"
    clips: int = 6
    queries: int | None = None

    def __post_init__(self) -> None:
        if not _rising(self.figures, 1) or experiment_of(self.figures) is None:
            raise CounterrankError(f"figures={_shown(self.figures)}: expected {_figures_expected()}")
        for name, test, expected in _RULES:
            value = getattr(self, name)
            if not test(value):
                raise CounterrankError(f"{name.replace('_', '-')}={_shown(value)}: expected {expected}")
        for known in fields(self):  # frozen, but not before it is whole
            object.__setattr__(self, known.name, _canonical(known.name, getattr(self, known.name)))
        for name in self.step_sizes:
            figure, _, loss = name.rpartition("/")
            if figure not in ("", *(f"figure{number}" for number in (*experiments()[PAPER_EXPERIMENT], *self.figures))):
                raise CounterrankError(f"step-sizes: {name!r}; expected a loss, or figure3/ and a loss")
            named_loss(loss)
        for loss in self.losses:
            named_loss(loss)
        for policy in self.policies:
            parse_policy(policy)
        if len(set(self.estimators)) < len(self.estimators):  # 0.03 and 0.030 differ as texts only
            raise CounterrankError(f"estimators={_shown(self.estimators)}: expected different estimators")
        check_clip_rule(self.clip)

    @property
    def experiment(self) -> str:
        """The experiment that its figures belong to, "paper" or "few-clicks"."""
        return str(experiment_of(self.figures))

    def logging_policies(self) -> tuple[str, ...]:
        """The policies of figure 4."""
        return self.policies or tuple(form.format(k=self.page) for form in _POLICIES)

    def step_for(self, figure: int, loss: str) -> float | str:
        """The step size for a loss in one of the figures."""
        return self.step_sizes.get(f"figure{figure}/{loss}", self.step_sizes.get(loss, self.step_size))

    def patience_for(self, loss: str, clicks: int) -> int:
        """Epochs to wait for a better model: 20 + 10 log10(clicks) for ARP, 30 + 10 log10(clicks) for DCG.

        For DCG the authors' factor was between 10 and 20. Labels count as 10^8 clicks.

        >>> Settings().patience_for("arp-hinge", 10**8), Settings(patience=7).patience_for("arp-hinge", 100)
        (100, 7)
        """
        if self.patience is not None:
            return self.patience
        return round((20 if loss.startswith("arp") else 30) + 10 * math.log10(clicks or 10**8))

    def tolerance_for(self, loss: str) -> float:
        """What does not count as a better model."""
        if self.tolerance is not None:
            return self.tolerance
        return 1e-4 if loss.startswith("arp") else 1e-6

    def plain(self) -> dict[str, Any]:
        """The settings as JSON has them."""
        tables = {"step_sizes": dict(self.step_sizes), "targets": dict(self.targets)}
        content: dict[str, Any] = json.loads(json.dumps({**asdict(self), **tables}))
        return content


# one of each kind; Explicit pages have to be written down by someone who knows the queries
_POLICIES = (
    "deterministic:k={k}",
    "epsilon-greedy:k={k},epsilon=0.1",
    "replace-last:k={k}",
    "uniform-insert:k={k}",
    "plackett-luce:k={k},temperature=1",
    "0.9*deterministic:k={k}+0.1*plackett-luce:k={k},temperature=1",
)


def preset_names() -> list[str]:
    """The presets that come with the package."""
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))


def read_preset(name: str) -> dict[str, Any]:
    """Settings from a preset by its name, or from a TOML file of one's own.

    >>> read_preset("paper-yahoo")["clip"]
    'schedule:a=-3,b=32'
    """
    file = _folder() / f"{name}.toml" if name in preset_names() else Path(name)
    if not file.is_file():
        raise CounterrankError(
            f"preset {name!r}: no such file; expected one of {', '.join(preset_names())}, or a TOML file that is there"
        )
    try:
        content = tomllib.loads(file.read_bytes().decode())
    except ValueError as error:  # also of bytes that are no text
        raise CounterrankError(f"preset {name}: not TOML ({error})") from None
    return known_settings(content, f"preset {name}")


def known_settings(content: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The same settings, lists as tuples; a name that means nothing is an error.

    >>> known_settings({"ks": [1, 2]}, "here")
    {'ks': (1, 2)}
    """
    names = [known.name for known in fields(Settings)]
    for key in content:
        if key not in names:
            raise CounterrankError(f"{where}: no setting {key!r}; expected some of {', '.join(names)}")
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
    if settings.get("production_seed") == "each":  # TOML has no word for nothing
        settings["production_seed"] = None
    return settings


def _folder() -> Any:
    return files("counterrank.experiments") / "presets"


def _shown(value: Any) -> str:
    return ",".join(str(item) for item in value) if isinstance(value, tuple) else repr(value)


def _canonical(name: str, value: Any) -> Any:
    """Settings that are equal are written alike, since the names of cells are made of them: 3 as 3.0, [1] as (1,)."""
    if name == "step_sizes":
        return {loss: _canonical("step_size", step) for loss, step in value.items()}
    if name == "targets":
        return {int(size): float(share) for size, share in value.items()}
    if name == "estimators":
        return tuple(parse_estimator(text).text for text in value)
    if isinstance(value, list | tuple):
        return tuple(_canonical(name, item) for item in value)
    return float(value) if name in _REAL and isinstance(value, int) else value


def _figures_expected() -> str:
    """Which figures can be made, such as "some of 1, 2, 3, 4, in that order; or 5 alone"."""
    groups = experiments().values()
    words = [f"some of {', '.join(map(str, g))}, in that order" if len(g) > 1 else f"{g[0]} alone" for g in groups]
    return "; or ".join(words)


def _texts(value: Any) -> bool:
    """Whether these are different texts."""
    several = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    return several and len(set(value)) == len(value)


def _pair(value: Any) -> bool:
    two = isinstance(value, list | tuple) and len(value) == 2 and all(_number(item, 0.0, 1.0) for item in value)
    return two and bool(value[0] < value[1])


def _whole(value: Any, least: int, most: float = math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _number(value: Any, least: float, most: float = math.inf) -> bool:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return numeric and -_LARGEST <= value <= _LARGEST and least <= value <= most


def _rising(value: Any, least: int, most: float = math.inf) -> bool:
    some = isinstance(value, list | tuple) and len(value) > 0 and all(_whole(item, least, most) for item in value)
    return some and sorted(set(value)) == list(value)


def _targets(value: Any) -> bool:
    """Shares by numbers of sessions; TOML and JSON have those as texts."""
    return isinstance(value, Mapping) and all(
        (_whole(size, 1) or (isinstance(size, str) and size.isascii() and size.isdigit())) and _number(share, -1.0, 1.0)
        for size, share in value.items()
    )


def _step(value: Any) -> bool:
    return value == "auto" or (_number(value, 0.0) and value > 0.0)


_MOST_CLICKS = 10**12
_LARGEST = 1e300
_REAL = (
    "relevance_threshold",
    "production_share",
    "production_norm",
    "eta",
    "noise",
    "validation_share",
    "tolerance",
    "step_size",
)
_RULES = (
    ("runs", lambda v: _whole(v, 1), "a whole number of at least 1"),
    ("seed", lambda v: _whole(v, 0), "a whole number of at least 0"),
    ("ks", lambda v: _rising(v, 1), "page sizes from 1, each larger than the one before"),
    ("clicks_by_k", lambda v: _whole(v, 1, _MOST_CLICKS), "a number of clicks"),
    ("clicks", lambda v: _rising(v, 1, _MOST_CLICKS), "numbers of clicks, each larger than the one before"),
    ("sessions", lambda v: _rising(v, 2, _MOST_CLICKS), "numbers of sessions from 2, each larger than the one before"),
    ("estimators", lambda v: _texts(v) and len(v) > 0, "different estimators, at least one"),
    ("targets", _targets, "a share of the gap, up to 1, for some of the numbers of sessions"),
    ("page", lambda v: _whole(v, 1), "a whole number of at least 1"),
    ("cutoff", lambda v: _whole(v, 1), "a whole number of at least 1"),
    ("losses", lambda v: _texts(v) and len(v) > 0, "different losses, at least one"),
    ("policies", _texts, "different policies"),
    ("relevance_threshold", lambda v: _number(v, -math.inf), "a number"),
    ("production_share", lambda v: _number(v, 0.0, 1.0) and v > 0, "a number above 0 and up to 1"),
    ("production_norm", lambda v: _number(v, 0.0) and v > 0, "a number above 0"),
    ("production_seed", lambda v: v is None or _whole(v, 0), "a whole number of at least 0"),
    ("eta", lambda v: _number(v, 0.0), "a number of at least 0"),
    ("noise", _pair, "2 probabilities, rising"),
    ("validation_share", lambda v: _number(v, 0.0) and v > 0, "a number above 0"),
    ("max_epochs", lambda v: _whole(v, 1), "a whole number of at least 1"),
    ("patience", lambda v: v is None or _whole(v, 1), "a whole number of at least 1"),
    ("tolerance", lambda v: v is None or _number(v, 0.0), "a number of at least 0"),
    ("step_size", _step, "'auto' or a number above 0"),
    ("step_sizes", lambda v: isinstance(v, Mapping) and all(_step(x) for x in v.values()), "a number for each loss"),
    ("clips", lambda v: _whole(v, 1), "a whole number of at least 1"),
    ("queries", lambda v: v is None or _whole(v, 10), "a whole number of at least 10"),
)


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
_QUICK_FEW_CLICKS: dict[str, Any] = {
    "runs": 3,
    "sessions": (500, 2000, 10**4, 6 * 10**4),
    "max_epochs": 30,
    "patience": 10,
    "queries": 300,
}
_FEW_CLICKS = "few-clicks"


def choose_settings(
    experiment: str = PAPER_EXPERIMENT,
    preset: str | None = None,
    quick: bool = False,
    given: Mapping[str, Any] | None = None,
) -> Settings:
    """Defaults, then the preset, then the quick grid, then what was given.

    Arguments:
        experiment: "paper" for figures 1 to 4, "few-clicks" for figure 5, whose defaults are the preset of that name;
            or that of figures registered elsewhere.
        preset: see `read_preset`.
        quick: whether to take the reduced grid.
        given: settings that win over all others.

    >>> choose_settings("few-clicks", "few-clicks-ohsumed").targets[2000]
    0.62
    """
    check_choice(experiment, tuple(experiments()), "experiment")
    layers: list[Mapping[str, Any]] = [
        {"figures": experiments()[experiment]},
        read_preset(_FEW_CLICKS) if experiment == _FEW_CLICKS else {},
        {} if preset is None else read_preset(preset),
        (_QUICK_FEW_CLICKS if experiment == _FEW_CLICKS else QUICK) if quick else {},
        given or {},
    ]
    settings = Settings(**{name: value for layer in layers for name, value in layer.items()})
    if settings.experiment != experiment:
        raise CounterrankError(
            f"figures={','.join(map(str, settings.figures))}: those of {settings.experiment}; expected counterrank "
            f"reproduce {settings.experiment}"
        )
    return settings

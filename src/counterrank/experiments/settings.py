"""The settings of the experiments: every choice, with the paper's value as default; their rules, and presets.

Two settings are texts with a form of their own: estimators with hyperparameters ("doubly-robust:tau=0.03"), and how
importance weights are clipped ("schedule:a=-3,b=32").
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from counterrank.clicks.policies.parsing import parse_policy
from counterrank.clicks.simulated_users import PAPER, PRESETS, users_text
from counterrank.common.checks import check_choice
from counterrank.common.deprecation import renamed_arguments
from counterrank.common.errors import CounterrankError, brief
from counterrank.estimators import Evidence, clip_schedule
from counterrank.estimators.registry import ESTIMATORS, Estimator, named_estimator
from counterrank.experiments.figure_registry import PAPER_EXPERIMENT, experiment_of, experiments
from counterrank.losses import named_loss

FIGURES = (1, 2, 3, 4)
LOSSES = ("dcg-hinge", "dcg-logistic", "lambdaloss-dcg", "lambdaloss-dcg-at-k", "lambdaloss-truncated")
METHODS = ("unsafe", "exposure-risk", "prpo", "blend", "gate")
COMPARED = ("auto", "policy-aware", "policy-aware:clip=30", "direct", "doubly-robust", "shrinkage", "naive")

FILE_NAMES = {"learning_rate": "step_size", "learning_rates": "step_sizes"}
"""Names in run folders and cells, where they differ: keys of cells are made of them."""

NEW_NAMES = {old: new for new, old in FILE_NAMES.items()}


@renamed_arguments(NEW_NAMES)
@dataclass(frozen=True)
class Settings:
    """All choices of the experiments.

    Attributes:
        figures: which figures to make, of the paper's 1 to 4; or 5, the experiment with few clicks; or 6, the one on
            safety.
        runs: independent runs, each with clicks of its own.
        seed: fixes all of them.
        ks: figure 1: how many results a page shows.
        clicks_by_k: figure 1: how many clicks.
        clicks: figures 2 to 4: how many clicks.
        sessions: figures 5 and 6: how many pages are shown.
        estimators: figure 5: those to compare, see `parse_estimator`.
        targets: figure 5: the share of the gap that "auto" is to close, by number of sessions.
        methods: figure 6: ways to keep from a worse ranker, some of `METHODS`.
        page: figures 2 to 6: how many results a page shows.
        cutoff: the k of DCG@k, as a loss and as a metric.
        losses: figure 3: those to compare and to select from.
        policies: figure 4: as on the command line; () for one of each kind with pages of `page`.
        relevance_threshold: the smallest label of a relevant document.
        production_share: the share of the training queries whose labels the production ranker sees (3 at least).
        production_norm: the norm its coefficients are scaled to; matters to Plackett-Luce alone.
        production_seed: the seed of the production ranker; None for another one in each run.
        eta: P(examined at rank r) = r ** -eta.
        noise: P(click | examined) of irrelevant and of relevant documents.
        users: "paper", with `eta` and `noise`; "baidu" or "yandex"; or the file of a user model, which is kept as JSON.
            See `simulation.users`.
        validation_share: validation clicks, as a share of training clicks.
        max_epochs: the most passes over the queries.
        patience: None for the authors', which grows with the clicks (see `patience_for`), or a number of epochs.
        tolerance: None for the authors' (1e-4 for ARP, 1e-6 for DCG), or a number: less does not count as better.
        learning_rate: "auto", or a number for losses that `learning_rates` does not name.
        learning_rates: by loss, such as "arp-hinge"; "figure3/dcg-hinge" holds for that figure only.
        clip: "grid" (several, chosen by unclipped validation clicks), "none", a number, or "schedule:a=-3,b=32".
        clips: how many clips a grid has.
        queries: None for all, or the most queries of the training and of the validation part.
        test_queries: None for all, or the most queries of the test part, which cost little and narrow confidence
            intervals; synthetic data that names no size is made with as many.

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
    estimators: tuple[str, ...] = COMPARED
    targets: Mapping[int, float] = field(default_factory=dict)
    methods: tuple[str, ...] = METHODS
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
    learning_rate: float | str = "auto"
    learning_rates: Mapping[str, float] = field(default_factory=dict)
    clip: str = "grid"
    clips: int = 6
    queries: int | None = None
    test_queries: int | None = None
    users: str = PAPER

    def __post_init__(self) -> None:
        if not _is_rising(self.figures, 1) or experiment_of(self.figures) is None:
            raise CounterrankError(f"figures={_shown(self.figures)}: expected {_figures_expected()}")
        for name, (is_right, expected) in _RULES.items():
            value = getattr(self, name)
            if not is_right(value):
                raise CounterrankError(f"{name.replace('_', '-')}={_shown(value)}: expected {expected}")
        for known in fields(self):  # frozen, but not before it is whole
            object.__setattr__(self, known.name, _canonical(known.name, getattr(self, known.name)))
        known_figures = [f"figure{number}" for number in (*experiments()[PAPER_EXPERIMENT], *self.figures)]
        for name in self.learning_rates:
            figure, _, loss = name.rpartition("/")
            if figure not in ("", *known_figures):
                raise CounterrankError(f"learning-rates: {name!r}; expected a loss, or figure3/ and a loss")
            named_loss(loss)
        for loss in self.losses:
            named_loss(loss)
        for policy in self.policies:
            parse_policy(policy)
        if len(set(self.estimators)) < len(self.estimators):  # 0.03 and 0.030 differ as texts only
            raise CounterrankError(f"estimators={_shown(self.estimators)}: expected different estimators")
        check_clip_rule(self.clip)
        for name in ("eta", "noise"):
            if self.users != PAPER and getattr(self, name) != type(self).__dataclass_fields__[name].default:
                raise CounterrankError(
                    f"users, {name}: these users have a curve and click probabilities of their own; "
                    f"expected one of the two"
                )

    @property
    def experiment(self) -> str:
        """The experiment that its figures belong to, "paper", "few-clicks" or "safety"."""
        return str(experiment_of(self.figures))

    def logging_policies(self) -> tuple[str, ...]:
        """The policies of figure 4."""
        return self.policies or tuple(form.format(k=self.page) for form in _POLICIES)

    def learning_rate_for(self, figure: int, loss: str) -> float | str:
        """The learning rate for a loss in one of the figures."""
        by_loss = self.learning_rates
        return by_loss.get(f"figure{figure}/{loss}", by_loss.get(loss, self.learning_rate))

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
        """The largest improvement that is ignored by early stopping."""
        if self.tolerance is not None:
            return self.tolerance
        return 1e-4 if loss.startswith("arp") else 1e-6

    def plain(self) -> dict[str, Any]:
        """The settings as JSON has them, under the names of run folders."""
        tables = {"learning_rates": dict(self.learning_rates), "targets": dict(self.targets)}
        content = {FILE_NAMES.get(name, name): value for name, value in (asdict(self) | tables).items()}
        plain: dict[str, Any] = json.loads(json.dumps(content))
        return plain


# one of each kind; Explicit pages have to be written down by someone who knows the queries
_POLICIES = (
    "deterministic:k={k}",
    "epsilon-greedy:k={k},epsilon=0.1",
    "replace-last:k={k}",
    "uniform-insert:k={k}",
    "plackett-luce:k={k},temperature=1",
    "0.9*deterministic:k={k}+0.1*plackett-luce:k={k},temperature=1",
)


def _shown(value: Any) -> str:
    return ",".join(str(item) for item in value) if isinstance(value, tuple) else repr(value)


def _figures_expected() -> str:
    """Which figures can be made, such as "some of 1, 2, 3, 4, in that order; or 5 alone"."""
    groups = experiments().values()
    words = [f"some of {', '.join(map(str, g))}, in that order" if len(g) > 1 else f"{g[0]} alone" for g in groups]
    return "; or ".join(words)


def _canonical(name: str, value: Any) -> Any:
    """Settings that are equal are written alike, since the names of cells are made of them: 3 as 3.0, [1] as (1,)."""
    if name == "learning_rates":
        return {loss: _canonical("learning_rate", rate) for loss, rate in value.items()}
    if name == "targets":
        return {int(size): float(share) for size, share in value.items()}
    if name == "users":
        return users_text(value)
    if name == "estimators":
        return tuple(parse_estimator(text).text for text in value)
    if isinstance(value, list | tuple):
        return tuple(_canonical(name, item) for item in value)
    return float(value) if name in _REAL and isinstance(value, int) else value


# A rule is a test of a value, and what was expected where it fails.
Rule = tuple[Callable[[Any], bool], str]


def _is_whole(value: Any, least: int, most: float = math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_number(value: Any, least: float, most: float = math.inf) -> bool:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return numeric and -_LARGEST <= value <= _LARGEST and least <= value <= most


def _is_rising(value: Any, least: int, most: float = math.inf) -> bool:
    some = isinstance(value, list | tuple) and len(value) > 0 and all(_is_whole(item, least, most) for item in value)
    return some and sorted(set(value)) == list(value)


def _is_different(value: Any) -> bool:
    """Whether these are different texts."""
    several = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    return several and len(set(value)) == len(value)


def _is_noise(value: Any) -> bool:
    two = isinstance(value, list | tuple) and len(value) == 2 and all(_is_number(item, 0.0, 1.0) for item in value)
    return two and bool(value[0] < value[1])


def _is_target(size: Any, share: Any) -> bool:
    """A share of the gap at a number of sessions; TOML and JSON have those as texts."""
    is_size = _is_whole(size, 1) or (isinstance(size, str) and size.isascii() and size.isdigit())
    return is_size and _is_number(share, -1.0, 1.0)


def _is_rate(value: Any) -> bool:
    return value == "auto" or (_is_number(value, 0.0) and value > 0.0)


def _whole(least: int) -> Rule:
    return lambda v: _is_whole(v, least), f"a whole number of at least {least}"


def _above_zero(most: float = math.inf) -> Rule:
    limit = "" if most == math.inf else f" and up to {most:g}"
    return lambda v: _is_number(v, 0.0, most) and v > 0, f"a number above 0{limit}"


def _or_none(rule: Rule) -> Rule:
    return lambda v: v is None or rule[0](v), rule[1]


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
    "learning_rate",
)
_AT_LEAST_ZERO: Rule = (lambda v: _is_number(v, 0.0), "a number of at least 0")
_RULES: dict[str, Rule] = {
    "runs": _whole(1),
    "seed": _whole(0),
    "ks": (lambda v: _is_rising(v, 1), "page sizes from 1, each larger than the one before"),
    "clicks_by_k": (lambda v: _is_whole(v, 1, _MOST_CLICKS), "a number of clicks"),
    "clicks": (lambda v: _is_rising(v, 1, _MOST_CLICKS), "numbers of clicks, each larger than the one before"),
    "sessions": (
        lambda v: _is_rising(v, 2, _MOST_CLICKS),
        "numbers of sessions from 2, each larger than the one before",
    ),
    "estimators": (lambda v: _is_different(v) and len(v) > 0, "different estimators, at least one"),
    "targets": (
        lambda v: isinstance(v, Mapping) and all(_is_target(*item) for item in v.items()),
        "a share of the gap, up to 1, for some of the numbers of sessions",
    ),
    "methods": (
        lambda v: _is_different(v) and len(v) > 0 and set(v) <= set(METHODS),
        f"some of {', '.join(METHODS)}",
    ),
    "page": _whole(1),
    "cutoff": _whole(1),
    "losses": (lambda v: _is_different(v) and len(v) > 0, "different losses, at least one"),
    "policies": (_is_different, "different policies"),
    "relevance_threshold": (lambda v: _is_number(v, -math.inf), "a number"),
    "production_share": _above_zero(1.0),
    "production_norm": _above_zero(),
    "production_seed": _or_none(_whole(0)),
    "eta": _AT_LEAST_ZERO,
    "noise": (_is_noise, "2 probabilities, rising"),
    "validation_share": _above_zero(),
    "max_epochs": _whole(1),
    "patience": _or_none(_whole(1)),
    "tolerance": _or_none(_AT_LEAST_ZERO),
    "learning_rate": (_is_rate, "'auto' or a number above 0"),
    "learning_rates": (
        lambda v: isinstance(v, Mapping) and all(map(_is_rate, v.values())),
        "a number for each loss",
    ),
    "clips": _whole(1),
    "queries": _or_none(_whole(10)),
    "test_queries": _or_none(_whole(10)),
    "users": (lambda v: isinstance(v, str) and v != "", f"{', '.join(PRESETS)}, or the file of a user model"),
}


# `--quick`: about eight minutes of one core. Runs and test queries decide claims: so the points of the grid are few
# (each claim of the paper has one to be checked on, but for pages beyond 50), training queries few, test queries many.
QUICK = {
    "runs": 10,
    "ks": (1, 5, 20),
    "clicks_by_k": 10**6,
    "clicks": (10**3, 10**5, 10**6),
    "policies": (),
    "max_epochs": 20,
    "patience": 8,
    "clips": 2,
    "queries": 200,
    "test_queries": 5000,
}
_QUICK_BY_EXPERIMENT: dict[str, Mapping[str, Any]] = {
    "few-clicks": {
        "runs": 3,
        "sessions": (500, 2000, 10**4, 6 * 10**4),
        "max_epochs": 30,
        "patience": 10,
        "queries": 300,
        "test_queries": 5000,
    },
    "safety": {
        "runs": 2,
        "sessions": (100, 10**4, 10**6),
        "max_epochs": 20,
        "patience": 8,
        "queries": 60,
        "test_queries": 1000,
    },
}


def choose_settings(
    experiment: str = PAPER_EXPERIMENT,
    preset: str | None = None,
    quick: bool = False,
    given: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings from the defaults, the preset, the quick grid and the given values; later ones take precedence.

    Arguments:
        experiment: "paper" for figures 1 to 4, "few-clicks" for figure 5 and "safety" for figure 6, whose defaults are
            the presets of those names; or that of figures registered elsewhere.
        preset: see `read_preset`.
        quick: whether to take the reduced grid.
        given: settings that win over all others.

    >>> choose_settings("few-clicks", "few-clicks-ohsumed").targets[2000]
    0.62
    """
    check_choice(experiment, tuple(experiments()), "experiment")
    layers: list[Mapping[str, Any]] = [
        {"figures": experiments()[experiment]},
        read_preset(experiment) if experiment in preset_names() else {},
        {} if preset is None else read_preset(preset),
        _QUICK_BY_EXPERIMENT.get(experiment, QUICK) if quick else {},
        given or {},
    ]
    settings = Settings(**{NEW_NAMES.get(name, name): value for layer in layers for name, value in layer.items()})
    if settings.experiment != experiment:
        raise CounterrankError(
            f"figures={','.join(map(str, settings.figures))}: those of {settings.experiment}; expected counterrank "
            f"reproduce {settings.experiment}"
        )
    return settings


def preset_names() -> list[str]:
    """The presets that come with the package."""
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))


def _folder() -> Any:
    return files("counterrank.experiments") / "presets"


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
    """The same settings by their present names, lists as tuples; a name that means nothing is an error.

    >>> known_settings({"ks": [1, 2], "step_size": 0.5}, "here")
    {'ks': (1, 2), 'learning_rate': 0.5}
    """
    names = [known.name for known in fields(Settings)]
    settings = {}
    for key, value in content.items():
        name = NEW_NAMES.get(key, key)
        if name not in names:
            raise CounterrankError(f"{where}: no setting {key!r}; expected some of {', '.join(names)}")
        settings[name] = tuple(value) if isinstance(value, list) else value
    if settings.get("production_seed") == "each":  # TOML has no word for nothing
        settings["production_seed"] = None
    return settings


# what simulated clicks can give to an estimator; the rest is labels, and what is known of trust bias
_PROVIDED = {"clicks", "propensities", "exposure", "examination", "displays"}
# least and most of hyperparameters that are limited
_LIMITS = {"tau": (0.0, 1.0), "strength": (0.0, _LARGEST), "folds": (2.0, 100.0), "clip": (0.0, math.inf)}


@dataclass(frozen=True)
class EstimatorOption:
    """An estimator with its hyperparameters.

    Attributes:
        text: as it is written; equal estimators are written alike.
        kind: its name.
        hyperparameters: those given, but for the clip.
        clip: grid, none or a number; None for the experiment's.
        folds: cross-validation folds over all queries, whose rankers are averaged; None to stop early by the
            validation part.
    """

    text: str
    kind: str
    hyperparameters: dict[str, float] = field(default_factory=dict)
    clip: str | None = None
    folds: int | None = None

    @property
    def is_cross_fitted(self) -> bool:
        """Whether it is learned with a model of relevance or over folds, and not from its weights alone."""
        return named_estimator(self.kind).weigh is None or self.folds is not None

    @property
    def cell_name(self) -> str:
        """The estimator of its cells: without the clip, which they have apart, where weights alone are learned from."""
        return self.text if self.is_cross_fitted else _written(self.kind, self.hyperparameters)


def compared_estimators() -> dict[str, tuple[str, ...]]:
    """Those of the registry that figure 5 can compare, and the hyperparameters of each; "auto" chooses its own.

    >>> compared_estimators()["doubly-robust"]
    ('tau', 'folds')
    """
    return {name: _options(known) for name, known in ESTIMATORS.items() if _PROVIDED.issuperset(known.needs)}


def _options(known: Estimator) -> tuple[str, ...]:
    own = tuple(name for name in known.hyperparameters if name != "clip" or known.can_clip)
    return () if known.candidates else own + ("folds",) * (known.assisted is not None)


def parse_estimator(text: str) -> EstimatorOption:
    """An estimator from its text.

    >>> parse_estimator("doubly-robust:tau=0.030")
    EstimatorOption(text='doubly-robust:tau=0.03', kind='doubly-robust', hyperparameters={'tau': 0.03}, clip=None, \
folds=None)
    >>> parse_estimator("policy-aware:clip=grid").clip, parse_estimator("shrinkage:folds=5,strength=2").text
    ('grid', 'shrinkage:strength=2,folds=5')
    """
    kind, colon, rest = text.strip().partition(":")
    known = compared_estimators().get(kind)
    given: dict[str, str] = {}
    for item in rest.split(",") if colon else []:
        option, equals, value = (word.strip() for word in item.partition("="))
        if known is None or not equals or option not in known or option in given:
            raise _unknown(text)
        given[option] = (
            value if option == "clip" and value in ("grid", "none") else _hyperparameter(text, option, value)
        )
    if known is None:
        raise _unknown(text)
    ordered = {option: given[option] for option in known if option in given}
    clip, folds = given.pop("clip", None), given.pop("folds", None)
    if folds is not None and clip in ("grid", "none"):
        raise CounterrankError(f"estimators: {text!r}; expected a number as clip together with folds")
    return EstimatorOption(
        _written(kind, ordered),
        kind,
        {option: float(value) for option, value in given.items()},
        None if clip is None else check_clip_rule(clip),
        None if folds is None else int(folds),
    )


def _written(kind: str, options: Mapping[str, Any]) -> str:
    shown = ",".join(
        f"{name}={value if isinstance(value, str) else f'{value:.15g}'}" for name, value in options.items()
    )
    return f"{kind}:{shown}" if shown else kind


def _unknown(text: str) -> CounterrankError:
    forms = [_written(kind, dict.fromkeys(names, "...")) for kind, names in compared_estimators().items()]
    return CounterrankError(f"estimators: {text!r}; expected some of {', '.join(forms)}")


def _hyperparameter(text: str, option: str, value: str) -> str:
    """A number, written the shortest way."""
    least, most = _LIMITS.get(option, (-_LARGEST, _LARGEST))
    try:
        number = float(value)
    except ValueError:
        number = math.nan
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
        raise CounterrankError(f"clip={brief(rule)}: expected a text, such as '100'")
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
        if 0.0 < clip < math.inf:
            return clip
    except (ValueError, KeyError, TypeError):
        pass
    raise CounterrankError(f"clip={brief(rule)}: expected grid, none, a number above 0, or schedule:a=-3,b=32")

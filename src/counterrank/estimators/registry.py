"""The estimators by name: what each requires, its formula, when it is unbiased, and the function that computes it.

The choices of the command, the tables in the documentation and the errors about missing input come from this
registry. `register_estimator` adds an estimator of your own: `fit_ranker` and `counterrank train` then know it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import FloatArray, check_choice, is_real, is_whole
from counterrank.common.errors import CounterrankError, brief
from counterrank.estimators.displayed_sets import Views, rerank
from counterrank.estimators.evidence import Evidence
from counterrank.estimators.model_assisted import check_strength, check_tau, doubly_robust_weights, shrunken_weights
from counterrank.estimators.propensities import SMALLEST, check_clip, inverse_propensity
from counterrank.estimators.weights import affine, clip_grid, full_information, naive, policy_aware, policy_oblivious

# (data, evidence, **hyperparameters) -> document weights, or displayed sets
Weigh = Callable[..., "ArrayLike | Views"]
# (`Examinations`, relevance, most likely strength, **hyperparameters) -> document weights
WeighExaminations = Callable[..., FloatArray]


@dataclass(frozen=True)
class Need:
    """Something that an estimator requires: its meaning, and the arguments and options of the command that give it."""

    meaning: str
    arguments: str
    options: str


NEEDS = {
    "labels": Need("relevance labels", "data with labels", "data with labels, and no --clicks or --log"),
    "clicks": Need("clicks", "clicks", "--clicks or --log"),
    "propensities": Need(
        "the propensity of each document under the logging policy",
        "rho, or policy, scores and exam, or logged propensities",
        "logged propensities, or --policy, --logger and --examination",
    ),
    "exposure": Need(
        "how often each document was examined",
        "exam, rho or logged propensities",
        "--examination, or logged propensities, or --policy and --logger too",
    ),
    "examination": Need("the examination curve", "exam", "--examination"),
    "trust": Need(
        "a user model with trust bias",
        "exam=examination.Affine(alpha, beta), or alpha and beta",
        "--users, or --alpha and --beta",
    ),
    "displays": Need("displayed pages", "clicks with displays=True", "--log, or --clicks counted with --displays"),
}
"""The inputs that estimators may require, by name: description, argument of the library, option of the command."""

# what a log can show of the condition of an estimator: `inspect_clicks` assesses the estimator by it
LOG_CONDITIONS = {
    "examinable": "every candidate has some chance to be examined (eq:awarecond)",
    "every-page": "every candidate is on every page at an examined rank (eq:agnosticcond)",
    "within-page": "pages hold several documents; their order is compared with no other page",
    "one-rank": "every candidate is on every page, and position does not matter",
}


@dataclass(frozen=True)
class Hyperparameter:
    """A hyperparameter of an estimator.

    Attributes:
        meaning: in words.
        type: of its values: float, int or str.
        check: from a value to the one to use; raises an error where it is out of range.
        words: other values that are allowed.
    """

    meaning: str
    type: type[float] | type[int] | type[str] = float
    check: Callable[[Any], Any] | None = None
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.meaning

    def convert(self, name: str, value: Any) -> Any:
        """The value, checked; text (from the command) becomes a value of the declared type.

        >>> Hyperparameter("number of neighbours", int).convert("n", "5")
        5
        >>> Hyperparameter("number of neighbours", int).convert("n", 5.7)
        Traceback (most recent call last):
        ...
        counterrank.common.errors.CounterrankError: n=5.7: expected a whole number
        """
        if isinstance(value, str) and value in self.words:
            return value
        if self.check is not None and not isinstance(value, str):
            return self.check(value)
        found = self._typed(value)
        if found is None:
            kind = {int: "a whole number", float: "a finite number"}.get(self.type, "" if self.words else "a text")
            raise CounterrankError(f"{name}={brief(value)}: expected {' or '.join(filter(None, (kind, *self.words)))}")
        return found if self.check is None else self.check(found)

    def _typed(self, value: Any) -> Any:
        """The value, a text as the declared type; None where it is another kind of thing, or not finite."""
        if self.type is str:
            return value if isinstance(value, str) and not self.words else None
        if isinstance(value, str):
            try:
                value = self.type(value)
            except ValueError:
                return None
        fits = is_whole(value) if self.type is int else is_real(value) and np.isfinite(value)
        return value if fits else None


@dataclass(frozen=True)
class Estimator:
    """An entry of the registry of estimators, which turn clicks or labels into document weights.

    Attributes:
        name: as on the command line.
        summary: what it corrects for, in a line.
        formula: of the weight omega(d), in plain text.
        condition: under which it is unbiased.
        needs: what it requires, names in `NEEDS`.
        hyperparameters: by name, a `Hyperparameter`, or in words what it means where it is a number; they are keyword
            arguments of the functions.
        weigh: from (data, evidence, **hyperparameters) to weights or displayed sets; None where a model of relevance
            is needed.
        assisted: from (examinations, relevance, strength, **hyperparameters) to weights: for estimators that
            cross-validation tries, and that may use a model of relevance.
        uses_relevance: whether `assisted` looks at the predicted relevance.
        grid: by hyperparameter, the values that cross-validation tries; the first is the default.
        scaled: the one of them whose grid is in multiples of the most likely strength.
        candidates: the names of the estimators that this one chooses from by cross-validation; registered ones that
            have `assisted` are added.
        default: name and multiple of the candidate to use where only one can be kept, unless another is clearly better.
        can_clip: whether `clip="auto"` may choose a clip.
        log_condition: what a log must show for `condition` to hold, a name in `LOG_CONDITIONS`; None where a log cannot
            show it, as that a model is right.
    """

    name: str
    summary: str
    formula: str
    condition: str
    needs: tuple[str, ...]
    hyperparameters: Mapping[str, str | Hyperparameter] = field(default_factory=dict)
    weigh: Weigh | None = None
    assisted: WeighExaminations | None = None
    uses_relevance: bool = False
    grid: Mapping[str, Sequence[float]] = field(default_factory=dict)
    scaled: str = ""
    candidates: tuple[str, ...] = ()
    default: tuple[str, float] = ("", 1.0)
    can_clip: bool = False
    log_condition: str | None = None

    def check(self, evidence: Evidence | None, options: bool = False) -> None:
        """Raise an error that says what is missing, in arguments or in options of the command."""
        for need in self.needs:
            if need == "labels":
                continue  # `full_information` looks for itself
            if evidence is None or not evidence.has(need):
                required = NEEDS[need]
                raise CounterrankError(
                    f"estimator {self.name!r}: requires {required.meaning}; expected "
                    f"{required.options if options else required.arguments}"
                )

    def check_hyperparameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The hyperparameters that are not None; names are checked here, values by `checked_hyperparameters`."""
        found = {name: value for name, value in given.items() if value is not None}
        for name, value in found.items():
            if name not in self.hyperparameters:
                owners = [each.name for each in ESTIMATORS.values() if name in each.hyperparameters]
                has_others = self.hyperparameters and not owners
                raise CounterrankError(
                    f"{name}={f'{value:.15g}' if isinstance(value, float) else brief(value)}: {self.name} has no {name}"
                    + (f", a hyperparameter of {', '.join(owners)}" if owners else "")
                    + (f"; expected {', '.join(self.hyperparameters)}" if has_others else "; leave it out")
                )
        return found

    def clips(self, evidence: Evidence, n: int = 6) -> list[float | None]:
        """The clips that `clip="auto"` tries, see `clip_grid`; only no clip where clicks are not weighted."""
        if "propensities" in self.needs:
            return clip_grid(evidence.clicks, evidence.propensities, n)
        if "examination" in self.needs:
            return clip_grid(evidence.clicks, n=n, exam=evidence.curve)
        return [None]


def checked_hyperparameters(estimator: str | Estimator, given: Mapping[str, Any]) -> dict[str, Any]:
    """The hyperparameters that are not None, each checked and of its declared type; text is converted.

    Arguments:
        estimator: by name, or itself.
        given: by name. A name that the estimator does not declare is an error.

    >>> checked_hyperparameters("doubly-robust", {"tau": "0.05", "strength": None})
    {'tau': 0.05}
    >>> checked_hyperparameters("doubly-robust", {"strength": 2})
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: strength=2: doubly-robust has no strength, a hyperparameter of auto, \
shrinkage; leave it out
    """
    chosen = named_estimator(estimator)
    found = chosen.check_hyperparameters(given)
    for name, value in found.items():
        declared = chosen.hyperparameters[name]
        found[name] = (declared if isinstance(declared, Hyperparameter) else Hyperparameter(declared)).convert(
            name, value
        )
    return found


_CLIP = {
    "clip": Hyperparameter("cap on the importance weight 1 / propensity of each click", float, check_clip, ("auto",))
}


def _affine(data: Any, evidence: Any, clip: float | None = None) -> FloatArray:
    evidence.check_policy()
    known = evidence.policy, evidence.scores
    return affine(evidence.clicks, evidence.exam, None, *known, clip=clip, threads=evidence.threads)


def _policy_aware(data: Any, evidence: Any, clip: float | None = None) -> FloatArray:
    return policy_aware(evidence.clicks, evidence.propensities, clip=clip, exam=evidence.exam)


def _policy_aware_seen(seen: Any, relevance: Any, likely: float, clip: float | None = None) -> FloatArray:
    """`policy_aware` of what was examined and clicked."""
    unseen = np.where(seen.rho < SMALLEST, seen.sessions * seen.unseen, 0.0)
    return np.asarray(seen.clicks * inverse_propensity(seen.rho, clip) + unseen)


ESTIMATORS: dict[str, Estimator] = {}
"""The estimators by name; `register_estimator` adds one."""


def register_estimator(estimator: Estimator, replace: bool = False) -> Estimator:
    """Add an estimator to the registry; `replace=True` replaces one of the same name.

    >>> _ = register_estimator(Estimator("ones", "Every document counts once.", "1", "never", ("clicks",),
    ...                        weigh=lambda data, evidence: np.ones(data.n_docs)))
    >>> ESTIMATORS.pop("ones").needs
    ('clicks',)
    """
    if estimator.weigh is None and estimator.assisted is None and not estimator.candidates:
        raise CounterrankError(f"estimator {estimator.name!r}: expected a function, weigh or assisted")
    unknown = [need for need in estimator.needs if need not in NEEDS]
    if unknown:
        raise CounterrankError(f"needs: {unknown[0]!r}; expected some of {', '.join(NEEDS)}")
    if estimator.log_condition is not None:
        check_choice(estimator.log_condition, tuple(LOG_CONDITIONS), "log_condition")
    if estimator.name in ESTIMATORS and not replace:
        raise CounterrankError(
            f"estimator {estimator.name!r}: registered already; expected another name, or replace=True"
        )
    ESTIMATORS[estimator.name] = estimator
    return estimator


def named_estimator(name: Any) -> Estimator:
    """The estimator of this name.

    >>> named_estimator("policy-aware").condition
    'rho(d) > 0 for every relevant document (eq:awarecond)'
    """
    if isinstance(name, Estimator):
        return name
    return ESTIMATORS[check_choice(name, tuple(ESTIMATORS), "estimator")]


for _estimator in (
    Estimator(
        "policy-aware",
        "corrects for position bias and item selection bias",
        "sum over clicks on d of min(1 / rho(d), clip), rho(d) = P(examined | query, policy)  (eq:policyaware)",
        "rho(d) > 0 for every relevant document (eq:awarecond)",
        ("clicks", "propensities"),
        _CLIP,
        weigh=_policy_aware,
        assisted=_policy_aware_seen,
        can_clip=True,
        log_condition="examinable",
    ),
    Estimator(
        "affine",
        "corrects for position bias, item selection bias and trust bias",
        "(clicks(d) - n E[beta]) min(1 / E[alpha], clip)  (Vardasbi et al. 2020)",
        "E[alpha] > 0 for every relevant document",
        ("clicks", "trust"),
        _CLIP,
        weigh=_affine,
        log_condition="examinable",
    ),
    Estimator(
        "policy-oblivious",
        "corrects for position bias only",
        "sum over clicks on d of min(1 / P(examined | rank), clip)  (eq:obliviousestimator)",
        "every relevant document is on every page at an examined rank (eq:agnosticcond)",
        ("clicks", "examination"),
        _CLIP,
        weigh=lambda data, evidence, clip=None: policy_oblivious(evidence.clicks, evidence.users, clip=clip),
        can_clip=True,
        log_condition="every-page",
    ),
    Estimator(
        "rerank",
        "corrects for position bias, and ranks inside each displayed page only",
        "as policy-oblivious, one ranking per displayed page",
        "unbiased for the order within the pages that were shown",
        ("clicks", "examination", "displays"),
        _CLIP,
        weigh=lambda data, evidence, clip=None: rerank(evidence.clicks, evidence.users, clip=clip),
        can_clip=True,
        log_condition="within-page",
    ),
    Estimator(
        "naive",
        "no correction: a baseline",
        "clicks(d)  (eq:naiveestimator)",
        "never, unless all ranks are examined alike and all documents shown",
        ("clicks",),
        _CLIP,
        weigh=lambda data, evidence, clip=None: naive(evidence.clicks, clip=clip),
        can_clip=True,
        log_condition="one-rank",
    ),
    Estimator(
        "auto",
        "cross-validates policy-aware, direct, doubly-robust and shrinkage, and averages those not clearly worse than "
        "the best",
        "see docs/concepts/few-clicks.md",
        "its parts are",
        ("clicks", "exposure"),
        {
            **_CLIP,
            "tau": Hyperparameter("least propensity that doubly-robust divides by", check=check_tau),
            "strength": Hyperparameter(
                "examinations that the relevance model counts for in shrinkage", check=check_strength
            ),
        },
        uses_relevance=True,
        candidates=("shrinkage", "direct", "doubly-robust", "policy-aware"),
        default=("shrinkage", 3.0),
    ),
    Estimator(
        "direct",
        "uses the predictions of a relevance model alone",
        "n R(d), n the sessions of the query, R(d) the predicted relevance",
        "the relevance model is right",
        ("clicks", "exposure"),
        assisted=lambda seen, relevance, likely: seen.sessions * relevance,
        uses_relevance=True,
    ),
    Estimator(
        "doubly-robust",
        "a model of relevance, corrected by clicks",
        "n R(d) + (clicks(d) - E(d) R(d)) / max(rho(d), tau), E(d) its examinations  (Oosterhuis 2023)",
        "rho(d) >= tau for every relevant document, or the relevance model is right",
        ("clicks", "exposure"),
        {"tau": Hyperparameter("least propensity to divide by", check=check_tau)},
        assisted=lambda seen, relevance, likely, tau=0.03: doubly_robust_weights(seen, relevance, tau),
        uses_relevance=True,
        grid={"tau": (0.03, 0.01)},
    ),
    Estimator(
        "shrinkage",
        "click rates shrunk towards a model of relevance where examinations are few",
        "n (clicks(d) + m R(d)) / (E(d) + m), m the strength",
        "as the number of sessions grows",
        ("clicks", "exposure"),
        {
            "strength": Hyperparameter(
                "examinations that the relevance model counts for; most likely value if not given",
                check=check_strength,
            )
        },
        assisted=lambda seen, relevance, likely, strength=None: shrunken_weights(
            seen, relevance, likely if strength is None else strength
        ),
        uses_relevance=True,
        # learning to rank forgives a bias that the documents of a query share, and needs less variance than the
        # estimate that is best for each document alone
        grid={"strength": (1.0, 3.0, 10.0)},
        scaled="strength",
    ),
    Estimator(
        "full-information",
        "supervised learning to rank",
        "1 if label >= relevance_threshold else 0; or 2**label - 1",
        "labels are right",
        ("labels",),
        {
            "relevance_threshold": "smallest label of a relevant document",
            "gain": Hyperparameter("binary or exponential", str, words=("binary", "exponential")),
        },
        weigh=lambda data, evidence, relevance_threshold=3, gain="binary": full_information(
            data, relevance_threshold, gain=gain
        ),
    ),
):
    register_estimator(_estimator)

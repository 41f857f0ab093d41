"""User models: how likely a user clicks a document of some relevance at some rank.

An `Examination` is the position-based model, P(click) = theta_rank * P(click | examined). `Affine` adds trust bias.
All of them are saved as JSON, and accepted wherever an examination curve is.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.click_cards import affine_card, affine_chart, affine_summary
from counterrank.clicks.context_cards import by_context_card, by_context_chart, by_context_summary
from counterrank.clicks.examination import CurvesByContext, Examination, UserModel, check_examination
from counterrank.clicks.origin import content_sources
from counterrank.common.checks import FloatArray, check_vector
from counterrank.common.errors import CounterrankError, DataError, brief
from counterrank.common.files import PathLike, atomic_file, read_stamp
from counterrank.common.notebook import Shown, Summary

if TYPE_CHECKING:
    from counterrank.clicks.counts import ClickCounts

FORMAT, VERSION = "counterrank-users", 1
_LOG = "_log_key"  # attribute of an estimate
_DIGITS = 12  # of canonical values, so that equivalent inputs give the same numbers and not only close ones


class SavedUsers(UserModel, Shown):
    """Base of user models that are saved as JSON: `describe` gives a model, `content` also what an estimate has."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Plain numbers for JSON; `load` makes an equal model of them."""

    def content(self) -> dict[str, Any]:
        """What `save` writes."""
        return self.describe()

    def save(self, path: PathLike) -> None:
        """Write a JSON file, which `examination.load`, `--users FILE` and `--examination FILE` read."""
        content = {"format": FORMAT, "version": VERSION, **self.content()}
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


class Affine(SavedUsers):
    """Users with trust bias: P(click | relevance r, rank j) = alpha_j r + beta_j, and 0 beyond the last rank.

    Clicks identify (alpha, beta) only up to r -> (r - b) / a, the same for all documents, but bounds, clips and
    models of relevance depend on it. So both are mapped to one canonical gauge: r = 0 and r = 1 are the smallest and
    largest r for which alpha_j r + beta_j is a probability at every rank,

        low = max_j -beta_j / alpha_j,   high = min_j (1 - beta_j) / alpha_j       over ranks with alpha_j > 0
        alpha_j -> alpha_j (high - low),   beta_j -> beta_j + alpha_j low,   r -> (r - low) / (high - low).

    A position-based model has beta = 0, and its largest alpha is 1.

    Arguments:
        alpha: at least 0, one for each rank; above 0 at one of them.
        beta: one for each rank, also below 0; some r must give probabilities at every rank.
        relevance: a typical r of irrelevant and of relevant documents, in the gauge of alpha and beta; for simulations.

    >>> users = Affine([0.28, 0.1617], [0.41, 0.1764])
    >>> users == Affine([0.56, 0.3234], [0.41 - 0.28, 0.1764 - 0.1617])  # r' = (r + 1) / 2
    True
    >>> users.beta.round(3).tolist(), float(users.alpha[0] + users.beta[0])
    ([0.105, 0.0], 1.0)
    >>> Affine([0.5, 0.25], [0.0, 0.0]).alpha.tolist()
    [1.0, 0.5]
    """

    def __init__(self, alpha: ArrayLike, beta: ArrayLike, relevance: tuple[float, float] | None = None) -> None:
        gain, base = check_vector(alpha, None, "alpha", "ranks"), check_vector(beta, None, "beta", "ranks")
        if len(gain) != len(base) or not len(gain):
            raise CounterrankError(
                f"alpha, beta: {len(gain)} and {len(base)} values; expected one of each for every rank, at least one"
            )
        if (gain < 0.0).any():
            rank = int(np.argmax(gain < 0.0)) + 1
            raise CounterrankError(
                f"alpha: {gain[rank - 1]:g} at rank {rank}; expected at least 0, more clicks with more relevance"
            )
        rising = gain > 0.0
        if not rising.any():
            raise CounterrankError("alpha: 0 at every rank, so clicks carry no information; expected one above 0")
        low = float((-base[rising] / gain[rising]).max())
        high = float(((1.0 - base[rising]) / gain[rising]).min())
        flat = ~rising & ((base < 0.0) | (base > 1.0))
        if not high > low or flat.any():
            raise CounterrankError(
                "alpha, beta: no relevance r gives a probability alpha r + beta at every rank; expected one that does"
            )
        self.alpha: FloatArray = np.clip(np.round(gain * (high - low), _DIGITS), 0.0, 1.0)
        self.beta: FloatArray = np.clip(np.round(base + gain * low, _DIGITS), 0.0, 1.0 - self.alpha)
        self.relevance = None if relevance is None else _canonical(relevance, low, high)
        self.scale = high - low  # of the given alpha: propensities computed with it are multiplied by this
        for array in (self.alpha, self.beta):
            array.flags.writeable = False

    @property
    def k(self) -> int:
        """The last rank."""
        return len(self.alpha)

    @property
    def is_position_based(self) -> bool:
        """Whether beta is 0 at every rank, so that an examination curve says as much."""
        return not self.beta.any()

    @property
    def examination(self) -> Examination:
        """alpha by rank: the examination curve where the model is position-based."""
        return Examination(self.alpha)

    @property
    def base(self) -> Examination | None:
        """beta by rank; None where it is 0 at every rank."""
        return None if self.is_position_based else Examination(self.beta)

    def describe(self) -> dict[str, Any]:
        """Plain numbers for JSON; `load` makes an equal model of them."""
        found: dict[str, Any] = {"model": "affine", "alpha": self.alpha.tolist(), "beta": self.beta.tolist()}
        return found if self.relevance is None else {**found, "relevance": list(self.relevance)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Affine) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash((self.alpha.tobytes(), self.beta.tobytes(), self.relevance))

    def __repr__(self) -> str:
        return f"Affine({self.alpha.tolist()}, {self.beta.tolist()})"

    def summary(self) -> Summary:
        """alpha and beta by rank, as a dict that prints as a table."""
        return affine_summary(self)

    def plot(self) -> Any:
        """P(click) of documents of relevance 0 and 1 over the rank, an altair chart."""
        return affine_chart(self)

    def _repr_html_(self) -> str:
        return affine_card(self)


class ByContext(SavedUsers):
    """Users who behave differently in each context, such as on each device, and find the same documents relevant.

        P(click | relevance r, rank j, context c) = alpha_cj r + beta_cj

    Relevance is common to all contexts, and so is its scale: all alpha and beta together are mapped to the canonical
    gauge of `Affine`. Without beta, the curves are P(examined | rank) up to one factor, by which the largest becomes 1:
    that one is 0.5 everywhere where another is 1 says that half as many users examine what is shown.

    Arguments:
        alpha: for each context the values by rank, or an examination curve with an end.
        beta: for each context the values by rank, also below 0; None for 0.
        other: the curve of contexts that have none of their own, without beta only; None where they are an error.

    The names of contexts are the values in the column of the log that `read_log(log, context=["device"])` read; of
    several columns with a comma between them, "mobile, de".

    >>> users = ByContext({"desktop": [1.0, 0.6], "mobile": [0.8, 0.2]})
    >>> users.alpha["mobile"].tolist(), users["mobile"]  # of all contexts together, and of one alone
    ([0.8, 0.2], Affine([1.0, 0.25], [0.0, 0.0]))
    >>> users == ByContext({"desktop": [0.5, 0.3], "mobile": [0.4, 0.1]})
    True
    """

    def __init__(
        self, alpha: Mapping[str, Any], beta: Mapping[str, ArrayLike] | None = None, other: Any = None
    ) -> None:
        if not isinstance(alpha, Mapping) or not alpha or not all(isinstance(name, str) for name in alpha):
            raise CounterrankError(f"alpha: {brief(alpha)}; expected values by rank for each context, at least one")
        given = {} if beta is None else beta
        if not isinstance(given, Mapping) or not set(given) <= set(alpha):
            raise CounterrankError(f"beta: {brief(beta)}; expected values by rank for contexts that alpha has")
        if beta is not None and other is not None:
            raise CounterrankError("other: given together with beta; expected alpha and beta of each context by name")
        curves = {name: _curve_of(values, f"alpha[{name!r}]") for name, values in alpha.items()}
        bases = {
            name: check_vector(given.get(name, np.zeros(len(curve))), len(curve), f"beta[{name!r}]", "ranks")
            for name, curve in curves.items()
        }
        rest = np.zeros(0) if other is None else _curve_of(other, "other")
        ends = np.cumsum([len(curve) for curve in curves.values()])
        # the gauge of all contexts together is that of one page on which their ranks stand behind each other
        whole = Affine(np.concatenate((*curves.values(), rest)), np.concatenate((*bases.values(), np.zeros(len(rest)))))
        parts = [np.split(values, ends) for values in (whole.alpha, whole.beta)]
        self.alpha: dict[str, FloatArray] = dict(zip(curves, parts[0], strict=False))
        self.beta: dict[str, FloatArray] = dict(zip(curves, parts[1], strict=False))
        self.other: FloatArray | None = None if other is None else parts[0][-1]
        self.scale = whole.scale  # of the given alpha: propensities computed with it are multiplied by this

    @property
    def contexts(self) -> tuple[str, ...]:
        """The names of the contexts."""
        return tuple(self.alpha)

    @property
    def k(self) -> int:
        """The last rank."""
        return max(map(len, self.alpha.values()))

    def __getitem__(self, context: str) -> Affine:
        """The users of one context, alpha and beta in a gauge of their own: to be used for that context alone."""
        if context not in self.alpha:
            raise CounterrankError(f"context {brief(context)}: not one of {', '.join(map(repr, self.alpha))}")
        return Affine(self.alpha[context], self.beta[context])

    @property
    def is_position_based(self) -> bool:
        """Whether beta is 0 in every context, so that examination curves say as much."""
        return not any(base.any() for base in self.beta.values())

    @property
    def examination(self) -> CurvesByContext:
        """alpha by rank for each context."""
        other = None if self.other is None or not self.other.any() else Examination(self.other)
        return CurvesByContext(_curves(self.alpha), other)

    @property
    def base(self) -> CurvesByContext | None:
        """beta by rank for each context; None where it is 0 everywhere."""
        return None if self.is_position_based else CurvesByContext(_curves(self.beta))

    def describe(self) -> dict[str, Any]:
        """Plain numbers for JSON; `load` makes an equal model of them."""
        found: dict[str, Any] = {"model": "by-context"}
        found["alpha"] = {name: values.tolist() for name, values in self.alpha.items()}
        if not self.is_position_based:
            found["beta"] = {name: values.tolist() for name, values in self.beta.items()}
        return found if self.other is None else {**found, "other": self.other.tolist()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByContext) and ByContext.describe(self) == ByContext.describe(other)

    def __hash__(self) -> int:
        return hash(json.dumps(ByContext.describe(self), sort_keys=True))

    def __repr__(self) -> str:
        shown = {name: values.round(4).tolist() for name, values in self.alpha.items()}
        return f"{type(self).__name__}({shown})"

    def summary(self) -> Summary:
        """alpha, and beta where it is not 0, by context and rank, as a dict that prints as a table."""
        return by_context_summary(self)

    def plot(self) -> Any:
        """alpha over the rank, a line for each context, an altair chart."""
        return by_context_chart(self)

    def _repr_html_(self) -> str:
        return by_context_card(self)


def _curves(values: dict[str, FloatArray]) -> dict[str, Examination | None]:
    return {name: Examination(own) if own.any() else None for name, own in values.items()}


def _curve_of(values: Any, name: str) -> FloatArray:
    """Values by rank of one context."""
    if isinstance(values, Affine):
        raise CounterrankError(
            f"{name}: an affine user model, whose relevance has a scale of its own, and here all contexts share one; "
            "expected alpha and beta by rank, in ByContext(alpha, beta)"
        )
    found = _values(values, name)
    if not len(found):
        raise CounterrankError(f"{name}: no values; expected one for each rank")
    if (found < 0.0).any():
        raise CounterrankError(f"{name}: {found.min():g} at rank {int(found.argmin()) + 1}; expected at least 0")
    return found


def _canonical(relevance: Any, low: float, high: float) -> tuple[float, float]:
    given = check_vector(relevance, 2, "relevance", "levels: irrelevant and relevant")
    found = np.round((given - low) / (high - low), _DIGITS)
    if not 0.0 <= found[0] < found[1] <= 1.0:
        raise CounterrankError(
            f"relevance={list(given)}: expected that of irrelevant documents below that of relevant ones, both with "
            "probabilities alpha r + beta at every rank"
        )
    return float(found[0]), float(found[1])


def log_key(clicks: ClickCounts) -> str:
    """What was shown and clicked, by which an estimate knows the log it was fitted to."""
    return " ".join(source.content for source in content_sources(clicks))


def remember_log(users: Any, clicks: ClickCounts) -> None:
    """Have users know the log that they were fitted to; files do not keep it."""
    object.__setattr__(users, _LOG, log_key(clicks))


def fitted_to(users: Any, clicks: ClickCounts) -> bool:
    """Whether `examination.estimate` fitted users to these very clicks."""
    known = getattr(users, _LOG, None)
    return known is not None and known == log_key(clicks)


def users_of(exam: Any, beta: Any) -> Any:
    """The user model of arguments `exam` and `beta`: with beta, exam is alpha by rank; both 0 past their ends.

    >>> users_of([0.5, 0.25], [0.0]).alpha.tolist()
    [1.0, 0.5]
    """
    if beta is None:
        return exam
    if isinstance(exam, Affine | ByContext):
        raise CounterrankError("beta: given together with a user model, which has its own; expected None")
    if exam is None:
        raise CounterrankError("exam: None with beta given; expected alpha by rank")
    curves = [_values(values, name) for values, name in ((exam, "alpha"), (beta, "beta"))]
    n = max(map(len, curves))
    alpha, base = (np.append(curve, np.zeros(n - len(curve))) for curve in curves)
    return Affine(alpha, base)


def _values(values: Any, name: str) -> FloatArray:
    if isinstance(values, Examination | UserModel):
        curve = check_examination(values)
        if curve.k is None:
            raise CounterrankError(f"{name}: a curve without an end; expected one value for each rank")
        return curve.curve(curve.k)
    return check_vector(values, None, name, "ranks")


def is_users_file(file: Path) -> bool:
    """Whether a file was written by `save` of a user model of this module."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT


Reader = Callable[[dict[str, Any]], UserModel]


def _read_affine(content: dict[str, Any]) -> Affine:
    return Affine(content["alpha"], content["beta"], content.get("relevance"))


def _read_by_context(content: dict[str, Any]) -> ByContext:
    return ByContext(content["alpha"], content.get("beta"), content.get("other"))


_READERS: dict[str, Reader] = {"affine": _read_affine, "by-context": _read_by_context}


def register_users(model: str, reader: Reader) -> None:
    """Have `load_users` read files whose `model` is this one; `reader` takes the content of the file.

    It raises KeyError, TypeError, ValueError or CounterrankError where the content is not what `save` writes.
    """
    _READERS[model] = reader


def load_users(file: Path) -> UserModel:
    """The model that `save` of a user model wrote."""
    content = read_stamp(file.parent, file.name, FORMAT, VERSION, "save of a user model", DataError, what="a file")
    reader = _READERS.get(str(content.get("model")))
    if reader is None:
        raise DataError(f"{file}: model {content.get('model')!r}; expected one of {', '.join(sorted(_READERS))}")
    try:
        return reader(content)
    except (KeyError, TypeError, ValueError) as fault:
        raise DataError(f"{file}: {fault}; expected a file written by save of a user model") from None

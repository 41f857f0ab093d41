"""How users click, estimated from a log: `examination.estimate` for every user model, and reading the files of all.

Each model has a module that fits it: `position_bias`, `contexts`, `trust_bias`, `feature_linked` and `browsing_fit`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, overload

import numpy as np

from counterrank.clicks.browsing_fit import (
    EstimatedBrowsing,
    EstimatedDependent,
    estimate_browsing,
    estimate_dependent,
)
from counterrank.clicks.contexts import estimate_by_context
from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination, FittedCurve, UserModel
from counterrank.clicks.feature_linked import estimate_linked
from counterrank.clicks.position_bias import (
    FORMAT,
    VERSION,
    EstimatedExamination,
    all_pairs,
    comparable,
    estimate_position_bias,
)
from counterrank.clicks.rank_table import last_rank, rank_table
from counterrank.clicks.trust_bias import EstimatedAffine, estimate_affine
from counterrank.clicks.user_models import is_users_file, load_users, remember_log
from counterrank.common.checks import check_choice, check_confidence
from counterrank.common.deprecation import renamed_argument
from counterrank.common.errors import CounterrankError, DataError, ExaminationWarning
from counterrank.common.files import PathLike, existing, read_stamp
from counterrank.data import RankingData
from counterrank.data.features import refuse_missing

POPULATIONS = ("queries", "these-queries")
_MOST = 1.05  # chance may bring an estimate a little above 1, not further


def load(path: PathLike) -> Examination | UserModel:
    """Load the user model that `save` of an estimate or of a model wrote; values of a curve are capped at 1.

    Estimators ignore the propensities of a log, with a warning, where they are given what this loads: they were
    computed with another user model.

    >>> load("no/such/curve.json")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.MissingFileError: no/such/curve.json: no such examination curve (file or folder not found)
    """
    file = existing(path, "examination curve")
    expected = "expected a file written by EstimatedExamination.save"
    if not file.is_file():
        raise DataError(f"{path}: is a folder; {expected}")
    if is_users_file(file):
        return load_users(file)
    made_by = "EstimatedExamination.save"
    content = read_stamp(file.parent, file.name, FORMAT, VERSION, made_by, DataError, what="a file")
    values = content.get("values")
    if not isinstance(values, list) or not all(type(value) in (int, float) and value >= 0.0 for value in values):
        raise DataError(f"{path}: values are not a list of numbers of at least 0; {expected}")
    if max(values, default=0.0) > _MOST:
        rank = int(np.argmax(values)) + 1
        text = f"{path}: {values[rank - 1]:g} at rank {rank}, more than at rank 1, is taken for 1"
        warnings.warn(f"{text}; is the estimate to be trusted?", ExaminationWarning, stacklevel=2)
    return FittedCurve(np.clip(values, 0.0, 1.0))


def load_estimate(path: PathLike) -> EstimatedExamination:
    """Load the whole result that `EstimatedExamination.save` wrote, including confidence intervals.

    >>> load_estimate("no/such/curve.json")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.MissingFileError: no/such/curve.json: no such examination curve (file or folder not found)
    """
    curve = load(path)
    if isinstance(curve, UserModel):
        raise DataError(
            f"{path}: a user model, {type(curve).__name__}; expected a file written by EstimatedExamination.save"
        )
    content = json.loads(existing(path, "examination curve").read_text(encoding="utf-8"))
    try:
        found = {each.name: content[each.name] for each in fields(EstimatedExamination)}
        ends = np.array(found["intervals"], np.float64)
        found |= {"values": np.array(found["values"], np.float64), "intervals": ends}
        found |= {"ranks": np.array(found["ranks"], np.int64), "warnings": tuple(found["warnings"])}
    except (KeyError, TypeError, ValueError):
        ends = np.zeros(0)
    if ends.shape != (curve.k, 2) or not np.isfinite(ends).all():
        raise DataError(f"{path}: incomplete; expected a file written by EstimatedExamination.save")
    return EstimatedExamination(**found)


class Asked(NamedTuple):
    """The checked arguments of `estimate`."""

    clicks: ClickCounts
    method: str
    k: int | None
    data: RankingData | None
    population: str | None
    confidence: float


class FittedModel(NamedTuple):
    """How one user model is estimated.

    Attributes:
        fit: from the arguments to the estimate.
        methods: the first one where none is given.
        with_features: those of the methods that take `data`.
        by_context: the same for clicks with contexts, by the first method; None where one fit is for all of them.
    """

    fit: Callable[[Asked], UserModel]
    methods: tuple[str, ...]
    with_features: tuple[str, ...] = ()
    by_context: Callable[[Asked], UserModel] | None = None


class _Options(TypedDict, total=False):
    """The arguments of `estimate` that all its overloads have."""

    method: str | None
    k: int | None
    data: RankingData | None
    population: str | None
    confidence: float
    target: str | None


@overload
def estimate(
    clicks: ClickCounts,
    *,
    model: Literal["position-based"] = "position-based",
    by_context: Literal[False],
    **options: Unpack[_Options],
) -> EstimatedExamination: ...


@overload
def estimate(
    clicks: ClickCounts,
    *,
    model: Literal["position-based"] = "position-based",
    by_context: bool | None = None,
    **options: Unpack[_Options],
) -> Any: ...  # an EstimatedByContext where the clicks hold contexts, which types cannot know


@overload
def estimate(
    clicks: ClickCounts,
    *,
    model: Literal["affine"],
    by_context: Literal[False] | None = None,
    **options: Unpack[_Options],
) -> EstimatedAffine: ...


@overload
def estimate(clicks: ClickCounts, *, model: Literal["browsing"], **options: Unpack[_Options]) -> EstimatedBrowsing: ...


@overload
def estimate(
    clicks: ClickCounts, *, model: Literal["dependent"], **options: Unpack[_Options]
) -> EstimatedDependent: ...


def estimate(
    clicks: ClickCounts,
    *,
    model: str = "position-based",
    method: str | None = None,
    k: int | None = None,
    data: RankingData | None = None,
    population: str | None = None,
    confidence: float = 0.95,
    target: str | None = None,
    by_context: bool | None = None,
) -> Any:
    """Estimate how users click by rank from a log, with confidence intervals: the examination curve, or trust bias.

        P(click | document d, rank k) = theta_k gamma_d         estimated: theta_k / theta_1     model="position-based"
        P(click | document d, rank k) = alpha_k r_d + beta_k    estimated: alpha_k and beta_k    model="affine"

    Documents shown at several ranks separate position from relevance. Under the position-based model above, with ranks
    that do not depend on what the single session finds relevant, "all-pairs" is consistent with any number of
    impressions of each document. Nothing is drawn at random.

    Arguments:
        clicks: of any log, counted with or without ranking data; all its policies count together.
        model: "position-based", or "affine" for trust bias. Of a log counted with `last_clicks=True` also "browsing",
            P(examined | rank, rank of the last click above), and "dependent", P(the user goes on | click at rank).
        method: None for the first of the model. Position-based: "all-pairs" (Agarwal et al., 2019), "em" with a free
            relevance for each document, or "regression-em" with a logistic regression on the features of `data` (Wang
            et al., 2018). Affine: "documents", or "features" where documents do not move between ranks: documents with
            like features link the ranks, under the assumption that, given its features, the rank of a document says no
            more about its relevance (`feature_linked`). Browsing and dependent: "all-pairs" or "em"; "em" of the
            dependent click model needs `displays=True` too.
        k: the last rank to estimate; None for the last one of the log.
        data: what the clicks were counted against, for "regression-em" and "features".
        population: the target population of the intervals: "queries" like these, or new clicks on "these-queries";
            None for the first where the log holds 10 effective queries or more. Each holds for one rank at a time.
        confidence: the confidence level of each interval.
        target: deprecated name of `population`.
        by_context: fit one curve for each context of a log that was read with `context=`, all of them together, with
            "all-pairs": an `EstimatedByContext`. The curves are relative to rank 1 of the context with most sessions,
            contexts with few sessions are shrunk towards what all have in common, and it is an error where no
            documents that were shown in several contexts link them. None for whether the clicks have contexts; False
            for one curve, an `EstimatedExamination`. "affine" fits one model for all contexts.

    An error where documents do not connect all ranks with rank 1, see `connected_ranks`. What else speaks against the
    curve is an `ExaminationWarning`, and in `warnings` of the result.

    >>> import counterrank as cr
    >>> from counterrank import examination, policies, simulation
    >>> data = cr.RankingData(np.zeros((600, 1)), np.arange(0, 601, 20), labels=np.arange(600) % 5)
    >>> policy, scores = policies.PlackettLuce(k=3), np.zeros(600)
    >>> exam = examination.inverse_rank(k=3)
    >>> log = simulation.simulate(data, scores, policy, exam, sessions=200_000, seed=0)
    >>> estimate(log).values.round(2).tolist()
    [1.0, 0.5, 0.33]
    >>> estimate(log, model="affine").beta.round(1).tolist()
    [0.0, 0.0, 0.0]
    """
    check_counts(clicks)
    own = _MODELS[check_choice(model, tuple(_MODELS), "model")]
    method = own.methods[0] if method is None else check_choice(method, own.methods, "method")
    population = renamed_argument(population, target, "population", "target")
    if population is not None:
        check_choice(population, POPULATIONS, "population")
    asked = Asked(clicks, method, k, data, population, check_confidence(confidence))
    found: UserModel
    if (own.by_context is not None and bool(clicks.contexts)) if by_context is None else by_context:
        found = _of_contexts(asked, own, model)
    else:
        _check_features(asked, own)
        found = own.fit(asked)
    remember_log(found, clicks)
    return found


def _of_contexts(asked: Asked, own: FittedModel, model: str) -> UserModel:
    """One model for each context, or why there is none."""
    if not asked.clicks.contexts:
        raise CounterrankError(
            "by_context: the clicks hold no contexts; expected those of a log read with context=, such as ['device']"
        )
    if own.by_context is None or asked.method != own.methods[0]:
        raise CounterrankError(
            f"model {model!r}, method {asked.method!r}: one for all contexts; expected method 'all-pairs' of the "
            "position-based model, or by_context=False"
        )
    _check_features(asked, own)
    return own.by_context(asked)


def _check_features(asked: Asked, own: FittedModel) -> None:
    """An error unless data is given where the method takes features, and nowhere else."""
    data, method = asked.data, asked.method
    if method in own.with_features:
        if data is None:
            raise CounterrankError(f"data: missing; method {method!r} expected the ranking data for its features")
        asked.clicks.check_data(data)
        refuse_missing(data, f"method {method!r}", "another method")
    elif data is not None:
        instead = f"method {own.with_features[0]!r}" if own.with_features else "None"
        raise CounterrankError(f"data: given, but method {method!r} uses no features; expected {instead}")


def _position_based(asked: Asked) -> UserModel:
    clicks, method, k, data, population, level = asked
    return estimate_position_bias(clicks, method, k, data, population, level)


def _by_context(asked: Asked) -> UserModel:
    return estimate_by_context(asked.clicks, asked.k, asked.population, asked.confidence)


def _affine(asked: Asked) -> UserModel:
    last = last_rank(asked.clicks, asked.k)
    if asked.data is None:
        return _by_documents(asked, last)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExaminationWarning)
        try:
            reference = _by_documents(asked._replace(population=None), last)
        except CounterrankError:  # the log does not identify it, so there is nothing to compare with
            reference = None
    table = rank_table(asked.clicks, last)
    return estimate_linked(asked.clicks, table, asked.data, asked.population, asked.confidence, reference)


def _by_documents(asked: Asked, last: int) -> EstimatedAffine:
    """Affine users from documents seen at several ranks."""
    theta = all_pairs(comparable(asked.clicks, last)).theta
    return estimate_affine(asked.clicks, rank_table(asked.clicks, last), theta, asked.population, asked.confidence)


def _browsing(asked: Asked) -> UserModel:
    return estimate_browsing(asked.clicks, asked.method, asked.k, asked.population, asked.confidence)


def _dependent(asked: Asked) -> UserModel:
    return estimate_dependent(asked.clicks, asked.method, asked.k, asked.population, asked.confidence)


_MODELS = {
    "position-based": FittedModel(
        _position_based, ("all-pairs", "em", "regression-em"), ("regression-em",), _by_context
    ),
    "affine": FittedModel(_affine, ("documents", "features"), ("features",)),
    "browsing": FittedModel(_browsing, ("all-pairs", "em")),
    "dependent": FittedModel(_dependent, ("all-pairs", "em")),
}

"""Blends of the production ranker and a new one: as much of the new ranker as held-out clicks show to be safe."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.checks import BoolArray, FloatArray, IntArray, check_choice, check_number, make_generator
from counterrank.common.errors import CounterrankError, brief
from counterrank.common.numerics import student_quantile
from counterrank.common.parallel import thread_count
from counterrank.data import RankingData
from counterrank.data.scores import document_scores
from counterrank.estimators.model_assisted import doubly_robust_weights, most_likely_strength, shrunken_weights
from counterrank.estimators.relevance import SATURATION, relevance_of
from counterrank.models.linear import LinearModel, linear_importances
from counterrank.models.model import Scaler
from counterrank.training.cross_validation import INNER_FOLDS, Pool
from counterrank.training.problem import TrainingWeights, query_metric
from counterrank.training.ranker import Ranker, shares, with_features_of
from counterrank.training.storage import read_part, write_part

WEIGHTS = (0.5, 0.75, 1.0)  # of the new ranker; tested in this order until one fails
EVIDENCE = ("model-assisted", "asymptotic")
_GROUPS = 10  # of the queries of each half, left out in turn for the variance
_FEWEST = 2 * _GROUPS  # queries


@dataclass(frozen=True)
class Blend:
    """A blend of production and the new ranker, compared with production on held-out clicks.

    Attributes:
        weight: of the new ranker, above 0; 1 for the new ranker alone.
        estimate: how much better it is than production, in the metric per session; positive is better for ARP too.
        error: the standard error of that.
        lower: the one-sided lower confidence bound of the same.
        allowed: whether its bound, and that of each smaller weight, is above 0.
        chosen: whether it is the ranker that was returned.
    """

    weight: float
    estimate: float
    error: float
    lower: float
    allowed: bool = False
    chosen: bool = False

    @property
    def name(self) -> str:
        """What it is made of.

        >>> Blend(0.5, 0.1, 0.05, 0.02).name, Blend(1.0, 0.1, 0.05, 0.02).name
        ('0.5 production + 0.5 new', 'new')
        """
        return "new" if self.weight == 1.0 else f"{1.0 - self.weight:g} production + {self.weight:g} new"


@dataclass(frozen=True)
class BlendModel:
    """A weighted sum of the scores of two rankers, each divided by its spread.

        s(d) = (1 - t) s_production(d) / sigma_production + t s_new(d) / sigma_new

    Attributes:
        new: the new ranker.
        production: the other; None where only its scores were given, which `blended` then takes for other data.
        weight: t, from 0 to 1.
        spreads: sigma_production and sigma_new, see `score_spread`.
    """

    new: Ranker
    production: Ranker | None
    weight: float
    spreads: tuple[float, float]

    @property
    def scaler(self) -> Scaler:
        """Features are scaled by the two rankers; within queries if one of them does."""
        parts = [part for part in (self.new, self.production) if part is not None]
        kind = "query" if any(part.model_.scaler.kind == "query" for part in parts) else "none"
        return Scaler.none(self.n_features, kind)

    @property
    def n_features(self) -> int:
        """The number of features."""
        return self.new.n_features_

    def predict(self, data: RankingData, threads: int | None = None) -> FloatArray:
        """A score for each document; an error where the scores of production are not known."""
        if self.production is None:
            raise CounterrankError(
                "ranker: blends with production, of which only scores were given; expected "
                "training.blended(ranker, production's scores, data), or production= a ranker in training"
            )
        return self.blend(predicted(self.production, data, threads), data, threads)

    def blend(self, production: FloatArray, data: RankingData, threads: int | None = None) -> FloatArray:
        """The blended scores, from those of production."""
        return mixed(production, predicted(self.new, data, threads), self.weight, self.spreads)

    def vectors(self) -> dict[str, FloatArray]:
        """None; the two rankers have their own."""
        return {}

    def write(self, folder: Path) -> dict[str, Any]:
        """Both rankers, in folders of their own."""
        write_part(self.new, folder, "new")
        if self.production is not None:
            write_part(self.production, folder, "production")
        return {"weight": self.weight, "spreads": list(self.spreads), "has_production": self.production is not None}

    @classmethod
    def restore(cls, folder: Path, content: dict[str, Any]) -> BlendModel:
        """Read what `write` wrote."""
        spreads = tuple(float(value) for value in content["spreads"])
        weight = float(content["weight"])
        if len(spreads) != 2 or not all(0.0 < value < np.inf for value in spreads) or not 0.0 <= weight <= 1.0:
            raise ValueError("weight and spreads")
        production = read_part(folder, "production") if content["has_production"] else None
        return cls(read_part(folder, "new"), production, weight, spreads)


def mixed(production: FloatArray, new: FloatArray, weight: float, spreads: tuple[float, float]) -> FloatArray:
    """(1 - t) s_production / sigma_production + t s_new / sigma_new, with t the weight.

    >>> mixed(np.array([0.0, 2.0]), np.array([3.0, 0.0]), 0.5, (1.0, 3.0)).tolist()
    [0.5, 1.0]
    """
    return np.asarray((1.0 - weight) * production / spreads[0] + weight * new / spreads[1])


def score_spread(scores: FloatArray, offsets: IntArray) -> float:
    """The mean over queries of the standard deviation of scores; queries of equal scores are left out.

    >>> score_spread(np.array([0.0, 2.0, 5.0, 5.0]), np.array([0, 2, 4]))
    1.0
    """
    lengths = np.diff(offsets)
    centred = scores - np.repeat(np.add.reduceat(scores, offsets[:-1]) / lengths, lengths)
    largest = float(np.abs(centred).max(initial=0.0))
    if largest == 0.0:
        return 1.0
    deviations = np.sqrt(np.add.reduceat((centred / largest) ** 2, offsets[:-1]) / lengths)
    return float(largest * deviations[deviations > 0.0].mean())


def predicted(ranker: Ranker, data: RankingData, threads: int | None = None) -> FloatArray:
    """The scores of a ranker for data that may have more features than it knows."""
    one = copy.copy(ranker)
    one.threads = threads
    return one.predict(with_features_of(one, data))


def production_scores(production: Any, data: RankingData, name: str = "production") -> FloatArray:
    """The scores of production: a ranker's, or those given for each document."""
    return predicted(production, data) if isinstance(production, Ranker) else document_scores(production, data, name)


@dataclass(frozen=True)
class Guard:
    """Production, and what a new ranker must show to take its place."""

    production: Any
    safety: float
    evidence: str

    @classmethod
    def check(cls, production: Any, safety: Any, evidence: Any) -> Guard:
        """The same, checked."""
        level = check_number(safety, "safety", also=", such as 0.95")
        if not 0.5 < level < 1.0:
            raise CounterrankError(f"safety={brief(safety)}: expected a number above 0.5 and below 1, such as 0.95")
        return cls(production, level, check_choice(evidence, EVIDENCE, "evidence_level"))

    @property
    def ranker(self) -> Ranker | None:
        """Production, if it is a ranker and not scores."""
        return self.production if isinstance(self.production, Ranker) else None

    def scores(self, pools: Sequence[Pool]) -> list[FloatArray]:
        """Production's scores of each part."""
        if isinstance(self.production, Ranker) or callable(getattr(self.production, "predict", None)):
            return [production_scores(self.production, pool.data) for pool in pools]
        if len(pools) == 1:
            return [production_scores(self.production, pools[0].data)]
        if not isinstance(self.production, tuple) or len(self.production) != len(pools):
            raise CounterrankError(
                "production: one set of scores, where there are validation clicks; expected a ranker, or a pair of "
                "scores, those of data and those of validation"
            )
        names = ("production", "production of validation")
        return [production_scores(*each) for each in zip(self.production, (p.data for p in pools), names, strict=True)]


def blended(ranker: Ranker, production: ArrayLike | Ranker, data: RankingData) -> FloatArray:
    """Scores of a blend whose production ranker is known by its scores alone.

    Arguments:
        ranker: from `fit_from_clicks(..., production=scores)`, or loaded. Of a ranker that is no such blend the own
            scores are returned.
        production: production's scores of the documents of `data`, or a ranker.
        data: the documents.

    >>> data = RankingData([[0.0], [1.0], [2.0], [3.0]], offsets=[0, 2, 4])
    >>> ranker = Ranker(loss="arp-hinge", max_epochs=3).fit(data, weights=[0.0, 1.0, 0.0, 1.0])
    >>> kept = blend_rankers(None, ranker, 0.0, (1.0, 1.0), data)
    >>> blended(kept, [4.0, 3.0, 2.0, 1.0], data).tolist()
    [4.0, 3.0, 2.0, 1.0]
    """
    model = ranker._fitted()
    if not isinstance(model, BlendModel) or model.production is not None:
        return ranker.predict(data)
    fitting = with_features_of(ranker, data)
    return model.blend(production_scores(production, data), fitting, ranker.threads)


def blend_rankers(
    production: Ranker | None, new: Ranker, weight: float, spreads: tuple[float, float], data: RankingData
) -> Ranker:
    """One ranker of the two; of two linear ones that scale features alike, one linear ranker.

    With weight 1 the new ranker, and with weight 0 production, where that is a ranker.
    """
    if weight == 1.0:
        return new
    if weight == 0.0 and production is not None:
        return copy.copy(production)
    result = copy.copy(new)
    linear = None if production is None else _linear_blend(production, new, weight, spreads)
    if linear is not None:
        scales, threads = linear.scaler.scales(data, new.threads), thread_count(new.threads)
        result.model_ = linear
        result._importances = shares(linear_importances(data, linear.coefficients, scales, threads))
    else:
        result.model_, result.kind_, result.model = BlendModel(new, production, weight, spreads), "blend", "blend"
        result.params, result._importances = None, None
    return result


def _linear_blend(production: Ranker, new: Ranker, weight: float, spreads: tuple[float, float]) -> LinearModel | None:
    """The blend as one linear model; None where it is none, or features are scaled by what each has learned."""
    mine, other = new.model_, production.model_
    if not isinstance(mine, LinearModel) or not isinstance(other, LinearModel):
        return None
    if mine.scaler.kind != other.scaler.kind or mine.scaler.kind == "standard":
        return None
    names = new.feature_names_in_.tolist()
    if (new._feature_names is None) != (production._feature_names is None):  # features are taken by position
        if production.n_features_ != new.n_features_:
            return None
        columns = list(range(new.n_features_))
    else:
        columns = [names.index(name) for name in production.feature_names_in_ if name in names]
        if len(columns) != production.n_features_:
            return None
    spread = np.zeros(new.n_features_)
    spread[columns] = other.coefficients
    return replace(mine, coefficients=mixed(spread, mine.coefficients, weight, spreads))


class HalvesFit(NamedTuple):
    """What rankers trained on one half of the queries say of the other.

    Attributes:
        scores: of all documents, by the ranker of the other half, divided by their spread.
        first: whether a query is of the first half.
    """

    scores: FloatArray
    first: BoolArray


def fit_halves(pool: Pool, learn: Callable[[Pool], Ranker], generator: np.random.Generator) -> HalvesFit:
    """Train on each half of the queries, and score the other."""
    n = pool.data.n_queries
    if n < _FEWEST:
        raise CounterrankError(f"clicks: sessions of {n} queries; expected at least {_FEWEST} to compare on")
    first: BoolArray = np.zeros(n, np.bool_)
    first[generator.permutation(n)[: n // 2]] = True
    scores = np.zeros(pool.data.n_docs)
    for chosen in (first, ~first):
        ranker = learn(pool.part(np.flatnonzero(chosen)))
        other = pool.data.subset(np.flatnonzero(~chosen))
        found = ranker.predict(other)
        scores[np.repeat(~chosen, pool.data.lengths)] = found / score_spread(found, other.offsets)
    return HalvesFit(scores, first)


class _Gains(NamedTuple):
    """Of the blends on one half: the estimate for each weight, its variance, and the sessions."""

    estimates: FloatArray
    variances: FloatArray
    sessions: float


def compare_blends(
    production: FloatArray, fit: HalvesFit, pool: Pool, model: Any, metric: str, safety: float,
    evidence: str = "model-assisted", weights: Sequence[float] = WEIGHTS, seed: int = 0,
) -> list[Blend]:  # fmt: skip
    """Test blends against production in rising order of weight, each at the full level, until one fails.

        lower = estimate - t_{safety} error,    t with 2 (groups - 1) degrees of freedom

    A fixed sequence of tests keeps the level for all of them together: a blend is tested only if those before it
    passed, so the first that is no better than production is allowed with a probability of at most 1 - safety. The
    chosen one is the last that is allowed; where none is, production stays.

    Each half is evaluated by its own clicks, with weights

        model-assisted:  n R + (clicks - E R) n / (E + m)     asymptotic:  n R + (clicks - E R) / rho

    whose relevance model is fitted to the half itself, cross-fitted: to other queries than the ranker's. If it shared
    the ranker's clicks, it would repeat the ranker's errors. What the estimates have in common through the model does
    not average out over queries. So the variance is that of the delete-a-group jackknife, which fits the model again
    without each of 10 groups of queries; with few clicks it is two to four times that of queries alone.
    """
    halves = []
    for half in (fit.first, ~fit.first):
        rows = np.repeat(half, pool.data.lengths)
        spread = score_spread(production[rows], pool.data.subset(np.flatnonzero(half)).offsets)
        scores = np.array([mixed(production, fit.scores, each, (spread, 1.0))[rows] for each in (0.0, *weights)])
        generator = make_generator(seed)
        halves.append(_jackknife(scores, pool.part(np.flatnonzero(half)), model, metric, evidence, generator))
    sessions = sum(half.sessions for half in halves)
    freedom = sum(min(_GROUPS, int(np.count_nonzero(half))) - 1 for half in (fit.first, ~fit.first))
    quantile = float(student_quantile(2.0 * safety - 1.0, freedom))
    found: list[Blend] = []
    for i, weight in enumerate(weights):
        estimate = sum(float(half.estimates[i]) * half.sessions / sessions for half in halves)
        error = sum(float(half.variances[i]) * (half.sessions / sessions) ** 2 for half in halves) ** 0.5
        lower = estimate - quantile * error
        allowed = lower > 0.0 and all(each.allowed for each in found)
        found.append(Blend(weight, estimate, error, lower, allowed))
    last = max((i for i, each in enumerate(found) if each.allowed), default=-1)
    return [replace(each, chosen=i == last) for i, each in enumerate(found)]


def _jackknife(
    scores: FloatArray, part: Pool, model: Any, metric: str, evidence: str, generator: np.random.Generator
) -> _Gains:
    """Gains of the blends (rows of scores) over production (the first row), estimated without each group in turn.

    variance = (G - 1) / G sum over groups of (estimate without it - their mean)^2
    """
    n, entropy = part.data.n_queries, int(generator.integers(2**31))
    groups = min(_GROUPS, n)
    numbers = generator.permutation(n) % groups

    def estimate(chosen: BoolArray) -> FloatArray:
        kept = part.part(np.flatnonzero(chosen))
        own = _evaluation_weights(kept, model, evidence, make_generator(entropy))
        return _gains(scores[:, np.repeat(chosen, part.data.lengths)], kept, own, metric)

    whole = estimate(np.ones(n, np.bool_))
    left = np.array([estimate(numbers != group) for group in range(groups)])
    variances = (groups - 1) / groups * ((left - left.mean(axis=0)) ** 2).sum(axis=0)
    return _Gains(whole, variances, _sessions(part))


def _evaluation_weights(part: Pool, model: Any, evidence: str, generator: np.random.Generator) -> FloatArray:
    """Weights of documents by their own clicks, with a relevance model of these queries alone."""
    relevance = relevance_of(part.data, part.seen, model, SATURATION, INNER_FOLDS, generator).values
    if evidence == "asymptotic":
        return doubly_robust_weights(part.seen, relevance, 0.0)
    return shrunken_weights(part.seen, relevance, most_likely_strength(part.seen, relevance))


def _gains(scores: FloatArray, part: Pool, weights: FloatArray, metric: str) -> FloatArray:
    """sum over d of weight (lambda of the blend - lambda of production) / sessions, for each row but the first."""
    total = float(np.abs(weights).sum())
    if total == 0.0:
        return np.zeros(len(scores) - 1)
    value = query_metric(metric, part.data, TrainingWeights(weights, None))
    values = np.array([value(each, 1).sum() for each in scores])
    return np.asarray((values[1:] - values[0]) * (total / _sessions(part)))


def _sessions(part: Pool) -> float:
    return float(part.seen.sessions[part.data.offsets[:-1]].sum())


def safety_in_words(blends: Sequence[Blend], metric: str, safety: float, evidence: str, failure: str = "") -> str:
    """Why production, a blend or the new ranker was returned.

    >>> safety_in_words([Blend(0.5, 0.1, 0.05, 0.02, True, True), Blend(1.0, 0.1, 0.07, -0.02)], "dcg@5", 0.95,
    ...                 "model-assisted")
    'Against production, 0.5 production + 0.5 new is better by 0.1 dcg@5 per session (95 % lower bound 0.02) and is \
returned; new was not allowed (0.1, lower bound -0.02). Model-assisted, cross-fitted over halves of the queries: \
advice about how rankers are trained here, not a test of the returned one.'
    """
    note = (
        f"{evidence.capitalize()}, cross-fitted over halves of the queries: advice about how rankers are trained here, "
        "not a test of the returned one."
    )
    if failure:
        return f"Production stays, since there is too little to compare on: {failure}."
    chosen = next((each for each in blends if each.chosen), None)
    refused = next((each for each in blends if not each.allowed), None)
    level = f"{100.0 * safety:.4g} % lower bound"
    parts = []
    if chosen is not None:
        parts.append(
            f"Against production, {chosen.name} is better by {chosen.estimate:.2g} {metric} per session "
            f"({level} {chosen.lower:.2g}) and is returned"
        )
        if refused is not None:
            parts.append(f"{refused.name} was not allowed ({refused.estimate:.2g}, lower bound {refused.lower:.2g})")
    elif refused is not None:
        parts.append(
            f"Production stays: {refused.name} is estimated to differ from it by {refused.estimate:+.2g} {metric} per "
            f"session, with a {level} of {refused.lower:.2g}, which is not above 0"
        )
    return "; ".join(parts) + f". {note}"

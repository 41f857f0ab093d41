"""Metrics of a ranking from clicks alone, with confidence intervals.

`estimate` for one ranking, `compare` for the difference of two, `select` for the best of several.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination
from counterrank.clicks.origin import FEW_SHARED, Origin, shared_sessions, too_few_to_tell
from counterrank.common.checks import FloatArray
from counterrank.common.deprecation import renamed_argument
from counterrank.common.errors import CounterrankError, brief, printable
from counterrank.common.notebook import Shown, Summary
from counterrank.common.random import HashSample
from counterrank.data import RankingData
from counterrank.data.frames import is_frame
from counterrank.data.ids import query_keys
from counterrank.data.scores import document_scores
from counterrank.estimators.propensities import UNSHOWN, Propensities
from counterrank.evaluation.confidence_intervals import (
    Interval,
    IntervalSettings,
    bootstrap_intervals,
    bootstrap_sums,
    click_intervals,
    diagnose,
    uncovered_shares,
)
from counterrank.evaluation.control_variates import controlled
from counterrank.evaluation.evaluation_cards import (
    estimate_summary,
    estimate_text,
    estimates_card,
    estimates_plot,
    selection_card,
    selection_plot,
    selection_summary,
    selection_text,
)
from counterrank.evaluation.fitted_users import Given, fit_where_unknown, with_fitted_users
from counterrank.evaluation.metrics import higher_is_better, metric_names, parse_metric
from counterrank.evaluation.weighted_clicks import (
    Method,
    QuerySums,
    WeightedClicks,
    document_values,
    query_sums,
    weight_clicks,
)


class IntervalWarning(UserWarning):
    """A confidence interval is outside the range in which its coverage was measured to be right."""


class InSampleWarning(UserWarning):
    """An estimate uses clicks on queries that the ranker was trained on, or some of its training clicks."""


@dataclass(frozen=True, repr=False)
class Estimate(Shown):
    """An estimate from clicks of one metric of a ranking, or of the difference of two rankings.

    omega is that of the method: by inverse propensities, or doubly robust.

    Attributes:
        metric: its name.
        ips: sum(omega * lambda) / sessions; None for arp.
        self_normalized: sum(omega * lambda) / sum(omega); None if that sum is not above 0.
        ips_interval: its confidence interval (low, high); None where there is no `ips`, or too little data.
        self_normalized_interval: the same for `self_normalized`.
        effective_sample_size: (sum of the weights of clicks)^2 / sum of their squares, each click weighing 1 / rho.
        largest_share: the largest weight of a click over the sum of all.
        target: the target population of the intervals, "queries" or "these-queries".
        confidence: the confidence level.
        n_queries: the number of queries with sessions.
        n_sessions: the number of sessions.
        n_clicks: the number of clicks.
        doubts: why the coverage of the intervals may be lower; empty inside the range where it was shown to hold.
        method: "ips", or "dr" where omega is doubly robust; `ips` is then the doubly robust value per session.
        control: "optimal" where control variates were subtracted, else "none".
        in_sample: whether the ranker was trained on these clicks, or stopped by them.
        propensities: where they come from: "given"; "logged"; of several policies "mean"; "realised", how often the
            documents were shown; or "estimated" from that with smoothing.
        uncovered: the share of the metric, by sum(sessions * |lambda|), on documents that the clicks do not cover.
        is_difference: whether it is the difference of two rankings, from `compare`.
        users: what was found where users were fitted to these clicks; "" where they were not.
    """

    metric: str
    ips: float | None
    self_normalized: float | None
    ips_interval: Interval | None
    self_normalized_interval: Interval | None
    effective_sample_size: float
    largest_share: float
    target: str
    confidence: float
    n_queries: int
    n_sessions: int
    n_clicks: int
    doubts: tuple[str, ...]
    method: str = "ips"
    control: str = "none"
    in_sample: bool = False
    propensities: str = "given"
    uncovered: float = 0.0
    is_difference: bool = False
    users: str = ""

    @property
    def population(self) -> str:
        """The target population of the intervals; another name of `target`."""
        return self.target

    @property
    def per_session(self) -> float | None:
        """The value per session by the method; another name of `ips`."""
        return self.ips

    @property
    def per_session_interval(self) -> Interval | None:
        """Its confidence interval (low, high)."""
        return self.ips_interval

    def summary(self) -> Summary:
        """All fields and a sentence, as a dict that prints as a table."""
        return estimate_summary(self)

    def plot(self) -> Any:
        """The confidence intervals, an altair chart."""
        return estimates_plot({self.metric: self})

    def __repr__(self) -> str:
        return estimate_text(self)

    def _repr_html_(self) -> str:
        return estimates_card({self.metric: self})


class Estimates(Shown, dict[str, Estimate]):
    """An `Estimate` for each metric: a dict with a notebook representation."""

    def summary(self) -> Summary:
        """The summary of each metric, as a dict that prints as a table."""
        return Summary({name: estimate_summary(one) for name, one in self.items()})

    def plot(self) -> Any:
        """The confidence intervals of all metrics, an altair chart."""
        return estimates_plot(self)

    def _repr_html_(self) -> str:
        return estimates_card(self)


def estimate(
    scores: Any,
    data: RankingData,
    clicks: ClickCounts,
    rho: ArrayLike | Propensities | None = None,
    metrics: Sequence[str] = ("arp", "dcg@5"),
    *,
    population: str = "queries",
    confidence: float = 0.95,
    replicates: int = 2000,
    noise: tuple[float, float] | None = None,
    ties: str = "average",
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
    method: str = "ips",
    control: str = "none",
    relevance: ArrayLike | None = None,
    exam: ArrayLike | Examination | str | None = None,
    in_sample: bool = False,
    target: str | None = None,
) -> Estimates:
    """Estimate metrics of a ranking from clicks on the pages of another one (off-policy evaluation).

        ips             = sum(omega * lambda) / sessions       sessions of all queries (eq:highlevelloss)
        self_normalized = sum(omega * lambda) / sum(omega)     for dcg: per relevant document
        omega(d)        = sum over clicks on d of 1 / rho(d)   never clipped (eq:policyaware)

    lambda is the rank of the document for arp (lower is better) and D(rank) for dcg (higher is better), see
    `rank_values`. Metrics that need to know all relevant documents are refused.

    With P(click | examined) = e0 + (e1 - e0) * relevance and rho > 0 for every candidate, the expectations are an
    increasing function (affine, and the same for all rankers) of the label metric,
    `evaluate(..., query_weights=sessions, empty="zero")`. `noise` removes the clicks that are not for relevance.

    method="dr" is doubly robust: a model of relevance R predicts the clicks, and only the residuals are weighted:

        omega(d) = sessions * R(d) + sum over impressions of d of (click - P(examined | rank) R(d)) / rho(d)

    Its expectation is that of "ips" whatever R is if rho is right, and whatever rho is if R is right; documents that
    cannot be examined keep sessions * R. Intervals are narrower where it varies which document was shown, see
    docs/concepts/intervals.md.

    control="optimal" subtracts what was shown by chance, beta (Y - E[Y]) with Y the sum over the page of
    P(examined | rank) * lambda / rho. The expectation of `ips` stays the same; the variance is smallest with

        beta = Cov(X, Y) / Var(Y)     X = sum over the page of click * lambda / rho

    which is cross-fitted over queries, for each metric. It is the doubly robust estimate with R = beta, without a
    model. With method="dr" beta scales the click model, so that it counts as far as it predicts clicks.

    Arguments:
        scores: a ranker, which is checked not to have been trained on these clicks, or stopped by them; a frame with
            the ids of query and document and a score; or an array with one score per document, in the order of the
            data. A higher score ranks first. See `data.document_scores`.
        data: what the clicks were counted against; labels are not looked at.
        clicks: what was shown and clicked.
        rho: the propensity of each document, as `policy.propensity(scores, offsets, exam)` or
            `policies.propensity_from_log` gives it; None for those logged with the clicks. If none were logged, `exam`
            gives how often each document was examined, see `estimators.logged_propensities`.
        metrics: "arp", "dcg", "dcg@k", "precision@k".
        population: the target population of the intervals. "queries": queries like these (bootstrap over queries).
            "these-queries": new clicks on these queries, with the same number of sessions.
        confidence: the confidence level.
        replicates: bootstrap resamples of the queries; population "these-queries" needs none.
        noise: (e0, e1), P(click | examined) of irrelevant and of relevant documents. omega becomes
            (omega - e0 * sessions of the query) / (e1 - e0) where rho > 0.
        ties: "average" for the expected value over all orders of documents with equal scores, "order" for document
            order.
        seed: of the resamples.
        threads: how many to use; the result is the same for any number.
        method: "ips", or "dr" for doubly robust.
        control: "none", or "optimal" for the control variates that reduce the variance most; needs what method="dr"
            needs, and at least two queries.
        relevance: for "dr", R = P(click | examined) of each document, from 0 to 1: an array, or what `fit_relevance`
            gives. R of a query must not be fitted to its own clicks, else the estimate is biased. None for
            `fit_relevance`, which is cross-fitted.
        exam: for "dr", and for logs of several policies or without propensities, P(examined | rank), the curve that
            rho was computed with; None for that of simulated clicks. Under trust bias a user model. "auto" to fit users
            to these clicks, see `estimators.learn_users`, which is also done where nothing says how users click;
            intervals then include the error of the fit.
        in_sample: whether to accept clicks that the ranker was trained on, or stopped by; the result then says so.
        target: deprecated name of `population`.

    Returns:
        a dict with an `Estimate` for each metric. An `IntervalWarning` says which intervals lie outside the range where
        their coverage was shown to hold.

    >>> import warnings
    >>> from counterrank.data.ids import identity
    >>> data = RankingData([[0.0], [0.0], [0.0]], offsets=[0, 3])
    >>> docs, ranks, shown, clicked = np.array([[0, 1, 2], [1, 2, 2], [10, 5, 5], [4, 1, 2]])
    >>> clicks = ClickCounts(identity(data), data.offsets, np.array([10]), docs, ranks, shown, clicked)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # seven clicks are far too few
    ...     found = estimate([1.0, 2.0, 3.0], data, clicks, rho=[1.0, 0.25, 0.25], population="these-queries")
    >>> found["arp"].self_normalized  # ranks 3, 2, 1 with weights 4, 4, 8
    1.75
    >>> round(found["dcg@5"].ips, 6)  # (4 / 2 + 4 / log2(3) + 8) / 10
    1.252372
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     found = estimate(
    ...         [1.0, 2.0, 3.0], data, clicks, [1.0, 0.25, 0.25], method="dr", relevance=[0.4, 0.4, 0.4], exam=[1, 0.5]
    ...     )
    >>> found["arp"].self_normalized  # weights 4 + 0 / 1, 4 + (1 - 5 * 0.2) / 0.25, 4 + (2 - 5 * 0.2) / 0.25
    1.75
    """
    population = renamed_argument(population, target, "population", "target", "queries")
    settings = IntervalSettings.check(population, confidence, replicates, seed, threads)
    names = metric_names(metrics, ())
    made = _made(data, clicks, rho, noise, settings, Method(method, relevance, exam, control))
    weighted = weight_clicks(*made)
    seen = check_held_out({"the ranker": scores}, data, clicks, population, in_sample)
    values = document_values(document_scores(scores, data), data, names, ties, settings.threads)
    return Estimates(zip(names, _estimates(weighted, values, names, settings, seen, made), strict=True))


def compare(
    scores_a: Any,
    scores_b: Any,
    data: RankingData,
    clicks: ClickCounts,
    rho: ArrayLike | Propensities | None = None,
    metrics: Sequence[str] = ("arp", "dcg@5"),
    *,
    population: str = "queries",
    confidence: float = 0.95,
    replicates: int = 2000,
    noise: tuple[float, float] | None = None,
    ties: str = "average",
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
    method: str = "ips",
    control: str = "none",
    relevance: ArrayLike | None = None,
    exam: ArrayLike | Examination | str | None = None,
    in_sample: bool = False,
    target: str | None = None,
) -> Estimates:
    """Estimate the difference of two rankings, a minus b, from the same clicks.

        ips             = sum(omega * (lambda_a - lambda_b)) / sessions
        self_normalized = sum(omega * (lambda_a - lambda_b)) / sum(omega)

    Both are estimated from the same clicks and the same resamples, so that much of the variance cancels: an interval
    without 0 says which is better. For dcg a positive difference is in favour of a, for arp a negative one.

    Arguments:
        scores_a, scores_b: rankers, frames with ids, or one score per document each, as in `estimate`.
        data, clicks, rho, metrics and all others: as in `estimate`.

    >>> import warnings
    >>> from counterrank.data.ids import identity
    >>> data = RankingData([[0.0], [0.0]], offsets=[0, 2])
    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [9, 9], [6, 1]])
    >>> clicks = ClickCounts(identity(data), data.offsets, np.array([9]), docs, ranks, shown, clicked)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     found = compare([2.0, 1.0], [1.0, 2.0], data, clicks, [1.0, 0.5], ["arp"], population="these-queries")
    >>> found["arp"].self_normalized  # weights 6, 2: (6 * (1 - 2) + 2 * (2 - 1)) / 8
    -0.5
    """
    population = renamed_argument(population, target, "population", "target", "queries")
    settings = IntervalSettings.check(population, confidence, replicates, seed, threads)
    names = metric_names(metrics, ())
    made = _made(data, clicks, rho, noise, settings, Method(method, relevance, exam, control))
    weighted = weight_clicks(*made)
    seen = check_held_out({"ranker a": scores_a, "ranker b": scores_b}, data, clicks, population, in_sample)
    values = document_values(document_scores(scores_a, data, "scores_a"), data, names, ties, settings.threads)
    values -= document_values(document_scores(scores_b, data, "scores_b"), data, names, ties, settings.threads)
    found = _estimates(weighted, values, names, settings, seen, made)
    return Estimates((name, replace(each, is_difference=True)) for name, each in zip(names, found, strict=True))


@dataclass(frozen=True, eq=False, repr=False)
class Selection(Shown):
    """The best of several rankers by an estimate from clicks.

    Attributes:
        best: the ranker itself.
        index: its place in the list.
        metric: by which it was chosen.
        estimates: of all rankers, in the order of the list.
        stability: the share of bootstrap resamples of the queries in which `best` is chosen.
        shares: the same for each ranker; they sum to 1.
        in_sample: whether one of them was trained on these clicks, or stopped by them.
    """

    best: Any
    index: int
    metric: str
    estimates: tuple[Estimate, ...]
    stability: float
    shares: tuple[float, ...]
    in_sample: bool = False

    def summary(self) -> Summary:
        """The choice and the estimate of each ranker, as a dict that prints as a table."""
        return selection_summary(self)

    def plot(self) -> Any:
        """The estimates of all rankers with their confidence intervals, an altair chart."""
        return selection_plot(self)

    def __repr__(self) -> str:
        return selection_text(self)

    def _repr_html_(self) -> str:
        return selection_card(self)


def select(
    rankers: Sequence[Any],
    data: RankingData,
    clicks: ClickCounts,
    rho: ArrayLike | Propensities | None = None,
    metric: str = "dcg@5",
    *,
    population: str = "queries",
    confidence: float = 0.95,
    replicates: int = 2000,
    noise: tuple[float, float] | None = None,
    ties: str = "average",
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
    method: str = "ips",
    control: str = "none",
    relevance: ArrayLike | None = None,
    exam: ArrayLike | Examination | str | None = None,
    in_sample: bool = False,
    target: str | None = None,
) -> Selection:
    """Select the best of several rankers by a metric estimated from clicks, without training (unbiased loss selection).

        best = argmax over rankers of sum(omega * lambda) / sum(omega)     (argmin for arp)

    omega comes from the clicks as in `estimate`, never clipped, so that the choice is not biased by a clip that suits
    one ranker. The first of equals is chosen. Clicks that one of them was trained on, or stopped by, are refused unless
    `in_sample` is given.

    Arguments:
        rankers: objects with `predict(data)`, or scores as in `estimate`.
        metric: "arp", "dcg", "dcg@k" or "precision@k".
        data, clicks, rho and all others: as in `estimate`. `stability` is over resamples of the queries for either
            population.

    >>> import warnings
    >>> from counterrank.data.ids import identity
    >>> data = RankingData([[0.0], [0.0]], offsets=[0, 2])
    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [9, 9], [1, 6]])
    >>> clicks = ClickCounts(identity(data), data.offsets, np.array([9]), docs, ranks, shown, clicked)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # one query is far too few
    ...     chosen = select([[2.0, 1.0], [1.0, 2.0]], data, clicks, rho=[1.0, 0.5], metric="arp")
    >>> chosen.best, chosen.index, chosen.stability
    ([1.0, 2.0], 1, 1.0)
    """
    population = renamed_argument(population, target, "population", "target", "queries")
    settings = IntervalSettings.check(population, confidence, replicates, seed, threads)
    made = _made(data, clicks, rho, noise, settings, Method(method, relevance, exam, control))
    weighted = weight_clicks(*made)
    sign = 1.0 if higher_is_better(metric) else -1.0
    all_scores = _all_scores(rankers, data)
    named = {f"ranker {i}": rankers[i] for i in range(len(rankers))}
    seen = check_held_out(named, data, clicks, population, in_sample)
    values = np.hstack([document_values(each, data, [metric], ties, settings.threads) for each in all_scores])
    if weighted.shown is not None:  # the same control variate for all, the best for what they differ in
        apart = values - values.mean(axis=1, keepdims=True)
        weighted = controlled(weighted, apart, np.zeros(values.shape[1]), together=True)[0]
    sums = query_sums(weighted, values)
    if not sums.omega.sum() > 0.0:
        raise CounterrankError(
            f"clicks: the weights of all documents sum to {sums.omega.sum():g}, so no ranker can be preferred; "
            "expected a sum above 0"
        )
    estimates = _estimates(weighted, values, [metric] * len(all_scores), settings, seen, made)
    # the rankers have the same denominator, so their numerators decide; the first of equals is chosen
    index = int(np.argmax(sign * sums.terms.sum(axis=0)))
    drawn = bootstrap_sums(np.column_stack([sums.terms, sums.omega]), settings)
    chosen = np.argmax(sign * drawn[drawn[:, -1] > 0.0, :-1], axis=1)  # of resamples with a positive denominator
    shares = np.bincount(chosen, minlength=len(all_scores)) / max(len(chosen), 1)
    return Selection(
        rankers[index], index, metric, tuple(estimates), float(shares[index]), tuple(shares.tolist()), seen
    )


def _all_scores(rankers: Any, data: RankingData) -> list[FloatArray]:
    expected = "expected a list of rankers (objects with predict) or of scores"
    if (
        isinstance(rankers, str | bytes | dict)
        or is_frame(rankers)
        or not {"__len__", "__getitem__"} <= set(dir(rankers))
    ):
        raise CounterrankError(f"rankers: {type(rankers).__name__}; {expected}")
    if not len(rankers):
        raise CounterrankError(f"rankers: the list is empty; {expected}, at least one")
    return [document_scores(rankers[i], data, f"rankers: number {i}") for i in range(len(rankers))]


def check_held_out(
    rankers: Mapping[str, Any], data: RankingData, clicks: ClickCounts, population: str, in_sample: Any
) -> bool:
    """Whether some of the rankers were trained on these clicks, or stopped by them: an error unless that is allowed.

    New clicks on queries that a ranker was trained on are valid for the population of these queries; for queries like
    these a warning gives the share of such queries. `rankers` are by the names they have in messages if they have no
    `label`; those without a `provenance_` (plain scores) cannot be checked.
    """
    if not isinstance(in_sample, bool | np.bool_):
        raise CounterrankError(f"in_sample={brief(in_sample)}: expected True or False")
    known = [(name, each.provenance_) for name, each in rankers.items() if getattr(each, "provenance_", None)]
    if not known:
        return False
    found, origin = False, clicks.known_origin()
    for name, provenance in known:
        queries = HashSample.of(query_keys(data, provenance.get("features"))[clicks.sessions > 0])
        about = printable(str(getattr(rankers[name], "label", name)))
        used = provenance["clicks"]
        earlier = Origin.from_description(used) if isinstance(used, dict) else Origin()
        share = shared_sessions(origin, earlier)
        if share >= FEW_SHARED:
            if not in_sample:
                raise CounterrankError(
                    f"{about} was trained on or stopped by {share:.0%} of these sessions, so this would be an "
                    "in-sample result, too good to be true; expected held-out clicks, or in_sample=True"
                )
            found = True
            continue
        if share:
            text = f"{about} was trained on or stopped by {share:.2%} of these sessions; the others are held out"
            warnings.warn(text, InSampleWarning, stacklevel=3)
        _warn_of_queries(about, queries, provenance, population, too_few_to_tell(origin, earlier))
    return found


def _warn_of_queries(
    name: str, queries: HashSample, provenance: Mapping[str, Any], population: str, too_few: bool
) -> None:
    """Warn of queries that were trained on, where that matters."""
    parts = [provenance[part] for part in ("data", "validation") if provenance[part] is not None]
    share = sum(queries.share_in(HashSample.from_description(part["query_keys"])) for part in parts)
    if not share:
        return
    trained = f"{name} was trained on {min(share, 1.0):.0%} of these queries"
    if isinstance(provenance["clicks"], str):
        text = f"{trained}, and does not say on which clicks; are these held out?"
    elif too_few:
        text = f"{trained}, and these sessions are too few to tell whether it was trained on them"
    elif population == "queries":
        text = (
            f"{name} was trained on or stopped by {min(share, 1.0):.0%} of these queries, with other clicks: the "
            "result holds for these queries (population='these-queries'), and may be too good for queries like these"
        )
    else:
        return
    warnings.warn(text, InSampleWarning, stacklevel=4)


def _made(data: RankingData, clicks: Any, rho: Any, noise: Any, settings: IntervalSettings, method: Method) -> Given:
    """What `weight_clicks` takes, with users fitted to the clicks where nothing says how they click."""
    check_counts(clicks)
    return Given(data, clicks, rho, noise, settings.threads, fit_where_unknown(method, data, clicks, rho))


class _Sums(NamedTuple):
    """What estimates of some columns of the values are made of: weighted clicks and their sums."""

    weighted: WeightedClicks
    columns: list[int]
    values: FloatArray
    sums: QuerySums
    denominators: dict[str, FloatArray]  # by kind, "ips" or "self_normalized"


class _Found(NamedTuple):
    """An estimate of one kind, of one column."""

    value: float
    interval: Interval | None
    doubts: list[str]


def _all_sums(weighted: WeightedClicks, values: FloatArray) -> list[_Sums]:
    """The sums of all columns together; with control variates, those of each estimate with its own."""
    sums = query_sums(weighted, values)
    total = float(sums.omega.sum())
    if not total > 0.0:
        text = f"self_normalized: the weights of all documents sum to {total:g}, not above 0; it is None"
        warnings.warn(text, stacklevel=4)
    everything = list(range(values.shape[1]))
    if weighted.shown is None or weighted.control is not None:
        below = {"ips": sums.sessions} | ({"self_normalized": sums.omega} if total > 0.0 else {})
        return [_Sums(weighted, everything, values, sums, below)]
    found = []
    for kind in ("ips", "self_normalized") if total > 0.0 else ("ips",):
        centres = sums.terms.sum(axis=0) / total if kind == "self_normalized" else np.zeros(len(everything))
        for m, own in enumerate(controlled(weighted, values, centres)):
            column = values[:, [m]]
            its = query_sums(own, column)
            below = {kind: its.omega if kind == "self_normalized" else its.sessions}
            if below[kind].sum() > 0.0:
                found.append(_Sums(own, [m], column, its, below))
    return found


def _found(each: _Sums, names: Sequence[str], settings: IntervalSettings) -> dict[tuple[str, int], _Found]:
    """Values, intervals and doubts by kind and column."""
    weighted, columns, values, sums, denominators = each
    centres = {
        kind: sums.terms.sum(axis=0) / below.sum() if kind == "self_normalized" else np.zeros(len(columns))
        for kind, below in denominators.items()
    }
    if settings.population == "queries":
        ratios = bootstrap_intervals(sums.terms, list(denominators.values()), settings)
    else:
        ratios = [
            click_intervals(weighted, sums.terms, below, values, centres[kind], settings)
            for kind, below in denominators.items()
        ]
    found = {}
    for (kind, below), ratio in zip(denominators.items(), ratios, strict=True):
        own = [names[m] for m in columns]
        doubts = diagnose(weighted, values, own, settings, kind, float(below.sum()), centres[kind])
        for i, m in enumerate(columns):
            found[kind, m] = _Found(float(ratio.values[i]), ratio.interval(i), doubts[i])
    return found


def _estimates(
    weighted: WeightedClicks,
    values: FloatArray,
    names: Sequence[str],
    settings: IntervalSettings,
    in_sample: bool,
    made: Given,
) -> list[Estimate]:
    """An estimate for each column of the values, and one warning for all intervals in doubt."""
    found: dict[tuple[str, int], _Found] = {}
    for each in _all_sums(weighted, values):
        found |= _found(each, names, settings)
    estimates = []
    for m, (name, uncovered) in enumerate(zip(names, uncovered_shares(weighted, values).tolist(), strict=True)):
        # the sum of ranks per session means nothing
        wanted = ("self_normalized",) if parse_metric(name)[0] == "arp" else ("ips", "self_normalized")
        own = {kind: found[kind, m] for kind in wanted if (kind, m) in found}
        doubts = [doubt for one in own.values() for doubt in one.doubts]
        if uncovered > UNSHOWN:
            doubts.insert(0, f"{100 * uncovered:.2g} % of it are on documents that the clicks do not cover")
        nothing = _Found(np.nan, None, [])
        one = Estimate(
            metric=name,
            ips=own["ips"].value if "ips" in own else None,
            self_normalized=own["self_normalized"].value if "self_normalized" in own else None,
            ips_interval=own.get("ips", nothing).interval,
            self_normalized_interval=own.get("self_normalized", nothing).interval,
            effective_sample_size=weighted.effective_sample_size,
            largest_share=weighted.largest_share,
            target=settings.population,
            confidence=settings.confidence,
            n_queries=int(np.count_nonzero(weighted.sessions)),
            n_sessions=int(weighted.sessions.sum()),
            n_clicks=int(weighted.cells.clicks.sum()),
            doubts=tuple(dict.fromkeys(doubts)),
            method=weighted.method,
            control="none" if weighted.shown is None else "optimal",
            propensities=weighted.source,
            uncovered=uncovered,
        )
        estimates.append(one)
    estimates = with_fitted_users(estimates, weighted, values, made)
    texts = dict.fromkeys(f"{each.metric}: {doubt}" for each in estimates for doubt in each.doubts)
    if texts:
        text = f"confidence intervals may cover the truth less often than {settings.confidence:.4g}: "
        warnings.warn(text + "; ".join(texts), IntervalWarning, stacklevel=3)
    if in_sample:
        doubt = "in-sample: the ranker was trained on these clicks, or stopped by them"
        return [replace(each, in_sample=True, doubts=(doubt, *each.doubts)) for each in estimates]
    return estimates

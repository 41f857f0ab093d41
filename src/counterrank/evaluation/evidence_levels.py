"""Is a ranking better than another? Three levels of evidence from clicks, each with bounds of the difference.

The target population are the logged queries at their frequencies, the unit is the session, and metrics are per session:
sum over documents of (lambda_new - lambda_current) * P(click | examined). Bounds are one-sided, each at the confidence
level.

- "finite-sample": a betting bound (`betting`), valid for any number of sessions and at every look at a growing log.
- "asymptotic": the doubly robust estimate with a standard error over sessions; right with many of them.
- "model-assisted": clicks shrunk towards a model of relevance; far more power with few sessions, and right as far as
  the model is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.browsing import sequential
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import lines_of
from counterrank.clicks.policies import page_kernels
from counterrank.clicks.policies.pages import Component, PageSource, components_of
from counterrank.common.checks import FloatArray, IntArray, check_choice, check_number, check_type
from counterrank.common.errors import CounterrankError, brief
from counterrank.common.notebook import Html, Shown, Summary, card, interval_decimals, notes, table
from counterrank.common.numerics import student_quantile
from counterrank.common.progress import progress
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData
from counterrank.data.ids import query_of_rows
from counterrank.data.scores import document_scores
from counterrank.estimators.evidence import Evidence
from counterrank.estimators.model_assisted import most_likely_strength, shrunken_weights
from counterrank.estimators.propensities import Propensities, inverse_propensity
from counterrank.estimators.relevance import Examinations, check_relevance, ridge_of_clicks
from counterrank.evaluation.betting import (
    Bets,
    SessionValues,
    Terms,
    least_favourable,
    lower_bound,
    times_to_decide,
)
from counterrank.evaluation.click_metrics import check_held_out
from counterrank.evaluation.confidence_intervals import (
    FEWEST_EXPECTED_CLICKS,
    IntervalSettings,
    click_intervals,
    expected_clicks,
)
from counterrank.evaluation.deployment import check_margin
from counterrank.evaluation.metrics import higher_is_better, rank_values
from counterrank.evaluation.weighted_clicks import (
    ClickPredictor,
    Method,
    WeightedClicks,
    document_values,
    query_sums,
    weight_clicks,
)

LEVELS = ("finite-sample", "asymptotic", "model-assisted")
DEFAULT_LEVEL = "asymptotic"
_CLICK_RATE = 0.15  # guessed, given examination; it decides how much is bet, and not whether bounds hold
_FEWEST_CLICKS = 1.0  # by skewness; below it not even the sign of the error of a bound is known
_SHRUNKEN = "model-assisted estimates are shrunk towards no difference, and say nothing about a loss that is allowed"
_REPLICATES = 30  # draws of the fitted model
_MOST_MORE = 1e12  # sessions; beyond, no number is given


@dataclass(frozen=True)
class Level(Shown):
    """One level of evidence: bounds of the difference, and what they say.

    Attributes:
        name: one of `LEVELS`.
        estimate: of the difference per session, positive where the new ranking is better; None without bounds.
        lower, upper: one-sided bounds at `confidence` each; None where the level does not apply.
        confidence: the confidence level of each bound.
        passes: lower > margin.
        is_worse: upper < 0.
        more_sessions: about how many more sessions like these decide, if the effect is as estimated: 0 where they do
            already; None where no number of them does, or there is no estimate.
        reason: why the level does not apply, or what it rests on and is not sure of; "" for nothing.
    """

    name: str
    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None
    confidence: float = 0.95
    passes: bool = False
    is_worse: bool = False
    more_sessions: int | None = None
    reason: str = ""


class Spending(NamedTuple):
    """How the error rate is divided: shares of it for the bounds that hold at every look, and for those of one look."""

    sequence: float = 1.0  # of this candidate
    look: float = 1.0  # of this look of the candidate


class Design(NamedTuple):
    """What the bets of a sequence were chosen by, known before its clicks; see `betting.Bets`.

    Attributes:
        loss, gain: the largest possible -X and X of a session.
        least, most: of the mean.
        square: about the mean of X**2.
        sessions: about how many there are at the first look.
    """

    loss: float
    gain: float
    least: float
    most: float
    square: float
    sessions: float

    def covers(self, other: Design) -> bool:
        """Whether all that may happen by the other design may happen by this one too."""
        mine, others = (
            np.array([each.loss, each.gain, -each.least, each.most]) for each in (self, other)
        )  # each at least 0
        return bool((mine * (1.0 + 1e-9) >= others).all())


@dataclass(frozen=True)
class DeploymentTest(Shown):
    """Whether a ranking may take the place of another, by clicks of sessions that neither was trained on.

    Attributes:
        deploy: whether all required levels of evidence have lower > margin.
        estimate, lower, upper: of the required level with the smallest lower bound; None without one.
        why: the decision in one sentence.
        metric, margin, confidence: as asked for; `confidence` is before it was divided between candidates and looks.
        required: the levels of evidence that must be met.
        levels: all levels by name.
        n_queries: with held-out sessions.
        n_sessions: the held-out sessions.
        n_clicks: the clicks in them.
        effective_sample_size: of the clicks by their importance weights (Kish).
        in_sample: whether one of the rankings was trained on these clicks, so that nothing is guaranteed.
        design: what the bets were chosen by, for later looks; None where there is no finite-sample bound.
    """

    deploy: bool
    estimate: float | None
    lower: float | None
    upper: float | None
    why: str
    metric: str
    margin: float
    confidence: float
    required: tuple[str, ...]
    levels: dict[str, Level]
    n_queries: int
    n_sessions: int
    n_clicks: int
    effective_sample_size: float
    in_sample: bool = False
    design: Design | None = None

    @property
    def is_worse(self) -> bool:
        """Whether a required level says that the new ranking is worse."""
        return not self.deploy and any(self.levels[name].is_worse for name in self.required)

    @property
    def exit_code(self) -> int:
        """As of a gate: 0 to deploy, 4 if it is worse, 3 if undecided."""
        return 0 if self.deploy else 4 if self.is_worse else 3

    def summary(self) -> Summary:
        """All fields, as a dict that prints as a table."""
        return Summary(asdict(self))

    def _repr_html_(self) -> str:
        return _card(self)


class Comparison(NamedTuple):
    """Everything that the levels are computed from."""

    data: RankingData
    evidence: Evidence
    weighted: WeightedClicks
    values: FloatArray  # lambda_new - lambda_current of each document, (n_docs, 1); 0 where the clicks do not cover it
    worst: FloatArray  # for each query the least that documents that the clicks do not cover can add, per session
    best: FloatArray  # and the most
    metric: str
    margin: float
    threads: int | None

    @property
    def shares(self) -> FloatArray:
        """The share of the sessions that each query has."""
        sessions = self.weighted.sessions.astype(np.float64)
        return np.asarray(sessions / sessions.sum())


def deployment_test(
    new: Any,
    current: Any,
    data: RankingData,
    clicks: ClickCounts | Evidence,
    rho: ArrayLike | Propensities | None = None,
    metric: str = "dcg@5",
    *,
    policy: Any = None,
    scores: Any = None,
    exam: Any = None,
    confidence: float = 0.95,
    margin: float = 0.0,
    evidence: str | Sequence[str] = DEFAULT_LEVEL,
    relevance: ArrayLike | None = None,
    ties: str = "average",
    in_sample: bool = False,
    threads: int | None = None,
    names: tuple[str, str] = ("the new ranker", "the current one"),
    spending: Spending | None = None,
    design: Design | None = None,
) -> DeploymentTest:
    """Decide by held-out clicks whether a ranking may take the place of another.

        deploy:   lower > margin   at each required level of evidence

    with lower a one-sided bound, at the confidence level, of the mean over the sessions of the logged queries, at their
    frequencies, of

        sum over documents of (lambda_new(d) - lambda_current(d)) * P(click | d examined)

    Documents that the logging policy cannot show count as they would in the worst case: for the lower bound those that
    the new ranking raises as never clicked, those that it lowers as clicked whenever examined.

    Arguments:
        new, current: rankers, or scores, one for each document.
        data: the logged queries.
        clicks: of sessions that were held out before training, preferably with displayed pages; or an `Evidence`.
        rho, exam: propensities and examination curve or user model, as in `estimate`.
        metric: "dcg", "dcg@k" or "precision@k"; the mean rank is not per session and is refused.
        policy, scores: the logging policy, instead of rho; with it finite-sample bounds are narrower, since it says
            which documents can be on one page.
        confidence: of each of the bounds.
        margin: what the lower bound must exceed.
        evidence: the level of evidence that is required, or several.
        relevance: R of each document for doubly robust estimates, which must not come from these clicks; None to fit it
            to them, cross-fitted over queries.
        ties, threads: as in `estimate`.
        in_sample: accept clicks that one of the rankings was trained on; the result then guarantees nothing.
        names: of the two, for the sentence.
        spending: shares of the error rate, where there are several candidates or looks.
        design: of the bets, at later looks that of the first one, as far as it still covers what may happen.

    >>> from counterrank import make_ranking_data, policies, simulation
    >>> data, exam = make_ranking_data("mslr", n_queries=40, seed=0), [1, 0.5, 0.3]
    >>> old, policy = data.features[:, 0], policies.UniformInsert(3)
    >>> clicks = simulation.simulate(data, old, policy, exam, sessions=20_000, seed=0, displays=True)
    >>> found = deployment_test(data.labels, old, data, clicks, policy=policy, scores=old, metric="dcg@3")
    >>> found.deploy, [level.passes for level in found.levels.values()]
    (True, [True, True, True])
    """
    required, level, limit = check_question(metric, confidence, margin, evidence)
    known = evidence_of(clicks, data, rho, policy, scores, exam, threads)
    scored = [document_scores(each, data, name) for each, name in ((new, "new"), (current, "current"))]
    seen = check_held_out({names[0]: new, names[1]: current}, data, known.clicks, "these-queries", in_sample)
    compared = compare_scores(scored[0], scored[1], data, known, metric, limit, ties, threads)
    shares = spending or Spending()
    alpha, own = 1.0 - level, None if lacking(compared) else design_of(compared)
    if own is not None and design is not None and design.covers(own):
        own = design
    of_sessions = asymptotic(compared, alpha * shares.sequence * shares.look, relevance)
    levels = {
        "finite-sample": finite_sample(compared, alpha * shares.sequence, own),
        "asymptotic": of_sessions,
        "model-assisted": narrower(model_assisted(compared, alpha * shares.sequence * shares.look), of_sessions),
    }
    return replace(_decided(levels, required, compared, level, names, seen), design=own)


def check_question(metric: Any, confidence: Any, margin: Any, evidence: Any) -> tuple[tuple[str, ...], float, float]:
    """What is asked of a deployment test: the required levels of evidence, the confidence level and the margin.

    >>> check_question("dcg@5", 0.95, 0, "asymptotic")
    (('asymptotic',), 0.95, 0.0)
    """
    required = check_levels(evidence)
    check_per_session(metric)
    level = check_number(confidence, "confidence", above=0.5, below=1.0, also=", such as 0.95")
    limit = check_margin(margin)
    if limit < 0.0 and "model-assisted" in required:
        raise CounterrankError(f"margin={limit:g}: {_SHRUNKEN}; expected a margin of at least 0, or another evidence")
    return required, level, limit


def check_per_session(metric: str) -> None:
    """An error if a metric is not a sum over the documents of a session.

    >>> check_per_session("dcg@5")
    """
    rank_values(metric, 1)
    if not higher_is_better(metric):
        raise CounterrankError(f"metric {metric!r}: is not per session; expected dcg, dcg@k or precision@k")


def check_levels(evidence: Any) -> tuple[str, ...]:
    """The levels of evidence that must be met, each once.

    >>> check_levels("asymptotic"), check_levels(["model-assisted", "asymptotic"])
    (('asymptotic',), ('model-assisted', 'asymptotic'))
    """
    given = (evidence,) if isinstance(evidence, str) else evidence
    if not isinstance(given, list | tuple) or not given:
        raise CounterrankError(f"evidence={brief(evidence)}: expected one or several of {', '.join(LEVELS)}")
    return tuple(dict.fromkeys(check_choice(name, LEVELS, "evidence") for name in given))


def evidence_of(
    clicks: Any, data: RankingData, rho: Any, policy: Any, scores: Any, exam: Any, threads: int | None
) -> Evidence:
    """All that is known about the clicks."""
    check_type(data, RankingData, "data")
    if not isinstance(clicks, Evidence):
        return Evidence(clicks, rho=rho, exam=exam, policy=policy, scores=scores, threads=threads).for_data(data)
    for name, given in (("rho", rho), ("policy", policy), ("scores", scores), ("exam", exam)):
        if given is not None:
            raise CounterrankError(f"{name}: given together with clicks that are an Evidence, which holds it")
    return clicks.for_data(data)


def compare_scores(
    new: FloatArray,
    current: FloatArray,
    data: RankingData,
    evidence: Evidence,
    metric: str,
    margin: float = 0.0,
    ties: str = "average",
    threads: int | None = None,
) -> Comparison:
    """What the levels of evidence are computed from, for checked scores; metrics without a difference are in order."""
    counts = evidence.clicks
    rho = evidence.propensities
    exam = evidence.users if evidence.has("examination") else None
    weighted = weight_clicks(data, counts, rho, None, threads, Method("ips", None, exam))
    values = document_values(new, data, [metric], ties, threads)
    values -= document_values(current, data, [metric], ties, threads)
    hidden = np.union1d(weighted.uncovered, weighted.unexaminable)
    owner = query_of_rows(counts.offsets)[hidden]
    worst, best = (
        np.bincount(owner, weights=end(values[hidden, 0], 0.0), minlength=counts.n_queries).astype(np.float64)
        for end in (np.minimum, np.maximum)
    )
    values[hidden] = 0.0
    return Comparison(data, evidence, weighted, values, worst, best, metric, margin, threads)


def finite_sample(compared: Comparison, alpha: float, design: Design | None = None) -> Level:
    """The betting bound on the difference, weighted by inverse propensities.

        X = sum over clicked d of (lambda_new(d) - lambda_current(d)) / rho(d)

    The largest possible loss of a page, which limits the bets of the lower bound, follows from rho and the policy.
    """
    empty = Level("finite-sample", confidence=1.0 - alpha)
    if lack := lacking(compared):
        return replace(empty, reason=lack)
    predictor = _trust(compared)
    chosen = design or design_of(compared)
    low, high = (session_values(compared, extra, predictor) for extra in (compared.worst, compared.best))
    below = Bets.of(chosen.loss, chosen.most, chosen.square, chosen.sessions, alpha)
    above = Bets.of(chosen.gain, -chosen.least, chosen.square, chosen.sessions, alpha)
    lower = lower_bound(low, below, alpha, chosen.least, chosen.most)
    upper = -lower_bound(high.negated(), above, alpha, -chosen.most, -chosen.least)
    estimate = session_values(compared, np.zeros_like(compared.worst), predictor).mean
    found = _level(empty, estimate, lower, upper, compared)
    more = None
    if found.passes or found.is_worse:
        more = 0
    elif low.mean > compared.margin:
        more = _more(times_to_decide(low, below, alpha, compared.margin), low.n)
    elif high.mean < min(compared.margin, 0.0):
        more = _more(times_to_decide(high.negated(), above, alpha, 0.0), low.n)
    without = "" if compared.evidence.clicks.displays is not None else (
        "displayed pages were not kept (displays=True), so that clicks of one rank of a query were put together in the "
        "worst possible way"
    )  # fmt: skip
    return replace(found, more_sessions=more, reason=without)


def lacking(compared: Comparison) -> str:
    """What a finite-sample bound requires and is not known; "" if it is."""
    if compared.weighted.rho is None or sequential(compared.evidence.exam) is not None:
        return "requires the propensity of every document, by rho, or by policy and scores"
    if _trust(compared) is not None and compared.evidence.clicks.displays is None:
        return "requires displayed pages (displays=True) under trust bias"
    return ""


def _trust(compared: Comparison) -> ClickPredictor | None:
    """Predicts the clicks that trust alone brings; None without trust bias."""
    if not compared.evidence.has("examination"):
        return None
    curve, base = lines_of(compared.evidence.users)
    return None if base is None else ClickPredictor(None, curve, base)


def session_values(compared: Comparison, extra: FloatArray, predictor: ClickPredictor | None = None) -> SessionValues:
    """X of the sessions, those of the smallest possible wealth that the counts allow; `extra` is added by query."""
    counts, weighted = compared.evidence.clicks, compared.weighted
    assert weighted.rho is not None
    worth = compared.values[:, 0] * inverse_propensity(weighted.rho)
    if counts.displays is None:
        terms = Terms(counts.queries(), counts.ranks, worth[counts.docs], counts.clicks)
        return least_favourable(terms, counts.sessions, extra)
    pages = counts.displays
    lengths = np.diff(pages.offsets)
    group, part = np.repeat(np.arange(pages.n_pages), lengths), pages.ranks()
    base = extra[query_of_rows(counts.offsets)[pages.docs[pages.offsets[:-1]]]]
    if predictor is not None:
        expected = predictor.of_pages(counts) * worth[pages.docs]
        base = base - np.bincount(group, weights=expected, minlength=pages.n_pages)
    return least_favourable(Terms(group, part, worth[pages.docs], pages.clicks), pages.sessions, base)


def design_of(compared: Comparison) -> Design:
    """The ranges of X and of its mean, and about its second moment: what bets are chosen by, without the clicks."""
    weighted, values = compared.weighted, compared.values[:, 0]
    assert weighted.rho is not None
    worth, offsets = values * inverse_propensity(weighted.rho), weighted.offsets
    low, high = 0.0, 1.0  # the clicks of an impression, less those that trust alone brings
    if (predictor := _trust(compared)) is not None and predictor.base is not None:
        by_trust = predictor.base.curve(longest_query(offsets))
        low, high = min(-float(by_trust.max()), 0.0), 1.0 - float(by_trust.min())
    ends = np.stack([low * worth, high * worth])
    loss = largest_sum(np.maximum(-ends.min(axis=0), 0.0), compared) - min(compared.worst.min(), 0.0)
    gain = largest_sum(np.maximum(ends.max(axis=0), 0.0), compared) + max(compared.best.max(), 0.0)
    starts = offsets[:-1]
    least = float((np.add.reduceat(np.minimum(values, 0.0), starts) + compared.worst).min())
    highest = float((np.add.reduceat(np.maximum(values, 0.0), starts) + compared.best).max())
    square = _CLICK_RATE * float(values @ worth) / max(len(starts), 1)
    return Design(loss, gain, least, highest, square, float(weighted.sessions.sum()))


def largest_sum(amounts: FloatArray, compared: Comparison) -> float:
    """The largest sum over a page of amounts of at least 0, for any query and any page that can be shown.

    Where pages were not kept, ranks are put together that no page has together, and a document may come twice.
    """
    evidence, offsets = compared.evidence, compared.weighted.offsets
    kept, policies = evidence.clicks.displays is not None, evidence.policy
    if policies is None:
        return _any_documents(amounts, offsets, int(evidence.clicks.ranks.max(initial=1)), kept)
    pairs = list(policies.values()) if isinstance(policies, dict) else [(policies, evidence.scores)]
    found = [
        _of_component(amounts, PageSource.make(policy, scores, offsets, evidence.threads), c, part, kept)
        for policy, scores in pairs
        for c, part in enumerate(components_of(policy))
    ]
    return max(0.0, *found)


def _any_documents(amounts: FloatArray, offsets: IntArray, k: int, kept: bool) -> float:
    """The largest sum of k documents of a query; with repetition where pages were not kept."""
    lengths = np.diff(offsets)
    if not kept:
        return float((np.maximum.reduceat(amounts, offsets[:-1]) * np.minimum(lengths, k)).max())
    order = np.lexsort((-amounts, query_of_rows(offsets)))
    rank = np.arange(len(amounts)) - np.repeat(offsets[:-1], lengths)
    return float(np.add.reduceat(np.where(rank < k, amounts[order], 0.0), offsets[:-1]).max())


def _of_component(amounts: FloatArray, source: PageSource, c: int, part: Component, kept: bool) -> float:
    """The largest sum of a page of one component of a policy."""
    offsets, lengths = source.offsets, np.diff(source.offsets)
    if part.custom is not None:
        return _any_documents(amounts, offsets, int(lengths.max()), kept)
    if part.kind == page_kernels.PLACKETT_LUCE or (not kept and part.kind != page_kernels.LAST):
        return _any_documents(amounts, offsets, min(part.k, int(lengths.max())), kept)
    if part.kind == page_kernels.LISTED:
        arrays, n, most = source.arrays, len(lengths), 0.0
        for q in range(n):
            at = arrays.tables[c] * n + q
            for page in range(arrays.first_page[at], arrays.first_page[at + 1]):
                places = arrays.page_places[arrays.page_offsets[page] : arrays.page_offsets[page + 1]]
                most = max(most, float(amounts[offsets[q] + places].sum()))
        return most
    ranked = amounts[np.repeat(offsets[:-1], lengths) + source.arrays.order]
    rank = np.arange(len(ranked)) - np.repeat(offsets[:-1], lengths)
    length = np.repeat(np.minimum(part.k, lengths), lengths)
    draws = part.kind == page_kernels.INSERT or part.value > 0.0
    head = np.where(rank < length - 1, ranked, 0.0)
    tail = np.where((rank >= length - 1) if draws else (rank == length - 1), ranked, 0.0)
    return float((np.add.reduceat(head, offsets[:-1]) + np.maximum.reduceat(tail, offsets[:-1])).max())


def asymptotic(compared: Comparison, alpha: float, relevance: ArrayLike | None = None) -> Level:
    """The doubly robust estimate (by inverse propensities alone without an examination curve), with its standard error.

        estimate +- t * s,   s^2 = sum over queries of n * Var(residuals * difference / rho) / sessions^2

    see `confidence_intervals.click_intervals`. Where the sum rests on a few heavy clicks, and they would make the lower
    bound too high rather than too low, there is no bound.
    """
    empty = Level("asymptotic", confidence=1.0 - alpha)
    evidence = compared.evidence
    weighted, note = compared.weighted, "inverse propensities alone, without an examination curve"
    if evidence.has("examination") and sequential(evidence.exam) is None:
        method = Method("dr", None if relevance is None else check_relevance(relevance, len(compared.values)), None)
        method = method._replace(exam=evidence.users)
        try:
            weighted = weight_clicks(
                compared.data, evidence.clicks, evidence.propensities, None, compared.threads, method
            )
            note = ""
        except CounterrankError as error:
            if relevance is not None:
                raise
            note = f"inverse propensities alone ({error})"
    settings = IntervalSettings.check("these-queries", 1.0 - 2.0 * alpha, 100, 0, compared.threads)
    sums, centres = query_sums(weighted, compared.values), np.zeros(1)
    ratios = click_intervals(weighted, sums.terms, sums.sessions, compared.values, centres, settings)
    estimate, half = float(ratios.values[0]), float(ratios.half_widths[0])
    low, high = (float(compared.shares @ end) for end in (compared.worst, compared.best))
    if not np.ptp(compared.values) > 0.0:
        half = 0.0
    rare, of_losses, of_gains = _rare_clicks(compared)
    if half and (rare < _FEWEST_CLICKS or of_losses < FEWEST_EXPECTED_CLICKS or not math.isfinite(half)):
        few, least = (rare, _FEWEST_CLICKS) if rare < _FEWEST_CLICKS else (of_losses, FEWEST_EXPECTED_CLICKS)
        why = f"rests on rare clicks: an effective number of {few:.2g} by skewness; expected at least {least:g}"
        return replace(empty, estimate=estimate, reason=why)
    found = _level(empty, estimate, estimate - half + low, estimate + half + high, compared)
    if found.is_worse and of_gains < FEWEST_EXPECTED_CLICKS:
        found, note = replace(found, is_worse=False), "too few clicks for an upper bound that rests on rare ones"
    return replace(found, more_sessions=_by_width(found, compared, half, low, high), reason=note)


def _rare_clicks(compared: Comparison) -> tuple[float, float, float]:
    """Effective numbers of clicks by skewness, see `expected_clicks`: of all, of the losses and of the gains.

        share of examinations clicked * second moment^3 / third moment^2

    with the third moment of the documents that the new ranking lowers alone, or of those that it raises. A heavy click
    that has not happened leaves the standard error too small: if it would have been a loss, the lower bound is too
    high; if a gain, the upper one is too low.
    """
    weighted, value = compared.weighted, compared.values[:, 0]
    rare = float(expected_clicks(weighted, compared.values, np.zeros(1))[0])
    if weighted.rho is None:
        return rare, rare, rare
    heavy = np.abs(value) * inverse_propensity(weighted.rho)
    cubes = weighted.sessions_of_documents * np.abs(value) * heavy**2
    total = float(cubes.sum())
    shares = (float(cubes[side].sum()) / total if total else 0.0 for side in (value < 0.0, value > 0.0))
    of_losses, of_gains = (rare / share**2 if share else math.inf for share in shares)
    return rare, of_losses, of_gains


def model_assisted(compared: Comparison, alpha: float) -> Level:
    """Clicks shrunk towards a model of relevance, cross-fitted over queries, with bounds by a parametric bootstrap.

        estimate = sum over d of difference(d) * omega(d) / sessions,   omega(d) = n (clicks(d) + m R(d)) / (E(d) + m)

    R and its strength m come from these held-out clicks alone, so they do not know the new ranker. Bounds are the
    estimate +- t times the root of the mean square of its error when relevance and clicks are drawn by the model,

        r(d) ~ Beta(m R(d), m (1 - R(d))),   clicks(d) ~ Binomial(k(d), r(d) E(d) / k(d)),

    and R and m are fitted again to each draw. So they include what all documents have in common through the fitted
    model, which a standard error over queries leaves out, and how far documents are from the model. They do not include
    what features cannot say: then estimates are closer to 0 than the truth, and only their sign can be relied on.
    """
    empty = Level("model-assisted", confidence=1.0 - alpha)
    logged = np.flatnonzero(compared.weighted.sessions > 0)
    if len(logged) < 4:
        return replace(empty, reason=f"sessions of {len(logged)} queries; expected at least 4")
    if not compared.evidence.has("examination") and compared.weighted.rho is None:
        return replace(empty, reason="requires the examination curve, or propensities")
    estimate, error = assisted_estimate(compared, compared.evidence.examinations)
    half = student_quantile(1.0 - 2.0 * alpha, _REPLICATES) * error
    low, high = (float(compared.shares @ end) for end in (compared.worst, compared.best))
    found = _level(empty, estimate, estimate - half + low, estimate + half + high, compared)
    if compared.margin < 0.0:
        return replace(found, passes=False, reason=_SHRUNKEN)
    return replace(found, more_sessions=_by_width(found, compared, half, low, high))


def assisted_estimate(compared: Comparison, seen: Examinations) -> tuple[float, float]:
    """The model-assisted estimate, and the root of the mean square of its errors in draws of the fitted model."""
    rng, values = np.random.default_rng(0), compared.values[:, 0] / float(compared.weighted.sessions.sum())
    fit = ridge_of_clicks(compared.data, seen, 5, rng)

    def fitted(clicks: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        """Relevance, its strength, and weights of documents."""
        drawn, relevance = seen._replace(clicks=clicks), fit(clicks)
        strength = most_likely_strength(drawn, relevance)
        return relevance, strength, shrunken_weights(drawn, relevance, strength)

    relevance, strength, weights = fitted(seen.clicks)
    mean, trials = np.clip(relevance, 1e-3, 1.0 - 1e-3), np.rint(seen.trials).astype(np.int64)
    counts, by_trust = compared.evidence.clicks, np.zeros(len(values))  # clicks that trust alone brings
    if compared.evidence.has("examination") and sequential(compared.evidence.exam) is None:
        by_trust = np.bincount(counts.docs, counts.clicks, minlength=len(values)) - seen.clicks
    errors = np.empty(_REPLICATES)
    with progress("model-assisted bounds", _REPLICATES) as advance:
        for i in range(_REPLICATES):
            relevant = rng.beta(strength * mean, strength * (1.0 - mean))
            expected = seen.times * relevant + by_trust
            chance = np.divide(expected, trials, out=np.zeros(len(values)), where=trials > 0)
            clicks = rng.binomial(trials, np.clip(chance, 0.0, 1.0)) - by_trust
            errors[i] = values @ (fitted(clicks)[2] - seen.sessions * relevant)
            advance(1)
    return float(values @ weights), math.sqrt(float(errors @ errors) / _REPLICATES)


def narrower(assisted: Level, of_sessions: Level) -> Level:
    """Model-assisted bounds, or asymptotic ones where these are closer to each other, as they are with many sessions.

    By their distance alone, whatever they say.

    >>> wide = Level("model-assisted", 0.2, 0.0, 0.4)
    >>> narrower(wide, Level("asymptotic", 0.1, 0.0, 0.2, passes=True)).upper, narrower(wide, Level("asymptotic")).upper
    (0.2, 0.4)
    """
    low, high, least, most = assisted.lower, assisted.upper, of_sessions.lower, of_sessions.upper
    if low is None or high is None or least is None or most is None or high - low <= most - least:
        return assisted
    return replace(of_sessions, name=assisted.name, reason="the doubly robust estimate, whose bounds are narrower")


def _level(empty: Level, estimate: float, lower: float, upper: float, compared: Comparison) -> Level:
    """The level with its bounds, and what they say."""
    passes, is_worse = lower > compared.margin, upper < 0.0
    return replace(empty, estimate=estimate, lower=lower, upper=upper, passes=passes, is_worse=is_worse)


def _by_width(found: Level, compared: Comparison, half: float, low: float, high: float) -> int | None:
    """How many more sessions decide if bounds narrow as one over the square root of their number.

    What documents that the clicks do not cover can add, from `low` to `high`, stays.
    """
    assert found.estimate is not None
    if found.passes or found.is_worse:
        return 0
    above, below = found.estimate + low - compared.margin, min(compared.margin, 0.0) - found.estimate - high
    if max(above, below) <= 0.0:
        return None
    return _more((half / max(above, below)) ** 2, float(compared.weighted.sessions.sum()))


def _more(times: float | None, sessions: float) -> int | None:
    """So many more sessions, of a number of times that there are now; None where it is no number to plan with."""
    if times is None or not times * sessions < _MOST_MORE:
        return None
    return max(1, math.ceil((times - 1.0) * sessions))


def _decided(
    levels: dict[str, Level],
    required: tuple[str, ...],
    compared: Comparison,
    confidence: float,
    names: tuple[str, str],
    in_sample: bool,
) -> DeploymentTest:
    """The decision by the required levels."""
    asked = [levels[name] for name in required]
    weakest = min(asked, key=lambda each: -math.inf if each.lower is None else each.lower)
    deploy = all(each.passes for each in asked)
    weighted = compared.weighted
    return DeploymentTest(
        deploy=deploy,
        estimate=weakest.estimate,
        lower=weakest.lower,
        upper=weakest.upper,
        why=_why(weakest, deploy, any(each.is_worse for each in asked), compared, names, in_sample),
        metric=compared.metric,
        margin=compared.margin,
        confidence=confidence,
        required=required,
        levels=levels,
        n_queries=int(np.count_nonzero(weighted.sessions)),
        n_sessions=int(weighted.sessions.sum()),
        n_clicks=int(weighted.cells.clicks.sum()),
        effective_sample_size=weighted.effective_sample_size,
        in_sample=in_sample,
    )


def _why(
    level: Level, deploy: bool, is_worse: bool, compared: Comparison, names: tuple[str, str], in_sample: bool
) -> str:
    """The decision in one sentence."""
    about = f"{level.name} evidence{', in-sample' * in_sample}"
    if level.lower is None or level.upper is None or level.estimate is None:
        return f"Undecided whether {names[0]} is better than {names[1]}: no {about}: {level.reason}."
    digits = interval_decimals(level.estimate, (level.lower, level.upper), (0.0, compared.margin))
    low, value, high = (f"{each + 0.0:+.{digits}f}" for each in (level.lower, level.estimate, level.upper))
    sure = f"{100 * level.confidence:.4g} % confidence"
    gain = f"{compared.metric} per session {value}"
    margin = f"{compared.margin:g}"
    if deploy:
        than = f"is better than {names[1]}"
        if level.lower <= 0.0:
            than = f"is worse than {names[1]} by less than {margin[1:]}, if at all"
        return f"{names[0]} {than}: {gain}, at least {low} ({about}, {sure}), above {margin}."
    if not (compared.values.any() or compared.worst.any() or compared.best.any()):
        return f"Undecided: {names[0]} ranks the logged queries as {names[1]} does."
    if is_worse:
        return f"{names[0]} is worse than {names[1]}: {gain}, at most {high} ({about}, {sure})."
    more = "" if not level.more_sessions else (
        f"; about {level.more_sessions:,} more sessions like these would decide if the effect is as estimated"
    )  # fmt: skip
    what = f"{gain}, but the lower bound {low} is not above {margin} ({about}, {sure})"
    return f"Undecided whether {names[0]} is better than {names[1]}: {what}{more}."


def _card(found: DeploymentTest) -> Html:
    """What a notebook shows of a deployment test."""
    head = ["evidence", "estimate", "lower bound", "upper bound", "passes", "more sessions", ""]
    rows = [
        [f"{each.name}{' (required)' * (each.name in found.required)}", each.estimate, each.lower, each.upper,
         each.passes, each.more_sessions, each.reason]
        for each in found.levels.values()
    ]  # fmt: skip
    return card(
        notes([found.why]), table(head, rows, "lrrrlrl"), title="Deployment test",
        sentence="deploy" if found.deploy else "worse" if found.is_worse else "undecided",
    )  # fmt: skip

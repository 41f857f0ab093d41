"""Two rankings compared by a log of their interleaved pages: an unbiased estimate, and the usual credit beside it.

Team-draft interleaving is a logging policy with exact propensities, so that `compare` answers which ranking is better.
It shows the first ceil(k / 2) documents of both rankings with a probability above 0, and no more than that for sure:
differences of metrics cut at ceil(k / 2) are unbiased, and those of other metrics need a covering policy in the log.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import lines_of
from counterrank.clicks.policies.pages import components_of, takes_two_rankings
from counterrank.clicks.policies.propensity import propensity_of
from counterrank.clicks.policies.team_draft import coin_pages
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError, CoverageWarning
from counterrank.data import RankingData
from counterrank.data.ids import query_of
from counterrank.data.scores import document_scores
from counterrank.estimators.propensities import SMALLEST
from counterrank.evaluation.click_metrics import Estimates, compare
from counterrank.evaluation.confidence_intervals import Interval, IntervalSettings, bootstrap_intervals
from counterrank.evaluation.metrics import metric_names
from counterrank.evaluation.weighted_clicks import document_values


def compare_interleaved(
    scores_a: Any,
    scores_b: Any,
    data: RankingData,
    clicks: ClickCounts,
    policy: Any,
    exam: Any = None,
    metrics: Sequence[str] | None = None,
    *,
    ties: str = "average",
    threads: int | None = None,
    **options: Any,
) -> Estimates:
    """Estimate the difference of two rankings, a minus b, from a log of `policies.TeamDraft` or a mixture with it.

    It is `compare` with the propensities of the policy. A metric is refused where it needs a document that the log
    cannot show: its inverse-propensity estimate may then have the wrong sign, however long the log is.

    Arguments:
        scores_a, scores_b: the two rankings, as in `compare`; the policy interleaved them, in this order.
        data, clicks: what was shown and clicked.
        policy: `TeamDraft(k)`, or a `Mixture` with it, whose other policies ranked by a.
        exam: P(examined | rank); None for that of simulated clicks.
        metrics: as in `compare`; None for "dcg@m", m = ceil(k / 2).
        ties: as in `compare`. Pages show documents with equal scores in their order in the data; so does "order".
        threads, options: as in `compare`, such as control="optimal".

    >>> import warnings
    >>> from counterrank import examination, make_ranking_data, policies, simulation
    >>> data, exam = make_ranking_data("yahoo", n_queries=100, seed=0), examination.inverse_rank(4)
    >>> a, b = data.labels + 0.1 * data.features[:, 0], data.features[:, 0]
    >>> log = simulation.simulate(data, [a, b], policies.TeamDraft(4), exam, sessions=10_000, seed=0)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     found = compare_interleaved(a, b, data, log, policies.TeamDraft(4), ties="order")
    >>> list(found), found["dcg@2"].ips_interval[0] > 0.0
    (['dcg@2'], True)
    """
    counts = check_counts(clicks)
    if not takes_two_rankings(policy):
        raise CounterrankError(
            f"policy: {type(policy).__name__} interleaves nothing; expected policies.TeamDraft, or a mixture with it"
        )
    curve = counts.examination if exam is None else exam
    if curve is None:
        raise CounterrankError("exam: None, and the clicks do not hold the curve they were made with; expected it")
    both = [document_scores(scores_a, data, "scores_a"), document_scores(scores_b, data, "scores_b")]
    rho = propensity_of(policy, both, data.offsets, lines_of(curve)[0])
    names = (f"dcg@{depth_of(policy)}",) if metrics is None else metric_names(metrics, ())
    refuse_uncovered(both[0], both[1], data, counts, rho, names, depth_of(policy), ties, threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # of documents that the difference does not need
        return compare(scores_a, scores_b, data, clicks, rho, names, ties=ties, threads=threads, exam=exam, **options)


def depth_of(policy: Any) -> int:
    """Down to which rank team-draft interleaving shows the documents of both rankings: ceil(k / 2).

    >>> from counterrank.clicks.policies import TeamDraft
    >>> depth_of(TeamDraft(5))
    3
    """
    return min((part.k + 1) // 2 for part in components_of(policy) if part.interleaved)


def refuse_uncovered(
    a: FloatArray,
    b: FloatArray,
    data: RankingData,
    clicks: ClickCounts,
    rho: FloatArray,
    metrics: Sequence[str],
    depth: int,
    ties: str = "average",
    threads: int | None = None,
) -> None:
    """An error where the difference in a metric needs documents that the log cannot show."""
    unseen = np.repeat(clicks.sessions > 0, np.diff(data.offsets)) & (rho < SMALLEST)

    def missing(ties: str) -> list[IntArray]:
        """By metric, the documents that its difference needs and the log cannot show."""
        values = document_values(a, data, metrics, ties, threads) - document_values(b, data, metrics, ties, threads)
        return [np.flatnonzero(unseen & (column != 0.0)) for column in values.T]

    for i, (metric, docs) in enumerate(zip(metrics, missing(ties), strict=True)):
        if not len(docs):
            continue
        query = int(query_of(docs[0], data.offsets))
        expected = (
            "documents with equal scores in the order of the pages, ties='order'"
            if ties == "average" and not len(missing("order")[i])
            else f"a metric cut at {depth}, such as dcg@{depth}, or a log of a mixture of team draft with a policy "
            "that shows all documents"
        )
        raise CounterrankError(
            f"metrics: the difference in {metric} needs {len(docs):,} documents that the policy never shows, such as "
            f"document {docs[0] - data.offsets[query]} of query {query}, so its sign may be wrong; expected {expected}"
        )


@dataclass(frozen=True)
class TeamDraftCredit:
    """Clicks per session on documents that ranking a put on interleaved pages, minus those that b put there.

    Attributes:
        difference: a minus b.
        interval: its confidence interval over queries (low, high); None for too little data.
        clicks_a, clicks_b: clicks per session of each team.
        n_sessions: the number of sessions.
        confidence: the confidence level.
    """

    difference: float
    interval: Interval | None
    clicks_a: float
    clicks_b: float
    n_sessions: int
    confidence: float


def team_draft_credit(
    scores_a: Any,
    scores_b: Any,
    data: RankingData,
    clicks: ClickCounts,
    k: int,
    *,
    confidence: float = 0.95,
    replicates: int = 2000,
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
) -> TeamDraftCredit:
    """The usual result of team-draft interleaving: which ranking's documents got more clicks.

        difference = sum over clicks of (P(team a | page) - P(team b | page)) / sessions

    The teams of a page are taken in expectation over the coins that make it, which gives the same mean as logged teams
    with less noise. It is not the difference of a metric: documents that both rankings have at the top count for both,
    and a click at rank 1 counts as one at rank k. Its sign can be wrong however many sessions there are, see
    docs/how-to/compare-online.md; `compare_interleaved` estimates a metric.

    Arguments:
        scores_a, scores_b: the rankings that were interleaved, in this order.
        data, clicks: what was shown and clicked, with the displayed pages, all of `policies.TeamDraft(k)`.
        k: the number of documents on a page.
        confidence, replicates, seed, threads: of the interval, see `compare`.

    >>> from counterrank import examination, make_ranking_data, policies, simulation
    >>> data, exam = make_ranking_data("yahoo", n_queries=100, seed=0), examination.inverse_rank(4)
    >>> a, b = data.labels + 0.1 * data.features[:, 0], data.features[:, 0]
    >>> log = simulation.simulate(data, [a, b], policies.TeamDraft(4), exam, sessions=10_000, seed=0, displays=True)
    >>> team_draft_credit(a, b, data, log, 4).interval[0] > 0.0
    True
    """
    counts = check_counts(clicks)
    counts.check_data(data)
    settings = IntervalSettings.check("queries", confidence, replicates, seed, threads)
    if counts.displays is None:
        raise CounterrankError("clicks: hold no pages; expected those of displays=True, since teams depend on the page")
    rankings = np.stack([document_scores(scores_a, data, "scores_a"), document_scores(scores_b, data, "scores_b")])
    sides = _sides(rankings, counts, k, threads)
    owner, logged = query_of(counts.displays.docs, counts.offsets), counts.sessions > 0
    by_query = [
        np.bincount(owner, counts.displays.clicks * share, minlength=counts.n_queries)[logged].astype(np.float64)
        for share in ((1.0 + sides) / 2.0, (1.0 - sides) / 2.0)
    ]
    sessions = counts.sessions[logged].astype(np.float64)
    found = bootstrap_intervals((by_query[0] - by_query[1])[:, None], [sessions], settings)[0]
    n = int(sessions.sum())
    a, b = (float(column.sum() / n) for column in by_query)
    return TeamDraftCredit(float(found.values[0]), found.interval(0), a, b, n, settings.confidence)


def _sides(rankings: FloatArray, counts: ClickCounts, k: int, threads: int | None) -> FloatArray:
    """P(team a | page) - P(team b | page) of each place of the displayed pages."""
    assert counts.displays is not None
    shown, coins = counts.displays, coin_pages(rankings, counts.offsets, k, threads)
    firsts = np.concatenate(([0], np.cumsum(coins.counts)))
    sides = np.empty(len(shown.docs))
    known: dict[tuple[int, ...], FloatArray] = {}
    last = -1
    for begin, end in zip(shown.offsets[:-1].tolist(), shown.offsets[1:].tolist(), strict=True):
        query = int(query_of(shown.docs[begin], counts.offsets))
        if query != last:
            known, last = _pages_of(coins, firsts, query), query
        page = tuple((shown.docs[begin:end] - counts.offsets[query]).tolist())
        if page not in known:
            raise CounterrankError(
                f"clicks: a page of query {query} shows {list(page)}, which team draft of these rankings with k={k} "
                "cannot; expected its sessions alone (only_policies=), and the rankings in their order"
            )
        sides[begin:end] = known[page]
    return sides


def _pages_of(coins: Any, firsts: Any, query: int) -> dict[tuple[int, ...], FloatArray]:
    """By page the mean over its paths of +1 for team a and -1 for team b, place by place."""
    found: dict[tuple[int, ...], list[FloatArray]] = {}
    for path in range(firsts[query], firsts[query + 1]):
        own = slice(coins.offsets[path], coins.offsets[path + 1])
        found.setdefault(tuple(coins.places[own].tolist()), []).append(1.0 - 2.0 * coins.teams[own])
    return {page: np.mean(teams, axis=0) for page, teams in found.items()}

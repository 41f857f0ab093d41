"""`inspect_clicks`: tables from a log and what is known about it, and the findings that follow."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import CurvesByContext, Examination, lines_of
from counterrank.clicks.exposure import mean_curve
from counterrank.clicks.page_sample import PageSample
from counterrank.clicks.policies.from_log import check_all_candidates, mean_over_contexts
from counterrank.clicks.policies.propensity import propensity_of
from counterrank.clicks.policies.standard import as_policy
from counterrank.clicks.position_bias import connected_ranks
from counterrank.common.checks import FloatArray, check_type, check_vector, check_whole
from counterrank.common.deprecation import renamed_argument
from counterrank.common.errors import CounterrankError, CoverageWarning
from counterrank.data import RankingData
from counterrank.data.scores import document_scores
from counterrank.estimators.evidence import Evidence
from counterrank.estimators.policy_check import Placements, policy_check
from counterrank.estimators.propensities import Propensities, check_propensities, logged_propensities
from counterrank.estimators.users_from_log import FoundUsers, learn_users
from counterrank.evaluation.inspection import click_tables as tables
from counterrank.evaluation.inspection.assessment import advise, assess
from counterrank.evaluation.inspection.coverage import (
    ExpectedClicks,
    coverage_table,
    logged_check,
    remedies,
)
from counterrank.evaluation.inspection.drift import drift_table
from counterrank.evaluation.inspection.result import Inspection, Known, curve_words
from counterrank.evaluation.inspection.user_comparison import compare_users

TARGET_SIZE = 10_000


def inspect_clicks(
    clicks: ClickCounts,
    *,
    data: RankingData | None = None,
    policy: Any = None,
    scores: ArrayLike | None = None,
    rho: ArrayLike | None = None,
    exam: Any = None,
    drift: Sequence[Mapping[str, Any]] | None = None,
    policy_words: str | None = None,
    whole_log: bool = False,
    effective_sample_size: int = TARGET_SIZE,
    target_size: int | None = None,
    pages: PageSample | None = None,
) -> Inspection:
    """Report which estimators a click log supports, before training on it.

    Everything besides the clicks may be left out; findings then say what is not known.

    Arguments:
        clicks: the log.
        data: the ranking data it was counted against, to make sure that it was.
        policy: the logging policy, see `counterrank.policies`.
        scores: what it ranked by, one per document; with `data` also a ranker or a frame with ids.
        rho: P(examined | query, policy) of each document, if it is not to be computed from the policy; without either,
            those logged with the clicks are used, combined where they are of several policies.
        exam: how likely each rank is examined, or a user model. None for that of the clicks; where nothing says how
            users click, users are fitted to a log that was counted with ranking data, as training does.
        drift: periods in the order of time, each with `begin`, `pages`, `impressions` and `clicks`;
            None if there are no times.
        policy_words: the policies that `rho` was computed from, for the texts; not needed with `policy`.
        whole_log: whether the log itself is there, from which training can read whole pages.
        effective_sample_size: the one to reach. The sum of all weights then has a relative standard error of about
            1 / sqrt(effective_sample_size).
        target_size: deprecated name of `effective_sample_size`.
        pages: of the same log, see `read_pages`, to compare user models on.

    >>> from counterrank import examination, make_ranking_data, policies, simulation
    >>> data, curve = make_ranking_data("yahoo", n_queries=20, seed=0), examination.inverse_rank(k=3)
    >>> scores, policy = data.features[:, 0], policies.Deterministic(k=3)
    >>> log = simulation.simulate(data, scores, policy, curve, sessions=2000, seed=0)
    >>> inspect_clicks(log, policy=policy, scores=scores).level("policy-aware")
    'bad'
    """
    given = _Inputs.check(clicks, data, policy, scores, rho, exam, policy_words, whole_log)
    wanted = renamed_argument(effective_sample_size, target_size, "effective_sample_size", "target_size", TARGET_SIZE)
    size = check_whole(wanted, "effective_sample_size")
    placed = Placements.of(clicks)
    by_cell, other_policies, checked = given.by_cell(), None, None
    if by_cell is not None and given.scores is not None and given.exam is not None and clicks.n_clicks:
        expected = ExpectedClicks.of(clicks, by_cell, given.rho, given.scores, given.exam)
        other_policies = remedies(expected, clicks.n_sessions, size)
    if given.policy is not None and given.scores is not None:
        checked = policy_check(clicks, given.policy, given.scores, placed)
    shown = set(placed.ranks.tolist())
    groups = ([rank for rank in group if rank in shown] for group in connected_ranks(clicks))
    connected = [group for group in groups if group]
    can_estimate = len(connected) == 1 and len(connected[0]) > 1 and clicks.n_clicks
    found = Inspection(
        target_size=size,
        known=given.known(),
        overview=tables.overview(clicks),
        ranks=tables.rank_table(placed, given.exam),
        sessions=tables.sessions_table(clicks),
        pages=tables.page_evidence(clicks, placed),
        connected=connected,
        weights=None if by_cell is None else tables.weight_table(clicks, by_cell, given.rho),
        coverage=coverage_table(clicks, given.policy, given.scores, given.exam, given.rho),
        policy_check=checked,
        logged_check=None if given.rho is None else logged_check(clicks, given.rho),
        drift=None if drift is None or not len(drift) else drift_table(drift),
        estimated_curve=tables.curve_table(clicks, max(shown)) if can_estimate else None,
        contexts=tables.context_table(clicks, max(shown, default=1)),
        remedies=other_policies,
        users=None if pages is None else compare_users(check_type(pages, PageSample, "pages")),
    )
    return replace(found, verdict=assess(found), advice=advise(found))


@dataclass(frozen=True, eq=False)
class _Inputs:
    """The arguments, checked, and what follows from several of them together."""

    clicks: ClickCounts
    policy: Any
    scores: FloatArray | None
    rho: FloatArray | None
    rho_from: str | None
    exam: Examination | None  # of curves by context the mean
    curve_words: str | None
    users: FoundUsers | None = None  # fitted to these clicks
    logged: Propensities | None = None
    refused: str | None = None
    policy_words: str | None = None
    whole_log: bool = False

    @classmethod
    def check(
        cls, clicks: Any, data: Any, policy: Any, scores: Any, rho: Any, exam: Any, words: str | None, whole_log: bool
    ) -> _Inputs:
        counts = check_counts(clicks)
        if data is not None:
            counts.check_data(data)
        if not counts.knows_candidates and any(each is not None for each in (policy, scores, rho)):
            raise CounterrankError(
                "policy, scores, rho: are per candidate, and a log counted without ranking data has none; "
                "expected a log counted with data"
            )
        if policy is not None:
            check_all_candidates(counts)
        if policy is not None and scores is None:
            raise CounterrankError("scores: None; expected what the policy ranked by, one number for each document")
        users = _fitted_users(counts, exam, rho)
        exam = users if exam is None else exam
        curve = counts.examination if exam is None else lines_of(exam)[0]
        chosen = None if policy is None else as_policy(policy)
        names = counts.active_policies
        if chosen is not None and rho is None and len(names) > 1:
            raise CounterrankError(
                f"policy: one for a log of several, {', '.join(map(repr, names))}; expected "
                "rho=policies.several_policies(...), or clicks.only_policies([...])"
            )
        ranked = None
        if scores is not None:
            ranked = check_vector(scores, counts.n_docs, "scores") if data is None else document_scores(scores, data)
        propensities, origin = None, None
        if rho is not None:
            propensities, origin = check_propensities(rho, counts), "rho"
        elif chosen is not None and ranked is not None and curve is not None:
            propensities, origin = _under(counts, chosen, ranked, curve), "policy"
        logged, refused = None, None
        if propensities is None and counts.propensities is not None:
            try:
                logged = logged_propensities(counts, curve)
                origin = logged.source
            except CounterrankError as error:
                refused = str(error)
        if propensities is None and logged is None and users is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CoverageWarning)  # findings say what is not covered
                logged = Evidence(counts, exam=users).propensities
            origin = logged.source
        words_of_curve = None if curve is None else curve_words(curve)
        mean = None if curve is None else mean_curve(curve, counts)
        return cls(
            counts, chosen, ranked, propensities, origin, mean, words_of_curve, users, logged, refused, words, whole_log
        )  # fmt: skip

    def known(self) -> Known:
        pages = self.clicks.displays
        return Known(
            candidates=self.clicks.knows_candidates,
            propensities=self.rho_from,
            policy=self.policy_words if self.policy is None else str(self.policy),
            scores=self.scores is not None,
            examination=self.curve_words,
            users=None if self.users is None else self.users.sentence,
            users_kind=None if self.users is None else self.users.kind,
            pages=None if pages is None else pages.n_pages,
            refused=self.refused,
            log=self.whole_log,
        )

    def by_cell(self) -> FloatArray | None:
        """The propensity of each cell, from where it is known."""
        if self.rho is not None:
            return self.rho[self.clicks.docs]
        return None if self.logged is None else self.logged.by_cell


def _fitted_users(clicks: ClickCounts, exam: Any, rho: Any) -> FoundUsers | None:
    """Users fitted to the log where training would fit them; those given, if they are that; None without any.

    Only for logs that were counted with ranking data, as for training.
    """
    if isinstance(exam, FoundUsers):
        return exam
    unknown = exam is None and rho is None and Evidence(clicks).fits_users
    if not unknown or not clicks.knows_candidates or not clicks.n_clicks:
        return None
    try:
        return learn_users(clicks)
    except CounterrankError:
        return None  # the finding about position bias says why


def _under(clicks: ClickCounts, policy: Any, scores: FloatArray, curve: Examination) -> FloatArray:
    """P(examined) of each document under the policy; of curves by context the mean over sessions."""
    if isinstance(curve, CurvesByContext):
        return mean_over_contexts(clicks, policy, scores, curve, None)
    return propensity_of(policy, scores, clicks.offsets, curve)

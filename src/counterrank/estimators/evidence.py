"""`Evidence`: clicks, and what is known about how they came about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from numpy.typing import ArrayLike

from counterrank.clicks.browsing import Browsing, Dependent, sequential
from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import CurvesByContext, Examination, UserModel, is_user_model, lines_of
from counterrank.clicks.policies import (
    FittedPlackettLuce,
    fit_plackett_luce,
    propensity_from_log,
    several_policies,
)
from counterrank.clicks.policies.from_log import (
    LogPropensity,
    check_all_candidates,
    mean_over_contexts,
    refuse_contradictions,
)
from counterrank.clicks.policies.standard import as_policy
from counterrank.clicks.user_models import users_of
from counterrank.common.checks import FloatArray
from counterrank.common.errors import CounterrankError
from counterrank.data import RankingData
from counterrank.data.scores import logging_scores, refuse_column
from counterrank.estimators.policy_check import check_policy
from counterrank.estimators.propensities import (
    Propensities,
    displayed_propensities,
    in_canonical_gauge,
    propensities_of,
    refuse_unseen,
)
from counterrank.estimators.relevance import Examinations, examinations


@dataclass(frozen=True, eq=False)
class Evidence:
    """Clicks on one data set, with what is known about examination and the logging policy.

    Give what you know and leave the rest out. An estimator that requires more says so, see `estimators.ESTIMATORS`.

    Attributes:
        clicks: what was shown and clicked; with displayed pages for "rerank".
        rho: the propensity of each document, where you have computed it, also as `policies.propensity_from_log` gives
            it.
        exam: how likely each rank is examined, or a user model, such as `examination.estimate` gives; None for the
            curve that simulated clicks remember. Logged propensities contain an older curve, so with a user model they
            are ignored, with a warning: give policy and scores, or else how often the log shows each document is taken.
            "auto" to have `fit_ranker` fit users to these clicks, see `estimators.learn_users`, which it also does
            where exam is None and nothing else says how users click; "features" if features have to link ranks.
        alpha, beta: under trust bias, P(click | relevance r, rank j) = alpha_j r + beta_j, instead of exam; they become
            `exam`, in the canonical gauge, and rho with them.
        policy: the logging policy, instead of rho; {name: (policy, scores)} where the log holds several.
        scores: what the policy ranked by, one number per document; for `fit_ranker`, also a ranker or a frame with ids.
        threads: None for all cores.

    >>> from counterrank import examination, make_ranking_data, policies, simulation
    >>> data = make_ranking_data("mslr", n_queries=20, seed=0)
    >>> scores, exam = data.features[:, 0], examination.inverse_rank(5)
    >>> clicks = simulation.simulate(data, scores, policies.ReplaceLast(5), exam, sessions=1000, seed=0)
    >>> Evidence(clicks).propensity_source
    'logged'
    >>> Evidence(clicks, policy=policies.ReplaceLast(5), scores=scores).propensity_source
    'policy'
    """

    clicks: ClickCounts
    rho: ArrayLike | Propensities | None = None
    exam: ArrayLike | Examination | UserModel | str | None = None
    alpha: ArrayLike | Examination | None = None
    beta: ArrayLike | Examination | None = None
    policy: Any = None
    scores: Any = None
    threads: int | None = None

    def __post_init__(self) -> None:
        counts = check_counts(self.clicks)
        if self.alpha is None and self.beta is None:
            return
        if self.alpha is not None and self.exam is not None:
            raise CounterrankError("exam: given together with alpha; expected one of them")
        users = users_of(self.exam if self.alpha is None else self.alpha, [0.0] if self.beta is None else self.beta)
        rho = self.rho
        if rho is not None and not isinstance(rho, Propensities | LogPropensity):
            rho = in_canonical_gauge(rho, users.scale, counts)
        for name, value in (("exam", users), ("alpha", None), ("beta", None), ("rho", rho)):
            object.__setattr__(self, name, value)

    @property
    def fits_users(self) -> bool:
        """Whether users are to be fitted to these clicks: it was asked for, or nothing says how they click."""
        if isinstance(self.exam, str):
            return True
        known = (self.exam, self.rho, self.clicks.examination, self.clicks.propensities)
        return all(each is None for each in known)

    def for_data(self, data: RankingData) -> Evidence:
        """The same with scores of policies in the order of the data, by `data.document_scores`; itself if they are.

        >>> import numpy as np
        >>> from counterrank import policies
        >>> clicks = ClickCounts("", np.array([0, 1]), np.array([10]), *np.array([[0], [1], [8], [4]]))
        >>> data = RankingData([[3.0]], [0, 1], query_ids=[7], doc_ids=["a"])
        >>> frame = data.to_arrow()
        >>> Evidence(clicks, policy=policies.Deterministic(1), scores=frame).for_data(data).scores.tolist()
        [3.0]
        """
        refuse_column(self.rho, data, "rho")
        if isinstance(self.policy, dict):
            pairs = {name: pair for name, pair in self.policy.items() if isinstance(pair, tuple) and len(pair) == 2}
            aligned = {
                name: (policy, logging_scores(scores, data, f"scores of policy {name!r}"))
                for name, (policy, scores) in pairs.items()
            }
            same = all(aligned[name][1] is pair[1] for name, pair in pairs.items())
            return self if same else replace(self, policy={**self.policy, **aligned})
        scores = None if self.scores is None else logging_scores(self.scores, data)
        return self if scores is self.scores else replace(self, scores=scores)

    def has(self, need: str) -> bool:
        """Whether something that an estimator requires is known: see `estimators.NEEDS`."""
        if need == "examination":
            return self.exam is not None or self.clicks.examination is not None
        if need == "propensities":
            logged = self.clicks.propensities is not None
            return self.rho is not None or self.policy is not None or logged or is_user_model(self.exam)
        if need == "exposure":
            return self.has("propensities") or self.has("examination")
        if need == "trust":
            return is_user_model(self.exam)
        return need != "displays" or self.clicks.displays is not None

    @property
    def curve(self) -> Examination:
        """P(examined | rank): as given, else as stored with simulated clicks; alpha of a user model, by context too."""
        return lines_of(self.users)[0]

    @property
    def users(self) -> Any:
        """The user model or curve: as given, else as stored with simulated clicks."""
        if self.exam is not None:
            return self.exam
        if self.clicks.examination is None:
            raise CounterrankError(
                "exam: None, and the clicks do not remember how they were made; expected the examination curve: how "
                "likely each rank is examined, as known or as estimated from a log in which documents move"
            )
        return self.clicks.examination

    def check_curve(self) -> None:
        """Raise an error where the curve is 0 at a rank that has clicks.

        >>> import numpy as np
        >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [9, 9], [4, 2]])
        >>> clicks = ClickCounts("", np.array([0, 2]), np.array([9]), docs, ranks, shown, clicked)
        >>> Evidence(clicks, exam=[1.0]).check_curve()
        Traceback (most recent call last):
        ...
        counterrank.common.errors.CounterrankError: exam: 0 at rank 2, but there are clicks at that rank; expected a \
curve that reaches rank 2
        """
        clicked = self.clicks.by_rank(self.clicks.clicks) > 0
        alpha, beta = lines_of(self.users)
        if isinstance(alpha, CurvesByContext):
            refuse_unseen(alpha, beta, self.clicks)
            return
        chances = alpha.curve(len(clicked)) + (0.0 if beta is None else beta.curve(len(clicked)))
        unseen = clicked & (chances <= 0.0)
        if unseen.any():
            raise CounterrankError(
                f"exam: 0 at rank {int(unseen.argmax()) + 1}, but there are clicks at that rank; expected a curve that "
                f"reaches rank {int(clicked.nonzero()[0].max()) + 1}"
            )

    def check_policy(self) -> None:
        """Raise an error where the log shows what the policy cannot, and warn where it shows it more or less often.

        All that is computed from a policy is checked so; `inspect_clicks` has the numbers behind it.

        >>> import numpy as np
        >>> from counterrank import policies
        >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 1], [5, 5], [1, 1]])
        >>> clicks = ClickCounts("", np.array([0, 2]), np.array([10]), docs, ranks, shown, clicked)
        >>> Evidence(clicks, exam=[1.0], policy=policies.Deterministic(1), scores=np.array([2.0, 1.0])).check_policy()
        Traceback (most recent call last):
        ...
        counterrank.common.errors.CounterrankError: policy, scores: 50.0% of what the log shows cannot come from the \
policy with these scores; expected the policy and the scores that made the pages; inspect the log for more
        """
        _ = self._checked_policy

    @cached_property
    def _checked_policy(self) -> bool:
        """Made once, since it takes time."""
        if isinstance(self.policy, dict) or (self.policy is not None and self.scores is not None):
            check_policy(self.clicks, self.policy, self.scores)
        return True

    @cached_property
    def propensities(self) -> Propensities:
        """P(examined | query, policy): from rho, else from the policy (eq:expexam), else as logged with the clicks.

        Under the user browsing model it depends on what is clicked above, so it is what the log shows was examined;
        under the dependent click model with a policy, P(shown).
        """
        if self.rho is not None and self.policy is not None:
            raise CounterrankError("rho: given together with policy; expected one of them")
        if isinstance(sequential(self.exam), Browsing):
            self.check_policy()
            return propensities_of(self.clicks, self.rho, self.exam)
        return propensities_of(self.clicks, self.rho if self.policy is None else self._of_policy(), self.exam)

    @property
    def propensity_source(self) -> str:
        """Where the propensities come from: "policy", or `Propensities.source`."""
        return (
            self.propensities.source if self.policy is None or isinstance(sequential(self.exam), Browsing) else "policy"
        )

    def _of_policy(self) -> FloatArray:
        counts, curve = self.clicks, self._curve_of_policy()
        rho: FloatArray
        check_all_candidates(counts)
        refuse_contradictions(counts)
        if isinstance(self.policy, dict):
            rho = several_policies(counts, self.policy, curve, threads=self.threads)
            self.check_policy()
            return rho
        if len(counts.distinct_policies) > 1:
            raise CounterrankError(
                f"policy: one for a log of several ({', '.join(counts.distinct_policies)}); expected all of them, "
                "{name: (policy, scores)}, or the sessions of one only (only_policies=)"
            )
        if self.scores is None:
            raise CounterrankError("scores: None; expected what the policy ranked by, one number per document")
        rho = self._under(self.policy, self.scores, curve)
        self.check_policy()
        return rho

    def _curve_of_policy(self) -> Examination:
        """What propensities of a policy are computed with; under the dependent click model they are P(shown)."""
        users = sequential(self.exam)
        return users.shown if isinstance(users, Dependent) else self.curve

    def _under(self, policy: Any, scores: Any, curve: Examination) -> FloatArray:
        """P(examined) of each document under one policy, the mean over contexts where the curve differs in them."""
        counts = self.clicks
        if isinstance(curve, CurvesByContext):
            return mean_over_contexts(counts, as_policy(policy), scores, curve, self.threads)
        rho: FloatArray = policy.propensity(scores, counts.offsets, curve, threads=self.threads)
        return rho

    def with_remembered_curve(self) -> Evidence:
        """The same with the examination curve stored with simulated clicks, if none was given.

        >>> import numpy as np
        >>> clicks = ClickCounts("", np.array([0, 1]), np.array([10]), *np.array([[0], [1], [8], [4]]))
        >>> Evidence(clicks).with_remembered_curve().exam is None
        True
        """
        return self if self.exam is not None else replace(self, exam=self.clicks.examination)

    def with_display_frequencies(self, smoothing: float | str = 0.0) -> Evidence:
        """The same for an unknown policy: propensities are display frequencies, see `display_frequencies`.

        >>> import numpy as np
        >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 1], [8, 2], [4, 1]])
        >>> clicks = ClickCounts("", np.array([0, 2]), np.array([10]), docs, ranks, shown, clicked)
        >>> Evidence(clicks, exam=[0.5]).with_display_frequencies().propensities.by_document.tolist()
        [0.4, 0.1]
        """
        if sequential(self.exam) is not None:
            raise CounterrankError(
                "users whose clicks depend on each other, of whom what the log shows was examined is taken "
                "anyway; expected no display frequencies (no --policy estimated)"
            )
        return replace(self, rho=display_frequencies(self.clicks, self.curve, smoothing))

    def with_fitted_policy(self, data: RankingData, k: int | None = None) -> tuple[Evidence, FittedPlackettLuce]:
        """The same for an unknown policy: propensities are those of a Plackett-Luce policy fitted to the pages.

        Arguments:
            data: what was searched.
            k: the length of the policy's pages; None for no cutoff. See `policies.fit_plackett_luce`.

        >>> from counterrank import examination, make_ranking_data, policies, simulation
        >>> data, exam = make_ranking_data("mslr", n_queries=20, seed=0), examination.inverse_rank(3)
        >>> clicks = simulation.simulate(data, 5.0 * data.features[:, 0], policies.PlackettLuce(3), exam,
        ...                              sessions=1000, seed=0, displays=True)
        >>> known, fitted = Evidence(clicks, exam=exam).with_fitted_policy(data, k=3)
        >>> known.propensity_source, fitted.pages
        ('given', 1000)
        """
        found = fit_plackett_luce(data, self.clicks, k, threads=self.threads)
        return replace(self, rho=self._under(found.policy, found.scores, self._curve_of_policy())), found

    @cached_property
    def examinations(self) -> Examinations:
        """The expected examinations and the clicks of each document, the input of model-assisted estimators.

        Impressions count where the curve was given; else the propensities alone.
        """
        is_realised = sequential(self.exam) is not None
        rho = None if is_realised or (self.rho is None and self.policy is None) else self.propensities
        users: Any = self.exam
        return examinations(self.clicks, rho, users)


def display_frequencies(
    clicks: ClickCounts, exam: ArrayLike | Examination | None = None, smoothing: float | str = 0.0
) -> Propensities:
    """Propensities of an unknown policy, estimated by how often the log shows each document at each rank.

    See docs/how-to/unknown-policy.md.

    >>> import numpy as np
    >>> docs, ranks, shown, clicked = np.array([[0, 1], [1, 1], [8, 2], [4, 1]])
    >>> clicks = ClickCounts("", np.array([0, 3]), np.array([10]), docs, ranks, shown, clicked)
    >>> found = display_frequencies(clicks, [1.0])
    >>> found.by_document.tolist(), found.uncovered.tolist()
    ([0.8, 0.2, 0.0], [2])
    """
    found = propensity_from_log(clicks, clicks.examination if exam is None else exam, smoothing=smoothing)
    return displayed_propensities(found, clicks)

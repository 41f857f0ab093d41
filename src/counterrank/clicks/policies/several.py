"""Several policies in one log: what their sessions come to together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import Examination, check_examination
from counterrank.clicks.policies.base import as_policy
from counterrank.clicks.policies.exact import exact_propensity
from counterrank.common.checks import FloatArray, check_vector
from counterrank.common.errors import CounterrankError


def several_policies(
    clicks: ClickCounts, policies: Mapping[str, tuple[Any, ArrayLike]], exam: Any, *, threads: int | None = None
) -> FloatArray:
    """P(examined) of each document in a session of this log, whichever of its policies made the page.

        rho(d) = sum over policies p of sessions_p(q) / sessions(q) * rho_p(d)

    The intervention-aware propensity of Oosterhuis and de Rijke (WSDM 2021) for policies known in advance. Weights
    `estimators.policy_aware(clicks, rho)` are unbiased if *any* of the policies lets users see a document, and a
    document that one of them shows often is not weighed by the small propensity it has under another.

    Arguments:
        clicks: of a log with the column `policy`, counted against ranking data.
        policies: for each name in `clicks.policy_names` the policy and the scores it ranked by, one per document of
            the data. All are needed: what a policy did not show is not in the log.
        exam: how likely each rank is examined.
        threads: None for all cores.

    Returns:
        float64, one per document of the data. 0 for the documents of queries without sessions: there were no shares,
        and clicks of another log on them are then refused rather than weighed by shares of no meaning.

    >>> from counterrank.clicks.policies import Deterministic, ReplaceLast
    >>> docs, ranks = np.array([0, 1, 2]), np.array([1, 1, 1])
    >>> shown, clicked, sessions = np.array([85, 5, 10]), np.array([9, 1, 4]), np.array([100])
    >>> clicks = ClickCounts("", np.array([0, 3]), sessions, docs, ranks, shown, clicked, policies=np.array([0, 1, 1]),
    ...                      policy_names=("old", "new"), policy_sessions=np.array([[70], [30]]))
    >>> scores = [3.0, 2.0, 1.0]
    >>> rho = several_policies(clicks, {"old": (Deterministic(1), scores), "new": (ReplaceLast(1), scores)}, [1.0])
    >>> rho.round(3).tolist()  # 0.7 + 0.3 / 3, 0.3 / 3, 0.3 / 3
    [0.8, 0.1, 0.1]
    """
    return mean_over_policies(check_counts(clicks), policies, [check_examination(exam)], threads)[0]


def mean_over_policies(
    clicks: ClickCounts, policies: Any, curves: list[Examination], threads: int | None
) -> list[FloatArray]:
    """For each curve its expected value at the rank of each document, 0 where it is not shown."""
    given = check_policies(clicks, policies)
    assert clicks.policy_sessions is not None
    asked = np.maximum(clicks.sessions, 1)
    means = [np.zeros(clicks.n_docs) for _ in curves]
    for number, name in enumerate(clicks.policy_names):
        policy, scores = given[name]
        share = np.repeat(clicks.policy_sessions[number] / asked, np.diff(clicks.offsets))
        for mean, curve in zip(means, curves, strict=True):
            mean += share * exact_propensity(policy, scores, clicks.offsets, curve, threads)
    return [np.minimum(mean, 1.0, out=mean) for mean in means]  # sums of shares may round above


def check_policies(clicks: ClickCounts, policies: Any) -> dict[str, tuple[Any, FloatArray]]:
    """The policy and the scores of each name in the log, no more and no less."""
    check_all_candidates(clicks)
    if clicks.policies is None or clicks.policy_sessions is None:
        raise CounterrankError(
            "clicks: name no policies; expected a log with the column policy (for a log of a single policy use "
            "policy.propensity)"
        )
    if not isinstance(policies, Mapping):
        raise CounterrankError(f"policies: {type(policies).__name__}; expected {{name: (policy, scores)}}")
    in_log = ", ".join(map(repr, clicks.policy_names))
    for name in clicks.policy_names:
        if name not in policies:
            raise CounterrankError(f"policies: nothing for {name!r}; expected each policy of the log, {in_log}")
    for name in policies:
        if name not in clicks.policy_names:
            raise CounterrankError(f"policies: {name!r} is not in the log; expected the names {in_log}")
    found = {}
    for name, pair in policies.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise CounterrankError(f"policies[{name!r}]: {pair!r:.60}; expected a pair (policy, scores)")
        found[name] = as_policy(pair[0]), check_vector(pair[1], clicks.n_docs, f"scores of policy {name!r}")
    return found


def check_candidates(clicks: ClickCounts) -> None:
    """An error for counts without ranking data: a policy ranks candidates that may never have been shown."""
    if not clicks.knows_candidates:
        raise CounterrankError(
            "clicks: counted without ranking data, so candidates that were never shown are not known; "
            "expected a log counted with data"
        )


def check_all_candidates(clicks: ClickCounts) -> None:
    """An error unless the data has all documents that the policy ranked, as far as the log tells."""
    check_candidates(clicks)
    if clicks.unknown_impressions:
        share = clicks.unknown_impressions / (clicks.unknown_impressions + clicks.n_impressions)
        raise CounterrankError(
            f"clicks: {clicks.unknown_impressions:,} impressions ({share:.2%}) are of documents that the ranking data "
            "does not have, so the policy ranked more candidates than are known and its propensities would be wrong; "
            "expected data with all candidates, or logged propensities, or those estimated from the log "
            "(--policy estimated, policies.propensity_from_log)"
        )

"""What a planned log will tell about users: how well their model can be fitted, and how far trust bias misleads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.clicks.policies.propensity import rank_probabilities
from counterrank.clicks.policies.standard import ExplicitQueries
from counterrank.clicks.simulated_users import preset
from counterrank.clicks.user_information import user_information
from counterrank.clicks.users import MOST, ClickModel
from counterrank.common.checks import FloatArray, IntArray
from counterrank.data.ids import place_in_query, query_of_rows, take_ranges

if TYPE_CHECKING:
    from counterrank.evaluation.logging_plan import LoggingPlan

FIT_ERROR = 0.05  # worst relative standard error of alpha_j / alpha_1 for which sessions are planned
REALISTIC = "yandex"
FIT_SIZES = (10**3, 10**4, 10**5, 10**6, 10**7, 10**8)
_MOST_QUERIES = 400  # enough for a mean over queries; a policy is asked for each rank
_MOST_RANKS = 20  # to fit; those of pages without an end are too many


@dataclass(frozen=True)
class PlannedUsers:
    """Expectations about user models under a policy.

    Attributes:
        fit_errors: by model, the largest relative standard error of alpha_j / alpha_1 (of theta_j / theta_1 where users
            are position-based) of any rank after each number of sessions in `FIT_SIZES`; inf where the log cannot
            identify the model. Without labels there is no affine model, which needs documents of different relevance.
        pull: under trust bias, how much more policy-aware weights favour an irrelevant document from the logger's top
            than one from below, as a share of what relevance adds. 0 is robust; None where all documents are shown.
    """

    fit_errors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    pull: float | None = None

    @property
    def identified(self) -> bool:
        """Whether the log tells how users click, by every model there are errors for."""
        return bool(self.fit_errors) and all(math.isfinite(errors[-1]) for errors in self.fit_errors.values())

    def sessions_to_fit(self, model: str, error: float = FIT_ERROR) -> int | None:
        """The sessions after which the worst rank has this relative error; None where more than 10**14 are needed.

        Between the sizes by interpolation of logarithms; beyond the last, errors fall with the root of the sessions.

        >>> errors = tuple(5.0 / size**0.5 for size in FIT_SIZES)
        >>> PlannedUsers({"position-based": errors}).sessions_to_fit("position-based", error=0.05)
        10000
        """
        errors, sizes = np.log(self.fit_errors[model]), np.log(FIT_SIZES)
        if not np.isfinite(errors[-1]):
            return None
        wanted = math.log(error)
        if wanted <= errors[-1]:
            found = sizes[-1] + 2.0 * (errors[-1] - wanted)
        else:  # errors fall, so both are reversed
            found = float(np.interp(wanted, errors[::-1], sizes[::-1]))
        sessions = math.exp(found) * (1.0 - 1e-12)
        return max(1, math.ceil(round(sessions, 6))) if sessions <= MOST else None


def planned_users(
    policy: Any,
    logger: FloatArray,
    offsets: IntArray,
    theta: FloatArray,
    model: ClickModel | None,
    attractiveness: FloatArray,
    frequencies: FloatArray,
    width: int,
    threads: int | None = None,
) -> PlannedUsers:
    """Expectations of the log of a policy, from a sample of its queries where there are many.

    Arguments:
        policy: the logging policy.
        logger: the scores it ranks by.
        offsets: of the queries.
        theta: P(examined | rank).
        model: P(click | examined) by rank at attractiveness 0 and 1; None if it is the same for every document.
        attractiveness: of each document; where `model` is None its P(click | examined).
        frequencies: of each query in a session.
        width: the number of results on a page.
        threads: how many to use.
    """
    docs, weights, share = np.arange(len(logger)), frequencies[query_of_rows(offsets)], 1.0
    asked = np.flatnonzero(frequencies)
    if len(asked) > _MOST_QUERIES and not isinstance(policy, ExplicitQueries):
        chosen = asked[np.linspace(0, len(asked) - 1, _MOST_QUERIES).astype(np.int64)]
        share = float(frequencies[chosen].sum())
        offsets, docs = take_ranges(offsets, chosen)
        weights = weights[docs]
    scores, r = logger[docs], attractiveness[docs]
    k = max(1, min(width, int(np.diff(offsets).max()), _MOST_RANKS, int(np.flatnonzero(theta)[-1]) + 1))
    pages = rank_probabilities(policy, scores, offsets, k, threads)
    shown, curve = pages * weights[:, None], theta[:k]
    if model is None:
        levels, errors = r, {}
    else:
        other, relevant = model.by_rank(k)
        alpha, beta = curve * (relevant - other), curve * other
        errors = {"affine": _worst_errors(shown, r, alpha, beta, "affine", share)}
        # a position-based fit sees each document clicked as it is on average over the ranks that show it
        clicked, examined = (pages * (alpha * r[:, None] + beta)).sum(axis=1), pages @ curve
        levels = np.divide(clicked, examined, out=np.full(len(r), 0.5), where=examined > 0.0)
    errors = {"position-based": _worst_errors(shown, levels, curve, None, "position-based", share), **errors}
    biased = model is not None and np.ptp(model.by_rank(k)[0]) > 0.0
    return PlannedUsers(errors, _pull(pages, weights, curve, model if biased else None, scores, offsets))


def _worst_errors(
    shown: FloatArray, relevance: FloatArray, alpha: FloatArray, beta: FloatArray | None, model: str, share: float
) -> tuple[float, ...]:
    """By number of sessions, from documents that `share` of them show: the others tell as much."""
    if len(alpha) == 1:  # nothing to compare
        return (math.inf,) * len(FIT_SIZES)
    found = (user_information(size * shown, relevance, alpha, beta, model).ratio_errors().max() for size in FIT_SIZES)
    return tuple(math.sqrt(share) * float(error) for error in found)


def _pull(
    pages: FloatArray,
    weights: FloatArray,
    theta: FloatArray,
    model: ClickModel | None,
    scores: FloatArray,
    offsets: IntArray,
) -> float | None:
    """The mean over the logger's top k of E[click] / rho of irrelevant documents, minus that over others that can be
    examined, divided by how much more relevant documents have."""
    k = len(theta)
    other, relevant = (preset(REALISTIC, k)[1] if model is None else model).by_rank(k)
    rho = pages @ theta
    seen = rho > 0.0
    order = np.lexsort((np.arange(len(scores)), -scores, query_of_rows(offsets)))
    place = np.empty(len(scores), np.int64)
    place[order] = place_in_query(offsets)
    top = seen & (place < k)
    below = seen & ~top
    if not top.any() or not below.any():
        return None
    low, high = (
        np.divide(pages @ (theta * level), rho, where=seen, out=np.zeros(len(rho))) for level in (other, relevant)
    )
    gain = float(np.average((high - low)[seen], weights=weights[seen]))
    gap = float(np.average(low[top], weights=weights[top]) - np.average(low[below], weights=weights[below]))
    return gap / gain if gain > 0.0 else None


def equal_price_mixture(plans: Sequence[LoggingPlan]) -> str | None:
    """Uniform insertion in a share of the sessions, else the top k, at the price of replace-last with the same k.

        share = price(replace-last) / price(uniform-insert)

    None where the plans do not have both, or uniform-insert is not the dearer one.
    """
    prices = {plan.policy: plan.price for plan in plans}
    for name, price in prices.items():
        kind, _, setting = name.partition(":")
        dear = prices.get(f"uniform-insert:{setting}")
        if kind == "replace-last" and price is not None and dear is not None and 0.0 < price < dear:
            share = math.floor(100.0 * price / dear) / 100.0
            if 0.0 < share < 1.0:
                return f"{share:g}*uniform-insert:{setting} + {1.0 - share:.2g}*deterministic:{setting}"
    return None


def advise_users(plans: Sequence[LoggingPlan], covering: Sequence[LoggingPlan]) -> list[str]:
    """Which policy tells how users click, in how many sessions, and which withstands trust bias, in sentences."""
    able = [plan for plan in covering if plan.users.identified]
    unable = [plan for plan in covering if plan.users.fit_errors and not plan.users.identified]
    pairs = [(each, plan) for plan in unable for each in able if _is_better(each, plan)]
    best, other = max(pairs, key=lambda pair: pair[0].effective_sample_size, default=(None, None))
    sentences = [] if best is None or other is None else [_instead(best, other, able)]
    if able:
        chosen = best or min(able, key=lambda plan: max(errors[-1] for errors in plan.users.fit_errors.values()))
        needs = ((model, chosen.users.sessions_to_fit(model)) for model in chosen.users.fit_errors)
        fits = " and ".join(f"{n:,} for {_WITH_ARTICLE[model]} model" for model, n in needs if n is not None)
        if fits:
            sentences.append(
                f"To fit how users click, with a relative standard error of {_percent(FIT_ERROR)} at the worst rank, "
                f"takes, in sessions of {chosen.policy}, {fits}."
            )
    if unable:
        names = ", ".join(plan.policy for plan in unable)
        sentences.append(f"Logs of {names} cannot tell how users click: too few documents are shown at several ranks.")
    return sentences


_WITH_ARTICLE = {"position-based": "a position-based", "affine": "an affine"}


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100.0 * share:.2g} %"


def _cost(best: LoggingPlan, plan: LoggingPlan) -> str:
    """What both cost users; a negative price is a gain."""
    metric = best.metric.upper()
    if min(best.price or 0.0, plan.price or 0.0) < 0.0:
        gains = (f"{-100.0 * (each.price or 0.0):+.2g} %" for each in (best, plan))
        return f"it changes {metric} for users by {' instead of '.join(gains)}"
    return f"it costs users {_percent(best.price)} of {metric} instead of {_percent(plan.price)}"


def _is_better(plan: LoggingPlan, other: LoggingPlan) -> bool:
    """Whether it costs users no more, and trust bias misleads it less."""
    if plan.price is None or other.price is None or plan.users.pull is None or other.users.pull is None:
        return False
    return plan.price <= other.price + 1e-9 and abs(plan.users.pull) < abs(other.users.pull)


def _instead(best: LoggingPlan, plan: LoggingPlan, able: Sequence[LoggingPlan]) -> str:
    return (
        f"Log with {best.policy} rather than {plan.policy}: {_cost(best, plan)}, its log tells how users click, and "
        f"trust bias misleads less: where users trust high ranks, an irrelevant document from the top gains "
        f"{_percent(best.users.pull)} of what relevance adds instead of {_percent(plan.users.pull)}. "
        f"{_size_against(best, plan, max(able, key=lambda each: each.effective_sample_size))}"
    )


def _size_against(best: LoggingPlan, plan: LoggingPlan, largest: LoggingPlan) -> str:
    """The effective sample size of a policy next to the one it replaces, and to the largest one there is."""
    named = [(plan, "")]
    if largest is not best and largest is not plan:
        named.append((largest, f", which costs users {_percent(largest.price)}"))
    parts = [
        f"{best.effective_sample_size / each.effective_sample_size:.2g} times that of {each.policy}{price}"
        for each, price in named
        if each.effective_sample_size > 0.0
    ]
    return f"In as many sessions its effective sample size is {' and '.join(parts)}."

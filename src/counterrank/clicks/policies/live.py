"""One query at a time, for use in a live service."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.examination import Examination, check_examination
from counterrank.clicks.policies import _live, _plan
from counterrank.clicks.policies.base import Page, components_of, knows_propensity
from counterrank.clicks.policies.pages import PageSource
from counterrank.common.checks import FloatArray, IntArray, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.random import seed_key


def display(policy: Any, scores: ArrayLike, exam: Any, seed: int | np.random.Generator) -> Page:
    """See `Policy.display`."""
    curve = check_examination(exam)
    given = check_vector(scores, None, "scores")
    if not len(given):
        raise CounterrankError("scores: none; expected at least one candidate")
    ready = _prepared(policy)
    n = len(given)
    if ready is None:
        return _slow_display(policy, given, curve, seed)
    if n < ready.smallest:
        raise CounterrankError(f"policy: document {ready.smallest - 1} on a page of a query with {n} documents")
    _check_reach(curve, min(ready.longest, n), policy)
    plan = ready.plan._replace(scores=given)
    docs, propensities, probabilities = _live.show(plan, min(ready.deepest, n), _curve(curve, n), seed_key(seed))
    return _page(docs, propensities, probabilities)


class _Ready(NamedTuple):
    """What does not depend on the scores."""

    plan: _plan.Plan
    deepest: int  # the longest page by rank
    smallest: int  # how many documents the listed pages need
    longest: int  # the longest page of all, where the query has documents enough


@lru_cache(maxsize=64)
def _curve(exam: Examination, n: int) -> FloatArray:
    return exam.curve(n)


def _prepared(policy: Any) -> _Ready | None:
    """What does not depend on the scores, kept on the policy; None where kernels cannot draw the page."""
    if not hasattr(policy, "_ready"):
        components = components_of(policy)
        quick = all(part.custom is None and part.kind != _plan.PLACKETT_LUCE for part in components)
        object.__setattr__(policy, "_ready", _lay_out_one(policy) if quick else None)
    ready: _Ready | None = policy._ready
    return ready


def _lay_out_one(policy: Any) -> _Ready:
    tables = [part.table.pages.get(None, ([], [])) for part in components_of(policy) if part.table]
    n = 1 + max((max(page) for pages, _ in tables for page in pages), default=0)
    plan = PageSource.make(policy, np.zeros(n), [0, n]).plan
    by_rank = (plan.kinds == _plan.LAST) | (plan.kinds == _plan.INSERT)
    return _Ready(plan, int(plan.ks[by_rank].max(initial=0)), n, _longest_page(policy))


def _longest_page(policy: Any) -> int:
    """How many documents the longest page holds, as far as the policy says it before a page is drawn."""
    known = [part for part in components_of(policy) if part.custom is None]
    listed = [len(page) for part in known if part.table for page in part.table.pages.get(None, ([], []))[0]]
    return max([*listed, *(part.k for part in known if part.table is None)], default=0)


def _check_reach(exam: Examination, length: int, policy: Any) -> None:
    """An error where the curve ends before the page does: propensities of 0 would be logged for what users may see."""
    if exam.k is not None and length > exam.k:
        raise CounterrankError(
            f"exam: {exam.k} rank{'s' if exam.k > 1 else ''}, but {policy!r:.60} shows pages of {length}, and ranks "
            f"beyond the curve would be logged with propensity 0; expected a curve of {length} ranks or more, or a "
            f"policy with k={exam.k} at most"
        )


def _slow_display(policy: Any, scores: FloatArray, exam: Examination, seed: int | np.random.Generator) -> Page:
    """For policies whose pages cannot be counted: everything of the whole query, of which the page takes its part."""
    if not knows_propensity(policy):
        raise CounterrankError(
            f"policy: {type(policy).__name__} has no `propensity`, so there is nothing to log with a page; "
            "expected one, or `sample` and propensities estimated beforehand"
        )
    offsets = np.array([0, len(scores)])
    _check_reach(exam, min(_longest_page(policy), len(scores)), policy)
    docs, _ = policy.sample(scores, offsets, seed=seed)
    _check_reach(exam, len(docs), policy)  # a policy of the user's own tells its length with the page
    shares = policy.rank_probabilities(scores, offsets, len(docs))
    return _page(docs, policy.propensity(scores, offsets, exam)[docs], shares[docs, np.arange(len(docs))])


def _page(docs: IntArray, propensities: FloatArray, probabilities: FloatArray) -> Page:
    return Page(docs, np.arange(1, len(docs) + 1), propensities, np.minimum(probabilities, 1.0))

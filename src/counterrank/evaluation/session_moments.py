"""How what the clicks of one session are worth varies, under a policy that has not shown a page yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.clicks.policies import _plan
from counterrank.clicks.policies.pages import PageSource
from counterrank.common.checks import FloatArray
from counterrank.common.parallel import for_queries, for_range
from counterrank.common.random import derive_key, seed_key
from counterrank.evaluation import _planning_kernels

_PAGES = 200_000  # drawn in all, where pages must be drawn
_FEWEST_PAGES = 64  # drawn for each query
_MOST_CALLS = 2_000  # of a policy of the user's own, each of which draws a page for every query
_AT_ONCE = 1 << 18  # pages held in memory


@dataclass(frozen=True, eq=False)
class SessionMoments:
    """Of Y = sum over the page of click * value, the click being one given that the document is examined.

    Attributes:
        means: E[Y | query], (n_queries, n_columns).
        variances: Var(Y | query), the same shape; from drawn pages one may come out a little below 0.
        sampled_pages: how many pages of each query were drawn for them; 0 where they are exact.
    """

    means: FloatArray
    variances: FloatArray
    sampled_pages: int


def session_moments(
    source: PageSource,
    rho: FloatArray,
    theta: FloatArray,
    attraction: FloatArray,
    values: FloatArray,
    seed: int | np.random.Generator = 0,
) -> SessionMoments:
    """Mean and variance of what the clicks of a session are worth, for each query.

        E[Y]   = sum over d of a_d rho_d v_d
        Var(Y) = sum over d of a_d rho_d v_d^2 + E[sum over ranks r != s of m_r m_s] - E[Y]^2
        m_r    = theta_r a_d v_d        d being the document on rank r

    a is P(click | examined) and clicks are independent given the page. Documents on one page depend on each other,
    which is what the middle term tells: exact where the pages of a policy can be counted, from drawn pages for
    Plackett-Luce and for policies of the user's own. The first term, which outweighs it, is always exact.

    Arguments:
        source: the policy's pages.
        rho: P(examined) of each document.
        theta: P(examined | rank), for the longest query.
        attraction: P(click | examined) of each document.
        values: what a click on each document is worth, (n_docs, n_columns).
        seed: of drawn pages.
    """
    starts = source.offsets[:-1]
    worth = np.ascontiguousarray(attraction[:, None] * values)
    means = np.add.reduceat(rho[:, None] * worth, starts, axis=0)
    squares = np.add.reduceat(rho[:, None] * worth * values, starts, axis=0)
    joint = np.zeros_like(means)
    sampled = 0
    for c, part in enumerate(source.parts):
        if part.custom is None and part.kind != _plan.PLACKETT_LUCE:
            args = (source.plan, c, theta, worth, len(starts), joint)
            for_queries(_planning_kernels.add_joint_terms, source.offsets, *args, threads=source.threads)
        else:
            key = derive_key(seed_key(seed), c)
            sampled = _add_sampled(_only(source, c), part.share, key, theta, worth, joint)
    return SessionMoments(means, squares + joint - means**2, sampled)


def _only(source: PageSource, c: int) -> PageSource:
    """The pages of one component alone."""
    own = slice(c, c + 1)
    plan = source.plan._replace(
        kinds=source.plan.kinds[own],
        ks=source.plan.ks[own],
        values=source.plan.values[own],
        shares=np.ones(1),
        tables=source.plan.tables[own],
    )
    return PageSource(plan, source.offsets, [source.parts[c]], source.width, source.threads)


def _add_sampled(
    source: PageSource, share: float, key: Any, theta: FloatArray, worth: FloatArray, out: FloatArray
) -> int:
    """Add the joint terms of a component by drawing pages; returns how many of each query."""
    n_queries = len(source.offsets) - 1
    wanted = max(_FEWEST_PAGES, -(-_PAGES // n_queries))
    if not source.is_built_in:
        wanted = min(wanted, _MOST_CALLS)
    at_once = max(1, _AT_ONCE // n_queries)
    for begin in range(0, wanted, at_once):
        pages = min(at_once, wanted - begin)
        queries = np.repeat(np.arange(n_queries), pages)
        page_offsets, docs = source.draw(queries, key, begin * n_queries)
        args = (page_offsets, docs, pages, share / wanted, theta, worth, out)
        for_range(_planning_kernels.add_sampled_terms, n_queries, *args, threads=source.threads)
    return wanted

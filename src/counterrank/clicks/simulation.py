"""Simulated clicks: exact in distribution, added up, as many as wanted.

>>> import counterrank as cr
>>> from counterrank import examination, policies, simulation
>>> data = cr.make_ranking_data("yahoo", n_queries=20, seed=0)
>>> policy, exam = policies.ReplaceLast(k=5), examination.inverse_rank(k=5)
>>> simulation.simulate(data, data.features[:, 0], policy, exam, clicks=10**9, seed=0).n_clicks >= 10**9
True
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks._counts import add_up
from counterrank.clicks.click_models import ClickModel, trust_bias
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.log_writer import write_log
from counterrank.clicks.users import MOST, Users, check_amount
from counterrank.common.errors import CounterrankError
from counterrank.common.progress import progress
from counterrank.common.random import derive_key, seed_key
from counterrank.data import RankingData

__all__ = ["ClickModel", "simulate", "trust_bias", "write_log"]

# A block stays below the wanted clicks unless their number is this many standard deviations too large: 1e-15.
_SAFE = 8.0
# Sessions from which the mean number of clicks is learned before the first large block.
_PILOT = 1_000_000
# Sessions that are drawn one by one come in blocks of a few seconds, to show progress and hear signals.
_BLOCK = 10_000_000
_PARTS = 8  # blocks to keep before they are added up
# With fewer sessions to go, they are drawn one by one.
_FEW = 30_000


def simulate(
    data: RankingData,
    scores: ArrayLike,
    policy: Any,
    exam: Any,
    *,
    clicks: int | None = None,
    sessions: int | None = None,
    seed: int | np.random.Generator = 0,
    relevance_threshold: float = 3,
    click_model: ClickModel | None = None,
    query_frequencies: ArrayLike | None = None,
    displays: bool = False,
    propensities: bool = True,
    policy_name: str | None = None,
    threads: int | None = None,
) -> ClickCounts:
    """Show pages to simulated users and count what they click.

        P(click | shown at rank r) = theta_r * P(click | examined)

    Each session asks one query, sees one page, and clicks each document on it independently. For all policies but
    Plackett-Luce and your own, all sessions of a query are drawn at once, exactly in distribution, so that 10^9 clicks
    cost about as much as 10^7.

    Arguments:
        data: ranking data with labels.
        scores: what the logging policy ranks by, one per document.
        policy: see `counterrank.policies`; or `{query index: Explicit}`.
        exam: how likely each rank is examined, see `counterrank.examination`.
        clicks: stop with the session that holds this click; or
        sessions: how many pages to show.
        seed: one seed gives one result, whatever the number of threads.
        relevance_threshold: the smallest label of a relevant document.
        click_model: see `ClickModel`; by default the paper's, 1.0 for relevant documents and 0.1 for others.
        query_frequencies: how often each query is asked, up to a factor; all equally often if None.
        displays: also keep the clicks of each distinct page, which `estimators.rerank` needs.
        propensities: log P(examined | query, policy) with each shown document, if the policy can tell it.
        policy_name: a name to log with the sessions, for logs of several policies put together.
        threads: None for all cores.

    >>> from counterrank.clicks import policies
    >>> from counterrank.clicks.examination import inverse_rank
    >>> data = RankingData([[0.0], [0.0]], [0, 2], labels=[0, 4])
    >>> log = simulate(data, [2.0, 1.0], policies.Deterministic(k=2), inverse_rank(k=2), sessions=1000)
    >>> log.n_sessions, log.impressions.tolist()
    (1000, [1000, 1000])
    """
    wanted = _check_amount(clicks, sessions)
    if policy_name is not None and not isinstance(policy_name, str):
        raise CounterrankError(f"policy_name={policy_name!r}: expected a string")
    users = Users.make(data, scores, policy, exam, relevance_threshold, click_model, query_frequencies, threads)
    key = seed_key(seed)
    what = f"simulating {wanted:,} {'sessions' if clicks is None else 'clicks'}"
    with progress(what, wanted) as advance:
        if clicks is None:
            counts = _all_of(users, wanted, key, displays, advance)
        else:
            counts = _until(users, wanted, key, displays, advance)
    return users.finished(counts, propensities, policy_name)


def _all_of(users: Users, sessions: int, key: np.uint64, displays: bool, advance: Any) -> ClickCounts:
    """So many sessions: at once, or in blocks where each of them takes its time."""
    if sessions <= _BLOCK or users.clicks_of_a_session() is not None:
        return users.all_at_once(sessions, key, displays)
    parts: list[ClickCounts] = []
    for number, begin in enumerate(range(0, sessions, _BLOCK)):
        size = min(_BLOCK, sessions - begin)
        parts = _with(parts, users.all_at_once(size, derive_key(key, number), displays))
        advance(size)
    return add_up(parts)


def _with(parts: list[ClickCounts], part: ClickCounts) -> list[ClickCounts]:
    """One part more; many of them are added up, so that they do not fill the memory."""
    return [add_up([*parts, part])] if len(parts) >= _PARTS else [*parts, part]


def _until(users: Users, clicks: int, key: np.uint64, displays: bool, advance: Any) -> ClickCounts:
    """Sessions up to the one with the wanted click: large blocks that stay below it, then one by one.

    Sizes of blocks follow from earlier blocks alone, so that all of them together are the beginning of one endless
    row of sessions.
    """
    parts: list[ClickCounts] = []
    seen = shown = number = 0
    known = users.clicks_of_a_session()
    if known is not None and known[0] == 0.0:
        raise CounterrankError("clicks: no page of this policy can be clicked; expected one with an examined document")
    while True:
        size = _safe_block(users, clicks - seen, known, seen, shown)
        block_key = derive_key(key, number)
        if size < _FEW:
            return add_up(_with(parts, users.one_by_one(clicks - seen, block_key, displays, advance)))
        part = users.all_at_once(size, block_key, displays)
        if part.n_clicks >= clicks - seen:  # once in 1e15 times
            raise CounterrankError("clicks: a block of sessions went beyond them by sheer luck; use another seed")
        parts = _with(parts, part)
        seen, shown, number = seen + part.n_clicks, shown + size, number + 1
        advance(part.n_clicks)


def _safe_block(users: Users, clicks: int, known: tuple[float, float] | None, seen: int, shown: int) -> int:
    """How many sessions hold fewer than `clicks` clicks, all but certainly.

    Where their mean is not known, what was seen so far tells the most it can be, and their mean square is at most
    (1 + b) times their mean, with b the largest mean of any page.
    """
    if known is None:
        if shown == 0:
            return min((clicks - 1) // users.source_width, _PILOT)
        spread, most = 1.0 + users.largest_mean, float(_BLOCK)
        mean = (seen + _SAFE**2 * spread + _SAFE * math.sqrt((seen + 1) * spread)) / shown
    else:
        mean, spread, most = known[0], known[1] / known[0], float(MOST)
    room = clicks - _SAFE * math.sqrt(clicks * spread)
    return int(max(0.0, min(room / mean, most)))


def _check_amount(clicks: Any, sessions: Any) -> int:
    if (clicks is None) == (sessions is None):
        raise CounterrankError("clicks, sessions: expected one of the two")
    return check_amount(sessions, "sessions") if clicks is None else check_amount(clicks, "clicks")

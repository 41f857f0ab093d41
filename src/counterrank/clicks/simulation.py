"""Simulated clicks: any number of them, exact in distribution, as counts or as a log.

>>> import counterrank as cr
>>> from counterrank import examination, policies, simulation
>>> data = cr.make_ranking_data("yahoo", n_queries=20, seed=0)
>>> policy, exam = policies.ReplaceLast(k=5), examination.inverse_rank(k=5)
>>> simulation.simulate(data, data.features[:, 0], policy, exam, clicks=10**9, seed=0).n_clicks >= 10**9
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts, merge_counts
from counterrank.clicks.policies.pages import knows_propensity
from counterrank.clicks.policies.propensity import rank_probabilities
from counterrank.clicks.simulated_users import users
from counterrank.clicks.users import MOST, ClickModel, SessionSimulator, check_amount, trust_bias
from counterrank.common.checks import IntArray
from counterrank.common.errors import CounterrankError, brief
from counterrank.common.files import PathLike, atomic_file
from counterrank.common.progress import progress
from counterrank.common.random import derive_key, seed_key
from counterrank.data import RankingData

__all__ = ["ClickModel", "simulate", "trust_bias", "users", "write_log"]


def __dir__() -> list[str]:
    return sorted(__all__)


_CHUNK = 1 << 19  # rows of a log in memory at a time, or a little more
# A block stays below the wanted clicks unless their number is this many standard deviations too large: 1e-15.
_SAFE = 8.0
# Sessions from which the mean number of clicks is learned before the first large block.
_PILOT = 1_000_000
# Sessions of policies that draw their own pages come in blocks, to bound memory.
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
    last_clicks: bool = False,
    propensities: bool = True,
    policy_name: str | None = None,
    context: str | None = None,
    threads: int | None = None,
) -> ClickCounts:
    """Simulate sessions under a logging policy and count impressions and clicks.

        P(click | shown at rank r) = theta_r * P(click | examined)

    Each session issues one query, sees one page, and clicks each document on it independently. For all policies but
    Plackett-Luce and your own, all sessions of a query are drawn at once, exactly in distribution, so that 10^9 clicks
    cost about as much as 10^7. Plackett-Luce draws each page: 10^8 short ones take some five seconds of processor time.

    Arguments:
        data: ranking data with labels.
        scores: what the logging policy ranks by, one per document; a list of two for `policies.TeamDraft`.
        policy: see `counterrank.policies`; or `{query index: Explicit}`.
        exam: how likely each rank is examined, see `counterrank.examination`; or users, see `users`; or a user model:
            `examination.Affine`, or `examination.Browsing` or `examination.Dependent`, whose users click from the top
            to the bottom of the page.
        clicks: stop with the session that holds this click; or
        sessions: how many pages to show.
        seed: one seed gives one result, whatever the number of threads.
        relevance_threshold: the smallest label of a relevant document.
        click_model: see `ClickModel`; by default that of `users`, else the paper's, 1.0 for relevant documents and 0.1
            for others.
        query_frequencies: the frequency of each query, up to a factor; uniform if None.
        displays: also keep the clicks of each distinct page, which `estimators.rerank` needs.
        last_clicks: also count by the rank of the last click above; with displays also keep in which ways each page was
            clicked. Takes time for each session.
        propensities: log P(examined | query, policy) with each shown document, if the policy can compute it.
        policy_name: a name to log with the sessions, for logs of several policies put together.
        context: the context to log with the sessions, such as "mobile", for logs of several contexts put together by
            `ClickCounts.concat`: simulate each with users of its own.
        threads: None for all cores.

    >>> from counterrank.clicks import policies
    >>> from counterrank.clicks.examination import inverse_rank
    >>> data = RankingData([[0.0], [0.0]], [0, 2], labels=[0, 4])
    >>> log = simulate(data, [2.0, 1.0], policies.Deterministic(k=2), inverse_rank(k=2), sessions=1000)
    >>> log.n_sessions, log.impressions.tolist()
    (1000, [1000, 1000])
    """
    if (clicks is None) == (sessions is None):
        raise CounterrankError("clicks, sessions: expected one of the two")
    wanted = check_amount(sessions, "sessions") if clicks is None else check_amount(clicks, "clicks")
    for argument, name in (("policy_name", policy_name), ("context", context)):
        if name is not None and not isinstance(name, str):
            raise CounterrankError(f"{argument}={brief(name)}: expected a string")
    simulator = SessionSimulator.make(
        data, scores, policy, exam, relevance_threshold, click_model, query_frequencies, threads, last_clicks
    )
    key = seed_key(seed)
    what = f"simulating {wanted:,} {'sessions' if clicks is None else 'clicks'}"
    with progress(what, wanted) as advance:
        if clicks is None:
            counts = _all_of(simulator, wanted, key, displays, advance)
        else:
            counts = _until(simulator, wanted, key, displays, advance)
    return simulator.finished(counts, propensities, policy_name, context)


def _all_of(simulator: SessionSimulator, sessions: int, key: np.uint64, displays: bool, advance: Any) -> ClickCounts:
    """So many sessions: at once, or in blocks where a policy draws its own pages."""

    def report(sessions: int, clicks: int) -> None:
        advance(sessions)

    if sessions <= _BLOCK or simulator.source.is_built_in:
        return simulator.all_at_once(sessions, key, displays, report)
    parts: list[ClickCounts] = []
    for number, begin in enumerate(range(0, sessions, _BLOCK)):
        size = min(_BLOCK, sessions - begin)
        parts = _with(parts, simulator.all_at_once(size, derive_key(key, number), displays, report))
    return merge_counts(parts)


def _with(parts: list[ClickCounts], part: ClickCounts) -> list[ClickCounts]:
    """One part more; many of them are added up, so that they do not fill the memory."""
    return [merge_counts([*parts, part])] if len(parts) >= _PARTS else [*parts, part]


def _until(simulator: SessionSimulator, clicks: int, key: np.uint64, displays: bool, advance: Any) -> ClickCounts:
    """Sessions up to the one with the wanted click: large blocks that stay below it, then one by one.

    Sizes of blocks follow from earlier blocks alone, so that all of them together are the beginning of one endless
    row of sessions.
    """

    def report(sessions: int, clicks: int) -> None:
        advance(clicks)

    parts: list[ClickCounts] = []
    n_clicks = n_sessions = number = 0
    known = simulator.clicks_of_a_session(clicks)
    if known is not None and known[0] == 0.0:
        raise CounterrankError("clicks: no page of this policy can be clicked; expected one with an examined document")
    while True:
        size = _safe_block(simulator, clicks - n_clicks, known, n_clicks, n_sessions)
        block_key = derive_key(key, number)
        if size < _FEW:
            return merge_counts(_with(parts, simulator.one_by_one(clicks - n_clicks, block_key, displays, advance)))
        part = simulator.all_at_once(size, block_key, displays, report)
        if part.n_clicks >= clicks - n_clicks:  # once in 1e15 times
            raise CounterrankError("clicks: a block of sessions went beyond them by sheer luck; use another seed")
        parts = _with(parts, part)
        n_clicks, n_sessions, number = n_clicks + part.n_clicks, n_sessions + size, number + 1


def _safe_block(
    simulator: SessionSimulator, clicks: int, known: tuple[float, float] | None, n_clicks: int, n_sessions: int
) -> int:
    """How many sessions hold fewer than `clicks` clicks, all but certainly.

    Where their mean is not known, it is bounded by the clicks so far, and their mean square is at most (1 + b) times
    their mean, with b the largest mean of any page.
    """
    if known is None:
        if n_sessions == 0:
            return min((clicks - 1) // simulator.source_width, _PILOT)
        spread, most = 1.0 + simulator.largest_mean, float(MOST if simulator.source.is_built_in else _BLOCK)
        mean = (n_clicks + _SAFE**2 * spread + _SAFE * math.sqrt((n_clicks + 1) * spread)) / n_sessions
    else:
        mean, spread, most = known[0], known[1] / known[0], float(MOST)
    room = clicks - _SAFE * math.sqrt(clicks * spread)
    return int(max(0.0, min(room / mean, most)))


def write_log(
    data: RankingData,
    scores: ArrayLike,
    policy: Any,
    exam: Any,
    path: PathLike,
    *,
    sessions: int,
    seed: int | np.random.Generator = 0,
    relevance_threshold: float = 3,
    click_model: ClickModel | None = None,
    query_frequencies: ArrayLike | None = None,
    propensities: bool = True,
    display_probabilities: bool = False,
    policy_name: str | None = None,
    first_session: int = 0,
    threads: int | None = None,
) -> int:
    """Simulate sessions and write a click log to Parquet, in bounded memory; returns the number of rows.

    Columns: session_id, query_id, doc_id, rank, clicked, and where wanted propensity, display_probability and policy.
    The arguments are those of `simulate`; sessions come one by one, in random order of queries.

    Arguments:
        path: the file to write; it appears when it is complete.
        sessions: how many pages to show.
        propensities: write P(examined | query, policy) with each row, if the policy can compute it.
        display_probabilities: write P(shown at this rank | query, policy) with each row.
        policy_name: write this with each row, for a log that holds the pages of several policies.
        first_session: the number of the first session, so that several logs can be read as one.

    >>> import pathlib, tempfile
    >>> from counterrank.clicks import policies
    >>> from counterrank.clicks.examination import inverse_rank
    >>> data = RankingData([[0.0], [0.0]], [0, 2], labels=[0, 4])
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.parquet"
    >>> write_log(data, [2.0, 1.0], policies.Deterministic(k=2), inverse_rank(k=2), file, sessions=10)
    20
    """
    import pyarrow.parquet as pq

    n = check_amount(sessions, "sessions")
    simulator = SessionSimulator.make(
        data, scores, policy, exam, relevance_threshold, click_model, query_frequencies, threads
    )
    columns = _Columns(simulator, propensities, display_probabilities, policy_name, first_session)
    key = seed_key(seed)
    rows = 0
    with (
        atomic_file(path) as temporary,
        pq.ParquetWriter(temporary, columns.schema, compression="snappy") as writer,
        progress("writing sessions", n) as advance,
    ):
        for batch, shown in _ahead(partial(columns.batch, key), n, max(1, _CHUNK // simulator.source_width)):
            writer.write_batch(batch, row_group_size=1 << 20)
            rows += batch.num_rows
            advance(shown)
    return rows


def _ahead(make: Callable[[int, int], Any], sessions: int, chunk: int) -> Iterator[tuple[Any, int]]:
    """Batches one after the other, the next made while the last is written."""
    with ThreadPoolExecutor(1) as pool:
        sizes = [(begin, min(chunk, sessions - begin)) for begin in range(0, sessions, chunk)]
        coming = pool.submit(make, *sizes[0])
        for (_, size), after in zip(sizes, [*sizes[1:], None], strict=True):
            batch = coming.result()
            if after is not None:
                coming = pool.submit(make, *after)
            yield batch, size


class _Columns:
    """The columns of a log, as Arrow arrays."""

    def __init__(
        self,
        simulator: SessionSimulator,
        propensities: bool,
        display_probabilities: bool,
        policy_name: str | None,
        first_session: int,
    ) -> None:
        import pyarrow as pa

        self.simulator, self.first_session = simulator, first_session
        self.query_ids, self.doc_ids = pa.array(simulator.data.query_ids), pa.array(simulator.data.doc_ids)
        columns = [
            ("session_id", pa.int64()),
            ("query_id", self.query_ids.type),
            ("doc_id", self.doc_ids.type),
            ("rank", pa.int32()),
            ("clicked", pa.bool_()),
        ]
        # what else is logged: of documents at ranks
        self.more: list[Callable[[IntArray, IntArray], Any]] = []
        known = knows_propensity(simulator.policy)
        if propensities and known and simulator.exam is not None:
            rho = simulator.propensity()
            columns.append(("propensity", pa.float64()))
            self.more.append(lambda docs, ranks: pa.array(rho[docs]))
        if display_probabilities:
            if not known:
                raise CounterrankError("display_probabilities: this policy cannot compute them; expected one that can")
            scores, offsets = simulator.source.scores, simulator.source.offsets
            shown = rank_probabilities(simulator.policy, scores, offsets, simulator.source_width)
            columns.append(("display_probability", pa.float64()))
            self.more.append(lambda docs, ranks: pa.array(shown[docs, ranks - 1]))
        if policy_name is not None:
            columns.append(("policy", pa.string()))
            self.more.append(lambda docs, ranks: pa.repeat(pa.scalar(policy_name, pa.string()), len(ranks)))
        self.schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])

    def batch(self, key: np.uint64, begin: int, n: int) -> Any:
        """The rows of sessions `begin` to `begin + n`, one for each displayed document."""
        import pyarrow as pa

        drawn = self.simulator.draw(n, key, begin)
        lengths, ranks = np.diff(drawn.offsets), drawn.ranks()
        first = self.first_session + begin
        arrays = [
            pa.array(np.repeat(np.arange(first, first + len(lengths)), lengths)),
            self.query_ids.take(pa.array(np.repeat(drawn.queries, lengths))),
            self.doc_ids.take(pa.array(drawn.docs)),
            pa.array(ranks.astype(np.int32)),
            pa.array(drawn.clicked),
            *(column(drawn.docs, ranks) for column in self.more),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

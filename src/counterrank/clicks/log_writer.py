"""Simulated clicks as a log on disk, one row per displayed document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.click_models import ClickModel
from counterrank.clicks.policies.base import knows_propensity
from counterrank.clicks.policies.exact import rank_probabilities
from counterrank.clicks.users import Sessions, Users, check_amount
from counterrank.common.checks import FloatArray
from counterrank.common.errors import CounterrankError
from counterrank.common.files import PathLike, atomic_file
from counterrank.common.progress import progress
from counterrank.common.random import seed_key
from counterrank.data import RankingData

_CHUNK = 1 << 19  # rows in memory at a time, or a little more


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
    """The world of `simulate` as an event log: a Parquet file, written in bounded memory; returns its rows.

    Columns: session_id, query_id, doc_id, rank, clicked, and where wanted propensity, display_probability and policy.
    The arguments are those of `simulate`; sessions come one by one, in random order of queries.

    Arguments:
        path: the file to write; it appears when it is complete.
        sessions: how many pages to show.
        propensities: write P(examined | query, policy) with each row, if the policy can tell it.
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
    users = Users.make(data, scores, policy, exam, relevance_threshold, click_model, query_frequencies, threads)
    columns = _Columns(users, propensities, display_probabilities, policy_name, first_session)
    key = seed_key(seed)
    rows = 0
    with (
        atomic_file(path) as temporary,
        pq.ParquetWriter(temporary, columns.schema(), compression="snappy") as writer,
        progress("writing sessions", n) as advance,
    ):
        for batch, shown in _ahead(partial(columns.batch, key), n, max(1, _CHUNK // users.source_width)):
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
        self, users: Users, propensities: bool, display_probabilities: bool, policy_name: str | None, first_session: int
    ) -> None:
        import pyarrow as pa

        self.users, self.policy_name, self.first_session = users, policy_name, first_session
        self.query_ids, self.doc_ids = pa.array(users.data.query_ids), pa.array(users.data.doc_ids)
        known = knows_propensity(users.policy)
        self.rho: FloatArray | None = users.propensity() if propensities and known else None
        self.shown: FloatArray | None = None
        if display_probabilities:
            if not known:
                raise CounterrankError("display_probabilities: this policy cannot tell them; expected one that can")
            source = users.source
            self.shown = rank_probabilities(users.policy, source.plan.scores, source.offsets, users.source_width)

    def batch(self, key: np.uint64, begin: int, n: int) -> Any:
        """The rows of sessions `begin` to `begin + n`."""
        import pyarrow as pa

        drawn = self.users.draw(n, key, begin)
        return pa.RecordBatch.from_arrays(self.arrays(drawn, begin), schema=self.schema())

    def schema(self) -> Any:
        """Names and types."""
        import pyarrow as pa

        columns = [
            ("session_id", pa.int64()),
            ("query_id", self.query_ids.type),
            ("doc_id", self.doc_ids.type),
            ("rank", pa.int32()),
            ("clicked", pa.bool_()),
        ]
        if self.rho is not None:
            columns.append(("propensity", pa.float64()))
        if self.shown is not None:
            columns.append(("display_probability", pa.float64()))
        if self.policy_name is not None:
            columns.append(("policy", pa.string()))
        return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])

    def arrays(self, drawn: Sessions, begin: int) -> list[Any]:
        """One entry per displayed document."""
        import pyarrow as pa

        lengths, ranks = np.diff(drawn.offsets), drawn.ranks()
        first = self.first_session + begin
        arrays = [
            pa.array(np.repeat(np.arange(first, first + len(lengths)), lengths)),
            self.query_ids.take(pa.array(np.repeat(drawn.queries, lengths))),
            self.doc_ids.take(pa.array(drawn.docs)),
            pa.array(ranks.astype(np.int32)),
            pa.array(drawn.clicked),
        ]
        if self.rho is not None:
            arrays.append(pa.array(self.rho[drawn.docs]))
        if self.shown is not None:
            arrays.append(pa.array(self.shown[drawn.docs, ranks - 1]))
        if self.policy_name is not None:
            arrays.append(pa.repeat(pa.scalar(self.policy_name, pa.string()), len(ranks)))
        return arrays

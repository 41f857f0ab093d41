"""What a log says of its own sessions: a sample of them by hash, and when they took place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.logs.columns import TEXT, Columns
from counterrank.clicks.logs.engine import Engine
from counterrank.clicks.logs.matching import Candidates
from counterrank.clicks.origin import SAMPLE_SIZE, Origin, SessionSample, content_sources
from counterrank.common.random import EVERYTHING


def with_origins(
    engine: Engine, columns: Columns, known: Candidates | None, counts: Sequence[ClickCounts], log: str
) -> list[ClickCounts]:
    """The counts of each part of the data with the origin of their clicks.

    Arguments:
        engine: that has read the log.
        columns: of the log.
        known: the ids of the data; None where the log was counted without any.
        counts: of each part of the data.
        log: its name.
    """
    sessions = sum(each.n_sessions for each in counts)
    limit = EVERYTHING if sessions <= 2 * SAMPLE_SIZE else EVERYTHING * 2 * SAMPLE_SIZE // sessions >> _SHIFT << _SHIFT
    sampled = None if columns.impressions else _sampled(engine, columns, known, limit)
    dates = _dates(engine, columns, known, len(counts))
    found = []
    for part, each in enumerate(counts):
        sources = content_sources(each)
        if sampled is not None:
            own = sampled["part"] == part
            sources = tuple(
                source._replace(sample=_of_policy(sampled, own, source.policy, limit)) for source in sources
            )
        found.append(replace(each, origin=Origin(sources, (log,), *dates[part])))
    return found


def _sampled(engine: Engine, columns: Columns, known: Candidates | None, limit: int) -> dict[str, Any]:
    """Part, policy and hashes of the sessions whose id has a hash below the limit.

    Ids that are numbers, also as texts, are hashed by arithmetic, which is quick; others by md5, which both engines
    have.
    """
    policy = "policy" if columns.has("policy") else "'' as policy"
    number, name = "session_id", "cast(null as string)"
    if columns.kinds["session_id"] == TEXT:
        whole = "try_cast(session_id as bigint)"
        number = f"case when cast({whole} as string) = session_id then {whole} end"
        name = "case when number is null then session_id end"
    page = f"concat_ws('|', {', '.join(f'cast({each} as string)' for each in ('query_id', 'doc_id', 'clicked'))})"
    below = f"{_spread('number', *_FIRST)} < {limit >> _SHIFT} or {_md5('name')} < '{limit:016x}'"
    engine.reduce(
        "sampled",
        f"select query_id, policy, number, {_md5('name')} as name, {_md5(page)} as page from (select *, {name} as name "
        f"from (select query_id, doc_id, clicked, {policy}, session_id, {number} as number from log where rank = 1) "
        f"as numbered) as named{'' if limit >= EVERYTHING else f' where {below}'}",
        "looking at sessions",
    )
    part, join = "0", ""
    if known is not None:
        known.name_parts("asked")
        part, join = "part", f"join asked on cast(sampled.query_id as {known.query_type}) = asked.query_id"
    first, second = (_spread("number", *each) for each in (_FIRST, _SECOND))
    both = f"cast({first} as ubigint) * {1 << _SHIFT} + cast({second} as ubigint)"
    found = engine.local.execute(
        f"select {part} as part, policy, cast('0x' || page as ubigint) as page, "
        f"case when number is null then cast('0x' || name as ubigint) else {both} end as id from sampled {join}"
    ).fetchnumpy()
    return {
        "part": np.asarray(found["part"], np.int64),
        "policy": np.asarray(found["policy"]).astype(np.str_),
        **{name: np.asarray(found[name], np.uint64) for name in ("id", "page")},
    }


# a prime and a factor each, small enough that their product is a bigint; the first has 31 bits, the second 32
_FIRST, _SECOND = (2147483647, 1103515245), (4294967291, 1597334677)
_SHIFT = 33


def _spread(number: str, prime: int, factor: int) -> str:
    """A hash of a whole number below a prime, as SQL."""
    return f"pmod(pmod(pmod({number}, {prime}) + {prime}, {prime}) * {factor}, {prime})"


def _of_policy(sampled: dict[str, Any], part: Any, policy: str, limit: int) -> SessionSample:
    own = part & (sampled["policy"] == policy)
    return SessionSample.of(sampled["id"][own], sampled["page"][own], limit).reduced(SAMPLE_SIZE)


def _md5(value: str) -> str:
    """The first 64 bits of a hash of a text, as SQL."""
    return f"substr(md5({value}), 1, 16)"


def _dates(
    engine: Engine, columns: Columns, known: Candidates | None, parts: int
) -> list[tuple[str | None, str | None]]:
    """The first and last time in each part, as far as times can be read."""
    if not columns.has("timestamp"):
        return [(None, None)] * parts
    first, last = f"min({columns.seconds('earliest')})", f"max({columns.seconds('latest')})"
    source, part, group = "cells", "0", ""
    if known is not None:
        known.name_parts("asked")
        source = f"cells join asked on cast(cells.query_id as {known.query_type}) = asked.query_id"
        part, group = "part", " group by part"
    found = engine.local.execute(f"select {part}, {first}, {last} from {source}{group}").fetchall()
    spans = {int(number): (_moment(low), _moment(high)) for number, low, high in found}
    return [spans.get(number, (None, None)) for number in range(parts)]


def _moment(seconds: Any) -> str | None:
    """Seconds since 1970 as ISO 8601.

    >>> _moment(1767225600.0)
    '2026-01-01T00:00:00Z'
    """
    if seconds is None or not abs(seconds) < 1e12:
        return None
    return f"{np.datetime64(int(seconds), 's')}Z"

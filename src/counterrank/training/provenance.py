"""Where a ranker comes from: the data, the clicks and the settings it was learned with."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.origin import Origin, join_origins
from counterrank.common.errors import CounterrankError, installed_version
from counterrank.common.random import HashSample
from counterrank.data import RankingData
from counterrank.data.ids import identity, query_keys

if TYPE_CHECKING:
    from counterrank.training.ranker import Ranker

WEIGHTS_GIVEN = "weights given"
_QUERIES, _SESSIONS = 4096, 16384  # of which a ranker keeps hashes


def provenance(
    ranker: Ranker, data: RankingData, validation: RankingData | None, clicks: Sequence[ClickCounts] | None
) -> dict[str, Any]:
    """What `Ranker.provenance_` holds, as JSON can hold it.

    Arguments:
        ranker: a trained one.
        data: the queries it learned from.
        validation: those it was stopped by; None if there are none.
        clicks: all clicks that were used, to learn or to stop; None where only weights were given.
    """
    seed = ranker.seed
    return {
        "version": installed_version(),
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": None,
        "data": describe_data(data),
        "validation": None if validation is None else describe_data(validation),
        "features": [f"feature_{i + 1}" for i in range(data.n_features)],
        "clicks": WEIGHTS_GIVEN if clicks is None else describe_clicks(clicks),
        "estimator": None,
        "loss": ranker.loss_,
        "k": ranker.k,
        "model": ranker.kind_,
        "metric": ranker.metric_,
        "learning_rate": ranker.learning_rate_,
        "best_epoch": ranker.best_epoch_,
        "seed": int(seed) if not hasattr(seed, "integers") else None,
    }


def describe_data(data: RankingData) -> dict[str, Any]:
    """Which queries: where they come from, a digest of their ids, and a sample of their keys."""
    return {
        "path": data.source,
        "identity": identity(data),
        "queries": data.n_queries,
        "documents": data.n_docs,
        "query_keys": HashSample.of(query_keys(data)).reduced(_QUERIES).describe(),
    }


def describe_clicks(clicks: Sequence[ClickCounts]) -> dict[str, Any]:
    """Which clicks: how many, of which policies, where they come from, and a sample of their sessions."""
    policies = dict.fromkeys(name for counts in clicks for name in counts.policy_names)
    return {
        "sessions": sum(counts.n_sessions for counts in clicks),
        "clicks": sum(counts.n_clicks for counts in clicks),
        "policies": list(policies),
        **join_origins([counts.known_origin() for counts in clicks]).reduced(_SESSIONS).describe(),
    }


def check_clicks(clicks: Any, parts: Sequence[RankingData] | None = None) -> list[ClickCounts] | None:
    """The clicks that weights come from: one `ClickCounts` or several, each of one of these parts of the data.

    >>> check_clicks(None) is None
    True
    """
    if clicks is None:
        return None
    given = clicks if isinstance(clicks, list | tuple) else [clicks]
    if not given:
        raise CounterrankError("clicks: an empty list; expected the ClickCounts that the weights come from, or None")
    counts = [check_counts(each) for each in given]
    known = None if parts is None else {identity(part) for part in parts}
    for i, each in enumerate(counts):
        if known is not None and each.identity not in known:
            raise CounterrankError(
                f"clicks: number {i} is of other data; expected the clicks that the weights come from"
            )
    return counts


def read_provenance(content: Any) -> dict[str, Any]:
    """What a saved ranker says of its provenance, if it can be understood; {} of one that says nothing.

    >>> read_provenance({})
    {}
    """
    found = dict(content)
    if found:
        for name in ("data", "validation"):
            if found[name] is not None:
                HashSample.from_description(found[name]["query_keys"])
        if isinstance(found["clicks"], dict):
            Origin.from_description(found["clicks"])
        elif found["clicks"] not in (None, WEIGHTS_GIVEN):
            raise ValueError("clicks")
    return found

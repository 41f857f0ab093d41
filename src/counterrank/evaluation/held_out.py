"""Whether clicks are held out: not those that a ranker was trained on, or stopped by."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.origin import FEW_SHARED, Origin, shared_sessions, too_few_to_tell
from counterrank.common.errors import CounterrankError, printable
from counterrank.common.random import HashSample
from counterrank.data import RankingData
from counterrank.data.ids import query_keys


class InSampleWarning(UserWarning):
    """An estimate from clicks on queries that the ranker was trained on, or from some of its own clicks."""


def scores_of(given: Any, data: RankingData, name: str = "scores") -> Any:
    """Scores as they are, or those that a ranker predicts."""
    if callable(getattr(given, "predict", None)) and not isinstance(given, type):
        return given.predict(data)
    if isinstance(given, str | bytes | Mapping | type) or not (
        hasattr(given, "__len__") or hasattr(given, "__array__")
    ):
        raise CounterrankError(
            f"{name}: {type(given).__name__}; expected a ranker (an object with predict), or one score per document"
        )
    return given


def check_held_out(
    rankers: Mapping[str, Any], data: RankingData, clicks: ClickCounts, target: str, in_sample: Any
) -> bool:
    """Whether some of the rankers were trained on these clicks, or stopped by them: an error unless that is allowed.

    New clicks on queries that a ranker was trained on are valid for the target population of these queries; for queries
    like these a warning gives the share of such queries.

    Arguments:
        rankers: by the names they have in messages, if they have no `label`; those without a `provenance_` (plain
            scores) cannot be checked.
        data: what the clicks were counted against.
        clicks: the clicks to evaluate them by.
        target: the target population, "queries" or "these-queries".
        in_sample: whether clicks of the training are accepted.
    """
    if not isinstance(in_sample, bool | np.bool_):
        raise CounterrankError(f"in_sample={in_sample!r}: expected True or False")
    known = [(name, each.provenance_) for name, each in rankers.items() if getattr(each, "provenance_", None)]
    if not known:
        return False
    found, origin = False, clicks.known_origin()
    queries = HashSample.of(query_keys(data)[clicks.sessions > 0])
    for name, provenance in known:
        about = printable(str(getattr(rankers[name], "label", name)))
        used = provenance["clicks"]
        earlier = Origin.from_description(used) if isinstance(used, dict) else Origin()
        share = shared_sessions(origin, earlier)
        if share >= FEW_SHARED:
            if not in_sample:
                raise CounterrankError(
                    f"clicks: {about} was trained on or stopped by {share:.0%} of these sessions, so this would be an "
                    "in-sample result, too good to be true; expected held-out clicks, or in_sample=True"
                )
            found = True
            continue
        if share:
            text = f"{about} was trained on or stopped by {share:.2%} of these sessions"
            warnings.warn(f"{text}; the others are held out", InSampleWarning, stacklevel=3)
        _warn_of_queries(about, queries, provenance, target, too_few_to_tell(origin, earlier))
    return found


def _warn_of_queries(name: str, queries: HashSample, provenance: Mapping[str, Any], target: str, too_few: bool) -> None:
    """Warn of queries that were trained on, where that matters."""
    parts = [provenance[part] for part in ("data", "validation") if provenance[part] is not None]
    share = sum(queries.share_in(HashSample.from_description(part["query_keys"])) for part in parts)
    if not share:
        return
    trained = f"{name} was trained on {min(share, 1.0):.0%} of these queries"
    if isinstance(provenance["clicks"], str):
        text = f"{trained}, and does not say on which clicks; are these held out?"
    elif too_few:
        text = f"{trained}, and these sessions are too few to tell whether it was trained on them"
    elif target == "queries":
        text = (
            f"{name} was trained on or stopped by {min(share, 1.0):.0%} of these queries, with other clicks: the "
            'result holds for these queries (target="these-queries"), and may be too good for queries like these'
        )
    else:
        return
    warnings.warn(text, InSampleWarning, stacklevel=4)

"""Which user models a log identifies: by its impressions and clicks at ranks, and after which clicks."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from counterrank.clicks.counts import SHOWN_ONLY, ClickCounts
from counterrank.clicks.position_bias import comparable
from counterrank.clicks.rank_table import last_rank
from counterrank.clicks.user_estimation import estimate
from counterrank.common.errors import CounterrankError, ExaminationWarning
from counterrank.evaluation.inspection.user_fits import Places


def counts_of(places: Places) -> ClickCounts:
    """Click counts of these impressions."""
    pages, own, n = places.pages, places.kept, places.n_ranks
    query = pages.queries[pages.pages()]
    n_docs = int(pages.docs.max(initial=-1)) + 1
    owner = np.zeros(n_docs, np.int64)
    owner[pages.docs] = query
    keys, where = np.unique(pages.docs[own] * n + places.ranks[own], return_inverse=True)
    # documents are numbered by query: `PageSample.of` gives them in the order of the log's rows
    offsets = np.searchsorted(owner, np.arange(int(owner.max(initial=-1)) + 2))
    return ClickCounts(
        SHOWN_ONLY,
        offsets,
        np.bincount(pages.queries, minlength=len(offsets) - 1),
        keys // n,
        keys % n + 1,
        np.bincount(where.ravel(), minlength=len(keys)),
        np.bincount(where.ravel(), pages.clicked[own], len(keys)).astype(np.int64),
    )


@dataclass(frozen=True)
class Identification:
    """Which user models pages identify.

    Attributes:
        refused: for each user model that they do not, why not.
        trust_p_value: of the test of the position-based model against affine clicks; None where that is not identified.
    """

    refused: dict[str, str]
    trust_p_value: float | None


def identify(places: Places) -> Identification:
    """Check what the estimates of `examination.estimate` need.

    The browsing model is identified where the position-based one is, which it contains: ranks without a click above are
    linked as all are, and other places are compared with these at the same rank.
    """
    counts = counts_of(places)
    try:
        comparable(counts, last_rank(counts, places.n_ranks))
    except CounterrankError as error:
        return Identification(dict.fromkeys(("position-based", "affine", "browsing"), str(error)), None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExaminationWarning)
            found = estimate(counts, model="affine")
    except CounterrankError as error:
        return Identification({"affine": str(error)}, None)
    return Identification({}, None if found.test is None else found.test.p_value)

"""Capped inverse propensities of clicks: what each click counts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination
from counterrank.common.checks import FloatArray, IntArray, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.data.ids import query_of

# A click that had a smaller chance than this did not happen; without the line, sums of 1 / propensity could overflow.
SMALLEST = 1e-200

# of examinations by rho, how many more or less there may be by the curve: pages of several lengths vary a little
MOST_APART = 0.05

_FEWEST = 100.0  # examinations, of which to tell


def check_clip(clip: Any) -> float:
    """A cap on 1 / propensity; infinity for None.

    >>> check_clip(10), check_clip(None)
    (10.0, inf)
    """
    if clip is None:
        return np.inf
    if isinstance(clip, bool) or not isinstance(clip, int | float | np.number) or not 0.0 < float(clip) < np.inf:
        raise CounterrankError(f"clip={clip!r}: expected a finite number above 0, or None for no cap")
    return float(clip)


def check_propensities(rho: ArrayLike, clicks: ClickCounts, name: str = "rho") -> FloatArray:
    """Probabilities, one for each document of the data that was clicked."""
    given = check_vector(rho, clicks.n_docs, name)
    outside = (given < 0.0) | (given > 1.0)
    if outside.any():
        place = int(np.argmax(outside))
        raise CounterrankError(
            f"{name}: {given[place]:g} for {_place(clicks.offsets, place)}; expected probabilities from 0 to 1"
        )
    return given


def examined(exam: Examination, ranks: IntArray) -> FloatArray:
    """P(examined | rank) for each of many ranks."""
    curve = exam.curve(int(ranks.max(initial=1)))
    by_rank: FloatArray = curve[ranks - 1]
    return by_rank


def refuse_unseen(exam: Examination, beta: Examination | None, clicks: ClickCounts) -> None:
    """An error where there are clicks at ranks that nobody looks at by the curve, and beta does not explain them."""
    chances = examined(exam, clicks.ranks) + (0.0 if beta is None else examined(beta, clicks.ranks))
    unseen = (clicks.clicks > 0) & (chances <= 0.0)
    if unseen.any():
        rank, last = int(clicks.ranks[unseen].min()), int(clicks.ranks[clicks.clicks > 0].max())
        raise CounterrankError(
            f"exam: 0 at rank {rank}, where there are clicks; expected a curve above 0 wherever there are, up to rank "
            f"{last}"
        )


def examined_times(exam: Examination, clicks: ClickCounts) -> FloatArray:
    """How often each document was examined, by what was shown: the sum of P(examined | rank) over impressions."""
    return clicks.by_document(clicks.impressions * examined(exam, clicks.ranks))


def warn_if_apart(shown: float, expected: float) -> None:
    """Warn if examinations by the curve are not those by rho, made with another: R then does not cancel on average."""
    if expected >= _FEWEST and abs(shown - expected) > MOST_APART * expected:
        text = f"exam implies {shown:,.0f} examinations of what was shown but rho implies {expected:,.0f}"
        warnings.warn(f"{text}: were they computed from different curves?", stacklevel=4)


def capped_inverse(
    propensities: FloatArray, clip: float, clicks: ClickCounts, counts: IntArray, docs: IntArray, ranks: IntArray,
    name: str,
) -> FloatArray:  # fmt: skip
    """min(1 / propensity, clip) of each cell or place, and 0 where it has no clicks.

    A click that could not have happened is an error with a count and an example.

    Arguments:
        propensities: of each cell or place.
        clip: as `check_clip` gives it.
        clicks: where all this is from.
        counts, docs, ranks: how often each cell or place was clicked, its document and rank.
        name: of the argument the propensities come from.
    """
    clicked = counts > 0
    _refuse(clicked & ~(propensities >= SMALLEST), propensities, clicks, counts, docs, name, ranks)
    result = np.zeros(len(propensities))
    np.divide(1.0, propensities, out=result, where=clicked)
    return np.minimum(result, clip, out=result)


def refuse_impossible(chances: FloatArray, counts: FloatArray, clicks: ClickCounts, name: str) -> None:
    """An error where a document was clicked that had no chance to be; `chances` and `counts` are by document."""
    _refuse((counts > 0) & ~(chances >= SMALLEST), chances, clicks, counts, np.arange(len(chances)), name)


def _refuse(
    impossible: Any, propensities: FloatArray, clicks: ClickCounts, counts: Any, docs: IntArray, name: str,
    ranks: IntArray | None = None,
) -> None:  # fmt: skip
    if not impossible.any():
        return
    first = int(np.argmax(impossible))
    documents = len(np.unique(docs[impossible]))
    where = "" if ranks is None else f" at rank {ranks[first]}"
    raise CounterrankError(
        f"{name}: {propensities[first]:g} for {_some(int(counts[impossible].sum()), 'click')} on "
        f"{_some(documents, 'document')}, such as {_place(clicks.offsets, docs[first])}{where}; "
        "expected a propensity above 0 wherever there is a click"
    )


def _some(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _place(offsets: IntArray, row: int) -> str:
    query = int(query_of(row, offsets))
    return f"document {row - offsets[query]} of query {query}"

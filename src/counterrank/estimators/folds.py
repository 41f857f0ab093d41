"""How queries are dealt into folds, so that what is predicted for a query never saw its clicks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from counterrank.common.checks import IntArray, as_array
from counterrank.common.errors import CounterrankError


class Folds(NamedTuple):
    """The fold of each query, and the parts that folds are made of.

    A model for a fold learns from the parts of the other folds, and its settings are chosen by holding out one part
    after the other. A fold is one part, but of two folds each is two, or there would be nothing to hold out.

    Attributes:
        n: the number of folds.
        n_parts: the number of parts; part p belongs to fold p % n.
        parts: of each query.
    """

    n: int
    n_parts: int
    parts: IntArray

    def others(self, fold: int) -> IntArray:
        """The parts that a model for this fold learns from."""
        return np.flatnonzero(np.arange(self.n_parts) % self.n != fold)


def deal(folds: Any, told: IntArray, n_queries: int, generator: np.random.Generator) -> Folds:
    """Deal the queries into folds at random, or as they were given.

    Arguments:
        folds: how many, at least 2; or a whole number for each query, equal for those of a fold.
        told: the queries with sessions, of which folds get equal numbers.
        n_queries: of the data.
        generator: shuffles the queries.

    >>> deal([7, 7, 4, 4], np.arange(4), 4, np.random.default_rng(0)).parts.tolist()  # 4 is fold 0, in parts 0 and 2
    [1, 3, 0, 2]
    """
    if len(told) < 2:
        raise CounterrankError(
            f"clicks: sessions of {_some(len(told))}; expected at least two queries, one to predict another"
        )
    if isinstance(folds, bool | np.bool_) or np.ndim(as_array(folds, "folds")) == 0:
        if isinstance(folds, bool | np.bool_) or not isinstance(folds, int | np.integer) or folds < 2:
            raise CounterrankError(
                f"folds={folds!r}: expected a whole number of at least 2, or the number of the fold of each query"
            )
        n = min(int(folds), len(told))
        order = generator.permutation(told)
        numbers = np.zeros(n_queries, np.int64)
        numbers[order] = np.arange(len(told)) % n
    else:
        numbers, n = _given(folds, told, n_queries)
        order = told
    if len(np.unique(numbers[told])) > 2:
        return Folds(n, n, numbers)
    for fold in range(n):
        numbers[order[numbers[order] == fold][1::2]] += n
    return Folds(n, 2 * n, numbers)


def _given(folds: Any, told: IntArray, n_queries: int) -> tuple[IntArray, int]:
    given = as_array(folds, "folds")
    if given.shape != (n_queries,) or not np.issubdtype(given.dtype, np.integer):
        raise CounterrankError(
            f"folds: {given.dtype} of shape {given.shape}; expected a whole number for each of {n_queries} queries"
        )
    names, numbers = np.unique(given, return_inverse=True)
    if (numbers[told] == numbers[told[0]]).all():
        raise CounterrankError(
            f"folds: all queries with sessions are in fold {names[numbers[told[0]]]}; expected at least two folds"
        )
    return numbers.astype(np.int64), len(names)


def _some(n: int) -> str:
    return f"{n} quer{'y' if n == 1 else 'ies'}"

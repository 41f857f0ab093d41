"""Synthetic ranking data that behaves like the public web-search sets, made in seconds and from a seed."""

from __future__ import annotations

import numpy as np

from counterrank.common.checks import check_choice, check_whole, make_generator
from counterrank.common.parallel import for_queries
from counterrank.common.progress import progress
from counterrank.data.ids import place_in_query
from counterrank.data.ranking_data import Fold, RankingData
from counterrank.data.synthetic_worlds import MSLR, YAHOO, QueryStream, draw_lengths

SHAPES = {"mslr": MSLR, "yahoo": YAHOO}


def make_ranking_data(
    shape: str, n_queries: int = 1000, seed: int | np.random.Generator = 0, *, threads: int | None = None
) -> RankingData:
    """Synthetic queries, documents, features and labels that resemble those of a public data set.

    | shape | like | documents a query | features | labels 0 to 4, % |
    |---|---|---|---|---|
    | `"mslr"` | MSLR-WEB30K | about 120, 1 to about 900 | 136, raw | 55 / 30 / 13 / 1.5 / 0.6 |
    | `"yahoo"` | Yahoo! LTRC set 1 | about 24, 1 to about 140 | 700 in [0, 1] | 26 / 36 / 28 / 8 / 2 |

    The world behind a shape is fixed: what each feature means, and how relevance follows, non-linearly and with
    noise, from what the features show. The seed draws queries and documents in it, so two seeds are two samples of
    one world, and a ranker learned on one may be tested on the other. With a whole number as seed, query `i` is the
    same for any `n_queries` above `i`, and for any number of threads. The order of documents says nothing about
    their labels.

    Arguments:
        shape: `"mslr"` or `"yahoo"`.
        n_queries: how many queries.
        seed: a whole number, or a numpy `Generator` (one number is drawn from it).
        threads: how many threads to use; all cores if None.

    >>> make_ranking_data("mslr", n_queries=3, seed=1).features.shape[1]
    136
    >>> large, small = make_ranking_data("yahoo", 20, seed=1), make_ranking_data("yahoo", 5, seed=1)
    >>> bool((large.subset(range(5)).features == small.features).all())
    True
    """
    check_choice(shape, tuple(SHAPES), "shape")
    check_whole(n_queries, "n_queries")
    return _make(shape, 0, n_queries, _key(seed), threads, _source(shape, n_queries, seed))


def make_fold(
    shape: str,
    n_queries: int = 1000,
    seed: int | np.random.Generator = 0,
    *,
    n_test: int | None = None,
    threads: int | None = None,
) -> Fold:
    """Train, validation and test parts, 60, 20 and 20 % of `n_queries` as in the public folds.

    They are consecutive pieces of `make_ranking_data(shape, n_queries, seed)` and keep its query ids. With `n_test` the
    test part has so many queries: fewer, or more of the same sequence.

    >>> fold = make_fold("yahoo", n_queries=10, seed=0)
    >>> fold.train.n_queries, fold.validation.n_queries, fold.test.query_ids.tolist()
    (6, 2, [8, 9])
    >>> make_fold("yahoo", n_queries=10, seed=0, n_test=4).test.query_ids.tolist()
    [8, 9, 10, 11]
    """
    check_choice(shape, tuple(SHAPES), "shape")
    check_whole(n_queries, "n_queries", 5)
    if n_test is not None:
        check_whole(n_test, "n_test")
    held_out = n_queries // 5
    n_train = n_queries - 2 * held_out
    source = _source(shape, n_queries, seed) + ("" if n_test is None else f",test={n_test}")
    key = _key(seed)
    return Fold(
        train=_make(shape, 0, n_train, key, threads, source),
        validation=_make(shape, n_train, held_out, key, threads, source),
        test=_make(shape, n_train + held_out, held_out if n_test is None else n_test, key, threads, source),
    )


def _source(shape: str, n_queries: int, seed: int | np.random.Generator) -> str:
    """How the data was made, as the command names it; a generator has no seed to name."""
    known = "" if isinstance(seed, np.random.Generator) else f",seed={seed}"
    return f"synthetic:{shape}:queries={n_queries}{known}"


def _key(seed: int | np.random.Generator) -> np.uint64:
    return np.uint64(make_generator(seed).integers(2**64, dtype=np.uint64))


def _make(
    shape: str, first_query: int, n_queries: int, key: np.uint64, threads: int | None, source: str
) -> RankingData:
    """The queries `first_query` and on of the endless sequence that `key` stands for."""
    chosen, stream = SHAPES[shape], QueryStream(key, first_query)
    lengths = np.zeros(n_queries + 1, np.int64)
    draw_lengths(stream, lengths[1:], *chosen.lengths)
    offsets = np.cumsum(lengths)
    features = np.empty((offsets[-1], chosen.n_features), np.float32)
    labels = np.empty(offsets[-1], np.float32)
    with progress(f"making {n_queries:,} queries"):
        for_queries(chosen.fill, offsets, stream, *chosen.tables(), features, labels, threads=threads)
    query_ids = np.arange(first_query, first_query + n_queries)
    return RankingData._trusted(features, offsets, labels, query_ids, place_in_query(offsets), source)

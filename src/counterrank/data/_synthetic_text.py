"""The 125 text columns of the `"mslr"` shape, computed from term counts as the real columns are.

Five streams of a document (body, anchor, title, url, and the whole of them) are matched with the terms of the
query. Each of the 25 families below has one column per stream: column `5 * family + stream`.

| families | what |
|---|---|
| 0, 1 | terms found in the stream: their number, and their share of the query's |
| 2, 3 | length of the stream; idf summed over the terms (the same for all documents of a query) |
| 4-8 | sum, min, max, mean and variance over the terms of the term count tf |
| 9-13 | the same five of tf / stream length |
| 14-18 | the same five of tf * idf |
| 19-21 | all terms found (0 or 1); cosine of query and stream; BM25 |
| 22-24 | log-probability of the query in the stream, smoothed by discounting, Dirichlet and Jelinek-Mercer |

So the near-duplicates, the sparse columns (few pages have anchor text), the columns that are constant in a query,
and those that are constant for queries of one term come about as they do in the real data.
"""

from __future__ import annotations

import numpy as np

from counterrank.common.jit import Array, exact_kernel

BODY, ANCHOR, TITLE, URL, WHOLE = 0, 1, 2, 3, 4
N_STREAMS = 5

# the variances in the url stream are held at 0: columns that say nothing at all, as real pipelines have
CONSTANT_COLUMNS = (5 * 8 + URL, 5 * 13 + URL)

_USUAL_LENGTH = np.array([600.0, 3.0, 7.0, 7.5, 620.0])  # what BM25 compares a stream's length with
_BM25_K1 = 1.4
_BM25_B = 0.75
_DISCOUNT = 0.7
_DIRICHLET = np.array([800.0, 800.0, 200.0, 200.0, 800.0])
_JELINEK_MERCER = 0.1


@exact_kernel
def five_statistics(row: Array, column: int, values: Array, n: int) -> None:
    """Sum, min, max, mean and variance of `values[:n]`, to every fifth column from `column`."""
    total = 0.0
    low = values[0]
    high = values[0]
    for t in range(n):
        total += values[t]
        low = min(low, values[t])
        high = max(high, values[t])
    mean = total / n
    variance = 0.0
    for t in range(n):
        variance += (values[t] - mean) ** 2
    row[column] = total
    row[column + 5] = low
    row[column + 10] = high
    row[column + 15] = mean
    row[column + 20] = variance / n


@exact_kernel
def match_columns(
    row: Array, stream: int, counts: Array, idf: Array, n_terms: int, length: float, scratch: Array
) -> None:
    """Families 0 to 19: what is found, lengths, idf, and statistics of tf, tf / length and tf * idf."""
    found = 0
    total_idf = 0.0
    for t in range(n_terms):
        found += counts[stream, t] > 0
        total_idf += idf[stream, t]
        scratch[t] = counts[stream, t]
    row[stream] = found
    row[5 + stream] = found / n_terms
    row[10 + stream] = length
    row[15 + stream] = total_idf
    five_statistics(row, 20 + stream, scratch, n_terms)
    share = 1.0 / max(length, 1.0)
    for t in range(n_terms):
        scratch[t] = counts[stream, t] * share
    five_statistics(row, 45 + stream, scratch, n_terms)
    for t in range(n_terms):
        scratch[t] = counts[stream, t] * idf[stream, t]
    five_statistics(row, 70 + stream, scratch, n_terms)
    row[95 + stream] = found == n_terms


@exact_kernel
def model_columns(
    row: Array, stream: int, counts: Array, idf: Array, background: Array, n_terms: int, length: float
) -> None:
    """Families 20 to 24: cosine, BM25 and the three language models."""
    dot = query_norm = stream_norm = bm25 = 0.0
    discounted = dirichlet = jelinek = 1.0  # products over few terms, so that each needs one logarithm
    crowding = _BM25_K1 * (1.0 - _BM25_B + _BM25_B * length / _USUAL_LENGTH[stream])
    share = 1.0 / max(length, 1.0)
    prior = _DIRICHLET[stream]
    total = 1.0 / (length + prior)
    for t in range(n_terms):
        tf = counts[stream, t]
        rarity = idf[stream, t]
        chance = background[stream, t]
        dot += tf * rarity * rarity
        query_norm += rarity * rarity
        stream_norm += (tf * rarity) ** 2
        bm25 += rarity * tf * (_BM25_K1 + 1.0) / (tf + crowding)
        discounted *= max(tf - _DISCOUNT, 0.0) * share + _DISCOUNT * chance
        dirichlet *= (tf + prior * chance) * total
        jelinek *= (1.0 - _JELINEK_MERCER) * tf * share + _JELINEK_MERCER * chance
    row[100 + stream] = dot / np.sqrt(query_norm * stream_norm) if stream_norm > 0.0 else 0.0
    row[105 + stream] = bm25
    row[110 + stream] = np.log(discounted)
    row[115 + stream] = np.log(dirichlet)
    row[120 + stream] = np.log(jelinek)


@exact_kernel
def text_columns(
    row: Array, counts: Array, lengths: Array, idf: Array, background: Array, n_terms: int, scratch: Array
) -> None:
    """All text columns of one document; counts and lengths of the whole are the sums over the other streams."""
    for t in range(n_terms):
        counts[WHOLE, t] = counts[BODY, t] + counts[ANCHOR, t] + counts[TITLE, t] + counts[URL, t]
    lengths[WHOLE] = lengths[BODY] + lengths[ANCHOR] + lengths[TITLE] + lengths[URL]
    for stream in range(N_STREAMS):
        match_columns(row, stream, counts, idf, n_terms, lengths[stream], scratch)
        model_columns(row, stream, counts, idf, background, n_terms, lengths[stream])
    for column in CONSTANT_COLUMNS:
        row[column] = 0.0

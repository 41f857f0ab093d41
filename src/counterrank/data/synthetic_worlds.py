"""The worlds of synthetic data: web pages for the shape `"mslr"`, columns of quantiles for the shape `"yahoo"`.

Every query has a small random stream of its own, so that it can be made without the others and is the same on any
number of threads: a splitmix64 generator (Steele, Lea and Flood, 2014), a 64-bit counter in an array of one whose mixed
value is the draw, which starts where (seed, query, purpose) hash to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel
from counterrank.common.random import mixed

# What a stream is for: lengths are drawn before the rows exist, so they have a stream of their own. Typed, since numba
# compiles whatever is called with a literal number once more for that.
LENGTH: Any = np.int64(1)
CONTENT: Any = np.int64(2)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_S12 = np.uint64(12)
_POISSON_NORMAL_FROM = 24.0  # above it the rounded normal is as good and does not get slower with the mean


class QueryStream(NamedTuple):
    """The endless sequence of queries of a seed, from one of them on."""

    key: Any  # the seed's 64-bit number
    first_query: int


class Shape(NamedTuple):
    """What data of a shape is made with."""

    n_features: int
    lengths: tuple[float, float, float, int]  # of queries, see `draw_lengths`
    fill: Any  # the kernel that fills features and labels
    tables: Callable[[], tuple[Any, ...]]  # what the kernel takes besides


@exact_kernel
def start_stream(state: Array, key: Any, query: int, purpose: int) -> None:
    """Set `state` to the start of the stream of one query and purpose; `key` is the seed's 64-bit number."""
    state[0] = mixed(mixed(key + np.uint64(query) * _GOLDEN) + np.uint64(purpose) * _GOLDEN)


@exact_inner_kernel
def next_bits(state: Array) -> Any:
    """The next 64 random bits."""
    state[0] += _GOLDEN
    return mixed(state[0])


@exact_kernel
def uniform(state: Array) -> float:
    """A number strictly between 0 and 1."""
    return (np.float64(next_bits(state) >> _S12) + 0.5) * 2.0**-52


@exact_inner_kernel
def fill_normals(state: Array, out: Array) -> None:
    """Independent standard normals (Marsaglia's polar method, which makes two at a time)."""
    for i in range(0, len(out), 2):
        size = 2.0
        while size >= 1.0:
            x = 2.0 * uniform(state) - 1.0
            y = 2.0 * uniform(state) - 1.0
            size = x * x + y * y
        factor = np.sqrt(-2.0 * np.log(size) / size)
        out[i] = x * factor
        if i + 1 < len(out):
            out[i + 1] = y * factor


@exact_inner_kernel
def poisson(state: Array, mean: float) -> int:
    """A Poisson count: by inversion, and as a rounded normal where the mean is large."""
    if mean > _POISSON_NORMAL_FROM:
        # the logistic quantile is close to the normal one and needs one draw
        u = uniform(state)
        return max(0, int(mean + np.sqrt(mean) * 0.5513 * np.log(u / (1.0 - u)) + 0.5))
    u = uniform(state)
    term = np.exp(-mean)
    total = term
    count = 0
    while u > total and count < 200:
        count += 1
        term *= mean / count
        total += term
    return count


@exact_inner_kernel
def sigmoid(x: float) -> float:
    """1 / (1 + e^-x)."""
    value: float = 1.0 / (1.0 + np.exp(-x))
    return value


@exact_inner_kernel
def label_of(utility: float, thresholds: Array) -> int:
    """The number of thresholds that `utility` reaches."""
    label = 0
    while label < len(thresholds) and utility >= thresholds[label]:
        label += 1
    return label


@exact_kernel
def draw_lengths(
    stream: QueryStream, out: Array, center: float, spread: float, short_share: float, longest: int
) -> None:
    """Documents per query: exp(center + spread * normal), and a share of short ones (log-uniform from 1)."""
    state = np.empty(1, np.uint64)
    normal = np.empty(2)
    for i in range(len(out)):
        start_stream(state, stream.key, stream.first_query + i, LENGTH)
        if uniform(state) < short_share:
            length = np.exp(uniform(state) * center)
        else:
            fill_normals(state, normal)
            length = np.exp(center + spread * normal[0])
        out[i] = min(max(int(length), 1), longest)


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


@exact_inner_kernel
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


@exact_inner_kernel
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


@exact_inner_kernel
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


@exact_inner_kernel
def text_columns(
    row: Array, counts: Array, lengths: Array, idf: Array, background: Array, n_terms: int, scratch: Array
) -> None:
    """The 125 text columns of one document, computed from term counts as the real columns are.

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

    Counts and lengths of the whole are the sums over the other streams.
    """
    for t in range(n_terms):
        counts[WHOLE, t] = counts[BODY, t] + counts[ANCHOR, t] + counts[TITLE, t] + counts[URL, t]
    lengths[WHOLE] = lengths[BODY] + lengths[ANCHOR] + lengths[TITLE] + lengths[URL]
    for stream in range(N_STREAMS):
        match_columns(row, stream, counts, idf, n_terms, lengths[stream], scratch)
        model_columns(row, stream, counts, idf, background, n_terms, lengths[stream])
    for column in CONSTANT_COLUMNS:
        row[column] = 0.0


MSLR_FEATURES = 136
MAX_TERMS = 7

# documents per query: log-normal around 105 (mean 120), 1.5 % short ones
_MSLR_LENGTHS = (4.67, 0.52, 0.015, 908)

_TERMS_UP_TO = np.array([0.17, 0.52, 0.82, 0.93, 0.97, 0.99])  # P(at most 1, 2, ... terms), as in a real sample

# Traits of a page; each is one entry of a vector of standard normals. Those of the second line make a page look
# like a match: terms repeated for their own sake, a well-written title, an address that merely spells the query.
MATCH, AUTHORITY, QUALITY, SIZE, DEPTH, APPEAL = 0, 1, 2, 3, 4, 5
STUFFING, TITLE_FIT, URL_SPELLING, ANCHOR_NOISE = 6, 7, 8, 9
LINK_NOISE, OUTLINK_NOISE, PAGE_RANK_NOISE, SITE_RANK_NOISE = 10, 11, 12, 13
QUALITY_NOISE, QUALITY_2_NOISE, CLICK_NOISE, URL_CLICK_NOISE, DWELL_NOISE = 14, 15, 16, 17, 18
URL_LENGTH_NOISE, JUDGE_NOISE = 19, 20
_PAGE_TRAITS = 22

_MSLR_JUDGE_NOISE = 1.3
_MSLR_BIAS_SPREAD = 1.25

# Where labels 1 to 4 begin: the quantiles 55.2, 85, 97.9 and 99.4 % of `mslr_relevance` over 20,000 queries, found once
# (with a fine grid in their place, the "labels" are the values). Fixed, so that a query never depends on others.
_MSLR_THRESHOLDS = np.array([0.085, 2.295, 4.795, 6.075])


@exact_inner_kernel
def mslr_relevance(traits: Array, navigational: float, bias: float) -> float:
    """What the judge sees in a page; labels are steps of it.

    A good match helps up to a point, but pages that only look like one lose: body and title have to be weighed
    against each other. Authority helps what matches, the more the more navigational the query is, and there deep
    pages lose. Quality and length have a best value in the middle. What people like most is the most relevant.
    """
    match = np.tanh(0.8 * traits[MATCH])
    authority = np.tanh(traits[AUTHORITY])
    wanted = sigmoid(2.0 * traits[MATCH])
    off_quality = min(traits[QUALITY] ** 2, 4.0)
    off_size = min(traits[SIZE] ** 2, 4.0)
    value: float = 2.0 * match + 0.5 * traits[TITLE_FIT] - 0.5 * traits[STUFFING] - 0.3 * traits[URL_SPELLING]
    value += (0.4 + 0.7 * navigational) * wanted * authority
    value -= 0.25 * off_quality + 0.15 * off_size + 0.5 * navigational * traits[DEPTH]
    value += 0.7 * wanted * max(traits[APPEAL], 0.0) ** 2
    value += bias + _MSLR_JUDGE_NOISE * traits[JUDGE_NOISE]
    return value


@exact_inner_kernel
def draw_terms(state: Array, normals: Array, idf: Array, background: Array) -> int:
    """The terms of a query: how many, how rare in each stream, and how likely in any text; `normals` is scratch."""
    u = uniform(state)
    n_terms = 1
    while n_terms < MAX_TERMS and u > _TERMS_UP_TO[n_terms - 1]:
        n_terms += 1
    for t in range(n_terms):
        fill_normals(state, normals)
        rarity = min(max(3.6 + 1.9 * normals[0], 0.4), 11.0)
        idf[BODY, t] = rarity
        idf[TITLE, t] = rarity + 3.7 + 0.5 * normals[1]
        idf[ANCHOR, t] = idf[TITLE, t] + 0.1 + 0.3 * normals[2]
        idf[URL, t] = idf[TITLE, t] + 0.1 + 0.4 * normals[3]
        idf[WHOLE, t] = rarity * 0.999
        for stream in range(N_STREAMS):
            background[stream, t] = np.exp(-1.0 - 0.45 * idf[TITLE, t] + 0.2 * normals[4 + stream])
    return n_terms


@exact_inner_kernel
def draw_text(state: Array, traits: Array, idf: Array, n_terms: int, lengths: Array, counts: Array) -> None:
    """Stream lengths, and how often each term occurs in each stream (all terms together fit into it)."""
    body_match = 0.75 * traits[MATCH] + 0.66 * traits[STUFFING]
    title_match = 0.75 * traits[MATCH] + 0.66 * traits[TITLE_FIT]
    url_match = 0.5 * traits[MATCH] + 0.5 * traits[AUTHORITY] + 0.7 * traits[URL_SPELLING]
    anchor_match = 0.6 * traits[MATCH] + 0.3 * traits[AUTHORITY] + 0.74 * traits[ANCHOR_NOISE]
    empty = uniform(state) < 0.02
    lengths[BODY] = 0.0 if empty else np.floor(np.exp(6.0 + 1.05 * traits[SIZE]))
    lengths[TITLE] = poisson(state, 6.5 * np.exp(0.45 * traits[SIZE] * uniform(state)))
    lengths[URL] = 2 + poisson(state, 5.0 * np.exp(0.2 * traits[DEPTH]))
    linked = 1.2 * traits[AUTHORITY] + traits[ANCHOR_NOISE] > 0.95
    lengths[ANCHOR] = 1.0 + np.floor(np.exp(0.7 + 1.1 * traits[AUTHORITY])) if linked else 0.0
    found_for_other_reasons = uniform(state) < sigmoid(-2.7 - 1.2 * traits[MATCH])
    for t in range(n_terms):
        rare = idf[BODY, t] - 3.6
        for stream in range(N_STREAMS):
            counts[stream, t] = 0.0
        if found_for_other_reasons:
            continue
        if uniform(state) < sigmoid(2.0 + 1.6 * body_match - 0.25 * rare):
            rate = np.exp(1.45 + 0.75 * body_match + 0.55 * traits[SIZE] - 0.12 * rare)
            counts[BODY, t] = min(1 + poisson(state, rate * 2.0 * uniform(state)), lengths[BODY] // n_terms)
        if uniform(state) < sigmoid(0.1 + 1.7 * title_match - 0.1 * rare):
            counts[TITLE, t] = min(1 + poisson(state, 0.15), lengths[TITLE] // n_terms)
        if uniform(state) < sigmoid(-1.7 + 1.5 * url_match):
            counts[URL, t] = min(1 + poisson(state, 0.1), lengths[URL] // n_terms)
        if linked and uniform(state) < sigmoid(-1.7 + 1.5 * anchor_match):
            counts[ANCHOR, t] = min(1 + poisson(state, 0.1 * lengths[ANCHOR]), lengths[ANCHOR] // n_terms)


@exact_inner_kernel
def page_columns(row: Array, state: Array, traits: Array, navigational: float) -> None:
    """Columns 125 to 135: url, links, ranks, quality scores, and what people clicked."""
    authority = traits[AUTHORITY]
    depth = traits[DEPTH]
    row[125] = 1 + poisson(state, 1.8 * np.exp(0.35 * depth))
    row[126] = np.floor(6.0 + np.exp(3.45 + 0.35 * depth + 0.35 * traits[URL_LENGTH_NOISE]))
    links = 0.7 * authority + 0.71 * traits[LINK_NOISE]
    row[127] = np.floor(min(np.exp(1.6 + 3.3 * links + 0.5 * max(links, 0.0) ** 2), 4e8))
    out = 0.3 * authority + 0.3 * traits[SIZE] + 0.9 * traits[OUTLINK_NOISE]
    row[128] = np.floor(min(np.exp(0.05 + 1.8 * out), 400.0))
    page_rank = 0.8 * authority - 0.2 * depth + 0.57 * traits[PAGE_RANK_NOISE]
    row[129] = np.floor(115.0 + 65420.0 * sigmoid(-1.83 + 3.0 * page_rank))
    site_rank = 0.5 * authority + 0.4 * depth + 0.77 * traits[SITE_RANK_NOISE]
    row[130] = np.floor(1.0 + 65534.0 * sigmoid(0.36 + 2.3 * site_rank))
    quality = np.exp(1.7 + 1.5 * (0.85 * traits[QUALITY] + 0.53 * traits[QUALITY_NOISE]))
    row[131] = np.floor(1.0 + 255.0 * quality / (255.0 + quality))
    quality = np.exp(2.0 + 1.6 * (0.75 * traits[QUALITY] - 0.3 * depth + 0.6 * traits[QUALITY_2_NOISE]))
    row[132] = np.floor(1.0 + 255.0 * quality / (255.0 + quality))
    appeal = 1.2 * traits[APPEAL] + 0.5 * traits[MATCH] + 0.5 * navigational * authority
    clicked = 4.0 * (appeal + 2.0 * traits[CLICK_NOISE] - 3.9)
    row[133] = np.floor(np.exp(min(clicked, 11.0)))
    visits = 0.55 * authority - 0.4 * depth + 0.3 * traits[APPEAL] + 0.66 * traits[URL_CLICK_NOISE]
    row[134] = np.floor(np.exp(min(-2.0 + 3.2 * visits + 0.5 * max(visits, 0.0) ** 2, 15.0)))
    stay = np.exp(2.7 + 0.4 * traits[QUALITY] + 1.1 * traits[DWELL_NOISE])
    row[135] = min(stay, 600.0) if row[134] > 0.0 else 0.0


@exact_kernel
def fill_mslr(first: int, last: int, offsets: Array, stream: QueryStream, features: Array, labels: Array) -> None:
    """Features and labels of the queries `first:last` of the stream.

    The world of the `"mslr"` shape: web pages, queries of a few terms, and how relevant the one is to the other.

    A query has terms (rare or common), an intent between informational and navigational, and a bias of its judge. A
    page has hidden traits, independent standard normals. Everything seen, the features, and everything assessed, the
    label, comes from them; a trait marked "noise" blurs one feature and is not assessed.

    | columns | what they show | how |
    |---|---|---|
    | 0-124 | match with the query, and what only looks like it | term counts, see `text_columns` |
    | 125, 126 | depth in the site | slashes and length of the url |
    | 127, 128 | authority | in-links (up to 4e8, a third of them 0), out-links |
    | 129, 130 | authority, depth | page and site rank, 1 to 65,535 |
    | 131, 132 | quality | two scores from 1 to 255, skewed |
    | 133 | appeal for this query | clicks: 0 for 97 % of the pages, thousands for a few |
    | 134, 135 | authority, depth, appeal, quality | clicks on the url, and seconds spent there |

    Scales, shares of zeros and correlations with the label were set after a small real sample. How strong the judge's
    noise is decides how well rankers can do; it was chosen, with the coefficients of `mslr_relevance`, for levels of
    NDCG@5 near those known of the real data: 0.37 for a linear ranker from 190 queries, 0.39 for one from 3,000, 0.42
    for a few boosted trees from 1,200.
    """
    state = np.empty(1, np.uint64)
    idf = np.empty((N_STREAMS, MAX_TERMS))
    background = np.empty((N_STREAMS, MAX_TERMS))
    counts = np.empty((N_STREAMS, MAX_TERMS))
    lengths = np.empty(N_STREAMS)
    scratch = np.empty(MAX_TERMS)
    traits = np.empty(_PAGE_TRAITS)
    query, normals = np.empty(2), np.empty(2 * N_STREAMS)
    for q in range(first, last):
        start_stream(state, stream.key, stream.first_query + q, CONTENT)
        n_terms = draw_terms(state, normals, idf, background)
        fill_normals(state, query)
        navigational = sigmoid(1.5 * query[0] - 0.8 * (n_terms - 2.0))
        bias = _MSLR_BIAS_SPREAD * query[1]
        for i in range(offsets[q], offsets[q + 1]):
            fill_normals(state, traits)
            draw_text(state, traits, idf, n_terms, lengths, counts)
            text_columns(features[i], counts, lengths, idf, background, n_terms, scratch)
            page_columns(features[i], state, traits, navigational)
            labels[i] = label_of(mslr_relevance(traits, navigational, bias), _MSLR_THRESHOLDS)


MSLR = Shape(MSLR_FEATURES, _MSLR_LENGTHS, fill_mslr, tuple)


YAHOO_FEATURES = 700
N_EMPTY = 181
_DOCUMENT_TRAITS = 30  # of a document: the first few matter to the judge, the last entry is the judge's noise
N_QUERY_TRAITS = 6
N_SOURCES = 8

# documents per query: log-normal around 20 (mean 24), 3 % short ones
_YAHOO_LENGTHS = (3.045, 0.6, 0.03, 139)

# Where labels 1 to 4 begin: the quantiles 26, 62, 90 and 98 % of `yahoo_relevance` over 20,000 queries, found once.
_YAHOO_THRESHOLDS = np.array([-1.475, -0.165, 1.155, 2.205])

_WORLD_SEED = np.uint64(0x5EED)
_QUANTILE_STEPS = 4096
_QUANTILE_REACH = 4.0  # standard deviations covered by the table of the normal distribution
_EMPTY, _OF_QUERY, _REPEAT, _OF_DOCUMENT = 0, 1, 2, 3
_LOW_BITS = np.uint64(0xFFFFFFFF)
_S32 = np.uint64(32)
_ROOT_6 = math.sqrt(6.0)
_YAHOO_JUDGE_NOISE = 0.65
_YAHOO_BIAS_SPREAD = 0.75


class YahooWorld(NamedTuple):
    """The world of the `"yahoo"` shape: 700 nameless columns of quantiles, many of them zero.

    A document has hidden traits and a query has some of its own, all independent standard normals. A column mixes two
    traits and noise, is turned into its quantile (so it lies in [0, 1]), and its lower part, a different share for each
    column, is set to zero. `make_world` draws once and for all which column shows what.

    | columns | what |
    |---|---|
    | 181 | empty: always 0, as in the real data |
    | about 8 % of the rest | of the query alone, the same for all its documents |
    | about 15 % | nearly the column before them, seen once more |
    | about 25 % | from sources that know few documents, zero together for the others |
    | the rest | plain views of a document |
    """

    kinds: Array
    traits: Array  # two of them
    sources: Array  # or -1
    mixing: Array  # weights of the traits and of noise
    zeros: Array  # the share of zeros
    quantiles: Array  # the normal distribution function on an even grid


@lru_cache(maxsize=1)
def make_world() -> YahooWorld:
    """What each column shows.

    Drawn with this package's own generator, so that the world is the same with any version of numpy.
    """
    state = np.empty(1, np.uint64)
    start_stream(state, _WORLD_SEED, 0, 0)
    kinds = np.full(YAHOO_FEATURES, _OF_DOCUMENT)
    kinds[np.argsort([uniform(state) for _ in range(YAHOO_FEATURES)])[:N_EMPTY]] = _EMPTY
    traits = np.zeros((YAHOO_FEATURES, 2), np.int64)
    sources = np.full(YAHOO_FEATURES, -1)
    mixing = np.zeros((YAHOO_FEATURES, 3))
    zeros = np.zeros(YAHOO_FEATURES)
    for f in range(YAHOO_FEATURES):
        draw = np.array([uniform(state) for _ in range(10)])
        if kinds[f] == _OF_DOCUMENT and draw[0] < 0.08:
            kinds[f] = _OF_QUERY
        elif kinds[f] == _OF_DOCUMENT and draw[0] < 0.23:
            kinds[f] = _REPEAT
        count = N_QUERY_TRAITS if kinds[f] == _OF_QUERY else _DOCUMENT_TRAITS - 1
        traits[f] = (draw[1:3] * count).astype(np.int64)
        if kinds[f] == _OF_DOCUMENT and draw[3] < 0.35:
            sources[f] = int(draw[4] * N_SOURCES)
        noise = 0.0 if kinds[f] == _OF_QUERY else 0.4 + 3.0 * draw[5]
        weights = np.array([1.0, draw[6], noise])
        mixing[f] = weights * np.where(draw[7:] < 0.5, -1.0, 1.0) / math.sqrt(float(weights @ weights))
        zeros[f] = 0.9 * draw[9] ** 2 if kinds[f] != _OF_QUERY else 0.0
    points = np.linspace(-_QUANTILE_REACH, _QUANTILE_REACH, _QUANTILE_STEPS)
    quantiles = np.array([0.5 * math.erfc(-x / math.sqrt(2.0)) for x in points], dtype=np.float32)
    return YahooWorld(kinds, traits, sources, mixing, zeros, quantiles)


@exact_inner_kernel
def yahoo_relevance(traits: Array, query: Array, bias: float) -> float:
    """What the judge sees in a document; labels are steps of it.

    Some traits simply help; some help up to a point, only together, or most in the middle; and how much one of
    them counts depends on the query. The others do not matter.
    """
    value: float = 0.3 * traits[0] + 0.25 * traits[1] + 0.2 * traits[2] + 0.2 * traits[3]
    value += 0.5 * np.tanh(2.0 * traits[4]) + 0.4 * sigmoid(3.0 * traits[0]) * traits[5]
    value -= 0.4 * min(traits[6] ** 2, 4.0) + 0.25 * min(traits[9] ** 2, 4.0)
    value += 0.3 * np.tanh(query[0]) * traits[7] + 0.6 * np.tanh(traits[8]) * traits[1]
    value += bias + _YAHOO_JUDGE_NOISE * traits[_DOCUMENT_TRAITS - 1]
    return value


@exact_inner_kernel
def document_columns(row: Array, state: Array, traits: Array, query: Array, world: YahooWorld, present: Array) -> None:
    """All columns of one document: quantiles of mixed traits and noise, and 0 below the share of zeros."""
    kinds, which, sources, mixing, zeros, table = world
    scale = (_QUANTILE_STEPS - 1) / (2.0 * _QUANTILE_REACH)
    z = 0.0
    for f in range(len(row)):
        if kinds[f] == _EMPTY or (sources[f] >= 0 and not present[sources[f]]):
            row[f] = 0.0
            continue
        bits = next_bits(state)
        # the sum of two even draws, scaled to variance 1: near enough to normal, and cheap
        noise = (np.float64(bits >> _S32) + np.float64(bits & _LOW_BITS)) * 2.0**-32 * _ROOT_6 - _ROOT_6
        if kinds[f] == _REPEAT:
            z += 0.1 * noise
        elif kinds[f] == _OF_QUERY:
            z = mixing[f, 0] * query[which[f, 0]] + mixing[f, 1] * query[which[f, 1]]
        else:
            z = mixing[f, 0] * traits[which[f, 0]] + mixing[f, 1] * traits[which[f, 1]] + mixing[f, 2] * noise
        place = min(max(int((z + _QUANTILE_REACH) * scale), 0), _QUANTILE_STEPS - 1)
        row[f] = table[place] if table[place] >= zeros[f] else 0.0


@exact_kernel
def fill_yahoo(
    first: int, last: int, offsets: Array, stream: QueryStream, world: YahooWorld, features: Array, labels: Array
) -> None:
    """Features and labels of the queries `first:last` of the stream."""
    state = np.empty(1, np.uint64)
    traits = np.empty(_DOCUMENT_TRAITS)
    query = np.empty(N_QUERY_TRAITS + 2)
    present = np.empty(N_SOURCES, np.bool_)
    for q in range(first, last):
        start_stream(state, stream.key, stream.first_query + q, CONTENT)
        fill_normals(state, query)
        bias = _YAHOO_BIAS_SPREAD * query[N_QUERY_TRAITS]
        for i in range(offsets[q], offsets[q + 1]):
            fill_normals(state, traits)
            for s in range(N_SOURCES):
                present[s] = uniform(state) < 0.1 + 0.07 * s
            document_columns(features[i], state, traits, query, world, present)
            labels[i] = label_of(yahoo_relevance(traits, query, bias), _YAHOO_THRESHOLDS)


YAHOO = Shape(YAHOO_FEATURES, _YAHOO_LENGTHS, fill_yahoo, lambda: (make_world(),))

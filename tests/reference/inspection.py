"""Slow, obvious versions of what an inspection counts."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict


def places(counts):
    """(query, document, rank) to [impressions, clicks], cell by cell."""
    found = defaultdict(lambda: [0, 0])
    for i, doc in enumerate(counts.docs.tolist()):
        query = next(q for q in range(counts.n_queries) if counts.offsets[q] <= doc < counts.offsets[q + 1])
        found[query, doc, int(counts.ranks[i])][0] += int(counts.impressions[i])
        found[query, doc, int(counts.ranks[i])][1] += int(counts.clicks[i])
    return {key: value for key, value in found.items() if value[0]}


def rank_rows(counts):
    """Impressions, clicks, documents per query and share of the most shown, by rank."""
    rows = []
    every = places(counts)
    for rank in range(1, max((key[2] for key in every), default=0) + 1):
        own = {key: value for key, value in every.items() if key[2] == rank}
        queries = Counter(key[0] for key in own)
        shown = sum(value[0] for value in own.values())
        most = sum(max(value[0] for key, value in own.items() if key[0] == query) for query in queries)
        rows.append(
            {
                "impressions": shown,
                "clicks": sum(value[1] for value in own.values()),
                "documents per query": sum(queries.values()) / len(queries) if queries else None,
                "most shown": most / shown if shown else None,
            }
        )
    return rows


def changing_ranks(counts):
    """Ranks at which some query with two sessions had two documents."""
    seen = defaultdict(set)
    for query, doc, rank in places(counts):
        if counts.sessions[query] > 1:
            seen[query, rank].add(doc)
    return sorted({rank for (_, rank), docs in seen.items() if len(docs) > 1})


def groups_of_ranks(counts):
    """Sets of ranks, merged until no clicked document lies in two of them."""
    by_doc, clicked = defaultdict(set), Counter()
    for (_, doc, rank), (_, clicks) in places(counts).items():
        by_doc[doc].add(rank)
        clicked[doc] += clicks
    groups = [{rank} for rank in {rank for ranks in by_doc.values() for rank in ranks}]
    for doc, ranks in by_doc.items():
        if clicked[doc]:
            touched = [group for group in groups if group & ranks]
            groups = [group for group in groups if not group & ranks] + [set().union(*touched)]
    return sorted(sorted(group) for group in groups)


def heaviest_share(numbers, weights, share):
    """The part of all weight in the heaviest clicks, click by click."""
    every = sorted(itertools.chain(*([w] * int(n) for n, w in zip(numbers, weights, strict=True))), reverse=True)
    if not every:
        return 0.0
    return sum(every[: max(1, math.ceil(share * len(every) - 1e-9))]) / sum(every)


def ranks_by_score(scores, offsets):
    """The rank of each document of its query, equal scores in document order."""
    ranks = []
    for begin, end in itertools.pairwise(offsets):
        order = sorted(range(begin, end), key=lambda doc: -scores[doc])
        ranks += [order.index(doc) + 1 for doc in range(begin, end)]
    return ranks


def coverage_rows(counts, old_ranks):
    """(old rank) to (candidates, never shown), of queries with sessions."""
    shown = {doc for _, doc, _ in places(counts)}
    found = defaultdict(lambda: [0, 0])
    for query in range(counts.n_queries):
        for doc in range(int(counts.offsets[query]), int(counts.offsets[query + 1])):
            if counts.sessions[query]:
                found[old_ranks[doc]][0] += 1
                found[old_ranks[doc]][1] += doc not in shown
    return found

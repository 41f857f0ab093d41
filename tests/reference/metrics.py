"""Slow, obvious references for the metrics: one strict order at a time, and every order that ties allow."""

from __future__ import annotations

from itertools import pairwise, permutations, product
from math import log2, nan

import numpy as np


def discount(rank):
    return 1 / log2(1 + rank)


def value_of_order(labels, threshold, name):
    """The metric of one query whose labels are given in rank order; nan where it does not count."""
    kind, _, k = name.partition("@")
    k = int(k) if k else len(labels)
    if kind == "ndcg_graded":
        gains = [2 ** max(label, 0) - 1 for label in labels]
        best = sum(g * discount(i + 1) for i, g in enumerate(sorted(gains, reverse=True)[:k]))
        return sum(g * discount(i + 1) for i, g in enumerate(gains[:k])) / best if max(gains) > 0 else nan
    ranks = [i + 1 for i, label in enumerate(labels) if label >= threshold]
    if not ranks:
        return nan
    top = [rank for rank in ranks if rank <= k]
    dcg = sum(discount(rank) for rank in top)
    return {
        "arp": sum(ranks) / len(ranks),
        "dcg": dcg,
        "ndcg": dcg / sum(discount(i + 1) for i in range(min(k, len(ranks)))),
        "precision": len(top) / k,
        "recall": len(top) / len(ranks),
        "mrr": 1 / ranks[0],
        "map": sum((i + 1) / rank for i, rank in enumerate(ranks)) / len(ranks),
    }[kind]


def orders(scores):
    """All orders by descending score: every permutation within each group of equal scores."""
    groups = [[i for i, s in enumerate(scores) if s == value] for value in sorted(set(scores), reverse=True)]
    for chosen in product(*(list(permutations(group)) for group in groups)):
        yield [i for group in chosen for i in group]


def evaluate_query(scores, labels, threshold, name, ties="average"):
    """The metric of one query: the mean over all orders, or the first of them, document order."""
    values = []
    for order in orders(list(scores)):
        values.append(value_of_order([labels[i] for i in order], threshold, name))
        if ties == "order":
            break
    return sum(values) / len(values)


def evaluate(scores, labels, offsets, threshold, name, ties="average", query_weights=None, empty="skip"):
    """The metric over queries, as the contract words it."""
    above = below = 0.0
    for q, (start, end) in enumerate(pairwise(offsets)):
        weight = 1.0 if query_weights is None else query_weights[q]
        value = evaluate_query(scores[start:end], labels[start:end], threshold, name, ties)
        if np.isnan(value):
            below += weight if empty == "zero" and name != "arp" else 0.0
            continue
        if name == "arp":  # pooled: each relevant document counts, not each query
            weight *= sum(label >= threshold for label in labels[start:end])
        above += weight * value
        below += weight
    return above / below


def weighted_metric(scores, weights, offsets, lambdas):
    """sum(omega * lambda(rank)) / sum(|omega|), the mean over all orders of ties."""
    total = 0.0
    for start, end in pairwise(offsets):
        omega = weights[start:end]
        values = [
            sum(omega[i] * lambdas(rank) for rank, i in enumerate(order, start=1))
            for order in orders(list(scores[start:end]))
        ]
        total += sum(values) / len(values)
    return total / sum(abs(w) for w in weights)

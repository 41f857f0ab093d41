"""Ranking data as a dict of rows: by query, in order of first appearance, its rows in their order."""

import math


def grouped(rows, query):
    """{query: [(number of the row, row), ...]} of a list of dicts."""
    found = {}
    for number, row in enumerate(rows):
        found.setdefault(row[query], []).append((number, row))
    return found


def as_rows(query_ids, offsets, doc_ids, labels, features):
    """The same of ranking data: {query: [(document, label, features), ...]}; missing values are None."""
    found = {}
    for i, query in enumerate(query_ids):
        assert query not in found
        found[query] = [
            (
                doc_ids[row],
                None if labels is None else labels[row],
                [None if math.isnan(x) else x for x in features[row]],
            )
            for row in range(offsets[i], offsets[i + 1])
        ]
    return found

"""The slow, obvious LETOR reader, for well-formed files only."""

import re

import numpy as np


def read_letor(text: str) -> dict:
    queries: dict[str, list] = {}
    for line in re.split("\n", text.removeprefix("\ufeff")):
        content, _, comment = line.partition("#")
        tokens = re.findall(r"[^ \t\r\v\f]+", content)
        if not tokens:
            continue
        label, query, *features = tokens
        assert query.startswith("qid:")
        named = re.match(r"[ \t]*docid[ \t]*=[ \t]*([^ \t\r\v\f]+)", comment)
        pairs = [feature.split(":") for feature in features]
        values = {int(name): float(value) for name, value in pairs}
        assert len(values) == len(pairs)
        queries.setdefault(query[4:], []).append((float(label), values, named and named[1]))
    documents = [document for query in queries.values() for document in query]
    matrix = np.zeros((len(documents), max(max(values, default=0) for _, values, _ in documents)))
    for row, (_, values, _) in enumerate(documents):
        for feature, value in values.items():
            matrix[row, feature - 1] = value
    names = [name for _, _, name in documents]
    return {
        "features": matrix.astype(np.float32),
        "labels": np.array([label for label, _, _ in documents]).astype(np.float32),
        "offsets": np.cumsum([0] + [len(query) for query in queries.values()]),
        "query_ids": as_ids(list(queries)),
        "doc_ids": as_ids(names)
        if None not in names
        else np.concatenate([np.arange(len(query)) for query in queries.values()]),
    }


def as_ids(names: list[str]) -> np.ndarray:
    """Numbers if each is written as Python would write that int64."""
    if all(re.fullmatch(r"0|-?[1-9]\d*", name, re.ASCII) and -(2**63) < int(name) < 2**63 for name in names):
        return np.array([int(name) for name in names], dtype=np.int64)
    return np.array(names)

"""What a notebook shows of ranking data and folds, and their summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.common.checks import Float32Array
from counterrank.common.notebook import Html, Summary, bar_svg, card, facts, heading, percent_text, row, table
from counterrank.data.feature_columns import SHOWN, with_reasons

if TYPE_CHECKING:
    from counterrank.data.ranking_data import Fold, RankingData

_VALUES = 10_000_000  # of features, up to which missing ones are counted for a summary
_ROWS, _COLUMNS, _GRADES = 5, 6, 10  # documents and features in the head, labels one by one


def label_shares(data: RankingData) -> dict[str, float] | None:
    """The share of documents with each label, the smallest first; None without labels, or with more than ten.

    >>> from counterrank import RankingData
    >>> label_shares(RankingData([[1.0], [3.0], [2.0], [2.0]], [0, 4], labels=[0, 1, 1, 1]))
    {'0': 0.25, '1': 0.75}
    """
    if data.labels is None:
        return None
    labels = data.labels
    values, counts = data._cached("label_counts", lambda: _counts(labels))
    if len(values) > _GRADES:
        return None
    return {f"{value:g}": float(count) / data.n_docs for value, count in zip(values, counts, strict=True)}


def _counts(labels: Float32Array) -> tuple[Any, Any]:
    """Distinct labels and how often each occurs; of more than ten perhaps not all, so that none need be sorted."""
    whole = labels.astype(np.int32) if labels.min() >= 0.0 and labels.max() < 256.0 else None
    if whole is None or not np.array_equal(whole, labels):
        some = np.unique(labels[:1000], return_counts=True)
        return some if len(some[0]) > _GRADES else np.unique(labels, return_counts=True)
    counts = np.bincount(whole)
    values = np.flatnonzero(counts)
    return values, counts[values]


def data_summary(data: RankingData) -> Summary:
    """The facts of ranking data.

    >>> from counterrank import RankingData
    >>> data_summary(RankingData([[1.0], [3.0], [2.0]], [0, 2, 3], labels=[0, 1, 1]))["documents_per_query"]
    {'least': 1, 'median': 1.5, 'most': 2}
    """
    lengths = data.lengths
    shares: Any = label_shares(data)
    if shares is None and data.labels is not None:
        shares = {"least": float(data.labels.min()), "most": float(data.labels.max())}
    return Summary(
        queries=data.n_queries,
        documents=data.n_docs,
        features=data.n_features,
        feature_names=list(data.feature_names) if data.has_feature_names else None,
        columns_left_out=None if data.columns is None else data.columns.left_out,
        documents_per_query={
            "least": int(lengths.min()),
            "median": float(np.median(lengths)),
            "most": int(lengths.max()),
        },
        labels=shares,
        missing_values=_missing(data),
        source=data.source,
    )


def _missing(data: RankingData) -> int | None:
    """The number of missing values; None where that is not known and a pass over all values would take its time."""
    if data.features.size > _VALUES and "n_missing" not in data._cache:
        return None
    return int(data._cached("n_missing", lambda: np.count_nonzero(np.isnan(data.features))))


def data_card(data: RankingData) -> Html:
    """Sizes, labels and the first documents.

    >>> from counterrank import RankingData
    >>> "&lt;q&gt;" in data_card(RankingData([[1.0]], [0, 1], query_ids=["<q>"]))
    True
    """
    found = data_summary(data)
    sizes = found["documents_per_query"]
    about: dict[str, Any] = {
        "queries": found["queries"],
        "documents": found["documents"],
        "documents a query": f"{sizes['least']:,} to {sizes['most']:,}, median {sizes['median']:,g}",
        "features": found["features"],
        "missing values": "not counted (n_missing counts them)"
        if found["missing_values"] is None
        else found["missing_values"],
    }
    if data.has_feature_names:
        about["names of features"] = ", ".join(data.feature_names[:SHOWN]) + (" …" if data.n_features > SHOWN else "")
    if found["columns_left_out"]:
        about["columns left out"] = with_reasons(found["columns_left_out"])
    if found["source"] is not None:
        about["source"] = found["source"]
    if data.labels is None:
        about["labels"] = "none"
    elif label_shares(data) is None:
        about["labels"] = f"{found['labels']['least']:g} to {found['labels']['most']:g}"
    return card(
        row(facts(about), _label_table(data)),
        heading("First documents" if data.n_docs > _ROWS else "Documents"),
        _head(data),
        title="RankingData",
        sentence=f"{data.n_docs:,} documents of {data.n_queries:,} queries",
    )


def _label_table(data: RankingData) -> Html | None:
    shares = label_shares(data)
    if shares is None:
        return None
    rows = [[label, percent_text(share), bar_svg(share)] for label, share in shares.items()]
    return table(["label", "documents", ""], rows, "rrl")


def _head(data: RankingData) -> Html:
    """The first documents with their ids, label and first features."""
    shown = range(min(_ROWS, data.n_docs))
    names = list(data.feature_names[:_COLUMNS])
    more = data.n_features - len(names)
    head = ["query", "document", *(["label"] if data.labels is not None else []), *names]
    rows = []
    for i in shown:
        query = int(np.searchsorted(data.offsets, i, side="right")) - 1
        labels = [f"{data.labels[i]:g}"] if data.labels is not None else []
        values = ["missing" if np.isnan(value) else f"{value:.4g}" for value in data.features[i, : len(names)]]
        rows.append([str(data.query_ids[query]), str(data.doc_ids[i]), *labels, *values])
    if more:
        head.append(f"… {more:,} more")
        rows = [[*each, "…"] for each in rows]
    return table(head, rows, "ll" + "r" * (len(head) - 2))


def fold_summary(fold: Fold) -> Summary:
    """The facts of each part.

    >>> from counterrank import Fold, RankingData
    >>> part = RankingData([[1.0], [2.0]], [0, 1, 2])
    >>> fold_summary(Fold(part, None, part))["validation"] is None
    True
    """
    return Summary({name: None if part is None else data_summary(part) for name, part in _parts(fold).items()})


def fold_card(fold: Fold) -> Html:
    """A row for each part.

    >>> from counterrank import Fold, RankingData
    >>> part = RankingData([[1.0], [2.0]], [0, 1, 2])
    >>> "validation" in fold_card(Fold(part, None, part))
    True
    """
    rows = []
    for name, part in _parts(fold).items():
        if part is None:
            rows.append([name, "none", "", "", ""])
            continue
        found, shares = data_summary(part), label_shares(part)
        sizes = found["documents_per_query"]
        labels = "none" if part.labels is None else f"{part.labels.min():g} to {part.labels.max():g}"
        if shares is not None:
            labels = ", ".join(f"{label}: {percent_text(share)}" for label, share in shares.items())
        span = f"{sizes['least']:,} to {sizes['most']:,}"
        rows.append([name, found["queries"], found["documents"], span, labels])
    head = ["part", "queries", "documents", "documents a query", "labels"]
    return card(table(head, rows, "lrrrl"), title="Fold", sentence=f"{fold.n_features:,} features")


def _parts(fold: Fold) -> dict[str, RankingData | None]:
    return {"train": fold.train, "validation": fold.validation, "test": fold.test}

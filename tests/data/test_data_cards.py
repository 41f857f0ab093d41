"""What a notebook shows of ranking data and folds."""

import json

import numpy as np
import pyarrow as pa
import pytest

import counterrank as cr
from counterrank.data import data_cards
from tests.support.cards import card_text, check_shown

EVIL = "<script>alert(1)</script>"


def test_ranking_data_shows_sizes_labels_and_first_documents():
    features = np.arange(16.0).reshape(2, 8).repeat(4, axis=0)
    ids = [f"d{i}" for i in range(8)]
    data = cr.RankingData(features, [0, 3, 8], labels=[0, 0, 0, 0, 0, 0, 1, 2], query_ids=["q1", "q2"], doc_ids=ids)
    text = check_shown(data)
    assert text.startswith("RankingData 8 documents of 2 queries")
    assert "3 to 5, median 4" in text
    assert "label documents 0 75.0 % 1 12.5 % 2 12.5 %" in text
    assert "q2 d3 0 0 1 2 3 4 5 …" in text
    assert "d5" not in text  # the first five
    assert "… 2 more" in text
    assert data.summary() == {
        "queries": 2,
        "documents": 8,
        "features": 8,
        "feature_names": None,
        "columns_left_out": None,
        "documents_per_query": {"least": 3, "median": 4.0, "most": 5},
        "labels": {"0": 0.75, "1": 0.125, "2": 0.125},
        "missing_values": 0,
        "source": None,
    }
    json.dumps(data.summary())


def test_ids_and_names_are_escaped():
    data = cr.RankingData([[np.nan]], [0, 1], query_ids=[EVIL], doc_ids=[EVIL], feature_names=[EVIL])
    assert card_text(data).count(EVIL) == 4
    assert "missing" in card_text(data)
    assert data.summary()["missing_values"] == 1
    assert data.summary()["feature_names"] == [EVIL]


@pytest.mark.parametrize(
    ("labels", "shares", "text"),
    [
        (None, None, "labels none"),
        (np.linspace(0.0, 1.0, 30), None, "labels 0 to 1"),
        (np.arange(30.0), None, "labels 0 to 29"),
        (np.repeat([0.5, 1.0, -2.0], 10), {"-2": 1 / 3, "0.5": 1 / 3, "1": 1 / 3}, "-2 33.3 %"),
        (np.repeat([0.0, 4.0], [29, 1]), {"0": 29 / 30, "4": 1 / 30}, "0 96.7 %"),
        (np.repeat([0.0, 400.0], 15), {"0": 0.5, "400": 0.5}, "400 50.0 %"),
    ],
)
def test_labels(labels, shares, text):
    data = cr.RankingData(np.zeros((30, 1)), [0, 30], labels=labels)
    assert data_cards.label_shares(data) == (None if shares is None else pytest.approx(shares))
    assert text in card_text(data)


def test_many_labels_behind_few():
    """The first thousand have few values, all together many."""
    labels = np.concatenate((np.full(1000, 0.5), np.linspace(0.0, 1.0, 1000)))
    data = cr.RankingData(np.zeros((2000, 1)), [0, 2000], labels=labels)
    assert data_cards.label_shares(data) is None
    assert "labels 0 to 1" in card_text(data)


def test_missing_values_of_large_data_are_counted_on_demand(monkeypatch):
    monkeypatch.setattr(data_cards, "_VALUES", 3)
    data = cr.RankingData([[1.0, np.nan], [1.0, 2.0]], [0, 2])
    assert "not counted" in card_text(data)
    assert data.summary()["missing_values"] is None
    assert data.n_missing == 1
    assert data.summary()["missing_values"] == 1
    assert "not counted" not in card_text(data)


def test_a_fold_shows_its_parts():
    part = cr.RankingData([[1.0], [2.0]], [0, 1, 2], labels=[0, 1])
    text = check_shown(cr.Fold(part, None, cr.RankingData([[1.0]], [0, 1])))
    assert "train 2 2 1 to 1 0: 50.0 %, 1: 50.0 %" in text
    assert "validation none" in text
    assert "test 1 1 1 to 1 none" in text
    assert cr.Fold(part, None, part).summary()["train"]["queries"] == 2


def test_columns_are_listed():
    table = pa.table({"q": ["a"], "d": [1], "price": [1.0], "stock": [2], "title": ["x"], EVIL: ["x"]})
    data = cr.RankingData.from_frame(table, query="q", document="d")
    assert data.summary()["feature_names"] == ["price", "stock"]
    assert data.summary()["columns_left_out"] == {"title": "text", EVIL: "text"}
    text = check_shown(data)
    assert "names of features price, stock" in text
    assert f"columns left out 'title', '{EVIL}' (text)" in text

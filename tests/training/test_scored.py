"""Scores of saved rankers, of files and of features."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import CounterrankError
from counterrank.training import Scored

DATA = cr.make_ranking_data("yahoo", n_queries=20, seed=0)
WEIGHTS = np.arange(DATA.n_docs) % 3


def test_a_ranker_a_file_and_a_feature(tmp_path):
    ranker = cr.Ranker("arp-hinge", max_epochs=2).fit(DATA, WEIGHTS)
    ranker.save(tmp_path / "ranker")
    np.save(tmp_path / "scores.npy", np.arange(DATA.n_docs, dtype=float))
    found = Scored.load(tmp_path / "ranker", DATA)
    np.testing.assert_array_equal(found.predict(DATA), ranker.predict(DATA))
    assert (found.label, found.missing) == (str(tmp_path / "ranker"), 0)
    assert found.provenance_["loss"] == "arp-hinge"
    assert Scored.load(tmp_path / "scores.npy", DATA).scores.tolist() == list(range(DATA.n_docs))
    assert Scored.load("feature:3", DATA).scores.tolist() == DATA.features[:, 2].tolist()
    assert Scored.load("feature:3", DATA).provenance_ == {}


def test_features_that_sparse_files_leave_out_count_as_0(tmp_path):
    cr.Ranker("arp-hinge", max_epochs=2, normalize="none").fit(DATA, WEIGHTS).save(tmp_path / "ranker")
    narrow = cr.RankingData(DATA.features[:, :-2], DATA.offsets)
    found = Scored.load(tmp_path / "ranker", narrow)
    assert found.missing == 2
    wide = cr.Ranker.load(tmp_path / "ranker").predict(narrow.widened(DATA.n_features))
    np.testing.assert_array_equal(found.scores, wide)


@pytest.mark.parametrize("text", ["feature:0", "feature:x", "feature:701"])
def test_no_such_feature(text):
    with pytest.raises(CounterrankError, match=f"{text}: no such feature; expected a number from 1 to 700"):
        Scored.load(text, DATA)


def test_features_that_the_ranker_does_not_know_are_left_out(tmp_path):
    named = cr.RankingData(DATA.features[:, :3], DATA.offsets, feature_names=["a", "b", "c"])
    ranker = cr.Ranker("arp-hinge", max_epochs=2).fit(named.select_features(["c", "a"]), WEIGHTS)
    ranker.save(tmp_path / "ranker")
    np.testing.assert_array_equal(
        Scored.load(tmp_path / "ranker", named).scores, ranker.predict(named.select_features(["c", "a"]))
    )
    assert ranker.share_seen(named) == 1.0  # though there are other features
    other = cr.RankingData(DATA.features[:, 1:4], DATA.offsets, feature_names=["a", "b", "c"])
    assert ranker.share_seen(other) == 0.0
    with pytest.raises(CounterrankError, match="data: lacks feature 'c' of the ranker; has 'b', unknown to the ranker"):
        Scored.load(tmp_path / "ranker", named.select_features(["a", "b"]))
    with pytest.raises(CounterrankError, match="has 'b', unknown to the ranker"):
        ranker.predict(named)

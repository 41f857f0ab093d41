"""What a notebook shows of a ranker and of a fit."""

import json

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import NotTrainedError
from counterrank.training import ClipTrial, FitReport, Tried
from tests.support.cards import card_text, check_shown
from tests.support.paths import TESTS

DATA = cr.RankingData([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [3.0, 5.0]], offsets=[0, 2, 4])
WEIGHTS = [0.0, 1.0, 0.0, 1.0]


def fitted(**options):
    return cr.Ranker("arp-hinge", max_epochs=3, learning_rate=1.0, **options).fit(DATA, WEIGHTS, (DATA, WEIGHTS))


def test_a_ranker_shows_where_it_comes_from():
    ranker = fitted(seed=7)
    text = check_shown(ranker)
    assert text.startswith(f"Ranker arp-hinge, linear; best epoch {ranker.best_epoch_} of 3, arp 1 on validation data")
    assert "trained on 2 queries, 4 documents" in text
    assert "clicks weights given" in text
    assert "seed 7" in text
    assert "validation arp" in text  # the curves
    assert "training loss" in text
    assert "constant features 1" in text
    assert "Feature importances, the largest 1 of 2 feature share feature_1 100 %" in text
    found = ranker.summary()
    assert (found["metric"], found["epochs"], found["features"]) == ("arp", 3, 2)
    json.dumps(found)
    assert len(ranker.plot().hconcat) == 2


def test_texts_in_provenance_are_escaped():
    ranker = fitted()
    ranker.provenance_ |= {"command": "<script>", "estimator": {"name": "<b>", "clip": 5.0, "tried": [1]}}
    assert "estimator <b> (clip 5)" in check_shown(ranker)
    assert "command <script>" in card_text(ranker)


def test_names_of_features_are_shown():
    named = cr.RankingData(DATA.features, DATA.offsets, feature_names=["<price>", "rating"])
    ranker = cr.Ranker("arp-hinge", max_epochs=3, learning_rate=1.0).fit(named, WEIGHTS)
    assert "<price> 100 %" in card_text(ranker)


def test_an_untrained_ranker_shows_its_parameters():
    text = check_shown(cr.Ranker(k=5, seed=np.random.default_rng(0)))
    assert text.startswith("Ranker not trained yet")
    assert "k 5" in text
    assert "seed a generator" in text
    with pytest.raises(NotTrainedError):
        cr.Ranker().plot()


def test_rankers_without_provenance_or_validation():
    ranker = cr.Ranker("arp-hinge", max_epochs=3, learning_rate=1.0).fit(DATA, WEIGHTS)
    ranker.provenance_ = {}
    ranker.history_[1]["loss"] = None  # of an epoch that diverged
    assert "not recorded (saved by version 0.1)" in check_shown(ranker)
    assert len(ranker.plot().hconcat) == 1
    ranker.history_, ranker.best_epoch_ = [], 0
    assert "best epoch 0 of 0" in card_text(ranker)


@pytest.mark.parametrize(
    "folder", sorted((TESTS / "fixtures" / "v0_1" / "rankers").iterdir()), ids=lambda path: path.name
)
def test_old_rankers_show_themselves(folder):
    try:
        ranker = cr.Ranker.load(folder)
    except ValueError:
        pytest.skip("needs a module of its own")
    assert check_shown(ranker).startswith("Ranker ")


TRIED = (
    Tried("direct", {}, 0.5),
    Tried("policy-aware", {"clip": 10.0}, 0.3, 0.2, 0.05, kept=False),
    Tried("shrinkage", {}, None, float("inf"), 0.0, kept=False, failure="a <b> fault"),
    Tried("doubly-robust", {}, None, 0.25, 0.05, kept=False, dropped_after=2),
)


def test_a_report_shows_what_was_tried():
    report = FitReport(fitted(), "direct", {"tau": 0.03, "kept": ["direct"]}, "It was best.", "dcg@5", TRIED)
    text = check_shown(report)
    assert text.startswith("FitReport direct (tau 0.03) It was best.")
    assert "direct 0.5 best" in text
    assert "policy-aware (clip 10) 0.3 0.2 0.05" in text
    assert "shrinkage failed a <b> fault" in text
    assert "The ranker Ranker arp-hinge" in text
    assert repr(report) == ("FitReport(direct, Ranker(arp-hinge, linear, 3 epochs), 4 candidates tried, 1 kept)")
    assert "doubly-robust dropped after 2 folds 0.25 0.05" in text
    assert report.summary()["tried"] == {
        "direct": 0.5,
        "policy-aware (clip 10)": 0.3,
        "shrinkage": "failed",
        "doubly-robust": "dropped after 2 folds",
    }
    json.dumps(report.summary())
    assert "direct (kept)" in str(report.plot().to_dict())


def test_a_report_shows_clips():
    clips = (ClipTrial(5.0, 1.5), ClipTrial(10.0, None, "it <b> diverged"), ClipTrial(None, 1.25))
    report = FitReport(fitted(), "policy-aware", {"clip": None}, "", "arp", clips=clips)
    text = check_shown(report)
    assert "validation arp lower is better" in text
    assert "no clip ✓ 1.25" in text
    assert "failed: it <b> diverged" in text
    assert repr(report).endswith("3 clips tried)")
    assert report.summary()["clips"] == {"clip 5": 1.5, "clip 10": None, "no clip": 1.25}
    assert len(report.plot().hconcat) == 2  # the training curve


def test_reports_of_real_fits():
    from counterrank import policies, simulation

    data = cr.make_ranking_data("mslr", n_queries=30, seed=0)
    log = simulation.simulate(data, data.features[:, 0], policies.ReplaceLast(5), [1, 0.5, 0.3], sessions=3000, seed=0)
    report = cr.fit_from_clicks(data, log, ranker=cr.Ranker(k=3, max_epochs=2, learning_rate=1.0), folds=2)
    assert "candidate held-out dcg@3 behind by" in check_shown(report)
    assert "clicks 3,000 sessions" in card_text(report.ranker)

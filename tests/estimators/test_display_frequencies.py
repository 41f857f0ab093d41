"""Display frequencies as propensities: taken where a log has none, accepted as rho, shown in a line."""

from dataclasses import replace

import numpy as np
import pytest

import counterrank as cr
from counterrank import evaluation, examination, policies, simulation
from counterrank.clicks.policies import ReplaceLast, propensity_from_log
from counterrank.common.errors import CounterrankError
from counterrank.estimators import display_frequencies
from counterrank.estimators.relevance import examinations

DATA = cr.make_ranking_data("yahoo", n_queries=30, seed=0)
EXAM = examination.inverse_rank(3)
LOG = replace(
    simulation.simulate(DATA, DATA.features[:, 0], ReplaceLast(3), EXAM, sessions=2000, seed=0),
    propensities=None, examination=None, unexaminable=None,
)  # fmt: skip
SCORES = DATA.features[:, 1]


@pytest.mark.parametrize("method", ["ips", "dr"])
def test_without_logged_propensities_the_curve_gives_realised_exposure(method):
    options = {"metrics": ["dcg@3"], "exam": EXAM, "method": method}
    with pytest.warns(cr.CoverageWarning, match="the log holds no propensities, so how often documents were shown"):
        found = evaluation.estimate(SCORES, DATA, LOG, **options)["dcg@3"]
    assert found.propensities == "realised"
    assert (found.uncovered > 0.0) == (method == "ips")  # by dr they have a prediction
    known = propensity_from_log(LOG, EXAM)
    same = evaluation.estimate(SCORES, DATA, LOG, known, **options)["dcg@3"]
    assert (same.ips, same.propensities, same.uncovered) == (found.ips, "realised", found.uncovered)
    plain = evaluation.estimate(SCORES, DATA, LOG, known.propensities, **options)["dcg@3"]
    assert plain.ips == pytest.approx(found.ips)
    smoothed = propensity_from_log(LOG, EXAM, smoothing=5)
    assert evaluation.estimate(SCORES, DATA, LOG, smoothed, **options)["dcg@3"].propensities == "estimated"
    difference = evaluation.compare(SCORES, DATA.features[:, 0], DATA, LOG, **options)["dcg@3"]
    assert difference.propensities == "realised"


def test_without_a_curve_it_stays_an_error():
    with pytest.raises(CounterrankError, match=r"no logged propensities; pass rho=.*or exam=, the examination curve"):
        evaluation.estimate(SCORES, DATA, LOG)
    with pytest.raises(CounterrankError, match="exam: 0 at rank 2, where there are clicks"):
        evaluation.estimate(SCORES, DATA, LOG, exam=[1.0])


def test_logged_propensities_are_used_where_there_are_some():
    logged = simulation.simulate(DATA, DATA.features[:, 0], ReplaceLast(3), EXAM, sessions=2000, seed=0)
    assert evaluation.estimate(SCORES, DATA, logged, exam=EXAM)["dcg@5"].propensities == "logged"


def test_all_that_takes_rho_takes_the_result():
    found = propensity_from_log(LOG, EXAM)
    assert np.array_equal(np.asarray(found), found.propensities)
    weights = cr.estimators.policy_aware(LOG, found.propensities)
    assert np.allclose(cr.estimators.policy_aware(LOG, found), weights)
    assert np.allclose(cr.Evidence(LOG, rho=found).propensities.by_document, found.propensities)
    assert evaluation.inspect_clicks(LOG, rho=found, exam=EXAM).known.propensities == "rho"
    other = cr.make_ranking_data("yahoo", n_queries=5, seed=1)
    few = simulation.simulate(other, other.features[:, 0], ReplaceLast(3), EXAM, sessions=50, seed=0)
    with pytest.raises(CounterrankError, match=r"rho: \d+ entries; expected \d+, the number of documents"):
        evaluation.estimate(SCORES, DATA, LOG, propensity_from_log(few, EXAM))


def test_a_line_and_a_summary():
    found = propensity_from_log(LOG, EXAM)
    shown = np.count_nonzero(found.propensities)
    text = f"LogPropensity({shown:,} of {DATA.n_docs:,} documents shown on 2,000 pages, propensities "
    assert repr(found).startswith(text)
    assert repr(found).endswith(", no smoothing)")
    assert len(repr(found)) < 150
    assert found.summary()["never_shown"] == found.never_shown
    assert found.summary()["largest_weight"] == pytest.approx(1.0 / found.propensities[found.propensities > 0].min())
    assert "never shown" in repr(found.summary())
    assert f"{found.never_shown:,} documents of logged queries are on no page" in found._repr_html_()
    assert repr(propensity_from_log(LOG, EXAM, smoothing=2)).endswith(", smoothing)")
    sampled = policies.estimate_propensity(ReplaceLast(3), SCORES, DATA.offsets, EXAM, samples=20, seed=0)
    assert repr(sampled).startswith("EstimatedPropensity(")
    assert "on 20 pages a query" in repr(sampled)
    assert sampled.summary()["pages"] == 20
    nothing = replace(found, propensities=np.zeros(3), standard_errors=np.full(3, np.nan))
    assert repr(nothing) == "LogPropensity(0 of 3 documents shown on 2,000 pages, no smoothing)"


def test_smoothed_frequencies_are_used_by_estimators_with_a_model():
    """They were left aside, and the unsmoothed ones taken: a document that was never shown had propensity 0."""
    offsets, sessions = np.array([0, 3]), np.array([10])
    docs, ranks, shown, clicked = np.array([[0, 1], [1, 2], [8, 2], [4, 1]])
    clicks = cr.ClickCounts("", offsets, sessions, docs, ranks, shown, clicked)
    exam = examination.Examination([1.0, 0.5])
    smoothed = display_frequencies(clicks, exam, smoothing=5.0)
    assert smoothed.source == "estimated"
    found = examinations(clicks, smoothed, exam)
    assert found.rho.tolist() == smoothed.by_document.tolist()
    assert found.rho.tolist() != examinations(clicks, display_frequencies(clicks, exam), exam).rho.tolist()

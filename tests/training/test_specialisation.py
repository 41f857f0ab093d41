"""Rankings of their own for frequent queries."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.clicks.policies import ReplaceLast, UniformInsert
from counterrank.clicks.simulation import simulate
from counterrank.clicks.users import ClickModel
from counterrank.common.errors import CounterrankError, ExportError
from counterrank.data import RankingData
from counterrank.estimators import Evidence
from counterrank.estimators.relevance import examinations
from counterrank.evaluation import InSampleWarning
from counterrank.training import Ranker, specialise
from counterrank.training.specialisation import own_scores, reordered
from tests.support.few_click_logs import EXAM, quick, small_data


def two_logs(data, scores, sessions, policy, seed=0, **settings):
    """Sessions by Zipf's law, of which rankings are made and on which they are tested."""
    frequencies = 1.0 / (1.0 + np.arange(data.n_queries))
    how = {"sessions": sessions, "query_frequencies": frequencies, "displays": True, **settings}
    return [simulate(data, scores, policy, EXAM, seed=np.random.default_rng([seed, part]), **how) for part in (0, 1)]


@pytest.fixture(scope="module")
def setting():
    data = small_data(20)
    general = Ranker("arp-hinge", max_epochs=2, learning_rate=1.0).fit(small_data(7, seed=4), small_data(7, 4).labels)
    policy, scores = UniformInsert(5), general.predict(data)
    return data, general, policy, scores, two_logs(data, scores, 40_000, policy)


def test_own_rankings_order_documents_by_shrunken_rates(setting):
    """Against the definition, document by document."""
    data, _, policy, scores, (clicks, _) = setting
    seen = examinations(clicks, policy.propensity(scores, data.offsets, EXAM), EXAM)
    found = own_scores(scores, data, seen)
    order = np.array([sorted(range(q * 20, q * 20 + 20), key=lambda d: -scores[d]) for q in range(20)])
    rank = np.empty(data.n_docs, int)
    rank[order] = np.arange(20)
    level = np.minimum(rank, 10)
    overall = seen.clicks.sum() / seen.times.sum()
    prior = np.array([
        (seen.clicks[level == place].sum() + overall) / (seen.times[level == place].sum() + 1.0) for place in level
    ])  # fmt: skip
    strength = cr.estimators.best_strength(clicks, policy.propensity(scores, data.offsets, EXAM), prior, exam=EXAM)
    rates = (seen.clicks + strength * prior) / (seen.times + strength)
    for q in range(20):
        rows = range(q * 20, q * 20 + 20)
        expected = sorted(rows, key=lambda d: (-rates[d], rank[d]))
        assert sorted(rows, key=lambda d: -found[d]) == expected


def test_frequent_queries_get_rankings_of_their_own(setting, tmp_path):
    data, general, policy, scores, logs = setting
    found = specialise(general, data, *logs, policy=policy, scores=scores, exam=EXAM)
    assert found.metric == "dcg@5"
    assert 0 < len(found.queries) <= len(found.tests) <= 20
    assert found.queries == tuple(each.query for each in found.tests if each.lower > 0.0)
    assert all(each.estimate > each.lower for each in found.tests)
    own = found.predict(data)
    for q in range(20):
        rows = slice(q * 20, q * 20 + 20)
        assert np.array_equal(own[rows], scores[rows]) == (data.query_ids[q] not in found.queries)
        assert sorted(own[rows]) == pytest.approx(sorted(scores[rows]))
    found.save(tmp_path / "ranker")
    loaded = Ranker.load(tmp_path / "ranker")
    assert np.array_equal(loaded.predict(data), own)
    assert loaded.kind_ == "specialised"
    assert loaded.provenance_["specialised"]["queries"] == len(found.queries)
    assert loaded.provenance_["clicks"]["sessions"] == 80_000
    assert found.summary()["used"] == len(found.queries)
    assert f"{len(found.queries)} of {len(found.tests)} tested" in repr(found)
    with pytest.raises(ExportError, match="rankings of their own for some queries, which no target holds"):
        cr.export.write(loaded, tmp_path / "model.json", "json")


def test_clicks_of_both_kinds_are_not_held_out_afterwards(setting):
    data, general, policy, scores, logs = setting
    found = specialise(general, data, *logs, policy=policy, scores=scores, exam=EXAM)
    rho = policy.propensity(scores, data.offsets, EXAM)
    for log in logs:
        with pytest.raises(CounterrankError, match="in-sample"):
            cr.evaluation.estimate(found.ranker, data, log, rho, metrics=["dcg@5"])


def test_queries_are_recognised_by_their_ids_and_documents(setting):
    data, general, policy, scores, logs = setting
    found = specialise(general, data, *logs, policy=policy, scores=scores, exam=EXAM)
    chosen = int(found.queries[0])
    own = found.predict(data)
    shuffled = data.subset([3, chosen])
    assert np.array_equal(found.predict(shuffled)[20:], own[chosen * 20 : chosen * 20 + 20])
    fewer = RankingData(shuffled.features[20:39], [0, 19], query_ids=shuffled.query_ids[1:], doc_ids=np.arange(19))
    assert np.array_equal(found.predict(fewer), general.predict(fewer))  # a document is gone: the general ranking
    texts = RankingData(
        shuffled.features[20:], [0, 20], query_ids=[str(chosen)], doc_ids=shuffled.doc_ids[20:].astype(str)
    )
    assert np.array_equal(found.predict(texts), own[chosen * 20 : chosen * 20 + 20])


def test_rankings_of_equal_scores():
    """Scores are dealt out again, and where some are equal, ranks take their place."""
    assert reordered(np.array([1.0, 1.0, 0.0]), np.array([2, 1, 0])).tolist() == [-3.0, -2.0, -1.0]


@pytest.mark.parametrize("policy", [ReplaceLast(5), UniformInsert(5)])
def test_logged_propensities_are_enough(setting, policy):
    """Those of documents that were never shown are not known; they count as worst."""
    data, general, _, scores, _ = setting
    logs = two_logs(data, scores, 40_000, policy, seed=1)
    known = specialise(general, data, *logs, policy=policy, scores=scores, exam=EXAM)
    logged = specialise(general, data, *logs)
    assert len(logged.tests) == len(known.tests)
    assert {each.query for each in logged.tests if each.used} <= {
        each.query for each in known.tests if each.lower > -0.1
    }


def test_evidence_says_what_is_known_about_clicks(setting):
    data, general, policy, scores, logs = setting
    how = {"policy": policy, "scores": scores, "exam": EXAM}
    plain = specialise(general, data, *logs, **how)
    made = [Evidence(log, None, EXAM, policy=policy, scores=scores) for log in logs]
    assert specialise(general, data, *made).tests == plain.tests
    with pytest.raises(CounterrankError, match="given together with clicks that are an Evidence"):
        specialise(general, data, *made, **how)


@pytest.mark.statistical
def test_queries_are_rarely_hurt():
    """Rankings of their own that are worse, or no better: used with a probability of at most 10 % a query.

    All documents are alike, so that no ranking is better than another. If each of the 400 bounds failed with 10 %, more
    than 14 % of rankings would be used with a probability of 0.5 %; finite-sample bounds fail less often.
    """
    tested = used = 0
    data = RankingData(np.random.default_rng(0).random((400, 3)), np.arange(0, 401, 20), np.full(400, 4.0))
    general = Ranker("arp-hinge", max_epochs=1, learning_rate=1.0).fit(data, data.features[:, 0])
    scores = general.predict(data)
    for seed in range(20):
        logs = two_logs(data, scores, 20_000, UniformInsert(5), seed, click_model=ClickModel(0.3, 0.3))
        with pytest.warns(InSampleWarning, match="does not say on which clicks"):
            found = specialise(general, data, *logs, policy=UniformInsert(5), scores=scores, exam=EXAM, confidence=0.9)
        tested += len(found.tests)
        used += len(found.queries)
    assert tested > 380
    assert used < 0.14 * tested


def test_few_sessions_are_not_tested(setting):
    data, general, policy, scores, logs = setting
    found = specialise(general, data, *logs, policy=policy, scores=scores, exam=EXAM, min_sessions=3000)
    assert {each.query for each in found.tests} == set(
        data.query_ids[np.minimum(*(log.sessions for log in logs)) >= 3000]
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"general": quick()}, "not trained yet"),
        ({"general": [1.0]}, "general: list; expected"),
        ({"held_out": "clicks"}, "held_out: sessions that are among clicks too"),
        ({"confidence": 1.0}, "confidence"),
        ({"min_sessions": 0}, "min_sessions"),
        ({"metric": "arp"}, "metric 'arp': is not per session"),
        ({"metric": "ndcg@5"}, "metric"),
        ({"data": small_data(3)}, "clicks"),
    ],
)
def test_what_is_wrong_is_named(setting, wrong, message):
    data, general, policy, scores, logs = setting
    how = {"general": general, "data": data, "clicks": logs[0], "held_out": logs[1]}
    how |= {name: logs[0] if value == "clicks" else value for name, value in wrong.items()}
    with pytest.raises(CounterrankError, match=message):
        specialise(**how, policy=policy, scores=scores, exam=EXAM)

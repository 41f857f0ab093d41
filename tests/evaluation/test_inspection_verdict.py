"""The verdict on logs of which it is known, and the coverage it rests on."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import counterrank as cr
from counterrank import estimators, policies, simulation
from counterrank.clicks.counts import SHOWN_ONLY, ClickCounts
from counterrank.common.errors import CounterrankError
from counterrank.data.ids import identity
from counterrank.estimators import ESTIMATORS, Estimator
from counterrank.evaluation import inspection
from counterrank.evaluation.inspection import LEVELS, assessed_names, inspect_clicks
from tests.support.inspected_logs import DATA, EXAM, SCORES, make_data, make_log, stripped, text_of


def test_one_page_per_query():
    policy = policies.Deterministic(3)
    found = inspect_clicks(make_log(policy), policy=policy, scores=SCORES)
    hidden = DATA.n_docs - 3 * DATA.n_queries
    assert {name: found.level(name) for name in assessed_names() if found.level(name) != "bad"} == {"rerank": "warning"}
    assert found.coverage.never_examinable == found.coverage.never_shown == hidden
    assert f"{hidden:,} of {DATA.n_docs:,} candidates (75 %), in 40 queries, can never be examined" in text_of(
        found, "policy-aware"
    )
    assert "at ranks 4 to 12 of the old ranking" in text_of(found, "policy-aware")
    assert found.pages.looks_like == "one page per query"
    assert found.coverage.expected_never_shown == pytest.approx(hidden)
    assert found.coverage.sessions_to_show_95_percent is None


def test_one_page_per_query_is_seen_without_any_knowledge():
    found = inspect_clicks(stripped(make_log(policies.Deterministic(3))))
    assert found.level("policy-aware") == "bad"
    text = text_of(found, "policy-aware")
    assert "the policy, what it ranked by and the examination curve must be known" in text
    assert "got the same page every time" in text
    assert any("policy.display" in line for line in found.advice)
    assert any("a little random" in line for line in found.advice)


@pytest.mark.parametrize("known", [{}, {"policy": policies.UniformInsert(3), "scores": SCORES}], ids=["log", "policy"])
def test_users_are_fitted_where_training_would(known):
    """Nothing says how users click, and the log tells: propensities follow, as in training."""
    log = stripped(make_log(policies.UniformInsert(3), 200_000))
    found = inspect_clicks(log, **known)
    users = estimators.learn_users(log)
    assert (found.known.users, found.known.users_kind) == (users.sentence, users.kind)
    assert found.level("policy-aware") != "bad"
    assert f"With {users.sentence}, as in training (--users auto)." in text_of(found, "policy-aware")
    assert found.weights is not None
    told = inspect_clicks(log, exam=users.users, **known)
    assert told.known.users is None
    if known:
        assert found.weights == told.weights
        assert found.level("policy-aware") == "good"
        assert "so it would be the same" in text_of(found, "affine")  # these users are position-based


def test_users_that_cannot_be_fitted():
    found = inspect_clicks(stripped(make_log(policies.ReplaceLast(3))), policy=policies.ReplaceLast(3), scores=SCORES)
    assert found.known.users is None
    assert found.level("policy-aware") == "bad"
    assert "the examination curve must be known" in text_of(found, "policy-aware")


def test_replace_last():
    policy = policies.ReplaceLast(3)
    found = inspect_clicks(make_log(policy, 100_000), policy=policy, scores=SCORES)
    assert found.level("policy-aware") == "good"
    assert found.level("policy-oblivious") == found.level("naive") == "bad"
    assert found.pages.looks_like == "only the last rank changes"
    assert found.connected == [[1], [2], [3]]
    assert found.level("examination.estimate") == "bad"
    assert "Ranks fall into 3 groups (1; 2; 3)" in text_of(found, "examination.estimate")
    assert any("uniform-insert:k=3" in line for line in found.advice)


@pytest.mark.parametrize("policy", [policies.UniformInsert(3), policies.PlackettLuce(3, 1.0)], ids=str)
def test_policies_that_support_all_that_can_be_supported(policy):
    found = inspect_clicks(make_log(policy, 200_000, displays=True), policy=policy, scores=SCORES)
    assert found.level("policy-aware") == found.level("examination.estimate") == "good"
    assert found.level("affine") == found.level("rerank") == "warning"
    assert found.connected == [[1, 2, 3]]
    assert found.advice == ()
    assert found.pages.looks_like == "all ranks change"


def test_pages_that_show_everything():
    data = make_data(n_docs=3)
    scores = SCORES[: data.n_docs]
    policy = policies.PlackettLuce(None, 1.0)
    log = make_log(policy, 50_000, data=data, scores=scores, displays=True)
    found = inspect_clicks(log, policy=policy, scores=scores)
    good = ("policy-aware", "policy-oblivious", "rerank", "examination.estimate")
    assert [found.level(name) for name in good] == ["good"] * 4
    assert found.level("naive") == "bad"
    fitted = inspect_clicks(stripped(log))  # as in training, where nothing says how users click
    assert fitted.level("policy-oblivious") == "good"
    curveless = inspect_clicks(stripped(make_log(policies.Deterministic(None), data=data, scores=scores)))
    assert curveless.known.users is None
    assert curveless.level("policy-oblivious") == "warning"
    assert "must be known" in text_of(curveless, "policy-oblivious")


def test_one_rank_and_one_document():
    data = cr.RankingData(np.zeros((4, 1)), [0, 1, 2, 3, 4], labels=[4, 4, 4, 0])
    log = simulation.simulate(data, np.zeros(4), policies.Deterministic(3), EXAM, sessions=30_000, seed=0)
    found = inspect_clicks(log, policy=policies.Deterministic(3), scores=np.zeros(4))
    assert [found.level(name) for name in ("naive", "policy-oblivious", "policy-aware")] == ["good"] * 3
    assert "at one rank" in text_of(found, "examination.estimate")
    assert "holds one document" in text_of(found, "rerank")


def test_a_log_without_ranking_data():
    log = make_log(policies.PlackettLuce(3, 1.0))
    known = np.unique(log.docs)
    lengths = np.bincount(known // 12, minlength=DATA.n_queries)
    seen_only = stripped(
        log,
        identity=SHOWN_ONLY + "x",
        offsets=np.concatenate(([0], np.cumsum(lengths))),
        docs=np.searchsorted(known, log.docs),
        propensities=log.propensities,
    )
    found = inspect_clicks(seen_only)
    assert found.coverage is None
    assert found.weights is not None
    assert [found.level(name) for name in ("policy-aware", "policy-oblivious")] == ["warning", "warning"]
    assert "without ranking data" in text_of(found, "policy-aware")
    assert found.level("examination.estimate") == "good"
    with pytest.raises(cr.CounterrankError, match="counted without ranking data"):
        inspect_clicks(seen_only, data=DATA)
    with pytest.raises(cr.CounterrankError, match="expected a log counted with data"):
        inspect_clicks(seen_only, scores=SCORES)


def test_an_unknown_policy():
    log = make_log(policies.PlackettLuce(3, 0.3), sessions=2000)
    found = inspect_clicks(stripped(log))  # users are fitted, and display frequencies taken, as in training
    assert found.known.propensities == "realised"
    assert found.level("policy-aware") == found.level("affine") == "warning"
    assert "it is not known whether they could have been" in text_of(found, "policy-aware")
    assert found.remedies is found.policy_check is None
    logged = inspect_clicks(stripped(log, propensities=log.propensities))
    assert logged.known.propensities == "logged"
    assert logged.level("policy-aware") == "warning"
    assert "it is not known whether they could have been" in text_of(logged, "policy-aware")
    assert logged.level("affine") == "bad"
    assert "the policy and what it ranked by" in text_of(logged, "affine")


def test_old_ranks_need_scores_but_no_policy():
    found = inspect_clicks(stripped(make_log(policies.Deterministic(3))), scores=SCORES)
    rows = found.coverage.by_old_rank
    assert [row.never_shown for row in rows[:4]] == [0, 0, 0, DATA.n_queries]
    assert rows[3].can_never_be is None


def test_few_sessions():
    policy = policies.UniformInsert(3)
    found = inspect_clicks(make_log(policy, 500), policy=policy, scores=SCORES)
    assert found.level("policy-aware") == found.level("examination.estimate") == "warning"
    assert "The target is 10,000" in text_of(found, "policy-aware")
    assert "EM" not in text_of(found, "examination.estimate")  # the curve is that of all pairs
    assert found.advice[0].startswith("For an effective sample size of 10,000")
    easy = inspect_clicks(make_log(policy, 500), policy=policy, scores=SCORES, effective_sample_size=10)
    assert easy.level("policy-aware") == "good" or "on no page yet" in text_of(easy, "policy-aware")


def test_candidates_on_no_page_yet_are_no_evidence():
    policy = policies.PlackettLuce(3, 0.3)
    found = inspect_clicks(make_log(policy, 2000), policy=policy, scores=SCORES, effective_sample_size=1)
    assert found.level("policy-aware") == "warning"
    assert "on no page yet" in text_of(found, "policy-aware")
    assert any("were not yet" in line for line in found.advice)


def test_few_clicks_make_a_rough_curve():
    """30 clicks at the last rank at most: 1 / sqrt(30) is more than 10 %; a single query is not many."""
    found = inspect_clicks(make_log(policies.PlackettLuce(3, 1.0), 300))
    least = min(found.pages.comparing_clicks)
    wanted = math.sqrt(1 / found.pages.comparing_clicks[0] + 1 / least)
    assert f"{least:.0f} clicks at the least compared rank leave errors of {100 * wanted:.0f} % or more" in text_of(
        found, "examination.estimate"
    )
    data = make_data(n_queries=1)
    alone = make_log(policies.PlackettLuce(3, 1.0), 20_000, data=data, scores=SCORES[:12])
    found = inspect_clicks(alone)
    assert found.pages.comparing_queries == 1.0
    assert "the weight of 1 query," in text_of(found, "examination.estimate")


def test_a_rank_without_a_click_compares_nothing():
    log = make_log(policies.PlackettLuce(3, 1.0))
    found = inspect_clicks(stripped(log, clicks=np.where(log.ranks == 2, 0, log.clicks)))
    assert found.connected == [[1, 2, 3]]
    assert found.level("examination.estimate") == "bad"
    assert "none of them was clicked at rank 2" in text_of(found, "examination.estimate")


def test_no_clicks_at_all():
    log = make_log(policies.ReplaceLast(3))
    found = inspect_clicks(stripped(log, clicks=np.zeros_like(log.clicks)))
    assert {item.level for item in found.verdict} == {"bad"}
    assert "no click" in text_of(found, "the log")
    json.dumps(found.summary(), allow_nan=False)
    empty = np.zeros(0, np.int64)
    blank = ClickCounts(identity(DATA), DATA.offsets, 0 * DATA.lengths, empty, empty, empty, empty)
    assert inspect_clicks(blank).headline.startswith("Does not support")
    assert inspect_clicks(blank, policy=policies.ReplaceLast(3), scores=SCORES, exam=EXAM).ranks == []


def test_several_policies_in_the_log():
    parts = [make_log(policies.ReplaceLast(3), policy_name="a"), make_log(policies.UniformInsert(3), policy_name="b")]
    log = ClickCounts.concat(parts)
    with pytest.raises(CounterrankError, match="policy: one for a log of several, 'a', 'b'"):
        inspect_clicks(log, policy=policies.ReplaceLast(3), scores=SCORES)
    found = inspect_clicks(log)
    assert found.overview.policies == ["a", "b"]
    assert found.known.propensities == "mean"  # both policies showed every document that was clicked
    assert "names 2 policies (a, b): propensities are means over all sessions" in text_of(found, "the log")
    known = {
        name: (policy, SCORES) for name, policy in (("a", policies.ReplaceLast(3)), ("b", policies.UniformInsert(3)))
    }
    given = inspect_clicks(log, rho=policies.several_policies(log, known, EXAM))
    assert given.logged_check.differing_share_of_impressions == 0.0
    assert given.weights.effective_sample_size == pytest.approx(found.weights.effective_sample_size)


def test_several_policies_that_cannot_be_combined():
    parts = [make_log(policies.Deterministic(3), policy_name="a"), make_log(policies.UniformInsert(3), policy_name="b")]
    log = replace(ClickCounts.concat(parts), examination=None)
    found = inspect_clicks(log)
    assert found.level("policy-aware") == "bad"
    assert "documents have an unknown propensity under one that never showed them" in text_of(found, "policy-aware")
    assert inspect_clicks(log, exam=EXAM).known.propensities == "realised"
    assert inspect_clicks(log.only_policies(["b"])).known.propensities == "logged"


def test_several_policies_that_are_named_are_known_to_affine():
    parts = [make_log(policies.ReplaceLast(3), policy_name="a"), make_log(policies.UniformInsert(3), policy_name="b")]
    log = ClickCounts.concat(parts)
    known = {"a": (policies.ReplaceLast(3), SCORES), "b": (policies.UniformInsert(3), SCORES)}
    rho = policies.several_policies(log, known, EXAM)
    found = inspect_clicks(log, rho=rho, policy_words="a=replace-last:k=3, b=uniform-insert:k=3")
    assert found.known.policy == "a=replace-last:k=3, b=uniform-insert:k=3"
    assert text_of(found, "affine").startswith("As policy-aware, where P(click)")
    assert "display frequencies (--policy estimated)" in text_of(inspect_clicks(log, rho=rho), "affine")


def test_pages_of_a_log_that_is_there():
    log = replace(make_log(policies.UniformInsert(3)), examination=None)
    text = text_of(inspect_clicks(log, whole_log=True), "rerank")
    assert text.startswith("Whole pages are in the log, where train --log reads them. The examination curve must")
    assert "Requires whole pages" in text_of(inspect_clicks(log), "rerank")
    known = inspect_clicks(log, whole_log=True, exam=EXAM)
    assert known.level("rerank") == "warning"
    assert "must be known" not in text_of(known, "rerank")


def test_more_sessions_are_advised_without_a_word_of_other_advice():
    policy = policies.UniformInsert(3)
    log = make_log(policy, 500)
    both = inspect_clicks(log, policy=policy, scores=SCORES)
    assert any(line.startswith("Or keep the logging policy: about ") for line in both.advice)
    alone = inspect_clicks(log, rho=policy.propensity(SCORES, DATA.offsets, EXAM))
    assert alone.advice[0].startswith("Log more sessions of this policy: about ")
    assert "how many a more random policy takes" in alone.advice[0]


def test_advice_names_the_options_that_were_not_given():
    policy = policies.UniformInsert(3)
    log = make_log(policy, 500)
    rho = policy.propensity(SCORES, DATA.offsets, EXAM)
    named = inspect_clicks(log, rho=rho, policy_words="a=uniform-insert:k=3, b=uniform-insert:k=3")
    assert not any("--policy" in line or "--logger" in line for line in named.advice)
    assert "With --logger: how many" in inspect_clicks(log, rho=rho).advice[0]
    bare = replace(log, examination=None, propensities=None)
    assert "With --logger and --examination: how many" in inspect_clicks(bare, rho=rho).advice[0]
    advice = inspect_clicks(bare, policy=policy, scores=SCORES).advice  # with users that are fitted
    assert not any("name what made the pages" in line for line in advice)
    advice = inspect_clicks(bare).advice
    assert any("or name what made the pages: --policy and --logger." in line for line in advice)
    last = policies.ReplaceLast(3)
    advice = inspect_clicks(stripped(make_log(last)), policy=last, scores=SCORES).advice  # that identifies no users
    assert any(line.endswith("or name what made the pages: --examination.") for line in advice)
    same = inspect_clicks(stripped(make_log(policies.Deterministic(3))))
    wanted = "as does this command with --policy, --logger and --examination)."
    assert any(line.endswith(wanted) for line in same.advice)
    rho = policies.Deterministic(3).propensity(SCORES, DATA.offsets, EXAM)
    same = inspect_clicks(stripped(make_log(policies.Deterministic(3))), rho=rho, exam=EXAM, policy_words="estimated")
    assert any(line.endswith("(counterrank plan computes how much).") for line in same.advice)


def test_the_estimated_curve():
    found = inspect_clicks(make_log(policies.PlackettLuce(3, 1.0), 200_000))
    curve = found.estimated_curve
    assert [row.rank for row in curve.ranks] == [1, 2, 3]
    assert [row.examination for row in curve.ranks] == pytest.approx([1, 1 / 2, 1 / 3], rel=0.1)
    assert all(row.low <= row.examination <= row.high for row in curve.ranks)
    assert found.summary()["estimated_curve"]["ranks"][0] == {"rank": 1, "P(examined)": 1.0, "low": 1.0, "high": 1.0}
    assert inspect_clicks(make_log(policies.ReplaceLast(3))).estimated_curve is None


def test_a_curve_of_values_is_short_in_words():
    log = make_log(policies.PlackettLuce(3, 1.0))
    found = inspect_clicks(log, exam=[1.0, 0.5297123456, 0.3333333333])
    assert found.known.examination == "1, 0.53, 0.333 at ranks 1 to 3"


def test_queries_without_sessions_do_not_count():
    frequencies = np.arange(DATA.n_queries) < 10
    log = make_log(policies.ReplaceLast(3), query_frequencies=frequencies)
    found = inspect_clicks(log, policy=policies.ReplaceLast(3), scores=SCORES)
    assert found.coverage.candidates == 10 * 12
    assert found.sessions.queries_with_sessions == 10
    assert not found.policy_check.contradicted


@pytest.mark.parametrize(
    "policy", [policies.Deterministic(3), policies.ReplaceLast(3), policies.PlackettLuce(3)], ids=str
)
def test_a_summary_is_plain_and_complete(policy):
    found = inspect_clicks(make_log(policy), policy=policy, scores=SCORES)
    summary = json.loads(json.dumps(found.summary(), allow_nan=False))
    assert [item["about"] for item in summary["verdict"]][:6] == list(assessed_names())
    assert {item["level"] for item in summary["verdict"]} <= set(LEVELS)
    assert sum(row["clicks"] for row in summary["ranks"]) == summary["overview"]["clicks"]
    assert sum(row["queries"] for row in summary["sessions"]["histogram"]) == DATA.n_queries
    assert all(row["low"] <= row["click rate"] <= row["high"] for row in summary["ranks"])
    assert sum(row["candidates"] for row in summary["coverage"]["by_old_rank"]) == DATA.n_docs


@pytest.mark.statistical
def test_candidates_never_shown_are_as_many_as_the_policy_says():
    """The number of a right policy, over 20 logs, is within four standard errors: wrongly failing below 1e-4."""
    policy = policies.PlackettLuce(3, 0.5)
    counts, expected = [], 0.0
    for seed in range(20):
        found = inspect_clicks(make_log(policy, 2000, seed), policy=policy, scores=SCORES).coverage
        counts.append(found.never_shown)
        expected += found.expected_never_shown / 20
    error = np.std(counts, ddof=1) / math.sqrt(20)
    assert abs(np.mean(counts) - expected) < 4 * error + 1.0  # sessions of a query vary; the formula takes them as seen


def test_sessions_until_nearly_all_are_shown():
    policy = policies.ReplaceLast(3)
    needed = inspect_clicks(make_log(policy, 2000), policy=policy, scores=SCORES).coverage.sessions_to_show_95_percent
    found = inspect_clicks(make_log(policy, needed, seed=1), policy=policy, scores=SCORES).coverage
    assert found.never_shown / found.candidates == pytest.approx(0.05, abs=0.03)


def test_tables_can_still_be_read_like_dicts():
    found = inspect_clicks(make_log(policies.ReplaceLast(3), 500))
    with pytest.warns(DeprecationWarning, match="use the attribute"):
        assert found.overview["sessions"] == 500
    with pytest.warns(DeprecationWarning, match="queries_asked is deprecated; use queries_with_sessions"):
        assert found.overview.queries_asked == DATA.n_queries
    with pytest.raises(AttributeError, match="'Overview' object has no attribute 'queries_told'"):
        _ = found.overview.queries_told


def test_old_names():
    log = make_log(policies.ReplaceLast(3), 500)
    with pytest.warns(DeprecationWarning, match="target_size= is deprecated; use effective_sample_size="):
        assert inspect_clicks(log, target_size=9) == inspect_clicks(log, effective_sample_size=9)
    assert assessed_names() == inspection.ESTIMATORS


@pytest.fixture
def register():
    """Registers an estimator called "mine" until the test is over."""
    weigh = {"weigh": lambda data, evidence: np.zeros(data.n_docs)}
    yield lambda **options: estimators.register_estimator(Estimator("mine", "", "", "", **weigh, **options))
    ESTIMATORS.pop("mine", None)


@pytest.mark.parametrize(
    ("condition", "like"),
    [
        ("examinable", "policy-aware"),
        ("every-page", "policy-oblivious"),
        ("within-page", "rerank"),
        ("one-rank", "naive"),
    ],
)
def test_a_registered_estimator_is_assessed_by_its_condition(register, condition, like):
    register(needs=("clicks",), log_condition=condition)
    policy = policies.UniformInsert(3)
    found = inspect_clicks(make_log(policy, 200_000, displays=True), policy=policy, scores=SCORES)
    assert (found.level("mine"), text_of(found, "mine")) == (found.level(like), text_of(found, like))
    assert "mine" in found.headline


def test_a_registered_estimator_is_assessed_by_its_needs(register):
    register(needs=("clicks", "propensities", "displays"), log_condition="examinable")
    policy = policies.UniformInsert(3)
    found = inspect_clicks(make_log(policy, 200_000), policy=policy, scores=SCORES)
    assert (found.level("policy-aware"), found.level("mine")) == ("good", "warning")
    assert text_of(found, "mine").endswith("But displayed pages must be known.")


def test_an_estimator_whose_condition_no_log_can_show_is_not_assessed(register):
    register(needs=("clicks",))
    assert "mine" not in {item.about for item in inspect_clicks(make_log(policies.ReplaceLast(3))).verdict}
    with pytest.raises(CounterrankError, match="log_condition='never': expected one of 'examinable'"):
        register(needs=("clicks",), log_condition="never")

"""Plans of a comparison against every page and every pattern of clicks, against simulated decisions, and bad input."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank import RankingData, estimators, evaluation, examination, make_ranking_data, policies, simulation
from counterrank.clicks.counts import merge_counts
from counterrank.common.errors import CounterrankError
from counterrank.evaluation import Arm, LogOpt, advise_comparison, plan_comparison
from counterrank.evaluation.logopt import LoggingProblem, optimal_scores
from tests.evaluation.test_planning import worlds
from tests.reference import plan as naive_plan
from tests.reference.estimate import values

THETA = [1.0, 0.6, 0.3]


def mixed(a, b):
    """Policies whose parts rank by different scores."""
    return [
        [Arm(policies.Deterministic(3), a, 0.5), Arm(policies.Deterministic(3), b, 0.5)],
        [Arm(policies.UniformInsert(3), a, 0.25), Arm(policies.ReplaceLast(2), b, 0.75)],
        [Arm(policies.EpsilonGreedy(2, 0.3), b)],
        [Arm(policies.TeamDraft(3), [a, b], 0.5), Arm(policies.UniformInsert(3), b, 0.5)],
    ]


@settings(deadline=None, max_examples=40)
@given(worlds(), st.integers(0, 3), st.sampled_from(["dcg@3", "dcg", "precision@2"]))
def test_variances_are_exact_where_pages_can_be_counted(world, number, metric):
    data, a, b, often = world
    arms = mixed(a, b)[number]
    labels, offsets = data.labels.tolist(), data.offsets.tolist()
    attraction = [1.0 if label >= 3 else 0.1 for label in labels]
    (found, *_) = plan_comparison(
        data, a, b, THETA, k=3, policies={"it": arms}, metric=metric, query_frequencies=often, logopt=False
    )
    value_a, value_b = (values(metric, each, offsets) for each in (a, b))
    listed = [(arm.share, arm.policy, arm.scores) for arm in arms]
    mean, variance, rho = naive_plan.comparison(listed, value_a, value_b, THETA, attraction, offsets, often)
    assert found.rho == pytest.approx(rho)
    assert found.difference.value == pytest.approx(mean, abs=1e-9)
    assert found.difference.variance == pytest.approx(variance, abs=1e-9)
    gaps = np.abs(np.subtract(value_a, value_b))
    assert found.unbiased == bool((np.array(rho)[gaps > 1e-12] > 0.0).all())
    if found.unbiased:
        assert found.effect == pytest.approx(mean, abs=1e-9)


def test_the_price_is_that_of_all_pages():
    """A shows the relevant document first, B second, production third: 1/2 (1 + 1/log2(3)) against 1/2."""
    data = RankingData(np.zeros((3, 1)), [0, 3], labels=[4, 0, 0])
    a, b, production = [3.0, 2.0, 1.0], [2.0, 3.0, 1.0], [1.0, 2.0, 3.0]
    shown = {"replace-last": policies.ReplaceLast(3)}
    first, ab, *_ = plan_comparison(
        data, a, b, THETA, production=production, k=3, policies=shown, metric="dcg@3", logopt=False
    )
    assert (first.displayed, first.price) == (pytest.approx(0.5), pytest.approx(0.0))
    assert ab.displayed == pytest.approx((1.0 + 1.0 / np.log2(3)) / 2)
    assert ab.price == pytest.approx(1.0 - (1.0 + 1.0 / np.log2(3)))
    assert first.total_cost == ab.total_cost == 0.0


def test_cutoffs_that_a_policy_covers_are_said():
    """The page of A alone: the documents that B puts on ranks 2 and 3 are never seen."""
    data = RankingData(np.zeros((5, 1)), [0, 5], labels=[4, 3, 0, 3, 0])
    a, b = [5.0, 4.0, 3.0, 2.0, 1.0], [5.0, 1.0, 2.0, 4.0, 3.0]
    shown = {"page of A": policies.Deterministic(3)}
    found, ab, *_ = plans = plan_comparison(data, a, b, THETA, k=3, policies=shown, metric="dcg@3", logopt=False)
    assert (found.covered_to, found.unbiased, found.sessions, found.power_after(10**6)) == (1, False, None, 0.0)
    assert (ab.covered_to, ab.unbiased) == (3, True)
    assert found.reached < 1.0 == ab.reached
    assert "page of A cannot decide by DCG@3, only by DCG@1" in " ".join(advise_comparison(plans))


def test_interleaving_decides_by_half_of_the_page_and_in_mixtures_by_all_of_it(study):
    data, production, a, b = study
    given = {"own": policies.Mixture([policies.TeamDraft(5), policies.UniformInsert(5)], [0.5, 0.5])}
    exam = examination.inverse_rank(5)
    plans = plan_comparison(data, a, b, exam, production=production, policies=given, logopt=False)
    found = {plan.policy: plan for plan in plans}
    draft = found["team-draft:k=5"]
    assert (draft.covered_to, draft.unbiased, draft.sessions) == (3, False, None)
    mixed = found["0.5*team-draft:k=5 + 0.5*uniform-insert:k=5"]
    assert (mixed.covered_to, mixed.unbiased) == (5, True)
    assert mixed.sessions == found["own"].sessions  # whose other part ranks by production too
    assert found["0.5*team-draft:k=5 + 0.5*ab-test:k=5"].unbiased
    plans = plan_comparison(data, a, b, exam, production=production, policies={}, metric="dcg@3", logopt=False)
    assert {plan.policy: plan.unbiased for plan in plans}["team-draft:k=5"]
    assert len(plan_comparison(data, a, b, exam, production=production, policies={}, k=30, logopt=False)) == 1


def simulate_arms(data, arms, exam, sessions, seed):
    """A log in which each session has one of the arms, by their shares."""
    rng = np.random.default_rng(seed)
    sizes = rng.multinomial(sessions, [arm.share for arm in arms])
    parts = [
        simulation.simulate(
            data, arm.scores, arm.policy, exam, sessions=int(size), seed=rng, displays=True, propensities=False
        )
        for arm, size in zip(arms, sizes, strict=True)
        if size
    ]
    return merge_counts(parts)


@pytest.fixture(scope="module")
def study():
    """40 queries, production, and two rankers."""
    data = make_ranking_data("yahoo", n_queries=40, seed=3)
    rng = np.random.default_rng(0)
    return data, *(data.labels + noise * rng.standard_normal(data.n_docs) for noise in (1.0, 0.8, 2.0))


@pytest.mark.statistical
def test_simulated_decisions_have_the_planned_power(study):
    """100 logs of each policy with the planned sessions, seeds fixed: decisions, means and spreads as planned.

    Of 100 decisions with probability 0.8, fewer than 66 or more than 92 are right with a chance of 1e-3; squared errors
    over their variance are chi-square with 100 degrees of freedom, between 0.59 and 1.53 times 100 with probability
    0.999; means lie within 4 standard errors. With five policies a wrong alarm has a chance below 1 %.
    """
    data, production, a, b = study
    exam = examination.inverse_rank(5)
    shown = {
        "replace-last:k=5": policies.ReplaceLast(5),
        "plackett-luce:k=5,temperature=2": policies.PlackettLuce(5, 2.0),
    }
    plans = plan_comparison(data, a, b, exam, production=production, policies=shown)
    query = np.repeat(np.arange(data.n_queries), data.lengths)
    attraction = np.where(data.labels >= 3, 1.0, 0.1)
    by_scores = (
        evaluation.weighted_clicks.document_values(each, data, ["dcg@5"], "average", 1)[:, 0] for each in (a, b)
    )
    of_query = np.bincount(query, attraction * np.subtract(*by_scores))
    assert len(plans) == 7
    names = ("replace-last", "plackett-luce", "ab-test", "0.5*team-draft:k=5 + 0.5*ab-test", "logopt")
    plans = [plan for plan in plans if plan.policy.startswith(names)]
    assert len(plans) == 5
    for plan in plans:
        errors, right = [], 0
        for seed in range(100):
            log = simulate_arms(data, plan.arms, exam, plan.sessions, seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = evaluation.compare(a, b, data, log, plan.rho, ["dcg@5"], population="these-queries")["dcg@5"]
            verdict = evaluation.verdict(found)
            right += verdict.decision == ("better" if plan.effect > 0 else "worse")
            errors.append(found.ips - (log.sessions @ of_query) / log.n_sessions)
        planned = plan.difference.variance / plan.sessions
        assert plan.power_after(plan.sessions) == pytest.approx(0.8, abs=0.01)
        assert 66 <= right <= 92, plan.policy
        assert abs(np.mean(errors)) < 4 * np.sqrt(planned / 100), plan.policy
        assert 0.59 < np.mean(np.square(errors)) / planned < 1.53, plan.policy


def exact_variance(scores, theta, attraction, difference, k):
    """Of one query under Plackett-Luce, by all its pages."""
    n = len(scores)
    arms = [(1.0, policies.PlackettLuce(k), scores)]
    return naive_plan.comparison(arms, difference, np.zeros(n), theta, attraction, [0, n], [1.0])[1]


def test_logopt_comes_near_the_best_scores_by_brute_force():
    """On queries of four documents and pages of two: within 5 % of the best of a grid, and below the uniform policy."""
    rng = np.random.default_rng(1)
    theta = np.array([1.0, 0.5, 0.0, 0.0])
    levels = np.linspace(-4.0, 0.0, 9)
    for _ in range(4):
        attraction = rng.choice([0.1, 1.0], 4)
        difference = rng.standard_normal(4)
        problem = LoggingProblem(np.array([0, 4]), theta, 2, attraction, difference, np.zeros(4))
        scores = optimal_scores(problem, LogOpt(exploration=0.0))
        found = exact_variance(scores, theta, attraction, difference, 2)
        grid = (
            exact_variance(np.array([0.0, *others])[list(order)], theta, attraction, difference, 2)
            for others in itertools.combinations_with_replacement(levels[::2], 3)
            for order in itertools.permutations(range(4))
        )
        assert found < 1.05 * min(grid)
        assert found < exact_variance(np.zeros(4), theta, attraction, difference, 2)


def test_logopt_is_never_worse_than_the_plackett_luce_policies_it_is_compared_with(study):
    data, production, a, b = study
    few = LogOpt(steps=1, pages=2)  # far from done
    for how in (True, few):
        plans = plan_comparison(data, a, b, examination.inverse_rank(5), production=production, logopt=how)
        found = {plan.policy: plan for plan in plans}
        best = min(plan.deviation for name, plan in found.items() if name.startswith("plackett-luce"))
        assert found["logopt:k=5"].deviation <= best * (1 + 1e-6)
        assert found["logopt:k=5"].unbiased
        assert found["logopt:k=5"].rho.min() > 1e-60  # of documents that do not matter


def test_logopt_improves_on_its_start_and_stays_unbiased_with_a_wrong_guess(study):
    data, production, a, b = study
    rng = np.random.default_rng(5)
    wrong = rng.uniform(0.05, 1.0, data.n_docs)
    exam = examination.inverse_rank(5)
    variances = []
    for how in (LogOpt(steps=1, exploration=0.0), LogOpt(exploration=0.0)):
        *_, plan = plan_comparison(data, a, b, exam, production=production, policies={}, logopt=how)
        variances.append(plan.difference.variance)
    assert variances[1] < 0.97 * variances[0]
    *_, plan = plan_comparison(
        data, a, b, exam, production=production, policies={}, logopt=LogOpt(relevance=wrong, steps=50)
    )
    assert plan.difference.value == pytest.approx(plan.effect, rel=1e-6)
    assert plan.unbiased
    assert plan.optimised_for == "the relevance given"


def test_the_guess_may_come_from_an_earlier_log(study):
    data, production, a, b = study
    exam = examination.inverse_rank(5)
    log = simulation.simulate(data, production, policies.UniformInsert(5), exam, sessions=20_000)
    relevance = estimators.fit_relevance(data, log)
    shown = {"uniform-insert:k=5": policies.UniformInsert(5)}
    plans = plan_comparison(data, a, b, exam, production=production, policies=shown, relevance=relevance, logopt=False)
    assert plans.guess == "a fitted relevance model"
    inserted, ab, *_ = plans
    assert inserted.price > 0.0
    assert ab.displayed == pytest.approx(
        sum(
            0.5
            * relevance.values
            @ policies.Deterministic(5).propensity(each, data.offsets, evaluation_ranks())
            / data.n_queries
            for each in (a, b)
        )
    )


def evaluation_ranks():
    return examination.Examination(1.0 / np.log2(np.arange(2.0, 7.0)))


def test_one_rate_for_all_requires_an_effect_and_has_no_price(study):
    data, production, a, b = study
    exam = examination.inverse_rank(5)
    with pytest.raises(CounterrankError, match="effect: None"):
        plan_comparison(data, a, b, exam, click_rate=0.2)
    plans = plan_comparison(data, a, b, exam, production=production, click_rate=0.2, effect=0.01, logopt=False)
    assert {plan.price for plan in plans} == {None}
    assert plans.cheapest is None
    assert plans.recommended is not None
    assert "by one click rate for all documents, 0.2" in plans.advice()[0]


def test_the_cost_of_an_effect_is_quadratic_and_power_is_as_planned(study):
    data, production, a, b = study
    shown = {"uniform-insert:k=5": policies.UniformInsert(5)}
    exam = examination.inverse_rank(5)
    (one, *_), (half, *_) = (
        plan_comparison(data, a, b, exam, production=production, policies=shown, effect=effect, logopt=False)
        for effect in (0.02, 0.01)
    )
    assert half.sessions == pytest.approx(4 * one.sessions, rel=1e-3)
    assert one.power_after(one.sessions) == pytest.approx(0.8, abs=1e-3)
    spread, *_ = plan_comparison(
        data, a, b, exam, production=production, policies=shown, effect=0.01, population="queries", logopt=False
    )
    assert spread.sessions is None  # 40 queries do not tell a difference of 0.01 of queries like these
    assert spread.power_after(10**12) < 0.5


def test_plans_print_and_draw(study):
    data, production, a, b = study
    plans = plan_comparison(data, a, b, examination.inverse_rank(5), production=production, logopt=LogOpt(steps=2))
    assert repr(plans[0]) == "ComparisonPlan(deterministic:k=5: never)"
    assert "sessions" in repr(plans.recommended)
    card = plans._repr_html_()
    assert "logopt:k=5" in card
    assert "ab-test:k=5" in str(plans.summary())
    assert "unbiased" in plans[0]._repr_html_()
    assert plans.plot().to_dict()
    assert "knows the labels" in " ".join(plans.advice())


def test_equal_rankers_are_said_to_be_equal():
    data = RankingData(np.zeros((3, 1)), [0, 3], labels=[4, 0, 0])
    plans = plan_comparison(data, [3.0, 2.0, 1.0], [6.0, 4.0, 2.0], THETA, k=2, policies={}, metric="dcg@2")
    assert plans.advice() == ["By labels the two rankers are equal: no number of sessions decides; expected effect=."]
    assert {plan.sessions for plan in plans} == {None}


GOOD = {
    "data": RankingData(np.zeros((2, 1)), [0, 2], labels=[3, 0]),
    "scores_a": [2.0, 1.0],
    "scores_b": [1.0, 2.0],
    "exam": [1.0],
    "k": 1,
    "metric": "dcg@1",
    "logopt": False,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": 3}, "data: int; expected RankingData"),
        ({"scores_a": [1.0]}, "scores_a: 1 entries; expected 2"),
        ({"production": [1.0]}, "production: 1 entries; expected 2"),
        ({"exam": 3}, "exam: int; expected an examination curve"),
        ({"k": 0}, "k=0: expected a whole number"),
        ({"metric": "arp"}, "metric='arp': has no value per session"),
        ({"power": 0.3}, "power=0.3: expected a number"),
        ({"policies": [policies.ReplaceLast(1)]}, "policies: expected policies by name"),
        ({"policies": {"it": 3}}, "policy: int; expected a policy"),
        ({"policies": {"it": [3]}}, "policies: it; expected a policy, or a list of evaluation.Arm"),
        (
            {"policies": {"it": [Arm(policies.ReplaceLast(1), [1.0, 2.0], 0.5)]}},
            "policies: it has arms whose shares sum to 0.5; expected 1",
        ),
        ({"relevance": [0.5]}, "relevance: 1 entries; expected 2"),
        ({"relevance": [0.5, 1.5]}, "relevance: 1.5 for document 1 of query 0; expected P(click | examined)"),
        ({"relevance": [0.0, 0.0]}, "relevance: all are 0"),
        ({"relevance": [0.5, 0.5], "click_rate": 0.1}, "relevance, click_rate: expected one of the two"),
        ({"effect": float("nan")}, "effect=nan: expected a number"),
        ({"logopt": 3}, "logopt=3: expected True, False or evaluation.LogOpt"),
    ],
)
def test_bad_input_is_named(change, message):
    with pytest.raises(CounterrankError) as caught:
        plan_comparison(**{**GOOD, **change})
    assert message in str(caught.value)


@pytest.mark.parametrize("wrong", [{"exploration": 2}, {"steps": 0}, {"pages": 1}])
def test_settings_of_logopt_are_checked(wrong):
    with pytest.raises(CounterrankError, match=next(iter(wrong))):
        LogOpt(**wrong)

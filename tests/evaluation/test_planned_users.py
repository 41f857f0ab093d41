"""What `plan_logging` says about users: sessions to fit their model, the pull of trust bias, and its advice."""

from __future__ import annotations

import math

import numpy as np
import pytest

import counterrank as cr
from counterrank import policies, simulation
from counterrank.clicks.policies.propensity import exact_propensity
from counterrank.clicks.users import ClickModel, simulated
from counterrank.evaluation import advise_logging, plan_logging, planned_users
from counterrank.evaluation.planned_users import FIT_SIZES, PlannedUsers, equal_price_mixture
from tests.evaluation.test_planning import close

DATA = cr.make_ranking_data("mslr", n_queries=60, seed=0)
SCORES = DATA.labels + 1.5 * np.random.default_rng(0).standard_normal(DATA.n_docs)
NAMES = ("deterministic:k=5", "replace-last:k=5", "uniform-insert:k=5", "plackett-luce:k=5,temperature=1")


def plans(users="paper", names=NAMES, **more):
    chosen = {name: policies.parse_policy(name) for name in names}
    return plan_logging(DATA, SCORES, chosen, simulation.users(users, 5), [10**5], **more)


@pytest.mark.parametrize("users", ["paper", "baidu", "yandex"])
def test_logs_identify_users_where_documents_move(users):
    fixed, last, insert, drawn = plans(users)
    for found in (fixed, last):
        assert not found.users.identified
        assert found.users.sessions_to_fit("affine") is None
    for found in (insert, drawn):
        assert found.users.identified
        curve, affine = (found.users.sessions_to_fit(model) for model in ("position-based", "affine"))
        assert 10**3 < curve < affine
        # four times the sessions for half the error, a little less where documents are seen a few times
        assert 3.0 < curve / found.users.sessions_to_fit("position-based", 0.1) < 6.0


def test_trust_bias_pulls_towards_the_top_where_random_documents_have_one_rank():
    fixed, last, insert, _ = plans("yandex")
    assert fixed.users.pull is None  # nothing else is shown
    assert last.users.pull > 0.1
    assert -0.1 < insert.users.pull < 0.0
    assert plans("paper")[1].users.pull == pytest.approx(last.users.pull, rel=0.5)  # with yandex's click probabilities


def test_the_pull_of_one_query_by_hand():
    """Three documents on pages of two: the second rank is document 1 or 2. Examination 1 and 1/2, yandex's .41, .36."""
    data = cr.RankingData(np.zeros((3, 1)), [0, 3], labels=[4, 0, 0])
    (found,) = plan_logging(
        data,
        [3.0, 2.0, 1.0],
        {"it": policies.ReplaceLast(2)},
        [1.0, 0.5],
        [10],
        metric="dcg@2",
        click_model=ClickModel(0.69, [0.41, 0.36]),
    )
    gain = (0.28 + 0.33 + 0.33) / 3
    assert found.users.pull == pytest.approx(((0.41 + 0.36) / 2 - 0.36) / gain)


def test_a_sample_of_many_queries_speaks_for_all(monkeypatch):
    data = cr.make_ranking_data("yahoo", n_queries=900, seed=0)
    scores, policy = data.features[:, 0], {"it": policies.UniformInsert(5)}
    (part,) = plan_logging(data, scores, policy, simulation.users("yandex", 5))
    monkeypatch.setattr(planned_users, "_MOST_QUERIES", 1000)
    (whole,) = plan_logging(data, scores, policy, simulation.users("yandex", 5))
    for model in ("position-based", "affine"):
        np.testing.assert_allclose(part.users.fit_errors[model], whole.users.fit_errors[model], rtol=0.1)
    assert part.users.pull == pytest.approx(whole.users.pull, abs=0.01)


def test_pages_of_one_have_nothing_to_compare():
    (found,) = plan_logging(DATA, SCORES, {"it": policies.UniformInsert(1)}, simulation.users("yandex", 5))
    assert found.users.sessions_to_fit("affine") is found.users.sessions_to_fit("position-based") is None


def test_without_labels_there_is_no_affine_model():
    bare = cr.RankingData(DATA.features, DATA.offsets)
    policy = {"it": policies.UniformInsert(5)}
    (found,) = plan_logging(bare, SCORES, policy, cr.examination.inverse_rank(5), click_rate=0.2)
    assert set(found.users.fit_errors) == {"position-based"}
    assert found.users.identified
    assert any("a position-based model" in text for text in advise_logging([found]))


def test_clicks_of_users_with_trust_bias_are_exact():
    """Expected clicks of a session: sum over documents and ranks of P(shown) P(click)."""
    users, policy = simulation.users("yandex", 5), policies.UniformInsert(5)
    (found,) = plan_logging(DATA, SCORES, {"it": policy}, users)
    curve, model = simulated(users)
    levels = np.where(DATA.labels >= 3, 1.0, 0.0)
    other, relevant = model.by_rank(5)
    shown = np.stack([exact_propensity(policy, SCORES, DATA.offsets, np.eye(5)[j]) for j in range(5)], axis=1)
    clicks = shown * curve.curve(5) * (other + levels[:, None] * (relevant - other))
    assert found.clicks == pytest.approx(clicks.sum() / DATA.n_queries)


def test_users_without_trust_bias_give_the_plan_of_their_curve():
    curve, model = simulated(simulation.users("baidu", 5))
    policy = {"it": policies.UniformInsert(5)}
    (one,) = plan_logging(DATA, SCORES, policy, simulation.users("baidu", 5))
    (other,) = plan_logging(DATA, SCORES, policy, curve, click_model=model)
    close(one, {"clicks": other.clicks, "ips": other.ips.value, "ips_variance": other.ips.variance})


def test_the_mixture_has_the_price_of_replace_last():
    found = plans()
    name = equal_price_mixture(found)
    (mixed,) = plans(names=[name])
    last = next(plan for plan in found if plan.policy == "replace-last:k=5")
    assert last.price - 0.01 < mixed.price <= last.price
    (advice, *_) = [text for text in advise_logging([*found, mixed]) if text.startswith("Log with ")]
    assert advice.startswith(f"Log with {name} rather than replace-last:k=5: it costs users")
    most = next(plan for plan in found if plan.policy == "uniform-insert:k=5")
    assert advice.endswith(
        f" {mixed.effective_sample_size / last.effective_sample_size:.2g} times that of replace-last:k=5 and "
        f"{mixed.effective_sample_size / most.effective_sample_size:.2g} times that of uniform-insert:k=5, which costs "
        f"users {100.0 * most.price:.2g} %."
    )
    assert equal_price_mixture(found[:2]) is None


def test_advice_names_logs_that_cannot_tell():
    text = " ".join(advise_logging(plans()))
    assert "Logs of replace-last:k=5 cannot tell how users click" in text
    assert "takes, in sessions of" in text


def test_sessions_follow_the_errors():
    falling = tuple(10.0 / math.sqrt(size) for size in FIT_SIZES)
    found = PlannedUsers({"affine": falling, "position-based": (math.inf,) * len(FIT_SIZES)})
    assert found.sessions_to_fit("affine", 0.01) == pytest.approx(10**6, rel=1e-9)
    assert found.sessions_to_fit("affine", 1e-4) == pytest.approx(10**10, rel=1e-9)
    assert found.sessions_to_fit("affine", 1e-9) is None
    assert found.sessions_to_fit("position-based") is None
    assert not found.identified

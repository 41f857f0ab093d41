"""Contexts in click counts and user models, and curves by context estimated together, against the slow way."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import examination, policies
from counterrank.clicks.contexts import _Items, _Known, _shrunk
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import CurvesByContext, Examination, from_description
from counterrank.clicks.position_bias import all_pairs, bradley_terry
from counterrank.clicks.simulation import simulate
from counterrank.common.errors import CounterrankError, DataError, ExaminationWarning
from tests.reference import contexts as naive

DATA = cr.RankingData(np.zeros((60, 1)), np.arange(0, 61, 6), labels=np.arange(60) * 7 % 5)
SCORES = np.sin(np.arange(60.0))
CURVES = {"pc": [1.0, 0.6, 0.4], "phone": [0.9, 0.3, 0.1]}
FREQUENCIES = {"pc": np.arange(1.0, 11.0), "phone": np.arange(10.0, 0.0, -1.0)}


def log_of(curves=CURVES, sessions=40_000, policy=None, names=None, displays=False, seed=0, **options):
    parts = [
        simulate(DATA, SCORES, policy or policies.UniformInsert(k=3), curve, sessions=sessions, seed=seed + i,
                 context=context, query_frequencies=FREQUENCIES.get(context), displays=displays,
                 policy_name=None if names is None else names[i], **options)
        for i, (context, curve) in enumerate(curves.items())
    ]  # fmt: skip
    return ClickCounts.concat(parts)


LOG = log_of()


def quietly(log, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExaminationWarning)
        return examination.estimate(log, **options)


def cells_of(log):
    queries = log.queries()
    columns = (queries, log.docs, log.policies, log.ranks, log.impressions, log.clicks)
    return [
        (int(q), int(d), log.contexts[p], int(r), int(n), int(c)) for q, d, p, r, n, c in zip(*columns, strict=True)
    ]


# --- click counts


def test_contexts_are_entries_of_the_policies():
    assert LOG.contexts == ("pc", "phone")
    assert LOG.policy_names == ("", "")
    assert LOG.distinct_policies == LOG.active_policies == ()
    assert LOG.context_sessions == {"pc": 40_000, "phone": 40_000}
    assert LOG.examination == CurvesByContext({name: Examination(values) for name, values in CURVES.items()})


def test_policies_in_contexts():
    log = log_of(names=["v1", "v2"])
    both = ClickCounts.concat([log, log_of(names=["v2", "v1"], seed=5)])
    assert sorted(zip(both.policy_names, both.contexts, strict=True)) == [
        ("v1", "pc"), ("v1", "phone"), ("v2", "pc"), ("v2", "phone")
    ]  # fmt: skip
    assert both.distinct_policies == ("v1", "v2")
    own = both.only_policies(["v1"])
    assert sorted(own.contexts) == ["pc", "phone"]
    assert own.policy_names == ("v1", "v1")
    assert [source.policy for source in both.known_origin().sources].count("v1") == 2  # one of each log


@pytest.mark.parametrize("displays", [False, True])
def test_storage_round_trip(tmp_path, displays):
    log = log_of(names=["v1", "v2"], displays=displays)
    log.save(tmp_path / "clicks")
    found = ClickCounts.load(tmp_path / "clicks")
    assert found.contexts == log.contexts
    assert found.examination == log.examination
    for name in ("docs", "ranks", "impressions", "clicks", "policies", "policy_sessions", "propensities"):
        np.testing.assert_array_equal(getattr(found, name), getattr(log, name))


def test_folders_without_contexts_say_nothing_of_them(tmp_path):
    """As those of earlier versions, which still load."""
    plain = simulate(DATA, SCORES, policies.UniformInsert(k=3), [1.0, 0.5, 0.2], sessions=100, policy_name="v1")
    plain.save(tmp_path / "clicks")
    assert "contexts" not in json.loads((tmp_path / "clicks" / "clicks.json").read_text())
    assert ClickCounts.load(tmp_path / "clicks").contexts == ()


def test_a_damaged_folder(tmp_path):
    LOG.save(tmp_path / "clicks")
    marker = tmp_path / "clicks" / "clicks.json"
    content = json.loads(marker.read_text()) | {"contexts": ["pc"]}
    marker.write_text(json.dumps(content))
    with pytest.raises(DataError, match="1 contexts of 2 policies"):
        ClickCounts.load(tmp_path / "clicks")


def test_subsets_and_other_data_keep_contexts():
    half = LOG.subset([3, 1])
    assert half.contexts == LOG.contexts
    np.testing.assert_array_equal(half.policy_sessions, LOG.policy_sessions[:, [3, 1]])
    assert half.align(DATA).contexts == LOG.contexts
    only_pc = replace(LOG, policy_sessions=np.stack((LOG.policy_sessions[0], np.zeros(10, np.int64))))
    kept = only_pc.policies == 0
    only_pc = replace(only_pc, **only_pc.cells_at(kept))
    assert only_pc.subset([0, 1]).contexts == ("pc",)


def test_parts_with_and_without_contexts():
    plain = simulate(DATA, SCORES, policies.UniformInsert(k=3), [1.0], sessions=100)
    with pytest.raises(CounterrankError, match="clicks 1: contexts read in some parts"):
        ClickCounts.concat([LOG, plain])


def test_cards_and_frames():
    assert LOG.summary()["sessions_by_context"] == {"pc": 40_000, "phone": 40_000}
    assert "phone" in LOG._repr_html_()
    assert LOG.plot() is not None
    table = LOG.to_arrow()
    assert table.column_names[-1] == "context"
    assert "policy" not in table.column_names


# --- the user model


def test_one_gauge_for_all_contexts(tmp_path):
    users = examination.ByContext({"pc": [0.5, 0.3], "phone": [0.4, 0.1]})
    assert users.alpha["phone"].tolist() == [0.8, 0.2]
    assert users.scale == 2.0
    users.save(tmp_path / "users.json")
    assert examination.load(tmp_path / "users.json") == users
    assert hash(examination.load(tmp_path / "users.json")) == hash(users)
    assert users["phone"] == examination.Affine([0.8, 0.2], [0.0, 0.0])
    assert users._repr_html_()
    assert users.plot() is not None
    assert users.summary()["ranks"] == 2


@given(st.floats(0.0, 0.3), st.floats(0.2, 3.0))
@settings(max_examples=20, deadline=None)
def test_equivalent_affine_inputs_are_one_model(shift, scale):
    """r -> (r - b) / a is the same for all contexts."""
    alpha = {"pc": np.array([0.3, 0.2]), "phone": np.array([0.2, 0.1])}
    beta = {"pc": np.array([0.3, 0.1]), "phone": np.array([0.1, 0.05])}
    users = examination.ByContext(alpha, beta)
    other = examination.ByContext(
        {name: scale * values for name, values in alpha.items()},
        {name: values - shift * alpha[name] for name, values in beta.items()},
    )
    for name in alpha:
        np.testing.assert_allclose(users.alpha[name], other.alpha[name], rtol=1e-9)
        np.testing.assert_allclose(users.beta[name], other.beta[name], atol=1e-9)
    ends = [values for name in alpha for values in (users.beta[name], users.alpha[name] + users.beta[name])]
    assert min(map(np.min, ends)) >= 0.0
    assert max(map(np.max, ends)) == pytest.approx(1.0)


def test_affine_models_by_context_are_saved(tmp_path):
    users = examination.ByContext({"a": [0.5, 0.3], "b": [0.4, 0.1]}, {"a": [0.3, 0.1], "b": [0.3, 0.01]})
    assert users.base is not None
    users.save(tmp_path / "users.json")
    assert examination.load(tmp_path / "users.json") == users


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({},), "at least one"),
        (([1.0],), "values by rank for each context"),
        (({"pc": [1.0, -0.5]},), r"alpha\['pc'\]: -0.5 at rank 2"),
        (({"pc": []},), "no values"),
        (({"pc": [1.0]}, {"tv": [0.1]}), "contexts that alpha has"),
        (({"pc": [1.0]}, {"pc": [0.1]}, [1.0]), "other: given together with beta"),
        (({"pc": examination.inverse_rank()},), "without an end"),
        (({"pc": examination.Affine([0.5, 0.2], [0.2, 0.2])},), "all contexts share one"),
    ],
)
def test_bad_models(arguments, message):
    with pytest.raises(CounterrankError, match=message):
        examination.ByContext(*arguments)


def test_curves_by_context():
    curves = CurvesByContext({"pc": Examination([1.0, 0.5]), "off": None}, Examination([0.7]))
    assert from_description(json.loads(json.dumps(curves.describe()))) == curves
    assert curves.table(["off", "new", "pc"], 2).tolist() == [[0.0, 0.0], [0.7, 0.0], [1.0, 0.5]]
    with pytest.raises(CounterrankError, match="one examination curve"):
        curves.curve(2)
    with pytest.raises(CounterrankError, match="no curve for the context 'tv'"):
        CurvesByContext({"pc": Examination([1.0])}).of("tv")
    with pytest.raises(CounterrankError, match="hold no contexts"):
        curves.table((), 2)


# --- the joint fit


@given(st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_pairs_of_contexts_and_ranks(seed):
    log = log_of(sessions=60, seed=seed)
    items = _Items.of(log, list(log.context_sessions), 3)
    order = [(context, rank) for context in log.context_sessions for rank in (1, 2, 3)]
    from counterrank.clicks.position_bias_kernels import pair_clicks

    np.testing.assert_allclose(pair_clicks(*items.table.cells(), 6), naive.pair_clicks(cells_of(log), order))


def test_unshrunk_curves_are_those_of_all_pairs():
    found = quietly(LOG)
    order = [(context, rank) for context in found.alpha for rank in (1, 2, 3)]
    wins = naive.pair_clicks(cells_of(LOG), order)
    np.testing.assert_allclose(found.unshrunk.ravel(), np.exp(bradley_terry(wins)), rtol=1e-9)
    truth = np.array([CURVES[name] for name in found.alpha])
    np.testing.assert_allclose(found.values, truth / truth[0, 0], rtol=0.15)
    assert found.test.p_value < 1e-10
    assert found.shape_test.p_value < 1e-6


@pytest.mark.parametrize("spread", [(0.0, 0.0), (0.3, 0.1), (0.0, 0.5), (2.0, 0.0)])
def test_shrinkage_is_a_conditional_mean(spread):
    names = ["a", "b", "c"]
    rng = np.random.default_rng(0)
    root = rng.normal(size=(8, 8))
    covariance = root @ root.T / 50.0
    y = rng.normal(size=8)
    known = _Known(
        y, np.hstack((-np.ones((8, 1)), np.eye(8))), covariance, covariance, np.tile(np.eye(3), (3, 1)),
        np.repeat(np.eye(3), 3, axis=0), 50.0, 49,
    )  # fmt: skip
    items = [(name, rank) for name in names for rank in range(3)]
    expected = naive.conditional_mean(y, covariance, items, names, range(3), *spread)
    np.testing.assert_allclose(_shrunk(known, spread).logs, expected, atol=2e-3)


def test_without_differences_all_contexts_get_the_common_curve():
    same = log_of({name: [1.0, 0.5, 0.25] for name in CURVES}, seed=3)
    found = quietly(same)
    assert found.test.p_value > 0.01
    np.testing.assert_allclose(found.values, np.tile(found.common, (2, 1)), rtol=0.05)
    one_curve = quietly(same, by_context=False).values
    np.testing.assert_allclose(found.values[0], one_curve, rtol=0.05)


@given(st.permutations(["pc", "phone", "tv"]))
@settings(max_examples=6, deadline=None)
def test_the_order_of_contexts_does_not_matter(order):
    curves = {**CURVES, "tv": [0.8, 0.7, 0.6]}
    sizes = {"pc": 3000, "phone": 2000, "tv": 1000}
    parts = {
        name: simulate(
            DATA, SCORES, policies.UniformInsert(k=3), curves[name], sessions=sizes[name], seed=i, context=name
        )
        for i, name in enumerate(curves)
    }
    first, second = (quietly(ClickCounts.concat([parts[name] for name in names])) for names in (list(curves), order))
    assert list(first.alpha) == list(second.alpha) == ["pc", "phone", "tv"]
    np.testing.assert_allclose(first.values, second.values, rtol=1e-9)
    np.testing.assert_allclose(first.test.p_value, second.test.p_value, rtol=1e-6, atol=1e-300)


def test_one_context_is_the_plain_estimate():
    one = log_of({"pc": CURVES["pc"]})
    found, plain = quietly(one), quietly(one, by_context=False)
    np.testing.assert_allclose(found.values[0], plain.values, rtol=1e-9)
    np.testing.assert_allclose(found.intervals[0], plain.intervals, rtol=1e-9)
    assert np.isnan(found.test.p_value)


def test_a_context_with_hardly_any_data_gets_the_common_curve():
    tiny = simulate(DATA, SCORES, policies.UniformInsert(k=3), [1.0, 0.9, 0.9], sessions=1, context="tv")
    with pytest.warns(ExaminationWarning, match="too few clicks in 'tv' to compare"):
        found = examination.estimate(ClickCounts.concat([LOG, replace(tiny, clicks=np.zeros(3, np.int64))]))
    np.testing.assert_allclose(found.values[2], found.common)
    assert found.examination.of("unheard of") is not None


def test_contexts_that_share_no_documents_are_refused():
    halves = [np.arange(10) < 5, np.arange(10) >= 5]
    parts = [
        simulate(DATA, SCORES, policies.UniformInsert(k=3), curve, sessions=5000, seed=i, context=name,
                 query_frequencies=own.astype(float))
        for i, ((name, curve), own) in enumerate(zip(CURVES.items(), halves, strict=True))
    ]  # fmt: skip
    with pytest.raises(CounterrankError, match="no chain of documents, clicked in both contexts, links 'phone' with"):
        quietly(ClickCounts.concat(parts))


def test_ranks_that_no_document_moves_between_are_refused():
    log = log_of(policy=policies.ReplaceLast(k=3))
    with pytest.raises(CounterrankError, match="cannot separate position bias from relevance"):
        quietly(log)


def test_contexts_link_ranks():
    """Each context shows a fixed order, but not the same one: documents at several (context, rank) link them."""
    scores = np.random.default_rng(0).random((3, 60))
    parts = [
        simulate(DATA, own, policies.Deterministic(k=3), CURVES["pc"], sessions=200_000, seed=i, context=str(i))
        for i, own in enumerate(scores)
    ]
    with pytest.raises(CounterrankError):
        quietly(parts[0])
    np.testing.assert_allclose(quietly(ClickCounts.concat(parts)).values, np.tile(CURVES["pc"], (3, 1)), rtol=0.1)


def test_bad_arguments():
    with pytest.raises(CounterrankError, match="method 'em': one for all contexts"):
        examination.estimate(LOG, method="em")
    plain = simulate(DATA, SCORES, policies.UniformInsert(k=3), [1.0, 0.5], sessions=100)
    with pytest.raises(CounterrankError, match="hold no contexts"):
        examination.estimate(plain, by_context=True)
    assert quietly(LOG, method="em", by_context=False).method == "em"


def test_estimates_are_saved_and_shown(tmp_path):
    found = quietly(LOG)
    found.save(tmp_path / "curves.json")
    assert examination.load(tmp_path / "curves.json") == found
    assert "phone" in found._repr_html_()
    assert found.plot() is not None
    assert found.summary()["p_values"]["curves"] < 1e-6
    low, high = found.ends()
    assert (low.table(["pc", "phone"], 3) <= found.examination.table(["pc", "phone"], 3) + 1e-12).all()
    assert (found.examination.table(["pc", "phone"], 3) <= high.table(["pc", "phone"], 3) + 1e-12).all()
    assert all_pairs(_Items.of(LOG, ["pc", "phone"], 3).compared()[0]).theta[0] == 1.0

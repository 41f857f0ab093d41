"""The fit of affine users to documents that were shown at several ranks."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from counterrank import examination, policies, simulation
from counterrank.clicks import trust_bias as fits
from counterrank.clicks import trust_bias_kernels as kernels
from counterrank.clicks.display_groups import display_groups
from counterrank.clicks.rank_table import rank_table
from counterrank.clicks.users import ClickModel
from counterrank.common.errors import CounterrankError, ExaminationWarning
from counterrank.data import RankingData
from tests.reference import trust_bias as naive

RANKS, GROUPS, GRID = 3, 2, 7


@st.composite
def documents(draw):
    """Documents of two groups with cells at some of three ranks; some shown once, never clicked or always."""
    found = []
    for _ in range(draw(st.integers(1, 6))):
        ranks = sorted(draw(st.sets(st.integers(0, RANKS - 1), min_size=1)))
        cells = []
        for rank in ranks:
            shown = draw(st.integers(1, 9))
            cells.append((rank, shown, draw(st.integers(0, shown))))
        found.append((draw(st.integers(0, GROUPS - 1)), cells))
    return found


def rows_of(found):
    lengths = [len(cells) for _, cells in found]
    cells = [cell for _, own in found for cell in own]
    ranks, shown, clicked = (np.array(column) for column in zip(*cells, strict=True))
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    groups = np.array([group for group, _ in found], np.int64)
    return kernels.Rows(
        starts, ranks.astype(np.int64), shown.astype(float), clicked.astype(float), groups, np.ones(len(found))
    )


def some_lines(seed, wide=False):
    rng = np.random.default_rng(seed)
    lines = np.stack(
        [rng.uniform(-0.3 if wide else 0.02, 0.1, RANKS), rng.uniform(0.1, 1.3 if wide else 0.8, RANKS)], 1
    )
    lines[0] = 0.0, 1.0
    grid = np.linspace(0.05, 0.95, GRID)
    return fits.Lines(lines, rng.normal(size=GRID), rng.normal(size=(GROUPS, fits.N_TILTS)) / 2.0, grid, 0)


@given(documents(), st.integers(0, 1000), st.booleans())
@settings(max_examples=60, deadline=None)
def test_likelihood_score_and_posterior_are_those_of_the_definition(found, seed, wide):
    at, rows = some_lines(seed, wide), rows_of(found)
    point, priors = at.point(), np.exp(at.log_prior()).tolist()
    expected = naive.log_likelihood(found, at.lines.tolist(), at.grid.tolist(), priors)
    assert kernels.log_likelihood(rows, point, 0, len(found)) == pytest.approx(expected, rel=1e-9)

    n = at.lines.size + GROUPS * GRID
    score, information, whole = np.zeros(n), np.zeros((n, n)), np.zeros(at.lines.size)
    value = kernels.derivatives(rows, point, 0, len(found), score, information, whole)
    assert value == pytest.approx(expected, rel=1e-9)
    # the score of log prior probabilities adds up posteriors, which is the E step of EM
    for group in range(GROUPS):
        own = [naive.posterior(each, at.lines, at.grid, priors) for each in found if each[0] == group]
        here = at.lines.size + group * GRID
        assert score[here : here + GRID] == pytest.approx(np.sum(own, axis=0) if own else np.zeros(GRID), abs=1e-8)

    each = np.zeros((len(found), n))
    kernels.query_scores(rows, np.arange(len(found) + 1), point, 0, len(found), each)
    assert each.sum(axis=0)[: at.lines.size] == pytest.approx(score[: at.lines.size], abs=1e-6)

    means = [float(np.dot(naive.posterior(own, at.lines, at.grid, priors), at.grid)) for own in found]
    profiled = np.zeros((at.lines.size, at.lines.size))
    kernels.profiled_information(rows, point, at.lines, 0, len(found), profiled)
    assert profiled == pytest.approx(np.array(naive.profiled(found, at.lines.tolist(), means)), rel=1e-6, abs=1e-6)


@given(documents(), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_score_and_information_are_derivatives_of_the_penalised_likelihood(found, seed):
    at, rows = some_lines(seed), rows_of(found)
    here = fits.curvature(rows, at)

    def slope(x):
        return fits.curvature(rows, at.moved(x))

    for place in range(at.size):
        step = np.zeros(at.size)
        step[place] = 1e-5
        above, below = slope(step), slope(-step)
        assert (above.value - below.value) / 2e-5 == pytest.approx(here.score[place], abs=1e-4, rel=1e-5)
        assert (below.score - above.score) / 2e-5 == pytest.approx(here.information[:, place], abs=1e-3, rel=1e-4)


@given(documents(), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_a_step_of_em_never_lowers_the_likelihood_that_the_fit_maximises(found, seed):
    at = some_lines(seed)
    lines, grid, priors = at.lines.tolist(), at.grid.tolist(), np.exp(at.log_prior()).tolist()
    after = naive.next_priors(found, lines, grid, priors)
    assert naive.log_likelihood(found, lines, grid, after) >= naive.log_likelihood(found, lines, grid, priors) - 1e-9


@given(documents(), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_equal_documents_are_one_pattern(found, seed):
    twice = rows_of(found + found[:1] + found)
    patterns, point = fits.patterns_of(twice), some_lines(seed).point()
    assert patterns.weights.sum() == 2 * len(found) + 1
    assert len(patterns.groups) == len({repr(each) for each in found})
    value = kernels.log_likelihood(twice, point, 0, len(twice.groups))
    assert kernels.log_likelihood(patterns, point, 0, len(patterns.groups)) == pytest.approx(value, rel=1e-9)


def make_data(n_queries, docs, seed=0, share=0.2):
    rng = np.random.default_rng(seed)
    merit = rng.standard_normal(n_queries * docs)
    scores = 0.5 * merit + np.sqrt(0.75) * rng.standard_normal(len(merit))
    labels = np.where(merit >= np.quantile(merit, 1.0 - share), 4.0, 0.0)
    return RankingData(merit[:, None], np.arange(n_queries + 1) * docs, labels=labels), scores


TRUST = ClickModel(relevant=0.7, other=[0.4, 0.3, 0.2])
EXAM = [1.0, 0.6, 0.4]


def make_log(sessions, policy=None, click_model=TRUST, seed=0, queries=200, docs=8, share=0.2):
    data, scores = make_data(queries, docs, share=share)
    return simulation.simulate(
        data,
        scores,
        policies.UniformInsert(3) if policy is None else policy,
        examination.Examination(EXAM),
        sessions=sessions,
        seed=seed,
        relevance_threshold=3,
        click_model=click_model,
    )


def estimated(log, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExaminationWarning)
        return examination.estimate(log, model="affine", **more)


def test_groups_are_places_of_the_logging_order():
    clicks = make_log(20_000)
    _, scores = make_data(200, 8)
    table = rank_table(clicks, 3)
    groups = display_groups(table, clicks.sessions[table.docs // 8].astype(float))
    place = np.argsort(np.argsort(-scores.reshape(200, 8), axis=1), axis=1).ravel()[table.docs]
    for group in range(groups.max() + 1):
        assert len(np.unique(np.minimum(place[groups == group], 2))) == 1  # the head has 2 places
    assert np.mean(groups < 0) < 0.01
    assert (display_groups(table, np.full(table.n_docs, 2.0)) == -1).all()


def test_groups_do_not_depend_on_clicks():
    clicks = make_log(20_000)
    table = rank_table(clicks, 3)
    sessions = clicks.sessions[table.docs // 8].astype(float)
    other = replace(table, clicks=np.zeros_like(table.clicks))
    assert (display_groups(table, sessions) == display_groups(other, sessions)).all()


def test_groups_are_halved_where_ranks_differ_between_documents():
    """Under plackett-luce with strong scores documents of one place are displayed differently in each query."""
    data, scores = make_data(300, 8)
    log = simulation.simulate(
        data, 2.0 * scores, policies.PlackettLuce(3), examination.Examination(EXAM), sessions=60_000, seed=0
    )
    table = rank_table(log, 3)
    groups = display_groups(table, log.sessions[table.docs // 8].astype(float))
    depth = table.by_document(table.impressions * table.ranks) / table.by_document(table.impressions)
    inside = sum(np.var(depth[groups == g]) * np.mean(groups == g) for g in range(groups.max() + 1))
    assert groups.max() >= 5
    assert inside < 0.3 * np.var(depth)


@pytest.mark.parametrize("policy", [policies.UniformInsert(3), policies.PlackettLuce(3)])
def test_trust_bias_is_recovered(policy):
    """Over seeds 0 to 9 the largest errors were 3.6 % of a ratio and 0.006 of beta, and all tests rejected."""
    found = estimated(make_log(400_000, policy))
    truth = examination.Affine(*TRUST.affine(EXAM, 3))
    assert found.ratios == pytest.approx(truth.alpha / truth.alpha[0], rel=0.06)
    assert found.beta == pytest.approx(truth.beta, abs=0.015)
    assert found.test.p_value < 1e-6
    assert found.target == "queries"
    assert found.n_queries == 200


def test_position_based_users_have_no_beta(tmp_path):
    """Over seeds 0 to 9 the largest errors were 0.009 of alpha and 0.007 of beta; the smallest p-value was 0.05."""
    found = estimated(make_log(200_000, click_model=ClickModel(relevant=0.7, other=0.2)))
    assert found.alpha == pytest.approx(EXAM, abs=0.02)
    assert found.beta == pytest.approx(np.zeros(3), abs=0.02)
    assert found.test.p_value > 1e-3
    found.save(tmp_path / "users.json")
    again = examination.load(tmp_path / "users.json")
    assert again == found
    assert again.facts() == found.facts()


def p_values(n_logs, queries, docs, sessions, spread):
    """Of the test against trust bias, for logs of position-based users; relevance scatters about its trend."""
    found, n = [], queries * docs
    curve, order = np.array([1.0, 0.6, 0.45, 0.35, 0.28]), np.tile(np.arange(docs, dtype=float), queries)
    data = RankingData(np.zeros((n, 1)), np.arange(queries + 1) * docs, np.full(n, 4.0))
    for seed in range(n_logs):
        rng = np.random.default_rng([seed, queries, sessions])
        relevance = np.clip(0.5 - 0.3 * order / docs + spread * rng.normal(size=n), 0.03, 0.95)
        shown = simulation.simulate(
            data, -order, policies.UniformInsert(5), curve, sessions=queries * sessions, seed=seed, propensities=False
        )
        clicked = rng.binomial(shown.impressions, curve[shown.ranks - 1] * relevance[shown.docs])
        try:
            found.append(estimated(replace(shown, clicks=clicked, examination=None)).test.p_value)
        except CounterrankError:  # not identified, which rejects nothing
            found.append(1.0)
    return np.array(found)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n_logs", "queries", "docs", "sessions"), [(100, 60, 10, 100), (50, 40, 12, 500)], ids=["few-clicks", "many"]
)
def test_position_based_users_are_rejected_no_more_often_than_the_level(n_logs, queries, docs, sessions):
    """At the 5 % and the 1 % level; each bound is exceeded by chance in less than 0.5 % of fresh seeds."""
    found = p_values(n_logs, queries, docs, sessions, 0.2)
    for level in (0.05, 0.01):
        assert (found < level).sum() <= binom.ppf(0.995, n_logs, level)


def test_the_grid_is_as_fine_as_clicks_tell_relevance_and_no_finer_than_a_start_costs():
    sizes = []
    for sessions in (2_000, 100_000, 2_000_000):
        clicks = make_log(sessions, click_model=ClickModel(relevant=0.7, other=0.2), queries=40)
        table = rank_table(clicks, 3)
        groups = display_groups(table, clicks.sessions[table.docs // 8].astype(float))
        sizes.append(len(fits.fit_lines(table, groups, np.array(EXAM))[0].grid))
    assert sizes[0] == fits.N_GRID
    assert sizes[0] < sizes[1] <= sizes[2] <= fits._MOST_GRID


def test_estimates_are_in_the_canonical_gauge_and_inside_their_intervals():
    found = estimated(make_log(30_000), confidence=0.9)
    assert found.confidence == 0.9
    assert found.beta.min() == 0.0
    assert (found.alpha + found.beta).max() == pytest.approx(1.0, abs=1e-9)
    for values, ends in ((found.alpha, found.alpha_interval), (found.beta, found.beta_interval)):
        assert (ends[:, 0] - 1e-9 <= values).all()
        assert (values <= ends[:, 1] + 1e-9).all()
    assert found.ratio_interval[0].tolist() == [1.0, 1.0]
    wider = estimated(make_log(30_000), confidence=0.99)
    assert (np.diff(wider.ratio_interval) >= np.diff(found.ratio_interval)).all()


def test_results_do_not_depend_on_threads(monkeypatch):
    log, found = make_log(20_000), []
    for threads in ("1", "3"):
        monkeypatch.setenv("COUNTERRANK_THREADS", threads)
        found.append(estimated(log))
    assert found[0].facts() == found[1].facts()
    assert found[0] == found[1]


def test_replace_last_is_refused():
    with pytest.raises(CounterrankError, match="cannot separate position bias from relevance"):
        estimated(make_log(20_000, policies.ReplaceLast(3)))


def test_documents_of_equal_relevance_are_refused():
    data = RankingData(np.zeros((1600, 1)), np.arange(201) * 8, labels=np.full(1600, 4.0))
    scores = np.random.default_rng(0).standard_normal(1600)
    log = simulation.simulate(
        data, scores, policies.UniformInsert(3), EXAM, sessions=50_000, seed=0, click_model=ClickModel(relevant=0.5)
    )
    with pytest.raises(CounterrankError, match="documents of different relevance"):
        estimated(log)


def test_queries_of_single_sessions_are_refused():
    with pytest.raises(CounterrankError, match="no query has 3 sessions"):
        estimated(make_log(150, policies.PlackettLuce(3, temperature=10.0), queries=1000))


def test_methods_belong_to_models():
    log = make_log(1000)
    with pytest.raises(CounterrankError, match="method='em': expected one of 'documents', 'features'"):
        examination.estimate(log, model="affine", method="em")
    with pytest.raises(CounterrankError, match="model="):
        examination.estimate(log, model="cascade")

"""Users whose clicks depend on each other: models, counts by last click, simulation, fits, and what they feed."""

import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import counterrank as cr
from counterrank import estimators, examination, policies, simulation
from counterrank.clicks.displays import Displays, with_patterns
from counterrank.clicks.last_clicks import LastClicks, last_clicks_above
from counterrank.common.errors import CounterrankError, DataError, LogWarning
from tests.reference.browsing import chances_of, last_click, page_patterns
from tests.support.spark_cluster import needs_spark

BROWSING = examination.Browsing([[0.9], [0.5, 0.8], [0.2, 0.4, 0.7]])
DEPENDENT = examination.Dependent([0.3, 0.8])
NOISE = simulation.ClickModel(0.8, 0.3)
COLUMNS = ("docs", "ranks", "above", "impressions", "clicks", "policies")


def small_data():
    return cr.RankingData(np.zeros((8, 1)), [0, 3, 8], labels=[4, 0, 4, 0, 4, 0, 0, 4])


def simulated(users, policy, sessions, seed=0, **more):
    scores = np.arange(8.0)[::-1].copy()
    model = None if isinstance(users, examination.Affine) else NOISE
    return simulation.simulate(
        small_data(), scores, policy, users, sessions=sessions, seed=seed, click_model=model, **more
    )


def pages_of(clicks):
    """(documents, pattern) of each kept page, and its sessions."""
    pages = clicks.displays
    found = Counter()
    for i in range(pages.n_pages):
        docs = tuple(pages.docs[pages.offsets[i] : pages.offsets[i + 1]].tolist())
        pattern = tuple((int(pages.patterns[i]) >> j) & 1 for j in range(len(docs)))
        found[docs, pattern] += int(pages.sessions[i])
    return found


def same_rows(one, other):
    return all(
        (getattr(one, name) is None) == (getattr(other, name) is None)
        and (getattr(one, name) is None or np.array_equal(getattr(one, name), getattr(other, name)))
        for name in COLUMNS
    )


def random_log(n=200, seed=0):
    """Pages of 1 to 4 documents of 3 queries, of two policies, as a frame."""
    rng = np.random.default_rng(seed)
    rows = []
    for session in range(n):
        query, docs = rng.integers(3), rng.permutation(6)[: rng.integers(1, 5)]
        for rank, doc in enumerate(docs, 1):
            rows.append((session, f"q{query}", int(doc), rank, int(rng.random() < 0.4), "ab"[session % 2]))
    return pd.DataFrame(rows, columns=["session_id", "query_id", "doc_id", "rank", "clicked", "policy"])


def last_clicks_of(frame):
    """(query, document, rank, last click above, policy) -> [impressions, clicks], page by page."""
    found = {}
    for _, page in frame.groupby("session_id"):
        last = 0
        for row in page.sort_values("rank").itertuples():
            counts = found.setdefault((row.query_id, row.doc_id, row.rank, last, row.policy), [0, 0])
            counts[0] += 1
            counts[1] += row.clicked
            last = row.rank if row.clicked else last
    return found


def named_rows(counts):
    rows, queries = counts.last_clicks, np.repeat(np.arange(counts.n_queries), np.diff(counts.offsets))
    return {
        (str(counts.query_ids[queries[d]]), int(counts.doc_ids[d]), int(r), int(a), counts.policy_names[p]): [i, c]
        for d, r, a, i, c, p in zip(*(getattr(rows, name).tolist() for name in COLUMNS), strict=True)
    }


# models


@pytest.mark.parametrize("users", [BROWSING, DEPENDENT])
def test_models_are_saved_and_loaded(users, tmp_path):
    users.save(tmp_path / "users.json")
    again = examination.load(tmp_path / "users.json")
    assert again == users
    assert hash(again) == hash(users)
    assert users.summary()["ranks"] == 3
    assert "P(examined)" in users._repr_html_()
    assert users.plot() is not None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: examination.Browsing([]), "at least one"),
        (lambda: examination.Browsing([[1.0], [0.5]]), r"gamma\[1\]"),
        (lambda: examination.Browsing([[1.0], [0.5, 1.5]]), "probabilities from 0 to 1"),
        (lambda: examination.Browsing([[0.0]]), "0 everywhere"),
        (lambda: examination.Dependent([0.5, -0.1]), "probabilities from 0 to 1"),
        (lambda: examination.Dependent([0.5], attractiveness=2), "attractiveness"),
    ],
)
def test_what_is_no_model_is_refused(make, message):
    with pytest.raises(CounterrankError, match=message):
        make()


@settings(max_examples=30)
@given(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=4), st.floats(0.0, 1.0), st.booleans())
def test_average_curve_is_that_of_all_patterns(values, attractiveness, dependent):
    if dependent:
        users = examination.Dependent(values, attractiveness)
    else:
        gamma = [[(a + b) / 2 for b in values[: i + 1]] for i, a in enumerate(values)]
        users = examination.Browsing(gamma, attractiveness)
    patterns = page_patterns([attractiveness] * users.k, *chances_of(users))
    assert sum(p for p, _ in patterns.values()) == pytest.approx(1.0)
    expected = [sum(p * seen[i] for p, seen in patterns.values()) for i in range(users.k)]
    assert users.examination.curve(users.k) == pytest.approx(np.array(expected))


def test_without_dependence_they_are_position_based():
    theta = np.array([1.0, 0.6, 0.3])
    constant = examination.Browsing([np.full(j, theta[j - 1]) for j in (1, 2, 3)])
    assert constant.examination.curve(3) == pytest.approx(theta)
    clicks = simulated(examination.Examination(theta), policies.UniformInsert(3), 5000, displays=True, last_clicks=True)
    assert constant.realised(clicks) == pytest.approx(theta[clicks.ranks - 1])
    sure = examination.Dependent([1.0, 1.0])
    assert sure.examination.curve(4).tolist() == [1.0, 1.0, 1.0, 0.0]
    assert sure.realised(clicks).tolist() == [1.0] * len(clicks.docs)
    assert sure.importance_weights(clicks).tolist() == [1.0] * len(clicks.docs)


# counts by last click


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), max_size=6))
def test_last_clicks_above(pages):
    offsets = np.concatenate(([0], np.cumsum([len(page) for page in pages]))).astype(np.int64)
    clicked = np.array([each for page in pages for each in page], np.bool_)
    expected = [last_click(page, rank) for page in pages for rank in range(1, len(page) + 1)]
    assert last_clicks_above(offsets, clicked).tolist() == expected


def test_log_is_counted_by_last_click(tmp_path):
    frame = random_log()
    counts = cr.read_log(frame, displays=True, last_clicks=True)
    assert named_rows(counts) == last_clicks_of(frame)
    patterns = Counter()
    for _, page in frame.sort_values("rank").groupby("session_id"):
        patterns[tuple(page.doc_id), tuple(page.clicked)] += 1
    ids = counts.doc_ids
    found = Counter()
    for (docs, pattern), n in pages_of(counts).items():
        found[tuple(int(ids[d]) for d in docs), pattern] += n
    assert found == patterns
    counts.save(tmp_path / "counts")
    loaded = cr.ClickCounts.load(tmp_path / "counts")
    assert same_rows(loaded.last_clicks, counts.last_clicks)
    assert np.array_equal(loaded.displays.patterns, counts.displays.patterns)
    assert cr.read_log(frame).last_clicks is None
    assert cr.read_log(frame, displays=True).displays.patterns is None


def test_counts_by_last_click_are_split_joined_and_aligned():
    frame = random_log()
    counts = cr.read_log(frame, displays=True, last_clicks=True)
    parts = [counts.only_policies([name]) for name in counts.policy_names]
    for part, name in zip(parts, counts.policy_names, strict=True):
        assert named_rows(part) == last_clicks_of(frame[frame.policy == name])
    joined = cr.ClickCounts.concat(parts)
    assert same_rows(joined.last_clicks, counts.last_clicks)
    assert pages_of(joined) == pages_of(counts)
    some = counts.subset([2, 0])
    assert named_rows(some) == last_clicks_of(frame[frame.query_id.isin(["q0", "q2"])])
    ids = [[f"q{q}", doc] for q in (2, 1, 0) for doc in range(6)]
    data = cr.RankingData(
        np.zeros((18, 1)), [0, 6, 12, 18], query_ids=["q2", "q1", "q0"], doc_ids=[doc for _, doc in ids]
    )
    against = cr.read_log(frame, data, last_clicks=True)
    assert named_rows(against) == last_clicks_of(frame)
    bigger = cr.RankingData(np.zeros((21, 1)), [0, 7, 14, 21], query_ids=["q1", "q0", "q2"], doc_ids=[6, *range(6)] * 3)
    assert named_rows(against.align(bigger)) == last_clicks_of(frame)
    with pytest.raises(CounterrankError, match="last_clicks kept in some parts"):
        cr.ClickCounts.concat([parts[0], cr.read_log(frame[frame.policy == "b"], displays=True)])


def test_clicks_on_unknown_documents_are_clicks_above():
    frame = pd.DataFrame(
        {"session_id": 1, "query_id": "q", "doc_id": [7, 8, 9], "rank": [1, 2, 3], "clicked": [1, 0, 1]}
    )
    data = cr.RankingData(np.zeros((2, 1)), [0, 2], query_ids=["q"], doc_ids=[8, 9])
    with pytest.warns(LogWarning):
        counts = cr.read_log(frame, data, last_clicks=True)
    assert counts.last_clicks.above.tolist() == [1, 1]


def test_damaged_folder_is_refused(tmp_path):
    counts = cr.read_log(random_log(), last_clicks=True)
    rows = counts.last_clicks
    bad = LastClicks(rows.docs, rows.ranks, rows.ranks, rows.impressions, rows.clicks, rows.policies)
    object.__setattr__(counts, "last_clicks", bad)
    counts.save(tmp_path / "counts")
    with pytest.raises(DataError, match="last click"):
        cr.ClickCounts.load(tmp_path / "counts")


def test_pages_are_too_long_for_patterns():
    pages = Displays(np.array([0, 63]), np.arange(63), np.array([1]), np.zeros(63, np.int64))
    with pytest.raises(CounterrankError, match="at most 62"):
        with_patterns(pages)


@needs_spark
def test_spark_counts_as_duckdb_does(tmp_path):
    frame = random_log()
    frame.to_parquet(tmp_path / "log.parquet")
    one, other = (
        cr.read_log(tmp_path / "log.parquet", displays=True, last_clicks=True, engine=engine)
        for engine in ("duckdb", "spark")
    )
    assert same_rows(one.last_clicks, other.last_clicks)
    assert pages_of(one) == pages_of(other)


# simulation


@pytest.mark.statistical
@pytest.mark.representative
@pytest.mark.parametrize("users", [BROWSING, DEPENDENT, examination.inverse_rank(3)])
@pytest.mark.parametrize("policy", [policies.UniformInsert(3), policies.PlackettLuce(3), policies.ReplaceLast(3)])
def test_patterns_have_the_probabilities_of_the_reference(users, policy):
    """A chi-square test over all pages and patterns; fails once in 1,000 fresh seeds, for each of 9 cases."""
    clicks = simulated(users, policy, 100_000, seed=3, displays=True, last_clicks=True)
    attraction = np.where(np.asarray(small_data().labels) >= 3, 0.8, 0.3)
    if isinstance(users, examination.Examination):
        theta = users.curve(3)
        users = examination.Browsing([np.full(j, theta[j - 1]) for j in (1, 2, 3)])
    found = pages_of(clicks)
    sessions = Counter()
    for (docs, _), n in found.items():
        sessions[docs] += n
    statistic = freedom = 0
    for docs, n in sessions.items():
        for pattern, (p, _) in page_patterns(attraction[list(docs)], *chances_of(users)).items():
            if n * p >= 5.0:
                statistic += (found[docs, pattern] - n * p) ** 2 / (n * p)
                freedom += 1
    assert stats.chi2.sf(statistic, freedom) > 0.001
    again = Counter()
    for (docs, pattern), n in found.items():
        for rank, doc in enumerate(docs, 1):
            again[doc, rank, last_click(pattern, rank), 0] += n
            again[doc, rank, last_click(pattern, rank), 1] += n * pattern[rank - 1]
    rows = clicks.last_clicks
    for d, r, a, i, c in zip(rows.docs, rows.ranks, rows.above, rows.impressions, rows.clicks, strict=True):
        assert (again[d, r, a, 0], again[d, r, a, 1]) == (i, c)


class _Own:
    """A policy of one's own, whose pages are drawn one by one: the same as uniform-insert."""

    def sample(self, scores, offsets, seed):
        return policies.UniformInsert(3).sample(scores, offsets, seed)

    def propensity(self, scores, offsets, exam):
        return policies.UniformInsert(3).propensity(scores, offsets, exam)


@pytest.mark.statistical
@pytest.mark.parametrize("users", [BROWSING, DEPENDENT])
def test_all_ways_to_simulate_agree(users):
    """Pages together, each session by itself, up to a number of clicks: click rates by rank and last click within 4.5
    standard errors; fails once in 5,000 fresh seeds."""
    policy = policies.UniformInsert(3)
    runs = [
        simulated(users, policy, 60_000, seed=1, last_clicks=True),
        simulated(users, policy, 60_000, seed=2, last_clicks=True, displays=True),
        simulated(users, _Own(), 60_000, seed=3, last_clicks=True),
        simulation.simulate(
            small_data(),
            np.arange(8.0)[::-1],
            policy,
            users,
            clicks=60_000,
            seed=4,
            click_model=NOISE,
            last_clicks=True,
        ),
    ]
    assert runs[3].n_clicks >= 60_000
    tables = []
    for run in runs:
        rows = run.last_clicks
        assert run.examination is None
        assert run.propensities is None
        tables.append(np.stack([np.bincount(rows.pairs(), v, 6) for v in (rows.impressions, rows.clicks)]))
    pooled = sum(tables)
    rate = pooled[1] / pooled[0]
    for shown, clicked in tables:
        errors = np.sqrt(shown * rate * (1 - rate))
        assert (np.abs(clicked - shown * rate) <= 4.5 * errors + 1e-9).all()


def test_simulation_does_not_depend_on_threads():
    runs = [
        simulated(BROWSING, policies.UniformInsert(3), 2000, threads=n, displays=True, last_clicks=True) for n in (1, 2)
    ]
    assert same_rows(runs[0].last_clicks, runs[1].last_clicks)
    assert pages_of(runs[0]) == pages_of(runs[1])


def test_affine_users_are_simulated():
    users = examination.Affine([0.5, 0.25], [0.2, 0.05], relevance=(0.1, 0.9))
    clicks = simulated(users, policies.UniformInsert(2), 200_000, seed=5)
    low, high = users.relevance
    r = np.where(np.asarray(small_data().labels) >= 3, high, low)[clicks.docs]
    expected = users.alpha[clicks.ranks - 1] * r + users.beta[clicks.ranks - 1]
    errors = np.sqrt(clicks.impressions * expected * (1 - expected))
    assert (np.abs(clicks.clicks - clicks.impressions * expected) < 5 * errors).all()  # once in 10^5 seeds
    with pytest.raises(CounterrankError, match="trust bias"):
        simulation.simulate(small_data(), np.zeros(8), policies.UniformInsert(2), users, sessions=10, click_model=NOISE)


def test_long_pages_are_refused():
    data = cr.RankingData(np.zeros((70, 1)), [0, 70], labels=np.full(70, 4))
    with pytest.raises(CounterrankError, match="at most 62"):
        simulation.simulate(data, np.zeros(70), policies.Deterministic(70), BROWSING, sessions=10)


# what was examined


@pytest.mark.statistical
@pytest.mark.representative
@pytest.mark.parametrize("users", [BROWSING, DEPENDENT, examination.Dependent([0.0, 0.0])])
def test_realised_examinations_are_those_of_the_reference(users):
    """Of documents: within 1 % of the posterior means with the true attractiveness, which 300,000 sessions tell to a
    standard error of 0.2 % (EM) or exactly; fails less than once in 1,000 fresh seeds."""
    clicks = simulated(users, policies.UniformInsert(3), 300_000, seed=7, displays=True, last_clicks=True)
    attraction = np.where(np.asarray(small_data().labels) >= 3, 0.8, 0.3)
    expected = np.zeros(8)
    for (docs, pattern), n in pages_of(clicks).items():
        seen = page_patterns(attraction[list(docs)], *chances_of(users))[pattern][1]
        if isinstance(users, examination.Browsing):  # by the clicks above alone
            seen = [users.gamma[rank - 1][last_click(pattern, rank)] for rank in range(1, len(docs) + 1)]
        np.add.at(expected, list(docs), n * np.array(seen))
    found = clicks.by_document(clicks.impressions * users.realised(clicks))
    assert found == pytest.approx(expected, rel=1e-9 if isinstance(users, examination.Browsing) else 0.01)


@pytest.mark.parametrize("users", [BROWSING, DEPENDENT])
def test_clicks_without_last_clicks_are_refused(users):
    clicks = simulated(users, policies.UniformInsert(3), 100)
    with pytest.raises(CounterrankError, match="last_clicks=True"):
        estimators.policy_aware(clicks, exam=users)
    with pytest.raises(CounterrankError, match="last_clicks=True"):
        examination.estimate(clicks, model="browsing" if users is BROWSING else "dependent")


def test_importance_weights_of_one_page():
    pages = Displays(np.array([0, 3]), np.arange(3), np.array([4]), np.array([4, 4, 4]))
    one = np.ones(3, np.int64)
    clicks = cr.ClickCounts(
        "", np.array([0, 3]), np.array([4]), np.arange(3), np.arange(1, 4), 4 * one, 4 * one,
        displays=with_patterns(pages),
    )  # fmt: skip
    assert DEPENDENT.importance_weights(clicks) == pytest.approx(np.array([1.0, 1 / 0.3, 1 / 0.24]))
    with pytest.raises(CounterrankError, match="nobody goes on"):
        examination.Dependent([0.0, 0.5]).importance_weights(clicks)


@pytest.mark.statistical
@pytest.mark.representative
def test_weights_are_unbiased_under_their_users_and_biased_under_others():
    """Mean weight per session of 400 logs of 500 sessions against the attractiveness, within 4.5 standard errors for
    each of 8 documents under the right model (fails once in 10,000 fresh seeds), and beyond 10 under the wrong one."""
    data, policy = small_data(), policies.UniformInsert(3)
    scores = np.arange(8.0)[::-1].copy()
    attraction = np.where(np.asarray(data.labels) >= 3, 0.8, 0.3)
    shown = policy.propensity(scores, data.offsets, DEPENDENT.shown)
    gathered = {name: [] for name in ("browsing", "weights", "plain", "by rank")}
    for seed in range(400):
        of_browsing = simulated(BROWSING, policy, 500, seed=seed, last_clicks=True)
        of_dependent = simulated(DEPENDENT, policy, 500, seed=seed, displays=True, last_clicks=True)
        sessions = [np.repeat(each.sessions, np.diff(each.offsets)) for each in (of_browsing, of_dependent)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = {
                "browsing": estimators.policy_aware(of_browsing, exam=BROWSING) / sessions[0],
                "by rank": estimators.policy_aware(of_browsing, exam=[0.9, 0.5, 0.2]) / sessions[0],
                "weights": estimators.policy_aware(of_dependent, shown, exam=DEPENDENT) / sessions[1],
                "plain": estimators.policy_aware(of_dependent, shown) / sessions[1],
            }
        for name, weights in found.items():
            gathered[name].append(weights)
    z = {}
    for name, runs in gathered.items():
        means, errors = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs))
        z[name] = np.abs(means - attraction) / errors
    assert z["browsing"].max() < 4.5
    assert z["weights"].max() < 4.5
    assert z["plain"].max() > 10
    assert z["by rank"].max() > 10


def test_users_are_taken_by_all_ways_to_give_them():
    clicks = simulated(BROWSING, policies.UniformInsert(3), 20_000, seed=2, displays=True, last_clicks=True)
    scores = np.arange(8.0)[::-1].copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evidence = estimators.Evidence(clicks, exam=BROWSING)
        times = evidence.examinations.times
        assert times == pytest.approx(clicks.by_document(clicks.impressions * BROWSING.realised(clicks)))
        assert evidence.propensity_source == "realised"
        with_policy = estimators.Evidence(clicks, exam=BROWSING, policy=policies.UniformInsert(3), scores=scores)
        assert with_policy.propensity_source == "realised"
        relevance = np.full(8, 0.5)
        for name in ("shrinkage", "doubly_robust"):
            weights = getattr(estimators, name)(clicks, None, relevance, exam=BROWSING)
            rates = weights / np.repeat(clicks.sessions, np.diff(clicks.offsets))
            assert rates == pytest.approx(np.where(np.asarray(small_data().labels) >= 3, 0.8, 0.3), abs=0.1)
        rates = cr.click_rates(clicks, exam=BROWSING)
        assert len(rates) == 8
        with pytest.raises(CounterrankError, match="user browsing model"):
            estimators.policy_aware(clicks, np.full(8, 0.5), exam=BROWSING)


# fits


@pytest.fixture(scope="module")
def larger_data():
    data = cr.make_ranking_data("mslr", n_queries=60, seed=0)
    return data, np.array(data.features[:, 0])


def fitted(users, data, policy, sessions, seed, **more):
    clicks = simulation.simulate(
        data[0], data[1], policy, users, sessions=sessions, seed=seed, displays=True, last_clicks=True,
        click_model=simulation.ClickModel(0.69, 0.36),
    )  # fmt: skip
    model = "browsing" if isinstance(users, examination.Browsing) else "dependent"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return examination.estimate(clicks, model=model, **more)


@pytest.mark.statistical
@pytest.mark.representative
@pytest.mark.parametrize("method", ["all-pairs", "em"])
def test_browsing_users_are_found_again(larger_data, method, tmp_path):
    """Values within 0.05 of the truth (3 % of the largest, 4 standard errors), with many impressions of a document."""
    users = examination.Browsing([[1.0], [0.5, 0.7], [0.3, 0.4, 0.6]])
    found = fitted(users, larger_data, policies.UniformInsert(3), 1_000_000, 1, method=method)
    assert np.concatenate(found.gamma) == pytest.approx(np.concatenate(users.gamma), abs=0.05)
    found.save(tmp_path / "users.json")
    again = examination.load(tmp_path / "users.json")
    assert again == found
    assert again.facts == found.facts
    with pytest.raises(CounterrankError, match="shows each document at one rank"):
        fitted(users, larger_data, policies.ReplaceLast(3), 10_000, 1)


@pytest.mark.statistical
@pytest.mark.representative
def test_continuation_is_found_with_few_impressions(larger_data, tmp_path):
    """lambda by comparing documents directly below a click with others, also where documents do not move: the mean of
    30 logs of 20,000 sessions within 4.5 standard errors, fails once in 10,000 fresh seeds. The share of clicks that
    are not the last of their page is far off."""
    users = examination.Dependent([0.8, 0.6])
    for policy in (policies.UniformInsert(3), policies.ReplaceLast(3)):
        runs = [fitted(users, larger_data, policy, 20_000, seed) for seed in range(30)]
        found = np.array([run.continuation for run in runs])
        errors = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        assert (np.abs(found.mean(axis=0) - [0.8, 0.6]) < 4.5 * errors + 0.005).all()
        held = np.mean([(run.intervals[:, 0] < [0.8, 0.6]) & (run.intervals[:, 1] > [0.8, 0.6]) for run in runs])
        assert held > 0.8  # of 60 intervals at 95 %; fails once in 10^5 seeds
    runs[0].save(tmp_path / "users.json")
    assert examination.load(tmp_path / "users.json") == runs[0]


@pytest.mark.statistical
def test_continuation_by_em(larger_data):
    """With 20 impressions of a document and more, within 0.05 of the truth, 3 standard errors and more."""
    users = examination.Dependent([0.8, 0.6])
    found = fitted(users, larger_data, policies.UniformInsert(3), 100_000, 1, method="em")
    assert found.continuation == pytest.approx([0.8, 0.6], abs=0.05)
    with pytest.raises(CounterrankError, match="these-queries"):
        fitted(users, larger_data, policies.UniformInsert(3), 1000, 1, method="em", population="these-queries")

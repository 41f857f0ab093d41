"""`examination.estimate`: known curves found again, refusals, warnings, intervals, files."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

from counterrank import RankingData, examination, policies, simulation
from counterrank.clicks import read_log
from counterrank.clicks.counts import SHOWN_ONLY
from counterrank.clicks.policies.parsing import parse_examination
from counterrank.clicks.position_bias import all_pairs, em, regression_em
from counterrank.clicks.rank_table import interventional_set, rank_table
from counterrank.common.errors import CounterrankError, DataError, ExaminationWarning, MissingFileError
from tests.support.paths import SHARED

pytestmark = pytest.mark.filterwarnings("ignore::counterrank.common.errors.ExaminationWarning")
YANDEX = SHARED / "clicklog-yandex" / "log.csv.gz"
TRUE = 1.0 / np.arange(1, 11)


def world(n_queries, n_docs=30, relevant=0.4, seed=0):
    """Queries whose scores, of standard deviation 1, correlate 0.5 with what makes documents relevant."""
    rng = np.random.default_rng(seed)
    n = n_queries * n_docs
    worth = rng.standard_normal(n)
    scores = 0.5 * worth + np.sqrt(0.75) * rng.standard_normal(n)
    features = np.stack([worth, rng.standard_normal(n)], axis=1).astype(np.float32)
    labels = np.where(worth >= np.quantile(worth, 1.0 - relevant), 4.0, 0.0)
    return RankingData(features, np.arange(n_queries + 1) * n_docs, labels), scores


def log_of(data, scores, sessions, policy=None, exam=None, seed=1):
    policy = policies.PlackettLuce(k=10) if policy is None else policy
    exam = examination.inverse_rank(k=10) if exam is None else exam
    return simulation.simulate(data, scores, policy, exam, sessions=sessions, seed=seed, propensities=False)


@pytest.fixture(scope="module")
def large():
    data, scores = world(500)
    return data, log_of(data, scores, 10**6)


@pytest.fixture(scope="module")
def small():
    data, scores = world(60, n_docs=12)
    policy, exam = policies.PlackettLuce(k=4), examination.inverse_rank(k=4)
    return data, log_of(data, scores, 30_000, policy, exam)


@pytest.mark.parametrize(("method", "limit"), [("all-pairs", 0.05), ("em", 0.10)])
def test_a_known_curve_is_found_again(large, method, limit):
    """500 queries of 30 documents, 10^6 sessions; `benchmarks.position_bias` repeats it with other seeds."""
    found = examination.estimate(large[1], method=method)
    assert np.abs(found.values / TRUE - 1.0).max() < limit
    assert found.ranks.tolist() == list(range(1, 11))
    assert found.values[0] == 1.0
    assert found.intervals[0].tolist() == [1.0, 1.0]
    assert found.warnings == ()
    assert (found.target, found.n_queries, found.n_sessions) == ("queries", 500, 10**6)


def test_the_naive_curve_is_wrong_there(large):
    """Click rates by rank mix position and documents, 15 % at rank 10: what makes the estimate necessary."""
    clicks = large[1]
    rates = clicks.by_rank(clicks.clicks) / clicks.by_rank(clicks.impressions)
    assert np.abs(rates / rates[0] / TRUE - 1.0).max() > 0.12


@pytest.mark.parametrize("curve", [[1.0, 0.9, 0.2, 0.15], [0.5, 0.4, 0.45, 0.1]])
def test_other_curves_up_to_their_scale(curve):
    """Also one that rises, and one whose first rank is not always examined. Errors: 4 standard deviations or so."""
    data, scores = world(200, n_docs=12)
    log = log_of(data, scores, 400_000, policies.PlackettLuce(k=4), examination.Examination(curve))
    for method in ("all-pairs", "em"):
        found = examination.estimate(log, method=method)
        assert found.values == pytest.approx(np.array(curve) / curve[0], rel=0.03)
        assert found.examination.curve(4) == pytest.approx(found.values, rel=1e-12)


def test_uniform_insert_connects_what_replace_last_does_not():
    data, scores = world(300, n_docs=10)
    exam = examination.inverse_rank(k=4)
    log = log_of(data, scores, 600_000, policies.UniformInsert(k=4), exam)
    assert examination.connected_ranks(log) == [[1, 2, 3, 4]]
    assert examination.estimate(log).values == pytest.approx(1 / np.arange(1, 5), rel=0.05)


@pytest.mark.parametrize("method", ["all-pairs", "em", "regression-em"])
@pytest.mark.parametrize("policy", [policies.ReplaceLast(k=4), policies.Deterministic(k=4)])
def test_ranks_that_nothing_connects_are_refused(policy, method):
    data, scores = world(20, n_docs=12)
    log = log_of(data, scores, 20_000, policy, examination.inverse_rank(k=4))
    assert examination.connected_ranks(log) == [[1], [2], [3], [4]]
    with pytest.raises(CounterrankError, match=r"groups \{1\}, \{2\}, \{3\}, \{4\}, so this log cannot .*uniform-ins"):
        examination.estimate(log, method=method, data=data if method == "regression-em" else None)


def test_what_is_connected_can_be_estimated_alone():
    """Two documents swap at the top, the others stay."""
    data = RankingData(np.zeros((4, 1)), [0, 4], labels=[4, 4, 4, 4])
    pages = policies.Explicit([[0, 1, 2, 3], [1, 0, 2, 3]], [0.5, 0.5])
    log = log_of(data, np.zeros(4), 50_000, {0: pages}, examination.inverse_rank(k=4))
    assert examination.connected_ranks(log) == [[1, 2], [3], [4]]
    with pytest.raises(CounterrankError, match=r"\{1-2\}, \{3\}, \{4\}.*, or k=2$"):
        examination.estimate(log)
    with pytest.warns(ExaminationWarning, match="holds 1.0 effective queries"):
        found = examination.estimate(log, k=2)
    assert found.values == pytest.approx([1.0, 0.5], rel=0.05)
    assert found.target == "these-queries"


def test_ranks_without_clicks_are_refused():
    data, scores = world(30, n_docs=8)
    log = log_of(data, scores, 3000, policies.PlackettLuce(k=4), examination.Examination([1, 0.5, 0.4, 0]))
    with pytest.raises(CounterrankError, match=r"too few at rank 4.*k=3"):
        examination.estimate(log)
    assert len(examination.estimate(log, k=3).values) == 3


def test_ranks_below_k_do_not_matter(small):
    """The cells up to k are all that counts."""
    _, log = small
    inside = log.ranks <= 3
    cut = replace(log, **{name: getattr(log, name)[inside] for name in ("docs", "ranks", "impressions", "clicks")})
    for method in ("all-pairs", "em"):
        one, other = (examination.estimate(part, method=method, k=3).values for part in (log, cut))
        assert one.tolist() == other.tolist()


def test_counts_without_ranking_data_do(small):
    data, log = small
    alone = replace(log, identity=SHOWN_ONLY + "test")
    assert examination.estimate(alone).values.tolist() == examination.estimate(log).values.tolist()
    with pytest.raises(CounterrankError, match="counted without ranking data"):
        examination.estimate(alone, method="regression-em", data=data)


def test_em_warns_where_documents_are_rare_and_is_off_there():
    """At 50 sessions a query by about 7 % on average over ranks, which all pairs are not."""
    data, scores = world(500)
    log = log_of(data, scores, 25_000)
    with pytest.warns(ExaminationWarning, match="fewer than 50 times, too few for a free relevance each"):
        off = examination.estimate(log, method="em")
    right = examination.estimate(log)
    assert 0.04 < (off.values / TRUE - 1.0)[1:].mean() < 0.12
    assert abs((right.values / TRUE - 1.0)[1:].mean()) < 0.03
    assert any("trust 'all-pairs'" in text for text in off.warnings)


def clicked_by(log, theta, gamma, seed):
    """The same pages with clicks drawn anew: theta of the rank times gamma of the document."""
    chance = theta[log.ranks - 1] * gamma[log.docs]
    return replace(log, clicks=np.random.default_rng(seed).binomial(log.impressions, chance))


@pytest.mark.statistical
def test_intervals_hold_the_truth_as_often_as_they_say():
    """60 queries, pages of 4, 500 sessions each, 100 logs, 3 ranks; by queries and by clicks, each of three methods.

    The coverage of 300 intervals should be 95 %; those of one log are correlated, so its standard deviation is between
    1.3 and 2.2 points. Sound intervals lie within 89 % and 99.5 % with probability 0.99 or more. The seed is fixed.
    """
    data, scores = world(60, n_docs=12)
    theta = np.array([1.0, 0.6, 0.4, 0.3])
    log = log_of(data, scores, 30_000, policies.PlackettLuce(k=4), examination.inverse_rank(k=4))
    scaled = data.normalized().features
    gamma = 1.0 / (1.0 + np.exp(2.5 - 3.0 * scaled[:, 0]))  # what regression-EM takes for granted
    held = {}
    for seed in range(100):
        drawn = clicked_by(log, theta, gamma, seed)
        table = interventional_set(drawn, 4)
        fits = {
            "all-pairs": all_pairs(table),
            "em": em(table),
            "regression-em": regression_em(rank_table(drawn, 4), data),
        }
        for method, fit in fits.items():
            for target in ("queries", "these-queries"):
                low, high = fit.intervals(target, 0.95)[1:].T
                held.setdefault((method, target), []).append((low <= theta[1:]) & (theta[1:] <= high))
    shares = {key: np.mean(found) for key, found in held.items()}
    assert all(0.89 <= share <= 0.995 for share in shares.values()), shares


def test_few_heavy_queries_are_counted_by_their_weight():
    data, scores = world(40, n_docs=12)
    frequencies = np.where(np.arange(40) < 2, 1000.0, 1.0)
    policy, exam = policies.PlackettLuce(k=4), examination.inverse_rank(k=4)
    log = simulation.simulate(data, scores, policy, exam, sessions=40_000, query_frequencies=frequencies)
    with pytest.warns(ExaminationWarning, match=r"holds [12]\.\d effective queries, too few"):
        found = examination.estimate(log)
    assert found.target == "these-queries"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = examination.estimate(log, population="these-queries")  # chosen, so no warning
    assert chosen.intervals.tolist() == found.intervals.tolist()
    with pytest.warns(DeprecationWarning, match="target= is deprecated; use population="):
        assert examination.estimate(log, target="these-queries").population == chosen.population == "these-queries"


def test_one_query_is_refused_for_queries_like_these():
    data, scores = world(1)
    log = log_of(data, scores, 20_000)
    with pytest.raises(CounterrankError, match=r"population='queries': the log holds 1\.0 effective queries"):
        examination.estimate(log, population="queries")


def test_wider_for_more_confidence(small):
    widths = [np.diff(examination.estimate(small[1], confidence=c).intervals)[1:] for c in (0.5, 0.95, 0.99)]
    assert (widths[0] < widths[1]).all()
    assert (widths[1] < widths[2]).all()


def test_more_than_rank_one_warns_and_is_cut():
    data, scores = world(100, n_docs=10)
    log = log_of(data, scores, 100_000, policies.PlackettLuce(k=3), examination.Examination([0.5, 1.0, 0.25]))
    with pytest.warns(ExaminationWarning, match="at rank 2: more than at rank 1; `examination` holds 1 there"):
        found = examination.estimate(log)
    assert found.values == pytest.approx([1.0, 2.0, 0.5], rel=0.1)
    assert found.examination.curve(3)[1] == 1.0
    with pytest.warns(ExaminationWarning, match="rank 1 is not the most examined one"):
        examination.estimate(log, method="regression-em", data=data)


def test_few_clicks_warn():
    data, scores = world(100, n_docs=10)
    log = log_of(data, scores, 200, policies.PlackettLuce(k=4), examination.inverse_rank(k=4))
    with pytest.warns(ExaminationWarning, match=r"too few clicks for a narrow interval: from .* at rank \d"):
        examination.estimate(log)


def test_nothing_is_drawn(small):
    one, other = (examination.estimate(small[1]) for _ in range(2))
    assert one.values.tolist() == other.values.tolist()
    assert one.intervals.tolist() == other.intervals.tolist()


def test_regression_finds_the_curve_where_features_explain_the_clicks():
    """With 20 sessions a query, where a free relevance each is of no use."""
    data, scores = world(500)
    gamma = 1.0 / (1.0 + np.exp(2.0 - 3.0 * data.normalized().features[:, 0]))
    log = clicked_by(log_of(data, scores, 10_000), TRUE, gamma, 0)
    found = examination.estimate(log, method="regression-em", data=data)
    free = examination.estimate(log, method="em")
    assert np.abs(found.values / TRUE - 1.0).mean() < 0.08
    assert (free.values / TRUE - 1.0)[1:].mean() > 0.05


def test_regression_that_does_not_fit_warns(large):
    """Clicks of 1.0 and 0.1 are no logistic function of the features that the policy knows more than."""
    data, log = large
    blind = RankingData(data.features[:, 1:], data.offsets, data.labels)
    with pytest.warns(ExaminationWarning, match="does not fit the log.*trust 'all-pairs'"):
        found = examination.estimate(log, method="regression-em", data=blind)
    assert np.abs(found.values / TRUE - 1.0).max() > 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "pbm"}, "method='pbm': expected one of 'all-pairs', 'em', 'regression-em'"),
        ({"k": 0}, "k=0: expected a whole number of at least 1"),
        ({"k": 1}, "k=1; expected two ranks or more"),
        ({"k": 5}, "k=5: the log shows ranks up to 4; expected a rank it shows"),
        ({"confidence": 1.0}, "confidence=1.0: expected a number between 0 and 1"),
        ({"confidence": True}, "confidence=True: expected a number"),
        ({"population": "sessions"}, "population='sessions': expected one of 'queries', 'these-queries'"),
        ({"method": "regression-em"}, "data: missing; method 'regression-em' expected the ranking data"),
        ({"data": world(60, n_docs=12)[0]}, "data: given, but method 'all-pairs' uses no features"),
        ({"method": "regression-em", "data": world(2)[0]}, "clicks: counted against other data"),
    ],
)
def test_bad_arguments(small, options, message):
    with pytest.raises(CounterrankError, match=message):
        examination.estimate(small[1], **options)


def test_bad_logs(small):
    with pytest.raises(CounterrankError, match="clicks: list; expected ClickCounts"):
        examination.estimate([])
    with pytest.raises(CounterrankError, match="clicks: list; expected ClickCounts"):
        examination.connected_ranks([])
    empty = {name: np.zeros(0, np.int64) for name in ("docs", "ranks", "impressions", "clicks")}
    with pytest.raises(CounterrankError, match="clicks: nothing was shown"):
        examination.estimate(replace(small[1], **empty))
    assert examination.connected_ranks(replace(small[1], **empty)) == []
    data, scores = world(3)
    one = log_of(data, scores, 100, policies.Deterministic(k=1))
    with pytest.raises(CounterrankError, match="clicks: the log shows rank 1 alone; expected two ranks"):
        examination.estimate(one)


def test_a_rank_that_was_never_shown(small):
    log = small[1]
    gap = replace(log, ranks=np.where(log.ranks == 4, 5, log.ranks))
    assert examination.connected_ranks(gap) == [[1, 2, 3, 5]]
    with pytest.raises(CounterrankError, match=r"\{1-3, 5\}, \{4\}"):
        examination.estimate(gap)


def test_saved_and_loaded(small, tmp_path):
    found = examination.estimate(small[1])
    file = tmp_path / "curve.json"
    found.save(file)
    assert examination.load(file) == found.examination == parse_examination(str(file))
    content = json.loads(file.read_text())
    assert content["intervals"] == found.intervals.tolist()
    assert (content["method"], content["n_clicks"]) == ("all-pairs", found.n_clicks)
    assert "all-pairs: 1, 0." in repr(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "not JSON"),
        ("[]", "format is not 'counterrank-examination'; expected a file written by EstimatedExamination.save"),
        ('{"format": "counterrank-examination", "version": 9}', "version 9; this counterrank reads version 1"),
        ('{"format": "counterrank-examination", "version": 1}', "values are not a list of numbers"),
        ('{"format": "counterrank-examination", "version": 1, "values": [1, "a"]}', "values are not a list"),
        ('{"format": "counterrank-examination", "version": 1, "values": [1, -1]}', "values are not a list"),
        ('{"format": "counterrank-examination", "version": 1, "values": [NaN]}', "values are not a list"),
    ],
)
def test_bad_files(tmp_path, text, message):
    file = tmp_path / "curve.json"
    file.write_text(text)
    with pytest.raises(DataError, match=message):
        examination.load(file)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(MissingFileError, match=r"curve\.json: no such examination curve"):
        parse_examination("curve.json")
    with pytest.raises(MissingFileError, match="no such examination curve"):
        parse_examination(str(tmp_path / "curve"))
    with pytest.raises(DataError, match="is a folder; expected a file written by"):
        examination.load(tmp_path)


@pytest.mark.skipif(not YANDEX.exists(), reason="needs clicklog-yandex in ../shared/data, which is not here")
def test_a_real_log():
    log = read_log(YANDEX)
    assert examination.connected_ranks(log) == [list(range(1, 11))]
    with pytest.warns(ExaminationWarning, match="too few for intervals over queries"):
        pairs = examination.estimate(log)
    with pytest.warns(ExaminationWarning, match="too few for intervals over queries"):
        free = examination.estimate(log, method="em")
    assert (np.diff(pairs.values)[:7] < 0.0).all()
    assert free.values == pytest.approx(pairs.values, rel=0.07)
    rates = log.by_rank(log.clicks) / log.by_rank(log.impressions)
    # good documents stand at rank 2, so that its click rate is nearly that of rank 1; examined it is far less
    assert rates[1] / rates[0] > 0.95
    assert pairs.intervals[1, 1] < 0.85


def test_a_curve_far_above_1_is_warned_about(tmp_path):
    file = tmp_path / "curve.json"
    for values, warns in (([1, 2], True), ([1, 1.01, 0.5], False)):
        file.write_text(json.dumps({"format": "counterrank-examination", "version": 1, "values": values}))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert examination.load(file).curve(2).max() == 1.0
        assert [each.category for each in caught] == [ExaminationWarning] * warns

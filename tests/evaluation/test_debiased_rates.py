"""Debiased click rates of documents: by hand, by Monte Carlo, and files of them."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

import counterrank as cr
from counterrank import examination, policies, simulation
from counterrank.clicks.counts import SHOWN_ONLY, ClickCounts
from counterrank.common.errors import ExaminationWarning
from counterrank.common.numerics import clopper_pearson
from counterrank.evaluation.click_rates import COLUMNS

THETA = np.array([1.0, 0.6, 0.3, 0.1])


def counts_of(shown, clicked, query_of=None, **options):
    """Counts of documents (rows) at ranks (columns), `query_of` the query of each document."""
    shown, clicked = np.asarray(shown, np.int64), np.asarray(clicked, np.int64)
    n = len(shown)
    query_of = np.zeros(n, np.int64) if query_of is None else np.asarray(query_of)
    docs, ranks = (each.ravel() for each in np.mgrid[0:n, 1 : shown.shape[1] + 1])
    kept = shown.ravel() > 0
    lengths = np.bincount(query_of)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    sessions = np.full(len(lengths), shown.sum())
    ids = {
        "query_ids": np.array([f"q{i}" for i in range(len(lengths))]),
        "doc_ids": np.array([f"d{i}" for i in range(n)]),
    }
    cells = (column[kept] for column in (docs, ranks, shown.ravel(), clicked.ravel()))
    return ClickCounts(SHOWN_ONLY, offsets, sessions, *cells, **(ids | options))


def drawn(rng, rates, n, theta=THETA, beta=0.0, shares=(0.4, 0.3, 0.2, 0.1)):
    """Impressions and clicks of documents with these rates, n impressions each at random ranks."""
    shown = rng.multinomial(n, shares, size=len(rates))
    return shown, rng.binomial(shown, np.minimum(np.asarray(rates)[:, None] * theta + beta, 1.0))


# By hand


def test_one_document_at_two_ranks():
    found = cr.click_rates(counts_of([[10, 20]], [[4, 3]]), exam=[1.0, 0.5])
    assert found.examinations.tolist() == [20.0]
    assert found.rate.tolist() == [7 / 20]
    assert found.raw_rate.tolist() == [7 / 30]
    low, high = stats.beta.ppf([0.025, 0.975], [7, 8], [24, 23])  # of Clopper and Pearson
    assert (found.rate_low[0], found.rate_high[0]) == pytest.approx((low * 30 / 20, high * 30 / 20))
    assert found.curve_source == "given"
    assert found.shrunk_rate[0] == pytest.approx(7 / 20)  # there is no other document to shrink towards


def test_trust_bias():
    found = cr.click_rates(counts_of([[10, 20]], [[9, 6]]), alpha=[0.6, 0.3], beta=[0.4, 0.1])
    # alpha 0.8 and 0.4, beta 0.2 and 0 in the canonical gauge, where r = 0 gives no click at rank 2
    assert found.examinations[0] == pytest.approx(16.0)
    assert found.rate[0] == pytest.approx((15 - 2) / 16)
    low, _ = stats.beta.ppf([0.025, 0.975], [15, 16], [16, 15])
    assert found.rate_low[0] == pytest.approx((low * 30 - 2) / 16)
    assert found.beta is not None


def test_no_trust_bias_is_the_plain_rate():
    log = counts_of(*drawn(np.random.default_rng(0), np.full(30, 0.4), 50))
    plain, affine = cr.click_rates(log, exam=THETA), cr.click_rates(log, alpha=THETA, beta=[0.0])
    assert np.array_equal(plain.rate, affine.rate)
    assert np.array_equal(plain.rate_low, affine.rate_low)
    assert np.array_equal(plain.shrunk_rate, affine.shrunk_rate)


def test_intervals_at_the_ends():
    found = cr.click_rates(counts_of([[5, 0], [5, 0], [0, 5]], [[0, 0], [5, 0], [0, 0]]), exam=[1.0, 0.0])
    assert found.rate_low[0] == 0.0
    assert found.rate_high[1] == 1.0
    assert (found.rate_low[2], found.rate_high[2]) == (0.0, 1.0)  # shown where nobody looks
    assert np.isnan(found.rate[2])
    assert found.shrunk_rate[2] == pytest.approx(found.prior_rate[2])
    assert found.summary()["never_examined"] == 1


KNOWN = {
    "examination": {"exam": THETA},
    "trust": {"alpha": [0.5, 0.3, 0.2, 0.1], "beta": [0.3, 0.2, 0.1, 0.05]},
    "estimated": {
        "exam": examination.EstimatedExamination(
            THETA,
            np.stack([0.3 * THETA, 1.8 * THETA], axis=1),
            np.arange(1, 5),
            "all-pairs",
            "queries",
            0.95,
            9,
            9,
            9,
            9,
        )
    },
}


@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)
@given(st.lists(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1)), min_size=4, max_size=4), min_size=1),
       st.sampled_from([0.5, 0.95, 0.999]))  # fmt: skip
def test_the_rate_lies_within_its_interval(known, cells, confidence):
    shown = np.array([[n for n, _ in row] for row in cells])
    clicked = np.array([[round(share * n) for n, share in row] for row in cells])
    assume(shown.sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExaminationWarning)  # clicks of any number contradict the curve at times
        found = cr.click_rates(counts_of(shown, clicked), **known, confidence=confidence)
    assert ((found.rate_low >= 0.0) & (found.rate_low <= found.rate_high) & (found.rate_high <= 1.0)).all()
    assert ((found.rate_low <= found.rate) & (found.rate <= found.rate_high)).all()
    assert np.array_equal(found.rate, np.clip(found.unclipped_rate, 0.0, 1.0))


@pytest.mark.parametrize("tail", [0.025, 1e-7])
def test_clopper_and_pearson_are_those_of_scipy(tail):
    n = np.array([1.0, 3.0, 40.0, 1000.0, 10.0**6])
    for share in (0.0, 0.3, 1.0):
        c = np.round(share * n)
        low, high = clopper_pearson(c, n, tail)
        wanted = [
            stats.binomtest(int(a), int(b)).proportion_ci(1 - 2 * tail, "exact") for a, b in zip(c, n, strict=True)
        ]
        assert low == pytest.approx([each.low for each in wanted], rel=1e-6, abs=1e-12)
        assert high == pytest.approx([each.high for each in wanted], rel=1e-6)


def test_the_shrunk_rate_is_the_formula():
    rng = np.random.default_rng(3)
    query_of = np.repeat(np.arange(40), 10)
    rates = np.repeat(rng.beta(2, 5, 40), 10)
    log = counts_of(*drawn(rng, rates, 20), query_of)
    found = cr.click_rates(log, exam=THETA)
    m, k = found.strength, found.query_strength
    assert k < np.inf  # queries differ
    a, b = found.clicks / (found.examinations + m), found.examinations / (found.examinations + m)
    for d in (0, 17, 399):
        others = (query_of == query_of[d]) & (np.arange(400) != d)
        everyone = (a.sum() - a[d]) / (b.sum() - b[d])
        prior = (a[others].sum() + k * everyone) / (b[others].sum() + k)
        assert found.prior_rate[d] == pytest.approx(prior)
        shrunk = (found.clicks[d] + m * prior) / (found.examinations[d] + m)
        assert found.shrunk_rate[d] == pytest.approx(min(shrunk, 1.0))
    overall = cr.click_rates(log, exam=THETA, prior="overall", strength=7)
    assert (overall.strength, overall.query_strength) == (7.0, np.inf)
    assert np.ptp(overall.prior_rate) < 0.01


def test_documents_that_are_well_known_keep_their_rate():
    rng = np.random.default_rng(1)
    found = cr.click_rates(counts_of(*drawn(rng, rng.uniform(0.1, 0.9, 50), 10**6)), exam=THETA)
    assert found.shrunk_rate == pytest.approx(found.rate, abs=1e-3)


# Monte Carlo


@pytest.mark.statistical
@pytest.mark.representative
@pytest.mark.parametrize("beta", [0.0, np.array([0.0, 0.05, 0.1, 0.1])], ids=["examination", "trust"])
def test_the_debiased_rate_is_unbiased(beta):
    """The mean over 50,000 documents with the same rate is within four standard errors: wrongly failing below 1e-4."""
    rng = np.random.default_rng(0)
    for rate in (0.05, 0.5, 0.9):
        log = counts_of(*drawn(rng, np.full(50_000, rate), 10, beta=beta))
        known = {"exam": THETA} if np.isscalar(beta) else {"alpha": THETA, "beta": beta}
        found = cr.click_rates(log, **known)
        seen = found.examinations > 0
        error = found.unclipped_rate[seen].std() / np.sqrt(seen.sum())
        assert abs(found.unclipped_rate[seen].mean() - rate) < 4 * error
        assert found.raw_rate.mean() < rate or not np.isscalar(beta)  # which position bias is in


@pytest.mark.statistical
@pytest.mark.parametrize("n", [10, 100, 1000])
@pytest.mark.parametrize("beta", [0.0, np.array([0.0, 0.05, 0.1, 0.1])], ids=["examination", "trust"])
def test_intervals_hold(n, beta):
    """Coverage of 20,000 documents is at least 95 % but for four standard errors (0.6 %): wrongly failing below 1e-4.

    The interval is conservative: coverage here is 98.1 to 99.4 % at 10 impressions, 96.6 to 98.9 % at 100 and 95.4 to
    98.7 % at 1,000.
    """
    rng = np.random.default_rng(n)
    for rate in (0.02, 0.1, 0.5, 0.9):
        log = counts_of(*drawn(rng, np.full(20_000, rate), n, beta=beta))
        known = {"exam": THETA} if np.isscalar(beta) else {"alpha": THETA, "beta": beta}
        found = cr.click_rates(log, **known)
        covered = np.mean((found.rate_low <= rate) & (rate <= found.rate_high))
        assert covered > 0.95 - 4 * np.sqrt(0.05 * 0.95 / 20_000)


@pytest.mark.statistical
def test_intervals_hold_where_the_curve_is_estimated():
    """Coverage pooled over 20 logs is at least 95 % but for 4 standard errors: wrongly failing below 1e-3.

    Documents of a log share the error of the curve, so the standard error is over logs.
    """
    data = cr.RankingData(np.zeros((400, 1)), np.arange(0, 401, 10), labels=np.arange(400) % 5)
    truth = np.where(data.labels >= 3, 0.6, 0.1)
    model = simulation.ClickModel(relevant=0.6, other=0.1)
    policy, exam = policies.PlackettLuce(3), examination.inverse_rank(k=3)
    covered = []
    for seed in range(20):
        log = simulation.simulate(data, np.zeros(400), policy, exam, sessions=20_000, seed=seed, click_model=model)
        found = cr.click_rates(replace(log, examination=None, propensities=None))
        assert found.curve_source == "estimated"
        covered.append(np.mean((found.rate_low <= truth) & (truth <= found.rate_high)))
    assert np.mean(covered) > 0.95 - 4 * np.std(covered) / np.sqrt(20)


@pytest.mark.statistical
@pytest.mark.representative
@pytest.mark.parametrize(("n", "most"), [(5, 0.3), (20, 0.5), (1000, 1.0)])
def test_shrinkage_lowers_the_error_where_impressions_are_few(n, most):
    """Mean squared error over 5,000 documents, relative to that of the rate clipped to 0 .. 1.

    Queries differ (standard deviation 0.11) and so do documents within them. The ratio is far from its limit: with
    other seeds it varies by less than a tenth of it.
    """
    rng = np.random.default_rng(n)
    query_of = np.repeat(np.arange(500), 10)
    centre = np.repeat(rng.beta(4, 12, 500), 10)
    rates = rng.beta(15 * centre, 15 * (1 - centre))
    log = counts_of(*drawn(rng, rates, n), query_of)
    found = cr.click_rates(log, exam=THETA)
    plain = np.nan_to_num(found.rate, nan=0.25)
    errors = [np.mean((each - rates) ** 2) for each in (found.shrunk_rate, plain)]
    assert errors[0] < most * errors[1]
    everyone = cr.click_rates(log, exam=THETA, prior="overall")
    assert n == 1000 or errors[0] < np.mean((everyone.shrunk_rate - rates) ** 2)
    assert found.strength == pytest.approx(15, rel=0.6)


# The curve


def moving_log(sessions=20_000, policy=None):
    data = cr.RankingData(np.zeros((200, 1)), np.arange(0, 201, 10), labels=np.arange(200) % 5)
    shown = policy or policies.PlackettLuce(3)
    return simulation.simulate(data, np.zeros(200), shown, examination.inverse_rank(k=3), sessions=sessions, seed=0)


def test_the_curve_of_a_simulation_is_remembered():
    assert cr.click_rates(moving_log()).curve_source == "simulation"


def test_a_missing_curve_is_estimated():
    log = replace(moving_log(200_000), examination=None)
    found = cr.click_rates(log)
    assert found.curve_source == "estimated"
    assert "estimated from these clicks" in repr(found)
    assert found.estimated.values == pytest.approx([1, 1 / 2, 1 / 3], rel=0.05)
    given = cr.click_rates(log, exam=found.estimated)
    assert np.array_equal(given.rate_low, found.rate_low)
    exact = cr.click_rates(log, exam=found.estimated.examination)
    assert np.array_equal(exact.rate, found.rate)
    assert (exact.rate_low >= found.rate_low).all()  # the error of the curve widens intervals
    assert (exact.rate_low > found.rate_low).any()


def test_ranks_that_are_not_connected():
    log = replace(moving_log(policy=policies.Deterministic(3)), examination=None)
    with pytest.raises(cr.CounterrankError, match=r"exam: not given, and cannot .*: ranks fall into 3 groups"):
        cr.click_rates(log)


def test_one_rank_needs_no_curve():
    found = cr.click_rates(counts_of([[10], [20]], [[3], [4]]))
    assert found.curve_source == "one rank"
    assert np.array_equal(found.rate, found.raw_rate)


def test_a_curve_that_the_clicks_contradict():
    log = counts_of([[0, 100], [100, 0]], [[0, 90], [10, 0]])
    with pytest.warns(ExaminationWarning, match="1 of 2 documents have more clicks than the curve allows.*document d0"):
        found = cr.click_rates(log, exam=[1.0, 0.2])
    assert found.unclipped_rate[0] == 4.5
    assert (found.rate[0], found.rate_low[0], found.rate_high[0]) == (1.0, 1.0, 1.0)
    assert found.summary()["rates_clipped"] == found.n_clipped == 1
    assert found.shrunk_rate[0] <= 1.0
    with pytest.warns(ExaminationWarning, match="fewer than beta brings"):
        cr.click_rates(counts_of([[0, 100], [100, 0]], [[0, 90], [10, 0]]), alpha=[0.5, 0.1], beta=[0.5, 0.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exam": "steep"}, "exam: str; expected an examination curve"),
        ({"exam": [1.0]}, "exam: 0 at rank 2, where there are clicks"),
        ({"exam": [1.0, 2.0]}, "examination: 2 at rank 2; expected probabilities"),
        ({"alpha": [1.0, 0.5]}, "alpha, beta: one without the other"),
        ({"alpha": [0.5, 0.5], "beta": [0.2, 1.7]}, "alpha, beta: no relevance r gives a probability"),
        ({"exam": [1.0, 0.5], "alpha": [1.0], "beta": [0.0]}, "exam: given together with alpha and beta"),
        ({"exam": [1.0, 0.5], "prior": "none"}, "prior='none': expected one of 'query', 'overall'"),
        ({"exam": [1.0, 0.5], "strength": -1}, "strength=-1: expected a number of at least 0"),
        ({"exam": [1.0, 0.5], "confidence": 95}, "confidence=95: expected a number between 0 and 1"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(cr.CounterrankError) as error:
        cr.click_rates(counts_of([[10, 20]], [[4, 3]]), **options)
    assert message in str(error.value)


def test_bad_clicks():
    with pytest.raises(cr.CounterrankError, match="clicks: hold no ids"):
        cr.click_rates(counts_of([[10]], [[4]], query_ids=None), exam=[1.0])
    with pytest.raises(cr.CounterrankError, match="clicks: nothing was shown"):
        cr.click_rates(counts_of([[0]], [[0]]), exam=[1.0])
    with pytest.raises(cr.CounterrankError, match="clicks"):
        cr.click_rates([1, 2, 3], exam=[1.0])


# What it shows


def test_candidates_that_were_never_shown_have_no_row():
    found = cr.click_rates(moving_log(sessions=5))
    assert len(found) + found.n_unshown == 200
    assert found.summary()["candidates_never_shown"] == found.n_unshown > 0


def test_no_clicks():
    found = cr.click_rates(counts_of([[10, 5], [3, 3]], [[0, 0], [0, 0]]), exam=[1.0, 0.5])
    assert found.rate.tolist() == [0.0, 0.0]
    assert found.shrunk_rate.tolist() == [0.0, 0.0]
    assert (found.rate_high < 1.0).all()


def test_files_and_tables(tmp_path):
    found = cr.click_rates(counts_of([[10, 0], [0, 5], [3, 0]], [[4, 0], [0, 0], [1, 0]], [0, 0, 1]), exam=[1.0, 0.0])
    found.save(tmp_path / "rates.parquet")
    found.save(tmp_path / "rates.csv")
    table = pyarrow.parquet.read_table(tmp_path / "rates.parquet")
    assert table.column_names == list(COLUMNS)
    assert table["doc_id"].to_pylist() == ["d0", "d1", "d2"]
    assert table["rate"].to_pylist() == [0.4, None, pytest.approx(1 / 3)]
    assert pyarrow.csv.read_csv(tmp_path / "rates.csv").to_pydict()["rate"][1] is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rates.csv", "rates.parquet"]
    with pytest.raises(cr.CounterrankError, match=r"expected \.parquet, \.csv or \.tsv"):
        found.save(tmp_path / "rates.npy")
    rows = found.top(queries=1, documents=2)
    assert {row["doc_id"]: row["rate"] for row in rows} == {"d0": 0.4, "d1": None}
    assert rows[0]["shrunk_rate"] >= rows[1]["shrunk_rate"]
    json.dumps(found.summary() | {"rows": rows}, allow_nan=False)
    assert "\n" not in repr(found)


def test_what_is_shown_of_rates():
    found = cr.click_rates(counts_of([[10, 0], [0, 5], [3, 9]], [[4, 0], [0, 0], [1, 9]], [0, 0, 1]), exam=[1.0, 0.5])
    assert "rates clipped           1" in repr(found.summary())
    assert found.summary()["queries"] == found.n_queries == 2
    page = found._repr_html_()
    assert all(
        text in page
        for text in ("d2", "its 95 % confidence interval", "debiased rates clipped to 0 or 1: 1 of 3", "<svg")
    )
    chart = found.plot(queries=1).to_json()
    assert all(text in chart for text in ("d0, debiased", "d1, shrunk", "query q0"))
    assert "d2, " not in chart
    assert "plot" in dir(found)
    assert not any(name.startswith("_") for name in dir(found))


def test_ids_are_words_in_html():
    ids = {"doc_ids": np.array(["<script>"])}
    assert "<script>" not in cr.click_rates(counts_of([[9]], [[4]], **ids), exam=[1.0])._repr_html_()


def test_strengths_are_fitted_on_some_of_many_queries(monkeypatch):
    rng = np.random.default_rng(0)
    log = counts_of(*drawn(rng, rng.beta(2, 4, 2000), 30), np.repeat(np.arange(200), 10))
    whole = cr.click_rates(log, exam=THETA)
    monkeypatch.setattr("counterrank.evaluation.click_rates._MOST_FITTED", 500)
    part = cr.click_rates(log, exam=THETA)
    assert part.strength == pytest.approx(whole.strength, rel=0.5)
    assert np.array_equal(part.rate, whole.rate)

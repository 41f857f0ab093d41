"""Claims: Student's t, single verdicts, their error rates, and every claim on pictures whose truth is known."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.common.errors import CounterrankError
from counterrank.experiments.claims import check_claims, claims_document
from counterrank.experiments.claims.checks import FAILS, HOLDS, OPEN, Check, at_least, at_most, beyond, judge, within
from counterrank.experiments.claims.conclusion import clicks_text, first_within
from counterrank.experiments.claims.readings import against, documents_per_query, relative
from counterrank.experiments.claims.statistics import mean_interval, student_quantile
from tests import naive_claims as naive

LONG = [{"source": "long", "parts": {"train": {"documents_per_query": 120.0}}}]
SHORT = [{"source": "short", "parts": {"train": {"documents_per_query": 24.0}}}]


# Student's t

TABLE = {  # two-sided, as printed in any textbook
    (0.95, 1): 12.706,
    (0.95, 2): 4.303,
    (0.95, 3): 3.182,
    (0.95, 4): 2.776,
    (0.95, 9): 2.262,
    (0.95, 30): 2.042,
    (0.90, 5): 2.015,
    (0.99, 1): 63.657,
    (0.99, 10): 3.169,
    (0.999, 7): 5.408,
    (0.999, 120): 3.373,
}


@pytest.mark.parametrize(("asked", "printed"), TABLE.items())
def test_student_is_that_of_the_tables(asked, printed):
    assert student_quantile(*asked) == pytest.approx(printed, abs=5.1e-4)


@pytest.mark.parametrize("freedom", [1, 2, 3, 6, 7, 40])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 1 - 0.05 / 50])
def test_student_is_that_of_its_density(freedom, confidence):
    tail = naive.student_tail(student_quantile(confidence, freedom), freedom)
    assert tail == pytest.approx(1.0 - confidence, abs=2e-5)


@pytest.mark.parametrize("asked", [(0.0, 3), (1.0, 3), (math.nan, 3), (0.95, 0)])
def test_student_refuses(asked):
    with pytest.raises(CounterrankError, match="expected 0 < confidence"):
        student_quantile(*asked)


def test_an_interval_by_hand():
    found = mean_interval(np.array([1.0, np.nan, 3.0]))
    assert found.value == 2.0
    assert found.high - 2.0 == pytest.approx(12.7062 * math.sqrt(2.0) / math.sqrt(2.0), rel=1e-5)
    assert mean_interval(np.array([np.nan])) == (None, None, None, 0)
    assert mean_interval(np.array([4.0, 4.0, 4.0])) == (4.0, 4.0, 4.0, 3)


# differences


def test_relative_differences_are_paired_and_signed():
    assert against(np.array([9.0, 18.0]), np.array([10.0, 20.0])) == pytest.approx([-0.1, -0.1])
    assert against(np.array([-9.0, -18.0]), np.array([-10.0, -20.0])) == pytest.approx([0.1, 0.1])  # ARP, negated
    found = against(np.array([1.0, np.nan, 3.0]), np.array([np.nan, 2.0, 2.0]))
    assert np.isnan(found[:2]).all()
    assert found[2] == 0.5
    assert np.isnan(relative(np.array([1.0]), np.array([0.0]))).all()


@given(st.lists(st.tuples(st.floats(-10, 10), st.floats(1, 10)), min_size=1, max_size=6))
def test_relative_differences_have_the_quotient_as_mean(pairs):
    difference, reference = np.array(pairs).T
    assert relative(difference, reference).mean() == pytest.approx(difference.mean() / reference.mean(), abs=1e-9)


# verdicts of single checks and of several

RULES = [
    (at_least(-0.02), 0.0, HOLDS),
    (at_least(-0.02), -0.03, FAILS),
    (at_least(0.0, 0.005), 0.001, HOLDS),  # tiny, but sure
    (at_least(0.0, 0.005), 0.0, FAILS),  # equal is not better
    (at_least(0.0, 0.005), -0.01, FAILS),
    (at_most(0.02), 0.01, HOLDS),
    (at_most(0.02), 0.03, FAILS),
    (within(0.02), 0.01, HOLDS),
    (within(0.02), -0.03, FAILS),
    (within(0.02), 0.03, FAILS),
    (beyond(0.02), 0.03, HOLDS),
    (beyond(0.02), -0.03, HOLDS),
    (beyond(0.02), 0.01, FAILS),
]


@pytest.mark.parametrize(("rule", "value", "verdict"), RULES)
def test_rules_without_any_spread(rule, value, verdict):
    assert Check("x", np.full(3, value), rule).verdict(0.95) == verdict
    assert Check("x", np.full(1, value), rule).verdict(0.95) == OPEN
    assert Check("x", value + np.array([-1.0, 0.0, 1.0]), rule).verdict(0.95) == OPEN


def test_rounding_is_no_advantage():
    assert Check("x", np.full(5, 1e-17), at_least(0.0, 0.005)).verdict(0.95) == FAILS


def values(mean, spread=0.0):
    return mean + spread * np.array([-1.0, 0.0, 1.0])


def test_all_or_somewhere():
    good, bad = Check("good", values(0.1), at_least(0.0)), Check("bad", values(-0.1), at_least(0.0))
    vague, none = Check("vague", values(0.0, 1.0), at_least(0.0)), Check("none", np.full(3, np.nan), at_least(0.0))
    for checks, everywhere, somewhere in [
        ([good, good], HOLDS, HOLDS),
        ([good, bad], FAILS, HOLDS),
        ([bad, bad], FAILS, FAILS),
        ([good, vague], OPEN, HOLDS),
        ([bad, vague], FAILS, OPEN),
        ([good, none], OPEN, HOLDS),  # what is missing might have failed
        ([bad, none], FAILS, OPEN),
        ([none], OPEN, OPEN),
        ([], OPEN, OPEN),
    ]:
        assert judge(checks, 0.95).verdict == everywhere
        assert judge(checks, 0.95, somewhere=True).verdict == somewhere
    assert judge([good, bad, vague], 0.95).decisive.what == "bad"
    assert judge([good, bad, vague], 0.95, somewhere=True).decisive.what == "good"


def test_many_checks_need_a_stronger_refutation():
    """t of the values is 6: beyond the 4.3 of one check, not beyond the 9.9 that ten share at 99.5 %."""
    spread = 0.1 / 6.0 * math.sqrt(3.0)
    weak = Check("weak", values(-0.1, spread), at_least(0.0))
    good = [Check("good", values(0.1), at_least(0.0))] * 9
    assert judge([weak], 0.95).verdict == FAILS
    assert judge([weak, *good], 0.95).verdict == OPEN


def test_a_tiny_sure_advantage_is_not_refuted_by_the_company_it_is_in():
    """0.1 % +- 0.086 % holds by itself; the corrected interval reaches below 0 and stays below 0.5 %."""
    tiny = Check("tiny", values(0.001, 0.0002 * math.sqrt(3.0)), at_least(0.0, 0.005))
    vague = Check("vague", values(0.0, 1.0), at_least(0.0))
    assert judge([tiny], 0.95).verdict == HOLDS
    assert tiny.verdict(0.975) == FAILS
    assert judge([tiny, vague], 0.95).verdict == OPEN


def error_rate(mean, rule, wrong, somewhere, many=4, simulations=1000, runs=4):
    """How often noise leads to the wrong verdict, over checks of which each has this mean and noise of 1."""
    rng = np.random.default_rng(7)
    drawn = mean + rng.standard_normal((simulations, many, runs))
    judged = (judge([Check("x", row, rule) for row in rows], 0.95, somewhere).verdict for rows in drawn)
    return sum(verdict == wrong for verdict in judged) / simulations


# A wrong verdict with probability 5 % at most; at 1,000 simulations the share stays below 0.05 + 4 * 0.0069 = 0.078
# but once in 30,000 times. The means are the least favourable: just on the edge.
ERRORS = [
    (0.0, at_least(0.0), FAILS, False),
    (0.0, at_least(0.0), HOLDS, True),
    (-0.3, at_least(-0.3), FAILS, False),
    (3.0, within(3.0), FAILS, False),
    (3.0, beyond(3.0), HOLDS, True),
    (0.3, at_least(0.0, 0.3), FAILS, False),
]


@pytest.mark.parametrize(("mean", "rule", "wrong", "somewhere"), ERRORS)
def test_wrong_verdicts_over_many_checks_are_rare(mean, rule, wrong, somewhere):
    assert error_rate(mean, rule, wrong, somewhere) < 0.078


@pytest.mark.parametrize(("rule", "wrong"), [(at_least(0.0), HOLDS), (at_most(0.0), HOLDS), (at_least(0.0), FAILS)])
def test_wrong_verdicts_of_one_check_are_rare_and_not_never(rule, wrong):
    assert 0.01 < error_rate(0.0, rule, wrong, False, many=1, simulations=2000) < 0.04  # 2.5 %, deviation 0.35 %


def test_one_false_check_among_sure_ones_does_not_make_a_claim_hold():
    rng = np.random.default_rng(3)
    sure = [Check("sure", np.full(4, 5.0), at_least(0.0))] * 2
    drawn = rng.standard_normal((2000, 4))
    held = sum(judge([*sure, Check("x", row, at_least(0.0))], 0.95).verdict == HOLDS for row in drawn)
    assert 0.01 < held / 2000 < 0.04  # nominal 2.5 %


# whole pictures


def verdicts(figures, data=LONG, **options):
    return {claim["id"]: claim["verdict"] for claim in check_claims(figures, data=data, **options)}


@pytest.mark.parametrize(("data", "long_queries"), [(LONG, True), (SHORT, False)])
def test_all_holds_on_a_picture_like_the_papers(data, long_queries):
    figures = naive.draw(naive.paper_like(long_queries), np.random.default_rng(0))
    found = verdicts(figures, data)
    expected = dict.fromkeys(found, HOLDS)
    if not long_queries:  # what the paper saw on MSLR only
        expected["small-arp-gap-at-larger-k"] = found["small-arp-gap-at-larger-k"]
        expected["logistic-monotonic-poor-with-many-clicks"] = FAILS
    assert found == expected
    assert len(found) == 27


def _set(series, x, share):
    return lambda panel: panel[series].update({x: share})


def _swap(one, other):
    def change(panel):
        panel[one], panel[other] = panel[other], panel[one]

    return change


def _all(*changes):
    def change(panel):
        for each in changes:
            each(panel)

    return change


def _copy(one, other):
    return lambda panel: panel.update({one: dict(panel[other])})


def _level(series, share):
    return lambda panel: panel.update({series: dict.fromkeys(panel[series], share)})


COUNTER = {
    "baselines-below-at-small-k": (1, _set("rerank", 5, 0.99)),
    "baselines-arp-by-query-length": (1, _set("policy-oblivious", 100, 1.0)),
    "baselines-reach-dcg-at-large-k": (1, _set("rerank", 100, 0.9)),
    "randomisation-alone-does-not-rescue": (1, _set("policy-oblivious+random", 5, 0.95)),
    "exception-at-k-1": (1, _set("policy-oblivious+random", 1, 0.9)),
    "aware-near-full-information-arp": (1, _set("policy-aware", 2, 0.96)),
    "aware-near-full-information-dcg": (1, _set("policy-aware", 50, 0.96)),
    "small-arp-gap-at-larger-k": (1, _level("policy-aware", 1.0)),
    "aware-at-least-as-good-as-baselines": (1, _set("policy-oblivious", 20, 1.03)),
    "aware-outperforms-baselines": (1, _copy("rerank+random", "policy-aware")),
    "baselines-stop-improving": (2, _copy("rerank", "policy-aware")),
    "aware-goes-on-improving": (2, _copy("policy-aware", "policy-oblivious")),
    "aware-reaches-full-information": (2, _set("policy-aware", 10**8, 0.95)),
    "aware-equals-no-cutoff": (2, _set("policy-aware", 10**8, 1.05)),
    "aware-needs-more-clicks": (2, _copy("policy-aware", "no-cutoff")),
    "losses-differ-where-queries-are-long": (3, _set("dcg-logistic", 10**8, 0.99)),
    "no-advantage-of-lambdaloss-at-k": (3, _set("lambdaloss-dcg", 10**8, 0.95)),
    "hinge-monotonic-good-with-many-clicks": (3, _set("dcg-hinge", 10**8, 0.95)),
    "logistic-monotonic-poor-with-many-clicks": (3, _set("dcg-logistic", 10**8, 0.99)),
    "truncated-lambdaloss-best": (3, _set("dcg-hinge", 10**8, 1.01)),
    "logistic-monotonic-best-with-few-clicks": (3, _swap("dcg-logistic", "lambdaloss-truncated")),
    "truncated-lambdaloss-like-supervised": (3, _set("lambdaloss-truncated", 10**8, 0.95)),
    "covering-policies-reach-full-information": (4, _set("uniform-insert:k=5", 10**8, 0.95)),
    "deterministic-logging-stays-behind": (4, _set("deterministic:k=5", 10**8, 0.99)),
    "cheaper-policies-need-more-clicks": (4, _swap("replace-last:k=5", "plackett-luce:k=5,temperature=1")),
}
SELECTIONS = {
    "selection-best-with-enough-clicks": lambda clicks: "dcg-logistic",
    "selection-errs-with-few-clicks": lambda clicks: None,
}


@pytest.mark.parametrize(("claim", "counter"), COUNTER.items(), ids=COUNTER)
def test_every_claim_can_fail(claim, counter):
    truth = naive.changed(naive.paper_like(), *counter)
    assert verdicts(naive.draw(truth, np.random.default_rng(1)))[claim] == FAILS


@pytest.mark.parametrize(("claim", "choice"), SELECTIONS.items(), ids=SELECTIONS)
def test_claims_on_selection_can_fail(claim, choice):
    figures = naive.draw(naive.paper_like(), np.random.default_rng(1))
    naive.select(figures[2]["panels"][0], choice)
    assert verdicts(figures)[claim] == FAILS


def test_no_claim_is_without_a_counter_picture():
    assert set(verdicts([])) == {*COUNTER, *SELECTIONS}


def test_length_of_queries_turns_claims():
    short = naive.draw(naive.paper_like(long_queries=False), np.random.default_rng(0))
    assert verdicts(short, LONG)["losses-differ-where-queries-are-long"] == FAILS
    assert verdicts(short, LONG)["baselines-arp-by-query-length"] == FAILS
    assert (
        verdicts(naive.draw(naive.paper_like(), np.random.default_rng(0)), SHORT)[
            "losses-differ-where-queries-are-long"
        ]
        == FAILS
    )
    for data, why in [
        ([], "is not known"),
        ([{"parts": {"test": {"documents_per_query": 45.0}}}], "neither few nor many"),
    ]:
        found = {claim["id"]: claim for claim in check_claims(short, data=data)}
        for name in (
            "losses-differ-where-queries-are-long",
            "baselines-arp-by-query-length",
            "aware-outperforms-baselines",
        ):
            assert found[name]["verdict"] == OPEN
            assert why in found[name]["numbers"]
    assert documents_per_query([*SHORT, *LONG]) == 72.0


def test_true_claims_are_refuted_no_more_often_than_they_should():
    """Each with probability 5 % at most: of 30 noisy pictures 8 or more once in 10,000 times."""
    rng = np.random.default_rng(5)
    wrong = dict.fromkeys(verdicts([]), 0)
    for _ in range(30):
        for name, verdict in verdicts(naive.draw(naive.paper_like(), rng, runs=3, noise=0.01)).items():
            wrong[name] += verdict == FAILS
    assert max(wrong.values()) < 8


@pytest.mark.parametrize(("share", "wrong"), [(0.9801, FAILS), (0.9799, HOLDS)])
def test_a_claim_at_the_very_margin(share, wrong):
    """The worst case, at one k: 5 % at most, so of 60 pictures 11 or more once in 5,000 times."""
    truth = naive.changed(naive.paper_like(), 1, _set("policy-aware", 5, share))
    rng = np.random.default_rng(6)
    pictures = (naive.draw({1: {"dcg@5": truth[1]["dcg@5"]}}, rng, runs=4) for _ in range(60))
    assert sum(verdicts(picture)["aware-near-full-information-dcg"] == wrong for picture in pictures) < 11


def test_false_claims_seldom_hold():
    """Of 4 noisy pictures against each of 25 claims, 2.5 % at most hold: 9 or more of 100 once in 900 times."""
    rng = np.random.default_rng(8)
    held = 0
    for claim, (number, change) in COUNTER.items():
        truth = naive.changed(naive.paper_like(), number, change)
        pictures = (naive.draw({number: truth[number]}, rng, runs=3, noise=0.01) for _ in range(4))
        held += sum(verdicts(picture)[claim] == HOLDS for picture in pictures)
    assert held < 9


# holes, sparse grids, few runs


def strict(claims):
    """JSON without nan, unchanged by a round trip."""
    return json.loads(json.dumps(claims, allow_nan=False)) == claims


@pytest.mark.parametrize("figures", [[], [{"number": 1, "panels": []}], [{"number": number} for number in range(1, 5)]])
def test_nothing_to_look_at(figures):
    claims = check_claims(figures, data=LONG)
    assert {claim["verdict"] for claim in claims} == {OPEN}
    assert all("is not part of this run" in claim["numbers"] or "has no points" in claim["numbers"] for claim in claims)
    assert strict(claims)


def test_one_run_tells_nothing():
    claims = check_claims(naive.draw(naive.paper_like(), np.random.default_rng(0), runs=1), data=LONG)
    assert {claim["verdict"] for claim in claims} == {OPEN}
    assert "two are needed" in claims[0]["numbers"]
    assert claims[0]["checks"][0]["low"] is None
    assert strict(claims)


def test_two_runs_without_noise_tell_all():
    figures = naive.draw(naive.paper_like(), np.random.default_rng(0), runs=2, noise=0.0, common=0.0)
    claims = check_claims(figures, data=LONG)
    assert {claim["verdict"] for claim in claims} == {HOLDS}
    assert strict(claims)


def test_all_methods_equal():
    truth = {
        number: {name: {one: dict.fromkeys(xs, 1.0) for one, xs in series.items()} for name, series in panels.items()}
        for number, panels in naive.paper_like().items()
    }
    found = verdicts(naive.draw(truth, np.random.default_rng(0), noise=0.0))
    assert found["aware-near-full-information-dcg"] == HOLDS
    assert found["aware-outperforms-baselines"] == FAILS
    assert found["aware-needs-more-clicks"] == FAILS
    assert found["truncated-lambdaloss-best"] == HOLDS
    assert found["selection-errs-with-few-clicks"] == FAILS
    assert found["losses-differ-where-queries-are-long"] == FAILS
    assert found["randomisation-alone-does-not-rescue"] == OPEN
    assert found["cheaper-policies-need-more-clicks"] == OPEN  # no policy is dearer


def thinned(figures, grids):
    for figure in figures:
        for panel in figure["panels"]:
            for series in panel["series"]:
                series["points"] = [p for p in series["points"] if p["x"] in (None, *grids[figure["number"] > 1])]
    return figures


def test_a_quick_grid():
    figures = naive.draw(naive.paper_like(), np.random.default_rng(0), runs=3, noise=0.0005)
    claims = check_claims(thinned(figures, ((1, 2, 5, 20), (10**3, 10**5, 10**7))), data=LONG)
    found = {claim["id"]: claim for claim in claims}
    assert found["baselines-reach-dcg-at-large-k"]["verdict"] == OPEN
    assert "no k from 50 on" in found["baselines-reach-dcg-at-large-k"]["numbers"]
    assert found["aware-near-full-information-dcg"]["verdict"] == HOLDS
    assert found["baselines-stop-improving"]["verdict"] == HOLDS
    assert found["truncated-lambdaloss-best"]["verdict"] == HOLDS
    assert strict(claims)


@pytest.mark.parametrize("grids", [((1,), (10**2,)), ((100,), (10**8,)), ((), ()), ((1, 100), (10**2, 10**5))])
def test_tiny_grids_do_no_harm(grids):
    figures = thinned(naive.draw(naive.paper_like(), np.random.default_rng(0), runs=3), grids)
    assert strict(check_claims(figures, data=LONG))


def test_a_hole_is_no_support():
    figures = naive.draw(naive.paper_like(), np.random.default_rng(0))
    aware = figures[0]["panels"][1]["series"][0]
    assert aware["name"] == "policy-aware"
    aware["points"][2]["values"] = [None] * 8  # failed in every run
    aware["points"][3]["values"] = [float("nan"), *aware["points"][3]["values"][1:]]
    claims = check_claims(figures, data=LONG)
    found = next(claim for claim in claims if claim["id"] == "aware-near-full-information-dcg")
    assert found["verdict"] == OPEN
    assert [check["runs"] for check in found["checks"]] == [8, 8, 0, 7, 8, 8, 8]
    assert strict(claims)
    del aware["points"][2]
    assert verdicts(figures)["aware-near-full-information-dcg"] == OPEN


def test_missing_series_and_levels():
    figures = naive.draw(naive.paper_like(), np.random.default_rng(0))
    for figure in figures:
        for panel in figure["panels"]:
            panel["levels"] = []
            panel["series"] = panel["series"][:1]
    claims = check_claims(figures, data=LONG)
    told = [claim["id"] for claim in claims if claim["verdict"] != OPEN]
    assert told == ["aware-goes-on-improving"]  # needs nothing but policy-aware itself
    assert strict(claims)


def test_pairing_takes_out_what_runs_share():
    wild = naive.draw(naive.paper_like(), np.random.default_rng(0), common=0.2)
    assert set(verdicts(wild).values()) == {HOLDS}


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_holes_anywhere_do_no_harm(seed):
    rng = np.random.default_rng(seed)
    figures = naive.draw(naive.paper_like(), rng, runs=3)
    for figure in figures:
        for panel in figure["panels"]:
            panel["series"] = [series for series in panel["series"] if rng.random() < 0.9]
            for series in panel["series"]:
                series["points"] = [point for point in series["points"] if rng.random() < 0.7]
                for point in series["points"]:
                    point["values"] = [None if rng.random() < 0.2 else value for value in point["values"]]
    assert strict(check_claims(figures, data=LONG))


# what is written down


def test_a_claim_reads_well():
    figures = naive.draw(naive.paper_like(), np.random.default_rng(0), noise=0.0, common=0.0)
    found = {claim["id"]: claim for claim in check_claims(figures, data=LONG)}
    near = found["aware-near-full-information-dcg"]
    assert near["numbers"] == (
        "DCG@5 of policy-aware against full-information at k = 1: -0.3 % (-0.3 to -0.3), the weakest of 7 checks"
        " (7 hold, 0 do not, 0 open); 8 runs"
    )
    assert near["checks"][0]["value"] == pytest.approx(-0.003)
    assert near["checks"][0]["unit"] == "relative"
    assert near["paper"] == "Section 6.1, Figure 1"
    assert "policy-oblivious from k = 50 on" in found["baselines-reach-dcg-at-large-k"]["numbers"]
    assert "10 % of the gap is closed" in found["randomisation-alone-does-not-rescue"]["numbers"]
    assert "no-cutoff from 10^6 clicks on, policy-aware from 10^7" in found["aware-needs-more-clicks"]["numbers"]
    assert "the loss best on average was chosen 24 of 24 times" in found["selection-best-with-enough-clicks"]["numbers"]
    assert "replace-last:k=5 3.0 %" in found["cheaper-policies-need-more-clicks"]["numbers"]


def test_the_document():
    figures = naive.draw(naive.paper_like(), np.random.default_rng(0), runs=3)
    claims = check_claims(figures, data=LONG)
    document = claims_document(claims, {"preset": None, "quick": True, "data": LONG, "figures": figures})
    assert {name: document[name] for name in document if name != "claims"} == {
        "format": "counterrank-claims",
        "version": 1,
        "preset": None,
        "quick": True,
        "data": ["long"],
        "runs": 3,
        "confidence": 0.95,
    }
    assert strict(document)


@pytest.mark.parametrize("options", [{"confidence": 1.0}, {"margin": 0.0}, {"margin": True}, {"confidence": "high"}])
def test_options_are_checked(options):
    with pytest.raises(CounterrankError, match="expected a number between 0 and 1"):
        check_claims([], **options)


def test_words_for_numbers():
    assert clicks_text(10**8) == "10^8"
    assert clicks_text(300) == "300"
    assert first_within({1: None, 2: 0.0}, 0.02) == 2
    assert first_within({1: 0.0, 2: None}, 0.02) is None

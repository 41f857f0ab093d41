"""Verdicts: better, worse or undecided by the confidence interval, whether by a margin, and in words."""

import dataclasses
import warnings

import numpy as np
import pytest

import counterrank as cr
from counterrank import evaluation
from counterrank.evaluation import Estimate, Verdict, verdict

NONE = (None, None)


def difference(value, interval, metric="dcg@5", **changes):
    """An estimate whose numbers of the kind that verdicts on this metric ignore say the opposite."""
    opposite = -1000.0, (-1001.0, -999.0)
    if metric == "arp":
        kinds = {"ips": None, "ips_interval": None, "self_normalized": value, "self_normalized_interval": interval}
    else:
        kinds = {"ips": value, "ips_interval": interval}
        kinds |= dict(zip(("self_normalized", "self_normalized_interval"), opposite, strict=True))
    about = {"effective_sample_size": 900.0, "largest_share": 0.01, "target": "queries", "confidence": 0.95}
    about |= {"n_queries": 500, "n_sessions": 10_000, "n_clicks": 4000, "doubts": (), "is_difference": True}
    return Estimate(metric, **kinds, **(about | changes))


# gain and its interval, margin; decision, whether it passes, exit code; how the sentence begins
CASES = [
    (0.07, (0.021, 0.119), 0.0, "better", True, 0, "new is better than old: "),
    (0.02, (-0.01, 0.05), 0.0, "undecided", False, 3, "undecided whether new is better than old: "),
    (-0.02, (-0.05, 0.01), 0.0, "undecided", False, 3, "undecided whether new is better than old: "),
    (-0.07, (-0.119, -0.021), 0.0, "worse", False, 4, "new is worse than old: "),
    (0.5, (0.0, 1.0), 0.0, "undecided", False, 3, "undecided whether new is better than old: "),  # not above
    (-0.5, (-1.0, 0.0), 0.0, "undecided", False, 3, "undecided whether new is better than old: "),
    (0.0, (0.0, 0.0), 0.0, "undecided", False, 3, "undecided whether new is better than old: "),
    # a gain of at least so much
    (0.07, (0.06, 0.08), 0.05, "better", True, 0, "new is better than old by more than the margin of 0.05: "),
    (0.02, (0.01, 0.03), 0.05, "better", False, 3, "new is better than old, but not by the margin of 0.05: "),
    (0.05, (0.01, 0.09), 0.05, "better", False, 3, "new is better than old, but perhaps not by the margin of 0.05: "),
    (0.07, (0.05, 0.09), 0.05, "better", False, 3, "new is better than old, but perhaps not by the margin of 0.05: "),
    (0.01, (-0.01, 0.09), 0.05, "undecided", False, 3, "undecided whether new is better than old: "),
    (-0.02, (-0.03, -0.01), 0.05, "worse", False, 4, "new is worse than old: "),
    # a loss of no more
    (0.02, (0.01, 0.03), -0.01, "better", True, 0, "new is better than old: "),
    (0.01, (-0.008, 0.03), -0.01, "undecided", True, 0, "undecided whether new is better than old, but within the "),
    (-0.005, (-0.008, -0.002), -0.01, "worse", True, 0, "new is worse than old, but within the margin of 0.01: "),
    (
        -0.01,
        (-0.015, -0.005),
        -0.01,
        "worse",
        False,
        4,
        "new is worse than old, and perhaps by more than the margin of",
    ),
    (-0.05, (-0.07, -0.03), -0.01, "worse", False, 4, "new is worse than old by more than the margin of 0.01: "),
    (0.0, (-0.02, 0.02), -0.01, "undecided", False, 3, "undecided whether new is better than old, and perhaps worse"),
    # nothing to tell by
    (0.07, None, 0.0, "undecided", False, 3, "undecided whether new is better than old: "),
    (0.07, None, -9.0, "undecided", False, 3, "undecided whether new is better than old: "),
    (None, None, 0.0, "undecided", False, 3, "undecided whether new is better than old: "),
]


@pytest.mark.parametrize("metric", ["dcg@5", "dcg", "precision@3", "arp"])
@pytest.mark.parametrize(("gain", "interval", "margin", "decision", "passes", "code", "words"), CASES)
def test_decisions(metric, gain, interval, margin, decision, passes, code, words):
    sign = -1.0 if metric == "arp" else 1.0
    value = None if gain is None else sign * gain
    bounds = None if interval is None else tuple(sorted(sign * bound for bound in interval))
    found = verdict(difference(value, bounds, metric), margin, names=("new", "old"))
    assert (found.decision, found.passes, found.exit_code) == (decision, passes, code)
    assert (found.estimate, (found.lower, found.upper)) == (gain, interval or NONE)
    assert (found.metric, found.margin, found.population, found.confidence) == (metric, margin, "queries", 0.95)
    assert found.kind == ("self-normalised" if metric == "arp" else "per session")
    assert found.sentence.startswith(words)
    assert f": {metric} {found.kind} " in found.sentence
    assert found.sentence.endswith(", for queries like these.")


SENTENCES = [
    (difference(0.07, (0.021, 0.119)), "dcg@5 per session +0.070 (95 % confidence interval 0.021 to 0.119)"),
    (
        difference(-0.52, (-0.73, -0.31), "arp"),
        "arp self-normalised -0.52 (95 % confidence interval -0.73 to -0.31; lower is better)",
    ),
    (difference(0.07, (0.021, 0.119), confidence=0.999), "+0.070 (99.9 % confidence interval 0.021 to 0.119)"),
    (difference(31.0, (12.0, 50.0), "dcg"), "dcg per session +31 (95 % confidence interval 12 to 50)"),
    # a bound that is not 0 does not look like it
    (difference(0.05, (0.00004, 0.09996)), "+0.05000 (95 % confidence interval 0.00004 to 0.09996)"),
    (difference(2e-6, (1e-6, 3e-6)), "+0.0000020 (95 % confidence interval 0.0000010 to 0.0000030)"),
    (difference(0.0, (0.0, 0.0)), "+0.0 (95 % confidence interval 0.0 to 0.0)"),
    (difference(0.25, (0.25, 0.25)), "+0.25 (95 % confidence interval 0.25 to 0.25)"),
    (difference(-1e-9, (-0.1, 0.1)), "+0.00 (95 % confidence interval -0.10 to 0.10)"),
    (difference(0.0701, None), "+0.0701 (no confidence interval, since there is too little data)"),
    (difference(None, None, "arp"), "arp self-normalised cannot be estimated from these clicks"),
]


@pytest.mark.parametrize(("found", "words"), SENTENCES)
def test_numbers_in_words(found, words):
    assert words in verdict(found).sentence


def test_a_bound_and_the_margin_are_printed_as_different_numbers():
    found = verdict(difference(0.1, (0.0502, 0.15)), 0.05)
    assert (found.passes, "0.0502 to 0.1500" in found.sentence) == (True, True)


def test_population_and_doubts():
    found = verdict(difference(0.07, (0.02, 0.12), target="these-queries", doubts=("few queries",)))
    assert found.sentence.startswith("the first ranker is better than the second: ")
    assert found.sentence.endswith(", for these queries.")
    assert found.doubts == ("few queries",)
    assert isinstance(found, Verdict)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.margin = 3.0


@pytest.mark.parametrize(
    ("given", "margin", "message"),
    [
        (
            difference(0.1, (0.0, 0.2), is_difference=False),
            0.0,
            r"difference: an Estimate of one ranking; expected .*compare",
        ),
        (
            {"dcg@5": difference(0.1, (0.0, 0.2))},
            0.0,
            r"difference: dict; expected an Estimate from evaluation.compare",
        ),
        (0.3, 0.0, "difference: float; expected"),
        (difference(0.1, (0.0, 0.2)), float("nan"), "margin=nan: expected a number, such as"),
        (difference(0.1, (0.0, 0.2)), float("inf"), "margin=inf: expected a number, such as"),
        (difference(0.1, (0.0, 0.2)), "0.1", "margin='0.1': expected a number, such as"),
        (difference(0.1, (0.0, 0.2)), True, "margin=True: expected a number, such as"),
        (difference(0.1, (0.0, 0.2)), None, "margin=None: expected a number, such as"),
    ],
)
def test_bad_arguments(given, margin, message):
    with pytest.raises(cr.CounterrankError, match=message):
        verdict(given, margin)


def test_from_clicks():
    """The true order against its reverse, compared both ways: no metric and no direction is decided wrongly."""
    rng = np.random.default_rng(0)
    data = cr.RankingData(rng.random((2000, 1)), np.arange(0, 2001, 10), labels=np.tile([4.0, 0, 0, 0, 0] * 2, 200))
    policy, exam = cr.policies.PlackettLuce(5), cr.examination.inverse_rank(5)
    good, bad = data.labels.astype(float), -data.labels.astype(float)
    clicks = cr.simulation.simulate(data, np.zeros(2000), policy, exam, sessions=40_000, seed=1)
    rho = policy.propensity(np.zeros(2000), data.offsets, exam)
    metrics = ["dcg@5", "arp", "precision@2"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        better = evaluation.compare(good, bad, data, clicks, rho, metrics)
        worse = evaluation.compare(bad, good, data, clicks, rho, metrics)
        same = evaluation.compare(good, good, data, clicks, rho, metrics)
        single = evaluation.estimate(good, data, clicks, rho, metrics)
    for name in metrics:
        assert [verdict(found[name]).exit_code for found in (better, worse, same)] == [0, 4, 3]
        assert verdict(same[name], -1e-6).passes
        gain = verdict(better[name])
        assert gain.lower < gain.estimate < gain.upper
        assert verdict(worse[name]).estimate == pytest.approx(-gain.estimate)
        with pytest.raises(cr.CounterrankError, match="an Estimate of one ranking"):
            verdict(single[name])

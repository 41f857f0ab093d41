"""Claims where something is missing (points, runs, whole figures), and how claims are written down."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.common.errors import CounterrankError
from counterrank.experiments.claims import FAILS, HOLDS, OPEN, claims_document, clicks_text, first_within
from counterrank.experiments.summary import Summary
from tests.support import claims as pictures
from tests.support.claims import LONG, check_claims, verdicts


def strict(claims):
    """JSON without nan, unchanged by a round trip."""
    return json.loads(json.dumps(claims, allow_nan=False)) == claims


@pytest.mark.parametrize("figures", [[], [{"number": 1, "panels": []}], [{"number": number} for number in range(1, 5)]])
def test_nothing_to_look_at(figures):
    claims = check_claims(figures, data=LONG)
    assert {claim["verdict"] for claim in claims} == {OPEN}
    assert all("is not part of this run" in claim["numbers"] or "has no points" in claim["numbers"] for claim in claims)
    assert strict(claims)


def test_one_run_is_not_enough_evidence():
    claims = check_claims(pictures.draw(pictures.paper_like(), np.random.default_rng(0), runs=1), data=LONG)
    assert {claim["verdict"] for claim in claims} == {OPEN}
    assert "a confidence interval needs two runs" in claims[0]["numbers"]
    assert claims[0]["checks"][0]["low"] is None
    assert strict(claims)


def test_two_runs_without_noise_are_enough_evidence():
    figures = pictures.draw(pictures.paper_like(), np.random.default_rng(0), runs=2, noise=0.0, common=0.0)
    claims = check_claims(figures, data=LONG)
    assert {claim["verdict"] for claim in claims} == {HOLDS}
    assert strict(claims)


def test_all_methods_equal():
    truth = {
        number: {name: {one: dict.fromkeys(xs, 1.0) for one, xs in series.items()} for name, series in panels.items()}
        for number, panels in pictures.paper_like().items()
    }
    found = verdicts(pictures.draw(truth, np.random.default_rng(0), noise=0.0))
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
    figures = pictures.draw(pictures.paper_like(), np.random.default_rng(0), runs=3, noise=0.0005)
    claims = check_claims(thinned(figures, ((1, 2, 5, 20), (10**3, 10**5, 10**7))), data=LONG)
    found = {claim["id"]: claim for claim in claims}
    assert found["baselines-reach-dcg-at-large-k"]["verdict"] == OPEN
    assert "no k > 50" in found["baselines-reach-dcg-at-large-k"]["numbers"]
    assert found["aware-near-full-information-dcg"]["verdict"] == HOLDS
    assert found["baselines-stop-improving"]["verdict"] == HOLDS
    assert found["truncated-lambdaloss-best"]["verdict"] == HOLDS
    assert strict(claims)


@pytest.mark.parametrize("grids", [((1,), (10**2,)), ((100,), (10**8,)), ((), ()), ((1, 100), (10**2, 10**5))])
def test_tiny_grids_do_no_harm(grids):
    figures = thinned(pictures.draw(pictures.paper_like(), np.random.default_rng(0), runs=3), grids)
    assert strict(check_claims(figures, data=LONG))


def test_a_hole_is_no_support():
    figures = pictures.draw(pictures.paper_like(), np.random.default_rng(0))
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
    figures = pictures.draw(pictures.paper_like(), np.random.default_rng(0))
    for figure in figures:
        for panel in figure["panels"]:
            panel["levels"] = []
            panel["series"] = panel["series"][:1]
    claims = check_claims(figures, data=LONG)
    assert {claim["verdict"] for claim in claims} == {OPEN}
    assert strict(claims)


def test_pairing_takes_out_what_runs_share():
    wild = pictures.draw(pictures.paper_like(), np.random.default_rng(0), common=0.2)
    assert set(verdicts(wild).values()) == {HOLDS}


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_holes_anywhere_do_no_harm(seed):
    rng = np.random.default_rng(seed)
    figures = pictures.draw(pictures.paper_like(), rng, runs=3)
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
    figures = pictures.draw(pictures.paper_like(), np.random.default_rng(0), noise=0.0, common=0.0)
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
    assert [claim["id"] for claim in found.values() if claim["own"]] == list(found)[-3:]
    assert "replace-last:k=5 3.0 %" in found["cheaper-policies-need-more-clicks"]["numbers"]


def test_the_document():
    figures = pictures.draw(pictures.paper_like(), np.random.default_rng(0), runs=3)
    claims = check_claims(figures, data=LONG)
    content = {"format": "counterrank-summary", "version": 1, "quick": True, "data": LONG, "figures": figures}
    document = claims_document(Summary.from_json({**content, "claims": claims}))
    assert document["claims"] == claims
    assert {name: document[name] for name in document if name != "claims"} == {
        "format": "counterrank-claims",
        "version": 1,
        "preset": None,
        "quick": True,
        "data": ["long"],
        "runs": 3,
        "confidence": 0.95,
        "looks": [],
        "margin": 0.02,
        "noticeable": 0.005,
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

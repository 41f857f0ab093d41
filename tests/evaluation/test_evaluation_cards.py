"""What a notebook shows of estimates, comparisons, verdicts, selections, inspections and plans."""

import copy
import json
import pickle

import pytest

from counterrank import evaluation, policies
from counterrank.evaluation import Estimate, Estimates, LoggingPlans, Selection, estimate, inspect_clicks, verdict
from tests.evaluation.test_select import BAD, GOOD, Fixed, make_world, rankers
from tests.evaluation.test_verdict import difference
from tests.support import inspected_logs
from tests.support.cards import card_text, check_shown

pytestmark = pytest.mark.filterwarnings("ignore::counterrank.evaluation.IntervalWarning")

ABOUT = {"effective_sample_size": 900.0, "largest_share": 0.01, "target": "queries", "confidence": 0.95}
ABOUT |= {"n_queries": 500, "n_sessions": 10_000, "n_clicks": 4000, "doubts": ()}
DCG = Estimate("dcg@5", 0.4123, 0.81, (0.4012, 0.4234), (0.79, 0.83), **ABOUT)
ARP = Estimate("arp", None, 12.3, None, (11.9, 12.7), **ABOUT)


def test_an_estimate_says_what_it_found():
    assert repr(DCG) == (
        "Estimate(dcg@5: ips 0.412 (0.401 to 0.423), self_normalized 0.810 (0.790 to 0.830); "
        "95 % intervals for queries like these; 4,000 clicks)"
    )
    text = check_shown(DCG)
    assert "dcg@5 per session 0.412 (95 % confidence interval 0.401 to 0.423), for queries like these." in text
    assert "4,000 clicks in 10,000 sessions of 500 queries" in text
    text = check_shown(ARP)
    assert "arp self-normalised 12.30 (95 % confidence interval 11.90 to 12.70; lower is better)" in text
    assert ARP.summary()["self_normalized"] == 12.3
    json.dumps(ARP.summary())


def test_estimates_without_intervals_or_values():
    alone = Estimate("dcg@5", 0.4, None, None, None, **ABOUT)
    assert "dcg@5 per session 0.4 (no confidence interval: too little data)" in check_shown(alone)
    assert repr(alone).startswith("Estimate(dcg@5: ips 0.4; ")
    none = Estimate("arp", None, None, None, None, **ABOUT)
    assert "arp cannot be estimated from these clicks." in check_shown(none)


def test_doubts_and_in_sample_are_shown():
    doubtful = Estimate("dcg@5", 0.4, 0.8, (0.3, 0.5), (0.7, 0.9), **(ABOUT | {"doubts": ("few <b> clicks",)}))
    assert "dcg@5: few <b> clicks" in card_text(doubtful)
    assert repr(doubtful).endswith("4,000 clicks; 1 doubt)")
    seen = Estimate("dcg@5", 0.4, 0.8, (0.3, 0.5), (0.7, 0.9), **ABOUT, in_sample=True)
    assert "for queries like these, in-sample." in card_text(seen)


def test_a_comparison_says_which_is_better():
    better = difference(0.07, (0.021, 0.119))
    text = check_shown(better)
    assert text.startswith(
        "Comparison of two rankings The first ranking is better than the second: dcg@5 per session +0.070 "
        "(95 % confidence interval 0.021 to 0.119), for queries like these."
    )
    assert repr(better).startswith("Estimate(difference of dcg@5: ips +0.070 (0.021 to 0.119), ")
    assert "Undecided whether the first ranking is better" in card_text(difference(0.02, (-0.01, 0.05)))
    worse = card_text(difference(1.0, (0.5, 1.5), metric="arp"))
    assert "The first ranking is worse than the second: arp self-normalised +1.00" in worse


def test_estimates_are_a_dict():
    data, clicks, rho = make_world(50)
    found = estimate(GOOD * 50, data, clicks, rho, ["arp", "dcg@5"])
    assert isinstance(found, dict)
    assert type(found) is Estimates
    assert found == dict(found)
    assert list(found) == ["arp", "dcg@5"]
    assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == found
    text = check_shown(found)
    assert text.startswith("Estimates from clicks arp self-normalised")
    assert "dcg@5 per session" in text
    assert found.summary()["arp"]["metric"] == "arp"
    assert len(found.plot().vconcat) == 3  # arp, and dcg@5 in two ways
    assert len(found["arp"].plot().vconcat) == 1
    assert "none" in check_shown(Estimates())
    both = evaluation.compare(GOOD * 50, BAD * 50, data, clicks, rho, ["dcg@5"])
    assert type(both) is Estimates
    assert "The first ranking is better" in check_shown(both)
    assert all("zero" in str(panel) for panel in both.plot().to_dict()["vconcat"])


def test_a_verdict_shows_the_gain_and_the_margin():
    found = verdict(difference(0.156, (0.0076, 0.305)), margin=0.01, names=("<new>", "old"))
    text = check_shown(found)
    assert text.startswith("Verdict better ? <new> is better than old, but perhaps not by the margin of 0.01")
    assert "+0.156 0.008 to 0.305 no" in text  # no bound looks as if it were the margin
    assert found.summary()["decision"] == "better"
    assert "✓" in card_text(verdict(difference(0.07, (0.021, 0.119))))
    assert "✗" in card_text(verdict(difference(-0.07, (-0.119, -0.021))))
    assert "? undecided" in card_text(verdict(difference(None, None)))


def test_a_selection_shows_all_rankers():
    data, clicks, rho = make_world()
    found = evaluation.select(rankers(), data, clicks, rho)
    text = check_shown(found)
    assert text.startswith(f"Selection Ranker 1 is the best of {len(found.estimates)} by dcg@5: chosen in ")
    assert "ranker 1 ✓" in text
    assert "ranker 2" in text
    assert repr(found) == f"Selection(index 1 of {len(found.estimates)} by dcg@5, stability {found.stability:.3g})"
    assert found.summary()["ranker 1"]["chosen"] == found.shares[1]
    assert "ranker 1 (best)" in str(found.plot().to_dict())


def test_a_selection_of_scores_does_not_print_them():
    best = list(range(100_000))
    found = Selection(best, 0, "dcg@5", (DCG, DCG), 0.75, (0.75, 0.25))
    assert len(check_shown(found)) < 1000
    assert "75.0 %" in card_text(found)
    named = Selection(Fixed([1.0]), 0, "dcg@5", (DCG,), 1.0, (1.0,))
    assert "100 %" in check_shown(named)


def test_an_inspection_shows_the_verdict_on_each_estimator():
    policy, data = policies.Deterministic(3), inspected_logs.DATA
    log = inspected_logs.make_log(policy)
    found = inspect_clicks(log, data=data, policy=policy, scores=inspected_logs.SCORES)
    text = check_shown(found)
    assert found.headline in text
    for finding in found.verdict:
        assert " ".join(finding.text.split()) in text
    for advice in found.advice:
        assert " ".join(advice.split()) in text
    assert repr(found).startswith("Inspection(20,000 sessions, ")
    json.dumps(found.summary())
    assert "expected" in str(found.plot().to_dict())
    alone = inspect_clicks(inspected_logs.stripped(log))
    assert "–" in check_shown(alone)  # P(examined) is not known
    assert "expected" not in str(alone.plot().to_dict())


def test_plans_show_advice_and_price():
    data = inspected_logs.DATA
    chosen = {"deterministic:k=3": policies.Deterministic(3), "replace-last:k=3": policies.ReplaceLast(3)}
    plans = evaluation.plan_logging(data, inspected_logs.SCORES, chosen, [1.0, 0.5, 0.3], [1000, 10**6])
    assert isinstance(plans, list)
    assert type(plans) is LoggingPlans
    text = check_shown(plans)
    for sentence in evaluation.advise_logging(plans):
        assert sentence in text
    assert "1,000,000" in text
    assert "biased" in text
    assert repr(plans[0]).startswith("LoggingPlan(deterministic:k=3: ")
    assert "replace-last:k=3" in check_shown(plans[1])
    assert plans.summary()["replace-last:k=3"]["covered"] == 1.0
    json.dumps(plans.summary())
    assert "replace-last:k=3" in str(plans.plot().to_dict())
    assert "none" in check_shown(LoggingPlans())

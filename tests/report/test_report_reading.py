"""What the report says in words: every sentence that a run can bring about."""

import pytest

from counterrank.experiments.claims import claims_document
from counterrank.experiments.settings import Settings
from counterrank.experiments.summary import Summary, over_runs
from counterrank.report import summary_text, write_report
from counterrank.report.page import report_page, setting_rows
from counterrank.report.summary_text import glossary, sort_claims
from counterrank.report.text import readable
from tests.support.claims import check_claims
from tests.support.summaries import STUDENT, make_demo, make_summary, value, written

COUNTS = {"wanted": 100, "done": 95, "failed": 5, "untrained": 5}


def reading(summary):
    return summary_text.reading(Summary.from_json(summary))


def figures(*numbers):
    return Summary.from_json(make_summary(runs=1, figures=numbers)).figures


def opening(**changes):
    return " ".join(reading(make_summary(runs=2, figures=(2,)) | changes))


def page_of(summary):
    return " ".join(report_page(Summary.from_json(summary), {}, {}, {}).split())


# what was done

CELLS = [
    (COUNTS, "The run is not complete: 90 of 100 rankers were trained (5 failed). 5 rankers had too few clicks"),
    (COUNTS | {"done": 100, "failed": 0}, "5 rankers had too few clicks to learn anything from."),
    (COUNTS | {"done": 60, "failed": 0, "untrained": 0}, "The run is not complete: 60 of 100 rankers were trained."),
]


@pytest.mark.parametrize(("cells", "words"), CELLS)
def test_rankers_without_clicks_are_counted_once(cells, words):
    assert words in opening(cells=cells)
    assert ("not complete" in opening(cells=cells)) == (cells["done"] < 100)


def test_progress_counts_the_same():
    page = page_of(make_summary(figures=()) | {"cells": COUNTS})
    assert "90 of 100 rankers trained, 5 failed, 5 had nothing to learn from" in page


RUNS = [
    ({"production_seed": None}, "in 2 independent runs, each with clicks and a production ranker of its own"),
    ({"production_seed": 0}, "in 2 runs, each with clicks of its own and one production ranker for all"),
    ({}, "in 2 runs, and evaluated"),
]


@pytest.mark.parametrize(("settings", "words"), RUNS)
def test_what_runs_share_is_said(settings, words):
    assert words in opening(settings=settings)
    assert ("independent" in opening(settings=settings)) == ("independent" in words)


def test_folds_have_a_production_ranker_each():
    data = make_summary()["data"] * 2
    assert "one production ranker of each fold" in opening(settings={"production_seed": 3}, data=data)
    assert "in 1 run, and evaluated" in " ".join(reading(make_summary(runs=1) | {"settings": {"production_seed": 3}}))


# what came out


def with_means(number, aware, production, best):
    summary = make_summary(runs=2, figures=(number,))
    (panel,) = [panel for panel in summary["figures"][0]["panels"] if panel["name"] == "dcg@5"]
    for point in panel["series"][0]["points"]:
        point |= value([aware, aware])
    panel["levels"] = [{"name": "production", **value([production] * 2)}]
    panel["levels"] += [{"name": "full-information", **value([best] * 2)}]
    return summary


def test_the_gap_that_is_closed():
    text = " ".join(reading(with_means(2, 0.75, 0.5, 1.0)))
    assert "has a DCG@5 of 0.7500; the production ranker behind the pages has 0.5000" in text
    assert "so 50 % of the gap between them is closed (95 % confidence interval 50 to 50 %)." in text


def with_values(aware, production, best):
    summary = with_means(2, 0.7, 0.5, 0.9)
    panel = summary["figures"][0]["panels"][1]
    panel["series"][0]["points"][-1] |= value(aware)
    panel["levels"] = [{"name": "production", **value(production)}, {"name": "full-information", **value(best)}]
    return " ".join(reading(summary))


def test_the_share_of_the_gap_has_an_interval():
    # against a gap that is the same in all runs the interval is Student's: 0.75 +- 4.303 * 0.05 / sqrt(3)
    text = with_values([0.85, 0.875, 0.9], [0.5] * 3, [1.0] * 3)
    assert "so 75 % of the gap between them is closed (95 % confidence interval 63 to 87 %)." in text


@pytest.mark.parametrize(
    ("aware", "best"), [([0.51, 0.9, 0.6], [1.0] * 3), ([0.8, 0.81, 0.79], [0.6, 1.4, 0.9]), ([0.6, 0.7], [0.9, 0.6])]
)
def test_no_share_where_the_runs_cannot_tell(aware, best):
    text = with_values(aware, [0.5] * len(best), best)
    assert "; the runs differ too much to say how much of the gap between them is closed." in text


def test_no_share_of_one_run():
    text = with_values([0.8], [0.5], [1.0])
    assert "one trained on labels 1.0000. The best" in text
    assert "of the gap" not in text


@pytest.mark.parametrize("freedom", [n - 1 for n in STUDENT])
def test_intervals_are_those_of_the_summary(freedom):
    values = [float(i * i) for i in range(freedom + 1)]
    known = value(values)
    found = over_runs(values)
    expected = (known["mean"], known["low"], known["high"])
    assert (found.mean, found.low, found.high) == pytest.approx(expected, rel=1e-3, abs=0.01)


def test_no_gap_is_closed_below_the_production_ranker():
    text = " ".join(reading(with_means(2, 0.4, 0.5, 0.52)))
    assert "one trained on labels 0.5200; the policy-aware ranker is below the production ranker." in text
    assert "of the gap" not in text


def test_figure_1_names_its_clicks():
    summary = with_means(1, 0.75, 0.5, 1.0)
    summary["settings"] = {"clicks_by_k": 10**6}
    assert "With 5 results on the page and 10⁶ clicks, the policy-aware ranker has" in " ".join(reading(summary))
    summary["settings"] = {}
    assert "With 5 results on the page, the policy-aware ranker has" in " ".join(reading(summary))


# claims


def test_our_own_claims_are_counted_apart():
    summary = make_summary(runs=3)
    claims = check_claims(summary["figures"], data=summary["data"])
    for claim in claims:
        claim["verdict"] = "holds" if claim["figure"] in (1, 4) else "does not hold"
    claims[-1]["verdict"] = "not enough evidence"
    text = opening(claims=claims, figures=summary["figures"])
    assert "10 of 24 claims of the paper hold here, 14 do not, and 0 lack evidence." in text
    assert "2 of 3 findings of our own, on what the paper leaves open, hold." in text
    assert "not part of this run" not in text


def test_claims_of_other_figures_are_said_apart(tmp_path):
    summary = make_summary(runs=3, figures=(2,))
    summary["claims"] = check_claims(summary["figures"], data=summary["data"])
    sorted_claims = sort_claims(Summary.from_json(summary))
    assert [len(some) for some in sorted_claims] == [5, 0, 22]
    text = " ".join(reading(summary))
    assert "of 5 claims of the paper hold here" in text
    assert "our own" not in text
    assert "22 claims belong to figures that are not part of this run." in text
    page = page_of(summary)
    assert page.count('class="statement"') == 5
    write_report(summary, tmp_path)
    assert (tmp_path / "claims.md").read_text(encoding="utf-8").count("\n") == 4 + 5


def test_only_claims_of_other_figures():
    summary = make_summary(figures=())
    assert "13 claims belong to figures that are not part of this run." in " ".join(reading(summary))
    assert "No claim was checked in this run. 13 claims belong" in page_of(summary)


def test_the_page_states_the_margins_that_claims_use():
    document = claims_document(Summary())
    page = page_of(make_summary())
    assert f"differ by no more than {100 * document['margin']:g} % are taken as equal" in page
    assert f"surely smaller than {100 * document['noticeable']:g} % counts as none" in page
    assert "A single check may fail while the claim only lacks evidence" in page
    assert "Claims of the paper, and our own" in page


def test_the_sign_of_numbers_is_explained_with_the_claims():
    assert "In all numbers plus is better, for ARP as well" in page_of(make_summary())


# words, settings, and what comes next


def test_only_words_of_the_run_are_explained():
    def terms(*numbers):
        return [term for term, _ in glossary(figures(*numbers))]

    shared = ["item selection bias", "policy-aware", "policy-oblivious", "rerank", "randomised"]
    assert terms(1) == [*shared, "production, full information", "ARP", "DCG@5"]
    assert terms(2) == [*shared, "no cutoff", "production, full information", "ARP", "DCG@5"]
    assert terms(3) == ["item selection bias", "policy-aware", "production, full information", "DCG@5"]
    assert terms() == []
    assert "<dt>no cutoff</dt>" in page_of(make_summary())
    assert "<dl" not in page_of(make_summary(figures=()))


def test_settings_that_are_left_open_are_explained():
    left = dict(Settings(production_seed=None).plain())
    rows = dict(setting_rows(left, []))
    assert rows["production_seed"] == "another in each run"
    assert rows["policies"] == "one of each kind"
    assert rows["patience"].startswith("20 + 10 log10(clicks)")
    assert rows["tolerance"] == "1e-4 for ARP, 1e-6 for DCG"
    assert rows["queries"] == "all"
    assert rows["learning_rates"] == "none by loss"
    assert "none" not in rows.values()
    policies = dict(setting_rows(left, figures(4)))["policies"]
    assert policies.startswith("deterministic:k=5; replace-last:k=5; ")
    assert dict(setting_rows({"patience": 7}, [])) == {"patience": "7"}


def test_the_page_says_how_to_go_on():
    assert "<code>--until-decided</code>" in page_of(make_summary(runs=8))
    assert "counterrank train DATA --log LOG" in page_of(make_summary(runs=1))


# names

NAMES = {
    "plackett-luce:k=5,temperature=1e+5": "plackett-luce (temperature 1e+5)",
    ".5*deterministic:k=3+.5*replace-last:k=3": ".5 deterministic + .5 replace-last",
    "0.9*plackett-luce:k=5,temperature=1e+5 + 1e-1*replace-last:k=5": "0.9 plackett-luce + 1e-1 replace-last",
    "2 x": "2 x",
}


@pytest.mark.parametrize(("name", "label"), NAMES.items())
def test_mixtures_read_well(name, label):
    assert readable(name) == label


def test_the_demo_names_the_metric_of_its_gap():
    assert "how far the DCG@5 of a ranker came" in written("demo").read_text(encoding="utf-8")
    assert "dcg@5" in make_demo()["rankers"][0]["metrics"]

"""A figure of one's own: registered without touching the library, run, checked, drawn."""

import json

import pytest

from counterrank.common.errors import CounterrankError
from counterrank.experiments import (
    FigureSpec,
    Settings,
    check_claims,
    choose_settings,
    claims_document,
    register_figure,
    reproduce,
    summarize,
)
from counterrank.experiments.claims import Check, at_least
from counterrank.experiments.figure_registry import FIGURES
from counterrank.experiments.summary import OPEN, Axis, Figure, Summary
from counterrank.report import write_report


def grid(make):
    """Policy-aware from pages of two and of five results."""
    for page in (2, 5):
        policy = f"replace-last:k={page}"
        options = {"estimator": "policy-aware", "loss": "lambdaloss-truncated", "policy": policy, "page": page}
        yield make.point(make.dcg, policy, 500, **options, clicks=500)
    yield from make.levels(make.dcg, "lambdaloss-truncated")


def longer_pages(figure):
    panel = figure.panel("DCG@")
    values = panel.at("replace-last:k=5", 500) - panel.at("replace-last:k=2", 500)
    checks = [Check("DCG gained by longer pages", values, at_least(0.0))]
    return figure.conclude("longer-pages-teach-more", "Longer pages teach more.", "ours", checks, own=True)


TOY = FigureSpec(
    number=9,
    title="Pages of two and of five",
    caption="A line for each length of the page.",
    x=Axis("clicks", "Clicks", log=True),
    grid=grid,
    claims=(longer_pages,),
    experiment="page-lengths",
)


@pytest.fixture
def toy():
    register_figure(TOY)
    yield TOY
    del FIGURES[TOY.number]


def test_a_figure_is_not_known_before_it_is_registered():
    expected = r"^figures=9: expected some of 1, 2, 3, 4, in that order; or 5 alone; or 6 alone$"
    with pytest.raises(CounterrankError, match=expected):
        Settings(figures=(9,))


def test_a_registered_figure_is_run_checked_and_drawn(toy, tmp_path):
    settings = choose_settings("page-lengths", given={"runs": 2, "max_epochs": 1, "learning_rate": 1.0, "clip": "none"})
    assert settings.figures == (9,)
    run = reproduce("synthetic:yahoo:queries=40", tmp_path / "run", settings, jobs=1)
    assert len(run.rows) == 2 * 4
    summary = summarize(run)
    assert Summary.from_json(json.loads(json.dumps(summary.to_json()))) == summary
    assert [claim["id"] for claim in claims_document(summary)["claims"]] == ["longer-pages-teach-more"]
    write_report(summary, tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Figure 9. Pages of two and of five" in page
    assert "A line for each length of the page." in page
    assert len((tmp_path / "run" / "figures" / "figure9.csv").read_text().splitlines()) == 1 + 2 + 2
    with pytest.raises(CounterrankError, match="holds a run of another experiment"):
        reproduce("synthetic:yahoo:queries=40", tmp_path / "run", Settings(figures=(2,)), jobs=1)


def test_figures_of_other_experiments_keep_their_claims(toy):
    assert len(check_claims([])) == 27
    assert Settings().figures == (1, 2, 3, 4)
    with pytest.raises(CounterrankError, match=r"figures=4,9: expected .*; or 6 alone; or 9 alone"):
        Settings(figures=(4, 9))


def test_a_figure_without_results_supports_no_claim(toy):
    (claim,) = check_claims([Figure(9)])
    assert (claim.verdict, claim.numbers) == (OPEN, "figure 9 has no points")


def test_numbers_are_unique(toy):
    with pytest.raises(CounterrankError, match="figure 9: is registered already"):
        register_figure(TOY)

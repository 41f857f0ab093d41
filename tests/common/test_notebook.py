"""Summaries that print as tables, and the parts of cards."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterrank.common import notebook
from counterrank.common.errors import CounterrankError
from counterrank.common.notebook import Html, Shown, Summary
from counterrank.common.plotting import curve_plot, history_plot, interval_plot
from tests.support.cards import card_text

EVIL = "<script>alert(1)</script>\"'&\n\x1b[2J"


def test_a_summary_is_a_dict_that_prints_as_a_table():
    found = Summary(queries=1200, by_policy={"v1": 3, "v2": 4}, shares=[0.5, 0.25], nothing=None, empty=[])
    assert found == {
        "queries": 1200, "by_policy": {"v1": 3, "v2": 4}, "shares": [0.5, 0.25], "nothing": None, "empty": []
    }  # fmt: skip
    assert json.loads(json.dumps(found)) == found
    assert repr(found).splitlines() == [
        "queries        1,200",
        "by policy: v1  3",
        "by policy: v2  4",
        "shares         0.5, 0.25",
        "nothing        –",
        "empty          –",
    ]
    assert card_text(found) == ("queries 1,200 by policy: v1 3 by policy: v2 4 shares 0.5, 0.25 nothing – empty –")
    assert type(found | {"more": 1}) is dict
    assert repr(Summary()) == "(empty)"


def test_sentences_and_rows_of_a_summary_have_a_line_each():
    long = "a sentence that is long enough to have a line of its own"
    found = Summary(advice=[long, long], rows=[{"rank": 1, "clicks": 1000}], many=list(range(100)))
    assert repr(found).splitlines() == [
        f"advice 1  {long}",
        f"advice 2  {long}",
        "rows 1    rank: 1, clicks: 1,000",
        "many      100 values",
    ]


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
))  # fmt: skip
def test_anything_prints_and_shows(value):
    found = Summary({"value": value, EVIL: EVIL})
    assert all(line.isprintable() for line in repr(found).splitlines())
    assert "<script>alert(1)" in card_text(found)  # as text: card_text fails where it is an element


def test_texts_are_escaped_everywhere():
    evil = notebook.table([EVIL], [[EVIL]], "l") + notebook.notes([EVIL], mark=EVIL) + notebook.facts({EVIL: EVIL})
    evil += notebook.details(EVIL, Html("")) + notebook.heading(EVIL) + notebook.row(notebook.as_html(EVIL))
    evil += notebook.line_svg([1.0, 2.0], EVIL, x=EVIL) + notebook.card(title=EVIL, sentence=EVIL)
    assert card_text(evil).count("<script>alert(1)</script>") >= 10
    assert "<script" not in evil


@given(
    st.lists(st.none() | st.floats(), max_size=30),
    st.none() | st.integers(0, 40),
    st.tuples(st.floats(), st.floats()).map(lambda pair: pair if pair[0] <= pair[1] else pair[::-1]),
    st.floats(),
)
def test_drawings_hold_for_any_numbers(values, marked, pair, value):
    drawn = notebook.line_svg(values, "loss", marked=marked)
    known = [each for each in values if each is not None and math.isfinite(each)]
    assert (drawn is None) == (len(known) < 2)
    card_text(drawn or "")
    scale = notebook.scale_of([pair, None], value)
    assert all(map(math.isfinite, scale)) or any(abs(each) > 1e300 for each in (*pair, value))
    card_text(notebook.interval_svg(value, pair, (0.0, 1.0), mark=value))
    card_text(notebook.bar_svg(value))
    notebook.interval_texts(value, pair)


def test_an_interval_is_drawn_to_scale():
    drawn = notebook.interval_svg(0.5, (0.25, 0.75), (0.0, 1.0), mark=0.0)
    assert 'x1="52.5" x2="147.5"' in drawn  # 5 + 190 * 0.25, 5 + 190 * 0.75
    assert 'cx="100.0"' in drawn
    assert "stroke-dasharray" in drawn
    assert "stroke-dasharray" not in notebook.interval_svg(0.5, None, (0.25, 1.0), mark=0.0)  # not on the scale


@pytest.mark.parametrize(
    ("value", "interval", "expected"),
    [
        (0.0712, (0.0214, 0.119), ("0.071", "0.021 to 0.119")),
        (12345.6, (11000.0, 13000.0), ("12,346", "11,000 to 13,000")),
        (0.001, (-0.00001, 0.2), ("0.00100", "-0.00001 to 0.20000")),  # no bound looks as if it were 0
        (0.5, None, ("0.5", "–")),
        (None, None, ("–", "–")),
        (1.0, (1.0, 1.0), ("1.0", "1.0 to 1.0")),
    ],
)
def test_intervals_in_words(value, interval, expected):
    assert notebook.interval_texts(value, interval) == expected


def test_no_bound_looks_like_the_margin():
    assert notebook.interval_texts(0.156, (0.0076, 0.305), marks=(0.0, 0.01)) == ("0.156", "0.008 to 0.305")


def test_percentages():
    texts = [notebook.percent_text(share) for share in (0.0, -0.0, 1.0, 0.9999, 0.5, -0.087, 1e-7)]
    assert texts == ["0 %", "0 %", "100 %", "> 99.9 %", "50.0 %", "-8.7 %", "1e-05 %"]


def test_tab_completion_hides_private_and_deprecated_names():
    from counterrank.common.deprecation import deprecated_method

    class Thing(Shown):
        def public(self): ...

        def _private(self): ...

        old = deprecated_method("old", "public")

    assert dir(Thing()) == ["public"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: curve_plot([], "Curve"),
        lambda: interval_plot([{"panel": "dcg@5", "name": "a", "value": None}], "Estimates", ""),
        lambda: history_plot([{"epoch": 1, "loss": None, "validation": None}], "dcg@5", 1),
    ],
)
def test_nothing_to_draw(draw):
    with pytest.raises(CounterrankError, match="plot: there are no values to draw"):
        draw()


def test_a_line_at_zero_and_a_dashed_curve():
    rows = [{"panel": "dcg@5", "name": "a", "value": 0.5, "low": 0.4, "high": 0.6}]
    assert len(interval_plot(rows, "", "", zero=True).vconcat[0].layer) == 3
    rows = [{"rank": 1, "value": 0.5, "expected": 0.5}, {"rank": 2, "value": 0.2, "expected": 0.25}]
    assert curve_plot(rows, "Rate", percent=True).to_dict()["layer"][0]["mark"]["strokeDash"] == [5, 4]
    logs = [{"sessions": 10, "value": 1.0, "policy": "a"}, {"sessions": 100, "value": 0.1, "policy": "b"}]
    drawn = curve_plot(logs, "Width", x="sessions", log=True, series="policy").to_dict()["layer"][0]["encoding"]
    assert drawn["x"]["scale"]["type"] == drawn["y"]["scale"]["type"] == "log"
    assert drawn["color"]["field"] == "policy"

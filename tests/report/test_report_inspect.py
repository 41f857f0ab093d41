"""The page of an inspection: all that it says, nothing that it should not, and charts of the right numbers."""

import json
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import counterrank as cr
from counterrank import examination, policies, simulation
from counterrank.clicks.counts import SHOWN_ONLY, ClickCounts
from counterrank.evaluation.inspection import inspect_clicks
from counterrank.report import write_inspection_report
from counterrank.report.inspection_page import inspection_specs
from counterrank.report.render import to_svg
from tests.report.test_report_browser import CHROMIUM, visit

EXAM = examination.inverse_rank(k=5)
DATA = cr.RankingData(np.zeros((900, 1)), np.arange(0, 901, 30), labels=np.arange(900) % 5)
SCORES = np.random.default_rng(0).normal(size=900)
DRIFT = [{"begin": f"2026-01-{i:02}", "pages": 100, "impressions": 500, "clicks": 50 + 3 * i} for i in range(1, 15)]
HOSTILE = "</script><script>alert(1)</script>"


def found_of(policy, sessions=20_000, **options):
    log = simulation.simulate(DATA, SCORES, policy, EXAM, sessions=sessions, seed=0)
    return inspect_clicks(log, policy=policy, scores=SCORES, **options).summary()


@pytest.fixture(scope="module")
def full():
    return found_of(policies.PlackettLuce(5, 1.0), drift=DRIFT) | {"clicks": "clicks/train", "data": "Fold1"}


def page_of(found, folder):
    return write_inspection_report(found, folder / "page.html").read_text(encoding="utf-8")


def rows_of(spec):
    """The data of a chart, which altair may put in a place of its own."""
    return spec["data"]["values"] if "values" in spec["data"] else spec["datasets"][spec["data"]["name"]]


def words(text):
    """What a reader sees."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", text, flags=re.S)
    body = re.sub(r'<span class="flag">([^<]*)</span>', r"\1", body)  # which changes no text
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def test_examination_by_rank_is_that_of_the_log_where_none_is_given(full, tmp_path):
    assert "95 % confidence interval over queries P(examined) Documents" in words(page_of(full, tmp_path))
    log = simulation.simulate(DATA, SCORES, policies.PlackettLuce(5, 1.0), EXAM, sessions=20_000, seed=0)
    found = inspect_clicks(replace(log, examination=None, propensities=None)).summary()
    seen = words(page_of(found, tmp_path))
    assert "P(examined), estimated" in seen
    assert "Examination estimated, see below" in seen
    assert "Propensities how often documents were shown" in seen
    for row in (found["ranks"][1], found["estimated_curve"]["ranks"][1]):  # of the users as fitted, and of the curve
        assert f"{row['P(examined)']:.3f}" in seen
    assert "(k=)" not in seen


def test_timestamps_that_are_not_dates_are_noted(full, tmp_path):
    note = {"kind": "have a timestamp that is not a date", "unit": "rows", "count": 3, "example": "line 5: <n/a>"}
    read = {"rows": 9, "rows_used": 9, "pages": 3, "rows_dropped": 0, "pages_dropped": 0, "faults": [], "unknown": []}
    for dated, rest in ((True, "These rows count, but not over time."), (False, "Timestamps are not used.")):
        seen = words(page_of(full | {"read": read | {"notes": [note], "dated": dated}}, tmp_path))
        assert f"Note: 3 rows have a timestamp that is not a date (line 5: <n/a>). {rest}" in seen
    assert "Note:" not in words(page_of(full | {"read": read | {"notes": [], "dated": True}}, tmp_path))


def test_the_verdict_comes_first_and_is_whole(full, tmp_path):
    seen = words(page_of(full, tmp_path))
    places = [seen.index(text) for text in (full["headline"], full["verdict"][0]["text"], full["advice"][0], "The log")]
    assert places == sorted(places)
    for item in full["verdict"]:
        assert item["text"] in seen
    marks = {"good": "supported", "warning": "with care", "bad": "not supported"}
    for item in full["verdict"]:
        if item["about"] != "the log":  # the level is given by a word and a sign, not by colour alone
            assert f"{item['about']} {marks[item['level']]} {item['text']}" in seen
    for advice in full["advice"]:
        assert advice in seen


def test_numbers_of_the_page(full, tmp_path):
    seen = words(page_of(full, tmp_path))
    assert f"{full['overview']['clicks']:,} clicks" in seen
    assert f"{round(full['weights']['effective_sample_size']):,} effective sample size" in seen
    assert f"{full['coverage']['never_shown']:,} of 900 candidates never shown" in seen
    assert "compared with PlackettLuce(k=5, temperature=1.0): none that it cannot show" in seen
    assert "by shuffling the periods" in seen
    assert "clicks/train" in seen
    assert "Fold1" in seen


def test_charts_hold_the_numbers(full):
    specs = inspection_specs(full)
    assert list(specs) == ["rates", "curve", "propensities", "old-ranks", "sessions", "drift"]
    drawn = rows_of(specs["rates"])
    assert [row["rate"] for row in drawn] == [row["click rate"] for row in full["ranks"]]
    assert [row["expected"] / drawn[0]["rate"] for row in drawn] == pytest.approx([1 / r for r in range(1, 6)])
    shares = dict.fromkeys(("of clicks", "of weight"), 0.0)
    for row in rows_of(specs["propensities"]):
        shares[row["what"]] += row["share"]
    assert shares == pytest.approx({"of clicks": 1.0, "of weight": 1.0})
    bars = rows_of(specs["old-ranks"])
    for name in dict.fromkeys(row["bin"] for row in bars):
        assert sum(row["share"] for row in bars if row["bin"] == name) == pytest.approx(1.0)
    assert sum(row["queries"] for row in rows_of(specs["sessions"])) == DATA.n_queries
    assert [row["begin"] for row in rows_of(specs["drift"])] == [row["begin"] for row in DRIFT]
    for name, spec in specs.items():
        assert to_svg(spec | {"width": 500}).startswith("<svg"), name


def test_the_estimated_curve_is_drawn_and_in_a_table(full, tmp_path):
    curve = full["estimated_curve"]
    drawn = rows_of(inspection_specs(full)["curve"])
    assert [row["rate"] for row in drawn] == [row["P(examined)"] for row in curve["ranks"]]
    assert [row["expected"] for row in drawn] == pytest.approx([1 / r for r in range(1, 6)])
    seen = words(page_of(full, tmp_path))
    last = curve["ranks"][-1]
    assert f"5 {last['P(examined)']:.3f} {last['low']:.3f} to {last['high']:.3f}" in seen
    assert "By all-pairs from" in seen


def test_labels_of_a_logarithmic_axis_do_not_collide():
    rows = [
        {
            "rank": i,
            "impressions": 10**9,
            "clicks": 1,
            "click rate": 10.0**-i,
            "low": 10.0 ** (-i - 6),
            "high": 10.0**-i,
        }
        for i in range(9)
    ]
    rows = [row | {"P(examined)": None} for row in rows]
    empty = {"weights": None, "coverage": None, "drift": None, "estimated_curve": None, "sessions": {"histogram": []}}
    spec = inspection_specs(empty | {"ranks": rows, "overview": {"queries_asked": 2}})["rates"]
    axis = next(layer["encoding"]["y"] for layer in spec["layer"] if layer["mark"]["type"] == "point")
    (low, high), ticks = axis["scale"]["domain"], axis["axis"]["values"]
    pixels = 280 * np.diff(np.log10(ticks)) / np.log10(high / low)
    assert pixels.min() >= 15


def test_a_change_that_does_not_matter_and_times_that_are_none(tmp_path):
    rows = [
        {"begin": f"2026-01-{i:02}", "pages": 9, "impressions": 10**6, "clicks": 200_000 + 6_000 * (i > 7)}
        for i in range(1, 15)
    ]
    seen = words(page_of(found_of(policies.ReplaceLast(3), 500, drift=rows), tmp_path))
    assert "significant but less than the 10 % that matter" in seen
    assert "look here" not in seen
    rows = [row | {"begin": f"{2190 + i}-01-01 00:00"} for i, row in enumerate(rows)]
    seen = words(page_of(found_of(policies.ReplaceLast(3), 500, drift=rows), tmp_path))
    assert "are not dates" in seen
    assert "2203-01-01" in seen


def test_a_long_curve_is_short_on_the_page(tmp_path):
    log = simulation.simulate(DATA, SCORES, policies.PlackettLuce(9), [1.0] * 9, sessions=500, propensities=False)
    curve = [0.123456789012 + 0.01 * i for i in range(9, 0, -1)]
    text = page_of(inspect_clicks(log, exam=curve).summary(), tmp_path)
    assert "Examination(" not in text
    assert "at ranks 1 to 9" in text


def test_rates_far_apart_have_a_logarithmic_axis():
    """From 10 ranks on the smallest rate is less than an eighth of the first one under 1 / rank."""
    exam = examination.inverse_rank(k=10)
    log = simulation.simulate(DATA, SCORES, policies.PlackettLuce(10, 1.0), exam, sessions=20_000, seed=0)
    scales = [
        layer["encoding"]["y"].get("scale", {})
        for layer in inspection_specs(inspect_clicks(log).summary())["rates"]["layer"]
    ]
    assert any(scale.get("type") == "log" for scale in scales)
    short = inspection_specs(found_of(policies.Deterministic(3)))["rates"]["layer"]
    assert not any(layer["encoding"]["y"].get("scale", {}).get("type") == "log" for layer in short)


def test_a_log_of_which_little_is_known(tmp_path):
    log = simulation.simulate(DATA, SCORES, policies.Deterministic(2), EXAM, sessions=100, seed=0)
    docs = np.unique(log.docs, return_inverse=True)[1]
    lengths = np.bincount(np.unique(log.docs) // 30, minlength=30)
    logged = lengths > 0
    offsets = np.concatenate(([0], np.cumsum(lengths[logged])))
    rest = (log.sessions[logged], docs, log.ranks, log.impressions, log.clicks)
    found = inspect_clicks(ClickCounts(SHOWN_ONLY, offsets, *rest)).summary()
    assert list(inspection_specs(found)) == ["rates", "sessions"]
    seen = words(page_of(found, tmp_path))
    assert "not known" in seen
    assert "Weights and coverage" not in seen
    assert "Over time" not in seen


def test_no_clicks_make_a_page_too(tmp_path):
    empty = np.zeros(0, np.int64)
    blank = ClickCounts("x", DATA.offsets, 0 * DATA.lengths, empty, empty, empty, empty)
    assert "nothing to learn from" in words(page_of(inspect_clicks(blank).summary(), tmp_path))


def test_what_was_read_is_reported(full, tmp_path):
    fault = {"kind": "have no rank", "unit": "rows", "count": 3, "example": f"row 7 {HOSTILE}"}
    read = {"rows": 100, "rows_used": 90, "pages": 20, "rows_dropped": 10, "pages_dropped": 2, "faults": [fault]}
    seen = words(page_of(full | {"read": read}, tmp_path))
    assert "100 rows read, 90 of them used, 20 pages. Dropped: 10 rows, with 2 pages." in seen
    assert f"rows that have no rank 3 row 7 {HOSTILE}" in seen


def test_hostile_names_stay_words(full, tmp_path):
    drift = full["drift"] | {"periods": [row | {"begin": HOSTILE} for row in full["drift"]["periods"]]}
    overview = full["overview"] | {"policies": [HOSTILE]}
    found = full | {"clicks": HOSTILE, "data": HOSTILE, "drift": drift, "overview": overview}
    text = page_of(found, tmp_path)
    assert HOSTILE not in text
    assert words(text).count(HOSTILE) >= 3
    specs = json.loads(re.search(r'id="specs">(.*?)</script>', text, re.S)[1])
    assert rows_of(specs["drift"])[0]["begin"] == HOSTILE


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, which is not installed here")
@pytest.mark.parametrize("width", [1280, 500])
def test_the_page_opens_without_a_word(full, tmp_path, width):
    seen = visit(page_of(full, tmp_path), tmp_path, width)
    assert seen.messages == []
    assert seen.fetched == []
    assert not seen.wide
    assert list(seen.charts) == ["rates", "sessions", "curve", "propensities", "old-ranks", "drift"]
    assert all(chart["drawn"] and not chart["wide"] for chart in seen.charts.values())

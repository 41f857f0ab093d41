"""The report of a run: atomic writes, numbers that are all there, and a page that asks for nothing."""

import csv
import json
import math
import re
import struct
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import ValidationError

from counterrank.common.errors import CounterrankError
from counterrank.experiments.summary import ClaimResult, Panel, Summary, from_json, series_names
from counterrank.report import write_demo_report, write_report
from counterrank.report.axes import spread
from counterrank.report.charts import relative_panel
from counterrank.report.demo_page import bands, dots_per_band
from counterrank.report.page import claims_markdown
from counterrank.report.render import _KNOWN, _SPARE, assign_styles
from counterrank.report.text import number, power, readable
from tests.support.summaries import make_demo, make_hostile, make_summary, value, written

EMPTY = {"format": "counterrank-summary", "version": 1, "figures": [], "claims": []}


class Page(HTMLParser):
    """Elements and visible text of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.quiet = [], [], 0
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.quiet += tag in ("script", "style")

    def handle_endtag(self, tag):
        self.quiet -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.quiet:
            self.words.append(data)


def figures():
    return Summary.from_json(make_summary()).figures


def page(kind):
    place = written(kind)
    return Page((place / "report.html" if place.is_dir() else place).read_text(encoding="utf-8"))


def specs(kind):
    place = written(kind)
    text = (place / "report.html" if place.is_dir() else place).read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="specs">(.*?)</script>', text, re.S)[1])


def outside(elements):
    """Addresses that a browser would go to while it opens the page."""
    loading = ("src", "srcset", "data", "poster", "background", "action", "formaction", "manifest")
    found = []
    for tag, attributes in elements:
        names = (*loading, "href") if tag in ("link", "base", "use", "image", "script") else loading
        found += [(tag, attributes[name]) for name in names if attributes.get(name)]
        if tag == "meta" and (attributes.get("http-equiv") or "").lower() == "refresh":
            found.append((tag, attributes.get("content")))
        if "url(" in (attributes.get("style") or ""):
            found.append((tag, attributes["style"]))
    return found


def test_all_files_appear():
    files = {str(file.relative_to(written("full"))) for file in written("full").rglob("*") if file.is_file()}
    figures = {f"figures/figure{n}.{kind}" for n in (1, 2, 3, 4) for kind in ("png", "svg", "csv")}
    assert files == figures | {"report.html", "claims.md"}


def test_what_is_returned_is_what_was_written(tmp_path):
    paths = write_report(make_summary(runs=2, figures=(4,)), tmp_path / "new" / "run")
    assert sorted(path.name for path in paths) == [
        "claims.md",
        "figure4.csv",
        "figure4.png",
        "figure4.svg",
        "report.html",
    ]
    assert all(path.is_file() and path.stat().st_size for path in paths)


def test_pictures_are_pictures():
    for n in (1, 2, 3, 4):
        content = (written("full") / "figures" / f"figure{n}.png").read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        assert content.endswith(b"IEND\xaeB`\x82")
        width, height = struct.unpack(">II", content[16:24])
        root = ElementTree.parse(written("full") / "figures" / f"figure{n}.svg").getroot()
        assert root.tag.endswith("svg")
        # two pixels for one
        assert width == pytest.approx(2 * float(root.get("width")), abs=2)
        assert height > 500
        words = " ".join(text for text in root.itertext())
        assert f"Figure {n}." in words


def test_every_line_is_named_in_the_picture():
    for figure in figures():
        root = ElementTree.parse(written("full") / "figures" / f"figure{figure.number}.svg").getroot()
        words = [text.strip() for text in root.itertext()]
        for name in series_names([figure]):
            assert readable(name) in words


def test_csv_has_one_row_per_point():
    for figure in make_summary()["figures"]:
        with open(written("full") / "figures" / f"figure{figure['number']}.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0]) == ["figure", "panel", "series", "x", "mean", "low", "high", "runs"]
        wanted = [
            (panel["name"], item["name"], point)
            for panel in figure["panels"]
            for item in (*panel["series"], *panel["levels"])
            for point in item.get("points", [item])
        ]
        assert len(rows) == len(wanted)
        for row, (panel, series, point) in zip(rows, wanted, strict=True):
            assert (row["figure"], row["panel"], row["series"]) == (str(figure["number"]), panel, series)
            assert row["x"] == ("" if point.get("x") is None else str(point["x"]))
            assert [float(row[key]) for key in ("mean", "low", "high")] == [point[k] for k in ("mean", "low", "high")]
            assert row["runs"] == "8"


def test_every_claim_and_check_is_on_the_page():
    text = page("full").text
    assert "8 of 13 claims of the paper hold here, 2 do not, and 3 lack evidence." in text
    for claim in make_summary()["claims"]:
        for key in ("statement", "numbers", "paper", "verdict"):
            assert claim[key] in text
        for check in claim["checks"]:
            assert check["what"] in text
    assert "k = 5, ARP −0.4 % −1.0 % to +0.2 % relative 8 ✓ holds" in text
    assert "k = 5, DCG@5 0.0031 – absolute 1 ✓ holds" in text
    # a symbol and a word, so that colour is not needed
    assert text.count("✓ holds") == 8 * 3
    assert text.count("✗ does not hold") == 2 * 3
    assert text.count("? not enough evidence") == 3 * 3


def test_every_number_of_the_figures_is_on_the_page():
    words = set(page("full").words)
    for figure in make_summary()["figures"]:
        for panel in figure["panels"]:
            for series in panel["series"]:
                for point in series["points"]:
                    assert number(point["mean"]) in words
                    assert f"{number(point['low'])} to {number(point['high'])}" in words
            for level in panel["levels"]:
                assert number(level["mean"]) in words


def test_every_number_of_the_figures_is_in_the_charts():
    drawn = json.dumps(specs("full"))
    for figure in figures():
        for panel in figure.panels:
            for series in (relative_panel(panel) or panel).series:
                assert all(json.dumps(point.mean) in drawn for point in series.points)


def estimates(rows):
    """A panel of estimates: values over runs by series, at 100 clicks."""
    series = [{"name": name, "points": [{"x": 100, **value(values)}]} for name, values in rows.items()]
    content = {"name": "estimate", "label": "DCG@5 estimated, per document", "series": series, "drawn_relative": True}
    return from_json(Panel, content)


def test_estimates_are_drawn_against_the_mean_of_the_losses_in_each_run():
    panel = relative_panel(estimates({"a": [1.0, 10.0, None], "b": [3.0, 30.0, None], "selection": [3.0, 30.0, None]}))
    points = {series.name: series.points[0] for series in panel.series}
    assert [points[name].mean for name in ("a", "b", "selection")] == pytest.approx([-50.0, 50.0, 50.0])
    assert points["a"].low == pytest.approx(-50.0)  # runs that differ in size alone do not differ
    assert points["a"].runs == 2
    assert panel.label == "DCG@5 estimated"
    drawn = specs("full")["figure3-2"]
    assert "log axis" in drawn["title"]["subtitle"]
    assert "symlog" in json.dumps(drawn)


@pytest.mark.parametrize(
    "rows", [{"a": [-1.0, 1.0], "b": [-1.0, 1.0]}, {"a": [1.0, None], "b": [1.0, 1.0]}, {"a": [0.0], "b": [0.0]}, {}]
)
def test_estimates_that_cannot_be_compared_stay_as_they_are(rows):
    assert relative_panel(estimates(rows)) is None


def test_dots_have_stems_from_zero_only():
    assert "zero" in json.dumps(specs("full")["figure4-2"]["layer"][0])
    assert "datum.zero" not in json.dumps(specs("demo")["quality"])
    assert len(specs("demo")["quality"]["layer"]) == len(specs("full")["figure4-2"]["layer"]) - 1


def test_the_gap_is_the_first_number_of_the_demo():
    assert "Ranker Gap closed DCG@5" in page("demo").text


def test_the_rest_of_the_page():
    text = page("full").text
    for words in (
        "synthetic:mslr:queries=2000 train 1,200 900 144,000 120.0 5 – 300 2.1 % 136",
        "none: our defaults",
        "10², 10³, 10⁴, 10⁵, 10⁶, 10⁷, 10⁸",
        "229 of 230 rankers trained, 1 failed; 2 min 7 s of work",
        "policy-aware, lambdaloss-truncated 40 3.1 s 2 min 4 s",
        "no click on a query with two documents",
        "dcg-logistic (7), dcg-hinge (1)",
        "counterrank reproduce --data synthetic:mslr:queries=2000 --out RUN",
        "After 10⁸ clicks, the policy-aware ranker has a DCG@5 of",
        "Bands are 95 % confidence intervals of the mean over 8 runs, for these test queries.",
    ):
        assert words in text, words


def test_a_run_with_gaps_says_so():
    text = page("partial").text
    assert "The run is not complete: 60 of 230 rankers were trained" in text
    assert "quick run on a reduced grid" in text
    assert "Preset: paper-mslr" in text
    assert "No claim was checked in this run." in text
    assert "DCG@5 (higher is better): no result to draw yet." in text
    assert "4 of 62 points have no result yet." in text
    assert "No result yet in “Cost while logging: DCG@5 lost on the displayed pages” for epsilon-greedy" in text
    assert "they are drawn paler and cut at its edge" in text
    assert "--preset paper-mslr --quick" in text
    assert set(specs("partial")) == {"figure1-1", "figure1-2", "figure2-1", "figure2-2", "figure4-2"}
    with open(written("partial") / "figures" / "figure1.csv", newline="") as file:
        missing = [row for row in csv.DictReader(file) if row["mean"] == ""]
    assert [(row["x"], row["low"], row["high"], row["runs"]) for row in missing] == [
        (x, "", "", "0") for x in ("10", "20", "50", "100")
    ]


def test_one_run_has_no_interval_and_says_so():
    assert "One run: no confidence interval can be given." in page("one run").text
    for spec in specs("one run").values():
        (rows,) = [spec["datasets"][layer["data"]["name"]] for layer in spec["layer"] if layer.get("name") == "bands"]
        assert rows == []


def test_next_to_nothing_is_enough(tmp_path):
    assert [path.name for path in write_report(EMPTY, tmp_path)] == ["report.html", "claims.md"]
    text = Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "This run has no figure." in text
    assert "The summary does not describe its data." in text


def test_a_figure_without_any_result(tmp_path):
    summary = make_summary(runs=2, figures=(2,))
    for panel in summary["figures"][0]["panels"]:
        for item in (*panel["series"], *panel["levels"]):
            for point in item.get("points", [item]):
                point |= value([None, None])
    assert [path.name for path in write_report(summary, tmp_path)] == ["report.html", "claims.md", "figure2.csv"]
    assert "No result to draw yet." in Page((tmp_path / "report.html").read_text(encoding="utf-8")).text


@pytest.mark.parametrize("x", [7, 10**6])
def test_a_single_point_can_be_drawn(tmp_path, x):
    summary = make_summary(runs=1, figures=(2,))
    for panel in summary["figures"][0]["panels"]:
        panel["series"] = [{"name": "policy-aware", "points": [{"x": x, **value([0.5])}]}]
        panel["levels"] = []
    assert len(write_report(summary, tmp_path)) == 5


@pytest.mark.parametrize("summary", [{}, [], {"format": "counterrank-summary", "version": 2}, {"format": "other"}])
def test_what_is_no_summary_is_refused(tmp_path, summary):
    with pytest.raises(CounterrankError, match="summary: expected a dict with format 'counterrank-summary'"):
        write_report(summary, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_half_written_is_left(tmp_path, monkeypatch):
    write_report(EMPTY, tmp_path)
    before = (tmp_path / "report.html").read_bytes()
    monkeypatch.setattr("counterrank.report.page.render", lambda *_, **__: "\ud800")  # cannot be written as UTF-8
    with pytest.raises(UnicodeEncodeError):
        write_report(EMPTY, tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["claims.md", "report.html"]
    assert (tmp_path / "report.html").read_bytes() == before


@pytest.mark.parametrize("kind", ["full", "partial", "hostile", "demo"])
def test_the_page_asks_for_nothing(kind):
    opened = page(kind)
    assert outside(opened.elements) == []
    assert "default-src 'none'" in str(opened.elements)


def test_the_check_of_addresses_can_fail():
    for text in (
        "<script src='https://x.example/vega.js'></script>",
        "<link rel=stylesheet href=//x.example/a.css>",
        "<img src=http://x.example/a.png>",
        "<p style='background: url(http://x.example)'>",
        "<meta http-equiv=refresh content='0; url=http://x.example'>",
    ):
        assert outside(Page(text).elements)
    assert outside(Page("<a href='https://x.example'>only when clicked</a>").elements) == []


def test_hostile_texts_stay_texts():
    opened = page("hostile")
    bad = make_hostile()["data"][0]["source"]
    assert opened.text.count(bad) >= 10
    tags = [tag for tag, _ in opened.elements]
    assert tags.count("script") == 3
    assert "img" not in tags
    assert not any(name.startswith("on") for _, attributes in opened.elements for name in attributes)
    assert specs("hostile")["figure4-1"]["title"]["text"] == bad
    ElementTree.parse(written("hostile") / "figures" / "figure4.svg")


def test_charts_are_valid_vega_lite():
    """The page's charts skip altair's own check, which is slow; here it is made."""
    import altair as alt

    for spec in (specs("full")["figure3-1"], specs("full")["figure4-2"], specs("demo")["reach"]):
        alt.LayerChart.from_dict(spec)
    with pytest.raises(ValidationError):
        alt.LayerChart.from_dict({"layer": [{"mark": {"type": "line", "colour": "red"}}]})


def test_a_series_looks_the_same_in_all_figures():
    whole = assign_styles(series_names(figures()))
    for figure in figures():
        alone = assign_styles(series_names([figure]))
        assert all(alone[name] == whole[name] for name in alone)


def test_styles_differ_without_colour():
    for figure in figures():
        looks = assign_styles(series_names([figure])).values()
        assert len({look.shape for look in looks}) == len(looks)
        assert len({look.color for look in looks}) >= len(looks) - 1
        lines = [look for look in looks if look.width < 10]
        assert len({(look.dash, look.width) for look in lines}) == len(lines)


def test_unknown_names_get_looks_of_their_own():
    names = ["policy-aware", *(f"new {i}" for i in range(len(_SPARE)))]
    assert len(set(assign_styles(names).values())) == len(names)
    assert set(_KNOWN) >= {"naive", "policy-aware", "production", "full-information"}


@given(
    st.lists(st.floats(-50, 350), max_size=12),
    st.floats(1, 20),
)
def test_labels_do_not_cover_each_other(places, gap):
    found = spread(places, gap, 0, 300)
    assert len(found) == len(places)
    assert all(-1e-9 <= place <= 300 + 1e-9 for place in found)
    order = sorted(range(len(places)), key=lambda i: (places[i], found[i]))
    ordered = [found[i] for i in order]
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(ordered))


def test_labels_with_room_stay_where_they_are():
    assert spread([10, 100, 200], 15, 0, 300) == [10, 100, 200]
    assert spread([], 15, 0, 300) == []
    assert spread([-40], 15, 0, 300) == [0]
    assert spread([299, 300], 10, 0, 300) == [290, 300]


def test_numbers_read_well():
    assert [power(value) for value in (10**9, 2 * 10**5, 99, 250, "all")] == ["10⁹", "2·10⁵", "99", "250", "all"]
    assert [number(value) for value in (math.nan, True, -0.25, 1e7)] == ["nan", "True", "-0.2500", "10,000,000"]


def test_demo_page_holds_its_story():
    opened = page("demo")
    demo = make_demo()
    text = opened.text
    assert demo["title"] in text
    assert demo["lead"] in text
    assert "512 relevant documents of 300 test queries stood below rank 20" in text
    for row in (*demo["facts"], *demo["next"]):
        assert all(words in text for words in row)
    for ranker in demo["rankers"]:
        assert all(number(metric) in text for metric in ranker["metrics"].values())
        assert f"{100 * ranker['gap_closed']:.0f} %" in text
    for counts in demo["buried"]["ranks"].values():
        assert f"{100 * sum(counts[:5]) / 512:.0f} %" in text
    assert set(specs("demo")) == {"quality", "reach"}
    # every row is all the documents
    assert [tag for tag, _ in opened.elements].count("circle") == 5 * 100


def test_demo_page_without_some_of_it(tmp_path):
    demo = make_demo() | {"facts": [], "next": []}
    demo["rankers"] = [ranker | {"gap_closed": None} for ranker in demo["rankers"][:1]]
    demo["buried"] |= {"documents": 0, "queries": 0, "ranks": {"production": []}}
    assert write_demo_report(demo, tmp_path / "deep" / "demo.html").is_file()


def test_bands_cover_every_rank_once():
    for page_size, beyond, longest in [(5, 20, 200), (10, 20, 15), (5, 30, 1000), (3, 5, 5), (1, 20, 100), (5, 20, 1)]:
        cut = bands(page_size, beyond, longest)
        assert cut[0] == (1, page_size)
        assert [first for first, _ in cut[1:]] == [last + 1 for _, last in cut[:-1]]
        assert cut[-1][1] == max(longest, page_size)


@given(st.lists(st.integers(0, 1000), min_size=30, max_size=30).filter(any))
def test_dots_add_up(counts):
    cut = bands(5, 20, 30)
    dots = dots_per_band(counts, cut)
    assert sum(dots) == 100
    for count, (first, last) in zip(dots, cut, strict=True):
        assert abs(count - 100 * sum(counts[first - 1 : last]) / sum(counts)) < 1


@pytest.mark.process
def test_the_report_is_light_to_import():
    code = "import sys, counterrank.report; print({'altair', 'vl_convert', 'jinja2'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"


def test_claims_as_a_table_in_markdown():
    claims = [
        ClaimResult(verdict="does not hold", statement="a | b\nc", numbers="-1 %", paper="Section 6"),
        ClaimResult(verdict="not enough evidence", statement="d", paper="left open"),
    ]
    rows = claims_markdown(claims).splitlines()
    assert rows[0].startswith("In all numbers plus is better, for ARP as well")
    assert rows[1] == ""
    rows = rows[4:]
    assert rows[0] == r"| **does not hold** | a \| b c | -1 % | Section 6 |"
    assert rows[1] == "| not enough evidence | d |  | left open |"

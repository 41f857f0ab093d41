"""The pages in a real browser: nothing complained, every chart drawn, nothing fetched."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import unescape

import pytest

from counterrank.experiments.reproduction import Settings, reproduce, summarize
from counterrank.report import write_report
from counterrank.report.text import number, readable
from tests.support.summaries import make_summary, written

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, which is not installed here"),
]

POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')

# Writes into the page what the browser saw: charts with the shapes in them, addresses fetched, texts too wide.
PROBE = """
<script>
window.addEventListener("load", () => setTimeout(() => {
  const charts = Array.from(document.querySelectorAll(".chart")).map((place) => ({
    id: place.id,
    drawn: place.dataset.drawn === "yes",
    lines: place.querySelectorAll("svg .mark-line path").length,
    symbols: place.querySelectorAll("svg .mark-symbol path").length,
    labels: Array.from(place.querySelectorAll("svg .mark-text text")).map((text) => text.textContent),
    wide: place.querySelector("svg") ? place.querySelector("svg").getBoundingClientRect().right > innerWidth + 1 : null,
  }));
  const cell = document.querySelector(".chart .mark-path path");  // the ground around one point
  const place = cell && cell.closest(".chart");
  for (const type of cell ? ["pointerover", "pointermove", "mouseover", "mousemove"] : [])
    cell.dispatchEvent(new PointerEvent(type, { bubbles: true, clientX: 200, clientY: 200 }));
  const fetched = performance.getEntriesByType("resource").map((entry) => entry.name);
  const wide = document.documentElement.scrollWidth > innerWidth;
  setTimeout(() => {
    const tip = document.getElementById("vg-tooltip-element");
    const faint = place ? place.querySelectorAll(".mark-line path[opacity='0.18']").length : 0;
    const seen = document.createElement("pre");
    seen.id = "seen";
    seen.textContent = JSON.stringify({ charts, fetched, wide, faint, tip: tip ? tip.innerText : "" });
    document.body.append(seen);
  }, 500);
}, 1500));
</script>
"""


@dataclass
class Visit:
    """What came of opening a page."""

    messages: list[str]
    charts: dict[str, dict]
    fetched: list[str]
    wide: bool
    faint: int  # lines that stepped back for the one under the pointer
    tip: list[str]


def visit(text, folder, width=1280):
    """Open a page with the probe in it."""
    file = folder / "page.html"
    before, end, after = text.rpartition("</body>")  # the script that draws charts has such words too
    file.write_text(before + PROBE + end + after, encoding="utf-8")
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}"]
    command += ["--enable-logging=stderr", "--v=0", "--virtual-time-budget=6000", f"--window-size={width},1000"]
    done = subprocess.run(
        [*command, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120, encoding="utf-8"
    )
    messages = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
    assert found, f"the page did not come to its end: {done.stderr[-2000:]}"
    seen = json.loads(unescape(found[1]))
    charts = {chart["id"]: chart for chart in seen["charts"]}
    return Visit(messages, charts, seen["fetched"], seen["wide"], seen["faint"], seen["tip"].split())


def page(kind):
    place = written(kind)
    return (place / "report.html" if place.is_dir() else place).read_text(encoding="utf-8")


@pytest.mark.representative
def test_the_report_opens_without_a_word(tmp_path):
    seen = visit(page("full"), tmp_path)
    assert seen.messages == []
    assert not seen.wide
    assert list(seen.charts) == [f"figure{n}-{i}" for n in (1, 2, 3, 4) for i in (1, 2)]
    assert all(chart["drawn"] and not chart["wide"] for chart in seen.charts.values())
    assert [seen.charts[f"figure{n}-1"]["lines"] for n in (1, 2, 3, 4)] == [5, 6, 5 + 1, 5]
    # as many points as the lines have places, rings of the selection, and a marker for each name
    assert seen.charts["figure1-1"]["symbols"] == 5 * 8 - 2 + 7
    assert seen.charts["figure3-2"]["symbols"] == 6 * 7 + 7 + 6
    assert {"policy-aware", "rerank, randomised", "production", "full information"} <= set(
        seen.charts["figure1-2"]["labels"]
    )
    assert "21.1%" in seen.charts["figure4-2"]["labels"]
    # the pointer stands at the first point of figure 1
    assert seen.faint == 4
    point = make_summary()["figures"][0]["panels"][0]["series"][0]["points"][0]
    interval = f"{number(point['low'])} to {number(point['high'])}"
    words = f"Series policy-aware At 1 ARP (lower is better) {number(point['mean'])} 95 % interval {interval} Runs 8"
    assert seen.tip == words.split()


def test_the_report_of_a_real_run_opens_without_a_word(tmp_path):
    """All other pages here are of made-up summaries; this one is of what a run writes."""
    policies = ("replace-last:k=5", "deterministic:k=5")
    tiny = Settings(figures=(2, 4), clicks=(100, 1000), runs=2, max_epochs=2, clip="none", policies=policies)
    summary = summarize(reproduce("synthetic:yahoo:queries=60", tmp_path / "run", tiny, jobs=1))
    assert summary.cells.done == summary.cells.wanted
    write_report(summary, tmp_path / "run")
    text = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    seen = visit(text, tmp_path)
    assert seen.messages == []
    assert seen.fetched == []
    assert not seen.wide
    assert list(seen.charts) == ["figure2-1", "figure2-2", "figure4-1", "figure4-2"]
    assert all(chart["drawn"] and not chart["wide"] for chart in seen.charts.values())
    assert [chart["lines"] for chart in seen.charts.values()][:3] == [6, 6, 2]
    assert set(map(readable, policies)) <= set(seen.charts["figure4-1"]["labels"])
    for claim in summary.claims:
        assert (f'id="claim-{claim.id}"' in text) == (claim.figure in (2, 4))
    assert "2 runs, each with clicks of its own and one production ranker for all" in text
    assert "of 5 claims of the paper" in text
    assert "of 3 findings of our own" in text


def test_the_report_fetches_nothing_even_if_it_may(tmp_path):
    """Without the page's own policy, which would forbid it."""
    text, count = POLICY.subn("", page("hostile"))
    assert count == 1
    seen = visit(text, tmp_path)
    assert seen.fetched == []
    assert seen.messages == []
    assert all(chart["drawn"] for chart in seen.charts.values())


def test_a_partial_report_on_a_small_screen(tmp_path):
    seen = visit(page("partial"), tmp_path, width=500)  # the narrowest window that chromium opens
    assert seen.messages == []
    assert not seen.wide
    assert len(seen.charts) == 5
    assert all(chart["drawn"] and not chart["wide"] for chart in seen.charts.values())


def test_the_demo_opens_without_a_word(tmp_path):
    seen = visit(POLICY.sub("", page("demo")), tmp_path)
    assert seen.messages == []
    assert seen.fetched == []
    assert seen.charts["reach"]["lines"] == 5
    assert seen.charts["quality"]["symbols"] == 5


def test_the_checks_can_fail(tmp_path):
    bad = """<!doctype html><body><div class="chart" id="empty"></div>
    <script>console.error("a complaint"); fetch("http://x.example/data.json").catch(() => 0);</script>
    <img src="http://x.example/picture.png"><div style="width: 3000px">wide</div></body>"""
    seen = visit(bad, tmp_path)
    assert any("a complaint" in message for message in seen.messages)
    assert {"http://x.example/data.json", "http://x.example/picture.png"} <= set(seen.fetched)
    assert seen.wide
    assert not seen.charts["empty"]["drawn"]


def test_the_policy_of_the_page_forbids_fetching(tmp_path):
    policy = POLICY.search(page("full"))[0]
    text = f'<!doctype html><head>{policy}</head><body><img src="http://x.example/picture.png"></body>'
    seen = visit(text, tmp_path)
    assert any("Content Security Policy" in message for message in seen.messages)

"""The documentation site: it builds without a warning, links lead somewhere, nothing is fetched from another host."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
from typer.main import get_command

import counterrank
from counterrank.cli import app
from tests.support.paths import ROOT

pytest.importorskip("sphinx", reason="needs the extra docs")
DOCS = ROOT / "docs"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.process
in_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, which is not installed here"),
]


def build(source, out, **more):
    """Build as `make docs` does; notebooks are run afresh."""
    command = [sys.executable, "-m", "sphinx", "--builder", "html", "--fail-on-warning", "--keep-going", "--quiet"]
    environment = {**os.environ, "NB_CACHE": str(out / "notebooks"), **more}
    place = [*command, "--conf-dir", str(DOCS), str(source), str(out / "html")]
    return subprocess.run(place, capture_output=True, text=True, encoding="utf-8", env=environment, cwd=ROOT)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    done = build(DOCS, out)
    assert done.returncode == 0, done.stderr[-4000:]
    return out / "html"


@pytest.fixture(scope="module")
def reference():
    """docs/_site/reference.py, which is no part of the package."""
    sys.path.insert(0, str(DOCS))
    try:
        yield importlib.import_module("_site.reference")
    finally:
        sys.path.remove(str(DOCS))


# What the pages hold


class Links(HTMLParser):
    """Anchors of a page, its links, and the files that a browser loads for it."""

    def __init__(self):
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload", "modulepreload", "manifest"):
            self.loaded.append(values["href"])
        self.loaded += [values[name] for name in ("src", "data", "poster") if values.get(name)]
        self.loaded += re.findall(r"url\(['\"]?([^'\")]+)", values.get("style") or "")


@functools.cache
def parsed(file):
    links = Links()
    links.feed(file.read_text(encoding="utf-8"))
    return links


def pages_of(site):
    """All but templates of the theme."""
    return [page for page in sorted(site.rglob("*.html")) if "_static" not in page.parts]


def elsewhere(address):
    return bool(urlsplit(address).netloc)


def test_links_and_anchors_lead_somewhere(site):
    pages = pages_of(site)
    assert len(pages) > 50
    lost = []
    for page in pages:
        for link in (*parsed(page).links, *parsed(page).loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            anchor = unquote(parts.fragment)
            known = target.suffix != ".html" or not anchor or (target.exists() and anchor in parsed(target).ids)
            if not target.exists() or not known:
                lost.append(f"{page.relative_to(site)}: {link}")
    assert lost == []


def test_figures_link_to_their_files(site):
    figures = [each for each in parsed(site / "results" / "index.html").loaded if each.endswith(".svg")]
    assert len(figures) >= 4
    assert set(figures) <= set(parsed(site / "results" / "index.html").links)


def test_nothing_is_loaded_from_elsewhere(site):
    for page in pages_of(site):
        assert [each for each in parsed(page).loaded if elsewhere(each)] == [], page
    for sheet in site.rglob("*.css"):
        found = re.findall(r"(?:url\(|@import\s+)['\"]?(?:https?:)?//[^'\")]*", sheet.read_text(encoding="utf-8"))
        assert found == [], sheet


def test_formulas_are_drawn_when_the_site_is_built(site):
    pages = {page.name: page.read_text(encoding="utf-8") for page in pages_of(site)}
    assert not any(re.search(r"<script[^>]*(mathjax|katex)", text, re.IGNORECASE) for text in pages.values())
    assert pages["equations.html"].count("<math") > 17
    assert pages["estimators.html"].count("<math") > 10
    below = [each for text in pages.values() for each in re.findall(r"<munderover>\s*<m\w[^>]*>(.)", text)]
    assert set(below) == {"∑"}  # not the subscripts of accented symbols


@pytest.mark.parametrize(
    "page", ["See [this](nowhere.md).", "See [this](#nowhere).", "{py:obj}`counterrank.nothing`", "{ref}`eq-nothing`"]
)
def test_a_broken_link_is_an_error(page, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text(f"# Title\n\n{page}\n", encoding="utf-8")
    done = build(source, tmp_path)
    assert done.returncode != 0
    assert "index.md" in done.stderr


# What is documented


def test_every_public_name_is_documented(site, reference):
    import sphinx.util.inventory

    loaded = sphinx.util.inventory.InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    names = {name for kind in ("class", "function", "data", "exception") for name in loaded.data.get(f"py:{kind}", {})}
    assert set(reference.documented()) <= names
    public = [("counterrank", counterrank)]
    public += [(name, getattr(counterrank, name)) for name in counterrank.__all__ if name in reference.MODULES]
    for name, module in public:
        missing = [
            each
            for each in module.__all__
            if each != "__version__" and not inspect.ismodule(getattr(module, each))
            and reference.path_of(getattr(module, each)) is None
        ]  # fmt: skip
        assert missing == [], name
    modules = [name for name in counterrank.__all__ if inspect.ismodule(getattr(counterrank, name))]
    assert set(modules) <= set(reference.MODULES)


def test_every_public_name_and_method_has_a_docstring(reference):
    bare = [path for path in reference.documented() if not reference.doc_of(path)]
    for path in reference.documented():
        value = reference.lookup(path)
        members = vars(value).items() if inspect.isclass(value) else ()
        routines = (inspect.isroutine, lambda each: isinstance(each, property | classmethod | staticmethod))
        bare += [
            f"{path}.{name}"
            for name, member in members
            if not name.startswith("_") and any(test(member) for test in routines) and not inspect.getdoc(member)
        ]
    assert bare == []


def test_every_command_and_option_is_documented(site):
    text = unescape(re.sub(r"<[^>]+>", "", (site / "reference" / "cli.html").read_text(encoding="utf-8")))
    for name, command in get_command(app).commands.items():
        assert f"counterrank {name} [OPTIONS]" in text
        for each in command.params:
            if each.param_type_name == "option" and not each.hidden:
                assert each.opts[0] in text, (name, each.opts)
    assert not re.search(r"\{(losses|estimators|policies|formats)\}", text)


def test_equations_are_linked_to_their_code(site, reference):
    page = parsed(site / "reference" / "equations.html")
    assert {reference.target(label) for label in reference.EQUATIONS} <= page.ids
    cited = [label for label, paths in reference.citations().items() if paths]
    assert len(cited) >= 16
    assert "api/estimators.html#counterrank.estimators.policy_aware" in page.links
    back = parsed(site / "reference" / "api" / "estimators.html").links
    assert "../equations.html#eq-policyaware" in back


def test_the_check_of_labels_can_fail(reference, monkeypatch):
    monkeypatch.setattr(reference, "EQUATIONS", {"eq:ARP": reference.EQUATIONS["eq:ARP"]})
    with pytest.raises(ValueError, match=r"docstrings cite .*eq:policyaware"):
        reference.citations.__wrapped__()


# In a browser

# Opens pages one after the other in a frame, and writes down what is seen of each.
VISITOR = """<!doctype html><title>visitor</title><body><script>
const pages = PAGES, width = WIDTH, theme = "THEME", seen = {};
localStorage.setItem("mode", theme); localStorage.setItem("theme", theme);
const frame = document.createElement("iframe");
frame.style.cssText = `width:${width}px;height:900px;border:0`;
document.body.append(frame);
function look(page) {
  const inner = frame.contentWindow, root = frame.contentDocument.documentElement;
  const wide = Array.from(frame.contentDocument.querySelectorAll("article *")).filter((each) => {
    for (let up = each.parentElement; up; up = up.parentElement)
      if (inner.getComputedStyle(up).overflowX !== "visible" && up !== root && up.tagName !== "BODY")
        return false;
    return each.getBoundingClientRect().right > width + 1;
  }).slice(0, 3).map((each) => each.tagName + "." + each.className + " " + each.textContent.trim().slice(0, 40));
  seen[page] = {
    overflow: root.scrollWidth > width, wide,
    ground: inner.getComputedStyle(frame.contentDocument.body).backgroundColor,
    charts: frame.contentDocument.querySelectorAll(".vega-chart").length,
    drawn: frame.contentDocument.querySelectorAll(".vega-chart[data-drawn=yes] svg").length,
    found: frame.contentDocument.querySelectorAll("#search-results li").length,
    first: Array.from(frame.contentDocument.querySelectorAll("#search-results li > a")).slice(0, 5)
      .map((each) => each.getAttribute("href")),
    loaded: inner.performance.getEntriesByType("resource").map((entry) => entry.name),
  };
}
(async () => {
  for (const page of pages) {
    await new Promise((done) => { frame.onload = done; frame.src = page; });
    await new Promise((done) => setTimeout(done, 1200));
    look(page);
  }
  const result = document.createElement("pre");
  result.id = "seen";
  result.textContent = JSON.stringify(seen);
  document.body.append(result);
})();
</script></body>"""
POLICY = "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'"  # no other host; a breach is a console message


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and the visitor's page, with a policy that allows no other host."""

    visitor = ""

    def do_GET(self):
        if not self.path.startswith("/visitor"):
            return super().do_GET()
        body = self.visitor.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def end_headers(self):
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def log_message(self, *_):
        pass


@dataclass
class Visit:
    messages: list[str]
    pages: dict[str, dict] = field(default_factory=dict)


def browse(address, profile, *options):
    """Open an address with all other hosts blocked: the page as it is in the end, and what the browser wrote."""
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={profile}"]
    command += ["--enable-logging=stderr", "--v=0", *options, "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, encoding="utf-8")


def visit(folder, pages, profile, width=1280, theme="light"):
    script = VISITOR.replace("PAGES", json.dumps(pages)).replace("WIDTH", str(width)).replace("THEME", theme)
    handler = type("Own", (Handler,), {"visitor": script})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/visitor.html"
        time, size = 4000 * len(pages) + 4000, max(width + 40, 520)
        done = browse(address, profile, f"--virtual-time-budget={time}", f"--window-size={size},1000")
    finally:
        server.shutdown()
        server.server_close()
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, f"the pages did not come to their end: {done.stderr[-2000:]}"
    seen = json.loads(unescape(found[1]))
    for each in seen.values():
        assert all(urlsplit(name).hostname in ("127.0.0.1", None) for name in each["loaded"])
    return Visit([line for line in done.stderr.splitlines() if "CONSOLE" in line and '"[PST]: ' not in line], seen)


def addresses(site):
    return ["/" + str(page.relative_to(site)) for page in pages_of(site)]


@pytest.mark.parametrize(("width", "theme"), [(400, "light"), (1280, "dark")])
class TestInBrowser:
    pytestmark = in_browser

    def test_pages_fit_and_load_nothing_from_elsewhere(self, site, tmp_path, width, theme):
        """All pages, on a phone and on a screen, all other hosts blocked."""
        seen = visit(site, addresses(site), tmp_path / "profile", width, theme)
        assert seen.messages == []
        assert {page: each["wide"] for page, each in seen.pages.items() if each["overflow"] or each["wide"]} == {}
        lightness = {sum(map(int, re.findall(r"\d+", each["ground"])[:3])) for each in seen.pages.values()}
        assert all((each < 200) == (theme == "dark") for each in lightness)
        assert all(each["charts"] == each["drawn"] for each in seen.pages.values())

    def test_the_search_finds(self, site, tmp_path, width, theme):
        words = ("propensity", "export", "policy_aware", "qqqq")
        seen = visit(site, [f"/search.html?q={word}" for word in words], tmp_path / "profile", width, theme)
        assert seen.messages == []
        assert seen.pages["/search.html?q=propensity"]["found"] >= 10
        assert seen.pages["/search.html?q=export"]["first"][0].startswith("how-to/export.html")
        assert seen.pages["/search.html?q=policy_aware"]["first"][0].endswith("#counterrank.estimators.policy_aware")
        assert seen.pages["/search.html?q=qqqq"]["found"] == 0


@pytest.mark.browser
@in_browser[1]
def test_the_search_works_without_a_server(site, tmp_path):
    """Pages opened from a folder; excerpts of the pages that were found need a server."""
    done = browse(f"{(site / 'search.html').as_uri()}?q=propensity", tmp_path, "--virtual-time-budget=5000")
    found = re.search(r"found (\d+) pages", done.stdout)
    assert found
    assert int(found[1]) >= 10


NOTEBOOK = """---
file_format: mystnb
kernelspec:
  name: python3
---

# A chart

```{code-cell}
import altair as alt

slider = alt.param("top", value=3, bind=alt.binding_range(min=1, max=9, step=1))
rows = {"values": [{"x": x, "y": x * x} for x in range(10)]}
alt.Chart(rows, width=500).mark_line().encode(x="x:Q", y="y:Q").add_params(slider)
```
"""


@pytest.mark.parametrize("cell", [pytest.param("", marks=in_browser), "raise ValueError('no')"], ids=["runs", "fails"])
def test_a_notebook_and_its_interactive_chart(cell, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text(NOTEBOOK + f"\n```{{code-cell}}\n{cell or 1}\n```\n", encoding="utf-8")
    done = build(source, tmp_path)
    if cell:
        assert done.returncode != 0
        assert "ValueError" in done.stderr
        return
    assert done.returncode == 0, done.stderr[-2000:]
    text = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    assert "cdn.jsdelivr" not in text
    for width in (400, 1280):
        seen = visit(tmp_path / "html", ["/index.html"], tmp_path / f"profile{width}", width, "dark")
        assert seen.messages == []
        (page,) = seen.pages.values()
        assert page["drawn"] == page["charts"] == 1
        assert not page["overflow"]

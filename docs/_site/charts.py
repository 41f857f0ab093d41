"""Interactive altair charts without requests to other hosts, and links from figures to their files.

A chart that is the result of a code cell becomes a `<div class="vega-chart">` with its specification in it. The pages
that have one load `_static/vega.js`, which vl-convert makes of its own copy of vega, vega-lite and vega-embed, and
`_static/charts.js`, which draws them in the colours of the page.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

MARK = 'class="vega-chart"'
_STARTUP = """import sys
sys.path.insert(0, {docs!r})
from _site.charts import enable
enable()
sys.path.pop(0)
"""


def chart_html(spec: dict[str, Any], **_: Any) -> dict[str, str]:
    """How altair shows a chart on the site."""
    from counterrank.report.render import inline_json

    return {"text/html": f'<div {MARK}><script type="application/json">{inline_json(spec)}</script></div>'}


def enable() -> None:
    """Show charts so in this process, which runs a notebook, and warnings without the place of a file."""
    import warnings

    import altair as alt

    warnings.formatwarning = lambda message, category, *_, **__: f"{category.__name__}: {message}\n"
    alt.renderers.register("site", chart_html)
    alt.renderers.enable("site")


def enable_in_notebooks(folder: Path) -> None:
    """Let every notebook that the build runs begin with `enable`: a startup file of IPython, in a folder of its own."""
    startup = folder / "profile_default" / "startup"
    startup.mkdir(parents=True, exist_ok=True)
    (startup / "charts.py").write_text(_STARTUP.format(docs=str(Path(__file__).parents[1])), encoding="utf-8")
    os.environ["IPYTHONDIR"] = str(folder)


def _add_scripts(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if MARK in context.get("body", ""):
        app.add_js_file("vega.js", loading_method="defer")
        app.add_js_file("charts.js", loading_method="defer")


def _link_figures(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """A click on a figure opens its file, which fills the window: on the page its labels may be small."""
    if "body" in context:
        link = r'<a class="figure" href="\2" title="Open the figure by itself">\1</a>'
        context["body"] = re.sub(r'(<img\b[^>]*\bsrc="([^"]+\.svg)"[^>]*>)', link, context["body"])


def _write_runtime(app: Any) -> None:
    from counterrank.report.render import runtime_script

    if app.builder.format == "html":
        static = Path(app.outdir) / "_static"
        static.mkdir(parents=True, exist_ok=True)
        # its names are its own: Sphinx has a function `_` too
        (static / "vega.js").write_text(f"(() => {{\n{runtime_script()}\n}})();\n", encoding="utf-8")


def setup(app: Any) -> None:
    """Load the scripts where there are charts, and link figures."""
    app.connect("html-page-context", _add_scripts)
    app.connect("html-page-context", _link_figures)
    app.connect("builder-inited", _write_runtime)

"""Pages from templates with all they need inside, charts as SVG and PNG, and the look that all charts share."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from counterrank.common.files import PathLike, atomic_file

INK, MUTED, LINE = "#222222", "#5a5a5a", "#e4e4e4"
FONT = "Helvetica Neue, Helvetica, Arial, sans-serif"
DIGITS = "DejaVu Sans, Segoe UI, Helvetica Neue, Arial, sans-serif"  # with superscripts of one size

Spec = dict[str, Any]
"""A chart in Vega-Lite, as JSON has it."""

Datum = dict[str, Any]
"""A row of the data of a chart."""

CONFIG: Spec = {
    "font": FONT,
    "background": "white",
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": INK,
        "labelFont": DIGITS,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "gridColor": LINE,
        "domainColor": "#9a9a9a",
        "tickColor": "#9a9a9a",
    },
    "axisY": {"domain": False, "ticks": False, "labelPadding": 6},
    "axisX": {"grid": False},
    "title": {
        "anchor": "start",
        "frame": "group",
        "color": INK,
        "fontSize": 13,
        "fontWeight": "bold",
        "subtitleColor": MUTED,
        "subtitleFontSize": 11.5,
        "offset": 12,
    },
    "concat": {"spacing": 34},
}


def render(template: str, specs: dict[str, Spec], **content: Any) -> str:
    """The page; every text in it is escaped, unless it is marked as HTML of our own.

    >>> "vegaEmbed" in render("base.html.j2", {})
    True
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("counterrank.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template(template)
    parts = {"css": _text("style.css"), "charts": _text("charts.js"), "runtime": runtime_script()}
    own = {name: html(text) for name, text in {**parts, "specs": inline_json(specs)}.items()}
    return page.render(**own, **content)


def html(text: str) -> Any:
    """Text that goes to the page as it is: only for what we wrote ourselves.

    >>> html("<b>")
    Markup('<b>')
    """
    from markupsafe import Markup

    return Markup(text)


def inline_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in.

    >>> inline_json("</script>")
    '"\\\\u003c/script>"'
    """
    # json escapes everything beyond ASCII, line separators of JavaScript among it
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def _text(name: str) -> str:
    return (files("counterrank.report") / "templates" / name).read_text(encoding="utf-8")


@cache
def runtime_script() -> str:
    """The JavaScript that draws charts (vega, vega-lite, vega-embed) as one text without imports.

    >>> "vegaEmbed" in runtime_script()
    True
    """
    import vl_convert

    # a page ends its script at the first closing tag, wherever that stands
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", _version())).replace(
        "</script", "<\\/script"
    )


def to_svg(spec: Spec) -> str:
    """A chart as SVG text.

    >>> to_svg({"mark": "point", "data": {"values": [{}]}})[:4]
    '<svg'
    """
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec, vl_version=_version()))


def to_png(svg: str) -> bytes:
    """A chart from SVG to PNG, two pixels for one.

    >>> to_png(to_svg({"mark": "point", "data": {"values": [{}]}}))[1:4]
    b'PNG'
    """
    import vl_convert

    return bytes(vl_convert.svg_to_png(svg, scale=2))


def _version() -> str:
    """The version of Vega-Lite that altair speaks, as vl-convert names it."""
    import altair

    return "_".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def write_file(path: PathLike, content: str | bytes) -> Path:
    """Write a file that appears whole or not at all; returns its path.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(f"{folder}/page.html", "<!doctype html>").read_text()
    '<!doctype html>'
    """
    with atomic_file(path) as temporary:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return Path(path)

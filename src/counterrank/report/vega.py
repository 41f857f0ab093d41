"""From an altair chart to what others read: the script for a page, PNG and SVG; and the look that all charts share."""

from __future__ import annotations

from functools import cache
from typing import Any

INK, MUTED, LINE = "#222222", "#5a5a5a", "#e4e4e4"
FONT = "Helvetica Neue, Helvetica, Arial, sans-serif"
DIGITS = "DejaVu Sans, Segoe UI, Helvetica Neue, Arial, sans-serif"  # with superscripts of one size

CONFIG: dict[str, Any] = {
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


def to_svg(spec: dict[str, Any]) -> str:
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

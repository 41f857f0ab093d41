"""Pages from templates with all they need inside, charts as SVG and PNG, and the look that all charts share.

Each series has one colour, dash pattern and marker, the same in every figure. Colours are those of Okabe and Ito, which
colour-blind readers can distinguish; dashes and markers carry the same information on black and white paper.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from counterrank.common.files import PathLike, atomic_file
from counterrank.common.plotting import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION
from counterrank.report.text import duration, metric_name, number, percent, raised, readable

Spec = dict[str, Any]
"""A chart in Vega-Lite, as JSON has it."""

Datum = dict[str, Any]
"""A row of the data of a chart."""


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
    filters = (duration, metric_name, number, percent, raised, readable, unbroken_flags)
    environment.filters |= {each.__name__: each for each in filters}
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


def unbroken_flags(text: str) -> Any:
    """A text as HTML in which no line ends inside the name of an option.

    >>> unbroken_flags("a < b: --only-policy v1")
    Markup('a &lt; b: <span class="flag">--only-policy</span> v1')
    """
    from markupsafe import escape

    return html(re.sub(r"--[a-z][a-z-]*", r'<span class="flag">\g<0></span>', str(escape(text))))


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


# markers as paths: a ring, a bar, and a bar of two dashes
RING = "M0,-1.2A1.2,1.2,0,1,1,0,1.2A1.2,1.2,0,1,1,0,-1.2ZM0,-0.8A0.8,0.8,0,1,0,0,0.8A0.8,0.8,0,1,0,0,-0.8Z"
BAR = "M-1.2,-0.15L1.2,-0.15L1.2,0.15L-1.2,0.15Z"
DASHES = "M-1.2,-0.18L-0.3,-0.18L-0.3,0.18L-1.2,0.18ZM0.3,-0.18L1.2,-0.18L1.2,0.18L0.3,0.18Z"


@dataclass(frozen=True)
class Style:
    """Colour, dash pattern (lengths of ink and gap; empty is solid), marker shape and line width."""

    color: str
    dash: tuple[int, ...] = ()
    shape: str = "circle"
    width: float = 2.0

    @property
    def dot(self) -> str:
        """The shape of a point alone; paths are for lines."""
        return "circle" if self.shape.startswith("M") else self.shape


_KNOWN = {
    "policy-aware": Style(BLUE, width=2.8),
    "policy-oblivious+random": Style(VERMILLION, (7, 3), "square"),
    "policy-oblivious": Style(ORANGE, (2, 2), "diamond"),
    "rerank+random": Style(GREEN, (8, 2, 2, 2), "triangle-up"),
    "rerank": Style(SKY, (4, 2), "triangle-down"),
    "no-cutoff": Style(PURPLE, (12, 3), "cross"),
    "naive": Style(VERMILLION, (7, 3), "square"),
    "auto": Style(BLACK, width=3.2),
    "direct": Style(GREEN, (8, 2, 2, 2), "triangle-up"),
    "doubly-robust": Style(PURPLE, (12, 3), "cross"),
    "shrinkage": Style(ORANGE, (2, 2), "diamond"),
    "dcg-hinge": Style(VERMILLION, (7, 3), "square"),
    "dcg-logistic": Style(ORANGE, (2, 2), "diamond"),
    "lambdaloss-dcg": Style(GREEN, (8, 2, 2, 2), "triangle-up"),
    "lambdaloss-dcg-at-k": Style(SKY, (4, 2), "triangle-down"),
    "lambdaloss-truncated": Style(BLUE, width=2.8),
    "unsafe": Style(VERMILLION, (7, 3), "square"),
    "exposure-risk": Style(ORANGE, (2, 2), "diamond"),
    "prpo": Style(BLUE, width=2.8),
    "blend": Style(GREEN, (8, 2, 2, 2), "triangle-up"),
    "gate": Style(PURPLE, (12, 3), "cross"),
    "logging policy": Style(SKY, (5, 4), DASHES, 1.5),
    "selection": Style(BLACK, shape=RING, width=10.0),
    "replace-last": Style(BLUE, width=2.8),
    "epsilon-greedy": Style(ORANGE, (2, 2), "diamond"),
    "uniform-insert": Style(GREEN, (8, 2, 2, 2), "triangle-up"),
    "plackett-luce": Style(PURPLE, (12, 3), "cross"),
    "deterministic": Style(VERMILLION, (7, 3), "square"),
    "production": Style(GREY, (5, 4), DASHES, 1.5),
    "full-information": Style(BLACK, (), BAR, 1.3),
}

# for names we do not know, and for a second policy of one kind
_SPARE = (
    Style(SKY, (4, 2), "triangle-down"),
    Style(VERMILLION, (10, 2, 2, 2, 2, 2), "triangle-right"),
    Style(PURPLE, (3, 3), "triangle-left"),
    Style(GREEN, (1, 2), "square"),
    Style(ORANGE, (6, 2), "cross"),
    Style(GREY, (3, 1), "diamond"),
)


def assign_styles(names: Iterable[str]) -> dict[str, Style]:
    """A style for every name; names we know look the same whatever else is there.

    >>> styles = assign_styles(["policy-aware", "epsilon-greedy:k=5,epsilon=0.1", "epsilon-greedy:k=5,epsilon=0.5"])
    >>> styles["policy-aware"].color, styles["epsilon-greedy:k=5,epsilon=0.1"].color
    ('#0072B2', '#E69F00')
    >>> len(set(styles.values()))
    3
    """
    styles: dict[str, Style] = {}
    kinds: set[str] = set()
    spare = 0
    for name in dict.fromkeys(names):
        kind = name.split(":")[0]
        if kind in _KNOWN and kind not in kinds:
            styles[name] = _KNOWN[kind]
            kinds.add(kind)
        else:
            styles[name] = _SPARE[spare % len(_SPARE)]
            spare += 1
    return styles


_SHAPES = {
    "circle": "M0,-1A1,1,0,1,1,0,1A1,1,0,1,1,0,-1Z",
    "square": "M-0.9,-0.9L0.9,-0.9L0.9,0.9L-0.9,0.9Z",
    "diamond": "M0,-1.2L1.2,0L0,1.2L-1.2,0Z",
    "triangle-up": "M0,-1.1L1.1,0.9L-1.1,0.9Z",
    "triangle-down": "M0,1.1L1.1,-0.9L-1.1,-0.9Z",
    "triangle-left": "M-1.1,0L0.9,-1.1L0.9,1.1Z",
    "triangle-right": "M1.1,0L-0.9,-1.1L-0.9,1.1Z",
    "cross": "M-1.1,-0.4L1.1,-0.4L1.1,0.4L-1.1,0.4ZM-0.4,-1.1L0.4,-1.1L0.4,1.1L-0.4,1.1Z",
}


def swatch(style: Style) -> str:
    """A line of 34 pixels with the style's dashes and marker.

    >>> swatch(Style("#0072B2")).startswith('<svg class="swatch"')
    True
    """
    is_path = style.shape.startswith("M")
    width = min(style.width, 6)
    dash = f' stroke-dasharray="{" ".join(map(str, style.dash))}"' if style.dash else ""
    faint = ' opacity="0.25"' if width > 4 else ""
    line = f'<path d="M1,7L33,7" fill="none" stroke="{style.color}" stroke-width="{width}"{dash}{faint}/>'
    is_bar = is_path and "A" not in style.shape  # the line itself says it all
    shape = style.shape if is_path else _SHAPES.get(style.shape, _SHAPES["circle"])
    marker = "" if is_bar else f'<path d="{shape}" transform="translate(17,7) scale(4)" fill="{style.color}"/>'
    return f'<svg class="swatch" width="34" height="14" viewBox="0 0 34 14" aria-hidden="true">{line}{marker}</svg>'


def legend(styles: Mapping[str, Style], labels: Mapping[str, str]) -> list[dict[str, str]]:
    """A swatch and a label for each style.

    >>> legend({"auto": Style("#111111")}, {"auto": "auto"})[0]["label"]
    'auto'
    """
    return [{"label": labels[name], "swatch": html(swatch(style))} for name, style in styles.items()]

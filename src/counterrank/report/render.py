"""One page from a template, with all it needs inside: style, charts, and the script that draws them."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from counterrank.report.vega import runtime_script


def render(template: str, specs: dict[str, dict[str, Any]], **content: Any) -> str:
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

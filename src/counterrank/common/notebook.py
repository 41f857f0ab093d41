"""How objects show themselves: summaries that print as tables, and cards of HTML for notebooks.

Cards need no script, no style sheet and no network: styles are inline, text takes the colour of the page (light or
dark), and drawings are SVG. Every text is escaped, unless it is `Html` already.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

from counterrank.common.errors import printable

BLUE, ORANGE, GREEN, RED = "#2f7fc1", "#d9822b", "#2e9e6b", "#d1495b"  # readable on white and on black
POPULATIONS = {"queries": "queries like these", "these-queries": "these queries"}  # target populations
_FAINT = "rgba(128,128,128,0.3)"
_LONGEST = 8  # values of a list that are written out
_MOST_LINES, _SENTENCE = 30, 40  # rows of a list in a summary; letters from which a text has a line of its own
_NAME = 40  # letters of a name in a summary, up to which values stand below each other
_POINTS = 400  # of a line; more would not be seen
_WIDTH = 200  # of an interval or a bar


class Shown:
    """Base of objects that show themselves; tab completion lists their public names only."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        names = (name for name in super().__dir__() if not name.startswith("_"))
        return sorted(name for name in names if not getattr(getattr(type(self), name, None), "is_deprecated", False))


class Table:
    """Base of dataclasses that `to_json` turns into plain values, such as those of an inspection."""

    json_keys: ClassVar[dict[str, str]] = {}  # by attribute, where the JSON key is another word

    def to_json(self) -> dict[str, Any]:
        """Lists, dicts, numbers and words."""
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]  # derived classes are dataclasses
        return {self.json_keys.get(name, name): _plain(getattr(self, name)) for name in names}

    def __getitem__(self, key: str) -> Any:
        """The value of a JSON key, as when tables were dicts; deprecated."""
        warnings.warn(f"[{key!r}]: use the attribute, or summary()", DeprecationWarning, stacklevel=2)
        return self.to_json()[key]

    if not TYPE_CHECKING:  # so that other unknown attributes are still found

        def __getattr__(self, name):
            """The value of a JSON key that once was the name of the attribute; deprecated."""
            new = next((own for own, key in type(self).json_keys.items() if key == name), None)
            if new is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            warnings.warn(f"{name} is deprecated; use {new}", DeprecationWarning, stacklevel=2)
            return getattr(self, new)


def _plain(value: Any) -> Any:
    if isinstance(value, Table):
        return value.to_json()
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


class Summary(dict[str, Any]):
    """A dict of plain values that prints as a table, and shows as one in a notebook.

    >>> Summary(queries=1200, confidence_interval=(0.25, 0.5), source=None)
    queries              1,200
    confidence interval  0.25 to 0.5
    source               –
    """

    def __repr__(self) -> str:
        rows = list(_flat(self))
        width = min(max((len(name) for name, _ in rows), default=0), _NAME)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows) or "(empty)"

    def _repr_html_(self) -> str:
        return card(facts(dict(_flat(self))))


def _flat(values: Mapping[Any, Any], path: str = "") -> Iterable[tuple[str, str]]:
    """Names and texts; the values of dicts follow one by one, under the name of the dict and their own."""
    for key, value in values.items():
        name = path + printable(str(key)).replace("_", " ")
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{name}: ")
        elif _is_list_of_texts(value):
            yield from ((f"{name} {i}", text_of(each)) for i, each in enumerate(value, 1))
        else:
            yield name, text_of(value)


def _is_list_of_texts(value: Any) -> bool:
    """Whether a list is of sentences or rows, few enough to write each on a line of its own."""
    if not isinstance(value, list | tuple) or not 0 < len(value) <= _MOST_LINES:
        return False
    return all(isinstance(each, Mapping) or (isinstance(each, str) and len(each) > _SENTENCE) for each in value)


def text_of(value: Any) -> str:
    """A value in a few words: numbers to four digits, pairs of numbers as a range, long lists by their length.

    >>> [text_of(each) for each in (12345, 0.123456, (0.25, 0.5), True, None, ["a", "b"], [1] * 20)]
    ['12,345', '0.1235', '0.25 to 0.5', 'yes', '–', 'a, b', '20 values']
    """
    if value is None or (isinstance(value, list | tuple | Mapping) and not value):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(each, int | float) for each in value):
        return f"{text_of(value[0])} to {text_of(value[1])}"
    if isinstance(value, Mapping):
        return ", ".join(f"{printable(str(key))}: {text_of(each)}" for key, each in value.items())
    if isinstance(value, Sequence):
        is_short = len(value) <= _LONGEST and not any(isinstance(each, Mapping | list | tuple) for each in value)
        return ", ".join(map(text_of, value)) if is_short else f"{len(value):,} values"
    return printable(str(value))


def percent_text(share: float) -> str:
    """A share in percent, neither 0 % nor 100 % unless it is.

    >>> percent_text(0.5), percent_text(0.00012), percent_text(1.0), percent_text(0.99999)
    ('50.0 %', '0.012 %', '100 %', '> 99.9 %')
    """
    value = 100.0 * share + 0.0
    if value in (0.0, 100.0):
        return f"{value:.0f} %"
    if 99.95 <= value < 100.0:
        return "> 99.9 %"
    return f"{value:.2g} %" if abs(value) < 1.0 else f"{value:.1f} %"


def interval_decimals(value: float, interval: tuple[float, float], marks: Sequence[float] = (0.0,)) -> int:
    """So many decimals that half the width of an interval has two digits, and no bound looks as if it were a mark.

    >>> interval_decimals(0.07, (0.021, 0.119)), interval_decimals(0.07, (0.0004, 0.14))
    (3, 4)
    """
    half = abs(interval[1] - interval[0]) / 2.0 or abs(value) or 1.0
    if not math.isfinite(half):
        return 3
    digits = min(12, max(0, 1 - math.floor(math.log10(half))))
    while digits < 12 and any(
        bound != mark and round(bound, digits) == round(mark, digits) for bound in interval for mark in marks
    ):
        digits += 1
    return digits


def level_text(confidence: float) -> str:
    """The confidence level with its noun.

    >>> level_text(0.95)
    '95 % confidence interval'
    """
    return f"{100.0 * confidence:.4g} % confidence interval"


def interval_texts(
    value: float | None, interval: tuple[float, float] | None, *, sign: bool = False, marks: Sequence[float] = (0.0,)
) -> tuple[str, str]:
    """A value and its confidence interval with the decimals that fit the width; a dash for what is not there.

    >>> interval_texts(0.0712, (0.0214, 0.119), sign=True), interval_texts(None, None)
    (('+0.071', '0.021 to 0.119'), ('–', '–'))
    """
    plus = "+" if sign else ""
    if value is None:
        return "–", "–"
    if interval is None:
        return f"{value:{plus}.4g}", "–"
    digits = interval_decimals(value, interval, marks)
    low, high = (f"{round(bound, digits) + 0.0:,.{digits}f}" for bound in interval)
    return f"{round(value, digits) + 0.0:{plus},.{digits}f}", f"{low} to {high}"


class Html(str):
    """Text that is HTML already; any other text is escaped."""

    __slots__ = ()


def as_html(value: Any) -> Html:
    """HTML as it is, anything else as escaped text.

    >>> as_html("<b>"), as_html(Html("<b>"))
    ('&lt;b&gt;', '<b>')
    """
    return value if isinstance(value, Html) else Html(escape(text_of(value)))


def _element(tag: str, content: Any, style: str = "", more: str = "") -> Html:
    styled = f' style="{style}"' if style else ""
    return Html(f"<{tag}{styled}{more}>{content}</{tag}>")


def card(*parts: Html | None, title: str = "", sentence: str = "") -> Html:
    """What a notebook shows of an object: its name, a sentence, and parts one below the other.

    >>> card(title="Fold", sentence="a < b")
    '<div style="line-height:1.45;max-width:60em"><div><b>Fold</b> &nbsp;a &lt; b</div></div>'
    """
    head = ""
    if title or sentence:
        named = [_element("b", as_html(title))] if title else []
        head = _element("div", " &nbsp;".join([*named, as_html(sentence)] if sentence else named))
    return _element("div", head + "".join(part for part in parts if part), "line-height:1.45;max-width:60em")


def facts(values: Mapping[str, Any]) -> Html:
    """Names and values in two columns.

    >>> "<td" in facts({"queries": 12})
    True
    """
    return table([], [[_muted(as_html(name)), value] for name, value in values.items()], "ll")


def _muted(content: Html) -> Html:
    return _element("span", content, "opacity:0.7")


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]], align: str) -> Html:
    """A table; `align` has a letter for each column, l or r.

    >>> table(["id"], [["<a>"]], "l").count("&lt;a&gt;")
    1
    """
    sides = {"l": "left", "r": "right"}

    def cells(tag: str, values: Sequence[Any], extra: str) -> str:
        style = f"padding:1px 12px 1px 0;border:none;vertical-align:middle{extra};text-align:"
        wraps = [";white-space:nowrap" if tag == "td" and side == "r" else ";white-space:normal" for side in align]
        return "".join(
            _element(tag, as_html(value), style + sides[align[i]] + wraps[i]) for i, value in enumerate(values)
        )

    top = ""
    if head:
        under = f";font-weight:600;border-bottom:1px solid {_FAINT}"
        top = _element("thead", _element("tr", cells("th", head, under), "background:none"))
    body = "".join(_element("tr", cells("td", row, ""), "background:none") for row in rows)
    style = "border-collapse:collapse;border:none;margin:6px 0;table-layout:auto;width:auto;font-size:inherit"
    return _element("table", top + _element("tbody", body), style)


def notes(texts: Iterable[str], color: str = ORANGE, mark: str = "!") -> Html | None:
    """Remarks one below the other, each with a mark; None where there are none.

    >>> notes([]) is None, "few clicks" in notes(["few clicks"])
    (True, True)
    """
    style = f"border-left:3px solid {color};padding:0 0 0 8px;margin:4px 0"
    sign = _element("b", as_html(mark), f"color:{color}") + " &nbsp;"
    return Html("".join(_element("div", sign + as_html(text), style) for text in texts)) or None


def details(label: str, content: Html) -> Html:
    """Content that is folded away under a label.

    >>> details("more", Html("<b>x</b>"))
    '<details style="margin:6px 0"><summary>more</summary><b>x</b></details>'
    """
    return _element("details", _element("summary", as_html(label)) + content, "margin:6px 0")


def row(*parts: Html | None) -> Html:
    """Parts side by side, as far as there is room.

    >>> row(Html("<b>x</b>"), None).count("<b>")
    1
    """
    inside = "".join(_element("div", part) for part in parts if part)
    return _element("div", inside, "display:flex;flex-wrap:wrap;gap:0 36px;align-items:flex-start")


def heading(text: str) -> Html:
    """A line above a part.

    >>> "<b>" in heading("By rank")
    True
    """
    return _element("div", _element("b", as_html(text)), "margin-top:8px")


def _svg(width: int, height: int, content: str, label: str) -> Html:
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return Html(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(printable(label))}" '
        f'style="vertical-align:middle;overflow:visible">{content}</svg>'
    )


def bar_svg(share: float, color: str = BLUE) -> Html:
    """A bar as long as a share of its whole width.

    >>> 'width="100.0"' in bar_svg(0.5)
    True
    """
    inside = min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
    whole = f'<rect x="0" y="3" width="{_WIDTH}" height="8" rx="2" fill="{_FAINT}" opacity="0.5"/>'
    part = f'<rect x="0" y="3" width="{_WIDTH * inside:.1f}" height="8" rx="2" fill="{color}"/>'
    return _svg(_WIDTH, 14, whole + part, percent_text(inside))


def interval_svg(
    value: float | None,
    interval: tuple[float, float] | None,
    domain: tuple[float, float],
    *,
    mark: float | None = None,
    color: str = BLUE,
) -> Html:
    """A dot with its confidence interval on the scale `domain`, and a line at `mark`.

    >>> interval_svg(0.5, (0.25, 0.75), (0.0, 1.0), mark=0.0).count("<circle")
    1
    """
    low, high = domain
    span = (high - low) or 1.0

    def at(number: float) -> float:
        return 5.0 + (_WIDTH - 10.0) * min(max((number - low) / span, 0.0), 1.0)

    parts = [f'<line x1="0" x2="{_WIDTH}" y1="8" y2="8" stroke="{_FAINT}"/>']
    if mark is not None and low <= mark <= high:
        place = f'x1="{at(mark):.1f}" x2="{at(mark):.1f}"'
        parts.append(f'<line {place} y1="0" y2="16" stroke="currentColor" stroke-dasharray="2,2" opacity="0.8"/>')
    label = "not known"
    if value is not None and math.isfinite(value):
        if interval is not None:
            ends = f'x1="{at(interval[0]):.1f}" x2="{at(interval[1]):.1f}"'
            parts.append(f'<line {ends} y1="8" y2="8" stroke="{color}" stroke-width="4" opacity="0.6"/>')
        parts.append(f'<circle cx="{at(value):.1f}" cy="8" r="3.5" fill="{color}"/>')
        label = " ".join(interval_texts(value, interval))
    return _svg(_WIDTH, 16, "".join(parts), label)


def scale_of(intervals: Iterable[tuple[float, float] | None], *include: float) -> tuple[float, float]:
    """A scale that holds all intervals and the numbers to include, with some room at both ends.

    >>> scale_of([(20.0, 40.0), None, (30.0, 100.0)], 0.0)
    (-5.0, 105.0)
    """
    ends = [bound for each in intervals if each is not None for bound in each if math.isfinite(bound)]
    ends += [number for number in include if math.isfinite(number)]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    room = 0.05 * (high - low) or 0.5 * abs(high) or 0.5
    return low - room, high + room


def line_svg(values: Sequence[float | None], label: str, *, marked: int | None = None, x: str = "epoch") -> Html | None:
    """A curve over 1, 2, ... with its range, one place marked with a dot; None without two numbers.

    >>> line_svg([0.5, None, 0.7], "dcg@5", marked=3).count("<circle"), line_svg([0.5], "dcg@5") is None
    (1, True)
    """
    known = [(i + 1, float(v)) for i, v in enumerate(values) if v is not None and math.isfinite(v)]
    if len(known) < 2:
        return None
    width, height, left, top, bottom = 330, 130, 58, 20, 20
    low, high = min(v for _, v in known), max(v for _, v in known)
    span = (high - low) or 1.0

    def at(place: int, value: float) -> tuple[float, float]:
        across = left + (width - left - 8) * (place - 1) / max(len(values) - 1, 1)
        return across, top + (height - top - bottom) * (high - value) / span

    step = max(1, len(known) // _POINTS)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in (at(*each) for each in [*known[:-1:step], known[-1]]))
    parts = [
        f'<line x1="{left}" x2="{width - 8}" y1="{y}" y2="{y}" stroke="{_FAINT}"/>' for y in (top, height - bottom)
    ]
    parts.append(f'<polyline points="{points}" fill="none" stroke="{BLUE}" stroke-width="2"/>')
    for place, value in known:
        if place == marked:
            across, down = at(place, value)
            parts.append(f'<circle cx="{across:.1f}" cy="{down:.1f}" r="4.5" fill="{ORANGE}"/>')
    digits = interval_decimals(high, (low, high), ())

    def text(across: float, down: float, what: str, anchor: str, faint: bool = True) -> str:
        look = f'font-size="11" text-anchor="{anchor}" fill="currentColor"' + (' opacity="0.75"' if faint else "")
        return f'<text x="{across:.0f}" y="{down:.0f}" {look}>{escape(printable(what))}</text>'

    parts += [
        text(0, 11, label, "start", faint=False),
        text(left - 6, top + 4, f"{high:.{digits}f}", "end"),
        text(left - 6, height - bottom + 4, f"{low:.{digits}f}", "end") if high > low else "",
        text(left, height - 6, f"{x} 1", "start"),
        text(width - 8, height - 6, str(len(values)), "end"),
    ]
    return _svg(width, height, "".join(parts), f"{label}: {known[0][1]:.4g} to {known[-1][1]:.4g}")

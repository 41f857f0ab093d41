"""What a notebook gets to see: HTML that is well formed, needs nothing from outside, and escapes all text."""

from html.parser import HTMLParser

_ALLOWED = {
    "b", "circle", "details", "div", "li", "line", "ol", "polyline", "rect", "span", "summary", "svg", "table", "tbody",
    "td", "text", "th", "thead", "tr",
}  # fmt: skip


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.text = [], []

    def handle_starttag(self, tag, attributes):
        assert tag in _ALLOWED, tag
        for name, value in attributes:
            assert not name.startswith("on"), name
            assert name != "href"
            assert name != "src"
            assert "url(" not in (value or "")
        self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def card_text(shown) -> str:
    """The text that an object, or its HTML, shows, blanks made single; a failure if the HTML is not as it should be."""
    html = shown if isinstance(shown, str) else shown._repr_html_()
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return " ".join(" ".join(reader.text).split())


def check_shown(shown) -> str:
    """`card_text` of an object whose `repr` is one line and whose names in tab completion are public."""
    assert "\n" not in repr(shown)
    names = dir(shown)
    assert names == sorted(names)
    assert [name for name in names if name.startswith("_")] == []
    assert all(hasattr(type(shown), name) or hasattr(shown, name) for name in names)
    assert "summary" in names
    assert repr(shown.summary())  # prints
    card_text(shown.summary())
    return card_text(shown)

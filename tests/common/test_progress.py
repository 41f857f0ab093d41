import io
import sys
import time
import types

import pytest

from counterrank.common import progress as module
from counterrank.common.progress import in_notebook, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def work():
    with progress("reading train.txt", total=4) as advance:
        for _ in range(4):
            advance(1)


def test_quiet_where_nobody_watches(monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    monkeypatch.setattr(module, "_DELAY", 0)
    work()
    assert stream.getvalue() == ""


def test_quiet_for_short_work(monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    work()
    assert stream.getvalue() == ""


def test_a_bar_for_long_work(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    monkeypatch.setattr(module, "_DELAY", 0)
    work()
    assert "reading train.txt" in stream.getvalue()
    assert capsys.readouterr().out == ""


def test_errors_pass_through(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(module, "_DELAY", 0)

    def fail():
        with progress("reading", total=2) as advance:
            advance(1)
            raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        fail()


class Notebook:
    """As much of IPython as a bar needs, with all that it was given to show."""

    def __init__(self, monkeypatch, **shell):
        self.shown = []
        package, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
        package.get_ipython = lambda: types.SimpleNamespace(**shell) if shell else None
        package.display, display.HTML, display.display = display, str, self.display
        monkeypatch.setitem(sys.modules, "IPython", package)
        monkeypatch.setitem(sys.modules, "IPython.display", display)
        monkeypatch.setattr(sys, "stderr", io.StringIO())

    def display(self, html, display_id):
        assert display_id is True
        self.update(html)
        return self

    def update(self, html):
        self.shown.append(html)


def test_a_bar_in_a_notebook(monkeypatch):
    notebook = Notebook(monkeypatch, kernel=object())
    monkeypatch.setattr(module, "_DELAY", 0)
    monkeypatch.setattr(module, "_REDRAW", 0)
    with progress("reading <train>", total=4) as advance:
        for _ in range(4):
            advance(1)
    assert "reading &lt;train&gt;" in notebook.shown[0]
    assert "100%" in notebook.shown[-2]
    assert notebook.shown[-1] == ""  # it goes at the end
    assert sys.stderr.getvalue() == ""


def test_a_bar_in_a_notebook_without_a_total(monkeypatch):
    notebook = Notebook(monkeypatch, kernel=object())
    monkeypatch.setattr(module, "_DELAY", 0)
    with progress("waiting") as advance:
        advance(1)
    assert "waiting" in notebook.shown[0]
    assert "%" not in notebook.shown[0].replace("max-width", "")


def test_a_bar_in_a_notebook_is_not_drawn_too_often(monkeypatch):
    notebook = Notebook(monkeypatch, kernel=object())
    monkeypatch.setattr(module, "_DELAY", 0)
    monkeypatch.setattr(module, "_REDRAW", 3600)
    with progress("reading", total=1000) as advance:
        for _ in range(1000):
            advance(1)
    assert len(notebook.shown) == 2  # when it begins, and when it goes


def test_a_bar_in_a_notebook_appears_while_the_first_step_lasts(monkeypatch):
    notebook = Notebook(monkeypatch, kernel=object())
    monkeypatch.setattr(module, "_DELAY", 0.01)
    with progress("compiling", total=2):
        end = time.monotonic() + 30
        while not notebook.shown and time.monotonic() < end:
            time.sleep(0.01)
    assert "compiling" in notebook.shown[0]


def test_no_bar_in_a_notebook_for_short_work(monkeypatch):
    notebook = Notebook(monkeypatch, kernel=object())
    work()
    assert notebook.shown == []


def test_what_is_a_notebook(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    assert "IPython" not in sys.modules
    Notebook(monkeypatch)
    assert not in_notebook()  # IPython is imported, and does not run this
    Notebook(monkeypatch, readline=True)
    assert not in_notebook()  # in a terminal
    Notebook(monkeypatch, kernel=object())
    assert in_notebook()

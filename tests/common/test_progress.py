import io
import sys

import pytest

from counterrank.common import progress as module
from counterrank.common.progress import progress


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

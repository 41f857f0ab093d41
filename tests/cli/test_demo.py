import io
import itertools
import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.cli.demo import _check_page
from counterrank.common.jit import needs_compiling, run_processes
from counterrank.common.progress import Stages, progress, watched
from counterrank.experiments import run_demo
from counterrank.experiments.demo import find_buried


class Terminal(io.StringIO):
    def isatty(self):
        return True


def slow_ranks(scores, offsets):
    ranks = []
    for begin, end in itertools.pairwise(offsets):
        own = [(-scores[i], i) for i in range(begin, end)]
        ranks += [sorted(own).index(pair) + 1 for pair in own]
    return ranks


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    beyond=st.integers(0, 4),
    seed=st.integers(0, 1000),
)
def test_buried_documents_are_followed_through_every_ranking(lengths, beyond, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    relevant = rng.random(offsets[-1]) < 0.5
    scores = {name: rng.integers(0, 3, offsets[-1]).astype(float) for name in ("old", "new")}  # with ties
    found = find_buried(relevant, offsets, scores, "old", beyond)
    ranks = {name: slow_ranks(values, offsets) for name, values in scores.items()}
    chosen = [i for i in range(offsets[-1]) if relevant[i] and ranks["old"][i] > beyond]
    queries = np.repeat(np.arange(len(lengths)), lengths)
    assert found.documents == len(chosen)
    assert found.queries == len({queries[i] for i in chosen})
    for name in scores:
        assert found.ranks[name] == [sum(ranks[name][i] == rank for i in chosen) for rank in range(1, max(lengths) + 1)]
    if chosen:
        assert found.shares(beyond)["old"] == 0.0
        assert found.shares(max(lengths)) == {"old": 1.0, "new": 1.0}
    else:
        assert found.shares(3) == {"old": None, "new": None}


def test_one_seed_gives_one_demo_and_stages_come_in_their_order():
    stages = []
    first = run_demo("yahoo", 60, seed=3, threads=1, clicks=2000, on_stage=stages.append)
    second = run_demo("yahoo", 60, seed=3, threads=2, clicks=2000)
    assert first.metrics == second.metrics
    assert first.buried == second.buried
    assert first.comparison.clicks.n_clicks >= 2000
    assert first.comparison.validation_clicks.n_clicks >= 300
    assert [text.split()[0] for text in stages] == ["making", "showing", *["learning:"] * 4, "evaluating"]


def test_stages_line_by_line_where_nobody_watches(monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    with Stages() as stages:
        stages("first")
        with progress("counting", 2) as advance:
            advance(1)
        stages("second")
    assert stream.getvalue() == "first ...\nsecond ...\n"


def test_stages_on_a_terminal_without_bars_of_the_work_itself(monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with Stages() as stages:
        stages("first")
        with progress("counting", 2) as advance:
            advance(1)
        stages("second")
    shown = stream.getvalue()
    assert "first" in shown
    assert "second" in shown
    assert "counting" not in shown


def test_progress_reaches_the_innermost_watcher_and_none_afterwards():
    outer, inner = [], []
    with watched(lambda *now: outer.append(now)):
        with watched(lambda *now: inner.append(now)), progress("counting", 4) as advance:
            advance(3)
        with progress("counting", None) as advance:
            advance(1)
    with progress("counting", 4) as advance:
        advance(1)
    assert inner == [(0, 4), (3, 4)]
    assert outer == [(0, None), (1, None)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda out: out.mkdir(), "a folder; expected the name of a page"),
        (lambda out: out.write_text("my thesis"), "exists and is no page of counterrank demo"),
    ],
)
def test_nothing_but_a_page_of_the_demo_is_replaced(tmp_path, make, message):
    out = tmp_path / "page.html"
    make(out)
    with pytest.raises(cr.CounterrankError, match=message):
        _check_page(out)
    with pytest.raises(cr.CounterrankError, match="its folder does not exist"):
        _check_page(tmp_path / "nowhere" / "page.html")


def test_processes_apart_print_lines_may_fail_and_do_not_outlive_the_call(tmp_path, monkeypatch):
    (tmp_path / "talking.py").write_text("import sys; print(sys.argv[1], flush=True); sys.exit(3)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    lines = []
    run_processes("talking", [["one"], ["two"]], lines.append)
    assert sorted(lines) == ["one", "two"]
    run_processes("no_such_module", [[]], lines.append)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    run_processes("talking", [["three"]], lines.append)
    assert len(lines) == 2


@pytest.mark.process
def test_a_process_apart_ends_with_the_one_that_started_it():
    code = "from counterrank.common.jit import exit_with_parent; exit_with_parent(); import time; time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    try:
        process.stdin.close()
        assert process.wait(60) == 1
    finally:
        process.kill()
        process.wait()


@pytest.mark.process
def test_compiled_ahead_there_is_nothing_left_to_compile(tmp_path, monkeypatch):
    code = """
        import json
        from numba.core import event

        class Count(event.Listener):
            compiled = []
            def on_start(self, what):
                self.compiled.append(what.data["dispatcher"].py_func.__qualname__)
            def on_end(self, what):
                pass

        event.register("numba:compile", Count())
        from counterrank.experiments import run_demo
        from counterrank.experiments.demo import warm_up
        jobs, done = [], []
        warm_up("yahoo", jobs.append, lambda: done.append(1))
        warm_up("yahoo", jobs.append, lambda: done.append(1))
        run_demo("yahoo", 60, clicks=10**5)
        print(json.dumps([jobs, len(done), Count.compiled]))
    """
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    assert json.loads(done.stdout) == [[4], 4, []]


def test_what_cannot_be_kept_is_not_missing():
    assert not needs_compiling(print)

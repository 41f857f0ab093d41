"""The parts of a reproduction: shared data, results on disk, engines, the tally, and the summary."""

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from counterrank.common.errors import CounterrankError, DataError
from counterrank.data import Fold, RankingData, make_fold
from counterrank.experiments import engines
from counterrank.experiments.cell_runner import CellRunner, answer
from counterrank.experiments.cells import all_cells, grid
from counterrank.experiments.engines import CellFailure, Tally, run_all, shown
from counterrank.experiments.reproduction import summarize
from counterrank.experiments.run_folder import (
    RESULTS,
    ResultWriter,
    Run,
    describe_fold,
    fingerprint,
    read_results,
    read_run,
    share_fold,
    shared_fold,
)
from counterrank.experiments.settings import Settings
from counterrank.experiments.summary import Summary, to_json

SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"
FOLD = make_fold("yahoo", 40)
PARTS = ("train", "validation", "test")
ARRAYS = ("features", "offsets", "labels", "query_ids", "doc_ids")


# Shared data ---------------------------------------------------------------------------------------------------------


def named(ids=("ä", "a longer one"), docs=("x", "y", "", "zzz")) -> Fold:
    """A fold whose ids are texts of different lengths."""
    part = RankingData(np.arange(8.0).reshape(4, 2), [0, 1, 4], [0, 1, 0, 2], query_ids=list(ids), doc_ids=list(docs))
    return Fold(part, part, part)


@pytest.mark.parametrize("fold", [FOLD, named()], ids=["numbers", "texts"])
def test_shared_data_comes_back_as_it_was(tmp_path, fold):
    share_fold(fold, tmp_path / "fold")
    again = shared_fold(tmp_path / "fold")
    for part in PARTS:
        for array in ARRAYS:
            one, other = (getattr(getattr(whole, part), array) for whole in (fold, again))
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
    assert fingerprint(again) == fingerprint(fold)
    assert describe_fold("", again, 1) == describe_fold("", fold, 1)


def base_of(array):
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    return array


def test_shared_data_is_mapped_and_not_read(tmp_path):
    share_fold(FOLD, tmp_path / "fold")
    again = shared_fold(tmp_path / "fold")
    for part in PARTS:
        for array in ARRAYS:
            mapped = getattr(getattr(again, part), array)
            assert isinstance(base_of(mapped), np.memmap)
            assert not mapped.flags.writeable
    # kernels take what is mapped as it is
    assert np.shares_memory(np.ascontiguousarray(again.train.features), again.train.features)


def test_only_shared_data_is_taken_for_it(tmp_path):
    with pytest.raises(DataError, match=r"no fold\.json in it; expected a folder written by counterrank reproduce"):
        shared_fold(tmp_path)


def changed(fold, part="train", **arrays) -> Fold:
    data = getattr(fold, part)
    parts = {name: getattr(fold, name) for name in PARTS}
    content = {name: arrays.get(name, getattr(data, name)) for name in ARRAYS}
    return Fold(**{**parts, part: RankingData(**content)})


@pytest.mark.parametrize("part", PARTS)
def test_fingerprints_change_with_every_part(part):
    fold = changed(FOLD, part, doc_ids=np.arange(getattr(FOLD, part).n_docs))  # so that offsets may be moved
    data = getattr(fold, part)
    arrays = {name: getattr(data, name).copy() for name in ARRAYS}
    arrays["features"][-1, -1] += 1e-3
    arrays["labels"][-1] += 1
    arrays["offsets"][1] += 1
    arrays["query_ids"][-1] += 1000
    arrays["doc_ids"][-1] += 1000
    others = [changed(fold, part, **{name: array}) for name, array in arrays.items()]
    assert len({fingerprint(other) for other in (FOLD, fold, *others)}) == 7
    assert fingerprint(changed(fold, part)) == fingerprint(fold)


def test_fingerprints_know_the_parts_and_their_shapes():
    swapped = Fold(FOLD.test, FOLD.validation, FOLD.train)
    wide, tall = (
        RankingData(np.arange(8.0).reshape(shape), [0, shape[0]], [0] * shape[0]) for shape in ((2, 4), (4, 2))
    )
    assert fingerprint(swapped) != fingerprint(FOLD)
    assert fingerprint(Fold(wide, wide, wide)) != fingerprint(Fold(tall, tall, tall))
    assert fingerprint(named(ids=("ä", "a longer one"))) != fingerprint(named(ids=("ä", "a longer onE")))
    assert fingerprint(named(docs=("xy", "", "q", "zzz"))) != fingerprint(named(docs=("x", "y", "q", "zzz")))


def test_the_description_of_data():
    about = describe_fold("mine", named(), relevance_threshold=1)
    assert about.source == "mine"
    assert to_json(about.parts["test"]) == {
        "queries": 2,
        "documents": 4,
        "features": 2,
        "documents_per_query": 2.0,
        "shortest": 1,
        "longest": 3,
        "relevant_share": 0.5,
        "queries_with_relevant": 1,
    }


# Results on disk -----------------------------------------------------------------------------------------------------


def write(folder, *keys, **more):
    with ResultWriter(folder) as results:
        for key in keys:
            results.add({"key": key, **more})


def test_rows_survive(tmp_path):
    write(tmp_path / "new" / "run", "a", "b", text='ä\n"quoted"')
    write(tmp_path / "new" / "run", "c")
    rows = read_results(tmp_path / "new" / "run")
    assert list(rows) == ["a", "b", "c"]
    assert rows["a"] == {"key": "a", "text": 'ä\n"quoted"'}


def test_the_latest_row_of_a_cell_counts(tmp_path):
    write(tmp_path, "a", "b", error="no")
    write(tmp_path, "a", metrics={"arp": 1.0})
    rows = read_results(tmp_path)
    assert rows == {"a": {"key": "a", "metrics": {"arp": 1.0}}, "b": {"key": "b", "error": "no"}}


def test_a_kill_at_any_byte_loses_no_row_before_it(tmp_path):
    write(tmp_path, "a", "b", metrics={"arp": 1.5})
    file = tmp_path / RESULTS
    whole = file.read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(len(whole) + 1):
        file.write_bytes(whole[:length])
        expected = ["a"] * (length >= first) + ["b"] * (length == len(whole))
        assert list(read_results(tmp_path)) == expected
        write(tmp_path, "c")  # what was cut short is no beginning of another line
        assert list(read_results(tmp_path)) == [*expected, "c"]
        assert file.read_bytes().count(b"\n") == len(expected) + 1


@pytest.mark.parametrize("line", [b"{", b"", b"[1]", b"3", b'"key"', b"{}", b'{"key": [1]}', b"\xff\xfe", b"null"])
def test_a_bad_line_in_the_middle_is_an_error(tmp_path, line):
    write(tmp_path, "a")
    with (tmp_path / RESULTS).open("ab") as file:
        file.write(line + b"\n")
    write(tmp_path, "b")
    with pytest.raises(CounterrankError, match=r"results\.jsonl: line 2 is not a result; delete that line"):
        read_results(tmp_path)


def test_a_second_writer_is_refused(tmp_path):
    with ResultWriter(tmp_path) as results:
        results.add({"key": "a"})
        with pytest.raises(CounterrankError, match=r"another process is writing results there; wait for it"):
            write(tmp_path, "b")
        results.add({"key": "c"})
    write(tmp_path, "d")
    assert list(read_results(tmp_path)) == ["a", "c", "d"]


def test_a_writer_that_failed_lets_go(tmp_path):
    with pytest.raises(TypeError), ResultWriter(tmp_path) as results:
        results.add({"key": object()})
    write(tmp_path, "a")
    assert list(read_results(tmp_path)) == ["a"]


def test_rows_are_whole_where_the_disk_takes_a_part(tmp_path, monkeypatch):
    write_all = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: write_all(handle, content[:5]))
    write(tmp_path, "a", text="long enough for several parts")
    monkeypatch.undo()
    assert read_results(tmp_path)["a"]["text"] == "long enough for several parts"


# Run folders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"run\.json: not JSON"),
        ("[]", r"run\.json: format is not 'counterrank-run'"),
        ('{"format": "counterrank-run", "version": 2}', r"version 2; this counterrank reads version 1"),
        (
            '{"format": "counterrank-run", "version": 1}',
            r"run\.json: no settings or no data in it; the file is damaged",
        ),
        ('{"format": "counterrank-run", "version": 1, "settings": {}, "data": 3}', r"the file is damaged"),
        ('{"format": "counterrank-run", "version": 1, "settings": {"x": 1}, "data": []}', r"no setting 'x'; expected"),
        ('{"format": "counterrank-run", "version": 1, "settings": {"runs": 0}, "data": []}', r"^runs=0: expected"),
    ],
)
def test_damaged_run_folders(tmp_path, content, message):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(CounterrankError, match=message):
        read_run(tmp_path)


def test_there_is_no_such_run(tmp_path):
    with pytest.raises(CounterrankError, match=r"no such run folder"):
        read_run(tmp_path / "run")
    with pytest.raises(CounterrankError, match=r"no run\.json in it; expected a folder written by counterrank repro"):
        read_run(tmp_path)


# Engines -------------------------------------------------------------------------------------------------------------

CELLS = all_cells(grid(Settings(figures=(2,), clicks=(100,), runs=1)))


class Slot:
    """A place that answers with what a function makes of the cell."""

    def __init__(self, run):
        self.run = run
        self.seen = []


def test_one_slot_runs_the_first_cells_first():
    started, done = [], []
    for cell, row in run_all(CELLS, [Slot(lambda cell: {"loss": cell.loss})], started.append):
        assert row == {"loss": cell.loss}
        done.append(cell)
    assert started == done == CELLS


def test_no_cells_and_no_slots_to_spare():
    assert list(run_all([], [Slot(None)] * 3, print)) == []
    assert len(list(run_all(CELLS[:1], [Slot(lambda cell: {})] * 9, lambda cell: None))) == 1


def test_all_slots_are_used_at_once():
    """Each slot waits until all are busy: it would never end with one after the other."""
    together = threading.Barrier(3, timeout=60)

    def run(cell):
        together.wait()
        return {}

    assert len(list(run_all(CELLS[:12], [Slot(run) for _ in range(3)], lambda cell: None))) == 12


def test_results_come_in_the_callers_thread_as_soon_as_they_are_there():
    go_on = threading.Event()

    def run(cell):
        if cell is CELLS[0]:
            assert go_on.wait(60)
        return {}

    results = run_all(CELLS[:3], [Slot(run), Slot(run)], lambda cell: None)
    assert [next(results)[0], next(results)[0]] == CELLS[1:3]
    go_on.set()
    assert [cell for cell, _ in results] == CELLS[:1]


def test_failures_are_results_like_others():
    def run(cell):
        if cell in CELLS[1:3]:
            raise CellFailure("no luck")
        return {}

    failed = [cell for cell, row in run_all(CELLS, [Slot(run)], lambda cell: None) if isinstance(row, CellFailure)]
    assert failed == CELLS[1:3]


def test_a_fault_of_the_engine_ends_the_run():
    def run(cell):
        if cell is CELLS[2]:
            raise OSError("the cluster is gone")
        return {}

    done = []
    with pytest.raises(OSError, match="the cluster is gone"):
        done.extend(cell for cell, _ in run_all(CELLS, [Slot(run)], lambda cell: None))
    assert done == [] or done == CELLS[:2]


def test_a_worker_answers_with_an_error_in_words(capsys):
    runner = CellRunner({0: FOLD})
    assert answer(runner, {"noise": [0.1, 1]})["error"].startswith("TypeError: ")
    bad = {**CELLS[0].plain(), "fold": 7}
    assert answer(runner, bad) == {"error": "KeyError: 7"}
    assert "Traceback" in capsys.readouterr().err


# The tally -----------------------------------------------------------------------------------------------------------


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(engines, "time", clock)
    return clock


def test_the_tally_counts_and_foretells(clock):
    first, rerank, *aware = CELLS[1], CELLS[0], *(cell for cell in CELLS if cell.estimator == "policy-aware")
    assert (rerank.estimator, len(aware)) == ("rerank", 2)
    tally = Tally([first, rerank, *aware], slots=1)
    assert tally.seconds_left() is None
    assert tally.lines() == ["0 of 4 cells done, 0 running"]
    tally.start(first)
    clock.now = 90.0
    assert tally.lines() == ["0 of 4 cells done, 1 running", f"     90 s  {first.describe()}"]
    tally.finish(first, failed=False)
    assert tally.seconds_left() is None  # it may have compiled all the time
    tally.start(rerank)
    tally.start(aware[0])
    clock.now = 100.0
    tally.finish(rerank, failed=False)
    # two more of 10 s each, one of which has been running for 10 s
    assert tally.lines()[0] == "2 of 4 cells done, 1 running, about 10 s left"
    clock.now = 130.0
    tally.finish(aware[0], failed=True)
    # kinds: 10 s and 40 s; the one left is of neither
    assert tally.lines() == ["2 of 4 cells done, 0 running, 1 failed, about 25 s left"]
    tally.start(aware[1])
    clock.now = 1000.0
    assert tally.seconds_left() == 0.0  # longer than predicted
    tally.finish(aware[1], failed=False)
    assert tally.lines() == ["3 of 4 cells done, 0 running, 1 failed, about 0 s left"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (7100, "118 min"), (7200, "2 h"), (1e5, "28 h")]
)
def test_durations_in_words(seconds, text):
    assert engines._duration(seconds) == text


def test_only_some_of_many_running_cells_are_listed(clock):
    cells = all_cells(grid(Settings(runs=2)))[:40]
    tally = Tally(cells, slots=40)
    for cell in cells:
        tally.start(cell)
    assert len(tally.lines()) == 17
    assert tally.lines()[0] == "0 of 40 cells done, 40 running"


class Screen(io.StringIO):
    """What a person watches."""

    def isatty(self):
        return True


@pytest.mark.parametrize("screen", [Screen(), io.StringIO()], ids=["watched", "in a file"])
def test_the_display_is_for_people(monkeypatch, screen):
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    tally = Tally(CELLS, slots=2)
    with shown(tally):
        tally.start(CELLS[0])
    text = screen.getvalue()
    if screen.isatty():
        assert "0 of 15 cells done, 1 running" in text
        assert CELLS[0].describe() in text
        assert text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)
    else:
        assert text == ""


@pytest.mark.process
def test_who_leaves_at_once_gives_the_cursor_back():
    """The process leaves without an end to the display."""
    master, slave = os.openpty()
    code = "from counterrank.cli.main import _leave; _leave(2, None)"
    done = subprocess.run([sys.executable, "-c", code], stderr=slave, check=False)
    os.close(slave)
    assert done.returncode == 130
    assert os.read(master, 100) == SHOW_CURSOR.encode()
    os.close(master)


# The summary ---------------------------------------------------------------------------------------------------------


def made_up_run(settings, row) -> Run:
    """A run whose results are given by a function of the cell; None for none."""
    about = {"data": [{"source": "mine", "fingerprint": "", "parts": {}}]}
    rows = {cell.key(""): row(cell) for cell in all_cells(grid(settings))}
    return Run(Path(), settings, about, {key: content for key, content in rows.items() if content is not None})


def test_selection_takes_the_best_estimate_in_each_run():
    settings = Settings(figures=(3,), clicks=(100,), runs=3, losses=("dcg-hinge", "dcg-logistic"))

    def row(cell):
        if (cell.run, cell.loss) == (2, "dcg-hinge"):
            return {"error": "lost"}
        estimate = {"dcg-hinge": [3.0, 1.0], "dcg-logistic": [2.0, 2.0, 2.0]}.get(cell.loss, [0.0] * 3)[cell.run]
        return {"metrics": {"arp": 1.0, "dcg@5": 10 * estimate}, "validation": estimate, "seconds": 1.0}

    summary = summarize(made_up_run(settings, row))
    true, estimate = summary.figures[0].panels
    (selected,) = (series.points[0] for series in true.series if series.name == "selection")
    assert selected.chosen == ("dcg-hinge", "dcg-logistic", None)
    assert selected.values == (30.0, 20.0, None)
    assert estimate.series[-1].points[0].values == (3.0, 2.0, None)
    assert summary.cells.failed == 1
    assert summary.cells.failures[0].error == "lost"
    assert summary.cells.done == summary.cells.wanted - 1


def test_pages_without_anything_relevant_have_no_cost():
    """Where the unrandomised page shows nothing relevant there is no share of it to lose."""
    settings = Settings(figures=(4,), clicks=(100,), runs=2, policies=("replace-last:k=5",))

    def row(cell):
        pages = {"shown": 0.4, "unrandomised": 0.0 if cell.run == 0 else 0.5}
        return {"metrics": {"arp": 1.0, "dcg@5": 1.0}, "pages": pages, "seconds": 1.0}

    cost = summarize(made_up_run(settings, row)).figures[0].panels[1]
    assert cost.series[0].points[0].values == (None, pytest.approx(0.2))


def test_a_summary_of_nothing_is_plain_json():
    summary = summarize(made_up_run(Settings(runs=1), lambda cell: None))
    assert summary.cells.done == 0
    plain = json.loads(json.dumps(summary.to_json(), allow_nan=False))
    assert Summary.from_json(plain) == summary


def test_an_engine_without_a_slot_is_an_error_and_no_wait_for_ever():
    with pytest.raises(CounterrankError, match="no place to run a cell"):
        list(run_all([], [], lambda cell: None))

"""A run that is killed, interrupted or out of room: the log stays as it is, nothing is in the way of the next."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.clicks import read_log
from counterrank.common.files import InUseError, atomic_file, atomic_folder, lock, spill_folder
from tests.support import log_files

READ = """
import signal, sys
from counterrank.cli.main import _leave
from counterrank.clicks import read_log
# said in both cases: what runs in the background of a shell is started with SIGINT ignored
signal.signal(signal.SIGINT, _leave if sys.argv[2] == "command" else signal.default_int_handler)
while True:  # a quick machine might be done before it is interrupted
    read_log(sys.argv[1], memory="60MB", threads=1)
"""
PAGES = 2_000_000


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log that does not fit into a small memory."""
    path = tmp_path_factory.mktemp("large") / "log.parquet"
    sessions = np.random.default_rng(0).permutation(PAGES)
    table = {
        "session_id": np.concatenate((sessions, sessions[::-1])),
        "query_id": np.zeros(2 * PAGES, np.int64),
        "doc_id": np.repeat([0, 1], PAGES),
        "rank": np.repeat([1, 2], PAGES),
        "clicked": np.zeros(2 * PAGES, bool),
    }
    pq.write_table(pa.table(table), path)
    return path


@pytest.fixture
def room(tmp_path, monkeypatch):
    """An empty folder for temporary files."""
    folder = tmp_path / "room"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def is_in_use(folder):
    try:
        with lock(folder / "lock", wait=False):
            return False
    except InUseError:
        return True


def state_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns, os.listdir(path.parent)


@contextmanager
def reading(log, room, how="plain"):
    """A process that reads the log and has begun to spill."""
    with subprocess.Popen(
        [sys.executable, "-c", READ, str(log), how], env={**os.environ, "TMPDIR": str(room)}, stderr=subprocess.DEVNULL
    ) as process:
        try:
            until = time.monotonic() + 60
            while not any(file.stat().st_size for file in room.glob("*/*")):
                assert process.poll() is None, "it ended by itself"
                assert time.monotonic() < until, "it never spilled"
                time.sleep(0.005)
            yield process
        finally:
            process.kill()


def small_log(folder):
    return log_files.write(folder / "small.csv", log_files.as_rows([(1, "q", "a", 1, 0)]))


@pytest.mark.process
def test_killed(log, room, tmp_path):
    before = state_of(log)
    with reading(log, room) as process:
        process.send_signal(signal.SIGSTOP)  # so that it is not done meanwhile
        (spill,) = room.iterdir()
        assert read_log(small_log(tmp_path)).n_impressions == 1
        assert is_in_use(spill)  # another run leaves it alone
        assert spill.exists()
        process.kill()
        process.wait()
    assert list(room.iterdir()) == [spill]
    assert state_of(log) == before
    assert read_log(small_log(tmp_path)).n_impressions == 1
    assert list(room.iterdir()) == []


@pytest.mark.process
@pytest.mark.parametrize("how", ["plain", "command"])
def test_interrupted(log, room, how):
    before = state_of(log)
    with reading(log, room, how) as process:
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        code = process.wait(60)
        assert time.monotonic() - begin < 20
    assert code == {"plain": -signal.SIGINT, "command": 130}[how]
    assert list(room.iterdir()) == []
    assert state_of(log) == before


@pytest.mark.process
def test_no_room_left(log, room):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", room], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        with pytest.raises(cr.CounterrankError, match=r"log.parquet: cannot be counted \(.*TMPDIR names$") as error:
            read_log(log, memory="60MB", threads=1)
        assert str(error.value).isprintable()
        assert os.listdir(room) == []
        (room / "full").write_bytes(bytes(3 << 20))
        with pytest.raises(OSError, match="No space left"), atomic_file(room / "out") as temporary:
            temporary.write_bytes(bytes(3 << 20))
        assert os.listdir(room) == ["full"]
    finally:
        subprocess.run(["umount", room], check=True)


def test_nowhere_to_spill(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(cr.CounterrankError, match=r"none: cannot be written .*; TMPDIR names another folder"):
        read_log(small_log(tmp_path))


def test_spill_folders_of_the_dead_only(room):
    for name in ("counterrank-spill-abcdefgh", "counterrank-spill-notes", "other"):
        (room / name).mkdir()
        (room / name / "file").write_text("x")
    (room / "counterrank-spill-linked01").symlink_to(room / "other")
    with spill_folder() as living, spill_folder():
        assert living.is_dir()
        assert is_in_use(living)
        assert not (room / "counterrank-spill-abcdefgh").exists()
    left = ["counterrank-spill-linked01", "counterrank-spill-notes", "other"]
    assert sorted(os.listdir(room)) == left
    assert (room / "other" / "file").exists()


def write_folder(path, text):
    with atomic_folder(path, "marker") as temporary:
        (temporary / "marker").write_text(text)


def test_halves_of_files_are_removed_by_the_next_write(tmp_path):
    for name in (".out.12345678.part", ".out.txt.12345678.part", ".out.part", ".out.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "new").write_text("half")
    with atomic_file(tmp_path / "out") as temporary:
        assert sorted(os.listdir(tmp_path)) == sorted(
            [".out.old", ".out.part", ".out.txt.12345678.part", temporary.parent.name]
        )
        with atomic_file(tmp_path / "out") as other:
            assert temporary.exists()  # a living process holds it
            other.write_text("other")
        temporary.write_text("whole")
    assert (tmp_path / "out").read_text() == "whole"


def test_a_folder_killed_between_its_two_moves_is_back(tmp_path):
    write_folder(tmp_path / "run", "old")
    new = tmp_path / ".run.87654321.part" / "new"
    new.mkdir(parents=True)
    (new / "marker").write_text("new")
    os.replace(tmp_path / "run", new.parent / "old")
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "run", "marker"):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["run"]
    assert (tmp_path / "run" / "marker").read_text() == "old"


def test_a_folder_killed_after_its_two_moves_is_new(tmp_path):
    write_folder(tmp_path / "run", "new")
    aside = tmp_path / ".run.12345678.part" / "old"
    aside.mkdir(parents=True)
    (aside / "marker").write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "run", "marker"):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["run"]
    assert (tmp_path / "run" / "marker").read_text() == "new"


def test_what_belongs_to_another_name_is_left(tmp_path):
    """`run.v2` was just being replaced; writing `run` must not take it."""
    aside = tmp_path / ".run.v2.12345678.part" / "old"
    aside.mkdir(parents=True)
    (aside / "marker").write_text("v2")
    write_folder(tmp_path / "run", "v1")
    assert (tmp_path / "run" / "marker").read_text() == "v1"
    write_folder(tmp_path / "run.v2", "new")
    assert sorted(os.listdir(tmp_path)) == ["run", "run.v2"]


@pytest.mark.process
@pytest.mark.representative
def test_a_killed_writer(tmp_path):
    """SIGKILL in the middle of writing a folder and a file."""
    script = (
        "import os, sys, signal\nfrom counterrank.common.files import atomic_file, atomic_folder\n"
        "with atomic_folder(sys.argv[1] + '/run', 'marker') as a, atomic_file(sys.argv[1] + '/out') as b:\n"
        "    (a / 'marker').write_text('half'); b.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 2
    assert all(name.endswith(".part") for name in os.listdir(tmp_path))
    write_folder(tmp_path / "run", "whole")
    with atomic_file(tmp_path / "out") as temporary:
        temporary.write_text("whole")
    assert sorted(os.listdir(tmp_path)) == ["out", "run"]

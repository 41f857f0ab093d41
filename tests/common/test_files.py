"""Writes of files and folders are atomic."""

import os

import pytest

from counterrank.common import files
from counterrank.common.errors import CounterrankError, MissingFileError
from counterrank.common.files import atomic_file, atomic_folder, existing


def names(path):
    return sorted(entry.name for entry in path.iterdir())


def half_written(path, error):
    path.write_text("half")
    raise error


def test_a_file_appears_at_the_end(tmp_path):
    target = tmp_path / "new" / "deeper" / "file.txt"
    with atomic_file(target) as temporary:
        assert temporary.parent.parent == target.parent  # the same file system
        temporary.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert names(target.parent) == ["file.txt"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "file.txt"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_file(target) as temporary:
        half_written(temporary, KeyboardInterrupt)
    assert target.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_a_failure_without_an_old_file_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), atomic_file(tmp_path / "file.txt"):
        raise ZeroDivisionError
    assert names(tmp_path) == []


def test_the_block_may_remove_its_file(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_file(tmp_path / "file.txt") as temporary:
        temporary.unlink()
    assert names(tmp_path) == []


def test_a_folder_in_the_way_of_a_file(tmp_path):
    with pytest.raises(CounterrankError, match="is a folder, expected a file to write"), atomic_file(tmp_path):
        pass


@pytest.mark.parametrize("write", [atomic_file, lambda path: atomic_folder(path, "marker")], ids=["file", "folder"])
def test_a_file_in_the_way_of_a_parent(tmp_path, write):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(CounterrankError, match="taken is not a folder"), write(tmp_path / "taken" / "new"):
        pass
    with pytest.raises(CounterrankError, match="is not a folder"), write(tmp_path / "taken" / "deeper" / "new"):
        pass
    assert names(tmp_path) == ["taken"]


def test_rights_are_those_of_a_plain_file(tmp_path):
    (tmp_path / "plain").write_text("")
    (tmp_path / "plain folder").mkdir()
    with atomic_file(tmp_path / "file"):
        pass
    with atomic_folder(tmp_path / "folder", "marker"):
        pass
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "folder").stat().st_mode == (tmp_path / "plain folder").stat().st_mode


def write_folder(path, text="new"):
    with atomic_folder(path, "marker") as temporary:
        (temporary / "marker").write_text(text)
        (temporary / text).write_text(text)


def test_a_folder_replaces_its_older_self(tmp_path):
    for text in ("first", "second"):
        write_folder(tmp_path / "deeper" / "folder", text)
    assert names(tmp_path / "deeper" / "folder") == ["marker", "second"]
    assert names(tmp_path / "deeper") == ["folder"]


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "folder").mkdir()
    write_folder(tmp_path / "folder")
    assert names(tmp_path / "folder") == ["marker", "new"]


def test_a_foreign_folder_is_refused_before_any_work(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_text("kept")
    with pytest.raises(CounterrankError, match="folder: exists and is not a folder with a marker; it is left"):
        write_folder(tmp_path / "folder")
    assert names(tmp_path / "folder") == ["mine"]
    assert names(tmp_path) == ["folder"]


def test_a_failing_block_leaves_the_old_folder(tmp_path):
    write_folder(tmp_path / "folder", "old")
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "folder", "marker") as temporary:
        half_written(temporary / "marker", ZeroDivisionError)
    assert names(tmp_path / "folder") == ["marker", "old"]
    assert names(tmp_path) == ["folder"]


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failing_move_leaves_the_old_folder(tmp_path, monkeypatch, failing):
    write_folder(tmp_path / "folder", "old")
    replace, calls = os.replace, []

    def sometimes(source, target):
        calls.append(source)
        if len(calls) == failing + 1:
            raise OSError("device is gone")
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", sometimes)
    with pytest.raises(OSError, match="device is gone"):
        write_folder(tmp_path / "folder", "new")
    assert names(tmp_path / "folder") == ["marker", "old"]
    assert names(tmp_path) == ["folder"]


def test_existing(tmp_path):
    assert existing(str(tmp_path), "data") == tmp_path
    for error in (MissingFileError, FileNotFoundError, ValueError):
        with pytest.raises(error, match="gone: no such ranking data"):
            existing(tmp_path / "gone", "ranking data")

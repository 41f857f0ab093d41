"""A log format of one's own through the registry: recognised, read and counted like those of the library."""

from dataclasses import replace

import pytest

from counterrank.clicks.logs import FORMATS, LogFormat, PlainLog, read_log, register_format
from counterrank.clicks.logs.formats import find_log
from counterrank.common.errors import CounterrankError, DataError
from tests.support.command import run

LINES = "s1\tshoes\ta b* c\ns2\tshoes\tb a\n"


def read_pages(log, local, folder, options):
    """A page a line: session, query and the documents by rank, a star behind those that were clicked."""
    rows = ["session_id,query_id,doc_id,rank,clicked"]
    for line in "".join(file.read_text() for file in log.files).splitlines():
        session, query, docs = line.split("\t")
        for rank, doc in enumerate(docs.split(), options.rank_base):
            rows.append(f"{session},{query},{doc.rstrip('*')},{rank},{int(doc.endswith('*'))}")
    plain = folder / "plain.csv"
    plain.write_text("\n".join(rows) + "\n")
    return PlainLog(replace(log, format="csv", files=(plain,), root=None))


@pytest.fixture
def pages():
    register_format(LogFormat("pages", "a page a line", (".pages",), reader=read_pages))
    yield
    del FORMATS["pages"]


def test_a_registered_format_is_found_by_its_extension_and_counted(tmp_path, pages):
    (tmp_path / "monday.pages").write_text(LINES)
    assert find_log(tmp_path).format == "pages"
    counts = read_log(tmp_path / "monday.pages")
    assert (counts.n_sessions, counts.n_impressions, counts.n_clicks) == (2, 5, 1)
    assert counts.doc_ids.tolist() == ["a", "b", "c"]
    assert counts.ranks[counts.clicks > 0].tolist() == [2]


def test_a_registered_format_is_read_by_its_name(tmp_path, pages):
    (tmp_path / "notes.txt").write_text(LINES)
    assert read_log(tmp_path / "notes.txt", format="pages", rank_base=0).n_impressions == 5
    with pytest.raises(DataError, match=r"no known extension; expected one of .*\.pages, also with \.gz"):
        read_log(tmp_path / "notes.txt")


def test_an_unknown_extension_names_the_argument_or_the_flag(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text(LINES)
    names = ", ".join(FORMATS)
    with pytest.raises(DataError, match=rf"or its format named with format= \({names}\)$"):
        read_log(file)
    result = run("inspect", file)
    assert result.returncode == 2
    assert f"or its format named with --format ({names})" in result.stderr


def test_a_registered_format_is_recognised_by_its_content(tmp_path):
    def read(log, local, folder, options):
        raise DataError("read by content")

    register_format(LogFormat("toy", "toy events", recognise=lambda event: "toy" in event, reader=read))
    try:
        (tmp_path / "log.json").write_text('{"toy": 1}\n')
        assert find_log(tmp_path / "log.json").format == "toy"
        with pytest.raises(DataError, match="read by content"):
            read_log(tmp_path / "log.json")
    finally:
        del FORMATS["toy"]


def test_files_of_two_formats_are_refused(tmp_path, pages):
    (tmp_path / "monday.pages").write_text(LINES)
    (tmp_path / "tuesday.csv").write_text("session_id\n")
    with pytest.raises(DataError, match=r"files of several formats \(csv, pages\)"):
        find_log(tmp_path)


def test_click_actions_belong_to_formats_of_events(tmp_path, pages):
    (tmp_path / "monday.pages").write_text(LINES)
    with pytest.raises(CounterrankError, match="is pages; expected it only with ubi or metarank"):
        read_log(tmp_path / "monday.pages", click_actions=["tap"])


BAD = {
    "a name twice": (LogFormat("csv", ""), "name='csv': expected a name that is not among parquet, csv, jsonl"),
    "auto": (LogFormat("auto", ""), "name='auto': expected a name"),
    "an extension twice": (LogFormat("new", "", (".tsv",)), "extensions: '.tsv'; expected such as '.log'"),
    "no extension": (LogFormat("new", "", ("log",)), "extensions: 'log'; expected such as '.log'"),
    "compressed": (LogFormat("new", "", (".gz",)), "extensions: '.gz'; expected such as '.log'"),
}


@pytest.mark.parametrize(("format", "message"), BAD.values(), ids=BAD)
def test_formats_that_cannot_be_registered(format, message):
    with pytest.raises(CounterrankError, match=message):
        register_format(format)
    assert "new" not in FORMATS


def test_every_format_has_a_description():
    assert all(each.description and each.name == name for name, each in FORMATS.items())
    assert {"parquet", "csv", "jsonl", "ubi", "metarank"} <= set(FORMATS)


def test_what_goes_wrong_in_a_registered_reader_is_one_error(tmp_path):
    def read(log, local, folder, options):
        return int(log.files[0].read_text())

    register_format(LogFormat("broken", "a broken format", (".broken",), reader=read))
    try:
        (tmp_path / "log.broken").write_text("no number")
        with pytest.raises(DataError, match=r"log\.broken: cannot be read as broken \(ValueError: invalid literal"):
            read_log(tmp_path / "log.broken")
    finally:
        del FORMATS["broken"]

"""LETOR files that cannot be read, and what the reader says about them."""

import contextlib
import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.common.errors import LetorError, MissingFileError
from counterrank.data import letor

GOOD = b"1 qid:1 1:0.5\n"


def read(tmp_path, text, **options):
    path = tmp_path / "data.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return cr.read_letor(path, **options)


LABEL = "expected a number that fits float32"
QUERY = "expected 'qid:' and an id after the label"
IDS = "expected UTF-8 text without control characters"
FEATURE = "expected a whole number from 1 to 1000000"
ONCE = "expected each feature once per line"
LINES = "expected lines like '2 qid:10 1:0.5 2:3 #docid = 7'"
VALUE = "expected a finite decimal number"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"abc qid:1 1:2", f"line 1: bad label 'abc'; {LABEL}"),
        (GOOD + b"1x qid:1 1:2", f"line 2: bad label '1x'; {LABEL}"),
        (b"nan qid:1 1:2", f"line 1: bad label 'nan'; {LABEL}"),
        (b"1e39 qid:1 1:2", f"line 1: bad label '1e39'; {LABEL}"),
        (b"qid:1 1:2", f"line 1: bad label 'qid:1'; {LABEL}"),
        (GOOD + b"1 1:0.5\n", f"line 2: '1:0.5' stands where the query should; {QUERY}"),
        (b"1 1:0.5 qid:1\n", f"line 1: '1:0.5' stands where the query should; {QUERY}"),
        (b"1 qid: 1:0.5\n", f"line 1: 'qid:' stands where the query should; {QUERY}"),
        (b"1\n", f"line 1: nothing stands where the query should; {QUERY}"),
        (b"1 qid:a\xff 1:1\n", rf"line 1: bad query id 'a\xff'; {IDS}"),
        (b"1 qid:a\0 1:1\n", rf"line 1: bad query id 'a\x00'; {IDS}"),
        (b"1 qid:\xed\xa0\x80 1:1\n", rf"line 1: bad query id '\xed\xa0\x80'; {IDS}"),
        (b"1 qid:\xc3 1:1\n", rf"line 1: bad query id '\xc3'; {IDS}"),
        (b"1 qid:1 1:1 #docid = \x80\n", rf"line 1: bad document id '\x80'; {IDS}"),
        (GOOD + b"\n# c\n1 qid:1 0:0.5\n", f"line 4: bad feature id in '0:0.5'; {FEATURE}"),
        (b"1 qid:1 -3:1\n", f"line 1: bad feature id in '-3:1'; {FEATURE}"),
        (b"1 qid:1 a:1\n", f"line 1: bad feature id in 'a:1'; {FEATURE}"),
        (b"1 qid:1 :1\n", f"line 1: bad feature id in ':1'; {FEATURE}"),
        (b"1 qid:1 1.5:1\n", f"line 1: bad feature id in '1.5:1'; {FEATURE}"),
        (b"1 qid:1 1000001:1\n", f"line 1: bad feature id in '1000001:1'; {FEATURE}"),
        (b"1 qid:1 9999999999999999999:1\n", f"line 1: bad feature id in '9999999999999999999:1'; {FEATURE}"),
        (b"1 qid:1 1:1 foo\n", "line 1: 'foo' is not a feature; expected 'id:value'"),
        (b"1 qid:1 1:1 7\n", "line 1: '7' is not a feature; expected 'id:value'"),
        (b"1 qid:1 1: 2:1\n", f"line 1: bad value in '1:'; {VALUE}"),
        (b"1 qid:1 1:", f"line 1: bad value in '1:'; {VALUE}"),
        (b"1 qid:1 1:nan\n", f"line 1: bad value in '1:nan'; {VALUE}"),
        (b"1 qid:1 1:1 2:-inf\n", f"line 1: bad value in '2:-inf'; {VALUE}"),
        (b"1 qid:1 1:1,5\n", f"line 1: bad value in '1:1,5'; {VALUE}"),
        (b"1 qid:1 1:2:3\n", f"line 1: bad value in '1:2:3'; {VALUE}"),
        (b"1 qid:1 1:" + b"x" * 999, f"line 1: bad value in '1:{'x' * 35}...'; {VALUE}"),
        (b"1 qid:1 1:2 1:3\n", f"line 1: '1:3' gives its feature a second time; {ONCE}"),
        (b"1 qid:1 9:1 3:1 9:2\n", f"line 1: '9:2' gives its feature a second time; {ONCE}"),
        (b"1 qid:1 9:1 9:2 3:1\n", f"line 1: '9:2' gives its feature a second time; {ONCE}"),
        (b"\x00\x01\xff\xfe\x80", rf"line 1: bad label '\x00\x01\xff\xfe\x80'; {LABEL}"),
        (b"", f"line 1: the file is empty; {LINES}"),
        (b"# a\n\n", f"line 3: no document up to here; {LINES}"),
        (gzip.compress(b"", mtime=0), f"line 1: the file is empty; {LINES}"),
        (b"1 qid:1\n", "no line has a feature; give n_features= for a matrix of zeros"),
        (
            b"1 qid:1 1:1 #docid = a\n1 qid:2 1:1 #docid = a\n\n2 qid:1 1:1 #docid = a\n",
            "line 4: document 'a' of query '1' is named again, after line 1; "
            "expected each document once per query",
        ),
        (b"\x1f\x8b", "line 1: gzip data ends early here; expected a whole file; fetch or pack it again"),
    ],
)  # fmt: skip
def test_bad_files(tmp_path, text, message):
    with pytest.raises(LetorError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == f"{tmp_path / 'data.txt'}: {message}"


def test_truncated_gzip(tmp_path):
    lines = b"".join(b"1 qid:1 1:%d\n" % i for i in range(20000))
    with pytest.raises(LetorError, match=r"data\.txt: line \d\d+: gzip data ends early behind '.+'; expected"):
        read(tmp_path, gzip.compress(lines)[:-3000])
    with pytest.raises(LetorError, match=r"line \d+: gzip data is damaged \(.*incorrect data check\)"):
        read(tmp_path, gzip.compress(lines)[:-8] + b"\1" * 8)
    with pytest.raises(LetorError, match=r"line \d+: gzip data is damaged"):
        read(tmp_path, gzip.compress(lines) + b"rubbish")


@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_bad_line_is_reported(tmp_path, monkeypatch, threads):
    monkeypatch.setattr(letor, "_PIECE", 64)
    lines = [b"1 qid:1 1:0.5"] * 400
    lines[120] = b"1 qid:1 7:1 900:1 7:2 1:1"  # its fault shows only once the matrix is widened
    lines[121] = b"1 qid:1 0:1"
    lines[350] = b"junk"
    with pytest.raises(LetorError, match="line 121: '7:2' gives its feature a second time"):
        read(tmp_path, b"\n".join(lines), threads=threads)


def test_a_matrix_too_large_for_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(letor, "_physical_memory", lambda: 1000.0)
    wide = b"1 qid:1 1:1 1000000:1\n"
    message = "2 documents with feature ids up to 1000000 need 0 GB as a matrix, more than there is"
    with pytest.raises(LetorError, match=message):
        read(tmp_path, GOOD + wide)
    with pytest.raises(LetorError, match="line 2: bad label 'junk'"):
        read(tmp_path, GOOD + b"junk\n" + wide)


def test_missing_and_unfit_paths(tmp_path):
    with pytest.raises(MissingFileError, match="no such LETOR file"):
        cr.read_letor(tmp_path / "absent.txt")
    with pytest.raises(FileNotFoundError):
        cr.read_letor(tmp_path / "absent.txt")
    with pytest.raises(LetorError, match="is a folder; expected a LETOR file"):
        cr.read_letor(tmp_path)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80))
def test_junk_never_does_worse_than_an_error(tmp_path_factory, junk):
    path = tmp_path_factory.getbasetemp() / "junk.txt"
    path.write_bytes(GOOD + junk)
    with contextlib.suppress(LetorError):
        cr.read_letor(path)

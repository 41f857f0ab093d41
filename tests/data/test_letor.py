import gzip
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank.common.errors import CounterrankError
from counterrank.data import letor
from tests.reference import letor as naive_letor
from tests.support.paths import SHARED

FILES = sorted(SHARED.glob("**/*.txt.gz"))
GOOD = b"1 qid:1 1:0.5\n"


def read(tmp_path, text, **options):
    path = tmp_path / "data.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return cr.read_letor(path, **options)


def assert_same(data, expected):
    for name, values in expected.items():
        found = getattr(data, name)
        assert found.dtype.kind == values.dtype.kind, name
        np.testing.assert_array_equal(found, values, err_msg=name)


# --- what files may look like


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 qid:1 1:2", [[2]]),
        ("1 qid:1 1:2\n", [[2]]),
        ("1 qid:1 1:2\r\n0 qid:1 1:3\r\n", [[2], [3]]),
        ("\n\n1 qid:1 1:2\n\n  \t\n0 qid:1 1:3\n\n", [[2], [3]]),
        ("# all about it\n1 qid:1 1:2 # 9:9\n#0 qid:1 1:3", [[2]]),
        ("1\tqid:1\t\t1:2\t2:3\t\n", [[2, 3]]),
        ("  1   qid:1  1:2  ", [[2]]),
        ("1 qid:1 2:1.5e-2 3:+4 4:-2E1", [[0, 0.015, 4, -20]]),
        ("1 qid:1 3:3 1:1\n0 qid:1 2:2", [[1, 0, 3], [0, 2, 0]]),
        ("1 qid:1 5:3 1:1\n0 qid:1 2:2 6:1 3:7", [[1, 0, 0, 0, 3, 0], [0, 2, 7, 0, 0, 1]]),
        ("1 qid:1\n0 qid:1 2:2", [[0, 0], [0, 2]]),
        ("1 qid:1 01:2", [[2]]),
        ("\ufeff1 qid:1 1:2", [[2]]),
        ("1 qid:1 1:2#9:9", [[2]]),
    ],
)  # fmt: skip
def test_spellings(tmp_path, text, expected):
    np.testing.assert_array_equal(read(tmp_path, text).features, np.array(expected, dtype=np.float32))


def test_labels_may_be_real_and_negative(tmp_path):
    data = read(tmp_path, "-1.5 qid:1 1:1\n+2 qid:1 1:1\n1e-1 qid:2 1:1\n")
    assert data.labels.tolist() == [-1.5, 2.0, np.float32(0.1)]


def test_queries_that_stand_apart(tmp_path):
    data = read(tmp_path, "0 qid:b 1:1\n0 qid:a 1:2\n1 qid:b 1:3\n2 qid:c 1:4\n1 qid:a 1:5\n")
    assert data.query_ids.tolist() == ["b", "a", "c"]
    assert data.offsets.tolist() == [0, 2, 4, 5]
    assert data.features.ravel().tolist() == [1, 3, 2, 5, 4]
    assert data.labels.tolist() == [0, 1, 0, 1, 2]
    assert data.doc_ids.tolist() == [0, 1, 0, 1, 0]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["3", "-1", "0"], [3, -1, 0]),
        (["9223372036854775807"], [9223372036854775807]),
        (["9223372036854775808"], ["9223372036854775808"]),
        (["1", "01"], ["1", "01"]),
        (["1", "x"], ["1", "x"]),
        (["-0"], ["-0"]),
        (["+1"], ["+1"]),
        (["1:2"], ["1:2"]),
        (["größe", "日本語", "😀"], ["größe", "日本語", "😀"]),
    ],
)
def test_ids(tmp_path, ids, expected):
    data = read(tmp_path, "".join(f"1 qid:{name} 1:1 #docid = {name}\n" for name in ids))
    assert data.query_ids.tolist() == expected
    assert data.doc_ids.tolist() == expected


@pytest.mark.parametrize("comment", ["#docid = D7 inc = 1", "# docid = D7", "#docid=D7", "#\tdocid\t=\tD7\r"])
def test_document_names(tmp_path, comment):
    assert read(tmp_path, f"1 qid:1 1:1 {comment}\n").doc_ids.tolist() == ["D7"]


@pytest.mark.parametrize("comment", ["#", "#doc = 7", "#docid", "#docid =", "# the docid = 7", "#docid 7"])
def test_comments_that_name_no_document(tmp_path, comment):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(tmp_path, f"1 qid:1 1:1 {comment}\n1 qid:1 1:1 {comment}").doc_ids.tolist() == [0, 1]


def test_documents_named_on_some_lines_only(tmp_path):
    with pytest.warns(UserWarning, match=r"data\.txt: line 3 has no '#docid = X' as others have") as caught:
        data = read(tmp_path, "1 qid:1 1:1 #docid = 7\n\n0 qid:1 1:2\n0 qid:1 1:2\n")
    assert data.doc_ids.tolist() == [0, 1, 2]
    assert Path(caught[0].filename) == Path(__file__)  # it points at the caller


def test_n_features(tmp_path):
    text = "1 qid:1 1:1 2:5\n"
    assert read(tmp_path, text, n_features=4).features.tolist() == [[1, 5, 0, 0]]
    assert read(tmp_path, text, n_features=1).features.tolist() == [[1, 5]]
    assert read(tmp_path, "1 qid:1\n", n_features=2).features.tolist() == [[0, 0]]
    for bad in (0, -1, 1.5, True, "3", 10**7):
        with pytest.raises(CounterrankError, match="n_features="):
            read(tmp_path, text, n_features=bad)


def test_result_is_frozen(tmp_path):
    data = read(tmp_path, GOOD)
    for array in (data.features, data.labels, data.offsets, data.query_ids, data.doc_ids):
        assert not array.flags.writeable
    assert data.features.dtype == np.float32
    assert data.features.flags.c_contiguous


@pytest.mark.parametrize("size", [4095, 4096, 4097, 8192])
def test_files_that_end_with_a_page(tmp_path, size):
    """The kernel looks at eight bytes at a time and must not look behind the last page."""
    text = GOOD + b"0 qid:1 1:" + b"1" * 5
    text = b"#" * (size - len(text) - 1) + b"\n" + text
    assert len(text) == size
    assert read(tmp_path, text).features.tolist() == [[0.5], [11111]]


# --- gzip


def test_gzip_is_known_by_its_bytes(tmp_path):
    assert read(tmp_path, gzip.compress(GOOD)).n_docs == 1  # named .txt
    path = tmp_path / "plain.txt.gz"
    path.write_bytes(GOOD)
    assert cr.read_letor(path).n_docs == 1


def test_gzip_of_several_members_and_padding(tmp_path):
    packed = gzip.compress(GOOD * 3) + gzip.compress(b"") + gzip.compress(GOOD) + b"\0" * 100
    assert read(tmp_path, packed).n_docs == 4


def test_gzip_that_unpacks_to_many_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("counterrank.data.letor._BLOCK", 100)
    monkeypatch.setattr("counterrank.data.letor._MOST", 64)
    assert read(tmp_path, gzip.compress(GOOD * 5000)).n_docs == 5000


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_reads_from_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen([sys.executable, "-c", f"open({str(tmp_path / 'pipe')!r}, 'wb').write({GOOD!r})"])
    assert cr.read_letor(tmp_path / "pipe").n_docs == 1
    assert writer.wait() == 0


# --- random files in many spellings


BLANKS = st.sampled_from([" ", "  ", "\t", " \t "])
VALUES = st.one_of(
    st.integers(-1000, 1000).map(str),
    st.floats(-1e6, 1e6, width=32).map(lambda x: f"{x:.6f}"),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    st.floats(-1e30, 1e30).map(lambda x: f"{x:+.3E}"),
)
QUERY_IDS = st.one_of(
    st.integers(-3, 3).map(str),
    st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="#"), min_size=1, max_size=5),
)


@st.composite
def letor_text(draw):
    query_ids = draw(st.lists(QUERY_IDS, min_size=1, max_size=4))
    named = draw(st.booleans())
    line_end = draw(st.sampled_from(["\n", "\r\n", "\n\n", " \n", "\n# nothing here\n"]))
    lines = []
    for i in range(draw(st.integers(1, 12))):
        ids = draw(st.lists(st.integers(1, 12), unique=True, max_size=8))
        ids = ids if draw(st.booleans()) else sorted(ids)
        tokens = [draw(VALUES), "qid:" + draw(st.sampled_from(query_ids))]
        tokens += [f"{feature}:{draw(VALUES)}" for feature in ids]
        line = draw(st.sampled_from(["", " "])) + "".join(token + draw(BLANKS) for token in tokens).rstrip()
        lines.append(line + (f" #docid = {'D' * (i % 2)}{i} x" if named else ""))
    lines.append("0 qid:last 3:1" + (" #docid = last" if named else ""))
    return line_end.join(lines) + draw(st.sampled_from(["", "\n"]))


@settings(max_examples=300, deadline=None)
@given(text=letor_text(), piece=st.sampled_from([1, 30, 10**6]), threads=st.integers(1, 3), packed=st.booleans())
def test_random_files(tmp_path_factory, text, piece, threads, packed):
    path = tmp_path_factory.getbasetemp() / "random.txt"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor, "_PIECE", piece)
        assert_same(cr.read_letor(path, threads=threads), naive_letor.read_letor(text))


# --- real files


@pytest.mark.skipif(not FILES, reason="the folder shared/data next to the repository is not there")
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SHARED)))
def test_agrees_with_scikit_learn(path):
    load = pytest.importorskip("sklearn.datasets").load_svmlight_file
    features, labels, queries = load(str(path), query_id=True, zero_based=False)
    data = cr.read_letor(path)
    np.testing.assert_array_equal(data.features, features.toarray().astype(np.float32))
    np.testing.assert_array_equal(data.labels, labels.astype(np.float32))
    np.testing.assert_array_equal(np.repeat(data.query_ids, data.lengths), queries)


@pytest.mark.skipif(not FILES, reason="the folder shared/data next to the repository is not there")
def test_threads_and_reference_agree_on_a_real_file(monkeypatch):
    path = SHARED / "mq2008" / "Fold1" / "vali.txt.gz"
    one = cr.read_letor(path, threads=1)
    monkeypatch.setattr(letor, "_PIECE", 10_000)
    assert cr.read_letor(path, threads=4).equals(one)
    assert_same(one, naive_letor.read_letor(gzip.decompress(path.read_bytes()).decode()))


@pytest.mark.parametrize("text", ["1e39", "-1e39", "1.79769313486232E+308", "1e400"])
def test_values_beyond_float32_become_the_largest_with_a_warning(tmp_path, text):
    with pytest.warns(UserWarning, match="2 values are too large for float32 .* the first in line 2"):
        data = read(tmp_path, f"1 qid:1 1:1\n0 qid:1 1:{text}\n0 qid:1 1:{text}\n")
    largest = np.finfo(np.float32).max
    assert data.features[1:, 0].tolist() == [-largest if text.startswith("-") else largest] * 2


MEMORY = """
import re, sys
import counterrank as cr

def peak():  # not ru_maxrss, which a process inherits from the one that starts it
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])

small, large = sys.argv[1:]
cr.read_letor(small)  # imports and compiled kernels do not count
before = peak()
data = cr.read_letor(large, threads=2)
print(peak() - before, data.features.nbytes)
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is measured as Linux counts it")
@pytest.mark.parametrize("ending", [".txt", ".txt.gz"])
def test_peak_memory_is_near_text_and_matrix(tmp_path, ending):
    line = " ".join(f"{i}:{i / 7:.6f}" for i in range(1, 137))
    text = "".join(f"{i % 5} qid:{i // 100} {line}\n" for i in range(40_000)).encode()
    small, large = tmp_path / f"small{ending}", tmp_path / f"large{ending}"
    pack = gzip.compress if ending.endswith("gz") else bytes
    small.write_bytes(pack(text[: text.index(b"\n") + 1]))
    large.write_bytes(pack(text))
    command = [sys.executable, "-c", MEMORY, str(small), str(large)]
    peak, matrix = map(int, subprocess.run(command, check=True, capture_output=True).stdout.split())
    assert peak < 1.6 * (len(text) + matrix)

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.common.errors import CounterrankError, DataError, MissingFileError
from counterrank.data import parquet


def make(n_queries=7, labels=True, strings=False, seed=0):
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 9, n_queries)
    offsets = np.cumsum([0, *lengths])
    n_docs = int(offsets[-1])
    ids = [f"q{i}ß" for i in range(n_queries)] if strings else generator.permutation(n_queries) - 3
    documents = [f"d{i}" for i in range(n_docs)] if strings else generator.permutation(n_docs)
    return cr.RankingData(
        generator.normal(size=(n_docs, 5)),
        offsets,
        generator.integers(0, 5, n_docs) if labels else None,
        ids,
        documents,
    )


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("strings", [True, False])
@pytest.mark.parametrize("group_bytes", [1, 100, 8 << 20])
def test_round_trip(tmp_path, monkeypatch, labels, strings, group_bytes):
    monkeypatch.setattr(parquet, "_GROUP_BYTES", group_bytes)
    data = make(labels=labels, strings=strings)
    data.save(tmp_path / "data.parquet")
    assert cr.RankingData.load(tmp_path / "data.parquet").equals(data)


def test_columns(tmp_path):
    make().save(tmp_path / "data.parquet")
    schema = pq.read_schema(tmp_path / "data.parquet")
    assert schema.names == ["query_id", "doc_id", "label", "features"]
    assert pa.types.is_fixed_size_list(schema.field("features").type)
    assert schema.field("features").type.list_size == 5
    assert schema.field("features").type.value_type == pa.float32()


TABLE = {
    "query_id": pa.array([1, 1, 2]),
    "doc_id": pa.array([0, 1, 0]),
    "label": pa.array([0.0, 1.0, 2.0]),
    "features": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
}


def write(tmp_path, **changes):
    columns = {name: column for name, column in (TABLE | changes).items() if column is not None}
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"features": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2))},
        {"features": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float64(), 2))},
        {"features": pa.array([[1, 2], [3, 4], [5, 6]], pa.large_list(pa.float32()))},
        {"label": pa.array([0, 1, 2])},
        {"query_id": pa.array([1, 1, 2], pa.uint8())},
        {"query_id": pa.array([1, 1, 2]).dictionary_encode()},
        {"extra": pa.array([None, None, None])},
    ],
)
@pytest.mark.parametrize("group_bytes", [1, 8 << 20])
def test_spellings(tmp_path, monkeypatch, changes, group_bytes):
    monkeypatch.setattr(parquet, "_GROUP_BYTES", group_bytes)
    data = cr.RankingData.load(write(tmp_path, **changes))
    assert data.equals(cr.RankingData([[1, 2], [3, 4], [5, 6]], [0, 2, 3], [0, 1, 2], [1, 2], [0, 1, 0]))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_string_ids(tmp_path, kind):
    data = cr.RankingData.load(write(tmp_path, query_id=pa.array(["b", "b", "a"], pa.string()).cast(kind)))
    assert data.query_ids.tolist() == ["b", "a"]


def test_queries_that_stand_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_GROUP_BYTES", 1)
    data = cr.RankingData.load(write(tmp_path, query_id=pa.array([5, 4, 5]), doc_id=pa.array([0, 1, 2])))
    assert data.query_ids.tolist() == [5, 4]
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.doc_ids.tolist() == [0, 2, 1]
    assert data.labels.tolist() == [0, 2, 1]
    assert data.features.tolist() == [[1, 2], [5, 6], [3, 4]]


BIG = 2**63


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"doc_id": None},
            "no column 'doc_id' among query_id, label, features; expected one, of whole numbers or strings",
        ),
        ({"query_id": pa.array([1.0, 1.0, 2.0])}, "column 'query_id' is double; expected whole numbers or strings"),
        ({"label": pa.array(["a", "b", "c"])}, "column 'label' is string; expected numbers"),
        ({"features": pa.array([1.0, 2.0, 3.0])}, "column 'features' is double; expected lists of float32 or float64"),
        (
            {"features": pa.array([["a"], ["b"], ["c"]])},
            "column 'features' is list<element: string>; expected lists of float32 or float64",
        ),
        ({"query_id": pa.array([1, None, 2])}, "column 'query_id' is null in row 1; expected a value"),
        ({"doc_id": pa.array(["a", "b", None])}, "column 'doc_id' is null in row 2; expected a value"),
        ({"label": pa.array([1.0, 2.0, None])}, "column 'label' is null in row 2; expected a value"),
        ({"features": pa.array([[1.0], [2.0], None])}, "column 'features' is null in row 2; expected a value"),
        (
            {"features": pa.array([[1.0, 2.0], [2.0], [3.0, 4.0]])},
            "column 'features' has 1 entries in row 1; expected 2, as in row 0",
        ),
        (
            {"features": pa.array([[], [], []], pa.list_(pa.float32()))},
            "column 'features' has 0 entries in row 0; expected at least one",
        ),
        (
            {"features": pa.array([[1.0], [np.inf], [2.0]])},
            "column 'features' holds inf in row 1 (feature 0); expected finite float32 numbers",
        ),
        (
            {"features": pa.array([[1.0], [1e39], [2.0]])},
            "column 'features' holds inf in row 1 (feature 0); expected finite float32 numbers",
        ),
        ({"label": pa.array([0.0, np.nan, 1.0])}, "column 'label' is nan in row 1; expected a finite float32 number"),
        ({"label": pa.array([0, 1, 1e39])}, "column 'label' is inf in row 2; expected a finite float32 number"),
        (
            {"doc_id": pa.array([3, 3, 3])},
            "column 'doc_id' is 3 twice in query 1 (rows 0 and 1); expected each document once per query",
        ),
        (
            {"query_id": pa.array([1, 2, 1]), "doc_id": pa.array([3, 3, 3])},
            "column 'doc_id' is 3 twice in query 1 (rows 0 and 2); expected each document once per query",
        ),
        ({"query_id": pa.array([1, 1, BIG], pa.uint64())}, f"column 'query_id' is {BIG} in row 2; expected an int64"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("group_bytes", [1, 8 << 20])
def test_bad_files(tmp_path, monkeypatch, changes, message, group_bytes):
    monkeypatch.setattr(parquet, "_GROUP_BYTES", group_bytes)
    path = write(tmp_path, **changes)
    with pytest.raises(DataError) as caught:
        cr.RankingData.load(path)
    assert str(caught.value) == f"{path}: {message}"


def test_files_that_are_not_there_or_not_parquet(tmp_path):
    with pytest.raises(MissingFileError, match="no such Parquet file"):
        cr.RankingData.load(tmp_path / "absent")
    with pytest.raises(DataError, match="is a folder; expected one Parquet file"):
        cr.RankingData.load(tmp_path)
    path = tmp_path / "junk.parquet"
    for junk in (b"", b"junk" * 100):
        path.write_bytes(junk)
        with pytest.raises(DataError, match="not a Parquet file that can be read"):
            cr.RankingData.load(path)
    whole = write(tmp_path).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="not a Parquet file that can be read"):
        cr.RankingData.load(path)
    pq.write_table(pa.table(TABLE).slice(0, 0), path)
    with pytest.raises(DataError, match="no rows; expected at least one document"):
        cr.RankingData.load(path)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "data.parquet"
    make(seed=1).save(path)
    monkeypatch.setattr(parquet, "_batch", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        make(seed=2).save(path)
    assert [found.name for found in tmp_path.iterdir()] == ["data.parquet"]
    assert cr.RankingData.load(path).equals(make(seed=1))
    with pytest.raises(CounterrankError, match="is a folder"):
        make().save(tmp_path)


MEMORY = """
import json, re, sys
import numpy as np
import counterrank as cr

def peak():  # not ru_maxrss, which a process inherits from the one that starts it
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])

path, step = sys.argv[1:]
small = cr.RankingData(np.ones((10, 128), np.float32), [0, 10])
small.save(path + ".small"), cr.RankingData.load(path + ".small")  # imports and compiled kernels do not count
before = peak()
if step == "save":
    n = 400_000
    features = np.ones((n, 128), np.float32)
    features += np.arange(n, dtype=np.float32)[:, None]
    before += features.nbytes
    features.flags.writeable = False  # spares the copy
    cr.RankingData(features, np.arange(0, n + 1, 100)).save(path)
    size = features.nbytes
else:
    data = cr.RankingData.load(path)
    size = data.features.nbytes
    before += size
print(json.dumps((peak() - before) / size))
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is measured as Linux counts it")
def test_peak_memory_is_near_the_size_of_the_matrix(tmp_path):
    beyond = {}
    for step in ("save", "load"):
        command = [sys.executable, "-c", MEMORY, str(tmp_path / "data.parquet"), step]
        beyond[step] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    # as a share of the matrix (205 MB); reading it whole first would give at least 1
    assert beyond["save"] < 0.5
    assert beyond["load"] < 0.5

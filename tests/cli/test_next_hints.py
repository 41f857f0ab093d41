"""The command that is suggested as the next one works as it stands, whatever is in the names of files."""

from __future__ import annotations

import shlex

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from tests.support import log_files
from tests.support.command import invoke

DATA = "synthetic:yahoo:queries=40,seed=0"
NAMES = ('it\'s a "log" & more', "$HOME `ls` (1)")


def next_of(stderr):
    """The words of the suggested command, as a shell reads them."""
    line = next(line for line in stderr.splitlines() if "Next: " in line)
    words = shlex.split(line.partition("Next: ")[2])
    assert words[0] == "counterrank"
    return words[1:]


@pytest.fixture(scope="module")
def logger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a logger")
    invoke("train", DATA, "--max-epochs", 1, "--out", folder / "it is; a ranker", "--relevance-threshold", 1)
    return folder / "it is; a ranker"


@pytest.mark.parametrize("name", NAMES)
def test_each_suggestion_runs_as_it_stands(tmp_path, logger, name):
    folder = tmp_path / name
    folder.mkdir()
    common = ("--logger", logger, "--policy", "replace-last:k=5", "--n-sessions", 3000, "--relevance-threshold", 1)
    done = invoke("simulate", DATA, *common, "--out", folder / "clicks")
    words = next_of(done.stderr)
    assert words[:4] == ["train", DATA, "--clicks", str(folder / "clicks")]
    words[words.index("--out") + 1] = str(folder / "from clicks")
    done = invoke(*words, "--max-epochs", 1)
    words = next_of(done.stderr)
    assert words[:5] == ["estimate", str(folder / "from clicks"), DATA, "--clicks", str(folder / "clicks")]
    invoke(*words)
    done = invoke("simulate", DATA, *common, "--out", folder / "logs", "--as-log")
    words = next_of(done.stderr)
    assert words[2:4] == ["--log", str(folder / "logs")] or words[:2] == ["inspect", str(folder / "logs")]
    done = invoke("aggregate", folder / "logs", "--data", DATA, "--out", folder / "counts")
    words = next_of(done.stderr)
    assert words == ["inspect", str(folder / "counts"), "--data", DATA]
    invoke(*words)
    done = invoke("train", DATA, "--max-epochs", 1, "--out", folder / "labels", "--relevance-threshold", 1)
    words = next_of(done.stderr)
    assert words[:2] == ["evaluate", str(folder / "labels")]
    invoke(*words)


def test_options_of_reading_are_repeated(tmp_path, logger):
    """Names of columns with blanks, ranks from 0, and rows that are no whole pages."""
    exam = "inverse-rank:eta=1"
    invoke("simulate", DATA, "--logger", logger, "--policy", "replace-last:k=5", "--n-sessions", 3000,
           "--relevance-threshold", 1, "--as-log", "--out", tmp_path / "logs")  # fmt: skip
    for file in (tmp_path / "logs").glob("*.parquet"):
        table = pq.read_table(file)
        place = table.column_names.index("rank")
        ranks = pa.array(table["rank"].to_numpy() - 1)
        pq.write_table(table.set_column(place, "the place", ranks), file)
    words = ("--map", "rank=the place", "--rank-base", 0, "--skip-page-checks", "--on-error", "skip")
    done = invoke("train", DATA, "--log", tmp_path / "logs", "--examination", exam, *words, "--estimator",
                  "policy-oblivious", "--max-epochs", 1, "--out", tmp_path / "ranker")  # fmt: skip
    again = next_of(done.stderr)
    for word in map(str, words):
        assert word in again
    invoke(*again)


def test_a_curve_and_where_it_is(tmp_path):
    rows = [
        (s, "q", d, r + 1, int(s % (r + 2) == 0)) for s in range(300) for r, d in enumerate("ab" if s % 2 else "ba")
    ]
    log_files.write(tmp_path / "log.parquet", log_files.as_rows(rows))
    done = invoke("inspect", tmp_path / "log.parquet", "--examination-out", tmp_path / "a curve.json")
    words = shlex.split(done.stderr.rpartition("Use it with ")[2].rstrip().removesuffix("."))
    assert words == ["--examination", str(tmp_path / "a curve.json")]
    assert cr.examination.load(words[1]).k == 2

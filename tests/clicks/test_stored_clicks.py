"""The clicks of the parts of a fold, in folders of click counts and in logs."""

import numpy as np
import pytest

import counterrank as cr
from counterrank import policies, simulation
from counterrank.clicks import StoredClicks
from counterrank.clicks.logs import LogOptions
from counterrank.clicks.stored_clicks import counts_folder
from counterrank.common.errors import CounterrankError

FOLD = cr.make_fold("yahoo", 60, seed=0)
PARTS = {"train": FOLD.train, "validation": FOLD.validation}
LOG = "query_id,doc_id,rank,clicked,session_id\n"


def clicks_of(data, seed, **more):
    scores = data.features[:, 0].astype(float)
    return simulation.simulate(data, scores, policies.ReplaceLast(5), [1, 0.5, 0.3], sessions=500, seed=seed, **more)


TRAIN, VALIDATION = clicks_of(FOLD.train, 1), clicks_of(FOLD.validation, 2)


def test_folders_of_counts_are_added_up(tmp_path):
    TRAIN.save(tmp_path / "first" / "train")
    VALIDATION.save(tmp_path / "first" / "validation")
    clicks_of(FOLD.train, 3).save(tmp_path / "second" / "train")
    stored = StoredClicks([tmp_path / "first", tmp_path / "second"])
    assert stored.load("train", PARTS).n_sessions == 1000
    assert stored.load("validation", PARTS).n_clicks == VALIDATION.n_clicks
    assert not stored.is_single
    with pytest.raises(CounterrankError, match=r"no clicks of the test part in it; it has those of train, validation "):
        stored.load("test", PARTS | {"test": FOLD.test})


def test_counts_of_one_data_set(tmp_path):
    TRAIN.save(tmp_path / "clicks")
    stored = StoredClicks([tmp_path / "clicks"])
    assert stored.is_single
    assert stored.counts("train").n_sessions == 500
    assert counts_folder(tmp_path / "clicks", "test") == tmp_path / "clicks"
    with pytest.raises(CounterrankError, match=r"align=True where the data has grown\): counted against other data"):
        stored.load("validation", PARTS)


def test_counts_of_data_that_grew(tmp_path):
    queries = np.arange(FOLD.train.n_queries - 5)
    small = FOLD.train.subset(queries)
    clicks_of(small, 1).save(tmp_path / "clicks")
    stored = StoredClicks([tmp_path / "clicks"], align=True)
    found = stored.load("train", PARTS)
    assert found.n_docs == FOLD.train.n_docs
    assert stored.aligned == [tmp_path / "clicks"]


def write_log(file, data, sessions=3):
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        f"{data.query_ids[q]},{data.doc_ids[data.offsets[q]]},1,{s % 2},{data.query_ids[q]}-{s}"
        for q in range(data.n_queries)
        for s in range(sessions)
    ]
    file.write_text(LOG + "\n".join(rows) + "\n")


def test_a_log_of_all_parts_is_read_once(tmp_path):
    write_log(tmp_path / "log.csv", FOLD.train)
    stored = StoredClicks(log=str(tmp_path / "log.csv"), options=LogOptions(memory="1GB"))
    assert stored.load("train", PARTS).n_sessions == 3 * FOLD.train.n_queries
    assert stored.find("validation", PARTS) is None
    assert len(stored.reports) == 1


def test_a_file_for_each_part(tmp_path):
    write_log(tmp_path / "logs" / "train.csv", FOLD.train)
    stored = StoredClicks(log=str(tmp_path / "logs"), options=LogOptions(memory="1GB"))
    assert stored.load("train", PARTS).n_sessions == 3 * FOLD.train.n_queries
    assert stored.find("validation", PARTS) is None
    assert stored.file_of("train") == str(tmp_path / "logs" / "train.csv")
    write_log(tmp_path / "logs" / "more.csv", FOLD.train)
    with pytest.raises(CounterrankError, match=r"more\.csv: next to files of train, validation or test"):
        StoredClicks(log=str(tmp_path / "logs")).find("validation", PARTS)
    write_log(tmp_path / "logs" / "train.b.csv", FOLD.train)
    with pytest.raises(CounterrankError, match=r"train\.b\.csv and train\.csv both name the train part"):
        stored.file_of("train")


def test_bad_input(tmp_path):
    TRAIN.save(tmp_path / "clicks")
    with pytest.raises(CounterrankError, match="clicks, log: expected one of the two"):
        StoredClicks().find("train", PARTS)
    with pytest.raises(CounterrankError, match="align: maps click counts onto data that has grown"):
        StoredClicks(log="log.csv", align=True).find("train", PARTS)
    with pytest.raises(CounterrankError, match=r"click counts and not a log; expected clicks="):
        StoredClicks(log=str(tmp_path / "clicks")).find("train", PARTS)
    with pytest.raises(CounterrankError, match=r"only_policies='new': .* has no policy names; leave it out"):
        StoredClicks([tmp_path / "clicks"], options=LogOptions(only_policies=["new"])).load("train", PARTS)
    with pytest.raises(CounterrankError, match="no click counts in it; expected a folder written by"):
        StoredClicks([tmp_path]).load("train", PARTS)
    with pytest.raises(CounterrankError, match="a column of a log"):
        StoredClicks([tmp_path / "clicks"]).logging_scores("train", PARTS)

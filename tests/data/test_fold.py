import gzip

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import CounterrankError, DataError, MissingFileError
from tests.support.paths import SHARED, needs_shared


def fill(folder, *names, features=None):
    """Files with one line each; the feature with the given id is 1."""
    for place, name in enumerate(names):
        text = f"1 qid:{place} {(features or [1] * len(names))[place]}:1\n".encode()
        (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return folder


def query_ids(fold):
    parts = (fold.train, fold.validation, fold.test)
    return [None if part is None else part.query_ids.tolist() for part in parts]


@pytest.mark.parametrize(
    "names",
    [
        ("train.txt", "vali.txt", "test.txt"),
        ("train.txt.gz", "vali.txt.gz", "test.txt"),
        ("set1.train.txt", "set1.valid.txt", "set1.test.txt"),
        ("my_train.txt.gz", "my_vali.txt.gz", "my_test.txt.gz"),
        ("trainingset.txt", "validationset.txt", "testset.txt"),
    ],
)
def test_names_of_the_parts(tmp_path, names):
    fill(tmp_path, *names)
    (tmp_path / "README.txt").write_text("latest.txt and others are left alone")
    (tmp_path / "latest.txt").write_text("not data")
    (tmp_path / "other_test.txt").write_text("a test without train is no fold")
    assert query_ids(cr.read_fold(tmp_path)) == [[0], [1], [2]]


def test_no_validation_part(tmp_path):
    assert query_ids(cr.read_fold(fill(tmp_path, "train.txt", "test.txt"))) == [[0], None, [1]]


@pytest.mark.parametrize("features", [(2, 5, 3), (5, 2, 3), (1, 2, 5)])
def test_parts_are_as_wide_as_the_widest(tmp_path, features):
    fold = cr.read_fold(fill(tmp_path, "train.txt", "vali.txt", "test.txt", features=features))
    for part, feature in zip((fold.train, fold.validation, fold.test), features, strict=True):
        assert part.features.tolist() == [[float(i == feature) for i in range(1, 6)]]


@pytest.mark.parametrize(("prefix", "expected"), [("set1.", 0), ("set1", 0), ("set2.", 2), ("set2", 2), ("", 4)])
def test_prefix_chooses(tmp_path, prefix, expected):
    names = ["set1.train.txt", "set1.test.txt", "set2.train.txt", "set2.test.txt", "train.txt", "test.txt"]
    assert query_ids(cr.read_fold(fill(tmp_path, *names), prefix=prefix))[0] == [expected]


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (
            ["set1.train.txt", "set1.test.txt", "set2.train.txt", "set2.test.txt"],
            {},
            "{}: several folds, with prefixes 'set1.', 'set2.'; choose one with prefix=",
        ),
        (
            ["set1.train.txt", "set1.test.txt"],
            {"prefix": "set3"},
            "prefix='set3': not in {}; expected one that is there: 'set1.'",
        ),
        ([], {"prefix": "a"}, "prefix='a': not in {}; expected one that is there: none"),
        (
            ["train.txt"],
            {},
            "{}: no test part; expected test or testset as .txt, .parquet or .csv, "
            "with or without a prefix; found 'train.txt'",
        ),
        (
            ["test.txt", "vali.txt"],
            {},
            "{}: no train part; expected train or trainingset as .txt, .parquet or .csv, "
            "with or without a prefix; found 'test.txt', 'vali.txt'",
        ),
        (
            [],
            {},
            "{}: no train part; expected train or trainingset as .txt, .parquet or .csv, "
            "with or without a prefix; found none",
        ),
        (
            ["train.txt", "train.txt.gz", "test.txt"],
            {},
            "{}: 'train.txt', 'train.txt.gz' are all the train part; expected one of them",
        ),
        (
            ["train.txt", "vali.txt", "valid.txt", "test.txt"],
            {},
            "{}: 'vali.txt', 'valid.txt' are all the validation part; expected one of them",
        ),
    ],
)
def test_folders_that_are_no_fold(tmp_path, names, options, message):
    fill(tmp_path, *names)
    with pytest.raises(CounterrankError) as caught:
        cr.read_fold(tmp_path, **options)
    assert str(caught.value) == message.format(tmp_path)


def test_paths_that_are_no_folder(tmp_path):
    with pytest.raises(MissingFileError, match="no such fold"):
        cr.read_fold(tmp_path / "absent")
    with pytest.raises(DataError, match="is a file; expected a folder of parts"):
        cr.read_fold(fill(tmp_path, "train.txt") / "train.txt")


def part(n_queries=10, n_features=2):
    features = np.arange(2 * n_queries * n_features).reshape(-1, n_features)
    return cr.RankingData(features, np.arange(0, 2 * n_queries + 1, 2), query_ids=np.arange(n_queries) + 100)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((part(), None, None), "test: NoneType; expected RankingData"),
        (([1], None, part()), "train: list; expected RankingData"),
        ((part(), part(n_features=3), part()), "validation: 3 features; expected 2, as in train"),
        ((part(), None, part(n_features=3)), "test: 3 features; expected 2, as in train"),
    ],
)
def test_parts_that_do_not_fit(parts, message):
    with pytest.raises(CounterrankError) as caught:
        cr.Fold(*parts)
    assert str(caught.value) == message


def test_fold_is_frozen_and_shows_its_parts():
    fold = cr.Fold(part(), None, part())
    with pytest.raises(AttributeError):
        fold.train = part()
    assert "validation=None" in repr(fold)
    assert "train=RankingData(10 queries" in repr(fold)


@pytest.mark.parametrize(("share", "size"), [(0.15, 2), (0.5, 5), (0.001, 1), (0.999, 9)])
def test_split_validation(share, size):
    whole = cr.Fold(part(), None, part())
    fold = whole.split_validation(share=share, seed=3)
    assert whole.validation is None
    assert (fold.validation.n_queries, fold.train.n_queries) == (size, 10 - size)
    ids = np.concatenate([fold.train.query_ids, fold.validation.query_ids])
    assert sorted(ids.tolist()) == list(range(100, 110))
    for side in (fold.train, fold.validation):
        assert side.query_ids.tolist() == sorted(side.query_ids.tolist())
        again = part().subset(side.query_ids - 100)
        assert side.equals(again)
    assert fold.validation.equals(whole.split_validation(share=share, seed=3).validation)


def test_split_validation_by_seed():
    whole = cr.Fold(part(50), None, part())
    chosen = {tuple(whole.split_validation(seed=seed).validation.query_ids) for seed in range(5)}
    assert len(chosen) == 5


@pytest.mark.parametrize(
    ("fold", "share", "message"),
    [
        (cr.Fold(part(), part(3), part()), 0.1, "validation: the fold has one already (3 queries); expected None"),
        (cr.Fold(part(1), None, part()), 0.1, "train: 1 query; expected at least 2 to split off a validation part"),
        (cr.Fold(part(), None, part()), 0, "share=0: expected a number between 0 and 1"),
        (cr.Fold(part(), None, part()), 1.0, "share=1.0: expected a number between 0 and 1"),
        (cr.Fold(part(), None, part()), float("nan"), "share=nan: expected a number between 0 and 1"),
        (cr.Fold(part(), None, part()), "0.1", "share='0.1': expected a number between 0 and 1"),
    ],
)  # fmt: skip
def test_splits_that_cannot_be(fold, share, message):
    with pytest.raises(CounterrankError) as caught:
        fold.split_validation(share=share)
    assert str(caught.value) == message


@needs_shared
@pytest.mark.parametrize(
    ("name", "n_queries", "n_features"),
    [
        ("ohsumed/Fold1", (63, 21, 22), 45),
        ("mq2008/Fold2", (471, 156, 157), 46),
        ("mslr-sample", (32, 10, 42), 136),
        ("lightgbm-lambdarank", (201, None, 50), 300),
    ],
)
def test_real_folds(name, n_queries, n_features):
    fold = cr.read_fold(SHARED / name)
    parts = (fold.train, fold.validation, fold.test)
    assert tuple(part and part.n_queries for part in parts) == n_queries
    assert fold.n_features == n_features
    assert all(part is None or part.n_features == n_features for part in parts)

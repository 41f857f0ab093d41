"""Data by its name: a LETOR, Parquet or CSV file, the folder of a fold or of partitions, or a synthetic set."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from counterrank.common.errors import CounterrankError, DataError, MissingFileError, brief, listed
from counterrank.common.files import PathLike, existing
from counterrank.data.flat_files import ENDINGS, check_columns, files_in, has_lists, is_flat, read_flat
from counterrank.data.letor import read_letor
from counterrank.data.ranking_data import Fold, RankingData
from counterrank.data.synthetic import SHAPES, make_fold

# the names data sets use for their parts: MSLR, Yahoo!, Istella and LETOR 4.0, then LETOR 3.0
_NAMES = {
    "train": ("train", "trainingset"),
    "validation": ("vali", "valid", "validation", "validationset"),
    "test": ("test", "testset"),
}
_ENDINGS = (".txt", ".txt.gz", *ENDINGS)
PARTS = tuple(_NAMES)


def read_fold(
    folder: PathLike,
    prefix: str | None = None,
    threads: int | None = None,
    columns: Mapping[str, str] | None = None,
    features: Sequence[str] | None = None,
) -> Fold:
    """The fold in a folder with the files `train`, `vali`, `valid` or `validation`, and `test`.

    Each part is LETOR text (`.txt`, `.txt.gz`), Parquet (`.parquet`) or CSV (`.csv`, `.tsv`, also `.gz`), or a folder
    of Parquet or CSV files. The names in MSLR-WEB10K/30K, Yahoo! LTRC, Istella, MQ2007/2008 and OHSUMED as downloaded
    are known (LETOR 3.0's `trainingset`, `validationset` and `testset` too). LETOR parts with fewer features than the
    widest are filled up with zeros; parts with named features must have the same names, and get them in the order of
    train. Where there is no validation part, `.validation` is None.

    Arguments:
        folder: where the files are.
        prefix: what stands before the names: `"set1."` (or `"set1"`) for `set1.train.txt`. Needed only when
            the folder holds several folds; `""` chooses the names without prefix.
        threads: how many to use; all cores if None.
        columns, features: of Parquet and CSV, see `open_data`.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("train", "test"):
    ...     _ = (folder / f"{name}.txt").write_text("1 qid:1 1:0.5\\n0 qid:1 2:3\\n")
    >>> fold = read_fold(folder)
    >>> fold.train.features.tolist(), fold.validation
    ([[0.5, 0.0], [0.0, 3.0]], None)
    """
    paths = _find_parts(folder, prefix)
    flat = {name: _is_flat_part(path) for name, path in paths.items()}
    if not any(flat.values()):
        _refuse_columns(folder, columns, features)
    elif not all(flat.values()):
        names = [path.name for path in paths.values()]
        raise DataError(f"{folder}: {listed(names, 10)}: LETOR text and files with named features; expected one kind")
    parts: dict[str, RankingData] = {}
    for name, path in paths.items():
        if flat[name]:
            parts[name] = _flat_part(path, columns, features, parts.get("train"))
        else:
            width = max((part.n_features for part in parts.values()), default=None)
            parts[name] = read_letor(path, n_features=width, threads=threads)
    if not any(flat.values()):
        width = max(part.n_features for part in parts.values())
        parts = {name: part.widened(width) for name, part in parts.items()}
    return Fold(train=parts["train"], validation=parts.get("validation"), test=parts["test"])


def _is_flat_part(path: Path) -> bool:
    return path.is_dir() or is_flat(path)


def _flat_part(
    path: Path, columns: Mapping[str, str] | None, features: Sequence[str] | None, train: RankingData | None
) -> RankingData:
    """One part, with the features of train where that has been read."""
    if train is None or (path.is_file() and has_lists(path)):
        return read_flat(path, columns, features)
    return read_flat(path, columns, train.feature_names, exactly=features is None)


def _find_parts(folder: PathLike, prefix: str | None) -> dict[str, Path]:
    found = existing(folder, "fold")
    if not found.is_dir():
        raise DataError(f"{folder}: is a file; expected a folder of parts (read_letor reads one file)")
    folds = _folds_in(found)
    parts = folds.get(_choose(folder, folds, prefix), {})
    _check_parts(folder, parts)
    return {part: parts[part][0] for part in _NAMES if part in parts}  # train, the largest, first


def _folds_in(folder: Path) -> dict[str, dict[str, list[Path]]]:
    """By prefix and part the files, and the folders of files, that are named as parts are."""
    folds: dict[str, dict[str, list[Path]]] = {}
    for path in sorted(folder.iterdir()):
        if (place := _prefix_and_part(path)) is not None:
            folds.setdefault(place[0], {}).setdefault(place[1], []).append(path)
    return folds


def _prefix_and_part(path: Path) -> tuple[str, str] | None:
    """What stands before the part's name, and the part: `set1.train.txt.gz` gives `set1.` and train."""
    for ending in ("", *ENDINGS) if path.is_dir() else _ENDINGS:
        if path.name.endswith(ending):
            stem = path.name.removesuffix(ending)
            for part, words in _NAMES.items():
                for word in words:
                    before = stem.removesuffix(word)
                    # without a separator it is another word, as in "latest"
                    if before != stem and (not before or not before[-1].isalnum()):
                        return None if path.is_dir() and not files_in(path) else (before, part)
    return None


def _choose(folder: PathLike, folds: dict[str, dict[str, list[Path]]], prefix: str | None) -> str:
    if prefix is not None:
        fitting = [before for before in folds if before == prefix or (prefix and before[:-1] == prefix)]
        if len(fitting) == 1:
            return fitting[0]
        raise MissingFileError(
            f"prefix={brief(prefix)}: not in {folder}; expected one that is there: {listed(sorted(folds), 10)}"
        )
    candidates = [before for before, parts in folds.items() if "train" in parts]  # a stray test is no fold
    if len(candidates) > 1:
        prefixes = listed(sorted(candidates), 10)
        raise DataError(f"{folder}: several folds, with prefixes {prefixes}; choose one with prefix=")
    return (candidates or sorted(folds) or [""])[0]


def _check_parts(folder: PathLike, parts: dict[str, list[Path]]) -> None:
    for part in ("train", "test"):
        if part not in parts:
            names = sorted(path.name for path in Path(folder).iterdir())
            expected = f"{' or '.join(_NAMES[part])} as .txt, .parquet or .csv"
            raise MissingFileError(
                f"{folder}: no {part} part; expected {expected}, with or without a prefix; found {listed(names, 10)}"
            )
    for part, paths in parts.items():
        if len(paths) > 1:
            names = [path.name for path in paths]
            raise DataError(f"{folder}: {listed(names, 10)} are all the {part} part; expected one of them")


def open_data(
    source: str,
    *,
    threads: int | None = None,
    columns: Mapping[str, str] | None = None,
    features: Sequence[str] | None = None,
    split: Sequence[float] | None = None,
) -> Fold | RankingData:
    """Ranking data, or a fold, by its name.

    Arguments:
        source: a file (LETOR, Parquet or CSV), the folder of a fold or of partitions, or `synthetic:mslr` /
            `synthetic:yahoo`, also with settings: `synthetic:mslr:queries=2000,seed=1,test=5000`.
        threads: None for all cores.
        columns: of flat Parquet and CSV: other names for the columns `query_id`, `doc_id` and `label`, by these.
        features: of the same, the columns to use; all columns of numbers and booleans that are left if None.
        split: shares of the queries in train, validation and test, or train and test; see `RankingData.split`.

    >>> open_data("synthetic:yahoo:queries=10").train.n_queries
    6
    """
    found = _opened(source, threads, columns, features)
    if split is None:
        return found
    if isinstance(found, Fold):
        raise CounterrankError(f"split: {source} has parts already; expected one file, or a folder of partitions")
    return found.split(split)


def _opened(
    source: str, threads: int | None, columns: Mapping[str, str] | None, features: Sequence[str] | None
) -> Fold | RankingData:
    if not isinstance(source, str | os.PathLike):
        raise CounterrankError(
            f"source={brief(source)}: expected a path or a name; RankingData.from_frame takes frames"
        )
    source = str(source)
    if source.startswith("synthetic:"):
        _refuse_columns(source, columns, features)
        return _synthetic(source, threads)
    path = existing(source, "ranking data")
    if path.is_dir():
        # partitions where nothing is named as a part is
        if not any("train" in parts or "test" in parts for parts in _folds_in(path).values()) and files_in(path):
            return read_flat(path, columns, features)
        return read_fold(path, None, threads, columns, features)
    if is_flat(path):
        return read_flat(path, columns, features)
    _refuse_columns(source, columns, features)
    return read_letor(path, threads=threads)


def _refuse_columns(source: PathLike, columns: Mapping[str, str] | None, features: Sequence[str] | None) -> None:
    if columns:
        check_columns(columns)
        raise CounterrankError(f"columns: {source} has no named columns; expected Parquet or CSV")
    if features is not None:
        raise CounterrankError(f"features: {source} has no named columns; expected Parquet or CSV")


@dataclass(frozen=True)
class DataOptions:
    """How ranking data is to be read; the arguments of `open_data` of the same names, and what reads it instead."""

    columns: Mapping[str, str] = field(default_factory=dict)
    features: Sequence[str] | None = None
    split: Sequence[float] | None = None
    reader: Callable[..., Fold | RankingData] = open_data

    def open(self, source: str, threads: int | None = None) -> Fold | RankingData:
        """`open_data` with these options."""
        return self.reader(source, threads=threads, columns=self.columns, features=self.features, split=self.split)


def choose_part(data: Fold | RankingData, part: str, source: str) -> RankingData:
    """One part of a fold; data of one file is its own only part, under any of the three names.

    >>> choose_part(open_data("synthetic:yahoo:queries=10"), "test", "synthetic:yahoo").n_queries
    2
    """
    check_part(part)
    chosen: RankingData | None = data if isinstance(data, RankingData) else getattr(data, part)
    if chosen is None:
        raise DataError(f"{source}: has no {part} part; choose another")
    return chosen


def check_part(part: str) -> str:
    """The name of a part, or an error, whether the data has parts or is one file.

    >>> check_part("dev")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: part='dev': expected one of train, validation, test
    """
    if part not in PARTS:
        raise CounterrankError(f"part={brief(part)}: expected one of {', '.join(PARTS)}")
    return part


def _synthetic(source: str, threads: int | None) -> Fold:
    _, shape, *rest = source.split(":")
    if shape not in SHAPES:
        known = ", ".join(f"synthetic:{each}" for each in SHAPES)
        raise CounterrankError(f"{source}: unknown; expected one of {known}")
    settings = {"queries": 1000, "seed": 0, "test": 0}
    for item in filter(None, ",".join(rest).split(",")):
        name, _, value = item.partition("=")
        if name not in settings or not (value.isascii() and value.isdigit()):
            raise CounterrankError(f"{source}: {item!r}; expected settings as in synthetic:mslr:queries=2000,seed=1")
        settings[name] = int(value)
    if settings["queries"] < 5:
        raise CounterrankError(f"{source}: too few for three parts; expected at least 5 queries")
    return make_fold(shape, settings["queries"], settings["seed"], n_test=settings["test"] or None, threads=threads)

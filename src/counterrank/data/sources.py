"""Data as named on the command line: a file, a fold folder, or a synthetic set."""

from __future__ import annotations

from counterrank.common.errors import CounterrankError, DataError
from counterrank.common.files import existing
from counterrank.data.fold import Fold, read_fold
from counterrank.data.letor import read_letor
from counterrank.data.ranking_data import RankingData
from counterrank.data.synthetic import SHAPES, make_fold

PARTS = ("train", "validation", "test")


def open_data(source: str, *, threads: int | None = None) -> Fold | RankingData:
    """A fold from a folder or a synthetic shape, ranking data from one LETOR or Parquet file.

    Arguments:
        source: a path, or `synthetic:mslr` / `synthetic:yahoo`, also with settings:
            `synthetic:mslr:queries=2000,seed=1`.
        threads: None for all cores.

    >>> open_data("synthetic:yahoo:queries=10").train.n_queries
    6
    """
    if source.startswith("synthetic:"):
        return _synthetic(source, threads)
    path = existing(source, "ranking data")
    if path.is_dir():
        return read_fold(path, threads=threads)
    if path.suffix == ".parquet":
        return RankingData.load(path)
    return read_letor(path, threads=threads)


def choose_part(data: Fold | RankingData, part: str, source: str) -> RankingData:
    """One part of a fold; data of one file is its own only part, under any of the three names.

    >>> choose_part(open_data("synthetic:yahoo:queries=10"), "test", "synthetic:yahoo").n_queries
    2
    """
    check_part(part)
    if isinstance(data, RankingData):
        return data
    chosen = getattr(data, part)
    if chosen is None:
        raise DataError(f"{source}: has no {part} part; choose another")
    found: RankingData = chosen
    return found


def check_part(part: str) -> str:
    """The name of a part, or an error, whether the data has parts or is one file.

    >>> check_part("dev")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.CounterrankError: part='dev': expected one of train, validation, test
    """
    if part not in PARTS:
        raise CounterrankError(f"part={part!r}: expected one of {', '.join(PARTS)}")
    return part


def _synthetic(source: str, threads: int | None) -> Fold:
    _, shape, *rest = source.split(":")
    if shape not in SHAPES:
        known = ", ".join(f"synthetic:{each}" for each in SHAPES)
        raise CounterrankError(f"{source}: unknown; expected one of {known}")
    settings = {"queries": 1000, "seed": 0}
    for item in filter(None, ",".join(rest).split(",")):
        name, _, value = item.partition("=")
        if name not in settings or not (value.isascii() and value.isdigit()):
            raise CounterrankError(f"{source}: {item!r}; expected settings as in synthetic:mslr:queries=2000,seed=1")
        settings[name] = int(value)
    if settings["queries"] < 5:
        raise CounterrankError(f"{source}: too few for three parts; expected at least 5 queries")
    return make_fold(shape, settings["queries"], settings["seed"], threads=threads)

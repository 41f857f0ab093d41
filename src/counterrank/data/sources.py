"""Data by its name: a LETOR or Parquet file, the folder of a fold as downloaded, or a synthetic set."""

from __future__ import annotations

from pathlib import Path

from counterrank.common.errors import CounterrankError, DataError, MissingFileError, brief
from counterrank.common.files import PathLike, existing
from counterrank.data.letor import read_letor
from counterrank.data.ranking_data import Fold, RankingData
from counterrank.data.synthetic import SHAPES, make_fold

# the names data sets use for their parts: MSLR, Yahoo!, Istella and LETOR 4.0, then LETOR 3.0
_NAMES = {
    "train": ("train", "trainingset"),
    "validation": ("vali", "valid", "validationset"),
    "test": ("test", "testset"),
}
_ENDINGS = (".txt", ".txt.gz")
PARTS = tuple(_NAMES)


def read_fold(folder: PathLike, prefix: str | None = None, threads: int | None = None) -> Fold:
    """The fold in a folder with `train`, `vali` or `valid`, and `test`, each `.txt` or `.txt.gz`.

    The names in MSLR-WEB10K/30K, Yahoo! LTRC, Istella, MQ2007/2008 and OHSUMED as downloaded are known (LETOR 3.0's
    `trainingset`, `validationset` and `testset` too). Parts with fewer features than the widest are filled up
    with zeros. Where there is no validation part, `.validation` is None.

    Arguments:
        folder: where the files are.
        prefix: what stands before the names: `"set1."` (or `"set1"`) for `set1.train.txt`. Needed only when
            the folder holds several folds; `""` chooses the names without prefix.
        threads: how many to use; all cores if None.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("train", "test"):
    ...     _ = (folder / f"{name}.txt").write_text("1 qid:1 1:0.5\\n0 qid:1 2:3\\n")
    >>> fold = read_fold(folder)
    >>> fold.train.features.tolist(), fold.validation
    ([[0.5, 0.0], [0.0, 3.0]], None)
    """
    paths = _find_parts(folder, prefix)
    parts: dict[str, RankingData] = {}
    width = None
    for name, path in paths.items():
        parts[name] = read_letor(path, n_features=width, threads=threads)
        width = parts[name].n_features
    parts = {name: part.widened(width or 1) for name, part in parts.items()}
    return Fold(train=parts["train"], validation=parts.get("validation"), test=parts["test"])


def _find_parts(folder: PathLike, prefix: str | None) -> dict[str, Path]:
    found = existing(folder, "fold")
    if not found.is_dir():
        raise DataError(f"{folder}: is a file; expected a folder of parts (read_letor reads one file)")
    folds: dict[str, dict[str, list[Path]]] = {}
    for path in sorted(found.iterdir()):
        if (place := _prefix_and_part(path.name)) and path.is_file():
            folds.setdefault(place[0], {}).setdefault(place[1], []).append(path)
    parts = folds.get(_choose(folder, folds, prefix), {})
    _check_parts(folder, parts)
    return {part: parts[part][0] for part in _NAMES if part in parts}  # train, the largest, first


def _prefix_and_part(name: str) -> tuple[str, str] | None:
    """What stands before the part's name, and the part: `set1.train.txt.gz` gives `set1.` and train."""
    for ending in _ENDINGS:
        if name.endswith(ending):
            stem = name.removesuffix(ending)
            for part, words in _NAMES.items():
                for word in words:
                    before = stem.removesuffix(word)
                    # without a separator it is another word, as in "latest"
                    if before != stem and (not before or not before[-1].isalnum()):
                        return before, part
    return None


def _choose(folder: PathLike, folds: dict[str, dict[str, list[Path]]], prefix: str | None) -> str:
    if prefix is not None:
        fitting = [before for before in folds if before == prefix or (prefix and before[:-1] == prefix)]
        if len(fitting) == 1:
            return fitting[0]
        raise MissingFileError(
            f"prefix={brief(prefix)}: not in {folder}; expected one that is there: {_listed(sorted(folds))}"
        )
    candidates = [before for before, parts in folds.items() if "train" in parts]  # a stray test is no fold
    if len(candidates) > 1:
        prefixes = _listed(sorted(candidates))
        raise DataError(f"{folder}: several folds, with prefixes {prefixes}; choose one with prefix=")
    return (candidates or sorted(folds) or [""])[0]


def _check_parts(folder: PathLike, parts: dict[str, list[Path]]) -> None:
    for part in ("train", "test"):
        if part not in parts:
            names = sorted(path.name for path in Path(folder).iterdir())
            expected = " or ".join(word + ending for word in _NAMES[part] for ending in _ENDINGS)
            raise MissingFileError(
                f"{folder}: no {part} part; expected {expected}, with or without a prefix; found {_listed(names)}"
            )
    for part, paths in parts.items():
        if len(paths) > 1:
            names = [path.name for path in paths]
            raise DataError(f"{folder}: {_listed(names)} are all the {part} part; expected one of them")


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:10])
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return shown + more if names else "nothing"


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
    settings = {"queries": 1000, "seed": 0}
    for item in filter(None, ",".join(rest).split(",")):
        name, _, value = item.partition("=")
        if name not in settings or not (value.isascii() and value.isdigit()):
            raise CounterrankError(f"{source}: {item!r}; expected settings as in synthetic:mslr:queries=2000,seed=1")
        settings[name] = int(value)
    if settings["queries"] < 5:
        raise CounterrankError(f"{source}: too few for three parts; expected at least 5 queries")
    return make_fold(shape, settings["queries"], settings["seed"], threads=threads)

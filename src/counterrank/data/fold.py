"""A fold: the train, validation and test parts that belong together, and folders of them as downloaded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from counterrank.common.checks import check_number, check_type, make_generator
from counterrank.common.errors import DataError, MissingFileError
from counterrank.common.files import PathLike, existing
from counterrank.data.letor import read_letor
from counterrank.data.ranking_data import RankingData

# the names data sets use for their parts: MSLR, Yahoo!, Istella and LETOR 4.0, then LETOR 3.0
_NAMES = {
    "train": ("train", "trainingset"),
    "validation": ("vali", "valid", "validationset"),
    "test": ("test", "testset"),
}
_ENDINGS = (".txt", ".txt.gz")


@dataclass(frozen=True, repr=False)
class Fold:
    """Train, validation (or None) and test data with the same features.

    >>> part = RankingData([[1.0], [2.0]], [0, 1, 2])
    >>> Fold(train=part, validation=None, test=part)
    Fold(
      train=RankingData(2 queries, 2 documents, 1 feature, 1 document a query, no labels),
      validation=None,
      test=RankingData(2 queries, 2 documents, 1 feature, 1 document a query, no labels),
    )
    """

    train: RankingData
    validation: RankingData | None
    test: RankingData

    def __post_init__(self) -> None:
        for name in ("train", "validation", "test"):
            part = getattr(self, name)
            if part is None and name == "validation":
                continue
            check_type(part, RankingData, name)
            if part.n_features != self.train.n_features:
                raise DataError(f"{name}: {part.n_features} features; expected {self.train.n_features}, as in train")

    def __repr__(self) -> str:
        parts = (("train", self.train), ("validation", self.validation), ("test", self.test))
        lines = "".join(f"  {name}={part!r},\n" for name, part in parts)
        return f"Fold(\n{lines})"

    @property
    def n_features(self) -> int:
        """The number of features, the same in all parts."""
        return self.train.n_features

    def split_validation(self, share: float = 0.15, seed: int | np.random.Generator = 0) -> Fold:
        """A fold whose validation part is a random share of train's queries, taken out of train.

        Both parts keep the order of train and have at least one query.

        >>> part = RankingData(np.zeros((10, 1)), np.arange(11))
        >>> fold = Fold(train=part, validation=None, test=part).split_validation(share=0.2, seed=0)
        >>> fold.train.n_queries, fold.validation.n_queries
        (8, 2)
        """
        if self.validation is not None:
            raise DataError(
                f"validation: the fold has one already ({self.validation.n_queries} queries); expected None"
            )
        check_number(share, "share", above=0, below=1)
        n = self.train.n_queries
        if n < 2:
            raise DataError("train: 1 query; expected at least 2 to split off a validation part")
        chosen = np.zeros(n, dtype=np.bool_)
        size = min(max(round(share * n), 1), n - 1)
        chosen[make_generator(seed).choice(n, size=size, replace=False)] = True
        return replace(self, train=self.train.subset(~chosen), validation=self.train.subset(chosen))


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
    chosen = _choose(folder, folds, prefix)
    _check_parts(folder, folds.get(chosen, {}))
    parts = folds[chosen]
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
            f"prefix={prefix!r}: not in {folder}; expected one that is there: {_listed(sorted(folds))}"
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

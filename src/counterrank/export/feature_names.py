"""What the features are called where the model is going.

A file names them by their numbers in LETOR files, which begin at 1: a JSON object `{"1": "title_bm25", ...}`, a JSON
list in order, or plain text with one name a line. Only features that the model looks at need a name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from counterrank.common.errors import ExportError, printable
from counterrank.common.files import PathLike, existing

Naming = PathLike | Mapping[int, str] | Sequence[str]


@dataclass(frozen=True)
class Names:
    """Names by feature, counted from 0; `given` is False where nobody named them."""

    by_feature: dict[int, str]
    given: bool

    def of(self, features: Iterable[int]) -> list[str]:
        """The names of these features, which all must have one."""
        used = list(features)
        missing = [str(feature + 1) for feature in used if feature not in self.by_feature]
        if missing:
            more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
            feature, it = ("feature", "it") if len(missing) == 1 else ("features", "them")
            raise ExportError(
                f"features: no name for {feature} {', '.join(missing[:10])}{more}, which the model uses; name {it} in "
                "the mapping"
            )
        return [self.by_feature[feature] for feature in used]


def feature_names(naming: Naming | None, n_features: int) -> Names:
    """The names in a file, a mapping from feature numbers or a list; `feature_1` and so on if there is none.

    >>> feature_names({1: "title_bm25", 3: "pagerank"}, n_features=3).of([0, 2])
    ['title_bm25', 'pagerank']
    >>> feature_names(None, n_features=2).of([1])
    ['feature_2']
    >>> feature_names({1: "title_bm25"}, n_features=3).of([0, 2])
    Traceback (most recent call last):
    ...
    counterrank.common.errors.ExportError: features: no name for feature 3, which the model uses; name it in the mapping
    """
    if naming is None:
        return Names({feature: f"feature_{feature + 1}" for feature in range(n_features)}, given=False)
    where = "features"
    content: Any = naming
    if isinstance(naming, str | os.PathLike):
        where = str(naming)
        content = _read(naming)
    if isinstance(content, Mapping):
        pairs = [(_number(key, where), value) for key, value in content.items()]
    elif isinstance(content, Sequence):
        pairs = list(enumerate(content, start=1))
    else:
        raise ExportError(f"{where}: expected an object, a list or lines of names, got {type(content).__name__}")
    if not pairs:
        raise ExportError(f"{where}: no names in it; leave it out, or name the features")
    return Names(_checked(pairs, n_features, where), given=True)


def _read(path: PathLike) -> Any:
    file = existing(path, "file of feature names")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ExportError(f"{path}: not a text file in UTF-8; expected JSON or one name a line") from None
    if not text.lstrip().startswith(("{", "[")):
        return text.rstrip().splitlines()
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _without_repeats(pairs, path))
    except ValueError as error:
        if isinstance(error, ExportError):
            raise
        raise ExportError(f"{path}: not JSON ({error})") from None


def _without_repeats(pairs: list[tuple[str, Any]], path: PathLike) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ExportError(f"{path}: feature {printable(key)} is named twice")
        found[key] = value
    return found


def _number(key: Any, where: str) -> int:
    text = str(key).strip()
    if isinstance(key, bool) or not (text.isascii() and text.isdigit()):
        raise ExportError(
            f"{where}: {printable(text)!r} is no feature number; expected 1, 2 and so on, as in LETOR files"
        )
    return int(text)


def _checked(pairs: list[tuple[int, Any]], n_features: int, where: str) -> dict[int, str]:
    """Names by feature from 0, if all of them are names, of features the model knows, and different."""
    names: dict[int, str] = {}
    owners: dict[str, int] = {}
    for number, name in pairs:
        if not 1 <= number <= n_features:
            raise ExportError(f"{where}: feature {number} is not known; the model has features 1 to {n_features}")
        if not isinstance(name, str) or name != name.strip() or not name or not name.isprintable():
            raise ExportError(
                f"{where}: feature {number} is called {printable(repr(name))}; expected a name on one line"
            )
        if name in owners:
            raise ExportError(f"{where}: features {owners[name]} and {number} are both called {name!r}")
        if number - 1 in names:
            raise ExportError(f"{where}: feature {number} is named twice")
        owners[name] = number
        names[number - 1] = name
    return names

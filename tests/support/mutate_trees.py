"""Random damage to texts of trees; what the check lets pass is loaded to predict scores, in a process of its own.

Run as `python -m tests.support.mutate_trees FOLDER COUNT SEED`: FOLDER holds texts as NAME-N_FEATURES.txt. Prints how
many damaged texts passed and how many did not; a text at which LightGBM dies or hangs is left in FOLDER/last.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np

import counterrank as cr
from counterrank.common.errors import ModelError
from counterrank.models import Scaler, TreesModel
from counterrank.models.trees import check_tree_text

WORDS = ["-1", "0", "1", "-2", "3", "99", "2147483647", "-2147483648", "4294967295", "1e300", "1e999", "nan", "-inf"]
WORDS += ["", "+1", "0x1", "1.5", " ", "=", "\n", "\r", "\0", "e", "-", ".", "00000", "é"]


def fix_sizes(text: str) -> str:
    """The text with tree_sizes as long as its trees are."""
    body = text[text.find("\nTree=") + 1 : text.find("\nend of trees") + 1]
    sizes = " ".join(str(len(block)) for block in re.split("(?m)^(?=Tree=)", body) if block)
    return re.sub("(?m)^tree_sizes=.*$", f"tree_sizes={sizes}", text, count=1)


def damaged(text: str, rng: np.random.Generator) -> str:
    """The text with one to three changes: a digit, a letter, a number, a line, two entries swapped."""
    for _ in range(rng.integers(1, 4)):
        where, stop = text.find("\nTree="), text.find("\nend of trees")
        if not 0 < where < stop or rng.random() < 0.3:
            where, stop = 0, len(text)
        found = list(re.finditer(r"(?m)^.+\n" if (kind := rng.integers(6)) == 4 else r"-?\d+", text[where:stop]))
        if not found:
            continue
        begin, end = (where + place for place in found[rng.integers(len(found))].span())
        if kind == 0:  # as long as before
            text = text[: end - 1] + str(rng.integers(10)) + text[end:]
        elif kind == 1:
            text = text[:begin] + WORDS[rng.integers(len(WORDS))] + text[end:]
        elif kind == 2:
            place = rng.integers(where, stop)
            text = text[:place] + chr(rng.integers(32, 127)) + text[place + 1 :]
        elif kind == 3:
            text = text[:begin] + str(rng.integers(-40, 40)) + text[end:]
        elif kind == 4:
            text = text[:begin] + text[begin:end] * 2 * rng.integers(2) + text[end:]
        else:
            text = re.sub(r"^(\S+)( +)(\S+)", r"\3\2\1", text[begin:]).join([text[:begin], ""])
    return fix_sizes(text) if rng.random() < 0.7 else text


def main(folder: Path, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = [(int(file.stem.split("-")[1]), file.read_text()) for file in sorted(folder.glob("*.txt"))]
    passed = refused = 0
    for number in range(count):
        n_features, text = texts[number % len(texts)]
        text = damaged(text, rng)
        try:
            check_tree_text(text, n_features)
        except ModelError:
            refused += 1
            continue
        passed += 1
        (folder / "last").write_text(text)
        model = TreesModel(text, Scaler("none", np.zeros(n_features), np.ones(n_features)), n_features)
        features = rng.normal(size=(50, n_features)) * 10.0 ** rng.integers(-2, 4)
        with suppress(ModelError):  # LightGBM says itself that it cannot read it
            assert len(model.predict(cr.RankingData(features, [0, 50]), 1)) == 50
    print(passed, refused)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

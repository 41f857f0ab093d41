"""Models in formats of no search engine: a linear one as JSON to be read by anything, trees as LightGBM's own text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from counterrank.common.errors import ExportError
from counterrank.export.names import Names
from counterrank.models.linear import LinearModel
from counterrank.models.trees import TreesModel

FORMAT, VERSION = "counterrank-linear", 1


def linear_json(model: LinearModel, features: Sequence[int], labels: Sequence[str], name: str) -> str:
    """score = sum over features of coefficient * scaled(x); features that are not listed have no part in it.

    scaled(x) is x for "none", (x - mean) / deviation for "standard", and (x - smallest) / (largest - smallest) over the
    documents of the query for "query", 0 where all are equal.
    """
    described = []
    for feature, label in zip(features, labels, strict=True):
        entry: dict[str, Any] = {"number": feature + 1, "name": label}
        entry["coefficient"] = float(model.coefficients[feature])
        if model.scaler.kind == "standard":
            entry["mean"] = float(model.scaler.low[feature])
            entry["deviation"] = 1.0 / float(model.scaler.inverse[feature])
        described.append(entry)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "normalize": model.scaler.kind,
        "n_features": model.n_features,
        "features": described,
    }
    return json.dumps(content, indent=1) + "\n"


def lightgbm_text(model: TreesModel, names: Names) -> str:
    """The trees as they are; LightGBM predicts with them what `predict` does. Names that were given replace its own."""
    if not names.given:
        return model.text
    with_blanks = [label for label in names.by_feature.values() if re.search(r'[\s",:\[\]{}]', label)]
    if with_blanks:
        raise ExportError(
            f'features: {with_blanks[0]!r} cannot be a name in LightGBM; expected no blanks nor any of ",:[]{{}}'
        )
    own = [f"Column_{feature}" for feature in range(model.n_features)]
    labels = [names.by_feature.get(feature, label) for feature, label in enumerate(own)]
    line = "feature_names=" + " ".join(labels)
    return re.sub(r"^feature_names=.*$", lambda _: line, model.text, count=1, flags=re.MULTILINE)

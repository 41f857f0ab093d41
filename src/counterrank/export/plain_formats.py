"""Formats that belong to no search engine: linear models as JSON, trees in LightGBM's text format."""

from __future__ import annotations

import json
import re
from typing import Any

from counterrank.common.errors import ExportError, listed
from counterrank.export.targets import ExportJob, Target
from counterrank.models import TreesModel

_NO_NAME = r'[\s",:\[\]{}]'  # what LightGBM's text cannot hold in a name
FORMAT, VERSION = "counterrank-linear", 1


def to_json(job: ExportJob) -> str:
    """score = sum over features of coefficient * scaled(x); features that are not listed have coefficient 0.

    scaled(x) is x for "none", (x - mean) / deviation for "standard", and (x - smallest) / (largest - smallest) over the
    documents of the query for "query", 0 where all are equal.
    """
    model, used = job.model, job.used_features()
    coefficients, scaler = model.vectors()["coefficients"], model.scaler
    described = []
    for feature, label in zip(used, job.label(used), strict=True):
        entry: dict[str, Any] = {"number": feature + 1, "name": label, "coefficient": float(coefficients[feature])}
        if scaler.kind == "standard":
            entry |= {"mean": float(scaler.low[feature]), "deviation": 1.0 / float(scaler.inverse[feature])}
        described.append(entry)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "name": job.name,
        "normalize": scaler.kind,
        "n_features": model.n_features,
        "features": described,
    }
    return json.dumps(content, indent=1) + "\n"


def to_lightgbm(job: ExportJob) -> str:
    """The text of the trees, with which LightGBM predicts what `predict` does; given names replace its own.

    LightGBM knows features by place, so names of the training data that it cannot hold are changed, with a note.
    """
    assert isinstance(job.model, TreesModel)
    text = job.model.text
    job.label_all()
    if not job.names.given:
        return text
    bad = [label for label in job.names.by_feature.values() if re.search(_NO_NAME, label)]
    if bad and not job.names.own:
        raise ExportError(f'features: {bad[0]!r} cannot be a name in LightGBM; expected no blanks nor any of ",:[]{{}}')
    names = [job.names.by_feature.get(feature, f"Column_{feature}") for feature in range(job.model.n_features)]
    if bad:
        names = _held(names)
        job.features = {number: names[number - 1] for number in job.features}
        job.notes.append(f"LightGBM cannot hold the names {listed(bad)}: blanks and some signs in them became _")
    line = "feature_names=" + " ".join(names)
    return re.sub(r"^feature_names=.*$", lambda _: line, text, count=1, flags=re.MULTILINE)


def _held(names: list[str]) -> list[str]:
    """The names with signs that LightGBM cannot hold replaced, all different.

    >>> _held(["unit price", "unit_price"])
    ['unit_price_', 'unit_price']
    """
    found = [re.sub(_NO_NAME, "_", name) for name in names]
    taken = {new for name, new in zip(names, found, strict=True) if new == name}
    for place, name in enumerate(names):
        if found[place] != name:
            while found[place] in taken:
                found[place] += "_"
            taken.add(found[place])
    return found


LIGHTGBM = Target(
    "lightgbm", (".txt",), ("lambdamart",), ("none",), "by place or name", "LightGBM's own text", to_lightgbm
)
JSON = Target(
    "json", (".json",), ("linear",), ("query", "standard", "none"),
    "by number and name", "code of your own", to_json,
)  # fmt: skip

"""A trained ranker as a file for another system."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common.checks import check_choice
from counterrank.common.errors import ExportError, printable
from counterrank.common.files import PathLike, atomic_file
from counterrank.export import elastic, solr
from counterrank.export.feature_names import Names, Naming, feature_names
from counterrank.export.forest import Forest, Layer, forest_of, layers_of
from counterrank.export.onnx_graph import Graph
from counterrank.export.solr import without_slack
from counterrank.models.base import Model, Scaler
from counterrank.models.linear import LinearModel
from counterrank.models.neural import NeuralModel
from counterrank.models.trees import TreesModel
from counterrank.training import Ranker

# Models in formats of no search engine: a linear one as JSON to be read by anything, trees as LightGBM's own text.


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


TREE_FORMATS = ("xgboost", "ranklib")
_PER_QUERY = (
    "scales features within each query, which {target} cannot; train with normalize='standard' or 'none', "
    "or export to onnx"
)


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        path: the file.
        to: the target.
        features: the names in the file, by the number of the feature from 1.
        notes: what to know before using it.
    """

    path: Path
    to: str
    features: dict[int, str]
    notes: tuple[str, ...]


@dataclass
class _Job:
    """What every target needs; `features` and `notes` are filled in on the way."""

    ranker: Ranker
    names: Names
    name: str
    tree_format: str
    features: dict[int, str]
    notes: list[str]

    @property
    def model(self) -> Model:
        return self.ranker.model_

    def label(self, features: Sequence[int]) -> list[str]:
        """The names of the features that the file is going to speak of."""
        labels = self.names.of(features)
        self.features = {feature + 1: label for feature, label in zip(features, labels, strict=True)}
        return labels


def write(
    ranker: Ranker,
    path: PathLike,
    to: str = "onnx",
    features: Naming | None = None,
    name: str = "counterrank",
    tree_format: str = "xgboost",
) -> Exported:
    """Write a trained ranker as another system takes it; the file appears whole or not at all.

    Arguments:
        ranker: a trained `Ranker`.
        path: the file to write.
        to: "onnx", "es-ltr", "solr", "lightgbm" (trees) or "json" (linear).
        features: what the features are called there: a file, a mapping from their numbers in LETOR files (from 1), or a
            list in order. Those that the model does not use need no name. None calls them feature_1 and so on.
        name: what the model is called there.
        tree_format: for trees in es-ltr: "xgboost", which knows features by name, or "ranklib", by their place.

    A model that the target cannot hold faithfully is refused with a line that says what to train instead.

    >>> import tempfile
    >>> from counterrank.data import RankingData
    >>> data = RankingData([[0.0, 1.0], [1.0, 1.0]], offsets=[0, 2])
    >>> ranker = Ranker("arp-hinge", max_epochs=1, learning_rate=1.0, normalize="none").fit(data, weights=[0.0, 1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(ranker, f"{folder}/model.json", to="solr", features={1: "title_bm25", 2: "clicks"}).features
    {1: 'title_bm25'}
    """
    make = _WRITERS[check_choice(to, TARGETS, "to")]
    check_choice(tree_format, TREE_FORMATS, "tree_format")
    if tree_format != TREE_FORMATS[0] and not (to == "es-ltr" and isinstance(ranker.model_, TreesModel)):
        raise ExportError(f"tree_format={tree_format!r}: is for trees in es-ltr; leave it out")
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ExportError(f"name={printable(repr(name))}: expected a name on one line")
    job = _Job(ranker, feature_names(features, ranker.n_features_in_), name, tree_format, {}, [])
    try:
        content = make(job)
    except RecursionError:
        raise ExportError("trees: too deep to be written; train with max_depth") from None
    if not job.names.given and job.features:
        job.notes.append("features are called feature_1, feature_2 and so on, since no names were given")
    if to in ("es-ltr", "solr") and not isinstance(job.model, TreesModel) and job.model.scaler.kind == "none":
        job.notes.append(
            "search engines add up unscaled features in float32, which loses small differences of large values; "
            "normalize='standard' keeps them"
        )
    with atomic_file(path) as temporary:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return Exported(Path(path), to, job.features, tuple(job.notes))


def _to_onnx(job: _Job) -> bytes:
    model, scaler = job.model, job.model.scaler
    graph = Graph(model.n_features)
    if isinstance(model, LinearModel):
        graph.linear(scaler, model.coefficients)
    elif isinstance(model, TreesModel):
        in_graph = scaler if scaler.kind == "query" else _plain_scaler(model.n_features)
        graph.forest(graph.seen(in_graph), _forest(model))
    else:
        graph.network(graph.seen(scaler), _layers(model))
    _label_all(job)
    loss = job.ranker.loss_
    labels = [job.names.by_feature.get(feature, "") for feature in range(model.n_features)]
    notes = {"loss": loss, "k": job.ranker.k, "normalize": scaler.kind, "feature_names": labels}
    return graph.serialized(job.name, notes)


def _to_elastic(job: _Job) -> str:
    model = job.model
    if not isinstance(model, LinearModel | TreesModel):
        raise ExportError(
            "model: es-ltr knows no networks; export to onnx, or train linear or lambdamart with normalize='standard' "
            "or 'none'"
        )
    _check_scaling(model.scaler, "es-ltr")
    if isinstance(model, LinearModel):
        used = _used(model)
        return elastic.linear_body(model, used, job.label(used), job.name)
    forest = _forest(model)
    labels = job.label(forest.features)
    if job.tree_format == "ranklib":
        job.notes.append("RankLib knows features by their place: feature 1 is the first of the feature set, and so on")
        return elastic.ranklib_body(forest, job.name)
    job.notes.append(
        "OpenSearch 3.2 and later, until its issue 378 was mended, sends features without a value the wrong way in "
        "such trees; there take the tree format ranklib"
    )
    return elastic.xgboost_body(forest, dict(zip(forest.features, labels, strict=True)), job.name)


def _to_solr(job: _Job) -> str:
    model = job.model
    _check_scaling(model.scaler, "solr")
    if isinstance(model, LinearModel):
        used = _used(model)
        return solr.linear_model(model.coefficients, model.scaler, used, job.label(used), job.name)
    if not isinstance(model, TreesModel):
        varying = np.flatnonzero(model.scaler.inverse).tolist()
        return solr.network_model(_layers(model), model.scaler, varying, job.label(varying), job.name)
    forest = _forest(model)
    names = dict(zip(forest.features, job.label(forest.features), strict=True))
    content, missed = solr.trees_model(forest, names, job.name)
    if missed:
        gap = max(abs(without_slack(split.threshold).compared - split.threshold) for split in missed)
        job.notes.append(
            f"Solr adds 1e-6 to thresholds, so {len(missed)} of {sum(1 for _ in forest.splits())} come out up to "
            f"{gap:.1g} off; only feature values that close to them go the other way"
        )
    return content


def _to_lightgbm(job: _Job) -> str:
    model = job.model
    if not isinstance(model, TreesModel):
        raise ExportError("model: only trees go to lightgbm; export to onnx, or train lambdamart")
    if model.scaler.kind != "none":
        raise ExportError(
            f"normalize={model.scaler.kind!r}: LightGBM's text holds no scaling; train with normalize='none', "
            "or export to onnx"
        )
    _label_all(job)
    return lightgbm_text(model, job.names)


def _to_json(job: _Job) -> str:
    model = job.model
    if not isinstance(model, LinearModel):
        raise ExportError("model: only linear models go to json; export to onnx, or trees to lightgbm")
    used = _used(model)
    return linear_json(model, used, job.label(used), job.name)


_WRITERS: dict[str, Callable[[_Job], str | bytes]] = {
    "onnx": _to_onnx,
    "es-ltr": _to_elastic,
    "solr": _to_solr,
    "lightgbm": _to_lightgbm,
    "json": _to_json,
}
TARGETS = tuple(_WRITERS)


def _label_all(job: _Job) -> None:
    """For a target that names every feature, if there are names: those that the model uses must have one."""
    if job.names.given:
        model = job.model
        used = _used(model) if isinstance(model, LinearModel) else range(model.n_features)
        if isinstance(model, TreesModel):
            used = np.flatnonzero(model.booster.feature_importance("split")).tolist()
        job.names.of(used)
        job.label(sorted(job.names.by_feature))


def _check_scaling(scaler: Scaler, target: str) -> None:
    if scaler.kind == "query":
        raise ExportError("normalize='query': the model " + _PER_QUERY.format(target=target))


def _used(model: LinearModel) -> list[int]:
    """Features with a part in the score."""
    used: list[int] = np.flatnonzero((model.coefficients != 0.0) & (model.scaler.inverse != 0.0)).tolist()
    if not used:
        raise ExportError("model: every coefficient is 0, so it ranks nothing; train it first")
    return used


def _forest(model: TreesModel) -> Forest:
    """Trees of raw features; with per-query scaling, which has no numbers of its own, of scaled ones."""
    scaler = None if model.scaler.kind == "query" else model.scaler
    return forest_of(model.booster.dump_model(), scaler)


def _plain_scaler(n_features: int) -> Scaler:
    return Scaler("none", np.zeros(n_features), np.ones(n_features))


def _layers(model: Model) -> list[Layer]:
    if not isinstance(model, NeuralModel):
        raise ExportError(f"model: {type(model).__name__} is none that export knows; expected one that Ranker trained")
    return layers_of(model.module)

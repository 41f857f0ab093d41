"""Export targets: what each one is called, what it can hold, and `write`, which puts a ranker into one of them.

A target is a `Target`: a name, the models and the scalings of features it can hold, and a function from an `ExportJob`
to the content of the file. `register_target` adds one, the library's own included.

A file of feature names numbers them as LETOR files do, from 1: a JSON object `{"1": "title_bm25", ...}`, a JSON list in
order, or plain text with one name a line. Only features that the model uses need a name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from counterrank.common.checks import check_choice
from counterrank.common.errors import ExportError, brief, printable
from counterrank.common.files import PathLike, atomic_file, existing
from counterrank.models import LinearModel, Model, TreesModel
from counterrank.training import Ranker
from counterrank.training.blending import BlendModel
from counterrank.training.specialisation import SpecialisedModel

TREE_FORMATS = ("xgboost", "ranklib")
"""The formats of trees for Elasticsearch and OpenSearch."""
Naming = PathLike | Mapping[int, str] | Sequence[str]


@dataclass(frozen=True)
class Names:
    """Names by feature, counted from 0.

    `given` is False where nobody named them, `own` True where they are those of the training data.
    """

    by_feature: dict[int, str]
    given: bool
    own: bool = False

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
    pairs: list[tuple[Any, Any]]
    if isinstance(naming, str | os.PathLike):
        where, pairs = str(naming), _read(naming)
    elif isinstance(naming, Mapping):
        pairs = list(naming.items())
    elif isinstance(naming, Sequence):
        pairs = list(enumerate(naming, start=1))
    else:
        raise ExportError(f"{where}: expected an object, a list or lines of names, got {type(naming).__name__}")
    if not pairs:
        raise ExportError(f"{where}: no names in it; leave it out, or name the features")
    return Names(_checked(pairs, n_features, where), given=True)


def _read(path: PathLike) -> list[tuple[Any, Any]]:
    """Numbers and names of a file: a JSON object or list, or lines."""
    file = existing(path, "file of feature names")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ExportError(f"{path}: not a text file in UTF-8; expected JSON or one name a line") from None
    content: Any = text.rstrip().splitlines()
    if text.lstrip().startswith(("{", "[")):
        try:
            content = json.loads(text, object_pairs_hook=tuple)  # a number that occurs twice is found later
        except ValueError as error:
            raise ExportError(f"{path}: not JSON ({error})") from None
    return list(content) if isinstance(content, tuple) else list(enumerate(content, start=1))


def _checked(pairs: list[tuple[Any, Any]], n_features: int, where: str) -> dict[int, str]:
    """Names by feature from 0, if all of them are names, of features the model knows, and different."""
    names: dict[int, str] = {}
    owners: dict[str, int] = {}
    for key, name in pairs:
        text = str(key).strip()
        if isinstance(key, bool) or not (text.isascii() and text.isdigit()):
            raise ExportError(
                f"{where}: {printable(text)!r} is no feature number; expected 1, 2 and so on, as in LETOR files"
            )
        number = int(text)
        if not 1 <= number <= n_features:
            raise ExportError(f"{where}: feature {number} is not known; the model has features 1 to {n_features}")
        if not isinstance(name, str) or name != name.strip() or not name or not name.isprintable():
            raise ExportError(
                f"{where}: feature {number} is called {printable(repr(name))}; expected a name on one line"
            )
        if number - 1 in names:
            raise ExportError(f"{where}: feature {number} is named twice")
        if name in owners:
            raise ExportError(f"{where}: features {owners[name]} and {number} are both called {name!r}")
        owners[name] = number
        names[number - 1] = name
    return names


def ranker_names(ranker: Ranker, naming: Naming | None = None) -> Names:
    """The names given for an export, else those of the ranker's training data (`feature_names_in_`)."""
    names = [str(name) for name in ranker.feature_names_in_]
    if naming is not None or ranker._feature_names is None:
        return feature_names(naming, len(names))
    where = "feature_names_in_ of the ranker (features= takes other names)"
    return Names(_checked(list(enumerate(names, start=1)), len(names), where), given=True, own=True)


@dataclass
class ExportJob:
    """The input of the function of an export target.

    Attributes:
        ranker: the trained ranker.
        names: of its features.
        name: what the model is called in the target.
        tree_format: of trees in es-ltr.
        features: the names in the file by the number of the feature from 1; filled in by `label`.
        notes: what to know before using the file; append to it.
    """

    ranker: Ranker
    names: Names
    name: str
    tree_format: str = TREE_FORMATS[0]
    features: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def model(self) -> Model:
        """The model that the ranker learned."""
        return self.ranker.model_

    def label(self, features: Sequence[int]) -> list[str]:
        """The names of the features (counted from 0) that the file mentions; an error where one has none."""
        labels = self.names.of(features)
        self.features = {feature + 1: label for feature, label in zip(features, labels, strict=True)}
        return labels

    def label_all(self) -> None:
        """For a target that lists every feature, if names were given: those that the model uses must have one."""
        if self.names.given:
            self.names.of(self.used_features())
            self.label(sorted(self.names.by_feature))

    def used_features(self) -> list[int]:
        """The features (counted from 0) that the score depends on; all of them for a network."""
        model = self.model
        if isinstance(model, LinearModel):
            used = np.flatnonzero((model.coefficients != 0.0) & (model.scaler.inverse != 0.0))
            if not len(used):
                raise ExportError("model: every coefficient is 0, so it ranks nothing; train it first")
        elif isinstance(model, TreesModel):
            used = np.flatnonzero(model.booster.feature_importance("split"))
        else:
            used = np.arange(model.n_features)
        return [int(feature) for feature in used]

    def note_float32(self) -> None:
        """For a target that sums in float32: say what that does to unscaled features."""
        if self.model.scaler.kind == "none":
            self.notes.append(
                "search engines sum unscaled features in float32, which loses small differences of large values; "
                "normalize='standard' keeps them"
            )


@dataclass(frozen=True)
class Target:
    """A format that `write` can produce.

    Attributes:
        name: what `to` and `--to` call it.
        extensions: usual endings of its files.
        models: which models it takes: "linear", "lambdamart", "mlp".
        normalize: which scalings of features it can hold: "query", "standard", "none".
        features: how it identifies features, for the table in the documentation.
        description: one line for the same table.
        convert: from the job to the content of the file.
    """

    name: str
    extensions: tuple[str, ...]
    models: tuple[str, ...]
    normalize: tuple[str, ...]
    features: str
    description: str
    convert: Callable[[ExportJob], str | bytes]

    def check(self, model: Model) -> None:
        """Raise an error for a model that the target cannot represent, with advice on what to train instead."""
        if isinstance(model, BlendModel | SpecialisedModel):
            what, part = ("a blend of two rankers", "new")
            if isinstance(model, SpecialisedModel):
                what, part = "a general ranker with rankings of their own for some queries", "general"
            raise ExportError(
                f"ranker: {what}, which no target holds; expected one model, such as that in part-{part} of its folder"
            )
        kind = "linear" if isinstance(model, LinearModel) else "lambdamart" if isinstance(model, TreesModel) else "mlp"
        if kind not in self.models:
            raise ExportError(
                f"model: {self.name} takes {' and '.join(self.models)} models, not {kind}; train one of those, or "
                "export to onnx"
            )
        if model.scaler.kind not in self.normalize:
            how = "within each query" if model.scaler.kind == "query" else "by mean and standard deviation"
            others = " or ".join(f"normalize={each!r}" for each in self.normalize)
            raise ExportError(
                f"normalize={model.scaler.kind!r}: {self.name} cannot scale features {how}; train with "
                f"{others}, or export to onnx"
            )


_REGISTRY: dict[str, Target] = {}
TARGETS: Mapping[str, Target] = MappingProxyType(_REGISTRY)
"""The export targets by name; `register_target` adds one."""


def register_target(target: Target) -> Target:
    """Register a target for `write` and `counterrank export`; its name must be new.

    >>> def to_lines(job):
    ...     return "".join(f"{weight:g}\\n" for weight in job.model.coefficients)
    >>> lines = Target("lines", (".txt",), ("linear",), ("none",), "by place", "one coefficient a line", to_lines)
    >>> register_target(lines).name in TARGETS
    True
    >>> _ = unregister_target("lines")
    """
    if target.name in _REGISTRY:
        raise ExportError(f"target {target.name!r}: registered already; choose another name")
    _REGISTRY[target.name] = target
    return target


def unregister_target(name: str) -> Target:
    """Remove a target and return it.

    >>> unregister_target("nothing")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.ExportError: target 'nothing': not registered
    """
    if name not in _REGISTRY:
        raise ExportError(f"target {name!r}: not registered")
    return _REGISTRY.pop(name)


def target_table() -> list[str]:
    """The registered targets as lines of a Markdown table, as docs/how-to/export.md shows it.

    >>> target_table()[2]
    '| `onnx` | ONNX Runtime and whatever else reads ONNX | .onnx | yes | yes | yes | by place | all, per query too |'
    """
    models = ("linear", "lambdamart", "mlp")
    lines = [f"| target | for | files | {' | '.join(models)} | features | scaling it can hold |"]
    lines.append("|" + "---|" * lines[0].replace("|", "", 1).count("|"))
    for target in _REGISTRY.values():
        takes = " | ".join("yes" if model in target.models else "no" for model in models)
        scaling = ", ".join(f"`{kind}`" for kind in target.normalize)
        scaling = "all, per query too" if len(target.normalize) == 3 else scaling
        cells = (f"`{target.name}`", target.description, ", ".join(target.extensions), takes, target.features, scaling)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


@dataclass(frozen=True)
class Exported:
    """The result of `write`: the file, the target, the names in it by the number of the feature from 1, and notes."""

    path: Path
    to: str
    features: dict[int, str]
    notes: tuple[str, ...]


def write(
    ranker: Ranker,
    path: PathLike,
    to: str = "onnx",
    features: Naming | None = None,
    name: str = "counterrank",
    tree_format: str = "xgboost",
) -> Exported:
    """Export a trained ranker in the format of another system; the write is atomic.

    Arguments:
        ranker: a trained `Ranker`.
        path: the file to write.
        to: "onnx", "es-ltr", "solr", "lightgbm" (trees), "json" (linear), or the name of a registered target.
        features: what the features are called there: a file, a mapping from their numbers in LETOR files (from 1), or a
            list in order. Those that the model does not use need no name. None for the names in the training data,
            feature_1 and so on where it had none.
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
    target = TARGETS[check_choice(to, tuple(TARGETS), "to")]
    check_choice(tree_format, TREE_FORMATS, "tree_format")
    if tree_format != TREE_FORMATS[0] and not (to == "es-ltr" and isinstance(ranker.model_, TreesModel)):
        raise ExportError(f"tree_format={brief(tree_format)}: is for trees in es-ltr; leave it out")
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ExportError(f"name={printable(repr(name))}: expected a name on one line")
    job = ExportJob(ranker, ranker_names(ranker, features), name, tree_format)
    target.check(job.model)
    try:
        content = target.convert(job)
    except RecursionError:
        raise ExportError("trees: too deep to be written; train with max_depth") from None
    if not job.names.given and job.features:
        job.notes.append("features are called feature_1, feature_2 and so on, since no names were given")
    with atomic_file(path) as temporary:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return Exported(Path(path), to, job.features, tuple(job.notes))

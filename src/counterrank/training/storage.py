"""A saved ranker: a folder with `model.json` and plain numpy arrays; no pickle, no code. Its provenance: the data, the
clicks and the settings it was trained with.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.origin import Origin, join_origins
from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import (
    CounterrankError,
    DataError,
    MissingExtraError,
    ModelError,
    brief,
    installed_version,
)
from counterrank.common.files import PathLike, atomic_folder, existing, read_stamp
from counterrank.common.random import HashSample
from counterrank.data import RankingData
from counterrank.data.features import check_feature_names
from counterrank.data.ids import identity, query_keys
from counterrank.losses import NamedLoss
from counterrank.models.linear import LinearModel
from counterrank.models.model import NORMALIZE, Model, Scaler, read_array
from counterrank.models.neural import NeuralModel
from counterrank.models.trees import TreesModel
from counterrank.training.problem import KINDS, kind_of

if TYPE_CHECKING:
    from counterrank.training.ranker import Ranker


FORMAT = "counterrank-ranker"
VERSION = 1
MARKER, PARTS = "model.json", ("*.npy", "trees.txt", "part-*")
WEIGHTS_GIVEN = "weights given"
_QUERIES, _SESSIONS = 4096, 16384  # of which a ranker keeps hashes


def save_ranker(ranker: Ranker, path: PathLike) -> None:
    """Write the folder whole or not at all; an older ranker in its place is replaced."""
    model = ranker.model_
    arrays = {**model.vectors(), "low": model.scaler.low, "inverse": model.scaler.inverse}
    if ranker._importances is not None:
        arrays["importances"] = ranker._importances
    content = {
        "format": FORMAT,
        "version": VERSION,
        "model": ranker.kind_,
        "n_features": ranker.n_features_,
        "feature_names": ranker._feature_names,
        "query_column": ranker.query_column_,
        "normalize": model.scaler.kind,
        "settings": _settings(ranker),
        "loss": ranker.loss_,
        "metric": ranker.metric_,
        "learning_rate": ranker.learning_rate_,
        "best_epoch": ranker.best_epoch_,
        "constant_features": None if ranker.constant_features_ is None else ranker.constant_features_.tolist(),
        "history": [{key: _finite(value) for key, value in row.items()} for row in ranker.history_],
        "arrays": {name: f"{name}.npy" for name in arrays},
        "provenance": ranker.provenance_,
    }
    with atomic_folder(path, MARKER, PARTS) as folder:
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
        content["content"] = model.write(folder)
        (folder / MARKER).write_text(json.dumps(content, indent=1, default=_plain) + "\n", encoding="utf-8")


def load_ranker(ranker_class: type[Ranker], path: PathLike, module: Any = None) -> Ranker:
    """Read a folder written by `save_ranker`; anything that is not understood is an error that names it.

    A module of the user's own is put into a copy of `module`, which says how it is built.
    """
    folder = existing(path, "ranker")
    content = read_stamp(folder, MARKER, FORMAT, VERSION, "Ranker.save", ModelError)
    name = content.get("model")
    if not isinstance(name, str) or name not in KINDS:
        raise ModelError(f"{folder / MARKER}: model {name!r}; this counterrank knows {', '.join(KINDS)}")
    check_module(module, name, folder)
    try:
        kind = str(content["normalize"])
        if kind not in NORMALIZE:
            raise ModelError(f"{path}: normalize is {kind!r}; this version knows {', '.join(NORMALIZE)}")
        n_features = int(content["n_features"])
        arrays = {name: read_array(folder, file, (n_features,)) for name, file in content["arrays"].items()}
        ranker = ranker_class(**_check_settings(content["settings"], path))
        if module is not None:
            ranker.model = module
        elif ranker.model != name:
            raise ModelError(f"{path}: model {name!r}, but {ranker.model!r} in its settings; the file is damaged")
        ranker.model_, ranker.kind_ = _restore(folder, content, arrays, module), name
        ranker._importances = arrays.get("importances")
        ranker.n_features_ = n_features
        ranker._feature_names = _names(content.get("feature_names"), n_features, path)
        ranker._query_column = _text(content.get("query_column"), "query_column", path)
        ranker.loss_ = str(content.get("loss", ranker.loss))  # not there in rankers saved by earlier versions
        ranker.metric_ = content["metric"]
        ranker.learning_rate_ = float(content["learning_rate"])
        ranker.best_epoch_ = int(content["best_epoch"])
        ranker.constant_features_ = _columns(content.get("constant_features"), n_features, path)
        ranker.history_ = [dict(row) for row in list(content["history"])]
        ranker.provenance_ = read_provenance(content.get("provenance", {}))  # version 0.1 recorded none
    except (MissingExtraError, ModelError):
        raise
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{path}: model.json lacks or misuses {error}; the file is damaged") from None
    return ranker


def write_part(ranker: Ranker, folder: Path, name: str) -> None:
    """Write a ranker that is a part of another one, in a folder of its own."""
    save_ranker(ranker, folder / f"part-{name}")


def read_part(folder: Path, name: str) -> Ranker:
    """Read what `write_part` wrote."""
    from counterrank.training.ranker import Ranker

    return Ranker.load(folder / f"part-{name}")


def check_module(module: Any, saved: str, path: PathLike) -> None:
    """A module where one of the user's own was saved, and none where the library knows what was."""
    if saved != "module":
        if module is not None:
            raise CounterrankError(f"module: {path} holds a model of kind {saved!r}; leave module out")
        return
    if module is None:
        raise ModelError(
            f"{path}: a torch module of your own; its tensors are stored, its code is not: "
            "Ranker.load(path, module=...) takes a module built like the one that was trained"
        )
    if isinstance(module, str) or kind_of(module).name != "module":
        raise CounterrankError(
            f"module: {brief(module)}; expected a torch.nn.Module built like the one that was trained"
        )


def _restore(folder: Path, content: dict[str, Any], arrays: dict[str, FloatArray], module: Any) -> Model:
    scaler = Scaler(content["normalize"], arrays["low"], arrays["inverse"])
    if content["model"] == "linear":
        return LinearModel(arrays["coefficients"], scaler)
    n_features = int(content["n_features"])
    if content["model"] == "blend":
        from counterrank.training.blending import BlendModel

        return BlendModel.restore(folder, content["content"])
    if content["model"] == "specialised":
        from counterrank.training.specialisation import SpecialisedModel

        return SpecialisedModel.restore(folder, content["content"])
    if content["model"] == "lambdamart":
        return TreesModel.restore(folder, content["content"], n_features, scaler)
    return NeuralModel.restore(folder, content["content"], n_features, scaler, module)


def _settings(ranker: Ranker) -> dict[str, Any]:
    """The arguments of the constructor, as far as JSON can hold them."""
    loss = ranker.loss.name if isinstance(ranker.loss, NamedLoss) else ranker.loss
    seed = None if isinstance(ranker.seed, np.random.Generator) else int(ranker.seed)  # a generator has none to write
    others = {name: value for name, value in ranker.get_params().items() if name != "threads"}
    return {**others, "loss": loss, "model": ranker.kind_, "seed": seed}


def _check_settings(settings: dict[str, Any], path: PathLike) -> dict[str, Any]:
    """Settings a ranker can be made with; `fit` checks the others."""
    if settings["loss"] is not None and not isinstance(settings["loss"], str):
        raise ModelError(f"{path}: loss is {settings['loss']!r} in model.json; expected a name")
    if settings["seed"] is None:
        return {**settings, "seed": 0}
    if type(settings["seed"]) is not int or settings["seed"] < 0:
        raise ModelError(f"{path}: seed is {settings['seed']!r} in model.json; expected a whole number of at least 0")
    return settings


def _columns(numbers: Any, n_features: int, path: PathLike) -> IntArray | None:
    """Columns in rising order; None for rankers saved by earlier versions."""
    if numbers is None:
        return None
    given = numbers if isinstance(numbers, list) else [-1]
    rising = all(type(number) is int for number in given) and given == sorted(set(given))
    if not rising or (given and not 0 <= given[0] <= given[-1] < n_features):
        raise ModelError(
            f"{path}: constant_features is {numbers!r:.60} in model.json; expected columns from 0 to {n_features - 1} "
            "in rising order"
        )
    return np.array(given, np.int64)


def _names(names: Any, n_features: int, path: PathLike) -> tuple[str, ...] | None:
    """Names of features; None for rankers trained without, or saved by earlier versions."""
    if names is None:
        return None
    try:
        return check_feature_names(names if isinstance(names, list) else [names], n_features)
    except DataError as error:
        raise ModelError(f"{path}: {error} in model.json; the file is damaged") from None


def _text(value: Any, name: str, path: PathLike) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ModelError(f"{path}: {name} is {value!r:.60} in model.json; expected a text")
    return value


def _finite(value: Any) -> Any:
    """JSON knows no infinity: the loss of an epoch that diverged is written as null."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _plain(value: Any) -> Any:
    """A numpy number as Python's own, which JSON can hold."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)


def provenance(ranker: Ranker, inputs: dict[str, Any]) -> dict[str, Any]:
    """What `Ranker.provenance_` holds, as JSON can hold it; `inputs` are those of `describe_inputs`."""
    seed = ranker.seed
    return {
        "version": installed_version(),
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": None,
        **copy.deepcopy(inputs),  # rankers that share them may be changed
        "estimator": None,
        "loss": ranker.loss_,
        "k": ranker.k,
        "model": ranker.kind_,
        "metric": ranker.metric_,
        "learning_rate": ranker.learning_rate_,
        "best_epoch": ranker.best_epoch_,
        "seed": int(seed) if not hasattr(seed, "integers") else None,
    }


def describe_inputs(
    data: RankingData, validation: RankingData | None, clicks: Sequence[ClickCounts] | None
) -> dict[str, Any]:
    """What a ranker learns from, for its provenance; `clicks` is None where only weights were given."""
    return {
        "data": describe_data(data),
        "validation": None if validation is None else describe_data(validation),
        "features": list(data.feature_names),
        "clicks": WEIGHTS_GIVEN if clicks is None else describe_clicks(clicks),
    }


def describe_data(data: RankingData) -> dict[str, Any]:
    """Which queries: where they come from, a digest of their ids, and a sample of their keys."""
    return {
        "path": data.source,
        "identity": identity(data),
        "queries": data.n_queries,
        "documents": data.n_docs,
        "feature_names": list(data.feature_names) if data.has_feature_names else None,
        "missing_values": data.n_missing,
        "query_keys": HashSample.of(query_keys(data)).reduced(_QUERIES).describe(),
    }


def share_seen(provenance: dict[str, Any], data: RankingData) -> float | None:
    """The share of the queries of the data that are in a provenance, of training and of validation together."""
    if not provenance:
        return None
    queries = HashSample.of(query_keys(data, provenance.get("features")))
    parts = [provenance[name] for name in ("data", "validation") if provenance[name] is not None]
    return min(1.0, sum(queries.share_in(HashSample.from_description(part["query_keys"])) for part in parts))


def describe_clicks(clicks: Sequence[ClickCounts]) -> dict[str, Any]:
    """Which clicks: how many, of which policies, where they come from, and a sample of their sessions."""
    policies = dict.fromkeys(name for counts in clicks for name in counts.distinct_policies)
    return {
        "sessions": sum(counts.n_sessions for counts in clicks),
        "clicks": sum(counts.n_clicks for counts in clicks),
        "policies": list(policies),
        **join_origins([counts.known_origin() for counts in clicks]).reduced(_SESSIONS).describe(),
    }


def join_clicks(parts: Sequence[dict[str, Any] | str | None]) -> dict[str, Any] | str | None:
    """The clicks of several provenances together, so that estimates from any of them are recognised as in-sample.

    >>> join_clicks([None, "weights given"])
    'weights given'
    """
    known = [part for part in parts if isinstance(part, dict)]
    if not known:
        return next((part for part in parts if part is not None), None)
    return {
        "sessions": sum(part["sessions"] for part in known),
        "clicks": sum(part["clicks"] for part in known),
        "policies": list(dict.fromkeys(name for part in known for name in part["policies"])),
        **join_origins([Origin.from_description(part) for part in known]).reduced(_SESSIONS).describe(),
    }


def check_clicks(clicks: Any, parts: Sequence[RankingData] | None = None) -> list[ClickCounts] | None:
    """The clicks that weights come from: one `ClickCounts` or several, each of one of these parts of the data.

    >>> check_clicks(None) is None
    True
    """
    if clicks is None:
        return None
    given = clicks if isinstance(clicks, list | tuple) else [clicks]
    if not given:
        raise CounterrankError("clicks: an empty list; expected the ClickCounts that the weights come from, or None")
    counts = [check_counts(each) for each in given]
    known = None if parts is None else {identity(part) for part in parts}
    for i, each in enumerate(counts):
        if known is not None and each.identity not in known:
            raise CounterrankError(f"clicks: number {i} is of other data; expected those that the weights come from")
    return counts


def read_provenance(content: Any) -> dict[str, Any]:
    """The provenance of a saved ranker, if it can be understood; {} where there is none.

    >>> read_provenance({})
    {}
    """
    found = dict(content)
    if found:
        for name in ("data", "validation"):
            if found[name] is not None:
                HashSample.from_description(found[name]["query_keys"])
        if isinstance(found["clicks"], dict):
            Origin.from_description(found["clicks"])
        elif found["clicks"] not in (None, WEIGHTS_GIVEN):
            raise ValueError("clicks")
    return found

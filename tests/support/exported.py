"""Rankers made without training, what exports of them say, and the data sets to ask about."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

import counterrank as cr
from counterrank.models import Scaler
from tests.support.paths import SHARED, needs_shared

FOLDERS = {"ohsumed": "ohsumed/Fold1", "mq2008": "mq2008/Fold1", "mslr": "mslr-sample"}
DATA_SETS = [pytest.param(name, marks=needs_shared, id=name) for name in FOLDERS]


def read_part(name, part):
    data = cr.read_letor(SHARED / FOLDERS[name] / f"{part}.txt.gz")
    train = data if part == "train" else cr.read_letor(SHARED / FOLDERS[name] / "train.txt.gz")
    return data if data.n_features == train.n_features else data.widened(train.n_features)


def plain_scaler(n_features):
    return Scaler("none", np.zeros(n_features), np.ones(n_features))


def names_of(n_features):
    return [f"name {number}" for number in range(n_features)]


def ranker_of(model, kind, **settings):
    """A ranker that has this model, as if it had been trained."""
    ranker = cr.Ranker(model=kind, **settings)
    ranker.model_ = model
    ranker.n_features_ = model.n_features
    ranker.kind_ = kind
    ranker.loss_ = ranker._named_loss().name
    ranker.metric_, ranker.learning_rate_, ranker.best_epoch_, ranker.history_ = "dcg", 0.1, 1, []
    ranker._importances = None
    return ranker


def written(ranker, to, **options):
    """What the exported file holds: text, or bytes for ONNX."""
    with tempfile.TemporaryDirectory() as folder:
        cr.export.write(ranker, Path(folder) / "model", to=to, **options)
        content = (Path(folder) / "model").read_bytes()
    return content if to == "onnx" else content.decode("utf-8")


def onnx_scores(content, data):
    """Scores by onnxruntime, query by query."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    parts = [
        session.run(["scores"], {"features": data.features[start:end]})[0]
        for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True)
    ]
    assert all(part.dtype == np.float64 for part in parts)
    return np.concatenate(parts)


def check_ranking(scores, expected, data, share):
    """Scores differ by at most this share of the query's range; documents further apart than that keep their order."""
    for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        ours, theirs = expected[start:end], scores[start:end].astype(np.float64)
        allowed = share * (ours.max() - ours.min())
        assert np.abs(ours - theirs).max() <= allowed
        order = np.argsort(-theirs, kind="stable")
        best_below = np.maximum.accumulate(ours[order][::-1])[::-1]  # the best of what is ranked here or further down
        assert (best_below - ours[order] <= allowed).all()

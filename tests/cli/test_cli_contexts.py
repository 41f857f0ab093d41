"""`--context` in the commands that read logs."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterrank import examination, make_ranking_data, policies, simulation
from counterrank.clicks.counts import ClickCounts
from tests.support.command import as_json, invoke, run

CURVES = {"pc": [1.0, 0.6, 0.4], "phone": [0.8, 0.2, 0.1]}
DATA = "synthetic:yahoo:queries=30,seed=1"
SHOWN = ("--policy", "uniform-insert:k=3", "--logger", "feature:1")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A log of two devices, one of them alone, and the curves that `inspect` finds."""
    folder = tmp_path_factory.mktemp("contexts")
    data = make_ranking_data("yahoo", n_queries=30, seed=1)
    tables = []
    for i, (device, curve) in enumerate(CURVES.items()):
        file = folder / f"{device}.parquet"
        simulation.write_log(data, data.features[:, 0], policies.UniformInsert(k=3), curve, file, sessions=10_000,
                             seed=i, first_session=10_000 * i, propensities=False)  # fmt: skip
        table = pq.read_table(file)
        tables.append(table.append_column("device", pa.array([device] * len(table))))
    (folder / "log").mkdir()
    pq.write_table(pa.concat_tables(tables), folder / "log" / "train.parquet")
    invoke("inspect", folder / "log", "--context", "device", "--examination-out", folder / "curves.json")
    return folder


def test_inspect_shows_curves_side_by_side(place, tmp_path):
    page = tmp_path / "page.html"
    result = invoke("inspect", place / "log", "--context", "device", "--out", page)
    assert "Examination curves by context, relative to rank 1 of pc" in result.stdout
    assert "The curves differ (p = " in result.stdout
    assert "Examination by context" in page.read_text(encoding="utf-8")
    found = as_json("inspect", place / "log", "--context", "device")
    assert found["contexts"]["p_value"] < 1e-6
    rows = {(row["context"], row["rank"]): row["P(examined)"] for row in found["contexts"]["ranks"]}
    for name, curve in CURVES.items():
        np.testing.assert_allclose([rows[name, rank] for rank in (1, 2, 3)], curve, rtol=0.15)
    assert any("Users examine ranks differently in the contexts pc, phone" in each["text"] for each in found["verdict"])
    assert as_json("inspect", place / "log")["contexts"] is None


def test_curves_are_written_and_read(place):
    assert examination.load(place / "curves.json").contexts == ("pc", "phone")
    content = json.loads((place / "curves.json").read_text())
    assert content["estimate"]["sessions_by_context"] == {"pc": 10_000, "phone": 10_000}


def test_counts_keep_contexts(place, tmp_path):
    invoke("aggregate", place / "log", "--data", DATA, "--context", "device", "--out", tmp_path / "counts")
    assert ClickCounts.load(tmp_path / "counts" / "train").contexts == ("pc", "phone")
    curve = ("--examination", place / "curves.json")
    log, counts = (
        as_json("rates", *source, "--data", DATA, *curve)
        for source in ((place / "log", "--context", "device"), (tmp_path / "counts",))
    )
    assert log["top"] == counts["top"]
    assert log["examination"]["phone"] == counts["examination"]["phone"]
    assert "phone: 0." in invoke("rates", tmp_path / "counts", "--data", DATA, *curve).stderr


def test_training_and_estimates_use_the_curves(place, tmp_path):
    given = (*SHOWN, "--context", "device", "--examination", place / "curves.json", "--log", place / "log")
    invoke("train", DATA, *given, "--estimator", "policy-aware", "--out", tmp_path / "ranker")
    found = as_json("estimate", tmp_path / "ranker", DATA, *given, "--part", "train", "--in-sample")
    assert found["estimates"]


def test_what_is_missing(place, tmp_path):
    curve = ("--examination", place / "curves.json")
    plain = run("train", DATA, "--log", place / "log", *SHOWN, *curve, "--out", tmp_path / "ranker")
    assert plain.returncode == 2
    assert "expected clicks of a log read with --context" in plain.stderr
    invoke("aggregate", place / "log", "--out", tmp_path / "counts")
    counts = run("inspect", tmp_path / "counts", "--context", "device")
    assert counts.returncode == 2
    assert "was counted without contexts" in counts.stderr
    missing = run("inspect", place / "log", "--context", "size")
    assert missing.returncode == 2
    assert "no column 'size' for the context" in missing.stderr

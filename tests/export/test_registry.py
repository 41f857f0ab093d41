"""The registry of export targets: a target of the user's own, and what is generated from it."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import counterrank as cr
from counterrank.cli import app
from counterrank.export import TARGETS, Target, register_target, target_table, unregister_target
from counterrank.models import LinearModel
from tests.support.exported import plain_scaler, ranker_of

ROOT = Path(__file__).parents[2]


def to_csv(job):
    used = job.used_features()
    job.notes.append("coefficients only")
    return "".join(f"{label},{job.model.coefficients[i]:g}\n" for i, label in zip(used, job.label(used), strict=True))


@pytest.fixture
def toy():
    target = register_target(Target("toy-csv", (".csv",), ("linear",), ("none",), "by name", "spreadsheets", to_csv))
    yield target
    unregister_target(target.name)


def linear(kind="none"):
    scaler = plain_scaler(3)
    return ranker_of(LinearModel(np.array([1.0, 0.0, -2.0]), type(scaler)(kind, scaler.low, scaler.inverse)), "linear")


def test_a_target_of_ones_own(toy, tmp_path):
    exported = cr.export.write(linear(), tmp_path / "model.csv", to="toy-csv", features={1: "price", 3: "age"})
    assert (tmp_path / "model.csv").read_text() == "price,1\nage,-2\n"
    assert exported.features == {1: "price", 3: "age"}
    assert exported.notes == ("coefficients only",)
    assert "toy-csv" in TARGETS
    assert any(line.startswith("| `toy-csv` | spreadsheets | .csv | yes | no | no |") for line in target_table())


def test_what_it_does_not_take_is_refused_for_it(toy, tmp_path):
    with pytest.raises(cr.CounterrankError, match="toy-csv cannot scale features within each query; train with norm"):
        cr.export.write(linear("query"), tmp_path / "model.csv", to="toy-csv")
    assert list(tmp_path.iterdir()) == []


def test_a_name_is_registered_once(toy):
    with pytest.raises(cr.CounterrankError, match="target 'toy-csv': registered already"):
        register_target(toy)


def test_an_unknown_target_is_refused_with_the_names_of_all(tmp_path):
    with pytest.raises(cr.CounterrankError, match=r"expected one of 'onnx', 'es-ltr', 'solr', 'lightgbm', 'json'$"):
        cr.export.write(linear(), tmp_path / "model", to="lucene")


def test_the_table_in_the_documentation_is_the_registry():
    assert "\n".join(target_table()) in (ROOT / "docs" / "how-to" / "export.md").read_text(encoding="utf-8")


def test_the_help_of_the_command_names_every_target():
    """It is generated from the registry when help is printed."""
    text = CliRunner().invoke(app, ["export", "--help"]).output
    assert [name for name in TARGETS if name not in text] == []

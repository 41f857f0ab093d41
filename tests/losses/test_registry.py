"""A loss of one's own, added through the registry without touching the library."""

import numpy as np
import pytest

import counterrank as cr
from counterrank import losses
from tests.support.command import as_json


@pytest.fixture
def reciprocal():
    yield losses.register_loss(losses.make_lambdaloss("lambdaloss-reciprocal", lambda ranks: 1.0 / ranks))
    del losses.LOSSES["lambdaloss-reciprocal"]


def test_a_registered_loss_trains_by_its_name(reciprocal, tmp_path):
    data = cr.make_ranking_data("yahoo", n_queries=10, seed=0)
    weights = cr.estimators.full_information(data, 3)
    named, given = (
        cr.Ranker(loss, max_epochs=2).fit(data, weights).predict(data) for loss in ("lambdaloss-reciprocal", reciprocal)
    )
    assert np.array_equal(named, given)
    data.save(tmp_path / "data.parquet")
    options = ("--loss", "lambdaloss-reciprocal", "--max-epochs", 1, "--out", tmp_path / "ranker")
    assert as_json("train", tmp_path / "data.parquet", *options)["loss"] == "lambdaloss-reciprocal"


def test_every_loss_states_its_formula_and_equation():
    for name, loss in losses.LOSSES.items():
        assert name == loss.name
        assert loss.formula
        assert loss.equation.startswith(("eq:", "Burges", "lambdarank")) or loss.equation

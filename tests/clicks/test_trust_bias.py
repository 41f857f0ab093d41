"""Affine users estimated from a log: the result, and the fit."""

import json

import numpy as np
import pytest

from counterrank import examination
from counterrank.clicks.trust_bias import EstimatedAffine, TrustTest
from counterrank.common.errors import CounterrankError, DataError


def made(**more):
    given = {
        "alpha_interval": [[0.5, 0.7], [0.2, 0.4]],
        "beta_interval": [[0.1, 0.2], [0.0, 0.1]],
        "method": "documents",
        "target": "queries",
        "confidence": 0.95,
        "n_sessions": 100,
        "n_queries": 10,
        "n_documents": 50,
        "n_clicks": 30,
        "warnings": ("few clicks",),
        "test": TrustTest(4.0, 1, 0.0455),
    }
    return EstimatedAffine([0.28, 0.1617], [0.41, 0.1764], **{**given, **more})


@pytest.mark.parametrize("more", [{}, {"test": None, "warnings": ()}, {"ratio_interval": [[1, 1], [0.5, 0.6]]}])
def test_files_hold_the_whole_estimate(tmp_path, more):
    users = made(**more)
    users.save(tmp_path / "users.json")
    again = examination.load(tmp_path / "users.json")
    assert isinstance(again, EstimatedAffine)
    assert again == users == examination.Affine([0.28, 0.1617], [0.41, 0.1764])
    assert again.facts() == users.facts()
    assert again.test == users.test
    assert repr(again) == repr(users)
    assert again.ratios.tolist() == (users.alpha / users.alpha[0]).tolist()


def test_broken_files_are_named(tmp_path):
    path = tmp_path / "users.json"
    made().save(path)
    content = json.loads(path.read_text())
    for change in ({"alpha_interval": [[0, 1]]}, {"test": {"p": 1}}, {"alpha": "no"}, {"surprise": 1}, {"model": "?"}):
        path.write_text(json.dumps(content | change))
        with pytest.raises(DataError, match=r"users\.json"):
            examination.load(path)


def test_estimates_show_themselves():
    users = made()
    summary = users.summary()
    assert summary["warnings"] == ["few clicks"]
    assert summary["intervals"]["beta, rank 2"] == (0.0, 0.1)
    assert summary["p_value_of_position_based"] == 0.0455
    assert "few clicks" in users._repr_html_()
    assert users.plot().to_dict()
    assert not users.alpha_interval.flags.writeable
    with pytest.raises(CounterrankError, match="alpha_interval"):
        made(alpha_interval=np.zeros((3, 2)))

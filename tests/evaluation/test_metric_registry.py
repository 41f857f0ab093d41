"""The registry of metrics, and what is generated from it."""

import re
from pathlib import Path

import pytest

from counterrank import CounterrankError
from counterrank.evaluation import METRICS, metric_table, parse_metric, rank_values

ROOT = Path(__file__).parents[2]


def test_every_form_of_a_name_is_parsed():
    for kind in METRICS.values():
        for name in kind.names:
            assert parse_metric(name.replace("@k", "@3")) == (kind.name, 3 if "@" in name else None)


def test_metrics_without_a_value_by_rank_are_refused_with_the_names_of_the_others():
    for kind in METRICS.values():
        name = kind.names[-1].replace("@k", "@3")
        if kind.values is None:
            with pytest.raises(CounterrankError, match=r"expected arp, dcg, dcg@k, precision@k$"):
                rank_values(name, 5)
        else:
            assert len(rank_values(name, 5)) == 5


def test_the_table_in_the_documentation_is_the_registry():
    assert "\n".join(metric_table()) in (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")


def test_the_help_of_the_command_names_the_metrics_that_clicks_can_estimate():
    text = (ROOT / "src" / "counterrank" / "cli" / "options.py").read_text(encoding="utf-8")
    (line,) = re.findall(r"Metrics = .*option\(\"(.*?)\"", text)
    assert [name for kind in METRICS.values() if kind.values for name in kind.names if name not in line] == []

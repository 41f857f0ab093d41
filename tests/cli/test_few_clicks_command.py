"""`counterrank reproduce few-clicks`, as a user runs it."""

import json
import os
import subprocess
import sys

import pytest

from counterrank.common.errors import CounterrankError
from counterrank.experiments import reproduction
from counterrank.experiments.reproduction import choose_settings
from counterrank.experiments.run_folder import RESULTS, read_results
from tests.support.command import attempt, invoke
from tests.support.paths import ROOT

DATA = "synthetic:mslr:queries=60"
TINY = (
    "--quick", "--n-sessions", "100,1000", "--runs", 2, "--max-epochs", 2, "--learning-rate", 1, "--queries", 30,
    "--estimators", "auto, policy-aware, doubly-robust:tau=0.03",
)  # fmt: skip


class Reached(Exception):
    """Raised instead of running anything; holds what would have been run."""


@pytest.fixture
def settings_of(monkeypatch):
    def stop(data, out, settings, *, jobs, engine, device, notes, until_decided):
        raise Reached(settings)

    monkeypatch.setattr(reproduction, "reproduce", stop)

    def reach(*options):
        with pytest.raises(Reached) as reached:
            invoke("reproduce", *options, "--data", DATA, "--out", "run")
        return reached.value.args[0]

    return reach


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ((), {}),
        (("--n-sessions", "100,1e3"), {"sessions": (100, 1000)}),
        (("--estimators", "auto, shrinkage:strength=2.0"), {"estimators": ("auto", "shrinkage:strength=2")}),
        (("--runs", 3, "--production-seed", 4), {"runs": 3, "production_seed": 4}),
        (("--max-epochs", 7, "--clip", "grid"), {"max_epochs": 7, "clip": "grid"}),
    ],
)
def test_options_reach_the_settings(settings_of, options, given):
    assert settings_of("few-clicks", *options) == choose_settings("few-clicks", given=given)


def test_the_paper_is_the_default(settings_of):
    assert settings_of() == settings_of("paper") == choose_settings()
    assert settings_of("few-clicks", "--preset", "few-clicks-ohsumed").targets[10**7] == 0.85
    assert settings_of("few-clicks", "--preset", "ohsumed", "--quick").relevance_threshold == 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("few-clicks", "--n-clicks", "100"), "--n-clicks: applies to paper only"),
        (("few-clicks", "--figures", "2"), "--figures: applies to paper only"),
        (("few-clicks", "--clicks-by-k", "10"), "--clicks-by-k: applies to paper only"),
        (("paper", "--n-sessions", "100"), "--n-sessions: applies to few-clicks and safety only"),
        (("--estimators", "auto"), "--estimators: applies to few-clicks only"),
        (("few-clicks", "--n-sessions", "1000,100"), "--n-sessions 1000,100: expected"),
        (("few-clicks", "--estimators", "affine"), "--estimators: 'affine'; expected some of"),
        (("few-clicks", "--estimators", ""), "estimators=: expected different estimators"),
        (("many-clicks",), "EXPERIMENT many-clicks: expected one of"),
        (("--preset", "few-clicks"), "--figures 5: those of few-clicks"),
    ],
)
def test_bad_options_are_refused(tmp_path, arguments, message):
    with pytest.raises(CounterrankError) as caught:
        invoke("reproduce", *arguments, "--data", DATA, "--out", tmp_path / "run")
    assert message in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A tiny run where nothing is installed that draws, reads logs or grows trees."""
    folder = tmp_path_factory.mktemp("few")
    for name in ("altair", "duckdb", "lightgbm", "vl_convert", "jinja2", "torch"):
        (folder / f"{name}.py").write_text(f"raise ImportError('no {name} here')\n")
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = ["reproduce", "few-clicks", "--data", DATA, "--out", folder / "run", *TINY, "--no-report", "--jobs", 2]
    result = subprocess.run(
        [sys.executable, "-m", "counterrank", *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        cwd=ROOT,
    )
    return folder / "run", result


@pytest.mark.process
def test_cells_need_nothing_that_draws(finished):
    folder, result = finished
    assert result.returncode == 0, result.stderr
    assert f"16 of 16 cells done. For the report: counterrank report {folder}" in result.stderr + result.stdout
    assert {file.name for file in folder.iterdir()} <= {"run.json", RESULTS, "workers.log"}


@pytest.mark.process
def test_a_run_that_was_cut_goes_on(finished, tmp_path):
    folder, _ = finished
    (tmp_path / "run").mkdir()
    lines = (folder / RESULTS).read_bytes().splitlines(keepends=True)
    (tmp_path / "run" / "run.json").write_bytes((folder / "run.json").read_bytes())
    (tmp_path / "run" / RESULTS).write_bytes(b"".join(lines[:12]) + lines[12][:40])
    again = ("reproduce", "few-clicks", "--data", DATA, "--out", tmp_path / "run", *TINY, "--no-report", "--jobs", 1)
    content = json.loads(invoke(*again, "--json").stdout)
    assert (content["cells"]["done"], content["cells"]["failed"], content["report"]) == (16, 0, None)
    assert (tmp_path / "run" / RESULTS).read_bytes().startswith(b"".join(lines[:12]))
    before, after = read_results(folder), read_results(tmp_path / "run")
    assert before.keys() == after.keys()
    times = {"seconds": 0, "stages": {}}
    assert all({**before[key], **times} == {**after[key], **times} for key in before)


@pytest.mark.process
def test_the_report_is_made_elsewhere(finished):
    folder, _ = finished
    content = json.loads(invoke("report", folder, "--json").stdout)
    assert content["cells"]["done"] == 16
    page = (folder / "report.html").read_text()
    assert "What auto chose" in page
    assert "Learning to rank from few clicks" in page
    assert "Of the gap between production and full information auto closes" in page
    claims = json.loads((folder / "claims.json").read_text())["claims"]
    assert claims[0]["id"] == "auto-near-best-fixed"
    rows = (folder / "figures" / "figure5.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * (3 * 2 + 2)  # two panels of three curves at two sizes, and two levels
    assert (folder / "figures" / "figure5.svg").is_file()


@pytest.mark.process
def test_another_experiment_does_not_go_on_in_the_folder(finished):
    folder, _ = finished
    before = (folder / "run.json").read_bytes()
    arguments = ("--figures", 2, "--n-clicks", 100, "--runs", 1, "--queries", 30, "--jobs", 1, "--no-report")
    with pytest.raises(CounterrankError, match="holds a run of another experiment; choose another folder"):
        attempt("reproduce", "--data", DATA, "--out", folder, *arguments)
    assert (folder / "run.json").read_bytes() == before

"""`counterrank reproduce` and `counterrank report`, as a user runs them."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from counterrank import report as reporting
from counterrank.cli import app
from counterrank.common.errors import CounterrankError
from counterrank.experiments import reproduction
from counterrank.experiments.cells import Cell
from counterrank.experiments.run_folder import RESULTS, read_results, read_run
from counterrank.experiments.settings import QUICK, Settings, read_preset
from tests.support.command import invoke, run

DATA = "synthetic:yahoo:queries=60"
TINY = (
    "--n-clicks",
    "100",
    "--pages",
    "5",
    "--clicks-by-k",
    "100",
    "--max-epochs",
    "2",
    "--runs",
    "1",
    "--clip",
    "none",
)


# What reaches the library --------------------------------------------------------------------------------------------


class Reached(Exception):
    """Raised instead of running anything; holds what would have been run."""


@pytest.fixture
def arguments_of(monkeypatch):
    """A function from options to what `reproduce` would have been called with."""

    def stop(data, out, settings, *, jobs, engine, device, notes, until_decided):
        raise Reached(data, out, settings, jobs, engine, {**notes, "until_decided": until_decided})

    monkeypatch.setattr(reproduction, "reproduce", stop)

    def reach(*options):
        with pytest.raises(Reached) as reached:
            invoke("reproduce", "--data", DATA, "--out", "run", *options)
        return reached.value.args

    return reach


OPTIONS = [
    (("--figures", "3,1"), "figures", (1, 3)),
    (("--runs", 7), "runs", 7),
    (("--seed", 8), "seed", 8),
    (("--pages", "1, 1e1"), "ks", (1, 10)),
    (("--clicks-by-k", "1e9"), "clicks_by_k", 10**9),
    (("--n-clicks", "1e2,1000,1e9"), "clicks", (100, 1000, 10**9)),
    (("--page", 3), "page", 3),
    (("--k", 7), "cutoff", 7),
    (("--losses", "dcg-hinge, lambdarank"), "losses", ("dcg-hinge", "lambdarank")),
    (
        ("--policies", "0.5*deterministic:k=5+0.5*plackett-luce:k=5,temperature=2; replace-last:k=5;"),
        "policies",
        ("0.5*deterministic:k=5+0.5*plackett-luce:k=5,temperature=2", "replace-last:k=5"),
    ),
    (("--relevance-threshold", 2), "relevance_threshold", 2.0),
    (("--production-share", 0.5), "production_share", 0.5),
    (("--production-norm", 3), "production_norm", 3.0),
    (("--production-seed", 3), "production_seed", 3),
    (("--production-seed", "each"), "production_seed", None),
    (("--eta", 0), "eta", 0.0),
    (("--noise", "0,0.9"), "noise", (0.0, 0.9)),
    (("--users", "baidu"), "users", "baidu"),
    (("--validation-share", 0.3), "validation_share", 0.3),
    (("--max-epochs", 9), "max_epochs", 9),
    (("--patience", 4), "patience", 4),
    (("--tolerance", 0), "tolerance", 0.0),
    (("--learning-rate", 0.5), "learning_rate", 0.5),
    (("--learning-rate", "auto"), "learning_rate", "auto"),
    (("--clip", "schedule:a=-3,b=32"), "clip", "schedule:a=-3,b=32"),
    (("--clips", 3), "clips", 3),
    (("--queries", 30), "queries", 30),
    (("--test-queries", 40), "test_queries", 40),
]


@pytest.mark.parametrize(("options", "name", "value"), OPTIONS)
def test_every_option_reaches_the_settings_and_no_other(arguments_of, options, name, value):
    settings = arguments_of(*options)[2]
    assert settings == Settings(**{name: value})
    assert getattr(settings, name) == value


def test_every_setting_has_an_option():
    named = {name for _, name, _ in OPTIONS}
    others = {"sessions", "estimators", "methods"}  # of other experiments, see test_few_clicks.py and test_safety.py
    assert named == {known.name for known in fields(Settings)} - others - {
        "learning_rates",
        "targets",
    }  # these in a preset


def test_nothing_said_is_the_paper(arguments_of):
    data, out, settings, jobs, engine, notes = arguments_of()
    assert (data, out, settings) == ([DATA], Path("run"), Settings())
    assert (jobs, engine) == (None, None)
    assert (notes["preset"], notes["quick"], notes["until_decided"]) == (None, False, False)


def test_several_folds_and_jobs(arguments_of):
    data, *_, jobs, _, _ = arguments_of("--data", "other", "--jobs", 3)
    assert (data, jobs) == ([DATA, "other"], 3)


def test_defaults_then_the_preset_then_quick_then_options(arguments_of, tmp_path):
    (tmp_path / "mine.toml").write_text("runs = 9\nmax_epochs = 77\neta = 2\ncutoff = 3\n")
    *_, settings, _, _, notes = arguments_of("--preset", tmp_path / "mine.toml", "--quick", "--max-epochs", 5, "--k", 4)
    assert settings.eta == 2.0  # the preset wins over defaults
    assert settings.runs == QUICK["runs"]  # quick wins over the preset
    assert (settings.max_epochs, settings.cutoff) == (5, 4)  # what was said wins over both
    assert settings.queries == QUICK["queries"]
    assert (notes["quick"], notes["preset"]) == (True, str(tmp_path / "mine.toml"))


@pytest.mark.parametrize("name", ["paper-yahoo", "paper-mslr", "ohsumed", "mq2008", "mslr-sample"])
def test_presets_by_name(arguments_of, name):
    settings = arguments_of("--preset", name)[2]
    assert settings == Settings(**read_preset(name))


@pytest.mark.parametrize("step", [2.0, "auto"])
def test_a_learning_rate_wins_over_all_those_of_a_preset(arguments_of, step):
    settings = arguments_of("--preset", "paper-mslr", "--learning-rate", step)[2]
    assert {settings.learning_rate_for(figure, loss) for figure in (1, 2, 3, 4) for loss in settings.losses} == {step}
    assert settings.clip == "schedule:a=-57,b=86"


# Bad options ---------------------------------------------------------------------------------------------------------

BAD_OPTIONS = [
    (("--figures", "1,2,9"), "--figures 1,2,9: expected some of 1,2,3,4, separated by commas"),
    (("--figures", "1-3"), "--figures 1-3: expected some of 1,2,3,4, separated by commas"),
    (("--figures", ""), "figures=: expected some of"),
    (("--n-clicks", "1e2,1e2"), "--n-clicks 100,100: expected numbers of clicks, each larger"),
    (("--n-clicks", "1.5"), "--n-clicks 1.5: expected a whole number"),
    (("--n-clicks", "1e14"), "--n-clicks 100000000000000: expected numbers of clicks"),
    (("--clicks-by-k", "lots"), "--clicks-by-k lots: expected a whole number"),
    (("--pages", "0,1"), "--pages 0: expected a whole number of at least 1"),
    (("--runs", "0"), "--runs 0: expected"),
    (("--noise", "0.1"), "--noise 0.1: expected 2 numbers separated by a comma"),
    (("--noise", "1,0.1"), "--noise 1.0,0.1: expected 2 probabilities, rising"),
    (("--losses", "hinge"), "--losses hinge: expected one of"),
    (("--losses", ","), "losses=: expected different losses"),
    (("--policies", "random"), "--policies random: unknown"),
    (("--policies", "2*replace-last:k=5"), "shares"),
    (("--learning-rate", "fast"), "--learning-rate fast: expected auto or a number"),
    (("--learning-rate", "nan"), "--learning-rate nan: expected auto or a number above 0"),
    (("--production-seed", "-1"), "--production-seed -1: expected each or a whole number"),
    (("--clip", "some"), "--clip some: expected grid, none"),
    (("--preset", "nonsense"), "--preset nonsense: no such file; expected one of few-clicks"),
    (("--engine", "dask"), "--engine dask: expected one of"),
    (("--master", "local[2]"), "--master: requires --engine spark"),
    (("--engine", "spark"), "--engine spark: requires --master"),
    (("--jobs", "0"), "--jobs 0: expected a whole number of at least 1"),
    (("--engine", "spark", "--master", "local[2]", "--jobs", "-1"), "--jobs -1: expected a whole number of at least 1"),
    (("--data", "no/such/fold"), "no/such/fold"),
    (("--relevance-threshold", "7"), "--relevance-threshold 7: no document is relevant"),
    (("--nonsense", "1"), "No such option"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_bad_options_are_refused(tmp_path, options, message):
    result = CliRunner().invoke(app, ["reproduce", "--data", DATA, "--out", str(tmp_path / "run"), *options])
    if isinstance(result.exception, SystemExit):  # of the parser of options, which has said it already
        assert (result.exit_code, message in result.output.replace("\n", " ")) == (2, True)
    else:
        assert isinstance(result.exception, CounterrankError)
        assert message in str(result.exception)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("reproduce", "--data", DATA, "--out", "run", "--runs", "0"),
            "counterrank: --runs 0: expected a whole number",
        ),
        (
            ("reproduce", "--data", DATA, "--out", "run", "--runs", "many"),
            "counterrank: --runs: expected a whole number",
        ),
        (("reproduce", "--out", "run"), "counterrank: Missing option '--data'"),
        (("reproduce", "--data", DATA, "--out", "file"), "counterrank: file: is a file; expected a folder"),
        (("reproduce", "--data", DATA, "--out", "file/run"), "counterrank: file/run: "),
        (("report", "nowhere"), "counterrank: nowhere: no such run folder"),
        (("report", "."), "counterrank: .: no run.json in it; expected a folder written by counterrank reproduce"),
        (("report", "file"), "counterrank: file: no run.json in it"),
    ],
)
def test_errors_are_one_line(tmp_path, arguments, message):
    (tmp_path / "file").write_text("something")
    result = run(*arguments, folder=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


# Whole runs ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A quick run of all figures, made smaller still."""
    folder = tmp_path_factory.mktemp("reproduce") / "run"
    result = run("reproduce", "--data", DATA, "--out", folder, "--quick", *TINY, "--jobs", 2)
    return folder, result


def test_a_run_says_what_came_of_it(finished):
    folder, result = finished
    assert result.returncode == 0, result.stderr
    assert f"The report is at {folder / 'report.html'}." in result.stderr + result.stdout
    assert "What the paper found (and what it left open), and whether it holds here" in result.stdout
    assert re.search(r"\d+ hold, \d+ do not, \d+ lack evidence; the numbers are in claims.md", result.stderr)
    assert "Traceback" not in result.stderr


def test_what_a_run_leaves(finished):
    folder, _ = finished
    about = json.loads((folder / "run.json").read_text())
    assert (about["quick"], about["preset"]) == (True, None)
    assert about["command"].startswith("counterrank reproduce --data synthetic:yahoo:queries=60")
    claims = json.loads((folder / "claims.json").read_text())
    assert (claims["format"], claims["quick"], claims["runs"]) == ("counterrank-claims", True, 1)
    assert {claim["verdict"] for claim in claims["claims"]} <= {"holds", "does not hold", "not enough evidence"}
    assert "<html" in (folder / "report.html").read_text()
    endings = {file.suffix for file in (folder / "figures").iterdir()}
    assert {".png", ".svg", ".csv"} <= endings
    assert not (folder / "data").exists()
    assert read_run(folder).missing() == []


def test_the_report_again_and_as_json(finished, monkeypatch):
    folder, _ = finished
    before = (folder / "claims.json").read_text()
    (folder / "claims.json").unlink()
    monkeypatch.setattr(reporting, "write_report", lambda summary, out: [out / "report.html"])
    content = json.loads(invoke("report", folder, "--json").stdout)
    assert content["files"] == [str(folder / "report.html"), str(folder / "claims.json")]
    assert content["cells"]["done"] == content["cells"]["wanted"]
    assert (folder / "claims.json").read_text() == before


def test_the_report_of_an_unfinished_run(finished, tmp_path):
    """Also of one that has not a single result."""
    folder, _ = finished
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_bytes((folder / "run.json").read_bytes())
    lines = (folder / RESULTS).read_bytes().splitlines(keepends=True)
    for kept in (0, len(lines) // 2):
        (tmp_path / "run" / RESULTS).write_bytes(b"".join(lines[:kept]) + b'{"key": "cut sh')
        content = json.loads(invoke("report", tmp_path / "run", "--json").stdout)
        assert content["cells"]["done"] == kept
        assert "<html" in (tmp_path / "run" / "report.html").read_text()


def test_json_of_a_run_that_was_finished_before(finished, monkeypatch):
    folder, _ = finished
    monkeypatch.setattr(reporting, "write_report", lambda summary, out: [out / "report.html"])
    before = (folder / RESULTS).read_bytes()
    content = json.loads(invoke("reproduce", "--data", DATA, "--out", folder, "--quick", *TINY, "--json").stdout)
    assert (folder / RESULTS).read_bytes() == before
    assert content["cells"]["failed"] == 0
    assert content["report"] == str(folder / "report.html")
    assert set(content["claims"].values()) <= {"holds", "does not hold", "not enough evidence"}


def test_cells_that_fail_are_reported_and_tried_again(tmp_path, monkeypatch):
    """One line in the end, after the report of all the others."""
    written = []
    monkeypatch.setattr(
        reporting, "write_report", lambda summary, out: [written.append(summary), out / "report.html"][1:]
    )
    command = ("reproduce", "--data", DATA, "--out", tmp_path / "run", "--figures", 2, *TINY, "--learning-rate", 1e200,
               "--jobs", 1)  # fmt: skip
    for times in (1, 2):
        with pytest.raises(CounterrankError) as caught:
            invoke(*command)
        assert str(caught.value).startswith("14 cells failed, the first: rerank, ")
        assert "training diverged" in str(caught.value)
        assert str(caught.value).endswith("; the same command tries them again")
        assert len((tmp_path / "run" / RESULTS).read_text().splitlines()) == 1 + 14 * times
    assert written[-1].cells.done == 1
    assert [Cell.from_plain(row["cell"]).estimator for row in read_results(tmp_path / "run").values()
            if "metrics" in row] == ["production"]  # fmt: skip


@pytest.mark.parametrize("command", ["reproduce", "report"])
def test_help_shows_an_example(command):
    assert f"Example: counterrank {command}" in invoke(command, "--help").output

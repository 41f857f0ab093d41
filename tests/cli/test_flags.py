"""Flags: help that fits the screen, old spellings, and messages in the language of the command."""

import re
import warnings

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import counterrank as cr
from counterrank.cli import app
from counterrank.cli.command import DEPRECATED, PANELS, choices, in_flags, registry, with_new_spellings
from counterrank.cli.output import show_warnings
from tests.support.command import attempt, invoke, run

COMMANDS = get_command(app).commands
DATA = "synthetic:mslr:queries=40"


def help_of(command, columns):
    return CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": str(columns), "TERM": "dumb"}).stdout


def options(command):
    return {flag: each for each in COMMANDS[command].params for flag in (*each.opts, *each.secondary_opts)}


# Help


@pytest.mark.parametrize("columns", [80, 110])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_all_of_everything(command, columns):
    shown = help_of(command, columns)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= columns
    for name, option in options(command).items():
        if option.param_type_name == "option" and not option.hidden:
            assert re.search(rf"{re.escape(name)}\b", shown), name
    assert not re.search(r"\{\w+\}", shown)


def test_help_of_all_fits_too():
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80", "TERM": "dumb"}).stdout
    assert "…" not in shown
    assert all(command in shown for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_basics_come_first(command):
    found = [title for line in help_of(command, 80).splitlines() for title in re.findall(r"─ ([A-Z][\w ]+?) ─", line)]
    assert found == [name for name in ("Arguments", *PANELS) if name in found]
    assert "Example: counterrank" in help_of(command, 80)


@pytest.mark.process
def test_help_of_all_imports_no_registry():
    code = "import sys; from counterrank.cli import app; app(['--help'], standalone_mode=False)"
    done = run_python(code + "; print([name for name in ('numba', 'pyarrow') if name in sys.modules])")
    assert done.splitlines()[-1] == "[]"


def run_python(code):
    import subprocess
    import sys

    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("command", "name"),
    [("train", "losses"), ("train", "estimators"), ("train", "policies"), ("train", "formats"), ("export", "targets")],
)
def test_choices_come_from_registries(command, name):
    shown = " ".join(help_of(command, 110).replace("│", " ").split())
    assert choices(name) in shown
    assert all(each in shown for each in registry(name))


# One meaning for each flag


def test_a_flag_is_a_switch_everywhere_or_nowhere():
    kinds = {}
    for command in COMMANDS:
        for name, option in options(command).items():
            if option.param_type_name == "option":
                kinds.setdefault(name, set()).add(option.is_flag)
    assert [name for name, found in kinds.items() if len(found) > 1] == []


def test_a_flag_has_one_placeholder():
    kinds = {}
    for command in COMMANDS:
        for name, option in options(command).items():
            if option.param_type_name == "option" and not option.is_flag:
                kinds.setdefault(name, set()).add(option.metavar)
    several = {name: found for name, found in kinds.items() if len(found) > 1}
    # a number, or several of them; a level of evidence, or several; users to fit, or to simulate; a format, or a folder
    assert set(several) <= {"--n-clicks", "--n-sessions", "--production-seed", "--evidence", "--users", "--to"}


# Old spellings


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [(command, old, new) for command in DEPRECATED for old, new in DEPRECATED[command].items()],
)
def test_old_spellings_still_work(command, old, new, capsys):
    assert old not in options(command)
    assert new in options(command)
    assert with_new_spellings(command, ["x", old, "1", f"{old}=2", "--", old]) == ["x", new, "1", f"{new}=2", "--", old]
    assert capsys.readouterr().err == f"Note: {old} is deprecated; use {new}\n" * 2


def test_old_spellings_on_the_command(tmp_path):
    (tmp_path / "scores").mkdir()
    ranker = tmp_path / "ranker"
    invoke("train", DATA, "--loss", "arp-hinge", "--max-epochs", 1, "--learning-rate", 1, "--out", ranker)
    old = ("--sessions", 200, "--trust", 0.5, "--log")
    result = invoke("simulate", DATA, "--logger", ranker, *old, "--out", tmp_path / "log")
    assert result.stderr.startswith("Note: --sessions is deprecated; use --n-sessions\nNote: --trust is deprecated")
    assert (tmp_path / "log" / "train.parquet").is_file()
    read = invoke("aggregate", tmp_path / "log", "--data", DATA, "--trust", "--out", tmp_path / "clicks")
    assert "Note: --trust is deprecated; use --skip-page-checks" in read.stderr
    estimate = ("estimate", ranker, DATA, "--clicks", tmp_path / "clicks", "--metrics", "dcg@5")
    old, new = (invoke(*estimate, flag, "these-queries", "--json") for flag in ("--target", "--population"))
    assert old.stdout == new.stdout


# Messages

FLAGS = {"examination": "--examination", "k": "--k", "population": "--population", "policy": "--policy", "data": "DATA"}


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("exam: shape (2, 2); expected 1 dimension", "--examination: shape (2, 2); expected 1 dimension"),
        ("k=0: expected a whole number", "--k 0: expected a whole number"),
        ("k=10,5: expected rising numbers", "--k 10,5: expected rising numbers"),
        ("fold: train: target=all: expected", "fold: train: --population all: expected"),
        ("target='all': expected one of queries", "--population all: expected one of queries"),
        ("policy 'best': unknown; expected k=5", "--policy best: unknown; expected k=5"),
        ("exam, rho: expected one of the two", "--examination, --policy: expected one of the two"),
        ("data: no labels", "DATA: no labels"),
        ("offsets: not sorted", "offsets: not sorted"),
        ("offsets, k: not sorted", "offsets, k: not sorted"),
        ("3 queries: too few; see target='queries'", "3 queries: too few; see --population queries"),
        ("model: holds scaling; train with normalize='none'", "model: holds scaling; train with --normalize none"),
        ("policy 'replace-last:k=5': seen k='x'", "--policy replace-last:k=5: seen k='x'"),
        ("clicks/train: exists", "clicks/train: exists"),
    ],
)
def test_arguments_are_named_as_flags(message, named):
    assert in_flags(message, FLAGS) == named


def test_a_file_called_as_an_argument_is_a_file(tmp_path):
    assert in_flags("data: exists; choose another name", FLAGS, ["data"]) == "data: exists; choose another name"
    (tmp_path / "clicks").mkdir()
    (tmp_path / "clicks" / "notes.txt").write_text("mine")
    arguments = ("simulate", DATA, "--logger", "x", "--n-clicks", 5, "--out", "clicks")
    assert run(*arguments, folder=tmp_path).stderr.startswith("counterrank: clicks: exists and is not")


def test_errors_keep_their_kind():
    with pytest.raises(FileNotFoundError, match="nowhere: no such ranking data") as caught:
        attempt("train", "nowhere", "--out", "never-written")
    assert isinstance(caught.value, cr.CounterrankError)


def test_the_cutoff_of_a_policy_is_not_that_of_the_loss(tmp_path):
    fixed = ("simulate", DATA, "--logger", "x", "--n-clicks", 5, "--out", tmp_path / "new")
    with pytest.raises(cr.CounterrankError, match="--policy replace-last:k=0: k=0: expected a whole number"):
        attempt(*fixed, "--policy", "replace-last:k=0")


def test_warnings_are_lines(capsys):
    with show_warnings():
        warnings.warn("exam: hardly\n supported", stacklevel=1)
        warnings.warn("exam: hardly supported", stacklevel=1)
        warnings.warn("no query 'a  b'", stacklevel=1)  # blanks of ids are kept
    assert capsys.readouterr().err == "Warning: exam: hardly supported\nWarning: no query 'a  b'\n"

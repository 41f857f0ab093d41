"""What the README and the docs show works as shown."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from counterrank.cli import app
from counterrank.cli.command import registry
from tests.support.paths import ROOT

DOCS = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts]
PAGES = [ROOT / "README.md", *DOCS]
SMALLER = " --runs 1 --figures 2 --queries 60 --max-epochs 2"  # the same command in seconds


def name_of(page):
    return str(page.relative_to(ROOT))


def text(page):
    return (ROOT / page).read_text(encoding="utf-8")


def links(page):
    return re.findall(r"\]\((?!http)([^)#]+)[^)]*\)", text(page))


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", text(page), flags=re.DOTALL)


def commands(page):
    """The commands that a page shows, those in several lines as one."""
    lines = [line for block in blocks(page, "sh") for line in block.replace("\\\n", " ").splitlines()]
    return [line.partition(" #")[0] for line in lines if line.startswith("counterrank ")]


def run_example(code, page, folder, monkeypatch):
    monkeypatch.chdir(folder)
    exec(compile(code, page, "exec"), {})


# The README itself


def test_the_readme_is_short():
    assert len(text("README.md").splitlines()) <= 150
    assert "Only Linux is tested" in text("README.md")


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    (code,) = blocks("README.md", "python")
    assert len(code.splitlines()) <= 15
    run_example(code, "README.md", tmp_path, monkeypatch)
    assert "dcg@5" in capsys.readouterr().out
    assert (tmp_path / "ranker" / "model.json").is_file()


# Examples in Python


def test_the_example_of_the_library_runs(tmp_path, monkeypatch, capsys):
    run_example(blocks("docs/how-to/library.md", "python")[0], "library.md", tmp_path, monkeypatch)
    assert "dcg@5" in capsys.readouterr().out
    assert (tmp_path / "ranker" / "model.json").is_file()


def test_the_example_of_other_models_runs(tmp_path, monkeypatch, capsys):
    for package in ("lightgbm", "onnx", "torch"):
        pytest.importorskip(package)
    run_example(blocks("docs/how-to/library.md", "python")[1], "library.md", tmp_path, monkeypatch)
    assert "features that count most" in capsys.readouterr().out
    assert (tmp_path / "trees.onnx").is_file()


def test_the_example_of_few_clicks_runs(tmp_path, monkeypatch, capsys):
    run_example(blocks("docs/how-to/library.md", "python")[2], "library.md", tmp_path, monkeypatch)
    assert "over 36 queries" in capsys.readouterr().out


def test_the_example_of_many_rankers_runs(tmp_path, monkeypatch, capsys):
    run_example(blocks("docs/how-to/library.md", "python")[4], "library.md", tmp_path, monkeypatch)
    assert capsys.readouterr().out.count("Ranker(") == 8


def test_the_example_of_names_and_missing_values_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("lightgbm")
    run_example(blocks("docs/how-to/library.md", "python")[5], "library.md", tmp_path, monkeypatch)
    shown = capsys.readouterr().out
    assert "['price' 'rating'] query" in shown
    assert "missing values (NaN), the first is feature 'rating'" in shown


def test_the_example_of_click_rates_runs(tmp_path, monkeypatch, capsys):
    run_example(blocks("docs/how-to/library.md", "python")[3], "library.md", tmp_path, monkeypatch)
    assert "ClickRates(" in capsys.readouterr().out
    assert (tmp_path / "rates.parquet").is_file()


@pytest.mark.filterwarnings("ignore::counterrank.evaluation.IntervalWarning")
def test_the_example_of_notebooks_runs(tmp_path, monkeypatch, capsys):
    run_example(blocks("docs/how-to/library.md", "python")[6], "library.md", tmp_path, monkeypatch)
    assert "queries with sessions" in capsys.readouterr().out
    assert (tmp_path / "rates.html").is_file()


@pytest.mark.parametrize(
    "page",
    [
        # whole reproductions, in several processes
        pytest.param(page, marks=pytest.mark.process) if page.name == "reproduce.md" else page
        for page in DOCS
        # whose blocks stand on each other, or on files
        if page.name
        not in ("library.md", "data-formats.md", "guide-dataframes.md", "compared-with.md", "safe-training.md")
    ],
    ids=name_of,
)
def test_the_examples_of_the_docs_run(page, tmp_path, monkeypatch):
    for code in blocks(page, "python"):
        run_example(code, page.name, tmp_path, monkeypatch)


# Commands


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_have_the_flags_they_show(page):
    known = {
        name: {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
        for name, command in get_command(app).commands.items()
    }
    for line in commands(page):
        _, command, *words = shlex.split(line)
        flags = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert flags <= known[command], line


@pytest.mark.process
def test_the_commands_run_in_their_order(tmp_path, monkeypatch):
    """`reproduce` among them, which starts others; of all of them those of the guide run in `make test`."""
    monkeypatch.chdir(tmp_path)
    # the others need data sets that cannot be shipped
    lines = [line for line in commands("docs/how-to/commands.md") if "synthetic:" in line or " trees " in line]
    assert len(lines) >= 12
    for line in lines:
        line += SMALLER if line.startswith("counterrank reproduce") else ""
        result = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
        assert result.exit_code == 0, (line, result.output)
        assert "deprecated" not in result.stderr
    assert (tmp_path / "run.trec").stat().st_size > 0


def test_every_command_of_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = commands("docs/tutorials/guide-own-log.md")
    assert all("synthetic:" in line or "inspect" in line for line in lines)
    assert len(lines) == sum(block.count("counterrank ") for block in blocks("docs/tutorials/guide-own-log.md", "sh"))
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
        assert result.exit_code == 0, (line, result.output)
        assert "rho differs" not in result.stderr, line  # the curve is estimated, the policies are right


@pytest.mark.filterwarnings("ignore::counterrank.evaluation.IntervalWarning")
@pytest.mark.parametrize("page", ["only-labels", "start-logging", "new-ranker"])
def test_every_command_of_the_pages_by_need_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = f"docs/how-to/{page}.md"
    lines = commands(page)
    assert len(lines) == sum(block.count("counterrank ") for block in blocks(page, "sh")) >= 2
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
        assert result.exit_code == 0, (line, result.output)
        assert "deprecated" not in result.stderr, line


def test_users_are_fitted_and_simulated_as_the_page_of_users_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = commands("docs/concepts/users.md")
    assert [shlex.split(line)[1] for line in lines] == ["train", "simulate", "inspect", "simulate", "plan"]
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
        assert result.exit_code == 0, (line, result.output)


@pytest.mark.filterwarnings("ignore::counterrank.evaluation.IntervalWarning")
@pytest.mark.process
def test_users_are_fitted_to_the_log_as_the_page_shows(tmp_path, monkeypatch):
    """Its `estimate` fits users once for each group of queries; tests/cli/test_cli_users.py is quick."""
    monkeypatch.chdir(tmp_path)
    lines = commands("docs/how-to/fitted-users.md")
    assert [shlex.split(line)[1] for line in lines] == ["train", "simulate", "train", "estimate", "select"]
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
        assert result.exit_code == 0, (line, result.output)
        assert ("users fitted to the log: affine" in result.stderr) == ("--users auto" in line), line


def test_rankers_are_compared_online_as_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = commands("docs/how-to/compare-online.md")
    assert [shlex.split(line)[1] for line in lines] == ["train", "train", "simulate", "estimate"]
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
        assert result.exit_code == 0, (line, result.output)
    assert "candidate is better than production: dcg@3 per session +0.0306" in result.stderr + result.stdout
    run_example("\n".join(blocks("docs/how-to/compare-online.md", "python")), "compare.md", tmp_path, monkeypatch)
    credit, difference = capsys.readouterr().out.splitlines()
    assert credit.startswith("0.0899")
    assert difference.startswith("-0.567")


def test_the_examples_of_safe_training_run(tmp_path, monkeypatch, capsys):
    run_example("\n".join(blocks("docs/how-to/safe-training.md", "python")), "safe-training.md", tmp_path, monkeypatch)
    assert "0.5 production + 0.5 new" in capsys.readouterr().out
    assert (tmp_path / "specialised" / "model.json").is_file()


@pytest.mark.process
def test_training_is_safe_as_the_page_shows(tmp_path, monkeypatch):
    """What it prints, too; tests/cli/test_safety_command.py is quick."""
    monkeypatch.chdir(tmp_path)
    lines = commands("docs/how-to/safe-training.md")
    assert [shlex.split(line)[1] for line in lines] == ["train", "simulate", "train", "simulate", "specialise"]
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
        assert result.exit_code == 0, (line, result.output)
        if "--production" in line:
            assert "0.5 production + 0.5 new is better by 0.032" in result.stderr
    assert "17 of 179 tested queries" in result.stdout


def test_the_page_of_data_formats_runs_from_top_to_bottom(tmp_path, monkeypatch):
    """Its commands read what its examples in Python write."""
    monkeypatch.chdir(tmp_path)
    names = {}
    page = re.findall(r"```(python|sh)\n(.*?)```", text("docs/reference/data-formats.md"), flags=re.DOTALL)
    assert [language for language, _ in page].count("sh") == 3
    for language, code in page:
        if language == "python":
            exec(compile(code, "data-formats.md", "exec"), names)
            continue
        for line in code.replace("\\\n", " ").splitlines():
            result = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
            assert result.exit_code == 0, (line, result.output)
    assert (tmp_path / "run.csv").stat().st_size > 0


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=name_of)
def test_no_line_begins_with_a_per_cent_sign(page):
    """The site would take it for a comment, and leave it out."""
    assert [line for line in text(page).splitlines() if line.lstrip().startswith("%")] == []


# Tables


def generator():
    """docs/tables.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tables_are_those_of_the_registries(page):
    assert generator().updated(text(page)) == text(page), "run python docs/tables.py"


def test_the_check_of_tables_can_fail():
    wrong = "<!-- table: losses -->\n| loss |\n<!-- end -->\n"
    assert "`arp-hinge`" in generator().updated(wrong)
    assert generator().updated("no table") == "no table"


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("docs/reference/log-formats.md", "formats"),
        ("docs/how-to/export.md", "targets"),
        ("README.md", "estimators"),
    ],
)
def test_tables_name_every_entry(page, name):
    first = re.findall(r"^\| `([\w-]+)`", text(page), flags=re.MULTILINE)
    assert first[: len(registry(name))] == list(registry(name))


# Links

LINKS = [(page.relative_to(ROOT), link) for page in PAGES for link in links(page)]


@pytest.mark.parametrize(("page", "link"), LINKS, ids=[f"{page}:{link}" for page, link in LINKS])
def test_links_lead_somewhere(page, link):
    assert (ROOT / page.parent / link).exists()


@pytest.mark.filterwarnings(
    "ignore::counterrank.common.errors.CoverageWarning", "ignore::counterrank.evaluation.IntervalWarning"
)
@pytest.mark.filterwarnings("ignore:frame. dropped")
@pytest.mark.parametrize("place", [0, 1], ids=["pandas", "polars"])
def test_the_guide_of_data_frames_runs(place, tmp_path, monkeypatch, capsys):
    pytest.importorskip(("pandas", "polars")[place])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    products, impressions = importlib.import_module("shop_frames").make_frames(queries=400, sessions=40_000)
    products.to_parquet("products.parquet", index=False)
    impressions.to_parquet("impressions.parquet", index=False)
    code = blocks("docs/tutorials/guide-dataframes.md", "python")[place]
    statements = ast.parse(code).body
    assert len([each for each in statements if not isinstance(each, ast.Import | ast.ImportFrom)]) <= 14
    run_example(code, "guide-dataframes.md", tmp_path, monkeypatch)
    assert "production: dcg@5 per session" in capsys.readouterr().out

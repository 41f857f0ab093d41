"""What the README shows works as shown."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from counterrank.cli import app
from tests.support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


SMALLER = " --runs 1 --figures 2 --queries 60 --max-epochs 2"  # the same command in seconds


def links(file):
    return re.findall(r"\]\((?!http)([^)#]+)[^)]*\)", (ROOT / file).read_text(encoding="utf-8"))


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_python_example_runs(tmp_path, monkeypatch, capsys):
    code = blocks("python")[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert "dcg@5" in capsys.readouterr().out
    assert (tmp_path / "ranker" / "model.json").is_file()


def test_the_example_of_other_models_runs(tmp_path, monkeypatch, capsys):
    for package in ("lightgbm", "onnx", "torch"):
        pytest.importorskip(package)
    code = blocks("python")[1]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert "features that count most" in capsys.readouterr().out
    assert (tmp_path / "trees.onnx").is_file()


def test_the_example_of_few_clicks_runs(tmp_path, monkeypatch, capsys):
    code = blocks("python")[2]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert "ways to weigh the clicks of 36 queries" in capsys.readouterr().out


DOCS = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("file", DOCS, ids=lambda file: file.name)
def test_the_examples_of_the_docs_run(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", file.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(code, file.name, "exec"), {})


def test_the_commands_run_in_their_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("counterrank ")]
    lines = [line for line in lines if "synthetic:" in line]  # the others need data sets that cannot be shipped
    assert len(lines) >= 3
    for line in lines:
        line += SMALLER if line.startswith("counterrank reproduce") else ""
        result = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
        assert result.exit_code == 0, (line, result.output)
    assert (tmp_path / "run.trec").stat().st_size > 0


def test_every_command_of_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    guide = (ROOT / "docs" / "guide-own-log.md").read_text(encoding="utf-8")
    shown = re.findall(r"```sh\n(.*?)```", guide, flags=re.DOTALL)
    lines = [line for block in shown for line in block.splitlines() if "synthetic:" in line or "inspect" in line]
    assert len(lines) == sum(block.count("counterrank ") for block in shown)
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
        assert result.exit_code == 0, (line, result.output)
        assert "rho differs" not in result.stderr, line  # the curve is estimated, the policies are right


LINKS = [
    (file, link) for file in (Path("README.md"), *(Path("docs", file.name) for file in DOCS)) for link in links(file)
]


@pytest.mark.parametrize(("file", "link"), LINKS, ids=[f"{file}:{link}" for file, link in LINKS])
def test_links_lead_somewhere(file, link):
    assert (ROOT / file.parent / link).exists()

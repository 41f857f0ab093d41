"""The tutorials that are notebooks: the files that readers download run from top to bottom, as Jupyter runs them."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys

import pytest

from tests.support.paths import ROOT

nbclient = pytest.importorskip("nbclient", reason="needs the extra docs")
pytest.importorskip("myst_nb", reason="needs the extra docs")
DOCS = ROOT / "docs"
OF_THE_SITE = re.compile(r"\{[\w:]+\}`|\]\([\w./-]*\.md|^:::|^\([\w-]+\)=", re.MULTILINE)
NOTEBOOKS = ("few-clicks-unknown-users", "figure-2", "frames-to-decision", "trees-onnx")


@pytest.fixture(scope="module")
def notebooks():
    """docs/_site/notebooks.py, which is no part of the package."""
    sys.path.insert(0, str(DOCS))
    try:
        yield importlib.import_module("_site.notebooks")
    finally:
        sys.path.remove(str(DOCS))


def run(notebook, folder):
    """Run all cells in a process of their own, in an empty folder; without the settings of the site."""
    environment = {key: value for key, value in os.environ.items() if key != "IPYTHONDIR"}
    environment["IPYTHONDIR"] = str(folder / "ipython")
    place = folder / "work"
    place.mkdir(parents=True)
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(place)}})
    return client.execute(env=environment)


@pytest.mark.process
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name, notebooks, tmp_path):
    """An error in any cell fails."""
    done = run(notebooks.for_jupyter(DOCS / "tutorials" / f"{name}.md"), tmp_path)
    shown = json.dumps([cell.get("outputs", []) for cell in done.cells])
    assert '"text/html"' in shown
    assert "DeprecationWarning" not in shown


@pytest.mark.process
def test_an_error_in_a_cell_fails(notebooks, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("---\nfile_format: mystnb\n---\n\n# Title\n\n```{code-cell}\n1 / 0\n```\n", encoding="utf-8")
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="ZeroDivisionError"):
        run(notebooks.for_jupyter(page), tmp_path)


def test_all_notebooks_are_tested_and_listed(notebooks):
    found = [page.stem for page in notebooks.sources(DOCS)]
    assert tuple(found) == NOTEBOOKS
    index = (DOCS / "tutorials" / "index.md").read_text(encoding="utf-8").split()
    assert set(found) <= set(index)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_file_for_jupyter_has_plain_text_and_no_outputs(name, notebooks):
    notebook = notebooks.for_jupyter(DOCS / "tutorials" / f"{name}.md")
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            assert not OF_THE_SITE.search(cell.source), cell.source
        else:
            assert cell.outputs == []
            assert cell.source.strip()
    again = notebooks.for_jupyter(DOCS / "tutorials" / f"{name}.md")
    assert again == notebook  # ids of cells too


def test_roles_and_links_become_text(notebooks, tmp_path):
    (tmp_path / "other.md").write_text("# Another page\n", encoding="utf-8")
    text = "{term}`estimator`, {py:obj}`fit <a.fit>`, {ref}`eq. 13 <eq-x>`, [](other.md), [this](other.md#part), [x](https://x.org)"
    wanted = "estimator, `fit`, `eq. 13`, *Another page*, *this*, [x](https://x.org)"
    assert notebooks.plain(text, tmp_path) == wanted

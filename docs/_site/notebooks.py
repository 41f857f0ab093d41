"""Tutorials that are notebooks, as files for Jupyter: `tutorials/NAME.md` as `tutorials/NAME.ipynb`, next to the page.

The file has no outputs and no cells with the tag `remove-cell`, and its text is plain Markdown: what only the site can
show, such as links to other pages, becomes plain text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

FOLDER = "tutorials"
_HEAD = re.compile(r"\A---\nfile_format: mystnb\n")
_TITLE = re.compile(r"^# .+\n", re.MULTILINE)
_LINK = (
    '\n<p class="notebook-file"><a href="{name}.ipynb" download>Download this page as a Jupyter notebook</a>'
    " (without outputs).</p>\n"
)


def sources(docs: Path) -> list[Path]:
    """The tutorials that are notebooks."""
    pages = sorted((docs / FOLDER).glob("*.md"))
    return [page for page in pages if _HEAD.match(page.read_text(encoding="utf-8"))]


def _title(page: Path) -> str:
    found = _TITLE.search(page.read_text(encoding="utf-8"))
    return found[0][2:].strip() if found else page.stem


def plain(text: str, folder: Path) -> str:
    """Markdown of the site as Jupyter can show it: roles and links to pages become text.

    >>> plain("See {term}`estimator`, {py:obj}`estimate <a.b>` and [few clicks](../few.md).", Path())
    'See estimator, `estimate` and *few clicks*.'
    """
    text = re.sub(r"\{term\}`([^`<]+?)(?:\s+<[^`]*>)?`", r"\1", text)
    text = re.sub(r"\{[\w:]+\}`([^`<]+?)(?:\s+<[^`]*>)?`", r"`\1`", text)
    text = re.sub(r"\[\]\(([\w./-]+\.md)[#\w-]*\)", lambda match: f"*{_title(folder / match[1])}*", text)
    return re.sub(r"\[([^\]]+)\]\([\w./-]+\.md[#\w-]*\)", r"*\1*", text)


def for_jupyter(page: Path) -> Any:
    """The notebook of a page, as nbformat has it."""
    import nbformat
    from myst_nb.core.read import read_myst_markdown_notebook

    read = read_myst_markdown_notebook(page.read_text(encoding="utf-8"), path=page)
    cells = [each for each in read.cells if "remove-cell" not in each.metadata.get("tags", [])]
    for i, cell in enumerate(cells):
        cell.id = f"cell-{i}"
        cell.metadata = {}
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source, page.parent)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.validate(notebook)
    return notebook


def _add_link(app: Any, name: str, source: list[str]) -> None:
    folder, _, stem = name.rpartition("/")
    if folder == FOLDER and _HEAD.match(source[0]):
        source[0] = _TITLE.sub(lambda match: match[0] + _LINK.format(name=stem), source[0], count=1)


def _write(app: Any, exception: Exception | None) -> None:
    import nbformat

    if exception is None and app.builder.format == "html":
        for page in sources(Path(app.srcdir)):
            nbformat.write(for_jupyter(page), Path(app.outdir) / FOLDER / f"{page.stem}.ipynb")


def setup(app: Any) -> None:
    """Write the files, and link them from their pages."""
    app.connect("source-read", _add_link)
    app.connect("build-finished", _write)

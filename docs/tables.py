"""Tables of the README and the docs that come from registries: `python docs/tables.py` writes them anew.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; tests/test_readme.py checks that all are up to date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from counterrank import losses
from counterrank.clicks.logs import FORMATS
from counterrank.clicks.policies import POLICIES
from counterrank.estimators import ESTIMATORS, NEEDS

ROOT = Path(__file__).parents[1]
_TABLE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(?=<!-- end -->)", re.DOTALL)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; bars within cells are escaped."""
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def estimators() -> str:
    """What each estimator corrects for, when it is unbiased, and what it requires."""
    rows = []
    for each in ESTIMATORS.values():
        needs = [NEEDS[need].meaning for need in each.needs if need != "clicks" or each.needs == ("clicks",)]
        rows.append((f"`{each.name}`", each.summary, each.condition, ", ".join(needs)))
    return table(("estimator", "what it does", "unbiased when", "requires"), rows)


def formulas() -> str:
    """The weight of a document by estimator, and its hyperparameters."""
    rows = [
        (
            f"`{each.name}`",
            " ".join(each.formula.split()),
            "; ".join(f"`{name}`: {meaning}" for name, meaning in each.hyperparameters.items()),
        )
        for each in ESTIMATORS.values()
    ]
    return table(("estimator", "weight of document d", "hyperparameters"), rows)


def loss_functions() -> str:
    """The losses, from the first line of their docstrings."""
    rows = []
    for name, loss in losses.LOSSES.items():
        function = getattr(losses, name.replace("-", "_"), None)
        first = " ".join((getattr(function, "__doc__", None) or "").split("\n\n")[0].split()).rstrip(".")
        metric = loss.metric(None).upper()
        rows.append((f"`{name}`", first, f"{metric}@k" if loss.takes_k else metric))
    return table(("loss", "what it is", "metric"), rows)


def policies() -> str:
    """Logging policies by name."""
    rows = [(f"`{each.name}`", ", ".join(each.parameters), each.page) for each in POLICIES.values()]
    return table(("policy", "parameters", "the displayed page"), rows)


def formats() -> str:
    """Formats of click logs."""
    rows = [
        (
            f"`{each.name}`",
            each.description,
            ", ".join(f"`{ending}`" for ending in each.extensions) or "the fields of the first lines",
        )
        for each in FORMATS.values()
    ]
    return table(("format", "files", "recognised by"), rows)


TABLES: dict[str, Callable[[], str]] = {
    "estimators": estimators,
    "formats": formats,
    "formulas": formulas,
    "losses": loss_functions,
    "policies": policies,
}


def updated(text: str) -> str:
    """A page with its tables written anew."""
    return _TABLE.sub(lambda match: match[1] + TABLES[match[2]](), text)


def pages() -> list[Path]:
    """The README and the docs."""
    return [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts)]


if __name__ == "__main__":
    for page in pages():
        page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")

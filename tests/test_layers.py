"""Data flows one way: a layer imports only from itself, from layers to its left, and from `common`."""

import ast
import importlib

import pytest

import counterrank
from tests.support.paths import ROOT, TESTS

PACKAGE = ROOT / "src" / "counterrank"

# from left to right; layers that share a place do not import each other
ORDER = (
    ("common",),
    ("data",),
    ("clicks",),
    ("estimators",),
    ("losses",),
    ("evaluation", "torch"),
    ("models",),
    ("training",),
    ("export",),
    ("experiments",),
    ("report",),
    ("cli",),
)
PLACE = {layer: place for place, layers in enumerate(ORDER) for layer in layers}


def imported_names(source: str, module: str, is_package: bool) -> list[tuple[int, str]]:
    """Line and full dotted name of all that a module imports, inside functions and `if TYPE_CHECKING` too."""
    found = []
    here = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level + 1] if node.level else []
            base = ".".join(above + ([node.module] if node.module else []))
            found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__"):
            first = node.args[0] if node.args else None
            name = first.value if isinstance(first, ast.Constant) else "counterrank.?"  # not known before it runs
            found.append((node.lineno, str(name)))
    return found


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    layer = module.split(".")[1]
    if layer not in PLACE:
        return [f"{module}: {layer!r} is not a layer"]
    problems = []
    for line, name in imported_names(source, module, is_package):
        parts = name.split(".")
        if parts[0] != "counterrank":
            continue
        target = parts[1] if len(parts) > 1 else ""
        if target == layer or (target in PLACE and PLACE[target] < PLACE[layer]):
            continue
        if target not in PLACE and layer == "cli":
            continue  # the command may use the public surface, all of which lies to its left
        problems.append(f"{module}:{line} imports {name}")
    return problems


def modules():
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = ("counterrank", *file.relative_to(PACKAGE).with_suffix("").parts)
        if len(parts) > 2:  # the two files at the top only gather what lies below
            is_package = parts[-1] == "__init__"
            yield pytest.param(file, ".".join(parts[:-1] if is_package else parts), is_package, id=".".join(parts[1:]))


@pytest.mark.parametrize(("file", "module", "is_package"), list(modules()))
def test_every_module_imports_from_the_left(file, module, is_package):
    assert violations(file.read_text(encoding="utf-8"), module, is_package) == []


# modules that users import from the top: two that lie in `clicks`, and one that joins two of its modules
OTHER_NAMES = ("policies", "simulation")
TOP = (*OTHER_NAMES, "examination")


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_other_names_are_the_same_modules(name):
    module = importlib.import_module(f"counterrank.{name}")
    assert module is importlib.import_module(f"counterrank.clicks.{name}")
    assert module is getattr(counterrank, name)


def test_the_top_holds_nothing_but_the_public_surface():
    top = {path.name for path in PACKAGE.iterdir() if path.suffix == ".py"}
    assert top == {"__init__.py", "__main__.py", *(f"{name}.py" for name in TOP)}
    folders = {path.parent.relative_to(PACKAGE).parts[0] for path in PACKAGE.glob("*/*.py")}
    assert folders <= set(PLACE)


GOOD = """
from __future__ import annotations
import numpy as np
import counterrank.common.errors
from counterrank.data import RankingData
from counterrank.losses.loss_kernels import run_loss
from counterrank import data, losses
from ..common import checks
from . import spec
from .spec import LOSSES
"""


def test_the_checker_accepts_what_is_right():
    assert violations(GOOD, "counterrank.losses.lambdaloss") == []
    assert violations("from . import monotonic\nfrom .monotonic import arp_hinge", "counterrank.losses", True) == []
    assert violations("from counterrank import __version__, Ranker", "counterrank.cli.main") == []


BAD = {
    "from counterrank.training import Ranker": "counterrank.training.Ranker",
    "import counterrank.training.ranker as r": "counterrank.training.ranker",
    "from counterrank import evaluation": "counterrank.evaluation",
    "from counterrank import Ranker": "counterrank.Ranker",
    "import counterrank": "counterrank",
    "from .. import models": "counterrank.models",
    "from ..models import LinearModel": "counterrank.models.LinearModel",
    "def f():\n    from counterrank.cli import main": "counterrank.cli.main",
    "if TYPE_CHECKING:\n    from counterrank.report import page": "counterrank.report.page",
    "try:\n    import counterrank.models\nexcept ImportError:\n    pass": "counterrank.models",
    "import importlib\nimportlib.import_module('counterrank.cli')": "counterrank.cli",
    "from importlib import import_module\nimport_module('counterrank.' + name)": "counterrank.?",
}


@pytest.mark.parametrize(("source", "name"), BAD.items())
def test_the_checker_finds_what_is_wrong(source, name):
    (problem,) = violations(source, "counterrank.losses.lambdaloss")
    assert problem.startswith("counterrank.losses.lambdaloss:")
    assert problem.endswith(f" imports {name}")


def test_layers_that_share_a_place_are_apart():
    (problem,) = violations("import counterrank.torch", "counterrank.evaluation.metrics")
    assert problem == "counterrank.evaluation.metrics:1 imports counterrank.torch"


def test_common_stands_on_nothing():
    (problem,) = violations("from counterrank.data import RankingData", "counterrank.common.checks")
    assert "imports counterrank.data.RankingData" in problem


def test_an_unknown_layer_is_found():
    assert violations("import counterrank.data", "counterrank.utils.misc") == [
        "counterrank.utils.misc: 'utils' is not a layer"
    ]


@pytest.mark.parametrize("path", sorted((TESTS / "reference").glob("*.py")), ids=lambda path: path.stem)
def test_references_import_nothing_of_what_they_check(path):
    """They take what the library makes, and stand on numpy, scipy and each other."""
    found = imported_names(path.read_text(encoding="utf-8"), f"tests.reference.{path.stem}", is_package=False)
    ours = [f"{path.name}:{line}: {name}" for line, name in found if name.split(".")[0] in ("counterrank", "tests")]
    assert [text for text in ours if ": tests.reference." not in text] == []

"""The public surface: light to import, complete, documented, and free of traces of any machine."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import counterrank
from tests.support.paths import ROOT

PACKAGE = ROOT / "src" / "counterrank"
OPTIONAL = ("torch", "lightgbm", "pyspark", "onnx", "onnxruntime", "jax", "rax", "sklearn", "xgboost", "altair")
HEAVY = ("numba", "pyarrow", "rich", "typer")


def all_modules() -> list[str]:
    found = pkgutil.walk_packages([str(PACKAGE)], prefix="counterrank.")
    return ["counterrank", *(module.name for module in found if not module.name.endswith("__main__"))]


def public_modules() -> list[str]:
    return [name for name in all_modules() if not any(part.startswith("_") for part in name.split("."))]


def exported(name: str) -> list[str]:
    return list(getattr(importlib.import_module(name), "__all__", []))


def loaded_after(code: str, wanted: tuple[str, ...]) -> list[str]:
    """Which of the packages a fresh interpreter has loaded after the code."""
    code += f"\nimport sys\nprint([name for name in {wanted!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return re.findall(r"'(\w+)'", done.stdout.splitlines()[-1])


@pytest.mark.process
@pytest.mark.representative
def test_importing_the_package_imports_next_to_nothing():
    assert loaded_after("import counterrank\ndir(counterrank)", (*OPTIONAL, *HEAVY, "numpy")) == []


@pytest.mark.process
@pytest.mark.representative
def test_no_module_imports_an_optional_package():
    lines = "\n".join(f"import {name}" for name in all_modules())
    assert loaded_after(lines, OPTIONAL) == []


@pytest.mark.process
def test_the_check_of_imports_can_fail():
    assert loaded_after("import json, wave", ("json", "wave", "torch")) == ["json", "wave"]


@pytest.mark.parametrize("name", ["counterrank", *sorted(set(all_modules()) - {"counterrank"})])
def test_every_module_says_what_it_is(name):
    module = importlib.import_module(name)
    is_empty = not Path(module.__file__).read_text(encoding="utf-8").strip()
    assert is_empty or (module.__doc__ or "").strip()


EXPORTS = [(module, name) for module in public_modules() for name in exported(module)]


@pytest.mark.parametrize(("module", "name"), EXPORTS, ids=[".".join(pair) for pair in EXPORTS])
def test_every_exported_name_exists_and_is_documented(module, name):
    value = getattr(importlib.import_module(module), name)
    if inspect.isclass(value) or callable(value) or inspect.ismodule(value):
        assert (inspect.getdoc(value) or "").strip()
    if inspect.isclass(value):
        own = [member for label, member in vars(value).items() if not label.startswith("_") and callable(member)]
        assert all(inspect.getdoc(member) for member in own)


def test_exports_are_sorted_out():
    assert {module for module, _ in EXPORTS} >= {f"counterrank.{name}" for name in ("data", "losses", "evaluation")}
    for module in public_modules():
        names = exported(module)
        assert len(names) == len(set(names)), module
    assert dir(counterrank) == sorted(counterrank.__all__)
    with pytest.raises(AttributeError, match="module 'counterrank' has no attribute 'nonsense'"):
        _ = counterrank.nonsense


@pytest.mark.parametrize("name", [name for name in counterrank.__all__ if not name.startswith("_")])
def test_tab_completion_lists_the_public_surface(name):
    value = getattr(counterrank, name)
    if inspect.ismodule(value):
        assert dir(value) == sorted(value.__all__)


@pytest.mark.process
def test_showing_an_object_needs_neither_altair_nor_ipython():
    code = (
        "import counterrank as cr\ncr.make_ranking_data('mslr', n_queries=2)._repr_html_()\ncr.Ranker()._repr_html_()"
    )
    assert loaded_after(code, ("altair", "IPython", "rich", "jinja2")) == []


def functions():
    """Exported functions, those of `common` that others may use, and compiled kernels among them."""
    found = {}
    for module, name in EXPORTS:
        found[f"{module}.{name}"] = getattr(importlib.import_module(module), name)
    for module in public_modules():
        if module.startswith("counterrank.common."):
            for name, value in vars(importlib.import_module(module)).items():
                if not name.startswith("_") and getattr(value, "__module__", None) == module:
                    found[f"{module}.{name}"] = value
    found = {name: value for name, value in found.items() if not name.startswith("counterrank.cli")}  # see --help
    # numba's intrinsics can be called from kernels only
    return {
        name: value
        for name, value in found.items()
        if inspect.isroutine(inspect.unwrap(value)) and type(value).__name__ != "_Intrinsic"
    }


FUNCTIONS = functions()


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_every_public_function_has_an_example(function):
    assert doctest.DocTestParser().get_examples(inspect.getdoc(function) or "")


def test_compiled_kernels_have_their_examples_run():
    """pytest finds doctests of modules through this finder; kernels are no plain functions."""
    from counterrank.common import ranking

    assert any(test.name.endswith("rank_order") and test.examples for test in doctest.DocTestFinder().find(ranking))


def test_version():
    with open(ROOT / "pyproject.toml", "rb") as file:
        assert counterrank.__version__ == tomllib.load(file)["project"]["version"]


def test_types_are_shipped():
    assert (PACKAGE / "py.typed").is_file()


MACHINE_PATH = re.compile(r"(?<![\w.{}])(/(home|root|tmp|Users|mnt|srv)/\w|[A-Z]:\\\\?\w)")


def test_no_file_mentions_a_machine():
    found = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in sorted(PACKAGE.rglob("*.py"))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("line", ['DATA = "/home/me/data"', "see /tmp/x", "open('/mnt/data')", r"C:\\Users"])
def test_the_check_of_paths_can_fail(line):
    assert MACHINE_PATH.search(line)
    assert not MACHINE_PATH.search("a path such as data/home/x or 'a/tmp/b'")

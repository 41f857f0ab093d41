"""What can be said of a release without building it; `make release-check` does the rest."""

import re

import pytest

from tests.support.paths import ROOT, TESTS
from tests.support.release_check import (
    changelog_faults,
    citation_faults,
    project,
    reading_the_repository,
    sdist_faults,
    unreleased,
    version_faults,
    wheel_faults,
)
from tests.support.smoke import FEATURES

INCLUDED = project()["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]


def included(name):
    return f"/{name}" in INCLUDED or (name.endswith(".md") and "/*.md" in INCLUDED) or name == "pyproject.toml"


def test_version_changelog_and_citation_agree():
    assert version_faults() == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("## 0.2.0 - 2026-11-16\n", None),
        ("## Unreleased\n\n- New.\n\n## 0.2.0 - 2026-11-16\n\n### Added\n", None),
        ("## 0.2.0 (unreleased)\n", "newest entry"),
        ("## 0.1.0 - 2026-11-16\n\n## 0.2.0 - 2026-11-16\n", "newest entry"),
        ("## 0.2.0 - 2026-11-16\n\n### News\n", "'### News': expected one of Added"),
        ("## 0.2.0 - 2026-11-16\n\n## 0.1\n", "'## 0.1': expected 'Unreleased' or"),
    ],
)
def test_the_check_of_changelogs(text, fault):
    found = changelog_faults(text, "0.2.0")
    assert (found == []) if fault is None else fault in found[0]


def test_what_is_unreleased():
    assert unreleased("## Unreleased\n\n- New.\n\n## 0.2.0 - 2026-11-16\n- Old.\n") == "- New."
    assert unreleased("## Unreleased\n\n## 0.2.0 - 2026-11-16\n- Old.\n") == ""


def test_the_check_of_citations():
    text = "version: 0.2.0\ndate-released: '2026-11-16'\n"
    assert citation_faults(text, "0.2.0", "2026-11-16") == []
    assert len(citation_faults(text, "0.3.0", "2026-11-17")) == 2


def test_the_check_of_contents():
    tracked = ["Makefile", "src/counterrank/py.typed"]
    metadata = [f"counterrank-1.0.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")]
    names = [*metadata, "counterrank-1.0.0.dist-info/licenses/LICENSE", "counterrank/py.typed"]
    assert wheel_faults(names, tracked, "1.0.0") == []
    assert "tests/test_it.py" in wheel_faults([*names, "tests/test_it.py"], tracked, "1.0.0")[0]
    assert wheel_faults(names[:-1], tracked, "1.0.0") == ["wheel lacks counterrank/py.typed"]
    assert sdist_faults(["counterrank-1.0.0/Makefile", "counterrank-1.0.0/PKG-INFO"], tracked, "1.0.0") == [
        "sdist lacks counterrank-1.0.0/src/counterrank/py.typed"
    ]


def test_the_sdist_has_what_tests_read():
    read = {
        name
        for file in TESTS.rglob("*.py")
        for name in re.findall(r'\bROOT / "([^"/]+)"', file.read_text(encoding="utf-8"))
    } - {"dist"}  # which the release check writes
    assert {"docs", "examples", "src", "Makefile"} <= read
    assert [name for name in sorted(read | {"benchmarks"}) if not included(name)] == []
    assert all((ROOT / name.strip("/")).exists() for name in INCLUDED if "*" not in name)
    assert not included("shared")


def test_tests_that_read_the_repository_are_found():
    found = {file.name for file in reading_the_repository(TESTS)}
    assert {"test_readme.py", "test_layers.py", "test_compared_with.py", "test_upgrade.py"} <= found


def test_every_extra_that_errors_name_is_tried():
    named = set()
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        named |= set(re.findall(r"counterrank\[(\w+)\]'", text)) | set(re.findall(r'require\("\w+", "(\w+)"', text))
    assert named == FEATURES.keys()
    assert named <= project()["project"]["optional-dependencies"].keys()

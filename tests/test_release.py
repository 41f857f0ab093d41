"""What can be said of a release without building it; `make release-check` does the rest."""

import re
import shutil

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.metadata.spec import get_core_metadata_constructors
from hatchling.plugin.manager import PluginManager

from tests.support.paths import ROOT, TESTS
from tests.support.release_check import (
    changelog_faults,
    citation_faults,
    metadata_faults,
    project,
    reading_the_repository,
    readme_faults,
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


# The readme as PyPI shows it


@pytest.fixture
def metadata(tmp_path, monkeypatch):
    """What the build backend makes of the project, or of an sdist with the given PKG-INFO."""

    def made(repository="", pkg_info=None):
        monkeypatch.setenv("COUNTERRANK_REPOSITORY", repository)
        for name in ("pyproject.toml", "README.md", "LICENSE", "hatch_build.py"):
            shutil.copy(ROOT / name, tmp_path)
        if pkg_info is not None:
            (tmp_path / "PKG-INFO").write_text(pkg_info, encoding="utf-8")
        return get_core_metadata_constructors()["2.4"](ProjectMetadata(str(tmp_path), PluginManager()))

    return made


def test_the_readme_without_a_repository_has_no_relative_links(metadata):
    found = metadata()
    assert metadata_faults(found.encode(), found.encode()) == []
    assert "follow each step, on a log that you can simulate | the tutorial |" in found
    assert "figure2.svg" not in found
    assert "Project-URL" not in found.replace("Dynamic: Project-URL", "")


def test_the_readme_leads_to_the_repository(metadata):
    found = metadata("https://example.org/team/counterrank/")
    version = project()["project"]["version"]
    files = f"https://example.org/team/counterrank/blob/v{version}"
    assert metadata_faults(found.encode(), found.encode()) == []
    assert "Project-URL: Repository, https://example.org/team/counterrank\n" in found
    assert f"Project-URL: Changelog, {files}/CHANGELOG.md\n" in found
    assert f"the [tutorial]({files}/docs/tutorials/guide-own-log.md)" in found
    assert f"({files}/docs/results/synthetic-mslr/figure2.svg?raw=true)" in found


@pytest.mark.parametrize("repository", ["", "https://example.org/team/counterrank"])
def test_a_wheel_has_the_readme_of_its_sdist(repository, metadata):
    sdist = metadata(repository)
    assert metadata("", pkg_info=sdist) == sdist


def test_the_workflow_names_the_repository():
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert "COUNTERRANK_REPOSITORY: ${{ github.server_url }}/${{ github.repository }}\n" in workflow


@pytest.mark.parametrize(
    ("readme", "fault"),
    [
        ("A [page](https://example.org/a.md), `[code](a.md)` and {this}.\n\n```python\nx[0](1)\n```\n", None),
        ("| a |\n|---|\n| a [page](docs/a.md) |\n", "docs/a.md: expected an absolute link"),
        ("A [page][1].\n\n[1]: docs/a.md\n", "docs/a.md"),
        ("A [section](#start).", "#start"),
        ("![A figure](a.svg)", "a.svg"),
        ("<img src='a.svg'>", "a.svg"),
        ("Its {term}`propensity`.", "{term}`"),
        ("```{note}\nThat.\n```\n", "```{note}"),
        (":::{note}\nThat.\n:::\n", ":::{note}"),
    ],
)
def test_the_check_of_readmes(readme, fault):
    found = readme_faults(readme)
    assert (found == []) if fault is None else (len(found) == 1 and fault in found[0])


def test_the_check_of_metadata():
    assert metadata_faults(b"Name: a\n\nText.\n", b"Name: a\n\nText.\n") == []
    assert metadata_faults(b"Name: a\n\nText.\n", b"Name: a\n\nTexts.\n") == ["the metadata of wheel and sdist differ"]
    assert metadata_faults(b"Name: a\n\n", b"Name: a\n\n") == ["readme: expected one"]


# What is in an sdist, and tried


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

"""Builds a release and uses it as a user would: `make release-check`, with `ARGS="--tag v0.2.0"` for a tag.

Versions and dates agree; wheel and sdist hold the files they should, and a readme for PyPI; the wheel works in
clean environments, with no extra and with each one (`tests/support/smoke.py`), and reads the files of version 0.1; from
the unpacked sdist every test is collected, and `make test` runs those that read files of the repository. What was
checked stays in `dist`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterable
from email import message_from_bytes, policy
from pathlib import Path

from markdown_it import MarkdownIt

from tests.support.smoke import FEATURES

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
FIXTURES = ROOT / "tests" / "fixtures" / "v0_1"
CONSTRAINTS = ("--constraint", str(ROOT / "constraints.txt"))
ENTRY = re.compile(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d{2}-\d{2})$", re.MULTILINE)
SECTIONS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
SEEN_BY_USERS = {"counterrank"}  # the one package of the wheel
METADATA = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}


# Versions ------------------------------------------------------------------------------------------------------------


def project(root: Path = ROOT) -> dict:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def changelog_faults(text: str, version: str) -> list[str]:
    """What is wrong with a changelog whose newest entry should be this version."""
    faults = []
    entries = ENTRY.findall(text)
    if not entries or entries[0][0] != version:
        faults.append(f"CHANGELOG.md: expected the newest entry to be '## {version} - YYYY-MM-DD'")
    for heading in re.findall(r"^## (.*)$", text, re.MULTILINE):
        if heading != "Unreleased" and not ENTRY.fullmatch(f"## {heading}"):
            faults.append(f"CHANGELOG.md: '## {heading}': expected 'Unreleased' or 'X.Y.Z - YYYY-MM-DD'")
    for heading in re.findall(r"^### (.*)$", text, re.MULTILINE):
        if heading not in SECTIONS:
            faults.append(f"CHANGELOG.md: '### {heading}': expected one of {', '.join(SECTIONS)}")
    return faults


def unreleased(text: str) -> str:
    """What stands under the heading Unreleased."""
    found = re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def citation_faults(text: str, version: str, date: str) -> list[str]:
    found = dict(re.findall(r"^(version|date-released): *[\"']?([\w.-]+)", text, re.MULTILINE))
    wanted = {"version": version, "date-released": date}
    return [
        f"CITATION.cff: {key}: {found.get(key)}; expected {value}, as in CHANGELOG.md"
        for key, value in wanted.items()
        if found.get(key) != value
    ]


def version_faults(root: Path = ROOT) -> list[str]:
    """Where pyproject.toml, CHANGELOG.md and CITATION.cff contradict each other."""
    version = project(root)["project"]["version"]
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    faults = changelog_faults(changelog, version)
    date = next((day for number, day in ENTRY.findall(changelog) if number == version), "a date")
    return faults + citation_faults((root / "CITATION.cff").read_text(encoding="utf-8"), version, date)


# Contents ------------------------------------------------------------------------------------------------------------


def _differences(what: str, found: Iterable[str], wanted: Iterable[str]) -> list[str]:
    found, wanted = set(found), set(wanted)
    faults = [f"{what} lacks {name}" for name in sorted(wanted - found)]
    return faults + [f"{what} has {name}, which is not committed or not wanted" for name in sorted(found - wanted)]


def wheel_faults(names: Iterable[str], tracked: Iterable[str], version: str) -> list[str]:
    """A wheel holds the package as committed (with py.typed, templates and presets), its metadata, and nothing else."""
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    faults = [] if {name.partition("/")[0] for name in package} == SEEN_BY_USERS else ["src: expected one package"]
    wanted = package | {f"counterrank-{version}.dist-info/{name}" for name in METADATA}
    return faults + _differences("wheel", names, wanted)


def sdist_faults(names: Iterable[str], tracked: Iterable[str], version: str) -> list[str]:
    """An sdist holds all that is committed: who unpacks it can run `make test`."""
    wanted = {f"counterrank-{version}/{name}" for name in (*tracked, "PKG-INFO")}
    return _differences("sdist", names, wanted)


def readme_faults(readme: str) -> list[str]:
    """What of a readme in Markdown would not work on PyPI: relative links and images, and the syntax of MyST."""
    targets = []
    for block in MarkdownIt("commonmark").enable("table").parse(readme):
        for token in (block, *(block.children or ())):
            targets += [token.attrs[name] for name in ("href", "src") if name in token.attrs]
            if token.type.startswith("html"):
                targets += re.findall(r"\b(?:href|src) *= *[\"']?([^\"'\s>]+)", token.content)
    faults = [f"readme: {target}: expected an absolute link" for target in targets if not target.startswith("https://")]
    myst = re.findall(r"\{[\w:-]+\}`|^(?:`{3,}|:{3,}) *\{.*|^\([\w-]+\)=$", readme, re.MULTILINE)
    return faults + [f"readme: {syntax}: works in the documentation only" for syntax in myst]


def metadata_faults(wheel: bytes, sdist: bytes) -> list[str]:
    """Both have the same metadata, with a readme that PyPI can show."""
    readme = message_from_bytes(wheel, policy=policy.default).get_content()
    faults = [] if wheel == sdist else ["the metadata of wheel and sdist differ"]
    return faults + (readme_faults(readme) if readme.strip() else ["readme: expected one"])


def tracked_files() -> list[str]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in done.stdout.split("\0") if name]


# Use -----------------------------------------------------------------------------------------------------------------


def run(*words: object, cwd: Path = ROOT) -> None:
    """Run a program that sees nothing of this source tree and of the make that started this."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    subprocess.run([str(word) for word in words], cwd=cwd, env=environment, check=True)


def build() -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from it."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    return wheel, sdist


def check_contents(wheel: Path, sdist: Path, version: str) -> list[str]:
    tracked = tracked_files()
    with zipfile.ZipFile(wheel) as archive:
        faults = wheel_faults(archive.namelist(), tracked, version)
        metadata = archive.read(f"counterrank-{version}.dist-info/METADATA")
    with tarfile.open(sdist) as archive:
        names = [member.name for member in archive.getmembers() if member.isfile()]
        of_sdist = archive.extractfile(f"counterrank-{version}/PKG-INFO").read()
    return faults + sdist_faults(names, tracked, version) + metadata_faults(metadata, of_sdist)


def smoke(wheel: Path, version: str, extra: str | None, folder: Path) -> None:
    """Use the wheel in an environment that holds it, the extra and what they require."""
    environment = folder / (extra or "no-extra")
    venv.create(environment, with_pip=True)
    scripts = environment / ("Scripts" if os.name == "nt" else "bin")
    wanted = f"{wheel}[{extra}]" if extra else wheel
    run(scripts / "python", "-m", "pip", "install", "--quiet", *CONSTRAINTS, wanted, cwd=folder)
    work = folder / f"{environment.name}-work"
    work.mkdir()
    script = shutil.copy(ROOT / "tests" / "support" / "smoke.py", work)
    fixtures = shutil.copytree(FIXTURES, work / "v0_1")
    options = ("--extra", extra) if extra else ()
    run(scripts / "python", "-I", script, "--version", version, "--fixtures", fixtures, *options, cwd=work)
    shutil.rmtree(environment)  # some are large


def reading_the_repository(tests: Path) -> list[Path]:
    """Test files that read files outside `tests`, which an sdist could lack; and those of version 0.1."""
    reads = re.compile(r"\bROOT\b|benchmarks")
    found = [file for file in sorted(tests.rglob("test_*.py")) if reads.search(file.read_text(encoding="utf-8"))]
    return [*found, tests / "test_upgrade.py"]


def check_sdist(sdist: Path, folder: Path) -> None:
    """Set up `make test` from an unpacked sdist, collect all tests, and run those that read its files."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    make = ("make", "--no-print-directory", f"PYTHON={sys.executable}")
    run(*make, ".venv/.ready-test", cwd=unpacked)
    run(unpacked / ".venv/bin/python", "-m", "pytest", "--collect-only", "-qq", cwd=unpacked)
    chosen = [str(file.relative_to(unpacked)) for file in reading_the_repository(unpacked / "tests")]
    run(*make, "test", f"TESTS={' '.join(chosen)}", cwd=unpacked)


# All of it -----------------------------------------------------------------------------------------------------------


class Steps:
    """Prints each step with its time; ends at the first that fails."""

    def __init__(self) -> None:
        self.began = self.last = time.monotonic()

    def done(self, what: str, faults: Iterable[str] = ()) -> None:
        faults, now = list(faults), time.monotonic()
        print(
            f"{'FAILED' if faults else 'ok':>6}  {now - self.last:5.0f} s  {what}",
            *faults,
            sep="\n        ",
            flush=True,
        )
        if faults:
            sys.exit(1)
        self.last = now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tag", help="the tag to be released, as v0.2.0")
    parser.add_argument("--extras", nargs="*", default=list(FEATURES), help="to check (default: all)")
    parser.add_argument("--skip-sdist-tests", action="store_true", help="do not run tests from the sdist")
    options = parser.parse_args()
    version, steps = project()["project"]["version"], Steps()

    faults = version_faults()
    if unreleased((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")):
        faults.append(f"CHANGELOG.md: move what stands under Unreleased to {version}, or raise the version")
    if options.tag not in (None, f"v{version}"):
        faults.append(f"tag {options.tag}: expected v{version}, the version of pyproject.toml")
    steps.done(f"version {version}, changelog and citation", faults)

    wheel, sdist = build()
    sizes = ", ".join(f"{file.name} {file.stat().st_size / 1e6:.1f} MB" for file in (wheel, sdist))
    steps.done(f"built: {sizes}")
    steps.done("contents, metadata and readme of wheel and sdist", check_contents(wheel, sdist, version))
    with tempfile.TemporaryDirectory() as folder:
        for extra in (None, *options.extras):
            smoke(wheel, version, extra, Path(folder))
            steps.done(f"the wheel with {f'extra {extra}' if extra else 'no extra'}")
        if not options.skip_sdist_tests:
            check_sdist(sdist, Path(folder))
            steps.done("tests from the unpacked sdist")
    print(f"counterrank {version} can be released; {time.monotonic() - steps.began:.0f} s")


if __name__ == "__main__":
    main()

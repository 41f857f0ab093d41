"""The lower bounds of pyproject.toml as constraints for pip: `python tests/support/lowest.py [test] > lowest.txt`.

torch is left to constraints.txt: its older builds bring gigabytes of CUDA along.
"""

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
LEFT_OUT = {"counterrank", "torch"}


def requirements(project: dict, extras: list[str]) -> list[str]:
    """What the project and these extras ask for, extras named within extras included."""
    wanted = list(project["dependencies"])
    todo, met = list(extras), set(extras)
    while todo:
        for line in project["optional-dependencies"][todo.pop()]:
            wanted.append(line)
            if inner := re.match(rf"{project['name']}\[(.*)\]", line):
                new = set(inner[1].split(",")) - met
                met |= new
                todo += sorted(new)
    return wanted


def lowest(line: str) -> str | None:
    """One requirement at its lower bound."""
    name, _, bounds = re.fullmatch(r"([\w.-]+)(\[[\w,-]*\])?(.*)", line).groups()
    if name in LEFT_OUT:
        return None
    return f"{name}=={re.search(r'>=([0-9.]+)', bounds)[1]}"


if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    print(*sorted({bound for line in requirements(project, sys.argv[1:]) if (bound := lowest(line))}), sep="\n")

"""The command as its users run it: in a process of its own, or within the test."""

import json
import subprocess
import sys

from typer.testing import CliRunner

from counterrank.cli import app


def run(*arguments, folder=None):
    return subprocess.run(
        [sys.executable, "-m", "counterrank", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )


def attempt(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)


def invoke(*arguments):
    result = attempt(*arguments)
    assert result.exit_code == 0, result.output
    return result


def as_json(*arguments):
    return json.loads(invoke(*arguments, "--json").stdout)

"""The command as its users run it: within the test, or in a process of its own."""

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from unittest import mock

from typer.testing import CliRunner

from counterrank.cli import app, main


def run(*arguments, folder=None):
    """What the command prints, and its exit code: all of it but the process, which takes seconds to start."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    argv = mock.patch.object(sys, "argv", ["counterrank", *map(str, arguments)])
    with _handlers_kept(), mock.patch.dict(os.environ), argv, chdir(folder or "."):
        try:
            with redirect_stdout(out), redirect_stderr(err):
                main()
        except SystemExit as stopped:
            code = stopped.code
    return subprocess.CompletedProcess(sys.argv, code, out.getvalue(), err.getvalue())


@contextmanager
def _handlers_kept():
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = [signal.getsignal(number) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def run_process(*arguments, folder=None):
    """The same in a process of its own."""
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

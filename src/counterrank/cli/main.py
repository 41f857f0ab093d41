"""The `counterrank` command: a thin skin over the library."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Annotated, Any

import typer

from counterrank.cli.aggregate import aggregate
from counterrank.cli.command import Command, Group
from counterrank.cli.demo import demo
from counterrank.cli.estimate import estimate
from counterrank.cli.inspect import inspect
from counterrank.cli.plan import plan
from counterrank.cli.promote import promote
from counterrank.cli.rankers import evaluate, explain, export, rank
from counterrank.cli.rates import rates
from counterrank.cli.report import report
from counterrank.cli.reproduce import reproduce
from counterrank.cli.select import select
from counterrank.cli.simulate import simulate
from counterrank.cli.specialise import specialise
from counterrank.cli.train import train
from counterrank.common.errors import CounterrankError
from counterrank.common.files import discard_unfinished

app = typer.Typer(
    name="counterrank",
    help="Learn rankers from the clicks of top-k result pages, without the biases those clicks carry.",
    cls=Group,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_COMMANDS = {
    "Start": (demo,),
    "Clicks": (plan, simulate, aggregate, inspect, rates),
    "Rankers": (train, specialise, evaluate, estimate, select, promote, rank, explain, export),
    "Experiments of the paper": (reproduce, report),
}
for _panel, _commands in _COMMANDS.items():
    for _command in _commands:
        app.command(cls=Command, rich_help_panel=_panel)(_command)


def _version(wanted: bool) -> None:
    if wanted:
        from counterrank import __version__

        print(f"counterrank {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; what the caller can correct becomes one line on stderr and exit code 2."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _leave)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads of LightGBM and torch that spin starve each other
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except CounterrankError as error:
        _fail(str(error))
    except typer.Abort:
        sys.exit(130)
    except BrokenPipeError:
        # the reader of our output has gone; keep the interpreter from complaining about it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.filename or 'file system'}: {error.strerror or error}")
    except Exception as error:
        # a wrong option or a missing argument; typer has its own copy of click or not, depending on its version
        if not hasattr(error, "format_message"):
            raise
        commands = {each.__name__ for group in _COMMANDS.values() for each in group}
        named = sys.argv[1] if sys.argv[1] in commands else ""
        misused = _misused(error)
        see = " See" if misused.endswith("?") else "; see"
        _fail(f"{misused}{see} {f'counterrank {named}'.rstrip()} --help")


def _leave(number: int, frame: object) -> None:
    """Remove what is half written and exit at once: no exception, which might strike inside compiled code."""
    if discard_unfinished():
        if sys.stderr.isatty():
            os.write(2, b"\x1b[?25h")  # a progress display hides the cursor
        os._exit(128 + number)
    again = threading.Timer(0.05, os.kill, (os.getpid(), number))  # a folder is just being replaced
    again.daemon = True
    again.start()


def _misused(error: Any) -> str:
    """What is wrong with an option or argument; in our words where those of typer depend on its version."""
    param: Any = getattr(error, "param", None)
    kind = "" if param is None else type(error).__name__
    wanted = {"N": "a whole number", "X": "a number"}.get(getattr(param, "metavar", None) or "")
    if kind == "BadParameter" and wanted:
        return f"{param.opts[0]}: expected {wanted}"
    if kind == "MissingParameter" and param.param_type_name == "argument":
        return f"Missing argument {param.name.upper()}"
    return str(error.format_message()).rstrip(".")


def _fail(message: str) -> None:
    sys.stderr.write("counterrank: " + " ".join(map(str.strip, message.splitlines())) + "\n")
    sys.exit(2)

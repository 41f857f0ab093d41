"""The `counterrank` command: a thin skin over the library."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from counterrank.cli.demo import demo
from counterrank.cli.evaluate import evaluate
from counterrank.cli.rank import rank
from counterrank.cli.train import train
from counterrank.common.errors import CounterrankError

app = typer.Typer(
    name="counterrank",
    help="Learn rankers from the clicks of top-k result pages, without the biases those clicks carry.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for command in (demo, train, evaluate, rank):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        from counterrank import __version__

        print(f"counterrank {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; what the caller can mend becomes one line on stderr and exit code 2."""
    try:
        app()
    except CounterrankError as error:
        _fail(str(error))
    except BrokenPipeError:
        # the reader of our output has gone; keep the interpreter from complaining about it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.filename or 'file system'}: {error.strerror or error}")


def _fail(message: str) -> None:
    sys.stderr.write("counterrank: " + " ".join(message.split()) + "\n")
    sys.exit(2)

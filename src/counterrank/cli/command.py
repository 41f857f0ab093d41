"""What all commands have in common: old spellings of flags, messages that name flags, and the layout of `--help`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import StringIO
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

from counterrank.cli.flags import filled, in_flags, with_new_spellings
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from rich.console import RenderableType

BASICS = "Basics"
# the order in which help shows groups of options
PANELS = (
    BASICS, "Clicks and policy", "Users", "Estimator", "Experiment", "Training", "Evaluation", "How a log is read",
    "Output",
)  # fmt: skip
_NAMES = 30  # columns for the name of an option
_RUNNING: ContextVar[Any] = ContextVar("running", default=None)


class Command(TyperCommand):
    """A command whose errors and warnings name its flags."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; old spellings of flags are replaced, with a note."""
        return super().parse_args(ctx, with_new_spellings(self.name or "", args))

    def invoke(self, ctx: Any) -> Any:
        """Run; errors of the library name flags instead of arguments."""
        with _running(ctx):
            try:
                return super().invoke(ctx)
            except CounterrankError as error:
                error.args = (name_flags(str(error)), *error.args[1:])
                raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Usage, description, and options in groups."""
        formatter.write(_rendered(_command_help(self, ctx)))


class Group(TyperGroup):
    """The commands by what they are for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Usage, description, and commands in groups."""
        formatter.write(_rendered(_group_help(self, ctx)))


@contextmanager
def _running(ctx: Any) -> Iterator[None]:
    token = _RUNNING.set(ctx)
    try:
        yield
    finally:
        _RUNNING.reset(token)


def name_flags(message: str) -> str:
    """A message of the library in the flags of the command that runs; as it is where none does."""
    ctx = _RUNNING.get()
    if ctx is None:
        return message
    flags = {
        each.name: each.opts[0] if each.param_type_name == "option" else each.name.upper()
        for each in ctx.command.params
    }
    given = [each for value in ctx.params.values() for each in (value if isinstance(value, list | tuple) else [value])]
    return in_flags(message, flags, map(str, given))


# The layout of help.


def _rendered(parts: list[RenderableType]) -> str:
    """As text for the terminal there is, in colours if it has them."""
    from rich.console import Console

    there = Console()
    console = Console(
        file=StringIO(), width=min(there.width, 110), force_terminal=there.is_terminal, highlight=False, markup=False
    )
    for part in parts:
        console.print(part)
    file = console.file
    assert isinstance(file, StringIO)
    text = file.getvalue()
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def _paragraphs(command: Any, ctx: Any) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    paragraphs = filled(command.help or "").split("\n\n")
    usage = Text(f"Usage: {ctx.command_path} [OPTIONS] {_usage(command, ctx)}".rstrip(), style="bold")
    return [Padding(usage, (1, 1)), *(Padding(Text(" ".join(each.split())), (0, 1, 1, 1)) for each in paragraphs)]


def _usage(command: Any, ctx: Any) -> str:
    """The arguments, as a usage line has them."""
    if isinstance(command, Group):
        return "COMMAND [ARGUMENTS]"
    arguments = [each for each in command.get_params(ctx) if each.param_type_name == "argument"]
    words = (each.name.upper() + ("..." if each.nargs == -1 else "") for each in arguments)
    return " ".join(word if each.required else f"[{word}]" for word, each in zip(words, arguments, strict=True))


def _panel(title: str, rows: list[tuple[Any, Any]], width: int) -> RenderableType:
    """Names in a column of this width, and what they mean."""
    from rich.panel import Panel
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(overflow="fold", width=width)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    return Panel(table, title=title, title_align="left", border_style="dim")


def _command_help(command: Any, ctx: Any) -> list[RenderableType]:
    shown = [each for each in command.get_params(ctx) if not getattr(each, "hidden", False)]
    arguments = [each for each in shown if each.param_type_name == "argument"]
    panels: dict[str, list[Any]] = {name: [] for name in PANELS}
    for each in shown:
        if each.param_type_name == "option":
            is_help = "--help" in each.opts  # older versions of typer leave it to click, which names it otherwise
            panels["Output" if is_help else each.rich_help_panel or BASICS].append(each)
    groups = {name: _rows(each) for name, each in {"Arguments": arguments, **panels}.items() if each}
    width = max(len(line) for rows in groups.values() for name, _ in rows for line in name.plain.split("\n"))
    return _paragraphs(command, ctx) + [_panel(name, rows, width) for name, rows in groups.items()]


def _rows(params: list[Any]) -> list[tuple[Any, Any]]:
    """Name and description of each; what is required comes first."""
    return [(_name(each), _description(each)) for each in sorted(params, key=lambda each: not each.required)]


def _name(param: Any) -> Any:
    from rich.text import Text

    if param.param_type_name == "argument":
        return Text(param.name.upper(), style="bold cyan")
    names = [*param.opts, *param.secondary_opts]
    value = "" if param.is_flag or param.name in ("help", "version") else f" {_metavar(param)}"
    text = "/".join(names) + value
    if len(text) > _NAMES:
        text = "\n".join(names) + ("\n " if value else "") + value
    return Text(text, style="bold cyan")


def _metavar(param: Any) -> str:
    kind = str(getattr(getattr(param, "type", None), "name", "")).lower()
    found = param.metavar or {"integer": "N", "int": "N", "float": "X", "path": "PATH", "directory": "PATH"}.get(kind)
    return found or "TEXT"


def _description(param: Any) -> Any:
    from rich.text import Text

    text = Text(filled(param.help or ""))
    default = param.default
    if param.required:
        text.append(" [required]", style="red")
    elif (not isinstance(default, bool) and isinstance(default, str | int | float)) or hasattr(default, "parts"):
        text.append(f" [default: {default:,}]" if type(default) is int else f" [default: {default}]", style="dim")
    elif isinstance(default, bool) and param.secondary_opts:
        text.append(f" [default: {(param.opts if default else param.secondary_opts)[0]}]", style="dim")
    return text


def _group_help(group: Any, ctx: Any) -> list[RenderableType]:
    from rich.text import Text

    panels: dict[str, list[tuple[Any, Any]]] = {}
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        first = " ".join((command.help or "").split("\n\n")[0].split())
        panels.setdefault(command.rich_help_panel or "Commands", []).append(
            (Text(name, style="bold cyan"), Text(first))
        )
    options = [each for each in group.get_params(ctx) if not each.hidden]
    width = max(len(name) for rows in panels.values() for name, _ in rows)
    return [
        *_paragraphs(group, ctx),
        *(_panel(title, rows, width) for title, rows in panels.items()),
        _panel("Options", _rows(options), width),
    ]

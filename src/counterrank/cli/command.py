"""What all commands have in common: old spellings of flags, messages that name flags, and the layout of `--help`."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from rich.console import RenderableType

_LOGS = {"--trust": "--skip-page-checks"}
_ESTIMATES = {**_LOGS, "--target": "--population"}
# by command: old spelling, new one
DEPRECATED: Mapping[str, Mapping[str, str]] = {
    "aggregate": _LOGS,
    "estimate": _ESTIMATES,
    "inspect": {**_LOGS, "--target-size": "--effective-sample-size"},
    "plan": {
        "--sessions": "--n-sessions",
        "--model": "--ranker",
        "--target": "--population",
        "--effective": "--effective-sample-size",
    },
    "reproduce": {
        "--clicks": "--n-clicks",
        "--sessions": "--n-sessions",
        "--ks": "--pages",
        "--step-size": "--learning-rate",
    },
    "select": _ESTIMATES,
    "simulate": {
        "--clicks": "--n-clicks",
        "--sessions": "--n-sessions",
        "--log": "--as-log",
        "--trust": "--trust-bias",
        "--gain": "--click-gain",
    },
    "train": _LOGS,
}


def with_new_spellings(command: str, arguments: Iterable[str]) -> list[str]:
    """The arguments of a command, old flags replaced by new ones; a line on stderr for each.

    >>> with_new_spellings("simulate", ["DATA", "--n-clicks=9", "--", "--clicks"])
    ['DATA', '--n-clicks=9', '--', '--clicks']
    """
    old = DEPRECATED.get(command, {})
    found, options = [], True
    for argument in arguments:
        options = options and argument != "--"
        flag, equals, value = argument.partition("=")
        if options and flag in old:
            sys.stderr.write(f"Note: {flag} is deprecated; use {old[flag]}\n")
            argument = f"{old[flag]}{equals}{value}"
        found.append(argument)
    return found


# what arguments of the library are called on the command, where the names differ
_ARGUMENTS = {
    "click_model": "relevant",
    "clicks": "n_clicks",
    "columns": "map",
    "current": "against",
    "cutoff": "k",
    "exam": "examination",
    "features": "feature_columns",
    "gain": "click_gain",
    "ks": "pages",
    "loss": "losses",
    "metric": "metrics",
    "model": "ranker",
    "new": "ranker",
    "only_policies": "only_policy",
    "params": "param",
    "policies": "policy",
    "policy": "policies",
    "rho": "policy",
    "scores": "logger",
    "sessions": "n_sessions",
    "shares": "split",
    "step_size": "learning_rate",
    "target": "population",
    "target_size": "effective_sample_size",
}
# options of `train` that messages of other commands name
_OF_TRAINING = {name: f"--{name}" for name in ("estimator", "model", "normalize")}
_FIRST = re.compile(r"([a-z][a-z_-]*(?:, [a-z][a-z_-]*)*)(?:(?:=| (?='))('[^']*'|\([^)]*\)|[^\s:;]+))?(?=: )")
_INSIDE = re.compile(r"(?<![\w:,.-])([a-z_]{2,})=(?:['\"]([^'\"]*)['\"]|([\w.]+)(?=: )|True\b|(?=[\s),.;]|$))")


def _mapping(role: str, column: str) -> str:
    """A column for `--map`, in quotes where its name has what separates columns."""
    return f"{role}={column}" if not re.search('[,"]', column) else '{}="{}"'.format(role, column.replace('"', '""'))


# what only calls in Python can do, and how the command does it
_PYTHON: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r",? or (?:None|a numpy Generator)\b[^;:]*"), ""),
    (re.compile(r" \([a-z_][\w.]*\([^)]*\)[^)]*\)"), ""),  # a call in parentheses
    (re.compile(r"\b[a-z_]+=\S* \((--[^)]+)\)"), r"\1"),  # both forms: page=5 (--page 5)
    (re.compile(r"\((--[^)]+), [a-z_]+=\)"), r"(\1)"),  # or (--examination, exam=)
    (re.compile(r"columns=\{'([\w:]+)': NAME\}"), r"--map \1=NAME"),
    (
        re.compile(r"columns=\{'([\w:]+)': '([^']+)'\}"),
        lambda found: f"--map {shlex.quote(_mapping(found[1], found[2]))}",
    ),
    (re.compile(r"\bmodel='lightgbm'"), "--relevance-model lightgbm"),
    (re.compile(r"\bEstimatedExamination\.save\b"), "counterrank inspect --examination-out"),
    (re.compile(r"\bRanker\.save\b"), "counterrank train"),
    (re.compile(r"data\.select_features leaves others out"), "--feature-columns chooses columns"),
)


def in_flags(message: str, flags: Mapping[str, str], values: Iterable[str] = ()) -> str:
    """A message of the library, arguments named as the options of a command, without values that only Python has.

    Arguments:
        message: begins with the name of an argument, with or without its value, or with something else.
        flags: by parameter of the command, its option.
        values: what the options were given. A file may be called as an argument is.

    >>> flags = {"examination": "--examination", "clip": "--clip", "in_sample": "--in-sample"}
    >>> in_flags("exam: 2 at rank 2; expected probabilities", flags)
    '--examination: 2 at rank 2; expected probabilities'
    >>> in_flags("clip='low': expected a number", flags)
    '--clip low: expected a number'
    >>> in_flags("clicks: trained on; in_sample=True accepts them", flags)
    'clicks: trained on; --in-sample accepts them'
    >>> in_flags("clip=0.0: expected a number above 0, or None for no cap", flags)
    '--clip 0.0: expected a number above 0'
    """
    given = set(values)
    for pattern, instead in _PYTHON:
        message = pattern.sub(instead, message)

    def flag(name: str) -> str | None:
        key = name.replace("-", "_")
        return flags.get(key) or flags.get(_ARGUMENTS.get(key, "")) or None

    begin, first = "", _FIRST.match(message)
    if first is not None:
        names = first[1].split(", ")
        found = [flag(name) for name in names]
        if all(found) and not given.intersection((*names, first[1])):
            value = "" if first[2] is None else first[2].strip("'()").replace(", ", ",") or "''"
            begin, message = _with_value(", ".join(map(str, found)), value), message[first.end() :]

    def inside(match: re.Match[str]) -> str:
        option = flag(match[1])
        if option is None or not option.startswith("-"):  # an argument without a flag has no value to set
            option = _OF_TRAINING.get(match[1], option)
        value = match[2] if match[2] is not None else match[3]
        return match[0] if option is None else _with_value(option, value or "")

    return begin + _INSIDE.sub(inside, message)


def _with_value(flag: str, value: str) -> str:
    """A flag and its value; `--param hidden` has it after an equals sign."""
    return flag + ("=" if " " in flag.rpartition(", ")[2] else " ") + value if value else flag


# each of these names in braces in a help text stands for the names in a registry, read when help is shown
_REGISTRIES = {
    "losses": ("counterrank.losses", "LOSSES"),
    "estimators": ("counterrank.estimators", "ESTIMATORS"),
    "compared_estimators": ("counterrank.experiments.settings", "compared_estimators"),
    "policies": ("counterrank.clicks.policies", "POLICIES"),
    "formats": ("counterrank.clicks.logs", "FORMATS"),
    "targets": ("counterrank.export", "TARGETS"),
    "relevance_models": ("counterrank.estimators.relevance_models", "MODELS"),
    "shapes": ("counterrank.data.synthetic", "SHAPES"),
    "presets": ("counterrank.experiments.settings", "preset_names"),
}
_EXAMPLES = {"k": 5, "epsilon": 0.1, "temperature": 1}


def registry(name: str) -> Any:
    """The registry whose names a help text lists."""
    module, attribute = _REGISTRIES[name]
    found = getattr(importlib.import_module(module), attribute)
    return found() if callable(found) else found


def choices(name: str) -> str:
    """The names in a registry, separated by commas; policies with example values.

    >>> choices("formats")
    'parquet, csv, jsonl, ubi, metarank'
    """
    entries = registry(name)
    if name != "policies":
        return ", ".join(entries)
    return ", ".join(
        f"{policy}:" + ",".join(f"{each}={_EXAMPLES.get(each, 1)}" for each in entry.parameters)
        for policy, entry in entries.items()
    )


def filled(text: str) -> str:
    """A help text with the names of registries in it."""
    for name in _REGISTRIES:
        if f"{{{name}}}" in text:
            text = text.replace(f"{{{name}}}", choices(name))
    return text


# the groups of options, in the order in which help shows them
PANELS = BASICS, CLICKS, USERS, ESTIMATOR, EXPERIMENT, TRAINING, EVALUATION, COMPARISON, DATA, LOG, OUTPUT = (
    "Basics", "Clicks and policy", "Users", "Estimator", "Experiment", "Training", "Evaluation",
    "Comparison of two rankers", "How data is read", "How a log is read", "Output",
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
        token = _RUNNING.set(ctx)
        try:
            return super().invoke(ctx)
        except CounterrankError as error:
            error.args = (name_flags(str(error)), *error.args[1:])
            raise
        finally:
            _RUNNING.reset(token)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Usage, description, and options in groups."""
        formatter.write(_rendered(_command_help(self, ctx)))


class Group(TyperGroup):
    """The commands by what they are for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Usage, description, and commands in groups."""
        formatter.write(_rendered(_group_help(self, ctx)))


def name_flags(message: str) -> str:
    """A message of the library in the flags of the command that runs; as it is where none does."""
    ctx = _RUNNING.get()
    if ctx is None:
        return message
    flags = {
        each.name: each.opts[0] if each.param_type_name == "option" else each.name.upper()
        for each in ctx.command.params
    }
    for option in ("param", "estimator_param"):  # their messages name hyperparameters
        keys = [text.partition("=")[0] for text in ctx.params.get(option) or ()]
        flags |= {key: f"{flags[option]} {key}" for key in keys if option != "param" or key not in flags}
    given = [
        (flags[name], str(each))
        for name, value in ctx.params.items()
        for each in (value if isinstance(value, list | tuple) else [value])
    ]
    message = _column_of(message, ctx.params)
    missing, found, _ = message.partition(": no such ")
    owners = [flag for flag, text in given if missing in (text, text.partition("=")[2])]
    if found and owners and owners[0].startswith("--"):
        return f"{owners[0]} {message}"
    return in_flags(message, flags, (text for _, text in given))


def _column_of(message: str, given: Mapping[str, Any]) -> str:
    """A message about a missing column; where data and a log are read, what renames that of one of them only."""
    about = re.search(r"; (it|the log) has .*columns=\{'(query_id|doc_id)': ", message)
    has_both = bool(given.get("data") and (given.get("log") or given.get("clicks")))
    if about is None or not has_both or f"{about[2]}=" not in (given.get("map") or ""):
        return message
    of = "data" if about[1] == "it" else "log"
    return message.replace(f"columns={{'{about[2]}'", f"columns={{'{of}:{about[2]}'")


DATA_OPTIONS = ("map", "feature_columns", "split")  # how ranking data is read


def given_options(*names: str) -> dict[str, Any]:
    """Of these options of the command that runs, those that have a value."""
    ctx = _RUNNING.get()
    return {} if ctx is None else {name: ctx.params[name] for name in names if ctx.params.get(name) is not None}


def explicit_options(*names: str) -> list[str]:
    """Which of these options of the command that runs, or of all, were written on the command line, as flags."""
    ctx = _RUNNING.get()
    if ctx is None:
        return []
    flags = {each.name: each.opts[0] for each in ctx.command.params}
    return [flags[name] for name in names or flags if ctx.get_parameter_source(name).name == "COMMANDLINE"]


def options_again(*names: str, **instead: str) -> list[str]:
    """These options as they were given, as words of the command to go on with; none where none was.

    `instead` has other values for some of them, an empty one to leave an option out.

    >>> options_again("map"), options_again(map="label=grade")
    ([], ['--map', 'label=grade'])
    """
    given = {**given_options(*names), **instead}
    return [
        word for name, value in given.items() if value != "" for word in (f"--{name.replace('_', '-')}", str(value))
    ]


def _rendered(parts: list[RenderableType]) -> str:
    """As text for the terminal there is, in colours if it has them."""
    from rich.console import Console

    there = Console()
    console = Console(width=min(there.width, 110), force_terminal=there.is_terminal, highlight=False, markup=False)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return captured.get().encode(encoding, "replace").decode(encoding)


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
            panels[OUTPUT if is_help else each.rich_help_panel or BASICS].append(each)
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
    value = f" {param.metavar}" if param.metavar else ""
    text = "/".join(names) + value
    if len(text) > _NAMES:
        text = "\n".join(names) + ("\n " if value else "") + value
    return Text(text, style="bold cyan")


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

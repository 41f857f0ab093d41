"""Flags: old spellings that still work, what the library's arguments are called here, and choices from registries."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

_LOGS = {"--trust": "--skip-page-checks"}
_JUDGES = {**_LOGS, "--target": "--population"}
# by command: old spelling, new one
DEPRECATED: Mapping[str, Mapping[str, str]] = {
    "aggregate": _LOGS,
    "estimate": _JUDGES,
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
    "select": _JUDGES,
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
    "clicks": "n_clicks",
    "columns": "map",
    "cutoff": "k",
    "exam": "examination",
    "gain": "click_gain",
    "ks": "pages",
    "loss": "losses",
    "metric": "metrics",
    "only_policies": "only_policy",
    "params": "param",
    "policies": "policy",
    "policy": "policies",
    "rho": "policy",
    "scores": "logger",
    "sessions": "n_sessions",
    "step_size": "learning_rate",
    "target": "population",
    "target_size": "effective_sample_size",
}
# options of `train` that messages of other commands name
_OF_TRAINING = {name: f"--{name}" for name in ("estimator", "normalize")}
_FIRST = re.compile(r"([a-z][a-z_-]*(?:, [a-z][a-z_-]*)*)(?:(?:=| (?='))('[^']*'|[^\s:;]+))?(?=: )")
_COLUMNS = re.compile(r"columns=\{'(\w+)': NAME\}")
_INSIDE = re.compile(r"(?<![\w:,.-])([a-z_]{2,})=(?:'([^']*)'|([\w.]+)(?=: )|True\b|(?=[\s),.;]|$))")


def in_flags(message: str, flags: Mapping[str, str], values: Iterable[str] = ()) -> str:
    """A message of the library, arguments named as the options of a command.

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
    """
    given = set(values)
    message = _COLUMNS.sub(r"--map \1=NAME", message) if "map" in flags else message

    def flag(name: str) -> str | None:
        key = name.replace("-", "_")
        return flags.get(key) or flags.get(_ARGUMENTS.get(key, "")) or None

    first = _FIRST.match(message)
    if first is not None:
        names = first[1].split(", ")
        found = [flag(name) for name in names]
        if all(found) and not given.intersection((*names, first[1])):
            value = "" if first[2] is None else " " + first[2].strip("'")
            message = ", ".join(map(str, found)) + value + message[first.end() :]

    def inside(match: re.Match[str]) -> str:
        option = flag(match[1]) or _OF_TRAINING.get(match[1])
        value = match[2] if match[2] is not None else match[3]
        return match[0] if option is None else option + ("" if value is None else f" {value}")

    return _INSIDE.sub(inside, message)


# Choices: each name in braces in a help text stands for the names in a registry, read when help is shown.

_REGISTRIES = {
    "losses": ("counterrank.losses", "LOSSES"),
    "estimators": ("counterrank.estimators", "ESTIMATORS"),
    "policies": ("counterrank.clicks.policies", "POLICIES"),
    "formats": ("counterrank.clicks.logs", "FORMATS"),
    "targets": ("counterrank.export", "TARGETS"),
}
_EXAMPLES = {"k": 5, "epsilon": 0.1, "temperature": 1}


def registry(name: str) -> Any:
    """The registry whose names a help text lists."""
    module, attribute = _REGISTRIES[name]
    return getattr(importlib.import_module(module), attribute)


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

"""Generated pages: the API from docstrings, the command from its options, the equations and where they are computed.

A page asks for generated text with a line `<!-- generated: NAME ARGUMENT -->`; `read` puts it there when Sphinx reads
the page. Docstrings are plain text: `prepare` makes reStructuredText of them, with links and typeset formulas.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import counterrank
from _site.formulas import EQUATIONS, LABEL, is_formula, target, typeset

SOURCE = Path(counterrank.__file__).parent

# the modules that users import, in the order in which they are documented; page of each is reference/api/NAME.md
MODULES = (
    "data", "clicks", "clicks.logs", "examination", "policies", "simulation", "estimators", "losses", "evaluation",
    "training", "models", "export", "torch", "experiments", "report",
)  # fmt: skip
ERRORS = "errors"  # the page of what is raised and warned


@cache
def module(name: str) -> ModuleType:
    """A public module."""
    return importlib.import_module(f"counterrank.{name}")


@cache
def documented() -> dict[str, str]:
    """Each public name by the path that users write, and the page that documents it.

    A name that `counterrank` itself has is `counterrank.NAME`; one that several modules share is in the first of them.
    """
    top = {name: getattr(counterrank, name) for name in counterrank.__all__ if name != "__version__"}
    found, seen = {}, set()
    for page in sorted(MODULES, key=lambda each: each == "clicks"):  # which repeats names of the others
        for name in module(page).__all__:
            value = getattr(module(page), name)
            if inspect.ismodule(value) or id(value) in seen:
                continue
            path = f"counterrank.{name}" if top.get(name) is value else f"counterrank.{page}.{name}"
            found[path] = ERRORS if _is_error(value) else page
            seen.add(id(value))
    for name, value in top.items():
        if not inspect.ismodule(value) and id(value) not in seen:
            home = next((page for page in MODULES if f".{page}" in getattr(value, "__module__", "")), ERRORS)
            found[f"counterrank.{name}"] = ERRORS if _is_error(value) else home
    return found


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, Exception)


def lookup(path: str) -> Any:
    """The object of a documented path, `counterrank.losses.arp_hinge` say."""
    owner, _, name = path.rpartition(".")
    return getattr(importlib.import_module(owner), name)


def path_of(value: Any) -> str | None:
    """The documented path of an object."""
    return _paths().get(id(value))


@cache
def _paths() -> dict[int, str]:
    return {id(lookup(path)): path for path in documented()}


def doc_of(path: str) -> str:
    """The docstring of a public name; of data the text that follows its assignment."""
    value = lookup(path)
    if inspect.isclass(value) or inspect.isroutine(value):
        return inspect.getdoc(value) or ""
    name = path.rpartition(".")[2]
    docs = (
        doc for home, own, doc in _data_docs() if own == name and getattr(importlib.import_module(home), name) is value
    )
    return next(docs, "")


@cache
def _data_docs() -> list[tuple[str, str, str]]:
    """Module, name and text for each assignment at the top of a module that a text follows."""
    found = []
    for home, tree in _trees():
        for node, after in zip(tree.body, tree.body[1:], strict=False):
            target_of = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if (
                isinstance(target_of, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                found.append((home, target_of.id, inspect.cleandoc(str(after.value.value))))
    return found


@cache
def _trees() -> list[tuple[str, ast.Module]]:
    """The modules of the library by name, as syntax trees."""
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        name = ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        found.append((name, ast.parse(file.read_text(encoding="utf-8"))))
    return found


# The API


def summary_of(doc: str) -> str:
    """The first sentence of a docstring, in Markdown and without links."""
    first = " ".join(doc.split("\n\n")[0].split())
    first = re.split(r"(?<=[a-z)`\]])(?<! al)\. ", first)[0].rstrip(".")
    first = re.sub(r"\s*\(`?eq:\w+`?\)|`?\beq:\w+`?(?: with )?", "", first)
    return re.sub(r"(?<!`)([*_<|])(?!`)", r"\\\1", first) if "`" not in first else first.replace("|", "\\|")


def _kind(path: str) -> str:
    value = lookup(path)
    return (
        "Classes" if inspect.isclass(value) else "Functions" if inspect.isroutine(value) else "Registries and constants"
    )


def api(page: str) -> str:
    """The public names of a module: a table, then each with its docstring."""
    kinds = ("Functions", "Classes", "Registries and constants")
    own = [path for path, home in documented().items() if home == page]
    own.sort(key=lambda path: kinds.index(_kind(path)))
    others = [] if page == ERRORS else [getattr(module(page), name) for name in module(page).__all__]
    elsewhere = [path for path in map(path_of, others) if path and path not in own]
    text = _names_table([*own, *elsewhere])
    for kind in kinds:
        paths = [path for path in own if _kind(path) == kind]
        if paths:
            text += [
                "",
                f"## {kind}",
                "",
                "```{eval-rst}",
                *(line for path in paths for line in _directive(path)),
                "```",
            ]
    return "\n".join(text)


def _names_table(paths: list[str]) -> list[str]:
    rows = [f"| {{py:obj}}`{shortened(path)} <{path}>` | {summary_of(doc_of(path))} |" for path in paths]
    return _stacked(["| name | |", "|---|---|", *rows])


def _stacked(table: list[str], *classes: str) -> list[str]:
    """A table whose cells stand below each other on a phone, see site.css."""
    return ["", f":::{{container}} {' '.join(('stacked', *classes))}", "", *table, "", ":::", ""]


def shortened(path: str) -> str:
    """A path as users write it after `import counterrank as cr`."""
    return "cr" + path.removeprefix("counterrank") if path.count(".") == 1 else path.removeprefix("counterrank.")


def _directive(path: str) -> list[str]:
    value = lookup(path)
    if inspect.isclass(value):
        return [f".. autoclass:: {path}", "   :members:", ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {path}", ""]
    lines = prepared(doc_of(path), path)
    owner, _, name = path.rpartition(".")
    return [f".. py:data:: {name}", f"   :module: {owner}", "", *(f"   {line}" for line in lines), ""]


def api_index(_: str) -> str:
    """The modules, with what each is for and what is in it."""
    lines = ["| module | |", "|---|---|"]
    for page in MODULES:
        doc = summary_of(inspect.getdoc(module(page)) or "")
        lines.append(f"| [`counterrank.{page}`]({page}.md) | {doc} |")
    lines.append(f"| [errors and warnings]({ERRORS}.md) | what is raised and warned |")
    return "\n".join(_stacked(lines))


def top_names(_: str) -> str:
    """The names that `counterrank` itself has."""
    return "\n".join(_names_table([path for path in documented() if path.count(".") == 1]))


# Docstrings


@cache
def _names() -> dict[str, str | None]:
    """What a name in backticks means: full path by short name, None where two objects share it."""
    found: dict[str, str | None] = {}

    def add(name: str, path: str) -> None:
        found[name] = path if found.get(name, path) == path else None

    for path in documented():
        value = lookup(path)
        short = path.removeprefix("counterrank.")
        names = {short, short.rpartition(".")[2], f"cr.{short}", path}
        if short.count("."):
            names.add(".".join(short.split(".")[-2:]))
        members = [name for name in vars(value) if not name.startswith("_")] if inspect.isclass(value) else []
        members = [
            name for name in members if inspect.getdoc(inspect.getattr_static(value, name)) and _is_member(value, name)
        ]
        for name in names:
            add(name, path)
            for member in members:
                add(f"{name}.{member}", f"{path}.{member}")
    return found


def _is_member(value: type, name: str) -> bool:
    each = inspect.getattr_static(value, name)
    return inspect.isroutine(each) or isinstance(each, property | classmethod | staticmethod)


def _link(code: str, path: str) -> str:
    """What stands in backticks, as a link where it is a public name, else as code."""
    name = code.removesuffix("()")
    owner = path.rpartition(".")[0]
    found = _names().get(name)
    for where in (path, owner):  # a member of the same class, a function of the same module
        found = _names().get(f"{where}.{name}") or found
    if found and found != path and re.fullmatch(r"[\w.]+", name):
        return f":py:obj:`{name} <{found}>`"
    return f"``{code}``"


def _prose(text: str, path: str) -> str:
    parts = re.split(r"(`+[^`]+`+)", text)
    for i, part in enumerate(parts):
        label = LABEL.fullmatch(part.strip("`"))
        if part.startswith("`") and not label:
            parts[i] = _link(part.strip("`"), path)
            continue
        escaped = part if label else re.sub(r"([*|\\])|(?<=\w)(_)(?!\w)", r"\\\1\2", part)
        parts[i] = LABEL.sub(_equation_link, escaped.strip("`") if label else escaped)
    joined = "".join(parts)
    # markup must be set off from letters around it
    joined = re.sub(r"(?<=[\w])(``[^`]+``|:(?:ref|py:obj):`[^`]+`)", r"\\ \1", joined)
    return re.sub(r"(``[^`\n]+``|:(?:ref|py:obj):`[^`\n]+`)(?=[\w(])", r"\1\\ ", joined)


def _equation_link(match: re.Match[str]) -> str:
    equation = EQUATIONS.get(match[0])
    if equation is None:
        return match[0]
    return f":ref:`eq. {equation.number} <{target(match[0])}>`"


_SECTION = re.compile(r"(Arguments|Attributes|Returns|Raises|Yields):$")


def prepared(doc: str, path: str) -> list[str]:
    """A docstring as lines of reStructuredText: links, escapes, formulas; doctests stay as they are."""
    found: list[str] = []
    section = ""
    if not doc.strip():
        return found
    for paragraph in re.split(r"\n\s*\n", doc.strip("\n")):
        lines = paragraph.splitlines()
        start = _SECTION.match(lines[0])
        section = start[1] if start else section if lines[0].startswith("    ") else ""
        if lines[0].lstrip().startswith(">>>"):
            found += lines
        elif start and start[1] == "Returns" and len(lines) > 1:  # napoleon takes what stands before a colon for a type
            first, *rest = _prose(inspect.cleandoc("\n".join(lines[1:])), path).splitlines()
            found += [f":returns: {first}", *(f"    {line}" for line in rest)]
        elif all(line.startswith("    ") for line in lines) and not section:
            block = inspect.cleandoc(paragraph)
            if is_formula(block):
                found += [".. math::", "", f"   {typeset(block)}"]
                labels = list(dict.fromkeys(f"eq:{each}" for each in LABEL.findall(block)))
                if labels:
                    links = ", ".join(LABEL.sub(_equation_link, label) for label in labels)
                    found += ["", f"In the paper: {links}."]
            else:
                found += ["::", "", *lines]
        else:
            text = paragraph
            named = re.compile(r"^(    [\w*, ]+:)(?= )", re.MULTILINE)
            heads = named.findall(text) if section else []
            if heads:  # names of arguments are left to napoleon
                pieces = named.split(text)
                text = "".join(piece if i % 2 else _prose(piece, path) for i, piece in enumerate(pieces))
            else:
                text = _prose(text, path)
            found += text.splitlines()
        found.append("")
    return found


def prepare(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """For the event autodoc-process-docstring."""
    if what != "module":
        lines[:] = prepared("\n".join(lines), name)


_ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")


def shorten_types(
    app: Any, what: str, name: str, obj: Any, options: Any, args: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """For the event autodoc-process-signature: names of types as they are in the source."""
    if args is None or not _ALIAS.search(args + (returns or "")):
        return None
    return _ALIAS.sub(r"\1", args), returns and _ALIAS.sub(r"\1", returns)


# The command


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;").replace("[", "\\[")


def _default(param: Any) -> str:
    value = param.default
    if value is None or value is False or callable(value) or value == []:
        return "required" if param.required else ""
    value = getattr(value, "value", value)
    return f"`{' '.join(map(str, value)) if isinstance(value, list | tuple) else value}`"


def _option_rows(params: list[Any]) -> Iterator[str]:
    from counterrank.cli.command import filled

    yield "| option | default | |"
    yield "|---|---|---|"
    for each in params:
        flags = [*each.opts, *each.secondary_opts]
        metavar = each.metavar or ("" if getattr(each, "is_flag", False) else each.name.upper())
        names = ", ".join(f"`{flag}{' ' + metavar if metavar and i == 0 else ''}`" for i, flag in enumerate(flags))
        yield f"| {names} | {_default(each)} | {_cell(filled(each.help or ''))} |"


def commands(_: str) -> str:
    """All commands with all options, from what the command itself reads."""
    from typer.main import get_command

    from counterrank.cli import app
    from counterrank.cli.command import PANELS, filled

    text = []
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
        words = [each.name.upper() + ("..." if each.nargs == -1 else "") for each in arguments]
        shown = [word if each.required else f"[{word}]" for word, each in zip(words, arguments, strict=True)]
        text += [
            f"(command-{name})=",
            f"## {name}",
            "",
            "```text",
            " ".join([f"counterrank {name} [OPTIONS]", *shown]),
            "```",
            "",
        ]
        for paragraph in filled(command.help or "").split("\n\n"):
            before, colon, example = " ".join(paragraph.split()).partition(": counterrank ")
            text += [before + (colon and ":"), ""] if colon else [_prose_line(before), ""]
            if colon:
                text += ["```sh", f"counterrank {example}", "```", ""]
        if arguments:
            rows = [
                f"| `{word}` | {_cell(filled(each.help or ''))} |" for word, each in zip(words, arguments, strict=True)
            ]
            text += _stacked(["| argument | |", "|---|---|", *rows])
        panels = {each.rich_help_panel or "Options" for each in options}
        for panel in sorted(panels, key=lambda each: (*PANELS, each).index(each)):
            mine = [each for each in options if (each.rich_help_panel or "Options") == panel]
            text += [f"**{panel}**", *_stacked(list(_option_rows(mine)), "options")]
    return "\n".join(text)


def _prose_line(text: str) -> str:
    return text.replace("*", "\\*").replace("<", "&lt;")


# The paper's equations


@cache
def citations() -> dict[str, list[str]]:
    """For each label of the paper, the functions and classes whose docstring cites it, by path."""
    found: dict[str, list[str]] = {label: [] for label in EQUATIONS}

    def visit(node: Any, path: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                own = f"{path}.{child.name}"
                for label in dict.fromkeys(f"eq:{each}" for each in LABEL.findall(ast.get_docstring(child) or "")):
                    found.setdefault(label, []).append(own)
                visit(child, own)

    for name, tree in _trees():
        for label in dict.fromkeys(f"eq:{each}" for each in LABEL.findall(ast.get_docstring(tree) or "")):
            found.setdefault(label, []).append(name)
        visit(tree, name)
    unknown = sorted(set(found) - set(EQUATIONS))
    if unknown:
        raise ValueError(f"docstrings cite {', '.join(unknown)}: no such equation in docs/_site/formulas.py")
    return found


@cache
def _by_definition() -> dict[str, str]:
    """Documented paths by where an object is defined."""
    found = {}
    for path in documented():
        value = lookup(path)
        if inspect.isclass(value) or inspect.isroutine(value):
            found[f"{value.__module__}.{value.__qualname__}"] = path
    return found


def equations(_: str) -> str:
    """The equations, and the code that cites them."""
    text = []
    for label, equation in EQUATIONS.items():
        text += [
            f"({target(label)})=",
            f"## ({equation.number}) {equation.name}",
            "",
            "```{math}",
            equation.latex,
            "```",
            "",
        ]
        public, inner = [], []
        for path in citations()[label]:
            owner = path.rpartition(".")[0]
            known = _by_definition().get(path)
            if known:
                public.append(f"{{py:obj}}`{shortened(known)} <{known}>`")
            elif owner in _by_definition():
                member = f"{_by_definition()[owner]}.{path.rpartition('.')[2]}"
                public.append(f"{{py:obj}}`{shortened(member)} <{member}>`")
            else:
                inner.append(f"`{path.removeprefix('counterrank.')}`")
        text += [f"Label in the paper: `{label}`.", ""]
        if public:
            text += [f"In the API: {', '.join(public)}.", ""]
        if inner:
            text += [f"In the source: {', '.join(inner)}.", ""]
    return "\n".join(text)


GENERATORS: dict[str, Callable[[str], str]] = {
    "api": api,
    "api-index": api_index,
    "commands": commands,
    "equations": equations,
    "top-names": top_names,
}
_MARK = re.compile(r"^<!-- generated: ([\w-]+) ?([\w.]*) -->$", re.MULTILINE)


def read(app: Any, name: str, source: list[str]) -> None:
    """For the event source-read: generated text in the place of marks, and titles of pages for links by file name."""
    text = _MARK.sub(lambda match: GENERATORS[match[1]](match[2]), source[0])
    source[0] = re.sub(r"\[`?[\w/-]+\.md`?\]\((?=[\w./-]+\.md)", "[](", text)


def skip(app: Any, what: str, name: str, obj: Any, skipped: bool, options: Any) -> bool | None:
    """For the event autodoc-skip-member: old names are not shown."""
    return True if (getattr(obj, "__doc__", None) or "").startswith("The old name of ") else None


def setup(app: Any) -> None:
    """Connect to what reads pages and docstrings."""
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", prepare, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", shorten_types)
    app.connect("autodoc-skip-member", skip)

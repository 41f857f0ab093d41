"""The options of commands that read click logs, described once and handed over as one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from counterrank.clicks.logs.columns import LogOptions

_PANEL = "How a log is read"


def _option(*names: str, help: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=_PANEL)


def _of_logs(
    map: Annotated[
        str | None, _option(help="Other names of columns, as rank=position,clicked=is_click (ours=theirs).")
    ] = None,
    rank_base: Annotated[int, _option(help="The number of the first rank, 0 or 1.")] = 1,
    format: Annotated[
        str, _option(help="parquet, csv, jsonl, ubi (OpenSearch) or metarank; auto goes by names and first lines.")
    ] = "auto",
    click_actions: Annotated[
        str, _option(help="Which actions (of ubi) or types (of metarank) are clicks, as click,click_through.")
    ] = "click",
    impressions: Annotated[
        bool, _option("--impressions", help="Each row is a page of its own; session_id and query_id may be missing.")
    ] = False,
    only_policy: Annotated[
        list[str] | None,
        _option(
            help="Use the sessions of this policy only, by its name in the column policy; several times for several."
        ),
    ] = None,
    on_error: Annotated[
        str, _option(help="What to do about wrong rows: fail, or skip to drop the pages they are on.")
    ] = "fail",
    strict: Annotated[
        bool,
        _option("--strict", help="Rows of queries or documents that the data does not have are wrong rows too."),
    ] = False,
    trust: Annotated[
        bool,
        _option(
            "--trust",
            help="Do not look at pages: sessions that are missing or have two queries, gaps, "
            "documents or ranks that come twice.",
        ),
    ] = False,
    memory: Annotated[
        str, _option(help="How much memory DuckDB may use; beyond it, it spills to the folder that TMPDIR names.")
    ] = "1GB",
    engine: Annotated[str, _option(help="duckdb here, or spark on the cluster --master.")] = "duckdb",
    master: Annotated[str | None, _option(help="local[*], spark://HOST:PORT or sc://HOST:PORT.")] = None,
    threads: int | None = None,
) -> LogOptions:
    from counterrank.clicks.logs.columns import LogOptions, parse_map

    return LogOptions(
        columns=parse_map(map),
        rank_base=rank_base,
        format=format,
        click_actions=tuple(click_actions.split(",")),
        impressions=impressions,
        only_policies=tuple(only_policy or ()),
        on_error=on_error,
        strict=strict,
        trust=trust,
        memory=memory,
        threads=threads,
        engine=engine,
        master=master,
    )


def reads_logs(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of logs; it gets them as `reading`, which must be one of its arguments."""
    own = inspect.signature(command)
    added = [each for name, each in inspect.signature(_of_logs).parameters.items() if name != "threads"]
    kept = [each for name, each in own.parameters.items() if name != "reading"]

    @wraps(command)
    def wrapper(**given: Any) -> None:
        about = {each.name: given.pop(each.name) for each in added}
        command(**given, reading=_of_logs(**about, threads=given.get("threads")))

    named = {"LogOptions": Any}  # imported where logs are read and not before
    hints = get_type_hints(command, localns=named, include_extras=True)
    hints = {**get_type_hints(_of_logs, localns=named, include_extras=True), **hints}
    parameters = [each.replace(annotation=hints[each.name]) for each in (*kept, *added)]
    signature = own.replace(parameters=parameters, return_annotation=None)
    wrapper.__dict__.update(__signature__=signature)
    del wrapper.__dict__["__wrapped__"]  # typer would look at the command's own arguments
    wrapper.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapper

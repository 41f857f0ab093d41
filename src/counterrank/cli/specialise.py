"""`counterrank specialise`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from counterrank.cli import options as shared
from counterrank.cli.command import EVALUATION
from counterrank.cli.evidence import ClickSource, fitting, parts_of
from counterrank.cli.options import option, reads_logs
from counterrank.cli.output import (
    check_out,
    command_line,
    folder_with,
    print_json,
    print_table,
    say,
    say_next,
    show_warnings,
)
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank.data.sources import DataOptions

_MOST = 10  # queries in the table


@reads_logs
def specialise(
    ranker: shared.SavedRanker,
    data: shared.Data,
    out: Annotated[Path, option("The folder to write the ranker to.", "PATH")],
    source: ClickSource,
    test_clicks: Annotated[
        Path | None,
        option(
            "Click counts of other sessions, with displayed pages, that rankings are tested on; with --log those of "
            "--hold-out-sessions, if not given.",
            "PATH",
        ),
    ] = None,
    part: shared.Part = "train",
    metric: Annotated[
        str | None, option("dcg@k or precision@k; dcg@k of the ranker if not given.", "NAME", EVALUATION)
    ] = None,
    confidence: Annotated[float, option("Confidence level of the bound of each query.", "X", EVALUATION)] = 0.95,
    min_sessions: Annotated[int, option("Sessions of a query that is tested, of both kinds.", "N", EVALUATION)] = 20,
    force: shared.Force = False,
    threads: shared.Threads = None,
    json: shared.Json = False,
    *,
    opening: DataOptions,
) -> None:
    """Give frequent queries rankings of their own, where held-out sessions show that they are better.

    Example: counterrank specialise ranker synthetic:mslr --clicks clicks --test-clicks later --out specialised

    From a log: counterrank specialise ranker synthetic:mslr --log log --hold-out-sessions 0.5 --out specialised
    """
    from counterrank import Ranker
    from counterrank.data.sources import choose_part
    from counterrank.training import specialise as library
    from counterrank.training.storage import MARKER, PARTS

    check_out(out, force, (ranker, data, test_clicks, *source.inputs), folder_with(MARKER, PARTS))
    general = Ranker.load(ranker)
    general.threads = threads
    opened = opening.open(data, threads)
    chosen, parts = choose_part(opened, part, data), parts_of(opened, part)
    other = _test_source(source, test_clicks)
    counts = source.load(part, parts), other.load(part, parts, displays=other.log is not None)
    source.say_what_it_read()
    source.fit_users((counts[0], chosen))
    other.found = source.found
    with show_warnings(), _flags():
        found = library(
            general,
            fitting(chosen, general, data),
            source.about(counts[0], part, parts),
            other.about(counts[1], part, parts),
            metric=metric,
            confidence=confidence,
            min_sessions=min_sessions,
        )
    found.ranker.provenance_["command"] = command_line()
    found.save(out)
    if json:
        print_json({"out": str(out), **found.summary(), "tests": [asdict(each) for each in found.tests]})
        return
    most = sorted(found.tests, key=lambda each: (not each.used, -each.sessions))[:_MOST]
    rows = [
        (str(each.query), f"{each.sessions:,}", f"{each.held_out_sessions:,}", f"{each.estimate:+.4f}",
         f"{each.lower:+.4f}", "yes" if each.used else "no")
        for each in most
    ]  # fmt: skip
    head = ("query", "sessions", "held out", f"gain in {found.metric}", "lower bound", "own ranking")
    print_table(f"{len(found.queries):,} of {len(found.tests):,} tested queries get rankings of their own", head, rows)
    if len(found.tests) > len(most):
        say(f"{len(found.tests) - len(most):,} more queries were tested; --json lists them.")
    say_next("rank", out, data, "--part", part, "--out", "run.trec")


@contextmanager
def _flags() -> Iterator[None]:
    """Errors about the sessions that rankings are tested on name the option."""
    try:
        yield
    except CounterrankError as error:
        raise type(error)(str(error).replace("held_out:", "test_clicks:")) from None


def _test_source(source: ClickSource, test_clicks: Path | None) -> ClickSource:
    """Where the sessions come from that rankings are tested on."""
    if test_clicks is not None:
        return replace(source, clicks=[test_clicks], log=None)
    if source.log is None or source.reading is None or not source.reading.hold_out_sessions:
        raise CounterrankError(
            "--test-clicks: not given; expected click counts of other sessions than those of --clicks, or --log with "
            "--hold-out-sessions"
        )
    if source.reading.held_out:
        raise CounterrankError("--only-held-out: both kinds of sessions are used; leave it out")
    return replace(source, reading=replace(source.reading, held_out=True), reports=[], drift={})

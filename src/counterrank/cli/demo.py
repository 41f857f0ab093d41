"""`counterrank demo`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from counterrank.cli.options import Json, Seed, Threads
from counterrank.cli.output import print_json, print_table, say
from counterrank.common.checks import check_choice
from counterrank.common.errors import CounterrankError


def demo(
    shape: Annotated[str, typer.Option(help="Which built-in data: mslr or yahoo.")] = "mslr",
    queries: Annotated[int, typer.Option(help="How many queries, in all parts together.")] = 3000,
    seed: Seed = 0,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Show the library at work on built-in data: rankers learned from the same clicks in different ways.

    Example: counterrank demo
    """
    from counterrank.experiments.demo import METRICS, SESSIONS, run_demo

    check_choice(shape, ("mslr", "yahoo"), "shape")
    if queries < 20:
        raise CounterrankError(f"queries={queries}: expected at least 20, to have some in every part")
    say(
        f"Making {queries:,} queries of built-in data ({shape}), showing {SESSIONS:,} pages of 5 results to simulated "
        "users,\nand learning rankers from what they click ...\n"
        "(the first run also compiles, which takes a while; later runs start at once)"
    )
    begin = time.perf_counter()
    result = run_demo(shape, queries, seed, threads)
    seconds = time.perf_counter() - begin
    found = result.comparison
    if json:
        print_json(
            {
                "shape": shape,
                "queries": queries,
                "production_queries": found.production_queries,
                "sessions": found.clicks.n_sessions,
                "clicks": found.clicks.n_clicks,
                "metrics": result.metrics,
                "gap_closed": found.shares(),
                "seconds": seconds,
            }
        )
        return
    shares = found.shares()
    print_table(
        f"On {result.fold.test.n_queries:,} test queries (relevant = label 3 or 4)",
        ("ranker", *METRICS, "gap closed"),
        [
            (name, *(values[metric] for metric in METRICS), f"{shares[name]:.0%}" if name in shares else None)
            for name, values in result.metrics.items()
        ],
    )
    say(
        f"The production ranker learned from the labels of {found.production_queries} queries and made the pages; the "
        f"next three learned\nfrom {found.clicks.n_clicks:,} clicks on them, the last from the labels of all "
        f"{result.fold.train.n_queries:,} queries. Gap closed is the share of the\ndistance in dcg@5 from the first "
        f"to the last; arp is better when lower. {seconds:.0f} s.\n"
        "Next: counterrank simulate and counterrank train --clicks, see the README."
    )

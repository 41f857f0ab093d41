"""`counterrank demo`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from counterrank.cli.options import Json, Seed, Threads
from counterrank.cli.output import print_json, print_table, say


def demo(
    shape: Annotated[str, typer.Option(help="Which built-in data: mslr or yahoo.")] = "mslr",
    queries: Annotated[int, typer.Option(help="How many queries, in all parts together.")] = 3000,
    seed: Seed = 0,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Show the library at work on built-in data: a ranker from few labels against one from all.

    Example: counterrank demo
    """
    from counterrank.experiments.demo import METRICS, run_demo

    say(
        f"Making {queries:,} queries of built-in data ({shape}) and training two rankers ...\n"
        "(the first run also compiles the kernels, which takes up to a minute; later runs start at once)"
    )
    begin = time.perf_counter()
    result = run_demo(shape, queries, seed, threads)
    seconds = time.perf_counter() - begin
    if json:
        print_json(
            {
                "shape": shape,
                "queries": queries,
                "production_queries": result.production_queries,
                "metrics": result.metrics,
                "history": result.full_information.history_,
                "seconds": seconds,
            }
        )
        return
    print_table(
        f"On {result.fold.test.n_queries:,} test queries (relevant = label 3 or 4)",
        ("ranker", *METRICS),
        [(name, *(values[metric] for metric in METRICS)) for name, values in result.metrics.items()],
    )
    say(
        f"The production ranker learned from the labels of {result.production_queries} queries, the other from all "
        f"{result.fold.train.n_queries:,}; arp is better when lower. {seconds:.0f} s.\n"
        "Next: counterrank train YOUR_FOLD --loss lambdaloss-truncated --k 5 --out ranker"
    )

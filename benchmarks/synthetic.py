"""How long synthetic data takes to make; kernels are compiled and cached before the clock starts."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.timing import row, seconds_of
from counterrank.data import make_ranking_data

_TARGET = 10.0  # seconds for 18,900 queries of the mslr shape, on two cores


def run(n_queries: int = 18_900) -> list[dict[str, Any]]:
    """One row for each shape: seconds, and their limit."""
    rows = []
    for shape in ("mslr", "yahoo"):
        make_ranking_data(shape, 100)
        seconds = seconds_of(partial(make_ranking_data, shape, n_queries))
        name = f"make_ranking_data, {shape}, {n_queries:,} queries"
        rows.append(row(name, seconds, target=f"<= {_TARGET:g} s", met=seconds <= _TARGET))
    return rows


if __name__ == "__main__":
    for line in run():
        print(line)

"""`make bench`: all sections in one process, as a table of ratios or, with --json, as one JSON object.

make bench ARGS="--only epochs,peers --queries 2000"
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from counterrank import make_ranking_data

_ON_DATA = ("epochs", "populations", "peers", "evaluation", "simulation", "propensities", "estimate", "relevance")
_SECTIONS = (*_ON_DATA, "letor", "synthetic", "startup", "logs")
_APART = ("lambdamart", "auto_cost")  # take long: only with --only


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--queries", type=int, default=18_900, help="queries of synthetic:mslr (default 18,900)")
    parser.add_argument("--only", default=",".join(_SECTIONS), help="comma-separated sections")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := set(chosen) - {*_SECTIONS, *_APART}:
        parser.error(f"--only {unknown.pop()}: expected some of {', '.join((*_SECTIONS, *_APART))}")
    results: dict[str, list[dict[str, Any]]] = {}
    data = None
    for name in chosen:
        print(f"{name} ...", file=sys.stderr, flush=True)
        section = importlib.import_module(f"benchmarks.{name}")
        if name in _ON_DATA:
            if data is None:
                data = make_ranking_data("mslr", options.queries, seed=0)
            results[name] = section.run(data)
        else:
            results[name] = section.run()
    if options.json:
        print(json.dumps({"queries": options.queries, "results": results}, indent=2))
        return
    for name, rows in results.items():
        _show(name, rows)


def _show(name: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=name, title_justify="left")
    table.add_column("what")
    for column in ("seconds", "ratio", "target", ""):
        table.add_column(column, justify="right")
    for row in rows:
        ratio, target, met = row.get("ratio"), row.get("target"), row.get("met")
        table.add_row(
            row["name"],
            f"{row['seconds']:.4f}" if row.get("seconds") is not None else "",
            "" if ratio is None else f"{ratio:.2f}",
            str(target or ""),
            "" if met is None else ("met" if met else "missed"),
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)


if __name__ == "__main__":
    main()

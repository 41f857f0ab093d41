"""Does another version of the code give the same results? Records the results of many calls, and compares two records.

    python -m benchmarks.compare_versions run BASE_SRC NEW_SRC      # both records in turn, then their comparison
    PYTHONPATH=BASE_SRC python -m benchmarks.compare_versions record OUT_DIR
    python -m benchmarks.compare_versions compare DIR_A DIR_B

The calls are in `benchmarks.compare_clicks` and `compare_learning` (library) and `compare_commands` (command); they use
the public interface alone. What counts as the same is in `compare_results`. The exit code is 1 where anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import chdir
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.compare_results import CLASSES, Comparison, Difference, compare, leaves, store, stored

ROOT = Path(__file__).parents[1]
_MOST_SHOWN = 4  # differences of one call


def record(out: Path, only: str = "") -> int:
    """Run all cases whose names contain `only`, and store their results in a new folder; returns how many raised."""
    import counterrank
    from benchmarks import compare_clicks, compare_commands, compare_learning  # noqa: F401  # they register their cases
    from benchmarks.compare_inputs import CASES
    from counterrank import CounterrankError

    (out / "work").mkdir(parents=True)
    out = out.resolve()
    source = str(Path(counterrank.__file__).parents[1])
    (out / "record.json").write_text(json.dumps({"source": source}) + "\n", encoding="utf-8")
    begin, raised = time.perf_counter(), 0
    chosen = [case for case in CASES if only in case.name]
    with chdir(out / "work"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, case in enumerate(chosen, 1):
            since = time.perf_counter()
            error = message = None
            found = {}
            try:
                found = dict(leaves(case.call(), case.tolerance))
            except Exception as fault:
                # bad input has one public class; others are known by name
                error = "CounterrankError" if isinstance(fault, CounterrankError) else type(fault).__name__
                message = str(fault)
                raised += not case.raises
            seconds = time.perf_counter() - since
            store(out, case.name, {"raised": error, "message": message, "seconds": seconds}, found)
            state = f"{len(found)} leaves" if error is None else f"{error}: {message}"
            print(f"{number:>4}/{len(chosen)} {case.name}: {state} ({seconds:.1f} s)", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - begin
    print(f"{len(chosen)} calls of {source} in {seconds:.0f} s, {raised} raised unexpectedly", file=sys.stderr)
    return raised


def show(result: Comparison, console: Console) -> None:
    """Print what was compared, what is new and what differs."""
    table = Table(title="leaves compared (largest deviation)")
    table.add_column("group")
    table.add_column("calls", justify="right")
    for name in CLASSES:
        table.add_column(name, justify="right")
    table.add_column("differences", justify="right")
    for group in dict.fromkeys(name.partition("/")[0] for name in result.cases):
        calls = sum(name.partition("/")[0] == group for name in result.cases)
        wrong = sum(each.case.partition("/")[0] == group for each in result.differences)
        table.add_row(group, str(calls), *(_cell(result, group, name) for name in CLASSES), str(wrong or ""))
    console.print(table)
    if result.differences:
        wrong = Table("call", "leaf", "class", "difference", title="differences")
        by_call: dict[str, list[Difference]] = {}
        for each in result.differences:
            by_call.setdefault(each.case, []).append(each)
        for call, found in by_call.items():
            for each in found[:_MOST_SHOWN]:
                wrong.add_row(call, each.path, each.tolerance, each.what)
            if len(found) > _MOST_SHOWN:
                wrong.add_row(call, f"... and {len(found) - _MOST_SHOWN} more")
        console.print(wrong)
    if result.new:
        shown = ", ".join(result.new[:10])
        console.print(f"new, no difference: {len(result.new)} leaves, such as {shown}", highlight=False)
    counts = ", ".join(f"{result.total(name)} {name}" for name in CLASSES)
    console.print(
        f"{len(result.cases)} calls ({len(result.raised)} raise in both), {sum(result.compared.values())} leaves "
        f"compared: {counts}; {len(result.differences)} differences",
        highlight=False,
    )


def _cell(result: Comparison, group: str, tolerance: str) -> str:
    number = result.compared[group, tolerance]
    deviation = result.deviations.get((group, tolerance), 0.0)
    return "" if not number else f"{number} ({deviation:.1g})" if deviation else str(number)


def record_in_process(source: Path, out: Path, only: str) -> None:
    """Record with the package of a source folder, in a new process."""
    if not (source / "counterrank").is_dir():
        sys.exit(f"{source}: has no counterrank; expected a source folder")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source.resolve()), str(ROOT)])}
    command = [sys.executable, "-m", "benchmarks.compare_versions", "record", str(out), "--only", only]
    done = subprocess.run(command, env=environment, cwd=ROOT, check=False)
    if not (out / "record.json").is_file() or done.returncode not in (0, 1):
        sys.exit(f"{source}: recording ended with {done.returncode}")
    used = json.loads((out / "record.json").read_text(encoding="utf-8"))["source"]
    if Path(used) != source.resolve():
        sys.exit(f"{source}: the package was imported from {used}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tasks = parser.add_subparsers(dest="task", required=True)
    recorder = tasks.add_parser("record", help="run all calls with the importable counterrank")
    recorder.add_argument("out", type=Path, help="a folder that does not exist yet")
    recorder.add_argument("--only", default="", help="calls whose names contain this")
    comparer = tasks.add_parser("compare", help="compare two records")
    comparer.add_argument("old", type=Path)
    comparer.add_argument("new", type=Path)
    runner = tasks.add_parser("run", help="record with two source folders, and compare")
    runner.add_argument("base", type=Path)
    runner.add_argument("new", type=Path)
    runner.add_argument("--only", default="", help="calls whose names contain this")
    runner.add_argument("--keep", type=Path, help="keep both records in this new folder")
    given = parser.parse_args()
    if given.task == "record":
        sys.exit(1 if record(given.out, given.only) else 0)
    if given.task == "compare":
        sys.exit(_compared(given.old, given.new))
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        for name, source in (("base", given.base), ("new", given.new)):
            record_in_process(source, (folder / name).resolve(), given.only)
        sys.exit(_compared(folder / "base", folder / "new"))


def _compared(old: Path, new: Path) -> int:
    for folder in (old, new):
        if not (folder / "record.json").is_file():
            sys.exit(f"{folder}: not a record; expected a folder that `record` wrote")
    result = compare(stored(old), stored(new))
    show(result, Console(width=None if sys.stdout.isatty() else 160))
    return 1 if result.differences or not result.cases else 0


if __name__ == "__main__":
    main()

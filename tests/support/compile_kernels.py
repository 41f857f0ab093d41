"""Compile all kernels before the tests start, in a process for each core.

    python -m tests.support.compile_kernels

Within one process numba compiles one thing at a time, and tests that wait for a kernel compile it once in each process.
What is compiled is what `benchmarks.compile_time` lists: the doctests of all public functions, and what they leave out.
Whether these pass is for the tests to say. Where the kernels of these sources are there already, nothing is done.
"""

import io
import multiprocessing
import os
import sys
import time
import warnings
from contextlib import redirect_stderr, redirect_stdout, suppress

from benchmarks.compile_time import modules, run_doctests, run_more

from counterrank.common.jit import cache_folder

MORE = "what no doctest reaches"
# they compile the most; whoever begins with them is not the last to end
FIRST = ("counterrank.training", "counterrank.evaluation", "counterrank.losses")


def jobs() -> list[str]:
    names = [MORE, *modules("counterrank.")]
    return sorted(names, key=lambda name: (name != MORE, not name.startswith(FIRST), name))


def run(job: str) -> float:
    """Seconds of the processor that a job took."""
    begin = time.process_time()
    quiet = redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO())
    with suppress(Exception), warnings.catch_warnings(), quiet[0], quiet[1]:
        warnings.simplefilter("ignore")
        if job == MORE:
            run_more()
        else:
            run_doctests([job], verbose=False)
    return time.process_time() - begin


def main() -> None:
    folder = cache_folder()
    if folder is None:
        sys.exit("no folder for compiled kernels can be written")
    stamp = folder / f"compiled-py{sys.version_info.major}{sys.version_info.minor}"
    if stamp.exists():
        return
    os.environ.update(OPENBLAS_NUM_THREADS="1", COUNTERRANK_THREADS="1")
    begin = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(os.cpu_count() or 1) as pool:
        seconds = sum(pool.imap_unordered(run, jobs()))
    stamp.touch()
    print(f"kernels compiled in {time.perf_counter() - begin:.0f} s ({seconds:.0f} s of the processor)")


if __name__ == "__main__":
    main()

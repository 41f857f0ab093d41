"""Compile time of every kernel that the doctests reach, from an empty cache, on one core.

    .venv/bin/python -m benchmarks.compile_time            # the 25 slowest kernels, and the sum
    .venv/bin/python -m benchmarks.compile_time --signatures --top 0 --only counterrank.losses

Every public function has a doctest (`tests/test_public.py` checks it), so the doctests together compile what the
library compiles for its users. numba reports each compilation (`numba.core.event`); a kernel that is compiled because
another calls it is reported within the other, so seconds here are a kernel's own, without those of the kernels it
waits for. Its code is nevertheless optimised again within each caller, and that is the caller's time. Seconds are of
the processor, and vary by a tenth or so with what else the machine does.
"""

from __future__ import annotations

import argparse
import doctest
import importlib
import io
import json
import os
import pkgutil
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# commands and experiments start other processes, which would fill the cache unseen
SKIPPED = ("cli", "experiments", "report", "__main__")


@dataclass
class Compilation:
    """One signature of one kernel: seconds with and without what was compiled on the way."""

    name: str
    signature: str
    seconds: float = 0.0
    own: float = 0.0


@dataclass
class Recorder:
    """Listens to numba's events "numba:compile", which are nested as calls are."""

    found: list[Compilation] = field(default_factory=list)
    open: list[tuple[Compilation, float]] = field(default_factory=list)

    def notify(self, event: Any) -> None:
        if event.is_start:
            function = event.data["dispatcher"].py_func
            made = Compilation(f"{function.__module__}.{function.__qualname__}", str(event.data["args"]))
            self.open.append((made, time.process_time()))
            return
        made, begin = self.open.pop()
        made.seconds = time.process_time() - begin
        made.own += made.seconds
        if self.open:
            self.open[-1][0].own -= made.seconds
        self.found.append(made)


def modules(only: str) -> list[str]:
    import counterrank

    names = [found.name for found in pkgutil.walk_packages(counterrank.__path__, "counterrank.")]
    return [name for name in names if name.startswith(only) and name.split(".")[1] not in SKIPPED]


def run_doctests(names: list[str], verbose: bool) -> None:
    for name in names:
        begin = time.perf_counter()
        output = io.StringIO()
        with redirect_stdout(output):
            failed = doctest.testmod(importlib.import_module(name)).failed
        if failed:
            print(f"{name}: {failed} examples failed\n{output.getvalue()}", file=sys.stderr)
        if verbose:
            print(f"{time.perf_counter() - begin:6.1f} s  {name}", file=sys.stderr, flush=True)


def never_compiled(found: list[Compilation]) -> list[str]:
    """Kernels of the package that no doctest reached."""
    from numba.core.dispatcher import Dispatcher

    reached = {one.name for one in found}
    loaded = [module for name, module in sys.modules.items() if name.startswith("counterrank.")]
    kernels = {
        f"{value.py_func.__module__}.{value.py_func.__qualname__}"
        for module in loaded
        for value in vars(module).values()
        if isinstance(value, Dispatcher)
    }
    return sorted(kernels - reached)


def run_more() -> None:
    """What no doctest reaches: batches, sets of documents, other scalings, custom losses, pages in a log."""
    import numpy as np

    import counterrank as cr
    from counterrank import evaluation, examination, losses, policies, simulation

    data = cr.make_ranking_data("yahoo", n_queries=40, seed=0)
    weights = cr.estimators.full_information(data, relevance_threshold=3)
    exam, policy, scores = examination.inverse_rank(k=3), policies.UniformInsert(k=3), data.features[:, 0]
    for more in ({"batch_queries": 8}, {"normalize": "standard"}):
        cr.Ranker("arp-hinge", max_epochs=1, threads=1, **more).fit(data, weights).predict(data)
    clicks = simulation.simulate(data, scores, policy, exam, sessions=20_000, seed=0, displays=True)
    views = cr.estimators.rerank(clicks, exam)
    for batch in (1, 8):
        cr.Ranker("arp-hinge", max_epochs=1, threads=1, batch_queries=batch).fit(data, views, validation=(data, views))
    alpha = losses.Alpha(lambda x: x**-0.5, lambda x: -0.5 * x**-1.5)
    losses.monotonic(np.arange(3.0), [1.0, 0.0, 0.0], [0, 3], alpha=alpha)
    losses.second_order("arp-hinge", np.arange(3.0), [1.0, 0.0, 0.0], [0, 3])
    for method in ("all-pairs", "em", "regression-em"):
        examination.estimate(clicks, method=method, data=data if method == "regression-em" else None)
    policies.propensity_from_log(clicks, exam, smoothing="auto")
    rho = policy.propensity(scores, data.offsets, exam)
    evaluation.estimate(scores, data, clicks, rho, metrics=["arp", "dcg@5"])
    soft = {"soft": policies.PlackettLuce(k=3)}
    evaluation.plan_logging(data, scores, soft, exam, sessions=[1000])


def listen() -> Recorder:
    from numba.core import event

    recorder = Recorder()

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            recorder.notify(event)

        def on_end(self, event: Any) -> None:
            recorder.notify(event)

    event.register("numba:compile", Listener())
    return recorder


def print_table(found: list[Compilation], top: int, signatures: bool) -> None:
    kernels = defaultdict(list)
    for one in found:
        kernels[one.name].append(one)
    dearest = sorted(kernels.items(), key=lambda item: -sum(one.own for one in item[1]))
    print(f"{'own s':>7} {'all s':>7} {'signatures':>10}  kernel")
    for name, made in dearest[: top or None]:
        print(f"{sum(o.own for o in made):7.2f} {sum(o.seconds for o in made):7.2f} {len(made):10}  {name}")
        if signatures:
            for one in made:
                print(f"{one.own:7.2f} {one.seconds:7.2f} {'':10}      {one.signature}")
    ours = [one for one in found if one.name.startswith("counterrank.")]
    print(f"{sum(one.own for one in found):7.1f} s for {len(found)} signatures of {len(kernels)} functions,")
    print(f"{sum(one.own for one in ours):7.1f} s for the {len(ours)} of counterrank itself")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--top", type=int, default=25, help="kernels to show, 0 for all")
    parser.add_argument("--signatures", action="store_true", help="one line for each signature too")
    parser.add_argument("--only", default="counterrank.", help="modules whose doctests are run")
    parser.add_argument("--json", type=Path, help="write each compilation to this file")
    parser.add_argument("--verbose", action="store_true", help="print each module as it is done")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # before numba is imported, and for the processes that doctests start
        os.environ.update(NUMBA_CACHE_DIR=folder, COUNTERRANK_THREADS="1", OPENBLAS_NUM_THREADS="1")
        recorder = listen()
        run_doctests(modules(options.only), options.verbose)
        if options.only == "counterrank.":
            run_more()
    if options.json:
        options.json.write_text(json.dumps([vars(one) for one in recorder.found]))
    print_table(recorder.found, options.top, options.signatures)
    for name in never_compiled(recorder.found):
        print(f"never compiled: {name}")


if __name__ == "__main__":
    main()

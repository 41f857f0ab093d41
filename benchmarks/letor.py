"""Reading a dense LETOR file: ours, scikit-learn's reader and XGBoost's, on the same file; and our peak memory."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import counterrank as cr
from benchmarks.timing import at_least, row, seconds_of

N_FEATURES = 136
THREADS = 2


def write_file(path: Path, size_mb: int, seed: int = 0) -> None:
    """About `size_mb` MB of lines like those of the web data: counts, zeros, and values with six decimals."""
    generator = np.random.default_rng(seed)
    lines = [_line(generator) for _ in range(2000)]
    written = query = 0
    with path.open("w") as file:
        while written < size_mb * 1_000_000:
            length = int(generator.integers(20, 220))
            for place in generator.integers(len(lines), size=length):
                label, features = lines[place]
                written += file.write(f"{label} qid:{query} {features}\n")
            query += 1


def _line(generator: np.random.Generator) -> tuple[int, str]:
    kind = np.arange(N_FEATURES) % 10
    small, decimals = generator.poisson(3, N_FEATURES), generator.exponential(8, N_FEATURES)
    large = generator.lognormal(7, 3, N_FEATURES)
    values = []
    for i in range(N_FEATURES):
        if kind[i] < 2:
            values.append("0")
        elif kind[i] < 5:
            values.append(str(small[i]))
        elif kind[i] < 6:
            values.append(str(int(large[i])))
        elif kind[i] < 7:
            values.append(f"{-decimals[i]:.6f}")
        else:
            values.append(f"{decimals[i]:.6f}")
    label = int(generator.choice(5, p=[0.55, 0.3, 0.13, 0.014, 0.006]))
    return label, " ".join(f"{i}:{value}" for i, value in enumerate(values, 1))


def _ours(path: Path) -> Any:
    return cr.read_letor(path, threads=THREADS)


def _scikit_learn(path: Path) -> Any:
    from sklearn.datasets import load_svmlight_file

    return load_svmlight_file(str(path), query_id=True, zero_based=False)


def _xgboost(path: Path) -> Any:
    import xgboost

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated there, but the fastest other reader
        return xgboost.DMatrix(f"{path}?format=libsvm", nthread=THREADS, silent=True)


# not ru_maxrss, which a process inherits from the one that starts it
PEAK = """
import re, sys
import counterrank as cr
data = cr.read_letor(sys.argv[1], threads=int(sys.argv[2]))
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(int(peak[1]) * 1024, data.features.nbytes)
"""


def peak_memory_ratio(path: Path) -> float:
    """The peak memory of a process that reads the file, over the sizes of text and matrix."""
    command = [sys.executable, "-c", PEAK, str(path), str(THREADS)]
    peak, matrix = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    return peak / (path.stat().st_size + matrix)


def run(size_mb: int = 300, repeats: int = 3) -> list[dict[str, Any]]:
    """Rows of a table: seconds, and ratios with their targets."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        write_file(path, size_mb)
        small = Path(folder) / "small.txt"
        write_file(small, 1)
        _ours(small)  # compiles
        # in turn, so that other load affects both
        pairs = [(seconds_of(lambda: _ours(path)), seconds_of(lambda: _xgboost(path))) for _ in range(repeats)]
        ours = statistics.median(a for a, _ in pairs)
        xgboost = statistics.median(b for _, b in pairs)
        scikit_learn = seconds_of(lambda: _scikit_learn(path))  # once: it takes long enough
        memory = peak_memory_ratio(path)
    name = f"read_letor, {size_mb} MB"
    return [
        row(name, ours),
        at_least(f"{name}: faster than scikit-learn by", ours, scikit_learn, 15.0),
        at_least(f"{name}: faster than XGBoost by", ours, xgboost, 1.5),
        row(f"{name}: peak memory / (text + matrix)", None, memory, "<= 1.6", memory <= 1.6),
    ]


if __name__ == "__main__":
    for line in run():
        print(line)

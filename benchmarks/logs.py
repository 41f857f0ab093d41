"""A click log of 10^8 rows to click counts: against the plain group-by in DuckDB, in memory, and with Spark.

Each run is a separate process, with its own peak of memory. The log is written to a temporary folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import at_most, row

ROWS = int(float(os.environ.get("COUNTERRANK_LOG_ROWS", "1e8")))
PAGE, FILES, QUERIES, DOCUMENTS = 10, 8, 30_000, 125
CHUNK = 250_000  # pages
REPEATS = 3
GIGABYTES = 2.0


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        head, loose = Path(folder, "head"), Path(folder, "loose")
        write(head, ROWS, moving=False)
        rows = against_plain(head, "replace-last")
        small = measure("checked", head, "500MB")
        rows.append(row(f"the same with memory=500MB (peak {small['gigabytes']:.2f} GB)", small["seconds"]))
        rows += with_spark(head)
        write(loose, ROWS // 10, moving=True)
        rows += against_plain(loose, "all documents at all ranks, a tenth of the rows", targets=False)
    return rows


def write(folder: Path, rows: int, moving: bool) -> None:
    """Pages of ten: nine fixed documents and one drawn from the others, or ten neighbours in a circle of documents."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    rng = np.random.default_rng(0)
    pages, begin = rows // PAGE // FILES, 0
    for number in range(FILES):
        writer = None
        for size in [CHUNK] * (pages // CHUNK) + [pages % CHUNK] * (pages % CHUNK > 0):
            query = rng.integers(0, QUERIES, size)
            place = np.tile(np.arange(PAGE), (size, 1))
            if moving:
                place += rng.integers(0, DOCUMENTS, (size, 1))
            else:
                place[:, -1] += rng.integers(0, DOCUMENTS - PAGE + 1, size)
            columns = {
                "session_id": np.repeat(np.arange(begin, begin + size), PAGE),
                "query_id": np.repeat(query, PAGE),
                "doc_id": ((query * 31)[:, None] + place * 7).ravel() % DOCUMENTS,
                "rank": np.tile(np.arange(1, PAGE + 1), size),
                "clicked": (rng.random((size, PAGE)) < 0.1 / np.arange(1, PAGE + 1)).ravel(),
            }
            table = pa.table(columns)
            writer = writer or pq.ParquetWriter(folder / f"part-{number}.parquet", table.schema)
            writer.write_table(table, row_group_size=1 << 20)
            begin += size
        if writer is not None:
            writer.close()


def against_plain(folder: Path, what: str, targets: bool = True) -> list[dict[str, Any]]:
    """With and without checks of pages, against the group-by alone; run in turn, the best of each."""
    best: dict[str, dict[str, float]] = {}
    for _ in range(REPEATS):
        for how in ("plain", "checked", "trusted"):
            found = measure(how, folder)
            if how not in best or found["seconds"] < best[how]["seconds"]:
                best[how] = found
    plain, checked, trusted = (best[how] for how in ("plain", "checked", "trusted"))
    rows = [
        row(f"{what}: plain group-by (peak {plain['gigabytes']:.2f} GB)", plain["seconds"]),
        at_most(f"{what}: read_log / plain", checked["seconds"], plain["seconds"], 2.0 if targets else None),
        at_most(
            f"{what}: read_log(skip_page_checks=True) / plain",
            trusted["seconds"],
            plain["seconds"],
            1.3 if targets else None,
        ),
    ]
    if targets:
        peak = checked["gigabytes"]
        rows.append(row("peak memory of read_log, in GB", None, peak, f"<= {GIGABYTES:g}", peak <= GIGABYTES))
    return rows


def with_spark(folder: Path) -> list[dict[str, Any]]:
    """Spark on this machine and DuckDB, each with its start."""
    if find_spec("pyspark") is None:
        return [row("Spark: not installed", None)]
    here, there = measure("checked", folder), measure("spark", folder)
    return [at_most("read_log(engine='spark', master='local[*]') / DuckDB", there["seconds"], here["seconds"], None)]


def measure(how: str, folder: Path, memory: str = "1GB") -> dict[str, float]:
    """Seconds and peak memory of one way to count the log, in a new process."""
    command = [sys.executable, "-m", "benchmarks.logs", how, str(folder), memory]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main(how: str, folder: str, memory: str) -> None:
    """One measurement; the ranking data is made before the clock starts."""
    import resource
    from time import perf_counter

    import duckdb

    from counterrank import RankingData
    from counterrank.clicks import read_log

    size = QUERIES * DOCUMENTS
    ids = {"query_ids": np.arange(QUERIES), "doc_ids": np.tile(np.arange(DOCUMENTS), QUERIES)}
    data = RankingData(np.zeros((size, 1), np.float32), np.arange(0, size + 1, DOCUMENTS), **ids)
    begin = perf_counter()
    if how == "plain":
        with duckdb.connect() as connection:
            connection.execute("set preserve_insertion_order = false")
            connection.execute(
                "create temp table cells as select query_id, doc_id, rank, count(*), count_if(clicked) "
                f"from read_parquet('{folder}/*.parquet') group by query_id, doc_id, rank"
            )
    else:
        engine = {"engine": "spark", "master": "local[*]"} if how == "spark" else {}
        read_log(folder, data, skip_page_checks=how == "trusted", memory=memory, **engine)
    seconds = perf_counter() - begin
    print(json.dumps({"seconds": seconds, "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}))


if __name__ == "__main__":
    main(*sys.argv[1:])

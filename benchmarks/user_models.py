"""How often `inspect` recommends the user model by which clicks were made, on simulated pages.

    .venv/bin/python -m benchmarks.user_models --logs 20 --out runs/user_models.jsonl

40 queries of 12 documents, pages of 5 in orders that scatter about the logging order, users of four models. Results are
added to the file as they come, one line a log; a run goes on where the file ends. With `--log ROWS` seconds and memory
of `inspect` on the log of `benchmarks.logs` instead, with and without the comparison of user models.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from time import process_time

from tests.support.simulated_pages import sample

from counterrank.evaluation.inspection import USER_MODELS, compare_users, inspect_clicks

PAGES = (2000, 10_000, 50_000)


def recommendations(out: Path, logs: int) -> None:
    """Recommendations by model of the users and number of pages."""
    done = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    known = {(row["users"], row["pages"], row["seed"]) for row in done}
    for seed in range(1000, 1000 + logs):
        for n_pages in PAGES:
            for kind in USER_MODELS:
                if (kind, n_pages, seed) in known:
                    continue
                found = compare_users(sample(kind, n_pages=n_pages, seed=seed))
                row = {"users": kind, "pages": n_pages, "seed": seed, "recommended": found.recommended}
                row |= {"trust_p_value": found.trust_p_value}
                row |= {"difference": {each.name: each.difference for each in found.models}}
                done.append(row)
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    for kind in USER_MODELS:
        for n_pages in PAGES:
            own = Counter(str(row["recommended"]) for row in done if (row["users"], row["pages"]) == (kind, n_pages))
            print(f"{kind}, {n_pages:,} pages: {dict(own)}")


def cost(folder: Path, rows: int, moving: bool) -> None:
    """Processor seconds of reading, inspecting, sampling pages and comparing models, and the peak of memory."""
    from benchmarks.logs import write
    from counterrank.clicks.logs import read_pages, read_parts

    if not folder.exists():
        write(folder, rows, moving=moving)
    marks = [process_time()]
    counts = read_parts(folder, (), drift=True).counts[0]
    marks.append(process_time())
    inspect_clicks(counts, whole_log=True)
    marks.append(process_time())
    pages = read_pages(folder, counts)
    marks.append(process_time())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    compare_users(pages)
    marks.append(process_time())
    seconds = [round(later - earlier, 1) for earlier, later in pairwise(marks)]
    names = ("read", "inspect", "sample", "compare")
    print(json.dumps(dict(zip(names, seconds, strict=True)) | {
        "gigabytes before": round(before, 2),
        "gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "pages": pages.n_pages, "queries": pages.n_queries, "documents": pages.n_docs,
    }))  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("user_models.jsonl"))
    parser.add_argument("--log", type=float, help="rows of a log to measure seconds and memory on")
    parser.add_argument("--folder", type=Path, default=Path("user_models_log"))
    parser.add_argument("--moving", action="store_true", help="documents at all ranks in that log")
    given = parser.parse_args()
    if given.log:
        sys.exit(cost(given.folder, int(given.log), given.moving))
    recommendations(given.out, given.logs)

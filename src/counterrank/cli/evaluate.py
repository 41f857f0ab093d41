"""`counterrank evaluate`."""

from __future__ import annotations

from typing import Annotated

from counterrank.cli.options import Data, Json, Part, SavedRanker, Threads, Threshold, option
from counterrank.cli.output import print_json, print_table
from counterrank.common.errors import CounterrankError


def evaluate(
    ranker: SavedRanker,
    data: Data,
    part: Part = "test",
    relevance_threshold: Threshold = 3,
    metrics: Annotated[
        str | None, option(help="Comma-separated, such as dcg@5,mrr; all if not given.", metavar="LIST")
    ] = None,
    ks: Annotated[str, option(help="Cutoffs k, where --metrics names none.", metavar="LIST")] = "1,3,5,10",
    ties: Annotated[
        str, option(help="Equal scores: average (over their orders) or order (of the documents).", metavar="NAME")
    ] = "average",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Evaluate a saved ranker on the labels of ranking data.

    Example: counterrank evaluate ranker synthetic:mslr --metrics dcg@5,ndcg@10,arp
    """
    from counterrank import evaluation
    from counterrank.cli.evidence import load_model_and_data

    loaded, chosen = load_model_and_data(ranker, data, part, threads)
    values = evaluation.evaluate(
        loaded.predict(chosen),
        chosen,
        relevance_threshold,
        metrics=None if metrics is None else [name.strip() for name in metrics.split(",")],
        ks=_cutoffs(ks),
        ties=ties,
        threads=threads,
    )
    if json:
        print_json({"model": str(ranker), "data": data, "queries": chosen.n_queries, "metrics": values})
        return
    print_table(f"{ranker} on {data} ({chosen.n_queries:,} queries)", ("metric", "value"), list(values.items()))


def _cutoffs(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) >= 1 for word in words):
        raise CounterrankError(f"--ks {text}: expected whole numbers of at least 1, such as 1,3,5,10")
    return [int(word) for word in words]

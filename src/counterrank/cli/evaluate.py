"""`counterrank evaluate`."""

from __future__ import annotations

from typing import Annotated

import typer

from counterrank.cli.options import Data, Json, Model, Part, Threads, Threshold
from counterrank.cli.output import print_json, print_table
from counterrank.common.errors import CounterrankError


def evaluate(
    model: Model,
    data: Data,
    part: Part = "test",
    relevance_threshold: Threshold = 3,
    metrics: Annotated[str | None, typer.Option(help="Comma-separated, such as dcg@5,mrr; all if not given.")] = None,
    ks: Annotated[str, typer.Option(help="Cutoffs when no metrics are named.")] = "1,3,5,10",
    ties: Annotated[str, typer.Option(help="Equal scores: average over their orders, or document order.")] = "average",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Judge a saved ranker by the labels of ranking data.

    Example: counterrank evaluate ranker synthetic:mslr --metrics dcg@5,ndcg@10,arp
    """
    from counterrank import evaluation as judge
    from counterrank.cli.evidence import load_model_and_data

    ranker, chosen = load_model_and_data(model, data, part, threads)
    values = judge.evaluate(
        ranker.predict(chosen),
        chosen,
        relevance_threshold,
        metrics=None if metrics is None else [name.strip() for name in metrics.split(",")],
        ks=_cutoffs(ks),
        ties=ties,
        threads=threads,
    )
    if json:
        print_json({"model": str(model), "data": data, "queries": chosen.n_queries, "metrics": values})
        return
    print_table(f"{model} on {data} ({chosen.n_queries:,} queries)", ("metric", "value"), list(values.items()))


def _cutoffs(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) >= 1 for word in words):
        raise CounterrankError(f"ks={text!r}: expected whole numbers of at least 1, such as 1,3,5,10")
    return [int(word) for word in words]

"""Two frames of a made-up shop, for docs/tutorials/guide-dataframes.md: `products.parquet` and `impressions.parquet`.

    python examples/shop_frames.py

`products`: one row for each product that a search could show, with features and production's score.
`impressions`: one row for each product on a page, under two policies, with a few broken rows as real logs have them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import counterrank as cr
from counterrank import examination, policies, simulation

FEATURES = ("price", "rating", "reviews", "margin", "age in days", "title match", "brand match", "stock")


def make_frames(queries: int = 800, sessions: int = 90_000, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Products and impressions."""
    made = cr.make_ranking_data("yahoo", n_queries=queries, seed=seed)
    weights = cr.estimators.full_information(made, 3)
    varying = np.flatnonzero(made.features.std(axis=0) > 0.0)
    strength = [abs(np.corrcoef(made.features[:, column], weights)[0, 1]) for column in varying]
    useful = varying[np.argsort(strength)[::-1]][: len(FEATURES)]
    query = np.repeat(made.query_ids, made.lengths)
    products = pd.DataFrame({"search": [f"search {i}" for i in query], "sku": [f"SKU {i:05}" for i in made.doc_ids]})
    for name, column in zip(FEATURES, useful, strict=True):
        products[name] = made.features[:, column]
    noise = np.random.default_rng(seed).normal(size=made.n_docs)
    products["production score"] = products["title match"] + 0.3 * noise
    return products.sample(frac=1.0, random_state=seed), _impressions(made, products, sessions, seed)


def _impressions(made: cr.RankingData, products: pd.DataFrame, sessions: int, seed: int) -> pd.DataFrame:
    """Pages of two policies: the first third of the sessions under "v1", the others under "v2"."""
    scores, exam = products["production score"].to_numpy(), examination.inverse_rank(5)
    logs = []
    shown = {
        "v1": (policies.ReplaceLast(5), sessions // 3),
        "v2": (policies.UniformInsert(5), sessions - sessions // 3),
    }
    for name, (policy, n) in shown.items():
        file = Path(f"pages-{name}.parquet")
        simulation.write_log(made, scores, policy, exam, file, sessions=n, seed=seed)
        log = pd.read_parquet(file)
        file.unlink()
        log["page"] = [f"{name} {i}" for i in log.pop("session_id")]
        logs.append(log.assign(policy=name))
    log = pd.concat(logs, ignore_index=True)
    log["query_id"], log["doc_id"] = [f"search {i}" for i in log["query_id"]], [f"SKU {i:05}" for i in log["doc_id"]]
    log["clicked"] = np.where(log["clicked"], "yes", "no")
    names = {"query_id": "search", "doc_id": "sku", "rank": "position", "clicked": "click"}
    log = log.rename(columns=names).drop(columns=[c for c in ("logging_score", "display_probability") if c in log])
    broken = log.iloc[[10, 2000, 30_000]].copy()
    broken["position"] = [None, 99, 0]  # no position, one that is not there, and a product shown twice
    return pd.concat([log, broken], ignore_index=True)


if __name__ == "__main__":
    products, impressions = make_frames()
    products.to_parquet("products.parquet", index=False)
    impressions.to_parquet("impressions.parquet", index=False)
    print(products.head(3), impressions.head(3), sep="\n")

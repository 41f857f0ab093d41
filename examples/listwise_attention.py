"""A ranker whose documents see each other, learned from clicks: any torch module can be a `Ranker`.

Most models score a document by its own features. Here the documents of a query attend to each other first, so that a
score can depend on what else there is to show. The module is given the start of each query because its `forward` has a
parameter named `offsets`.

A production ranker shows pages of five, users click, and policy-aware weights of those clicks teach three rankers: a
linear one, the library's own network, and this module. All are evaluated with the labels of unseen queries.

    python examples/listwise_attention.py                     # a minute or two on one core
    python examples/listwise_attention.py --queries 2000 --clicks 10000000 --out attention-ranker
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import counterrank as cr

K = 5  # results a page
RELEVANT = 3  # labels from here on count as relevant


class AttentionRanker(nn.Module):
    """Embeds each document, lets the documents of a query attend to each other, and scores what comes of it."""

    def __init__(self, n_features: int, width: int = 64, heads: int = 4, dropout: float = 0.1) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(n_features, width), nn.ReLU(), nn.Dropout(dropout))
        self.attention = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.score = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, features: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """From (n documents, n features) to (n documents, 1); query i holds rows offsets[i]:offsets[i + 1]."""
        lengths = offsets.diff()
        # Queries differ in length: they are padded here, inside the module, and nowhere else.
        documents = nn.utils.rnn.pad_sequence(self.embed(features).split(lengths.tolist()), batch_first=True)
        is_real = torch.arange(documents.shape[1], device=lengths.device) < lengths[:, None]
        context, _ = self.attention(documents, documents, documents, key_padding_mask=~is_real, need_weights=False)
        return self.score(self.norm(documents + context)[is_real])


def log_clicks(data: cr.RankingData, production: cr.Ranker, clicks: int, seed: int) -> np.ndarray:
    """Users see pages of the production ranker and click; the weights those clicks give each document."""
    policy, examination = cr.policies.ReplaceLast(K), cr.examination.inverse_rank(K)
    scores = production.predict(data)
    logged = cr.simulation.simulate(
        data, scores, policy, examination, clicks=clicks, seed=seed, relevance_threshold=RELEVANT
    )
    return cr.estimators.policy_aware(logged, policy.propensity(scores, data.offsets, examination))


def judge(ranker: cr.Ranker, data: cr.RankingData) -> dict[str, float]:
    """How well the ranker does by the labels."""
    return cr.evaluation.evaluate(ranker.predict(data), data, RELEVANT, metrics=("dcg@5", "ndcg@5"))


def check_saved(ranker: cr.Ranker, module: nn.Module, folder: Path, data: cr.RankingData) -> None:
    """Save the ranker and load it again. Tensors are stored, code is not: loading takes a module of the same build."""
    ranker.save(folder)
    loaded = cr.Ranker.load(folder, module=module)
    assert np.array_equal(loaded.predict(data), ranker.predict(data))


def main(arguments: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the comparison; returns the test metrics of each ranker."""
    parser = argparse.ArgumentParser(description="a listwise attention model learned from clicks")
    parser.add_argument("--queries", type=int, default=300, help="queries in all; 60 %% of them are learned from")
    parser.add_argument("--clicks", type=int, default=1_000_000, help="clicks to learn from")
    parser.add_argument("--epochs", type=int, default=10, help="the most passes over the queries")
    parser.add_argument("--seed", type=int, default=0, help="one seed, one result")
    parser.add_argument("--out", type=Path, help="where to keep the attention model")
    given = parser.parse_args(arguments)

    fold = cr.make_fold("mslr", given.queries, seed=given.seed)
    few = fold.train.subset(slice(0, max(10, fold.train.n_queries // 50)))
    production = cr.Ranker("arp-hinge", max_epochs=20, seed=given.seed)
    production.fit(few, cr.estimators.full_information(few, RELEVANT))
    weights = log_clicks(fold.train, production, given.clicks, seed=given.seed + 1)
    validation = fold.validation, log_clicks(fold.validation, production, given.clicks // 7, seed=given.seed + 2)

    torch.set_num_threads(1)  # batches are small: more threads mostly wait for each other
    torch.manual_seed(given.seed)  # for the module's own weights; training draws from the ranker's seed
    module = AttentionRanker(fold.train.n_features)
    found = {"production": judge(production, fold.test)}
    print(f"{'':12}{'DCG@5':>8}{'NDCG@5':>8}{'epochs':>8}{'seconds':>9}")
    print(f"{'production':12}{found['production']['dcg@5']:8.4f}{found['production']['ndcg@5']:8.4f}")
    for name, model in (("linear", "linear"), ("mlp", "mlp"), ("attention", module)):
        begin = time.perf_counter()
        ranker = cr.Ranker("lambdaloss-truncated", k=K, model=model, max_epochs=given.epochs, seed=given.seed)
        ranker.fit(fold.train, weights, validation=validation)
        seconds = time.perf_counter() - begin
        found[name] = judge(ranker, fold.test)
        values = f"{found[name]['dcg@5']:8.4f}{found[name]['ndcg@5']:8.4f}"
        print(f"{name:12}{values}{len(ranker.history_):8}{seconds:9.1f}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        check_saved(ranker, module, given.out or Path(folder) / "ranker", fold.test)
    return found


if __name__ == "__main__":
    main()

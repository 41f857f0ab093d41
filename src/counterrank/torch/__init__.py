"""The losses as functions that torch differentiates, for training loops of your own. Needs the extra `torch`.

Each loss takes the scores of all documents of a batch of whole queries, their weights, and where each query begins.
A ranker learned from weights by hand:

>>> import torch
>>> import counterrank as cr
>>> data = cr.make_ranking_data("mslr", n_queries=50, seed=0).normalized()
>>> weights = cr.estimators.full_information(data, relevance_threshold=3)
>>> features, loss = torch.tensor(data.features), cr.torch.loss("lambdaloss-truncated", k=5)
>>> _ = torch.manual_seed(0)
>>> model = torch.nn.Linear(data.n_features, 1)
>>> optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
>>> reached = []
>>> for step in range(10):
...     scores = model(features)
...     optimizer.zero_grad()
...     loss(scores, weights, data.offsets).backward()
...     optimizer.step()
...     reached.append(cr.evaluation.evaluate(scores[:, 0].detach(), data, relevance_threshold=3)["dcg@5"])
>>> reached[-1] > 1.5 * reached[0]
True

`Ranker(model=my_module)` does this with mini-batches, early stopping and storage.
"""

from counterrank.torch.differentiable import loss

__all__ = ["loss"]

"""Loss plus gradient on one thread, against rax (jitted) and a plain PyTorch version, both padded."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from tests.reference import losses as naive

from benchmarks.timing import at_least, median_seconds, row
from counterrank import losses
from counterrank.common.numerics import LN2
from counterrank.data import RankingData

_BATCH = 64
_K = 5


def run(data: RankingData, repeats: int = 3, n_queries: int = 256) -> list[dict[str, Any]]:
    """Rows for truncated and full LambdaLoss on the first `n_queries` queries, with 5 % of the documents weighted."""
    few = data.subset(slice(0, min(n_queries, data.n_queries)))
    generator = np.random.default_rng(0)
    scores = generator.normal(size=few.n_docs)
    weights = np.where(generator.random(few.n_docs) < 0.05, generator.exponential(size=few.n_docs), 0.0)
    batches = [_pad(few, scores, weights, start) for start in range(0, few.n_queries, _BATCH)]
    ours = {
        "truncated": lambda: losses.lambdaloss_truncated(scores, weights, few.offsets, k=_K, threads=1),
        "full": lambda: losses.lambdaloss_dcg(scores, weights, few.offsets, threads=1),
    }
    # copies of read-only arrays are part of the call; short calls are repeated more often
    seconds = {name: median_seconds(action, 10 * repeats) for name, action in ours.items()}
    rows = [row(f"loss and gradient, {name} LambdaLoss, ours", time) for name, time in seconds.items()]
    rows.append(_against_reference(few.subset(slice(0, 16)), generator))
    with _OneCore():
        for peer, actions in (("rax", _rax(batches)), ("PyTorch", _torch(batches))):
            for name, action in actions.items():
                _check(peer, action(), ours[name]()[0])
                limit = 20.0 if name == "truncated" else None
                time = median_seconds(action, repeats)
                rows.append(row(f"loss and gradient, {name} LambdaLoss, {peer} padded", time))
                rows.append(at_least(f"  ours faster than {peer} by", seconds[name], time, limit))
    return rows


def _against_reference(data: RankingData, generator: np.random.Generator) -> dict[str, Any]:
    """Against the plain Python loops that the tests compare with, on a few queries."""
    scores = generator.normal(size=data.n_docs)
    weights = np.where(generator.random(data.n_docs) < 0.05, 1.0, 0.0)
    fast = median_seconds(lambda: losses.lambdaloss_truncated(scores, weights, data.offsets, k=_K, threads=1), 30)

    def reference():
        naive.over_queries(lambda s, w: naive.lambdaloss(s, w, naive.dcg_discount, _K), scores, weights, data.offsets)

    return at_least(
        "  ours faster than the reference of the tests by (16 queries)", fast, median_seconds(reference, 3), None
    )


def _check(peer: str, value: float, ours: float) -> None:
    """Check that both compute the same: otherwise times are not comparable."""
    if not np.isclose(value, ours, rtol=1e-3):
        raise AssertionError(f"{peer} computes {value}, ours {ours}")


class _OneCore:
    """Threads started inside stay on one core, whatever the settings of the other package."""

    def __enter__(self) -> None:
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
        self._cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(self._cores)})

    def __exit__(self, *problem: object) -> None:
        os.sched_setaffinity(0, self._cores)


def _pad(data: RankingData, scores, weights, start: int):
    """A batch of queries as rectangles, as wide as their longest (rounded up, for fewer compilations)."""
    last = min(start + _BATCH, data.n_queries)
    lengths = data.lengths[start:last]
    width = -(-int(lengths.max()) // 64) * 64
    there = np.arange(width) < lengths[:, None]
    padded = np.zeros((2, len(lengths), width), np.float32)
    rows = slice(data.offsets[start], data.offsets[last])
    padded[0][there], padded[1][there] = scores[rows], weights[rows]
    return padded[0], padded[1], there


def _rax(batches):
    import jax
    import jax.numpy as jnp
    import rax

    def deltas(s, w, truncate, **more):
        shares = rax.dcg2_lambdaweight(s, w, gain_fn=lambda labels: labels, **more)
        if truncate:
            top = rax.utils.ranks(s, where=more["where"]) <= _K
            shares = shares * (top[..., :, None] | top[..., None, :]).reshape(shares.shape)
        return shares

    def make(truncate):
        def loss(s, w, there):
            return rax.pairwise_logistic_loss(
                s,
                w,
                where=there,
                lambdaweight_fn=lambda s, w, **more: deltas(s, w, truncate, **more),
                reduce_fn=jnp.sum,
            )

        both = jax.jit(jax.value_and_grad(loss))
        arrays = [tuple(map(jnp.asarray, batch)) for batch in batches]

        def action():
            results = [jax.block_until_ready(both(*batch)) for batch in arrays]
            # rax multiplies by the padded length and takes natural logarithms
            return sum(float(value) / s.shape[1] for (value, _), (s, _, _) in zip(results, arrays, strict=True)) / LN2

        return action

    return {"truncated": make(True), "full": make(False)}


def _torch(batches):
    import torch

    torch.set_num_threads(1)

    def loss(s, w, there, truncate):
        ranks = torch.empty_like(s, dtype=torch.long)
        order = torch.argsort(torch.where(there, s, -torch.inf), dim=1, descending=True, stable=True)
        ranks.scatter_(1, order, torch.arange(1, s.shape[1] + 1).expand_as(s).clone())
        apart = (ranks[:, :, None] - ranks[:, None, :]).abs().clamp(min=1)
        delta = 1 / torch.log2(1.0 + apart) - 1 / torch.log2(2.0 + apart)
        difference = w[:, :, None] - w[:, None, :]
        counts = (difference > 0) & there[:, :, None] & there[:, None, :]
        if truncate:
            counts &= (ranks[:, :, None] <= _K) | (ranks[:, None, :] <= _K)
        pairs = torch.nn.functional.softplus(s[:, None, :] - s[:, :, None]) / LN2
        return (torch.where(counts, delta * difference, 0.0) * pairs).sum()

    arrays = [tuple(map(torch.from_numpy, batch)) for batch in batches]

    def make(truncate):
        def action():
            total = 0.0
            for s, w, there in arrays:
                leaf = s.clone().requires_grad_()
                value = loss(leaf, w, there, truncate)
                value.backward()
                total += value.item()
            return total

        return action

    return {"truncated": make(True), "full": make(False)}

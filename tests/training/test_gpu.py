"""The kernels for GPUs, run on the CPU from the same source: they take the steps of the CPU's own kernels."""

from __future__ import annotations

import gc
import shutil
import subprocess
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import losses
from counterrank.common.errors import CounterrankError, MissingExtraError
from counterrank.data import RankingData
from counterrank.losses.loss_kernels import LossSpec
from counterrank.losses.monotonic import GIVEN
from counterrank.models.model import Scaler
from counterrank.training import gpu, population
from counterrank.training.executor import Device, Epoch, GradientNorms, Metric
from counterrank.training.gradient_descent import LinearProblem
from counterrank.training.problem import LinearMetric, Sets, TrainingWeights
from tests.support.cuda_on_cpu import KERNELS, CpuBackend, name_of, needs_compiler
from tests.support.losses import EXACT
from tests.support.ragged import ragged_data, ragged_weights

pytestmark = needs_compiler

# Float weights and slopes have a relative error of 1e-7 or so; where those of several documents cancel, that of their
# sum is larger.
AGREEMENT, CANCELLED = 1e-5, 1e-7
LENGTHS = (1, 2, 3, 5, 31, 32, 33, 64, 65, 127, 129, 150)
# shared memory for 2 stages, for 16 documents, and for no coefficients of many features
ROOMY, SMALL, TINY = gpu.Limits(4, 227 * 1024), gpu.Limits(3, 8 * 1024), gpu.Limits(2, 2000)


def executor(limits: gpu.Limits = ROOMY, schedule: int = 0) -> gpu.GpuExecutor:
    return gpu.GpuExecutor(CpuBackend(limits, schedule))


def documents(rng: np.random.Generator, style: str, n_queries: int = 4) -> RankingData:
    """Queries of hard lengths, with equal rows; whole numbers, or numbers far from zero."""
    offsets = np.concatenate(([0], np.cumsum(rng.choice(LENGTHS, n_queries))))
    n_features = int(rng.choice([16, 17, 40]))  # with fewer, a step can be the small difference of large parts
    features = rng.normal(size=(offsets[-1], n_features))
    if style == "whole":
        features = rng.integers(0, 3, features.shape).astype(float)
    elif style == "far":
        features = features * rng.choice([1e-3, 1.0, 100.0], n_features) + rng.choice([0.0, -5.0, 1e3], n_features)
    twins = rng.random(len(features)) < 0.3
    features[twins] = features[np.maximum(np.flatnonzero(twins) - rng.integers(0, 3), 0)]
    return RankingData(features, offsets)


def some_weights(rng: np.random.Generator, n: int, style: str) -> np.ndarray:
    weights = rng.exponential(size=n)
    if style == "negative":
        weights *= rng.choice([-1.0, 1.0], n)
    share = rng.choice([0.05, 0.5, 1.0]) if style != "dense" else 1.0
    weights[rng.random(n) > share] = 0.0
    weights[rng.integers(n)] = 2.0
    return weights


def some_sets(rng: np.random.Generator, data: RankingData) -> Sets:
    """Sets of up to 7 documents, 0 to 70 a query, some documents in many of them."""
    docs, owners, lengths = [], [], []
    for q, n in enumerate(data.lengths):
        for _ in range(rng.choice([0, 1, 5, 70]) if q else 3):
            places = np.unique(rng.integers(0, n, rng.integers(1, 8)) // rng.integers(1, 4))
            docs.append(data.offsets[q] + places)
            owners.append(q)
            lengths.append(len(places))
    return Sets(np.concatenate(docs), np.concatenate(([0], np.cumsum(lengths))), np.array(owners))


def some_problem(rng: np.random.Generator, data: RankingData, loss: str, normalize: str, style: str) -> LinearProblem:
    """A loss over weights, or over sets; with evidence."""
    k = int(rng.choice([1, 3, 10, 200])) if losses.LOSSES[loss].takes_k and rng.random() < 0.9 else None
    spec = losses.LOSSES[loss].spec(k, int(data.lengths.max()))
    scales = Scaler.learn(normalize, data).scales(data)
    sets = some_sets(rng, data) if style == "sets" else None
    n = data.n_docs if sets is None else len(sets.docs)
    return LinearProblem.make(data, some_weights(rng, n, style), scales, spec, sets)


def some_coefficients(rng: np.random.Generator, n: int, size: float, style: str) -> np.ndarray:
    found = size * rng.normal(size=n)
    return np.round(found) if style == "whole" else found


def assert_same_step(expected: np.ndarray, found: np.ndarray, before: np.ndarray, step: float, weight: float) -> None:
    moved = np.abs(expected - before).max() / step
    apart = np.abs(expected - found).max() / step
    rounding = 1e-15 * np.abs(before).max() / step
    assert apart <= AGREEMENT * moved + CANCELLED * weight + rounding


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    style=st.sampled_from(["plain", "whole", "far"]),
    weights=st.sampled_from(["plain", "dense", "negative", "sets"]),
    size=st.sampled_from([0.0, 1.0, 30.0, 1e4]),
    limits=st.sampled_from([ROOMY, SMALL, TINY]),
    schedule=st.integers(0, 3),
)
def test_a_step_is_that_of_the_cpu(seed, style, weights, size, limits, schedule):
    rng = np.random.default_rng(seed)
    data = documents(rng, style)
    normalize = "none" if style == "whole" else str(rng.choice(["query", "standard"]))
    try:
        problems = [some_problem(rng, data, loss, normalize, weights) for loss in EXACT]
    except CounterrankError:  # all weights equal
        return
    expected, requests, starts = [], [], []
    for problem in problems:
        before = some_coefficients(rng, data.n_features, size, style)
        query = np.array([rng.choice(problem.queries)])
        gradient = before.copy()
        value = problem.epoch(query, 1e-3, 1, gradient, 1)
        expected.append((gradient, value))
        starts.append(before)
        requests.append(only(problem, int(query[0]), 1e-3, before.copy()))
    found = executor(limits, schedule).run(requests)
    for request, before, (after, value), loss in zip(requests, starts, expected, found, strict=True):
        assert_same_step(after, request.coefficients, before, 1e-3, weight_of(request.problem))
        assert loss == pytest.approx(value, rel=1e-5, abs=1e-6)


def test_features_far_from_zero_magnify_no_rounding():
    rng = np.random.default_rng(0)
    data = RankingData(1e4 + rng.random((60, 5)), [0, 60])
    problem = some_problem(rng, data, "lambdaloss-truncated", "none", "dense")
    before, after = np.ones(5), np.ones(5)
    problem.epoch(problem.queries, 1.0, 1, after, 1)
    request = Epoch(problem, np.arange(1), 1.0, 1, before.copy())
    executor().run([request])
    assert np.abs(request.coefficients - after).max() < 1e-5 * np.abs(after - before).max()


@pytest.mark.parametrize("schedule", range(4))
@pytest.mark.parametrize("n", [20, 100, 300])
def test_scores_that_differ_in_their_last_bits_are_ranked_by_them(n, schedule):
    """Scores 1 + 1e-9 + 1e-15 i: the sort in registers leaves these bits out, and they are settled afterwards."""
    rng = np.random.default_rng(n)
    features = np.column_stack((np.ones((n, 2)), rng.permutation(n), rng.random((n, 13))))
    data, before = RankingData(features, [0, n]), np.zeros(16)
    before[:3] = 1.0, 1e-9, 1e-15
    for loss in ("lambdaloss-dcg", "lambdarank"):
        problem = some_problem(rng, data, loss, "none", "dense")
        after = before.copy()
        problem.epoch(problem.queries, 1e-3, 1, after, 1)
        request = Epoch(problem, np.arange(1), 1e-3, 1, before.copy())
        executor(ROOMY, schedule).run([request])
        assert_same_step(after, request.coefficients, before, 1e-3, 1.0)


def only(problem: LinearProblem, query: int, step: float, coefficients: np.ndarray) -> Epoch:
    """An epoch of one query."""
    chosen = replace(problem, queries=np.array([query]))
    return Epoch(chosen, np.arange(problem.n_queries), step, 1, coefficients)


def weight_of(problem: LinearProblem) -> float:
    """The sum of the absolute weights of the query of `only`."""
    data, query = problem.kernel_data, problem.queries[0]
    bounds = data.offsets if not len(data.sets.of_query) else data.sets.offsets[data.sets.of_query]
    return float(np.abs(data.weights[bounds[query] : bounds[query + 1]]).sum())


def mixed_requests(data: RankingData, n: int, batch: int = 1) -> list[Epoch]:
    """Epochs of members with different losses, weights and learning rates, in two orders."""
    rng = np.random.default_rng(5)
    orders = [rng.permutation(data.n_queries) for _ in range(2)]
    scales = Scaler.learn("query", data).scales(data)
    requests = []
    for i in range(n):
        problem = some_problem(rng, data, EXACT[i % 8], "query", ("plain", "negative", "sets")[i % 3])
        problem = replace(problem, kernel_data=problem.kernel_data._replace(scales=scales))
        coefficients = rng.normal(size=data.n_features)
        requests.append(Epoch(problem, orders[i % 2], float(rng.uniform(0.1, 1.0)), batch, coefficients))
    return requests


def fresh(request: Epoch) -> Epoch:
    return replace(request, coefficients=request.coefficients.copy())


@pytest.mark.parametrize("batch", [1, 3, 100])
@pytest.mark.parametrize("limits", [ROOMY, SMALL, TINY])
def test_an_epoch_is_that_of_the_cpu(batch, limits):
    data = ragged_data()
    requests = mixed_requests(data, 12, batch)
    on_cpu = [fresh(request) for request in requests]
    expected = [request.compute(1) for request in on_cpu]
    found = executor(limits).run(requests)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for request, other in zip(requests, on_cpu, strict=True):
        np.testing.assert_allclose(request.coefficients, other.coefficients, rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_member_does_not_depend_on_others_nor_on_its_place(batch):
    requests = mixed_requests(ragged_data(), 62, batch)

    def results(chosen: list[int], limits: gpu.Limits, schedule: int) -> dict[int, Any]:
        copies = [fresh(requests[i]) for i in chosen]
        values = executor(limits, schedule).run(copies)
        return {i: (value, copy.coefficients.tolist()) for i, value, copy in zip(chosen, values, copies, strict=True)}

    together = results(list(range(62)), gpu.Limits(1, ROOMY.shared_bytes), 0)  # 32 a block
    reverse = results(list(range(62))[::-1], gpu.Limits(100, ROOMY.shared_bytes), 1)  # 8 a block
    assert reverse == together
    for i in (0, 13, 26):
        for limits in (ROOMY, SMALL, TINY):
            assert results([i], limits, 2)[i] == together[i]


def test_groups_stages_and_long_queries_are_exercised():
    lengths = ragged_data().lengths
    roomy = gpu.make_plan([31, 31], lengths, 16, gpu.Limits(1, ROOMY.shared_bytes), False)
    small = gpu.make_plan([31, 31], lengths, 16, SMALL, False)
    assert (roomy.group, small.group) == (32, 8)
    assert roomy.capacity == lengths.max() > small.capacity
    assert not roomy.is_spilled
    assert not small.is_spilled
    assert gpu.make_plan([62], lengths, 16, TINY, False).is_spilled
    with pytest.raises(CounterrankError, match="too many features"):
        gpu.make_plan([1], lengths, 100_000, ROOMY, False)


def test_the_benchmark_of_the_documentation_fits_in_shared_memory():
    """18,900 queries of 120 documents with 136 features, on a device with 132 multiprocessors."""
    lengths, limits = np.full(18_900, 120), gpu.Limits(132, 232_448)
    assert gpu.make_plan([4224], lengths, 144, limits, False) == gpu.Plan(32, 120, 2)
    assert gpu.make_plan([1056], lengths, 144, limits, False) == gpu.Plan(8, 120, 2)


@pytest.mark.parametrize("limits", [ROOMY, SMALL, TINY])
@pytest.mark.parametrize("style", ["plain", "whole"])
def test_metrics_and_norms_are_those_of_the_cpu(limits, style, monkeypatch):
    """However many of them are computed at a time."""
    rng = np.random.default_rng(0)
    data = documents(rng, style, n_queries=9)
    scales = Scaler.learn("none" if style == "whole" else "query", data).scales(data)
    requests: list[Any] = []
    for i, name in enumerate(("dcg", "dcg@3", "arp", "precision@2") * 3):
        sets = some_sets(rng, data) if i % 3 == 2 else None
        weights = some_weights(rng, data.n_docs if sets is None else len(sets.docs), ("plain", "negative")[i % 2])
        metric = LinearMetric(name, data, TrainingWeights(weights, sets), scales)
        requests.append(Metric(metric, some_coefficients(rng, data.n_features, float(i % 5), style)))
    for i, loss in enumerate(EXACT):
        problem = some_problem(rng, data, loss, "query", ("plain", "sets")[i % 2])
        requests.append(GradientNorms(problem, rng.normal(size=data.n_features)))
    order = rng.permutation(len(requests))
    found = executor(limits).run([requests[i] for i in order])
    monkeypatch.setattr(gpu, "_MOST_BYTES", 8 * data.n_queries * 5)
    for result, again in zip(found, executor(limits).run([requests[i] for i in order]), strict=True):
        assert result.tolist() == again.tolist()
    for i, result in zip(order, found, strict=True):
        expected = requests[i].compute(1)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-12 + 1e-6 * np.abs(expected).max())
        if isinstance(requests[i], Metric):
            np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-15)


def test_scores_that_are_no_numbers_do_no_harm_to_others():
    requests = mixed_requests(ragged_data(), 16)
    expected = [fresh(request) for request in requests]
    executor().run(expected)
    copies = [fresh(request) for request in requests]
    for copy in copies[::2]:
        copy.coefficients[:] = np.nan if copy is copies[0] else 1e200
    executor().run(copies)
    for copy, other in zip(copies[1::2], expected[1::2], strict=True):
        assert copy.coefficients.tolist() == other.coefficients.tolist()
    for copy in copies[::2]:
        assert not np.abs(copy.coefficients).max() < 1e150


def test_data_and_weights_are_uploaded_once_and_freed_with_their_arrays():
    used = executor()
    requests = mixed_requests(ragged_data(), 6)
    used.run(requests)
    before = len(used._uploads)
    used.run(requests)
    assert len(used._uploads) == before
    del requests[3:]
    gc.collect()
    assert 0 < len(used._uploads) < before
    del requests
    gc.collect()
    assert len(used._uploads) <= 1  # the table of losses that have none, which all share


def test_all_epochs_of_one_data_set_are_one_launch():
    backend = CpuBackend()
    gpu.GpuExecutor(backend).run(mixed_requests(ragged_data(), 20))
    assert len(backend.launches) == 1


def test_losses_with_kernels_of_their_own_are_an_error():
    problem = mixed_requests(ragged_data(), 1)[0].problem
    spec = losses.LOSSES["arp-hinge"].spec(None, 40)
    for other in (LossSpec(print, spec.parameters), LossSpec(spec.kernel, spec.parameters._replace(alpha=GIVEN))):
        request = Epoch(replace(problem, loss=other), np.arange(11), 0.1, 1, np.zeros(6))
        with pytest.raises(CounterrankError, match="device='cpu'"):
            executor().run([request])


def test_what_is_missing_is_said(monkeypatch):
    if gpu.is_available():
        pytest.skip("a GPU is there")
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    assert not gpu.is_available()
    monkeypatch.setattr(gpu, "require", lambda *names: None)
    with pytest.raises(CounterrankError, match="no GPU found"):
        gpu.device()
    monkeypatch.undo()
    monkeypatch.setattr("counterrank.common.errors.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"counterrank\[cuda\]"):
        gpu.executor()


def test_a_population_is_trained_as_on_the_cpu(monkeypatch):
    """With early stopping and races for the learning rate. Of models with equal metrics either may be kept.

    The largest learning rates of a race magnify rounding, so for these only the grid is compared.
    """
    data, other = ragged_data(0), ragged_data(2)
    weights, held_out = ragged_weights(data), ragged_weights(other, seed=3)
    members = [
        cr.Member(cr.Ranker(loss, learning_rate=rate, max_epochs=4, patience=2, seed=seed), weights)
        for loss in ("arp-hinge", "lambdaloss-truncated", "dcg-logistic")
        for rate in ("auto", 0.3, 3.0)
        for seed in range(2)
    ]
    on_cpu = cr.fit_many(data, members, (other, held_out))
    monkeypatch.setattr(population, "open_device", lambda name: Device(executor()))
    found = cr.fit_many(data, members, (other, held_out), device="cuda")
    for member, ranker, expected in zip(members, found, on_cpu, strict=True):
        if member.ranker.learning_rate == "auto":
            half_powers = 2.0 * np.log10(ranker.learning_rate_ / expected.learning_rate_)
            assert half_powers == pytest.approx(np.round(half_powers), abs=1e-5)
            continue
        for row, other_row in zip(ranker.history_, expected.history_, strict=True):
            assert row["loss"] == pytest.approx(other_row["loss"], rel=1e-5)
            assert row["validation"] == pytest.approx(other_row["validation"], rel=1e-9)
        kept = [trained.history_[trained.best_epoch_ - 1]["validation"] for trained in (ranker, expected)]
        assert kept[0] == pytest.approx(kept[1], rel=1e-9)


@pytest.mark.skipif(not gpu.is_available(), reason="needs cupy and a GPU")
@pytest.mark.parametrize("batch", [1, 3])
def test_on_a_gpu_epochs_are_those_of_the_cpu_and_repeat(batch):
    requests = mixed_requests(ragged_data(), 62, batch)
    on_cpu, again = [fresh(request) for request in requests], [fresh(request) for request in requests]
    expected = [request.compute(1) for request in on_cpu]
    found = gpu.executor().run(requests)
    assert gpu.executor().run(again[::-1])[::-1] == found
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for request, other, repeated in zip(requests, on_cpu, again, strict=True):
        np.testing.assert_allclose(request.coefficients, other.coefficients, rtol=0, atol=1e-5)
        assert request.coefficients.tolist() == repeated.coefficients.tolist()


@pytest.mark.process
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("kernel", KERNELS, ids=name_of)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_kernels_compile_for_gpus_without_spills(kernel, architecture, tmp_path):
    strict = ("-Werror", "all-warnings", "-Xptxas", "-v")
    options = [*gpu.compiler_options(kernel), f"-arch={architecture}", "-cubin", *strict]
    done = subprocess.run(
        ["nvcc", *options, "-o", str(tmp_path / "kernel.cubin"), str(gpu.SOURCE)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in done.stderr.split("Function properties for run")[1]

"""`counterrank.torch.loss` against the numpy functions, finite differences and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import CounterrankError, losses
from counterrank.losses.loss_kernels import check_inputs
from tests.losses.test_losses import queries
from tests.support.losses import EXACT

torch = pytest.importorskip("torch")

NAMES = EXACT


def cutoff_of(name, k):
    return k if losses.LOSSES[name].takes_k else None


def by_numpy(name, scores, weights, offsets, k):
    cutoff = {"k": k} if losses.LOSSES[name].takes_k else {}
    return getattr(losses, name.replace("-", "_"))(scores, weights, offsets, **cutoff)


def example(n=14, dtype=torch.float64):
    """Scores on a grid: no step of gradcheck changes a rank, meets a tie, or crosses a hinge (0.37 times no i is 1)."""
    rng = np.random.default_rng(0)
    scores = torch.tensor(rng.permutation(n) * 0.37, dtype=dtype, requires_grad=True)
    return scores, rng.normal(size=n), np.array([0, 6, 7, n])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", [2, None])
@pytest.mark.parametrize("column", [False, True])
def test_gradients_pass_gradcheck(name, k, column):
    scores, weights, offsets = example()
    loss = cr.torch.loss(name, k=cutoff_of(name, k))
    given_scores = scores.detach()[:, None].requires_grad_() if column else scores
    assert torch.autograd.gradcheck(lambda s: loss(s, weights, offsets), (given_scores,))


def test_gradcheck_of_a_loss_of_ones_own():
    scores, weights, offsets = example()
    loss = cr.torch.loss(losses.make_lambdaloss("precision-at-3", [1.0, 1.0, 1.0, 0.0]))
    assert torch.autograd.gradcheck(lambda s: loss(s, weights, offsets), (scores,))


@pytest.mark.parametrize("name", NAMES)
@given(query=queries(), k=st.sampled_from([1, 3, None]), upstream=st.sampled_from([1.0, -2.5]))
@settings(max_examples=25, deadline=None)
def test_values_and_gradients_are_those_of_numpy(name, query, k, upstream):
    scores, weights, offsets = query
    value, gradient = by_numpy(name, scores, weights, offsets, k)
    tensor = torch.tensor(scores, requires_grad=True)
    got = cr.torch.loss(name, k=cutoff_of(name, k))(tensor, torch.tensor(weights), torch.tensor(offsets))
    (got * upstream).backward()
    assert got.item() == value
    assert np.array_equal(tensor.grad.numpy(), upstream * gradient)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("column", [False, True])
def test_value_and_gradient_have_the_type_and_shape_of_the_scores(dtype, column):
    scores, weights, offsets = example(dtype=dtype)
    given_scores = scores.detach()[:, None].requires_grad_() if column else scores
    value = cr.torch.loss("lambdaloss-truncated", k=3)(given_scores, weights, offsets)
    value.backward()
    exact, gradient = losses.lambdaloss_truncated(scores.detach().double().numpy(), weights, offsets, k=3)
    assert value.shape == ()
    assert value.dtype == given_scores.grad.dtype == dtype
    assert given_scores.grad.shape == given_scores.shape
    assert value.item() == torch.tensor(exact, dtype=dtype).item()
    assert torch.equal(given_scores.grad.reshape(-1), torch.tensor(gradient, dtype=dtype))


KINDS = {
    "list": lambda x: np.asarray(x).tolist(),
    "numpy": np.asarray,
    "tensor": torch.tensor,
    "narrow tensor": lambda x: torch.tensor(x, dtype=torch.int32 if x.dtype.kind == "i" else torch.bfloat16),
    "tensor with gradient": lambda x: torch.tensor(x, requires_grad=x.dtype.kind == "f"),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype),
    "strided": lambda x: torch.tensor(np.repeat(x, 2))[::2],
}


@pytest.mark.parametrize("kind", KINDS)
def test_weights_and_offsets_of_all_kinds(kind):
    scores, _, offsets = example()
    weights = np.tile([0.0, 1.5], 7)  # held by every type
    made = KINDS[kind](weights)
    value = cr.torch.loss("arp-logistic")(scores, made, KINDS[kind](offsets))
    value.backward()
    assert value.item() == losses.arp_logistic(scores.detach().numpy(), weights, offsets)[0]
    assert getattr(made, "grad", None) is None


def test_large_arrays_are_not_copied():
    from counterrank.torch import as_numpy

    scores, weights, offsets = (x.clone() for x in map(torch.as_tensor, example()))
    checked = check_inputs(as_numpy(scores), as_numpy(weights), as_numpy(offsets))
    for tensor, array in zip((scores, weights, offsets), checked, strict=True):
        assert array.__array_interface__["data"][0] == tensor.data_ptr()
    again = check_inputs(as_numpy(scores), weights.numpy(), offsets.numpy())
    assert np.shares_memory(again[1], weights.numpy())
    assert np.shares_memory(again[2], offsets.numpy())


def test_scores_are_left_as_they_are():
    scores, weights, offsets = example()
    before = scores.detach().clone()
    cr.torch.loss("dcg-hinge", k=2)(scores, weights, offsets).backward()
    assert torch.equal(scores.detach(), before)


def test_a_step_of_an_optimizer_lowers_the_loss():
    data = cr.make_ranking_data("mslr", n_queries=10, seed=1).normalized()
    weights = cr.estimators.full_information(data, relevance_threshold=2)
    torch.manual_seed(0)
    model = torch.nn.Linear(data.n_features, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    loss, features = cr.torch.loss("arp-logistic"), torch.tensor(data.features)
    before = loss(model(features), weights, data.offsets)
    before.backward()
    optimizer.step()
    assert loss(model(features), weights, data.offsets).item() < before.item()


def test_gradients_flow_through_what_made_the_scores():
    scores, weights, offsets = example()
    factor = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    cr.torch.loss("arp-logistic")(scores.detach() * factor, weights, offsets).backward()
    _, gradient = losses.arp_logistic(scores.detach().numpy() * 1.3, weights, offsets)
    assert factor.grad.item() == pytest.approx(float(gradient @ scores.detach().numpy()), rel=1e-12)


def test_without_gradients():
    scores, weights, offsets = example()
    loss = cr.torch.loss("lambdaloss-dcg")
    with torch.no_grad():
        assert not loss(scores, weights, offsets).requires_grad
    with torch.inference_mode():
        assert not loss(scores, weights, offsets).requires_grad
    assert not loss(scores.detach(), weights, offsets).requires_grad


def test_under_autocast():
    scores, weights, offsets = example(dtype=torch.float32)
    layer = torch.nn.Linear(1, 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = cr.torch.loss("arp-logistic")(layer(scores.detach()[:, None]), weights, offsets)
    value.backward()
    assert torch.isfinite(layer.weight.grad).all()


def test_second_derivatives_are_refused_and_never_silently_wrong():
    scores, weights, offsets = example()
    made = scores * 2.0
    value = cr.torch.loss("arp-logistic")(made, weights, offsets)
    (first,) = torch.autograd.grad(value, scores, create_graph=True)
    with pytest.raises(CounterrankError, match=r"counterrank\.torch\.loss: differentiated twice"):
        (first**2).sum().backward()


def test_threads_do_not_matter():
    rng = np.random.default_rng(0)
    offsets = np.arange(0, 6001, 100)
    weights = rng.random(6000) * (rng.random(6000) < 0.2)
    found = []
    for threads in (1, 3):
        scores = torch.tensor(rng.permutation(6000) * 0.01 if not found else found[0][2], requires_grad=True)
        value = cr.torch.loss("lambdaloss-truncated", k=5, threads=threads)(scores, weights, offsets)
        value.backward()
        found.append((value.item(), scores.grad.numpy(), scores.detach().numpy()))
    assert found[0][0] == found[1][0]
    assert np.array_equal(found[0][1], found[1][1])


GOOD = {"scores": torch.zeros(3), "weights": [1.0, 0.0, 0.0], "offsets": [0, 3]}
BAD = [
    ({"scores": [0.0, 0.0, 0.0]}, r"scores: list; expected a torch tensor"),
    ({"scores": np.zeros(3)}, r"scores: ndarray; expected a torch tensor"),
    ({"scores": torch.zeros(3, dtype=torch.int64)}, r"scores: type torch\.int64; expected floating numbers"),
    ({"scores": torch.zeros(3, dtype=torch.complex64)}, r"scores: type torch\.complex64; expected floating"),
    ({"scores": torch.zeros(3, 2)}, r"scores: shape \(3, 2\); expected \(n,\) or \(n, 1\)"),
    ({"scores": torch.zeros(3, 1, 1)}, r"scores: shape \(3, 1, 1\); expected"),
    ({"scores": torch.tensor(0.0)}, r"scores: shape \(\); expected"),
    ({"scores": torch.zeros(3).to_sparse()}, r"scores: layout torch\.sparse_coo; expected a dense tensor"),
    ({"scores": torch.tensor([0.0, float("nan"), 0.0])}, r"scores: entry 1 is nan; expected finite"),
    ({"scores": torch.tensor([[0.0], [0.0], [float("inf")]])}, r"scores: entry 2 is inf; expected finite"),
    ({"scores": torch.zeros(0), "weights": []}, r"offsets: ends at 3; expected the number of documents, 0"),
    ({"weights": [1.0, 0.0]}, r"weights: 2 entries; expected 3, the number of documents"),
    ({"weights": torch.zeros(3, 1)}, r"weights: shape \(3, 1\); expected one dimension"),
    ({"weights": torch.tensor([0.0, float("nan"), 0.0])}, r"weights: entry 1 is nan"),
    ({"weights": ["a", "b", "c"]}, r"weights: type <U1; expected real numbers"),
    ({"offsets": torch.tensor([0, 2])}, r"offsets: ends at 2; expected the number of documents, 3"),
    ({"offsets": torch.tensor([0.0, 3.0])}, r"offsets: type float64; expected whole numbers"),
    ({"offsets": [1, 3]}, r"offsets: starts at 1; expected 0"),
    ({"offsets": [0, 3, 3]}, r"offsets: query 1 is empty"),
    ({"offsets": torch.tensor(3)}, r"offsets: shape \(\); expected one dimension"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input(change, message):
    with pytest.raises(CounterrankError, match=message):
        cr.torch.loss("arp-hinge")(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "mse"}, "loss='mse': expected one of arp-hinge"),
        ({"name": "dcg-hinge", "k": 0}, "k=0: expected a whole number"),
        ({"name": "arp-hinge", "k": 5}, "k=5: arp-hinge has no cutoff"),
        ({"name": "arp-hinge", "threads": 0}, "threads=0: expected a whole number"),
    ],
    ids=["name", "k", "no cutoff", "threads"],
)
def test_bad_settings_are_found_before_the_first_call(arguments, message):
    with pytest.raises(CounterrankError, match=message):
        cr.torch.loss(**arguments)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", NAMES)
def test_scores_on_a_gpu(name):
    scores, weights, offsets = example(dtype=torch.float32)
    there = scores.detach().cuda().requires_grad_()
    loss = cr.torch.loss(name, k=cutoff_of(name, 2))
    here = loss(scores, weights, offsets)
    value = loss(there, torch.tensor(weights).cuda(), torch.tensor(offsets).cuda())
    here.backward()
    value.backward()
    assert value.is_cuda
    assert there.grad.is_cuda
    assert value.item() == here.item()
    assert torch.equal(there.grad.cpu(), scores.grad)

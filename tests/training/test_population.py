"""Populations: each member is as if trained alone, on the CPU and by an executor that gets the requests of all."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
import types
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import counterrank as cr
from counterrank import losses
from counterrank.common.errors import ConstantFeaturesError, MissingExtraError, NothingToLearnError
from counterrank.data import RankingData
from counterrank.estimators import Evidence, Views
from counterrank.training import Ranker
from counterrank.training.executor import CpuExecutor, Device, Epoch, GradientNorms, Metric, compute
from tests.support.ragged import ragged_data, ragged_weights

DATA, OTHER = ragged_data(0), ragged_data(2)
WEIGHTS, OTHER_WEIGHTS = ragged_weights(DATA), ragged_weights(OTHER, seed=3)
NEGATIVE = ragged_weights(DATA, negative=True, seed=5)


def views_of(data, weights, size=4) -> Views:
    """Sets of up to `size` documents that follow each other in a query."""
    starts = [np.arange(start, end, size) for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True)]
    return Views(np.arange(data.n_docs), np.append(np.concatenate(starts), data.n_docs), weights)


VIEWS, OTHER_VIEWS = views_of(DATA, WEIGHTS), views_of(OTHER, OTHER_WEIGHTS)


def cutoff(loss: str) -> int | None:
    return 3 if losses.LOSSES[loss].takes_k else None


def mixed(validated: bool) -> list[cr.Member]:
    """All losses, with weights or views, batches or none, a learning rate or a race, and different early stopping."""
    members = []
    for i, loss in enumerate(losses.LOSSES):
        weights, other = (VIEWS, OTHER_VIEWS) if i % 3 == 2 else ((WEIGHTS, NEGATIVE)[i % 2], OTHER_WEIGHTS)
        for rate in ("auto", 0.2):
            ranker = Ranker(
                loss,
                cutoff(loss),
                learning_rate=rate,
                batch_queries=1 + 2 * (i % 2),
                normalize=("query", "standard", "query")[i % 3],
                max_epochs=4 + i,
                patience=1 + i % 3,
                tolerance=0.01 * (i % 2),
                metric=("dcg@2", None)[i % 2],
                seed=i % 2,
            )
            members.append(cr.Member(ranker, weights, other if validated else None))
    return members


def learned(ranker) -> dict:
    """Everything a ranker learned, without dates and durations."""
    return {
        "model": (ranker.model_.coefficients.tolist(), ranker.model_.scaler.low.tolist()),
        "history": [{**row, "seconds": None} for row in ranker.history_],
        "about": (ranker.learning_rate_, ranker.best_epoch_, ranker.loss_, ranker.metric_, ranker.kind_),
        "importances": ranker.feature_importances_.tolist(),
        "constant": ranker.constant_features_.tolist(),
        "params": ranker.get_params(),
        "provenance": {**ranker.provenance_, "date": None},
    }


def alone(member, validation) -> dict:
    own = None if validation is None else (validation, member.validation_weights)
    return learned(Ranker(**member.ranker.get_params()).fit(DATA, member.weights, own))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("validation", [None, OTHER])
def test_members_are_as_if_trained_alone(validation, threads):
    members = mixed(validation is not None)
    found = cr.fit_many(DATA, members, validation, threads=threads)
    for ranker, member in zip(found, members, strict=True):
        assert ranker is not member.ranker
        assert not hasattr(member.ranker, "model_")
        assert learned(ranker) == alone(member, validation)


@pytest.mark.parametrize("validation", [None, OTHER])
def test_members_that_advance_together_are_as_if_trained_alone(validation, monkeypatch):
    """An executor in the place of a GPU's gets the requests of all members that go on, until the last has ended."""
    calls = []

    class Recording(CpuExecutor):
        def run(self, requests):
            calls.append([type(request) for request in requests])
            return super().run(requests)

    gpu = types.ModuleType("counterrank.training.gpu")
    gpu.device = lambda: Device(Recording(2))
    monkeypatch.setitem(sys.modules, "counterrank.training.gpu", gpu)
    members = mixed(validation is not None)
    for device in ("cuda", "auto"):
        found = cr.fit_many(DATA, members, validation, device=device)
        for ranker, member in zip(found, members, strict=True):
            assert learned(ranker) == alone(member, validation)
    half = len(members) // 2  # the others race ten learning rates each
    assert calls[0] == [GradientNorms] * half
    assert calls[1] == [Epoch] * (half + 10 * half)
    assert all(len(set(call)) == 1 for call in calls)
    assert len(calls[-1]) < len(members)
    assert {kind for call in calls for kind in call} == {Epoch, Metric, GradientNorms}


def test_one_member_and_none():
    member = cr.Member(Ranker("arp-hinge", max_epochs=3), WEIGHTS)
    assert learned(cr.fit_many(DATA, [member])[0]) == alone(member, None)
    assert cr.fit_many(DATA, []) == []


def test_plain_tuples_and_weights_for_all_to_validate_on():
    own = ragged_weights(OTHER, seed=9)
    rankers = [Ranker("dcg-hinge", k=3, max_epochs=6, seed=seed) for seed in (0, 1)]
    members = [(rankers[0], WEIGHTS), (rankers[1], WEIGHTS.tolist(), own)]
    first, second = cr.fit_many(DATA, members, (OTHER, OTHER_WEIGHTS))
    assert learned(first) == alone(cr.Member(rankers[0], WEIGHTS, OTHER_WEIGHTS), OTHER)
    assert learned(second) == alone(cr.Member(rankers[1], WEIGHTS, own), OTHER)


def test_members_with_the_same_weights_and_seed_share_arrays():
    """What an executor may recognise: features, weights and scaling of the problem, and the order of an epoch."""
    seen = []

    class Looking(CpuExecutor):
        def run(self, requests):
            seen.append([request for request in requests if isinstance(request, Epoch)])
            return super().run(requests)

    from counterrank.training import population

    members = [cr.Member(Ranker(loss, max_epochs=2, learning_rate=0.1), WEIGHTS) for loss in ("arp-hinge", "dcg-hinge")]
    members.append(cr.Member(Ranker("arp-hinge", max_epochs=2, learning_rate=0.1, seed=1), NEGATIVE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(population, "open_device", lambda name: Device(Looking(1)))
        cr.fit_many(DATA, members, device="cuda")
    for first, second, third in seen:
        assert first.order is second.order
        assert first.order is not third.order
        assert first.problem.kernel_data.weights is second.problem.kernel_data.weights
        for other in (second, third):
            assert first.problem.kernel_data.features is other.problem.kernel_data.features
            assert first.problem.kernel_data.scales.low is other.problem.kernel_data.scales.low


def test_feature_names_and_provenance_are_each_member_s_own():
    names = [f"f{i}" for i in range(DATA.n_features)]
    data = RankingData(DATA.features, DATA.offsets, feature_names=names)
    other = RankingData(OTHER.features[:, ::-1], OTHER.offsets, feature_names=names[::-1])
    straight = RankingData(OTHER.features, OTHER.offsets, feature_names=names)
    members = [cr.Member(Ranker("arp-hinge", max_epochs=3), WEIGHTS, OTHER_WEIGHTS)] * 2
    first, second = cr.fit_many(data, members, other)
    expected = Ranker("arp-hinge", max_epochs=3).fit(data, WEIGHTS, (straight, OTHER_WEIGHTS))
    assert learned(first)["model"] == learned(second)["model"] == learned(expected)["model"]
    first.provenance_["data"]["path"] = "elsewhere"
    assert second.provenance_["data"]["path"] != "elsewhere"


GOOD = (Ranker("arp-hinge", max_epochs=2), WEIGHTS)
FAILING = [
    ((Ranker("arp-hinge", learning_rate=1e300), WEIGHTS), r"learning_rate=1e\+300: training diverged"),
    ((Ranker("arp-hinge"), np.ones(DATA.n_docs)), r"weights: equal within every query"),
    ((Ranker("arp-hinge"), np.zeros(DATA.n_docs)), r"weights: all are 0"),
    ((Ranker("arp-hinge"), [1.0]), r"weights: 1 entries"),
    ((Ranker("nonsense"), WEIGHTS), r"loss='nonsense': expected one of"),
    ((Ranker("arp-hinge", patience=0), WEIGHTS), r"patience=0: expected"),
    ((Ranker("arp-hinge", params={"hidden": 3}), WEIGHTS), r"params: hidden; expected only device for a linear model"),
    ((Ranker(metric="ndcg"), WEIGHTS), r"metric"),
    ((Ranker(model="lambdamart"), WEIGHTS), r"model='lambdamart': a population has linear rankers only"),
    ((Ranker(), WEIGHTS, OTHER_WEIGHTS), r"validation_weights: given without validation"),
]


@pytest.mark.parametrize(("member", "message"), FAILING)
def test_a_member_that_fails_is_named_or_returned(member, message):
    with pytest.raises(cr.CounterrankError, match=rf"^member 1: {message}"):
        cr.fit_many(DATA, [GOOD, member, GOOD])
    first, error, last = cr.fit_many(DATA, [GOOD, member, GOOD], on_error="return")
    assert isinstance(error, cr.CounterrankError)
    with pytest.raises(cr.CounterrankError, match=rf"^{message}"):
        raise error
    assert learned(first) == learned(last) == alone(cr.Member(*GOOD), None)


def test_errors_keep_their_class():
    with pytest.raises(NothingToLearnError, match=r"^member 0: "):
        cr.fit_many(DATA, [(Ranker(), np.ones(DATA.n_docs))])


def test_all_that_can_be_checked_is_checked_before_training(monkeypatch):
    def no_training(*arguments):
        raise AssertionError("trained")

    monkeypatch.setattr("counterrank.training.population._run", no_training)
    with pytest.raises(NothingToLearnError, match=r"^member 1: "):
        cr.fit_many(DATA, [GOOD, (Ranker(), np.ones(DATA.n_docs))])


FLAT = RankingData(np.ones((3, 2)), [0, 3])
BAD_INPUT = [
    ((DATA.features, [GOOD]), {}, cr.CounterrankError, r"^data: ndarray; expected RankingData"),
    ((DATA, GOOD[0]), {}, cr.CounterrankError, r"^members: Ranker; expected a list of \(ranker, weights\)"),
    ((DATA, cr.Member(*GOOD)), {}, cr.CounterrankError, r"^members: Member; expected a list"),
    ((DATA, [GOOD[0]]), {}, cr.CounterrankError, r"^member 0: expected \(ranker, weights\)"),
    ((DATA, [GOOD, VIEWS]), {}, cr.CounterrankError, r"^member 1: expected \(ranker, weights\)"),
    ((DATA, [("arp-hinge", WEIGHTS)]), {}, cr.CounterrankError, r"^member 0: ranker: str; expected"),
    ((DATA, [GOOD], WEIGHTS), {}, cr.CounterrankError, r"^validation: expected ranking data, or a pair"),
    ((DATA, [GOOD], OTHER), {}, cr.CounterrankError, r"^member 0: validation_weights: None; expected weights"),
    ((DATA, [GOOD], (OTHER, OTHER_VIEWS)), {}, cr.CounterrankError, r"^member 0: validation: views, where training"),
    ((DATA, [GOOD], (FLAT, [1, 0, 0])), {}, cr.CounterrankError, r"^validation: 2 features; expected 6 as in data"),
    ((FLAT, [(Ranker(), [1.0, 0, 0])]), {}, ConstantFeaturesError, r"^data: none of the features"),
    ((DATA, [GOOD]), {"device": "tpu"}, cr.CounterrankError, r"^device='tpu': expected one of"),
    ((DATA, [GOOD]), {"on_error": "ignore"}, cr.CounterrankError, r"^on_error='ignore': expected one of"),
    ((DATA, [GOOD]), {"threads": 0}, cr.CounterrankError, r"^threads=0: expected a whole number"),
    ((DATA, [GOOD]), {"clicks": []}, cr.CounterrankError, r"^clicks: an empty list"),
]


@pytest.mark.parametrize(("arguments", "more", "error", "message"), BAD_INPUT)
def test_bad_input_is_refused(arguments, more, error, message):
    with pytest.raises(error, match=message):
        cr.fit_many(*arguments, **more)


def test_without_a_gpu_cuda_says_what_is_missing_and_auto_takes_the_cpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "counterrank.training.gpu", None)
    with pytest.raises(MissingExtraError, match=r"^device='cuda' needs .*; pip install 'counterrank\[cuda\]'$"):
        cr.fit_many(DATA, [GOOD], device="cuda")
    (found,) = cr.fit_many(DATA, [GOOD], device="auto")
    assert learned(found) == alone(cr.Member(*GOOD), None)

    def no_gpu():
        raise cr.CounterrankError("device='cuda': no GPU found")

    gpu = types.ModuleType("counterrank.training.gpu")
    gpu.device = no_gpu
    monkeypatch.setitem(sys.modules, "counterrank.training.gpu", gpu)
    with pytest.raises(cr.CounterrankError, match="no GPU found"):
        cr.fit_many(DATA, [GOOD], device="cuda")
    assert learned(cr.fit_many(DATA, [GOOD], device="auto")[0]) == learned(found)


def test_a_broken_installation_of_cupy_says_why(monkeypatch):
    def broken():
        raise ImportError("libcudart.so.12: cannot open shared object file")

    gpu = types.ModuleType("counterrank.training.gpu")
    gpu.device = broken
    monkeypatch.setitem(sys.modules, "counterrank.training.gpu", gpu)
    with pytest.raises(MissingExtraError, match=r"^device='cuda' needs a working cupy \(libcudart.so.12: cannot open"):
        cr.fit_many(DATA, [GOOD], device="cuda")


def test_a_loss_that_the_device_cannot_compute_is_an_error_of_its_member(monkeypatch):
    class Picky(CpuExecutor):
        def check(self, loss):
            if loss.kernel is losses.LOSSES["arp-hinge"].spec(None, 2).kernel:
                raise cr.CounterrankError("loss: not on this device")

    monkeypatch.setattr("counterrank.training.population.open_device", lambda name: Device(Picky(1)))
    members = [(Ranker("lambdaloss-dcg", max_epochs=1), WEIGHTS), (Ranker("arp-hinge", max_epochs=1), WEIGHTS)]
    with pytest.raises(cr.CounterrankError, match=r"^member 1: loss: not on this device"):
        cr.fit_many(DATA, members, device="cuda")
    found = cr.fit_many(DATA, members, device="cuda", on_error="return")
    assert isinstance(found[0], Ranker)
    assert "not on this device" in str(found[1])


class Number:
    """A request that asks for a number."""

    def __init__(self, value):
        self.value = value

    def compute(self, threads):
        return self.value


def tree(depth: int, width: int):
    """The number of leaves of a tree of trainings: each leaf asks for 1, twice where its place is odd."""
    if depth == 0:
        return (yield Number(1))
    parts = yield [tree(depth - 1, width if i % 2 else width - 1) for i in range(width)]
    nothing = yield []
    assert nothing == []
    return sum(parts)


def leaves(depth: int, width: int) -> int:
    return 1 if depth == 0 else sum(leaves(depth - 1, width if i % 2 else width - 1) for i in range(width))


@pytest.mark.parametrize("threads", [1, 3])
def test_trainings_made_of_trainings(threads):
    shapes = [(0, 1), (1, 3), (3, 3), (2, 0)]
    expected = [leaves(*shape) for shape in shapes]
    assert [compute(tree(*shape), threads) for shape in shapes] == expected
    device = Device(CpuExecutor(threads))
    assert device.run([tree(*shape) for shape in shapes]) == expected
    assert device.run([]) == []


def test_an_error_in_a_request_ends_all():
    def failing():
        yield Number(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Device(CpuExecutor(1)).run([tree(2, 3), failing()])


class Waiting(CpuExecutor):
    """Waits in its first call until another thread has begun trainings; keeps the sizes of all calls."""

    def run(self, requests):
        end = time.monotonic() + 60
        while not (self.sizes or self.device._new) and time.monotonic() < end:
            time.sleep(0.001)
        self.sizes.append(len(requests))
        return super().run(requests)


def shared_device(kind=Waiting):
    executor = kind(1)
    device = Device(executor)
    object.__setattr__(executor, "sizes", [])
    object.__setattr__(executor, "device", device)
    return device, executor


def test_trainings_of_several_threads_advance_together():
    device, executor = shared_device()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda depth: device.run([tree(depth, 3)]), (2, 3)))
    assert found == [[leaves(2, 3)], [leaves(3, 3)]]
    assert sum(executor.sizes) == leaves(2, 3) + leaves(3, 3)
    assert len(executor.sizes) <= 2  # all leaves of both but, perhaps, those of the first to come


def test_the_clock_of_a_thread_has_its_share_of_the_device():
    class Slow(CpuExecutor):
        def run(self, requests):
            time.sleep(0.05)
            return super().run(requests)

    device = Device(Slow(1))
    begin, start = device.clock(), time.perf_counter()
    device.run([tree(2, 3)])
    assert 0.05 <= device.clock() - begin <= time.perf_counter() - start


def test_an_error_of_one_thread_leaves_the_trainings_of_others():
    device, _ = shared_device()

    def failing():
        yield Number(1)
        raise ZeroDivisionError

    with ThreadPoolExecutor(2) as pool:
        bad, good = pool.submit(device.run, [failing(), tree(2, 2)]), pool.submit(device.run, [tree(3, 3)])
        assert good.result() == [leaves(3, 3)]
        with pytest.raises(ZeroDivisionError):
            bad.result()
    assert device.run([tree(1, 2)]) == [leaves(1, 2)]


def test_an_error_of_the_executor_ends_what_it_computed():
    class Broken(CpuExecutor):
        def run(self, requests):
            raise MemoryError

    device = Device(Broken(1))
    for _ in range(2):
        with pytest.raises(MemoryError):
            device.run([tree(1, 2)])
    assert is_empty(device)


def is_empty(device):
    return not (device._calls or device._new or device._ready or device._epochs or device._is_busy)


def test_threads_get_errors_of_the_executor_of_their_own():
    class Broken(Waiting):
        def run(self, requests):
            super().run(requests)
            raise MemoryError("full")

    device, _ = shared_device(Broken)
    with ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(device.run, [tree(1, 2)]) for _ in range(2)]
        found = [task.exception(60) for task in tasks]
    assert [str(error) for error in found] == ["full"] * 2
    assert found[0] is not found[1]
    assert is_empty(device)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_goes_wrong_in_the_device_itself_ends_all_trainings(error):
    """An interrupt, or results that do not fit the requests: no other thread waits for ever."""

    class Interrupted(Waiting):
        def run(self, requests):
            found = super().run(requests)
            if error is KeyboardInterrupt:
                raise error
            return found[1:]

    device, _ = shared_device(Interrupted)
    with ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(device.run, [tree(2, 2)]) for _ in range(2)]
        kinds = {type(task.exception(60)) for task in tasks}
    assert error in kinds
    assert kinds <= {error, cr.CounterrankError}
    assert is_empty(device)


def test_trainings_that_failed_free_their_memory():
    class Large:
        pass

    def failing(large):
        yield Number(1)
        raise ZeroDivisionError

    device, large = Device(CpuExecutor(1)), Large()
    alive = weakref.ref(large)
    gc.disable()
    try:
        with contextlib.suppress(ZeroDivisionError):
            device.run([failing(large)])
        del large
        assert alive() is None
    finally:
        gc.enable()


def test_rankers_name_their_device(monkeypatch):
    """All ways of training use it, and the result is that of the CPU."""
    calls = []

    class Counting(CpuExecutor):
        def run(self, requests):
            calls.append(len(requests))
            return super().run(requests)

    gpu = types.ModuleType("counterrank.training.gpu")
    device = Device(Counting(1))
    gpu.device = lambda: device
    monkeypatch.setitem(sys.modules, "counterrank.training.gpu", gpu)
    data = cr.make_ranking_data("mslr", n_queries=12, seed=0)
    clicks = cr.simulation.simulate(data, data.features[:, 0], cr.policies.ReplaceLast(3), [1, 0.5, 0.3], sessions=900)
    evidence = Evidence(clicks)
    validation = (data, evidence)
    for train in (
        lambda ranker: ranker.fit(data, data.labels),
        lambda ranker: cr.fit_many(data, [(ranker, data.labels)])[0],
        lambda ranker: cr.fit_ranker(data, evidence, ranker=ranker, validation=validation).ranker,
        lambda ranker: cr.fit_ranker(data, evidence, ranker=ranker, validation=validation, clip="auto").ranker,
        lambda ranker: cr.fit_from_clicks(data, clicks, ranker=ranker, folds=2).ranker,
    ):
        on_cpu = train(Ranker(max_epochs=2))
        assert not calls
        found = train(Ranker(max_epochs=2, params={"device": "cuda"}))
        assert max(calls) >= 10  # a race of learning rates
        calls.clear()
        assert found.predict(data).tolist() == on_cpu.predict(data).tolist()
    mixed_devices = [(Ranker(params={"device": name}), data.labels) for name in ("cpu", "auto")]
    with pytest.raises(cr.CounterrankError, match=r"^members: rankers name the devices auto, cpu; expected the same"):
        cr.fit_many(data, mixed_devices)
    with pytest.raises(cr.CounterrankError, match="device"):
        Ranker(params={"device": "tpu"}).fit(data, data.labels)
    odd = [(Ranker(params=params), data.labels) for params in ([1], {"device": ["cuda"]}, {"device": None})]
    found = cr.fit_many(data, [*odd, (Ranker(max_epochs=1), data.labels)], on_error="return")
    assert [type(each) for each in found] == [cr.CounterrankError] * 3 + [Ranker]
    with pytest.raises(cr.CounterrankError, match=r"^member 0: params: list"):
        cr.fit_many(data, odd)

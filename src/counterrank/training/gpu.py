"""Many trainings at once on a GPU: what computes the requests of a population there.

`sgd.cu` has the kernels and says how they work. This module compiles them when they are needed (cupy, NVRTC), keeps
data and weights on the device as long as their arrays are in use here, groups requests into blocks of rankers that see
the queries in the same order, and launches one kernel for all of them.

A request's result does not depend on the others. GPUs need compute capability 8.0 or higher.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from counterrank.common.checks import FloatArray, IntArray
from counterrank.common.errors import CounterrankError, require
from counterrank.common.jit import Array
from counterrank.common.parallel import cached_once
from counterrank.common.ranking import longest_query
from counterrank.evaluation import higher_is_better, prefix_sums, rank_values
from counterrank.losses.lambdaloss import pairwise_query
from counterrank.losses.loss_kernels import LossSpec
from counterrank.losses.monotonic import ARP, DCG, monotonic_query
from counterrank.models.model import Scales
from counterrank.training.executor import Device, Epoch, GradientNorms, Metric, Request
from counterrank.training.gradient_descent import LinearProblem, SetArrays
from counterrank.training.problem import LinearMetric

_Made = TypeVar("_Made")

SOURCE = Path(__file__).with_name("sgd.cu")

THREADS = 256
_WARPS = THREADS // 32
_GROUPS = (8, 16, 32)
_OLDEST = 80  # the compute capability, times ten
_NO_LIMIT = 2**30
_MOST_BYTES = 2**28  # of results by query at a time

# The structures of sgd.cu.
_POINTERS = (
    "weights", "table", "used", "sums", "norms", "out", "set_of_query", "set_offsets", "set_places", "doc_offsets",
    "doc_entries", "entry_slopes", "entry_ranks",
)  # fmt: skip
_NUMBERS = ("family", "alpha", "k", "band", "batch", "n_used")
MEMBER = np.dtype(
    [(name, "u8") for name in _POINTERS] + [("step", "f8"), ("level_at_k", "f4")] + [(name, "i4") for name in _NUMBERS],
    align=True,
)
STEP = np.dtype([("start", "i8"), ("n", "i4"), ("query", "i4")])
BLOCK = np.dtype([("first", "i8"), ("n_steps", "i8")])
LAUNCH = np.dtype(
    [(name, "u8") for name in ("features", "scales", "steps", "blocks", "members", "coefficients", "scratch")]
    + [("scratch_bytes", "i8")]
    + [(name, "i4") for name in ("pitch", "scales_shared", "capacity", "longest", "stages", "unused")]
)


class Kernel(NamedTuple):
    """Which of the kernels: rankers a block, training or metric, and whether coefficients are in global memory."""

    group: int
    is_metric: bool
    is_spilled: bool


class Limits(NamedTuple):
    """Of a device: multiprocessors, and the shared memory of a block in bytes."""

    multiprocessors: int
    shared_bytes: int


class Buffer(Protocol):
    """Memory of a device."""

    @property
    def pointer(self) -> int:
        """Its address there."""


class Backend(Protocol):
    """A device: its memory, and kernels that run on it."""

    limits: Limits

    def put(self, array: Array) -> Buffer:
        """A copy of a contiguous array on the device."""

    def empty(self, n_bytes: int) -> Buffer:
        """Memory with any content."""

    def get(self, buffer: Buffer, dtype: Any, shape: tuple[int, ...]) -> Array:
        """A copy of what the memory has."""

    def launch(self, kernel: Kernel, blocks: int, shared_bytes: int, launch: Buffer) -> None:
        """Run a kernel with `THREADS` threads a block."""


class _CupyBuffer(NamedTuple):
    array: Any

    @property
    def pointer(self) -> int:
        return int(self.array.data.ptr)


class CupyBackend:
    """The current GPU of cupy."""

    def __init__(self) -> None:
        import cupy

        self._cupy: Any = cupy
        self._functions: dict[Kernel, Any] = {}
        self._device: Any = cupy.cuda.Device()  # the current one of a thread may be another
        device = self._device
        if int(device.compute_capability) < _OLDEST:
            found = int(device.compute_capability) / 10
            raise CounterrankError(
                f"device='cuda': this GPU has compute capability {found}; expected {_OLDEST / 10} or higher"
            )
        attributes = device.attributes
        self.limits = Limits(attributes["MultiProcessorCount"], attributes["MaxSharedMemoryPerBlockOptin"])

    def put(self, array: Array) -> Buffer:
        """A copy of the array."""
        return self._allocated(lambda: self._cupy.asarray(np.ascontiguousarray(array).reshape(-1).view(np.uint8)))

    def empty(self, n_bytes: int) -> Buffer:
        """Memory from cupy's pool."""
        return self._allocated(lambda: self._cupy.empty(n_bytes, np.uint8))

    def _allocated(self, allocate: Callable[[], Any]) -> Buffer:
        try:
            with self._device:
                return _CupyBuffer(allocate())
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            raise CounterrankError(
                f"device='cuda': not enough memory on the GPU ({error}); expected fewer members, or --jobs, at a time"
            ) from None

    def get(self, buffer: Buffer, dtype: Any, shape: tuple[int, ...]) -> Array:
        """Waits for kernels to end."""
        assert isinstance(buffer, _CupyBuffer)
        with self._device:
            found: Array = buffer.array.get().view(dtype).reshape(shape)
        return found

    def launch(self, kernel: Kernel, blocks: int, shared_bytes: int, launch: Buffer) -> None:
        """Compiles the kernel when it is first used; cupy keeps the result on disk."""
        assert isinstance(launch, _CupyBuffer)
        with self._device:
            if kernel not in self._functions:
                module = self._cupy.RawModule(code=SOURCE.read_text(encoding="utf-8"), options=compiler_options(kernel))
                function = module.get_function("run")
                function.max_dynamic_shared_size_bytes = self.limits.shared_bytes
                self._functions[kernel] = function
            self._functions[kernel]((blocks,), (THREADS,), (launch.array,), shared_mem=shared_bytes)


def compiler_options(kernel: Kernel) -> tuple[str, ...]:
    """For NVRTC or nvcc.

    >>> compiler_options(Kernel(8, False, False))
    ('--std=c++17', '-DONLY_GROUP=8', '-DONLY_METRIC=false', '-DONLY_SPILLED=false')
    """
    named = {"GROUP": kernel.group, "METRIC": kernel.is_metric, "SPILLED": kernel.is_spilled}
    return ("--std=c++17", *(f"-DONLY_{name}={str(value).lower()}" for name, value in named.items()))


def is_available() -> bool:
    """Whether cupy is installed and finds a GPU.

    >>> is_available() in (True, False)
    True
    """
    if find_spec("cupy") is None:
        return False
    import cupy

    try:
        return int(cupy.cuda.runtime.getDeviceCount()) > 0
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


def device() -> Device:
    """The current GPU, on which the trainings of all threads advance together."""
    found: Device = _device(executor())
    return found


def executor() -> GpuExecutor:
    """The executor of the current GPU; an error that says what is missing where there is none."""
    require("cupy", "cuda", "device='cuda'")
    if not is_available():
        raise CounterrankError("device='cuda': no GPU found; expected an NVIDIA GPU and its driver, or device='cpu'")
    found: GpuExecutor = _executor()
    return found


def pitch_of(n_features: int) -> int:
    """Numbers from one row of features to the next: an odd multiple of 16, so that rows are in different banks.

    >>> [pitch_of(n) for n in (1, 16, 17, 46, 136)]
    [16, 16, 48, 48, 144]
    """
    return (n_features + 15) // 32 * 32 + 16


def _score_pitch(n: int) -> int:
    return -(-n // 4) * 4 + 2


def _room_bytes(n: int) -> int:
    return 20 * (-(-n // 4) * 4)


def shared_bytes(group: int, pitch: int, capacity: int, stages: int, is_spilled: bool = False) -> int:
    """The shared memory of a block; `run_block` of sgd.cu lays it out.

    >>> shared_bytes(32, 144, 120, 2) <= 227 * 1024
    True
    """
    coefficients = 0 if is_spilled else 8 * group * (pitch + 2)
    scores = 8 * group * _score_pitch(capacity) + _WARPS * _room_bytes(capacity)
    return 64 + 16 * group + coefficients + scores + stages * (16 * pitch + 4 * pitch * capacity)


class Plan(NamedTuple):
    """How requests become blocks.

    Attributes:
        group: rankers a block.
        capacity: the most documents of a query that fits in shared memory; longer ones take a slower way.
        stages: queries in shared memory at a time.
        is_spilled: whether even coefficients do not fit.
    """

    group: int
    capacity: int
    stages: int
    is_spilled: bool = False


# What a ranker costs in smaller groups, without copying ahead, and what a document of a long query costs. Estimates.
_SMALLER = {8: 1.5, 16: 1.15, 32: 1.0}
_ONE_STAGE = 1.3
_LONG = 3.0


def make_plan(sizes: Sequence[int], lengths: IntArray, pitch: int, limits: Limits, is_divisible: bool) -> Plan:
    """The plan of the least estimated time.

    Arguments:
        sizes: how many rankers share each order.
        lengths: of the queries.
        pitch: of the features.
        limits: of the device.
        is_divisible: whether queries are independent of each other, so that several blocks can share them.
    """
    longest = int(lengths.max())
    best, least = Plan(8, 0, 1, is_spilled=True), np.inf
    for group in _GROUPS:
        for stages in (2, 1):
            fixed = shared_bytes(group, pitch, 0, stages)
            each = (shared_bytes(group, pitch, 400, stages) - fixed) / 400
            capacity = min(longest, int((limits.shared_bytes - fixed) / each) // 4 * 4)
            if capacity < min(longest, 16):
                continue
            blocks = sum(-(-size // group) for size in sizes) / limits.multiprocessors
            rounds = blocks if is_divisible else np.ceil(blocks)
            work = lengths.sum() + (_LONG - 1.0) * lengths[lengths > capacity].sum()
            time = rounds * group * _SMALLER[group] * (1.0 if stages == 2 else _ONE_STAGE) * work
            if time < least:
                best, least = Plan(group, capacity, stages), time
    if best.is_spilled and shared_bytes(8, pitch, 0, 1, is_spilled=True) > limits.shared_bytes:
        raise CounterrankError(f"device='cuda': too many features for this GPU, about {pitch:,}; expected device='cpu'")
    return best


class LossNumbers(NamedTuple):
    """A loss as the kernels know it."""

    family: int
    alpha: int
    k: int
    band: int
    level_at_k: float


def loss_numbers(spec: LossSpec) -> LossNumbers:
    """The numbers of a loss; an error for one with a kernel of its own."""
    form, alpha, k, level, band = spec.parameters[:5]
    if spec.kernel is pairwise_query:
        family = form
    elif spec.kernel is monotonic_query and alpha in (ARP, DCG):
        family = 2 + form
    else:
        raise CounterrankError("loss: has a kernel of its own, which runs on the CPU alone; expected device='cpu'")
    return LossNumbers(family, alpha, min(k, _NO_LIMIT), min(band, _NO_LIMIT), level)


class _Uploads:
    """What was made on the device of arrays of the host, or of objects that hold such arrays; freed with these."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, str], Any] = {}

    def of(self, source: Any, what: str, make: Callable[[], _Made]) -> _Made:
        """What `make` returns; the same for the same source."""
        key = (id(source), what)
        if key not in self._kept:
            self._kept[key] = make()
            weakref.finalize(source, self._kept.pop, key, None).atexit = False
        found: _Made = self._kept[key]
        return found

    def __len__(self) -> int:
        return len(self._kept)


class _Queries(NamedTuple):
    """Queries on the device."""

    features: Buffer
    scales: Buffer
    scales_shared: bool
    offsets: IntArray  # on the host
    n_features: int

    @property
    def pitch(self) -> int:
        return pitch_of(self.n_features)

    def steps(self, order: IntArray) -> Array:
        """The queries in this order, as the kernels take them."""
        found = np.empty(len(order), STEP)
        found["start"] = self.offsets[order]
        found["n"] = self.offsets[order + 1] - found["start"]
        found["query"] = order
        return found


class _Place(NamedTuple):
    """A ranker's place in a block: the fields of its `MEMBER`, coefficients, and how many entries a query's sets have.

    What the fields point to is kept by the problem or the metric of the request.
    """

    fields: dict[str, Any]
    coefficients: FloatArray
    n_entries: int


class _ProblemFields(NamedTuple):
    """The fields of `MEMBER` that follow from the problem, its loss, and how many entries a query's sets have."""

    fields: dict[str, Any]
    loss: LossNumbers
    n_entries: int


class _Job(NamedTuple):
    """A block: its queries in order, and its rankers."""

    steps: Array
    places: list[_Place]


class GpuExecutor:
    """Computes the requests of many trainings on a device, see `executor.Executor`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._uploads = _Uploads()
        self._prefix: dict[tuple[str, int], Buffer] = {}
        self._lock = Lock()

    def check(self, loss: LossSpec) -> None:
        """An error for a loss with a kernel of its own."""
        loss_numbers(loss)

    def run(self, requests: Sequence[Request]) -> list[Any]:
        """The results, in order."""
        results: list[Any] = [None] * len(requests)
        kinds: dict[tuple[Any, ...], list[int]] = {}
        for i, request in enumerate(requests):
            kinds.setdefault(_kind(request), []).append(i)
        with self._lock:
            for chosen in kinds.values():
                same: list[Any] = [requests[i] for i in chosen]
                if isinstance(same[0], Epoch):
                    found: list[Any] = self._epochs(same)
                elif isinstance(same[0], Metric):
                    found = self._metrics(same)
                else:
                    found = self._norms(same)
                for i, result in zip(chosen, found, strict=True):
                    results[i] = result
        return results

    def _epochs(self, requests: list[Epoch]) -> list[float]:
        """One launch for all epochs on the same data."""
        queries = self._problem_queries(requests[0].problem)
        by_order: dict[int, list[int]] = {}
        for i, request in enumerate(requests):
            by_order.setdefault(id(request.order), []).append(i)
        sizes = [len(members) for members in by_order.values()]
        plan = make_plan(sizes, np.diff(queries.offsets), queries.pitch, self._backend.limits, is_divisible=False)
        jobs, places = [], []
        known: dict[tuple[int, bytes], Array] = {}
        for members in by_order.values():
            # neighbours with the same kind of work wait least for each other
            members.sort(key=lambda i: self._problem_fields(requests[i].problem).loss)
            for first in range(0, len(members), plan.group):
                chosen = members[first : first + plan.group]
                places += chosen
                order, used = requests[chosen[0]].order, _used_by([requests[i].problem for i in chosen])
                key = (id(order), used.tobytes())
                if key not in known:
                    known[key] = queries.steps(order[used[order]])
                steps = known[key]
                taken = [requests[i] for i in chosen]
                jobs.append(_Job(steps, [self._place(r.problem, r.step, r.batch, r.coefficients) for r in taken]))
        coefficients, losses = self._launch(queries, plan, jobs, is_metric=False)
        found = [0.0] * len(requests)
        for i, row, loss in zip(places, coefficients, losses, strict=True):
            requests[i].coefficients[:] = row[: queries.n_features]
            found[i] = float(loss)
        return found

    def _metrics(self, requests: list[Metric]) -> list[FloatArray]:
        """Each query's part of each metric."""
        queries = self._metric_queries(requests[0])
        places = [_Place(self._metric_fields(request.metric), request.coefficients, 0) for request in requests]
        factors = np.array([_factor(request.metric) for request in requests])
        return list(self._by_query(queries, places, "out", is_metric=True, factors=factors))

    def _norms(self, requests: list[GradientNorms]) -> list[FloatArray]:
        """The norm of each query's gradient."""
        queries = self._problem_queries(requests[0].problem)
        places = [self._place(request.problem, 0.0, 1, request.coefficients) for request in requests]
        norms = self._by_query(queries, places, "norms", is_metric=False, factors=np.ones(len(places)))
        return [row[request.problem.queries] for row, request in zip(norms, requests, strict=True)]

    def _by_query(
        self, queries: _Queries, places: list[_Place], name: str, is_metric: bool, factors: FloatArray
    ) -> Iterator[FloatArray]:
        """What the kernels write for each query under this field of the member, times a factor, ranker by ranker."""
        n_queries = len(queries.offsets) - 1
        size = max(1, _MOST_BYTES // (8 * n_queries))
        for first in range(0, len(places), size):
            chosen = places[first : first + size]
            out = self._backend.empty(8 * n_queries * len(chosen))
            found = [
                place._replace(fields=place.fields | {name: out.pointer + 8 * n_queries * i})
                for i, place in enumerate(chosen)
            ]
            self._divided(queries, found, is_metric)
            values = self._backend.get(out, np.float64, (len(chosen), n_queries))
            values *= factors[first : first + size, None]
            yield from values

    def _divided(self, queries: _Queries, places: list[_Place], is_metric: bool) -> None:
        """Launch work in which queries are independent of each other: each part of them is a block of its own."""
        lengths, limits = np.diff(queries.offsets), self._backend.limits
        plan = make_plan([len(places)], lengths, queries.pitch, limits, is_divisible=True)
        groups = [places[i : i + plan.group] for i in range(0, len(places), plan.group)]
        n_parts = min(len(lengths), max(1, 4 * limits.multiprocessors // len(groups)))
        steps = queries.steps(np.arange(len(lengths)))
        bounds = np.searchsorted(np.cumsum(lengths), np.linspace(0, lengths.sum(), n_parts + 1)[1:-1])
        jobs = [_Job(part, group) for part in np.split(steps, bounds) if len(part) for group in groups]
        self._launch(queries, plan, jobs, is_metric)

    def _launch(
        self, queries: _Queries, plan: Plan, jobs: list[_Job], is_metric: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Run the jobs; coefficients and losses of all places, job after job."""
        backend, pitch, group = self._backend, queries.pitch, plan.group
        longest, n_slots = longest_query(queries.offsets), len(jobs) * group
        members, blocks = np.zeros(n_slots, MEMBER), np.zeros(len(jobs), BLOCK)
        coefficients = np.zeros((n_slots, pitch + 2))
        slots = [group * i + j for i, job in enumerate(jobs) for j in range(len(job.places))]
        places = [place for job in jobs for place in job.places]
        distinct = {id(job.steps): job.steps for job in jobs}
        begins = dict(zip(distinct, np.cumsum([0] + [len(steps) for steps in distinct.values()]), strict=False))
        blocks["first"] = [begins[id(job.steps)] for job in jobs]
        blocks["n_steps"] = [len(job.steps) for job in jobs]
        for name in {name for place in places for name in place.fields}:
            members[name][slots] = [place.fields.get(name, 0) for place in places]
        coefficients[slots, : queries.n_features] = [place.coefficients for place in places]
        n_entries = max(place.n_entries for place in places)
        # queries one at a time need no sums
        n_sums = n_slots if not is_metric and (members["norms"].any() or (members["batch"] > 1).any()) else 0
        out, sums = backend.empty(8 * n_slots), backend.empty(max(16, 8 * pitch * n_sums))
        slopes, ranks = (backend.empty(max(16, 4 * n_entries * n_slots)) for _ in range(2))
        numbers = np.arange(n_slots)
        if not is_metric:
            members["out"] = out.pointer + 8 * numbers
            members["sums"] = sums.pointer + 8 * pitch * numbers
            members["entry_slopes"] = slopes.pointer + 4 * n_entries * numbers
            members["entry_ranks"] = ranks.pointer + 4 * n_entries * numbers
        is_long = longest > plan.capacity
        scratch_bytes = (8 * group * _score_pitch(longest) + _WARPS * _room_bytes(longest)) if is_long else 0
        all_steps = np.concatenate(list(distinct.values()))
        buffers = [backend.put(array) for array in (all_steps, blocks, members, coefficients)]
        scratch = backend.empty(max(16, scratch_bytes * len(jobs)))
        launch = np.zeros(1, LAUNCH)
        names = ("steps", "blocks", "members", "coefficients", "features", "scales", "scratch")
        for name, buffer in zip(names, (*buffers, queries.features, queries.scales, scratch), strict=True):
            launch[name] = buffer.pointer
        launch["scratch_bytes"], launch["pitch"], launch["longest"] = scratch_bytes, pitch, longest
        launch["capacity"], launch["stages"], launch["scales_shared"] = *plan[1:3], queries.scales_shared
        shared = shared_bytes(group, pitch, plan.capacity, plan.stages, plan.is_spilled)
        backend.launch(Kernel(group, is_metric, plan.is_spilled), len(jobs), shared, backend.put(launch))
        if is_metric:
            return np.empty((0, pitch)), np.empty(0)
        learned = backend.get(buffers[3], np.float64, coefficients.shape)
        return learned[slots], backend.get(out, np.float64, (n_slots,))[slots]

    def _place(self, problem: LinearProblem, step: float, batch: int, coefficients: FloatArray) -> _Place:
        """The place of a ranker that learns."""
        common = self._problem_fields(problem)
        return _Place(common.fields | {"step": step, "batch": batch}, coefficients, common.n_entries)

    def _problem_fields(self, problem: LinearProblem) -> _ProblemFields:
        """What places of rankers with this problem have in common."""
        return self._uploads.of(problem, "problem", partial(self._make_problem_fields, problem))

    def _make_problem_fields(self, problem: LinearProblem) -> _ProblemFields:
        data, loss = problem.kernel_data, loss_numbers(problem.loss)
        table = problem.loss.parameters.table
        fields: dict[str, Any] = {
            **loss._asdict(),
            "n_used": len(problem.queries),
            "weights": self._put(data.weights, "weights", lambda: data.weights.astype(np.float32)),
            "table": self._put(table, "table", lambda: _split(table)),
        }
        if len(problem.queries) < problem.n_queries:
            fields["used"] = self._put(problem.queries, "used", lambda: problem.has_evidence.astype(np.uint8))
        n_entries = 0
        if len(data.sets.of_query):
            make = partial(self._make_sets, data.sets, data.offsets)
            sets, n_entries = self._uploads.of(data.sets.places, "sets", make)
            fields |= {name: buffer.pointer for name, buffer in sets.items()}
        return _ProblemFields(fields, loss, n_entries)

    def _metric_fields(self, metric: LinearMetric) -> dict[str, Any]:
        """The fields of rankers that this metric evaluates."""
        return self._uploads.of(metric, "metric fields", partial(self._make_metric_fields, metric))

    def _make_metric_fields(self, metric: LinearMetric) -> dict[str, Any]:
        weights, sets = metric.evidence.weights, metric.evidence.sets
        longest = longest_query(metric.data.offsets)
        key = (metric.name, longest)
        if key not in self._prefix:
            self._prefix[key] = self._backend.put(prefix_sums(rank_values(metric.name, longest)))
        fields: dict[str, Any] = {
            "weights": self._put(weights, "metric", lambda: weights),
            "table": self._prefix[key].pointer,
        }
        if sets is not None:
            found = self._uploads.of(sets.docs, "metric sets", lambda: self._put_sets(sets.by_query(metric.data)))
            fields |= {name: buffer.pointer for name, buffer in found.items()}
        return fields

    def _put_sets(self, sets: Sequence[IntArray]) -> dict[str, Buffer]:
        """The sets of all queries, as `SetArrays`."""
        types = {"set_of_query": np.int64, "set_offsets": np.int64, "set_places": np.int32}
        return {
            name: self._backend.put(array.astype(dtype))
            for (name, dtype), array in zip(types.items(), sets, strict=True)
        }

    def _make_sets(self, sets: SetArrays, offsets: IntArray) -> tuple[dict[str, Buffer], int]:
        """The sets, the entries of each document in them, and the most entries of one query."""
        begins = sets.offsets[sets.of_query]  # the first entry of each query
        sizes = np.diff(begins)
        docs = sets.places + np.repeat(offsets[:-1], sizes)
        by_doc = np.argsort(docs, kind="stable")
        own = np.arange(len(docs)) - np.repeat(begins[:-1], sizes)
        bounds = np.searchsorted(docs[by_doc], np.arange(offsets[-1] + 1))
        found = self._put_sets(sets)
        found["doc_offsets"] = self._backend.put(bounds.astype(np.int64))
        found["doc_entries"] = self._backend.put(own[by_doc].astype(np.int32))
        return found, int(sizes.max())

    def _put(self, array: Array, what: str, make: Callable[[], Array]) -> int:
        """The address of an array on the device."""
        return self._uploads.of(array, what, lambda: self._backend.put(make())).pointer

    def _problem_queries(self, problem: LinearProblem) -> _Queries:
        return self._queries(problem.kernel_data.features, problem.kernel_data.offsets, problem.kernel_data.scales)

    def _metric_queries(self, request: Metric) -> _Queries:
        return self._queries(request.metric.data.features, request.metric.data.offsets, request.metric.scales)

    def _queries(self, features: Array, offsets: IntArray, scales: Scales) -> _Queries:
        """Features in rows of `pitch_of` numbers, and x' = x inverse + shift in the place of (x - low) inverse."""
        n_features = features.shape[1]
        pitch = pitch_of(n_features)

        def rows() -> Array:
            padded = np.zeros((len(features), pitch), np.float32)
            padded[:, :n_features] = features
            return padded

        def factors() -> Array:
            both = np.zeros((len(scales.inverse), 2, pitch))
            both[:, 0, :n_features] = scales.inverse
            both[:, 1, :n_features] = -scales.low * scales.inverse
            return both

        uploads = self._uploads
        return _Queries(
            uploads.of(features, "features", lambda: self._backend.put(rows())),
            uploads.of(scales.inverse, "scales", lambda: self._backend.put(factors())),
            bool(scales.shared),
            offsets,
            n_features,
        )


def _factor(metric: LinearMetric) -> float:
    """From what the kernel computes to the metric, larger is better."""
    return (1.0 if higher_is_better(metric.name) else -1.0) / metric.total


def _used_by(problems: list[LinearProblem]) -> Array:
    """Of each query, whether at least one of the problems learns from it."""
    used = np.zeros(problems[0].n_queries, np.bool_)
    for problem in problems:
        if len(problem.queries) == len(used):
            used[:] = True
            break
        used |= problem.has_evidence
    return used


def _split(table: FloatArray) -> Array:
    """Numbers as sums of two floats."""
    high = table.astype(np.float32)
    return np.stack((high, (table - high).astype(np.float32)), axis=1)


def _kind(request: Request) -> tuple[Any, ...]:
    """What requests have in common that one launch computes: kind, features and their scaling."""
    if isinstance(request, Metric):
        return Metric, id(request.metric.data.features), id(request.metric.scales.inverse)
    data = request.problem.kernel_data
    return type(request), id(data.features), id(data.scales.inverse)


# one for all threads, whichever asks first
_executor = cached_once(lambda: GpuExecutor(CupyBackend()), maxsize=1)
_device = cached_once(Device, maxsize=1)

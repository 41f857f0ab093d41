"""Training of networks: AdamW on mini-batches of whole queries, with early stopping."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from counterrank.common.checks import Float32Array, FloatArray, IntArray, check_number
from counterrank.common.errors import CounterrankError, brief, require
from counterrank.common.progress import progress
from counterrank.data import RankingData
from counterrank.models.model import Scaler
from counterrank.models.neural import (
    NetworkShape,
    NeuralModel,
    call_module,
    check_finite,
    copied,
    network_scores,
    place_of,
)
from counterrank.torch import loss as torch_loss
from counterrank.training.linear_training import EarlyStopping
from counterrank.training.problem import (
    FittedModel,
    Settings,
    Task,
    TrainingWeights,
    normalized_evidence,
    query_metric,
)

_LEARNING_RATE = 1e-3
_WEIGHT_DECAY = 1e-2
# Adam divides the learning rate by small numbers; beyond this the result is no float32
_LARGEST_RATE = 1e30


@dataclass(frozen=True)
class NetworkSettings:
    """What `params` says, checked; `shape` is None for a module of the user's own."""

    shape: NetworkShape | None
    weight_decay: float
    device: Any
    learning_rate: float

    @classmethod
    def check(cls, settings: Settings, module: Any) -> NetworkSettings:
        """The settings for the library's own network, or for `module`."""
        usual, params = NetworkShape(), settings.params
        known = ("weight_decay", "device") if module is not None else ("hidden", "dropout", "weight_decay", "device")
        for name in params:
            if name not in known:
                kind = "a module" if module is not None else "mlp"
                raise CounterrankError(f"params: {name!r} is unknown; {kind} has {', '.join(known)}")
        decay = check_number(params.get("weight_decay", _WEIGHT_DECAY), "weight_decay", at_least=0)
        shape = None
        if module is None:
            shape = NetworkShape.check(params.get("hidden", usual.hidden), params.get("dropout", usual.dropout))
        rate = _LEARNING_RATE if settings.learning_rate is None else settings.learning_rate
        if rate > _LARGEST_RATE:
            raise CounterrankError(f"learning_rate={rate:g}: expected at most {_LARGEST_RATE:g} for a network")
        return cls(shape, decay, _usable_device(params.get("device"), module), rate)


def _usable_device(device: Any, module: Any) -> Any:
    """The device that is given, if it can be used; without one that of the module, or the CPU."""
    import torch

    if device is None:
        return torch.device("cpu") if module is None else place_of(module)[0]
    try:
        return torch.empty(0, device=device).device
    except Exception as error:  # of a kind that differs from device to device
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CounterrankError(f"device={brief(device)}: cannot be used here ({reason})") from None


class Batch(NamedTuple):
    """Some queries, the documents of one after the other.

    Attributes:
        rows: their documents, as rows of the data.
        offsets: where each query begins in `rows`.
        members: what is ranked, as entries of `rows`: the members of sets; None where it is the queries themselves.
        weights: of what is ranked.
        bounds: where each ranking begins in `members`, or in `rows`.
    """

    rows: IntArray
    offsets: IntArray
    members: IntArray | None
    weights: FloatArray
    bounds: IntArray


@dataclass(frozen=True)
class Batches:
    """Weighted queries to take batches of.

    Weights sum to the number of queries in absolute value, so that the loss of a batch divided by its queries is an
    average: it does not depend on how many queries there are, nor on the size of the batch.

    Attributes:
        queries: those that can be learned from.
        offsets: of the data.
        weights: one per document, or per member of the sets.
        sets: with sets, the first set of each query, where sets begin, and their members by place in the query.
    """

    queries: IntArray
    offsets: IntArray
    weights: FloatArray
    sets: tuple[IntArray, IntArray, IntArray] | None

    @classmethod
    def make(cls, data: RankingData, evidence: TrainingWeights) -> Batches:
        """Find the queries to learn from, and scale the weights."""
        queries, weights, sets = normalized_evidence(data, evidence.weights, evidence.sets)
        return cls(queries, data.offsets, weights * len(queries), None if sets is None else sets.by_query(data))

    def take(self, queries: IntArray) -> Batch:
        """The batch of these queries, in this order.

        >>> data = RankingData([[0.0], [1.0], [2.0], [3.0]], offsets=[0, 2, 4])
        >>> batches = Batches.make(data, TrainingWeights(np.array([0.0, 1.0, 1.0, 0.0]), None))
        >>> batch = batches.take(np.array([1, 0]))
        >>> batch.rows.tolist(), batch.offsets.tolist(), batch.weights.tolist()
        ([2, 3, 0, 1], [0, 2, 4], [1.0, 0.0, 0.0, 1.0])
        """
        rows, offsets = ranges(self.offsets, queries)
        if self.sets is None:
            return Batch(rows, offsets, None, self.weights[rows], offsets)
        first_set, set_offsets, places = self.sets
        chosen, _ = ranges(first_set, queries)
        entries, bounds = ranges(set_offsets, chosen)
        begin = np.repeat(offsets[:-1], set_offsets[first_set[queries + 1]] - set_offsets[first_set[queries]])
        return Batch(rows, offsets, places[entries] + begin, self.weights[entries], bounds)


def ranges(bounds: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """The numbers bounds[i]:bounds[i + 1] of each chosen i, one after the other, and where each begins among them.

    >>> [numbers, offsets] = ranges(np.array([0, 2, 5]), np.array([1, 0]))
    >>> numbers.tolist(), offsets.tolist()
    ([2, 3, 4, 0, 1], [0, 3, 5])
    """
    starts = bounds[chosen]
    lengths = bounds[chosen + 1] - starts
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths), offsets


@contextmanager
def private_randomness(entropy: int, device: Any) -> Iterator[None]:
    """Torch's random numbers start from `entropy` inside, and continue afterwards as if nothing had happened.

    >>> import torch
    >>> with private_randomness(3, torch.device("cpu")):
    ...     first = torch.rand(2)
    >>> with private_randomness(3, torch.device("cpu")):
    ...     bool((torch.rand(2) == first).all())
    True
    """
    import torch

    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        torch.random.default_generator.manual_seed(entropy)
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(entropy)
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes on one core inside: with more, the order of sums depends on their number.

    >>> import torch
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# From a network in evaluation mode to each query's part in the validation metric; None where scores are not finite.
ValidationMetric = Callable[[Any], FloatArray | None]


@dataclass
class NetworkRun:
    """Training of one network.

    Attributes:
        evaluated: a second network that takes the state of the first after each epoch and is never trained, so that
            evaluation does not change training, and of the type that the fitted model has.
        loss: from scores, weights and offsets to a number that can be differentiated.
        features: all documents, scaled.
        kept: a copy of the state to return.
    """

    network: Any
    evaluated: Any
    optimizer: Any
    loss: Callable[..., Any]
    batches: Batches
    features: Float32Array
    metric: ValidationMetric | None
    watch: EarlyStopping
    history: list[dict[str, float | None]] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)

    def epoch(self, order: IntArray, batch_queries: int, on_part: Callable[[float], None]) -> bool:
        """Train on the queries in this order, then evaluate; whether the network is still of use."""
        begin = time.perf_counter()
        self.network.train()
        total = 0.0
        for start in range(0, len(order), batch_queries):
            queries = order[start : start + batch_queries]
            total += self._step(queries) * len(queries) / len(order)
            on_part(len(queries) / len(order))
            if not np.isfinite(total):
                break
        seconds = time.perf_counter() - begin
        number = len(self.history) + 1
        parts, is_sound = self._evaluate() if np.isfinite(total) else (None, False)
        if is_sound and self.watch.see(number, parts):
            self.kept = {name: _copy(value) for name, value in self.evaluated.state_dict().items()}
        validation = None if parts is None else float(parts.sum())
        self.history.append({"epoch": number, "loss": total, "validation": validation, "seconds": seconds})
        return is_sound

    def _step(self, queries: IntArray) -> float:
        """Change the network by one batch; the average loss of its queries, not finite if scores are not."""
        import torch

        batch = self.batches.take(queries)
        scores = call_module(self.network, self.features[batch.rows], batch.offsets)
        if not torch.isfinite(scores).all():
            return float("nan")
        if not scores.requires_grad:
            raise CounterrankError(
                "model: its scores cannot be differentiated; expected a module that does not detach them"
            )
        if batch.members is not None:
            scores = scores[torch.from_numpy(batch.members).to(scores.device)]
        value = self.loss(scores, batch.weights, batch.bounds) / len(queries)
        self.optimizer.zero_grad()
        value.backward()
        self.optimizer.step()
        return float(value.item())

    def _evaluate(self) -> tuple[FloatArray | None, bool]:
        """Each query's part in the validation metric, and whether the network's numbers are finite."""
        import torch

        self.evaluated.load_state_dict(self.network.state_dict())
        if not all(bool(torch.isfinite(tensor).all()) for tensor in self.evaluated.parameters()):
            return None, False
        if self.metric is None:
            return None, True
        parts = self.metric(self.evaluated)
        return parts, parts is not None


def fit_network(task: Task, module: Any) -> FittedModel:
    """Learn the library's own network, or a copy of the module given.

    The library's network is trained on one core, since its result is to be the same on every machine; a module of the
    user's own on as many as torch is set to.
    """
    require("torch", "torch", "a neural ranker")
    settings = task.settings
    if task.loss.limit is not None:
        raise CounterrankError(f"risk={task.loss.limit.risk!r}: limits exposure of linear models; expected risk='none'")
    own = NetworkSettings.check(settings, module)
    batches = Batches.make(task.data, task.evidence)
    scaler = Scaler.learn(settings.normalize, task.data, settings.threads)
    with private_randomness(settings.entropy, own.device), one_thread() if own.shape is not None else nullcontext():
        run = _make_run(task, module, own, batches, scaler)
        is_sound = _advance(run, task)
    if not is_sound and (task.validation is None or run.watch.best_epoch == 0):
        raise CounterrankError(f"learning_rate={own.learning_rate:g}: training diverged; use a smaller one")
    run.evaluated.load_state_dict(run.kept)
    model = NeuralModel(run.evaluated, scaler, task.data.n_features, own.shape)
    return FittedModel(model, run.history, run.watch.best_epoch, own.learning_rate)


def _advance(run: NetworkRun, task: Task) -> bool:
    """Train until there is nothing more to gain; whether the network's numbers stayed finite."""
    settings = task.settings
    with progress(f"training {task.loss.name}", settings.max_epochs) as advance:
        while len(run.history) < settings.max_epochs and not run.watch.is_overdue(len(run.history)):
            order = np.random.default_rng([settings.entropy, len(run.history) + 1]).permutation(run.batches.queries)
            if not run.epoch(order, settings.batch_queries, advance):
                return False
    return True


def _make_run(task: Task, module: Any, own: NetworkSettings, batches: Batches, scaler: Scaler) -> NetworkRun:
    import torch

    data, settings = task.data, task.settings
    network = (own.shape.build(data.n_features) if own.shape is not None else copied(module)).to(own.device)
    features = scaler.apply(data, settings.threads)
    _try_out(network, features, data.offsets)
    learned = [tensor for tensor in network.parameters() if tensor.requires_grad]
    if not learned:
        raise CounterrankError(
            f"model: {type(network).__name__} has no parameters to learn; expected some that require a gradient"
        )
    evaluated = copied(network).eval()
    return NetworkRun(
        network,
        evaluated.double() if own.shape is not None else evaluated,
        torch.optim.AdamW(learned, lr=own.learning_rate, weight_decay=own.weight_decay),
        torch_loss(task.loss, task.k, settings.threads, seed=settings.entropy),
        batches,
        features,
        _validation_metric(task, scaler),
        EarlyStopping(settings.patience, settings.tolerance),
    )


def _try_out(network: Any, features: Float32Array, offsets: IntArray) -> None:
    """Score two queries, so that a module that does not fit is found before training, and lazy layers get sizes."""
    import torch

    end = min(2, len(offsets) - 1)
    network.eval()
    try:
        with torch.no_grad():
            scores = call_module(network, features[: offsets[end]], offsets[: end + 1])
    except RuntimeError as error:  # what torch raises where shapes do not go together
        shape = f"{offsets[end]} documents of {features.shape[1]} features"
        raise CounterrankError(f"model: {type(network).__name__} fails on {shape} ({error})") from error
    check_finite(scores.double().numpy(force=True))


def _validation_metric(task: Task, scaler: Scaler) -> ValidationMetric | None:
    if task.validation is None:
        return None
    data, evidence = task.validation
    features = scaler.apply(data, task.settings.threads)
    metric_of = query_metric(task.metric, data, evidence, task.expected(is_validation=True))

    def metric(network: Any) -> FloatArray | None:
        scores = network_scores(
            network, data.offsets, lambda first, last: features[data.offsets[first] : data.offsets[last]]
        )
        return metric_of(scores, task.settings.threads) if np.isfinite(scores).all() else None

    return metric


def _copy(value: Any) -> Any:
    """A copy of an entry of a module's state, which is a tensor but for the odd module."""
    return value.detach().clone() if hasattr(value, "detach") else value

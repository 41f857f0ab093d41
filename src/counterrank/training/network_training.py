"""How a network is learned: AdamW on mini-batches of whole queries, stopped by the metric on validation data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterrank.common.checks import Float32Array, FloatArray, IntArray
from counterrank.common.errors import CounterrankError, require
from counterrank.common.progress import progress
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
from counterrank.training.gradient_descent import EarlyStopping
from counterrank.training.problem import Batches, FittedModel, Settings, Task, query_metric

_LEARNING_RATE = 1e-3
_WEIGHT_DECAY = 1e-2
# Adam divides a step size by small numbers; beyond this the result is no float32
_LARGEST_RATE = 1e30


@dataclass(frozen=True)
class NetworkSettings:
    """What `params` says, checked.

    Attributes:
        shape: of the library's own network; None for a module of the user's.
        weight_decay: AdamW's.
        device: where the network is trained.
        learning_rate: the step size.
    """

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
        decay = params.get("weight_decay", _WEIGHT_DECAY)
        if isinstance(decay, bool) or not isinstance(decay, int | float) or not 0.0 <= decay < float("inf"):
            raise CounterrankError(f"weight_decay={decay!r}: expected a number of at least 0")
        shape = None
        if module is None:
            shape = NetworkShape.check(params.get("hidden", usual.hidden), params.get("dropout", usual.dropout))
        rate = _LEARNING_RATE if settings.learning_rate is None else settings.learning_rate
        if rate > _LARGEST_RATE:
            raise CounterrankError(f"learning_rate={rate:g}: expected at most {_LARGEST_RATE:g} for a network")
        return cls(shape, float(decay), _usable_device(params.get("device"), module), rate)


def _usable_device(device: Any, module: Any) -> Any:
    """The device asked for, if there is such a one; else the module's own, or the CPU."""
    import torch

    if device is None:
        return torch.device("cpu") if module is None else place_of(module)[0]
    try:
        return torch.empty(0, device=device).device
    except Exception as error:  # of a kind that differs from device to device
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CounterrankError(f"device={device!r}: cannot be used here ({reason})") from None


@contextmanager
def private_randomness(entropy: int, device: Any) -> Iterator[None]:
    """Torch's random numbers start from `entropy` while this lasts, and go on afterwards as if nothing had happened.

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
    """Torch computes on one core while this lasts: with more, sums are formed in an order that depends on how many.

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
Judge = Callable[[Any], FloatArray | None]


@dataclass
class NetworkRun:
    """Training of one network.

    Attributes:
        network: what is trained.
        judged: a second network that is given the state of the first after each epoch and never trains itself, so that
            judging leaves no trace in training, and is of the type that the learned model has in the end.
        optimizer: changes the network.
        loss: from scores, weights and offsets to a number that can be differentiated.
        batches: the queries to learn from.
        features: all documents, scaled.
        judge: of validation data, or None.
        watch: decides which epoch to keep.
        kept: a copy of the state to return.
    """

    network: Any
    judged: Any
    optimizer: Any
    loss: Callable[..., Any]
    batches: Batches
    features: Float32Array
    judge: Judge | None
    watch: EarlyStopping
    history: list[dict[str, float | None]] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)

    def epoch(self, order: IntArray, batch_queries: int, on_part: Callable[[float], None]) -> bool:
        """Pass over the queries in this order, then judge; whether the network is still of use."""
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
        parts, is_sound = self._look() if np.isfinite(total) else (None, False)
        if is_sound and self.watch.see(number, parts):
            self.kept = {name: _copy(value) for name, value in self.judged.state_dict().items()}
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

    def _look(self) -> tuple[FloatArray | None, bool]:
        """Each query's part in the validation metric, and whether the network's numbers are finite."""
        import torch

        self.judged.load_state_dict(self.network.state_dict())
        if not all(bool(torch.isfinite(tensor).all()) for tensor in self.judged.parameters()):
            return None, False
        if self.judge is None:
            return None, True
        parts = self.judge(self.judged)
        return parts, parts is not None


def fit_network(task: Task, module: Any) -> FittedModel:
    """Learn the library's own network, or a copy of the module given.

    The library's network is trained on one core, since its result is to be the same on every machine; a module of the
    user's own on as many as torch is set to.
    """
    require("torch", "torch", "a neural ranker")
    settings = task.settings
    own = NetworkSettings.check(settings, module)
    batches = Batches.make(task.data, task.evidence)
    scaler = Scaler.learn(settings.normalize, task.data, settings.threads)
    with private_randomness(settings.entropy, own.device), one_thread() if own.shape is not None else nullcontext():
        run = _make_run(task, module, own, batches, scaler)
        is_sound = _advance(run, task)
    if not is_sound and (task.validation is None or run.watch.best_epoch == 0):
        raise CounterrankError(f"learning_rate={own.learning_rate:g}: training diverged; use a smaller one")
    run.judged.load_state_dict(run.kept)
    model = NeuralModel(run.judged, scaler, task.data.n_features, own.shape)
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
    judged = copied(network).eval()
    return NetworkRun(
        network,
        judged.double() if own.shape is not None else judged,
        torch.optim.AdamW(learned, lr=own.learning_rate, weight_decay=own.weight_decay),
        torch_loss(task.loss, task.k, settings.threads),
        batches,
        features,
        _make_judge(task, scaler),
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


def _make_judge(task: Task, scaler: Scaler) -> Judge | None:
    if task.validation is None:
        return None
    data, evidence = task.validation
    features = scaler.apply(data, task.settings.threads)
    judge_scores = query_metric(task.metric, data, evidence)

    def judge(network: Any) -> FloatArray | None:
        scores = network_scores(
            network, data.offsets, lambda first, last: features[data.offsets[first] : data.offsets[last]]
        )
        return judge_scores(scores, task.settings.threads) if np.isfinite(scores).all() else None

    return judge


def _copy(value: Any) -> Any:
    """A copy of an entry of a module's state, which is a tensor but for the odd module."""
    return value.detach().clone() if hasattr(value, "detach") else value

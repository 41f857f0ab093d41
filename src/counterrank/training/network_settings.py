"""The settings that only networks have, and the randomness they train with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from counterrank.common.errors import CounterrankError
from counterrank.models.network import NetworkShape
from counterrank.models.neural import place_of
from counterrank.training.task import Settings

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

"""How a network is learned."""

from __future__ import annotations

from typing import Any

from counterrank.training.task import Learned, Task


def learn_network(task: Task, module: Any) -> Learned:
    """Not here yet."""
    raise NotImplementedError

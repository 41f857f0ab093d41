"""How boosted trees are learned."""

from __future__ import annotations

from counterrank.training.task import Learned, Task


def learn_trees(task: Task) -> Learned:
    """Not here yet."""
    raise NotImplementedError

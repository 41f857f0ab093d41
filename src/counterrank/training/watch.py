"""Early stopping: which epoch's model to keep, and when to give up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.common.checks import FloatArray


@dataclass
class Watch:
    """Sees the validation metric of each epoch; without any, the last epoch is the one to keep.

    Attributes:
        patience: how many epochs without improvement are enough.
        tolerance: how much better the metric must become to count as improvement.
        best_epoch: the epoch whose model is to be kept so far; 0 before there is one.
        parts: each query's part in the metric of that model, larger is better; None without validation data.

    >>> watch = Watch(patience=2)
    >>> [watch.see(epoch, np.array([value])) for epoch, value in [(1, 0.3), (2, 0.5), (3, 0.4)]]
    [True, True, False]
    >>> watch.best_epoch, watch.is_overdue(3), watch.is_overdue(4)
    (2, False, True)
    """

    patience: int
    tolerance: float = 0.0
    best_epoch: int = 0
    parts: FloatArray | None = None

    def __post_init__(self) -> None:
        self._improved = (0, -np.inf)  # the last epoch that counts as improvement, and its metric

    def see(self, epoch: int, parts: FloatArray | None) -> bool:
        """Take note of an epoch; whether its model is the one to keep so far."""
        if parts is None:
            self.best_epoch = epoch
            return True
        value = float(parts.sum())
        is_best = self.parts is None or value > self.parts.sum()
        if is_best:
            self.best_epoch, self.parts = epoch, parts
        if value > self._improved[1] + self.tolerance:
            self._improved = epoch, value
        return bool(is_best)

    def is_overdue(self, epoch: int) -> bool:
        """Whether validation data has seen nothing better for too long."""
        return self.parts is not None and epoch - self._improved[0] >= self.patience

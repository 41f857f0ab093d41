"""What was chosen and why, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Tried:
    """An estimator with its settings, and how it did on held-out clicks.

    Attributes:
        estimator: by name.
        settings: tau, strength or clip, where it has one.
        value: the metric of held-out clicks; None if it could not be learned.
        behind: how far it is behind the best.
        error: the standard error of that.
        kept: whether the ranker is made of it.
        failure: why it could not be learned, or "".
    """

    estimator: str
    settings: dict[str, float]
    value: float | None = None
    behind: float = 0.0
    error: float = 0.0
    kept: bool = True
    failure: str = ""

    @property
    def name(self) -> str:
        """The estimator and its settings.

        >>> Tried("doubly-robust", {"tau": 0.03}).name
        'doubly-robust (tau 0.03)'
        """
        inside = ", ".join(f"{name} {value:.3g}" for name, value in self.settings.items())
        return f"{self.estimator} ({inside})" if inside else self.estimator

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "estimator": self.estimator,
            **self.settings,
            "value": self.value,
            "behind": None if self.value is None else self.behind,
            "standard_error": None if self.value is None else self.error,
            "kept": self.kept,
            "failure": self.failure or None,
        }


def reasons(tried: Sequence[Tried], queries: int, folds: int, metric: str, usual: Tried | None = None) -> str:
    """Why those that were kept were kept; with `usual`, where one is kept, and it is unless another is surely better.

    >>> best, bad = Tried("direct", {}, 0.5), Tried("policy-aware", {}, 0.3, 0.2, 0.05, kept=False)
    >>> reasons([best, bad], 60, 5, "dcg@5")
    'Of 2 ways to weigh the clicks of 60 queries, over 5 folds, direct was best on held-out clicks (dcg@5 0.5). \
policy-aware was behind by 0.2 with a standard error of 0.05, and was left out.'
    """
    best = min(tried, key=lambda each: each.behind)
    where = f"the clicks of {queries:,} queries, over {folds} folds"
    if len(tried) == 1:
        inside = "".join(f", here with {name} {value:.3g}" for name, value in best.settings.items())
        asked = f"{best.estimator} was asked for{inside}"
        return f"{asked}; learned from {where}, {metric} {best.value:.4g} on held-out clicks."
    said = [
        f"Of {len(tried)} ways to weigh {where}, {best.name} was best on held-out clicks ({metric} {best.value:.4g})."
    ]
    said += [f"{each.name} could not be learned: {each.failure}." for each in tried if each.failure]
    if usual is not None:
        return " ".join([*said, _why_one(next(each for each in tried if each.kept), usual)])
    close = [each.name for each in tried if each.kept and each is not best]
    if close:
        said.append(f"Two standard errors do not tell {_listed(close)} from it: the ranker is the mean of them all.")
    for each in tried:
        if not each.kept and not each.failure:
            error = f"with a standard error of {each.error:.2g}, and was left out"
            said.append(f"{each.name} was behind by {each.behind:.2g} {error}.")
    return " ".join(said)


def _why_one(kept: Tried, usual: Tried) -> str:
    one = f"This kind of model is learned again with one of them: {kept.name}"
    if kept is usual:
        return f"{one}, the usual choice, since none is ahead of it by more than a standard error."
    if usual.failure:
        return f"{one}."
    return f"{one}, which is ahead of the usual choice, {usual.name}, by more than a standard error."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

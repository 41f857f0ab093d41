"""The registry of figures: each a `FigureSpec`, added by `register_figure`.

A new figure is one module: its points with their cells, axis, caption, what is made of the results, and its claims.
`counterrank.experiments.figures` holds those of the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterrank.common.errors import CounterrankError
from counterrank.experiments.summary import Axis, ClaimResult, Figure

if TYPE_CHECKING:
    from counterrank.experiments.cells import CellFactory, GridPoint
    from counterrank.experiments.claims import FigureValues
    from counterrank.experiments.run_folder import Run

PAPER_EXPERIMENT = "paper"


@dataclass(frozen=True)
class FigureSpec:
    """The specification of a figure.

    Attributes:
        number: unique.
        title: one line.
        caption: how to read it.
        x: its axis.
        grid: the points of the figure, each with its cells, one for each run of each fold.
        complete: from the figure with a panel for each metric to the whole one; None to leave it as it is.
        claims: each judges one claim by the values of the figure; None where the claim does not apply to the settings.
        experiment: figures of one experiment can be made in one run.
    """

    number: int
    title: str
    caption: str
    x: Axis
    grid: Callable[[CellFactory], Iterable[GridPoint]]
    complete: Callable[[Run, Sequence[GridPoint], Figure], Figure] | None = None
    claims: Sequence[Callable[[FigureValues], ClaimResult | None]] = ()
    experiment: str = PAPER_EXPERIMENT


FIGURES: dict[int, FigureSpec] = {}
"""All figures that can be made, by number."""


def register_figure(spec: FigureSpec) -> None:
    """Register a figure, so that `Settings(figures=(spec.number,))` includes it.

    >>> register_figure(FIGURES[1])
    Traceback (most recent call last):
    counterrank.common.errors.CounterrankError: figure 1: is registered already; expected another number
    """
    if spec.number in FIGURES:
        raise CounterrankError(f"figure {spec.number}: is registered already; expected another number")
    FIGURES[spec.number] = spec


def experiments() -> dict[str, tuple[int, ...]]:
    """The numbers of the figures of each experiment.

    >>> experiments()
    {'paper': (1, 2, 3, 4), 'few-clicks': (5,), 'safety': (6,)}
    """
    names = dict.fromkeys(spec.experiment for spec in FIGURES.values())
    return {name: tuple(sorted(n for n, spec in FIGURES.items() if spec.experiment == name)) for name in names}


def experiment_of(figures: Iterable[int]) -> str | None:
    """The experiment that all of these figures belong to; None where there is no such experiment.

    >>> experiment_of([1, 2]), experiment_of([4, 5]), experiment_of([])
    ('paper', None, None)
    """
    found = {FIGURES[number].experiment if number in FIGURES else None for number in figures}
    return found.pop() if len(found) == 1 else None

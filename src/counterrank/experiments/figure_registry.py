"""The figures that can be reproduced: each a `FigureSpec`, added to the registry by `register_figure`.

A new figure is one module: which cells stand at which point, the axis, the caption, what is made of the results, and
the claims about it. `counterrank.experiments.figures` holds those of the paper.
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
    """All that makes a figure.

    Attributes:
        number: unique.
        title: one line.
        caption: how to read it.
        x: its axis.
        grid: the points of the figure, each with its cells, one for each run of each fold.
        complete: from the figure with a panel for each metric to the whole one; None to leave it as it is.
        claims: what is claimed of it, judged by its values; None for nothing.
        experiment: figures of one experiment can be made in one run.
    """

    number: int
    title: str
    caption: str
    x: Axis
    grid: Callable[[CellFactory], Iterable[GridPoint]]
    complete: Callable[[Run, Sequence[GridPoint], Figure], Figure] | None = None
    claims: Callable[[FigureValues], Sequence[ClaimResult]] | None = None
    experiment: str = PAPER_EXPERIMENT


_FIGURES: dict[int, FigureSpec] = {}


def register_figure(spec: FigureSpec) -> None:
    """Add a figure, so that `Settings(figures=(spec.number,))` can ask for it.

    >>> register_figure(figure_spec(1))
    Traceback (most recent call last):
    counterrank.common.errors.CounterrankError: figure 1: is registered already; expected another number
    """
    if spec.number in _FIGURES:
        raise CounterrankError(f"figure {spec.number}: is registered already; expected another number")
    _FIGURES[spec.number] = spec


def registered_figures() -> list[FigureSpec]:
    """All figures, by number.

    >>> [spec.number for spec in registered_figures()]
    [1, 2, 3, 4, 5]
    """
    return [_FIGURES[number] for number in sorted(_FIGURES)]


def figure_spec(number: int) -> FigureSpec:
    """The figure of this number.

    >>> figure_spec(2).title
    'Effect of the number of clicks'
    """
    if number not in _FIGURES:
        raise CounterrankError(f"figure {number}: is not registered; expected one of {', '.join(map(str, _FIGURES))}")
    return _FIGURES[number]


def experiment_names() -> list[str]:
    """The experiments that figures belong to.

    >>> experiment_names()
    ['paper', 'few-clicks']
    """
    return list(dict.fromkeys(spec.experiment for spec in registered_figures()))


def figures_of(experiment: str) -> tuple[int, ...]:
    """The numbers of the figures of an experiment.

    >>> figures_of("paper")
    (1, 2, 3, 4)
    """
    return tuple(spec.number for spec in registered_figures() if spec.experiment == experiment)


def experiment_of(figures: Sequence[int]) -> str | None:
    """The experiment that all of these figures belong to; None where there is no such experiment.

    >>> experiment_of([1, 2]), experiment_of([4, 5])
    ('paper', None)
    """
    return next((name for name in experiment_names() if figures and set(figures) <= set(figures_of(name))), None)

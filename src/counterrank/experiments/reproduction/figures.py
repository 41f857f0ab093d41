"""The figures as grids of cells: which ranker stands at which point of which curve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from counterrank.experiments.reproduction.cells import Cell
from counterrank.experiments.reproduction.recipes import parse_recipe
from counterrank.experiments.reproduction.settings import FEW_CLICKS, Settings

ARP_LOSS, DCG_LOSS = "arp-hinge", "lambdaloss-truncated"

# a curve of figures 1 and 2: its name, the estimator, and whether pages are randomised
_ESTIMATORS = (
    ("policy-aware", "policy-aware", True),
    ("policy-oblivious+random", "policy-oblivious", True),
    ("policy-oblivious", "policy-oblivious", False),
    ("rerank+random", "rerank", True),
    ("rerank", "rerank", False),
)


@dataclass(frozen=True)
class Point:
    """A place in a figure and the cells whose results stand there, one for each run of each fold.

    Attributes:
        figure: 1 to 5.
        panel: the metric it shows.
        series: the name of its curve; "production" and "full-information" are levels.
        x: the number of results shown, of clicks, or of sessions; None for a level.
        cells: in the order of runs, which is the same at all points.
    """

    figure: int
    panel: str
    series: str
    x: int | None
    cells: tuple[Cell, ...]


def grid(settings: Settings, folds: int = 1) -> list[Point]:
    """All points of all figures asked for; points of different figures may share cells.

    >>> len(grid(Settings(figures=(2,), clicks=(100,), runs=3)))  # 6 curves and 2 levels in 2 panels
    16
    """
    maker = _Maker(settings, folds)
    makers = {1: _by_page, 2: _by_clicks, 3: _by_loss, 4: _by_policy, FEW_CLICKS: _by_sessions}
    return [point for figure in settings.figures for point in makers[figure](maker)]


def all_cells(points: Sequence[Point]) -> list[Cell]:
    """Each cell once: whole runs one after the other, and in each of them the long ones first.

    >>> cells = all_cells(grid(Settings(figures=(2,), clicks=(100, 10**4), runs=2)))
    >>> cells[0].run, cells[0].clicks, cells[-1].run
    (0, 10000, 1)
    """
    unique = dict.fromkeys(cell for point in points for cell in point.cells)

    def order(cell: Cell) -> tuple[int, int, bool, int]:
        return cell.run, cell.fold, cell.estimator != "rerank", -(cell.clicks or cell.sessions)

    return sorted(unique, key=order)


class _Maker:
    """Makes cells of the settings."""

    def __init__(self, settings: Settings, folds: int) -> None:
        self.settings, self.folds = settings, folds
        self.panels = (("arp", ARP_LOSS), (f"dcg@{settings.cutoff}", DCG_LOSS))
        self.dcg = self.panels[1][0]

    def point(
        self,
        figure: int,
        panel: str,
        series: str,
        x: int | None,
        *,
        estimator: str,
        loss: str,
        policy: str = "",
        page: int | None = None,
        clicks: int = 0,
        sessions: int = 0,
        clip: str | None = None,
    ) -> Point:
        s = self.settings
        runs = [(fold, run) for fold in range(self.folds) for run in range(s.runs)]
        cells = [
            Cell(
                fold=fold,
                run=run,
                estimator=estimator,
                loss=loss,
                metric="arp" if panel == "arp" or estimator == "production" else self.dcg,
                policy=policy,
                page=page,
                clicks=clicks,
                step_size=s.step_for(figure, loss),
                patience=s.patience_for(loss, clicks or sessions),
                tolerance=s.tolerance_for(loss),
                max_epochs=s.max_epochs,
                clip=s.clip if clip is None else clip,
                clips=s.clips,
                cutoff=s.cutoff,
                relevance_threshold=s.relevance_threshold,
                production_share=s.production_share,
                production_norm=s.production_norm,
                production_seed=s.production_seed,
                eta=s.eta,
                noise=s.noise,
                validation_share=s.validation_share,
                seed=s.seed,
                sessions=sessions,
            )
            for fold, run in runs
        ]
        return Point(figure, panel, series, x, tuple(cells))

    def levels(self, figure: int, panel: str, loss: str) -> Iterator[Point]:
        """The production ranker (the same whatever the loss) and the skyline."""
        yield self.point(figure, panel, "production", None, estimator="production", loss=ARP_LOSS)
        yield self.point(figure, panel, "full-information", None, estimator="full-information", loss=loss)

    def aware(self, figure: int, panel: str, series: str, n: int, loss: str, policy: str) -> Point:
        """A policy-aware ranker from n clicks on the usual pages."""
        page = self.settings.page
        return self.point(
            figure, panel, series, n, estimator="policy-aware", loss=loss, policy=policy, page=page, clicks=n
        )

    def estimators(self, figure: int, panel: str, loss: str, x: int, page: int, clicks: int) -> Iterator[Point]:
        """The curves that figures 1 and 2 share, at one x."""
        for series, estimator, randomised in _ESTIMATORS:
            if estimator == "rerank" and page == 1:
                continue  # a page of one has no order to learn from
            policy = f"{'replace-last' if randomised else 'deterministic'}:k={page}"
            yield self.point(
                figure, panel, series, x, estimator=estimator, loss=loss, policy=policy, page=page, clicks=clicks
            )


def _by_page(make: _Maker) -> Iterator[Point]:
    """Figure 1: the effect of how many results a page shows."""
    for panel, loss in make.panels:
        for k in make.settings.ks:
            yield from make.estimators(1, panel, loss, k, k, make.settings.clicks_by_k)
        yield from make.levels(1, panel, loss)


def _by_clicks(make: _Maker) -> Iterator[Point]:
    """Figure 2: the effect of the number of clicks; without a cutoff all estimators are the same."""
    for panel, loss in make.panels:
        for n in make.settings.clicks:
            yield from make.estimators(2, panel, loss, n, make.settings.page, n)
            yield make.point(
                2, panel, "no-cutoff", n, estimator="policy-oblivious", loss=loss, policy="deterministic", clicks=n
            )
        yield from make.levels(2, panel, loss)


def _by_loss(make: _Maker) -> Iterator[Point]:
    """Figure 3: the losses for DCG@k."""
    policy = f"replace-last:k={make.settings.page}"
    for loss in make.settings.losses:
        for n in make.settings.clicks:
            yield make.aware(3, make.dcg, loss, n, loss, policy)
    yield from make.levels(3, make.dcg, DCG_LOSS)


def _by_policy(make: _Maker) -> Iterator[Point]:
    """Figure 4: the logging policies."""
    for policy in make.settings.logging_policies():
        for n in make.settings.clicks:
            yield make.aware(4, make.dcg, policy, n, DCG_LOSS, policy)
    yield from make.levels(4, make.dcg, DCG_LOSS)


def _by_sessions(make: _Maker) -> Iterator[Point]:
    """Figure 5: estimators that learn from few sessions, some of them with a model of relevance."""
    page = make.settings.page
    policy = f"replace-last:k={page}"
    for text in make.settings.estimators:
        recipe = parse_recipe(text)
        estimator = recipe.text if recipe.is_cross_fitted else recipe.kind
        clip = "none" if recipe.is_cross_fitted else recipe.clip  # what it does not use shall not be part of its name
        for n in make.settings.sessions:
            yield make.point(
                FEW_CLICKS,
                make.dcg,
                text,
                n,
                estimator=estimator,
                loss=DCG_LOSS,
                policy=policy,
                page=page,
                sessions=n,
                clip=clip,
            )
    yield from make.levels(FEW_CLICKS, make.dcg, DCG_LOSS)

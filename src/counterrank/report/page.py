"""The report of a run: one page, the claims as a table, and each figure as PNG, SVG and CSV."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from counterrank.common.files import PathLike
from counterrank.experiments.claims import MARGIN, Criteria
from counterrank.experiments.figure_registry import PAPER_EXPERIMENT
from counterrank.experiments.settings import NEW_NAMES
from counterrank.experiments.summary import (
    FAILS,
    HOLDS,
    OPEN,
    CheckResult,
    ClaimResult,
    Figure,
    Part,
    Point,
    Summary,
    is_number,
    series_names,
)
from counterrank.report import summary_text
from counterrank.report.charts import PANEL_WIDTH, chosen_words, file_spec, is_drawable, page_spec, panel_chart
from counterrank.report.render import Spec, Style, assign_styles, html, legend, render, to_png, to_svg, write_file
from counterrank.report.text import (
    counted,
    duration,
    interval_text,
    number,
    places_text,
    power,
    readable_all,
    signed_percent,
)

COLUMNS = ("figure", "panel", "series", "x", "mean", "low", "high", "runs")
MARKS = {HOLDS: ("✓", "holds"), FAILS: ("✗", "not"), OPEN: ("?", "unsure")}
WORDS = {HOLDS: "hold", FAILS: "do not hold", OPEN: "lack evidence"}
SIGNS = (
    "In all numbers plus is better, for ARP as well, whose lower values are the better ones; only where a gap or a "
    "loss is named, plus is its size."
)
# title of the page and of its claims, by experiment
_TITLES = {
    "paper": (
        "Learning to rank from the clicks of top‑k pages: what the paper claims, and what this data says",
        "Claims of the paper, and our own on what it leaves open",
    ),
    "few-clicks": ("Learning to rank from few clicks on top‑k pages", "Claims on learning from few clicks"),
    "safety": ("Learning to rank without ending below production", "Claims on safety"),
}
# settings that do not matter to every experiment, by those to which they do
_SETTINGS = {
    "paper": ("ks", "clicks_by_k", "clicks", "losses", "policies", "clips"),
    "few-clicks": ("sessions", "estimators", "targets"),
    "safety": ("sessions", "methods"),
}
_DEFAULTS = {
    "production_seed": "another in each run",
    "policies": "one of each kind",
    "patience": "20 + 10 log10(clicks) for ARP, 30 + 10 log10(clicks) for DCG",
    "tolerance": "1e-4 for ARP, 1e-6 for DCG",
    "queries": "all",
    "test_queries": "all",
    "learning_rates": "none by loss",
}


def write_report(summary: Summary | Mapping[str, Any], folder: PathLike) -> list[Path]:
    """Write `report.html`, `claims.md`, and `figures/figureN.png`, `.svg` and `.csv` into a folder; returns them.

    The summary may be given as JSON. The page holds all it needs and asks nothing of the network. A summary with gaps
    gives a page that names them; a figure without any result gets its (empty) CSV alone.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_report(Summary(), folder)]
    ['report.html', 'claims.md']
    """
    whole = summary if isinstance(summary, Summary) else Summary.from_json(summary)
    target = Path(folder)
    styles = assign_styles(series_names(whole.figures))
    specs: dict[str, Spec] = {}
    svgs: dict[int, str] = {}
    written: list[Path] = []
    for figure in whole.figures:
        drawable = [(i, panel) for i, panel in enumerate(figure.panels) if is_drawable(panel)]
        for i, panel in drawable:
            specs[panel_id(figure, i)] = page_spec(panel_chart(figure, panel, styles))
        name = target / "figures" / f"figure{figure.number}"
        if drawable:
            still = [panel_chart(figure, panel, styles, PANEL_WIDTH) for _, panel in drawable]
            svg = to_svg(file_spec(still, f"Figure {figure.number}. {figure.title}"))
            svgs[figure.number] = svg
            written += [write_file(name.with_suffix(".png"), to_png(svg)), write_file(name.with_suffix(".svg"), svg)]
        written.append(write_file(name.with_suffix(".csv"), figure_csv(figure)))
    written.insert(0, write_file(target / "claims.md", claims_markdown(summary_text.sort_claims(whole).present)))
    return [write_file(target / "report.html", report_page(whole, styles, specs, svgs)), *written]


def figure_csv(figure: Figure) -> str:
    """All points of a figure as CSV, one row each; what is missing is empty.

    >>> from counterrank.experiments.summary import Panel, Point, Series
    >>> print(figure_csv(Figure(1, panels=(Panel("arp", series=(Series("a", (Point(5, mean=2.0, runs=1),)),)),))))
    figure,panel,series,x,mean,low,high,runs
    1,arp,a,5,2.0,,,1
    <BLANKLINE>
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for panel in figure.panels:
        for name, point in panel.points:
            writer.writerow([figure.number, panel.name, name, point.x, point.mean, point.low, point.high, point.runs])
    return text.getvalue()


def claims_markdown(claims: Iterable[ClaimResult]) -> str:
    """One row for each claim: the verdict, what is claimed, the numbers, and where the paper says it.

    >>> claim = ClaimResult("a", "A is B.", "Section 6.1", figure=1, verdict="holds", numbers="+1 %")
    >>> print(claims_markdown([claim]).splitlines()[-1])
    | holds | A is B. | +1 % | Section 6.1 |
    """
    lines = [SIGNS, "", "| verdict | claim | numbers | in the paper |", "|---|---|---|---|"]
    for claim in claims:
        verdict = f"**{claim.verdict}**" if claim.verdict == FAILS else claim.verdict
        numbers = "; ".join(filter(None, [claim.numbers, summary_text.needed_text(claim)]))
        words = (verdict, claim.statement, numbers, claim.paper)
        lines.append("| " + " | ".join(" ".join(word.replace("|", r"\|").split()) for word in words) + " |")
    return "\n".join(lines) + "\n"


def report_page(summary: Summary, styles: dict[str, Style], specs: dict[str, Spec], svgs: dict[int, str]) -> str:
    """The page of a run: `specs` holds the charts by id (`panel_id`), `svgs` the still figures by number.

    >>> "none: our defaults" in report_page(Summary(), {}, {}, {})
    True
    """
    claims = summary_text.sort_claims(summary)
    title, claims_title = _of_experiment(_TITLES, summary.figures)
    return render(
        "report.html.j2",
        specs,
        summary=summary,
        sources=", ".join(fold.source for fold in summary.data) or "no data named",
        title=title,
        claims_title=claims_title,
        reading=" ".join(summary_text.reading(summary)),
        tally=summary_text.tally(claims.present),
        marks=MARKS,
        words=WORDS,
        figures=[_figure(figure, styles, specs, svgs) for figure in summary.figures],
        details=partial(_details, runs=summary.runs),
        glossary=summary_text.glossary(summary.figures),
        signs=SIGNS,
        drawn=[figure.number for figure in summary.figures],
        claims=claims.present,
        anchor=lambda claim: "claim-" + re.sub(r"[^\w-]+", "-", claim.id),
        check_value=_check_value,
        check_interval=_check_interval,
        absent=summary_text.absent_words(claims) if claims.absent else "",
        confidence=f"{100 * summary.confidence:g} %",
        variance=summary_text.variance_sentence(claims.present),
        looks=summary_text.looks_sentence(summary),
        needed=summary_text.needed_text,
        margin=f"{100 * MARGIN:g} %",
        noticeable=f"{100 * Criteria().noticeable:g} %",
        unknown_parts={"–": Part()},
        settings=setting_rows(summary.settings, summary.figures),
        progress=_progress(summary),
        command=_command(summary),
    )


def panel_id(figure: Figure, place: int) -> str:
    """The id of a chart on the page.

    >>> panel_id(Figure(3), 0)
    'figure3-1'
    """
    return f"figure{figure.number}-{place + 1}"


def _figure(
    figure: Figure, styles: dict[str, Style], specs: dict[str, Spec], svgs: dict[int, str]
) -> dict[str, object]:
    """A figure with its texts, and for each panel the id of its chart, its x and the points of each curve there."""
    labels = readable_all(series_names([figure]))
    panels = []
    for place, panel in enumerate(figure.panels):
        xs: Sequence[float | None] = sorted({p.x for p in panel.curve_points if p.x is not None}) or [None]
        curves = [(series.name, {point.x: point for point in series.points}) for series in panel.series]
        panels.append(
            {
                "id": panel_id(figure, place) if panel_id(figure, place) in specs else "",
                "label": panel.label,
                "places": places_text(xs),
                "rows": [(labels[name], [at.get(x) for x in xs]) for name, at in curves],
                "levels": [(labels[level.name], level) for level in panel.levels],
            }
        )
    return {
        "number": figure.number,
        "title": figure.title,
        "axis": figure.x.label,
        "caption": " ".join(summary_text.caption(figure)),
        "panels": panels,
        "choices": summary_text.choice_rows(figure),
        "legend": legend({name: styles[name] for name in labels if name in styles}, labels),
        "svg": html(svgs.get(figure.number, "")),
    }


def _details(point: Point, runs: int) -> list[str]:
    """What a table says under the mean: the interval, the number of runs where some are missing, what was chosen."""
    texts = [
        interval_text(point.interval),
        counted(point.runs, "run") if point.runs is not None and point.runs != runs else "",
        chosen_words(point),
    ]
    return list(filter(None, texts))


def _check_value(check: CheckResult, value: float | None) -> str:
    """Differences relative to a reference are signed percentages."""
    return signed_percent(value) if check.unit == "relative" else number(value)


def _check_interval(check: CheckResult) -> str:
    if not (is_number(check.low) and is_number(check.high)):
        return "–"
    return f"{_check_value(check, check.low)} to {_check_value(check, check.high)}"


def _progress(summary: Summary) -> str:
    cells, rows = summary.cells, summary.timings
    seconds = sum(row.total_seconds or 0 for row in rows)
    progress = f"{summary_text.trained(cells):,} of {counted(cells.wanted, 'ranker')} trained"
    progress += f", {cells.failed:,} failed" if cells.failed else ""
    progress += f", {cells.untrained:,} had nothing to learn from" if cells.untrained else ""
    return progress + (f"; {duration(seconds)} of work in all, added up over rankers." if rows else ".")


def _command(summary: Summary) -> str:
    experiment = summary_text.experiment_name(summary.figures)
    words = ["counterrank", "reproduce"] + [experiment] * (experiment != PAPER_EXPERIMENT)
    for fold in summary.data:
        words += ["--data", fold.source]
    words += ["--preset", summary.preset] if summary.preset else []
    words += ["--quick"] if summary.quick else []
    return summary.command or shlex.join([*words, "--out", "RUN"])


def setting_rows(settings: Mapping[str, Any], figures: Sequence[Figure]) -> list[tuple[str, str]]:
    """Names and values of all settings that matter, with what a default means; policies are those of figure 4.

    >>> setting_rows({"queries": None, "clicks": [100, 1000]}, [])
    [('queries', 'all'), ('clicks', '10², 10³')]
    """
    rows = []
    mine = _of_experiment(_SETTINGS, figures)
    idle = {name for names in _SETTINGS.values() for name in names}.difference(mine)
    for key, value in settings.items():
        name = NEW_NAMES.get(key, key)
        if name in idle:
            continue
        text = _plain(value)
        if value is None or value in ([], {}, ()):
            text = (_policies(figures) if name == "policies" else "") or _DEFAULTS.get(name, text)
        rows.append((name, text))
    return rows


def _of_experiment(texts: Mapping[str, tuple[str, ...]], figures: Sequence[Figure]) -> tuple[str, ...]:
    """Those of the experiment of these figures; of one that is not ours, those of the paper."""
    return texts.get(summary_text.experiment_name(figures), texts[PAPER_EXPERIMENT])


def _policies(figures: Iterable[Figure]) -> str:
    series = (series for figure in figures if figure.number == 4 for panel in figure.panels for series in panel.series)
    return "; ".join(dict.fromkeys(one.name for one in series))


def _plain(value: Any) -> str:
    """A setting as text: lists with commas, numbers with powers of ten."""
    if isinstance(value, dict | list | tuple) and not value:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_plain(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        powers = all(isinstance(inner, int) and power(inner).startswith("10") for inner in value)
        return ", ".join(power(inner) if powers else _plain(inner) for inner in value)
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int):
        return power(value) if value >= 10**5 else f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value)

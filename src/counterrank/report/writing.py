"""The report on disk: one page, the claims as a table, and each figure as PNG, SVG and CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterrank.common.errors import CounterrankError
from counterrank.common.files import PathLike, atomic_file
from counterrank.report.claims_table import claims_markdown
from counterrank.report.figures import PANEL_WIDTH, file_spec, is_drawable, page_spec, panel_chart
from counterrank.report.page import panel_id, report_page
from counterrank.report.points import figure_csv, series_names
from counterrank.report.reading import sort_claims
from counterrank.report.styles import assign_styles
from counterrank.report.vega import to_png, to_svg


def write_report(summary: dict[str, Any], folder: PathLike) -> list[Path]:
    """Write `report.html`, `claims.md`, and `figures/figureN.png`, `.svg` and `.csv` into a folder; returns them.

    The page holds all it needs and asks nothing of the network. A summary with gaps gives a page that names them; a
    figure without any result gets its (empty) CSV alone.

    >>> import tempfile
    >>> summary = {"format": "counterrank-summary", "version": 1, "figures": [], "claims": []}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_report(summary, folder)]
    ['report.html', 'claims.md']
    """
    if not isinstance(summary, dict) or summary.get("format") != "counterrank-summary" or summary.get("version") != 1:
        raise CounterrankError("summary: expected a dict with format 'counterrank-summary' and version 1")
    target = Path(folder)
    styles = assign_styles(series_names(summary.get("figures", [])))
    specs: dict[str, dict[str, Any]] = {}
    svgs: dict[int, str] = {}
    written: list[Path] = []
    for figure in summary.get("figures", []):
        drawable = [(i, panel) for i, panel in enumerate(figure.get("panels", [])) if is_drawable(panel)]
        for i, panel in drawable:
            specs[panel_id(figure, i)] = page_spec(panel_chart(figure, panel, styles))
        name = target / "figures" / f"figure{figure['number']}"
        if drawable:
            still = [panel_chart(figure, panel, styles, PANEL_WIDTH) for _, panel in drawable]
            svg = to_svg(file_spec(still, f"Figure {figure['number']}. {figure.get('title', '')}"))
            svgs[figure["number"]] = svg
            written += [_write(name.with_suffix(".png"), to_png(svg)), _write(name.with_suffix(".svg"), svg)]
        written.append(_write(name.with_suffix(".csv"), figure_csv(figure)))
    written.insert(0, _write(target / "claims.md", claims_markdown(sort_claims(summary).present)))
    return [_write(target / "report.html", report_page(summary, styles, specs, svgs)), *written]


def _write(path: Path, content: str | bytes) -> Path:
    with atomic_file(path) as temporary:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path

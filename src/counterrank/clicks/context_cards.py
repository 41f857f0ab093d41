"""What user models by context show in notebooks: summaries, tables and charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.common.notebook import POPULATIONS, Html, Summary, card, facts, heading, level_text, notes, table
from counterrank.common.plotting import curve_plot

if TYPE_CHECKING:
    from counterrank.clicks.contexts import EstimatedByContext
    from counterrank.clicks.user_models import ByContext

_RANKS = 20  # ranks, and contexts, in a table or chart


def by_context_summary(users: ByContext) -> Summary:
    """alpha by context and rank; beta too where it is not 0."""
    found = {name: values.tolist() for name, values in users.alpha.items()}
    if users.is_position_based:
        return Summary(ranks=users.k, alpha=found)
    return Summary(ranks=users.k, alpha=found, beta={name: values.tolist() for name, values in users.beta.items()})


def by_context_card(users: ByContext) -> Html:
    """alpha side by side, a row for each rank."""
    shown = list(users.alpha.items())[:_RANKS]
    rows = [
        [f"{i + 1}", *(f"{values[i]:.4g}" if i < len(values) else "" for _, values in shown)]
        for i in range(min(users.k, _RANKS))
    ]
    what = "P(examined | rank)" if users.is_position_based else "alpha"
    sentence = f"{what} in {len(users.alpha):,} contexts, relative to the largest"
    return card(table(["rank", *(name for name, _ in shown)], rows, "r" * (len(shown) + 1)),
                title=type(users).__name__, sentence=sentence)  # fmt: skip


def by_context_chart(users: ByContext) -> Any:
    """alpha over the rank, a line for each context."""
    rows = [
        {"rank": i + 1, "value": float(value), "context": name}
        for name, values in list(users.alpha.items())[:_RANKS]
        for i, value in enumerate(values)
    ]
    what = "P(examined | rank)" if users.is_position_based else "alpha by rank"
    return curve_plot(rows, f"{what}, relative to the largest", series="context")


def estimated_contexts_summary(found: EstimatedByContext) -> Summary:
    """The values and intervals by context and rank, the tests, and what they are from."""
    ranks = [f"rank {rank + 1}" for rank in range(found.values.shape[1])]
    rows = list(zip(found.alpha, found.values, found.intervals, strict=True))
    return Summary(
        method=found.method,
        values={name: dict(zip(ranks, map(float, values), strict=True)) for name, values, _ in rows},
        intervals={
            name: {rank: (float(low), float(high)) for rank, (low, high) in zip(ranks, ends, strict=True)}
            for name, _, ends in rows
        },
        common=dict(zip(ranks, map(float, found.common), strict=True)),
        sessions_by_context=found.sessions,
        spread={"level": found.spread[0], "shape": found.spread[1]},
        p_values={"curves": _number(found.test.p_value), "shapes": _number(found.shape_test.p_value)},
        confidence=found.confidence,
        population=found.target,
        sessions=found.n_sessions,
        clicks=found.n_clicks,
        documents=found.n_documents,
        queries=found.n_queries,
        warnings=list(found.warnings),
    )


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value


def estimated_contexts_card(found: EstimatedByContext) -> Html:
    """The curves side by side, with the interval of each value."""
    shown = list(zip(found.alpha, found.values, found.intervals, strict=True))[:_RANKS]
    rows = [
        [f"{i + 1}", *(f"{values[i]:.3g} ({ends[i, 0]:.3g} to {ends[i, 1]:.3g})" for _, values, ends in shown)]
        for i in range(min(found.values.shape[1], _RANKS))
    ]
    about = {
        "from": f"{found.n_clicks:,} clicks on {found.n_documents:,} documents of {found.n_queries:,} queries, "
        f"{found.n_sessions:,} sessions",
        "curves differ": f"p = {found.test.p_value:.2g}; by more than a factor: p = {found.shape_test.p_value:.2g}",
        "intervals": f"{level_text(found.confidence)}s, each for one value, for {POPULATIONS[found.target]}",
    }
    return card(
        notes(found.warnings),
        facts(about),
        heading(f"P(examined | rank) relative to rank 1 of {next(iter(found.alpha))}"),
        table(["rank", *(name for name, _, _ in shown)], rows, "r" * (len(shown) + 1)),
        title="EstimatedByContext",
    )


def estimated_contexts_chart(found: EstimatedByContext) -> Any:
    """The curves with their intervals."""
    rows = [
        {"rank": i + 1, "value": float(value), "low": float(ends[i, 0]), "high": float(ends[i, 1]), "context": name}
        for name, values, ends in list(zip(found.alpha, found.values, found.intervals, strict=True))[:_RANKS]
        for i, value in enumerate(values)
    ]
    first = next(iter(found.alpha))
    title = f"P(examined | rank) relative to rank 1 of {first}"
    return curve_plot(rows, title, f"{found.method}; {level_text(found.confidence)}s", series="context")

"""`counterrank estimate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterrank.cli.clicks import ClickSource, parse_pair, parts_of
from counterrank.cli.log_options import reads_logs
from counterrank.cli.options import (
    Clicks,
    Data,
    Examination,
    Json,
    Log,
    Logger,
    Method,
    Metrics,
    ModelOrScores,
    Noise,
    Part,
    Policy,
    Seed,
    Target,
    Threads,
)
from counterrank.cli.output import heard, print_json, print_table

if TYPE_CHECKING:
    from counterrank.clicks.logs.options import LogOptions


@reads_logs
def estimate(
    model: ModelOrScores,
    data: Data,
    clicks: Clicks = None,
    log: Log = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Another ranker, or scores as MODEL: the difference is estimated, MODEL minus this one."),
    ] = None,
    part: Part = "test",
    metrics: Metrics = "dcg@5,arp",
    target: Target = "queries",
    confidence: Annotated[float, typer.Option(help="How often an interval shall hold the truth.")] = 0.95,
    noise: Noise = None,
    method: Method = "ips",
    policy: Policy = None,
    examination: Examination = None,
    logger: Logger = None,
    threads: Threads = None,
    seed: Seed = 0,
    json: Json = False,
    *,
    reading: LogOptions,
) -> None:
    """Estimate from clicks alone how good a saved ranker is, or how much better than another.

    Example: counterrank estimate ranker synthetic:mslr --clicks clicks --metrics dcg@5
    """
    from counterrank import evaluation
    from counterrank.cli.clicks import load_scores
    from counterrank.data.sources import choose_part, open_data

    source = ClickSource(clicks, log, policy or [], examination, logger or [], threads, reading)
    opened = open_data(data, threads=threads)
    chosen, parts = choose_part(opened, part, data), parts_of(opened, part)
    counts = source.load(part, parts)
    rho = source.propensities(counts, part, parts)
    source.say_what_was_read()
    settings: dict[str, Any] = {
        "metrics": [name.strip() for name in metrics.split(",")],
        "target": target,
        "confidence": confidence,
        "noise": parse_pair(noise, "noise"),
        "seed": seed,
        "threads": threads,
        **by_method(method, source, counts),
    }
    scores = load_scores(model, chosen, threads)
    with heard():
        if against is None:
            found = evaluation.estimate(scores, chosen, counts, rho, **settings)
        else:
            found = evaluation.compare(scores, load_scores(against, chosen, threads), chosen, counts, rho, **settings)
    first = next(iter(found.values()))
    if json:
        print_json({"model": str(model), "against": against and str(against), "estimates": plain(found)})
        return
    doubly = ", doubly robust" if first.method == "dr" else ""
    title = f"{model} on {data}" if against is None else f"{model} minus {against} on {data}"
    print_table(
        f"{title}: {first.n_clicks:,} clicks in {first.n_sessions:,} sessions of {first.n_queries:,} queries, "
        f"{first.confidence:.0%} intervals for {'queries like these' if target == 'queries' else 'these queries'}"
        + doubly,
        (
            "metric",
            "self-normalised",
            "interval",
            "per session",
            "interval",
            "effective clicks",
            "largest share",
        ),
        [row(name, value) for name, value in found.items()],
    )


def by_method(method: str, source: ClickSource, counts: Any) -> dict[str, Any]:
    """How to estimate, as `evaluation.estimate` takes it: doubly robust needs the curve too."""
    return {"method": method, "exam": source.curve(counts) if method == "dr" else None}


def row(name: str, found: Any) -> tuple[Any, ...]:
    """An estimate as a row of a table."""
    return (
        name,
        found.self_normalized,
        span(found.self_normalized_interval),
        found.ips,
        span(found.ips_interval),
        f"{found.effective_sample_size:,.0f}",
        f"{found.largest_share:.2%}",
    )


def span(interval: tuple[float, float] | None) -> str | None:
    """An interval in words."""
    return None if interval is None else f"{interval[0]:.4g} to {interval[1]:.4g}"


def plain(found: dict[str, Any]) -> dict[str, Any]:
    """Estimates as JSON can hold them."""
    from dataclasses import asdict

    return {name: asdict(value) for name, value in found.items()}

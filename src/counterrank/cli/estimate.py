"""`counterrank estimate`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterrank.cli import options as shared
from counterrank.cli.command import EVALUATION
from counterrank.cli.evidence import ClickSource, load_scored, parts_of
from counterrank.cli.options import EstimateOptions, option, reads_logs
from counterrank.cli.output import print_json, print_table, show_warnings
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank.data.sources import DataOptions
    from counterrank.evaluation import Estimate


@reads_logs
def estimate(
    ranker: shared.RankerOrScores,
    data: shared.Data,
    source: ClickSource,
    how: EstimateOptions,
    against: Annotated[
        Path | None, option("Another ranker, or scores: the difference RANKER minus this one is estimated.", "PATH")
    ] = None,
    gate: Annotated[
        bool,
        option(
            "With --against: exit code 0 only if the lower bound of the first metric's difference is above "
            "--margin, 4 if RANKER is worse, 3 if undecided.",
            panel=EVALUATION,
            name="--gate",
        ),
    ] = False,
    margin: Annotated[
        float | None,
        option(
            "How much better RANKER must be for --gate; below 0, how much worse it may be; 0 if not given.",
            "X",
            EVALUATION,
        ),
    ] = None,
    part: shared.Part = "test",
    metrics: shared.Metrics = "dcg@5,arp",
    confidence: shared.Confidence = 0.95,
    threads: shared.Threads = None,
    json: shared.Json = False,
    *,
    opening: DataOptions,
) -> None:
    """Estimate the metrics of a ranker from clicks alone, or its difference to another, with confidence intervals.

    Example: counterrank estimate ranker synthetic:mslr --clicks clicks --metrics dcg@5

    In a script: counterrank estimate ranker synthetic:mslr --clicks clicks --against production --gate
    """
    from counterrank import evaluation
    from counterrank.data.sources import choose_part
    from counterrank.evaluation.deployment import check_margin

    if against is None and (gate or margin is not None):
        raise CounterrankError("--gate, --margin: require --against, another ranker")
    limit = check_margin(0.0 if margin is None else margin)
    opened = opening.open(data, threads)
    chosen, parts = choose_part(opened, part, data), parts_of(opened, part)
    candidate = load_scored(ranker, chosen, threads)
    other = None if against is None else load_scored(against, chosen, threads)
    counts = source.load(part, parts)
    source.fit_users((counts, chosen))
    rho = source.propensities(counts, part, parts)
    source.say_what_it_read()
    settings: dict[str, Any] = {
        "metrics": [name.strip() for name in metrics.split(",")],
        "confidence": confidence,
        **how.settings(source, counts),
    }
    with show_warnings():
        if other is None:
            found = evaluation.estimate(candidate, chosen, counts, rho, **settings)
        else:
            found = evaluation.compare(candidate, other, chosen, counts, rho, **settings)
    first = next(iter(found.values()))
    verdict = None if against is None else evaluation.verdict(first, limit, names=(str(ranker), str(against)))
    if json:
        decision = None if verdict is None else {**asdict(verdict), "exit_code": verdict.exit_code}
        about = {"model": str(ranker), "against": against and str(against), "in_sample": first.in_sample}
        print_json({**about, "estimates": {name: asdict(each) for name, each in found.items()}, "verdict": decision})
    else:
        _print(found, f"{ranker} on {data}" if against is None else f"{ranker} minus {against} on {data}")
        if verdict is not None:
            print(verdict.sentence)
    if gate and verdict is not None:
        raise typer.Exit(verdict.exit_code)


def _print(found: dict[str, Estimate], title: str) -> None:
    """The estimates as a table."""
    first = next(iter(found.values()))
    doubly = ", doubly robust" if first.method == "dr" else ""
    doubly += ", with control variates" if first.control != "none" else ""
    doubly += ", IN-SAMPLE" if first.in_sample else ""
    population = "queries like these" if first.population == "queries" else "these queries"
    interval = "confidence interval"
    columns = "metric", "self-normalised", interval, "per session", interval, "effective sample size", "largest share"
    print_table(
        f"{title}: {first.n_clicks:,} clicks in {first.n_sessions:,} sessions of {first.n_queries:,} queries, "
        f"{100 * first.confidence:.4g} % confidence intervals for {population}{doubly}",
        columns,
        [
            (
                name,
                each.self_normalized,
                span(each.self_normalized_interval),
                each.ips,
                span(each.ips_interval),
                f"{each.effective_sample_size:,.0f}",
                f"{each.largest_share:.2%}",
            )
            for name, each in found.items()
        ],
    )


def span(interval: tuple[float, float] | None) -> str | None:
    """An interval in words."""
    return None if interval is None else f"{interval[0]:.4g} to {interval[1]:.4g}"

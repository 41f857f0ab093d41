"""`counterrank select`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counterrank.cli.estimate import by_method, span
from counterrank.cli.evidence import ClickSource, Scored, announced_propensities, parse_pair, parts_of, widened
from counterrank.cli.options import (
    Align,
    Clicks,
    Data,
    Examination,
    Force,
    InSample,
    Json,
    Log,
    Logger,
    Method,
    ModelKind,
    Noise,
    Params,
    Part,
    Policy,
    Population,
    Seed,
    Threads,
    option,
    parse_params,
    reads_logs,
)
from counterrank.cli.output import command_line, print_json, print_table, say, show_warnings
from counterrank.cli.writing import check_out, folder_with
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank import Ranker, RankingData
    from counterrank.clicks.logs.columns import LogOptions
    from counterrank.estimators import Evidence


@reads_logs
def select(
    data: Data,
    rankers: Annotated[list[Path] | None, typer.Argument(help="Folders written by train, to choose from.")] = None,
    clicks: Clicks = None,
    log: Log = None,
    losses: Annotated[
        str | None,
        option(
            help="Train a ranker with each of these losses first, on the training part's clicks; comma-separated, of "
            "{losses}.",
            metavar="LIST",
        ),
    ] = None,
    k: Annotated[int | None, option(help="Cutoff of the losses that have one.", metavar="N")] = None,
    model: ModelKind = "linear",
    param: Params = None,
    out: Annotated[Path | None, option(help="Where to save the selected ranker.", metavar="PATH")] = None,
    metric: Annotated[str, option(help="arp, dcg, dcg@k or precision@k.", metavar="NAME")] = "dcg@5",
    part: Part = "validation",
    population: Population = "queries",
    noise: Noise = None,
    method: Method = "ips",
    policy: Policy = None,
    examination: Examination = None,
    logger: Logger = None,
    align: Align = False,
    in_sample: InSample = False,
    force: Force = False,
    threads: Threads = None,
    seed: Seed = 0,
    json: Json = False,
    *,
    reading: LogOptions,
) -> None:
    """Select the best ranker by a metric estimated from clicks alone: the paper's unbiased loss selection.

    Example: counterrank select synthetic:mslr --losses dcg-hinge,lambdaloss-truncated --k 5 --clicks clicks --out best
    """
    from counterrank import Ranker
    from counterrank import select as choose
    from counterrank.data.sources import choose_part, open_data
    from counterrank.training.storage import MARKER, PARTS

    if not rankers and losses is None:
        raise CounterrankError("RANKERS, --losses: nothing to choose from; expected rankers, or losses to train")
    check_out(out, force, (data, rankers, clicks, log, logger, examination), folder_with(MARKER, PARTS))
    source = ClickSource(clicks or [], log, policy or [], examination, logger or [], threads, reading, align=align)
    opened = open_data(data, threads=threads)
    held_out, parts = choose_part(opened, part, data), parts_of(opened, part)
    counts = source.load(part, parts)
    evidence = source.about(counts, part, parts)
    rho = announced_propensities(evidence)
    source.say_what_it_read()
    # those that are trained here are stopped by these clicks, see the note below
    saved = {str(path): Ranker.load(path) for path in rankers or []}
    candidates: dict[str, Ranker] = dict(saved)
    with show_warnings():
        if losses is not None:
            if part == "train":
                raise CounterrankError("--part train: the losses are trained on it; expected another part to select on")
            parts["train"] = choose_part(opened, "train", data)
            candidates |= _train(
                [text.strip() for text in losses.split(",")],
                Ranker(k=k, model=model, params=parse_params(param), metric=metric, threads=threads, seed=seed),
                (parts["train"], source.evidence("train", parts)),
                (held_out, evidence),
            )
        wide = {name: widened(held_out, ranker, data) for name, ranker in candidates.items()}
        scored = [
            Scored(name, ranker.predict(wide[name]), ranker.provenance_ if name in saved else {})
            for name, ranker in candidates.items()
        ]
        found = choose(
            scored,
            held_out,
            counts,
            rho,
            metric,
            population=population,
            noise=parse_pair(noise, "--noise"),
            seed=seed,
            threads=threads,
            in_sample=in_sample,
            **by_method(method, source, counts),
        )
    names = list(candidates)
    if out is not None:
        candidates[names[found.index]].save(out)
    rows = [
        {"ranker": name, "estimate": asdict(value), "chosen_in_resamples": share}
        for name, value, share in zip(names, found.estimates, found.shares, strict=True)
    ]
    if json:
        print_json(
            {
                "best": names[found.index],
                "stability": found.stability,
                "metric": metric,
                "in_sample": found.in_sample or losses is not None,
                "rankers": rows,
            }
        )
        return
    print_table(
        f"{metric} by {counts.n_clicks:,} clicks on {held_out.n_queries:,} queries of {data}"
        + (", doubly robust" if method == "dr" else "")
        + (", IN-SAMPLE" if found.in_sample else ""),
        ("ranker", metric, "interval", "chosen in resamples", ""),
        [
            (
                name,
                value.self_normalized,
                span(value.self_normalized_interval),
                f"{share:.0%}",
                "chosen" if i == found.index else None,
            )
            for i, (name, value, share) in enumerate(zip(names, found.estimates, found.shares, strict=True))
        ],
    )
    if losses is not None:
        say(
            "Note: training stopped early by the same clicks, so these estimates are in-sample, a little too good; the "
            "order is what counts. Estimate the selected one on the test part's clicks."
        )
    if out is not None:
        say(f"Saved {names[found.index]} as {out}.")


def _train(
    losses: list[str], untrained: Ranker, train: tuple[RankingData, Evidence], held_out: tuple[RankingData, Evidence]
) -> dict[str, Ranker]:
    """A ranker for each loss, from policy-aware weights; all stop early by the metric to be chosen by."""
    from counterrank import Ranker
    from counterrank.losses import named_loss
    from counterrank.training import fit_ranker

    trained = {}
    for name, loss in {name: named_loss(name) for name in losses}.items():
        cutoff = untrained.k if loss.takes_k else None
        ranker = Ranker(**untrained.get_params()).set_params(loss=name, k=cutoff)
        trained[name] = fit_ranker(*train, "policy-aware", ranker, validation=held_out).ranker
        trained[name].provenance_["command"] = command_line()
    return trained

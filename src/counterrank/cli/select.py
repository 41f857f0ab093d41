"""`counterrank select`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterrank.cli import options as shared
from counterrank.cli.estimate import span
from counterrank.cli.evidence import (
    ClickSource,
    announced_propensities,
    check_needs,
    fitting,
    parts_of,
)
from counterrank.cli.options import EstimateOptions, option, parse_params, reads_logs
from counterrank.cli.output import check_out, command_line, folder_with, print_json, print_table, say, show_warnings
from counterrank.cli.train import needs_users, read_hyperparameters, with_curve
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank import ClickCounts, Ranker, RankingData
    from counterrank.data.sources import DataOptions
    from counterrank.estimators import Estimator, Evidence
    from counterrank.training import FitReport


@reads_logs
def select(
    data: shared.Data,
    source: ClickSource,
    how: EstimateOptions,
    rankers: Annotated[list[Path] | None, typer.Argument(help="Folders written by train, to choose from.")] = None,
    losses: Annotated[
        str | None,
        option("Train a ranker with each of these losses first, on the training part: some of {losses}.", "LIST"),
    ] = None,
    k: Annotated[int | None, option("Cutoff of the losses that have one.", "N")] = None,
    estimator: Annotated[
        str, option("How clicks or labels become document weights, for --losses: {estimators}.", "NAME")
    ] = "policy-aware",
    estimator_param: shared.EstimatorParams = None,
    model: shared.ModelKind = "linear",
    param: shared.Params = None,
    out: Annotated[Path | None, option("Where to save the selected ranker.", "PATH")] = None,
    metric: Annotated[str, option("arp, dcg, dcg@k or precision@k.", "NAME")] = "dcg@5",
    part: shared.Part = "validation",
    force: shared.Force = False,
    threads: shared.Threads = None,
    json: shared.Json = False,
    *,
    opening: DataOptions,
) -> None:
    """Select the best ranker by a metric estimated from clicks alone: the paper's unbiased loss selection.

    Example: counterrank select synthetic:mslr --losses dcg-hinge,lambdaloss-truncated --k 5 --clicks clicks --out best
    """
    from counterrank import Ranker
    from counterrank import select as choose
    from counterrank.data.sources import choose_part
    from counterrank.training import Scored, fit_rankers
    from counterrank.training.storage import MARKER, PARTS

    if not rankers and losses is None:
        raise CounterrankError("RANKERS, --losses: nothing to choose from; expected RANKERS, or --losses")
    if (Path(data) / MARKER).is_file():
        raise CounterrankError(f"DATA: {data} is a ranker; expected DATA first, then RANKERS")
    check_out(out, force, (data, rankers, *source.inputs), folder_with(MARKER, PARTS))
    chosen = _check_estimator(estimator, source.users is not None)
    hyperparameters, clip = read_hyperparameters(chosen, estimator_param)
    saved = {str(path): Ranker.load(path) for path in rankers or []}
    opened = opening.open(data, threads)
    held_out, parts = choose_part(opened, part, data), parts_of(opened, part)
    counts = source.load(part, parts, "displays" in chosen.needs)
    fitted_to: list[tuple[ClickCounts | None, RankingData]] = [(counts, held_out)]
    if (
        losses is not None
        and needs_users(chosen)
        and "train" in parts
        and part != "train"
        and source.fits_users(counts)
    ):
        fitted_to.append((source.find("train", parts), parts["train"]))
    source.fit_users(*fitted_to)
    evidence = source.about(counts, part, parts)
    rho = announced_propensities(evidence)
    source.say_what_it_read()
    candidates: dict[str, Ranker] = dict(saved)
    with show_warnings():
        if losses is not None:
            if part == "train":
                raise CounterrankError("--part train: the losses are trained on it; expected another part to select on")
            parts["train"] = choose_part(opened, "train", data)
            untrained = Ranker(
                k=k, model=model, params=parse_params(param), metric=metric, threads=threads, seed=how.seed
            )
            given = _learned_from(source, chosen, parts, (held_out, evidence))
            given |= {"clip": clip, "hyperparameters": hyperparameters, "seed": how.seed}
            candidates |= _train(losses, untrained, partial(fit_rankers, parts["train"], estimator=chosen, **given))
        scored = [
            Scored(name, ranker.predict(fitting(held_out, ranker, data)), ranker.provenance_ if name in saved else {})
            for name, ranker in candidates.items()
        ]
        found = choose(scored, held_out, counts, rho, metric, **how.settings(source, counts))
    names = list(candidates)
    stopped = losses is not None and not _learns_apart(chosen)
    if out is not None:
        candidates[names[found.index]].save(out)
    rows = [
        {"ranker": name, "estimate": asdict(value), "chosen_in_resamples": share}
        for name, value, share in zip(names, found.estimates, found.shares, strict=True)
    ]
    if json:
        about = {"best": names[found.index], "stability": found.stability, "metric": metric}
        print_json({**about, "in_sample": found.in_sample or stopped, "rankers": rows})
        return
    print_table(
        f"{metric} by {counts.n_clicks:,} clicks on {held_out.n_queries:,} queries of {data}"
        + (", doubly robust" if how.method == "dr" else "")
        + (", with control variates" if how.control != "none" else "")
        + (", IN-SAMPLE" if found.in_sample else ""),
        ("ranker", metric, "confidence interval", "chosen in resamples", ""),
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
    if stopped:
        say(
            "Note: training stopped early by the same clicks, so these estimates are in-sample, a little too good; the "
            "order is what counts. Estimate the selected one on the test part's clicks."
        )
    if out is not None:
        say(f"Saved {names[found.index]} as {out}.")


def _check_estimator(name: str, has_users: bool) -> Estimator:
    from counterrank.estimators import named_estimator

    chosen = named_estimator(name)
    if "trust" in chosen.needs and not has_users:
        raise CounterrankError(
            f"--estimator {name}: requires --alpha and --beta, which train has; expected --users, or its rankers as "
            "RANKERS"
        )
    return chosen


def _learns_apart(chosen: Estimator) -> bool:
    """Whether rankers learn without the clicks to select by: from labels, or by cross-validation of the training part.

    All others stop early by them, and by the metric to select by.
    """
    return chosen.uses_relevance or "labels" in chosen.needs


def _learned_from(
    source: ClickSource, chosen: Estimator, parts: dict[str, RankingData], held_out: tuple[RankingData, Evidence]
) -> dict[str, Any]:
    """What rankers are trained on and stopped by, as arguments of `fit_ranker`."""
    if "labels" in chosen.needs:
        return {"evidence": None, "validation": (held_out[0], None)}
    evidence = source.evidence("train", parts, "displays" in chosen.needs)
    check_needs(chosen, evidence)
    if chosen.uses_relevance:
        return {"evidence": with_curve(evidence), "folds": 5}
    return {"evidence": evidence, "validation": held_out}


def _train(losses: str, untrained: Ranker, learn: Callable[..., list[FitReport]]) -> dict[str, Ranker]:
    """A ranker for each loss."""
    from counterrank import Ranker
    from counterrank.losses import named_loss

    named = {text.strip(): named_loss(text.strip()) for text in losses.split(",")}
    rankers = [
        Ranker(**untrained.get_params()).set_params(loss=name, k=untrained.k if loss.takes_k else None)
        for name, loss in named.items()
    ]
    trained = {name: report.ranker for name, report in zip(named, learn(rankers=rankers), strict=True)}
    for ranker in trained.values():
        ranker.provenance_["command"] = command_line()
    return trained

"""`counterrank train`."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterrank.cli.clicks import ClickSource, counts_folder, parts_of, propensities_told
from counterrank.cli.log_options import reads_logs
from counterrank.cli.options import (
    Align,
    Clicks,
    Data,
    Examination,
    Json,
    Log,
    Logger,
    ModelKind,
    Params,
    Policy,
    Seed,
    Threads,
    parse_params,
)
from counterrank.cli.output import (
    command_line,
    constant_features,
    constant_in_words,
    heard,
    print_json,
    print_table,
    say,
)
from counterrank.cli.writing import Force, check_out, folder_with
from counterrank.common.checks import check_choice, make_generator
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank import Ranker, RankingData
    from counterrank.clicks.logs.columns import LogOptions
    from counterrank.estimators import Estimator, Evidence
    from counterrank.training import FitReport, Tried

_RELEVANCE_MODELS = ("ridge", "lightgbm", "mlp")


@reads_logs
def train(
    data: Data,
    out: Annotated[Path, typer.Option(help="The folder to write the ranker to.")],
    loss: Annotated[
        str | None,
        typer.Option(
            help="Which loss; one of those listed above. lambdaloss-truncated if not given, for lambdamart lambdarank."
        ),
    ] = None,
    k: Annotated[int | None, typer.Option(help="The loss's cutoff: the k your page shows; none if not given.")] = None,
    model: ModelKind = "linear",
    param: Params = None,
    clicks: Clicks = None,
    log: Log = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            help="From clicks to weights: policy-aware (the default), affine, policy-oblivious, rerank or naive; with "
            "a model of relevance, for few clicks: auto (chooses), direct, doubly-robust or shrinkage; without clicks "
            "full-information."
        ),
    ] = None,
    clip: Annotated[
        str, typer.Option(help="Cap on 1 / propensity of training clicks: none, a number, or auto to try several.")
    ] = "none",
    tau: Annotated[
        float | None, typer.Option(help="For doubly-robust: the least propensity to divide by; auto tries several.")
    ] = None,
    strength: Annotated[
        float | None,
        typer.Option(help="For shrinkage: how many examinations the model counts for; found from clicks if not given."),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(help="For auto and its kin: into how many parts queries are dealt; 5 if not given.")
    ] = None,
    relevance_model: Annotated[
        str | None, typer.Option(help="For auto and its kin: ridge, lightgbm or mlp; ridge if not given.")
    ] = None,
    policy: Policy = None,
    examination: Examination = None,
    logger: Logger = None,
    alpha: Annotated[
        str | None,
        typer.Option(help="For affine, auto and its kin: by rank, how much relevance adds to P(click): 0.9,0.4,0.2."),
    ] = None,
    beta: Annotated[
        str | None,
        typer.Option(help="For affine, auto and its kin: by rank, P(click) of an irrelevant document: 0.1,0.05,0.02."),
    ] = None,
    relevance_threshold: Annotated[
        float | None, typer.Option(help="Of labels: the smallest that counts as relevant; 3 if not given.")
    ] = None,
    gain: Annotated[
        str | None,
        typer.Option(help="Weights from labels: binary, or exponential (2**label - 1); binary is usual."),
    ] = None,
    share: Annotated[float, typer.Option(help="Train on this share of the training queries, drawn at random.")] = 1.0,
    validation: Annotated[
        str | None, typer.Option(help="Data to stop early on, or none; a fold's own validation part if not given.")
    ] = None,
    learning_rate: Annotated[str, typer.Option(help="'auto', or a number.")] = "auto",
    max_epochs: Annotated[
        int | None, typer.Option(help="The most passes over the queries; 100 if not given, for lambdamart 300 rounds.")
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many epochs without improvement; 20, for lambdamart 100.")
    ] = None,
    batch_queries: Annotated[int | None, typer.Option(help="Queries a step; 1 for linear, 16 for mlp.")] = None,
    normalize: Annotated[
        str | None,
        typer.Option(help="Feature scaling: query, standard or none; query if not given, for lambdamart none."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="What early stopping watches: arp, dcg, dcg@k, precision@k; the loss's own.")
    ] = None,
    align: Align = False,
    force: Force = False,
    threads: Threads = None,
    seed: Seed = 0,
    json: Json = False,
    *,
    reading: LogOptions,
) -> None:
    """Train a ranker on clicks, or on labels, and save it.

    Example: counterrank train synthetic:mslr --clicks clicks --estimator policy-aware --k 5 --out ranker

    With few clicks: counterrank train synthetic:mslr --clicks clicks --estimator auto --k 5 --out ranker

    Losses: arp-hinge, arp-logistic, dcg-hinge, dcg-logistic, lambdaloss-dcg, lambdaloss-dcg-at-k,
    lambdaloss-truncated, lambdarank.
    """
    from counterrank import Ranker
    from counterrank.training import fit_ranker
    from counterrank.training.storage import MARKER, PARTS

    inputs = (data, validation, clicks, log, logger, examination, alpha, beta)
    check_out(out, force, inputs, folder_with(MARKER, PARTS))  # now rather than after an hour of training
    source = ClickSource(
        clicks or [], log, policy or [], examination, logger or [], threads, reading, alpha, beta, align
    )
    chosen = _check_estimator(estimator, source)
    cap = parse_clip(clip)
    hyperparameters = {"tau": tau, "strength": strength, "relevance_threshold": relevance_threshold, "gain": gain}
    _check_hyperparameters(chosen, {**hyperparameters, "clip": cap}, folds, relevance_model)
    training, held_out, others = _load(data, validation, share, seed, threads)
    ranker = Ranker(
        loss=loss,
        k=k,
        model=model,
        learning_rate=_rate(learning_rate),
        max_epochs=max_epochs,
        patience=patience,
        batch_queries=batch_queries,
        normalize=normalize,
        metric=metric,
        params=parse_params(param),
        threads=threads,
        seed=seed,
    )
    evidence: Evidence | None = None
    held_out_evidence: Evidence | None = None
    begin = time.perf_counter()
    with heard():
        if source.given:
            if share < 1.0:
                raise CounterrankError(
                    "--share: clicks belong to all queries of the data; expected it without --clicks"
                )
            parts = others | {"train": training} | ({} if held_out is None else {"validation": held_out})
            evidence, held_out_evidence = _evidence(source, parts, chosen, held_out is not None)
            held_out = None if held_out_evidence is None else held_out
        report = fit_ranker(
            training,
            evidence,
            chosen,
            ranker,
            validation=None if held_out is None else (held_out, held_out_evidence),
            clip=cap,
            hyperparameters=hyperparameters,
            folds=(folds or 5) if chosen.uses_relevance else None,
            model=relevance_model,
            seed=seed,
        )
    ranker = report.ranker
    seconds = time.perf_counter() - begin
    ranker.provenance_["command"] = command_line()
    ranker.save(out)
    summary = {
        "estimator": chosen.name,
        **_about_clicks(report, evidence, held_out_evidence),
        **_summary(ranker, training, seconds, out),
    }
    if report.relevance is not None:  # an average of many rankers, for which these numbers say nothing
        averaged = ("documents", "learning_rate", "epochs", "best_epoch", "validation")
        summary = {name: value for name, value in summary.items() if name not in averaged}
        summary["queries"] = sum(
            int((each.clicks.sessions > 0).sum()) for each in (evidence, held_out_evidence) if each
        )
    if json:
        print_json(summary if report.relevance is None else summary | _choice(report))
        return
    names = {"validation": f"validation {ranker.metric_}, self-normalised"}
    shown = summary | {"constant_features": constant_in_words(summary["constant_features"])}
    rows = [(names.get(key, key).replace("_", " "), "none" if value is None else value) for key, value in shown.items()]
    print_table(f"Trained on {data}", ("", "value"), rows)
    _print_choice(report)
    if source.given:
        where = "HELD_OUT_DATA --clicks ITS_CLICKS"
        if "test" in others and not source.is_single() and (log or counts_folder(source.clicks[0], "test")):
            named = [("--log", str(log))] if log else [("--clicks", str(path)) for path in source.clicks]
            where = " ".join([data, *(f"{option} {quote(path)}" for option, path in named)])
        say(f"Saved. Next: counterrank estimate {out} {where}{source.said_again()}")
    else:
        threshold = 3.0 if relevance_threshold is None else relevance_threshold
        say(f"Saved. Next: counterrank evaluate {out} {data} --relevance-threshold {threshold:g}")


def _check_estimator(name: str | None, source: ClickSource) -> Estimator:
    """The estimator that was named, or the default one, if it goes with the kind of input."""
    from counterrank.estimators import named_estimator

    if not source.given and (source.policies or source.loggers or source.examination):
        raise CounterrankError("--policy, --logger, --examination: describe clicks; expected --clicks or --log too")
    chosen = named_estimator(name or ("policy-aware" if source.given else "full-information"))
    if ("labels" in chosen.needs) == source.given:
        wanted = "no --clicks or --log" if source.given else "--clicks or --log"
        raise CounterrankError(f"estimator={chosen.name!r}: expected {wanted} with it")
    if (source.alpha or source.beta) and not ("trust" in chosen.needs or chosen.uses_relevance):
        raise CounterrankError(
            f"--alpha, --beta: {chosen.name} does not correct for trust bias; expected --estimator affine or auto"
        )
    if "trust" in chosen.needs and not (source.alpha and source.beta):
        raise CounterrankError(f"estimator {chosen.name!r}: requires --alpha and --beta, such as 0.9,0.4 and 0.1,0.05")
    return chosen


def _check_hyperparameters(
    chosen: Estimator, given: dict[str, Any], folds: int | None, relevance_model: str | None
) -> None:
    """Refuse what cannot be, before any log is read."""
    from counterrank.training.cross_fit import candidates

    if not chosen.uses_relevance:
        for option, value in (("--folds", folds), ("--relevance-model", relevance_model)):
            if value is not None:
                raise CounterrankError(f"{option}: {chosen.name} uses no model of relevance; expected auto or the like")
        chosen.check_hyperparameters(given)
        return
    if folds is not None and folds < 2:
        raise CounterrankError(f"--folds {folds}: expected at least 2")
    if relevance_model is not None:
        check_choice(relevance_model, _RELEVANCE_MODELS, "relevance-model")
    candidates(chosen, given)


def _evidence(
    source: ClickSource, parts: dict[str, RankingData], chosen: Estimator, has_validation: bool
) -> tuple[Evidence, Evidence | None]:
    """What the clicks of the training part say, and those of the validation part if there are any."""
    pages = "displays" in chosen.needs
    evidence = source.evidence("train", parts, pages)
    chosen.check(evidence, options=True)
    other = source.find("validation", parts, pages) if has_validation and not source.is_single() else None
    source.say_what_was_read()
    if "propensities" in chosen.needs:
        propensities_told(evidence)
    if chosen.uses_relevance:
        if evidence.exam is None and evidence.alpha is None:
            if evidence.clicks.examination is None:
                say("Note: with --examination impressions count, and not only propensities.")
            evidence = replace(evidence, exam=evidence.clicks.examination)
        if not evidence.has("propensities"):
            say("Note: no policy is named, so propensities are how often the log shows each document.")
    elif other is None:
        say("Note: no clicks of a validation part, so training runs all epochs and keeps the last model.")
    if other is None:
        return evidence, None
    held_out = source.about(other, "validation", parts)
    return evidence, replace(held_out, exam=evidence.exam) if chosen.uses_relevance else held_out


def _about_clicks(report: FitReport, evidence: Evidence | None, held_out: Evidence | None) -> dict[str, Any]:
    """How many clicks there were, and the clip."""
    if evidence is None:
        return {}
    if report.relevance is not None:
        both = [each.clicks for each in (evidence, held_out) if each is not None]
        return {
            "queries": 0,
            "sessions": sum(each.n_sessions for each in both),
            "clicks": sum(each.n_clicks for each in both),
            "parts": "train" if held_out is None else "train and validation",
        }
    about = {
        "sessions": evidence.clicks.n_sessions,
        "clicks": evidence.clicks.n_clicks,
        "validation_clicks": None if held_out is None else held_out.clicks.n_clicks,
        "clip": report.about.get("clip"),
    }
    tried = ", ".join(f"{trial.clip or 'none'}: {trial.validation}" for trial in report.clips)
    return {**about, "clips_tried": tried} if tried else about


def _choice(report: FitReport) -> dict[str, Any]:
    """What cross-validation tried and chose, as JSON has it."""
    assert report.relevance is not None
    return {
        "chosen": {"estimator": report.estimator, **report.about},
        "why": report.why,
        "trials": [each.plain() for each in report.trials],
        "relevance": report.relevance.about,
    }


def _print_choice(report: FitReport) -> None:
    """A table of what cross-validation tried, and the reasons for the choice."""
    model = report.relevance
    if model is None:
        return
    if len(report.trials) > 1:
        rows = [(each.name, *_standing(each)) for each in report.trials]
        print_table("What was tried", ("estimator", f"held-out {report.metric}", "behind", "kept"), rows)
    say(report.why)
    say(f"Model of relevance: {model.about}.")
    if model.error >= model.baseline:
        say(
            "Note: it explains no more than one rate for all documents would: features say little of relevance here, "
            "and few clicks may not be enough."
        )


def _standing(tried: Tried) -> tuple[str, str, str]:
    if tried.value is None:
        return "failed", "", "no"
    behind = "" if tried.behind == 0.0 else f"{tried.behind:.4f} ± {tried.error:.4f}"
    return f"{tried.value:.4f}", behind, "yes" if tried.kept else "no"


def _load(
    source: str, validation: str | None, share: float, seed: int, threads: int | None
) -> tuple[RankingData, RankingData | None, dict[str, RankingData]]:
    """The data to train on and that to stop early on, and all parts of a fold, whose clicks a log may hold too."""
    import numpy as np

    from counterrank.data import Fold
    from counterrank.data.sources import choose_part, open_data

    opened = open_data(source, threads=threads)
    training = choose_part(opened, "train", source)
    held_out = opened.validation if isinstance(opened, Fold) and validation != "none" else None
    if validation not in (None, "none"):
        held_out = choose_part(open_data(str(validation), threads=threads), "validation", str(validation))
        width = max(training.n_features, held_out.n_features)
        training, held_out = training.widened(width), held_out.widened(width)
    if not 0.0 < share <= 1.0:
        raise CounterrankError(f"share={share}: expected a number above 0 and up to 1")
    if share < 1.0:
        size = max(1, round(share * training.n_queries))
        chosen = make_generator(seed).choice(training.n_queries, size=size, replace=False)
        training = training.subset(np.sort(chosen))
    others = parts_of(opened) if isinstance(opened, Fold) else {}
    return training, held_out, others


def parse_clip(text: str) -> float | str | None:
    """A cap on 1 / propensity from its text, or "auto"; None for none.

    >>> parse_clip("30"), parse_clip("none"), parse_clip("auto")
    (30.0, None, 'auto')
    """
    if text in ("none", "auto"):
        return None if text == "none" else text
    try:
        return float(text)
    except ValueError:
        raise CounterrankError(f"clip={text!r}: expected 'none', 'auto' or a number above 0") from None


def _rate(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise CounterrankError(f"learning-rate={text!r}: expected 'auto' or a number") from None


def _summary(ranker: Ranker, training: RankingData, seconds: float, out: Path) -> dict[str, Any]:
    best = ranker.history_[ranker.best_epoch_ - 1]
    return {
        "kind": ranker.kind_,
        "loss": ranker.loss_,
        "k": ranker.k,
        "queries": training.n_queries,
        "documents": training.n_docs,
        "learning_rate": ranker.learning_rate_,
        "epochs": len(ranker.history_),
        "best_epoch": ranker.best_epoch_,
        "constant_features": constant_features(ranker),
        "metric": ranker.metric_,
        "validation": best["validation"],
        "seconds": seconds,
        "model": str(out),
    }

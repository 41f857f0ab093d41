"""`counterrank train`."""

from __future__ import annotations

import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterrank.cli.auto import ESTIMATORS as FEW_CLICKS
from counterrank.cli.auto import Choices, learn, show, told
from counterrank.cli.clicks import ClickSource, counts_folder, parts_of
from counterrank.cli.learning import from_clicks, from_labels, parse_clip
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
    from counterrank.training import FromClicks


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
    from counterrank.training.storage import MARKER, PARTS

    inputs = (data, validation, clicks, log, logger, examination, alpha, beta)
    check_out(out, force, inputs, folder_with(MARKER, PARTS))  # now rather than after an hour of training
    source = ClickSource(
        clicks or [], log, policy or [], examination, logger or [], threads, reading, alpha, beta, align
    )
    chosen = _check_estimator(estimator, source, clip)
    choices = Choices(tau, strength, folds, relevance_model)
    choices.check(chosen, None if clip == "auto" else parse_clip(clip))
    if source.given and (relevance_threshold is not None or gain is not None):
        raise CounterrankError("--relevance-threshold, --gain: tell of labels; expected them without --clicks or --log")
    threshold = 3.0 if relevance_threshold is None else relevance_threshold
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
    about: dict[str, Any] = {}
    result: FromClicks | None = None
    begin = time.perf_counter()
    with heard():
        if chosen == "full-information":
            ranker = from_labels(ranker, training, held_out, threshold, gain or "binary")
        else:
            if share < 1.0:
                raise CounterrankError(
                    "--share: clicks belong to all queries of the data; expected it without --clicks"
                )
            parts = others | {"train": training} | ({} if held_out is None else {"validation": held_out})
            if chosen in FEW_CLICKS:
                both = held_out is not None and not source.is_single()
                result, about = learn(ranker, parts, both, source, chosen, parse_clip(clip), choices)
                ranker = result.ranker
            else:
                ranker, about = from_clicks(ranker, parts, held_out, source, chosen, clip)
    seconds = time.perf_counter() - begin
    ranker.provenance_["command"] = command_line()
    ranker.save(out)
    summary = {"estimator": chosen, **about, **_summary(ranker, training, seconds, out)}
    if result is not None:  # of many rankers, for which single numbers say nothing
        summary = {name: value for name, value in summary.items() if name not in _OF_ONE} | {
            "queries": about["queries"]
        }
    if json:
        print_json(summary if result is None else summary | told(result))
        return
    names = {"validation": f"validation {ranker.metric_}, self-normalised"}
    shown = summary | {"constant_features": constant_in_words(summary["constant_features"])}
    rows = [(names.get(key, key).replace("_", " "), "none" if value is None else value) for key, value in shown.items()]
    print_table(f"Trained on {data}", ("", "value"), rows)
    if result is not None:
        show(result)
    if source.given:
        where = "HELD_OUT_DATA --clicks ITS_CLICKS"
        if "test" in others and not source.is_single() and (log or counts_folder(source.clicks[0], "test")):
            named = [("--log", str(log))] if log else [("--clicks", str(path)) for path in source.clicks]
            where = " ".join([data, *(f"{option} {quote(path)}" for option, path in named)])
        say(f"Saved. Next: counterrank estimate {out} {where}{source.said_again()}")
    else:
        say(f"Saved. Next: counterrank evaluate {out} {data} --relevance-threshold {threshold:g}")


_OF_ONE = ("documents", "learning_rate", "epochs", "best_epoch", "validation")


def _check_estimator(estimator: str | None, source: ClickSource, clip: str) -> str:
    names = ("policy-aware", "affine", "policy-oblivious", "rerank", "naive", *FEW_CLICKS, "full-information")
    if not source.given and clip != "none":
        raise CounterrankError(f"clip={clip!r}: caps the weight of clicks; expected --clicks or --log too")
    if not source.given and (source.policies or source.loggers or source.examination):
        raise CounterrankError("--policy, --logger, --examination: tell of clicks; expected --clicks or --log too")
    if (source.alpha or source.beta) and estimator not in ("affine", *FEW_CLICKS):
        raise CounterrankError("--alpha, --beta: tell of trust bias; expected --estimator affine or auto too")
    if bool(source.alpha) != bool(source.beta):
        raise CounterrankError("--alpha, --beta: expected both, by rank, such as 0.9,0.4 and 0.1,0.05")
    if clip == "auto" and estimator in ("affine", *FEW_CLICKS):
        raise CounterrankError(f"clip='auto': not for {estimator}; expected none or a number")
    if estimator is None:
        return "policy-aware" if source.given else "full-information"
    check_choice(estimator, names, "estimator")
    if (estimator == "full-information") == source.given:
        wanted = "no --clicks or --log" if source.given else "--clicks or --log"
        raise CounterrankError(f"estimator={estimator!r}: expected {wanted} with it")
    return estimator


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

"""`counterrank train`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from counterrank.cli import options as shared
from counterrank.cli.command import CLICKS, DATA_OPTIONS, ESTIMATOR, TRAINING, explicit_options, options_again, registry
from counterrank.cli.evidence import ClickSource, announced_propensities, check_needs, parts_of
from counterrank.cli.options import option, parse_params, positive_or, reads_logs
from counterrank.cli.output import (
    check_out,
    command_line,
    constant_features,
    constant_in_words,
    folder_with,
    print_json,
    print_table,
    say,
    say_next,
    show_warnings,
)
from counterrank.common.checks import check_choice, check_whole, make_generator
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank import ClickCounts, Ranker, RankingData
    from counterrank.data.sources import DataOptions
    from counterrank.estimators import Estimator, Evidence
    from counterrank.training import FitReport, Tried

_FEW_CLICKS = 100.0  # of a query: docs/concepts/few-clicks.md has shares of the gap by sessions


@reads_logs
def train(
    data: shared.Data,
    out: Annotated[Path, option("The folder to write the ranker to.", "PATH")],
    source: ClickSource,
    estimator: Annotated[
        str | None,
        option(
            "How clicks or labels become document weights: {estimators}. Default: policy-aware with clicks, "
            "full-information without. Use auto with few clicks.",
            "NAME",
        ),
    ] = None,
    loss: Annotated[
        str | None, option("{losses}. lambdaloss-truncated if not given, for lambdamart lambdarank.", "NAME")
    ] = None,
    k: Annotated[int | None, option("Cutoff of the loss: the k of your page; no cutoff if not given.", "N")] = None,
    model: shared.ModelKind = "linear",
    alpha: Annotated[
        str | None,
        option(
            "Trust bias, by rank: how much relevance adds to P(click), such as 0.9,0.4,0.2; requires --beta. For "
            "affine, and estimators with a relevance model.",
            "LIST",
            CLICKS,
        ),
    ] = None,
    beta: shared.Beta = None,
    clip: Annotated[
        str,
        option(
            "Cap on importance weights, 1 / propensity: none, a number, or auto, which tries several.", "X", ESTIMATOR
        ),
    ] = "none",
    tau: Annotated[
        float | None, option("For doubly-robust: least propensity to divide by; auto tries several.", "X", ESTIMATOR)
    ] = None,
    strength: Annotated[
        float | None,
        option("For shrinkage: examinations that the relevance model counts for; else most likely.", "X", ESTIMATOR),
    ] = None,
    folds: Annotated[
        int | None,
        option("For auto, direct, doubly-robust, shrinkage: cross-validation folds; 5 if not given.", "N", ESTIMATOR),
    ] = None,
    relevance_model: Annotated[
        str | None, option("For the same: {relevance_models}; ridge if not given.", "NAME", ESTIMATOR)
    ] = None,
    relevance_threshold: Annotated[
        float | None,
        option("For full-information: smallest label of a relevant document; 3 if not given.", "X", ESTIMATOR),
    ] = None,
    gain: Annotated[
        str | None,
        option("For full-information: binary, or exponential (2**label - 1); binary if not given.", "NAME", ESTIMATOR),
    ] = None,
    production: Annotated[
        str | None,
        option(
            "The ranker in use, or a file of its scores: a blend or the new ranker replaces it only as far as a bound "
            "on held-out clicks allows. For estimators with a relevance model.",
            "PATH",
            ESTIMATOR,
        ),
    ] = None,
    safety: Annotated[float, option("Confidence level of that bound.", "X", ESTIMATOR)] = 0.95,
    evidence: Annotated[
        str, option("What the bound rests on: model-assisted or asymptotic.", "NAME", ESTIMATOR)
    ] = "model-assisted",
    estimator_param: shared.EstimatorParams = None,
    param: shared.Params = None,
    validation: Annotated[
        str | None,
        option("Data for early stopping, or none; a fold's own validation part if not given.", "DATA", TRAINING),
    ] = None,
    metric: Annotated[
        str | None,
        option("Metric of early stopping: arp, dcg, dcg@k, precision@k; the loss's if not given.", "NAME", TRAINING),
    ] = None,
    learning_rate: Annotated[str, option("auto, or a number.", "X", TRAINING)] = "auto",
    max_epochs: Annotated[
        int | None, option("The most epochs; 100 if not given, for lambdamart 300 rounds.", "N", TRAINING)
    ] = None,
    patience: Annotated[
        int | None,
        option("Epochs without improvement before early stopping; 20 if not given, lambdamart 100.", "N", TRAINING),
    ] = None,
    batch_queries: Annotated[int | None, option("Queries in a batch; 1 for linear, 16 for mlp.", "N", TRAINING)] = None,
    normalize: Annotated[
        str | None,
        option("Feature scaling: query, standard or none; query if not given, for lambdamart none.", "NAME", TRAINING),
    ] = None,
    share: Annotated[
        float, option("Train on this share of the training queries, drawn at random.", "X", TRAINING)
    ] = 1.0,
    force: shared.Force = False,
    threads: shared.Threads = None,
    seed: shared.Seed = 0,
    json: shared.Json = False,
    *,
    opening: DataOptions,
) -> None:
    """Train a ranker on clicks, or on labels, and save it.

    Example: counterrank train synthetic:mslr --clicks clicks --estimator policy-aware --k 5 --out ranker

    With few clicks: counterrank train synthetic:mslr --clicks clicks --estimator auto --k 5 --out ranker

    Not below the ranker in use: add --production PATH --safety 0.95
    """
    from counterrank import Ranker
    from counterrank.training import fit_ranker
    from counterrank.training.blending import EVIDENCE
    from counterrank.training.storage import MARKER, PARTS

    inputs = (data, validation, production, *source.inputs)
    check_out(out, force, inputs, folder_with(MARKER, PARTS))  # now rather than after an hour of training
    chosen = _check_estimator(estimator, source)
    flags = {"tau": tau, "strength": strength, "relevance_threshold": relevance_threshold, "gain": gain}
    flags["clip"] = None if clip == "none" else clip
    hyperparameters, cap = read_hyperparameters(chosen, estimator_param, flags)
    if production is not None and not chosen.uses_relevance:
        wanted = named_like(lambda each: each.uses_relevance)
        raise CounterrankError(f"--production: {chosen.name} is not cross-validated; expected --estimator {wanted}")
    if production is None and (needless := explicit_options("safety", "evidence")):
        raise CounterrankError(f"{needless[0]}: requires --production, the ranker in use")
    check_choice(evidence, EVIDENCE, "--evidence")
    _check_relevance(chosen, folds, relevance_model)
    training, held_out, others = _load(data, validation, share, seed, threads, opening)
    ranker = Ranker(
        loss=loss,
        k=k,
        model=model,
        learning_rate=positive_or(learning_rate, "--learning-rate ", "auto"),
        max_epochs=max_epochs,
        patience=patience,
        batch_queries=batch_queries,
        normalize=normalize,
        metric=metric,
        params=parse_params(param),
        threads=threads,
        seed=seed,
    )
    about_clicks: Evidence | None = None
    held_out_evidence: Evidence | None = None
    begin = time.perf_counter()
    with show_warnings():
        if source.given:
            if share < 1.0:
                raise CounterrankError(
                    "--share: is for labels, since clicks belong to all queries; expected no --clicks or --log"
                )
            parts = others | {"train": training} | ({} if held_out is None else {"validation": held_out})
            about_clicks, held_out_evidence = _evidence(source, parts, chosen, held_out is not None)
            if estimator is None:
                _say_few_clicks(about_clicks.clicks)
            held_out = None if held_out_evidence is None else held_out
            if cap == "auto" and held_out is None:
                raise CounterrankError("--clip auto: requires clicks of a validation part to choose by")
        report = fit_ranker(
            training,
            about_clicks,
            chosen,
            ranker,
            validation=None if held_out is None else (held_out, held_out_evidence),
            clip=cap,
            hyperparameters=hyperparameters,
            folds=(folds or 5) if chosen.uses_relevance else None,
            model=relevance_model,
            production=None if production is None else _production(production, training, held_out, threads),
            safety=safety,
            evidence_level=evidence,
            seed=seed,
        )
    ranker = report.ranker
    seconds = time.perf_counter() - begin
    ranker.provenance_["command"] = command_line()
    ranker.save(out)
    if source.found is not None:
        report = replace(report, users=source.found)
    summary = {
        "estimator": chosen.name,
        **_about_clicks(report, about_clicks, held_out_evidence),
        **_summary(ranker, training, seconds, out),
    }
    if report.safety is not None:
        summary["returned"] = next((each.name for each in report.blends if each.chosen), "production")
    if report.relevance is not None:  # an average of many rankers, for which these numbers say nothing
        averaged = ("documents", "learning_rate", "epochs", "best_epoch", "validation")
        summary = {name: value for name, value in summary.items() if name not in averaged}
        summary["queries"] = sum(
            int((each.clicks.sessions > 0).sum()) for each in (about_clicks, held_out_evidence) if each
        )
    if json:
        summary |= {} if report.users is None else {"users": report.users.describe()}
        print_json(summary if report.relevance is None else summary | _choice(report))
        return
    names = {"validation": f"validation {ranker.metric_}, self-normalised", "kind": "model", "model": "saved as"}
    shown = summary | {"constant_features": constant_in_words(summary["constant_features"])}
    rows = [(names.get(key, key).replace("_", " "), "none" if value is None else value) for key, value in shown.items()]
    print_table(f"Trained on {data}", ("", "value"), rows)
    _print_choice(report)
    if about_clicks is None:
        _say_next_of_labels(out, data, others, hyperparameters, k)
    else:
        _say_next_of_clicks(out, data, source, others, about_clicks)


def _production(path: str, training: RankingData, held_out: RankingData | None, threads: int | None) -> Any:
    """The ranker in use, or its scores of the parts that are learned from."""
    from counterrank import Ranker
    from counterrank.training import Scored

    if Path(path).is_dir():
        ranker = Ranker.load(path)
        ranker.threads = threads
        return ranker
    scores = tuple(Scored.load(path, part, threads).scores for part in (training, held_out) if part is not None)
    return scores if len(scores) > 1 else scores[0]


def _say_next_of_labels(
    out: Path, data: str, parts: Mapping[str, RankingData], hyperparameters: Mapping[str, Any], k: int | None
) -> None:
    """Evaluate on the test part, by what the labels were used for; without one, look at the ranker."""
    test, threshold = parts.get("test"), hyperparameters.get("relevance_threshold", 3)
    graded = hyperparameters.get("gain") == "exponential"
    if test is None or test.labels is None or not (test.labels >= (1 if graded else threshold)).any():
        say_next("explain", out)
        return
    by = ("--metrics", f"ndcg_graded@{k or 10}") if graded else ("--relevance-threshold", f"{threshold:g}")
    say_next("evaluate", out, data, *by, *options_again(*DATA_OPTIONS))


def _say_next_of_clicks(
    out: Path, data: str, source: ClickSource, parts: Mapping[str, RankingData], evidence: Evidence
) -> None:
    """Estimate on the test part's clicks; see what they support, where their propensities are not known."""
    if source.log is None or source.file_of("test") is None:  # a log of its own would have to be read
        counts = source.known_clicks("test", parts, evidence.clicks.displays is not None)
        if counts is None:
            say("Saved. Estimate it on clicks that it was not trained on: a fold, or --split, keeps some apart.")
            return
        evidence = evidence if source.policies else replace(evidence, clicks=counts)
    if source.alpha:  # which other commands do not have
        evidence = replace(evidence, exam=None)
    named = [("--log", source.log)] if source.log else [("--clicks", path) for path in source.clicks]
    again = source.options_again()
    if _knows_propensities(evidence):
        say_next("estimate", out, data, *(word for pair in named for word in pair), *again)
    elif not evidence.has("propensities") and (evidence.exam is not None or evidence.clicks.examination is not None):
        say_next("estimate", out, data, *(word for pair in named for word in pair), "--policy", "estimated", *again)
    elif not source.align:  # which inspect does not have
        say_next("inspect", named[0][1], "--data", data, "--part", "test", *again)


def _knows_propensities(evidence: Evidence) -> bool:
    """Whether they are known; logged ones of several policies need not be those of the whole log."""
    if not evidence.has("propensities"):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return evidence.propensities is not None
    except CounterrankError:
        return False


def _check_estimator(name: str | None, source: ClickSource) -> Estimator:
    """The estimator that was named, or the default one, if it goes with the kind of input."""
    from counterrank.estimators import named_estimator

    if not source.given and (source.policies or source.loggers or source.examination or source.users):
        raise CounterrankError("--policy, --logger, --examination, --users: describe clicks; require --clicks or --log")
    chosen = named_estimator(name or ("policy-aware" if source.given else "full-information"))
    if ("labels" in chosen.needs) == source.given:
        wanted = "labels; expected no --clicks or --log" if source.given else "--clicks or --log"
        raise CounterrankError(f"--estimator {chosen.name}: requires {wanted}")
    for flags, given in (("--alpha, --beta", source.alpha or source.beta), ("--users", source.users)):
        if given and not needs_users(chosen):
            raise CounterrankError(
                f"{flags}: {chosen.name} does not correct for trust bias; expected --estimator "
                + named_like(lambda each: needs_users(each))
            )
    if "trust" in chosen.needs and not (source.users or (source.alpha and source.beta)):
        raise CounterrankError(
            f"--estimator {chosen.name}: requires --alpha and --beta, such as 0.9,0.4 and 0.1,0.05, or --users"
        )
    return chosen


def named_like(fits: Callable[[Estimator], bool]) -> str:
    """The names of the registered estimators that fit, as a choice: a, b or c."""
    names = [each.name for each in registry("estimators").values() if fits(each)]
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _check_relevance(chosen: Estimator, folds: int | None, relevance_model: str | None) -> None:
    """Refuse options of the relevance model where there is none, and values that cannot be."""
    wanted = named_like(lambda each: each.uses_relevance)
    for flag, value in (("--folds", folds), ("--relevance-model", relevance_model)):
        if value is not None and not chosen.uses_relevance:
            raise CounterrankError(f"{flag}: {chosen.name} has no relevance model; expected --estimator {wanted}")
    if folds is not None:
        check_whole(folds, "folds", 2)
    if relevance_model is not None:
        check_choice(relevance_model, registry("relevance_models"), "relevance_model")


def read_hyperparameters(
    chosen: Estimator, params: list[str] | None, flags: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], float | str | None]:
    """Hyperparameters of the estimator, of `--estimator-param` and of flags of their own; the clip apart from them."""
    from counterrank.estimators.registry import checked_hyperparameters

    found = {name: value for name, value in (flags or {}).items() if value is not None}
    for name, value in (parse_params(params, "--estimator-param") or {}).items():
        if name in found:
            raise CounterrankError(f"--estimator-param {name}, --{name.replace('_', '-')}: expected one of the two")
        found[name] = value
    flag = "--clip " if (flags or {}).get("clip") is not None else "--estimator-param clip="
    given = positive_or(str(found.pop("clip", "none")), flag, "none", "auto")
    clip = None if given == "none" else given
    chosen.check_hyperparameters({"clip": clip})
    if clip == "auto" and (chosen.uses_relevance or not chosen.can_clip):
        raise CounterrankError(f"{flag}auto: expected none or a number above 0 with {chosen.name}")
    return checked_hyperparameters(chosen, found), clip


def _evidence(
    source: ClickSource, parts: dict[str, RankingData], chosen: Estimator, has_validation: bool
) -> tuple[Evidence, Evidence | None]:
    """What the clicks of the training part say, and those of the validation part if there are any."""
    pages = "displays" in chosen.needs
    counts = source.load("train", parts, pages)
    other = source.find("validation", parts, pages) if has_validation and not source.is_single() else None
    source.say_what_it_read()
    if needs_users(chosen):
        source.fit_users((counts, parts["train"]), (other, parts.get("validation", parts["train"])), prior=True)
    evidence = source.about(counts, "train", parts)
    check_needs(chosen, evidence)
    if "propensities" in chosen.needs:
        announced_propensities(evidence)
    if chosen.uses_relevance:
        evidence = with_curve(evidence)
    elif other is None:
        say("Note: no clicks of a validation part, so training runs all epochs and keeps the last model.")
    if other is None:
        return evidence, None
    held_out = source.about(other, "validation", parts)
    return evidence, replace(held_out, exam=evidence.exam) if chosen.uses_relevance else held_out


def _say_few_clicks(clicks: ClickCounts) -> None:
    """Suggest cross-validation in place of the default estimator where clicks are few."""
    queries = int((clicks.sessions > 0).sum())
    each = clicks.n_clicks / max(queries, 1)
    if each < _FEW_CLICKS:
        say(
            f"Note: {each:.3g} clicks a query are few for policy-aware, whose weights are mostly noise then; "
            "--estimator auto also tries estimators with a relevance model, by cross-validation."
        )


def needs_users(chosen: Estimator) -> bool:
    """Whether the estimator requires something that a user model gives."""
    return bool({"examination", "propensities", "exposure", "trust"}.intersection(chosen.needs))


def with_curve(evidence: Evidence) -> Evidence:
    """The evidence with the examination curve that simulated clicks remember, for estimators with a relevance model."""
    if not evidence.has("propensities"):
        say("Note: no --policy, so display frequencies of the log are used as propensities.")
    found = evidence.with_remembered_curve()
    if found.exam is None:
        say("Note: no --examination, so only propensities are used, and not impressions.")
    return found


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
        **{name: value for name, value in report.about.items() if name not in ("clip", "name")},
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
        **({} if report.safety is None else _trade_off(report)),
    }


def _trade_off(report: FitReport) -> dict[str, Any]:
    """How blends with production compare with it, as JSON has it."""
    return {
        "weight": report.weight,
        "safety": report.safety,
        "evidence": report.evidence,
        "blends": [asdict(each) for each in report.blends],
    }


def _print_choice(report: FitReport) -> None:
    """A table of what cross-validation tried, and the reasons for the choice."""
    model = report.relevance
    if model is None:
        return
    if len(report.trials) > 1:
        rows = [(each.name, *_standing(each)) for each in report.trials]
        print_table("What was tried", ("estimator", f"held-out {report.metric}", "behind", "kept"), rows)
    if report.blends:
        head = ("against production", f"{report.metric} per session", f"{report.safety:.4g} lower bound", "returned")
        rows = [
            (each.name, f"{each.estimate:+.4f}", f"{each.lower:+.4f}", "yes" if each.chosen else "")
            for each in report.blends
        ]
        print_table("Blends with production", head, rows)
    say(report.why)
    say(f"Relevance model: {model.about}.")
    if model.error >= model.baseline:
        say(
            "Note: it explains no more than one rate for all documents would: features say little of relevance here, "
            "and few clicks may not be enough."
        )


def _standing(tried: Tried) -> tuple[str, str, str]:
    if tried.failure:
        return tried.status, "", "no"
    behind = "" if tried.behind == 0.0 else f"{tried.behind:.4f} ± {tried.error:.4f}"
    return tried.status or f"{tried.value:.4f}", behind, "yes" if tried.kept else "no"


def _load(
    source: str, validation: str | None, share: float, seed: int, threads: int | None, opening: DataOptions
) -> tuple[RankingData, RankingData | None, dict[str, RankingData]]:
    """The data to train on and that to stop early on, and all parts of a fold, whose clicks a log may hold too."""
    import numpy as np

    from counterrank.data import Fold
    from counterrank.data.sources import choose_part

    opened = opening.open(source, threads)
    training = choose_part(opened, "train", source)
    held_out = opened.validation if isinstance(opened, Fold) and validation != "none" else None
    if validation not in (None, "none"):
        whole = replace(opening, split=None)
        held_out = choose_part(whole.open(str(validation), threads), "validation", str(validation))
        if not training.has_feature_names and not held_out.has_feature_names:
            width = max(training.n_features, held_out.n_features)
            training, held_out = training.widened(width), held_out.widened(width)
    if not 0.0 < share <= 1.0:
        raise CounterrankError(f"--share {share}: expected a number above 0 and up to 1")
    if share < 1.0:
        size = max(1, round(share * training.n_queries))
        chosen = make_generator(seed).choice(training.n_queries, size=size, replace=False)
        training = training.subset(np.sort(chosen))
    others = parts_of(opened) if isinstance(opened, Fold) else {}
    return training, held_out, others


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

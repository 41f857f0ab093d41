"""What a notebook shows of a ranker and of a fit: provenance, training curve, importances, and what was tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.common.notebook import (
    BLUE,
    GREEN,
    Html,
    Summary,
    as_html,
    bar_svg,
    card,
    details,
    facts,
    heading,
    interval_svg,
    line_svg,
    percent_text,
    row,
    scale_of,
    table,
    text_of,
)
from counterrank.common.plotting import history_plot, interval_plot
from counterrank.evaluation import higher_is_better
from counterrank.losses import NamedLoss

if TYPE_CHECKING:
    from counterrank.training.pipeline import FitReport, Tried
    from counterrank.training.ranker import Ranker

_TOP = 8  # features with the largest importance


def _source(part: Any) -> Any:
    """Where data or clicks come from, in words."""
    if not isinstance(part, Mapping):
        return part
    amounts = [f"{part[name]:,} {name}" for name in ("queries", "documents", "sessions", "clicks") if name in part]
    named = [part["path"]] if part.get("path") else list(part.get("paths") or ())
    policies = [f"policies {text_of(part['policies'])}"] if part.get("policies") else []
    return ", ".join([*amounts, *policies, *map(str, named)])


def _estimator(used: Any) -> str | None:
    """The estimator and its hyperparameters, without the table of what was tried."""
    if not isinstance(used, Mapping):
        return None
    left_out = ("name", "why", "tried", "clips_tried", "kept")
    more = [f"{name} {text_of(value)}" for name, value in used.items() if name not in left_out and value is not None]
    return f"{used.get('name')} ({', '.join(more)})" if more else str(used.get("name"))


def ranker_summary(ranker: Ranker) -> Summary:
    """The parameters, and what was learned from what."""
    loss = ranker.loss.name if isinstance(ranker.loss, NamedLoss) else ranker.loss
    model = ranker.model if isinstance(ranker.model, str) else type(ranker.model).__name__
    if not hasattr(ranker, "model_"):
        given = {name: value for name, value in ranker.get_params().items() if value is not None}
        seed = given["seed"] if isinstance(given["seed"], int) else "a generator"
        return Summary(given | {"loss": loss or "the default", "model": model, "seed": seed, "trained": False})
    history, best = ranker.history_, ranker.best_epoch_
    kept = history[best - 1] if 0 < best <= len(history) else {}
    origin = getattr(ranker, "provenance_", {})
    return Summary(
        loss=ranker.loss_,
        k=ranker.k,
        model=model,
        trained=True,
        metric=ranker.metric_,
        validation=kept.get("validation"),
        best_epoch=best,
        epochs=len(history),
        seconds=float(sum(each.get("seconds") or 0.0 for each in history)),
        learning_rate=ranker.learning_rate_,
        features=ranker.n_features_,
        constant_features=None if ranker.constant_features_ is None else len(ranker.constant_features_),
        data=_source(origin.get("data")),
        validation_data=_source(origin.get("validation")),
        clicks=_source(origin.get("clicks")),
        estimator=_estimator(origin.get("estimator")),
        seed=origin.get("seed"),
        version=origin.get("version"),
        date=origin.get("date"),
        command=origin.get("command"),
    )


def ranker_card(ranker: Ranker) -> Html:
    """Provenance, the training curve, and the features with the largest importance."""
    found = ranker_summary(ranker)
    if not found["trained"]:
        shown = {name: value for name, value in found.items() if name != "trained"}
        return card(facts(shown), title="Ranker", sentence="not trained yet")
    metric, history = found["metric"], ranker.history_
    value = "" if found["validation"] is None else f", {metric} {found['validation']:.4g} on validation data"
    cutoff = "" if found["k"] is None else f" at k={found['k']}"
    labels = {
        "learning_rate": "learning rate", "features": "features", "constant_features": "constant features",
        "data": "trained on", "validation_data": "validated on", "clicks": "clicks", "estimator": "estimator",
        "seed": "seed", "version": "counterrank", "date": "date", "command": "command",
    }  # fmt: skip
    about = {label: found[name] for name, label in labels.items() if found[name] is not None}
    if not ranker.provenance_:
        about["provenance"] = "not recorded (saved by version 0.1)"
    curves = [
        line_svg([each.get("validation") for each in history], f"validation {metric}", marked=ranker.best_epoch_),
        line_svg([each.get("loss") for each in history], "training loss", marked=ranker.best_epoch_),
    ]
    return card(
        facts(about),
        row(*curves),
        _importances(ranker),
        title="Ranker",
        sentence=f"{found['loss']}{cutoff}, {found['model']}; best epoch {found['best_epoch']} of {found['epochs']}"
        f"{value}",
    )


def _importances(ranker: Ranker) -> Html | None:
    """The features with the largest importance, by name."""
    values = getattr(ranker, "_importances", None)
    if values is None or not len(values):
        return None
    names = getattr(ranker, "feature_names_in_", None)
    if names is None or len(names) != len(values):
        names = [f"feature_{i + 1}" for i in range(len(values))]
    order = [i for i in np.argsort(-values, kind="stable")[:_TOP].tolist() if values[i] > 0.0]
    if not order:
        return None
    most = float(values[order[0]])
    rows = [[str(names[i]), percent_text(float(values[i])), bar_svg(float(values[i]) / most)] for i in order]
    left = len(values) - len(rows)
    title = "Feature importances" + (f", the largest {len(rows)} of {len(values):,}" if left else "")
    return Html(heading(title) + table(["feature", "share", ""], rows, "lrl"))


def ranker_plot(ranker: Ranker) -> Any:
    """Validation metric and loss over epochs."""
    return history_plot(ranker.history_, ranker.metric_, ranker.best_epoch_)


def report_text(report: FitReport) -> str:
    """The `repr` of a fit, one line."""
    kept = sum(each.kept for each in report.trials)
    tried = f", {len(report.trials)} candidates tried, {kept} kept" if report.trials else ""
    clips = f", {len(report.clips)} clips tried" if report.clips else ""
    kind = "" if report.safety is None else f", {_returned(report)}"
    return f"FitReport({report.estimator}, {report.ranker!r}{tried}{clips}{kind})"


def _returned(report: FitReport) -> str:
    """What was returned, where production was given."""
    if report.weight in (0.0, 1.0):
        return f"{'new' if report.weight else 'production'} returned"
    return f"{next(each.name for each in report.blends if each.chosen)} returned"


def report_summary(report: FitReport) -> Summary:
    """The choice, and what was tried."""
    found = Summary(
        estimator=report.estimator,
        hyperparameters={name: value for name, value in report.about.items() if name != "kept"},
        kept=report.about.get("kept"),
        metric=report.metric,
        why=report.why or None,
        tried={each.name: each.status or each.value for each in report.trials},
        clips={_clip(each.clip): each.validation for each in report.clips},
        ranker=repr(report.ranker),
    )
    if report.safety is not None:
        found["weight"] = report.weight
        found["safety"] = report.safety
        found["evidence"] = report.evidence
        found["blends"] = {each.name: {"estimate": each.estimate, "lower": each.lower} for each in report.blends}
    return found


def _clip(clip: float | None) -> str:
    return "no clip" if clip is None else f"clip {clip:g}"


def report_card(report: FitReport) -> Html:
    """Why, what was tried, and the ranker."""
    settings = [f"{name} {text_of(each)}" for name, each in report.about.items() if each is not None and name != "kept"]
    return card(
        as_html(report.why) if report.why else None,
        _blends(report),
        _trials(report),
        _clips(report),
        details("The ranker", ranker_card(report.ranker)),
        title="FitReport",
        sentence=report.estimator + (f" ({', '.join(settings)})" if settings else ""),
    )


def _trials(report: FitReport) -> Html | None:
    """Each candidate with how far it is behind the best, within two standard errors."""
    if not report.trials:
        return None
    spans = [_behind(each) for each in report.trials]
    scale = scale_of(spans, 0.0)
    rows: list[list[Any]] = []
    for each, span in zip(report.trials, spans, strict=True):
        if each.failure:
            rows.append([each.name, "failed", "", "", "", each.failure])
            continue
        drawing = interval_svg(-each.behind, span, scale, mark=0.0, color=GREEN if each.kept else BLUE)
        behind, error = ("best", "") if each.behind == 0.0 else (f"{each.behind:.3g}", f"{each.error:.2g}")
        rows.append([each.name, each.status or each.value, behind, error, drawing, "✓" if each.kept else ""])
    head = ["candidate", f"held-out {report.metric}", "behind by", "standard error", "± 2 standard errors", "kept"]
    return table(head, rows, "lrrrll")


def _behind(each: Tried) -> tuple[float, float] | None:
    if each.failure:
        return None
    return -each.behind - 2.0 * each.error, -each.behind + 2.0 * each.error


def _blends(report: FitReport) -> Html | None:
    """Each blend with its gain over production and the lower bound of that."""
    if not report.blends:
        return None
    spans = [(each.lower, each.estimate + (each.estimate - each.lower)) for each in report.blends]
    scale = scale_of(spans, 0.0)
    rows: list[list[Any]] = []
    for each, span in zip(report.blends, spans, strict=True):
        drawing = interval_svg(each.estimate, span, scale, mark=0.0, color=GREEN if each.allowed else BLUE)
        rows.append([each.name, f"{each.estimate:.3g}", f"{each.lower:.3g}", drawing, "✓" if each.chosen else ""])
    bound = f"lower bound, {percent_text(report.safety or 0.0)}"
    head = ["against production", f"{report.metric} per session", bound, "", "returned"]
    return Html(heading("Blends") + table(head, rows, "lrrll"))


def _clips(report: FitReport) -> Html | None:
    if not report.clips:
        return None
    known = [each.validation for each in report.clips if each.validation is not None]
    scale = scale_of([(value, value) for value in known])
    best = report.about.get("clip")
    rows = [
        [
            _clip(each.clip) + " ✓" * (each.clip == best),
            each.validation if each.error is None else f"failed: {each.error}",
            interval_svg(each.validation, None, scale, color=GREEN if each.clip == best else BLUE),
        ]
        for each in report.clips
    ]
    side = "higher" if higher_is_better(report.metric) else "lower"
    return table(["", f"validation {report.metric}", f"{side} is better"], rows, "lrl")


def report_plot(report: FitReport) -> Any:
    """How far each candidate is behind the best; without candidates, the training curve."""
    if not report.trials:
        return ranker_plot(report.ranker)
    rows = []
    for each in report.trials:
        span = _behind(each)
        if span is not None:
            name = each.name + " (kept)" * each.kept
            rows.append({"panel": "", "name": name, "value": -each.behind, "low": span[0], "high": span[1]})
    about = f"{report.metric} on held-out clicks, less that of the best; ± 2 standard errors"
    return interval_plot(rows, "Candidates of cross-validation", about, zero=True)

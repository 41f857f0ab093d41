"""From labels or clicks, as options name them, to a trained ranker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterrank.cli.output import say
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank import Ranker, RankingData
    from counterrank.cli.clicks import ClickSource


def from_labels(
    ranker: Ranker, training: RankingData, held_out: RankingData | None, relevance_threshold: float, gain: str
) -> Ranker:
    """Train on the labels of the training part, with those of the other to stop early, if there is one."""
    from counterrank.estimators import full_information

    def weigh(part: RankingData) -> Any:
        return full_information(part, relevance_threshold, gain=gain)

    ranker.fit(training, weigh(training), validation=None if held_out is None else (held_out, weigh(held_out)))
    labels = {"name": "full-information", "relevance_threshold": relevance_threshold, "gain": gain}
    ranker.provenance_ |= {"clicks": None, "estimator": labels}
    return ranker


def from_clicks(
    ranker: Ranker,
    parts: dict[str, RankingData],
    held_out: RankingData | None,
    source: ClickSource,
    estimator: str,
    clip: str,
) -> tuple[Ranker, dict[str, Any]]:
    """Train on the clicks of the training part, with those of the validation part to stop early, if there are any."""
    from counterrank.training import fit_best_clip

    pages = estimator == "rerank"
    training = parts["train"]
    counts = source.load("train", parts, displays=pages)
    weigh, grid = source.weigher(estimator, counts, "train", parts)
    validation: Any = None
    about: dict[str, Any] = {"sessions": counts.n_sessions, "clicks": counts.n_clicks, "validation_clicks": None}
    other = None if held_out is None or source.is_single() else source.find("validation", parts, displays=pages)
    source.say_what_was_read()
    used = [counts] if held_out is None or other is None else [counts, other]
    if held_out is not None and other is not None:
        validation = (held_out, source.weigher(estimator, other, "validation", parts)[0]())
        about["validation_clicks"] = other.n_clicks
    else:
        say("Note: no clicks of a validation part, so training runs all epochs and keeps the last model.")
    named = {"name": estimator, "propensities": source.propensity_source}
    if clip == "auto":
        if validation is None:
            raise CounterrankError("clip='auto': judged by clicks of a validation part, and there are none")
        best = fit_best_clip(ranker, training, weigh, grid, validation=validation, clicks=used)
        tried = ", ".join(f"{trial.clip or 'none'}: {trial.validation}" for trial in best.trials)
        best.ranker.provenance_["estimator"] = {**named, "clip": best.clip, "clips_tried": tried}
        return best.ranker, {**about, "clip": best.clip, "clips_tried": tried}
    cap = parse_clip(clip)
    ranker.fit(training, weigh(clip=cap), validation=validation, clicks=used)
    ranker.provenance_["estimator"] = {**named, "clip": cap}
    return ranker, {**about, "clip": cap}


def parse_clip(text: str) -> float | None:
    """A cap on 1 / propensity from its text; None for none.

    >>> parse_clip("30"), parse_clip("none")
    (30.0, None)
    """
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise CounterrankError(f"clip={text!r}: expected 'none', 'auto' or a number above 0") from None

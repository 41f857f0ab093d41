"""`counterrank train` with estimators that make good use of few clicks, and with the one that chooses among them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from counterrank.cli.output import print_table, say
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank import ClickCounts, Ranker, RankingData
    from counterrank.cli.clicks import ClickSource
    from counterrank.training.from_clicks import FromClicks, Tried

ESTIMATORS = ("auto", "direct", "doubly-robust", "shrinkage")
_RELEVANCE_MODELS = ("ridge", "lightgbm", "mlp")


@dataclass(frozen=True)
class Choices:
    """What the options say about these estimators; None for what they leave open."""

    tau: float | None
    strength: float | None
    folds: int | None
    relevance_model: str | None

    def check(self, estimator: str, clip: float | None) -> None:
        """Refuse what cannot be, before any log is read."""
        for name, value in (
            ("tau", self.tau),
            ("strength", self.strength),
            ("folds", self.folds),
            ("relevance-model", self.relevance_model),
        ):
            if value is not None and estimator not in ESTIMATORS:
                raise CounterrankError(f"--{name}: expected one of the estimators {', '.join(ESTIMATORS)} with it")
        if estimator not in ESTIMATORS:
            return
        from counterrank.training.cross_fit import candidates

        if self.folds is not None and self.folds < 2:
            raise CounterrankError(f"--folds {self.folds}: expected at least 2")
        if self.relevance_model not in (None, *_RELEVANCE_MODELS):
            known = ", ".join(_RELEVANCE_MODELS)
            raise CounterrankError(f"--relevance-model {self.relevance_model}: expected one of {known}")
        candidates(estimator, self.tau, self.strength, clip)


def learn(
    ranker: Ranker,
    parts: Mapping[str, RankingData],
    both: bool,
    source: ClickSource,
    estimator: str,
    clip: float | None,
    choices: Choices,
) -> tuple[FromClicks, dict[str, Any]]:
    """Learn from the clicks of the training part, and of the validation part if both are wanted and it has some."""
    from counterrank.training import fit_from_clicks

    logs = {"train": source.load("train", parts)}
    other = source.find("validation", parts) if both else None
    if other is not None:
        logs["validation"] = other
    source.say_what_was_read()
    if source.alpha is not None and source.examination is not None:
        raise CounterrankError("--examination: under trust bias alpha stands in its place; expected one of them")
    exam, beta = _curves(source, logs["train"])
    evidence = {name: _propensities(source, counts, name, parts) for name, counts in logs.items()}
    result = fit_from_clicks(
        parts["train"],
        logs["train"],
        evidence["train"],
        validation=(parts["validation"], logs["validation"], evidence["validation"]) if len(logs) > 1 else None,
        estimator=estimator,
        ranker=ranker,
        model=choices.relevance_model or "ridge",
        tau=choices.tau,
        strength=choices.strength,
        clip=clip,
        exam=exam,
        beta=beta,
        folds=5 if choices.folds is None else choices.folds,
        seed=ranker.seed,
    )
    return result, {
        "queries": sum(int((counts.sessions > 0).sum()) for counts in logs.values()),
        "sessions": sum(counts.n_sessions for counts in logs.values()),
        "clicks": sum(counts.n_clicks for counts in logs.values()),
        "parts": " and ".join(logs),
    }


def told(result: FromClicks) -> dict[str, Any]:
    """What was tried and chosen, as JSON has it."""
    return {
        "chosen": {"estimator": result.estimator, **result.about},
        "why": result.why,
        "trials": [each.plain() for each in result.trials],
        "relevance": result.relevance.about,
    }


def show(result: FromClicks) -> None:
    """A table of what was tried, and the reasons for the choice."""
    if len(result.trials) > 1:
        rows = [(each.name, *_standing(each)) for each in result.trials]
        print_table("What was tried", ("estimator", f"held-out {result.metric}", "behind", "kept"), rows)
    say(result.why)
    model = result.relevance
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


def _propensities(source: ClickSource, counts: ClickCounts, part: str, data: Mapping[str, RankingData]) -> Any:
    """Of the policy that was named, else None: those logged, or how often the log shows each document."""
    if not source.policies and not source.loggers:
        if counts.propensities is None and source.alpha is None:
            source.curve(counts)  # tells what is missing, if it is
            say("Note: no policy is named, so propensities are what the log shows of each document.")
        return None
    if source.alpha is None:
        return source.propensities(counts, part, data)
    under_trust = copy(source)
    under_trust.examination = source.alpha
    return under_trust.propensities(counts, part, data)


def _curves(source: ClickSource, counts: ClickCounts) -> tuple[Any, Any]:
    """P(examined | rank), where it is known, or alpha; and beta."""
    if source.alpha is not None or source.beta is not None:
        from counterrank.cli.policies import trust_curves

        return trust_curves(source)
    if source.examination is None and counts.examination is None:
        say("Note: with --examination what was shown would count, and not only how likely that was.")
        return None, None
    return source.curve(counts), None

"""Propensities of the policies that options name: known, several in one log, or estimated from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from counterrank.cli.clicks import load_scores
from counterrank.cli.output import say
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank import ClickCounts, RankingData
    from counterrank.cli.clicks import ClickSource
    from counterrank.estimators import Evidence

ESTIMATED, FITTED = "estimated", "fitted-plackett-luce"
LOGGED_SCORES = "logging_score"
_STRAY = 0.001  # share of impressions that rounding of scores may put elsewhere


def policy_arguments(
    source: ClickSource, known: Evidence, part: str, data: Mapping[str, RankingData]
) -> dict[str, Any]:
    """What the options say about the policy, as arguments of `Evidence`."""
    kind = source.policies[0].partition(":")[0].strip() if len(source.policies) == 1 else ""
    if kind in (ESTIMATED, FITTED):
        if source.loggers:
            raise CounterrankError(f"--logger: policy {kind!r} is found from the log; expected it without --logger")
        return _estimated(source, known) if kind == ESTIMATED else _fitted(source, known, data[part])
    if not source.policies and not source.loggers:
        return {}
    if not source.policies or not source.loggers:
        raise CounterrankError("--policy, --logger: expected both, or none for logged propensities")
    from counterrank.clicks.policies.intervention_aware import check_all_candidates, refuse_contradictions

    check_all_candidates(known.clicks)
    refuse_contradictions(known.clicks)
    policy, scores = _known(source, part, data)
    names = known.clicks.policy_names
    if scores is not None and len(names) > 1:
        raise CounterrankError(
            f"--policy: one for a log of several ({', '.join(names)}); expected each by its name, such as "
            f"--policy {names[0]}={source.policies[0]}, or the sessions of one only, --only-policy {names[-1]}"
        )
    _check_all(source, known.clicks, policy, scores)
    return {"policy": policy, "scores": scores}


def _check_all(source: ClickSource, counts: ClickCounts, policy: Any, scores: Any) -> None:
    """Each policy that was named against its own pages."""
    known = {"": (policy, scores)} if scores is not None else policy
    for name, (one, own) in known.items():
        if not name or name in counts.policy_names:  # of others it is told where they are used
            _check_against_log(counts.only_policies([name]) if name else counts, one, own, name or source.policies[0])


def _check_against_log(counts: ClickCounts, policy: Any, scores: Any, name: str) -> None:
    """An error where the log shows what a policy cannot show, a warning where it does so more or less often."""
    from counterrank.clicks.policies.components import knows_propensity
    from counterrank.evaluation.inspection.click_tables import Seen
    from counterrank.evaluation.inspection.coverage import policy_check
    from counterrank.evaluation.inspection.findings import QuerySample

    if not counts.n_sessions or not knows_propensity(policy):
        return
    found = policy_check(counts, Seen.of(counts), policy, scores, QuerySample.of(counts))
    share = found["impossible_impressions"] / max(found["impressions_compared"], 1)
    if share > _STRAY:
        raise CounterrankError(
            f"--policy, --logger: {share:.1%} of what the log shows cannot come from {name} with these scores; "
            "expected the policy and the scores that made the pages (counterrank inspect tells more)"
        )
    if found["contradicted"]:
        say(
            f"Warning: the log shows documents more or less often than {name} would with these scores; what is "
            "computed from its propensities may be wrong (counterrank inspect tells more)."
        )


def trust_curves(source: ClickSource) -> tuple[list[float] | None, list[float] | None]:
    """Alpha and beta by rank; None where they are not given."""
    if bool(source.alpha) != bool(source.beta):
        raise CounterrankError("--alpha, --beta: expected both, by rank, such as 0.9,0.4 and 0.1,0.05")
    if source.alpha is None or source.beta is None:
        return None, None
    if source.examination is not None:
        raise CounterrankError("--examination: under trust bias alpha stands in its place; expected one of them")
    alpha, beta = ([_number(word, "alpha, beta") for word in text.split(",")] for text in (source.alpha, source.beta))
    return alpha, beta


def _known(source: ClickSource, part: str, data: Mapping[str, RankingData]) -> tuple[Any, Any]:
    """A policy and its scores; or several with theirs by name, and None."""
    from counterrank.clicks.policies.parsing import parse_policy

    named = named_policies(source.policies)
    if named is None:
        return parse_policy(single(source.policies)), scores_of(source, single(source.loggers), part, data)
    loggers = _loggers(source.loggers, named)
    return {
        name: (parse_policy(text), scores_of(source, loggers[name], part, data)) for name, text in named.items()
    }, None


def scores_of(source: ClickSource, logger: str, part: str, data: Mapping[str, RankingData]) -> Any:
    """What a policy ranked by: a ranker, a file, a feature, or the scores that stand in the log."""
    if logger != LOGGED_SCORES:
        return load_scores(logger, data[part], source.threads)
    from counterrank.clicks.logs.policy_columns import read_logging_scores

    if source.log is None:
        raise CounterrankError(f"--logger {LOGGED_SCORES}: a column of a log; expected --log too")
    own = source.file_of(part)
    parts = {part: data[part]} if own is not None else data
    scores = read_logging_scores(own or source.log, list(parts.values()), source.reading)
    return dict(zip(parts, scores, strict=True))[part]


def named_policies(texts: list[str]) -> dict[str, str] | None:
    """Policies by the names that the log has for them; None where there is one without a name.

    >>> named_policies(["new=replace-last:k=5", "old=deterministic:k=5"])
    {'new': 'replace-last:k=5', 'old': 'deterministic:k=5'}
    >>> named_policies(["0.9*deterministic:k=5 + 0.1*replace-last:k=5"]) is None
    True
    """
    split = [text.partition("=") for text in texts]
    named = {name.strip(): rest.strip() for name, equals, rest in split if equals and not set(":*") & set(name)}
    if not named and len(texts) == 1:
        return None
    if len(named) < len(texts):
        raise CounterrankError(
            f"--policy {', '.join(texts)}: several, not each with its own name; expected such as new=replace-last:k=5"
        )
    return named


def _loggers(texts: list[str], policies: Mapping[str, str]) -> dict[str, str]:
    """What each policy ranked by; one without a name serves all."""
    if len(texts) == 1 and texts[0].partition("=")[0] not in policies:
        return dict.fromkeys(policies, texts[0])
    named = {name: rest for name, _, rest in (text.partition("=") for text in texts)}
    missing = [name for name in policies if not named.get(name)]
    if missing or len(named) > len(policies):
        raise CounterrankError(
            f"--logger: expected one for each of {', '.join(policies)}, such as {next(iter(policies))}=FILE"
        )
    return named


def single(texts: list[str]) -> str:
    """The only one of the values of an option."""
    if len(texts) != 1:
        raise CounterrankError(
            f"--policy, --logger: {len(texts)} values for one policy; expected one, or names for each"
        )
    return texts[0]


def _estimated(source: ClickSource, known: Evidence) -> dict[str, Any]:
    """Display frequencies of the log: `estimated`, or `estimated:smoothing=auto`."""
    from counterrank.estimators import display_frequencies

    smoothing: Any = _settings(source.policies[0], ("smoothing",)).get("smoothing", "0")
    smoothing = smoothing if smoothing == "auto" else _number(smoothing, "smoothing")
    curve = known.alpha if known.alpha is not None else source.curve(known.clicks)
    found = display_frequencies(known.clicks, curve, smoothing)
    say(
        f"Propensities estimated from {known.clicks.n_sessions:,} pages; {len(found.uncovered):,} of "
        f"{known.clicks.n_docs:,} candidates were never shown."
    )
    return {"rho": found}


def _fitted(source: ClickSource, known: Evidence, data: RankingData) -> dict[str, Any]:
    """A Plackett-Luce policy over features: `fitted-plackett-luce:k=10`."""
    from counterrank.clicks.policies import fit_plackett_luce

    k = _settings(source.policies[0], ("k",)).get("k")
    if k is not None and not (k.isascii() and k.isdigit()):
        raise CounterrankError(f"policy {source.policies[0]!r}: k={k}; expected a whole number")
    found = fit_plackett_luce(data, known.clicks, None if k is None else int(k), threads=source.threads)
    say(
        f"Fitted a Plackett-Luce policy to {found.pages:,} pages: log-likelihood {found.log_likelihood:.2f} a page, "
        f"{found.uniform_log_likelihood:.2f} if pages were drawn uniformly; by its propensities pages hold "
        f"{found.candidates_found:.2g} times the candidates there are, 1 if the policy is of this form."
    )
    curve = known.curve if known.alpha is not None else source.curve(known.clicks)
    return {"rho": found.policy.propensity(found.scores, data.offsets, curve, threads=source.threads)}


def _settings(text: str, allowed: tuple[str, ...]) -> dict[str, str]:
    name, _, rest = text.partition(":")
    found = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals or key.strip() not in allowed:
            raise CounterrankError(f"policy {text!r}: {item!r}; expected settings of {name}: {', '.join(allowed)}")
        found[key.strip()] = value.strip()
    return found


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CounterrankError(f"{name}={text!r}: expected a number") from None

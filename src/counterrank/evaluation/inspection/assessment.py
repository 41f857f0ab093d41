"""Which estimators a log supports and why, and advice, in words. Every sentence follows from a number.

Estimators are those of the registry: each is assessed by its `log_condition` and by what it needs.
"""

from __future__ import annotations

import math

from counterrank.estimators.registry import ESTIMATORS, NEEDS, Estimator
from counterrank.evaluation.inspection.result import (
    THE_LOG,
    Finding,
    Inspection,
    about,
    old_ranks,
    percent,
    rank_list,
    some,
)

UNSEEN = 0.05  # share of candidates on no page above which it matters
FEW_QUERIES = 20  # effective number of queries: fewer may not be typical
ROUGH = 0.1  # standard error of a ratio of two ranks, sqrt(1 / clicks + 1 / clicks), at best
_DIFFERS = 0.001  # share of impressions whose logged propensity is another one
_APART = 1.1  # factor between them; an estimated curve makes smaller ones

POSITION_BIAS = "examination.estimate"

Assessment = tuple[str, str]  # level, text

_TOGETHER = (
    " It learns to order documents that were shown together; of others it knows nothing, so it stays biased towards "
    "the old ranking."
)


def _examinable(found: Inspection) -> Assessment:
    """Whether every candidate can be examined, and clicks are many enough for their importance weights."""
    level, text = _coverage_and_size(found)
    users = found.known.users
    return level, text if users is None else f"{text} With {users}, as in training (--users auto)."


def _coverage_and_size(found: Inspection) -> Assessment:
    weights = found.weights
    if found.known.refused is not None:
        return "bad", found.known.refused[0].upper() + found.known.refused[1:] + "."
    if weights is None:
        return "bad", f"No propensities: none were logged, and {_missing(found)}.{_same_pages(found)}"
    if contradiction := _contradiction(found):
        return "bad", contradiction
    if uncovered := _uncovered(found):
        return uncovered
    size = weights.effective_sample_size
    text = (
        f"effective sample size is {about(size)} of {some(weights.clicks, 'click')} "
        f"({percent(weights.effective_share_of_clicks)}); the largest 1 % of importance weights carry "
        f"{percent(weights.share_of_heaviest_percent)}."
    )
    if found.usable_size < size / 2:
        text += (
            f" Under this policy about {about(found.usable_size)} are expected if all candidates are equally likely to "
            "be clicked when examined: the clicks of largest importance weight have not happened yet."
        )
    if found.usable_size < found.target_size:
        return "warning", f"{_covered(found)} But the {text} The target is {found.target_size:,}."
    assert found.coverage is not None  # else not covered
    unseen, candidates = found.coverage.never_shown, found.coverage.candidates
    if unseen > UNSEEN * candidates:
        return "warning", (
            f"{_covered(found)} The {text} But {unseen:,} candidates ({percent(unseen / candidates)}) were on no page "
            "yet: their weight of 0 is no evidence, and clicks on them would have large importance weights."
        )
    return "good", f"{_covered(found)} The {text}"


def _covered(found: Inspection) -> str:
    covered = found.coverage
    if covered is None or covered.never_examinable is None:
        return f"All {covered.candidates if covered else 0:,} candidates were shown."
    return f"Every one of {covered.candidates:,} candidates can be examined."


def _missing(found: Inspection) -> str:
    known = found.known
    lacks = [
        name
        for name, there in (
            ("the policy", known.policy is not None),
            ("what it ranked by", known.scores),
            ("the examination curve", known.examination is not None),
        )
        if not there
    ]
    return (
        f"{' and '.join([', '.join(lacks[:-1]), lacks[-1]] if len(lacks) > 1 else lacks)} must be known to compute them"
    )


def _same_pages(found: Inspection) -> str:
    if found.pages.looks_like != "one page per query":
        return ""
    several = some(found.pages.queries_with_several_sessions, "query", "queries")
    text = (
        f" Each of {several} with several sessions got the same page every time: no propensities can bring back what "
        "is not on it"
    )
    covered = found.coverage
    return f"{text} ({covered.never_shown:,} of {covered.candidates:,} candidates)." if covered else f"{text}."


def _contradiction(found: Inspection) -> str:
    """Why the propensities cannot be those of this log; empty where nothing contradicts them."""
    check, logged, weights = found.policy_check, found.logged_check, found.weights
    if check and check.impossible_example:
        place = check.impossible_example
        return (
            f"The log contradicts {found.known.policy}: {some(check.impossible_impressions, 'impression')} "
            f"({percent(check.impossible_impressions / check.impressions_compared)}) of documents where it never "
            f"shows them, such as document {place.document} of query {place.query} (both from 0) at rank "
            f"{place.rank}. Policy or scores are not those of this log."
        )
    if weights and weights.impossible_clicks:
        return (
            f"{some(weights.impossible_clicks, 'click')} on documents with propensity 0, which cannot have "
            "happened: policy, scores or examination are not those of this log."
        )
    if check and check.contradicted and check.worst:
        worst = check.worst
        first, last = worst.old_rank_from, worst.old_rank_to
        where = f"rank {first}" if first == last else f"ranks {first} to {last}"
        return (
            f"The log contradicts {found.known.policy}: documents at {where} of the old ranking are on "
            f"{percent(worst.observed)} of the pages at rank {worst.rank}, where the policy puts them on "
            f"{percent(worst.expected)} (a right policy is accused in at most {percent(check.error_rate)} of "
            "logs)."
        )
    if logged and logged.differing_share_of_impressions > _DIFFERS and logged.largest_ratio > _APART:
        return (
            f"The propensities in the log differ from those computed for "
            f"{percent(logged.differing_share_of_impressions)} of the impressions, by a factor of up to "
            f"{logged.largest_ratio:.3g}: policy, scores or examination are not those it was logged with."
        )
    return ""


def _uncovered(found: Inspection) -> Assessment | None:
    """Candidates that can never be examined, or of which that is not known."""
    covered = found.coverage
    if covered is None:
        return "warning", (
            "Counted without ranking data: candidates that were never shown are not known, so neither is whether "
            "each of them can be examined. Training needs the data."
        )
    if covered.never_examinable:
        where = old_ranks(covered.by_old_rank or [], "can_never_be")
        return "bad", (
            f"{covered.never_examinable:,} of {covered.candidates:,} candidates "
            f"({percent(covered.never_examinable / covered.candidates)}), in "
            f"{some(covered.queries_with_a_never_examinable_candidate or 0, 'query', 'queries')}, "
            f"{'have propensity 0' if found.known.propensities == 'rho' else 'can never be examined'}"
            f"{', all ' + where if where else ''}: the clicks do not cover them (eq:awarecond)."
        )
    if covered.never_examinable is None and covered.never_shown:
        level = "bad" if found.pages.looks_like == "one page per query" else "warning"
        return level, (
            f"{covered.never_shown:,} of {covered.candidates:,} candidates were never shown, and without the "
            f"policy and what it ranked by it is not known whether they could have been.{_same_pages(found)}"
        )
    return None


def _under_trust_bias(found: Inspection, level: str, other: str) -> Assessment:
    """As another estimator with the same condition, if P(document at rank) is known."""
    if level == "bad":
        return "bad", f"For the same reason as {other}."
    kind = found.known.users_kind
    if kind == "affine":
        return level, f"As {other}: alpha and beta were fitted to the log."
    if kind is not None:
        return "warning", f"As {other}: the fit to the log has no trust bias, so it would be the same."
    is_given = found.known.propensities == "rho"  # by policies that are known where rho was computed
    if found.known.policy is None or not (found.known.scores or is_given):
        return "warning" if is_given else "bad", (
            "Requires P(document at rank), not propensities alone: the policy and what it ranked by, or display "
            "frequencies (--policy estimated)."
        )
    source = (
        "can be fitted to this log (--users auto), since documents move between its ranks"
        if len(found.connected) == 1 and len(found.connected[0]) > 1
        else "must come from elsewhere, or from documents with like features (--users features): no document moves "
        "between all ranks, so clicks alone do not separate trust bias from relevance"
    )
    return "warning", f"As {other}, where P(click) = alpha relevance + beta is known by rank. alpha and beta {source}."


def _every_page(found: Inspection) -> Assessment:
    """Whether every candidate is on every page."""
    covered = found.coverage
    if covered is None:
        return "warning", "Counted without ranking data: whether every candidate is on every page is not known."
    missing = max(covered.not_on_every_page, covered.not_examinable_on_every_page or 0)
    if missing:
        return "bad", (
            f"{missing:,} of {covered.candidates:,} candidates ({percent(missing / covered.candidates)}) are "
            "missing from some page of their query: item selection bias (eq:agnosticcond)."
        )
    if found.known.examination is None:
        return "warning", "Every candidate is on every page, but the examination curve must be known."
    return "good", f"All {covered.candidates:,} candidates are on every page of their query."


def _within_page(found: Inspection) -> Assessment:
    """Whether pages can be ranked by themselves."""
    level, _ = _every_page(found)
    if found.overview.impressions <= found.overview.sessions:
        return "bad", "Each page holds one document: there is nothing to order within it."
    if found.known.pages is None and found.known.log:
        curve = "" if found.known.examination else " The examination curve must be known too (--examination)."
        return "warning", f"Whole pages are in the log, where train --log reads them.{curve}{_TOGETHER}"
    if found.known.pages is None:
        return "warning", (
            "Requires whole pages, which these counts do not hold: a log has them (train --log), simulate keeps them "
            f"with --displays.{_TOGETHER}"
        )
    if found.known.examination is None:
        return "warning", "The pages are there, but the examination curve must be known."
    if level == "good":
        return "good", "Every page shows all candidates, so ranking within pages is ranking them all."
    return "warning", f"{some(found.known.pages, 'distinct page')} are there.{_TOGETHER}"


def _one_rank(found: Inspection) -> Assessment:
    """Whether position matters."""
    rows = [(row.rank, row.click_rate) for row in found.ranks if row.click_rate is not None]
    level, selection = _every_page(found)
    if len(rows) == 1 and level != "bad":
        return level, "There is one rank, so position does not matter; " + selection[0].lower() + selection[1:]
    if len(rows) == 1:
        return "bad", selection
    first, last = rows[0], rows[-1]
    text = (
        f"Confuses position with relevance: {percent(first[1])} of impressions at rank {first[0]} are clicked and "
        f"{percent(last[1])} at rank {last[0]}."
    )
    return "bad", f"{text} {selection}" if level == "bad" else text


def _position_bias(found: Inspection) -> Assessment:
    ranks = [rank for group in found.connected for rank in group]
    if len(ranks) < 2:
        return "bad", "All documents are at one rank: there is nothing to compare."
    if len(found.connected) > 1:
        groups = "; ".join(rank_list(group) for group in found.connected[:6])
        more = "" if len(found.connected) <= 6 else f" and {len(found.connected) - 6} more"
        return "bad", (
            f"Ranks fall into {len(found.connected)} groups ({groups}{more}) that no clicked document connects: "
            f"{found.pages.documents_at_several_ranks:,} of {found.pages.documents_shown:,} documents were "
            "seen at several ranks. How likely ranks are examined cannot be learned across groups; take the curve from "
            "elsewhere."
        )
    text = (
        f"All {len(ranks)} ranks are connected: {found.pages.documents_at_several_ranks:,} of "
        f"{found.pages.documents_shown:,} documents were seen at several of them."
    )
    clicks = [found.pages.comparing_clicks[rank - 1] for rank in ranks]
    if not all(clicks):
        return "bad", f"{text} But none of them was clicked at rank {ranks[clicks.index(0)]}: nothing compares it."
    doubts = _rough_curve(found, clicks)
    return ("warning", f"{text} But {'; '.join(doubts)}.") if doubts else ("good", text)


def _rough_curve(found: Inspection, clicks: list[float]) -> list[str]:
    """What makes an estimated curve rough, from the clicks that compare at each rank."""
    error, queries = math.sqrt(1.0 / clicks[0] + 1.0 / min(clicks)), found.pages.comparing_queries
    doubts = []
    if error > ROUGH:
        least = some(int(min(clicks)), "click")
        doubts.append(f"{least} at the least compared rank leave errors of {percent(error)} or more")
    if queries < FEW_QUERIES:
        weight = f"{queries:.2g} quer{'y' if queries == 1.0 else 'ies'}"
        doubts.append(f"the clicks that compare have the weight of {weight}, which may not be typical")
    return doubts


# by `Estimator.log_condition`
_ASSESSMENTS = {
    "examinable": _examinable,
    "every-page": _every_page,
    "within-page": _within_page,
    "one-rank": _one_rank,
}


def _assessed_estimators() -> list[Estimator]:
    """The registered estimators whose condition a log can show."""
    return [estimator for estimator in ESTIMATORS.values() if estimator.log_condition is not None]


def assessed_names() -> tuple[str, ...]:
    """What `inspect_clicks` has a finding about besides the log: registered estimators, and that of position bias.

    >>> assessed_names()
    ('policy-aware', 'affine', 'policy-oblivious', 'rerank', 'naive', 'examination.estimate')
    """
    return (*(estimator.name for estimator in _assessed_estimators()), POSITION_BIAS)


def assess(found: Inspection) -> tuple[Finding, ...]:
    """One finding for each estimator, in the order of the registry, and those about the log as a whole."""
    if not found.overview.clicks:
        text = f"{some(found.overview.sessions, 'session')} and no click: there is nothing to learn from."
        return tuple(Finding(name, "bad", text) for name in (THE_LOG, *assessed_names()))
    findings = [Finding(estimator.name, *_assess(found, estimator)) for estimator in _assessed_estimators()]
    return (*findings, Finding(POSITION_BIAS, *_position_bias(found)), *_about_the_log(found))


def _assess(found: Inspection, estimator: Estimator) -> Assessment:
    """By the condition of an estimator, and by what it needs."""
    condition = str(estimator.log_condition)
    level, text = _ASSESSMENTS[condition](found)
    if "trust" in estimator.needs:
        like = (other.name for other in _assessed_estimators() if other.log_condition == condition)
        return _under_trust_bias(found, level, next(like))
    known = {
        "propensities": found.weights is not None,
        "exposure": found.weights is not None or found.known.examination is not None,
        "examination": found.known.examination is not None,
        "displays": found.known.pages is not None or found.known.log,
    }
    missing = [NEEDS[need].meaning for need in estimator.needs if not known.get(need, True)]
    return ("warning", f"{text} But {missing[0]} must be known.") if level == "good" and missing else (level, text)


def _about_the_log(found: Inspection) -> list[Finding]:
    texts = []
    drift, names, source = found.drift, found.overview.policies, found.known.propensities
    if drift and drift.material and drift.rate_before is not None and drift.rate_after is not None:
        change = "" if drift.relative_change is None else f", {drift.relative_change:+.0%}".replace("%", " %")
        texts.append(
            f"The click rate changed over time: {percent(drift.rate_before)} before {drift.change_begin}, "
            f"{percent(drift.rate_after)} from then on{change} (a log without a change is accused in at most "
            f"{percent(drift.error_rate)} of cases). Was the ranker, the page or the logging changed?"
        )
    texts += _contexts(found)
    combined = {"mean": "means over all sessions of a query", "realised": "how often documents were shown"}
    if len(names) > 1 and source in combined:
        texts.append(
            f"The log names {len(names)} policies ({', '.join(names)}): propensities are {combined[source]}, not those "
            "of each click."
        )
    users = found.users
    if users is not None and users.recommended not in (None, "position-based"):
        texts.append(f"{users.sentences[0]} Estimators by an examination curve alone do not take this into account.")
    return [Finding(THE_LOG, "warning", text) for text in texts]


def _contexts(found: Inspection) -> list[str]:
    """Whether users examine ranks differently in different contexts."""
    table = found.contexts
    if table is None:
        return []
    if table.refused is not None:
        return [f"Examination curves of the contexts cannot be compared: {table.refused}."]
    if not table.differ or table.p_value is None:
        return []
    factor = table.shape_p_value is not None and table.shape_p_value >= table.error_rate
    return [
        f"Users examine ranks differently in the contexts {', '.join(table.contexts[:5])}"
        f"{' and others' if len(table.contexts) > 5 else ''} (p = {table.p_value:.1g}; contexts without a difference "
        f"are accused in about {percent(table.error_rate)} of logs)"
        f"{', by a factor that is the same at all ranks' if factor else ''}: one curve for all of them is wrong for "
        "each. Estimate and use the curves by context."
    ]


def advise(found: Inspection) -> tuple[str, ...]:
    """What to change in logging so that the log supports more, most useful first; empty where nothing is missing."""
    if not found.overview.clicks:
        return ("Log more sessions; the click rate cannot be estimated yet.",)
    more = _randomise(found)
    return tuple(filter(None, (_propensities(found), more, _sessions(found, bool(more)), _unseen(found), _move(found))))


def _by_frequency(found: Inspection) -> bool:
    """Whether propensities are how often the log shows documents, since nothing says how pages were made."""
    known = found.known
    return known.users is not None and known.policy is None and known.propensities == "realised"


def _propensities(found: Inspection) -> str:
    if found.weights is not None and not _by_frequency(found):
        return ""
    if found.known.refused is not None:
        return (
            "Specify every policy of the log (--policy NAME=..., with --logger), give the examination curve "
            "(--examination), or use the sessions of a policy that may show every candidate (--only-policy). Log each "
            "policy under a name of its own."
        )
    text = (
        "Log a propensity with each document that is shown (policy.display gives it), or name what made the pages: "
        f"{_lacking_options(found)}."
    )
    if found.known.policy is None and found.pages.ranks_that_change:
        median = found.sessions.quantiles["median"]
        text += (
            " Where that is not known, --policy estimated takes display frequencies (the median query has "
            f"{about(median)} sessions to estimate them), --policy fitted-plackett-luce a fitted policy."
        )
    return text


def _enough(found: Inspection) -> bool:
    hidden = found.coverage and found.coverage.never_examinable
    return found.weights is not None and not hidden and found.usable_size >= found.target_size


def _randomise(found: Inspection) -> str:
    """The least randomisation of each family that reaches the target at as many sessions."""
    table, lacks = found.remedies, _lacking_options(found)
    if table is None:
        if found.pages.looks_like == "one page per query":
            return (
                "Show a page now and then that is a little random, such as uniform-insert "
                f"(counterrank plan computes how much{', as does this command with ' + lacks if lacks else ''})."
            )
        return ""
    if _enough(found):
        return ""
    head = f"For an effective sample size of {found.target_size:,}"
    reach = [row.least for row in table.families.values() if row.least]
    best = [(row.best.policy, row.best.sessions_for_target) for row in table.families.values()]
    needs = [(policy, sessions) for policy, sessions in best if sessions]
    if reach:
        options = "; ".join(f"{row.policy} ({about(row.effective_sample_size)})" for row in reach)
        text = (
            f"{head} at {about(table.sessions)} sessions this much randomisation is enough, the least of each "
            f"kind that was tried: {options}."
        )
    elif needs:
        options = "; ".join(f"{policy} {about(sessions)}" for policy, sessions in needs)
        text = (
            f"{head} no policy that was tried needs as few as {about(table.sessions)} sessions. Sessions it takes: "
            f"{options}."
        )
    else:
        return ""
    text += " What a policy costs users meanwhile: counterrank plan."
    assumed = table.assumed_click_rate
    if assumed is not None:
        text += (
            f" (Candidates that this log does not cover are assumed to be clicked {percent(assumed)} of the times "
            "they are examined, as the others are on average.)"
        )
    return text


def _sessions(found: Inspection, has_other: bool) -> str:
    """How many sessions of this policy it takes; only where the policy reaches everything."""
    if found.coverage is None or found.coverage.never_examinable != 0 or _enough(found) or not found.usable_size:
        return ""
    times = found.target_size / found.usable_size
    total = f"about {about(times * found.overview.sessions)} sessions in all, {_factor(times)} times as many"
    reach = f"bring the effective sample size to {found.target_size:,}"
    if has_other:
        return f"Or keep the logging policy: {total}, {reach}."
    text = f"Log more sessions of this policy: {total}, {reach}."
    lacks = _lacking_options(found)
    return f"{text} With {lacks}: how many a more random policy takes." if lacks else text


def _lacking_options(found: Inspection) -> str:
    """The options that were not given and without which other policies are not computed, in words.

    Empty where none would help: for several policies, or one that is estimated, nothing is computed.
    """
    known = found.known
    if found.remedies is not None or (known.policy is not None and not known.scores):
        return ""
    given = {
        "--data": known.candidates,
        "--policy": known.policy is not None or (found.weights is not None and not _by_frequency(found)),
        "--logger": known.scores,
        "--examination": known.examination is not None,
    }
    lacks = [option for option, there in given.items() if not there]
    return " and ".join(filter(None, (", ".join(lacks[:-1]), *lacks[-1:])))


def _factor(times: float) -> str:
    return f"{times:.2g}" if times < 10.0 else about(times)


def _unseen(found: Inspection) -> str:
    covered = found.coverage
    if covered is None or covered.expected_never_shown is None or not covered.could_have_been_shown:
        return ""
    never, expected = covered.could_have_been_shown, covered.expected_never_shown
    if never < UNSEEN * covered.candidates:
        return ""
    needed = covered.sessions_to_show_95_percent
    text = (
        f"{never:,} of {covered.candidates:,} candidates could have been shown and were not yet (about "
        f"{about(expected)} are expected to be on no page): they have weight 0, which is no evidence against "
        "them."
    )
    return f"{text} After about {about(needed)} sessions 95 % will have been shown." if needed else text


def _move(found: Inspection) -> str:
    if len(found.connected) < 2:
        return ""
    depth = max(rank for group in found.connected for rank in group)
    return (
        f"To learn how likely ranks are examined, let documents move between ranks: uniform-insert:k={depth} or "
        f"plackett-luce:k={depth}, in some of the sessions at least, connects all {depth} ranks. Without that trust "
        "bias, more clicks on irrelevant documents at high ranks, can be neither seen nor corrected by comparing "
        f"ranks. 0.5*uniform-insert:k={depth} + 0.5*deterministic:k={depth} costs users about as much as "
        f"replace-last:k={depth}; counterrank plan has the figures."
    )

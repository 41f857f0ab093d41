"""What to change in logging, so that the log supports more."""

from __future__ import annotations

from counterrank.evaluation.inspection.found import Inspection
from counterrank.evaluation.inspection.words import about, percent


def advise(found: Inspection) -> tuple[str, ...]:
    """Sentences, most useful first; none where nothing is missing."""
    if not found.overview["clicks"]:
        return ("Log more sessions; the click rate cannot be told yet.",)
    return tuple(
        filter(None, (_propensities(found), _randomise(found), _sessions(found), _unseen(found), _move(found)))
    )


def _propensities(found: Inspection) -> str:
    if found.weights is not None:
        return ""
    if found.known.refused is not None:
        return (
            "Specify every policy of the log (--policy NAME=..., with --logger), give the examination curve "
            "(--examination), or use the sessions of a policy that may show every candidate (--only-policy). Log each "
            "policy under a name of its own."
        )
    text = (
        "Log a propensity with each document that is shown (policy.display gives it), or name what made the pages: "
        "--policy, --logger and --examination."
    )
    if found.known.policy is None and found.pages["ranks_that_change"]:
        median = found.sessions["quantiles"]["median"]
        text += (
            " Where that is not known, --policy estimated takes display frequencies (the median query has "
            f"{about(median)} sessions to tell them), --policy fitted-plackett-luce a fitted policy."
        )
    return text


def _enough(found: Inspection) -> bool:
    hidden = (found.coverage or {}).get("never_examinable", 0)
    return found.weights is not None and not hidden and found.usable_size >= found.target_size


def _randomise(found: Inspection) -> str:
    """The least randomisation of each family that reaches the target at as many sessions."""
    table = found.remedies
    if table is None:
        if found.pages["looks_like"] == "one page per query":
            return (
                "Show a page now and then that is a little random, such as replace-last or uniform-insert "
                "(counterrank plan tells how much); with --data, --policy, --logger and --examination this command "
                "tells it too."
            )
        return ""
    if _enough(found):
        return ""
    head = f"For an effective sample size of {found.target_size:,}"
    reach = [row["least"] for row in table["families"].values() if row["least"]]
    best = [row["best"] for row in table["families"].values() if row["best"]["sessions_for_target"]]
    if reach:
        options = "; ".join(f"{row['policy']} ({about(row['effective_sample_size'])})" for row in reach)
        text = (
            f"{head} at {about(table['sessions'])} sessions this much randomisation is enough, the least of each "
            f"kind that was tried: {options}."
        )
    elif best:
        options = "; ".join(f"{row['policy']} {about(row['sessions_for_target'])}" for row in best)
        text = (
            f"{head} no policy that was tried needs as few as {about(table['sessions'])} sessions. Sessions it takes: "
            f"{options}."
        )
    else:
        return ""
    text += " What a policy costs users meanwhile: counterrank plan."
    assumed = table["assumed_click_rate"]
    if assumed is not None:
        text += (
            f" (Candidates that this log cannot speak for are taken to be clicked {percent(assumed)} of the times "
            "they are examined, as the others are on average.)"
        )
    return text


def _sessions(found: Inspection) -> str:
    """How long to go on as before; only where the policy reaches everything."""
    if (found.coverage or {}).get("never_examinable", 1) or _enough(found) or not found.usable_size:
        return ""
    times = found.target_size / found.usable_size
    return (
        f"Or go on as before: about {about(times * found.overview['sessions'])} sessions in all, {times:.2g} times "
        f"as many, bring the effective sample size to {found.target_size:,}."
    )


def _unseen(found: Inspection) -> str:
    covered = found.coverage or {}
    never, expected = covered.get("could_have_been_shown", 0), covered.get("expected_never_shown")
    if expected is None or not never or never < 0.05 * covered["candidates"]:
        return ""
    needed = covered["sessions_to_show_95_percent"]
    text = (
        f"{never:,} of {covered['candidates']:,} candidates could have been shown and were not yet (some "
        f"{about(expected)} were to be expected to be on no page): they have weight 0, which is no evidence against "
        "them."
    )
    return f"{text} After about {about(needed)} sessions 95 % will have been shown." if needed else text


def _move(found: Inspection) -> str:
    if len(found.connected) < 2:
        return ""
    depth = max(rank for group in found.connected for rank in group)
    return (
        f"To learn how likely ranks are examined, let documents move between ranks: uniform-insert:k={depth} or "
        f"plackett-luce:k={depth}, in some of the sessions at least, connects all {depth} ranks."
    )

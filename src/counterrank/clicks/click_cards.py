"""What a notebook shows of click counts and examination curves, their summaries and their charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.common.checks import IntArray
from counterrank.common.notebook import (
    POPULATIONS,
    Html,
    Summary,
    bar_svg,
    card,
    facts,
    heading,
    interval_svg,
    interval_texts,
    level_text,
    notes,
    percent_text,
    row,
    table,
)
from counterrank.common.plotting import curve_plot

if TYPE_CHECKING:
    from counterrank.clicks.browsing import SequentialUsers
    from counterrank.clicks.counts import ClickCounts
    from counterrank.clicks.examination import Examination
    from counterrank.clicks.logs.log_reader import FoldClicks
    from counterrank.clicks.policies.propensity import EstimatedPropensity
    from counterrank.clicks.position_bias import EstimatedExamination
    from counterrank.clicks.trust_bias import EstimatedAffine
    from counterrank.clicks.user_models import Affine

_RANKS = 20  # ranks in a table or chart; what is further down says little
_ENDLESS = 10  # ranks shown of a curve without an end


def rank_rows(clicks: ClickCounts) -> list[dict[str, Any]]:
    """Impressions, clicks and click rate of each rank that was shown, the first twenty of them."""
    shown, clicked = clicks.by_rank(clicks.impressions), clicks.by_rank(clicks.clicks)
    ranks = np.flatnonzero(shown > 0.0)[:_RANKS]
    return [
        {
            "rank": int(i) + 1,
            "impressions": int(shown[i]),
            "clicks": int(clicked[i]),
            "value": float(clicked[i] / shown[i]),
        }
        for i in ranks
    ]


def counts_summary(clicks: ClickCounts) -> Summary:
    """The facts of click counts."""
    policies = None
    if clicks.policy_sessions is not None and clicks.distinct_policies:
        policies = dict.fromkeys(clicks.distinct_policies, 0)
        for name, own in zip(clicks.policy_names, clicks.policy_sessions, strict=True):
            policies[name] += int(own.sum())
    return Summary(
        sessions=clicks.n_sessions,
        impressions=clicks.n_impressions,
        clicks=clicks.n_clicks,
        clicks_per_session=clicks.n_clicks / clicks.n_sessions if clicks.n_sessions else None,
        queries=clicks.n_queries,
        queries_with_sessions=int(np.count_nonzero(clicks.sessions)),
        documents=clicks.n_docs,
        documents_shown=_documents(clicks, clicks.impressions),
        documents_clicked=_documents(clicks, clicks.clicks),
        counted_with_data=clicks.knows_candidates,
        propensities_logged=clicks.propensities is not None,
        distinct_pages=None if clicks.displays is None else clicks.displays.n_pages,
        sessions_by_policy=policies,
        **({"sessions_by_context": clicks.context_sessions} if clicks.contexts else {}),
        impressions_of_unknown_documents=clicks.unknown_impressions,
        paths=list(clicks.origin.paths) if clicks.origin is not None else None,
    )


def _documents(clicks: ClickCounts, values: IntArray) -> int:
    """How many documents have cells with values above 0."""
    found = np.zeros(clicks.n_docs, np.bool_)
    found[clicks.docs[values > 0]] = True
    return int(np.count_nonzero(found))


def counts_card(clicks: ClickCounts) -> Html:
    """Sizes, and the click rate by rank."""
    found = counts_summary(clicks)
    known = "" if found["counted_with_data"] else " (of those that were seen)"
    about: dict[str, Any] = {
        "sessions": found["sessions"],
        "impressions": found["impressions"],
        "clicks": found["clicks"],
        "clicks a session": found["clicks_per_session"],
        "queries with sessions": f"{found['queries_with_sessions']:,} of {found['queries']:,}{known}",
        "documents shown": f"{found['documents_shown']:,} of {found['documents']:,}{known}",
        "documents clicked": f"{found['documents_clicked']:,}",
        "propensities": "logged" if found["propensities_logged"] else "not logged",
        "distinct pages": "not kept" if found["distinct_pages"] is None else found["distinct_pages"],
    }
    if found["paths"]:
        about["read from"] = found["paths"]
    rows = rank_rows(clicks)
    most = max((each["value"] for each in rows), default=0.0) or 1.0
    cells = [
        [f"{each['rank']}", each["impressions"], each["clicks"], percent_text(each["value"]), _rate_bar(each, most)]
        for each in rows
    ]
    by_policy = None
    if found["sessions_by_policy"]:
        by_policy = table(["policy", "sessions"], list(found["sessions_by_policy"].items())[:_RANKS], "lr")
    by_context = table(["context", "sessions"], list(clicks.context_sessions.items())[:_RANKS], "lr")
    unknown = found["impressions_of_unknown_documents"]
    left_out = [f"{unknown:,} impressions of documents that the data does not have are left out"] if unknown else []
    return card(
        notes(left_out),
        row(
            facts(about),
            table(["rank", "impressions", "clicks", "click rate", ""], cells, "rrrrl"),
            by_policy,
            by_context if clicks.contexts else None,
        ),
        title="ClickCounts",
        sentence=f"{found['clicks']:,} clicks in {found['sessions']:,} sessions of "
        f"{found['queries_with_sessions']:,} queries",
    )


def _parts(clicks: FoldClicks) -> dict[str, ClickCounts | None]:
    return {"train": clicks.train, "validation": clicks.validation, "test": clicks.test}


def fold_clicks_summary(clicks: FoldClicks) -> Summary:
    """The facts of the clicks of each part, and what became of the rows of the log."""
    parts = {name: None if part is None else counts_summary(part) for name, part in _parts(clicks).items()}
    read = clicks.report.summary()
    kept = ("log", "rows", "rows_used", "rows_dropped", "rows_of_unknown_queries", "rows_of_unknown_documents")
    return Summary(parts | {"read": {name: read[name] for name in kept}})


def fold_clicks_card(clicks: FoldClicks) -> Html:
    """A row for each part, and what became of the rows of the log."""
    rows = []
    for name, part in _parts(clicks).items():
        if part is None:
            rows.append([name, "none", "", "", "", "", ""])
            continue
        found = counts_summary(part)
        queries = f"{found['queries_with_sessions']:,} of {found['queries']:,}"
        shown = f"{found['documents_shown']:,} of {found['documents']:,}"
        rate = percent_text(found["clicks"] / found["impressions"]) if found["impressions"] else ""
        rows.append([name, found["sessions"], queries, shown, found["impressions"], found["clicks"], rate])
    head = ["part", "sessions", "queries with sessions", "documents shown", "impressions", "clicks", "click rate"]
    report = clicks.report
    return card(
        notes(report.messages()),
        table(head, rows, "lrrrrrr"),
        title="FoldClicks",
        sentence=f"{report.used:,} of {report.rows:,} rows of {report.name} used",
    )


def _rate_bar(each: dict[str, Any], most: float) -> Html:
    return bar_svg(each["value"] / most)


def counts_plot(clicks: ClickCounts) -> Any:
    """Click rate by rank; with the curve that simulated clicks were made with, scaled to the first rank."""
    rows = rank_rows(clicks)
    curve, subtitle = clicks.examination, f"{clicks.n_clicks:,} clicks in {clicks.n_sessions:,} sessions"
    if curve is not None and rows and not clicks.contexts:
        theta = curve.curve(rows[-1]["rank"])
        first = theta[rows[0]["rank"] - 1]
        if first > 0.0:
            rows = [each | {"expected": rows[0]["value"] * float(theta[each["rank"] - 1] / first)} for each in rows]
            subtitle += "; dashed: P(examined), scaled to the first rank"
    return curve_plot(rows, "Click rate by rank", subtitle, percent=True)


def propensity_summary(found: EstimatedPropensity) -> Summary:
    """The facts of propensities that were estimated from pages."""
    shown = found.propensities > 0.0
    known = found.propensities[shown]
    more = {name: getattr(found, name) for name in ("never_shown", "smoothing") if hasattr(found, name)}  # of a log
    errors = (found.standard_errors[shown] / known)[~np.isnan(found.standard_errors[shown])]
    return Summary(
        documents=len(shown),
        documents_shown=len(known),
        pages=found.samples,
        propensities=(float(known.min()), float(known.max())) if len(known) else None,
        median_propensity=float(np.median(known)) if len(known) else None,
        largest_weight=float(1.0 / known.min()) if len(known) else None,
        largest_relative_error=float(errors.max()) if len(errors) else None,
        **{name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in more.items()},
    )


def propensity_text(found: EstimatedPropensity) -> str:
    """Estimated propensities in a line."""
    about = propensity_summary(found)
    span = "" if about["propensities"] is None else ", propensities {:.3g} to {:.3g}".format(*about["propensities"])
    each, added = " a query", ""
    if "smoothing" in about:
        each, added = "", f", {'smoothing' if any(about['smoothing']) else 'no smoothing'}"
    return (
        f"{type(found).__name__}({about['documents_shown']:,} of {about['documents']:,} documents shown on "
        f"{about['pages']:,} pages{each}{span}{added})"
    )


def propensity_card(found: EstimatedPropensity) -> Html:
    """The range of the propensities, and how far they are known."""
    about = propensity_summary(found)
    unseen = about.get("never_shown", 0)
    lost = [f"{unseen:,} documents of logged queries are on no page and have propensity 0"] if unseen else []
    words = {name.replace("_", " "): value for name, value in about.items()}
    return card(notes(lost), facts(words), title=type(found).__name__)


def curve_summary(exam: Examination) -> Summary:
    """The values by rank."""
    n = exam.k or _ENDLESS
    return Summary(ranks=exam.k, values=exam.curve(n).tolist(), **({} if exam.k else {"goes_on": True}))


def curve_card(exam: Examination) -> Html:
    """P(examined | rank), a row for each rank."""
    values = exam.curve(min(exam.k or _ENDLESS, _RANKS)).tolist()
    rows = [[f"{i + 1}", f"{value:.4g}", bar_svg(value)] for i, value in enumerate(values)]
    if exam.k is None or exam.k > len(rows):
        rows.append(["…", "", ""])
    sentence = "no last rank" if exam.k is None else f"{exam.k} ranks, 0 beyond"
    return card(table(["rank", "P(examined)", ""], rows, "rrl"), title=type(exam).__name__, sentence=sentence)


def curve_chart(exam: Examination) -> Any:
    """P(examined | rank) over the rank."""
    values = exam.curve(exam.k or _ENDLESS).tolist()
    rows = [{"rank": i + 1, "value": value} for i, value in enumerate(values)]
    return curve_plot(rows, "P(examined | rank)", "" if exam.k else "the first ranks of a curve without an end")


def affine_summary(users: Affine) -> Summary:
    """alpha and beta by rank."""
    more = {} if users.relevance is None else {"relevance": users.relevance}
    return Summary(ranks=users.k, alpha=users.alpha.tolist(), beta=users.beta.tolist(), **more)


def affine_card(users: Affine) -> Html:
    """alpha and beta, a row for each rank."""
    pairs = list(zip(users.alpha.tolist(), users.beta.tolist(), strict=True))[:_RANKS]
    rows = [[f"{i + 1}", f"{a:.4g}", f"{b:.4g}", bar_svg(a + b)] for i, (a, b) in enumerate(pairs)]
    if users.k > len(rows):
        rows.append(["…", "", "", ""])
    columns = ["rank", "alpha", "beta", "P(click | relevance 1)"]
    sentence = f"P(click) = alpha relevance + beta, {users.k} ranks"
    return card(table(columns, rows, "rrrl"), title=type(users).__name__, sentence=sentence)


def affine_chart(users: Affine) -> Any:
    """P(click) of documents of relevance 0 and 1 over the rank."""
    rows = [
        {"rank": i + 1, "value": float(value), "relevance": name}
        for name, values in (("relevance 1", users.alpha + users.beta), ("relevance 0", users.beta))
        for i, value in enumerate(values)
    ]
    return curve_plot(rows, "P(click | relevance, rank)", series="relevance")


def browsing_summary(users: SequentialUsers) -> Summary:
    """P(examined) by rank on average over pages, and what the model consists of."""
    return Summary(ranks=users.k, examination=users.average_curve().tolist(), **users.describe())


def browsing_card(users: SequentialUsers) -> Html:
    """P(examined) on average, without a click above and with one directly above, a row for each rank."""
    n = min(users.k, _RANKS)
    chances, onward, curve = users.chances(n), users.onward(n), users.average_curve()
    rows = [
        [
            f"{i + 1}",
            f"{curve[i]:.4g}",
            f"{chances[i, 0]:.4g}",
            "" if i == 0 else f"{chances[i, i] * onward[i - 1]:.4g}",
            bar_svg(curve[i]),
        ]
        for i in range(n)
    ]
    if users.k > n:
        rows.append(["…", "", "", "", ""])
    columns = ["rank", "P(examined)", "no click above", "click directly above", ""]
    sentence = f"examination depends on the clicks above, {users.k} ranks"
    return card(table(columns, rows, "rrrrl"), title=type(users).__name__, sentence=sentence)


def browsing_chart(users: SequentialUsers) -> Any:
    """P(examined) over the rank: on average, without a click above, and with one directly above."""
    n = users.k
    chances, onward = users.chances(n), users.onward(n)
    lines = {
        "on average": users.average_curve(),
        "no click above": chances[:, 0],
        "click directly above": np.append(np.nan, np.diag(chances)[1:] * onward[: n - 1]),
    }
    rows = [
        {"rank": i + 1, "value": float(value), "pages": name}
        for name, values in lines.items()
        for i, value in enumerate(values)
        if not np.isnan(value)
    ]
    return curve_plot(rows, "P(examined)", series="pages")


def estimated_affine_summary(found: EstimatedAffine) -> Summary:
    """alpha, beta and their intervals by rank, and what they are from."""
    ends = {"alpha": found.alpha_interval, "beta": found.beta_interval}
    return Summary(
        method=found.method,
        alpha={f"rank {rank}": float(value) for rank, value in zip(found.ranks, found.alpha, strict=True)},
        beta={f"rank {rank}": float(value) for rank, value in zip(found.ranks, found.beta, strict=True)},
        intervals={
            f"{name}, rank {rank}": (float(a), float(b))
            for name, pairs in ends.items()
            for rank, (a, b) in zip(found.ranks, pairs, strict=True)
        },
        confidence=found.confidence,
        population=found.target,
        p_value_of_position_based=None if found.test is None else found.test.p_value,
        sessions=found.n_sessions,
        clicks=found.n_clicks,
        documents=found.n_documents,
        queries=found.n_queries,
        warnings=list(found.warnings),
    )


def estimated_affine_card(found: EstimatedAffine) -> Html:
    """alpha and beta with the interval of each rank."""
    rows = []
    columns = (found.ranks, found.alpha, found.alpha_interval, found.beta, found.beta_interval)
    for rank, *pairs in list(zip(*columns, strict=True))[:_RANKS]:
        texts = [interval_texts(float(pairs[i]), (float(pairs[i + 1][0]), float(pairs[i + 1][1]))) for i in (0, 2)]
        drawings = [
            interval_svg(float(pairs[i]), (float(pairs[i + 1][0]), float(pairs[i + 1][1])), (0.0, 1.0)) for i in (0, 2)
        ]
        rows.append([f"{rank}", *texts[0], drawings[0], *texts[1], drawings[1]])
    if len(found.ranks) > _RANKS:
        rows.append(["…", *[""] * 6])
    about = {
        "method": found.method,
        "from": f"{found.n_clicks:,} clicks on {found.n_documents:,} documents of {found.n_queries:,} queries, "
        f"{found.n_sessions:,} sessions",
        "intervals": f"{_level(found)}, for {POPULATIONS[found.target]}",
    }
    if found.test is not None:
        about["position-based model"] = f"p = {found.test.p_value:.3g}"
    return card(
        notes(found.warnings),
        facts(about),
        heading("P(click) = alpha relevance + beta"),
        table(["rank", "alpha", "interval", "", "beta", "interval", ""], rows, "rrrlrrl"),
        title="EstimatedAffine",
    )


def estimated_affine_chart(found: EstimatedAffine) -> Any:
    """P(click) of documents of relevance 0 and 1 over the rank."""
    return affine_chart(found)


def _level(found: EstimatedExamination | EstimatedAffine) -> str:
    return f"{level_text(found.confidence)}s, each for one rank"


def estimated_summary(found: EstimatedExamination) -> Summary:
    """The values and intervals by rank, and what they are from."""
    return Summary(
        method=found.method,
        values={f"rank {rank}": float(value) for rank, value in zip(found.ranks, found.values, strict=True)},
        intervals={
            f"rank {rank}": (float(a), float(b)) for rank, (a, b) in zip(found.ranks, found.intervals, strict=True)
        },
        confidence=found.confidence,
        population=found.target,
        sessions=found.n_sessions,
        clicks=found.n_clicks,
        documents=found.n_documents,
        queries=found.n_queries,
        warnings=list(found.warnings),
    )


def estimated_card(found: EstimatedExamination) -> Html:
    """P(examined | rank) relative to rank 1, with the interval of each rank."""
    highest = max(1.0, float(np.nanmax(found.intervals[:_RANKS], initial=1.0)))
    rows = []
    for rank, value, (low, high) in list(zip(found.ranks, found.values, found.intervals, strict=True))[:_RANKS]:
        pair = (float(low), float(high))
        number, interval = ("1", "by definition") if rank == 1 else interval_texts(float(value), pair)
        drawing = interval_svg(float(value), None if rank == 1 else pair, (0.0, highest))
        rows.append([f"{rank}", number, interval, drawing])
    if len(found.ranks) > _RANKS:
        rows.append(["…", "", "", ""])
    about = {
        "method": found.method,
        "from": f"{found.n_clicks:,} clicks on {found.n_documents:,} documents of {found.n_queries:,} queries, "
        f"{found.n_sessions:,} sessions",
        "intervals": f"{_level(found)}, for {POPULATIONS[found.target]}",
    }
    return card(
        notes(found.warnings),
        facts(about),
        heading("P(examined | rank) / P(examined | rank 1)"),
        table(["rank", "estimate", "interval", ""], rows, "rrrl"),
        title="EstimatedExamination",
    )


def estimated_chart(found: EstimatedExamination) -> Any:
    """The curve with its intervals."""
    rows = [
        {"rank": int(rank), "value": float(value), "low": float(low), "high": float(high)}
        for rank, value, (low, high) in zip(found.ranks, found.values, found.intervals, strict=True)
    ]
    return curve_plot(rows, "P(examined | rank) relative to rank 1", f"{found.method}; {_level(found)}")

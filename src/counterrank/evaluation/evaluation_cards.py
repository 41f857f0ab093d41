"""What a notebook shows of estimates, click rates, selections, inspections and plans: sentences, tables and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from counterrank.common.notebook import (
    BLUE,
    GREEN,
    ORANGE,
    POPULATIONS,
    RED,
    Html,
    Summary,
    as_html,
    card,
    facts,
    heading,
    interval_svg,
    interval_texts,
    level_text,
    notes,
    percent_text,
    scale_of,
    table,
)
from counterrank.common.plotting import curve_plot, interval_plot
from counterrank.evaluation.metrics import higher_is_better

if TYPE_CHECKING:
    from counterrank.evaluation.click_metrics import Estimate, Selection
    from counterrank.evaluation.click_rates import ClickRates
    from counterrank.evaluation.comparison_plan import ComparisonPlan
    from counterrank.evaluation.deployment import Verdict
    from counterrank.evaluation.inspection.result import Inspection
    from counterrank.evaluation.logging_plan import LoggingPlan

DECISIONS = {"better": (GREEN, "✓"), "worse": (RED, "✗"), "undecided": (ORANGE, "?")}
LEVELS = {"good": (GREEN, "✓", "supported"), "warning": (ORANGE, "!", "with care"), "bad": (RED, "✗", "not supported")}
_RANKS = 20


def _kinds(one: Estimate) -> list[tuple[str, float | None, tuple[float, float] | None]]:
    """Both estimates of a metric, those that it has, by name."""
    kinds = [
        ("per session", one.ips, one.ips_interval),
        ("self-normalised", one.self_normalized, one.self_normalized_interval),
    ]
    return [kind for kind in kinds if kind[1] is not None] or kinds[1:]


def estimate_text(one: Estimate) -> str:
    """The `repr` of an estimate, one line."""
    parts = []
    for name, value, interval in (
        ("ips", one.ips, one.ips_interval),
        ("self_normalized", one.self_normalized, one.self_normalized_interval),
    ):
        if value is not None:
            number, span = interval_texts(value, interval, sign=one.is_difference)
            parts.append(f"{name} {number}" + ("" if interval is None else f" ({span})"))
    what = f"difference of {one.metric}" if one.is_difference else one.metric
    doubts = f"; {len(one.doubts)} doubt{'s' * (len(one.doubts) > 1)}" if one.doubts else ""
    level = f"{100.0 * one.confidence:.4g} % intervals for {POPULATIONS[one.population]}"
    return f"Estimate({what}: {', '.join(parts) or 'none'}; {level}; {one.n_clicks:,} clicks{doubts})"


def estimate_sentence(one: Estimate) -> str:
    """The estimate in words; of a comparison, the verdict on it."""
    if one.is_difference:
        from counterrank.evaluation.deployment import verdict  # which imports estimates

        text = verdict(one, names=("the first ranking", "the second")).sentence
        return text[:1].upper() + text[1:]
    kind, value, interval = _kinds(one)[0]
    if value is None:
        return f"{one.metric} cannot be estimated from these clicks."
    number, span = interval_texts(value, interval)
    about = "no confidence interval: too little data" if interval is None else f"{level_text(one.confidence)} {span}"
    side = "" if higher_is_better(one.metric) else "; lower is better"
    seen = ", in-sample" if one.in_sample else ""
    return f"{one.metric} {kind} {number} ({about}{side}), for {POPULATIONS[one.population]}{seen}."


def estimate_summary(one: Estimate) -> Summary:
    """All fields, with the sentence first."""
    return Summary({"sentence": estimate_sentence(one)} | asdict(one))


def estimates_card(found: Mapping[str, Estimate]) -> Html:
    """Sentences, intervals, and what they are from."""
    first = next(iter(found.values()), None)
    if first is None:
        return card(title="Estimates", sentence="none")
    rows = []
    for one in found.values():
        color = _color(one)
        for i, (kind, value, interval) in enumerate(_kinds(one)):
            number, span = interval_texts(value, interval, sign=one.is_difference)
            scale = scale_of([interval, None if value is None else (value, value)], 0.0)
            drawing = interval_svg(value, interval, scale, mark=0.0, color=BLUE if i else color)
            rows.append([one.metric if i == 0 else "", kind, number, span, drawing])
    about = {
        "from": f"{first.n_clicks:,} clicks in {first.n_sessions:,} sessions of {first.n_queries:,} queries",
        "effective sample size": f"{first.effective_sample_size:,.0f}",
        "heaviest click": f"{percent_text(first.largest_share)} of the weight",
        "method": {"ips": "inverse propensities", "dr": "doubly robust"}.get(first.method, first.method),
        "control variates": first.control,
        "propensities": first.propensities,
    }
    sentences = [as_html(estimate_sentence(one)) for one in found.values()]
    doubts = dict.fromkeys(f"{one.metric}: {doubt}" for one in found.values() for doubt in one.doubts)
    head = ["metric", "", "estimate", level_text(first.confidence), "dashed: 0"]
    return card(
        Html("".join(f"<div>{sentence}</div>" for sentence in sentences)),
        notes(doubts),
        table(head, rows, "llrrl"),
        facts(about),
        title="Comparison of two rankings" if first.is_difference else "Estimates from clicks",
    )


def _color(one: Estimate) -> str:
    if not one.is_difference:
        return BLUE
    from counterrank.evaluation.deployment import verdict

    decision = verdict(one).decision
    return BLUE if decision == "undecided" else DECISIONS[decision][0]


def estimates_plot(found: Mapping[str, Estimate]) -> Any:
    """Intervals, a panel for each metric."""
    rows = [
        {"panel": f"{one.metric} {kind}", "name": one.metric, "value": value}
        | ({} if interval is None else {"low": interval[0], "high": interval[1]})
        for one in found.values()
        for kind, value, interval in _kinds(one)
    ]
    first = next(iter(found.values()))
    title = "Difference of two rankings" if first.is_difference else "Estimates from clicks"
    about = f"{level_text(first.confidence)}s for {POPULATIONS[first.population]}"
    return interval_plot(rows, title, about, zero=first.is_difference)


def verdict_card(found: Verdict) -> Html:
    """The sentence, and the interval of the gain with its margin."""
    color, mark = DECISIONS["better" if found.passes else "worse" if found.decision == "worse" else "undecided"]
    interval = None if found.lower is None or found.upper is None else (found.lower, found.upper)
    number, span = interval_texts(found.estimate, interval, sign=True, marks=(0.0, found.margin))
    scale = scale_of([interval], 0.0, found.margin)
    drawing = interval_svg(found.estimate, interval, scale, mark=found.margin, color=color)
    head = ["gain", level_text(found.confidence), f"dashed: the margin, {found.margin:g}", "passes"]
    return card(
        notes([found.sentence], color, mark),
        notes(found.doubts),
        table(head, [[number, span, drawing, found.passes]], "rrlr"),
        title="Verdict",
        sentence=found.decision,
    )


def selection_text(found: Selection) -> str:
    """The `repr` of a selection, one line."""
    seen = ", in-sample" if found.in_sample else ""
    return (
        f"Selection(index {found.index} of {len(found.estimates)} by {found.metric}, "
        f"stability {found.stability:.3g}{seen})"
    )


def _selection_sentence(found: Selection) -> str:
    best = repr(found.best) if hasattr(found.best, "predict") else ""
    named = f", {best}," if best and best[0] != "<" and "\n" not in best and len(best) < 120 else ""
    return (
        f"Ranker {found.index}{named} is the best of {len(found.estimates)} by {found.metric}: chosen in "
        f"{percent_text(found.stability)} of the resamples of the queries{', in-sample' * found.in_sample}."
    )


def selection_summary(found: Selection) -> Summary:
    """The choice, and the estimate of each ranker."""
    rankers = {
        f"ranker {i}": {"estimate": one.self_normalized, "interval": one.self_normalized_interval, "chosen": share}
        for i, (one, share) in enumerate(zip(found.estimates, found.shares, strict=True))
    }
    return Summary(
        sentence=_selection_sentence(found),
        index=found.index,
        metric=found.metric,
        stability=found.stability,
        in_sample=found.in_sample,
        **rankers,
    )


def selection_card(found: Selection) -> Html:
    """The choice, and the self-normalised estimate of each ranker on one scale."""
    scale = scale_of([one.self_normalized_interval for one in found.estimates])
    rows = []
    for i, (one, share) in enumerate(zip(found.estimates, found.shares, strict=True)):
        number, span = interval_texts(one.self_normalized, one.self_normalized_interval)
        color = GREEN if i == found.index else BLUE
        drawing = interval_svg(one.self_normalized, one.self_normalized_interval, scale, color=color)
        rows.append([f"ranker {i}" + " ✓" * (i == found.index), number, span, drawing, percent_text(share)])
    first = found.estimates[0]
    doubts = dict.fromkeys(doubt for one in found.estimates for doubt in one.doubts)
    side = "higher" if higher_is_better(found.metric) else "lower"
    head = ["", f"{found.metric}, self-normalised", level_text(first.confidence), f"{side} is better", "chosen in"]
    return card(notes(doubts), table(head, rows, "lrrlr"), title="Selection", sentence=_selection_sentence(found))


def selection_plot(found: Selection) -> Any:
    """The self-normalised estimates of all rankers with their intervals."""
    rows = []
    for i, one in enumerate(found.estimates):
        low, high = one.self_normalized_interval or (None, None)
        name = f"ranker {i}" + " (best)" * (i == found.index)
        rows.append({"panel": found.metric, "name": name, "value": one.self_normalized, "low": low, "high": high})
    about = f"self-normalised, {level_text(found.estimates[0].confidence)}s"
    return interval_plot(rows, f"Rankers by {found.metric}", about)


def inspection_card(found: Inspection) -> Html:
    """The verdict on each estimator, advice, and the click rate by rank."""
    boxes = []
    for finding in found.verdict:
        color, mark, word = LEVELS[finding.level]
        label = "look here" if finding.about == "the log" else word
        box = notes([f"{finding.about} ({label}): {finding.text}"], color, mark)
        boxes.append(box or Html(""))
    advice = Html("".join(f"<li>{as_html(text)}</li>" for text in found.advice))
    overview = found.overview
    return card(
        as_html(found.headline),
        Html("".join(boxes)),
        heading("What to change in logging") if advice else None,
        Html(f'<ol style="margin:2px 0">{advice}</ol>') if advice else None,
        heading("Which user model this log supports") if found.users is not None else None,
        Html("".join(f"<p>{as_html(text)}</p>" for text in found.users.sentences)) if found.users is not None else None,
        heading("Click rate by rank, 95 % confidence intervals"),
        _rate_table(found),
        title="Inspection",
        sentence=f"{overview.sessions:,} sessions, {overview.clicks:,} clicks",
    )


def _rate_table(found: Inspection) -> Html:
    shown = [each for each in found.ranks if each.click_rate is not None][:_RANKS]
    highest = max((each.high or 0.0 for each in shown), default=1.0) or 1.0
    rows = []
    for each in shown:
        interval = None if each.low is None or each.high is None else (each.low, each.high)
        drawing = interval_svg(each.click_rate, interval, (0.0, highest))
        examined = "–" if each.examination is None else f"{each.examination:.3g}"
        rate = percent_text(each.click_rate or 0.0)
        span = "–" if interval is None else f"{percent_text(interval[0])} to {percent_text(interval[1])}"
        rows.append([f"{each.rank}", each.impressions, rate, span, drawing, examined])
    return table(["rank", "impressions", "click rate", "interval", "", "P(examined)"], rows, "rrrrlr")


def inspection_text(found: Inspection) -> str:
    """The `repr` of an inspection, one line."""
    return f"Inspection({found.overview.sessions:,} sessions, {found.overview.clicks:,} clicks; {found.headline})"


def inspection_plot(found: Inspection) -> Any:
    """Click rate by rank with its intervals; dashed, P(examined) scaled to the first rank."""
    shown = [each for each in found.ranks if each.click_rate is not None]
    rows: list[dict[str, Any]] = [
        {"rank": each.rank, "value": each.click_rate, "impressions": each.impressions}
        | ({} if each.low is None or each.high is None else {"low": each.low, "high": each.high})
        for each in shown
    ]
    subtitle, first = "95 % confidence intervals", shown[0] if shown else None
    if first is not None and first.examination and first.click_rate is not None:
        for line, each in zip(rows, shown, strict=True):
            if each.examination is not None:
                line["expected"] = first.click_rate * each.examination / first.examination
        subtitle += "; dashed: P(examined), scaled to the first rank"
    return curve_plot(rows, "Click rate by rank", subtitle, percent=True)


def rates_card(found: ClickRates, rows: Sequence[Mapping[str, Any]]) -> Html:
    """The rates of some documents with their intervals, and what they are from."""
    lines = []
    for row in rows:
        interval = (row["rate_low"], row["rate_high"])
        counts = [row["impressions"], row["clicks"], f"{row['examinations']:,.1f}"]
        rates = [f"{row['raw_rate']:.3f}", *interval_texts(row["rate"], interval, marks=(0.0, 1.0))]
        drawing = interval_svg(row["rate"], interval, (0.0, 1.0))
        lines.append([str(row["query_id"]), str(row["doc_id"]), *counts, *rates, drawing, f"{row['shrunk_rate']:.3f}"])
    head = ["query", "document", "impressions", "clicks", "examinations", "raw rate", "debiased rate",
            f"its {level_text(found.confidence)}", "0 to 1", "shrunk rate"]  # fmt: skip
    clipped = f"debiased rates clipped to 0 or 1: {found.n_clipped:,} of {len(found):,}, with few expected examinations"
    return card(
        table(head, lines, "llrrrrrrlr"),
        facts({"examination": found.about_curve, "shrunk": found.about_prior}),
        notes([clipped] if found.n_clipped else []),
        title="Click rates without position bias",
        sentence=f"{len(found):,} documents of {found.n_queries:,} queries, {found.clicks.sum():,} clicks of "
        f"{found.impressions.sum():,} impressions; the best documents of the queries with the most impressions:",
    )


def rates_plot(found: ClickRates, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Debiased rates with their intervals, and shrunk rates, a panel for each query."""
    kinds = (("debiased", "rate", "rate_low", "rate_high"), ("shrunk", "shrunk_rate", "", ""))
    values = [
        {"panel": f"query {row['query_id']}", "name": f"{row['doc_id']}, {kind}", "value": row[rate]}
        | ({"low": row[low], "high": row[high]} if low else {})
        for row in rows
        for kind, rate, low, high in kinds
    ]
    about = f"P(click | examined), {level_text(found.confidence)}s of the debiased rates"
    return interval_plot(values, "Click rates without position bias", about)


def plan_text(plan: LoggingPlan) -> str:
    """The `repr` of a plan, one line."""
    price = "" if plan.price is None else f", price {percent_text(plan.price)} of {plan.metric}"
    return f"LoggingPlan({plan.policy}: {percent_text(plan.covered)} of the candidates covered{price})"


def plans_summary(plans: Sequence[LoggingPlan]) -> Summary:
    """By policy, and by number of sessions."""
    return Summary(
        {
            plan.policy: {
                "covered": plan.covered,
                "reached": plan.reached,
                "price": plan.price,
                **{f"after {each.sessions:,} sessions": asdict(each) for each in plan.expected},
            }
            for plan in plans
        }
    )


def plans_card(plans: Sequence[LoggingPlan]) -> Html:
    """Advice, and a row for each policy and number of sessions."""
    from counterrank.evaluation.logging_advice import advise_logging  # which imports plans

    if not plans:
        return card(title="Logging plans", sentence="none")
    rows = []
    for plan in plans:
        price = "–" if plan.price is None else percent_text(plan.price)
        lead = [plan.policy, percent_text(plan.covered) + ", biased" * plan.is_biased, price]
        for i, each in enumerate(plan.expected):
            width = "–" if each.ips_width is None else f"{each.ips_width:.3g}" + " (in doubt)" * each.is_doubtful
            size = f"{each.effective_sample_size:,.0f}"
            seen = percent_text(each.seen)
            rows.append([*(["", "", ""] if i else lead), each.sessions, f"{each.clicks:,.0f}", size, width, seen])
        if not plan.expected:
            rows.append([*lead, "", "", "", "", ""])
    first = plans[0]
    head = ["policy", "covered", "price", "sessions", "clicks", "effective sample size", "interval width", "examined"]
    advice = Html("".join(f"<div>{as_html(text)}</div>" for text in advise_logging(plans)))
    what = f"{first.metric} per session, {level_text(first.confidence)}s for {POPULATIONS[first.population]}"
    return card(advice, table(head, rows, "lrrrrrrr"), title="Logging plans", sentence=what)


def plans_plot(plans: Sequence[LoggingPlan]) -> Any:
    """The width of the interval over the number of sessions, a line for each policy."""
    rows = [
        {"sessions": each.sessions, "value": each.ips_width, "policy": plan.policy}
        for plan in plans
        for each in plan.expected
        if each.ips_width is not None
    ]
    first = plans[0]
    title = f"Width of the confidence interval of {first.metric}"
    return curve_plot(rows, title, "expected, by logging policy", x="sessions", log=True, series="policy")


def comparison_plans_card(plans: Sequence[ComparisonPlan], sentences: Sequence[str]) -> Html:
    """Advice, and a row for each policy."""
    if not plans:
        return card(title="Plans of a comparison", sentence="none")
    rows = []
    for plan in plans:
        price = "–" if plan.price is None else percent_text(plan.price)
        needed = "never" if plan.sessions is None else f"{plan.sessions:,}"
        covered = covered_in_words(plan)
        rows.append([plan.policy, needed, f"{plan.deviation:.3g}", price, covered, percent_text(plan.reached)])
    first = plans[0]
    head = ["policy", "sessions to decide", "deviation per session", "price", "unbiased for", "reached"]
    what = f"{first.metric} per session, effect {first.effect:+.3g}, {level_text(first.confidence)}s"
    advice = Html("".join(f"<div>{as_html(text)}</div>" for text in sentences))
    return card(advice, table(head, rows, "lrrrlr"), title="Plans of a comparison", sentence=what)


def covered_in_words(plan: ComparisonPlan) -> str:
    """For which metric a comparison is unbiased."""
    if plan.unbiased:
        return plan.metric
    if plan.decides:
        return f"{plan.metric}, nearly"
    return f"{plan.metric.partition('@')[0]}@{plan.covered_to}" if plan.covered_to else "none"


def comparison_plans_plot(plans: Sequence[ComparisonPlan]) -> Any:
    """The power over the number of sessions, a line for each policy that can decide."""
    able = [(plan, plan.sessions) for plan in plans if plan.sessions is not None]
    least = min((sessions for _, sessions in able), default=1000)
    sizes = [max(1, round(least * 10.0 ** (step / 6.0))) for step in range(-6, 19)]
    rows = [
        {"sessions": size, "value": plan.power_after(size), "policy": plan.policy} for plan, _ in able for size in sizes
    ]
    title = f"P(the better ranker is known) by {plans[0].metric}" if plans else "Plans of a comparison"
    return curve_plot(rows, title, "expected, by logging policy", x="sessions", log=True, series="policy")

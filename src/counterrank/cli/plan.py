"""`counterrank plan`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from counterrank.cli import options as shared
from counterrank.cli.command import CLICKS, COMPARISON, EVALUATION, OUTPUT, USERS, explicit_options
from counterrank.cli.evidence import load_scores, parse_count, parts_of, read_examination, read_users
from counterrank.cli.options import option, reads_data
from counterrank.cli.output import check_out, print_json, print_table, print_text, say, show_warnings
from counterrank.common.checks import check_number, check_whole
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank.data import RankingData
    from counterrank.data.sources import DataOptions
    from counterrank.evaluation import ComparisonPlan, ComparisonPlans, LoggingPlan

_POPULATIONS = {"these-queries": "these queries alone", "queries": "queries like these"}


@reads_data
def plan(
    data: shared.Data,
    logger: shared.RankedBy,
    examination: shared.Examination = None,
    users: shared.SimulatedUsers = None,
    policy: Annotated[
        list[str] | None,
        option(
            "Logging policies: {policies}. Repeat for several; epsilon=0.01..0.5 is a range, and without its "
            "epsilon or temperature a policy stands for several. All if not given, which requires --page.",
            "POLICY",
            CLICKS,
        ),
    ] = None,
    page: Annotated[int | None, option("Number of results on a page, where --policy has no k.", "N", CLICKS)] = None,
    n_sessions: Annotated[str, option("Numbers of sessions, comma-separated.", "LIST")] = "1e4,1e5,1e6",
    ranker: Annotated[
        Path | None,
        option(
            "The ranker (or scores, as --logger) that clicks are to evaluate; the logger if not given.",
            "PATH",
            EVALUATION,
        ),
    ] = None,
    width: Annotated[
        float | None, option("Width of the confidence interval to reach: in how many sessions does each policy?", "X")
    ] = None,
    effective_sample_size: Annotated[
        float | None, option("Effective sample size to reach: in how many sessions does each policy?", "N")
    ] = None,
    metric: Annotated[str, option("dcg, dcg@k or precision@k.", "NAME", EVALUATION)] = "dcg@5",
    population: shared.Population = "these-queries",
    confidence: shared.Confidence = 0.95,
    relevance_threshold: shared.Threshold = 3,
    relevant: shared.Relevant = 1.0,
    other: shared.Other = 0.1,
    click_rate: Annotated[
        float | None, option("P(click | examined) of every document, in place of labels.", "X", USERS)
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        option(
            "Two rankers (or scores, as --logger): which logging policy decides between them with the fewest sessions, "
            "and its cost to users? Requires --page.",
            "A B",
            COMPARISON,
        ),
    ] = None,
    effect: Annotated[
        float | None,
        option(
            "The expected difference of the two per session, as estimate --against gives it; that of the guess of "
            "relevance if not given.",
            "X",
            COMPARISON,
        ),
    ] = None,
    power: Annotated[float, option("P(the right decision) after the planned sessions.", "X", COMPARISON)] = 0.8,
    relevance: Annotated[
        Path | None,
        option(
            "The guess of relevance in place of labels: click counts of an earlier log (a folder), to which a "
            "relevance model is fitted, or P(click | examined) of each document, a file as --logger.",
            "PATH",
            COMPARISON,
        ),
    ] = None,
    logopt_scores: Annotated[
        Path | None,
        option(
            "Write the logging scores of LogOpt (.parquet, .csv, or a TREC run): log with plackett-luce by them.",
            "PATH",
            COMPARISON,
        ),
    ] = None,
    part: shared.Part = "train",
    out: Annotated[
        Path | None, option("Write a page (.html), or the chart alone (.png, .svg).", "PATH", OUTPUT)
    ] = None,
    force: shared.Force = False,
    seed: shared.Seed = 0,
    threads: shared.Threads = None,
    json: shared.Json = False,
    *,
    opening: DataOptions,
) -> None:
    """Plan logging: how many sessions, how much randomisation, and what it costs users, before any page is shown.

    Example: counterrank plan synthetic:mslr --logger production --examination inverse-rank:eta=1 --page 5 --width 0.01

    To compare two rankers: counterrank plan DATA --logger production --examination CURVE --page 5 --compare A B
    """
    from counterrank.clicks.policies.pages import takes_two_rankings
    from counterrank.clicks.policies.parsing import POLICIES, parse_policies, score_spread
    from counterrank.clicks.users import ClickModel
    from counterrank.data.sources import choose_part
    from counterrank.evaluation import advise_logging, plan_comparison, plan_logging
    from counterrank.evaluation.planned_users import equal_price_mixture

    _check_mode(compare is not None, page)
    amounts = sorted({parse_count(word.strip(), "--n-sessions") for word in n_sessions.split(",")})
    if examination is None and users is None:
        raise CounterrankError("--examination: required, or --users; expected such as inverse-rank:eta=1, or yandex")
    if page is not None:
        check_whole(page, "page")
    elif not policy:
        raise CounterrankError("--page: required where --policy has no k; expected such as --page 5")
    for name, wanted in (("width", width), ("effective_sample_size", effective_sample_size)):
        if wanted is not None:
            check_number(wanted, name, above=0)
    if out is not None and out.suffix.lower() not in (".html", ".png", ".svg"):
        raise CounterrankError(f"{out}: unknown kind of file; expected one that ends in .html, .png or .svg")
    inputs = (data, logger, ranker, examination, users, *(compare or ()), relevance)
    check_out(out, force, inputs)
    check_out(logopt_scores, force, inputs)
    opened = opening.open(data, threads)
    chosen = choose_part(opened, part, data)
    if chosen.labels is None and click_rate is None and relevance is None:
        other_guess = " or --relevance" if compare else ""
        raise CounterrankError(
            f"{data}: has no labels; expected --click-rate, P(click | examined), such as 0.1{other_guess}"
        )
    exam = None if users is None else read_users(users, [chosen], ("click_rate",))
    told = click_rate is not None or exam is not None or relevance is not None
    clicks = None if told else ClickModel(relevant, other)
    if exam is None:
        examination = examination or "inverse-rank:eta=1"  # the paper's
        exam = read_examination(examination)
    scores = load_scores(logger, chosen, threads)
    clicked = f"{relevant:g} of examined documents with label {relevance_threshold:g} and above, {other:g} of others"
    by_labels = None if clicks or click_rate else users
    assumed = {
        "data": f"{data}, {part}",
        "queries": chosen.n_queries,
        "candidates": chosen.n_docs,
        "logger": str(logger),
        "examination": examination or f"that of {users}",
    }
    interval = f"{confidence:.4g}, for {_POPULATIONS.get(population, population)}"
    if compare is not None:
        assert page is not None
        guess = None if relevance is None else _read_guess(relevance, chosen, parts_of(opened, part), part, threads)
        with show_warnings():
            plans_to_compare = plan_comparison(
                chosen,
                load_scores(compare[0], chosen, threads),
                load_scores(compare[1], chosen, threads),
                exam,
                production=scores,
                k=page,
                policies=None if not policy else parse_policies(policy, page, score_spread(scores, chosen.offsets)),
                metric=metric,
                effect=effect,
                relevance=guess,
                click_model=clicks,
                click_rate=click_rate,
                relevance_threshold=relevance_threshold,
                population=population,
                confidence=confidence,
                power=power,
                names=(str(compare[0]), str(compare[1])),
                seed=seed,
                threads=threads,
            )
        if relevance is not None:
            clicked = f"by {relevance}"
        elif by_labels or click_rate is not None:
            clicked = _clicks(clicked, click_rate, by_labels)
        assumed |= {"A": str(compare[0]), "B": str(compare[1]), "clicks": clicked, "intervals": interval}
        _finish_comparison(plans_to_compare, chosen, assumed, out, logopt_scores, json)
        return
    planned = partial(
        plan_logging,
        chosen,
        scores,
        exam=exam,
        sessions=amounts,
        scores=None if ranker is None else load_scores(ranker, chosen, threads),
        metric=metric,
        population=population,
        confidence=confidence,
        relevance_threshold=relevance_threshold,
        click_model=clicks,
        click_rate=click_rate,
        seed=seed,
        threads=threads,
    )
    with show_warnings():
        named = parse_policies(policy or POLICIES, page, score_spread(scores, chosen.offsets))
        # what interleaves two rankings is planned by --compare
        plans = planned(policies={name: own for name, own in named.items() if policy or not takes_two_rankings(own)})
        # what all families of policies leave out: uniform insertion at the price of replace-last
        mixture = None if policy else equal_price_mixture(plans)
        if mixture is not None:
            plans += planned(policies=parse_policies([mixture]))
    advice = advise_logging(plans, width, effective_sample_size)
    if ranker is None:
        advice.append("The intervals are those of the logger, whose documents are shown most; --ranker names another.")
    if population == "these-queries":
        advice.append("Intervals are for these queries alone; estimate has them with --population these-queries.")
    assumed |= {
        "ranker to evaluate": str(ranker or logger),
        "clicks": _clicks(clicked, click_rate, by_labels),
        "intervals": interval,
    }
    rows = [_row(found, width, effective_sample_size) for found in plans]
    content = {"advice": advice, "metric": metric, "assumed": assumed, "plans": rows}
    if out is not None:
        _write(content, out, width, effective_sample_size)
    if json:
        # the key that 0.1 wrote
        assumed["ranker to be judged"] = assumed["ranker to evaluate"]
        print_json({**content, "width": width, "effective": effective_sample_size, "out": out and str(out)})
        return
    _print(content, amounts, width, effective_sample_size)
    if out is not None:
        say(f"Written to {out}.")


def _check_mode(compares: bool, page: int | None) -> None:
    """Refuse options of the one kind of plan together with the other."""
    if compares:
        if page is None:
            raise CounterrankError("--page: required with --compare, the number of results on a page, such as 5")
        clash, needed = explicit_options("n_sessions", "ranker", "width", "effective_sample_size"), "no --compare"
    else:
        clash, needed = explicit_options("effect", "power", "relevance", "logopt_scores"), "--compare A B"
    if clash:
        raise CounterrankError(f"{clash[0]}: expected {needed} with it")


def _read_guess(path: Path, data: RankingData, parts: dict[str, RankingData], part: str, threads: int | None) -> Any:
    """P(click | examined) of each document: of a model fitted to click counts, or from a file."""
    from counterrank.clicks.stored_clicks import StoredClicks, holds_counts
    from counterrank.estimators import fit_relevance

    if not holds_counts(path):
        return load_scores(path, data, threads)
    with show_warnings():
        found = fit_relevance(data, StoredClicks([path]).load(part, parts))
    say(f"Relevance fitted to {path}: {found.about}.")
    return found


def _finish_comparison(
    plans: ComparisonPlans,
    data: RankingData,
    assumed: dict[str, Any],
    out: Path | None,
    logopt_scores: Path | None,
    json: bool,
) -> None:
    """Write the files, and print the plans of a comparison."""
    from counterrank.evaluation import ranked_rows, write_run
    from counterrank.report import write_comparison_report

    metric = plans[0].metric
    rows = [_comparison_row(found) for found in plans]
    advice = plans.advice()
    content = {"advice": advice, "metric": metric, "guess": plans.guess, "effect": plans[0].effect}
    content |= {"recommended": plans.recommended and plans.recommended.policy, "assumed": assumed, "plans": rows}
    if logopt_scores is not None:
        (own,) = (found for found in plans if found.optimised_for)
        write_run(ranked_rows(own.arms[0].scores, data), logopt_scores)
    if out is not None:
        facts = [(key, f"{value:,}" if isinstance(value, int) else value) for key, value in assumed.items()]
        write_comparison_report({**content, "title": f"A or B by {metric.upper()}", "facts": facts}, out)
    if json:
        files = {"out": out and str(out), "logopt_scores": logopt_scores and str(logopt_scores)}
        print_json({**content, "confidence": plans[0].confidence, "power": plans[0].power, **files})
        return
    for sentence in advice:
        print_text(sentence)
    print_table(
        f"Sessions until {metric} decides, {100 * plans[0].confidence:.4g} % confidence, power "
        f"{100 * plans[0].power:.4g} %; price is the share of the displayed {metric} that is lost against production",
        ("policy", "sessions", "deviation of a session", "price", f"displayed {metric}", "unbiased for", "reached"),
        [
            (
                row["policy"],
                "never" if row["sessions"] is None else row["sessions"],
                f"{row['deviation']:.4g}",
                _share(row["price"]),
                row["displayed"],
                row["unbiased_for"],
                _share(row["reached"]),
            )
            for row in rows
        ],
    )
    for path in (out, logopt_scores):
        if path is not None:
            say(f"Written to {path}.")
    if logopt_scores is not None:
        say(f"To log with LogOpt: --policy plackett-luce:k={own.arms[0].policy.k} --logger {logopt_scores}")


def _comparison_row(found: ComparisonPlan) -> dict[str, Any]:
    """A plan of a comparison as JSON can hold it."""
    from counterrank.evaluation.evaluation_cards import covered_in_words

    names = ("policy", "sessions", "sessions_by_arm", "deviation", "price", "displayed", "unbiased", "covered_to")
    row = {name: getattr(found, name) for name in (*names, "uncovered", "reached", "clicks", "sampled_pages")}
    return {**row, "unbiased_for": covered_in_words(found), "total_cost": found.total_cost}


def _clicks(by_label: str, click_rate: float | None, users: str | None) -> str:
    """How documents are clicked, in words."""
    if users is not None:
        return f"those of {users}"
    return by_label if click_rate is None else f"{click_rate:g} of examined documents"


def _row(found: LoggingPlan, width: float | None, effective: float | None) -> dict[str, Any]:
    """A plan as JSON can hold it."""
    from dataclasses import asdict

    row = asdict(found)
    expected = [{**asdict(at), "doubtful": at.is_doubtful} for at in found.expected]
    kept = {key: row[key] for key in ("policy", "clicks", "effective_sample_size", "covered", "reached")}
    needed = {}
    if width is not None:
        needed["needed_for_width"] = found.sessions_for_width(width)
    if effective is not None:
        needed["needed_for_effective"] = found.sessions_for_effective(effective)
    return {
        **kept,
        "biased": found.is_biased,
        "displayed": found.displayed,
        "price": found.price,
        "ips": found.ips.value,
        "self_normalized": found.self_normalized.value,
        "sampled_pages": found.sampled_pages,
        "sessions_to_fit": {model: found.users.sessions_to_fit(model) for model in found.users.fit_errors},
        "trust_bias_pull": found.users.pull,
        **needed,
        "expected": expected,
    }


def _write(content: dict[str, Any], out: Path, width: float | None, effective: float | None) -> None:
    from counterrank.report import write_plan_report

    facts = [(key, f"{value:,}" if isinstance(value, int) else value) for key, value in content["assumed"].items()]
    wanted = {key: f"{value:,g}" for key, value in (("width", width), ("effective", effective)) if value is not None}
    title = f"Logging for {content['metric'].upper()}"
    write_plan_report({**content, "title": title, "facts": facts, "wanted": wanted}, out)


def _print(content: dict[str, Any], amounts: list[int], width: float | None, effective: float | None) -> None:
    for sentence in content["advice"]:
        print_text(sentence)
    metric = content["metric"]
    wanted = {}
    if width is not None:
        wanted["needed_for_width"] = f"sessions for width {width:g}"
    if effective is not None:
        wanted["needed_for_effective"] = f"sessions for size {effective:,g}"
    print_table(
        f"Policies: price is the share of the displayed {metric} that is lost",
        ("policy", "price", f"displayed {metric}", "covered", "reached", *wanted.values()),
        [
            (
                row["policy"],
                _share(row["price"]),
                row["displayed"],
                _share(row["covered"]),
                _share(row["reached"]),
                *("never" if row[key] is None else row[key] for key in wanted),
            )
            for row in content["plans"]
        ],
    )
    models = list(content["plans"][0]["sessions_to_fit"])
    print_table(
        "Users: sessions to fit a model to a standard error of 5 % at the worst rank; pull = what an irrelevant "
        "document from the top gains where users trust high ranks, as a share of what relevance adds",
        ("policy", *models, "pull"),
        [
            (
                row["policy"],
                *(
                    "never" if row["sessions_to_fit"][model] is None else row["sessions_to_fit"][model]
                    for model in models
                ),
                None if row["trust_bias_pull"] is None else f"{row['trust_bias_pull']:+.1%}",
            )
            for row in content["plans"]
        ],
    )
    notes = "? = the interval depends on a few rare clicks; biased = it misses what is never shown"
    for i, many in enumerate(amounts):
        print_table(
            f"After {many:,} sessions; {notes}",
            (
                "policy",
                "clicks",
                "effective sample size",
                f"width of {metric}",
                "self-normalised",
                "examined at least once",
            ),
            [_expected(row, row["expected"][i]) for row in content["plans"]],
        )


def _expected(row: dict[str, Any], at: dict[str, Any]) -> tuple[Any, ...]:
    note = " biased" if row["biased"] else " ?" if at["doubtful"] else ""
    wide = "" if at["ips_width"] is None else f"{at['ips_width']:.4g}{note}"
    own = "" if at["self_normalized_width"] is None else f"{at['self_normalized_width']:.4g}"
    size = f"{at['effective_sample_size']:,.0f}"
    return row["policy"], f"{at['clicks']:,.0f}", size, wide, own, _share(at["seen"])


def _share(value: float | None) -> str | None:
    return None if value is None else f"{value:.2%}"

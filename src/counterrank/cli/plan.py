"""`counterrank plan`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from counterrank.cli import options as shared
from counterrank.cli.command import CLICKS, EVALUATION, OUTPUT, USERS
from counterrank.cli.evidence import load_scores, parse_count, read_examination, read_users
from counterrank.cli.options import option, reads_data
from counterrank.cli.output import check_out, print_json, print_table, say, show_warnings
from counterrank.common.checks import check_number, check_whole
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank.data.sources import DataOptions
    from counterrank.evaluation import LoggingPlan

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
    """
    from counterrank.clicks.policies.parsing import POLICIES, parse_policies, score_spread
    from counterrank.clicks.users import ClickModel
    from counterrank.data.sources import choose_part
    from counterrank.evaluation import advise_logging, plan_logging
    from counterrank.evaluation.planned_users import equal_price_mixture

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
    check_out(out, force, (data, logger, ranker, examination, users))
    chosen = choose_part(opening.open(data, threads), part, data)
    if chosen.labels is None and click_rate is None:
        raise CounterrankError(f"{data}: has no labels; expected --click-rate, P(click | examined), such as 0.1")
    exam = None if users is None else read_users(users, [chosen], ("click_rate",))
    clicks = None if click_rate is not None or exam is not None else ClickModel(relevant, other)
    if exam is None:
        examination = examination or "inverse-rank:eta=1"  # the paper's
        exam = read_examination(examination)
    scores = load_scores(logger, chosen, threads)
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
        plans = planned(policies=parse_policies(policy or POLICIES, page, score_spread(scores, chosen.offsets)))
        # what all families of policies leave out: uniform insertion at the price of replace-last
        mixture = None if policy else equal_price_mixture(plans)
        if mixture is not None:
            plans += planned(policies=parse_policies([mixture]))
    advice = advise_logging(plans, width, effective_sample_size)
    if ranker is None:
        advice.append("The intervals are those of the logger, whose documents are shown most; --ranker names another.")
    if population == "these-queries":
        advice.append("Intervals are for these queries alone; estimate has them with --population these-queries.")
    clicked = f"{relevant:g} of examined documents with label {relevance_threshold:g} and above, {other:g} of others"
    assumed = {
        "data": f"{data}, {part}",
        "queries": chosen.n_queries,
        "candidates": chosen.n_docs,
        "logger": str(logger),
        "ranker to evaluate": str(ranker or logger),
        "examination": examination or f"that of {users}",
        "clicks": _clicks(clicked, click_rate, None if clicks or click_rate else users),
        "intervals": f"{confidence:.4g}, for {_POPULATIONS[population]}",
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
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for sentence in content["advice"]:
        console.print(Text(sentence), soft_wrap=not console.is_terminal)
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

"""`counterrank rates`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from counterrank.cli.command import ESTIMATOR, OUTPUT
from counterrank.cli.evidence import ClickSource, read_examination
from counterrank.cli.inspect import load_counts, load_parts
from counterrank.cli.options import (
    Alpha,
    Beta,
    Confidence,
    DataOfLog,
    Examination,
    Force,
    Json,
    LogOrCounts,
    Part,
    Threads,
    Users,
    option,
    reads_logs,
)
from counterrank.cli.output import check_out, print_json, print_table, say, show_warnings
from counterrank.common.checks import check_whole
from counterrank.common.errors import DataError

if TYPE_CHECKING:
    from counterrank.clicks.logs.columns import LogOptions
    from counterrank.data.sources import DataOptions
    from counterrank.evaluation import ClickRates

_DOCUMENTS = 3  # of each query in the table


@reads_logs
def rates(
    clicks: LogOrCounts,
    part: Part = "train",
    data: DataOfLog = None,
    examination: Examination = None,
    alpha: Alpha = None,
    beta: Beta = None,
    users: Users = None,
    prior: Annotated[
        str, option("Shrink towards the rate of the query, or the overall one: query or overall.", "NAME", ESTIMATOR)
    ] = "query",
    strength: Annotated[
        float | None,
        option("Examinations that the prior counts for; the most likely number if not given.", "X", ESTIMATOR),
    ] = None,
    confidence: Confidence = 0.95,
    out: Annotated[
        Path | None, option("Write the rates of all documents: .parquet, .csv or .tsv.", "PATH", OUTPUT)
    ] = None,
    top: Annotated[int, option("Number of queries in the table, those with the most impressions.", "N", OUTPUT)] = 5,
    force: Force = False,
    threads: Threads = None,
    json: Json = False,
    *,
    opening: DataOptions,
    reading: LogOptions,
) -> None:
    """Estimate the click rate of each document without position bias; requires no features and no ranking data.

    The debiased rate is clicks divided by expected examinations, at most 1, with its confidence interval. The shrunk
    rate is the one to sort by: where impressions are few it is near the rate of the query, also outside that interval.
    Without --examination the curve is estimated from the log, if it can be.

    Example: counterrank rates clicks.parquet --examination curve.json --out rates.parquet
    """
    from counterrank.data.sources import check_part
    from counterrank.evaluation.click_rates import check_rates_file, click_rates

    check_part(part)
    check_whole(top, "top")
    check_out(out, force, (clicks, data, examination, alpha, beta, users), check_rates_file)
    source = ClickSource.of(clicks, examination, threads, reading, alpha=alpha, beta=beta, users=users)
    gain, base = source.trust_curves()
    exam = None if examination is None else _curve(examination)
    parts = load_parts(data, part, threads, opening)
    counts = load_counts(source, part, parts)
    if users is not None:
        source.fit_users((counts, parts.get(part)))
        exam = source.users_of(counts)
    with show_warnings():
        found = click_rates(counts, exam, alpha=gain, beta=base, prior=prior, strength=strength, confidence=confidence)
    if out is not None:
        found.save(out)
    rows = found.top(top, _DOCUMENTS)
    if json:
        print_json({"log": clicks, "data": data, "out": None if out is None else str(out)} | found.summary()
                   | {"top": rows})  # fmt: skip
    else:
        _print(found, rows)
    source.say_what_it_read()
    say(_about(found))
    if out is not None:
        say(f"The rates of {len(found):,} documents are in {out}.")


def _curve(text: str) -> Any:
    """The curve; of a file that holds its confidence intervals, with them."""
    from counterrank.clicks.policies.parsing import looks_like_file
    from counterrank.clicks.user_estimation import load_estimate

    curve = read_examination(text)
    if not looks_like_file(text):
        return curve
    try:
        return load_estimate(text)
    except DataError:
        return curve


def _print(found: ClickRates, rows: list[dict[str, Any]]) -> None:
    names = ("query", "document", "impressions", "clicks", "examinations", "raw rate", "debiased rate",
             f"its {100 * found.confidence:.4g} % interval", "shrunk rate")  # fmt: skip
    shown = [
        (
            str(row["query_id"]), str(row["doc_id"]), row["impressions"], row["clicks"], f"{row['examinations']:,.1f}",
            row["raw_rate"], row["rate"], f"{row['rate_low']:.4f} to {row['rate_high']:.4f}", row["shrunk_rate"],
        )
        for row in rows
    ]  # fmt: skip
    queries = len({row["query_id"] for row in rows})
    best = "the best of the query" if queries == 1 else f"the best of the {queries} queries"
    title = f"Click rates of {len(found):,} documents: {best} with the most impressions"
    print_table(title, names, shown, left=("document",))


def _curve_words(curve: Any) -> str:
    """The first ten values of a curve."""
    if curve is None:
        return "0"
    values = curve.curve(min(curve.k or 10, 10))
    return ", ".join(f"{value:.3g}" for value in values) + (", ..." if (curve.k or 11) > 10 else "")


def _about(found: ClickRates) -> str:
    """The curve, the prior, and what was clipped, in a sentence each."""
    from counterrank.clicks.examination import CurvesByContext

    curves = found.examination
    named = list(curves.curves.items())[:5] if isinstance(curves, CurvesByContext) else [("", curves)]
    shown = "; ".join(f"{name}{': ' if name else ''}{_curve_words(curve)}" for name, curve in named)
    text = f"Examination curve ({found.about_curve}): {shown}."
    if found.estimated is not None:
        text += " Intervals include its error."
    text += f" Shrunk {found.about_prior}."
    if found.n_clipped:
        text += f" Debiased rates clipped to 0 or 1: {found.n_clipped:,} of {len(found):,}."
    return text

"""`counterrank inspect`."""

from __future__ import annotations

import json as json_format
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from counterrank.cli.command import DATA_OPTIONS, OUTPUT
from counterrank.cli.evidence import (
    ESTIMATED,
    FITTED,
    ClickSource,
    named_policies,
    parts_of,
    say_note,
    scores_of,
    single,
)
from counterrank.cli.options import (
    DataOfLog,
    Examination,
    Force,
    Json,
    Logger,
    LogOrCounts,
    Part,
    Policy,
    Threads,
    data_options,
    option,
    reads_logs,
)
from counterrank.cli.output import check_out, check_page, print_json, print_table, print_text, say, show_warnings
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank import ClickCounts, RankingData
    from counterrank.clicks.logs.columns import LogOptions
    from counterrank.clicks.logs.faults import LogReport
    from counterrank.data.sources import DataOptions
    from counterrank.evaluation.inspection import UserComparison

_MARKS = {"good": "yes", "warning": "with care", "bad": "no"}
_RANKS = 30  # rows of the table; --json has all
_CONTEXTS = 6  # columns of the table


@reads_logs
def inspect(
    clicks: LogOrCounts,
    part: Part = "train",
    data: DataOfLog = None,
    policy: Policy = None,
    examination: Examination = None,
    logger: Logger = None,
    effective_sample_size: Annotated[
        int, option("Effective sample size to aim at; 10,000 gives a total weight to about 1 percent.", "N")
    ] = 10_000,
    out: Annotated[Path | None, option("Also write a page (HTML) with the verdict and charts.", "PATH", OUTPUT)] = None,
    examination_out: Annotated[
        Path | None,
        option(
            "Also estimate the examination curve from the clicks and write it to a file, for --examination.",
            "PATH",
            OUTPUT,
        ),
    ] = None,
    users_out: Annotated[
        Path | None,
        option(
            "Also estimate the user model that the log supports and write it to a file, for --users.", "PATH", OUTPUT
        ),
    ] = None,
    force: Force = False,
    threads: Threads = None,
    json: Json = False,
    *,
    opening: DataOptions,
    reading: LogOptions,
) -> None:
    """Inspect clicks: what they support, what they do not, what to change in logging, and the numbers behind it.

    Data, policy and logger of simulated clicks are known; name them for other clicks.

    Example: counterrank inspect clicks.parquet --data Fold1 --out inspection.html
    """
    from counterrank.evaluation.inspection import inspect_clicks

    inputs = (clicks, data, logger, examination)
    check_out(out, force, inputs, _check_page)
    written = {"--out": out, "--examination-out": examination_out, "--users-out": users_out}
    for path in (examination_out, users_out):
        check_out(path, force, inputs, _check_curve_file)
    _check_apart(written)
    loaded = _load(clicks, part, data, policy or [], logger or [], examination, threads, reading, opening)
    found = inspect_clicks(loaded.counts, **loaded.known, effective_sample_size=effective_sample_size)
    read = None if loaded.report is None else loaded.report.summary()
    summary = {"clicks": clicks, "data": loaded.data, "read": read} | found.summary()
    if out is not None:
        from counterrank.report import write_inspection_report

        write_inspection_report(summary, out)
    if json:
        print_json(summary)
    else:
        print_inspection(summary)
    if loaded.report is not None:
        of = f"the {part} part" if loaded.is_part else "all of it"
        say(f"Read {loaded.report.rows:,} rows of {loaded.report.name}; this is about {of}{loaded.report.left_out()}.")
        say_note(loaded.report)
    if out is not None:
        say(f"The page is at {out.resolve().as_uri()}.")
    if loaded.data is None:
        say("With --data, --policy and --logger: which candidates the policy can never show, and where they ranked.")
    if examination_out is not None:  # last, since it may be refused
        _write_curve(loaded.counts, examination_out)
    if users_out is not None:
        _write_users(loaded, found.users, users_out)


def _check_apart(written: dict[str, Path | None]) -> None:
    """An error where two files have one name."""
    names: dict[Path, str] = {}
    for option_name, path in written.items():
        if path is not None:
            other = names.setdefault(path.resolve(), option_name)
            if other != option_name:
                raise CounterrankError(f"{path}: is both {other} and {option_name}; expected two names")


def _write_users(loaded: _Loaded, found: UserComparison | None, path: Path) -> None:
    """The recommended user model, estimated from the whole log; an error where none is recommended."""
    from counterrank import examination

    if found is None or loaded.recount is None:
        raise CounterrankError(
            "--users-out: user models are compared on pages one by one, which click counts do not hold; expected a log"
        )
    name = found.recommended
    if name is None:
        raise CounterrankError(f"--users-out: no user model is recommended. {' '.join(found.sentences)}")
    counts = loaded.recount() if name in ("browsing", "dependent") else loaded.counts
    with show_warnings():
        options: dict[str, Any] = {"model": name}
        users: Any = examination.estimate(counts, **options)
    users.save(path)
    say(f"Wrote {path}: the {name} model of this log. Use it with --users {quote(str(path))}.")


def _write_curve(counts: ClickCounts, path: Path) -> None:
    """The estimated curve; an error where ranks are not connected."""
    from counterrank import examination

    with show_warnings():
        found = examination.estimate(counts)
    found.save(path)
    if counts.contexts:
        named = ", ".join(f"{name} ({sessions:,} sessions)" for name, sessions in list(found.sessions.items())[:5])
        say(
            f"Wrote {path}: the examination curves by context, {named}{', ...' if len(found.sessions) > 5 else ''}, "
            f"from {found.n_clicks:,} clicks on {found.n_documents:,} documents. Use them with --examination "
            f"{quote(str(path))} for clicks that were read with the same --context."
        )
        return
    ends = zip(found.values[1:], found.intervals[1:], strict=True)
    values = ", ".join(["1", *(f"{value:.3g} ({low:.3g} to {high:.3g})" for value, (low, high) in ends)])
    say(
        f"Wrote {path}: the examination curve by {found.method} from {found.n_clicks:,} clicks on "
        f"{found.n_documents:,} documents, relative to rank 1, with {found.confidence:.0%} intervals: {values}. Use it "
        f"with --examination {quote(str(path))}."
    )


def _check_curve_file(path: Path) -> None:
    """Refuse to write over anything but an older curve, the log for one."""
    from counterrank import examination

    if path.exists():
        try:
            examination.load(path)
        except (CounterrankError, OSError):
            raise CounterrankError(f"{path}: exists and is no examination curve; choose another name") from None


def _check_page(out: Path) -> None:
    """Refuse at once what could not be written at the end, and what is not a page of ours to replace."""
    if not out.is_dir() and out.suffix.lower() not in (".html", ".htm"):
        raise CounterrankError(f"{out}: unknown kind of file; expected one that ends in .html")
    check_page(out, "counterrank inspect", "inspection.html")


@dataclass(frozen=True)
class _Loaded:
    """What is inspected.

    Attributes:
        counts: the clicks.
        data: the name of the ranking data.
        known: what else is known about the clicks, as arguments of `inspect_clicks`.
        report: how many rows of a log were used, dropped and unknown.
        is_part: whether they are those of one part of the data, rather than all of a log.
        recount: counts the log again, also by the rank of the last click above; None of click counts.
    """

    counts: ClickCounts
    data: str | None
    known: dict[str, Any]
    report: LogReport | None
    is_part: bool
    recount: Callable[[], ClickCounts] | None


def _load(
    clicks: str,
    part: str,
    data: str | None,
    policies: list[str],
    loggers: list[str],
    examination: str | None,
    threads: int | None,
    reading: LogOptions,
    opening: DataOptions,
) -> _Loaded:
    """Everything the options name."""
    from counterrank.clicks.logs.page_reader import sample_pages
    from counterrank.clicks.page_sample import MOST_ROWS
    from counterrank.clicks.stored_clicks import holds_counts
    from counterrank.data.sources import check_part

    check_part(part)
    if data is None and (policies or loggers):
        raise CounterrankError("--policy, --logger: require the candidates; expected --data too")
    is_log = not holds_counts(clicks)
    about = {} if is_log or data is not None else _remembered(Path(clicks))
    data = data or about.get("data")
    if about:
        opening = data_options(*(about.get(name) for name in DATA_OPTIONS), source=data)
        ranked_by = about["logger"]
        policies, loggers = (
            policies or [about["policy"]],
            loggers or (ranked_by if isinstance(ranked_by, list) else [ranked_by]),
        )
    source = ClickSource.of(clicks, examination, threads, reading, policies=policies, loggers=loggers, with_drift=True)
    parts = load_parts(data, part, threads, opening)
    counts = load_counts(source, part, parts)
    has_curve = examination is not None or counts.examination is not None
    known: dict[str, Any] = {
        "exam": source.users_of(counts) if has_curve else None,
        "drift": source.drift.get(part),
        "whole_log": is_log,
    }
    if policies and parts:
        known |= _policy(source, counts, part, parts)
    elif loggers and parts:
        known["scores"] = scores_of(source, single(loggers), part, parts)
    if is_log and not reading.impressions and counts.n_clicks:
        known["pages"] = sample_pages(source.file_of(part) or str(source.log), counts, MOST_ROWS, reading)
    is_part = data is not None or (is_log and source.file_of(part) is not None)
    recount = partial(_with_last_clicks, source, part, parts) if is_log else None
    return _Loaded(counts, data, known, source.reports[0] if is_log else None, is_part, recount)


def _with_last_clicks(source: ClickSource, part: str, parts: dict[str, RankingData]) -> ClickCounts:
    """The clicks of a part of a log, counted also by the rank of the last click above."""
    from counterrank.clicks.logs import read_parts

    own = source.file_of(part)
    wanted = {part: parts[part]} if parts and own is not None else parts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they were shown when it was read first
        found = read_parts(own or str(source.log), list(wanted.values()), last_clicks=True, options=source.reading)
    return dict(zip(wanted or (part,), found.counts, strict=True))[part]


def load_parts(data: str | None, part: str, threads: int | None, opening: DataOptions) -> dict[str, RankingData]:
    """The parts of the ranking data by name, none without data; an error if it lacks the wanted one."""
    from counterrank.data.sources import choose_part

    if data is None:
        return {}
    opened = opening.open(data, threads)
    choose_part(opened, part, data)
    return parts_of(opened, part)


def load_counts(source: ClickSource, part: str, parts: dict[str, RankingData]) -> ClickCounts:
    """The clicks of a part; without data, those of the part's own file or of all there is."""
    from counterrank.clicks.logs import read_parts

    if parts:
        return source.load(part, parts)
    if source.clicks:
        kept = source.kept(part, None)
        if kept is None:
            raise CounterrankError(f"{source.name}: no clicks of the {part} part in it")
        return kept
    with show_warnings():
        log = source.file_of(part) or str(source.log)
        pages, last_clicks = source.keeps()
        found = read_parts(log, (), displays=pages, last_clicks=last_clicks, drift=source.with_drift,
                           options=source.reading)  # fmt: skip
    source.reports.append(found.report)
    source.drift |= dict(zip([part], found.drift or (), strict=False))
    return found.counts[0]


def _policy(source: ClickSource, counts: ClickCounts, part: str, parts: dict[str, RankingData]) -> dict[str, Any]:
    """The policy and its scores; propensities alone where there are several policies, or an estimated one."""
    from counterrank.clicks.policies.parsing import parse_policy

    first = source.policies[0].partition(":")[0]
    if first in (ESTIMATED, FITTED) or named_policies(source.policies) is not None:
        source.fit_users((counts, parts[part]))
        found = source.propensities(counts, part, parts)
        rho = found.by_document if found.source == "given" else found
        users = {} if source.found is None else {"exam": source.found}
        return {"rho": rho, "policy_words": ", ".join(source.policies), **users}
    if not source.loggers:
        raise CounterrankError("--policy: ranks by scores; expected --logger too")
    if len(counts.distinct_policies) > 1:
        source.propensities(counts, part, parts)  # the error names them
    return {
        "policy": parse_policy(source.policies[0]),
        "scores": scores_of(source, single(source.loggers), part, parts),
    }


def _remembered(clicks: Path) -> dict[str, Any]:
    """What simulate wrote next to the clicks, if the data and the logger are still where they were."""
    file = clicks / "simulation.json"
    if not file.is_file():
        return {}
    about: dict[str, Any] = json_format.loads(file.read_text(encoding="utf-8"))
    made = (("data", "synthetic:"), ("logger", "feature:"))
    there = all(about[name].startswith(built_in) or Path(about[name]).exists() for name, built_in in made)
    return about if there else {}


def print_inspection(found: dict[str, Any]) -> None:
    """Tables for people, the verdict first."""
    verdict = [(item["about"], _MARKS[item["level"]], item["text"]) for item in found["verdict"]]
    print_table(f"{found['clicks']}: {found['headline']}", ("", "supported", "why"), verdict)
    if found["advice"]:
        print_table("What to change", ("", ""), [(str(i), text) for i, text in enumerate(found["advice"], 1)])
    print_read(found["read"])
    print_table("Overview", ("", "value"), [*_words(_overview(found)), *_pages(found)])
    rows = found["ranks"][:_RANKS]
    if rows:
        over = "over queries" if found["overview"]["queries_asked"] > 1 else "of independent impressions"
        title = f"By rank (95 % confidence intervals {over})"
        print_table(title, tuple(rows[0]), [tuple(row.values()) for row in rows])
    if found["estimated_curve"]:
        _print_curve(found["estimated_curve"])
    if found["users"]:
        _print_users(found["users"])
    if found["contexts"] and found["contexts"]["ranks"]:
        _print_contexts(found["contexts"])
    for title, key in (("Importance weights (1 / propensity)", "weights"), ("Coverage of the candidates", "coverage")):
        if found[key]:
            print_table(title, ("", "value"), _words(found[key]))
    old = (found["coverage"] or {}).get("by_old_rank")
    if old:
        names = ("old rank", "candidates", "shown", "never shown", "could have been", "can never be")
        print_table("By rank under the logger", names, [(_span(row), *list(row.values())[2:]) for row in old])
    if found["policy_check"]:
        print_table("The log against the policy", ("", "value"), _words(found["policy_check"]))
    if found["remedies"]:
        _print_remedies(found["remedies"])
    if found["drift"]:
        _print_drift(found["drift"])


def _print_curve(curve: dict[str, Any]) -> None:
    over = "over queries" if curve["target"] == "queries" else "of new clicks on these queries"
    title = f"Examination curve estimated from the log, relative to rank 1 ({curve['confidence']:.0%} intervals {over})"
    rows = curve["ranks"][:_RANKS]
    print_table(title, tuple(rows[0]), [tuple(row.values()) for row in rows])
    for text in curve["warnings"]:
        print_text(f"Note: {text.replace(' (k=)', '')}.")


def _print_users(users: dict[str, Any]) -> None:
    """Which user model the log supports."""
    if users["models"]:
        names = ("model", "log-likelihood", "perplexity", "less position-based", "95 % interval", "identified")
        rows = [
            (
                f"{row['name']} (recommended)" if row["name"] == users["recommended"] else row["name"],
                row["log_likelihood"],
                row["perplexity"],
                f"{row['difference']:+.5f}",
                f"{row['difference_low']:+.5f} to {row['difference_high']:+.5f}",
                "yes" if row["identified"] else "no",
            )
            for row in users["models"]
        ]
        print_table("Which user model does this log support? (per held-out impression)", names, rows)
        print_text(users["about"])
    for text in users["sentences"]:
        print_text(text)


def _print_contexts(table: dict[str, Any]) -> None:
    """The curves of the contexts side by side, a row for each rank."""
    from counterrank.evaluation.inspection.click_tables import contexts_sentence

    names = table["contexts"][:_CONTEXTS]
    cells = {(row["context"], row["rank"]): row for row in table["ranks"]}
    sessions = {row["context"]: row["sessions"] for row in table["ranks"]}
    rows: list[tuple[Any, ...]] = [("sessions", *(f"{sessions[name]:,}" for name in names))]
    for rank in sorted({row["rank"] for row in table["ranks"]})[:_RANKS]:
        own = [cells[name, rank] for name in names]
        rows.append(
            (str(rank), *(f"{each['P(examined)']:.3f} ({each['low']:.3f} to {each['high']:.3f})" for each in own))
        )
    title = f"Examination curves by context, relative to rank 1 of {names[0]} ({table['confidence']:.0%} intervals)"
    print_table(title, ("rank", *names), rows)
    print_text(contexts_sentence(table))
    for text in table["warnings"]:
        print_text(f"Note: {text.replace(' (k=)', '')}.")


def _print_drift(drift: dict[str, Any]) -> None:
    from counterrank.evaluation.inspection.drift import drift_sentences

    periods = drift["periods"]
    if periods:
        print_table("Over time", tuple(periods[0]), [tuple(row.values()) for row in periods])
    for text in drift_sentences(drift):
        print_text(text)


def print_read(read: dict[str, Any] | None) -> None:
    """Print how many rows of a log were dropped and unknown; nothing where all are used."""
    if read is None:
        return
    if read["unknown"]:
        rows = [(f"{each['unit']} that {each['kind']}", each["count"], each["example"]) for each in read["unknown"]]
        print_table("Rows that are left out", ("", "count", "example"), rows)
    if not read["faults"]:
        return
    rows = [(f"{fault['unit']} that {fault['kind']}", fault["count"], fault["example"]) for fault in read["faults"]]
    rows.append(("rows dropped", read["rows_dropped"], f"of {read['rows']:,}, with {read['pages_dropped']:,} pages"))
    print_table("What is wrong in the log", ("", "count", "example"), rows)


def _overview(found: dict[str, Any]) -> dict[str, Any]:
    words = {"queries_asked": "queries with sessions", "sessions_per_asked_query_median": "sessions per query, median"}
    kept = {words.get(key, key): value for key, value in found["overview"].items() if key != "policies"}
    kept["distinct_pages"] = "not kept" if kept["distinct_pages"] is None else kept["distinct_pages"]
    if found["overview"]["policies"]:
        kept["policies"] = ", ".join(found["overview"]["policies"])
    return kept


def _pages(found: dict[str, Any]) -> list[tuple[str, Any]]:
    groups = "; ".join(", ".join(map(str, group)) for group in found["connected"])
    return [("pages of one query", found["pages"]["looks_like"]), ("connected ranks", groups)]


def _words(values: dict[str, Any]) -> list[tuple[str, Any]]:
    """Plain values; tables within have one of their own."""
    plain = {key: value for key, value in values.items() if not isinstance(value, dict | list)}
    return [(key.replace("_", " "), str(value) if isinstance(value, bool) else value) for key, value in plain.items()]


def _span(row: dict[str, Any]) -> str:
    low, high = row["old_rank_from"], row["old_rank_to"]
    return str(low) if low == high else f"{low}-{high}"


def _print_remedies(table: dict[str, Any]) -> None:
    rows: list[tuple[Any, ...]] = []
    for family in table["families"].values():
        for row in (family["least"], family["best"]):
            if row is not None and row["policy"] not in [each[0] for each in rows]:
                moves = "yes" if row["learns_position_bias"] else "no"
                size, sessions = round(row["effective_sample_size"]), row["sessions_for_target"]
                rows.append((row["policy"], size, round(row["clicks"]), sessions, moves))
    names = ("policy", "effective sample size", "clicks", f"sessions for {table['target']:,}", "position bias")
    print_table(f"What other policies would bring in {table['sessions']:,} sessions", names, rows)

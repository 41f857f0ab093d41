"""`counterrank simulate`."""

from __future__ import annotations

import json as json_format
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from counterrank.cli import options as shared
from counterrank.cli.command import CLICKS, DATA_OPTIONS, OUTPUT, USERS, given_options, options_again
from counterrank.cli.evidence import (
    load_scores,
    parse_count,
    parts_of,
    rankings_of,
    read_examination,
    read_policy,
    read_users,
)
from counterrank.cli.options import option, reads_data
from counterrank.cli.output import check_out, folder_with, free_name, print_json, print_table, say_next
from counterrank.common.checks import check_number, check_whole
from counterrank.common.errors import CounterrankError
from counterrank.common.files import atomic_folder

if TYPE_CHECKING:
    from counterrank import RankingData
    from counterrank.data.sources import DataOptions

MARKER, PARTS = "simulation.json", ("train", "validation", "test", "*.parquet")


@reads_data
def simulate(
    data: shared.Data,
    logger: Annotated[
        list[str],
        option(
            f"What the policy ranks by: a ranker's folder, {shared.SCORES}, or feature:25. Of team-draft repeat it for "
            "the two rankings.",
            "PATH",
            CLICKS,
        ),
    ],
    out: Annotated[Path, option("The folder to write to: one folder of clicks for each part of the data.", "PATH")],
    policy: Annotated[
        str,
        option(
            "The logging policy: {policies}; or a mixture: 0.9*deterministic:k=5 + 0.1*replace-last:k=5.",
            "POLICY",
            CLICKS,
        ),
    ] = "replace-last:k=5",
    examination: shared.KnownExamination = "inverse-rank:eta=1",
    n_clicks: Annotated[
        str | None, option("Number of clicks on the training part, such as 1e6; or --n-sessions.", "N")
    ] = None,
    n_sessions: Annotated[
        str | None, option("Number of sessions (pages) on the training part; or --n-clicks.", "N")
    ] = None,
    held_out: Annotated[
        float, option("Clicks on a validation or test part, as a share of those on training.", "X")
    ] = 0.15,
    relevance_threshold: shared.Threshold = 3,
    relevant: shared.Relevant = 1.0,
    other: shared.Other = 0.1,
    click_gain: Annotated[
        str,
        option(
            "P(click | examined) by relevance: binary (relevant or not), or graded (in proportion to the label).",
            "NAME",
            USERS,
        ),
    ] = "binary",
    trust_bias: Annotated[
        float, option("Trust bias from 0 to 1: irrelevant documents get more clicks at high ranks.", "X", USERS)
    ] = 0.0,
    users: shared.SimulatedUsers = None,
    displays: shared.Displays = False,
    as_log: Annotated[
        bool,
        option(
            "Write a log of every page, PART.parquet, instead of click counts; requires --n-sessions.",
            panel=OUTPUT,
            name="--as-log",
        ),
    ] = False,
    propensities: Annotated[
        bool,
        option("Whether to write propensities into a log.", panel=OUTPUT, name="--propensities/--no-propensities"),
    ] = True,
    policy_name: Annotated[
        str | None, option("Name of the policy, such as v1, in the column policy; none if not given.", "NAME", OUTPUT)
    ] = None,
    first_session: Annotated[
        int, option("Number of the first session of a log, so that several logs can be read as one.", "N", OUTPUT)
    ] = 0,
    force: shared.Force = False,
    seed: shared.Seed = 0,
    threads: shared.Threads = None,
    json: shared.Json = False,
    *,
    opening: DataOptions,
) -> None:
    """Simulate users: show pages of a logging policy and save the clicks.

    Example: counterrank simulate synthetic:mslr --logger production --n-clicks 1e6 --out clicks
    """
    from counterrank.clicks.browsing import SequentialUsers
    from counterrank.clicks.users import ClickModel
    from counterrank.clicks.users import trust_bias as trusting_users

    check_out(out, force, (data, *logger, examination, users), folder_with(MARKER, PARTS))
    wanted = _amount(n_clicks, n_sessions, as_log)
    check_number(held_out, "held_out", above=0, at_most=10, also=", such as 0.15")
    check_number(trust_bias, "trust_bias", at_least=0, at_most=1)
    if as_log and displays:
        raise CounterrankError("--displays, --as-log: a log holds every page anyway; expected one of the two")
    if trust_bias and click_gain != "binary":
        raise CounterrankError("--trust-bias: requires --click-gain binary")
    model: ClickModel | None = ClickModel(relevant, other, click_gain)
    if trust_bias:
        model = trusting_users(k=100, strength=trust_bias, relevant=relevant, other=other)
    if first_session < 0 or (first_session and not as_log):
        raise CounterrankError(f"--first-session {first_session}: expected a number of at least 0, with --as-log")
    opened = parts_of(opening.open(data, threads))
    exam = None if users is None else read_users(users, opened.values(), ("click_gain", "trust_bias"))
    if exam is None:
        exam = read_examination(examination)
    else:
        model = None
    settings: dict[str, Any] = {"relevance_threshold": relevance_threshold, "click_model": model, "threads": threads}
    settings |= {"policy_name": policy_name}
    shown = (read_policy(policy), exam)
    begin = time.perf_counter()
    rows: list[dict[str, Any]] = []
    with atomic_folder(out, MARKER, PARTS) as folder:
        for number, (part, chosen) in enumerate(opened.items()):
            amount = {name: n if part == "train" else max(1, round(held_out * n)) for name, n in wanted.items()}
            scores = rankings_of(shown[0], logger, partial(load_scores, data=chosen, threads=threads))
            more = {**settings, **amount, "seed": _seed(seed, number)}
            if as_log:
                first = first_session + sum(row["sessions"] for row in rows)
                more |= {"propensities": propensities, "first_session": first}
            rows.append(_write(folder, part, chosen, scores, shown, displays, as_log, more))
        about = {
            "data": data,
            **given_options(*DATA_OPTIONS),
            "logger": logger[0] if len(logger) == 1 else logger,
            "policy": policy,
            "policy_name": policy_name,
            "examination": examination if model else None,
            "relevance_threshold": relevance_threshold,
            "click_model": {"relevant": relevant, "other": other, "gain": click_gain, "trust": trust_bias}
            if model
            else None,
            **({} if users is None else {"users": users}),
            "seed": seed,
            "parts": rows,
        }
        (folder / MARKER).write_text(json_format.dumps(about, indent=1) + "\n", encoding="utf-8")
    if json:
        print_json({"out": str(out), **about, "seconds": time.perf_counter() - begin})
        return
    print_table(
        f"{out}: {policy}, {examination if model else f'{users} users'}",
        tuple(rows[0]),
        [tuple(row.values()) for row in rows],
    )
    again = options_again(*DATA_OPTIONS)
    if isinstance(exam, SequentialUsers):  # without whom propensities of these clicks would be wrong
        say_next("train", data, "--log" if as_log else "--clicks", out, *again, "--users", str(users), "--k", 5,
                 "--out", free_name("from-clicks"))  # fmt: skip
    elif as_log and not propensities:
        say_next("inspect", out, "--data", data, *again)
    else:
        where = (data, "--log" if as_log else "--clicks", out)
        say_next("train", *where, *again, "--k", 5, "--out", free_name("from-clicks"))


def _amount(n_clicks: str | None, n_sessions: str | None, as_log: bool) -> dict[str, int]:
    if (n_clicks is None) == (n_sessions is None):
        raise CounterrankError("--n-clicks, --n-sessions: expected one of the two, such as --n-clicks 1e6")
    if n_clicks is not None:
        if as_log:
            raise CounterrankError("--as-log: requires --n-sessions; expected it instead of --n-clicks")
        return {"clicks": parse_count(n_clicks, "--n-clicks")}
    return {"sessions": parse_count(str(n_sessions), "--n-sessions")}


def _seed(seed: int, number: int) -> Any:
    """A generator for each part, so that parts do not repeat each other."""
    import numpy as np

    return np.random.default_rng([check_whole(seed, "seed", 0), number])


def _write(
    folder: Path,
    part: str,
    data: RankingData,
    scores: Any,
    shown: tuple[Any, Any],
    displays: bool,
    log: bool,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """Simulate one part; what there is to say about it."""
    from counterrank.clicks import simulation
    from counterrank.clicks.browsing import Dependent, SequentialUsers

    row: dict[str, Any] = {"part": part, "queries": data.n_queries}
    if log:
        rows = simulation.write_log(data, scores, *shown, folder / f"{part}.parquet", **settings)
        return {**row, "sessions": settings["sessions"], "rows": rows}
    users = shown[1]
    settings |= {"displays": displays or isinstance(users, Dependent)}
    settings |= {"last_clicks": isinstance(users, SequentialUsers)}  # which estimators need then
    counts = simulation.simulate(data, scores, *shown, **settings)
    counts.save(folder / part)
    clicked = int((counts.by_document(counts.clicks) > 0).sum())
    shown_once = int((counts.by_document(counts.impressions) > 0).sum())
    return {
        **row,
        "sessions": counts.n_sessions,
        "clicks": counts.n_clicks,
        "documents shown": shown_once,
        "documents clicked": clicked,
        "documents": counts.n_docs,
    }

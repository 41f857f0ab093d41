"""`counterrank simulate`."""

from __future__ import annotations

import json as json_format
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterrank.cli.clicks import load_scores, parse_count
from counterrank.cli.options import Data, Json, RankedBy, Seed, Threads, Threshold
from counterrank.cli.output import print_json, print_table, say
from counterrank.cli.writing import Force, check_out, folder_with
from counterrank.common.errors import CounterrankError
from counterrank.common.files import atomic_folder

if TYPE_CHECKING:
    from counterrank import RankingData

MARKER, PARTS = "simulation.json", ("train", "validation", "test", "*.parquet")


def simulate(
    data: Data,
    logger: RankedBy,
    out: Annotated[Path, typer.Option(help="The folder to write to: one folder of clicks for each part of the data.")],
    policy: Annotated[
        str,
        typer.Option(
            help="Which pages are shown: deterministic:k=5, replace-last:k=5, epsilon-greedy:k=5,epsilon=0.1, "
            "uniform-insert:k=5 or plackett-luce:k=5,temperature=1."
        ),
    ] = "replace-last:k=5",
    examination: Annotated[
        str, typer.Option(help="P(examined | rank): inverse-rank:eta=1, also with k=5, or values such as 1,0.5,0.3.")
    ] = "inverse-rank:eta=1",
    clicks: Annotated[str | None, typer.Option(help="How many clicks on the training part, such as 1e6; or")] = None,
    sessions: Annotated[str | None, typer.Option(help="how many pages to show.")] = None,
    held_out: Annotated[float, typer.Option(help="Clicks on a validation or test part, as a share of those.")] = 0.15,
    relevance_threshold: Threshold = 3,
    relevant: Annotated[float, typer.Option(help="P(click | examined) of a relevant document.")] = 1.0,
    other: Annotated[float, typer.Option(help="P(click | examined) of any other document.")] = 0.1,
    gain: Annotated[str, typer.Option(help="binary: relevant or not; graded: by label, in between.")] = "binary",
    trust: Annotated[
        float, typer.Option(help="Trust bias from 0 to 1: irrelevant documents get more clicks at high ranks.")
    ] = 0.0,
    displays: Annotated[bool, typer.Option("--displays", help="Keep the distinct pages, for rerank.")] = False,
    log: Annotated[
        bool, typer.Option("--log", help="Write a log of every page instead of counts: PART.parquet, with --sessions.")
    ] = False,
    propensities: Annotated[
        bool, typer.Option("--propensities/--no-propensities", help="Whether a log holds them, as a good logger would.")
    ] = True,
    policy_name: Annotated[
        str | None,
        typer.Option(help="What the column policy says: the name of the policy, such as v1; none if not given."),
    ] = None,
    first_session: Annotated[
        int, typer.Option(help="The number of the first session of a log, so that several logs can be read as one.")
    ] = 0,
    force: Force = False,
    seed: Seed = 0,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Show pages to simulated users and save what they click.

    Example: counterrank simulate synthetic:mslr --logger production --policy replace-last:k=5 --clicks 1e6 --out clicks
    """
    from counterrank.clicks.policies.parsing import parse_examination, parse_policy
    from counterrank.clicks.users import ClickModel, trust_bias
    from counterrank.data.sources import open_data

    check_out(out, force, (data, logger, examination), folder_with(MARKER, PARTS))
    wanted = _amount(clicks, sessions, log)
    if not 0.0 < held_out <= 10.0:
        raise CounterrankError(f"held-out={held_out}: expected a share above 0, such as 0.15")
    if not 0.0 <= trust <= 1.0:
        raise CounterrankError(f"trust={trust}: expected a number from 0 to 1")
    if log and displays:
        raise CounterrankError("--displays, --log: a log holds every page anyway; expected one of the two")
    if trust and gain != "binary":
        raise CounterrankError("--trust, --gain: trust bias is for binary relevance; expected one of the two")
    model = ClickModel(relevant, other, gain)
    if trust:
        model = trust_bias(k=100, strength=trust, relevant=relevant, other=other)
    if first_session < 0 or (first_session and not log):
        raise CounterrankError(f"--first-session {first_session}: expected a number of at least 0, with --log")
    settings: dict[str, Any] = {"relevance_threshold": relevance_threshold, "click_model": model, "threads": threads}
    settings["policy_name"] = policy_name
    shown = (parse_policy(policy), parse_examination(examination))
    begin = time.perf_counter()
    rows: list[dict[str, Any]] = []
    with atomic_folder(out, MARKER, PARTS) as folder:
        for number, (part, chosen) in enumerate(_parts(open_data(data, threads=threads))):
            amount = {name: n if part == "train" else max(1, round(held_out * n)) for name, n in wanted.items()}
            scores = load_scores(logger, chosen, threads)
            more = {**settings, **amount, "seed": _seed(seed, number)}
            if log:
                first = first_session + sum(row["sessions"] for row in rows)
                more |= {"propensities": propensities, "first_session": first}
            rows.append(_write(folder, part, chosen, scores, shown, displays, log, more))
        about = {
            "data": data,
            "logger": str(logger),
            "policy": policy,
            "policy_name": policy_name,
            "examination": examination,
            "relevance_threshold": relevance_threshold,
            "click_model": {"relevant": relevant, "other": other, "gain": gain, "trust": trust},
            "seed": seed,
            "parts": rows,
        }
        (folder / MARKER).write_text(json_format.dumps(about, indent=1) + "\n", encoding="utf-8")
    if json:
        print_json({"out": str(out), **about, "seconds": time.perf_counter() - begin})
        return
    columns = tuple(rows[0])
    print_table(f"{out}: {policy}, {examination}", columns, [tuple(row.values()) for row in rows])
    if log and not propensities:
        say(f"Saved. Next: counterrank inspect {out} --data {data}")
    else:
        say(f"Saved. Next: counterrank train {data} --{'log' if log else 'clicks'} {out} --k 5 --out from-clicks")


def _amount(clicks: str | None, sessions: str | None, log: bool) -> dict[str, int]:
    if (clicks is None) == (sessions is None):
        raise CounterrankError("--clicks, --sessions: expected one of the two, such as --clicks 1e6")
    if clicks is not None:
        if log:
            raise CounterrankError("--log: a log is written by --sessions; expected those instead of --clicks")
        return {"clicks": parse_count(clicks, "clicks")}
    return {"sessions": parse_count(str(sessions), "sessions")}


def _seed(seed: int, number: int) -> Any:
    """A generator for each part, so that parts do not repeat each other."""
    import numpy as np

    from counterrank.common.checks import make_generator

    make_generator(seed)  # the check
    return np.random.default_rng([seed, number])


def _parts(data: Any) -> list[tuple[str, RankingData]]:
    from counterrank import RankingData

    if isinstance(data, RankingData):
        return [("train", data)]
    return [(part, getattr(data, part)) for part in ("train", "validation", "test") if getattr(data, part) is not None]


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

    row: dict[str, Any] = {"part": part, "queries": data.n_queries}
    if log:
        rows = simulation.write_log(data, scores, *shown, folder / f"{part}.parquet", **settings)
        return {**row, "sessions": settings["sessions"], "rows": rows}
    counts = simulation.simulate(data, scores, *shown, displays=displays, **settings)
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

"""`counterrank inspect`."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterrank.cli.clicks import ClickSource, load_scores
from counterrank.cli.options import Examination, Json, Logger, Part, Policy, Threads
from counterrank.cli.output import print_json, print_table, say
from counterrank.common.errors import CounterrankError

if TYPE_CHECKING:
    from counterrank import ClickCounts


def inspect(
    clicks: Annotated[Path, typer.Argument(help="Click counts: a folder written by simulate.")],
    part: Part = "train",
    data: Annotated[str | None, typer.Option(help="The ranking data, for coverage under --policy.")] = None,
    policy: Policy = None,
    examination: Examination = None,
    logger: Logger = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Show what clicks can and cannot tell: clicks by rank, who was shown, weights, and coverage of the policy.

    Data, policy and logger of simulated clicks are remembered; name them for others.

    Example: counterrank inspect clicks
    """
    from counterrank import ClickCounts
    from counterrank.cli.clicks import counts_folder

    folder = counts_folder(clicks, part)
    if folder is None:
        raise CounterrankError(f"{clicks}: no clicks of the {part} part in it")
    counts = ClickCounts.load(folder)
    if data is None and (policy is not None or logger is not None):
        raise CounterrankError("--policy, --logger: tell of coverage of the data; expected --data too")
    about = _remembered(clicks) if data is None and policy is None and logger is None else {}
    data, policy = data or about.get("data"), policy or about.get("policy")
    logger = logger or (Path(about["logger"]) if about else None)
    source = ClickSource(clicks, None, policy, examination, logger, threads)
    found: dict[str, Any] = {
        "clicks": str(folder),
        "overview": _overview(counts),
        "ranks": _ranks(counts, source),
        "weights": _weights(counts),
        "estimators": _conditions(counts),
        "coverage": _coverage(counts, source, data, part) if data is not None else None,
    }
    if json:
        print_json(found)
        return
    print_table(
        f"{folder}", ("", "value"), [(key.replace("_", " "), value) for key, value in found["overview"].items()]
    )
    print_table("By rank", tuple(found["ranks"][0]), [tuple(row.values()) for row in found["ranks"]])
    if found["weights"]:
        print_table("Policy-aware weights of clicks (1 / logged propensity)", ("", "value"), _words(found["weights"]))
    print_table("Estimators", ("estimator", "what the log says"), list(found["estimators"].items()))
    if found["coverage"]:
        print_table(f"Coverage of {policy}", ("", "value"), _words(found["coverage"]))
    elif data is None:
        say("With --data, --policy and --logger: which candidates the policy can never show.")


def _remembered(clicks: Path) -> dict[str, Any]:
    """What simulate noted beside the clicks, if the data and the logger are still where they were."""
    file = clicks / "simulation.json"
    if not file.is_file():
        return {}
    about: dict[str, Any] = json_format.loads(file.read_text(encoding="utf-8"))
    there = Path(about["logger"]).exists() and (about["data"].startswith("synthetic:") or Path(about["data"]).exists())
    return about if there else {}


def _words(values: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(key.replace("_", " "), value) for key, value in values.items()]


def _overview(counts: ClickCounts) -> dict[str, Any]:
    import numpy as np

    shown, clicked = counts.by_document(counts.impressions) > 0, counts.by_document(counts.clicks) > 0
    asked = counts.sessions[counts.sessions > 0]
    return {
        "sessions": counts.n_sessions,
        "clicks": counts.n_clicks,
        "clicks_per_session": counts.n_clicks / max(counts.n_sessions, 1),
        "queries": counts.n_queries,
        "queries_asked": len(asked),
        "sessions_per_asked_query_median": int(np.median(asked)) if len(asked) else 0,
        "documents": counts.n_docs,
        "documents_shown": int(shown.sum()),
        "documents_clicked": int(clicked.sum()),
        "distinct_pages": "not kept" if counts.displays is None else counts.displays.n_pages,
    }


def _ranks(counts: ClickCounts, source: ClickSource) -> list[dict[str, Any]]:
    impressions, clicks = counts.by_rank(counts.impressions), counts.by_rank(counts.clicks)
    theta = None
    if source.examination is not None or counts.examination is not None:
        theta = source.curve(counts).curve(len(impressions))
    return [
        {
            "rank": rank + 1,
            "impressions": int(impressions[rank]),
            "clicks": int(clicks[rank]),
            "click rate": float(clicks[rank] / impressions[rank]) if impressions[rank] else None,
            "P(examined)": None if theta is None else float(theta[rank]),
        }
        for rank in range(len(impressions))
    ]


def _weights(counts: ClickCounts) -> dict[str, Any] | None:
    """How unequal the clicks weigh."""
    from counterrank.evaluation.click_evidence import concentration

    clicked = counts.clicks > 0
    if counts.propensities is None or not clicked.any():
        return None
    n, weight = counts.clicks[clicked], 1.0 / counts.propensities[clicked]
    size, share = concentration(n, weight)
    return {
        "effective_sample_size": size,
        "effective_share_of_clicks": size / float(n.sum()),
        "largest_weight": float(weight.max()),
        "largest_share": share,
    }


def _conditions(counts: ClickCounts) -> dict[str, str]:
    """What the log alone says about the estimators' conditions."""
    import numpy as np

    from counterrank.data.ids import query_of_rows

    query = query_of_rows(counts.offsets)
    asked = counts.sessions[query] > 0
    shown = counts.by_document(counts.impressions)
    never, missing = int((asked & (shown == 0)).sum()), int((asked & (shown < counts.sessions[query])).sum())
    n = int(np.count_nonzero(asked))
    selection = f"{missing:,} of {n:,} candidates were missing from some page: item selection bias"
    everywhere = "every candidate was on every page"
    return {
        "policy-aware": f"{never:,} of {n:,} candidates were never shown; coverage tells whether they could have been"
        if never
        else "every candidate was shown at least once",
        "policy-oblivious": selection if missing else everywhere,
        "rerank": "needs the distinct pages (simulate --displays)" if counts.displays is None else "pages are there",
        "naive": "biased by position" + (f"; {selection}" if missing else ""),
    }


def _coverage(counts: ClickCounts, source: ClickSource, data: str, part: str) -> dict[str, Any]:
    import numpy as np

    from counterrank.clicks.policies import coverage
    from counterrank.clicks.policies.named import parse_policy
    from counterrank.data.sources import choose_part, open_data

    if source.policy is None or source.logger is None:
        raise CounterrankError("--data: coverage is a matter of the policy; expected --policy and --logger too")
    chosen = choose_part(open_data(data, threads=source.threads), part, data)
    counts.check_data(chosen, str(source.clicks))
    scores = load_scores(source.logger, chosen, source.threads)
    covered = coverage(parse_policy(source.policy), scores, chosen.offsets, source.curve(counts))
    return {
        "candidates": chosen.n_docs,
        "never_examinable": int((~covered.examinable).sum()),
        "queries_with_a_never_examinable_candidate": int(np.count_nonzero(covered.never_examined)),
        "largest_never_examinable_share_of_a_query": float(covered.never_examined.max()),
        "policy-aware_condition_holds": "yes" if covered.supports_policy_aware else "no",
        "not_examinable_on_every_page": int((~covered.always_examinable).sum()),
        "policy-oblivious_condition_holds": "yes" if covered.supports_policy_oblivious else "no",
    }

"""Calls of the library that `benchmarks.compare_versions` records: data, policies, simulation, clicks and logs."""

from __future__ import annotations

import csv
import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import counterrank as cr
from benchmarks.compare_inputs import (
    EXAM,
    PAGES,
    case,
    clicks_on,
    content,
    counts,
    fold,
    new_scores,
    old_scores,
    short,
    two_policies,
)
from benchmarks.compare_results import exact, trained
from counterrank import evaluation, examination, policies, simulation

# Ranking data --------------------------------------------------------------------------------------------------------


@case("data/synthetic {}", "mslr", "yahoo")
def _(shape):
    made = cr.make_fold(shape, n_queries=12, seed=np.random.default_rng(3))
    return {"data": content(cr.make_ranking_data(shape, n_queries=10, seed=7)), "test": content(made.test)}


@case("data/subset, normalized, widened")
def _():
    data = fold().test
    found = {"subset": data.subset([3, 1]), "normalized": data.subset(slice(0, 4)).normalized()}
    found["widened"] = data.subset([0]).widened(data.n_features + 3)
    return {name: content(each) for name, each in found.items()}


@case("data/letor")
def _():
    data = fold().test.subset(slice(0, 5))
    queries = np.repeat(data.query_ids, data.lengths)
    lines = []
    for label, query, row in zip(data.labels, queries, data.features, strict=True):
        values = " ".join(f"{place}:{value:.6g}" for place, value in enumerate(row, 1) if value)
        lines.append(f"{label:g} qid:{query} {values} # docid = d{len(lines)}\n")
    Path("letor.txt").write_text("".join(lines), encoding="utf-8")
    Path("letor-fold").mkdir()
    for name in ("train", "vali", "test"):
        Path("letor-fold", f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    found = cr.read_fold("letor-fold")
    wide = cr.read_letor("letor.txt", n_features=200)
    return {"file": content(cr.read_letor("letor.txt")), "fold": content(found.validation), "wide": content(wide)}


@case("data/letor with a fault", raises=True)
def _():
    Path("bad.txt").write_text("1 qid:1 1:0.5\n2 qid:1 1:x\n", encoding="utf-8")
    return content(cr.read_letor("bad.txt"))


@case("data/parquet")
def _():
    data = fold().test.subset(slice(0, 5))
    data.save("data.parquet")
    cr.data.write_parquet(data, "again.parquet")
    found = cr.data.read_parquet("again.parquet")
    return {"loaded": content(cr.RankingData.load("data.parquet")), "equal": found.equals(data)}


@case("data/fold without validation")
def _():
    parts = cr.Fold(fold().train, None, fold().test).split_validation(0.2, seed=1)
    return {"train": exact(parts.train.query_ids), "validation": exact(parts.validation.query_ids)}


@case("data/scores {}", "csv", "parquet", "trec")
def _(ending):
    data = fold().test.subset(slice(0, 5))
    scores = new_scores(data)
    rows = evaluation.ranked_rows(scores, data)
    evaluation.write_run(rows, f"run.{ending}", tag="tag")
    head = evaluation.ranked_rows(scores, data, depth=3)
    found = {"head": {name: head[name].to_numpy() for name in head.column_names}}
    if ending != "parquet":
        found["file"] = {"lines": Path(f"run.{ending}").read_text(encoding="utf-8").splitlines()[:5]}
    return found | {"read": cr.read_scores(f"run.{ending}", data)}


@case("data/scores in a plain list")
def _():
    data = fold().test.subset(slice(0, 5))
    np.save("scores.npy", new_scores(data))
    np.savetxt("scores.txt", new_scores(data), fmt="%.17g")
    return {name: cr.read_scores(name, data) for name in ("scores.npy", "scores.txt")}


# Policies and examination --------------------------------------------------------------------------------------------


@case("policies/propensity {}", *PAGES)
def _(name):
    data, policy = short(), PAGES[name]
    scores = old_scores(data)
    covered = policy.coverage(scores, data.offsets, EXAM)
    return {
        "rho": policy.propensity(scores, data.offsets, EXAM),
        "one thread": policy.propensity(scores, data.offsets, examination.Examination([1, 0.5, 0.3]), threads=1),
        "by rank": policy.rank_probabilities(scores, data.offsets, 5),
        "coverage": {"examinable": covered.examinable, "always": covered.always_examinable},
        "supports": [covered.supports_policy_aware, covered.supports_policy_oblivious],
    }


@case("policies/sample {}", *PAGES)
def _(name):
    data, policy = short(), PAGES[name]
    given = old_scores(data), data.offsets
    return {
        "seed": policy.sample(*given, seed=11),
        "generator": policy.sample(*given, seed=np.random.default_rng(11)),
        "pages": [policy.display(given[0][:20], examination.inverse_rank(), seed=seed) for seed in range(5)],
    }


class OwnPolicy:
    """The protocol of a user's own policy: the best document, then another by chance."""

    def sample(self, scores, offsets, seed=0):
        rng = np.random.default_rng(seed)
        pages = []
        for begin, end in pairwise(offsets):
            best = begin + int(np.argmax(scores[begin:end]))
            others = [row for row in range(begin, end) if row != best]
            pages.append([best, *rng.permutation(others)[:1]])
        return np.concatenate(pages).astype(np.int64), np.cumsum([0, *map(len, pages)])

    def propensity(self, scores, offsets, exam):
        first, second = exam.curve(2)
        found = []
        for begin, end in pairwise(offsets):
            part = np.full(end - begin, second / max(end - begin - 1, 1))
            part[np.argmax(scores[begin:end])] = first
            found.append(part)
        return np.concatenate(found)


@case("policies/own")
def _():
    data = short()
    scores = old_scores(data)
    estimated = policies.estimate_propensity(OwnPolicy(), scores, data.offsets, EXAM, samples=50, seed=1)
    return {
        "clicks": counts(simulation.simulate(data, scores, OwnPolicy(), EXAM, sessions=300, seed=1)),
        "estimated": {"rho": estimated.propensities, "errors": estimated.standard_errors},
    }


@case("policies/explicit")
def _():
    policy = policies.Explicit([[0, 1, 2], [2, 0], [1]], [0.5, 0.3, 0.2])
    scores, offsets = np.zeros(7), np.array([0, 3, 7])
    several = {0: policy, 1: policies.Explicit([[3, 1], [0, 2, 1]], [0.25, 0.75])}
    as_one = policies.ExplicitQueries(several)
    return {
        "rho": policy.propensity(scores[:3], offsets[:2], EXAM),
        "sample": policy.sample(scores[:3], offsets[:2], seed=5),
        "several": as_one.propensity(scores, offsets, EXAM),
        "samples": [as_one.sample(scores, offsets, seed=seed) for seed in range(5)],
    }


@case("policies/by name")
def _():
    texts = ("replace-last:k=5", "plackett-luce:k=3,temperature=2", "0.5*deterministic:k=5+0.5*uniform-insert:k=5")
    data = short()
    given = old_scores(data), data.offsets, EXAM
    return {text: policies.parse_policy(text).propensity(*given) for text in texts}


@case("policies/estimated propensities")
def _():
    data = short()
    given = old_scores(data), data.offsets, EXAM
    found = policies.estimate_propensity(PAGES["plackett-luce"], *given, samples=200, seed=3)
    return {"rho": found.propensities, "errors": found.standard_errors, "worst": found.largest_relative_error()}


@case("policies/fit_plackett_luce")
def _():
    data = short()
    options = {"sessions": 3000, "seed": 3, "displays": True}
    clicks = simulation.simulate(data, old_scores(data), PAGES["plackett-luce"], EXAM, **options)
    fitted = policies.fit_plackett_luce(data, clicks, k=5, ridge=10.0, errors=True)
    names = ("pages", "short_pages", "candidates_found", "converged", "log_likelihood", "uniform_log_likelihood")
    return {name: trained(getattr(fitted, name)) for name in names} | {
        "scores": trained(fitted.scores),
        "coefficients": trained(fitted.coefficients),
        "errors": trained(fitted.standard_errors),
        "predicted": trained(fitted.predict(data.subset([2, 0]))),
    }


@case("policies/propensity_from_log {}", 0.0, 2.0, "auto")
def _(smoothing):
    confidence = None if smoothing else 0.9
    found = policies.propensity_from_log(clicks_on(displays=True), EXAM, smoothing=smoothing, confidence=confidence)
    names = ("propensities", "standard_errors", "samples", "lower", "never_shown", "smoothing")
    return {name: getattr(found, name) for name in names}


@case("policies/several_policies")
def _():
    scores = old_scores(short())
    named = {"old": (policies.Deterministic(5), scores), "new": (policies.UniformInsert(5), scores)}
    return policies.several_policies(two_policies(), named, EXAM)


@case("examination/curves")
def _():
    found = {}
    for eta in (0.0, 0.5, 1.0, 2.0):
        found[f"eta {eta}"] = examination.inverse_rank(k=5, eta=eta).curve(8)
    return found | {"none": examination.inverse_rank().curve(8), "own": examination.Examination([1, 0.5]).curve(4)}


@case("examination/estimate {}", "all-pairs", "em", "regression-em")
def _(method):
    clicks = clicks_on(policy="uniform-insert")
    data = fold().train if method == "regression-em" else None
    found = {}
    for target in ("queries", "these-queries"):
        curve = examination.estimate(clicks, method=method, data=data, target=target)
        curve.save(f"{method}-{target}.json")
        found[target] = curve
    loaded = examination.load(f"{method}-queries.json")
    own = examination.estimate(clicks, method=method, data=data, k=3, confidence=0.8)
    return found | {"loaded": loaded.curve(6), "k 3": own}


@case("examination/connected_ranks")
def _():
    return [examination.connected_ranks(clicks_on()), examination.connected_ranks(clicks_on(policy="uniform-insert"))]


@case("examination/estimate where ranks are not connected", raises=True)
def _():
    return examination.estimate(clicks_on())


# Simulation and click counts -----------------------------------------------------------------------------------------

WORLDS = {
    "clicks": {"clicks": 700},
    "sessions": {"sessions": 10**5},
    "displays": {"sessions": 2000, "displays": True},
    "displays by clicks": {"clicks": 500, "displays": True},
    "trust": {"sessions": 3000, "click_model": simulation.trust_bias(k=5, strength=0.8)},
    "graded": {"sessions": 3000, "click_model": simulation.ClickModel(0.9, 0.2, gain="graded")},
    "by rank": {"sessions": 3000, "click_model": simulation.ClickModel([0.9, 0.8], [0.3, 0.1])},
    "frequencies": {"clicks": 400, "query_frequencies": np.arange(1.0, 31.0)},
    "without propensities": {"sessions": 1000, "propensities": False, "policy_name": "v1", "relevance_threshold": 2},
}


@case("simulation/{}", *WORLDS)
def _(name):
    given = short(), old_scores(short()), PAGES["epsilon-greedy"], EXAM
    one = simulation.simulate(*given, seed=1, threads=1, **WORLDS[name])
    other = simulation.simulate(*given, seed=np.random.default_rng(1), **WORLDS[name])
    return {"seed": counts(one), "generator": counts(other)}


@case("simulation/policy {}", *PAGES)
def _(name):
    return counts(simulation.simulate(short(), old_scores(short()), PAGES[name], EXAM, clicks=2000, seed=9))


@case("simulation/click models")
def _():
    trust = simulation.trust_bias(k=5)
    return {
        "affine": trust.affine(EXAM, 5),
        "by rank": trust.by_rank(7),
        "attractive": trust.attractiveness(short(), 3),
    }


@case("simulation/write_log")
def _():
    import pyarrow.parquet as pq

    options = {"sessions": 800, "seed": 6, "policy_name": "v1", "first_session": 100, "display_probabilities": True}
    given = short(), old_scores(short()), PAGES["replace-last"], EXAM, "log.parquet"
    rows = simulation.write_log(*given, **options)
    table = pq.read_table("log.parquet")
    return {"rows": rows} | {name: table[name].to_numpy() for name in table.column_names}


@case("counts/save and load")
def _():
    found = {}
    for name, clicks in {"plain": clicks_on(), "displays": clicks_on(displays=True), "two": two_policies()}.items():
        clicks.save(f"counts-{name}")
        found[name] = counts(cr.ClickCounts.load(f"counts-{name}"))
    return found


@case("counts/concat")
def _():
    other = simulation.simulate(fold().train, old_scores(fold().train), PAGES["replace-last"], EXAM, clicks=99, seed=8)
    return {"one": counts(cr.ClickCounts.concat([clicks_on(), other])), "two": counts(two_policies())}


@case("counts/only_policies")
def _():
    return {"active": two_policies().active_policies, "new": counts(two_policies().only_policies(["new"]))}


@case("counts/align")
def _():
    data = short()
    part = data.subset(slice(5, 15))
    clicks = simulation.simulate(part, old_scores(part), PAGES["replace-last"], EXAM, clicks=500, seed=2, displays=True)
    return counts(clicks.align(data))


@case("counts/other data", raises=True)
def _():
    return clicks_on().check_data(fold().test)


# Click logs ----------------------------------------------------------------------------------------------------------


@cache
def log_rows() -> list[dict[str, Any]]:
    """The log of `simulation/write_log`, as rows."""
    import pyarrow.parquet as pq

    if not Path("rows.parquet").is_file():
        options = {"sessions": 500, "seed": 7, "policy_name": "v1"}
        simulation.write_log(short(), old_scores(short()), PAGES["replace-last"], EXAM, "rows.parquet", **options)
    return pq.read_table("rows.parquet").to_pylist()


def write_csv(path: str, rows: list[dict[str, Any]], names: list[str]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([[row[name] for name in names] for row in rows])


def write_lines(path: str, rows: Any) -> None:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@case("logs/{}", "parquet", "csv", "jsonl")
def _(kind):
    rows = log_rows()
    if kind == "csv":
        write_csv("rows.csv", rows, list(rows[0]))
    if kind == "jsonl":
        write_lines("rows.jsonl", rows)
    return {
        "plain": counts(cr.read_log(f"rows.{kind}", short())),
        "displays": counts(cr.read_log(f"rows.{kind}", short(), displays=True, memory="300MB")),
        "seen only": counts(cr.read_log(f"rows.{kind}")),
    }


@case("logs/options")
def _():
    rows = [row | {"rank": row["rank"] - 1} for row in log_rows()]
    names = list(rows[0])
    write_csv("mapped.csv", rows, names)
    text = Path("mapped.csv").read_text(encoding="utf-8").replace("clicked", "is_click", 1).replace("rank", "place", 1)
    Path("mapped.csv").write_text(text, encoding="utf-8")
    options = {"columns": {"clicked": "is_click", "rank": "place"}, "rank_base": 0}
    return {
        "mapped": counts(cr.read_log("mapped.csv", short(), **options)),
        "only": counts(cr.read_log("mapped.csv", short(), only_policies=["v1"], trust=True, **options)),
        "impressions": counts(cr.read_log("rows.csv", short(), impressions=True)),
        "unknown": counts(cr.read_log("rows.csv", short().subset(slice(0, 20)))),
    }


def faulty_log() -> str:
    rows = [dict(row) for row in log_rows()]
    rows[3]["rank"], rows[12]["doc_id"], rows[21]["clicked"] = "x", rows[11]["doc_id"], "maybe"
    write_csv("faulty.csv", rows, list(rows[0]))
    return "faulty.csv"


@case("logs/faults skipped")
def _():
    return counts(cr.read_log(faulty_log(), short(), on_error="skip"))


@case("logs/missing", raises=True)
def _():
    return cr.read_log("no/such/log.parquet", short())


@case("logs/faults", raises=True)
def _():
    return counts(cr.read_log(faulty_log(), short()))


@case("logs/metarank")
def _():
    pages: dict[int, list[dict[str, Any]]] = {}
    for row in log_rows():
        pages.setdefault(row["session_id"], []).append(row)
    events = []
    for session, page in pages.items():
        fields = [{"name": "query", "value": str(page[0]["query_id"])}]
        items = [{"id": str(row["doc_id"])} for row in page]
        stamp = {"timestamp": str(1599391467000 + session), "user": "u", "session": "s"}
        events.append({"event": "ranking", "id": f"r{session}", "fields": fields, "items": items, **stamp})
        for row in page:
            if row["clicked"]:
                event = {"event": "interaction", "id": f"i{session}", "ranking": f"r{session}", "type": "click"}
                events.append({**event, "item": str(row["doc_id"]), "fields": [], **stamp})
    write_lines("metarank.jsonl", events)
    return {"data": counts(cr.read_log("metarank.jsonl", short(), displays=True)), "seen": seen("metarank.jsonl")}


@case("logs/ubi")
def _():
    Path("ubi").mkdir()
    searches, events = {}, []
    for row in log_rows():
        name, stamp = f"s{row['session_id']}", {"client_id": "c", "timestamp": "2024-05-16T12:34:56.789Z"}
        searches[name] = {"query_id": name, "user_query": str(row["query_id"]), "query_attributes": {}, **stamp}
        place = {"object": {"object_id": str(row["doc_id"])}, "position": {"ordinal": row["rank"]}}
        event = {"query_id": name, "message": None, "event_attributes": place, **stamp}
        events += [{"action_name": each, **event} for each in ["impression"] + ["click"] * row["clicked"]]
    write_lines("ubi/ubi_queries.jsonl", searches.values())
    write_lines("ubi/ubi_events.jsonl", events)
    return {"data": counts(cr.read_log("ubi", short())), "seen": seen("ubi", click_actions=["click", "buy"])}


def seen(path: str, **options: Any) -> dict[str, Any]:
    return counts(cr.read_log(path, **options))


@case("logs/spark")
def _():
    return counts(cr.read_log("rows.csv", short(), displays=True, engine="spark", master="local[1]"))

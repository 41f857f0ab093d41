"""Calls of the library whose results `benchmarks.compare_versions` records; public names only.

Each case is a function without arguments, or with one that takes each of several values in turn, as in
`@case("losses/{}", "arp_hinge", "arp_logistic")`. Cases run in order, in a work folder of their own, and may use files
that earlier ones wrote there.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import counterrank as cr
from benchmarks.compare_results import NUMBER, exact, numeric, trained
from counterrank import estimators, evaluation, examination, export, losses, policies, simulation


class Case(NamedTuple):
    """A call, the tolerance class of its floating-point numbers, and whether it is meant to raise."""

    name: str
    call: Callable[[], Any]
    tolerance: str
    raises: bool


CASES: list[Case] = []


def case(name: str, *given: Any, tolerance: str = "numeric", raises: bool = False) -> Callable[[Any], Any]:
    """Register a function; with `given` once for each, which is its argument and part of the name."""

    def register(function: Any) -> Any:
        for each in given:
            CASES.append(Case(name.format(each), partial(function, each), tolerance, raises))
        if not given:
            CASES.append(Case(name, function, tolerance, raises))
        return function

    return register


# Inputs --------------------------------------------------------------------------------------------------------------

EXAM = examination.inverse_rank(k=5)
PAGES = {
    "deterministic": policies.Deterministic(5),
    "replace-last": policies.ReplaceLast(5),
    "epsilon-greedy": policies.EpsilonGreedy(5, 0.3),
    "uniform-insert": policies.UniformInsert(5),
    "plackett-luce": policies.PlackettLuce(5, 0.5),
    "mixture": policies.Mixture([policies.Deterministic(5), policies.PlackettLuce(3)], [0.7, 0.3]),
    "no-cutoff": policies.ReplaceLast(),
}
METRICS = ["arp", "dcg@5", "dcg", "precision@3"]


@cache
def fold() -> cr.Fold:
    return cr.make_fold("mslr", n_queries=50, seed=1)


@cache
def short() -> cr.RankingData:
    """Short queries, for what is costly."""
    return cr.make_ranking_data("yahoo", n_queries=30, seed=2)


def old_scores(data: cr.RankingData) -> Any:
    """What pages were ranked by: a feature and a little of another, with ties."""
    return np.round(data.features[:, 0].astype(np.float64) + 0.1 * data.features[:, 1], 1)


def new_scores(data: cr.RankingData, seed: int = 5) -> Any:
    """Scores with something to be said for them."""
    return data.labels + np.random.default_rng(seed).normal(size=data.n_docs)


@cache
def clicks_on(part: str = "train", policy: str = "replace-last", displays: bool = False) -> cr.ClickCounts:
    data = getattr(fold(), part)
    options = {"sessions": 4000, "seed": 3, "displays": displays}
    return simulation.simulate(data, old_scores(data), PAGES[policy], EXAM, **options)


@cache
def rho_of(part: str = "train", policy: str = "replace-last") -> Any:
    data = getattr(fold(), part)
    return PAGES[policy].propensity(old_scores(data), data.offsets, EXAM)


@cache
def two_policies() -> cr.ClickCounts:
    """A log of two policies by name."""
    return cr.ClickCounts.concat([named_log("old"), named_log("new")])


@cache
def named_log(name: str) -> cr.ClickCounts:
    policy = {"old": policies.Deterministic(5), "new": policies.UniformInsert(5)}[name]
    options = {"sessions": 2000, "seed": len(name) + ord(name[0]), "policy_name": name}
    return simulation.simulate(short(), old_scores(short()), policy, EXAM, **options)


@cache
def relevance() -> estimators.Relevance:
    return estimators.fit_relevance(fold().train, clicks_on(), rho_of(), seed=4)


def counts(clicks: cr.ClickCounts) -> dict[str, Any]:
    """All that click counts hold, as plain values."""
    names = ("identity", "offsets", "sessions", "docs", "ranks", "impressions", "clicks", "propensities", "policies")
    names += ("policy_names", "policy_sessions", "unexaminable", "unknown_impressions", "n_sessions", "n_clicks")
    found = {name: getattr(clicks, name) for name in names}
    shown = clicks.displays
    pages = ("offsets", "docs", "sessions", "clicks", "policies", "n_pages")
    found["displays"] = None if shown is None else {name: getattr(shown, name) for name in pages}
    return found | {"by_document": clicks.by_document(clicks.clicks), "by_rank": clicks.by_rank(clicks.clicks)}


def content(data: cr.RankingData) -> Any:
    """All that ranking data holds."""
    names = ("features", "labels", "offsets", "query_ids", "doc_ids", "n_queries", "n_docs", "n_features")
    return exact({name: getattr(data, name) for name in names})


def order(scores: Any, data: cr.RankingData) -> Any:
    """The rows of each query by score."""
    queries = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))
    return exact(np.lexsort((-np.asarray(scores), queries)))


def about_ranker(ranker: cr.Ranker, data: cr.RankingData) -> dict[str, Any]:
    """What a trained ranker is and says."""
    scores = ranker.predict(data)
    found: dict[str, Any] = {
        "scores": trained(scores),
        "order": order(scores, data),
        "history": trained(ranker.history_),
        "best_epoch": ranker.best_epoch_,
        "learning_rate": trained(ranker.learning_rate_),
        "loss": ranker.loss_,
        "metric": ranker.metric_,
    }
    if ranker.kind_ in ("linear", "lambdamart"):
        found["importances"] = trained(ranker.feature_importances_)
    return found


def text_content(path: Path | str) -> dict[str, Any]:
    """A text file: its numbers, and all the rest."""
    text = Path(path).read_text(encoding="utf-8").replace(cr.__version__, "VERSION")
    return {"words": NUMBER.sub("#", text), "values": trained(np.array(NUMBER.findall(text), float))}


def loss_inputs() -> dict[str, tuple[Any, Any, Any]]:
    """Scores, weights and offsets of several kinds."""
    rng = np.random.default_rng(0)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 40, size=60))))
    n = int(offsets[-1])
    scores, weights = rng.normal(size=n), rng.exponential(size=n) * (rng.random(n) < 0.3)
    return {
        "plain": (scores, weights, offsets),
        "float32": (scores.astype(np.float32), weights.astype(np.float32), offsets),
        "ties": (np.round(scores), weights, offsets),
        "all tied": (np.zeros(n), weights, offsets),
        "huge": (scores * 1e4, weights, offsets),
        "negative weights": (scores, weights - 0.5 * weights.mean(), offsets),
        "no weights": (scores, np.zeros(n), offsets),
        "single documents": (scores[:5], weights[:5] + 1.0, np.arange(6)),
    }


def on_inputs(loss: Callable[..., Any], *cutoffs: dict[str, Any]) -> dict[str, Any]:
    """A loss on all inputs, with each of the options."""
    return {
        f"{name} {_label(options)}": dict(
            zip(("value", "gradient", "curvature"), loss(*given, **options), strict=False)
        )
        for name, given in loss_inputs().items()
        for options in cutoffs or ({},)
    }


def _label(options: dict[str, Any]) -> str:
    """The options in a word or two; functions by the name of the option alone."""
    return ", ".join(
        key if callable(value) or isinstance(value, tuple) else f"{key}={value}" for key, value in options.items()
    )


# Losses --------------------------------------------------------------------------------------------------------------

CUTOFFS = ({"k": None}, {"k": 1}, {"k": 5}, {"k": 5, "threads": 1})


@case("losses/{}", "arp_hinge", "arp_logistic", "lambdaloss_dcg")
def _(name):
    return on_inputs(getattr(losses, name))


@case("losses/{}", "dcg_hinge", "dcg_logistic", "lambdaloss_dcg_at_k", "lambdaloss_truncated", "lambdarank")
def _(name):
    return on_inputs(getattr(losses, name), *CUTOFFS)


@case("losses/general {}", "hinge", "logistic")
def _(bound):
    root = losses.Alpha(lambda ranks: ranks**-0.5, lambda ranks: -0.5 * ranks**-1.5)
    alphas = {"arp": losses.ALPHA_ARP, "dcg": losses.ALPHA_DCG, "root": root}
    return {
        name: on_inputs(losses.monotonic, {"alpha": alpha, "bound": bound, "k": 4}) for name, alpha in alphas.items()
    } | {"without k": on_inputs(losses.monotonic, {"alpha": losses.ALPHA_ARP, "bound": bound})}


@case("losses/general lambdaloss")
def _():
    def inverse(ranks):
        return 1.0 / ranks

    return on_inputs(losses.lambdaloss, {}, {"discounts": inverse}, {"truncate": 3}) | {
        "discounts": losses.dcg_discounts(np.arange(1.0, 20.0)),
        "lambdarank": on_inputs(losses.lambdarank, {"discounts": inverse, "k": 7}),
        "made": on_inputs(partial(losses.second_order, losses.make_lambdaloss("inverse", inverse, truncate=3))),
    }


@case("losses/second order {}", *sorted(losses.LOSSES))
def _(name):
    return on_inputs(partial(losses.second_order, name), {"k": 5} if losses.named_loss(name).takes_k else {})


@case("losses/named")
def _():
    return {
        name: {"takes_k": loss.takes_k, "metric": loss.metric(5 if loss.takes_k else None)}
        for name, loss in losses.LOSSES.items()
    }


@case("losses/torch")
def _():
    import torch

    given, weights, offsets = loss_inputs()["plain"]
    found = {}
    for name in ("arp-logistic", "lambdaloss-truncated"):
        scores = torch.tensor(given, dtype=torch.float64, requires_grad=True)
        value = cr.torch.loss(name, k=5 if "trunc" in name else None)(scores, torch.tensor(weights), offsets)
        value.backward()
        found[name] = {"value": value.item(), "gradient": scores.grad.numpy()}
    return found


@case("losses/bad input {}", "lengths", "offsets", "nan", "k", raises=True)
def _(fault):
    scores, weights, offsets = (np.array(each) for each in loss_inputs()["plain"])
    if fault == "lengths":
        weights = weights[1:]
    if fault == "offsets":
        offsets[3] = offsets[2] - 1
    if fault == "nan":
        scores[7] = np.nan
    return losses.dcg_hinge(scores, weights, offsets, k=0 if fault == "k" else 5)


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


# Estimators ----------------------------------------------------------------------------------------------------------


@case("estimators/full_information")
def _():
    data = fold().train
    return {
        "binary": estimators.full_information(data, relevance_threshold=3),
        "exponential": estimators.full_information(data, gain="exponential"),
        "ndcg": estimators.full_information(data, relevance_threshold=2, ndcg_at=5),
        "gains": estimators.exponential_gains(data),
        "relevant": estimators.relevant_documents(data, 2),
    }


@case("estimators/naive, clip {}", None, 1.0)
def _(clip):
    return estimators.naive(clicks_on(), clip=clip)


@case("estimators/policy_oblivious, clip {}", None, 3.0)
def _(clip):
    return estimators.policy_oblivious(clicks_on(policy="mixture"), EXAM, clip=clip)


@case("estimators/policy_aware, clip {}", None, 20.0)
def _(clip):
    own = estimators.logged_propensities(clicks_on())
    return {
        "rho": estimators.policy_aware(clicks_on(), rho_of(), clip=clip),
        "logged": estimators.policy_aware(clicks_on(), clip=clip),
        "combined": estimators.policy_aware(clicks_on(), own, clip=clip),
    }


@case("estimators/logged_propensities")
def _():
    found = {"one": estimators.logged_propensities(clicks_on())}
    found["two"] = estimators.logged_propensities(two_policies(), EXAM)
    found["all shown"] = estimators.logged_propensities(clicks_on(policy="mixture"), EXAM, all_shown=True)
    names = ("by_document", "by_cell", "source", "uncovered")
    return {key: {name: getattr(each, name) for name in names} for key, each in found.items()}


@case("estimators/policy_aware of two policies")
def _():
    return estimators.policy_aware(two_policies(), exam=EXAM)


@case("estimators/policy_aware of two policies without a curve", raises=True)
def _():
    return estimators.policy_aware(two_policies())


@case("estimators/rerank, clip {}", None, 3.0)
def _(clip):
    return estimators.rerank(clicks_on(displays=True), EXAM, clip=clip)


@case("estimators/affine")
def _():
    data, policy = fold().train, PAGES["uniform-insert"]
    trust = simulation.trust_bias(k=5)
    alpha, beta = trust.affine(EXAM, 5)
    scores = old_scores(data)
    clicks = simulation.simulate(data, scores, policy, EXAM, sessions=5000, seed=5, click_model=trust)
    return {
        "policy": estimators.affine(clicks, alpha, beta, policy, scores),
        "clipped": estimators.affine(clicks, alpha, beta, policy, scores, clip=20.0),
        "realised": estimators.affine(clicks, alpha, beta),
    }


@case("estimators/relevance {}", "ridge", "lightgbm", "mlp", tolerance="trained")
def _(model):
    data, clicks = fold().train, clicks_on()
    options = {"model": model, "seed": 4, "folds": 3}
    found = estimators.fit_relevance(data, clicks, rho_of(), **options)
    shown = estimators.fit_relevance(data, clicks, exam=EXAM, saturation=5.0, **options)
    return {
        "values": found.values,
        "notes": found.about,
        "error": found.error,
        "baseline": found.baseline,
        "predicted": found.predict(fold().test),
        "with a curve": shown.values,
    }


@case("estimators/direct")
def _():
    return estimators.direct(clicks_on(), relevance().values)


@case("estimators/doubly_robust")
def _():
    given = clicks_on(), rho_of(), relevance().values
    return {
        "plain": estimators.doubly_robust(*given),
        "tau": estimators.doubly_robust(*given, tau=0.03),
        "exam": estimators.doubly_robust(*given, exam=EXAM),
        "beta": estimators.doubly_robust(*given, exam=[0.9, 0.5, 0.3, 0.2, 0.2], beta=[0.02] * 5),
        "logged": estimators.doubly_robust(clicks_on(), None, relevance().values),
    }


@case("estimators/shrinkage")
def _():
    given = clicks_on(), rho_of(), relevance().values
    return {
        "plain": estimators.shrinkage(*given),
        "strength": estimators.shrinkage(*given, strength=3.0),
        "exam": estimators.shrinkage(*given, exam=EXAM),
        "best": estimators.best_strength(*given),
        "best with exam": estimators.best_strength(*given, exam=EXAM),
    }


@case("estimators/clips")
def _():
    return {
        "rho": estimators.clip_grid(clicks_on(), rho_of()),
        "logged": estimators.clip_grid(clicks_on(), n=4),
        "exam": estimators.clip_grid(clicks_on(), exam=EXAM),
        "schedule": [estimators.clip_schedule(n, -3.0, 32.0) for n in (100, 10**5, 10**8)],
    }


# Evaluation ----------------------------------------------------------------------------------------------------------


@case("evaluation/evaluate")
def _():
    data = fold().train
    tied, scores = old_scores(data), new_scores(data)
    weights = np.arange(1.0, data.n_queries + 1)
    return {
        "plain": evaluation.evaluate(scores, data, relevance_threshold=3),
        "tied": evaluation.evaluate(tied, data, relevance_threshold=2, ks=(2, 7)),
        "in order": evaluation.evaluate(tied, data, ties="order", threads=1),
        "weighted": evaluation.evaluate(tied, data, metrics=METRICS, query_weights=weights, empty="zero"),
        "queries": evaluation.evaluate_queries(tied, data, metrics=["arp", "dcg@5", "mrr", "ndcg_graded@10"]),
    }


@case("evaluation/rank values")
def _():
    names = (*METRICS, "mrr", "ndcg@10")
    found = {name: [*evaluation.parse_metric(name), evaluation.higher_is_better(name)] for name in names}
    return found | {"values": {name: evaluation.rank_values(name, 9) for name in METRICS}}


@case("evaluation/weighted_metric")
def _():
    scores, weights, offsets = loss_inputs()["ties"]
    return {name: evaluation.weighted_metric(scores, weights, offsets, name) for name in METRICS}


ESTIMATES = {
    "queries": {},
    "these-queries": {"target": "these-queries", "confidence": 0.9},
    "noise": {"noise": (0.1, 1.0), "replicates": 500},
    "ties in order": {"ties": "order", "seed": 4, "threads": 1},
    "doubly robust": {"method": "dr", "exam": EXAM},
}


@case("evaluation/estimate {}", *ESTIMATES)
def _(name):
    options = {"metrics": METRICS, **ESTIMATES[name]}
    if "method" in options:
        options |= {"relevance": relevance().values, "metrics": ["dcg@5", "precision@3"]}
    data = fold().train
    given = data, clicks_on(), rho_of()
    one, other = new_scores(data), old_scores(data)
    difference = evaluation.compare(one, other, *given, **options)
    return {
        "estimate": evaluation.estimate(one, *given, **options),
        "compare": difference,
        "verdicts": [evaluation.verdict(difference[metric], margin) for metric in difference for margin in (0.0, 0.3)],
        "exit codes": [evaluation.verdict(each).exit_code for each in difference.values()],
    }


@case("evaluation/estimate from logged propensities")
def _():
    data = short()
    found = evaluation.compare(new_scores(data), old_scores(data), data, two_policies(), exam=EXAM, replicates=300)
    return {"compare": found, "verdict": evaluation.verdict(found["dcg@5"], names=("new", "old"))}


@case("evaluation/select")
def _():
    data = fold().train
    rankers = [old_scores(data), new_scores(data), new_scores(data, seed=6)]
    found = {}
    for metric in ("dcg@5", "arp"):
        chosen = cr.select(rankers, data, clicks_on(), rho_of(), metric=metric, replicates=500, seed=2)
        names = ("index", "metric", "estimates", "stability", "shares", "in_sample")
        found[metric] = {name: getattr(chosen, name) for name in names} | {"best": chosen.best}
    return found


@case("evaluation/click rates")
def _():
    rng = np.random.default_rng(3)
    impressions = rng.integers(0, 50, size=100)
    clicks, logged, target = rng.binomial(impressions, 0.2), rng.uniform(0.05, 1, 100), rng.uniform(0, 1, (2, 100))
    rates = [evaluation.click_rate(clicks, impressions, logged, each) for each in target]
    return {"rates": rates, "difference": evaluation.compare_click_rates(*rates)}


INSPECTED = {
    "alone": lambda: {"clicks": clicks_on()},
    "policy": lambda: {
        "clicks": clicks_on(displays=True), "data": fold().train, "policy": PAGES["replace-last"],
        "scores": old_scores(fold().train), "exam": EXAM,
    },
    "rho": lambda: {"clicks": clicks_on(), "data": fold().train, "rho": rho_of(), "target_size": 500},
    "wrong policy": lambda: {
        "clicks": clicks_on(), "data": fold().train, "policy": PAGES["plackett-luce"],
        "scores": old_scores(fold().train), "exam": EXAM,
    },
    "two policies": lambda: {"clicks": two_policies(), "data": short(), "exam": EXAM},
    "uniform insert": lambda: {"clicks": clicks_on(policy="uniform-insert"), "data": fold().train},
}  # fmt: skip


@case("evaluation/inspect {}", *INSPECTED)
def _(name):
    found = evaluation.inspect_clicks(**INSPECTED[name]())
    return {"summary": found.summary(), "usable_size": found.usable_size}


@case("evaluation/plan")
def _():
    data = fold().train
    given = data, old_scores(data), {name: PAGES[name] for name in ("replace-last", "uniform-insert")}, EXAM
    plans = evaluation.plan_logging(*given, sessions=(1000, 10**5), scores=new_scores(data))
    rated = evaluation.plan_logging(*given, click_rate=0.2, target="queries", metric="precision@3")
    drawn = evaluation.plan_logging(*given[:2], {"pl": PAGES["plackett-luce"]}, EXAM, sessions=(1000,), seed=3)
    return {
        "plans": plans,
        "rated": rated,
        "drawn": drawn,
        "sessions": [[plan.sessions_for_width(0.05), plan.sessions_for_effective(300)] for plan in plans],
        "advice": evaluation.advise_logging(plans, width=0.05),
    }


# Training ------------------------------------------------------------------------------------------------------------


def train(weights: Any = None, held_out: Any = None, **options: Any) -> cr.Ranker:
    """A ranker from the labels of the fold, or from other weights; stopped by the validation part."""
    parts = fold().train, fold().validation
    weights, held_out = (
        estimators.full_information(part) if given is None else given
        for given, part in zip((weights, held_out), parts, strict=True)
    )
    ranker = cr.Ranker(**{"max_epochs": 15, "seed": 1, "k": 5, **options})
    return ranker.fit(parts[0], weights, validation=(parts[1], held_out))


@case("training/linear {}", *sorted(losses.LOSSES), tolerance="trained")
def _(loss):
    k = 5 if losses.named_loss(loss).takes_k else None
    return about_ranker(train(loss=loss, k=k), fold().test)


OPTIONS = {
    "standard": {"normalize": "standard", "batch_queries": 4},
    "not scaled, fixed rate": {"normalize": "none", "learning_rate": 0.01, "tolerance": 0.01, "patience": 3},
    "other metric": {"metric": "precision@3", "loss": "arp-hinge", "k": None, "threads": 1},
    "mlp": {"model": "mlp", "max_epochs": 4, "params": {"hidden": [8, 4]}},
    "mlp lambdarank": {"model": "mlp", "loss": "lambdarank", "max_epochs": 3, "learning_rate": 0.01},
    "lambdamart": {"model": "lambdamart", "params": {"num_leaves": 7}},
    "lambdamart truncated": {"model": "lambdamart", "loss": "lambdaloss-truncated", "learning_rate": 0.2},
}


@case("training/options {}", *OPTIONS, tolerance="trained")
def _(name):
    return about_ranker(train(**OPTIONS[name]), fold().test)


@case("training/without validation {}", "linear", "mlp", "lambdamart", tolerance="trained")
def _(model):
    data = fold().train
    ranker = cr.Ranker(k=5, model=model, max_epochs=3, seed=np.random.default_rng(2))
    return about_ranker(ranker.fit(data, estimators.full_information(data)), fold().test)


@case("training/views {}", "linear", "lambdamart", "mlp", tolerance="trained")
def _(model):
    views = [estimators.rerank(clicks_on(part, displays=True), EXAM) for part in ("train", "validation")]
    return about_ranker(train(*views, model=model, max_epochs=5), fold().test)


@case("training/negative weights", tolerance="trained")
def _():
    weights = estimators.doubly_robust(clicks_on(), rho_of(), relevance().values)
    held_out = estimators.policy_aware(clicks_on("validation"))
    return about_ranker(train(weights, held_out), fold().test)


@case("training/matrix", tolerance="trained")
def _():
    data = fold().train
    qid = np.repeat(data.query_ids, data.lengths)
    ranker = cr.Ranker(k=5, max_epochs=3).fit(data.features, estimators.full_information(data), qid=qid)
    one = ranker.predict(data.features[:40])
    return {"scores": ranker.predict(data.features, group=data.lengths), "one query": one}


@case("training/own loss", tolerance="trained")
def _():
    return about_ranker(train(loss=losses.make_lambdaloss("inverse", lambda ranks: 1 / ranks), k=None), fold().test)


@case("training/torch module", tolerance="trained")
def _():
    import torch

    torch.manual_seed(5)
    module = torch.nn.Sequential(torch.nn.Linear(136, 6), torch.nn.ReLU(), torch.nn.Linear(6, 1), torch.nn.Flatten(0))
    ranker = train(model=module, max_epochs=3)
    ranker.save("module")
    return {"scores": ranker.predict(fold().test), "loaded": cr.Ranker.load("module", module).predict(fold().test)}


@case("training/clips", tolerance="trained")
def _():
    weigh = partial(estimators.policy_aware, clicks_on(), rho_of())
    held_out = fold().validation, estimators.policy_aware(clicks_on("validation"))
    clips = estimators.clip_grid(clicks_on(), rho_of(), n=4)
    found = {}
    for one_race in (False, True):
        options = {"validation": held_out, "one_race": one_race, "clicks": [clicks_on(), clicks_on("validation")]}
        best = cr.training.fit_best_clip(
            cr.Ranker(k=5, max_epochs=8), fold().train, lambda clip: weigh(clip=clip), clips, **options
        )
        chosen = {"clip": numeric(best.clip), "metric": best.metric, "trials": best.trials}
        found[f"one race {one_race}"] = chosen | {"ranker": about_ranker(best.ranker, fold().test)}
    return found


@case("training/save and load {}", "linear", "mlp", "lambdamart", tolerance="trained")
def _(model):
    ranker = train(model=model, max_epochs=3, normalize="standard")
    ranker.save(f"ranker-{model}")
    loaded = cr.Ranker.load(f"ranker-{model}")
    params = {name: value for name, value in loaded.get_params().items() if name != "seed"}
    equal = np.array_equal(loaded.predict(fold().test), ranker.predict(fold().test))
    return {"about": about_ranker(loaded, fold().test), "params": params, "equal": equal}


@case("training/provenance")
def _():
    held_out = fold().validation, estimators.policy_aware(clicks_on("validation"))
    ranker = cr.Ranker(k=5, max_epochs=2)
    used = [clicks_on(), clicks_on("validation")]
    ranker.fit(fold().train, estimators.policy_aware(clicks_on()), validation=held_out, clicks=used)
    return ranker.provenance_


@case("training/in sample", raises=True)
def _():
    ranker = cr.Ranker(k=5, max_epochs=2)
    ranker.fit(fold().train, estimators.policy_aware(clicks_on()), clicks=clicks_on())
    return evaluation.estimate(ranker, fold().train, clicks_on())


@case("training/not trained", raises=True)
def _():
    return cr.Ranker().predict(fold().test)


# From clicks to a ranker ---------------------------------------------------------------------------------------------

LEARNED = {
    "auto": {},
    "auto with validation": {"validation": True},
    "auto with displays": {"displays": True, "exam": EXAM},
    "auto with rho": {"rho": True, "folds": 3, "seed": 5},
    "auto under trust bias": {"exam": [0.9, 0.5, 0.3, 0.2, 0.2], "beta": [0.05, 0.04, 0.03, 0.02, 0.01]},
    "auto lambdamart": {"ranker": {"model": "lambdamart", "max_epochs": 8}, "folds": 2},
    "auto mlp": {"ranker": {"model": "mlp", "max_epochs": 2}, "folds": 2},
    "lightgbm relevance": {"model": "lightgbm", "folds": 2},
    "policy-aware": {"estimator": "policy-aware", "clip": 30.0},
    "direct": {"estimator": "direct"},
    "doubly-robust": {"estimator": "doubly-robust", "tau": 0.03},
    "shrinkage": {"estimator": "shrinkage", "strength": 2.0},
    "held out": {"estimator": "shrinkage", "validation": True, "folds": None},
}


@case("from clicks/{}", *LEARNED, tolerance="trained")
def _(name):
    options = {"folds": 3, **LEARNED[name]}
    displays, settings = options.pop("displays", False), options.pop("ranker", {"max_epochs": 8})
    if options.pop("rho", False):
        options["rho"] = rho_of()
    if options.pop("validation", False):
        options["validation"] = (fold().validation, clicks_on("validation", displays=displays))
    ranker = cr.Ranker(**{"k": 5, "seed": 2, **settings})
    found = cr.fit_from_clicks(fold().train, clicks_on(displays=displays), ranker=ranker, **options)
    about = {key: value for key, value in found.about.items() if key != "kept"}
    return {
        "estimator": found.estimator,
        "about": about,
        "metric": found.metric,
        "trials": found.trials,
        "relevance": found.relevance.values,
        "ranker": about_ranker(found.ranker, fold().test),
    }


# Export --------------------------------------------------------------------------------------------------------------

EXPORTS = {
    "linear onnx": ("linear", {"to": "onnx"}),
    "linear es-ltr": ("linear", {"to": "es-ltr", "name": "mine"}),
    "linear solr": ("linear", {"to": "solr"}),
    "linear json": ("linear", {"to": "json", "features": [f"name {i}" for i in range(136)]}),
    "mlp onnx": ("mlp", {"to": "onnx"}),
    "mlp solr": ("mlp", {"to": "solr"}),
    "trees onnx": ("lambdamart", {"to": "onnx"}),
    "trees xgboost": ("lambdamart", {"to": "es-ltr", "tree_format": "xgboost"}),
    "trees ranklib": ("lambdamart", {"to": "es-ltr", "tree_format": "ranklib"}),
    "trees solr": ("lambdamart", {"to": "solr"}),
    "trees lightgbm": ("lambdamart", {"to": "lightgbm"}),
}


@cache
def exported_ranker(model: str, scaled: str) -> cr.Ranker:
    return train(
        model=model, max_epochs=3, normalize=scaled, params={"num_leaves": 5} if model == "lambdamart" else None
    )


@case("export/{}", *EXPORTS, tolerance="trained")
def _(name):
    model, options = EXPORTS[name]
    scaled = "none" if model == "lambdamart" else "standard"
    file = Path(f"export-{name.replace(' ', '-')}")
    written = export.write(exported_ranker(model, scaled), file, **options)
    found = {"to": written.to, "features": written.features, "notes": written.notes}
    return found | (onnx_scores(file) if options["to"] == "onnx" else text_content(file))


@case("export/onnx per query", tolerance="trained")
def _():
    export.write(exported_ranker("linear", "query"), "per-query.onnx", to="onnx")
    return onnx_scores(Path("per-query.onnx"))


@case("export/solr per query", raises=True)
def _():
    return export.write(exported_ranker("linear", "query"), "per-query.json", to="solr")


@case("export/feature names")
def _():
    return export.feature_names(["a", "b", "c"], 3).of([0, 2])


def onnx_scores(path: Path) -> dict[str, Any]:
    """What the file says of the documents of one query, and what goes in and out."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    data = fold().test.subset([0])
    entry = session.get_inputs()[0]
    outputs = session.run(None, {entry.name: data.features})
    names = [each.name for each in (*session.get_inputs(), *session.get_outputs())]
    return {"names": names, "outputs": [trained(np.asarray(each)) for each in outputs]}

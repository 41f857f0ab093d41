"""Calls of the library that `benchmarks.compare_versions` records: from losses and estimators to exported rankers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import counterrank as cr
from benchmarks.compare_inputs import (
    EXAM,
    METRICS,
    PAGES,
    about_ranker,
    case,
    clicks_on,
    fold,
    new_scores,
    old_scores,
    relevance,
    rho_of,
    short,
    text_content,
    two_policies,
)
from benchmarks.compare_results import numeric, trained
from counterrank import estimators, evaluation, export, losses, simulation

# Losses --------------------------------------------------------------------------------------------------------------


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
    """Scores of the exported file for one query, and its inputs and outputs."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    data = fold().test.subset([0])
    entry = session.get_inputs()[0]
    outputs = session.run(None, {entry.name: data.features})
    names = [each.name for each in (*session.get_inputs(), *session.get_outputs())]
    return {"names": names, "outputs": [trained(np.asarray(each)) for each in outputs]}

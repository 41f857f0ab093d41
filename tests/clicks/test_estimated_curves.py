"""What `examination.estimate` finds is accepted wherever an examination curve is, with the same result."""

from __future__ import annotations

import importlib
import inspect
import warnings
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

import counterrank as cr
from counterrank import estimators, evaluation, examination, policies, simulation, training
from counterrank.clicks.simulation import ClickModel, SessionSimulator

DATA = cr.make_ranking_data("yahoo", n_queries=60, seed=0)
SCORES = DATA.features[:, 0].astype(float)
POLICY = policies.PlackettLuce(4)
CLICKS = simulation.simulate(
    DATA, SCORES, POLICY, [1.0, 0.6, 0.4, 0.3], sessions=20_000, seed=0, relevance_threshold=2, displays=True,
    propensities=True, policy_name="v1",
)  # fmt: skip
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    ESTIMATED = examination.estimate(CLICKS)
RHO = POLICY.propensity(SCORES, DATA.offsets, ESTIMATED.examination)
HALF, OTHER = (CLICKS.subset(slice(*ends)) for ends in ((0, 40), (40, 60)))
FIRST, SECOND = DATA.subset(slice(0, 40)), DATA.subset(slice(40, 60))
OWN = {"v1": (POLICY, SCORES)}
RANKER = cr.Ranker(loss="arp-hinge", max_epochs=2, seed=0, threads=1)
FITTED = cr.Ranker(loss="arp-hinge", max_epochs=1, threads=1).fit(DATA, SCORES)
LATER = simulation.simulate(
    DATA, SCORES, POLICY, [1.0, 0.6, 0.4, 0.3], sessions=20_000, seed=1, relevance_threshold=2, displays=True
)  # fmt: skip
DRAFT = policies.Mixture([policies.TeamDraft(4), POLICY], [0.5, 0.5])
INTERLEAVED = simulation.simulate(
    DATA, [SCORES, -SCORES], DRAFT, [1.0, 0.6, 0.4, 0.3], sessions=5_000, seed=0, relevance_threshold=2
)  # fmt: skip
RELEVANCE = np.full(DATA.n_docs, 0.3)


class Own:
    """A policy without a formula for its propensities."""

    def sample(self, scores, offsets, seed):
        return POLICY.sample(scores, offsets, seed)


def simulator(exam):
    made = SessionSimulator.make(DATA, SCORES, POLICY, exam, 2, ClickModel(), None, 1)
    return made.exam


# by the name of each public function with an examination curve among its arguments, a call with one
CALLS = {
    "ClickModel.affine": lambda exam, _: ClickModel().affine(exam, k=4),
    "Evidence": lambda exam, _: cr.Evidence(CLICKS, exam=exam).curve,
    "Policy.coverage": lambda exam, _: POLICY.coverage(SCORES, DATA.offsets, exam),
    "Policy.display": lambda exam, _: POLICY.display(SCORES[:9], exam, seed=0),
    "Policy.propensity": lambda exam, _: POLICY.propensity(SCORES, DATA.offsets, exam),
    "affine": lambda exam, _: estimators.affine(CLICKS, exam, [0.0] * 4, POLICY, SCORES),
    "best_strength": lambda exam, _: estimators.best_strength(CLICKS, RHO, RELEVANCE, exam=exam),
    "check_examination": lambda exam, _: examination.check_examination(exam),
    "click_rates": lambda exam, _: cr.click_rates(CLICKS, exam).rate,
    "clip_grid": lambda exam, _: estimators.clip_grid(CLICKS, exam=exam),
    "compare": lambda exam, _: evaluation.compare(
        SCORES, -SCORES, DATA, CLICKS, RHO, metrics=["dcg@3"], exam=exam, method="dr", relevance=RELEVANCE
    ),
    "compare_interleaved": lambda exam, _: evaluation.compare_interleaved(
        SCORES, -SCORES, DATA, INTERLEAVED, DRAFT, exam, ["dcg@4"]
    ),
    "coverage": lambda exam, _: policies.coverage(POLICY, SCORES, DATA.offsets, exam),
    "deployment_test": lambda exam, _: evaluation.deployment_test(
        SCORES, -SCORES, DATA, CLICKS, RHO, "dcg@3", exam=exam
    ),
    "display_frequencies": lambda exam, _: estimators.display_frequencies(CLICKS, exam),
    "doubly_robust": lambda exam, _: estimators.doubly_robust(CLICKS, RHO, RELEVANCE, exam=exam),
    "estimate": lambda exam, _: evaluation.estimate(
        SCORES, DATA, CLICKS, RHO, metrics=["dcg@3"], exam=exam, method="dr", relevance=RELEVANCE
    ),
    "estimate_propensity": lambda exam, _: policies.estimate_propensity(Own(), SCORES, DATA.offsets, exam, seed=0),
    "fit_from_clicks": lambda exam, _: cr.fit_from_clicks(
        FIRST, HALF, exam=exam, ranker=RANKER, folds=2
    ).ranker.predict(SECOND),
    "fit_ranker": lambda exam, _: cr.fit_ranker(
        FIRST, cr.Evidence(HALF, exam=exam), "policy-oblivious", RANKER
    ).ranker.predict(SECOND),
    "fit_relevance": lambda exam, _: estimators.fit_relevance(DATA, CLICKS, exam=exam, folds=2, seed=0).values,
    "inspect_clicks": lambda exam, _: evaluation.inspect_clicks(
        CLICKS, data=DATA, policy=POLICY, scores=SCORES, exam=exam
    ).summary(),
    "logged_propensities": lambda exam, _: estimators.logged_propensities(CLICKS, exam).by_document,
    "plan_comparison": lambda exam, _: evaluation.plan_comparison(
        DATA, SCORES, -SCORES, exam, k=4, metric="dcg@3", logopt=False, relevance_threshold=2
    ),
    "plan_logging": lambda exam, _: evaluation.plan_logging(
        DATA, SCORES, {"own": POLICY}, exam=exam, sessions=[1000], relevance_threshold=2
    ),
    "policy_aware": lambda exam, _: estimators.policy_aware(CLICKS, exam=exam),
    "policy_oblivious": lambda exam, _: estimators.policy_oblivious(CLICKS, exam),
    "promote": lambda exam, _: cr.promote(SCORES, -SCORES, DATA, CLICKS, RHO, "dcg@3", exam=exam),
    "propensity_from_log": lambda exam, _: policies.propensity_from_log(CLICKS, exam),
    "rerank": lambda exam, _: estimators.rerank(CLICKS, exam),
    "select": lambda exam, _: (
        cr.select(
            [SCORES, -SCORES], DATA, CLICKS, RHO, metric="dcg@3", exam=exam, method="dr", relevance=RELEVANCE
        ).estimates
    ),
    "several_policies": lambda exam, _: policies.several_policies(CLICKS, OWN, exam),
    "shrinkage": lambda exam, _: estimators.shrinkage(CLICKS, RHO, RELEVANCE, exam=exam),
    "simulate": lambda exam, _: simulation.simulate(
        DATA, SCORES, POLICY, exam, sessions=500, seed=0, relevance_threshold=2
    ),
    "SessionSimulator.make": lambda exam, _: simulator(exam),
    "specialise": lambda exam, _: training.specialise(
        FITTED, DATA, CLICKS, LATER, policy=POLICY, scores=SCORES, exam=exam
    ),
    "write_log": lambda exam, folder: (
        simulation.write_log(
            DATA, SCORES, POLICY, exam, folder / "log.parquet", sessions=500, seed=0, relevance_threshold=2
        ),
        cr.read_log(folder / "log.parquet", DATA).clicks,
    ),
}
# a fitted model makes propensities in the log stale, a plain curve does not
STALE = ("fit_from_clicks", "logged_propensities", "policy_aware")
BARE = {name: replace(counts, propensities=None) for name, counts in (("CLICKS", CLICKS), ("HALF", HALF))}
INTERNAL = {"ClickCounts", "ClickRates", "Known", "SessionSimulator"}  # hold a curve that was checked before


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_the_curve(tmp_path, name, monkeypatch):
    if name in STALE:
        for own, counts in BARE.items():
            monkeypatch.setitem(globals(), own, counts)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    found = CALLS[name](ESTIMATED, tmp_path / "a")
    expected = CALLS[name](ESTIMATED.examination, tmp_path / "b")
    equal(found, expected)


def equal(one, other):
    if isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            equal(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            equal(a, b)
    elif is_dataclass(one):
        for field in fields(one):
            mine, others = getattr(one, field.name), getattr(other, field.name)
            if field.name == "doubts":  # that intervals leave out the error of the fit
                mine = tuple(each for each in mine if "fitted to these very clicks" not in each)
            equal(mine, others)
    elif isinstance(one, float) and np.isnan(one):
        assert np.isnan(other)
    elif type(one).__eq__ is not object.__eq__:
        assert one == other
    else:
        assert type(one) is type(other)


def test_every_public_function_with_a_curve_is_called():
    modules = [cr, policies, examination, simulation, estimators, evaluation, training, cr.clicks]
    modules.append(importlib.import_module("counterrank.evaluation.inspection"))
    found = set()
    for module in modules:
        for name in [name for name in dir(module) if not name.startswith("_")]:
            value = getattr(module, name)
            members = inspect.getmembers(value, callable) if inspect.isclass(value) else []
            methods = [each for own, each in members if not own.startswith("_")]
            for each in [value, *methods]:
                try:
                    arguments = inspect.signature(each).parameters
                except (TypeError, ValueError):
                    continue
                if {"exam", "examination"} & set(arguments):
                    found.add(each.__qualname__)
    assert found - INTERNAL <= set(CALLS), found - INTERNAL - set(CALLS)


def test_other_things_that_hold_a_curve_are_no_curves():
    with pytest.raises(cr.CounterrankError, match="exam: ClickCounts; expected an examination curve"):
        estimators.policy_oblivious(CLICKS, CLICKS)

"""The one path from data and evidence to a fitted ranker: what each estimator is given, what is recorded, bad input."""

import numpy as np
import pytest

import counterrank as cr
from counterrank import estimators, examination, policies, simulation
from counterrank.common.errors import CounterrankError
from counterrank.estimators import ESTIMATORS, NEEDS, Estimator, Evidence, register_estimator
from counterrank.training import fit_best_clip, fit_ranker, fit_rankers

FOLD = cr.make_fold("yahoo", 60, seed=0)
EXAM = examination.inverse_rank(5)
POLICY = policies.ReplaceLast(5)
SCORES = {part: getattr(FOLD, part).features[:, 0].astype(float) for part in ("train", "validation")}


def logged(part, seed, **more):
    data = getattr(FOLD, part)
    return simulation.simulate(data, SCORES[part], POLICY, EXAM, sessions=3000, seed=seed, **more)


TRAIN, VALIDATION = logged("train", 1, displays=True), logged("validation", 2, displays=True)


def untrained(**more):
    return cr.Ranker("lambdaloss-truncated", k=5, max_epochs=4, **more)


def same(one, other):
    return one.predict(FOLD.test).tolist() == other.predict(FOLD.test).tolist()


WEIGHTS = {
    "naive": lambda clicks: estimators.naive(clicks),
    "policy-oblivious": lambda clicks: estimators.policy_oblivious(clicks, EXAM),
    "policy-aware": lambda clicks: estimators.policy_aware(clicks),
    "rerank": lambda clicks: estimators.rerank(clicks, EXAM),
}


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.filterwarnings("ignore::counterrank.CoverageWarning")
def test_it_is_the_estimator_and_then_fit(name):
    weigh = WEIGHTS[name]
    by_hand = untrained().fit(FOLD.train, weigh(TRAIN), validation=(FOLD.validation, weigh(VALIDATION)))
    validation = (FOLD.validation, Evidence(VALIDATION, exam=EXAM))
    report = fit_ranker(FOLD.train, Evidence(TRAIN, exam=EXAM), name, untrained(), validation=validation)
    assert same(by_hand, report.ranker)
    assert (report.estimator, report.metric, report.clips, report.relevance) == (name, "dcg@5", (), None)
    recorded = report.ranker.provenance_["estimator"]
    assert recorded["propensities"] == ("logged" if name == "policy-aware" else None)
    assert report.ranker.provenance_["clicks"]["sessions"] == 6000


def test_labels():
    weights = [estimators.full_information(part, 2) for part in (FOLD.train, FOLD.validation)]
    by_hand = untrained().fit(FOLD.train, weights[0], validation=(FOLD.validation, weights[1]))
    report = fit_ranker(
        FOLD.train, None, "full-information", untrained(), validation=(FOLD.validation, None),
        hyperparameters={"relevance_threshold": 2},
    )  # fmt: skip
    assert same(by_hand, report.ranker)
    assert report.ranker.provenance_["estimator"] == {"name": "full-information", "relevance_threshold": 2}
    assert report.ranker.provenance_["clicks"] is None


@pytest.mark.parametrize("how", [{}, {"clip": 3.0}, {"clip": [2.0, None]}, {"folds": 2}])
def test_several_rankers_are_each_as_fit_ranker_has_it(how):
    evidence, validation = Evidence(TRAIN), (FOLD.validation, Evidence(VALIDATION))
    rankers = [untrained(), cr.Ranker("arp-hinge", max_epochs=3, seed=1), cr.Ranker("dcg-hinge", max_epochs=3)]
    reports = fit_rankers(FOLD.train, evidence, "policy-aware", rankers, validation=validation, **how)
    for report, ranker in zip(reports, rankers, strict=True):
        alone = fit_ranker(FOLD.train, evidence, "policy-aware", ranker, validation=validation, **how)
        assert same(report.ranker, alone.ranker)
        assert (report.about, report.clips, report.trials) == (alone.about, alone.clips, alone.trials)
        assert report.ranker.provenance_ | {"date": None} == alone.ranker.provenance_ | {"date": None}
        assert not hasattr(ranker, "model_")
    assert fit_rankers(FOLD.train, evidence, "policy-aware", [], validation=validation, **how) == []


def test_several_rankers_of_several_kinds():
    pytest.importorskip("lightgbm")
    evidence, trees = Evidence(TRAIN), cr.Ranker(model="lambdamart", max_epochs=3)
    found = fit_rankers(FOLD.train, evidence, "policy-aware", [untrained(), trees])
    assert [report.ranker.kind_ for report in found] == ["linear", "lambdamart"]
    for report, ranker in zip(found, (untrained(), trees), strict=True):
        assert same(report.ranker, fit_ranker(FOLD.train, evidence, "policy-aware", ranker).ranker)


def test_the_first_error_of_several_rankers_is_raised():
    rankers = [untrained(), untrained(learning_rate=1e300)]
    with pytest.raises(CounterrankError, match=r"^ranker 1: learning_rate=1e\+300: training diverged"):
        fit_rankers(FOLD.train, Evidence(TRAIN), "policy-aware", rankers)
    with pytest.raises(CounterrankError, match=r"^ranker 2: .*nonsense"):  # before any is trained
        fit_rankers(FOLD.train, Evidence(TRAIN), "policy-aware", [*rankers, cr.Ranker("nonsense")])
    with pytest.raises(CounterrankError, match=r"^learning_rate=1e\+300: training diverged"):
        fit_rankers(FOLD.train, Evidence(TRAIN), "policy-aware", rankers[1:])


def test_clips_are_tried_as_fit_best_clip_tries_them():
    evidence, validation = Evidence(TRAIN), (FOLD.validation, Evidence(VALIDATION))
    report = fit_ranker(FOLD.train, evidence, "policy-aware", untrained(), validation=validation, clip="auto")
    best = fit_best_clip(
        untrained(), FOLD.train, lambda clip: estimators.policy_aware(TRAIN, clip=clip), estimators.clip_grid(TRAIN),
        validation=(FOLD.validation, estimators.policy_aware(VALIDATION)),
    )  # fmt: skip
    assert (report.about, report.clips) == ({"clip": best.clip}, best.trials)
    assert same(best.ranker, report.ranker)
    one = fit_ranker(FOLD.train, evidence, "policy-aware", untrained(), clip=3)
    assert one.about == {"clip": 3.0}
    assert same(one.ranker, untrained().fit(FOLD.train, estimators.policy_aware(TRAIN, clip=3)))


def test_a_policy_stands_for_its_propensities():
    rho = POLICY.propensity(SCORES["train"], FOLD.train.offsets, EXAM)
    given, by_policy = Evidence(TRAIN, rho), Evidence(TRAIN, exam=EXAM, policy=POLICY, scores=SCORES["train"])
    assert by_policy.propensities.by_document.tolist() == rho.tolist()
    assert (given.propensity_source, by_policy.propensity_source) == ("given", "policy")
    rankers = [fit_ranker(FOLD.train, each, "policy-aware", untrained()).ranker for each in (given, by_policy)]
    assert same(*rankers)


def test_the_ranker_that_is_given_stays_as_it_is():
    ranker = untrained()
    fit_ranker(FOLD.train, Evidence(TRAIN), "policy-aware", ranker)
    assert not hasattr(ranker, "model_")


BAD = [
    ({"estimator": "best"}, "estimator='best'"),
    ({"estimator": "affine"}, "estimator 'affine': requires a user model with trust bias; expected exam="),
    ({"evidence": None}, "estimator 'policy-aware': requires clicks; expected clicks"),
    ({"clip": "auto"}, "clip='auto': needs unclipped validation clicks"),
    ({"clip": 0}, "clip=0: expected"),
    ({"clip": -1.0}, "clip=-1"),
    ({"hyperparameters": {"tau": 0.1}}, "tau=0.1: .* has no tau, a hyperparameter of auto, doubly-robust; leave"),
    ({"hyperparameters": {"depth": 3}}, "depth=3: .* has no depth"),
    ({"ranker": "linear"}, "ranker: str; expected Ranker"),
    ({"estimator": "auto"}, "folds=None: nothing to choose by"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "message"), BAD)
def test_bad_input(wrong, message):
    given = {"evidence": Evidence(TRAIN), "estimator": "policy-aware", "ranker": untrained()} | wrong
    with pytest.raises(CounterrankError, match=message):
        fit_ranker(FOLD.train, given.pop("evidence"), given.pop("estimator"), given.pop("ranker"), **given)


def test_what_is_missing_is_said_in_arguments_or_in_options():
    bare = Evidence(simulation_without_memory())
    for name, options in (
        ("policy-aware", "--policy"),
        ("policy-oblivious", "--examination"),
        ("direct", "--examination"),
    ):
        with pytest.raises(CounterrankError, match=f"estimator '{name}': requires"):
            ESTIMATORS[name].check(bare)
        with pytest.raises(CounterrankError, match=options):
            ESTIMATORS[name].check(bare, options=True)


def simulation_without_memory():
    from dataclasses import replace

    return replace(TRAIN, propensities=None, examination=None, displays=None, unexaminable=None)


# The registry --------------------------------------------------------------------------------------------------------


def test_every_estimator_says_what_it_is():
    for name, each in ESTIMATORS.items():
        assert name == each.name
        assert all((each.summary, each.formula, each.condition))
        assert set(each.needs) <= set(NEEDS)


@pytest.fixture
def halved():
    """An estimator that is not in the library: half of each click."""

    def weigh(data, evidence, clip=None):
        return 0.5 * evidence.clicks.by_document(evidence.clicks.clicks)

    def assisted(seen, relevance, likely):
        return 0.5 * seen.clicks

    added = Estimator(
        "halved", "half of each click", "clicks(d) / 2", "never", ("clicks",), weigh=weigh, assisted=assisted
    )
    yield register_estimator(added)
    del ESTIMATORS["halved"]


@pytest.mark.filterwarnings("ignore::counterrank.CoverageWarning")
def test_an_estimator_of_ones_own(halved, tmp_path):
    from tests.support.command import as_json

    evidence = Evidence(TRAIN)
    report = fit_ranker(FOLD.train, evidence, "halved", untrained())
    assert same(
        report.ranker, fit_ranker(FOLD.train, evidence, "naive", untrained()).ranker
    )  # the scale does not matter
    tried = cr.training.fit_from_clicks(FOLD.train, TRAIN, ranker=untrained(), folds=2).trials
    assert tried[-1].estimator == "halved"
    FOLD.train.save(tmp_path / "data.parquet")
    TRAIN.save(tmp_path / "clicks")
    found = as_json(
        "train", tmp_path / "data.parquet", "--clicks", tmp_path / "clicks", "--estimator", "halved", "--max-epochs", 2,
        "--out", tmp_path / "ranker",
    )  # fmt: skip
    assert found["estimator"] == "halved"


def test_estimators_that_cannot_work_are_refused():
    with pytest.raises(CounterrankError, match="expected a function"):
        register_estimator(Estimator("nothing", "", "", "", ("clicks",)))
    with pytest.raises(CounterrankError, match="needs: 'luck'; expected some of labels"):
        register_estimator(Estimator("lucky", "", "", "", ("luck",), weigh=np.ones))
    with pytest.raises(CounterrankError, match=r"'naive': registered already; expected another name, or replace=True"):
        register_estimator(ESTIMATORS["naive"])
    assert register_estimator(ESTIMATORS["naive"], replace=True) is ESTIMATORS["naive"]


def test_the_old_name_of_the_report_still_works():
    with pytest.warns(DeprecationWarning, match="FromClicks is deprecated; use FitReport"):
        assert cr.training.FromClicks is cr.training.FitReport

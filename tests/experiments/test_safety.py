"""The experiment on safety: its grid, its cells, the figure, and its claims on pictures whose truth is known."""

import copy
import dataclasses
import json

import numpy as np
import pytest

from counterrank.clicks.policies.parsing import parse_policy
from counterrank.common.errors import CounterrankError
from counterrank.data import make_fold
from counterrank.evaluation.metrics import evaluate_groups
from counterrank.experiments import reproduce, summarize
from counterrank.experiments.cell_runner import CellRunner, page_dcg, query_groups
from counterrank.experiments.cells import HELD_OUT, Cell, all_cells, grid
from counterrank.experiments.claims import FAILS, HOLDS, OPEN
from counterrank.experiments.figures.safety import HONEST, INVERTED
from counterrank.experiments.safety_cells import LOGGING, RISKS, by_group, expected_dcg, exposure_reached
from counterrank.experiments.settings import METHODS, choose_settings, read_preset
from counterrank.report import write_report
from tests.support.claims import check_claims

FOLD = make_fold("mslr", 40)
SMALL = {"runs": 1, "sessions": (100, 2000), "max_epochs": 2, "learning_rate": 1.0}


def safe(**given):
    return choose_settings("safety", given={**SMALL, **given})


def cell_of(method, x=2000, users=HONEST, **given):
    points = grid(safe(**given))
    return next(p for p in points if (p.series, p.x) == (method, x) and p.panel.endswith(users)).cells[0]


# Settings and grid ---------------------------------------------------------------------------------------------------


def test_the_defaults():
    settings = choose_settings("safety")
    assert (settings.figures, settings.methods, settings.experiment) == ((6,), METHODS, "safety")
    assert settings.sessions == tuple(10**power for power in range(2, 8))
    assert settings.production_seed is None  # another in each run
    assert settings == choose_settings("safety", "safety")
    assert choose_settings("safety", "safety-ohsumed").relevance_threshold == 2.0
    assert set(read_preset("safety-mq2008")) == {"relevance_threshold"}
    quick = choose_settings("safety", quick=True)
    assert len(all_cells(grid(quick))) < len(all_cells(grid(settings))) / 3


@pytest.mark.parametrize("methods", [(), ("auto",), ("gate", "gate")])
def test_other_methods_are_refused(methods):
    with pytest.raises(
        CounterrankError, match=r"^methods=.*: expected some of unsafe, exposure-risk, prpo, blend, gate"
    ):
        safe(methods=methods)


def test_the_grid():
    points = grid(safe(runs=2), folds=3)
    assert {point.panel for point in points} == {"dcg@5, honest clicks", "dcg@5, inverted clicks"}
    assert len(all_cells(points)) == 6 * (2 * 5 * 2 + 3)  # methods and sizes for two kinds of users, and three levels
    for point in points:
        for cell in point.cells:
            assert cell.metric == ("arp" if cell.estimator == "production" else "dcg@5")
            if point.x is not None:
                assert cell.inverted == point.panel.endswith(INVERTED)
                assert cell.policy == "plackett-luce:k=5,temperature=1"
                assert (cell.loss == "plackett-luce") == (cell.method in RISKS)
    assert [p.series for p in points if p.x is None][:3] == [LOGGING, "production", "full-information"]


def test_cells_as_json():
    honest, inverted = (cell_of("gate", users=users) for users in (HONEST, INVERTED))
    assert [Cell.from_plain(json.loads(json.dumps(cell.plain()))) for cell in (honest, inverted)] == [honest, inverted]
    assert "inverted" not in honest.plain()
    assert honest.key("") != inverted.key("") != dataclasses.replace(inverted, method="blend").key("")
    assert inverted.describe() == (
        "gate, auto, lambdaloss-truncated, plackett-luce:k=5,temperature=1, 2,000 sessions, inverted, fold 1, run 1"
    )


def test_held_out_sessions_are_others():
    gate, blend = cell_of("gate"), cell_of("blend")
    train, held_out = gate.traffic("train"), gate.traffic(HELD_OUT)
    assert (train.part, train.sessions, held_out.part, held_out.sessions) == ("train", 1600, "train", 400)
    assert train.seed != held_out.seed
    assert (gate.traffic("validation").sessions, blend.traffic("validation").sessions) == (240, 300)
    assert blend.traffic("train") == cell_of("prpo").traffic("train")


# Cells ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runner():
    return CellRunner({0: FOLD})


@pytest.fixture(scope="module")
def rows(runner):
    kept = [("unsafe", INVERTED), ("prpo", INVERTED), ("blend", HONEST), ("gate", HONEST)]
    return {(method, users): runner.run(cell_of(method, users=users)) for method, users in kept}


def test_inverted_clicks_are_rare_on_what_is_relevant(runner):
    relevant = FOLD.train.labels >= 3
    rates = []
    for users in (HONEST, INVERTED):
        clicks = runner._logged(cell_of("unsafe", users=users).traffic("train"))
        found, examined = clicks.by_document(clicks.clicks), clicks.by_document(clicks.impressions)
        rates.append([found[which].sum() / examined[which].sum() for which in (relevant, ~relevant)])
    assert rates[0][0] > 2 * rates[0][1]
    assert rates[1][1] > 2 * rates[1][0]


def test_rows_say_what_is_served(rows):
    for (method, _), row in rows.items():
        assert json.loads(json.dumps(row, allow_nan=False)) == row
        assert ("exposure" in row) == (method in RISKS) == ("ranking dcg@5" in row["metrics"])
        assert ("served" in row) == (method in ("blend", "gate")) == ("new dcg@5" in row["metrics"])
        assert np.mean(row["groups"]["dcg@5"]) == pytest.approx(row["metrics"]["dcg@5"], abs=1e-6)
        assert row["sessions"] == (1600 if method == "gate" else 2000)
    assert set(rows["gate", HONEST]["served"]["levels"]) == {"finite-sample", "asymptotic", "model-assisted"}


def test_what_does_not_pass_leaves_production(runner, rows):
    levels = {p.series: p.cells[0] for p in grid(safe()) if p.x is None}
    production, logging = (runner.run(levels[name])["metrics"]["dcg@5"] for name in ("production", LOGGING))
    assert logging < production  # pages of the policy are random
    for row in rows.values():
        if row.get("served", {}).get("weight") == 0.0:
            assert row["metrics"]["dcg@5"] == production
    scores = runner._production(levels[LOGGING].logger).predict(FOLD.test)
    assert logging == page_dcg(parse_policy(levels[LOGGING].policy), scores, FOLD.test, 5)


def test_prpo_moves_less_exposure(rows):
    moved = {method: rows[method, INVERTED]["exposure"] for method in ("unsafe", "prpo")}
    assert moved["prpo"]["above"] + moved["prpo"]["below"] < moved["unsafe"]["above"] + moved["unsafe"]["below"]
    assert moved["prpo"]["most"] < moved["unsafe"]["most"]


def test_nothing_to_learn_leaves_production(runner):
    for method in ("prpo", "gate"):
        row = runner.run(cell_of(method, x=2, sessions=(2,), noise=(0.0, 1e-9)))
        assert "untrained" in row
        assert row["served"] == {"weight": 0.0}
    assert row["metrics"]["dcg@5"] == row["metrics"]["new dcg@5"]


def test_exposure_that_moved():
    """By hand: of 2, 0.25 is more than twice 0.25, and 0.25 is missing to half of 1."""
    found = exposure_reached(np.array([0.25, 1.0, 0.75]), np.array([1.0, 0.75, 0.25]))
    assert (found["above"], found["below"], found["outside"]) == (0.125, 0.125, pytest.approx(2 / 3))
    still = exposure_reached(np.ones(4), np.ones(4))
    assert (still["least"], still["most"], still["outside"], still["above"], still["below"]) == (1, 1, 0, 0, 0)


def test_expected_dcg_of_a_fixed_page_is_dcg():
    test, scores = FOLD.test, FOLD.test.features[:, 0].astype(float) + 1e-9 * np.arange(FOLD.test.n_docs)
    groups = query_groups(test, 3)
    sums, some = expected_dcg(parse_policy("deterministic:k=5"), scores, test, 5, 3, 1)
    whole, each = evaluate_groups(scores, test, groups, 3, metrics=["dcg@5"])
    assert sums[some].mean() == pytest.approx(whole["dcg@5"])
    assert by_group(sums, some, groups) == pytest.approx(each["dcg@5"])


# The figure ----------------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_the_figure_and_its_report(tmp_path):
    settings = safe(methods=("prpo", "blend"), runs=2, sessions=(100,))
    run = reproduce("synthetic:mslr:queries=60", tmp_path / "run", settings, jobs=1)
    summary = summarize(run)
    assert (summary.cells.done, summary.cells.failures) == (2 * (2 * 2 + 3), ())
    (figure,) = summary.figures
    kinds = ("dcg@5", "exposure", "weight")
    assert [panel.name for panel in figure.panels] == [
        f"{kind}, {users}" for users in (HONEST, INVERTED) for kind in kinds
    ]
    assert figure.panels[0].names == ["prpo", "blend", "auto", LOGGING, "production", "full-information"]
    assert (figure.panels[1].names, figure.panels[2].names) == (["prpo"], ["blend"])
    write_report(summary, tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Learning to rank without ending below production" in page
    assert "After 100 sessions with inverted clicks DCG@5 is" in page
    assert "Plackett-Luce by the scores of production" in page
    rows = (tmp_path / "run" / "figures" / "figure6.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * (6 + 1 + 1)


# Claims --------------------------------------------------------------------------------------------------------------

SIZES = (100, 1000, 10**5, 10**7)
BASES = {LOGGING: 0.5, "production": 0.6}
TRUTH = {
    HONEST: {
        "unsafe": (0.3, 0.4, 0.8, 0.9),
        "exposure-risk": (0.5, 0.52, 0.75, 0.9),
        "prpo": (0.5, 0.55, 0.6, 0.6),
        "auto": (0.6, 0.7, 0.8, 0.9),
        "blend": (0.6, 0.65, 0.8, 0.9),
        "gate": (0.6, 0.6, 0.8, 0.9),
    },
    INVERTED: {
        "unsafe": (0.2, 0.1, 0.1, 0.1),
        "exposure-risk": (0.48, 0.4, 0.2, 0.1),
        "prpo": (0.45, 0.42, 0.4, 0.4),
        "auto": (0.3, 0.2, 0.1, 0.1),
        "blend": (0.6, 0.5, 0.1, 0.1),
        "gate": (0.6, 0.6, 0.1, 0.1),
    },
    "exposure": {"prpo": (0.01, 0.02, 0.03, 0.03), "unsafe": (0.5, 0.9, 1.2, 1.4)},
}


def draw(truth, rng, runs=16, noise=0.005):
    level = 1.0 + 0.1 * rng.standard_normal(runs)

    def values(mean):
        return (mean * level * (1.0 + noise * rng.standard_normal(runs))).tolist()

    def curves(found):
        return [
            {"name": name, "points": [{"x": x, "values": values(mean)} for x, mean in zip(SIZES, means, strict=True)]}
            for name, means in found.items()
        ]

    levels = [{"name": name, "values": level.tolist()} for name, level in
              ((name, mean * level) for name, mean in BASES.items())]  # fmt: skip
    panels = [
        {"name": f"dcg@5, {users}", "series": curves(truth[users]), "levels": levels} for users in (HONEST, INVERTED)
    ]
    weights = {"blend": (0.0, 0.5, 1.0, 1.0), "gate": (0.0, 0.0, 1.0, 1.0)}
    moved = {"name": f"exposure, {INVERTED}", "lower_is_better": True, "series": curves(truth["exposure"])}
    panels += [moved, {"name": f"weight, {INVERTED}", "series": curves(weights)}]
    return [{"number": 6, "panels": panels}]


def changed(users, method, x, mean):
    truth = copy.deepcopy(TRUTH)
    truth[users][method] = tuple(
        mean if size == x else old for size, old in zip(SIZES, truth[users][method], strict=True)
    )
    return truth


def verdicts(figures):
    return {claim["id"]: claim["verdict"] for claim in check_claims(figures)}


def test_all_holds_on_a_good_picture():
    found = check_claims(draw(TRUTH, np.random.default_rng(0)))
    assert {claim["verdict"] for claim in found} == {HOLDS}
    assert len(found) == 12
    assert all(claim["own"] for claim in found)
    fails = next(claim for claim in found if claim["id"] == "tests-fail-with-inverted-clicks")
    assert "mean weight of the new ranker: blend " in fails["numbers"]


COUNTER = {
    "unsafe-below-with-few-sessions": (HONEST, "unsafe", 100, 0.6),
    "exposure-risk-not-below-logging-policy": (HONEST, "exposure-risk", 1000, 0.4),
    "prpo-not-below-logging-policy": (HONEST, "prpo", 100, 0.4),
    "blend-not-below-production": (HONEST, "blend", 10**7, 0.5),
    "gate-not-below-production": (HONEST, "gate", 1000, 0.5),
    "exposure-risk-costs-nothing-with-many-sessions": (HONEST, "exposure-risk", 10**7, 0.8),
    "blend-costs-nothing-with-many-sessions": (HONEST, "blend", 10**7, 0.8),
    "gate-costs-nothing-with-many-sessions": (HONEST, "gate", 10**7, 0.8),
    "tests-fail-with-inverted-clicks": (INVERTED, "gate", 10**7, 0.7),
    "prpo-keeps-its-limits": ("exposure", "prpo", 10**5, 0.1),
    "prpo-loss-is-bounded": (INVERTED, "prpo", 10**7, 0.2),
    "prpo-loses-least-with-inverted-clicks": (INVERTED, "exposure-risk", 10**7, 0.45),
}


@pytest.mark.parametrize(("claim", "counter"), COUNTER.items(), ids=COUNTER)
def test_every_claim_can_fail(claim, counter):
    assert verdicts(draw(changed(*counter), np.random.default_rng(1)))[claim] == FAILS


@pytest.mark.parametrize("missing", ["prpo", "gate"])
def test_without_a_method_nothing_is_claimed_of_it(missing):
    truth = {users: {name: m for name, m in found.items() if name != missing} for users, found in TRUTH.items()}
    found = {claim["id"]: claim for claim in check_claims(draw(truth, np.random.default_rng(0)))}
    for name, claim in found.items():
        if name.startswith(missing):
            assert (claim["verdict"], claim["numbers"]) == (OPEN, f"{missing} is not among the methods")


def test_much_noise_and_few_runs_are_not_enough_evidence():
    found = verdicts(draw(TRUTH, np.random.default_rng(2), runs=1))
    assert set(found.values()) == {OPEN}

"""One cell is a pure function of its configuration and the data, and does what the paper's set-up says."""

import dataclasses
import itertools
import json
import subprocess
import sys

import numpy as np
import pytest

from counterrank.clicks.policies import Deterministic, parse_policy
from counterrank.common.errors import DataError
from counterrank.data import RankingData, make_fold
from counterrank.estimators import policy_aware
from counterrank.evaluation import evaluate
from counterrank.experiments.cell_runner import CellRunner, page_dcg
from counterrank.experiments.cells import grid
from counterrank.experiments.run_folder import share_fold
from counterrank.experiments.settings import Settings
from counterrank.training import Ranker, fit_best_clip, pipeline
from tests.reference import policies as reference

FOLD = make_fold("yahoo", 60)
FEW = {"runs": 1, "clicks": (1000,), "max_epochs": 4, "clips": 2}


def cell_of(figure=2, series="policy-aware", panel="dcg@5", x=1000, run=0, **settings):
    (point,) = (
        point
        for point in grid(Settings(figures=(figure,), **{**FEW, "runs": run + 1, **settings}))
        if (point.series, point.panel, point.x) == (series, panel, x)
    )
    return point.cells[run]


def run(cell, fold=FOLD, **more):
    row = CellRunner({0: fold}, **more).run(cell)
    assert row.pop("seconds") >= 0
    assert min(row.pop("stages").values()) >= 0
    return row


KINDS = {
    "policy-aware": cell_of(),
    "a fixed step": cell_of(learning_rate=1.0, clip="none"),
    "rerank": cell_of(series="rerank+random"),
    "no-cutoff": cell_of(series="no-cutoff", panel="arp"),
    "Plackett-Luce": cell_of(4, "plackett-luce:k=5,temperature=1"),
    "production": cell_of(series="production", x=None),
    "full-information": cell_of(series="full-information", x=None),
    "another run": cell_of(run=1),
}


@pytest.fixture(scope="module")
def rows():
    """What comes of each kind of cell on a runner of its own."""
    return {name: run(cell) for name, cell in KINDS.items()}


def test_cells_know_nothing_of_those_before_them(rows):
    runner = CellRunner({0: FOLD})
    for names in itertools.chain([list(KINDS)], [list(KINDS)[::-1]]):
        for name in names:
            row = runner.run(KINDS[name])
            del row["seconds"], row["stages"]
            assert row == rows[name], name


@pytest.mark.parametrize("name", ["policy-aware", "rerank", "full-information"])
def test_the_number_of_threads_never_shows(rows, name):
    assert run(KINDS[name], threads=2) == rows[name]


@pytest.mark.process
def test_another_process_on_shared_data_gives_the_same(rows, tmp_path):
    share_fold(FOLD, tmp_path / "fold")
    cells = "".join(json.dumps(cell.plain()) + "\n" for cell in KINDS.values())
    worker = subprocess.Popen(
        [sys.executable, "-m", "counterrank.experiments.cell_runner", str(tmp_path / "fold")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    worker.stdin.write(cells)
    worker.stdin.flush()
    for name in KINDS:
        row = json.loads(worker.stdout.readline())
        del row["seconds"], row["stages"]
        assert row == json.loads(json.dumps(rows[name])), name
    worker.stdin.close()  # and that is its end
    assert worker.wait(60) == 0
    worker.stdout.close()


@pytest.mark.process
def test_a_worker_whose_last_cell_was_cut_short_ends(tmp_path):
    share_fold(FOLD, tmp_path / "fold")
    command = [sys.executable, "-m", "counterrank.experiments.cell_runner", str(tmp_path / "fold")]
    done = subprocess.run(command, input='{"fold": 0, "ru', capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_rows_are_plain_json(rows):
    for row in rows.values():
        assert json.loads(json.dumps(row, allow_nan=False)) == row
        assert set(row["metrics"]) == {"arp", "dcg@5", "ndcg@5", "ndcg@10", "precision@5"}


# Clicks --------------------------------------------------------------------------------------------------------------


def logged(cell, part="train"):
    return CellRunner({0: FOLD})._logged(cell.traffic(part))


def test_clicks_are_the_same_for_all_losses_and_estimators():
    """But for rerank, which needs whole pages: another draw of the same."""
    oblivious = logged(cell_of(series="policy-oblivious+random", panel="arp"))
    for cell in (cell_of(), cell_of(3, "dcg-logistic"), cell_of(4, "replace-last:k=5"), cell_of(clip="none")):
        clicks = logged(cell)
        assert clicks.clicks.tolist() == oblivious.clicks.tolist()
        assert clicks.docs.tolist() == oblivious.docs.tolist()


def test_clicks_differ_between_runs_parts_policies_and_numbers():
    one = logged(cell_of())  # the runs have one ranker, not one log
    other = logged(cell_of(run=1))
    assert one.clicks.tolist() != other.clicks.tolist()
    seeds = {
        cell.traffic(part).seed
        for cell in (cell_of(), cell_of(run=1), cell_of(series="policy-oblivious"), cell_of(clicks=(10,), x=10))
        for part in ("train", "validation")
    }
    assert len(seeds) == 8


def test_runs_share_a_production_ranker_by_default():
    assert cell_of().logger == cell_of(run=1).logger
    each = [cell_of(production_seed=None, run=run) for run in range(2)]
    assert each[0].logger.seed != each[1].logger.seed
    runner = CellRunner({0: FOLD})
    rankers = [runner._production(cell.logger) for cell in each]
    assert rankers[0].model_.coefficients.tolist() != rankers[1].model_.coefficients.tolist()


@pytest.mark.parametrize(("share", "clicks", "expected"), [(0.15, 1000, 150), (0.15, 3, 1), (0.5, 1000, 500)])
def test_validation_clicks_are_a_share_of_training_clicks(share, clicks, expected):
    cell = cell_of(clicks=(clicks,), x=clicks, validation_share=share, max_epochs=1, clip="none", learning_rate=1.0)
    assert cell.traffic("validation").clicks == expected
    row = run(cell)
    # the last session is finished, so there may be a few more
    assert clicks <= row["clicks"] <= clicks + 4
    assert expected <= row["validation_clicks"] <= expected + 4


@pytest.mark.parametrize("norm", [5.0, 0.5])
def test_the_norm_of_the_production_ranker(norm):
    runner = CellRunner({0: FOLD})
    ranker = runner._production(cell_of(production_norm=norm).logger)
    assert np.linalg.norm(ranker.model_.coefficients) == pytest.approx(norm, rel=1e-12)
    plain = runner._production(cell_of().logger)
    order = [
        np.argsort(-scores, kind="stable").tolist() for scores in (ranker.predict(FOLD.test), plain.predict(FOLD.test))
    ]
    assert order[0] == order[1]


# Training ------------------------------------------------------------------------------------------------------------


def test_training_is_what_the_settings_say(monkeypatch):
    """Validation clicks are not clipped, training clicks are, and early stopping uses DCG@5 whatever the loss."""
    seen = []

    def spy(ranker, data, weigh, clips, *, validation, **more):
        seen.append((ranker, data, weigh, clips, validation))
        return fit_best_clip(ranker, data, weigh, clips, validation=validation, **more)

    monkeypatch.setattr(pipeline, "fit_best_clip", spy)
    runner = CellRunner({0: FOLD})
    for loss in Settings().losses:
        cell = cell_of(3, loss, clip="2", patience=3, tolerance=0.5)
        row = runner.run(cell)
        ranker, data, weigh, clips, (held_out, validated_by) = seen.pop()
        assert (data is FOLD.train, held_out is FOLD.validation, clips) == (True, True, [2.0])
        clicks, other = (runner._logged(cell.traffic(part)) for part in ("train", "validation"))
        assert validated_by.tolist() == policy_aware(other).tolist()
        assert validated_by.tolist() != policy_aware(other, clip=2.0).tolist()
        assert weigh(clip=2.0).tolist() == policy_aware(clicks, clip=2.0).tolist()
        assert (ranker.metric, ranker.loss, ranker.patience, ranker.tolerance) == ("dcg@5", loss, 3, 0.5)
        assert (row["clip"], row["epochs"] <= 4) == (2.0, True)


@pytest.mark.parametrize("series", ["policy-aware", "rerank+random", "policy-oblivious"])
@pytest.mark.parametrize("clip", ["grid", "schedule:a=-3,b=32"])
def test_clips_of_all_estimators(series, clip):
    row = run(cell_of(series=series, clip=clip, max_epochs=2, learning_rate=1.0))
    assert row["clip"] is None or row["clip"] >= 1.0
    assert "untrained" not in row


def test_full_information_is_trained_on_labels():
    cell = cell_of(series="full-information", x=None, panel="arp", learning_rate=0.5)
    row = run(cell)
    labels = [(part.labels >= 3).astype(float) for part in (FOLD.train, FOLD.validation)]
    ranker = Ranker("arp-hinge", learning_rate=0.5, max_epochs=4, patience=100, tolerance=1e-4, metric="arp",
                    seed=cell.seed_for("order"))  # fmt: skip
    ranker.fit(FOLD.train, labels[0], validation=(FOLD.validation, labels[1]))
    assert row["metrics"]["arp"] == evaluate(ranker.predict(FOLD.test), FOLD.test, 3, metrics=["arp"])["arp"]
    assert row["best_epoch"] == ranker.best_epoch_


def test_deterministic_pages_work_though_they_hide_documents():
    """Policy-aware under the deterministic policy: what is never shown is never learned, but nothing breaks."""
    row = run(cell_of(4, "deterministic:k=5"))
    assert row["metrics"]["dcg@5"] > 0
    assert row["pages"]["shown"] == row["pages"]["unrandomised"]


def test_nothing_to_learn_is_a_random_order():
    """Pages of one result, always the same: the only click shows no difference inside a set of one."""
    cell = dataclasses.replace(
        cell_of(series="rerank", page=2, clicks=(1,), x=1), policy="deterministic:k=1", page=1, clicks=1
    )
    row = run(cell)
    assert row["untrained"].startswith("views: equal within every set, so there is nothing to learn")
    assert "validation" not in row
    assert row["metrics"] == evaluate(
        np.zeros(FOLD.test.n_docs), FOLD.test, 3, metrics=["arp", "dcg@5", "ndcg@5", "ndcg@10", "precision@5"]
    )


@pytest.mark.parametrize("cutoff", [1, 3, 10])
def test_other_cutoffs(cutoff):
    row = run(cell_of(panel=f"dcg@{cutoff}", cutoff=cutoff, max_epochs=1, clip="none", learning_rate=1.0))
    assert {f"dcg@{cutoff}", f"ndcg@{cutoff}", "ndcg@10"} <= set(row["metrics"])


@pytest.mark.parametrize("clicks", [1, 10])
@pytest.mark.parametrize("series", ["policy-aware", "rerank", "rerank+random", "policy-oblivious", "no-cutoff"])
def test_a_handful_of_clicks_breaks_nothing(series, clicks):
    for number in range(3):
        row = run(cell_of(series=series, clicks=(clicks,), x=clicks, run=number, max_epochs=2))
        assert 0 <= row["metrics"]["ndcg@5"] <= 1


def test_labels_that_make_everything_relevant_teach_no_production_ranker():
    with pytest.raises(DataError, match=r"^relevance_threshold=0: no training query has relevant documents and others"):
        run(cell_of(relevance_threshold=0))


# What pages cost -----------------------------------------------------------------------------------------------------

POLICIES = [
    "deterministic:k=3",
    "deterministic",
    "replace-last:k=3",
    "epsilon-greedy:k=3,epsilon=0.3",
    "uniform-insert:k=3",
    "plackett-luce:k=3,temperature=0.5",
    "0.7*deterministic:k=3+0.3*plackett-luce:k=2,temperature=1",
]


def small_data() -> tuple[RankingData, np.ndarray]:
    """Queries shorter and longer than the pages, one of a single document and one without anything relevant."""
    rng = np.random.default_rng(4)
    offsets = np.cumsum([0, 1, 2, 5, 6, 4])
    labels = rng.integers(0, 5, offsets[-1])
    labels[offsets[4] :] = 0
    labels[0] = 4
    return RankingData(rng.random((offsets[-1], 1)), offsets, labels), rng.normal(size=offsets[-1])


@pytest.mark.parametrize("cutoff", [1, 2, 5])
@pytest.mark.parametrize("text", POLICIES)
def test_page_dcg_is_that_of_all_pages(text, cutoff):
    data, scores = small_data()
    policy = parse_policy(text)
    expected = reference.page_dcg(policy, scores, data.labels, data.offsets, cutoff, threshold=3)
    assert page_dcg(policy, scores, data, cutoff, 3) == pytest.approx(expected, rel=1e-7)


@pytest.mark.statistical
@pytest.mark.parametrize("text", POLICIES)
def test_page_dcg_is_that_of_pages_drawn(text):
    """2000 pages of each query; seven policies beyond 5 standard errors by chance: once in 200,000 seeds."""
    data, scores = small_data()
    policy, drawn = parse_policy(text), []
    for seed in range(2000):
        docs, bounds = policy.sample(scores, data.offsets, seed=seed)
        values = []
        for query in range(4):  # those with a relevant document
            page = docs[bounds[query] : bounds[query + 1]]
            values.append(sum(1 / np.log2(1 + rank) for rank, doc in enumerate(page[:5], 1) if data.labels[doc] >= 3))
        drawn.append(np.mean(values))
    exact = page_dcg(policy, scores, data, 5, 3)
    assert abs(np.mean(drawn) - exact) <= 5 * np.std(drawn) / np.sqrt(len(drawn)) + 1e-9


def test_pages_in_rows_are_those_of_the_production_ranker(rows):
    row, cell = rows["Plackett-Luce"], KINDS["Plackett-Luce"]
    scores = CellRunner({0: FOLD})._production(cell.logger).predict(FOLD.train)
    assert row["pages"] == {
        "shown": page_dcg(parse_policy(cell.policy), scores, FOLD.train, 5, 3),
        "unrandomised": page_dcg(Deterministic(5), scores, FOLD.train, 5, 3),
    }
    assert row["pages"]["shown"] < row["pages"]["unrandomised"]


def test_folds_have_their_own_data():
    runner = CellRunner({0: FOLD, 1: make_fold("yahoo", 60, seed=9)})
    first, second = (runner.run(cell)["metrics"] for cell in grid(Settings(figures=(2,), **FEW), folds=2)[0].cells)
    assert first != second

"""`CellRunner` runs cells: it holds the data of all folds, and caches what several cells have in common.

`python -m counterrank.experiments.cell_runner FOLD... --import=MODULE...` is a worker process. It reads cells from
stdin, a line of JSON each, and answers with one line each. The modules register estimators of the user. It ends when
its stdin does: a parent that was killed leaves no workers behind, not even busy ones.
"""

from __future__ import annotations

import json
import os
import pkgutil
import queue
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from threading import BoundedSemaphore
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.examination import Examination, inverse_rank
from counterrank.clicks.policies import Deterministic
from counterrank.clicks.policies.parsing import parse_policy
from counterrank.clicks.simulated_users import PAPER, from_text
from counterrank.clicks.simulation import simulate
from counterrank.clicks.users import ClickModel
from counterrank.common.checks import FloatArray
from counterrank.common.errors import CoverageWarning, DataError, NothingToLearnError
from counterrank.common.parallel import cached_once, thread_count
from counterrank.common.ranking import longest_query
from counterrank.data import Fold, RankingData
from counterrank.data.ids import uniform_keys
from counterrank.data.labels import relevant_documents
from counterrank.estimators import Evidence, named_estimator
from counterrank.evaluation.metrics import evaluate_groups
from counterrank.experiments import safety_cells
from counterrank.experiments.cells import (
    HELD_OUT,
    Cell,
    CellJson,
    Chosen,
    Logger,
    Pages,
    Row,
    Stages,
    Traffic,
    requires,
)
from counterrank.experiments.demo import train_production
from counterrank.experiments.run_folder import shared_fold
from counterrank.experiments.settings import EstimatorOption, clips_by_rule, parse_estimator
from counterrank.losses import named_loss
from counterrank.training import Ranker, fit_ranker
from counterrank.training.executor import open_device

_FOLDS = 5  # of "auto"
_GROUPS = 64  # of test queries: few enough to store, enough for the variance between them


class CellRunner:
    """Runs cells, one at a time, or many at once in threads of their own.

    What it caches from one to the next saves time and changes no result.

    Arguments:
        folds: by number.
        threads: of each cell.
        device: on which rankers are trained; those of cells that run at once advance together.
    """

    def __init__(self, folds: Mapping[int, Fold], threads: int | None = 1, device: str = "cpu") -> None:
        self._folds, self._threads, self._device = folds, threads, device
        found = open_device(device)
        # filters of warnings belong to the process: with cells in several threads the engine sets them
        self._quiet = ignore_coverage if found is None else nullcontext
        self._clock = time.perf_counter if found is None else found.clock
        self._production = cached_once(self._train_production, maxsize=16)
        self._logged = cached_once(self._log, maxsize=4 if found is None else 64)
        self._pages = cached_once(self._page_quality, maxsize=64)
        self._seen = cached_once(self._propensities, maxsize=8)
        self._groups = cached_once(self._test_groups, maxsize=64)
        self._cores = BoundedSemaphore(thread_count())  # cells that run at once take turns at simulating

    def run(self, cell: Cell) -> Row:
        """Train the ranker of this cell and evaluate it by the labels of the test part."""
        begin, fold = self._clock(), self._folds[cell.fold]
        log = self._simulate(cell)
        simulated = self._clock()
        with self._quiet():
            served, about = self._serve(cell, log) if cell.method else self._learn(cell, fold, log)
        learned = self._clock()
        metrics, groups = self._evaluate(cell, fold.test, served)
        end = self._clock()
        stages: Stages = {
            "simulation": round(simulated - begin, 3),
            "training": round(learned - simulated, 3),
            "evaluation": round(end - learned, 3),
        }
        return {"metrics": metrics, **about, "seconds": round(end - begin, 3), "stages": stages, "groups": groups}

    def _evaluate(
        self, cell: Cell, test: RankingData, learned: Ranker | safety_cells.Served | None
    ) -> tuple[dict[str, float], dict[str, list[float]]]:
        """Metrics of the test part, and ARP and DCG by group of its queries.

        Of a stochastic policy DCG is the expected one, and "ranking dcg@k" that of the ranking by its scores; "new
        dcg@k" is that of a new ranker before it is tested.
        """
        served = learned if isinstance(learned, safety_cells.Served) else safety_cells.Served(learned)
        ranker = served.ranker
        scores = np.zeros(test.n_docs) if ranker is None else ranker.predict(test)
        k, threshold = cell.cutoff, cell.relevance_threshold
        dcg, shown = f"dcg@{k}", ["arp", f"dcg@{k}"]
        names = list(dict.fromkeys((*shown, f"ndcg@{k}", "ndcg@10", f"precision@{k}")))
        groups = self._groups(cell.fold, threshold)
        metrics, found = evaluate_groups(scores, test, groups, threshold, metrics=names, threads=self._threads)
        policy = safety_cells.served_policy(cell)
        if policy is not None:
            metrics[f"ranking {dcg}"] = metrics[dcg]
            sums, some = safety_cells.expected_dcg(policy, scores, test, k, threshold, self._threads)
            metrics[dcg], found[dcg] = float(sums[some].mean()), safety_cells.by_group(sums, some, groups)
        if served.new is not None:
            new, of_new = evaluate_groups(
                served.new.predict(test), test, groups, threshold, metrics=[dcg], threads=self._threads
            )
            metrics[f"new {dcg}"], found[f"new {dcg}"] = new[dcg], of_new[dcg]
            shown.append(f"new {dcg}")
        return metrics, {name: [float(f"{value:.7g}") for value in found[name]] for name in shown}

    def _test_groups(self, fold: int, relevance_threshold: float) -> NDArray[np.int64]:
        return query_groups(self._folds[fold].test, relevance_threshold)

    def _simulate(self, cell: Cell) -> tuple[ClickCounts, ClickCounts, Row] | None:
        """The clicks of both parts, and what the row says of them; None for a cell that learns from labels."""
        if cell.estimator == "production":
            return None
        if self._folds[cell.fold].validation is None:
            raise DataError("fold: has no validation part; expected one to stop early on")
        if requires(cell.estimator, "labels"):
            return None
        clicks, other = (self._logged(cell.traffic(part)) for part in ("train", "validation"))
        about: Row = {
            "clicks": clicks.n_clicks,
            "sessions": clicks.n_sessions,
            "validation_clicks": other.n_clicks,
            "pages": self._pages(cell.logger, cell.policy, cell.page, cell.cutoff),
        }
        return clicks, other, about

    def _learn(
        self, cell: Cell, fold: Fold, log: tuple[ClickCounts, ClickCounts, Row] | None
    ) -> tuple[Ranker | None, Row]:
        if cell.estimator == "production":
            return self._production(cell.logger), {}
        assert fold.validation is not None
        if log is None:
            labels = {"relevance_threshold": cell.relevance_threshold}
            held_out = (fold.validation, None)
            ranker = self._ranker(cell)
            report = fit_ranker(fold.train, None, cell.estimator, ranker, validation=held_out, hyperparameters=labels)
            return report.ranker, _outcome(report.ranker)
        clicks, other, about = log
        try:
            return self._from_clicks(cell, (fold.train, clicks), (fold.validation, other), about)
        except NothingToLearnError as error:  # a handful of clicks may show no difference between documents
            return None, {**about, "untrained": str(error)}

    def _from_clicks(
        self,
        cell: Cell,
        train: tuple[RankingData, ClickCounts],
        held_out: tuple[RankingData, ClickCounts],
        about: Row,
    ) -> tuple[Ranker, Row]:
        """As in the paper; or with a model of relevance or over folds, propensities being known then."""
        option = parse_estimator(cell.estimator) if cell.sessions else EstimatorOption(cell.estimator, cell.estimator)
        exam, _ = self._users(cell.fold, cell.users, cell.eta, cell.noise)
        fit = partial(fit_ranker, train[0], ranker=self._ranker(cell), hyperparameters=option.hyperparameters)
        if option.is_cross_fitted:
            rho, other_rho = (
                self._seen(cell.logger, cell.policy, exam, part, cell.fold) for part in ("train", "validation")
            )
            report = fit(
                Evidence(train[1], rho, exam),
                option.kind,
                validation=(held_out[0], Evidence(held_out[1], other_rho, exam)),
                clip=None if option.clip is None else float(option.clip),
                folds=_FOLDS if named_estimator(option.kind).candidates else option.folds,
                model="ridge",
                seed=cell.seed_for("model"),
            )
            chosen: Chosen = {"estimator": report.estimator, "why": report.why, "about": plain_values(report.about)}
            return report.ranker, {**about, "chosen": chosen, **_outcome(report.ranker)}
        evidence = Evidence(train[1], exam=exam)
        clips = clips_by_rule(cell.clip, cell.clips, option.kind, evidence, cell.clicks or cell.sessions)
        report = fit(
            evidence,
            option.kind,
            validation=(held_out[0], Evidence(held_out[1], exam=exam)),
            clip=clips if "clip" in named_estimator(option.kind).hyperparameters else None,
            shared_learning_rate=True,
        )
        return report.ranker, {**about, "clip": report.about.get("clip"), **_outcome(report.ranker)}

    def _serve(self, cell: Cell, log: tuple[ClickCounts, ClickCounts, Row] | None) -> tuple[safety_cells.Served, Row]:
        """What a method of the experiment on safety serves; production where there is nothing to learn."""
        production = self._production(cell.logger)
        if log is None:
            return safety_cells.Served(production), {}
        clicks, other, about = log
        train = self._logged_part(cell, "train", clicks)
        validation = self._logged_part(cell, "validation", other)
        held_out = None
        if cell.method == "gate":
            held_out = self._logged_part(cell, HELD_OUT, self._logged(cell.traffic(HELD_OUT)))
        ranker = self._ranker(cell)
        try:
            if not (clicks.n_clicks and other.n_clicks):
                raise NothingToLearnError("no clicks on training or on validation queries")
            served, report, found = safety_cells.learn(cell, ranker, train, validation, held_out, production)
            about = {**about, **found, **_outcome(report.ranker if report.new is None else report.new)}
        except NothingToLearnError as error:
            served = safety_cells.Served(production, None if cell.method in safety_cells.RISKS else production)
            about = {**about, "untrained": str(error), "served": {"weight": 0.0}}
        policy = safety_cells.served_policy(cell)
        if policy is not None and served.ranker is not None:
            exam, _ = self._users(cell.fold, cell.users, cell.eta, cell.noise)
            old = self._seen(cell.logger, cell.policy, exam, "train", cell.fold)
            scores, offsets = served.ranker.predict(train.data), train.data.offsets
            new = policy.propensity(scores, offsets, exam, threads=self._threads)
            about["exposure"] = safety_cells.exposure_reached(new, old)
        return served, about

    def _logged_part(self, cell: Cell, part: str, clicks: ClickCounts) -> safety_cells.Part:
        """A part of the data with all that is known of its clicks; for a test with the policy itself."""
        is_test = part == HELD_OUT
        data: RankingData = getattr(self._folds[cell.fold], "train" if is_test else part)
        exam, _ = self._users(cell.fold, cell.users, cell.eta, cell.noise)
        scores = self._production(cell.logger).predict(data)
        policy = parse_policy(cell.policy) if is_test else None
        rho = None if is_test else self._seen(cell.logger, cell.policy, exam, part, cell.fold)
        evidence = Evidence(clicks, rho, exam, policy=policy, scores=scores, threads=self._threads)
        return safety_cells.Part(data, evidence)

    def _ranker(self, cell: Cell) -> Ranker:
        on_cpu = self._device == "cpu"
        return Ranker(
            loss=cell.loss,
            k=cell.cutoff if named_loss(cell.loss).takes_k else None,
            learning_rate=cell.learning_rate,
            max_epochs=cell.max_epochs,
            patience=cell.patience,
            tolerance=cell.tolerance,
            metric=cell.metric,
            params=safety_cells.parameters(cell.method) or (None if on_cpu else {"device": self._device}),
            threads=self._threads,
            seed=cell.seed_for("order"),
        )

    def _train_production(self, logger: Logger) -> Ranker:
        train = self._folds[logger.fold].train
        share, threshold = logger.share, logger.relevance_threshold
        return train_production(train, share, threshold, logger.seed, self._threads, logger.norm)[0]

    def _log(self, traffic: Traffic) -> ClickCounts:
        """Clicks on the pages that the policy makes of the production ranker's order."""
        data: RankingData = getattr(self._folds[traffic.logger.fold], traffic.part)
        production = self._production(traffic.logger)
        exam, click_model = self._users(traffic.logger.fold, traffic.users, traffic.eta, traffic.noise)
        if traffic.inverted:
            click_model = replace(click_model, relevant=click_model.other, other=click_model.relevant)
        with self._cores:
            return simulate(
                data,
                production.predict(data),
                parse_policy(traffic.policy),
                exam,
                clicks=traffic.clicks or None,
                sessions=traffic.sessions or None,
                seed=traffic.seed,
                relevance_threshold=traffic.logger.relevance_threshold,
                click_model=click_model,
                displays=traffic.displays,
                threads=self._threads,
            )

    def _users(self, fold: int, users: str, eta: float, noise: tuple[float, float]) -> tuple[Examination, ClickModel]:
        """How users examine and click; estimators are told the examination curve."""
        if users == PAPER:
            return inverse_rank(eta=eta), ClickModel(relevant=noise[1], other=noise[0])
        parts = (self._folds[fold].train, self._folds[fold].validation)
        return from_text(users, max(longest_query(part.offsets) for part in parts if part is not None))

    def _propensities(self, logger: Logger, policy: str, exam: Examination, part: str, fold: int) -> FloatArray:
        """P(examined | query, policy) of each document of a part."""
        data: RankingData = getattr(self._folds[fold], part)
        scores = self._production(logger).predict(data)
        rho: FloatArray = parse_policy(policy).propensity(scores, data.offsets, exam, threads=self._threads)
        return rho

    def _page_quality(self, logger: Logger, policy: str, page: int | None, cutoff: int) -> Pages:
        """What users are shown while clicks are logged on the training queries, and what they would be otherwise."""
        train = self._folds[logger.fold].train
        scores = self._production(logger).predict(train)

        def dcg(pages: Any) -> float:
            return page_dcg(pages, scores, train, cutoff, logger.relevance_threshold, self._threads)

        return {"shown": dcg(parse_policy(policy)), "unrandomised": dcg(Deterministic(page))}


@contextmanager
def ignore_coverage() -> Iterator[None]:
    """Ignore warnings of violated conditions, since the bias that results from them is what experiments show.

    >>> with ignore_coverage():
    ...     warnings.warn("not shown", CoverageWarning)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        yield


def page_dcg(
    policy: Any,
    scores: FloatArray,
    data: RankingData,
    cutoff: int,
    relevance_threshold: float = 3,
    threads: int | None = None,
) -> float:
    """The expected DCG@cutoff of the pages a policy shows, over queries with a relevant document.

        mean over queries of the sum over relevant documents of E[1 / log2(1 + rank on the page)]

    >>> data = RankingData([[3.0], [2.0], [1.0]], [0, 3], labels=[0, 0, 4])
    >>> round(page_dcg(parse_policy("replace-last:k=2"), data.features[:, 0], data, 5), 3)  # 1/2 of 1 / log2(3)
    0.315
    """
    sums, some = safety_cells.expected_dcg(policy, scores, data, cutoff, relevance_threshold, threads)
    return float(sums[some].mean())


def query_groups(data: RankingData, relevance_threshold: float) -> NDArray[np.int64]:
    """A group of test queries for each query: 64 of equal size, or one for each query where there are fewer.

    Queries with a relevant document are ordered by a hash of their ids and dealt out; others count nowhere.

    >>> data = RankingData([[0.0]] * 3, [0, 1, 2, 3], labels=[4, 0, 4], query_ids=[7, 8, 9])
    >>> query_groups(data, 3).tolist()
    [1, 0, 0]
    """
    relevant = np.add.reduceat(relevant_documents(data, relevance_threshold).astype(np.int64), data.offsets[:-1]) > 0
    (counted,) = np.nonzero(relevant)
    order = counted[np.argsort(uniform_keys(data.query_ids[counted]), kind="stable")]
    groups = np.zeros(data.n_queries, np.int64)
    groups[order] = np.arange(len(order)) * min(_GROUPS, len(order)) // len(order)
    return groups


def _outcome(ranker: Ranker) -> Row:
    return {
        "validation": ranker.history_[ranker.best_epoch_ - 1].get("validation"),
        "step_size": ranker.learning_rate_,
        "epochs": len(ranker.history_),
        "best_epoch": ranker.best_epoch_,
    }


def plain_values(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same as JSON has it: numbers, texts, lists; None for what is not finite.

    >>> plain_values({"tau": np.float64(0.5), "curve": np.arange(2), "clip": np.inf, "deep": {"m": 1}})
    {'tau': 0.5, 'curve': [0, 1], 'clip': None, 'deep': {'m': 1}}
    """

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray | np.generic):
            value = value.tolist()
        if isinstance(value, Mapping):
            return {str(key): plain(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [plain(inner) for inner in value]
        if isinstance(value, float):
            return value if np.isfinite(value) else None
        return value if value is None or isinstance(value, bool | int | str) else str(value)

    return {str(key): plain(value) for key, value in content.items()}


def main(arguments: list[str]) -> None:
    """Run cells until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is no answer
    folders = [argument for argument in arguments if not argument.startswith("--import=")]
    for argument in arguments[len(folders) :]:
        pkgutil.resolve_name(argument.removeprefix("--import="))
    runner = CellRunner({number: shared_fold(folder) for number, folder in enumerate(folders)})
    cells = _listen()
    while True:
        answers.write(json.dumps(answer(runner, cells.get())) + "\n")
        answers.flush()


def answer(runner: CellRunner, content: CellJson) -> Row:
    """The row of a cell, or the error as text; its trace goes to stderr.

    >>> import contextlib, io
    >>> with contextlib.redirect_stderr(io.StringIO()):
    ...     answer(CellRunner({}), {"noise": [0.1, 1.0]})["error"][:9]
    'TypeError'
    """
    try:
        return runner.run(Cell.from_plain(content))
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def _listen() -> queue.SimpleQueue[CellJson]:
    """Cells as they come in; at the end of stdin the process ends at once."""
    cells: queue.SimpleQueue[CellJson] = queue.SimpleQueue()

    def read() -> None:
        try:
            for line in sys.stdin:
                cells.put(json.loads(line))
        finally:  # also where a kill of the parent cut a line short
            os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return cells


if __name__ == "__main__":
    main(sys.argv[1:])

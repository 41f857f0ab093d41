"""Which loss is best, by number of training queries: DCG@5 on training and on test queries, and what averaging does.

    python -m benchmarks.losses_by_size --out losses.jsonl
    python -m benchmarks.losses_by_size --out losses.jsonl --show

Linear rankers for pages of 5, all stopped by DCG@5 on validation queries, a third as many as training queries, with at
most 50 epochs, a patience of 10 and a searched learning rate.

Synthetic data: each run draws its own training and validation queries, and those of a smaller size are the first of
those of a larger one. All runs and sizes share 5,000 test queries. Real data: a run is a cross-validation. It divides
all queries at random into five parts and tests on each of them, with three others for training and one for validation,
so that each run tests each query once. Smaller sizes are shares of the training and validation parts. In both, runs are
crossed with test queries, and confidence intervals include both (`experiments.statistics`).

Evidence: "labels"; "clicks", 10^4 per training query under replace-last with policy-aware weights, without a clip; and
"rerank", as many clicks on deterministic pages, for the comparison of synthetic with real data. Production rankers
learn from 3 queries of real data. Of synthetic data they learn from 20 of the first 500 training queries, the same for
all sizes from 500 on, and from 3 with fewer training queries.

Variants are ways to regularise or average, with labels:

    validation   early stopping by 6,300 queries (synthetic data only)
    slow         a tenth of the learning rate, up to 300 epochs, patience 60
    batch        batches of 16 queries, learning rate searched
    shrink       coefficients times 0.99, 0.9 or 0.5 after each epoch (an L2 penalty), the best on validation queries
    epochs       mean of the coefficients of the last 10 epochs, at each epoch
    orders       mean of the coefficients of 5 rankers, each scaled to norm 1, with other orders of the queries
    folds        the same, each from other four fifths of the training queries
    samples      the same, each from other training and validation queries, as many (synthetic data only): no remedy,
                 but it shows how much of the error is variance between samples of queries
    top-10, top-20, top-50    the truncated loss with this k, still stopped by DCG@5: it then counts more documents

Every result is one line of the file; those that are in it are not repeated.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.few_clicks import all_queries
from benchmarks.losses_by_size_tables import show
from counterrank import Member, Ranker, RankingData, fit_many, make_ranking_data, read_fold
from counterrank.clicks.examination import inverse_rank
from counterrank.clicks.policies import Deterministic, ReplaceLast
from counterrank.clicks.simulation import simulate
from counterrank.common.ranking import longest_query
from counterrank.estimators import Evidence, full_information
from counterrank.estimators.registry import named_estimator
from counterrank.evaluation import evaluate_queries
from counterrank.experiments.demo import train_production
from counterrank.losses import LOSSES, named_loss
from counterrank.losses.loss_kernels import run_loss
from counterrank.models import LinearModel
from counterrank.training.executor import Metric, Steps, compute
from counterrank.training.linear_training import LinearData, Run, Schedule
from counterrank.training.problem import LinearMetric, check_weights

K = 5
GROUPS = 50  # of test queries
MANY = 500  # training queries of synthetic data, from which on production rankers are the same for all sizes
N_TEST, N_VALIDATION = 5_000, 6_300
CLICKS = 10_000  # per training query
SHRINK = (0.99, 0.9, 0.5)
AVERAGED = 5  # rankers, and parts of the queries in a cross-validation
COMPARED = ("lambdaloss-truncated", "lambdaloss-dcg-at-k", "lambdaloss-dcg", "dcg-hinge", "dcg-logistic", "arp-hinge")
VARIED = ("lambdaloss-truncated", "lambdaloss-dcg-at-k")
VARIANTS = (
    "validation",
    "slow",
    "batch",
    "shrink",
    "epochs",
    "orders",
    "folds",
    "samples",
    "top-10",
    "top-20",
    "top-50",
)
SYNTHETIC_ONLY = ("validation", "samples")
PLAIN = ""
EVIDENCE = ("labels", "clicks", "rerank")
# where they are below the folder of data sets, and the smallest relevant label
REAL = {
    "ohsumed": ("ohsumed/Fold1", 2),
    "mq2008": ("mq2008/Fold1", 1),
    "mslr-sample": ("mslr-sample", 2),
    "lightgbm-lambdarank": ("lightgbm-lambdarank", 3),
}
SYNTHETIC = {
    "synthetic:mslr": ("mslr", 3),
    "synthetic:yahoo": ("yahoo", 3),
    "synthetic:mslr from 2": ("mslr", 2),  # relevant as in the sample of the real data
}


class Job(NamedTuple):
    """What is trained at once: all losses and variants of one sample of training queries and one kind of evidence."""

    data: str
    queries: int  # to train on
    evidence: str
    run: int


class Split(NamedTuple):
    """Training, validation and test queries; `places` are those of the test queries among all that a run tests."""

    train: RankingData
    validation: RankingData
    test: RankingData
    places: Any
    production: Ranker


def jobs(sets: Sequence[str], sizes: Sequence[int], evidence: Sequence[str], runs: int, folder: Path) -> Iterator[Job]:
    """All jobs, run by run; sizes above those of a real data set count as all of its training queries."""
    for run in range(runs):
        for name in sets:
            largest = max(sizes) if name in SYNTHETIC else pool(folder, name).n_queries * (AVERAGED - 2) // AVERAGED
            for queries in sorted({min(size, largest) for size in sizes}):
                for kind in evidence:
                    yield Job(name, queries, kind, run)


@lru_cache(maxsize=4)
def pool(folder: Path, name: str) -> RankingData:
    """All queries of a real data set."""
    return all_queries(read_fold(folder / REAL[name][0]))


@lru_cache(maxsize=4)
def made(shape: str, n_queries: int, seed: int) -> RankingData:
    """Synthetic queries, kept for the next jobs."""
    return make_ranking_data(shape, n_queries, seed, threads=1)


def labelled(name: str, n_queries: int, seed: int) -> tuple[RankingData, Any]:
    """Synthetic queries, and weights from their labels."""
    data = made(SYNTHETIC[name][0], n_queries, seed)
    return data, full_information(data, SYNTHETIC[name][1])


def splits(folder: Path, name: str, queries: int, run: int) -> Iterator[Split]:
    """One split of synthetic data, five of a real data set."""
    if name in SYNTHETIC:
        shape, threshold = SYNTHETIC[name]
        train, validation = made(shape, queries, 2 * run + 1), made(shape, N_VALIDATION, 2 * run + 2)
        few = train.subset(range(min(MANY, queries)))
        production, _ = train_production(few, (20 if queries >= MANY else 3) / few.n_queries, threshold, run, 1)
        yield Split(
            train,
            first_queries(validation, max(5, queries // 3)),
            made(shape, N_TEST, 0),
            np.arange(N_TEST),
            production,
        )
        return
    whole = pool(folder, name)
    parts = np.array_split(np.random.default_rng(run).permutation(whole.n_queries), AVERAGED)
    for i, test in enumerate(parts):
        rest = np.concatenate([parts[(i + j) % AVERAGED] for j in range(2, AVERAGED)])[:queries]
        held_out = parts[(i + 1) % AVERAGED][: max(5, queries // 3)]
        train, validation, tested = (whole.subset(np.sort(part)) for part in (rest, held_out, test))
        production, _ = train_production(train, 0.0, REAL[name][1], run, 1)
        yield Split(train, validation, tested, np.sort(test), production)


def first_queries(data: RankingData, n: int) -> RankingData:
    """The first n queries."""
    return data if n >= data.n_queries else data.subset(range(n))


def weigh(part: RankingData, split: Split, kind: str, clicks: int, threshold: float, seed: list[int]) -> Any:
    """Weights of the documents of one part, from labels or from simulated clicks."""
    if kind == "labels":
        return full_information(part, threshold)
    exam, is_rerank = inverse_rank(K), kind == "rerank"
    counts = simulate(
        part, split.production.predict(part), Deterministic(K) if is_rerank else ReplaceLast(K), exam, clicks=clicks,
        seed=np.random.default_rng(seed), relevance_threshold=threshold, displays=is_rerank, threads=1,
    )  # fmt: skip
    return named_estimator("rerank" if is_rerank else "policy-aware").weigh(part, Evidence(counts, exam=exam))


def untrained(loss: str, run: int, **options: Any) -> Ranker:
    """A ranker as all are trained here."""
    settings = {"max_epochs": 50, "patience": 10, "metric": f"dcg@{K}", "threads": 1, "seed": run}
    return Ranker(loss, **{**settings, "k": K if LOSSES[loss].takes_k else None, **options})


class Trained(NamedTuple):
    """A linear model and how it was trained."""

    model: LinearModel
    about: dict[str, float]


def trained(ranker: Ranker) -> Trained:
    """What is kept of a ranker."""
    history = ranker.history_
    about = {
        "epochs": len(history), "best_epoch": ranker.best_epoch_, "learning_rate": ranker.learning_rate_,
        "seconds": sum(row["seconds"] for row in history),
    }  # fmt: skip
    return Trained(ranker.model_, about)


def effective_share(ranker: Ranker, data: RankingData, weights: Any) -> float:
    """The effective number of relevant documents that the loss learns from at the end, as a share of all of them.

    (sum of |g_d|)^2 / sum of g_d^2,   g_d the derivative of the loss for the score of a relevant document d
    """
    spec = named_loss(ranker.loss_).spec(ranker.k, longest_query(data.offsets))
    _, gradient = run_loss(spec, ranker.predict(data), weights, data.offsets, 1)
    sizes = np.abs(gradient[weights > 0.0])
    return float(sizes.sum() ** 2 / (sizes @ sizes) / len(sizes))


def documents(ranker: Ranker, data: RankingData, weights: Any) -> dict[str, float]:
    """The number of relevant documents, and the effective share of them."""
    share = effective_share(ranker, data, weights)
    return {"effective documents": share, "relevant documents": int(np.count_nonzero(weights))}


def mean_model(models: Iterable[LinearModel]) -> LinearModel:
    """The mean of coefficients, each scaled to norm 1 since the scale changes no ranking."""
    found = list(models)
    vectors = [model.coefficients / (np.linalg.norm(model.coefficients) or 1.0) for model in found]
    return LinearModel(np.mean(vectors, axis=0), found[0].scaler)


class ShrunkRun(Run):
    """Training with coefficients that shrink after each epoch: a proximal step for an L2 penalty."""

    shrink = 1.0

    def _keep(self, epoch: int) -> Steps[float | None]:
        self.coefficients *= self.shrink
        return (yield from super()._keep(epoch))


class AveragedRun(Run):
    """Training that validates and keeps the mean of the coefficients of the last epochs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.recent: deque[Any] = deque(maxlen=10)

    def _keep(self, epoch: int) -> Steps[float | None]:
        self.recent.append(self.coefficients.copy())
        mean = np.mean(self.recent, axis=0)
        parts = yield Metric(self.on_validation, mean)
        if self.watch.see(epoch, parts):
            self.kept = mean
        return float(parts.sum())


def descend(kind: type[Run], split: Split, weights: tuple[Any, Any], base: Ranker, shrinks: Sequence[float]) -> Trained:
    """Train with another kind of run, with the learning rate of `base`; the best on validation queries."""
    shared = LinearData(split.train, split.validation, 1)
    scaling, spec = shared.scaling("query"), named_loss(base.loss_).spec(base.k, longest_query(split.train.offsets))
    evidence, other = check_weights(weights[0], split.train), check_weights(weights[1], split.validation)
    problem, metric = shared.problem(evidence, spec, "query"), f"dcg@{K}"
    on_training = LinearMetric(metric, split.train, evidence, scaling.scales)
    on_validation = LinearMetric(metric, split.validation, other, scaling.on_validation)
    runs = []
    for shrink in shrinks:
        schedule = Schedule(max_epochs=50, patience=10, batch=1, entropy=base._settings().entropy)
        run = kind(problem, schedule, base.learning_rate_, on_training, on_validation)
        run.shrink = shrink
        compute(run.advance(50, lambda _: None), 1)
        runs.append(run)
    best = max(runs, key=lambda run: run.parts.sum())
    about = {
        "epochs": len(best.history),
        "best_epoch": best.best_epoch,
        "learning_rate": best.step,
        "shrink": best.shrink,
    }
    return Trained(LinearModel(best.kept, scaling.scaler), about)


def vary(name: str, split: Split, weights: tuple[Any, Any], base: Ranker, job: Job) -> Trained:
    """A ranker like `base`, regularised or averaged."""
    loss, rate, run = base.loss_, base.learning_rate_, job.run
    train, held_out = split.train, (split.validation, weights[1])

    def fit(ranker: Ranker, data: RankingData = train, own: Any = weights[0], validation: Any = held_out) -> Ranker:
        return ranker.fit(data, own, validation=validation)

    if name == "validation":
        return trained(fit(untrained(loss, run), validation=labelled(job.data, N_VALIDATION, 2 * run + 2)))
    if name.startswith("top-"):
        ranker = fit(untrained(loss, run, k=int(name.removeprefix("top-"))))
        return Trained(ranker.model_, {**trained(ranker).about, **documents(ranker, train, weights[0])})
    if name == "slow":
        return trained(fit(untrained(loss, run, learning_rate=rate / 10, max_epochs=300, patience=60)))
    if name == "batch":
        return trained(fit(untrained(loss, run, batch_queries=16)))
    if name == "shrink":
        return descend(ShrunkRun, split, weights, base, SHRINK)
    if name == "epochs":
        return descend(AveragedRun, split, weights, base, (1.0,))
    if name == "orders":
        others = [untrained(loss, 1000 * (i + 1) + run, learning_rate=rate) for i in range(AVERAGED)]
        many = fit_many(train, [Member(ranker, weights[0]) for ranker in others], held_out, threads=1)
        return Trained(mean_model(ranker.model_ for ranker in many), {"learning_rate": rate})
    if name == "samples":
        models = []
        for i in range(AVERAGED):
            seed = 2 * (run + 1000 * (i + 1))
            (some, own), other = (
                labelled(job.data, job.queries, seed + 1),
                labelled(job.data, job.queries // 3, seed + 2),
            )
            models.append(fit(untrained(loss, run, learning_rate=rate), some, own, other).model_)
        return Trained(mean_model(models), {"learning_rate": rate})
    parts, models = np.random.default_rng([run, 9]).integers(AVERAGED, size=train.n_queries), []
    rows = np.repeat(parts, train.lengths)
    for i in range(AVERAGED):
        some = train.subset(np.flatnonzero(parts != i))
        models.append(fit(untrained(loss, run, learning_rate=rate), some, weights[0][rows != i]).model_)
    return Trained(mean_model(models), {"learning_rate": rate})


def run_split(split: Split, job: Job, wanted: set[tuple[str, str]], threshold: float) -> dict[tuple[str, str], Trained]:
    """The models by loss and variant."""
    clicks = CLICKS * split.train.n_queries
    parts = ((split.train, clicks, 1), (split.validation, clicks // 3, 2))
    weights = [weigh(part, split, job.evidence, n, threshold, [job.run, i]) for part, n, i in parts]
    losses = [loss for loss in COMPARED if any(loss == name for name, _ in wanted)]
    members = [Member(untrained(loss, job.run), weights[0]) for loss in losses]
    rankers = dict(zip(losses, fit_many(split.train, members, (split.validation, weights[1]), threads=1), strict=True))
    found = {(loss, PLAIN): trained(ranker) for loss, ranker in rankers.items()}
    if job.evidence == "labels":
        for loss, ranker in rankers.items():
            found[loss, PLAIN].about.update(documents(ranker, split.train, weights[0]))
    found["production", PLAIN] = Trained(split.production.model_, {})
    for loss, variant in sorted(wanted):
        if variant != PLAIN:
            found[loss, variant] = vary(variant, split, (weights[0], weights[1]), rankers[loss], job)
    return {key: value for key, value in found.items() if key in wanted}


def run_job(folder: Path, job: Job, wanted: set[tuple[str, str]]) -> list[dict[str, Any]]:
    """A row for each loss and variant: metrics of training and test queries, and DCG@5 by group of test queries."""
    threshold = (SYNTHETIC | REAL)[job.data][1]
    tested = N_TEST if job.data in SYNTHETIC else pool(folder, job.data).n_queries
    values: dict[tuple[str, str], dict[str, Any]] = defaultdict(lambda: {"dcg": np.full(tested, np.nan), "rows": []})
    names = (f"dcg@{K}", f"ndcg@{K}")
    begin = time.process_time()
    for split in splits(folder, job.data, job.queries, job.run):
        for key, (model, about) in run_split(split, job, wanted, threshold).items():
            on = {
                part: evaluate_queries(model.predict(data, 1), data, threshold, metrics=names, threads=1)
                for part, data in (("train", split.train), ("test", split.test))
            }
            metrics = {f"{part} {name}": np.nanmean(on[part][name]) for part in on for name in names}
            values[key]["dcg"][split.places] = on["test"][names[0]]
            values[key]["rows"].append({**metrics, **about})
    cpu = time.process_time() - begin
    return [
        {
            **job._asdict(), "loss": loss, "variant": variant,
            **{name: float(np.mean([row[name] for row in found["rows"]])) for name in found["rows"][0]},
            "test dcg@5": float(np.nanmean(found["dcg"])), "job_seconds": cpu, "groups": by_group(found["dcg"]),
        }
        for (loss, variant), found in values.items()
    ]  # fmt: skip


def by_group(values: Any) -> list[float]:
    """Contributions of groups of queries, whose mean is that of the queries (see `evaluate_groups`).

    >>> by_group(np.array([1.0, np.nan, 3.0]))[:3]
    [-31.333333, 2.0, 26.666667]
    """
    counts = ~np.isnan(values)
    mean, n_groups = float(values[counts].mean()), min(GROUPS, len(values))
    groups = np.arange(len(values)) % n_groups
    sums = np.bincount(groups, np.where(counts, values - mean, 0.0), minlength=n_groups)
    return [round(float(value), 6) for value in mean + n_groups * sums / counts.sum()]


def applies(loss: str, variant: str, data: str) -> bool:
    """Whether a variant can be tried: some need synthetic data, other cutoffs are for the truncated loss."""
    if variant.startswith("top-"):
        return loss == "lambdaloss-truncated"
    return data in SYNTHETIC or variant not in SYNTHETIC_ONLY


def wanted_of(job: Job, losses: Sequence[str], variants: Sequence[str]) -> set[tuple[str, str]]:
    """Losses and variants of a job."""
    if job.evidence == "rerank":
        return {("lambdaloss-truncated", PLAIN), ("production", PLAIN)}
    found = {(loss, PLAIN) for loss in losses} | {("production", PLAIN)}
    if job.evidence == "labels":
        found |= {(loss, one) for loss in VARIED for one in variants if applies(loss, one, job.data)}
    return found


def read(out: Path) -> list[dict[str, Any]]:
    """The rows of a file of results."""
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    return [json.loads(line) for line in lines]


def some_of(known: Sequence[str]) -> Any:
    """A parser of comma-separated names."""

    def parse(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r}; expected some of {', '.join(known)}")
        return names

    return parse


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, or show the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.losses_by_size", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    sets = (*SYNTHETIC, *REAL)
    parser.add_argument("--folder", type=Path, default=Path("../shared/data"), help="folder with the LETOR data sets")
    parser.add_argument("--out", type=Path, default=Path("losses.jsonl"), help="the file of results")
    parser.add_argument("--data", type=some_of(sets), default=list(SYNTHETIC)[:2], help="comma-separated data sets")
    parser.add_argument("--sizes", default="500,1000,2000,5000,10000,18900", help="numbers of training queries")
    parser.add_argument("--evidence", type=some_of(EVIDENCE), default=["labels", "clicks"])
    parser.add_argument("--losses", type=some_of(COMPARED), default=list(COMPARED))
    parser.add_argument("--variants", type=some_of(VARIANTS), default=[], help="regularisation and averaging to try")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no job after this time")
    parser.add_argument("--show", action="store_true", help="print the tables of existing results, and run nothing")
    options = parser.parse_args(arguments)
    rows = read(options.out)
    if not options.show:
        rows += run_missing(options, rows)
    show(rows)


def run_missing(options: Any, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run what is not in the file, and append it there."""
    done = {(Job(*(row[name] for name in Job._fields)), row["loss"], row["variant"]) for row in rows}
    sizes, added = [int(size) for size in options.sizes.split(",")], []
    end = time.monotonic() + 60 * options.minutes
    with options.out.open("a", encoding="utf-8") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for job in jobs(options.data, sizes, options.evidence, options.runs, options.folder):
            wanted = wanted_of(job, options.losses, options.variants)
            missing = {key for key in wanted if (job, *key) not in done}
            if not missing or time.monotonic() > end:
                continue
            found = run_job(options.folder, job, missing)
            file.writelines(json.dumps(row) + "\n" for row in found)
            file.flush()
            added += found
            print(*job, f"{found[0]['job_seconds']:.1f} s", file=sys.stderr, flush=True)
    return added


if __name__ == "__main__":
    main()

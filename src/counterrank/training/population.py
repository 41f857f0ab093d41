"""Populations: many linear rankers on one data set, trained together."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from numpy.typing import ArrayLike

from counterrank.clicks.counts import ClickCounts
from counterrank.common.checks import check_choice, check_type
from counterrank.common.errors import CounterrankError
from counterrank.common.parallel import run_parallel, thread_count
from counterrank.common.progress import progress
from counterrank.common.ranking import longest_query
from counterrank.data import RankingData
from counterrank.estimators.displayed_sets import Views
from counterrank.training.executor import DEVICES, Device, Steps, compute, open_device
from counterrank.training.linear_training import LinearData, OnEpoch, fit_linear, training_epochs
from counterrank.training.problem import (
    KINDS,
    FittedModel,
    Task,
    TrainingWeights,
    aligned_with,
    check_pair,
    check_usable,
    check_validation_weights,
    check_weights,
    kind_of,
)
from counterrank.training.ranker import Ranker, TrainingInputs, device_of
from counterrank.training.storage import check_clicks

ON_ERROR = ("raise", "return")


class Member(NamedTuple):
    """One ranker of a population.

    Attributes:
        ranker: an untrained linear one; it is not changed.
        weights: what it learns from, as for `Ranker.fit`: one number per document, or views.
        validation_weights: of the validation data, of the same kind; None for those that all members share.
    """

    ranker: Ranker
    weights: ArrayLike | Views
    validation_weights: ArrayLike | Views | None = None


def fit_many(
    data: RankingData,
    members: Sequence[Member | tuple[Any, ...]],
    validation: RankingData | tuple[RankingData, ArrayLike | Views] | None = None,
    *,
    clicks: ClickCounts | Sequence[ClickCounts] | None = None,
    device: str | None = None,
    threads: int | None = None,
    on_error: str = "raise",
) -> list[Ranker]:
    """Fit many linear rankers to one data set, each with its own weights, loss, k, learning rate and early stopping.

    Each of them is the same, bit for bit, as `Ranker.fit` with the same arguments on the CPU, whatever the others are.
    Work that members share is done once: scaling of features, checks, and weights that are the same object.

    Arguments:
        data: the queries to learn from.
        members: `Member`s, or plain tuples (ranker, weights) or (ranker, weights, validation weights).
        validation: other queries to stop by; or a pair of them and their weights, for members without weights of their
            own. None to train without.
        clicks: those that the weights come from, as for `Ranker.fit`.
        device: "cpu" trains members in parallel, each on one thread. "cuda" advances all members together on a GPU
            (extra `cuda`); results then differ from those of the CPU by rounding, and `seconds` in `history_` are
            those of all members together. Populations of several threads advance together too. "auto" takes a GPU if
            there is one. None for that of the rankers, `params={"device": ...}`, which must then be the same.
        threads: None for all cores; `threads` of the rankers counts for `predict` only.
        on_error: "raise": a member that cannot be trained (wrong settings or weights, nothing to learn, a learning rate
            that diverges) ends the training of all, with an error that names the member by its number from 0. All that
            can be checked is checked before any training. "return": its place in the result has the error, a
            `CounterrankError`, and all others are trained.

    Returns:
        Fitted copies of the rankers, in order.

    >>> data = RankingData([[0.0, 1.0], [1.0, 0.0], [1.0, 0.5], [0.0, 1.0]], offsets=[0, 2, 4])
    >>> weights = [0.0, 1.0, 1.0, 0.0]
    >>> members = [Member(Ranker(loss, max_epochs=3), weights) for loss in ("arp-hinge", "lambdaloss-dcg")]
    >>> [ranker.predict(data).argsort().tolist() for ranker in fit_many(data, members)]
    [[0, 3, 1, 2], [0, 3, 1, 2]]
    """
    check_choice(on_error, ON_ERROR, "on_error")
    count = thread_count(threads)
    check_type(data, RankingData, "data")
    given = _check_members(members)
    found_device = open_device(_common_device(given) if device is None else device)
    other, common = _check_validation(validation, data)
    parts = (data,) if other is None else (data, other)
    inputs = TrainingInputs.check(KINDS["linear"], parts, check_clicks(clicks, parts), count)
    weights_of = _Weights(data, other, common)
    found: list[Any] = [None] * len(given)
    tasks: dict[int, tuple[Ranker, Task]] = {}
    for i, member in enumerate(given):
        ranker = copy.copy(member.ranker)
        try:
            task = _task(ranker, data, member, weights_of)
            if found_device is not None:
                found_device.check(task.loss.spec(task.k, longest_query(data.offsets)))
            tasks[i] = ranker, task
        except CounterrankError as error:
            found[i] = _failure(error, i, on_error)
    repeated = Counter(id(task.evidence.weights) for _, task in tasks.values())
    shared = LinearData(data, other, count, {key for key, n in repeated.items() if n > 1})
    for normalize in {task.settings.normalize for _, task in tasks.values()}:
        shared.scaling(normalize)  # here, with all threads
    total = sum(training_epochs(task) for _, task in tasks.values())
    names = [task.loss.name for _, task in tasks.values()]
    with progress(f"training {names[0] if len(names) == 1 else f'{len(names):,} rankers'}", total) as advance:
        trainings = [_train(i, task, shared, advance, on_error) for i, (_, task) in tasks.items()]
        results = _run(trainings, found_device, count)
    for (i, (ranker, task)), learned in zip(tasks.items(), results, strict=True):
        found[i] = learned if isinstance(learned, CounterrankError) else ranker._store(task, learned, inputs)
    return found


def fit_each(
    data: RankingData,
    members: Sequence[Member],
    validation: tuple[RankingData, ArrayLike | Views] | None,
    clicks: Sequence[ClickCounts] | None = None,
    threads: int | None = None,
) -> list[Ranker | CounterrankError]:
    """`fit_many` with errors returned; rankers of other kinds than linear are trained one after the other."""
    if all(kind_of(member.ranker.model).name == "linear" for member in members):
        many = fit_many(data, members, validation, clicks=clicks, threads=threads, on_error="return")
        return cast("list[Ranker | CounterrankError]", many)
    found: list[Ranker | CounterrankError] = []
    for member in members:
        try:
            found.append(copy.copy(member.ranker).fit(data, member.weights, validation=validation, clicks=clicks))
        except CounterrankError as error:
            found.append(error)
    return found


def _run(trainings: list[Steps[Any]], device: Device | None, threads: int) -> list[Any]:
    """The results of all trainings, on a device or (without one) in parallel on the CPU."""
    if device is not None:
        return device.run(trainings)
    if len(trainings) == 1:
        return [compute(trainings[0], threads)]
    # a race of learning rates takes further threads only while no member waits for them
    return run_parallel([partial(compute, training, threads, 1) for training in trainings], threads)


def _train(
    i: int, task: Task, shared: LinearData, on_epoch: OnEpoch, on_error: str
) -> Steps[FittedModel | CounterrankError]:
    """Train member i."""
    try:
        learned = yield from fit_linear(task, shared, on_epoch)
    except CounterrankError as error:
        return _failure(error, i, on_error)
    return learned


def _failure(error: CounterrankError, i: int, on_error: str) -> CounterrankError:
    """The error of a member as a result; or it is raised, with its number."""
    if on_error == "return":
        return error
    raise type(error)(f"member {i}: {error}") from None


class _Weights:
    """Checked weights of the members; the same object given several times is checked once."""

    def __init__(self, data: RankingData, other: RankingData | None, common: ArrayLike | Views | None) -> None:
        self.data, self.other, self._common = data, other, common
        self._known: dict[tuple[str, int], TrainingWeights] = {}

    def training(self, member: Member) -> TrainingWeights:
        """What the member learns from."""

        def check() -> TrainingWeights:
            found = check_weights(member.weights, self.data)
            check_usable(found.weights, self.data.offsets, found.sets)
            return found

        return self._once("training", member.weights, check)

    def validation(self, member: Member, with_sets: bool) -> tuple[RankingData, TrainingWeights] | None:
        """What it is stopped by."""
        own = member.validation_weights
        if self.other is None:
            if own is not None:
                raise CounterrankError("validation_weights: given without validation; expected the data they belong to")
            return None
        weights = self._common if own is None else own
        if weights is None:
            raise CounterrankError(
                "validation_weights: None; expected weights of the validation data, or validation=(data, weights)"
            )
        check = partial(check_validation_weights, weights, self.other, with_sets)
        return self.other, self._once(f"validation {with_sets}", weights, check)

    def _once(self, what: str, weights: Any, check: Callable[[], TrainingWeights]) -> TrainingWeights:
        key = (what, id(weights))  # all members are alive, so no two objects have one id
        if key not in self._known:
            self._known[key] = check()
        return self._known[key]


def _task(ranker: Ranker, data: RankingData, member: Member, weights: _Weights) -> Task:
    """What a member is to learn, checked."""
    if (kind := kind_of(ranker.model).name) != "linear":
        raise CounterrankError(f"model={kind!r}: a population has linear rankers only; expected model='linear'")
    settings = ranker._settings()
    evidence = weights.training(member)
    return ranker._task(data, evidence, weights.validation(member, evidence.sets is not None), settings)


def _check_members(members: Any) -> list[Member]:
    """Members, of plain tuples too."""
    if not isinstance(members, Sequence) or isinstance(members, str | Views | Member):
        raise CounterrankError(f"members: {type(members).__name__}; expected a list of (ranker, weights)")
    found = []
    for i, member in enumerate(members):
        if not isinstance(member, tuple | list) or isinstance(member, Views) or len(member) not in (2, 3):
            raise CounterrankError(
                f"member {i}: expected (ranker, weights) or (ranker, weights, validation weights), or a Member"
            )
        check_type(member[0], Ranker, f"member {i}: ranker")
        found.append(Member(*member))
    return found


def _common_device(members: Sequence[Member]) -> str:
    """The device that all rankers name."""
    given = [device_of(member.ranker) for member in members if isinstance(member.ranker.params or {}, Mapping)]
    named: set[str] = {name for name in given if name in DEVICES} or {"cpu"}  # others are errors of their members
    if len(named) > 1:
        raise CounterrankError(
            f"members: rankers name the devices {', '.join(sorted(named))}; expected the same for all, or device="
        )
    return named.pop()


def _check_validation(validation: Any, data: RankingData) -> tuple[RankingData | None, ArrayLike | Views | None]:
    """The validation data with the features of the training data, and the weights that members share."""
    if validation is None:
        return None, None
    weights = None
    if not isinstance(validation, RankingData):
        check_pair(validation, "ranking data, or a pair (data, weights)")
        validation, weights = validation
    return aligned_with(data, check_type(validation, RankingData, "validation")), weights

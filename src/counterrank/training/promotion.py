"""Promote a ranker: the deployment test, and the pointer that a service reads, with its ledger.

A deployment folder holds

    current.json     the pointer: which version is served; replaced as a whole
    versions/N/      saved rankers, each written once
    ledger.jsonl     a line for each look at clicks, each promotion and each rollback

The error rate alpha is that of wrongly replacing a served ranker at all, also if it is served again after a rollback.
The sequences of looks against it, in the order of their first look, get alpha * 6 / (pi^2 j^2) each, which sums to
alpha. A sequence is of one candidate, one question (metric, margin, confidence, evidence), one log that grows, and one
set of propensities; other sessions or other propensities begin a new one.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.browsing import sequential
from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.examination import lines_of
from counterrank.clicks.origin import Origin, content_sources, shared_sessions
from counterrank.common.errors import CounterrankError, brief, warn_caller
from counterrank.common.files import InUseError, PathLike, atomic_file, atomic_folder, existing, lock, read_stamp
from counterrank.common.notebook import Html, Shown, Summary
from counterrank.data import RankingData
from counterrank.data.frames import is_frame
from counterrank.data.scores import document_scores
from counterrank.estimators.evidence import Evidence
from counterrank.estimators.propensities import Propensities
from counterrank.evaluation.evidence_levels import (
    DEFAULT_LEVEL,
    DeploymentTest,
    Design,
    Spending,
    check_levels,
    check_question,
    deployment_test,
    evidence_of,
)
from counterrank.training.ranker import Ranker, Scored
from counterrank.training.storage import MARKER, PARTS

POINTER, VERSIONS, LEDGER = "current.json", "versions", "ledger.jsonl"
_FORMAT, _FORMAT_VERSION = "counterrank-deployment", 1
_LOCK = ".lock"
_PATIENCE_S = 60.0  # with another promotion into the same folder
_PAUSE_S = 0.1
_SESSIONS = 1024  # of which a look keeps hashes
_ALL = 0.99  # of these sessions, allowing for hashes that agree by chance and for late corrections of a log


@dataclass(frozen=True)
class Decision(Shown):
    """Whether to deploy a ranker, or which of several.

    Attributes:
        deploy: whether the lower bound is above the margin, at all required levels of evidence.
        estimate, lower, upper: of the difference per session to the current ranker; of several candidates, of the one
            at `index`. None where the required level of evidence gives none.
        why: the decision in one sentence.
        index: the place of the candidate in the list; 0 if there is one.
        tests: the deployment test of each candidate.
        version: the version that is served now, in the deployment folder; None without one.
    """

    deploy: bool
    estimate: float | None
    lower: float | None
    upper: float | None
    why: str
    index: int
    tests: tuple[DeploymentTest, ...]
    version: int | None = None

    @property
    def test(self) -> DeploymentTest:
        """The deployment test of the candidate at `index`, with all levels of evidence."""
        return self.tests[self.index]

    @property
    def exit_code(self) -> int:
        """As of a gate: 0 to deploy, 4 if the candidate is worse, 3 if undecided."""
        return self.test.exit_code

    def summary(self) -> Summary:
        """All fields, as a dict that prints as a table."""
        return Summary(asdict(self))

    def _repr_html_(self) -> str | Html:
        return self.test._repr_html_()


@dataclass(frozen=True)
class Pointer:
    """What a deployment folder serves.

    Attributes:
        folder: the deployment folder.
        current: the number of the version that is served.
        history: the versions that were served before it, the latest last; `roll_back` goes there.
        since: when it was put in place.
        why: the sentence of the decision.
    """

    folder: Path
    current: int
    history: tuple[int, ...]
    since: str
    why: str

    @property
    def path(self) -> Path:
        """The saved ranker that is served."""
        return self.folder / VERSIONS / str(self.current)

    def load(self) -> Ranker:
        """The ranker that is served."""
        return Ranker.load(self.path)

    @classmethod
    def read(cls, folder: PathLike) -> Pointer:
        """The pointer of a deployment folder.

        >>> Pointer.read("no/such/folder")
        Traceback (most recent call last):
        ...
        counterrank.common.errors.MissingFileError: no/such/folder: no such deployment folder (file or folder not found)
        """
        above = existing(folder, "deployment folder")
        content = read_stamp(above, POINTER, _FORMAT, _FORMAT_VERSION, "counterrank promote --to", CounterrankError)
        try:
            history = tuple(int(each) for each in content["history"])
            found = cls(above, int(content["current"]), history, str(content["since"]), str(content["why"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CounterrankError(f"{above / POINTER}: lacks or misuses {error}; the file is damaged") from None
        if not (found.path / MARKER).is_file():
            raise CounterrankError(f"{above / POINTER}: version {found.current} is not in {VERSIONS}")
        return found

    def write(self) -> None:
        """Replace the pointer as a whole."""
        content = {"format": _FORMAT, "version": _FORMAT_VERSION, "current": self.current,
                   "path": f"{VERSIONS}/{self.current}", "history": list(self.history), "since": self.since,
                   "why": self.why}  # fmt: skip
        with atomic_file(self.folder / POINTER) as file:
            file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def promote(
    new: Any,
    current: Any,
    data: RankingData,
    clicks: ClickCounts | Evidence,
    rho: ArrayLike | Propensities | None = None,
    metric: str = "dcg@5",
    *,
    policy: Any = None,
    scores: Any = None,
    exam: Any = None,
    confidence: float = 0.95,
    margin: float = 0.0,
    evidence: str | Sequence[str] = DEFAULT_LEVEL,
    to: PathLike | None = None,
    relevance: ArrayLike | None = None,
    ties: str = "average",
    in_sample: bool = False,
    threads: int | None = None,
) -> Decision:
    """Deploy a ranker only if held-out clicks show that it is better than the current one.

    See `evaluation.deployment_test` for what is guaranteed. Of several candidates each gets its share of the error
    rate; the one with the largest lower bound is chosen. With a deployment folder, the chosen one is saved there and
    the pointer set to it, and a ledger keeps account of the error rate: a candidate that was looked at before goes on
    with its sequence, so that finite-sample bounds hold at all looks together, while bounds of the other levels get
    6 / (pi^2 i^2) of the sequence's share at look i. Clicks of later looks should include those of earlier ones, with
    the same propensities: else a new sequence begins, with a smaller share.

    Arguments:
        new: a ranker, its folder, or scores; or a list of them.
        current: the ranker, folder or scores that it would replace; None for the version that `to` serves.
        data: the logged queries.
        clicks: of sessions that were held out before training, see `read_log(hold_out_sessions=)`.
        to: a deployment folder, made if there is none; see `Pointer`. Scores cannot be deployed.
        rho, metric, policy, scores, exam, confidence, margin, evidence, relevance, ties, in_sample, threads: as for
            `evaluation.deployment_test`.

    >>> from counterrank import make_ranking_data, policies, simulation
    >>> data, exam = make_ranking_data("mslr", n_queries=40, seed=0), [1, 0.5, 0.3]
    >>> old, policy = data.features[:, 0], policies.UniformInsert(3)
    >>> clicks = simulation.simulate(data, old, policy, exam, sessions=20_000, seed=0, displays=True)
    >>> decision = promote(data.labels, old, data, clicks, policy=policy, scores=old, metric="dcg@3")
    >>> decision.deploy, decision.lower > 0
    (True, True)
    """
    several = _is_list(new)
    given = list(new) if several else [new]
    if not given:
        raise CounterrankError("new: an empty list; expected at least one ranker")
    check_question(metric, confidence, margin, evidence)
    if in_sample and to is not None:
        raise CounterrankError("in_sample: given together with to; clicks that a ranker was trained on decide nothing")
    how = {"rho": rho, "metric": metric, "policy": policy, "scores": scores, "exam": exam, "confidence": confidence,
           "margin": margin, "evidence": evidence, "relevance": relevance, "ties": ties, "in_sample": in_sample,
           "threads": threads}  # fmt: skip
    if to is None:
        if current is None:
            raise CounterrankError("current: None; expected the ranker to compare with, or to=, a deployment folder")
        loaded = [_loaded(each, data, threads, f"new {i}" if several else "new") for i, each in enumerate(given)]
        against = _loaded(current, data, threads, "current")
        share = Spending(1.0 / len(loaded))
        tests = [
            deployment_test(each, against, data, clicks, names=(_name(each, i, several), _name(against)),
                            spending=share, **how)
            for i, each in enumerate(loaded)
        ]  # fmt: skip
        return _chosen(tests, None)
    with _locked(to) as folder:
        return _promote_into(folder, given, several, current, data, clicks, how)


def roll_back(folder: PathLike) -> Pointer:
    """Serve the version again that was served before the current one; the ledger records it.

    Arguments:
        folder: the deployment folder.

    >>> roll_back("no/such/folder")
    Traceback (most recent call last):
    ...
    counterrank.common.errors.MissingFileError: no/such/folder: no such deployment folder (file or folder not found)
    """
    with _locked(folder, make=False) as above:
        pointer = Pointer.read(above)
        if not pointer.history:
            raise CounterrankError(f"{folder}: version {pointer.current} is the first one; nothing to roll back to")
        found = replace(
            pointer, current=pointer.history[-1], history=pointer.history[:-1], since=_now(), why="rolled back"
        )
        if not (found.path / MARKER).is_file():
            raise CounterrankError(f"{folder}: version {found.current} is not in {VERSIONS}; nothing to roll back to")
        _Ledger(above).append({"event": "rollback", "from": pointer.current, "to": found.current})
        found.write()
        return found


def read_ledger(folder: PathLike) -> list[dict[str, Any]]:
    """The looks, promotions and rollbacks of a deployment folder, in order.

    >>> read_ledger("no/such/folder")
    []
    """
    return _Ledger(Path(folder)).entries()


class _Ledger:
    """The ledger of a deployment folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LEDGER

    def entries(self) -> list[dict[str, Any]]:
        if not self.path.is_file():
            return []
        found = []
        for number, line in enumerate(self.path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                entry = json.loads(line)
            except ValueError:
                raise CounterrankError(f"{self.path}: line {number} is not JSON; the file is damaged") from None
            if not isinstance(entry, dict) or "event" not in entry:
                raise CounterrankError(f"{self.path}: line {number} is no entry of a ledger; the file is damaged")
            found.append(entry)
        return found

    def append(self, *entries: dict[str, Any]) -> None:
        """Write the file anew with more lines, whole or not at all."""
        before = self.path.read_text(encoding="utf-8") if self.path.is_file() else ""
        lines = "".join(json.dumps({"time": _now(), **entry}, default=_plain) + "\n" for entry in entries)
        with atomic_file(self.path) as file:
            file.write_text(before + lines, encoding="utf-8")

    def looks(self, current: str) -> list[dict[str, Any]]:
        """All looks at candidates against the ranker with this fingerprint."""
        return [each for each in self.entries() if each["event"] == "look" and each["current"] == current]


def _promote_into(
    folder: Path,
    given: list[Any],
    several: bool,
    current: Any,
    data: RankingData,
    clicks: ClickCounts | Evidence,
    how: dict[str, Any],
) -> Decision:
    """`promote` with a deployment folder that is locked."""
    threads = how["threads"]
    pointer = Pointer.read(folder) if (folder / POINTER).is_file() else None
    if current is None and pointer is None:
        raise CounterrankError(f"current: None, and {folder} serves nothing yet; expected the ranker to compare with")
    against = _loaded(pointer.path if current is None and pointer is not None else current, data, threads, "current")
    base = _fingerprint(against, data)
    if pointer is not None and current is not None and base != _fingerprint(_loaded(pointer.path, data, threads), data):
        raise CounterrankError(
            f"current: is not version {pointer.current}, which {folder} serves; expected that one, or None"
        )
    loaded = [_loaded(each, data, threads, f"new {i}" if several else "new") for i, each in enumerate(given)]
    for i, each in enumerate(loaded):
        if not _can_save(each):
            raise CounterrankError(
                f"new{f' {i}' * several}: scores, which cannot be deployed; expected a ranker for to="
            )
    counts = check_counts(clicks.clicks if isinstance(clicks, Evidence) else clicks)
    ledger = _Ledger(folder)
    known, tests, entries = ledger.looks(base), [], []
    propensities = _digest_of_propensities(clicks, data, how)
    for i, each in enumerate(loaded):
        question = {"candidate": _fingerprint(each, data), "current": base, "metric": how["metric"],
                    "margin": float(how["margin"]), "confidence": float(how["confidence"]),
                    "required": sorted(check_levels(how["evidence"])), "ties": how["ties"],
                    "propensities": propensities}  # fmt: skip
        test, entry = _look(each, against, _name(each, i, several), data, clicks, counts, how, question, known)
        tests.append(test)
        entries.append(entry)
        known = [*known, entry]
    found = _chosen(tests, None if pointer is None else pointer.current)
    if not found.deploy:
        ledger.append(*entries)
        return found
    history = () if pointer is None else (*pointer.history, pointer.current)
    if pointer is None and _can_save(against):
        history = (_add_version(folder, against),)
    version = _add_version(folder, loaded[found.index])
    # a process that is killed in between leaves the old pointer, and a look that is accounted for
    ledger.append(*entries)
    Pointer(folder, version, history, _now(), found.why).write()
    candidate = entries[found.index]["candidate"]
    ledger.append({"event": "deploy", "version": version, "candidate": candidate, "why": found.why})
    return replace(found, version=version)


def _look(
    candidate: Any,
    against: Any,
    name: str,
    data: RankingData,
    clicks: ClickCounts | Evidence,
    counts: ClickCounts,
    how: dict[str, Any],
    question: dict[str, Any],
    known: list[dict[str, Any]],
) -> tuple[DeploymentTest, dict[str, Any]]:
    """The deployment test of a candidate with its share of the error rate, and the entry of the ledger."""
    earlier = [each for each in known if all(each.get(key) == value for key, value in question.items())]
    origin, content = counts.known_origin(), [source.content for source in content_sources(counts)]
    same = [each for each in earlier if each["content"] == content]
    if earlier and not same and not _has_grown(origin, Origin.from_description(earlier[-1]["origin"])):
        warn_caller(
            f"clicks: do not include the {earlier[-1]['sessions']:,} sessions of the earlier look at {name}, as far as "
            "session ids tell; a new sequence of looks begins, with a smaller share of the error rate"
        )
        earlier = []
    look = same[-1]["look"] if same else 1 + max((each["look"] for each in earlier), default=0)
    number = earlier[-1]["number"] if earlier else 1 + max((each["number"] for each in known), default=0)
    design = Design(**earlier[0]["design"]) if earlier and earlier[0]["design"] else None
    for _ in range(2):
        spending = Spending(_part(number), _part(look))
        test = deployment_test(
            candidate, against, data, clicks, names=(name, _name(against)), spending=spending, design=design, **how
        )
        if design is None or test.design == design:
            break
        # what may happen is no longer what was assumed at the first look, so that a new sequence begins
        number, look, design = 1 + max(each["number"] for each in known), 1, None
    entry = {
        "event": "look",
        "time": _now(),
        **question,
        "name": name,
        "number": number,
        "look": look,
        "alpha": {each.name: 1.0 - each.confidence for each in test.levels.values()},
        "sessions": counts.n_sessions,
        "content": content,
        "origin": origin.reduced(_SESSIONS).describe(),
        "levels": {each.name: [each.estimate, each.lower, each.upper] for each in test.levels.values()},
        "design": None if test.design is None else test.design._asdict(),
        "decision": "deploy" if test.deploy else "worse" if test.is_worse else "undecided",
        "why": test.why,
    }
    return test, entry


def _has_grown(origin: Origin, earlier: Origin) -> bool:
    """Whether clicks include those of an earlier look, as far as session ids tell; not where there are none."""
    return shared_sessions(earlier, origin, by_content=False) >= _ALL


def _digest_of_propensities(clicks: ClickCounts | Evidence, data: RankingData, how: dict[str, Any]) -> str:
    """What propensities, how users click, and relevance that was given are known again by."""
    known = evidence_of(clicks, data, *(how[name] for name in ("rho", "policy", "scores", "exam", "threads")))
    digest = hashlib.blake2b(digest_size=16)
    lines = lines_of(known.users) if known.has("examination") and sequential(known.exam) is None else ()
    if known.has("propensities"):
        digest.update(np.round(known.propensities.by_document, 9).tobytes())
    digest.update(json.dumps([None if line is None else line.describe() for line in lines], default=_plain).encode())
    if how["relevance"] is not None:
        digest.update(np.asarray(how["relevance"], np.float64).tobytes())
    return digest.hexdigest()


def _part(number: int) -> float:
    """The share of sequence, or look, `number` of the error rate: 6 / (pi^2 number^2), which sums to 1.

    >>> round(sum(map(_part, range(1, 10_000))), 3)
    1.0
    """
    return 6.0 / (math.pi * number) ** 2


def _chosen(tests: Sequence[DeploymentTest], version: int | None) -> Decision:
    """Of the candidates that may be deployed the one with the largest lower bound; else that with the largest."""

    def worth(i: int) -> tuple[bool, float]:
        lower = tests[i].lower
        return tests[i].deploy, -math.inf if lower is None else lower

    index = max(range(len(tests)), key=worth)
    best = tests[index]
    return Decision(best.deploy, best.estimate, best.lower, best.upper, best.why, index, tuple(tests), version)


def _is_list(new: Any) -> bool:
    """Whether several candidates were given, and not the scores of one."""
    if isinstance(new, str | os.PathLike | np.ndarray) or is_frame(new) or hasattr(new, "predict"):
        return False
    if not isinstance(new, list | tuple):
        return False
    return not new or not all(isinstance(each, int | float | np.number) for each in new)


def _loaded(ranker: Any, data: RankingData, threads: int | None, name: str = "current") -> Any:
    """A ranker or scores; of a path what is saved there."""
    if isinstance(ranker, str | os.PathLike):
        return Scored.load(ranker, data, threads)
    if ranker is None:
        raise CounterrankError(f"{name}: None; expected a ranker, its folder, or scores")
    return ranker


def _name(ranker: Any, i: int | None = None, several: bool = False) -> str:
    """How messages call a ranker."""
    if getattr(ranker, "label", None):
        return str(ranker.label)
    return "the current ranker" if i is None else f"candidate {i}" if several else "the new ranker"


def _can_save(ranker: Any) -> bool:
    if isinstance(ranker, Scored):
        return (Path(ranker.label) / MARKER).is_file()
    return callable(getattr(ranker, "save", None))


def _fingerprint(ranker: Any, data: RankingData) -> str:
    """What a ranker is known again by: the parameters of its model, or scores."""
    digest = hashlib.blake2b(digest_size=16)
    if not _can_save(ranker):
        digest.update(np.ascontiguousarray(document_scores(ranker, data, "scores"), np.float64).tobytes())
        return digest.hexdigest()
    if isinstance(ranker, Scored):
        _add_files(digest, Path(ranker.label))
    else:
        with tempfile.TemporaryDirectory() as above:
            ranker.save(Path(above) / "ranker")
            _add_files(digest, Path(above) / "ranker")
    return digest.hexdigest()


def _add_files(digest: Any, folder: Path) -> None:
    """The arrays and trees of a saved ranker and its parts, and how it scales; not when and how it was trained."""
    for file in sorted(folder.iterdir()):
        if file.is_dir():
            digest.update(file.name.encode() + b"\0")
            _add_files(digest, file)
        elif file.name != MARKER:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    content = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    digest.update(json.dumps([content.get(name) for name in ("model", "n_features", "normalize", "content")]).encode())


def _add_version(folder: Path, ranker: Any) -> int:
    """Save a ranker under the next number."""
    above = folder / VERSIONS
    above.mkdir(exist_ok=True)
    taken = [int(each.name) for each in above.iterdir() if each.name.isascii() and each.name.isdigit()]
    number = 1 + max(taken, default=0)
    target = above / str(number)
    if isinstance(ranker, Scored):
        with atomic_folder(target, MARKER, PARTS) as temporary:
            shutil.copytree(Path(ranker.label), temporary, dirs_exist_ok=True)
    else:
        ranker.save(target)
    return number


@contextmanager
def _locked(folder: PathLike, make: bool = True) -> Iterator[Path]:
    """The deployment folder, for one process at a time."""
    if not isinstance(folder, str | os.PathLike):
        raise CounterrankError(f"to={brief(folder)}: expected the path of a deployment folder")
    above = Path(folder).resolve()
    if above.exists() and not above.is_dir():
        raise CounterrankError(f"to: {folder} is a file; expected a deployment folder")
    if not make:
        existing(folder, "deployment folder")
    if above.is_dir() and not (above / POINTER).exists() and not (above / LEDGER).exists():
        others = [each.name for each in above.iterdir() if each.name not in (_LOCK, VERSIONS) and each.name[0] != "."]
        if others:
            raise CounterrankError(
                f"to: {folder} holds {others[0]} and no {POINTER}; expected a deployment folder, or a new one"
            )
    above.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        held = lock(above / _LOCK, wait=False)
        try:
            held.__enter__()
            break
        except InUseError:
            if time.monotonic() > deadline:
                raise InUseError(f"{folder}: another promotion is at work in it") from None
            time.sleep(_PAUSE_S)
    try:
        yield above
    finally:
        held.__exit__(None, None, None)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)

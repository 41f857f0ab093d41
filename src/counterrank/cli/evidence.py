"""Clicks, policies, rankers and scores as options name them: from texts to `Evidence`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from counterrank.cli.output import say, show_warnings
from counterrank.common.errors import CounterrankError
from counterrank.common.files import existing

if TYPE_CHECKING:
    from counterrank import ClickCounts, Ranker, RankingData
    from counterrank.clicks.examination import Examination
    from counterrank.clicks.logs.columns import LogOptions
    from counterrank.clicks.logs.faults import LogReport
    from counterrank.estimators import Estimator, Evidence, Propensities

WHOLE = "clicks.json"  # what a folder of click counts holds
PARTS = ("train", "validation", "test")
ESTIMATED, FITTED = "estimated", "fitted-plackett-luce"
LOGGED_SCORES = "logging_score"
_COMBINED = {
    "mean": "propensities are means over all sessions of a query",
    "realised": "display frequencies are used as propensities",
}
_INSPECT = "counterrank inspect LOG --data DATA shows what a log supports, and can estimate the examination curve"


@dataclass
class ClickSource:
    """Where clicks come from, as the options name it.

    Attributes:
        clicks: folders of click counts.
        log: a click log: a file, a folder or a pattern.
        policies: the policy that showed the pages; several, each with its name in the log, as `new=replace-last:k=5`.
        examination: the curve.
        loggers: what the policies ranked by, named as they are.
        threads: how many to use.
        reading: how a log is read.
        alpha, beta: by rank, P(click | relevance r) = alpha r + beta, for the affine estimator.
        align: whether click counts are mapped onto the data by ids.
    """

    clicks: list[Path]
    log: str | None
    policies: list[str]
    examination: str | None
    loggers: list[str]
    threads: int | None
    reading: LogOptions | None = None
    alpha: str | None = None
    beta: str | None = None
    align: bool = False
    reports: list[LogReport] = field(default_factory=list)
    with_drift: bool = False
    drift: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _read: dict[tuple[str, bool], ClickCounts] = field(default_factory=dict)

    @property
    def given(self) -> bool:
        """Whether there are any."""
        return bool(self.clicks) or self.log is not None

    @property
    def name(self) -> str:
        """The folders or the log, for messages."""
        return str(self.log) if self.log is not None else ", ".join(map(str, self.clicks))

    @property
    def needs_pages(self) -> bool:
        """Whether the policy is fitted to whole pages."""
        return any(text.startswith("fitted-plackett-luce") for text in self.policies)

    def load(self, part: str, data: Mapping[str, RankingData], displays: bool = False) -> ClickCounts:
        """The clicks of one part of the data."""
        found = self.find(part, data, displays)
        if found is None:
            raise CounterrankError(f"{self.name}: no clicks of the {part} part in it{self._other_parts()}")
        return found

    def _other_parts(self) -> str:
        """Which parts have clicks, for a message."""
        folders = [path for path in self.clicks if not (path / WHOLE).is_file()]
        there = [name for name in PARTS if any((folder / name / WHOLE).is_file() for folder in folders)]
        return f"; it has those of {', '.join(there)} (--part {there[0]})" if there else "; --part may choose another"

    def find(self, part: str, data: Mapping[str, RankingData], displays: bool = False) -> ClickCounts | None:
        """The clicks of one part; None if it has none. A log of all parts is read once."""
        if bool(self.clicks) == (self.log is not None):
            raise CounterrankError("--clicks, --log: expected one of the two")
        if self.align and not self.clicks:
            raise CounterrankError("--align: maps click counts onto data that has grown; expected --clicks with it")
        if self.clicks:
            return self.kept(part, data[part])
        if (Path(str(self.log)) / WHOLE).is_file() or (Path(str(self.log)) / part / WHOLE).is_file():
            raise CounterrankError(f"{self.log}: click counts and not a log; expected --clicks {self.log}")
        key = (part, displays or self.needs_pages)
        if key not in self._read:
            own = self.file_of(part)
            if own is not None or self.has_files_for_parts():
                if own is None:
                    return None
                self._count(own, {part: data[part]}, key[1])
            else:
                self._count(str(self.log), data, key[1])
        counts = self._read[key]
        return counts if counts.n_sessions else None

    def kept(self, part: str, data: RankingData | None) -> ClickCounts | None:
        """The click counts of one part in all folders together; None if no folder has any."""
        from counterrank import ClickCounts

        folders = [folder for path in self.clicks if (folder := counts_folder(path, part)) is not None]
        loaded = self._of_policies([ClickCounts.load(folder) for folder in folders])
        found = []
        for folder, counts in zip(folders, loaded, strict=True):
            if counts is not None:
                found.append(counts if data is None else self._aligned(counts, data, folder))
        return ClickCounts.concat(found) if len(found) > 1 else found[0] if found else None

    def _of_policies(self, loaded: list[ClickCounts]) -> list[ClickCounts | None]:
        """Each of the counts with the policies that were asked for; None where it has none of them."""
        wanted = () if self.reading is None else self.reading.only_policies
        if not wanted or not loaded:
            return list(loaded)
        known = list(dict.fromkeys(name for counts in loaded for name in counts.policy_names))
        for name in wanted:
            if name not in known:
                there = ", ".join(map(repr, known)) or "none"
                raise CounterrankError(
                    f"--only-policy {name}: {self.name} has no such policy; expected some of {there}"
                )
        own = [[name for name in wanted if name in counts.policy_names] for counts in loaded]
        return [counts.only_policies(names) if names else None for counts, names in zip(loaded, own, strict=True)]

    def _aligned(self, counts: ClickCounts, data: RankingData, folder: Path) -> ClickCounts:
        """The counts for this data: of this data, or mapped onto it where that was asked for."""
        from counterrank.data.identity import identity

        if not self.align or not counts.knows_candidates or counts.identity == identity(data):
            counts.check_data(data, f"{folder} (--align where the data has grown)")
            return counts
        say(f"Note: {folder}: mapped onto the data by the ids of queries and documents.")
        return counts.align(data)

    def _count(self, path: str, data: Mapping[str, RankingData], displays: bool) -> None:
        from counterrank.clicks.logs import read_parts

        with show_warnings():
            found = read_parts(
                path, list(data.values()), displays=displays, drift=self.with_drift, options=self.reading
            )
        self.reports.append(found.report)
        self.drift |= dict(zip(data, found.drift or (), strict=False))
        self._read |= {(part, displays): counts for part, counts in zip(data, found.counts, strict=True)}

    def file_of(self, part: str) -> str | None:
        """The file or folder inside the log's folder that holds the clicks of one part."""
        folder = Path(str(self.log))
        if not folder.is_dir():
            return None
        found = sorted(each for each in folder.iterdir() if each.name.partition(".")[0] == part)
        if len(found) > 1:
            raise CounterrankError(
                f"{folder}: {found[0].name} and {found[1].name} both name the {part} part; expected one file for it, "
                f"or a folder {part} with all of them"
            )
        return str(found[0]) if found else None

    def has_files_for_parts(self) -> bool:
        """Whether each part of the data has a file of its own, rather than one log for all."""
        from counterrank.clicks.logs.formats import format_of

        named = any(self.file_of(part) is not None for part in PARTS)
        inside = sorted(Path(str(self.log)).iterdir()) if named else []
        for each in inside:
            if each.name.partition(".")[0] not in PARTS and format_of(each) and each.name != "simulation.json":
                raise CounterrankError(
                    f"{each}: next to files of train, validation or test; expected only those, or no such names"
                )
        return named

    def is_single(self) -> bool:
        """Whether these clicks belong to one part and no other."""
        return any((path / WHOLE).is_file() for path in self.clicks)

    def evidence(self, part: str, data: Mapping[str, RankingData], displays: bool = False) -> Evidence:
        """The clicks of one part, and all that the options say about them."""
        return self.about(self.load(part, data, displays), part, data)

    def about(self, counts: ClickCounts, part: str, data: Mapping[str, RankingData]) -> Evidence:
        """Clicks, and all that the options say about them."""
        from counterrank.estimators import Evidence

        exam = None if self.examination is None else self.curve(counts)
        alpha, beta = trust_curves(self)
        known = Evidence(counts, exam=exam, alpha=alpha, beta=beta, threads=self.threads)
        return replace(known, **policy_arguments(self, known, part, data))

    def curve(self, counts: ClickCounts) -> Examination:
        """The examination curve: of `--examination`, else that of simulated clicks."""
        if self.examination is not None:
            return _reaching(read_examination(self.examination), counts, self.examination)
        if counts.examination is None:
            raise CounterrankError(
                "--examination: not known from these clicks; expected e.g. inverse-rank:eta=1, or a file with an "
                f"estimated curve; {_INSPECT}"
            )
        return counts.examination

    def propensities(self, counts: ClickCounts, part: str, data: Mapping[str, RankingData]) -> Propensities:
        """P(examined | query, policy) of the policies that were named, else as logged with the clicks."""
        return announced_propensities(self.about(counts, part, data))

    def options_again(self) -> str:
        """The options that name the policy and the curve, for a command to go on with."""
        named = [("--policy", each) for each in self.policies] + [("--logger", each) for each in self.loggers]
        named += [("--examination", self.examination)] if self.examination is not None else []
        options = self.reading
        if options is not None:
            named += [("--only-policy", name) for name in options.only_policies]
            renamed = ",".join(f"{ours}={theirs}" for ours, theirs in options.columns.items())
            named += [("--map", renamed)] if renamed else []
            named += [("--rank-base", str(options.rank_base))] if options.rank_base != 1 else []
            named += [("--format", options.format)] if options.format != "auto" else []
            named += [("--on-error", options.on_error)] if options.on_error != "fail" else []
        flags = " --align" if self.align else ""
        return "".join(f" {option} {quote(value)}" for option, value in named) + flags

    def say_what_it_read(self) -> None:
        """A line for each log that was read."""
        for report in self.reports:
            used = f"used {report.used:,} of them, {report.pages:,} pages"
            say(f"Read {report.rows:,} rows of {report.name}; {used}{report.left_out()}.")
        self.reports.clear()


def check_needs(estimator: Estimator, evidence: Evidence) -> None:
    """An error that names the options an estimator requires, and the command that shows what a log supports."""
    try:
        estimator.check(evidence, options=True)
    except CounterrankError as error:
        hint = "" if evidence.has("examination") and evidence.has("propensities") else f"; {_INSPECT}"
        raise CounterrankError(f"{error}{hint}") from None


def announced_propensities(evidence: Evidence) -> Propensities:
    """The propensities, with a note where they are combined of several policies."""
    from counterrank.estimators import named_estimator

    check_needs(named_estimator("policy-aware"), evidence)
    with show_warnings():
        found = evidence.propensities
    if found.source in _COMBINED and evidence.rho is None:
        names = ", ".join(evidence.clicks.policy_names) or "without names"
        say(f"Note: several policies in this log ({names}): {_COMBINED[found.source]}.")
    return found


def _reaching(curve: Examination, counts: ClickCounts, text: str) -> Examination:
    """The curve, if it explains clicks at all ranks where there are some."""
    clicked = counts.by_rank(counts.clicks) > 0
    unseen = clicked & (curve.curve(len(clicked)) <= 0.0)
    if unseen.any():
        rank = int(unseen.argmax()) + 1
        raise CounterrankError(
            f"--examination {text}: 0 at rank {rank}, but there are clicks at that rank; expected a curve that "
            f"reaches rank {int(clicked.nonzero()[0].max()) + 1}"
        )
    return curve


def parts_of(opened: Any, part: str = "train") -> dict[str, RankingData]:
    """The parts of opened data by name; data that is not a fold is the part that is asked for."""
    from counterrank import RankingData
    from counterrank.data.sources import check_part

    if isinstance(opened, RankingData):
        return {check_part(part): opened}
    return {part: getattr(opened, part) for part in PARTS if getattr(opened, part) is not None}


def counts_folder(path: Path, part: str) -> Path | None:
    """The folder itself if it holds click counts, else its folder for this part; None if that is missing."""
    folder = existing(path, "click counts")
    if (folder / WHOLE).is_file():
        return folder
    inside = folder / part
    if (inside / WHOLE).is_file():
        return inside
    if not any((folder / name / WHOLE).is_file() for name in ("train", "validation", "test")):
        raise CounterrankError(
            f"{path}: no click counts in it; expected a folder written by counterrank simulate or aggregate (--log for "
            "a log)"
        )
    return None


@dataclass(frozen=True)
class Scored:
    """The scores of a ranker or a file for some data, with what is known about the ranker's training.

    Attributes:
        label: what it is called on the command line.
        scores: one for each document.
        provenance_: of the ranker; {} of scores from a file.
    """

    label: str
    scores: Any
    provenance_: dict[str, Any]

    def predict(self, data: RankingData) -> Any:
        """The scores, which are of this data."""
        return self.scores


def load_scored(path: Path, data: RankingData, threads: int | None) -> Scored:
    """The scores of a ranker or a file, to be evaluated from clicks."""
    found = _scored(path, data, threads)
    if not found.provenance_:
        say(f"Note: {path} does not record what it was trained on; make sure that these clicks are held out.")
    return found


def load_scores(logger: str | Path, data: RankingData, threads: int | None) -> Any:
    """Scores for the documents of the data: of a ranker, from a file, or one of the features (`feature:25`, from 1)."""
    if str(logger).startswith("feature:"):
        return _feature(str(logger), data)
    return _scored(logger, data, threads).scores


def _scored(path: str | Path, data: RankingData, threads: int | None) -> Scored:
    from counterrank import Ranker, read_scores

    file = existing(path, "ranker or scores")
    if file.is_dir():
        ranker = Ranker.load(file)
        ranker.threads = threads
        return Scored(str(path), ranker.predict(widened(data, ranker, "the data")), ranker.provenance_)
    with show_warnings():
        return Scored(str(path), read_scores(file, data), {})


def _feature(text: str, data: RankingData) -> Any:
    number = text.removeprefix("feature:")
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= data.n_features):
        raise CounterrankError(f"{text}: no such feature; expected a number from 1 to {data.n_features}")
    return data.features[:, int(number) - 1].astype(float)


def parse_pair(text: str | None, name: str) -> tuple[float, float] | None:
    """Two numbers separated by a comma; None of None."""
    if text is None:
        return None
    try:
        first, second = (float(word) for word in text.split(","))
    except ValueError:
        raise CounterrankError(f"{name} {text}: expected 2 numbers separated by a comma") from None
    return first, second


def parse_count(text: str, name: str) -> int:
    """A whole number, also written as 1e6."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 1e15 or value != int(value):
        raise CounterrankError(f"{name} {text}: expected a whole number of at least 1, such as 1000000 or 1e6")
    return int(value)


# Policies.


def read_policy(text: str) -> Any:
    """A policy as `--policy` names it."""
    from counterrank.clicks.policies.parsing import parse_policy

    with _named("policy", text):
        return parse_policy(text)


def read_examination(text: str) -> Examination:
    """An examination curve as `--examination` names it."""
    from counterrank.clicks.policies.parsing import parse_examination

    with _named("examination", text):
        return parse_examination(text)


@contextmanager
def _named(option: str, text: str) -> Iterator[None]:
    """Errors begin with the option, whatever they are about: the k of a policy is not --k."""
    try:
        yield
    except CounterrankError as error:
        rest = str(error).removeprefix(f"{option} {text!r}: ").removeprefix(f"{option}: ")
        shown = "" if rest.startswith(text) else f" {text}"  # a file that cannot be read names itself
        error.args = (f"--{option}{shown}: {rest}",)
        raise


def policy_arguments(
    source: ClickSource, known: Evidence, part: str, data: Mapping[str, RankingData]
) -> dict[str, Any]:
    """What the options say about the policy, as arguments of `Evidence`."""
    kind = source.policies[0].partition(":")[0].strip() if len(source.policies) == 1 else ""
    if kind in (ESTIMATED, FITTED):
        if source.loggers:
            raise CounterrankError(f"--logger: policy {kind} is estimated from the log; expected no --logger")
        return _estimated(source, known) if kind == ESTIMATED else _fitted(source, known, data[part])
    if not source.policies and not source.loggers:
        return {}
    if not source.policies or not source.loggers:
        raise CounterrankError("--policy, --logger: expected both, or none for logged propensities")
    from counterrank.clicks.policies.from_log import check_all_candidates, refuse_contradictions

    check_all_candidates(known.clicks)
    refuse_contradictions(known.clicks)
    policy, scores = _known(source, part, data)
    names = known.clicks.policy_names
    if scores is not None and len(names) > 1:
        raise CounterrankError(
            f"--policy: one for a log of several ({', '.join(names)}); expected each by its name, such as "
            f"--policy {names[0]}={source.policies[0]}, or the sessions of one only, --only-policy {names[-1]}"
        )
    _check_all(source, known.clicks, policy, scores)
    return {"policy": policy, "scores": scores}


def _check_all(source: ClickSource, counts: ClickCounts, policy: Any, scores: Any) -> None:
    """Each policy that was named against its own pages."""
    from counterrank.evaluation.inspection import check_policy

    known = {"": (policy, scores)} if scores is not None else policy
    with show_warnings():
        for name, (one, own) in known.items():
            if not name or name in counts.policy_names:
                check_policy(counts.only_policies([name]) if name else counts, one, own, name or source.policies[0])


def trust_curves(source: ClickSource) -> tuple[list[float] | None, list[float] | None]:
    """Alpha and beta by rank; None where they are not given."""
    if bool(source.alpha) != bool(source.beta):
        raise CounterrankError("--alpha, --beta: expected both, one value for each rank, such as 0.9,0.4 and 0.1,0.05")
    if source.alpha is None or source.beta is None:
        return None, None
    alpha, beta = (
        [_number(word, "--alpha, --beta") for word in text.split(",")] for text in (source.alpha, source.beta)
    )
    return alpha, beta


def _known(source: ClickSource, part: str, data: Mapping[str, RankingData]) -> tuple[Any, Any]:
    """A policy and its scores; or several with theirs by name, and None."""
    named = named_policies(source.policies)
    if named is None:
        return read_policy(single(source.policies)), scores_of(source, single(source.loggers), part, data)
    loggers = _loggers(source.loggers, named)
    return {
        name: (read_policy(text), scores_of(source, loggers[name], part, data)) for name, text in named.items()
    }, None


def scores_of(source: ClickSource, logger: str, part: str, data: Mapping[str, RankingData]) -> Any:
    """What a policy ranked by: a ranker, a file, a feature, or the scores that stand in the log."""
    if logger != LOGGED_SCORES:
        return load_scores(logger, data[part], source.threads)
    from counterrank.clicks.logs.policy_columns import read_logging_scores

    if source.log is None:
        raise CounterrankError(f"--logger {LOGGED_SCORES}: a column of a log; expected --log too")
    own = source.file_of(part)
    parts = {part: data[part]} if own is not None else data
    scores = read_logging_scores(own or source.log, list(parts.values()), source.reading)
    return dict(zip(parts, scores, strict=True))[part]


def named_policies(texts: list[str]) -> dict[str, str] | None:
    """Policies by the names that the log has for them; None where there is one without a name.

    >>> named_policies(["new=replace-last:k=5", "old=deterministic:k=5"])
    {'new': 'replace-last:k=5', 'old': 'deterministic:k=5'}
    >>> named_policies(["0.9*deterministic:k=5 + 0.1*replace-last:k=5"]) is None
    True
    """
    split = [text.partition("=") for text in texts]
    named = {name.strip(): rest.strip() for name, equals, rest in split if equals and not set(":*") & set(name)}
    if not named and len(texts) == 1:
        return None
    if len(named) < len(texts):
        raise CounterrankError(
            f"--policy {', '.join(texts)}: several, not each with its own name; expected such as new=replace-last:k=5"
        )
    return named


def _loggers(texts: list[str], policies: Mapping[str, str]) -> dict[str, str]:
    """What each policy ranked by; one without a name serves all."""
    if len(texts) == 1 and texts[0].partition("=")[0] not in policies:
        return dict.fromkeys(policies, texts[0])
    named = {name: rest for name, _, rest in (text.partition("=") for text in texts)}
    missing = [name for name in policies if not named.get(name)]
    if missing or len(named) > len(policies):
        raise CounterrankError(
            f"--logger: expected one for each of {', '.join(policies)}, such as {next(iter(policies))}=FILE"
        )
    return named


def single(texts: list[str]) -> str:
    """The only one of the values of an option."""
    if len(texts) != 1:
        raise CounterrankError(
            f"--policy, --logger: {len(texts)} values for one policy; expected one, or names for each"
        )
    return texts[0]


def _estimated(source: ClickSource, known: Evidence) -> dict[str, Any]:
    """Display frequencies of the log: `estimated`, or `estimated:smoothing=auto`."""
    from counterrank.estimators import display_frequencies

    smoothing: Any = _settings(source.policies[0], ("smoothing",)).get("smoothing", "0")
    smoothing = smoothing if smoothing == "auto" else _number(smoothing, "--policy estimated: smoothing")
    curve = known.alpha if known.alpha is not None else source.curve(known.clicks)
    found = display_frequencies(known.clicks, curve, smoothing)
    say(
        f"Propensities estimated from {known.clicks.n_sessions:,} pages; {len(found.uncovered):,} of "
        f"{known.clicks.n_docs:,} candidates were never shown."
    )
    return {"rho": found}


def _fitted(source: ClickSource, known: Evidence, data: RankingData) -> dict[str, Any]:
    """A Plackett-Luce policy over features: `fitted-plackett-luce:k=10`."""
    from counterrank.clicks.policies import fit_plackett_luce

    k = _settings(source.policies[0], ("k",)).get("k")
    if k is not None and not (k.isascii() and k.isdigit()):
        raise CounterrankError(f"--policy {source.policies[0]}: k={k}; expected a whole number")
    found = fit_plackett_luce(data, known.clicks, None if k is None else int(k), threads=source.threads)
    say(
        f"Fitted a Plackett-Luce policy to {found.pages:,} pages: log-likelihood {found.log_likelihood:.2f} a page, "
        f"{found.uniform_log_likelihood:.2f} if pages were drawn uniformly; by its propensities pages hold "
        f"{found.candidates_found:.2g} times the candidates there are, 1 if the policy is of this form."
    )
    curve = known.curve if known.alpha is not None else source.curve(known.clicks)
    return {"rho": found.policy.propensity(found.scores, data.offsets, curve, threads=source.threads)}


def _settings(text: str, allowed: tuple[str, ...]) -> dict[str, str]:
    name, _, rest = text.partition(":")
    found = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals or key.strip() not in allowed:
            raise CounterrankError(f"--policy {text}: {item!r}; expected parameters of {name}: {', '.join(allowed)}")
        found[key.strip()] = value.strip()
    return found


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CounterrankError(f"{name} {text}: expected a number") from None


# Rankers, with the data to use them on.


def load_model_and_data(model: Path, source: str, part: str, threads: int | None) -> tuple[Ranker, RankingData]:
    """Both, the data made as wide as the ranker expects."""
    from counterrank import Ranker
    from counterrank.data.sources import choose_part, open_data

    ranker = Ranker.load(model)
    ranker.threads = threads
    return ranker, widened(choose_part(open_data(source, threads=threads), part, source), ranker, source)


def widened(data: RankingData, ranker: Ranker, source: str) -> RankingData:
    """The data as wide as the ranker expects: sparse files leave out columns that are all zero."""
    if data.n_features >= ranker.n_features_:
        return data
    say(
        f"Note: {source} has {data.n_features} features, the ranker {ranker.n_features_}; "
        "those that are missing count as 0."
    )
    return data.widened(ranker.n_features_)

"""Clicks, policies, rankers and scores as options name them: from texts to `Evidence`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from counterrank.cli.command import DATA_OPTIONS, explicit_options, given_options, name_flags, options_again
from counterrank.cli.output import say, show_warnings
from counterrank.common.errors import CounterrankError, MissingFileError

if TYPE_CHECKING:
    from counterrank import ClickCounts, Ranker, RankingData
    from counterrank.clicks.examination import UserModel
    from counterrank.clicks.logs.columns import LogOptions
    from counterrank.clicks.logs.faults import LogReport
    from counterrank.clicks.stored_clicks import StoredClicks
    from counterrank.data.sources import DataOptions
    from counterrank.estimators import Estimator, Evidence, FoundUsers, Propensities
    from counterrank.training import Scored

ESTIMATED, FITTED = "estimated", "fitted-plackett-luce"
LOGGED_SCORES = "logging_score"
_FITTED_USERS = ("auto", "features")
_COMBINED = {
    "mean": "propensities are means over all sessions of a query",
    "realised": "display frequencies are used as propensities",
}
_INSPECT = "counterrank inspect LOG --data DATA shows what a log supports, and can estimate the examination curve"


@dataclass
class ClickSource:
    """Clicks and what is known about them, as the options name it; for the first two and `align` see `StoredClicks`.

    Attributes:
        policies: the policy that showed the pages; several, each with its name in the log, as `new=replace-last:k=5`.
        examination: the curve.
        loggers: what the policies ranked by, named as they are.
        threads: how many to use.
        reading: how a log is read.
        alpha, beta: by rank, P(click | relevance r) = alpha r + beta.
        users: auto, features, or a file of a user model.
        found: what was fitted to the log.
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
    users: str | None = None
    found: FoundUsers | None = None
    reports: list[LogReport] = field(default_factory=list)
    with_drift: bool = False
    drift: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check what needs no log, before one is read."""
        for given, name in ((self.examination, "--examination"), (self.alpha, "--alpha")):
            if self.users is not None and given is not None:
                raise CounterrankError(f"--users, {name}: expected one of the two")
        self.trust_curves()

    @classmethod
    def of(cls, clicks: str, examination: str | None, threads: int | None, reading: LogOptions, **more: Any) -> Self:
        """The clicks that an argument names, a log or click counts."""
        from counterrank.clicks.stored_clicks import holds_counts

        if (Path(clicks) / "model.json").is_file():
            raise CounterrankError(f"CLICKS: {clicks} is a ranker; expected a click log, or click counts")
        folders, log = ([Path(clicks)], None) if holds_counts(clicks) else ([], clicks)
        known = {"policies": [], "loggers": []} | more
        return cls(folders, log, examination=examination, threads=threads, reading=reading, **known)

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What the options name, for `check_out`."""
        users = None if self.users in _FITTED_USERS else self.users
        return self.clicks, self.log, self.loggers, self.examination, self.alpha, self.beta, users

    @cached_property
    def stored(self) -> StoredClicks:
        """The clicks on disk."""
        from counterrank.clicks.stored_clicks import StoredClicks

        if self.clicks and self.log is not None:
            raise CounterrankError("--clicks, --log: expected one of the two")
        return StoredClicks(self.clicks, self.log, self.reading, self.align, self.with_drift, self.reports, self.drift)

    @property
    def given(self) -> bool:
        """Whether there are any."""
        return bool(self.clicks) or self.log is not None

    @property
    def name(self) -> str:
        """The folders or the log, for messages."""
        return str(self.log) if self.log is not None else ", ".join(map(str, self.clicks))

    def load(self, part: str, data: Mapping[str, RankingData], displays: bool = False) -> ClickCounts:
        """The clicks of one part of the data."""
        with self._announced():
            return self._sufficient(self.stored.load(part, data, *self.keeps(displays)))

    def find(self, part: str, data: Mapping[str, RankingData], displays: bool = False) -> ClickCounts | None:
        """The clicks of one part; None if it has none."""
        with self._announced():
            found = self.stored.find(part, data, *self.keeps(displays))
            return None if found is None else self._sufficient(found)

    @contextmanager
    def _announced(self) -> Iterator[None]:
        """Print warnings and notes about what is read."""
        with show_warnings():
            yield
        for folder in self.stored.aligned:
            say(f"Note: {folder}: mapped onto the data by the ids of queries and documents.")
        self.stored.aligned.clear()

    def kept(self, part: str, data: RankingData | None) -> ClickCounts | None:
        """The click counts of one part in all folders together; None if no folder has any."""
        found = self.stored.counts(part, data)
        return None if found is None else self._sufficient(found)

    def file_of(self, part: str) -> str | None:
        """The file or folder inside the log's folder that holds the clicks of one part."""
        return self.stored.file_of(part)

    def is_single(self) -> bool:
        """Whether these clicks belong to one part and no other."""
        return self.stored.is_single

    def known_clicks(self, part: str, data: Mapping[str, RankingData], displays: bool = False) -> ClickCounts | None:
        """The clicks of a part without a word; None if there are none, or they cannot be used."""
        if part not in data or self.is_single():
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.stored.find(part, data, *self.keeps(displays))
        except CounterrankError:
            return None

    def keeps(self, displays: bool = False) -> tuple[bool, bool]:
        """Whether displayed pages are needed, by an estimator, by the policy or by users, and counts by last click."""
        from counterrank.clicks.browsing import Dependent, SequentialUsers

        of_policy = any(text.startswith(FITTED) for text in self.policies)
        users = self._named_model
        return displays or of_policy or isinstance(users, Dependent), isinstance(users, SequentialUsers)

    def _sufficient(self, counts: ClickCounts) -> ClickCounts:
        """The counts; an error if they lack what the users that were named need."""
        pages, last_clicks = self.keeps()
        lacks_patterns = pages and last_clicks and (counts.displays is None or counts.displays.patterns is None)
        if last_clicks and (counts.last_clicks is None or lacks_patterns):
            flags = "--last-clicks and --displays" if pages else "--last-clicks"
            raise CounterrankError(
                f"{self.name}: counted without the rank of the last click above, which these users need; expected the "
                f"log, or counts of counterrank aggregate with {flags}"
            )
        return counts

    @cached_property
    def _named_model(self) -> Any:
        """The user model or curve that `--users` or `--examination` names; None without them, or to be fitted."""
        if self.users is not None:
            return None if self.users in _FITTED_USERS else read_user_model(self.users)
        return None if self.examination is None else read_examination(self.examination)

    def evidence(self, part: str, data: Mapping[str, RankingData], displays: bool = False) -> Evidence:
        """The clicks of one part, and all that the options say about them."""
        return self.about(self.load(part, data, displays), part, data)

    def about(self, counts: ClickCounts, part: str, data: Mapping[str, RankingData]) -> Evidence:
        """Clicks, and all that the options say about them."""
        from counterrank.estimators import Evidence

        alpha, beta = self.trust_curves()
        exam = self.users_of(counts) if self._names_users() else None
        known = Evidence(counts, exam=exam, alpha=alpha, beta=beta, threads=self.threads)
        return _with_policy(self, known, part, data)

    def _names_users(self) -> bool:
        return any(each is not None for each in (self.examination, self.users, self.found))

    def fit_users(self, *parts: tuple[ClickCounts | None, RankingData | None], prior: bool = False) -> None:
        """Fit users to the clicks of some parts together: if that was asked for, or if nothing says how they click.

        A note says what was found, or why nothing was. `prior` is that of `learn_users`.
        """
        from counterrank.estimators import learn_users

        asked = self.users in _FITTED_USERS
        logged = [(counts, data) for counts, data in parts if counts is not None and counts.n_clicks]
        if not logged or not all(self.fits_users(counts) for counts, _ in logged):
            return
        how = str(self.users) if asked else "auto"
        counts, data = zip(*logged, strict=True)
        try:
            self.found = learn_users(counts[0] if how == "features" else counts, method=how,
                                     data=data[0] if how == "features" else None, prior=prior)  # fmt: skip
        except CounterrankError as refusal:
            why = str(refusal).removeprefix("users: ")
            hint = "" if how == "features" else "; --users features links ranks by features, under an assumption"
            if asked:
                raise CounterrankError(f"--users {how}: {why}{hint}") from None
            say(f"Note: users {why}{hint}.")
            return
        say(f"Note: {self.found.sentence}.")

    def fits_users(self, counts: ClickCounts) -> bool:
        """Whether users are to be fitted to these clicks."""
        from counterrank.estimators import Evidence

        known = self.found or self.users or self.examination or self.alpha
        return self.users in _FITTED_USERS or (not known and Evidence(counts).fits_users)

    def has_user_model(self, counts: ClickCounts) -> bool:
        """Whether users are more than an examination curve, or were fitted to these clicks."""
        from counterrank.clicks.examination import is_user_model

        return self._names_users() and is_user_model(self.users_of(counts))

    def users_of(self, counts: ClickCounts) -> Any:
        """The user model or curve: fitted, of `--users` or of `--examination`, else that of simulated clicks."""
        from counterrank.estimators import Evidence

        if self.found is not None:
            return self.found
        text, option = (self.users, "users") if self.users is not None else (self.examination, "examination")
        known = self._named_model
        if text is not None and known is not None:
            with _named(option, text):
                Evidence(counts, exam=known).check_curve()
            return known
        if counts.examination is None:
            raise CounterrankError(
                "--examination: not known from these clicks; expected e.g. inverse-rank:eta=1, or a file with an "
                f"estimated curve; {_INSPECT}"
            )
        return counts.examination

    def trust_curves(self) -> tuple[list[float] | None, list[float] | None]:
        """Alpha and beta by rank; None where they are not given."""
        if bool(self.alpha) != bool(self.beta):
            raise CounterrankError(
                "--alpha, --beta: expected both, one value for each rank, such as 0.9,0.4 and 0.1,0.05"
            )
        if self.alpha is None or self.beta is None:
            return None, None
        if self.examination is not None:
            raise CounterrankError("--examination: --alpha takes its place under trust bias; expected one of the two")
        alpha, beta = (
            [_number(word, flag) for word in text.split(",")]
            for flag, text in (("--alpha", self.alpha), ("--beta", self.beta))
        )
        return alpha, beta

    def propensities(self, counts: ClickCounts, part: str, data: Mapping[str, RankingData]) -> Propensities:
        """P(examined | query, policy) of the policies that were named, else as logged with the clicks."""
        return announced_propensities(self.about(counts, part, data))

    def options_again(self) -> list[str]:
        """The options that name the policy, the curve and how a log is read, for a command to go on with."""
        named = [("--policy", each) for each in self.policies] + [("--logger", each) for each in self.loggers]
        named += [("--examination", self.examination)] if self.examination is not None else []
        named += [("--users", self.users)] if self.users is not None else []
        options = self.reading
        if options is not None:
            named += [("--only-policy", name) for name in options.only_policies]
            named += [("--context", name) for name in options.context if self.log is not None]
            named += [("--hold-out-sessions", f"{options.hold_out_sessions:g}")] if options.hold_out_sessions else []
            named += [("--rank-base", str(options.rank_base))] if options.rank_base != 1 else []
            named += [("--format", options.format)] if options.format != "auto" else []
            named += [("--on-error", options.on_error)] if options.on_error != "fail" else []
            actions = ",".join(options.click_actions)
            named += [("--click-actions", actions)] if actions != "click" else []
        flags = {"--align": self.align}
        if options is not None:
            flags |= {"--impressions": options.impressions, "--strict": options.strict}
            flags |= {"--skip-page-checks": options.skip_page_checks, "--only-held-out": options.held_out}
        words = [word for pair in named for word in pair] + [flag for flag, given in flags.items() if given]
        return words + options_again(*DATA_OPTIONS)

    def say_what_it_read(self) -> None:
        """A line for each log that was read."""
        for report in self.reports:
            used = f"used {report.used:,} of them, {report.pages:,} pages"
            say(f"Read {report.rows:,} rows of {report.name}; {used}{report.left_out()}.")
            say_note(report)
        self.reports.clear()


def say_note(report: LogReport) -> None:
    """A line about timestamps of a log that are not dates, and one about columns that are not used, where there are."""
    for message in (report.date_message(), report.column_message()):
        if message is not None:
            say(f"Note: {name_flags(message)}.")


def check_needs(estimator: Estimator, evidence: Evidence) -> None:
    """An error that names the options an estimator requires, and the command that shows what a log supports."""
    try:
        estimator.check(evidence, options=True)
    except CounterrankError as error:
        hint = "" if evidence.has("examination") and evidence.has("propensities") else f"; {_INSPECT}"
        raise CounterrankError(f"{error}{hint}") from None


def announced_propensities(evidence: Evidence) -> Propensities:
    """The propensities, with a note where they are combined of several policies, or are display frequencies."""
    from counterrank.estimators.registry import NEEDS

    if not evidence.has("exposure"):
        need = NEEDS["exposure"]
        raise CounterrankError(f"requires {need.meaning}; expected {need.options}; {_INSPECT}")
    with show_warnings():
        found = evidence.propensities
    if found.source in _COMBINED and evidence.rho is None:
        names = ", ".join(evidence.clicks.distinct_policies) or "without names"
        is_logged = evidence.clicks.propensities is not None
        why = f"several policies in this log ({names})" if is_logged else "no propensities in this log"
        say(f"Note: {why}: {_COMBINED[found.source]}.")
    return found


def parts_of(opened: Any, part: str = "train") -> dict[str, RankingData]:
    """The parts of opened data by name; data that is not a fold is the part of this name."""
    from counterrank import RankingData
    from counterrank.data.sources import PARTS, check_part

    if isinstance(opened, RankingData):
        return {check_part(part): opened}
    return {part: getattr(opened, part) for part in PARTS if getattr(opened, part) is not None}


def load_scored(path: Path, data: RankingData, threads: int | None) -> Scored:
    """The scores of a ranker or a file, to be evaluated from clicks."""
    found = _scored(path, data, threads)
    if not found.provenance_:
        say(f"Note: {path} does not record what it was trained on; make sure that these clicks are held out.")
    return found


def load_scores(logger: str | Path, data: RankingData, threads: int | None) -> Any:
    """Scores for the documents of the data: of a ranker, from a file, or one of the features (`feature:25`, from 1)."""
    return _scored(logger, data, threads).scores


def _scored(path: str | Path, data: RankingData, threads: int | None) -> Scored:
    from counterrank.training import Scored

    with show_warnings():
        found = Scored.load(path, data, threads)
    if found.missing:
        _say_widened("the data", data.n_features, data.n_features + found.missing)
    return found


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


def read_policy(text: str) -> Any:
    """A policy as `--policy` names it."""
    from counterrank.clicks.policies.parsing import parse_policy

    with _named("policy", text):
        return parse_policy(text)


def read_user_model(text: str) -> UserModel:
    """A user model as `--users` names it: a file of one, or of an estimated examination curve."""
    from counterrank.clicks.examination import UserModel
    from counterrank.clicks.user_estimation import load, load_estimate

    if not Path(text).exists():
        raise MissingFileError(
            f"--users {text}: no such file; expected {', '.join(_FITTED_USERS)}, or a file of a user model, as inspect "
            "--users-out writes it"
        )
    with _named("users", text):
        found = load(text)
        return found if isinstance(found, UserModel) else load_estimate(text)


def read_examination(text: str) -> Any:
    """An examination curve, or a user model in a file, as `--examination` names it."""
    from counterrank.clicks.policies.parsing import parse_examination

    with _named("examination", text):
        return parse_examination(text)


def read_users(text: str, parts: Iterable[RankingData], others: tuple[str, ...] = ()) -> Any:
    """Users as `--users` names them; None for the paper's, which other options describe.

    Arguments:
        text: a preset or a file.
        parts: the data, whose longest query decides how many ranks a preset has.
        others: options besides `--examination`, `--relevant` and `--other` that describe users.
    """
    from counterrank.clicks.simulated_users import PAPER, PRESETS, users
    from counterrank.common.ranking import longest_query

    if text == PAPER:
        return None
    levels = explicit_options("relevant", "other")
    clash = explicit_options("examination", *others) + (levels if text in PRESETS else [])
    if clash:
        raise CounterrankError(
            f"{clash[0]}: given together with --users {text}, which says it; expected one of the two"
        )
    with _named("users", text):
        if text in PRESETS:
            return users(text, max(longest_query(part.offsets) for part in parts))
        given = given_options("other", "relevant")
        return users(text, relevance=(given["other"], given["relevant"]) if levels else None)


@contextmanager
def _named(option: str, text: str, parameter: str = "") -> Iterator[None]:
    """Errors (about a parameter, if one is named) begin with the option: the k of a policy is not --k."""
    try:
        yield
    except CounterrankError as error:
        if not str(error).startswith(parameter):
            raise
        rest = str(error).removeprefix(f"{option} {text!r}: ").removeprefix(f"{option}: ").removeprefix("exam: ")
        shown = "" if rest.startswith(text) else f" {text}"  # a file that cannot be read names itself
        error.args = (f"--{option}{shown}: {rest}",)
        raise


def _with_policy(source: ClickSource, known: Evidence, part: str, data: Mapping[str, RankingData]) -> Evidence:
    """The evidence with what the options say about the policy."""
    kind = source.policies[0].partition(":")[0].strip() if len(source.policies) == 1 else ""
    if kind in (ESTIMATED, FITTED):
        if source.loggers:
            raise CounterrankError(f"--logger: policy {kind} is estimated from the log; expected no --logger")
        if known.exam is None:
            source.users_of(known.clicks)  # the error names the option
        return _estimated(source, known) if kind == ESTIMATED else _fitted(source, known, data[part])
    if not source.policies and not source.loggers:
        return known
    if not source.policies or not source.loggers:
        raise CounterrankError("--policy, --logger: expected both, or none for logged propensities")
    from counterrank.clicks.policies.from_log import check_all_candidates, refuse_contradictions

    check_all_candidates(known.clicks)
    refuse_contradictions(known.clicks)
    policy, scores = _known(source, part, data)
    names = known.clicks.distinct_policies
    if scores is not None and len(names) > 1:
        raise CounterrankError(
            f"--policy: one for a log of several ({', '.join(names)}); expected each by its name, such as "
            f"--policy {names[0]}={source.policies[0]}, or the sessions of one only, --only-policy {names[-1]}"
        )
    found = replace(known, policy=policy, scores=scores)
    with show_warnings():
        found.check_policy()
    return found


def _known(source: ClickSource, part: str, data: Mapping[str, RankingData]) -> tuple[Any, Any]:
    """A policy and its scores; or several with theirs by name, and None."""
    named = named_policies(source.policies)
    if named is None:
        policy = read_policy(single(source.policies))
        return policy, rankings_of(policy, source.loggers, lambda logger: scores_of(source, logger, part, data))
    loggers, found = _loggers(source.loggers, named), {}
    for name, text in named.items():
        policy = read_policy(text)
        ranked = rankings_of(policy, loggers[name], lambda logger: scores_of(source, logger, part, data), f"{name}=")
        found[name] = policy, ranked
    return found, None


def rankings_of(policy: Any, loggers: Sequence[str], load: Callable[[str], Any], name: str = "") -> Any:
    """What a policy ranked by; of one that interleaves two rankings both, in the order of the options."""
    from counterrank.clicks.policies.pages import takes_two_rankings

    if not takes_two_rankings(policy):
        return load(single(list(loggers)))
    if len(loggers) != 2:
        raise CounterrankError(
            f"--logger: {len(loggers)} for team draft, which interleaves two rankings; expected two of them, "
            f"--logger {name}A --logger {name}B"
        )
    return [load(logger) for logger in loggers]


def scores_of(source: ClickSource, logger: str, part: str, data: Mapping[str, RankingData]) -> Any:
    """What a policy ranked by: a ranker, a file, a feature, or the scores that stand in the log."""
    if logger == LOGGED_SCORES:
        return source.stored.logging_scores(part, data)
    return load_scores(logger, data[part], source.threads)


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


def _loggers(texts: list[str], policies: Mapping[str, str]) -> dict[str, list[str]]:
    """What each policy ranked by; one without a name serves all."""
    if len(texts) == 1 and texts[0].partition("=")[0] not in policies:
        return dict.fromkeys(policies, texts)
    named: dict[str, list[str]] = {}
    for name, _, rest in (text.partition("=") for text in texts):
        named.setdefault(name, []).extend([rest] if rest else [])
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


def _estimated(source: ClickSource, known: Evidence) -> Evidence:
    """Display frequencies of the log: `estimated`, or `estimated:smoothing=auto`."""
    smoothing: Any = _settings(source.policies[0], ("smoothing",)).get("smoothing", "0")
    smoothing = smoothing if smoothing == "auto" else _number(smoothing, "--policy estimated: smoothing")
    with _named("policy", source.policies[0], "smoothing"):
        found = known.with_display_frequencies(smoothing)
    say(
        f"Propensities estimated from {known.clicks.n_sessions:,} pages; {len(found.propensities.uncovered):,} of "
        f"{known.clicks.n_docs:,} candidates were never shown."
    )
    return found


def _fitted(source: ClickSource, known: Evidence, data: RankingData) -> Evidence:
    """A Plackett-Luce policy over features: `fitted-plackett-luce:k=10`."""
    k = _settings(source.policies[0], ("k",)).get("k")
    if k is not None and not (k.isascii() and k.isdigit()):
        raise CounterrankError(f"--policy {source.policies[0]}: k={k}; expected a whole number")
    with _named("policy", source.policies[0], "k="):
        evidence, found = known.with_fitted_policy(data, None if k is None else int(k))
    say(
        f"Fitted a Plackett-Luce policy to {found.pages:,} pages: log-likelihood {found.log_likelihood:.2f} a page, "
        f"{found.uniform_log_likelihood:.2f} if pages were drawn uniformly; by its propensities pages hold "
        f"{found.candidates_found:.2g} times the candidates there are, 1 if the policy is of this form."
    )
    return evidence


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


def load_model_and_data(
    model: Path, source: str, part: str, threads: int | None, opening: DataOptions
) -> tuple[Ranker, RankingData]:
    """Both, the data with the features of the ranker."""
    from counterrank import Ranker
    from counterrank.data.sources import choose_part

    ranker = Ranker.load(model)
    ranker.threads = threads
    return ranker, fitting(choose_part(opening.open(source, threads), part, source), ranker, source)


def fitting(data: RankingData, ranker: Ranker, source: str) -> RankingData:
    """`with_features_of`, with a note where features are filled up."""
    from counterrank.training.ranker import with_features_of

    found = with_features_of(ranker, data)
    if found.n_features > data.n_features:
        _say_widened(source, data.n_features, found.n_features)
    return found


def _say_widened(source: str, n_features: int, expected: int) -> None:
    say(f"Note: {source} has {n_features} features, the ranker {expected}; those that are missing count as 0.")

"""A cell: the configuration of one trained ranker, which together with the data decides all that comes of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

# What a cell does has changed when this has: results of older rules are not taken for those of newer ones. Cells of a
# number of sessions have rules of their own beside it.
_RULES = 1
_SESSION_RULES = 1


class Logger(NamedTuple):
    """What decides a production ranker."""

    fold: int
    share: float
    relevance_threshold: float
    seed: int
    norm: float


class Traffic(NamedTuple):
    """What decides the clicks on one part of the data."""

    logger: Logger
    part: str
    policy: str
    clicks: int
    eta: float
    noise: tuple[float, float]
    seed: int
    displays: bool
    sessions: int = 0


@dataclass(frozen=True)
class Cell:
    """Everything that decides what one ranker becomes, but for the data.

    Attributes:
        fold: which data, counted from 0.
        run: which of the independent runs, counted from 0.
        estimator: "production" and "full-information" learn from labels, the others from clicks.
        loss: by name.
        metric: what early stopping, the choice of a clip and the selection of losses go by.
        policy: the logging policy, as on the command line; "" without clicks.
        page: how many results the policy shows; None for all, and without clicks.
        clicks: how many; 0 without clicks, and where sessions are counted.
        patience, tolerance, max_epochs, step_size, clip, clips: how to train.
        cutoff, relevance_threshold, production_share, production_norm, production_seed, eta, noise, validation_share,
            seed: see `Settings`.
        sessions: how many pages are shown, however many clicks come of it; 0 where clicks are counted.
    """

    fold: int
    run: int
    estimator: str
    loss: str
    metric: str
    policy: str
    page: int | None
    clicks: int
    step_size: float | str
    patience: int
    tolerance: float
    max_epochs: int
    clip: str
    clips: int
    cutoff: int
    relevance_threshold: float
    production_share: float
    production_norm: float
    production_seed: int | None
    eta: float
    noise: tuple[float, float]
    validation_share: float
    seed: int
    sessions: int = 0

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> Cell:
        """The cell that `plain` told of."""
        return cls(**{**content, "noise": tuple(content["noise"])})

    def plain(self) -> dict[str, Any]:
        """The cell as JSON has it; without sessions where there are none, so that names of older cells stay."""
        content = {**asdict(self), "noise": list(self.noise)}
        if not self.sessions:
            del content["sessions"]
        return content

    def key(self, fingerprint: str) -> str:
        """A name for the cell on the data with this fingerprint; another setting is another name."""
        rules = [_RULES, _SESSION_RULES] if self.sessions else _RULES
        text = json.dumps([rules, fingerprint, self.plain()], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def describe(self) -> str:
        """The cell in words."""
        amount = f"{self.sessions:,} sessions" if self.sessions else f"{self.clicks:,} clicks"
        where = f"{self.policy}, {amount}, " if self.sessions or self.clicks else ""
        return f"{self.estimator}, {self.loss}, {where}fold {self.fold + 1}, run {self.run + 1}"

    @property
    def logger(self) -> Logger:
        """The production ranker of this run."""
        seed = self.production_seed
        if seed is None:
            seed = self.seed_for("production")
        return Logger(self.fold, self.production_share, self.relevance_threshold, seed, self.production_norm)

    def traffic(self, part: str) -> Traffic:
        """The clicks of this run: those that share policy and number are the same for all estimators and losses.

        Rerank alone needs to know which documents were shown together, and gets a draw of its own.
        """
        displays = self.estimator == "rerank"
        share = 1.0 if part == "train" else self.validation_share
        if self.sessions:
            sessions = max(1, round(share * self.sessions))
            seed = self.seed_for("sessions", part, self.policy, sessions)
            return Traffic(self.logger, part, self.policy, 0, self.eta, self.noise, seed, displays, sessions)
        clicks = self.clicks if part == "train" else max(1, round(self.validation_share * self.clicks))
        seed = self.seed_for("clicks", part, self.policy, clicks)
        return Traffic(self.logger, part, self.policy, clicks, self.eta, self.noise, seed, displays)

    def seed_for(self, *purpose: Any) -> int:
        """A seed of its own for each purpose in each run."""
        text = json.dumps([self.seed, self.run, self.fold, *purpose])
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest())

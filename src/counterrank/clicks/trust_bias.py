"""Trust bias: alpha and beta of affine clicks estimated from a log, with confidence intervals."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.clicks.click_cards import estimated_affine_card, estimated_affine_chart, estimated_affine_summary
from counterrank.clicks.user_models import FORMAT, VERSION, Affine, register_users
from counterrank.common.checks import FloatArray, IntArray, check_vector
from counterrank.common.errors import CounterrankError
from counterrank.common.files import PathLike, atomic_file
from counterrank.common.notebook import Summary

_MODEL = "estimated-affine"  # in files


@dataclass(frozen=True)
class TrustTest:
    """A test of the position-based model, beta_k / alpha_k the same at every rank, against affine clicks.

    Attributes:
        statistic: large where the ratios differ.
        freedom: the number of equalities tested, one less than ranks.
        p_value: the probability of a statistic as large if the position-based model holds.
    """

    statistic: float
    freedom: int
    p_value: float


class EstimatedAffine(Affine):
    """Affine users estimated from a log: P(click | relevance r, rank k) = alpha_k r + beta_k in the canonical gauge.

    Made by `examination.estimate(clicks, model="affine")`; accepted wherever an examination curve is.

    Attributes:
        alpha: by rank.
        beta: by rank.
        ranks: 1 to k.
        alpha_interval: (n_ranks, 2), one for each rank by itself.
        beta_interval: (n_ranks, 2), the same for beta.
        ratios: alpha_k / alpha_1.
        ratio_interval: (n_ranks, 2), those of alpha_k / alpha_1; None where they were not computed.
        method: "documents" or "features": what links the ranks.
        target: the target population of the intervals: "queries" like these, or new clicks on "these-queries".
        confidence: the confidence level of each interval.
        n_sessions: the sessions of the log.
        n_queries: the queries used.
        n_documents: the query-document pairs used.
        n_clicks: the clicks on them.
        warnings: what speaks against trusting the values, a sentence each.
        test: of the position-based model against this one; None where it was not computed.
    """

    def __init__(
        self,
        alpha: ArrayLike,
        beta: ArrayLike,
        *,
        alpha_interval: ArrayLike,
        beta_interval: ArrayLike,
        ratio_interval: ArrayLike | None = None,
        method: str,
        target: str,
        confidence: float,
        n_sessions: int,
        n_queries: int,
        n_documents: int,
        n_clicks: int,
        warnings: tuple[str, ...] = (),
        test: TrustTest | None = None,
        relevance: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(alpha, beta, relevance)
        self.alpha_interval = _intervals(alpha_interval, self.k, "alpha_interval")
        self.beta_interval = _intervals(beta_interval, self.k, "beta_interval")
        self.ratio_interval = None if ratio_interval is None else _intervals(ratio_interval, self.k, "ratio_interval")
        self.method, self.target, self.confidence = method, target, confidence
        self.n_sessions, self.n_queries, self.n_documents, self.n_clicks = n_sessions, n_queries, n_documents, n_clicks
        self.warnings, self.test = tuple(warnings), test

    @property
    def ranks(self) -> IntArray:
        """1 to k."""
        return np.arange(1, self.k + 1)

    @property
    def ratios(self) -> FloatArray:
        """alpha_k / alpha_1: how much less a click at rank k says about relevance than one at rank 1."""
        found: FloatArray = self.alpha / self.alpha[0]
        return found

    @property
    def population(self) -> str:
        """The target population of the intervals; another name of `target`."""
        return self.target

    def facts(self) -> dict[str, Any]:
        """What an estimate has beyond alpha, beta and relevance, as plain values for JSON."""
        found = {name: value for name, value in vars(self).items() if name not in _OF_AFFINE}
        found |= {name: value.tolist() for name, value in found.items() if isinstance(value, np.ndarray)}
        return found | {"warnings": list(self.warnings), "test": None if self.test is None else asdict(self.test)}

    def save(self, path: PathLike) -> None:
        """Write a JSON file, which `examination.load` and `--users FILE` read."""
        content = {"format": FORMAT, "version": VERSION, **self.describe(), "model": _MODEL, **self.facts()}
        with atomic_file(path) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        alpha, beta = (", ".join(f"{value:.3g}" for value in values) for values in (self.alpha, self.beta))
        return (
            f"EstimatedAffine({self.method}: alpha {alpha}; beta {beta}; {self.n_clicks:,} clicks on "
            f"{self.n_documents:,} documents of {self.n_queries:,} queries)"
        )

    def summary(self) -> Summary:
        """alpha, beta and confidence intervals by rank, as a dict that prints as a table."""
        return estimated_affine_summary(self)

    def plot(self) -> Any:
        """P(click) of documents of relevance 0 and 1 over the rank, an altair chart."""
        return estimated_affine_chart(self)

    def _repr_html_(self) -> str:
        return estimated_affine_card(self)


_OF_AFFINE = ("alpha", "beta", "relevance", "scale")


def _intervals(values: ArrayLike, k: int, name: str) -> FloatArray:
    given = np.array(values, np.float64)
    if given.shape != (k, 2) or np.isnan(given).any():
        raise CounterrankError(f"{name}: shape {given.shape}; expected ({k}, 2), without gaps")
    given.flags.writeable = False
    return given


def _read(content: dict[str, Any]) -> EstimatedAffine:
    """The estimate that `EstimatedAffine.save` wrote."""
    given = {name: value for name, value in content.items() if name not in ("format", "version", "model")}
    test = given.pop("test")
    alpha, beta = (check_vector(given.pop(name), None, name, "ranks") for name in ("alpha", "beta"))
    return EstimatedAffine(alpha, beta, **given, test=None if test is None else TrustTest(**test))


register_users(_MODEL, _read)

"""Rankings of their own for frequent queries, on top of a general ranker (GENSPEC, Oosterhuis and de Rijke 2021)."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.clicks.counts import ClickCounts, check_counts
from counterrank.clicks.origin import shared_sessions
from counterrank.common.checks import FloatArray, IntArray, check_number, check_type, check_whole
from counterrank.common.errors import CounterrankError, CoverageWarning
from counterrank.common.files import PathLike
from counterrank.common.notebook import Shown, Summary
from counterrank.data import RankingData
from counterrank.data.ids import identity, place_in_query, query_of_rows
from counterrank.estimators.evidence import Evidence
from counterrank.estimators.model_assisted import most_likely_strength, shrunken_weights
from counterrank.estimators.relevance import Examinations
from counterrank.evaluation.click_metrics import check_held_out
from counterrank.evaluation.evidence_levels import check_per_session, compare_scores, finite_sample
from counterrank.models.model import Scaler
from counterrank.training.blending import predicted
from counterrank.training.ranker import Ranker
from counterrank.training.storage import (
    describe_clicks,
    describe_data,
    describe_inputs,
    join_clicks,
    provenance,
    read_part,
    write_part,
)

_FEWEST = 20  # held-out sessions of a query that is tested
_RANKS = 10  # of the general ranking that have prior rates of their own


@dataclass(frozen=True)
class QueryTest:
    """The test of a query's own ranking against the general one, on held-out sessions.

    Attributes:
        query: its id.
        sessions, held_out_sessions: those that its ranking was made of, and those it was tested on.
        estimate: how much better its own ranking is, in the metric per session.
        lower: the finite-sample lower bound of that.
        used: whether the bound is above 0, and its own ranking used.
    """

    query: Any
    sessions: int
    held_out_sessions: int
    estimate: float
    lower: float
    used: bool


@dataclass(frozen=True, eq=False, repr=False)
class Specialised(Shown):
    """A general ranker with rankings of their own for some queries.

    Attributes:
        ranker: usable as any ranker, and saved and loaded as one.
        tests: one for each query that was tested, in the order of the data.
        metric: what was compared.
        confidence: the confidence level of each query's bound.
    """

    ranker: Ranker
    tests: tuple[QueryTest, ...]
    metric: str
    confidence: float

    @property
    def queries(self) -> tuple[Any, ...]:
        """The ids of the queries that have a ranking of their own."""
        return tuple(each.query for each in self.tests if each.used)

    def predict(self, data: Any, **options: Any) -> FloatArray:
        """Scores as those of any ranker, see `Ranker.predict`."""
        return self.ranker.predict(data, **options)

    def save(self, path: PathLike) -> None:
        """Write it as a ranker, which `Ranker.load` reads."""
        self.ranker.save(path)

    def summary(self) -> Summary:
        """How many queries were tested and have a ranking of their own, and what they gain."""
        used = [each for each in self.tests if each.used]
        sessions = sum(each.held_out_sessions for each in used)
        gain = sum(each.estimate * each.held_out_sessions for each in used) / sessions if sessions else None
        return Summary(
            tested=len(self.tests),
            used=len(used),
            held_out_sessions=sessions,
            gain=gain,
            metric=self.metric,
            confidence=self.confidence,
            ranker=repr(self.ranker),
        )

    def __repr__(self) -> str:
        return f"Specialised({len(self.queries):,} of {len(self.tests):,} tested queries, {self.ranker!r})"


@dataclass(frozen=True)
class SpecialisedModel:
    """The scores of a general ranker, put in another order for some queries.

    Attributes:
        general: the ranker of all other queries.
        tables: by query id as text, the ids of its documents as texts in the order of its own ranking.
    """

    general: Ranker
    tables: Mapping[str, list[str]]

    @property
    def scaler(self) -> Scaler:
        """Features are scaled by the general ranker; scores depend on the query, as with scaling within queries."""
        return Scaler.none(self.n_features, "query")

    @property
    def n_features(self) -> int:
        """The number of features."""
        return self.general.n_features_

    def predict(self, data: RankingData, threads: int | None = None) -> FloatArray:
        """A score for each document; queries are recognised by their ids and those of all their documents."""
        scores = predicted(self.general, data, threads).copy()
        for query in np.flatnonzero(np.isin(data.query_ids.astype(str), list(self.tables))):
            rows = slice(int(data.offsets[query]), int(data.offsets[query + 1]))
            order = _order(self.tables[str(data.query_ids[query])], data.doc_ids[rows])
            if order is not None:
                scores[rows] = reordered(scores[rows], order)
        return scores

    def vectors(self) -> dict[str, FloatArray]:
        """None; the general ranker has its own."""
        return {}

    def write(self, folder: Path) -> dict[str, Any]:
        """The general ranker, in a folder of its own."""
        write_part(self.general, folder, "general")
        return {"tables": dict(self.tables)}

    @classmethod
    def restore(cls, folder: Path, content: dict[str, Any]) -> SpecialisedModel:
        """Read what `write` wrote."""
        tables = {str(query): [str(each) for each in documents] for query, documents in content["tables"].items()}
        return cls(read_part(folder, "general"), tables)


def _order(table: list[str], doc_ids: NDArray[Any]) -> IntArray | None:
    """The places of the documents of a query in the order of its table; None if they are not the same documents."""
    places = {name: place for place, name in enumerate(doc_ids.astype(str).tolist())}
    if len(table) != len(places) or any(name not in places for name in table):
        return None
    return np.array([places[name] for name in table], np.int64)


def reordered(scores: FloatArray, order: IntArray) -> FloatArray:
    """The same scores, the largest for the first place of the order; where some are equal, minus the rank instead.

    >>> reordered(np.array([0.5, 2.0, 1.0]), np.array([2, 0, 1])).tolist()
    [1.0, 0.5, 2.0]
    """
    values = np.sort(scores)[::-1]
    if (np.diff(values) >= 0.0).any():
        values = -np.arange(1.0, len(scores) + 1.0)
    found = np.empty(len(scores))
    found[order] = values
    return found


def specialise(
    general: Ranker,
    data: RankingData,
    clicks: ClickCounts | Evidence,
    held_out: ClickCounts | Evidence,
    rho: ArrayLike | None = None,
    *,
    policy: Any = None,
    scores: Any = None,
    exam: Any = None,
    metric: str | None = None,
    confidence: float = 0.95,
    min_sessions: int = _FEWEST,
) -> Specialised:
    """Give frequent queries rankings of their own, where held-out sessions of the query show that they are better.

    The ranking of a query orders its documents by their own clicks, shrunk towards the click rate of the rank that the
    general ranker gives them:

        (clicks(d) + m r(rank of d)) / (E(d) + m)

    with E(d) how often d was examined and m the most likely strength (`estimators.shrinkage`). It is used where the
    finite-sample lower bound of its difference to the general ranking, on held-out sessions of the query, is above 0
    (`evidence_levels.finite_sample`). A query is hurt only if its bound is wrong, with a probability of at most
    1 - confidence, whatever its number of sessions: the expected share of the tested queries that are hurt is at most
    1 - confidence. The bounds are about queries one by one, their candidates as they were, and users as they were.

    Arguments:
        general: a fitted ranker; neither it nor anything else may have learned from the held-out sessions.
        data: the queries. They are recognised by their ids and those of their documents.
        clicks: of the sessions that rankings are made of; or an `Evidence`, which holds what is known about them.
        held_out: of other sessions, with displayed pages (`displays=True`): without them the clicks of one page are not
            known together, and bounds are much lower.
        rho, policy, scores, exam: as in `evaluation.estimate`, for both.
        metric: "dcg@k" or "precision@k"; None for dcg@k with the k of the ranker, or of the pages.
        confidence: of the bound of each query.
        min_sessions: of a query that is tested, held out and not.

    >>> from counterrank import examination, make_ranking_data, policies, simulation
    >>> data, exam = make_ranking_data("mslr", n_queries=10, seed=0), examination.inverse_rank(5)
    >>> general = Ranker("arp-hinge", k=None, max_epochs=1).fit(data, data.features[:, 0])
    >>> how = {"policy": policies.UniformInsert(5), "scores": general.predict(data)}
    >>> logs = [simulation.simulate(data, how["scores"], how["policy"], exam, sessions=50_000, seed=seed,
    ...                             displays=True) for seed in (0, 1)]
    >>> found = specialise(general, data, *logs, **how, exam=exam)
    >>> len(found.tests), 0 < len(found.queries) <= 10
    (10, True)
    """
    check_type(general, Ranker, "general")._fitted()
    check_type(data, RankingData, "data")
    level = check_number(confidence, "confidence", at_least=0.5, below=1.0, also=", such as 0.95")
    fewest = check_whole(min_sessions, "min_sessions", 1)
    logs = [_evidence_of(each, data, rho, policy, scores, exam, name)
            for each, name in ((clicks, "clicks"), (held_out, "held_out"))]  # fmt: skip
    counts, others = (each.clicks for each in logs)
    if counts is others or shared_sessions(others.known_origin(), counts.known_origin()) > 0.0:
        raise CounterrankError("held_out: sessions that are among clicks too; expected others")
    depth = int(counts.ranks.max(initial=1))
    chosen = metric or f"dcg@{general.k or depth}"
    check_per_session(chosen)
    check_held_out({"general": general}, data, others, "these-queries", False)
    base = predicted(general, data)
    own = own_scores(base, data, logs[0].examinations)
    tests = []
    tables: dict[str, list[str]] = {}
    for query in np.flatnonzero((counts.sessions >= fewest) & (others.sessions >= fewest)).tolist():
        found = _test(query, own, base, data, logs[1], chosen, 1.0 - level)
        if found is None:
            continue
        estimate, lower = found
        used = lower > 0.0
        sessions = int(counts.sessions[query]), int(others.sessions[query])
        tests.append(QueryTest(data.query_ids[query].item(), *sessions, estimate, lower, used))
        if used:
            rows = slice(int(data.offsets[query]), int(data.offsets[query + 1]))
            order = np.argsort(-own[rows], kind="stable")
            tables[str(data.query_ids[query])] = data.doc_ids[rows][order].astype(str).tolist()
    result = copy.copy(general)
    result.model_, result.kind_, result.model = SpecialisedModel(general, tables), "specialised", "specialised"
    result.params, result._importances = None, None
    about = {"queries": len(tables), "tested": len(tests), "metric": chosen, "confidence": level}
    origin = general.provenance_ or provenance(general, describe_inputs(data, None, None))
    if origin["data"]["identity"] != identity(data):
        origin = {**origin, "data": describe_data(data), "general": origin}
    used_clicks = join_clicks([origin["clicks"], describe_clicks([counts, others])])
    result.provenance_ = {**origin, "model": "specialised", "clicks": used_clicks, "specialised": about}
    return Specialised(result, tuple(tests), chosen, level)


def _evidence_of(clicks: Any, data: RankingData, rho: Any, policy: Any, scores: Any, exam: Any, name: str) -> Evidence:
    """All that is known about clicks."""
    if isinstance(clicks, Evidence):
        if any(each is not None for each in (rho, policy, scores, exam)):
            raise CounterrankError(f"rho, policy, scores, exam: given together with {name} that are an Evidence")
        return clicks.for_data(data)
    counts = check_counts(clicks, name)
    counts.check_data(data, name)
    return Evidence(counts, rho, exam, policy=policy, scores=scores).for_data(data)


def own_scores(base: FloatArray, data: RankingData, seen: Examinations) -> FloatArray:
    """Scores of documents by the clicks of their query; equal ones are in the order of the general ranking.

    Prior rates are those of the first ranks one by one, and of all documents below together; scores are minus the rank.
    """
    owner = query_of_rows(data.offsets)
    general = ranks_of(np.lexsort((-base, owner)), data)
    ranks = np.minimum(general, _RANKS)
    times = np.bincount(ranks, weights=seen.times, minlength=_RANKS + 1)
    clicks = np.bincount(ranks, weights=seen.clicks, minlength=_RANKS + 1)
    overall = seen.clicks.sum() / max(float(seen.times.sum()), 1e-300)
    prior = np.clip((clicks + overall) / (times + 1.0), 0.0, 1.0)[ranks]
    rates = shrunken_weights(seen, prior, most_likely_strength(seen, prior)) / np.maximum(seen.sessions, 1.0)
    return -ranks_of(np.lexsort((general, -rates, owner)), data).astype(np.float64)


def ranks_of(order: IntArray, data: RankingData) -> IntArray:
    """The rank from 0 of each document in its query, where `order` lists the rows query by query from the top.

    >>> ranks_of(np.array([1, 0, 2]), RankingData([[0.0], [1.0], [2.0]], [0, 2, 3])).tolist()
    [1, 0, 0]
    """
    ranks = np.empty(data.n_docs, np.int64)
    ranks[order] = place_in_query(data.offsets)
    return ranks


def _test(
    query: int, own: FloatArray, base: FloatArray, data: RankingData, evidence: Evidence, metric: str, alpha: float
) -> tuple[float, float] | None:
    """Estimate and lower bound of the difference on one query; None where the two rankings do not differ."""
    rows = slice(int(data.offsets[query]), int(data.offsets[query + 1]))
    part, counts = data.subset([query]), evidence.clicks.subset([query])
    rho = evidence.propensities
    # logged propensities of documents that were never shown are not known: as if they could not be, they count as worst
    own_rho = None if rho is None else np.nan_to_num(rho.by_document[rows])
    known = Evidence(counts, own_rho, evidence.exam).for_data(part)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        compared = compare_scores(own[rows], base[rows], part, known, metric)
    if not compared.values.any() and not compared.worst.any():
        return None
    found = finite_sample(compared, alpha)
    if found.lower is None or found.estimate is None:
        raise CounterrankError(f"clicks: no bound for a query, since a finite-sample bound {found.reason}")
    return found.estimate, found.lower

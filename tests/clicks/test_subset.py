"""Click counts of some queries, and of the parts of a fold: those that the log gives with that data."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import estimators, evaluation
from counterrank.clicks import ClickCounts
from counterrank.clicks.logs import LogReport, read_parts
from counterrank.clicks.origin import shared_sessions
from counterrank.clicks.policies import UniformInsert
from counterrank.clicks.simulation import simulate, write_log
from counterrank.common.errors import CounterrankError
from tests.clicks.test_deployments import NEW, OLD, THETA, same, scores_of, write_parts


def ids_of(counts):
    """The sampled sessions of each policy, whichever way they were found."""
    return {each.policy: set(each.sample.ids.hashes.tolist()) for each in counts.origin.sources if each.sample}


CHOICES = {
    "one": [3],
    "several in another order": [4, 0, 2],
    "all": range(5),
    "a mask": np.array([True, False, True, True, False]),
    "a slice": slice(1, None, 2),
}


@pytest.mark.parametrize("displays", [False, True])
@pytest.mark.parametrize("queries", CHOICES.values(), ids=CHOICES)
def test_a_subset_is_what_the_log_says_of_these_queries(tmp_path, queries, displays):
    logs = write_parts(tmp_path / "logs")
    table = pq.read_table(logs / "v1.parquet")
    counts = cr.read_log(logs / "v1.parquet", OLD, displays=displays)
    data = OLD.subset(queries)
    found = counts.subset(queries)
    found.check_data(data)
    again = cr.read_log(logs / "v1.parquet", data, displays=displays)
    same(found, again)
    assert ids_of(found) == ids_of(again)
    assert [source[:3] for source in found.origin.sources] == [source[:3] for source in again.origin.sources]
    assert table.num_rows >= found.n_impressions > 0


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_any_subset_of_any_log(draw):
    """Logs of two policies with propensities, in which the data lacks documents."""
    rng = np.random.default_rng(draw.draw(st.integers(0, 10**6)))
    rows = []
    for session in range(draw.draw(st.integers(1, 25))):
        query = int(rng.integers(4))
        docs = rng.permutation(4)[: rng.integers(1, 4)]
        policy = "old" if query < 2 else str(rng.choice(["new", "old"]))
        rows += [(session, query, int(doc), i + 1, int(rng.integers(2)), policy, 0.5) for i, doc in enumerate(docs)]
    names = ("session_id", "query_id", "doc_id", "rank", "clicked", "policy", "propensity")
    log = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    complete = draw.draw(st.booleans())
    docs = [0, 1, 2, 3] if complete else [0, 1, 2]
    data = cr.RankingData(np.zeros((4 * len(docs), 1)), np.arange(5) * len(docs), doc_ids=docs * 4)
    chosen = draw.draw(st.permutations(range(4)))[: draw.draw(st.integers(1, 4))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)
        try:
            counts = cr.read_log(log, data, displays=complete)
        except CounterrankError:  # no row is of the data
            return
        found = counts.subset(chosen)
        if not found.n_impressions:
            assert found.sessions.tolist() == counts.sessions[list(chosen)].tolist()
            return
        same(found, cr.read_log(log, data.subset(chosen), displays=complete))
        parts = [counts.subset([query]) for query in range(4)]
    for name in ("n_sessions", "n_impressions", "n_clicks", "unknown_impressions"):
        assert sum(getattr(part, name) for part in parts) == getattr(counts, name)


def test_a_subset_of_simulated_clicks():
    counts = simulate(NEW, scores_of(NEW), UniformInsert(3), THETA, sessions=900, seed=3, displays=True,
                      relevance_threshold=3, policy_name="v1", propensities=True)  # fmt: skip
    chosen = [5, 1]
    found, data = counts.subset(chosen), NEW.subset(chosen)
    found.check_data(data)
    assert found.examination == counts.examination
    docs = np.concatenate([np.arange(*NEW.offsets[q : q + 2]) for q in chosen])
    assert found.by_document(found.clicks).tolist() == counts.by_document(counts.clicks)[docs].tolist()
    hidden = np.isin(docs, counts.unexaminable)
    assert found.unexaminable.tolist() == np.flatnonzero(hidden).tolist()
    weights = estimators.policy_oblivious(found, THETA)
    assert weights.tolist() == estimators.policy_oblivious(counts, THETA)[docs].tolist()
    whole = estimators.rerank(found, THETA)
    assert whole.weights.sum() == pytest.approx(weights.sum())
    evaluation.estimate(scores_of(data), data, found, metrics=["dcg@3"])


def test_saved_subsets_and_subsets_of_saved_counts(tmp_path):
    logs = write_parts(tmp_path / "logs")
    counts = cr.read_log(logs, NEW, displays=True)
    counts.save(tmp_path / "whole")
    counts.subset([0, 4]).save(tmp_path / "part")
    one, other = ClickCounts.load(tmp_path / "whole").subset([0, 4]), ClickCounts.load(tmp_path / "part")
    same(one, other)
    assert ids_of(one) == ids_of(other) == ids_of(counts.subset([0, 4]))
    same(counts.subset([4, 0]).subset([1]), counts.subset([0]))
    assert counts.subset(range(7)).identity == counts.identity


def test_policies_that_are_gone_are_not_named(tmp_path):
    logs = write_parts(tmp_path / "logs")
    counts = cr.read_log(logs, NEW, displays=True)
    assert counts.policy_names == ("v1", "v2")
    assert counts.subset([0]).policy_names == ("v2",)  # query 7 is new
    both = counts.subset([0, 1])
    assert both.policy_names == ("v1", "v2")
    assert both.only_policies(["v1"]).n_sessions == int(counts.policy_sessions[0, 1])


def test_sessions_of_other_queries_are_other_sessions(tmp_path):
    """What is learned from one half of the queries may be estimated on the other half, and not on itself."""
    write_log(NEW, scores_of(NEW), UniformInsert(3), THETA, tmp_path / "log.parquet", sessions=2000, seed=2)
    counts = cr.read_log(tmp_path / "log.parquet", NEW)
    first, second = counts.subset(slice(0, 4)), counts.subset(slice(4, None))
    assert shared_sessions(first.origin, second.origin) == 0.0
    assert shared_sessions(first.origin, counts.origin) == 1.0
    data, rest = NEW.subset(slice(0, 4)), NEW.subset(slice(4, None))
    weights = estimators.policy_oblivious(first, THETA)
    ranker = cr.Ranker(loss="arp-hinge", max_epochs=2, seed=0).fit(data, weights, clicks=first)
    ranker.save(tmp_path / "ranker")
    ranker = cr.Ranker.load(tmp_path / "ranker")
    rho = UniformInsert(3).propensity(scores_of(rest), rest.offsets, THETA)
    evaluation.estimate(ranker, rest, second, rho, metrics=["arp"])
    rho = UniformInsert(3).propensity(scores_of(data), data.offsets, THETA)
    with pytest.raises(CounterrankError, match="in_sample"):
        evaluation.estimate(ranker, data, first, rho, metrics=["arp"])


def test_aligned_and_joined_counts_know_whose_sessions_they_are(tmp_path):
    logs = write_parts(tmp_path / "logs")
    first = cr.read_log(logs / "v1.parquet", OLD)
    second = cr.read_log(logs / "v2.parquet", NEW)
    together = ClickCounts.concat([first.align(NEW), second])
    chosen = [1, 3, 5]
    whole = cr.read_log(logs, NEW.subset(chosen))
    found = together.subset(chosen)
    same(found, whole, ("origin", "unexaminable"))
    assert ids_of(found) == ids_of(whole)
    twice = ClickCounts.concat([second, replace(second, origin=None, policy_names=("v2",))])
    half = twice.subset([0])
    assert sum(source.sessions for source in half.origin.sources) == half.n_sessions
    assert [source.policy for source in half.origin.sources] == ["v2", "v2"]


def test_queries_by_their_ids(tmp_path):
    counts = cr.read_log(write_parts(tmp_path / "logs") / "v1.parquet", OLD)
    chosen = OLD.query_ids[[3, 0]]
    for ids in (chosen, chosen.tolist(), chosen.astype(object), pa.array(chosen)):
        same(counts.subset(ids), counts.subset([3, 0]))
    same(counts.subset(str(chosen[0])), counts.subset([3]))


def test_whole_numbers_are_indices_and_their_texts_ids(tmp_path):
    data = cr.RankingData(np.zeros((3, 1)), [0, 1, 2, 3], query_ids=[2, 0, 1017])
    table = pa.table({"session_id": [1, 2, 3], "query_id": [2, 0, 1017], "doc_id": [0] * 3, "rank": [1] * 3,
                      "clicked": [1, 0, 1]})  # fmt: skip
    counts = cr.read_log(table, data)
    assert counts.subset([2, 0]).query_ids.tolist() == [1017, 2]
    assert counts.subset(["2", "0"]).query_ids.tolist() == [2, 0]
    assert counts.subset(data.query_ids.astype(str)).identity == counts.identity
    with pytest.raises(CounterrankError, match=r"index 1017; expected 0 to 2 \(whole numbers are indices; .* '1017'"):
        counts.subset([1017])


def test_bad_input(tmp_path):
    logs = write_parts(tmp_path / "logs")
    counts = cr.read_log(logs / "v1.parquet", OLD)
    for queries, message in (
        ([], "queries: none chosen"),
        ([5], "queries: index 5; expected 0 to 4"),
        ([-1], "queries: index -1; expected 0 to 4"),
        ([1, 1], "queries: index 1 is chosen more than once"),
        (
            ["q 9", "q 1", "r"],
            "queries: 'q 9' is no query id .2 of 3 are none.; expected ids as in the data, such as 'q",
        ),
        (["q 1", "q 1"], "is chosen more than once"),
        ([["q 1"]], "expected query indices or a mask"),
        (["q 1", 2], "queries: 2 is no query id"),
        ([[1], [2]], "expected query indices or a mask"),
        (np.ones(3, bool), r"mask of shape \(3,\); expected \(5,\)"),
        ([[1], [2, 3]], "queries: cannot be made an array"),
    ):
        with pytest.raises(CounterrankError, match=message):
            counts.subset(queries)
    with pytest.raises(CounterrankError, match="counted against other data"):
        counts.subset([1, 2]).check_data(OLD.subset([2, 1]))
    with pytest.raises(CounterrankError, match="hold no ids of queries and documents"):
        replace(counts, query_ids=None, doc_ids=None).subset([1])
    with pytest.raises(CounterrankError, match=r"leave out 7 impressions .* of queries that are not known"):
        replace(counts, unknown_impressions=7).subset([1])


def test_what_was_counted_without_data(tmp_path):
    logs = write_parts(tmp_path / "logs")
    counts = cr.read_log(logs / "v1.parquet")
    found = counts.subset([1, 3])
    assert not found.knows_candidates
    assert found.query_ids.tolist() == counts.query_ids[[1, 3]].tolist()
    assert found.n_sessions == int(counts.sessions[[1, 3]].sum())
    assert shared_sessions(found.origin, counts.subset([0, 2]).origin) == 0.0


def test_unknown_documents_by_query_are_kept(tmp_path):
    logs = write_parts(tmp_path / "logs")
    best = [OLD.offsets[q] + int(scores_of(OLD.subset([q])).argmax()) for q in range(5)]
    less = cr.RankingData(np.zeros((5, 1)), np.arange(6), query_ids=OLD.query_ids, doc_ids=OLD.doc_ids[best])
    with pytest.warns(UserWarning, match="have a document that is not among"):
        counts = cr.read_log(logs / "v1.parquet", less)
    counts.save(tmp_path / "clicks")
    loaded = ClickCounts.load(tmp_path / "clicks")
    for each in (counts, loaded):
        assert sum(each.subset([q]).unknown_impressions for q in range(5)) == counts.unknown_impressions > 0
    both = ClickCounts.concat([counts, replace(counts, origin=None, unknown_impressions=0)])
    assert both.subset([2]).unknown_impressions == counts.subset([2]).unknown_impressions
    marker = tmp_path / "clicks" / "clicks.json"
    content = json.loads(marker.read_text())
    marker.write_text(json.dumps(content | {"unknown_impressions": 1}))
    with pytest.raises(CounterrankError, match="do not add up; the folder is damaged"):
        ClickCounts.load(tmp_path / "clicks")


# ---- folds


def make_fold(validation=True):
    parts = [NEW.subset([0, 1, 2]), NEW.subset([3, 4]) if validation else None, NEW.subset([5])]
    return cr.Fold(*parts)


@pytest.mark.parametrize("validation", [True, False])
def test_all_parts_of_a_fold_at_once(tmp_path, validation):
    logs = write_parts(tmp_path / "logs")
    fold = make_fold(validation)
    found = cr.read_log(logs, fold, displays=True)
    whole = cr.read_log(logs, NEW, displays=True)
    rest = [6] if validation else [3, 4, 6]
    same(found.train.subset(range(3)), whole.subset([0, 1, 2]))
    same(found.test.subset([0]), whole.subset([5]))
    if validation:
        same(found.validation.subset([0, 1]), whole.subset([3, 4]))
    else:
        assert found.validation is None
    assert isinstance(found.report, LogReport)
    assert found.report.unknown_queries == whole.subset(rest).n_impressions
    assert found.report.used + found.report.unknown_queries == found.report.rows
    assert f" rows used, {found.report.unknown_queries:,} of queries that are in no part)" in repr(found)
    assert "\n" not in repr(found)
    for part, data in ((found.train, fold.train), (found.test, fold.test)):
        part.check_data(data)


def test_a_part_without_clicks_and_a_query_in_two_parts(tmp_path):
    logs = write_parts(tmp_path / "logs")
    fold = cr.Fold(OLD.subset([0, 1]), None, NEW.subset([0]))
    found = cr.read_log(logs / "v1.parquet", fold)
    assert (found.test.n_sessions, found.test.n_impressions) == (0, 0)
    assert found.train.n_sessions > 0
    with pytest.raises(CounterrankError, match="is in several parts"):
        cr.read_log(logs, cr.Fold(NEW.subset([0]), None, NEW.subset([0])))
    with pytest.raises(CounterrankError, match="none of its rows belongs"):
        cr.read_log(logs / "v1.parquet", cr.Fold(NEW.subset([0]), None, NEW.subset([6])))
    with pytest.raises(CounterrankError, match="data: dict; expected RankingData, a Fold, or None"):
        cr.read_log(logs, {"train": OLD})
    reading = read_parts(logs, [NEW])
    assert reading.counts[0].n_sessions == 1100

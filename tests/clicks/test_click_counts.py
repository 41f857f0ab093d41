"""ClickCounts: adding up, putting together, saving and loading, and refusing what is damaged."""

import json
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.displays import Displays, merge_pages
from counterrank.clicks.examination import Examination, inverse_rank
from counterrank.clicks.policies import PlackettLuce, ReplaceLast, UniformInsert
from counterrank.clicks.simulation import simulate
from counterrank.common.errors import CounterrankError, MissingFileError

OFFSETS = [0, 1, 4, 9]
DATA = cr.RankingData(np.zeros((9, 1)), OFFSETS, labels=[0, 4, 0, 1, 0, 3, 0, 0, 4])
SCORES = np.array([1.0, 3.0, 2.0, 1.0, 5.0, 5.0, 4.0, 1.0, 0.0])
EXAM = inverse_rank(3)
COLUMNS = ("sessions", "docs", "ranks", "impressions", "clicks", "propensities", "policies", "policy_sessions")


def log_of(policy=None, seed=0, sessions=500, **more):
    return simulate(DATA, SCORES, policy or UniformInsert(3), EXAM, sessions=sessions, seed=seed, **more)


def same(a, b):
    for name in ("offsets", *COLUMNS):
        first, second = getattr(a, name), getattr(b, name)
        if first is None or second is None:
            assert first is second
        else:
            assert first.dtype == second.dtype
            assert (first == second).all()
    assert (a.displays is None) == (b.displays is None)
    if a.displays is not None:
        for name in ("offsets", "docs", "sessions", "clicks"):
            assert (getattr(a.displays, name) == getattr(b.displays, name)).all()
    assert a.identity == b.identity
    assert a.policy_names == b.policy_names
    assert a.examination == b.examination


def cells(log):
    """{(document, rank, policy name, propensity): (impressions, clicks)}"""
    names = [""] * len(log.docs) if log.policies is None else [log.policy_names[i] for i in log.policies]
    logged = np.zeros(len(log.docs)) if log.propensities is None else log.propensities
    keys = list(zip(log.docs.tolist(), log.ranks.tolist(), names, logged.tolist(), strict=True))
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, zip(log.impressions.tolist(), log.clicks.tolist(), strict=True), strict=True))


def pages(log):
    found = {}
    for i, sessions in enumerate(log.displays.sessions):
        part = slice(log.displays.offsets[i], log.displays.offsets[i + 1])
        page = tuple(log.displays.docs[part].tolist())
        assert page not in found
        found[page] = np.array([sessions, *log.displays.clicks[part]])
    return found


def test_sums_and_views():
    log = ClickCounts(
        identity="x",
        offsets=np.array([0, 2, 3]),
        sessions=np.array([4, 0]),
        docs=np.array([0, 0, 1]),
        ranks=np.array([1, 2, 1]),
        impressions=np.array([3, 1, 1]),
        clicks=np.array([2, 1, 0]),
    )
    assert (log.n_queries, log.n_docs, log.n_sessions, log.n_clicks, log.n_impressions) == (2, 3, 4, 3, 5)
    assert log.queries().tolist() == [0, 0, 0]
    assert log.by_document(log.clicks).tolist() == [3.0, 0.0, 0.0]
    assert log.by_rank(log.impressions).tolist() == [4.0, 1.0]
    assert repr(log) == "ClickCounts(4 sessions of 1 queries, 3 clicks on 1 of 3 documents)"
    assert log_of().queries().tolist() == [int(np.searchsorted(OFFSETS, d, side="right")) - 1 for d in log_of().docs]


def test_nothing_can_be_changed():
    log = log_of(displays=True, policy_name="a")
    for name in ("offsets", *COLUMNS):
        with pytest.raises(ValueError, match="read-only"):
            getattr(log, name)[...] = 0
        with pytest.raises(FrozenInstanceError):
            setattr(log, name, None)
    for name in ("offsets", "docs", "sessions", "clicks"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(log.displays, name)[...] = 0


def test_concat_adds_up():
    parts = [log_of(seed=seed, displays=True) for seed in range(4)]
    both = ClickCounts.concat(parts)
    assert (both.sessions == sum(part.sessions for part in parts)).all()
    expected = {}
    for part in parts:
        for key, value in cells(part).items():
            expected[key] = tuple(np.add(expected.get(key, (0, 0)), value).tolist())
    assert cells(both) == expected
    assert (np.diff(both.docs * 100 + both.ranks) > 0).all()
    shown = {}
    for part in parts:
        for page, counts in pages(part).items():
            shown[page] = shown.get(page, 0) + counts
    found = pages(both)
    assert found.keys() == shown.keys()
    assert all((found[page] == shown[page]).all() for page in shown)
    assert both.examination == EXAM
    assert both.policies is None
    assert both.policy_names == ()


def test_concat_in_any_order_and_grouping():
    a, b, c = (log_of(seed=seed) for seed in range(3))
    same(ClickCounts.concat([a, b, c]), ClickCounts.concat([c, a, b]))
    same(ClickCounts.concat([ClickCounts.concat([a, b]), c]), ClickCounts.concat([a, b, c]))
    same(ClickCounts.concat([a]), a)


def test_concat_keeps_policies_and_propensities_apart():
    a = log_of(ReplaceLast(3), seed=1, policy_name="a")
    b = log_of(PlackettLuce(3), seed=2, policy_name="b")
    unnamed = log_of(UniformInsert(3), seed=3)
    again = log_of(ReplaceLast(3), seed=4, policy_name="a")
    for order in ([a, b, unnamed, again], [unnamed, again, b, a], [ClickCounts.concat([b, a]), again, unnamed]):
        both = ClickCounts.concat(order)
        assert set(both.policy_names) == {"a", "b", ""}
        expected = {}
        for part in (a, b, unnamed, again):
            for key, value in cells(part).items():
                expected[key] = tuple(np.add(expected.get(key, (0, 0)), value).tolist())
        assert cells(both) == expected
        by_name = dict(zip(both.policy_names, both.policy_sessions, strict=True))
        assert (by_name["a"] == a.sessions + again.sessions).all()
        assert (by_name["b"] == b.sessions).all()
        assert (by_name[""] == unnamed.sessions).all()
        assert (both.policy_sessions.sum(axis=0) == both.sessions).all()
        order = np.lexsort((both.propensities, both.policies, both.ranks, both.docs))
        assert (order == np.arange(len(order))).all()
    # one name, two propensities: two cells
    other = replace(a, propensities=a.propensities / 2)
    assert len(ClickCounts.concat([a, other]).docs) == 2 * len(a.docs)


def test_concat_of_other_examination_forgets_it():
    other = simulate(DATA, SCORES, UniformInsert(3), Examination([1.0, 0.1]), sessions=10)
    assert ClickCounts.concat([log_of(), other]).examination is None


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (list, "clicks: an empty list"),
        (lambda: [log_of(), 3], "clicks 1: int; expected ClickCounts"),
        (lambda: [log_of(), replace(log_of(), identity="other")], "clicks 1: counted against other data than clicks 0"),
        (lambda: [log_of(), log_of(propensities=False)], "clicks 1: propensities kept in some parts and not in others"),
        (lambda: [log_of(displays=True), log_of()], "clicks 1: displays kept in some parts and not in others"),
    ],
)
def test_concat_of_what_does_not_go_together(parts, message):
    with pytest.raises(CounterrankError, match=message):
        ClickCounts.concat(parts())


def test_equal_pages_are_taken_together():
    offsets = np.array([0, 2, 3, 5, 7])
    given = Displays(offsets, np.array([3, 2, 0, 2, 3, 3, 2]), np.array([1, 2, 3, 4]), np.array([1, 0, 2, 1, 3, 4, 2]))
    once = merge_pages(np.array([0, 2, 4]), given)
    found = {
        tuple(once.docs[a:b].tolist()): (int(n), once.clicks[a:b].tolist())
        for a, b, n in zip(once.offsets[:-1], once.offsets[1:], once.sessions, strict=True)
    }
    assert found == {(0,): (2, [2]), (3, 2): (5, [5, 2]), (2, 3): (3, [1, 3])}
    assert once.docs[0] == 0  # in the order of queries
    assert once.n_pages == 3
    assert once.ranks().tolist() == [1, 1, 2, 1, 2]


LOGS = {
    "plain": lambda: log_of(propensities=False),
    "propensities": log_of,
    "displays": lambda: log_of(displays=True),
    "policies": lambda: ClickCounts.concat(
        [log_of(ReplaceLast(3), displays=True, policy_name="a"), log_of(displays=True, policy_name="b é")]
    ),
    "unknown examination": lambda: replace(log_of(), examination=None),
    "explicit examination": lambda: simulate(DATA, SCORES, ReplaceLast(2), [0.9, 0.1], sessions=20),
}


@pytest.mark.parametrize("make", LOGS.values(), ids=LOGS)
def test_saved_counts_come_back(make, tmp_path):
    log = make()
    log.save(tmp_path / "log")
    again = ClickCounts.load(tmp_path / "log")
    same(again, log)
    again.check_data(DATA)
    assert not again.docs.flags.writeable
    same(ClickCounts.concat([again, again]), ClickCounts.concat([log, log]))


def test_saving_replaces_older_counts_and_nothing_else(tmp_path):
    log_of(displays=True).save(tmp_path / "log")
    log_of(seed=5).save(tmp_path / "log")
    same(ClickCounts.load(tmp_path / "log"), log_of(seed=5))
    assert not (tmp_path / "log" / "pages.parquet").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "diary.txt").write_text("mine")
    with pytest.raises(CounterrankError):
        log_of().save(tmp_path / "other")
    assert [file.name for file in (tmp_path / "other").iterdir()] == ["diary.txt"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log", "other"]


def test_missing_counts(tmp_path):
    with pytest.raises(MissingFileError, match="click counts"):
        ClickCounts.load(tmp_path / "nothing")
    assert issubclass(MissingFileError, FileNotFoundError)
    with pytest.raises(CounterrankError, match=r"no clicks.json in it; expected a folder written by ClickCounts.save"):
        ClickCounts.load(tmp_path)


def edit_json(**changes):
    def edit(folder):
        content = json.loads((folder / "clicks.json").read_text())
        content.update(changes)
        (folder / "clicks.json").write_text(json.dumps({k: v for k, v in content.items() if v != "gone"}))

    return edit


def edit_table(name, column, change):
    def edit(folder):
        table = pq.read_table(folder / f"{name}.parquet")
        columns = {each: table[each].to_numpy().copy() for each in table.column_names}
        if change is None:
            del columns[column]
        else:
            columns[column] = change(columns[column])
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")

    return edit


def first(value):
    def change(values):
        values[0] = value
        return values

    return change


DAMAGES = {
    "json": (lambda folder: (folder / "clicks.json").write_text("{"), "clicks.json: not JSON"),
    "json list": (lambda folder: (folder / "clicks.json").write_text("[]"), "format is not 'counterrank-clicks'"),
    "json deep": (lambda folder: (folder / "clicks.json").write_text("[" * 100_000), "clicks.json: not JSON"),
    "format": (edit_json(format="other"), "format is not 'counterrank-clicks'"),
    "version": (edit_json(version=2), "version 2; this counterrank reads version 1, install a newer one"),
    "version text": (edit_json(version="1"), "version '1'"),
    "version bool": (edit_json(version=True), "version True"),
    "no identity": (edit_json(identity="gone"), "lacks or misuses 'identity'"),
    "names": (edit_json(policy_names=3), "lacks or misuses"),
    "names without policies": (edit_json(policy_names=["a"]), "lacks or misuses 'policy'"),
    "examination": (edit_json(examination={"sqrt": 1}), "lacks or misuses"),
    "examination values": (edit_json(examination={"values": [2.0]}), "examination: 2 at rank 1"),
    "examination type": (edit_json(examination=[1.0]), "lacks or misuses"),
    "no cells": (lambda folder: (folder / "cells.parquet").unlink(), "cells.parquet: missing"),
    "no pages": (lambda folder: (folder / "pages.parquet").unlink(), "pages.parquet: missing"),
    "no parquet": (lambda folder: (folder / "cells.parquet").write_bytes(b"abc"), "not a Parquet file"),
    "cut": (
        lambda folder: (folder / "cells.parquet").write_bytes((folder / "cells.parquet").read_bytes()[:-40]),
        "not a Parquet file",
    ),
    "column": (edit_table("cells", "rank", None), "lacks or misuses 'rank'"),
    "type": (edit_table("cells", "clicks", lambda values: values.astype(float)), "column 'clicks' has type double"),
    "propensity type": (edit_table("cells", "propensity", lambda values: values.astype(np.float32)), "has type float"),
    "doc": (edit_table("cells", "doc", lambda values: values + 5), "a doc outside 0 to 8"),
    "negative doc": (edit_table("cells", "doc", first(-1)), "a doc outside 0 to 8"),
    "rank": (edit_table("cells", "rank", first(0)), "a rank outside 1 to 9"),
    "impressions": (edit_table("cells", "impressions", first(-1)), "a impressions outside 0"),
    "clicks": (edit_table("cells", "clicks", lambda values: values + 10**6), "more clicks than impressions"),
    "negative clicks": (edit_table("cells", "clicks", first(-1)), "more clicks than impressions, or fewer than 0"),
    "order": (edit_table("cells", "doc", lambda values: values[::-1]), "not in the order of document and rank"),
    "propensity": (edit_table("cells", "propensity", first(1.5)), "a propensity outside 0 to 1"),
    "nan": (edit_table("cells", "propensity", first(np.nan)), "a propensity outside 0 to 1"),
    "sessions": (edit_table("queries", "sessions", first(-3)), "a sessions outside 0"),
    "documents": (edit_table("queries", "documents", first(0)), "each with at least one document"),
    "page": (edit_table("pages", "documents", first(4)), "pages of .* places, but .* are there"),
    "page's doc": (edit_table("places", "doc", first(99)), "a page's doc outside 0 to 8"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_damaged_folders_are_refused(damage, message, tmp_path):
    log_of(displays=True).save(tmp_path / "log")
    damage(tmp_path / "log")
    with pytest.raises(CounterrankError, match=message):
        ClickCounts.load(tmp_path / "log")


def test_other_data_is_refused():
    log = log_of()
    log.check_data(DATA)
    renamed = cr.RankingData(np.zeros((9, 1)), OFFSETS, query_ids=[5, 6, 7])
    for other in (renamed, DATA.subset([0, 1]), cr.RankingData(np.zeros((9, 1)), [0, 2, 4, 9])):
        with pytest.raises(CounterrankError, match="clicks: counted against other data, of 3 queries and 9 documents"):
            log.check_data(other)
    with pytest.raises(CounterrankError, match="validation: counted against other data"):
        log.check_data(renamed, "validation")
    with pytest.raises(CounterrankError, match="data: int; expected RankingData"):
        log.check_data(3)
    features = cr.RankingData(np.ones((9, 2)), OFFSETS)
    log.check_data(features)  # other features and labels of the same documents are the same data


def test_as_a_table():
    log = ClickCounts.concat([log_of(), log_of(seed=1)])
    found = log.to_arrow()
    assert found.column_names == ["query_id", "doc_id", "rank", "impressions", "clicks", "propensity"]
    assert found["doc_id"].to_pylist() == DATA.doc_ids[log.docs].tolist()
    assert found["query_id"].to_pylist() == np.repeat(DATA.query_ids, DATA.lengths)[log.docs].tolist()
    assert found["propensity"].to_pylist() == log.propensities.tolist()
    assert found["clicks"].to_pylist() == log.clicks.tolist()
    named = replace(log, policies=log.docs % 2, policy_names=("old", "new"))
    assert named.to_arrow()["policy"].to_pylist() == [("old", "new")[doc % 2] for doc in log.docs]
    with pytest.raises(CounterrankError, match=r"hold no ids .* count the log again to show them"):
        replace(log, doc_ids=None).to_arrow()

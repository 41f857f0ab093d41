"""Simulated clicks as a log on disk: its columns, its distribution, and that it appears whole or not at all.

Seeds are fixed; each p-value must be above 1e-8.
"""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.clicks import simulation as log_writer
from counterrank.clicks.examination import Examination
from counterrank.clicks.policies import (
    Deterministic,
    EpsilonGreedy,
    Explicit,
    Mixture,
    PlackettLuce,
    ReplaceLast,
    UniformInsert,
)
from counterrank.clicks.simulation import ClickModel, simulate, write_log
from counterrank.common.errors import CounterrankError
from tests.clicks.test_policies import MIXED
from tests.clicks.test_simulation import DATA, LENGTHS, NOISY, PAGES, SCORES, THETA, brief, world_of
from tests.reference.simulation import World, alike, counted, fits

RARE = 1e-8
POLICIES = [
    Deterministic(3),
    ReplaceLast(3),
    EpsilonGreedy(3, 0.4),
    UniformInsert(3),
    PlackettLuce(3),
    PAGES,
    Mixture([PAGES, PlackettLuce(2), UniformInsert(4)], [0.4, 0.3, 0.3]),
    MIXED[2],
]


def written(path, policy=None, sessions=1000, data=DATA, **more):
    rows = write_log(data, SCORES, policy or ReplaceLast(3), THETA, path, sessions=sessions, click_model=NOISY, **more)
    table = pq.read_table(path)
    assert table.num_rows == rows
    return table


def test_columns_and_types(tmp_path):
    table = written(tmp_path / "log.parquet")
    assert table.schema.names == ["session_id", "query_id", "doc_id", "rank", "clicked", "propensity"]
    assert pa.types.is_integer(table.schema.field("session_id").type)
    assert pa.types.is_integer(table.schema.field("query_id").type)
    assert pa.types.is_integer(table.schema.field("doc_id").type)
    assert pa.types.is_integer(table.schema.field("rank").type)
    assert table.schema.field("clicked").type == pa.bool_()
    assert table.schema.field("propensity").type == pa.float64()
    assert all(column.null_count == 0 for column in table.columns)
    both = written(tmp_path / "both.parquet", display_probabilities=True)
    assert both.schema.names[-2:] == ["propensity", "display_probability"]
    assert written(tmp_path / "bare.parquet", propensities=False).schema.names[-1] == "clicked"


def test_sessions_are_whole_pages_in_order(tmp_path):
    table = written(tmp_path / "log.parquet", PAGES, sessions=3000)
    session, rank, query = (table[name].to_numpy() for name in ("session_id", "rank", "query_id"))
    assert (np.diff(session) >= 0).all()
    assert sorted(set(session.tolist())) == list(range(3000))
    begins = np.flatnonzero(np.diff(session, prepend=-1))
    expected = np.arange(len(session)) - np.repeat(begins, np.diff(np.append(begins, len(session)))) + 1
    assert (rank == expected).all()
    assert (query == np.repeat(query[begins], np.diff(np.append(begins, len(session))))).all()
    assert len(set(zip(session.tolist(), table["doc_id"].to_pylist(), strict=True))) == len(session)
    assert len(set(query[begins][:20].tolist())) > 1  # queries come in random order


def test_ids_of_the_data(tmp_path):
    texts = cr.RankingData(
        np.zeros((11, 1)),
        DATA.offsets,
        labels=DATA.labels,
        query_ids=["q one", "q2", "é", "4"],
        doc_ids=[f"d{i}" for i in range(11)],
    )
    numbers = cr.RankingData(
        np.zeros((11, 1)), DATA.offsets, labels=DATA.labels, query_ids=[70, 5, 6, -1], doc_ids=np.arange(11) * 10**12
    )
    plain = written(tmp_path / "plain.parquet", sessions=300)
    rows = DATA.offsets[plain["query_id"].to_numpy()] + plain["doc_id"].to_numpy()
    for data, name in ((texts, "texts"), (numbers, "numbers")):
        table = written(tmp_path / f"{name}.parquet", sessions=300, data=data)
        assert table["query_id"].to_pylist() == [data.query_ids[q] for q in plain["query_id"].to_pylist()]
        assert table["doc_id"].to_pylist() == [data.doc_ids[row] for row in rows]
    assert pa.types.is_string(pq.read_schema(tmp_path / "texts.parquet").field("query_id").type)


def outcomes(table):
    """{query: {(page, clicks): sessions}} of a log of the data above."""
    rows = DATA.offsets[table["query_id"].to_numpy()] + table["doc_id"].to_numpy()
    session, clicked = table["session_id"].to_numpy(), table["clicked"].to_numpy().astype(int)
    begins = [*np.flatnonzero(np.diff(session, prepend=-1)), len(session)]
    found = {query: Counter() for query in range(len(LENGTHS))}
    for a, b in itertools.pairwise(begins):
        found[int(table["query_id"][int(a)].as_py())][tuple(rows[a:b].tolist()), tuple(clicked[a:b].tolist())] += 1
    return found


@pytest.mark.statistical
@pytest.mark.parametrize("policy", POLICIES, ids=brief)
def test_whole_sessions_have_their_probabilities(policy, tmp_path):
    """Page and clicks of a session together: that clicks on its ranks are independent is in there."""
    table = written(tmp_path / "log.parquet", policy, sessions=3000, seed=4)
    found, world = outcomes(table), world_of(policy)
    assert fits({q: sum(each.values()) for q, each in found.items()}, dict(enumerate(world.shares))) > RARE
    for query, seen in found.items():
        assert fits(seen, world.outcomes(query)) > RARE
    off = World(LENGTHS, SCORES, policy, [0.7, 0.7, 0.5, 0.4], world.attraction)
    assert min(fits(seen, off.outcomes(query)) for query, seen in found.items()) < RARE


@pytest.mark.statistical
@pytest.mark.parametrize("policy", [ReplaceLast(3), PlackettLuce(3), PAGES], ids=brief)
def test_added_up_it_is_alike_what_simulate_counts(policy, tmp_path):
    table = written(tmp_path / "log.parquet", policy, sessions=4000, seed=1)
    counts = counted(simulate(DATA, SCORES, policy, THETA, sessions=100_000, seed=2, click_model=NOISY, displays=True))
    found = outcomes(table)
    shown, cells, clicks = Counter(), Counter(), Counter()
    for each in found.values():
        for (page, clicked), n in each.items():
            shown[page] += n
            for rank, (doc, click) in enumerate(zip(page, clicked, strict=True), 1):
                cells[doc, rank] += n
                clicks[doc, rank] += n * click
    assert alike(shown, counts.pages) > RARE
    for cell, n in cells.items():
        both = [{1: c[cell], 0: m[cell] - c[cell]} for c, m in ((clicks, cells), (counts.clicks, counts.impressions))]
        assert alike(*both) > RARE
        assert n > 0


@pytest.mark.parametrize("policy", POLICIES, ids=brief)
def test_propensities_and_display_probabilities_are_exact(policy, tmp_path):
    table = written(tmp_path / "log.parquet", policy, sessions=400, display_probabilities=True)
    known = Mixture([policy], [1.0]) if isinstance(policy, dict) else policy
    rows = DATA.offsets[table["query_id"].to_numpy()] + table["doc_id"].to_numpy()
    rho = known.propensity(SCORES, DATA.offsets, Examination(THETA))
    assert (table["propensity"].to_numpy() == rho[rows]).all()
    shown = known.rank_probabilities(SCORES, DATA.offsets, 5)[rows, table["rank"].to_numpy() - 1]
    assert table["display_probability"].to_numpy() == pytest.approx(shown, rel=1e-12)
    assert (shown > 0.0).all()


def test_seeds_and_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(log_writer, "_CHUNK", 6000)  # several chunks, each large enough to be split over threads
    for policy in (ReplaceLast(3), PlackettLuce(3)):
        first = written(tmp_path / "a.parquet", policy, sessions=20_000, seed=3, threads=1)
        assert written(tmp_path / "b.parquet", policy, sessions=20_000, seed=3, threads=3).equals(first)
        assert not written(tmp_path / "c.parquet", policy, sessions=20_000, seed=4).equals(first)
        begun = written(tmp_path / "d.parquet", policy, sessions=12_000, seed=3)
        assert first.slice(0, begun.num_rows).equals(begun)
        assert first["session_id"].to_numpy()[-1] == 19_999


@pytest.mark.statistical
def test_chunks_differ_from_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(log_writer, "_CHUNK", 500)
    table = written(tmp_path / "log.parquet", sessions=1000, seed=0)
    session = table["session_id"].to_numpy()
    first, second = (table.filter(pa.array(mask)) for mask in (session < 500, session >= 500))
    assert first["query_id"].to_pylist() != second["query_id"].to_pylist()
    assert min(fits(seen, world_of(ReplaceLast(3)).outcomes(q)) for q, seen in outcomes(table).items()) > RARE


def test_query_frequencies_and_click_models(tmp_path):
    path = tmp_path / "log.parquet"
    write_log(
        DATA, SCORES, Deterministic(), [1.0] * 5, path, sessions=500, query_frequencies=[0, 1, 0, 3],
        click_model=ClickModel(1.0, 0.0), relevance_threshold=4,
    )  # fmt: skip
    table = pq.read_table(path)
    assert set(table["query_id"].to_pylist()) == {1, 3}
    rows = DATA.offsets[table["query_id"].to_numpy()] + table["doc_id"].to_numpy()
    assert (table["clicked"].to_numpy() == (DATA.labels[rows] >= 4)).all()


class Breaks(UniformInsert):
    """A policy of one's own that fails after some calls."""

    calls = 0

    def components(self):
        from counterrank.clicks.policies.pages import Component

        return [Component(1.0, custom=self)]

    def sample(self, scores, offsets, seed=0):
        Breaks.calls += 1
        if Breaks.calls > 40:
            raise RuntimeError("broken")
        return UniformInsert(self.k).sample(scores, offsets, seed)

    def propensity(self, scores, offsets, exam, *, threads=None):
        return UniformInsert(self.k).propensity(scores, offsets, exam)


def test_a_failure_midway_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(log_writer, "_CHUNK", 20)
    Breaks.calls = 0
    path = tmp_path / "log.parquet"
    with pytest.raises(RuntimeError, match="broken"):
        write_log(DATA, SCORES, Breaks(3), THETA, path, sessions=10_000)
    assert Breaks.calls > 40
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"older")
    with pytest.raises(RuntimeError, match="broken"):
        write_log(DATA, SCORES, Breaks(3), THETA, path, sessions=10_000)
    assert path.read_bytes() == b"older"
    assert [file.name for file in tmp_path.iterdir()] == ["log.parquet"]


GIVEN = {"data": DATA, "scores": SCORES, "policy": ReplaceLast(3), "exam": THETA, "sessions": 10}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"data": None}, "data: NoneType; expected RankingData"),
        ({"scores": [1.0]}, "scores: 1 entries; expected 11"),
        ({"policy": 3}, "policy: int; expected a policy"),
        ({"policy": Explicit([[0]], [1.0])}, "Explicit serves one query"),
        ({"exam": 3}, "exam: int; expected an examination curve"),
        ({"sessions": 0}, "sessions=0: expected a whole number from 1 to 10"),
        ({"sessions": True}, "sessions=True: expected a whole number"),
        ({"sessions": 1.5}, "sessions=1.5: expected a whole number"),
        ({"seed": -1}, "seed=-1: expected a whole number of at least 0"),
        ({"relevance_threshold": 9}, "relevance_threshold=9: no document is relevant"),
        ({"click_model": 3}, "click_model: int; expected ClickModel"),
        ({"query_frequencies": [1.0]}, "query_frequencies: 1 entries; expected 4"),
        ({"threads": 0}, "threads=0"),
    ],
)
def test_bad_arguments(changed, message, tmp_path):
    arguments = GIVEN | changed
    positional = [arguments.pop(name) for name in ("data", "scores", "policy", "exam")]
    with pytest.raises(CounterrankError, match=message):
        write_log(*positional, tmp_path / "log.parquet", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_way(tmp_path):
    with pytest.raises(CounterrankError, match="is a folder, expected a file to write"):
        write_log(DATA, SCORES, ReplaceLast(3), THETA, tmp_path, sessions=10)

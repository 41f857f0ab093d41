"""The log after the first deployment: sessions of some policies, and counts of data that has grown."""

import shlex
from dataclasses import fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank import estimators
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.logs.columns import LogOptions
from counterrank.clicks.origin import shared_sessions, too_few_to_tell
from counterrank.clicks.policies import Deterministic, UniformInsert
from counterrank.clicks.simulation import simulate, write_log
from counterrank.common.errors import CounterrankError, DataError
from tests.support.command import as_json, attempt, invoke
from tests.support.spark_cluster import needs_spark

THETA = [1.0, 0.5, 0.25]
RNG = np.random.default_rng(0)


def make_data(queries, documents):
    """Each query with the documents of its id, features by id, so that data that grew holds the older data."""
    ids = [[f"d{q}-{d}" for d in documents(q)] for q in queries]
    offsets = np.concatenate(([0], np.cumsum([len(each) for each in ids])))
    flat = [each for own in ids for each in own]
    values = np.array([[sum(map(ord, each)) % 17, len(each)] for each in flat], float)
    labels = np.array([sum(map(ord, each)) % 5 for each in flat], float)
    return cr.RankingData(values, offsets, labels=labels, query_ids=[f"q {q}" for q in queries], doc_ids=flat)


OLD = make_data(range(5), lambda q: range(4 + q))
# more queries, more documents, another order of both
NEW = make_data([7, 3, 1, 0, 4, 2, 9], lambda q: range(8 + q)[::-1])


def scores_of(data):
    return data.features[:, 0].astype(float)


def write_parts(folder, displays=False):
    """v1 on the old data, then v2 on the new data, as two logs, and as one."""
    folder.mkdir(exist_ok=True)
    write_log(
        OLD, scores_of(OLD), Deterministic(3), THETA, folder / "v1.parquet", sessions=400, seed=1, policy_name="v1"
    )
    write_log(
        NEW, scores_of(NEW), UniformInsert(3), THETA, folder / "v2.parquet", sessions=700, seed=2, policy_name="v2",
        first_session=400,
    )  # fmt: skip
    return folder


def same(one, other, leave_out=("origin",)):
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name in leave_out:
            continue
        if field.name == "displays" and a is not None:
            same(a, b)
        elif isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b, err_msg=field.name)
        else:
            assert a == b, field.name


@pytest.mark.parametrize("displays", [False, True])
def test_aligned_counts_put_together_are_those_of_one_log(tmp_path, displays):
    logs = write_parts(tmp_path / "logs")
    first = cr.read_log(logs / "v1.parquet", OLD, displays=displays)
    second = cr.read_log(logs / "v2.parquet", NEW, displays=displays)
    with pytest.raises(CounterrankError, match=r"counted against other data than clicks 0; .*align\(data\)"):
        ClickCounts.concat([second, first])
    together = ClickCounts.concat([first.align(NEW), second])
    whole = cr.read_log(logs, NEW, displays=displays)
    same(together, whole)
    assert shared_sessions(together.known_origin(), whole.known_origin()) == 1.0
    assert (estimators.policy_aware(together, exam=THETA) == estimators.policy_aware(whole, exam=THETA)).all()
    together.save(tmp_path / "kept")
    loaded = ClickCounts.load(tmp_path / "kept")
    same(loaded, whole)
    assert loaded.known_origin().describe() == together.known_origin().describe()


def test_the_same_sessions_are_not_counted_twice(tmp_path):
    logs = write_parts(tmp_path / "logs")
    counts = cr.read_log(logs / "v1.parquet", OLD)
    with pytest.raises(CounterrankError, match="clicks 1: 100% of its sessions are in the others too"):
        ClickCounts.concat([counts, counts])
    half = pq.read_table(logs / "v1.parquet").filter(pa.compute.field("session_id") < 200)
    pq.write_table(half, tmp_path / "half.parquet")
    with pytest.raises(CounterrankError, match="clicks 1: 50% of its sessions"):
        ClickCounts.concat([cr.read_log(tmp_path / "half.parquet", OLD), counts])


def test_counts_that_left_documents_out_are_not_aligned(tmp_path):
    """The catalogue was refreshed after the log: its new documents would come back as never shown."""
    logs = write_parts(tmp_path / "logs")
    fewer = make_data([7, 3, 1, 0, 4, 2, 9], lambda q: range(7 + q))
    with pytest.warns(UserWarning, match="a document that is not among the candidates"):
        counts = cr.read_log(logs / "v2.parquet", fewer)
    assert counts.unknown_impressions > 0
    with pytest.raises(CounterrankError, match=r"leave out [\d,]+ impressions .*count the log again"):
        counts.align(NEW)
    with pytest.warns(UserWarning, match="impressions .*are of documents that the data does not have"):
        estimators.policy_aware(counts, np.full(fewer.n_docs, 0.01))


def test_align_onto_the_same_data_changes_nothing(tmp_path):
    counts = cr.read_log(write_parts(tmp_path / "logs") / "v1.parquet", OLD, displays=True)
    same(counts.align(OLD), counts)


def test_align_of_simulated_counts_knows_who_could_not_be_seen():
    old = simulate(OLD, scores_of(OLD), Deterministic(3), THETA, sessions=100, seed=0)
    new = old.align(NEW)
    hidden = {
        (str(NEW.query_ids[np.searchsorted(NEW.offsets, row, "right") - 1]), str(NEW.doc_ids[row]))
        for row in new.unexaminable
    }
    shown = {str(NEW.doc_ids[row]) for row in np.unique(new.docs)}
    assert len(hidden) == NEW.n_docs - 5 * 3  # all but the top three of the five queries there were
    assert not shown & {doc for _, doc in hidden}
    assert new.n_clicks == old.n_clicks
    assert new.by_rank(new.impressions).tolist() == old.by_rank(old.impressions).tolist()


def test_what_cannot_be_aligned(tmp_path):
    counts = cr.read_log(write_parts(tmp_path / "logs") / "v1.parquet", OLD)
    with pytest.raises(CounterrankError, match="data: lacks 1 of the logged queries, such as 'q 2';"):
        counts.align(NEW.subset([1, 2, 3, 4]))
    small = make_data(range(5), lambda q: range(2))
    with pytest.raises(
        CounterrankError, match=r"data: lacks \d+ of the documents that were shown, such as 'd\d-\d' of query 'q"
    ):
        counts.align(small)
    with pytest.raises(CounterrankError, match="data: list; expected RankingData"):
        counts.align([])
    with pytest.raises(CounterrankError, match=r"hold no ids of queries and documents .*count the log again"):
        replace(counts, query_ids=None, doc_ids=None).align(NEW)


def check_only_some_policies(tmp_path, displays, engine):
    """Rows of other policies are not looked at: v1 of an older logger has no propensities at all."""
    logs = write_parts(tmp_path / "logs")
    table = pq.read_table(logs / "v1.parquet")
    unknown = pa.nulls(len(table), pa.float64())
    pq.write_table(table.set_column(table.column_names.index("propensity"), "propensity", unknown), logs / "v1.parquet")
    with pytest.raises(DataError, match="rows have no propensity"):
        cr.read_log(logs, NEW, engine=engine)
    found = cr.read_log(logs, NEW, displays=displays, only_policies=["v2"], engine=engine)
    expected = cr.read_log(logs / "v2.parquet", NEW, displays=displays)
    same(found, expected)
    assert [source.policy for source in found.known_origin().sources] == ["v2"]


@pytest.mark.parametrize("displays", [False, True])
def test_only_some_policies_of_a_log(tmp_path, displays):
    check_only_some_policies(tmp_path, displays, "duckdb")


@needs_spark
def test_only_some_policies_of_a_log_on_spark(local_spark, tmp_path):
    check_only_some_policies(tmp_path, False, "spark")  # with pages it is the same SQL


def test_policies_that_a_log_does_not_have(tmp_path):
    logs = write_parts(tmp_path / "logs")
    with pytest.raises(DataError, match="no rows of policy \"it's\"; the log has 'v1', 'v2'"):
        cr.read_log(logs, NEW, only_policies=["v1", "it's"])
    table = pq.read_table(logs / "v1.parquet").drop_columns(["policy"])
    pq.write_table(table, tmp_path / "nameless.parquet")
    with pytest.raises(DataError, match="no column 'policy' to choose v1 by"):
        cr.read_log(tmp_path / "nameless.parquet", OLD, only_policies=["v1"])
    with pytest.raises(CounterrankError, match="only_policies='v1': expected a list of names"):
        LogOptions(only_policies="v1")


def test_names_with_quotes_are_names(tmp_path):
    for name in ("it's", 'a "b"', "c\\d", "%"):
        write_log(OLD, scores_of(OLD), Deterministic(2), THETA, tmp_path / "log.parquet", sessions=20, policy_name=name)
        assert cr.read_log(tmp_path / "log.parquet", OLD, only_policies=[name]).policy_names == (name,)


def test_counts_written_before_have_no_ids_and_no_origin(tmp_path):
    """A folder of version 0.1: pages without policies, no ids, no origin."""
    import json

    counts = simulate(
        OLD, scores_of(OLD), Deterministic(3), THETA, sessions=100, seed=0, displays=True, policy_name="v1"
    )
    counts.save(tmp_path / "kept")
    (tmp_path / "kept" / "documents.parquet").unlink()
    for name, column in (("queries", "query_id"), ("pages", "policy")):
        file = tmp_path / "kept" / f"{name}.parquet"
        pq.write_table(pq.read_table(file).drop_columns([column]), file)
    marker = tmp_path / "kept" / "clicks.json"
    content = json.loads(marker.read_text())
    del content["origin"]
    marker.write_text(json.dumps(content))
    old = ClickCounts.load(tmp_path / "kept")
    assert old.query_ids is None
    assert old.displays.policies is None
    assert old.known_origin().sources[0].content == counts.known_origin().sources[0].content
    both = ClickCounts.concat([counts, replace(counts, policy_names=("v2",))])
    with pytest.raises(CounterrankError, match="displayed pages were kept without the policy"):
        replace(both, displays=replace(both.displays, policies=None)).only_policies(["v1"])


def test_the_origin_of_a_log(tmp_path):
    rows = [
        f"{session},q,{doc},{rank},{click},2026-03-{1 + session:02d} 10:00:0{rank}"
        for session in range(9)
        for rank, (doc, click) in enumerate((("a", session % 2), ("b", 0)), 1)
    ]
    file = tmp_path / "log.csv"
    file.write_text("\n".join(["session_id,query_id,doc_id,rank,clicked,timestamp", *rows]) + "\n")
    origin = cr.read_log(file).known_origin()
    assert origin.paths == (str(file),)
    assert (origin.first, origin.last) == ("2026-03-01T10:00:01Z", "2026-03-09T10:00:02Z")
    assert origin.sources[0].sessions == 9
    assert len(origin.sources[0].sample.ids.hashes) == 9
    half = tmp_path / "half.csv"
    half.write_text(
        "\n".join(["session_id,query_id,doc_id,rank,clicked", *(row.rpartition(",")[0] for row in rows[:8])]) + "\n"
    )
    part = cr.read_log(half).known_origin()
    assert shared_sessions(origin, part) == pytest.approx(4 / 9)
    assert shared_sessions(part, origin) == 1.0


@pytest.mark.statistical
def test_a_sample_of_many_sessions_estimates_how_many_are_shared(tmp_path):
    """40,000 sessions, half of them the same: of about 16,000 in the sample half are, standard error 0.004."""
    for name, first in (("one", 0), ("other", 20_000)):
        write_log(OLD, scores_of(OLD), UniformInsert(2), THETA, tmp_path / f"{name}.parquet", sessions=40_000, seed=3)
        table = pq.read_table(tmp_path / f"{name}.parquet")
        kept = table.filter(pa.compute.greater_equal(table["session_id"], first)).to_pydict()
        if first:  # new sessions in the place of those left out
            low = table.filter(pa.compute.less(table["session_id"], first)).to_pydict()
            low["session_id"] = [f"new {i}" for i in low["session_id"]]
            low["clicked"] = [not each for each in low["clicked"]]
            kept = {key: [*(map(str, kept[key]) if key == "session_id" else kept[key]), *low[key]] for key in kept}
        pq.write_table(pa.table(kept), tmp_path / f"{name}.parquet")
    one, other = (cr.read_log(tmp_path / f"{name}.parquet", OLD).known_origin() for name in ("one", "other"))
    assert 8000 < len(one.sources[0].sample.ids.hashes) <= 16384
    assert shared_sessions(one, other) == pytest.approx(0.5, abs=0.04)
    assert shared_sessions(one.reduced(200), other) == pytest.approx(0.5, abs=0.2)
    assert too_few_to_tell(one.reduced(4), other)
    assert not too_few_to_tell(one, other)


@pytest.mark.parametrize("name", ["{}", "s-{}", "0{}", "-1{}"])
def test_numbers_and_their_texts_are_one_session(tmp_path, name):
    """40,000 sessions, so that not all are in the sample; as numbers, if they are, and as texts in CSV."""
    write_log(OLD, scores_of(OLD), UniformInsert(2), THETA, tmp_path / "log.parquet", sessions=40_000, seed=3)
    table = pq.read_table(tmp_path / "log.parquet")
    ids = [name.format(i) for i in table["session_id"].to_pylist()]
    pa.csv.write_csv(table.set_column(0, "session_id", pa.array(ids)), tmp_path / "log.csv")
    numbers = [int(i) for i in ids] if name in ("{}", "-1{}") else ids
    pq.write_table(table.set_column(0, "session_id", pa.array(numbers)), tmp_path / "log.parquet")
    one, other = (cr.read_log(tmp_path / f"log.{kind}", OLD).known_origin() for kind in ("parquet", "csv"))
    assert shared_sessions(one, other, by_content=False) == 1.0
    assert one.sources[0].sample.describe() == other.sources[0].sample.describe()
    assert 15_000 < len(one.sources[0].sample.ids.hashes) <= 16_384


def test_session_numbers_that_begin_again_are_not_the_same_sessions(tmp_path):
    for seed in (1, 2):
        write_log(OLD, scores_of(OLD), UniformInsert(3), THETA, tmp_path / f"{seed}.parquet", sessions=3000, seed=seed)
    one, other = (cr.read_log(tmp_path / f"{seed}.parquet", OLD).known_origin() for seed in (1, 2))
    assert shared_sessions(one, other) == 0.0


def test_one_policy_fitted_to_the_pages_of_several_is_warned_about(tmp_path):
    from counterrank.clicks.policies import fit_plackett_luce

    counts = cr.read_log(write_parts(tmp_path / "logs"), NEW, displays=True)
    assert counts.active_policies == ("v1", "v2")
    with pytest.warns(UserWarning, match=r"of several policies \('v1', 'v2'\), .*--only-policy v2"):
        fit_plackett_luce(NEW, counts)


def test_display_probabilities_of_several_policies(tmp_path):
    from counterrank.clicks.logs.log_reader import read_display_probabilities

    for name in ("v1", "v2"):
        write_log(OLD, scores_of(OLD), UniformInsert(3), THETA, tmp_path / f"{name}.parquet", sessions=50,
                  policy_name=name, display_probabilities=True, first_session=50 * (name == "v2"))  # fmt: skip
    with pytest.raises(
        DataError, match=r"several policies \('v1', 'v2'\), whose display probabilities cannot be taken"
    ):
        read_display_probabilities(tmp_path)
    found = read_display_probabilities(tmp_path, LogOptions(only_policies=["v2"]))
    assert found.impressions.sum() == read_display_probabilities(tmp_path / "v2.parquet").impressions.sum()


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """Logs of v1 and v2 on a fold, and their counts, written with the command."""
    path = tmp_path_factory.mktemp("deployed")
    data = "synthetic:mslr:queries=60"
    invoke("train", data, "--share", "0.1", "--max-epochs", "2", "--validation", "none", "--out", path / "production")
    for name, policy, first in (("v1", "deterministic:k=5", 0), ("v2", "uniform-insert:k=5", 100_000)):
        invoke(
            "simulate", data, "--logger", path / "production", "--policy", policy, "--sessions", "20000", "--held-out",
            "0.5", "--log", "--policy-name", name, "--first-session", first, "--out", path / "logs" / name,
        )  # fmt: skip
        invoke("aggregate", path / "logs" / name, "--data", data, "--displays", "--out", path / "counts" / name)
    return path


def test_the_command_on_logs_of_two_policies(deployed):
    data, log = "synthetic:mslr:queries=60", ("--log", f"{deployed}/logs/*/*.parquet")
    counts = ("--clicks", deployed / "counts" / "v1", "--clicks", deployed / "counts" / "v2")
    small = ("--k", "5", "--max-epochs", "2", "--out", deployed / "ranker", "--force")
    for clicks in (log, counts):
        for command in (
            ("train", data, *clicks, *small),
            ("estimate", deployed / "production", data, *clicks),
            ("select", data, deployed / "production", *clicks),
            ("train", data, *clicks, "--estimator", "auto", *small),
        ):
            with pytest.raises(CounterrankError, match=r"several policies \('v1', 'v2'\).*--only-policy v2"):
                attempt(*command)
    shown = as_json("inspect", log[1], "--data", data)
    finding = next(each for each in shown["verdict"] if each["about"] == "policy-aware")
    assert finding["level"] == "bad"
    assert "several policies ('v1', 'v2')" in finding["text"]

    ranked = ("--logger", deployed / "production", "--examination", "inverse-rank:eta=1")
    named = ("--policy", "v1=deterministic:k=5", "--policy", "v2=uniform-insert:k=5", *ranked)
    for options in (named, ("--examination", "inverse-rank:eta=1"), ("--only-policy", "v2")):
        found = [
            as_json("estimate", deployed / "production", data, *clicks, *options)["estimates"]["dcg@5"]
            for clicks in (log, counts)
        ]
        assert found[0] == found[1]
        hint = invoke("train", data, *counts, *options, *small).stderr.partition("Next: counterrank ")[2]
        assert ("--only-policy v2" in hint) == (options[0] == "--only-policy")
        invoke(*shlex.split(hint))  # as it stands
        invoke("select", data, deployed / "production", *counts, *options)
    assert found[0]["n_sessions"] == 10_000  # those of v2 on the test part
    assert as_json("inspect", deployed / "counts" / "v2", "--only-policy", "v2")["overview"]["policies"] == ["v2"]
    message = "display frequencies are used as propensities"
    assert message in invoke("estimate", deployed / "production", data, *counts, "--examination", "inverse-rank").stderr
    with pytest.raises(CounterrankError, match=r"--policy: one for a log of several \(v1, v2\).*--only-policy v2"):
        attempt(
            "estimate", deployed / "production", data, *counts, "--policy", "uniform-insert:k=5", "--logger",
            deployed / "production", "--examination", "inverse-rank:eta=1",
        )  # fmt: skip
    with pytest.raises(CounterrankError, match=r"--only-policy v3: .* has no such policy; expected some of 'v1', 'v2'"):
        attempt("estimate", deployed / "production", data, *counts, "--only-policy", "v3")


def test_the_command_on_data_that_grew(tmp_path):
    OLD.save(tmp_path / "old.parquet")
    NEW.save(tmp_path / "new.parquet")
    logs = write_parts(tmp_path / "logs")
    for name, data in (("v1", "old"), ("v2", "new")):
        given = ("--data", tmp_path / f"{data}.parquet", "--out", tmp_path / name)
        invoke("aggregate", logs / f"{name}.parquet", *given)
    both = ("--clicks", tmp_path / "v1", "--clicks", tmp_path / "v2", "--examination", "1,0.5,0.25")
    np.save(tmp_path / "scores.npy", scores_of(NEW))
    command = ("estimate", tmp_path / "scores.npy", tmp_path / "new.parquet", "--part", "train")
    with pytest.raises(CounterrankError, match=r"--align where the data has grown\): counted against other data"):
        attempt(*command, *both)
    aligned = as_json(*command, *both, "--align")["estimates"]
    whole = as_json(*command, "--log", logs, "--examination", "1,0.5,0.25")["estimates"]
    with pytest.raises(CounterrankError, match=r"--align: maps click counts .*; expected --clicks with it"):
        attempt(*command, "--log", logs, "--align")
    assert aligned == whole

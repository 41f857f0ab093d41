"""What a ranker was learned from, and estimates from the clicks it was learned from."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterrank as cr
from counterrank import estimators, evaluation
from counterrank.clicks.counts import ClickCounts
from counterrank.clicks.origin import Origin
from counterrank.clicks.policies import ReplaceLast, UniformInsert
from counterrank.clicks.simulation import simulate, write_log
from counterrank.common.errors import CounterrankError
from counterrank.common.random import EVERYTHING, HashSample
from counterrank.data.ids import identity, query_keys
from counterrank.evaluation import InSampleWarning
from tests.support.command import as_json, attempt, invoke

FOLD = cr.make_fold("mslr", 60, seed=0)
EXAM = [1.0, 0.5, 0.3, 0.2, 0.2]
POLICY = UniformInsert(5)


def clicks_on(data, seed=0, sessions=20_000, **options):
    return simulate(data, data.features[:, 0], POLICY, EXAM, sessions=sessions, seed=seed, **options)


TRAIN, VALIDATION, TEST = (clicks_on(part, seed) for seed, part in enumerate((FOLD.train, FOLD.validation, FOLD.test)))


def trained(clicks=(TRAIN, VALIDATION)):
    ranker = cr.Ranker(k=5, max_epochs=3, learning_rate=1.0)
    held_out = (FOLD.validation, estimators.policy_aware(VALIDATION))
    return ranker.fit(FOLD.train, estimators.policy_aware(TRAIN), validation=held_out, clicks=clicks)


RANKER = trained()


def quiet(function, *args, **options):
    """A result, with an error for any warning about what was trained on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", InSampleWarning)
        return function(*args, **options)


def test_a_ranker_records_what_it_was_learned_from():
    found = RANKER.provenance_
    assert found["version"] == cr.__version__
    assert found["date"].endswith("Z")
    assert found["data"]["path"] == "synthetic:mslr:queries=60,seed=0"
    assert found["data"]["identity"] == identity(FOLD.train)
    assert (found["data"]["queries"], found["validation"]["queries"]) == (36, 12)
    assert found["features"][:2] == ["feature_1", "feature_2"]
    assert len(found["features"]) == 136
    assert found["clicks"]["sessions"] == 40_000
    assert found["clicks"]["clicks"] == TRAIN.n_clicks + VALIDATION.n_clicks
    assert [source["content"] for source in found["clicks"]["sources"]] == [
        each.known_origin().sources[0].content for each in (TRAIN, VALIDATION)
    ]
    assert (found["loss"], found["model"], found["seed"]) == ("lambdaloss-truncated", "linear", 0)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_it_is_saved_and_loaded(tmp_path):
    RANKER.save(tmp_path / "ranker")
    assert cr.Ranker.load(tmp_path / "ranker").provenance_ == RANKER.provenance_
    content = json.loads((tmp_path / "ranker" / "model.json").read_text())
    assert content["provenance"] == RANKER.provenance_
    del content["provenance"]  # as version 0.1 wrote it
    (tmp_path / "ranker" / "model.json").write_text(json.dumps(content))
    old = cr.Ranker.load(tmp_path / "ranker")
    assert old.provenance_ == {}
    assert (old.predict(FOLD.test) == RANKER.predict(FOLD.test)).all()
    old.save(tmp_path / "again")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation.estimate(old, FOLD.train, TRAIN)  # nothing is known, so nothing can be refused


@pytest.mark.parametrize(
    "damage",
    [
        lambda found: found.pop("data"),
        lambda found: found["data"].pop("query_keys"),
        lambda found: found["data"]["query_keys"].update(hashes="?"),
        lambda found: found["clicks"]["sources"][0].pop("content"),
        lambda found: found["clicks"].update(sources=7),
        lambda found: found.update(clicks="elsewhere"),
    ],
)
def test_a_damaged_provenance_is_an_error(tmp_path, damage):
    RANKER.save(tmp_path / "ranker")
    content = json.loads((tmp_path / "ranker" / "model.json").read_text())
    damage(content["provenance"])
    (tmp_path / "ranker" / "model.json").write_text(json.dumps(content))
    with pytest.raises(CounterrankError, match=r"model.json lacks or misuses .*; the file is damaged"):
        cr.Ranker.load(tmp_path / "ranker")


def test_clicks_of_other_data_are_refused():
    weights = estimators.policy_aware(TRAIN)
    with pytest.raises(CounterrankError, match="clicks: number 1 is of other data"):
        cr.Ranker(max_epochs=1, learning_rate=1.0).fit(FOLD.train, weights, clicks=[TRAIN, TEST])


def test_numbers_and_their_texts_are_one_id():
    data = cr.make_ranking_data("mslr", 5, seed=3)
    texts = cr.RankingData(
        data.features, data.offsets, query_ids=data.query_ids.astype(str), doc_ids=data.doc_ids.astype(str)
    )
    assert query_keys(texts).tolist() == query_keys(data).tolist()


def test_few_sessions_of_a_large_log(tmp_path):
    """200 of 60,000 sessions: about 55 of them are in the sample, so that they are known again."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    data = FOLD.train
    write_log(data, data.features[:, 0], POLICY, EXAM, tmp_path / "log.parquet", sessions=60_000, seed=1)
    counts = cr.read_log(tmp_path / "log.parquet", data)
    ranker = cr.Ranker(k=5, max_epochs=1, learning_rate=1.0)
    ranker.fit(data, estimators.policy_aware(counts), clicks=counts)
    pq.write_table(
        pq.read_table(tmp_path / "log.parquet").filter(pc.field("session_id") < 200), tmp_path / "few.parquet"
    )
    with pytest.raises(CounterrankError, match="100% of these sessions"):
        evaluation.estimate(ranker, data, cr.read_log(tmp_path / "few.parquet", data))


def test_a_few_shared_sessions_are_a_warning(tmp_path):
    """10 of 3,000 sessions: a warning, and no refusal."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    data = FOLD.train
    for name, first, seed in (("one", 0, 1), ("other", 10_000, 2)):
        file = tmp_path / f"{name}.parquet"
        write_log(data, data.features[:, 0], POLICY, EXAM, file, sessions=2990, seed=seed, first_session=first)
    one, other = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("one", "other"))
    pq.write_table(pa.concat_tables([other, one.filter(pc.field("session_id") < 10)]), tmp_path / "both.parquet")
    counts = cr.read_log(tmp_path / "one.parquet", data)
    ranker = cr.Ranker(k=5, max_epochs=1, learning_rate=1.0)
    ranker.fit(data, estimators.policy_aware(counts), clicks=counts)
    with pytest.warns(InSampleWarning, match=r"stopped by 0.33% of these sessions; the others are held out"):
        evaluation.estimate(ranker, data, cr.read_log(tmp_path / "both.parquet", data), population="these-queries")
    # a ranker that remembers a few of its sessions only cannot tell
    used = ranker.provenance_["clicks"]
    used |= Origin.from_description(used).reduced(4).describe()
    with pytest.warns(InSampleWarning, match="these sessions are too few to tell whether it was trained on them"):
        evaluation.estimate(ranker, data, cr.read_log(tmp_path / "other.parquet", data), population="these-queries")


def test_two_queries_and_session_numbers_that_begin_again(tmp_path):
    relevant = np.add.reduceat(FOLD.train.labels >= 3, FOLD.train.offsets[:-1]) > 0
    data = FOLD.train.subset(np.flatnonzero(relevant)[:2])
    logs = []
    for seed in (1, 2):
        file = tmp_path / f"{seed}.parquet"
        write_log(data, data.features[:, 0], ReplaceLast(5), EXAM, file, sessions=2000, seed=seed)
        logs.append(cr.read_log(file, data))
    ranker = cr.Ranker(k=5, max_epochs=1, learning_rate=1.0)
    ranker.fit(data, estimators.policy_aware(logs[0]), clicks=logs[0])
    quiet(evaluation.estimate, ranker, data, logs[1], population="these-queries")


def test_only_weights():
    assert trained(clicks=None).provenance_["clicks"] == "weights given"
    ranker = cr.Ranker(max_epochs=1, learning_rate=1.0, seed=np.random.default_rng(0))
    ranker.fit(FOLD.train.features, estimators.full_information(FOLD.train, 3), group=FOLD.train.lengths)
    assert ranker.provenance_["data"]["path"] is None
    assert ranker.provenance_["seed"] is None


def test_fit_from_clicks_says_what_was_tried():
    found = cr.fit_from_clicks(FOLD.train, TRAIN, ranker=cr.Ranker(k=5, max_epochs=2), folds=2)
    recorded = found.ranker.provenance_
    assert recorded["estimator"]["name"] == "auto"
    assert recorded["estimator"]["chosen"] == found.estimator
    assert recorded["estimator"]["why"] == found.why
    assert len(recorded["estimator"]["tried"]) == len(found.trials)
    assert recorded["data"]["identity"] == identity(FOLD.train)
    assert json.loads(json.dumps(recorded, allow_nan=False)) == recorded
    with pytest.raises(CounterrankError, match="in-sample"):
        evaluation.estimate(found.ranker, FOLD.train, TRAIN)


EVALUATIONS = {
    "estimate": lambda ranker, *args, **options: evaluation.estimate(ranker, *args, **options)["dcg@5"],
    "compare": lambda ranker, data, *args, **options: evaluation.compare(
        data.features[:, 1], ranker, data, *args, **options
    )["dcg@5"],
    "select": lambda ranker, data, *args, **options: cr.select(
        [data.features[:, 1], ranker], data, *args, **options
    ),
}  # fmt: skip


@pytest.mark.parametrize("evaluate", EVALUATIONS.values(), ids=EVALUATIONS)
def test_clicks_of_the_training_are_refused(evaluate):
    for data, clicks in ((FOLD.train, TRAIN), (FOLD.validation, VALIDATION)):
        with pytest.raises(CounterrankError, match=r"trained on or stopped by 100% of these sessions.*in_sample=True"):
            evaluate(RANKER, data, clicks)
        found = quiet(evaluate, RANKER, data, clicks, in_sample=True)
        assert found.in_sample
        estimates = found.estimates if hasattr(found, "estimates") else [found]
        assert all("in-sample" in each.doubts[0] for each in estimates)
    held_out = quiet(evaluate, RANKER, FOLD.test, TEST, in_sample=True)
    assert not held_out.in_sample
    assert not quiet(evaluate, RANKER, FOLD.test, TEST).in_sample


def test_plain_scores_cannot_be_checked():
    scores = RANKER.predict(FOLD.train)
    checked = quiet(evaluation.estimate, RANKER, FOLD.train, TRAIN, in_sample=True)["dcg@5"]
    plain = quiet(evaluation.estimate, scores, FOLD.train, TRAIN)["dcg@5"]
    assert (plain.ips, plain.ips_interval, plain.in_sample) == (checked.ips, checked.ips_interval, False)


def test_new_clicks_on_the_same_queries():
    again = clicks_on(FOLD.train, seed=9)
    assert not quiet(evaluation.estimate, RANKER, FOLD.train, again, population="these-queries")["dcg@5"].in_sample
    with pytest.warns(InSampleWarning, match="the ranker was trained on or stopped by 100% of these queries"):
        evaluation.estimate(RANKER, FOLD.train, again)
    some = cr.RankingData(
        np.concatenate([FOLD.train.features, FOLD.test.features]),
        np.concatenate([FOLD.train.offsets, FOLD.test.offsets[1:] + FOLD.train.n_docs]),
        labels=np.concatenate([FOLD.train.labels, FOLD.test.labels]),
        query_ids=np.concatenate([FOLD.train.query_ids, FOLD.test.query_ids]),
    )
    with pytest.warns(InSampleWarning, match="75% of these queries"):  # 36 of 48
        evaluation.estimate(RANKER, some, clicks_on(some))


def test_equal_ids_of_other_data_do_not_match():
    other = cr.make_fold("mslr", 60, seed=1).train
    assert other.query_ids.tolist() == FOLD.train.query_ids.tolist()
    quiet(evaluation.estimate, RANKER, other, clicks_on(other))


def test_weights_given_are_a_warning_where_the_queries_are_the_same():
    unknown = trained(clicks=None)
    with pytest.warns(InSampleWarning, match="100% of these queries, and does not say on which clicks"):
        evaluation.estimate(unknown, FOLD.train, TRAIN, population="these-queries")
    quiet(evaluation.estimate, unknown, FOLD.test, TEST)


def test_a_part_of_the_clicks_is_enough():
    more = ClickCounts.concat([TRAIN, clicks_on(FOLD.train, seed=5, sessions=60_000)])
    with pytest.raises(CounterrankError, match="trained on or stopped by 25% of these sessions"):
        evaluation.estimate(RANKER, FOLD.train, more)


def test_sessions_of_a_log(tmp_path):
    """By session ids: half of a log, and the same sessions against other data."""
    data = FOLD.train
    options = {"sessions": 3000, "seed": 1}
    write_log(data, data.features[:, 0], ReplaceLast(5), EXAM, tmp_path / "one.parquet", **options)
    write_log(data, data.features[:, 0], ReplaceLast(5), EXAM, tmp_path / "other.parquet", sessions=3000, seed=2)
    counts = cr.read_log(tmp_path / "one.parquet", data)
    ranker = cr.Ranker(k=5, max_epochs=1, learning_rate=1.0)
    ranker.fit(data, estimators.policy_aware(counts), clicks=counts)
    with pytest.raises(CounterrankError, match="100% of these sessions"):
        evaluation.estimate(ranker, data, cr.read_log(tmp_path / "one.parquet", data, displays=True))
    longer = data.subset(np.arange(data.n_queries)[::-1])
    with pytest.raises(CounterrankError, match="100% of these sessions"):
        evaluation.estimate(ranker, longer, counts.align(longer))
    with pytest.warns(InSampleWarning):  # the same queries, and session numbers that begin again
        evaluation.estimate(ranker, data, cr.read_log(tmp_path / "other.parquet", data))


def test_policies_are_distinguished():
    """Trained on the sessions of v1, evaluated on those of v2 of the same counts."""
    both = ClickCounts.concat([clicks_on(FOLD.train, 1, policy_name="v1"), clicks_on(FOLD.train, 2, policy_name="v2")])
    one, other = (both.only_policies([name]) for name in ("v1", "v2"))
    ranker = cr.Ranker(k=5, max_epochs=1, learning_rate=1.0).fit(FOLD.train, estimators.policy_aware(one), clicks=one)
    quiet(evaluation.estimate, ranker, FOLD.train, other, population="these-queries")
    for same in (one, both):
        with pytest.raises(CounterrankError, match="in-sample"):
            evaluation.estimate(ranker, FOLD.train, same)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: evaluation.estimate(RANKER, FOLD.test, TEST, in_sample="yes"),
            "in_sample='yes': expected True or False",
        ),
        (lambda: trained(clicks=[]), "clicks: an empty list"),
        (lambda: trained(clicks="log"), "clicks: str; expected ClickCounts"),
        (lambda: evaluation.estimate("ranker", FOLD.test, TEST), "scores: str; expected a ranker"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(CounterrankError, match=message):
        call()


def slow_keys(data):
    """Two queries have one key exactly if these are equal."""
    found = []
    for q in range(data.n_queries):
        rows = range(data.offsets[q], data.offsets[q + 1])
        documents = sorted(
            (str(data.doc_ids[row]), tuple((f, float(v)) for f, v in enumerate(data.features[row]) if v != 0.0))
            for row in rows
        )
        found.append((str(data.query_ids[q]), tuple(documents)))
    return found


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_query_keys_against_the_slow_version(data):
    def draw_data():
        lengths = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
        n, width = sum(lengths), data.draw(st.integers(1, 2))
        values = data.draw(st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0]), min_size=n * width, max_size=n * width))
        ids = data.draw(st.permutations(["a", "b", "aa"]))[: len(lengths)]
        places = [data.draw(st.permutations(range(length))) for length in lengths]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        return cr.RankingData(
            np.reshape(values, (n, width)), offsets, query_ids=ids, doc_ids=[place for own in places for place in own]
        )

    one, other = draw_data(), draw_data()
    keys = np.concatenate([query_keys(one), query_keys(other)])
    slow = slow_keys(one) + slow_keys(other)
    assert [[a == b for b in keys] for a in keys] == [[a == b for b in slow] for a in slow]


@given(
    st.sets(st.integers(0, 2**64 - 1), max_size=30), st.sets(st.integers(0, 2**64 - 1), max_size=30),
    st.integers(0, EVERYTHING), st.integers(1, 20),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_samples_against_sets(one, other, limit, size):
    first, second = HashSample.of(list(one), limit), HashSample.of(list(other | set(list(one)[:5])))
    below = {member for member in one if member < limit}
    assert set(first.hashes.tolist()) == below
    expected = len(below & (other | set(list(one)[:5]))) / len(below) if below else 0.0
    assert first.share_in(second) == pytest.approx(expected)
    small = first.reduced(size)
    assert len(small.hashes) == min(size, len(below))
    assert set(small.hashes.tolist()) == set(sorted(below)[:size])
    again = HashSample.from_description(json.loads(json.dumps(small.describe())))
    assert again.limit == small.limit
    assert again.hashes.tolist() == small.hashes.tolist()


def test_keys_are_made_once_and_travel_with_subsets():
    data = cr.make_ranking_data("mslr", 5, seed=3)
    keys = query_keys(data)
    assert query_keys(data) is keys
    assert query_keys(data.subset([3, 1])).tolist() == keys[[3, 1]].tolist()
    assert query_keys(cr.make_ranking_data("mslr", 5, seed=3).subset([3, 1])).tolist() == keys[[3, 1]].tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A ranker trained with the command on a saved log, and the log."""
    path = tmp_path_factory.mktemp("provenance")
    data = "synthetic:mslr:queries=60"
    invoke("train", data, "--share", "0.1", "--max-epochs", "2", "--validation", "none", "--out", path / "production")
    options = ("--logger", path / "production", "--policy", "uniform-insert:k=5")
    invoke("simulate", data, *options, "--sessions", "20000", "--held-out", "0.5", "--out", path / "clicks")
    invoke("simulate", data, *options, "--sessions", "20000", "--seed", "7", "--out", path / "later")
    invoke("train", data, "--clicks", path / "clicks", "--k", "5", "--max-epochs", "3", "--out", path / "ranker")
    return path


def test_the_command_explains_where_a_ranker_comes_from(folder):
    shown = invoke("explain", folder / "ranker", "--top", "2").stdout
    assert "policy-aware" in shown
    assert "30,000 sessions" in shown
    found = as_json("explain", folder / "ranker")["provenance"]
    assert found["command"].startswith("counterrank")
    assert found["estimator"] == {"name": "policy-aware", "propensities": "logged", "clip": None}
    assert found["clicks"]["paths"] == [str(folder / "clicks" / part) for part in ("train", "validation")]
    labels = as_json("explain", folder / "production")["provenance"]
    assert (labels["clicks"], labels["estimator"]["name"]) == (None, "full-information")
    assert "none: labels" in invoke("explain", folder / "production").stdout


def test_the_command_refuses_in_sample_estimates(folder):
    data = "synthetic:mslr:queries=60"
    for part in ("train", "validation"):
        given = ("estimate", folder / "ranker", data, "--clicks", folder / "clicks", "--part", part)
        with pytest.raises(CounterrankError, match=r"ranker was trained on or stopped by 100% .*--in-sample"):
            attempt(*given)
        found = as_json(*given, "--in-sample")
        assert found["in_sample"]
        assert found["estimates"]["dcg@5"]["in_sample"]
        assert "IN-SAMPLE" in invoke(*given, "--in-sample").stdout
    held_out = as_json("estimate", folder / "ranker", data, "--clicks", folder / "clicks")
    assert not held_out["in_sample"]
    later = ("estimate", folder / "ranker", data, "--clicks", folder / "later", "--part", "train")
    assert "100% of these queries" in invoke(*later).stderr
    assert "of these queries" not in invoke(*later, "--target", "these-queries").stderr
    command = ("select", data, folder / "ranker", "--clicks", folder / "clicks")
    with pytest.raises(CounterrankError, match="in-sample"):
        attempt(*command)
    assert as_json(*command, "--in-sample")["in_sample"]
    assert not as_json(*command, "--part", "test")["in_sample"]


def test_auto_on_the_command_line_records_its_trials(folder):
    invoke(
        "train", "synthetic:mslr:queries=60", "--clicks", folder / "clicks", "--estimator", "auto", "--k", "5",
        "--max-epochs", "2", "--folds", "2", "--out", folder / "auto",
    )  # fmt: skip
    found = as_json("explain", folder / "auto")["provenance"]["estimator"]
    assert found["name"] == "auto"
    assert len(found["tried"]) > 3
    shown = invoke("explain", folder / "auto").stdout.replace("│", " ")  # a table, whose cells wrap
    assert found["why"] in " ".join(shown.split())


def test_counts_without_an_origin_are_known_by_their_content():
    bare = replace(TRAIN, origin=None)
    assert bare.known_origin().describe() == TRAIN.known_origin().describe()
    changed = replace(TRAIN, clicks=np.where(np.arange(len(TRAIN.clicks)) == np.argmax(TRAIN.clicks), 0, TRAIN.clicks))
    assert changed.known_origin().sources[0].content != TRAIN.known_origin().sources[0].content

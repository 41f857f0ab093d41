"""The pointer that a service reads, its ledger, and how the error rate is divided."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from counterrank import CounterrankError, Ranker, RankingData, policies, promote, read_log, simulation
from counterrank.common.files import lock
from counterrank.training import Pointer, promotion, read_ledger, roll_back, specialise

EXAM = [1.0, 0.5, 0.4]
POLICY = policies.UniformInsert(3)
FIRST = 6.0 / np.pi**2


@pytest.fixture(scope="module")
def world():
    """Data whose first feature is noise and whose second one is the label, and a ranker by each of them."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300) * 4
    data = RankingData(np.column_stack([rng.random(300), labels + rng.random(300)]), np.arange(0, 301, 10), labels)
    rankers = [
        Ranker("arp-hinge", k=None, max_epochs=5, seed=seed).fit(data, weights)
        for seed, weights in enumerate([1.0 - data.features[:, 0], labels, 4.0 - labels])
    ]
    return data, *rankers


def clicks_of(data, ranker, sessions, seed=0):
    scores = ranker.predict(data)
    more = {"sessions": sessions, "seed": seed, "displays": True}
    return simulation.simulate(data, scores, POLICY, EXAM, **more), {"policy": POLICY, "scores": scores}


def test_a_better_ranker_is_served_and_rolled_back(world, tmp_path):
    data, old, new, _ = world
    clicks, about = clicks_of(data, old, 5000)
    decision = promote(new, old, data, clicks, metric="dcg@3", to=tmp_path / "live", **about)
    assert (decision.deploy, decision.version, decision.exit_code) == (True, 2, 0)
    assert decision.lower < decision.estimate < decision.upper
    pointer = Pointer.read(tmp_path / "live")
    assert (pointer.current, pointer.history, pointer.why) == (2, (1,), decision.why)
    np.testing.assert_array_equal(pointer.load().predict(data), new.predict(data))
    content = json.loads((tmp_path / "live" / "current.json").read_text())
    assert content["path"] == "versions/2"
    assert [each["event"] for each in read_ledger(tmp_path / "live")] == ["look", "deploy"]
    back = roll_back(tmp_path / "live")
    np.testing.assert_array_equal(back.load().predict(data), old.predict(data))
    assert Pointer.read(tmp_path / "live").current == 1
    with pytest.raises(CounterrankError, match="version 1 is the first one; nothing to roll back to"):
        roll_back(tmp_path / "live")
    assert [each["event"] for each in read_ledger(tmp_path / "live")] == ["look", "deploy", "rollback"]


def test_without_evidence_nothing_is_served(world, tmp_path):
    data, old, _, worse = world
    clicks, about = clicks_of(data, old, 5000)
    decision = promote(worse, old, data, clicks, metric="dcg@3", to=tmp_path, **about)
    assert (decision.deploy, decision.version, decision.exit_code) == (False, None, 4)
    assert not (tmp_path / "current.json").exists()
    assert [each["decision"] for each in read_ledger(tmp_path)] == ["worse"]


def test_the_version_that_is_served_is_the_one_to_beat(world, tmp_path):
    data, old, new, worse = world
    clicks, about = clicks_of(data, old, 5000)
    promote(new, old, data, clicks, metric="dcg@3", to=tmp_path, **about)
    decision = promote(old, None, data, clicks, metric="dcg@3", to=tmp_path, **about)
    assert decision.exit_code == 4
    assert "is worse than" in decision.why
    with pytest.raises(CounterrankError, match=r"current: is not version 2, which .* serves"):
        promote(worse, old, data, clicks, metric="dcg@3", to=tmp_path, **about)


@pytest.fixture(scope="module")
def growing(world, tmp_path_factory):
    """Reads so many sessions of one log, which has session ids; logs with another first session share none."""
    data, old, *_ = world
    folder, scores = tmp_path_factory.mktemp("logs"), old.predict(data)

    def read(sessions, first=0):
        log = folder / f"{sessions}-{first}.parquet"
        simulation.write_log(data, scores, POLICY, EXAM, log, sessions=sessions, seed=0, first_session=first)
        return read_log(log, data, displays=True)

    return read


def test_looks_and_candidates_spend_the_error_rate(world, growing, tmp_path):
    data, old, new, worse = world
    few, more = growing(30), growing(60)
    settings = {"metric": "dcg@3", "to": tmp_path, "policy": POLICY, "scores": old.predict(data), "exam": EXAM}

    def spent(ranker, clicks, evidence="finite-sample"):
        promote(ranker, old, data, clicks, margin=1.9, evidence=evidence, **settings)  # which no ranker exceeds
        entry = read_ledger(tmp_path)[-1]
        return entry["number"], entry["look"], entry["alpha"]["finite-sample"], entry["alpha"]["asymptotic"]

    assert spent(worse, few) == (1, 1, pytest.approx(0.05 * FIRST), pytest.approx(0.05 * FIRST**2))
    assert spent(worse, few)[:2] == (1, 1)  # the same clicks are no further look
    assert spent(worse, more) == (1, 2, pytest.approx(0.05 * FIRST), pytest.approx(0.05 * FIRST**2 / 4))
    assert spent(new, more) == (2, 1, pytest.approx(0.05 * FIRST / 4), pytest.approx(0.05 * FIRST**2 / 4))
    designs = [entry["design"] for entry in read_ledger(tmp_path)]
    assert designs[0] == designs[1] == designs[2]  # the sequence goes on with the bets it began with
    # another level of evidence is another question, which has its price, whatever the order of names
    assert spent(new, more, "asymptotic")[:2] == (3, 1)
    assert spent(new, more, ["asymptotic", "finite-sample"])[:2] == (4, 1)
    assert spent(new, more, ["finite-sample", "asymptotic"])[:2] == (4, 1)
    assert spent(worse, few)[:2] == (1, 1)
    with pytest.warns(UserWarning, match="do not include the 60 sessions of the earlier look"):
        assert spent(new, growing(40))[:2] == (5, 1)


def test_clicks_without_session_ids_are_not_taken_for_a_grown_log(world, tmp_path):
    data, old, _, worse = world
    settings = {"metric": "dcg@3", "to": tmp_path}
    for seed, sessions in enumerate((300, 600)):
        clicks, about = clicks_of(data, old, sessions, seed)
        if seed:
            with pytest.warns(UserWarning, match="a new sequence of looks begins"):
                promote(worse, old, data, clicks, **settings, **about)
        else:
            promote(worse, old, data, clicks, **settings, **about)
    assert [(each["number"], each["look"]) for each in read_ledger(tmp_path)] == [(1, 1), (2, 1)]


def test_the_best_of_several_candidates_is_served(world, tmp_path):
    data, old, new, worse = world
    clicks, about = clicks_of(data, old, 5000)
    decision = promote([worse, new], old, data, clicks, metric="dcg@3", to=tmp_path, **about)
    assert (decision.deploy, decision.index, len(decision.tests)) == (True, 1, 2)
    np.testing.assert_array_equal(Pointer.read(tmp_path).load().predict(data), new.predict(data))
    free = promote([worse, new], old, data, clicks, metric="dcg@3", **about)
    assert free.test.levels["finite-sample"].confidence == pytest.approx(0.975)


def test_folders_of_saved_rankers_are_copied(world, tmp_path):
    data, old, new, _ = world
    clicks, about = clicks_of(data, old, 5000)
    old.save(tmp_path / "old")
    new.save(tmp_path / "new")
    decision = promote(tmp_path / "new", tmp_path / "old", data, clicks, metric="dcg@3", to=tmp_path / "live", **about)
    assert decision.deploy
    assert str(tmp_path / "new") in decision.why
    served = Pointer.read(tmp_path / "live").path
    assert (served / "model.json").read_bytes() == (tmp_path / "new" / "model.json").read_bytes()
    settings = {"metric": "dcg@3", "to": tmp_path / "live", **about}
    few = clicks_of(data, old, 300)[0]
    promote(old, new, data, few, **settings)
    promote(tmp_path / "old", None, data, few, **settings)
    *_, first, again = read_ledger(tmp_path / "live")
    assert (first["number"], first["look"]) == (again["number"], again["look"])  # known again, however it is given


def test_a_rollback_does_not_renew_the_error_rate(world, growing, tmp_path):
    data, old, new, worse = world
    clicks, about = growing(5000), {"policy": POLICY, "scores": old.predict(data), "exam": EXAM}
    settings = {"metric": "dcg@3", "to": tmp_path, **about}
    promote(worse, old, data, clicks, **settings)
    assert promote(new, old, data, clicks, **settings).deploy
    promote(worse, None, data, clicks, **settings)  # against the new one, which has its own error rate
    roll_back(tmp_path)
    promote(new, None, data, growing(6000), **settings)
    looks = [each for each in read_ledger(tmp_path) if each["event"] == "look"]
    assert [(each["number"], each["look"]) for each in looks] == [(1, 1), (2, 1), (1, 1), (2, 2)]


def test_other_sessions_or_propensities_begin_a_new_sequence(world, growing, tmp_path):
    data, old, _, worse = world
    about = {"policy": POLICY, "scores": old.predict(data), "metric": "dcg@3", "to": tmp_path}

    def look(clicks, exam=EXAM):
        promote(worse, old, data, clicks, exam=exam, **about)
        entry = read_ledger(tmp_path)[-1]
        return entry["number"], entry["look"], entry["alpha"]["finite-sample"]

    assert look(growing(300)) == (1, 1, pytest.approx(0.05 * FIRST))
    assert look(growing(600)) == (1, 2, pytest.approx(0.05 * FIRST))  # which includes the 300
    with pytest.warns(UserWarning, match="do not include the 600 sessions"):
        assert look(growing(700, 10**6)) == (2, 1, pytest.approx(0.05 * FIRST / 4))
    assert look(growing(800), [1.0, 0.6, 0.4]) == (3, 1, pytest.approx(0.05 * FIRST / 9))


def test_rankers_of_rankers_are_served(world, tmp_path):
    data, old, _, _ = world
    clicks, about = clicks_of(data, old, 5000)
    held_out = clicks_of(data, old, 5000, seed=1)[0]
    special = specialise(old, data, clicks, held_out, **about)
    assert special.queries
    later = clicks_of(data, old, 20_000, seed=2)[0]
    decision = promote(special.ranker, old, data, later, metric="dcg@3", to=tmp_path / "live", **about)
    assert decision.deploy
    np.testing.assert_array_equal(Pointer.read(tmp_path / "live").load().predict(data), special.predict(data))
    special.save(tmp_path / "special")
    again = promote(tmp_path / "special", old, data, later, metric="dcg@3", to=tmp_path / "other", **about)
    assert again.deploy
    served = Pointer.read(tmp_path / "other").load()
    np.testing.assert_array_equal(served.predict(data), special.predict(data))
    found = [read_ledger(tmp_path / name)[0]["candidate"] for name in ("live", "other")]
    assert found[0] == found[1]


BAD = [
    (lambda data, old, new, to: ([], old, data), {}, "new: an empty list"),
    (lambda data, old, new, to: (new, None, data), {}, "current: None; expected the ranker to compare with"),
    (lambda data, old, new, to: (new, None, data), {"to": True}, "current: None, and .* serves nothing yet"),
    (lambda data, old, new, to: (data.labels, old, data), {"to": True}, "new: scores, which cannot be deployed"),
    (lambda data, old, new, to: ("no/such", old, data), {}, "no/such: no such ranker or scores"),
    (lambda data, old, new, to: (new, old, data), {"to": 5}, "to=5: expected the path of a deployment folder"),
    (lambda data, old, new, to: (new, old, data), {"evidence": "some"}, "evidence="),
    (lambda data, old, new, to: (new, old, data), {"margin": None}, "margin=None"),
    (lambda data, old, new, to: (new, old, data), {"in_sample": True, "to": True}, "in_sample: given together with to"),
]


@pytest.mark.parametrize(("make", "more", "message"), BAD, ids=[message for _, _, message in BAD])
def test_bad_input_is_named(world, tmp_path, make, more, message):
    data, old, new, _ = world
    clicks, about = clicks_of(data, old, 100)
    more = {name: tmp_path / "live" if name == "to" and value is True else value for name, value in more.items()}
    with pytest.raises(CounterrankError, match=message):
        promote(*make(data, old, new, tmp_path), clicks, metric="dcg@3", **about, **more)


def test_folders_of_other_things_are_left_alone(world, tmp_path):
    data, old, new, _ = world
    clicks, about = clicks_of(data, old, 100)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CounterrankError, match=r"holds notes.txt and no current.json"):
        promote(new, old, data, clicks, metric="dcg@3", to=tmp_path, **about)
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_damaged_files_are_named(world, tmp_path):
    data, old, new, _ = world
    clicks, about = clicks_of(data, old, 5000)
    promote(new, old, data, clicks, metric="dcg@3", to=tmp_path, **about)
    ledger, pointer = tmp_path / "ledger.jsonl", tmp_path / "current.json"
    kept = ledger.read_text()
    ledger.write_text(kept + "{half")
    with pytest.raises(CounterrankError, match="line 3 is not JSON"):
        read_ledger(tmp_path)
    ledger.write_text(kept)
    content = json.loads(pointer.read_text())
    pointer.write_text(json.dumps({**content, "current": 9}))
    with pytest.raises(CounterrankError, match="version 9 is not in versions"):
        Pointer.read(tmp_path)
    pointer.write_text(json.dumps({**content, "history": None}))
    with pytest.raises(CounterrankError, match="the file is damaged"):
        Pointer.read(tmp_path)


def test_a_second_promotion_waits(world, tmp_path, monkeypatch):
    data, old, new, _ = world
    clicks, about = clicks_of(data, old, 100)
    monkeypatch.setattr(promotion, "_PATIENCE_S", 0.2)
    with lock(tmp_path / ".lock"), pytest.raises(CounterrankError, match="another promotion is at work"):
        promote(new, old, data, clicks, metric="dcg@3", to=tmp_path, **about)
    promote(new, old, data, clicks, metric="dcg@3", to=tmp_path, **about)


def _append(folder, number):
    for i in range(20):
        with promotion._locked(folder) as above:
            promotion._Ledger(above).append({"event": "look", "number": number, "i": i})


@pytest.mark.process
def test_the_ledger_loses_nothing_to_concurrent_writers(tmp_path):
    writers = [multiprocessing.get_context("spawn").Process(target=_append, args=(tmp_path, n)) for n in range(3)]
    for each in writers:
        each.start()
    for each in writers:
        each.join(120)
    found = sorted((entry["number"], entry["i"]) for entry in read_ledger(tmp_path))
    assert found == [(n, i) for n in range(3) for i in range(20)]


SWITCH = """
import sys
from pathlib import Path
from counterrank.training.promotion import Pointer
folder = Path(sys.argv[1])
print("ready", flush=True)
while True:
    for number in (1, 2):
        Pointer(folder, number, (3 - number,), "now", "why" * 1000).write()
"""


@pytest.mark.process
def test_a_killed_process_leaves_a_whole_pointer(tmp_path):
    for number in (1, 2):
        (tmp_path / "versions" / str(number)).mkdir(parents=True)
        (tmp_path / "versions" / str(number) / "model.json").write_text("{}")
    for wait in (0.01, 0.05, 0.12):
        process = subprocess.Popen([sys.executable, "-c", SWITCH, str(tmp_path)], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
        time.sleep(wait)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert not (tmp_path / "current.json").exists() or Pointer.read(tmp_path).current in (1, 2)
    Pointer(tmp_path, 1, (), "now", "why").write()
    assert Pointer.read(tmp_path).history == ()

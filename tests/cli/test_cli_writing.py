"""What exists is not replaced without --force, inputs are never, and no part of another name is taken."""

import hashlib
import json

import pytest

import counterrank as cr
from counterrank.cli.output import check_out
from tests.support.command import attempt, invoke, run

DATA = "synthetic:yahoo:queries=30,seed=1"
QUICK = ("--max-epochs", "1", "--learning-rate", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Data as one file and as a fold, a ranker, clicks on its pages as counts and as a log, and what goes with them."""
    folder = tmp_path_factory.mktemp("writing")
    fold = cr.make_fold("yahoo", 30, seed=1)
    fold.train.save(folder / "data.parquet")
    (folder / "fold").mkdir()
    lines = "".join(f"{4 * (d == 1)} qid:{q} 1:{d} 2:{d * q}\n" for q in range(4) for d in range(3))
    for part in ("train", "vali", "test"):
        (folder / "fold" / f"{part}.txt").write_text(lines)
    (folder / "names.json").write_text(json.dumps({str(number): f"f{number}" for number in range(1, 701)}))
    invoke("train", DATA, *QUICK, "--normalize", "none", "--out", folder / "ranker")
    fixed = ("simulate", DATA, "--logger", folder / "ranker", "--n-sessions", 300)
    invoke(*fixed, "--out", folder / "clicks")
    invoke(*fixed, "--policy", "uniform-insert:k=5", "--as-log", "--out", folder / "log")
    return folder


# a command, without what it writes, and the option and the name of that
COMMANDS = {
    "train": (["train", DATA, *QUICK], "--out", "new"),
    "train from clicks": (["train", DATA, "--clicks", "{place}/clicks", *QUICK], "--out", "new"),
    "select": (["select", DATA, "{place}/ranker", "--clicks", "{place}/clicks"], "--out", "new"),
    "rank": (["rank", "{place}/ranker", DATA], "--out", "run.trec"),
    "rank to Parquet": (["rank", "{place}/ranker", DATA], "--out", "run.parquet"),
    "simulate": (["simulate", DATA, "--logger", "{place}/ranker", "--n-sessions", "50"], "--out", "new"),
    "simulate a log": (
        ["simulate", DATA, "--logger", "{place}/ranker", "--n-sessions", "50", "--as-log"],
        "--out",
        "new",
    ),
    "aggregate": (["aggregate", "{place}/log", "--data", DATA], "--out", "new"),
    "export": (["export", "{place}/ranker", "--to", "json"], "--out", "model.json"),
    "inspect": (["inspect", "{place}/clicks"], "--out", "page.html"),
    "inspect a curve": (["inspect", "{place}/log"], "--examination-out", "curve.json"),
    "plan": (
        ["plan", DATA, "--logger", "{place}/ranker", "--examination", "inverse-rank", "--policy", "deterministic:k=5"],
        "--out",
        "plan.html",
    ),
}


def contents(path):
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns) for file in files}


def filled(words, place):
    return [word.format(place=place) for word in words]


@pytest.mark.parametrize(("words", "option", "name"), COMMANDS.values(), ids=COMMANDS)
def test_what_exists_is_replaced_by_force_alone(place, tmp_path, words, option, name):
    out = tmp_path / name
    command = (*filled(words, place), option, out)
    invoke(*command)
    before = contents(out)
    with pytest.raises(cr.CounterrankError, match=f"{name}: exists; choose another name, or --force to replace it"):
        attempt(*command)
    assert contents(out) == before
    invoke(*command, "--force")
    assert contents(out) != before
    assert set(contents(out)) == set(before)
    assert "--force" in invoke(command[0], "--help").output


@pytest.mark.parametrize(
    ("words", "option"), [case[:2] for name, case in COMMANDS.items() if case[2] == "new"],
    ids=[name for name, case in COMMANDS.items() if case[2] == "new"],
)  # fmt: skip
def test_force_replaces_no_folder_of_another_kind_and_an_empty_one_needs_none(place, tmp_path, words, option):
    out = tmp_path / "photos"
    out.mkdir()
    (out / "cat.jpg").write_text("cat")
    with pytest.raises(
        cr.CounterrankError, match=r"photos: exists and is not a folder with a .*; it is left untouched"
    ):
        attempt(*filled(words, place), option, out, "--force")
    assert [file.name for file in tmp_path.rglob("*")] == ["photos", "cat.jpg"]
    (tmp_path / "empty").mkdir()
    invoke(*filled(words, place), option, tmp_path / "empty")


def test_it_is_refused_before_anything_is_read(place, tmp_path):
    (tmp_path / "there").write_text("mine")
    for words in (["rank", "nowhere", "nowhere"], ["export", "nowhere", "--to", "onnx"]):
        result = run(*words, "--out", tmp_path / "there")
        assert (result.returncode, result.stdout) == (2, "")
        assert (
            result.stderr
            == f"counterrank: {tmp_path / 'there'}: exists; choose another name, or --force to replace it\n"
        )
    assert (tmp_path / "there").read_text() == "mine"


# commands whose output is one of their inputs, or would destroy one
INPUTS = [
    (["rank", "{place}/ranker", "{place}/data.parquet"], "--out", "data.parquet"),
    (["rank", "{place}/ranker", "{place}/fold"], "--out", "fold/test.txt"),
    (["rank", "{place}/ranker", DATA], "--out", "ranker/model.json"),
    (["rank", "{place}/ranker", DATA], "--out", "ranker/low.npy"),
    (["export", "{place}/ranker", "--to", "json"], "--out", "ranker/model.json"),
    (["export", "{place}/ranker", "--to", "json", "--features", "{place}/names.json"], "--out", "names.json"),
    (["train", DATA, "--clicks", "{place}/clicks", "--policy", "replace-last:k=5", "--logger", "{place}/ranker",
      "--examination", "inverse-rank"], "--out", "ranker"),
    (["train", DATA, "--log", "{place}/log", "--policy", "a=replace-last:k=5", "--logger", "a={place}/ranker",
      "--examination", "inverse-rank"], "--out", "ranker"),
    (["select", DATA, "{place}/ranker", "--clicks", "{place}/clicks"], "--out", "ranker"),
    (["simulate", "{place}/log/train.parquet", "--logger", "{place}/ranker", "--n-sessions", "9"], "--out", "log"),
    (["simulate", DATA, "--logger", "{place}/ranker", "--n-sessions", "9"], "--out", "ranker"),
    (["aggregate", "{place}/log", "--data", DATA], "--out", "log"),
    (["aggregate", "{place}/log/*.parquet", "--data", DATA], "--out", "log/train.parquet"),
    (["inspect", "{place}/log/train.parquet"], "--examination-out", "log/train.parquet"),
    (["plan", "{place}/data.parquet", "--logger", "{place}/ranker", "--examination", "inverse-rank", "--policy",
      "deterministic:k=5", "--ranker", "{place}/plan.svg"], "--out", "plan.svg"),
    (["reproduce", "--data", "{place}/fold"], "--out", "fold"),
    (["reproduce", "--data", "{place}/fold"], "--out", ""),
]  # fmt: skip


@pytest.mark.parametrize(("words", "option", "name"), INPUTS, ids=[f"{case[0][0]} {case[2]}" for case in INPUTS])
def test_an_input_is_never_replaced(place, words, option, name):
    (place / "plan.svg").write_text("1.0\n" * 18)
    before = contents(place)
    force = [] if words[0] == "reproduce" else ["--force"]
    for out in (place / name, place / "fold" / ".." / name):
        with pytest.raises(cr.CounterrankError, match=r"input of this command; choose another name"):
            attempt(*filled(words, place), option, out, *force)
    assert contents(place) == before


def test_links_to_an_input_are_seen_through(place, tmp_path):
    (tmp_path / "soft").symlink_to(place / "data.parquet")
    (tmp_path / "hard").hardlink_to(place / "data.parquet")
    before = contents(place)
    for name in ("soft", "hard"):
        with pytest.raises(cr.CounterrankError, match=f"{name}: is an input of this command"):
            attempt("rank", place / "ranker", place / "data.parquet", "--out", tmp_path / name, "--force")
    assert contents(place) == before


def test_a_folder_of_inputs_may_be_written_into(place, tmp_path, monkeypatch):
    """Working inside the folder of a fold: what is next to its files may be replaced, they may not."""
    for file in (place / "fold").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    for force in ([], ["--force"]):
        invoke("train", ".", *QUICK, "--out", "ranker", *force)
        invoke("rank", "ranker", ".", "--out", "run.trec", *force)
    with pytest.raises(cr.CounterrankError, match="input of this command"):
        attempt("rank", "ranker", ".", "--out", "vali.txt", "--force")
    with pytest.raises(cr.CounterrankError, match="input of this command"):
        attempt("rank", "ranker", "train.txt", "--out", "train.txt", "--force")


def test_two_outputs_are_two_files(place, tmp_path):
    with pytest.raises(cr.CounterrankError, match="is both --out and --examination-out"):
        attempt("inspect", place / "log", "--out", tmp_path / "x.html", "--examination-out", tmp_path / "x.html")


def test_long_and_odd_names_of_inputs_are_no_paths(tmp_path):
    (tmp_path / "there").write_text("")
    check_out(tmp_path / "there", True, ["1," * 5000, "x=", "=", "[", "\0", None, [], ["feature:3", None]])


def test_a_run_folder_is_resumed_and_its_report_made_again(tmp_path):
    small = ("--quick", "--runs", 1, "--figures", 2, "--queries", 60, "--max-epochs", 2, "--n-clicks", 100, "--jobs", 1)
    command = ("reproduce", "--data", "synthetic:yahoo:queries=60", *small, "--out", tmp_path / "run")
    invoke(*command)
    invoke(*command)
    invoke("report", tmp_path / "run")
    for name in ("report.html", "claims.json"):
        ours = (tmp_path / "run" / name).read_bytes()
        (tmp_path / "run" / name).write_text("my own notes")
        for again in (command, ("report", tmp_path / "run")):
            with pytest.raises(cr.CounterrankError, match=f"{name}: exists and was not written by counterrank report"):
                attempt(*again)
        assert (tmp_path / "run" / name).read_text() == "my own notes"
        (tmp_path / "run" / name).write_bytes(ours)


PARTS = {
    "evaluate": ["evaluate", "{place}/ranker", "{data}"],
    "rank": ["rank", "{place}/ranker", "{data}", "--out", "{out}"],
    "estimate": ["estimate", "{place}/ranker", "{data}", "--clicks", "{place}/clicks/train"],
    "select": ["select", "{data}", "{place}/ranker", "--clicks", "{place}/clicks/train"],
    "inspect": ["inspect", "{place}/clicks/train"],
    "inspect with data": ["inspect", "{place}/clicks/train", "--data", "{data}"],
    "plan": ["plan", "{data}", "--logger", "{place}/ranker", "--examination", "inverse-rank", "--policy",
             "deterministic:k=5"],
}  # fmt: skip


@pytest.mark.parametrize("data", ["data.parquet", None], ids=["one file", "a fold"])
@pytest.mark.parametrize("words", PARTS.values(), ids=PARTS)
def test_a_part_of_another_name_is_an_error(place, tmp_path, words, data):
    source = DATA if data is None else place / data
    command = [word.format(place=place, data=source, out=tmp_path / "out") for word in words]
    for part in ("nonsense", "vali", "Train", ""):
        message = f"--part {part or repr(part)}: expected one of train, validation, test"
        with pytest.raises(cr.CounterrankError, match=message):
            attempt(*command, "--part", part)
    if data is not None:  # one file is its own only part, under each of the three names
        for part in ("train", "validation", "test"):
            invoke(*command, "--part", part, *(["--force"] if words[0] == "rank" else []))

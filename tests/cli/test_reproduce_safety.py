"""`counterrank reproduce safety`, as a user runs it."""

import json

import pytest

from counterrank.common.errors import CounterrankError
from counterrank.experiments import reproduction
from counterrank.experiments.reproduction import choose_settings
from tests.support.command import invoke

DATA = "synthetic:mslr:queries=60"


class Reached(Exception):
    """Raised instead of running anything; holds what would have been run."""


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ((), {}),
        (("--n-sessions", "100,1e3"), {"sessions": (100, 1000)}),
        (("--methods", "prpo, gate"), {"methods": ("prpo", "gate")}),
    ],
)
def test_options_reach_the_settings(monkeypatch, options, given):
    def stop(data, out, settings, **more):
        raise Reached(settings)

    monkeypatch.setattr(reproduction, "reproduce", stop)
    with pytest.raises(Reached) as reached:
        invoke("reproduce", "safety", *options, "--data", DATA, "--out", "run")
    assert reached.value.args[0] == choose_settings("safety", given=given)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("safety", "--estimators", "auto"), "--estimators: applies to few-clicks only"),
        (("safety", "--figures", "2"), "--figures: applies to paper only"),
        (("few-clicks", "--methods", "prpo"), "--methods: applies to safety only"),
        (("safety", "--methods", "auto"), "--methods auto: expected some of unsafe"),
        (("--preset", "safety"), "--figures 6: those of safety"),
    ],
)
def test_bad_options_are_refused(tmp_path, arguments, message):
    with pytest.raises(CounterrankError) as caught:
        invoke("reproduce", *arguments, "--data", DATA, "--out", tmp_path / "run")
    assert message in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.process
def test_a_quick_run_and_its_report(tmp_path):
    tiny = ("--n-sessions", "100", "--runs", 1, "--max-epochs", 1, "--learning-rate", 1, "--methods", "prpo")
    command = ("reproduce", "safety", "--data", DATA, "--out", tmp_path / "run", "--quick", *tiny, "--jobs", 1)
    content = json.loads(invoke(*command, "--json").stdout)
    assert (content["cells"]["done"], content["cells"]["failed"]) == (5, 0)
    assert content["claims"]["prpo-keeps-its-limits"] == "not enough evidence"
    assert (tmp_path / "run" / "figures" / "figure6.svg").is_file()

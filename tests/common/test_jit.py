"""The cache of compiled kernels: old code is never used, and no cache is no problem."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numba import config, njit

import counterrank
from counterrank.common import jit
from counterrank.common.ranking import longest_of


@pytest.fixture
def nowhere(monkeypatch):
    monkeypatch.setattr(jit, "cache_folder", lambda: None)


def test_without_a_place_for_the_cache_kernels_are_compiled_all_the_same(nowhere):
    double = jit.kernel(lambda x: 2 * x)
    assert double(3) == 6
    assert double.stats.cache_path is None
    assert not jit.needs_compiling(double)


def test_a_function_without_a_file_is_compiled_all_the_same():
    names = {}
    exec("def double(x):\n    return 2 * x", names)
    assert jit.kernel(names["double"])(3) == 6


def test_no_folder_can_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "file"))
    assert jit.cache_folder.__wrapped__() is None


def test_the_cache_of_other_packages_stays_where_it_was():
    before = config.CACHE_DIR
    ours = jit.kernel(lambda x: 3 * x)
    assert before == config.CACHE_DIR
    assert jit.cache_folder() in Path(ours.stats.cache_path).parents
    theirs = njit(cache=True)(lambda x: 3 * x)
    assert jit.cache_folder() not in Path(theirs.stats.cache_path).parents


def test_old_folders_are_removed_unless_they_were_used_of_late(monkeypatch, tmp_path):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    names = ("counterrank-kernels-old", "counterrank-kernels-new", "another-old")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernel.nbi").write_text("")
        if name.endswith("old"):
            month_ago = time.time() - 30 * 86400
            os.utime(tmp_path / name, (month_ago, month_ago))
    folder = jit.cache_folder.__wrapped__()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names[1:], folder.name])


def test_what_is_on_disk_needs_no_compiling(monkeypatch, tmp_path):
    monkeypatch.setattr(jit, "cache_folder", lambda: tmp_path)
    again = jit.exact_kernel(longest_of.py_func)
    assert jit.needs_compiling(again)
    again(0, 1, np.array([0, 2]))
    assert not jit.needs_compiling(again)


@pytest.mark.process
def test_a_change_in_a_kernel_that_others_call_is_not_missed(tmp_path):
    package = tmp_path / "counterrank"
    shutil.copytree(Path(counterrank.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    code = "from counterrank.common.ranking import longest_query; print(longest_query([0, 2, 5]))"

    def answer():
        process = subprocess.run(
            [sys.executable, "-c", "import numpy as np; " + code.replace("[0, 2, 5]", "np.array([0, 2, 5])")],
            capture_output=True, text=True, cwd=tmp_path, check=True, env={"PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
        return process.stdout.strip()

    assert answer() == "3"
    caller = package / "common" / "caller.py"
    caller.write_text(
        "from counterrank.common.jit import kernel\n"
        "from counterrank.common.ranking import longest_of\n\n\n"
        "@kernel\ndef twice(offsets):\n    return 2 * longest_of(0, len(offsets) - 1, offsets)\n"
    )
    code = "from counterrank.common.caller import twice; print(twice([0, 2, 5]))"
    assert answer() == "6"
    callee = package / "common" / "ranking.py"
    text = callee.read_text()
    callee.write_text(text.replace("    return longest\n", "    return longest + 100\n"))
    assert text != callee.read_text()
    assert answer() == "206"


LEARN = """
import counterrank as cr
from counterrank import estimators
fold = cr.make_fold("mslr", 60, seed=0)
train, validation = (estimators.full_information(part, 2) for part in (fold.train, fold.validation))
for name in ("dcg-logistic", "lambdaloss-truncated", "arp-hinge", "plackett-luce"):
    ranker = cr.Ranker(name, max_epochs=15, threads=1, batch_queries=2 if name == "plackett-luce" else 1)
    ranker.fit(fold.train, train, validation=(fold.validation, validation))
    print(name, ranker.model_.coefficients.tobytes().hex())
"""


@pytest.mark.process
def test_compiled_and_loaded_kernels_give_the_same_numbers(tmp_path):
    """Bit for bit: where everything is compiled, where all of it is loaded, and where callers are compiled anew."""

    def learn():
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        words = [sys.executable, "-c", LEARN]
        return subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout

    compiled = learn()
    assert compiled
    assert learn() == compiled
    for folder in tmp_path.glob("*/training_*"):
        shutil.rmtree(folder)
    assert learn() == compiled

"""The cache of compiled kernels: old code is never used, and no cache is no problem."""

import shutil
import subprocess
import sys
from pathlib import Path

import counterrank
from counterrank.common import jit


def test_without_a_place_for_the_cache_kernels_are_compiled_all_the_same(monkeypatch):
    real, asked = jit.njit, []

    def no_place(*arguments, cache=False, **options):
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(*arguments, **options)

    monkeypatch.setattr(jit, "njit", no_place)
    assert jit.kernel(lambda x: 2 * x)(3) == 6
    assert asked == [True, False]


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

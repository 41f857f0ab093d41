"""Nothing that only Linux has is needed to import the package, nor for what every system has to do."""

import os
import subprocess
import sys
import textwrap

import pytest

from tests.test_public import all_modules

# what a machine lacks that is not Linux: modules, functions of os, symbols that kernels are linked with
BLOCK = """
    import os, sys

    for name in ("fcntl", "grp", "pwd", "resource", "termios"):
        sys.modules[name] = None
    for name in ("sched_yield", "sched_getaffinity"):
        if hasattr(os, name):
            delattr(os, name)
    import llvmlite.binding

    found = llvmlite.binding.address_of_symbol
    llvmlite.binding.address_of_symbol = lambda name: None if name == "sched_yield" else found(name)
"""


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BLOCK) + textwrap.dedent(code)],
        capture_output=True, text=True, check=False, timeout=300, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.process
def test_every_module_is_imported_without_what_only_linux_has():
    lines = "\n".join(f"import {name}" for name in all_modules())
    run(lines + "\nassert sys.modules['fcntl'] is None")


@pytest.mark.process
def test_the_block_works():
    with pytest.raises(AssertionError, match="fcntl"):
        run("import fcntl")
    with pytest.raises(AssertionError, match="sched_yield"):
        run("os.sched_yield()")


@pytest.mark.process
def test_threads_wait_for_each_other_without_sched_yield(tmp_path):
    code = """
        from counterrank.common.flags import await_flag, flags_for, publish, side_by_side

        flags = flags_for(2)

        def work(thread):
            for step in range(1, 100):
                publish(flags, thread, step)
                assert await_flag(flags, 1 - thread, step)

        side_by_side(work, 2, flags)
        print(flags[::8].tolist())
    """
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)).strip() == "[99, 99, 0]"


@pytest.mark.process
def test_files_are_written_and_locked_without_fcntl(tmp_path):
    code = f"""
        import warnings
        warnings.simplefilter("ignore")  # of filelock: locks are then files that are there
        from counterrank.common.files import atomic_file, spill_folder
        with spill_folder(), atomic_file({str(tmp_path / "out")!r}) as file:
            file.write_text("whole")
    """
    run(code)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_text() == "whole"

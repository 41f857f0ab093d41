"""Where things are, for the tests."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
SHARED = ROOT.parent / "shared" / "data"  # data sets next to the repository; not everyone has them

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the folder shared/data next to the repository is not there"
)

"""Kernels compiled for the tests live apart and are dropped when any kernel source changes.

numba keys its cache on the file a kernel stands in, not on those it calls, so an edit could leave stale code behind.
"""

import hashlib
import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _kernel_cache() -> Path:
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_bytes()
        if b"kernel" in text or b"njit" in text:
            digest.update(text)
    caches = ROOT / ".pytest_cache" / "kernels"
    mine = caches / digest.hexdigest()[:16]
    mine.mkdir(parents=True, exist_ok=True)
    for old in sorted(caches.iterdir(), key=lambda path: path.stat().st_mtime)[:-3]:
        shutil.rmtree(old, ignore_errors=True)
    return mine


os.environ.setdefault("NUMBA_CACHE_DIR", str(_kernel_cache()))

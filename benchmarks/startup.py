"""How long the library takes to import, and the command to start once its kernels are compiled."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from benchmarks.timing import median_seconds, row


def run(repeats: int = 5) -> list[dict[str, Any]]:
    """Rows of seconds, each in a fresh interpreter; `python -c pass` is the minimum."""

    def python(code: str):
        return lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    demo = "import sys; sys.argv[1:] = ['demo', '--queries', '100', '--json']; from counterrank.cli import main; main()"
    bare = median_seconds(python("pass"), repeats)
    library = median_seconds(python("import counterrank"), repeats) - bare
    whole = median_seconds(python("import counterrank; counterrank.Ranker; counterrank.losses"), repeats) - bare
    command = median_seconds(python(demo), repeats)
    return [
        row("import counterrank", library, target="<= 0.4 s", met=library <= 0.4),
        row("import counterrank and use everything", whole),
        row("counterrank demo --queries 100, kernels compiled before", command),
    ]

"""Simulated clicks. Another name for `counterrank.clicks.simulation`."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterrank.clicks.simulation import *  # noqa: F403
else:
    from counterrank.clicks import simulation

    sys.modules[__name__] = simulation

"""Logging policies. Another name for `counterrank.clicks.policies`."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterrank.clicks.policies import *  # noqa: F403
else:
    from counterrank.clicks import policies

    sys.modules[__name__] = policies

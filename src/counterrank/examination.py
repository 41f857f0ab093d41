"""Examination curves. Another name for `counterrank.clicks.examination`."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterrank.clicks.examination import *  # noqa: F403
else:
    from counterrank.clicks import examination

    sys.modules[__name__] = examination

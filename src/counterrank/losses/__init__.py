"""The paper's losses: value and gradient from scores, document weights and query offsets.

The general forms are `monotonic`, and `lambdaloss` and `lambdarank`, which share a kernel; formulas and citations are
with them. The seven losses that the paper compares are functions of their own.
`plackett_luce` is for stochastic rankers; `SafeWeights` limit their exposure.
All are minimised; DCG enters with a minus sign.

>>> value, gradient = lambdaloss_truncated([0.2, 0.1, 0.7], [1.0, 0.0, 0.0], [0, 3], k=1)
>>> bool(gradient[0] < 0 < gradient[2])  # the weighted document is pushed up, the one above it down
True
"""

from counterrank.losses.exposure_limits import SafeWeights
from counterrank.losses.lambdaloss import (
    dcg_discounts,
    lambdaloss,
    lambdaloss_dcg,
    lambdaloss_dcg_at_k,
    lambdaloss_truncated,
    lambdarank,
)
from counterrank.losses.loss_registry import LOSSES, NamedLoss, make_lambdaloss, named_loss, register_loss, second_order
from counterrank.losses.monotonic import (
    ALPHA_ARP,
    ALPHA_DCG,
    Alpha,
    arp_hinge,
    arp_logistic,
    dcg_hinge,
    dcg_logistic,
    monotonic,
)
from counterrank.losses.plackett_luce import plackett_luce

__all__ = [
    "ALPHA_ARP",
    "ALPHA_DCG",
    "LOSSES",
    "Alpha",
    "NamedLoss",
    "SafeWeights",
    "arp_hinge",
    "arp_logistic",
    "dcg_discounts",
    "dcg_hinge",
    "dcg_logistic",
    "lambdaloss",
    "lambdaloss_dcg",
    "lambdaloss_dcg_at_k",
    "lambdaloss_truncated",
    "lambdarank",
    "make_lambdaloss",
    "monotonic",
    "named_loss",
    "plackett_luce",
    "register_loss",
    "second_order",
]


def __dir__() -> list[str]:
    return sorted(__all__)

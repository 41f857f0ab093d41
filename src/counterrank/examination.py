"""User models: examination curves, P(examined | rank), and trust bias; given, or estimated from a click log.

>>> from counterrank import examination
>>> examination.inverse_rank(k=3, eta=1.0).curve(4).round(3).tolist()
[1.0, 0.5, 0.333, 0.0]
"""

from counterrank.clicks.browsing import Browsing, Dependent
from counterrank.clicks.browsing_fit import EstimatedBrowsing, EstimatedDependent
from counterrank.clicks.contexts import ContextTest, EstimatedByContext
from counterrank.clicks.examination import Examination, InverseRank, check_examination, from_description, inverse_rank
from counterrank.clicks.position_bias import EstimatedExamination, connected_ranks
from counterrank.clicks.trust_bias import EstimatedAffine, TrustTest
from counterrank.clicks.user_estimation import estimate, load, load_estimate
from counterrank.clicks.user_models import Affine, ByContext

__all__ = [
    "Affine",
    "Browsing",
    "ByContext",
    "ContextTest",
    "Dependent",
    "EstimatedAffine",
    "EstimatedBrowsing",
    "EstimatedByContext",
    "EstimatedDependent",
    "EstimatedExamination",
    "Examination",
    "InverseRank",
    "TrustTest",
    "check_examination",
    "connected_ranks",
    "estimate",
    "from_description",
    "inverse_rank",
    "load",
    "load_estimate",
]


def __dir__() -> list[str]:
    return sorted(__all__)

"""An estimator of a user's own, registered when this module is imported, as worker processes do."""

from counterrank.estimators import ESTIMATORS, Estimator, register_estimator


def powers(data, evidence, power=1.0):
    return ESTIMATORS["naive"].weigh(data, evidence) ** power


OWN = Estimator(
    "own-powers",
    "a power of the number of clicks",
    "clicks(d) ** power",
    "never",
    ("clicks",),
    {"power": "the exponent"},
    weigh=powers,
)
register_estimator(OWN)

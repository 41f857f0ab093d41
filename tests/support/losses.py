"""Losses by what tests can demand of them."""

from counterrank import losses

# those that draw nothing: one value for the same scores and weights, which a reference can compute too
EXACT = tuple(name for name, loss in losses.LOSSES.items() if not loss.spec(None, 2).draws)

"""Finite-sample confidence bounds of a mean by betting, from clicks that are counted and not kept session by session.

A gambler who bets the fraction lambda of the wealth on each session's value X being above m owns, after all of them,

    K(m) = sum over bets j of w_j * product over sessions of (1 + lambda_j * (X - m))

times the wealth at the start. Where the mean of X is at most m, the wealth is a nonnegative supermartingale: it ever
reaches 1 / alpha with a probability of at most alpha (Ville 1939). So the m at which it has not reached that are a
one-sided confidence sequence (Waudby-Smith and Ramdas, JRSS B 2024), valid at every look at a growing log. Bets stay
the same over all sessions, so that their order does not matter.

With the sessions of each query held fixed, the expected wealth at any one look is at most 1 too: with mu_q the mean of
query q, product over q of (1 + lambda (mu_q - m))**n_q is largest where all are equal, and then at most 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterrank.common.checks import FloatArray, IntArray

_SPACING = 0.35  # of the logarithms of bets
_SMALLER, _LARGER = 5.0, 2.0  # how far bets go below and above the expected best one, as logarithms
_TAILS = 1.5  # how fast weights of bets fall off with the distance of their logarithms to that of the expected best
_WHOLE = 0.99  # of the largest bet that cannot lose more than there is
_STEPS = 50  # of bisection
_AT_ONCE = 1 << 16  # values times bets held in memory, at most so many values


class SessionValues(NamedTuple):
    """Values of sessions, each distinct one once."""

    values: FloatArray
    sessions: FloatArray  # with this value

    @property
    def n(self) -> float:
        """The number of sessions."""
        return float(self.sessions.sum())

    @property
    def mean(self) -> float:
        """The mean value."""
        return float(self.values @ self.sessions) / self.n

    def negated(self) -> SessionValues:
        """The same with other signs."""
        return SessionValues(-self.values, self.sessions)


class Terms(NamedTuple):
    """Sums over sessions that are known for each of their parts alone; the parts of a session are not known together.

    Each group of sessions has parts, such as the ranks of a page; `worth` holds the values other than 0 of a part, with
    the number of sessions in which the part has that value.
    """

    group: IntArray
    part: IntArray
    worth: FloatArray
    sessions: IntArray


def least_favourable(terms: Terms, sizes: IntArray, base: FloatArray) -> SessionValues:
    """Sessions of the smallest possible wealth among all that have these parts.

    Within a group the largest values of all parts are put into one session, the next largest into the next, and so on.
    log(1 + lambda (x - m)) is concave, and this (comonotone) sum is the largest in convex order whatever the parts have
    to do with each other (Meilijson and Nadas 1979), so that the wealth of the true sessions, which the counts do not
    tell, is at least as large for every bet. No independence of clicks is assumed.

    Arguments:
        terms: the values of the parts of sessions, by group.
        sizes: the number of sessions of each group; parts have the value 0 in all sessions that terms do not mention.
        base: a value that all sessions of the group have in addition.

    >>> terms = Terms(np.array([0, 0]), np.array([0, 1]), np.array([2.0, -1.0]), np.array([1, 2]))
    >>> found = least_favourable(terms, np.array([3]), np.zeros(1))  # 2 + 0, 0 - 1, 0 - 1
    >>> found.values.tolist(), found.sessions.tolist()
    ([-1.0, 2.0], [2.0, 1.0])
    """
    kept = np.flatnonzero((terms.sessions > 0) & (terms.worth != 0.0))
    group, part, worth, times = (column[kept] for column in terms)
    positive = worth > 0.0
    order = np.lexsort((-np.abs(worth), positive, part, group))
    group, part, worth, times = (column[order] for column in (group, part, worth, times))
    positive = positive[order]
    same = (group[1:] == group[:-1]) & (part[1:] == part[:-1]) & (positive[1:] == positive[:-1])
    # of one part and sign, from the largest to 0: a value holds up to a session, and then falls to the next one
    drops = np.abs(worth)
    drops[:-1] -= np.where(same, drops[1:], 0.0)
    reached = _running(times, np.append(True, ~same)[: len(times)])
    falls = np.where(positive, reached, sizes[group] - reached)
    start = base + np.bincount(group, weights=np.where(positive, drops, 0.0), minlength=len(sizes))
    order = np.lexsort((falls, group))
    group, falls, drops = group[order], falls[order], drops[order]
    first = np.append(True, group[1:] != group[:-1])[: len(group)]
    after = start[group] - _running(drops, first)
    until = np.append(falls[1:], 0)
    last = np.append(first[1:], True)[: len(group)]
    until[last] = sizes[group[last]]
    begin = sizes.astype(np.int64)
    begin[group[first]] = falls[first]
    return _distinct(np.concatenate([start, after]), np.concatenate([begin, until - falls]))


def _running(values: FloatArray | IntArray, first: FloatArray | IntArray) -> FloatArray:
    """Cumulative sums that begin again wherever `first` is true."""
    total = np.cumsum(values, dtype=np.float64)
    before = np.where(first, total - values, 0.0)
    starts = np.flatnonzero(first)
    return np.asarray(total - np.repeat(before[starts], np.diff(np.append(starts, len(values)))))


def _distinct(values: FloatArray, sessions: FloatArray | IntArray) -> SessionValues:
    """Each value once; those that differ by rounding are taken together."""
    shown = sessions > 0
    rounded, place = np.unique(np.round(values[shown], 9), return_inverse=True)
    numbers = np.bincount(place.reshape(-1), weights=sessions[shown], minlength=len(rounded))
    return SessionValues(rounded, np.asarray(numbers, np.float64))


class Bets(NamedTuple):
    """Fractions of the wealth to bet, and how the wealth at the start is divided between them."""

    fractions: FloatArray
    log_weights: FloatArray

    @classmethod
    def of(cls, loss: float, most: float, square: float, sessions: float, alpha: float) -> Bets:
        """Bets around the one that is expected to decide soonest.

            lambda = sqrt(2 log(1 / alpha) / (sessions * square))       smaller than 1 / (loss + most)

        All arguments must be known without looking at clicks.

        Arguments:
            loss: the largest possible loss of a session, -X.
            most: the largest possible mean.
            square: about how large X**2 is on average; it decides the power, and not the validity.
            sessions: about how many sessions will decide, and so does this.
            alpha: the error rate.

        >>> bets = Bets.of(2.0, 1.0, square=1.0, sessions=1000.0, alpha=0.05)
        >>> bool(bets.fractions.max() < 1 / 3), round(float(np.exp(bets.log_weights).sum()), 12)
        (True, 1.0)
        """
        largest = _WHOLE / max(loss + most, 1e-300)
        best = min(np.sqrt(2.0 * np.log(1.0 / alpha) / max(sessions * square, 1e-300)), largest)
        top = min(np.log(largest), np.log(best) + _LARGER)
        logs = top - _SPACING * np.arange(int((top - np.log(best) + _SMALLER) / _SPACING) + 1)
        weights = -np.abs(logs - np.log(best)) / _TAILS
        return cls(np.exp(logs), weights - np.logaddexp.reduce(weights))


def log_growth(sessions: SessionValues, bets: Bets, mean: float) -> FloatArray:
    """For each bet sum over sessions of log(1 + lambda (X - m)); -inf where a session would lose all and more.

    Least favourable sessions may lose more than a page can, since a document may be in them at two ranks.
    """
    total = np.zeros(len(bets.fractions))
    for begin in range(0, len(sessions.values), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        gains = sessions.values[part] - mean
        for j, fraction in enumerate(bets.fractions):
            with np.errstate(divide="ignore"):
                total[j] += np.log1p(np.maximum(fraction * gains, -1.0)) @ sessions.sessions[part]
    return total


def log_wealth(sessions: SessionValues, bets: Bets, mean: float, times: float = 1.0) -> float:
    """log K(m); `times` as many sessions like these may be assumed.

    >>> even = Bets(np.array([0.5]), np.zeros(1))
    >>> round(log_wealth(SessionValues(np.array([-1.0, 1.0]), np.ones(2)), even, 0.0) - float(np.log(0.75)), 12)
    0.0
    """
    return float(np.logaddexp.reduce(bets.log_weights + times * log_growth(sessions, bets, mean)))


def lower_bound(sessions: SessionValues, bets: Bets, alpha: float, least: float, most: float) -> float:
    """The smallest mean that the wealth does not rule out: K(m) < 1 / alpha; from `least` to `most`, the possible ones.

    >>> sums = SessionValues(np.array([0.0, 1.0]), np.array([500.0, 500.0]))
    >>> bets = Bets.of(0.0, 1.0, 0.5, 1000.0, 0.05)
    >>> 0.4 < lower_bound(sums, bets, 0.05, 0.0, 1.0) < 0.5
    True
    """
    limit = -np.log(alpha)
    if log_wealth(sessions, bets, least) < limit:
        return least
    low, high = least, most
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if log_wealth(sessions, bets, middle) < limit:
            high = middle
        else:
            low = middle
        if high - low <= 1e-7 * max(1e-3, abs(low)):
            break
    return low


def times_to_decide(sessions: SessionValues, bets: Bets, alpha: float, mean: float, most: float = 1e4) -> float | None:
    """How many times as many sessions like these rule out this mean; None where even `most` do not.

    >>> sums = SessionValues(np.array([0.0, 1.0]), np.array([5.0, 5.0]))
    >>> times_to_decide(sums, Bets.of(0.0, 1.0, 0.5, 10.0, 0.05), 0.05, 0.6) is None
    True
    """
    growth, limit = log_growth(sessions, bets, mean), -np.log(alpha)

    def decides(times: float) -> bool:
        return bool(np.logaddexp.reduce(bets.log_weights + times * growth) >= limit)

    if not decides(most):
        return None
    low, high = 0.0, most
    while high - low > 1e-3 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high

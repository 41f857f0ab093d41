"""Users whose clicks depend on each other, by enumeration of all patterns of clicks on a page."""

from __future__ import annotations

import itertools


def page_patterns(attraction, chance, onward):
    """The probability of each pattern of clicks (a tuple of 0 and 1), and P(examined at each rank | pattern).

    `chance(rank, last)` is P(examined | still there, last click at `last`, 0 for none), ranks from 1; `onward(rank)` is
    P(the user goes on | click at rank). All histories are walked through: examined or not, clicked or not, gone or not.
    """
    found = {}
    for pattern in itertools.product((0, 1), repeat=len(attraction)):
        states = [(1.0, True, 0, ())]  # probability, still there, last click, examined so far
        for rank, (r, clicked) in enumerate(zip(attraction, pattern, strict=True), 1):
            after = []
            for p, there, last, seen in states:
                if not there:
                    if not clicked:
                        after.append((p, False, last, (*seen, 0)))
                    continue
                g = chance(rank, last)
                if clicked:
                    after.append((p * g * r * onward(rank), True, rank, (*seen, 1)))
                    after.append((p * g * r * (1 - onward(rank)), False, rank, (*seen, 1)))
                else:
                    after.append((p * g * (1 - r), True, last, (*seen, 1)))
                    after.append((p * (1 - g), True, last, (*seen, 0)))
            states = after
        total = sum(p for p, *_ in states)
        examined = [sum(p * seen[i] for p, _, _, seen in states) for i in range(len(attraction))]
        found[pattern] = (total, [each / total if total else 0.0 for each in examined])
    return found


def chances_of(users):
    """The arguments of `page_patterns` of a user model."""
    k = users.k
    gamma, onward = users.chances(k), users.onward(k)

    def chance(rank, last):
        return gamma[rank - 1, last] if rank <= k else 0.0

    return chance, lambda rank: onward[rank - 1] if rank < k else 0.0


def last_click(pattern, rank):
    """The rank of the last click above a rank, 0 for none."""
    return max((i for i, clicked in enumerate(pattern[: rank - 1], 1) if clicked), default=0)

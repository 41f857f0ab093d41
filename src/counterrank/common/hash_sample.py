"""Samples drawn by hash: two of them tell how much the sets they come from have in common."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

HashArray = NDArray[np.uint64]
EVERYTHING = 2**64  # the limit of a sample that leaves nothing out


@dataclass(frozen=True, eq=False)
class HashSample:
    """All members of a set whose 64-bit hash is below a limit (a theta sketch).

    A member is in the sample of every set that has it, or in none with the same limit. So the share of members that two
    samples have in common, below the smaller limit, estimates the share that their sets have in common.

    Attributes:
        hashes: of the members in the sample, rising, each once.
        limit: hashes below it are in the sample; `EVERYTHING` for all members.

    >>> one, other = HashSample.of([5, 9, 7]), HashSample.of([7, 1, 5, 3])
    >>> one.share_in(other), other.share_in(one)  # 5 and 7 of 5, 7, 9; 5 and 7 of 1, 3, 5, 7
    (0.6666666666666666, 0.5)
    """

    hashes: HashArray
    limit: int = EVERYTHING

    @classmethod
    def of(cls, hashes: ArrayLike, limit: int = EVERYTHING) -> HashSample:
        """The sample of these members: those below the limit."""
        given: HashArray = np.unique(np.asarray(hashes, np.uint64))
        return cls(_below(given, limit), limit)

    def reduced(self, size: int) -> HashSample:
        """At most so many members, by a smaller limit; itself if it has no more.

        >>> HashSample.of([5, 9, 7]).reduced(2).hashes.tolist()
        [5, 7]
        """
        if len(self.hashes) <= size:
            return self
        limit = int(self.hashes[size])
        return HashSample(_below(self.hashes, limit), limit)

    def share_in(self, other: HashSample) -> float:
        """The estimated share of the members of this set that the other set has too; 0 of an empty sample."""
        limit = min(self.limit, other.limit)
        own = _below(self.hashes, limit)
        return float(np.isin(own, other.hashes).mean()) if len(own) else 0.0

    def describe(self) -> dict[str, Any]:
        """The sample as JSON can hold it."""
        packed = base64.b64encode(self.hashes.astype("<u8").tobytes()).decode("ascii")
        return {"limit": str(self.limit), "hashes": packed}  # a text: JSON readers may round numbers of 64 bits

    @classmethod
    def from_description(cls, content: dict[str, Any]) -> HashSample:
        """What `describe` wrote.

        >>> HashSample.from_description(HashSample.of([5, 7]).describe()).hashes.tolist()
        [5, 7]
        """
        packed = base64.b64decode(str(content["hashes"]).encode("ascii"), validate=True)
        return cls.of(np.frombuffer(packed, "<u8"), int(content["limit"]))


def _below(hashes: HashArray, limit: int) -> HashArray:
    """Of rising hashes those below the limit, which may be one more than the largest there can be."""
    return hashes if limit >= EVERYTHING else hashes[: np.searchsorted(hashes, np.uint64(limit))]

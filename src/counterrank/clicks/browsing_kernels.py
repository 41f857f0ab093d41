"""Kernels for users whose clicks on a page depend on each other; see `browsing` for the formulas."""

from __future__ import annotations

import numpy as np

from counterrank.common.jit import Array, exact_inner_kernel, exact_kernel


@exact_inner_kernel
def last_of(pattern: int) -> int:
    """The last clicked rank of a pattern, 0 for none."""
    last = 0
    while pattern:
        last += 1
        pattern >>= 1
    return last


@exact_inner_kernel
def gone_on(docs: Array, last: int, k: int, onward: float, attraction: Array) -> float:
    """P(the user went on after the last click | no click below): lambda Q / (1 - lambda + lambda Q), 1 without a click.

    With nothing below that can be examined it is lambda.
    """
    if last == 0:
        return 1.0
    none = 1.0
    for rank in range(last, min(len(docs), k)):
        none *= 1.0 - attraction[docs[rank]]
    below = 1.0 - onward + onward * none
    return onward * none / below if below > 0.0 else 0.0


@exact_kernel
def examined_documents(
    offsets: Array, docs: Array, sessions: Array, patterns: Array, onward: Array, k: int, attraction: Array
) -> Array:
    """The expected number of examinations of each document, given the clicks on its pages."""
    seen = np.zeros(len(attraction))
    for page in range(len(sessions)):
        here = docs[offsets[page] : offsets[page + 1]]
        last = last_of(patterns[page])
        rest = gone_on(here, last, k, onward[last - 1] if last else 1.0, attraction)
        for rank in range(min(len(here), k)):
            seen[here[rank]] += sessions[page] * (1.0 if rank < last else rest)
    return seen


@exact_kernel
def examined_cells(
    offsets: Array,
    docs: Array,
    sessions: Array,
    patterns: Array,
    onward: Array,
    k: int,
    attraction: Array,
    keys: Array,
    width: int,
) -> tuple[Array, Array]:
    """Impressions and expected examinations of each (document, rank): `keys`, in order, are doc * width + rank."""
    shown, seen = np.zeros(len(keys)), np.zeros(len(keys))
    for page in range(len(sessions)):
        here = docs[offsets[page] : offsets[page + 1]]
        last = last_of(patterns[page])
        rest = gone_on(here, last, k, onward[last - 1] if last else 1.0, attraction)
        for rank in range(len(here)):
            at = np.searchsorted(keys, here[rank] * width + rank + 1)
            if at < len(keys) and keys[at] == here[rank] * width + rank + 1:
                shown[at] += sessions[page]
                if rank < k:
                    seen[at] += sessions[page] * (1.0 if rank < last else rest)
    return shown, seen


@exact_kernel
def em_step(
    offsets: Array, docs: Array, sessions: Array, patterns: Array, onward: Array, k: int, attraction: Array
) -> tuple[Array, Array, Array, float]:
    """One pass of EM for the dependent click model.

    Returns for each rank the clicks after which users may go on and the expected number who did, for each document the
    expected examinations, and the log-likelihood of the present values without that of documents at or above the last
    click:  log(1 - lambda + lambda Q) and log lambda of the clicks.
    """
    tried, went, seen = np.zeros(len(onward)), np.zeros(len(onward)), np.zeros(len(attraction))
    likelihood = 0.0
    for page in range(len(sessions)):
        n = sessions[page]
        here = docs[offsets[page] : offsets[page + 1]]
        length = min(len(here), k)
        last = last_of(patterns[page])
        rest = gone_on(here, last, k, onward[last - 1] if last else 1.0, attraction)
        for rank in range(length):
            doc = here[rank]
            clicked = (patterns[page] >> rank) & 1
            seen[doc] += n * (1.0 if rank < last else rest)
            if rank < last or last == 0:
                r = attraction[doc]
                likelihood += n * np.log(max(r if clicked else 1.0 - r, 1e-300))
            if clicked and rank + 1 < length:
                tried[rank] += n
                if rank + 1 < last:
                    went[rank] += n
                    likelihood += n * np.log(max(onward[rank], 1e-300))
                else:
                    went[rank] += n * rest
                    none = 1.0
                    for below in range(rank + 1, length):
                        none *= 1.0 - attraction[here[below]]
                    likelihood += n * np.log(max(1.0 - onward[rank] + onward[rank] * none, 1e-300))
    return tried, went, seen, likelihood


@exact_kernel
def weigh_clicks(
    offsets: Array, docs: Array, sessions: Array, patterns: Array, onward: Array, keys: Array, width: int
) -> tuple[Array, Array]:
    """The sum of importance weights and the number of clicks of each (document, rank); keys as in `examined_cells`."""
    sums, counts = np.zeros(len(keys)), np.zeros(len(keys))
    for page in range(len(sessions)):
        weight = 1.0
        for rank in range(offsets[page + 1] - offsets[page]):
            if (patterns[page] >> rank) & 1:
                key = docs[offsets[page] + rank] * width + rank + 1
                at = np.searchsorted(keys, key)
                if at < len(keys) and keys[at] == key:
                    sums[at] += sessions[page] * weight
                    counts[at] += sessions[page]
                weight /= onward[rank]
    return sums, counts

"""The words of the figures, each explained in a line; only those that a run uses."""

from __future__ import annotations

from typing import Any

from counterrank.report.points import series_names

_BIAS = (
    "item selection bias",
    "A document that is never shown gets no clicks, however good it is, and no correction for position can bring it "
    "back.",
)
# the term, what it means, and the series or levels of which one has to be there
_SERIES = (
    (
        "policy-aware",
        "Divides each click by the chance that its document was shown and examined, over all pages that the policy "
        "may have made.",
        ("policy-aware",),
    ),
    ("auto", "Chooses among the estimators below, and their numbers, by what the clicks say.", ("auto",)),
    ("direct", "A model of relevance, learned from the clicks, in place of the clicks themselves.", ("direct",)),
    (
        "doubly robust",
        "That model, corrected by the clicks it did not foresee, each divided as policy-aware does; tau is the least "
        "chance to divide by.",
        ("doubly-robust",),
    ),
    (
        "shrinkage",
        "The click rate of each document, drawn towards that model the more the less often it was examined; the "
        "strength is how many examinations the model counts for.",
        ("shrinkage",),
    ),
    ("naive", "Counts clicks as they are.", ("naive",)),
    (
        "policy-oblivious",
        "Divides each click by the chance that its rank was examined, and does not ask how the page was chosen.",
        ("policy-oblivious", "policy-oblivious+random"),
    ),
    (
        "rerank",
        "The same, but only documents that stood on one page together are compared with each other.",
        ("rerank", "rerank+random"),
    ),
    (
        "randomised",
        "From pages whose last place goes to any of the remaining documents at random, as do those that policy-aware "
        "learns from. Without this word: from pages that always show the top of the ranking.",
        ("policy-oblivious+random", "rerank+random"),
    ),
    ("no cutoff", "Clicks on the whole ranking, of which nothing is hidden.", ("no-cutoff",)),
    (
        "production, full information",
        "The ranker that made the pages, and one trained on all labels: from where learning starts, and what it can "
        "hope for.",
        ("production", "full-information"),
    ),
)


def glossary(figures: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Terms and what they mean, in the order of reading.

    >>> panel = {"name": "arp", "series": [{"name": "no-cutoff"}], "levels": []}
    >>> [term for term, _ in glossary([{"number": 2, "panels": [panel]}])]
    ['item selection bias', 'no cutoff', 'ARP']
    """
    names = {name.partition(":")[0] for name in series_names(figures)}
    panels = [str(panel.get("name")) for figure in figures for panel in figure.get("panels", [])]
    if any(figure.get("number") in (3, 4) for figure in figures):
        names.add("policy-aware")  # their lines are ways of policy-aware learning
    found = [(term, meaning) for term, meaning, which in _SERIES if names & set(which)]
    if "arp" in panels:
        found.append(("ARP", "The average rank of the relevant documents: the lower the better."))
    dcg = next((name.upper() for name in panels if name.startswith("dcg@")), "")
    if dcg:
        top = dcg.partition("@")[2]
        text = f"The relevant documents among the first {top}, each counted 1 / log₂(rank + 1): the higher the better."
        found.append((dcg, text))
    return [_BIAS, *found] if found else []

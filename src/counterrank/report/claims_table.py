"""The claims as a table in Markdown, to paste into a document."""

from __future__ import annotations

from typing import Any

SIGNS = (
    "In all numbers plus is better, for ARP as well, whose lower values are the better ones; only where a gap or a "
    "loss is named, plus is its size."
)
_WORDS = {"holds": "holds", "does not hold": "**does not hold**", "not enough evidence": "not enough evidence"}


def claims_markdown(claims: list[dict[str, Any]]) -> str:
    """One row for each claim: the verdict, what is claimed, the numbers, and where the paper says it.

    >>> claim = {"verdict": "holds", "statement": "A is B.", "numbers": "+1 %", "paper": "Section 6.1", "figure": 1}
    >>> print(claims_markdown([claim]).splitlines()[-1])
    | holds | A is B. | +1 % | Section 6.1 |
    """
    lines = [SIGNS, "", "| verdict | claim | numbers | in the paper |", "|---|---|---|---|"]
    for claim in claims:
        words = (_WORDS[claim["verdict"]], *(str(claim[key]) for key in ("statement", "numbers", "paper")))
        lines.append("| " + " | ".join(" ".join(word.replace("|", r"\|").split()) for word in words) + " |")
    return "\n".join(lines) + "\n"

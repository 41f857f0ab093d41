"""Names and numbers as people read them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from counterrank.clicks.policies.parsing import split_mixture

SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_READABLE = {"no-cutoff": "no cutoff", "full-information": "full information"}


def readable(name: str) -> str:
    """The name of a series as a label.

    >>> readable("rerank+random"), readable("plackett-luce:k=5,temperature=1"), readable("deterministic:k=5")
    ('rerank, randomised', 'plackett-luce (temperature 1)', 'deterministic')
    >>> readable("0.9*deterministic:k=5+0.1*plackett-luce:k=5,temperature=1")
    '0.9 deterministic + 0.1 plackett-luce'
    """
    shares = split_mixture(name)
    if shares:
        return " + ".join(f"{share} {policy.split(':')[0]}" for share, policy in shares)
    if name.endswith("+random"):
        return f"{readable(name.removesuffix('+random'))}, randomised"
    kind, _, options = name.partition(":")
    kept = [option.replace("=", " ", 1) for option in options.split(",") if option and not option.startswith("k=")]
    return _READABLE.get(kind, kind) + (f" ({', '.join(kept)})" if kept else "")


def readable_all(names: Iterable[str]) -> dict[str, str]:
    """Labels for several names; those that would read the same keep their full name.

    >>> readable_all(["deterministic:k=5", "deterministic:k=10", "rerank"])
    {'deterministic:k=5': 'deterministic:k=5', 'deterministic:k=10': 'deterministic:k=10', 'rerank': 'rerank'}
    """
    labels = {name: readable(name) for name in names}
    taken = list(labels.values())
    return {name: label if taken.count(label) == 1 else name for name, label in labels.items()}


def metric_name(name: str) -> str:
    """A metric as it is written: abbreviations in capitals.

    >>> metric_name("ndcg@5"), metric_name("precision@5")
    ('NDCG@5', 'Precision@5')
    """
    return name.upper() if name.split("@")[0] in ("arp", "dcg", "ndcg", "mrr", "map") else name[:1].upper() + name[1:]


def power(value: Any) -> str:
    """A number with powers of ten written as such from 100 on.

    >>> power(10**8), power(5), power(31_623), power(3 * 10**6), power(None)
    ('10⁸', '5', '31,623', '3·10⁶', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return str(value)
    if value >= 100:
        exponent = math.floor(math.log10(value) + 1e-9)
        lead = value / 10**exponent
        if abs(lead - round(lead)) < 1e-9:
            raised = "".join(SUPERSCRIPTS[int(digit)] for digit in str(exponent))
            return f"10{raised}" if round(lead) == 1 else f"{round(lead)}·10{raised}"
    return number(value)


def places_text(places: Sequence[Any]) -> list[str]:
    """The places on an axis: plain numbers, or powers of ten if they go far.

    >>> places_text([1, 10, 100]), places_text([100, 10**6]), places_text([None])
    (['1', '10', '100'], ['10²', '10⁶'], ['value'])
    """
    far = max((place for place in places if place is not None), default=0) >= 1000
    return ["value" if place is None else power(place) if far else number(place) for place in places]


def number(value: Any) -> str:
    """A number with about four digits that matter; other things as they are.

    >>> number(0.31412), number(12345), number(78.9), number(None), number(0.0000123), number(1e-14)
    ('0.3141', '12,345', '78.90', '–', '1.23e-05', '1e-14')
    """
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return str(value)
    if isinstance(value, int) or (value == int(value) and abs(value) >= 100):
        return f"{int(value):,}"
    if value == 0:
        return "0"
    if abs(value) < 1e-3:
        return f"{value:.3g}"
    if abs(value) < 10:
        return f"{value:.4f}"
    return f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"


def interval_text(interval: tuple[float, float] | None, missing: str = "") -> str:
    """Both ends of an interval, or what is said where there is none.

    >>> interval_text((0.25, 0.5)), interval_text(None, "none")
    ('0.2500 to 0.5000', 'none')
    """
    return missing if interval is None else f"{number(interval[0])} to {number(interval[1])}"


def percent(value: Any, digits: int = 1) -> str:
    """A share as a percentage.

    >>> percent(0.081), percent(None), percent(0.5, 0)
    ('8.1 %', '–', '50 %')
    """
    return "–" if value is None else f"{100 * value:.{digits}f} %".replace("-", "−")


def signed_percent(value: Any) -> str:
    """A relative difference as a percentage with its sign.

    >>> signed_percent(0.021), signed_percent(-0.3), signed_percent(None)
    ('+2.1 %', '−30.0 %', '–')
    """
    return ("+" if value is not None and value > 0 else "") + percent(value)


def raised(text: str) -> str:
    """Powers written with a caret as they are printed.

    >>> raised("from 10^6 clicks on")
    'from 10⁶ clicks on'
    """
    return re.sub(r"\^(\d+)", lambda found: "".join(SUPERSCRIPTS[int(digit)] for digit in found[1]), text)


def duration(seconds: Any) -> str:
    """A time in the unit that suits it.

    >>> duration(0.25), duration(75), duration(5000), duration(None)
    ('0.25 s', '1 min 15 s', '1 h 23 min', '–')
    """
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60) if seconds >= 3600 else int(seconds // 60)
    return f"{minutes // 60} h {minutes % 60} min" if seconds >= 3600 else f"{minutes} min {seconds % 60:.0f} s"


def counted(count: int, word: str, many: str = "") -> str:
    """A count with its word.

    >>> counted(1, "run"), counted(8, "run"), counted(2, "query", "queries")
    ('1 run', '8 runs', '2 queries')
    """
    return f"{count:,} {word if count == 1 else many or word + 's'}"

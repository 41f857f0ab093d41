"""Figures whose truth is known, drawn with noise, and what is claimed of them."""

import copy
from collections.abc import Callable

import numpy as np

from counterrank.experiments import claims
from counterrank.experiments.summary import Figure, FoldDescription, from_json, to_json

LONG = [{"source": "long", "parts": {"train": {"documents_per_query": 120.0}}}]
SHORT = [{"source": "short", "parts": {"train": {"documents_per_query": 24.0}}}]
KS = (1, 2, 5, 10, 20, 50, 100)
CLICKS = tuple(10**power for power in range(2, 9))
FULL = {"arp": 10.0, "dcg@5": 0.5}
LOSSES = ("dcg-hinge", "dcg-logistic", "lambdaloss-dcg", "lambdaloss-dcg-at-k", "lambdaloss-truncated")


def check_claims(figures, data=(), **options):
    """`claims.check_claims` from and to JSON."""
    read = [from_json(Figure, figure) for figure in figures]
    folds = [from_json(FoldDescription, fold) for fold in data]
    return to_json(claims.check_claims(read, data=folds, **options))


def curve(xs, *levels):
    return dict(zip(xs, levels, strict=True))


def paper_like(long_queries: bool = True) -> dict:
    """Levels as shares of full-information (1.02: 2 % better, for ARP as well), by figure, panel, series and x."""
    return {
        1: {name: _page_sizes(name, long_queries) for name in FULL},
        2: {name: _click_numbers(name) for name in FULL},
        3: {"dcg@5": _losses(long_queries)},
        4: {"dcg@5": _policies(), "cost": {**{p: {None: c} for p, c in COSTS.items()}}},
    }


def _page_sizes(metric: str, long_queries: bool) -> dict:
    late = (0.94, 0.95) if metric == "arp" and long_queries else (0.985, 0.99)
    oblivious = curve(KS, 0.70, 0.75, 0.80, 0.85, 0.90, *late)
    rerank = curve(KS[1:], 0.72, 0.78, 0.86, 0.91, *late)

    def randomised(plain):
        return {k: share + 0.1 * (1.0 - share) for k, share in plain.items()}

    aware = {k: 0.985 if metric == "arp" and k > 15 else 0.997 for k in KS}
    if metric == "arp" and not long_queries:
        aware.update({50: 0.995, 100: 0.995})
    if metric == "dcg@5" or not long_queries:
        aware.update({50: 0.999, 100: 0.999})
    return {
        "policy-aware": aware,
        "policy-oblivious": oblivious,
        "policy-oblivious+random": {**randomised(oblivious), 1: 0.998},
        "rerank": rerank,
        "rerank+random": randomised(rerank),
    }


def _click_numbers(metric: str) -> dict:
    flat = curve(CLICKS, 0.65, 0.70, 0.75, 0.80, 0.801, 0.801, 0.80)
    slow = curve(CLICKS, 0.65, 0.68, 0.72, 0.76, 0.80, 0.801, 0.80)
    return {
        "policy-aware": curve(CLICKS, 0.65, 0.70, 0.76, 0.84, 0.92, 0.982, 0.997),
        "policy-oblivious": flat,
        "policy-oblivious+random": flat,
        "rerank": slow if metric == "arp" else flat,
        "rerank+random": slow if metric == "arp" else flat,
        "no-cutoff": curve(CLICKS, 0.66, 0.74, 0.84, 0.94, 0.985, 0.995, 0.999),
    }


def _losses(long_queries: bool) -> dict:
    return {
        "dcg-hinge": curve(CLICKS, 0.65, 0.69, 0.75, 0.84, 0.92, 0.97, 0.99),
        "dcg-logistic": curve(CLICKS, 0.68, 0.74, 0.80, 0.85, 0.87, 0.89, 0.90 if long_queries else 0.985),
        "lambdaloss-dcg": curve(CLICKS, 0.65, 0.69, 0.74, 0.83, 0.91, 0.97, 0.988),
        "lambdaloss-dcg-at-k": curve(CLICKS, 0.65, 0.69, 0.74, 0.83, 0.91, 0.97, 0.987),
        "lambdaloss-truncated": curve(CLICKS, 0.65, 0.70, 0.76, 0.85, 0.93, 0.98, 0.998),
    }


COSTS = {
    "replace-last:k=5": 0.03,
    "epsilon-greedy:k=5,epsilon=0.1": 0.05,
    "uniform-insert:k=5": 0.08,
    "plackett-luce:k=5,temperature=1": 0.20,
    "deterministic:k=5": 0.0,
}


def _policies() -> dict:
    shares = {
        policy: {clicks: 0.997 - (0.3 - cost) / (1 + number) ** 2 for number, clicks in enumerate(CLICKS)}
        for policy, cost in COSTS.items()
    }
    shares["deterministic:k=5"] = dict.fromkeys(CLICKS, 0.8)
    for policy in shares:
        if policy != "deterministic:k=5":
            shares[policy][CLICKS[-1]] = 0.997
    return shares


def draw(truth: dict, rng: np.random.Generator, runs: int = 8, noise: float = 0.002, common: float = 0.05) -> list:
    """Figures as a summary holds them. `common` moves a whole run up or down: pairing has to take it out."""
    level = 1.0 + common * rng.standard_normal(runs)
    return [
        {
            "number": number,
            "panels": [_panel(number, name, series, level, noise, rng) for name, series in panels.items()],
        }
        for number, panels in truth.items()
    ]


def _panel(number: int, name: str, series: dict, level, noise: float, rng: np.random.Generator) -> dict:
    lower = name in ("arp", "cost")

    def values(share: float) -> list:
        moved = share + noise * rng.standard_normal(len(level))
        if name == "cost":
            return [float(value) for value in moved]
        return [float(value) for value in FULL[name] * level * (2.0 - moved if lower else moved)]

    drawn = [
        {"name": one, "points": [{"x": x, "values": values(share)} for x, share in points.items()]}
        for one, points in series.items()
    ]
    levels = [] if name == "cost" else [{"name": "full-information", "values": values(1.0)}]
    panel = {"name": name, "lower_is_better": lower, "series": drawn, "levels": levels}
    if number == 3:
        select(panel, lambda x: "dcg-hinge" if x < 10**5 else None)
    return panel


def select(panel: dict, choice: Callable) -> None:
    """Adds the series "selection": the loss that `choice(clicks)` names, or the best of each run where it is None."""
    losses = {
        one["name"]: {p["x"]: p["values"] for p in one["points"]} for one in panel["series"] if one["name"] in LOSSES
    }
    panel["series"] = [one for one in panel["series"] if one["name"] != "selection"]
    points = []
    for x, first in losses["dcg-hinge"].items():
        chosen = [choice(x) or max(losses, key=lambda loss: losses[loss][x][run]) for run in range(len(first))]
        points.append({"x": x, "values": [losses[loss][x][run] for run, loss in enumerate(chosen)], "chosen": chosen})
    panel["series"].append({"name": "selection", "points": points})


def changed(truth: dict, figure: int, change: Callable[[dict], None], panels: tuple = ("arp", "dcg@5")) -> dict:
    """The same truth but for some panels of a figure."""
    other = copy.deepcopy(truth)
    for name in panels:
        if name in other[figure]:
            change(other[figure][name])
    return other


def verdicts(figures: list, data: list = LONG, **options) -> dict:
    """The verdict of each claim."""
    return {claim["id"]: claim["verdict"] for claim in check_claims(figures, data=data, **options)}

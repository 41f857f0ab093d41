"""Summaries of runs that never were, shaped like the paper's curves, for tests of the report."""

import atexit
import functools
import math
import shutil
import tempfile
from pathlib import Path

import numpy as np

from counterrank.report import write_demo_report, write_report

CLICKS = [10**p for p in range(2, 9)]
PAGES = [1, 2, 3, 5, 10, 20, 50, 100]
LOSSES = ["dcg-hinge", "dcg-logistic", "lambdaloss-dcg", "lambdaloss-dcg-at-k", "lambdaloss-truncated"]
POLICIES = [
    "deterministic:k=5",
    "replace-last:k=5",
    "epsilon-greedy:k=5,epsilon=0.1",
    "uniform-insert:k=5",
    "plackett-luce:k=5,temperature=1",
]
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365}


def value(values):
    """Mean and 95 % interval over runs as the summary has them."""
    there = [v for v in values if v is not None]
    mean = sum(there) / len(there) if there else None
    low = high = None
    if len(there) > 1:
        half = STUDENT[len(there)] * float(np.std(there, ddof=1)) / math.sqrt(len(there))
        low, high = mean - half, mean + half
    return {"values": list(values), "mean": mean, "low": low, "high": high, "runs": len(there)}


class Maker:
    """Draws noisy values around a truth."""

    def __init__(self, runs, seed=0):
        self.runs = runs
        self.random = np.random.default_rng(seed)

    def value(self, truth, noise):
        return value([float(truth + noise * self.random.standard_normal()) for _ in range(self.runs)])

    def series(self, name, places, truth, noise):
        return {"name": name, "points": [{"x": x, **self.value(truth(x), noise)} for x in places]}

    def levels(self, panel):
        production, best = {"arp": (82.0, 61.0)}.get(panel, (0.60, 0.88))
        noise = 0.1 if panel == "arp" else 0.002
        return [
            {"name": "production", **self.value(production, noise)},
            {"name": "full-information", **self.value(best, noise)},
        ]

    def panel(self, name, series, noise, **more):
        label = {"arp": "ARP (lower is better)"}.get(name, "DCG@5 (higher is better)")
        made = [self.series(key, places, truth, noise) for key, places, truth in series]
        panel = {"name": name, "label": label, "lower_is_better": name == "arp", "loss": None, "series": made}
        return panel | {"levels": self.levels(name)} | more


def good(x, low, high, middle, steep=1.1):
    """Learning curve: from low to high, half way at 10**middle."""
    return low + (high - low) / (1 + math.exp(-steep * (math.log10(x) - middle)))


def pages_figure(maker):
    def arp(worst, reach):
        return lambda k: 61.3 + (worst - 61.3) * max(0.0, 1 - math.log10(k) / math.log10(reach))

    def dcg(worst, reach):
        return lambda k: 0.875 - (0.875 - worst) * max(0.0, 1 - math.log10(k) / math.log10(reach))

    def five(make, spans):
        names = ["policy-aware", "policy-oblivious+random", "policy-oblivious", "rerank+random", "rerank"]
        pages = [PAGES, PAGES, PAGES, PAGES[1:], PAGES[1:]]
        return [(name, places, make(*span)) for name, places, span in zip(names, pages, spans, strict=True)]

    first = five(arp, [(62, 100), (76, 90), (79, 80), (73, 60), (77, 70)])
    second = five(dcg, [(0.872, 100), (0.68, 60), (0.64, 50), (0.71, 30), (0.66, 40)])
    return {
        "number": 1,
        "title": "Effect of the page size k",
        "x": {"name": "k", "label": "Results shown, k", "log": True},
        "panels": [
            maker.panel("arp", first, 0.5, loss="arp-hinge"),
            maker.panel("dcg@5", second, 0.006, loss="lambdaloss-truncated"),
        ],
    }


def clicks_figure(maker):
    names = ["policy-aware", "policy-oblivious+random", "policy-oblivious", "rerank+random", "rerank", "no-cutoff"]
    arps = [(81, 61.6, 5.2), (80, 71, 3.8), (80, 74, 3.5), (80, 69, 4), (80, 72, 3.6), (80, 61.2, 3.6)]
    dcgs = [(0.6, 0.876, 5), (0.61, 0.73, 3.7), (0.61, 0.7, 3.4), (0.61, 0.76, 4), (0.61, 0.72, 3.5), (0.61, 0.88, 3.5)]

    def curves(shapes):
        return [(n, CLICKS, lambda x, s=s: good(x, *s)) for n, s in zip(names, shapes, strict=True)]

    return {
        "number": 2,
        "title": "Effect of the number of clicks",
        "x": {"name": "clicks", "label": "Training clicks", "log": True},
        "panels": [
            maker.panel("arp", curves(arps), 0.5, loss="arp-hinge"),
            maker.panel("dcg@5", curves(dcgs), 0.006, loss="lambdaloss-truncated"),
        ],
    }


def losses_figure(maker):
    ends = [(0.58, 0.87, 5), (0.63, 0.8, 4.5), (0.57, 0.85, 5.2), (0.57, 0.852, 5.2), (0.58, 0.88, 5)]

    def panel(name, scale):
        curves = [(n, CLICKS, lambda x, s=s: scale * good(x, *s)) for n, s in zip(LOSSES, ends, strict=True)]
        best = ("selection", CLICKS, lambda x: scale * max(good(x, *s) for s in ends))
        made = maker.panel(name, [*curves, best], 0.005 * scale)
        for point in made["series"][-1]["points"]:
            few = point["x"] < 10**4
            picks = ["dcg-logistic" if few else "lambdaloss-truncated"] * (maker.runs - 1) + ["dcg-hinge"]
            point["chosen"] = picks[-maker.runs :]
        return made

    estimate = panel("estimate", 0.25) | {"label": "DCG@5 estimated from clicks, per relevant document", "levels": []}
    estimate["drawn_relative"] = True
    return {
        "number": 3,
        "title": "Losses for DCG@5, and choosing among them by clicks",
        "x": {"name": "clicks", "label": "Training clicks", "log": True},
        "panels": [panel("dcg@5", 1.0), estimate],
    }


def policies_figure(maker):
    ends = [(0.6, 0.7, 3.6), (0.6, 0.876, 5), (0.6, 0.87, 5.6), (0.6, 0.874, 5.1), (0.6, 0.85, 4.6)]
    curves = [(n, CLICKS, lambda x, s=s: good(x, *s)) for n, s in zip(POLICIES, ends, strict=True)]
    costs = zip(POLICIES, [0.0, 0.034, 0.0034, 0.118, 0.21], strict=True)
    cost = {
        "name": "cost",
        "label": "Cost while logging: DCG@5 lost on the displayed pages",
        "lower_is_better": True,
        "loss": None,
        "series": [
            {
                "name": name,
                "points": [
                    {"x": None, **maker.value(c, 0.002 if c else 0.0), "shown": 0.6 * (1 - c), "unrandomised": 0.6}
                ],
            }
            for name, c in costs
        ],
        "levels": [],
    }
    return {
        "number": 4,
        "title": "Logging policies: what they teach and what they cost",
        "x": {"name": "clicks", "label": "Training clicks", "log": True},
        "panels": [maker.panel("dcg@5", curves, 0.006, loss="lambdaloss-truncated"), cost],
    }


def claim(number, verdict, figure):
    checks = [
        {"what": "k = 5, ARP", "value": -0.004, "low": -0.010, "high": 0.002, "unit": "relative", "runs": 8},
        {"what": "k = 5, DCG@5", "value": 0.0031, "low": None, "high": None, "unit": "absolute", "runs": 1},
    ]
    return {
        "id": f"claim-{number}",
        "statement": f"Statement {number}: the policy-aware estimator is within 2 % of full information at every k.",
        "paper": f"Section 6.{number}, Figure {figure}",
        "figure": figure,
        "verdict": verdict,
        "numbers": f"largest gap {number}.{number} % at k = 1 (95 % interval 0.4 % to 1.8 %)",
        "checks": [check | {"verdict": verdict} for check in checks],
    }


def claims():
    verdicts = ["holds"] * 8 + ["does not hold"] * 2 + ["not enough evidence"] * 3
    return [claim(i, verdict, 1 + (i - 1) * 3 // 13) for i, verdict in enumerate(verdicts, 1)]


def part(queries):
    return {
        "queries": queries,
        "documents": queries * 120,
        "features": 136,
        "documents_per_query": 120.0,
        "shortest": 5,
        "longest": 300,
        "relevant_share": 0.021,
        "queries_with_relevant": round(queries * 0.75),
    }


def make_summary(runs=8, figures=(1, 2, 3, 4)):
    """A whole summary."""
    maker = Maker(runs)
    makers = {1: pages_figure, 2: clicks_figure, 3: losses_figure, 4: policies_figure}
    failure = {
        "cell": "policy-aware, lambdaloss-truncated, replace-last:k=5, 100 clicks, run 3",
        "error": "no click on a query with two documents",
    }
    return {
        "format": "counterrank-summary",
        "version": 1,
        "counterrank": "0.1.0",
        "preset": None,
        "quick": False,
        "settings": {
            "runs": runs,
            "clicks": CLICKS,
            "page": 5,
            "cutoff": 5,
            "step": "auto",
            "clip": "grid",
            "noise": {"relevant": 1.0, "other": 0.1},
        },
        "data": [
            {
                "source": "synthetic:mslr:queries=2000",
                "parts": {"train": part(1200), "validation": part(400), "test": part(400)},
            }
        ],
        "cells": {"wanted": 230, "done": 229, "failed": 1, "failures": [failure]},
        "timings": [
            {"what": "policy-aware, lambdaloss-truncated", "cells": 40, "mean_seconds": 3.1, "total_seconds": 124.0},
            {"what": "full-information, arp-hinge", "cells": 8, "mean_seconds": 0.42, "total_seconds": 3.4},
        ],
        "figures": [makers[number](maker) for number in figures],
        "claims": claims(),
    }


def make_partial():
    """A run that was stopped: gaps, a single run, no claims, an empty panel."""
    summary = make_summary(runs=2, figures=(1, 2, 4))
    first, second, fourth = summary["figures"]
    for series in first["panels"][0]["series"][1:]:
        series["points"] = series["points"][:3]
    for point in first["panels"][0]["series"][0]["points"][4:]:
        point |= value([None, None])
    for panel in second["panels"]:
        for series in panel["series"]:
            for point in series["points"]:
                point |= value([point["values"][0], None])
            series["points"] = series["points"][:-2]
    second["panels"][1]["levels"] = [{"name": "production", **value([None, None])}]
    fourth["panels"][0]["series"] = []
    fourth["panels"][1]["series"][2]["points"] = []
    return summary | {
        "claims": [],
        "quick": True,
        "preset": "paper-mslr",
        "cells": {"wanted": 230, "done": 60, "failed": 0, "failures": []},
    }


def make_hostile():
    """A summary in which every text tries to leave its place."""
    bad = "</script><script>alert('x')</script><img src=http://evil.example/x onerror=alert(1)>"
    summary = make_summary(runs=2, figures=(4,))
    summary["data"][0]["source"] = bad
    summary["settings"][bad] = {"inner": bad}
    summary["cells"]["failures"] = [{"cell": bad, "error": bad}]
    summary["timings"][0]["what"] = bad
    summary["preset"] = bad
    summary["figures"][0]["title"] = bad
    summary["figures"][0]["panels"][0]["label"] = bad
    summary["figures"][0]["panels"][0]["series"][0]["name"] = bad
    summary["claims"][0] |= dict.fromkeys(("statement", "numbers", "paper", "id"), bad) | {"figure": 4}
    summary["claims"][0]["checks"][0]["what"] = bad
    return summary


def make_demo():
    """What the demo has to show."""
    ranks = np.arange(1, 201)
    random = np.random.default_rng(0)

    def counts(first_page, spread):
        weights = np.where(ranks <= 5, first_page / 5, 0) + np.where(
            ranks > 5, (1 - first_page) * np.exp(-(((np.log(ranks) - spread) / 0.7) ** 2)) / 40, 0
        )
        return random.multinomial(512, weights / weights.sum()).tolist()

    old = np.where(ranks > 20, np.exp(-(ranks - 20) / 40.0), 0)
    rankers = [
        ("production", 0.601, 0.0, random.multinomial(512, old / old.sum()).tolist()),
        ("naive", 0.64, 0.14, counts(0.02, 3.9)),
        ("policy-oblivious", 0.70, 0.35, counts(0.06, 3.5)),
        ("policy-aware", 0.861, 0.93, counts(0.31, 2.8)),
        ("full-information", 0.88, 1.0, counts(0.34, 2.7)),
    ]
    return {
        "title": "What item selection bias hides",
        "lead": "An old ranker showed five results per page. Users clicked 10 million times. Four rankers learned "
        "from this; only one of the click-based ones knew how the pages were chosen.",
        "rankers": [
            {
                "name": name,
                "metrics": {"dcg@5": dcg, "ndcg@5": dcg / 1.4, "precision@5": dcg / 2.2, "arp": 90 - 35 * dcg},
                "gap_closed": gap,
            }
            for name, dcg, gap, _ in rankers
        ],
        "buried": {
            "beyond": 20,
            "documents": 512,
            "queries": 300,
            "ranks": {name: list(row) for name, _, _, row in rankers},
        },
        "facts": [["Data", "synthetic:mslr, 3,000 queries"], ["Clicks", "10,000,000"], ["Page", "top 5"]],
        "next": [
            [
                "counterrank reproduce --data synthetic:mslr --quick --out runs/first",
                "the paper's experiments, reduced",
            ],
            ["counterrank inspect --data DATA --log LOG", "what your own log can teach"],
        ],
    }


@functools.cache
def written(kind):
    """The folder of a report, or the file of the demo's page, written once for all tests that look at it."""
    folder = Path(tempfile.mkdtemp(prefix="counterrank-report-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    makers = {
        "full": make_summary,
        "one run": lambda: make_summary(runs=1, figures=(3,)),
        "partial": make_partial,
        "hostile": make_hostile,
    }
    if kind == "demo":
        return write_demo_report(make_demo(), folder / "demo.html")
    write_report(makers[kind](), folder)
    return folder

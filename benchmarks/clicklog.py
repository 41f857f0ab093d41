"""Position bias of a real click log, and whether it predicts clicks on held-out pages.

    python -m benchmarks.clicklog ../shared/data/clicklog-yandex/log.csv.gz --out docs/concepts/position-bias

LOG is one CSV file with session_id, query_id, doc_id, rank, clicked. Writes curves.svg, curves.png and numbers.json
into the folder, and prints tables. docs/concepts/position-bias.md discusses them.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.clicklog_figure import write_figure
from benchmarks.clicklog_models import MODELS, choose_strength, log_likelihoods
from counterrank import examination
from counterrank.clicks import read_log
from counterrank.clicks.counts import SHOWN_ONLY, ClickCounts
from counterrank.common.errors import ExaminationWarning

METHODS = ("all-pairs", "em")
RESAMPLES = 400


@dataclass(frozen=True)
class Log:
    """The rows of a log, which counts do not keep: page, query, query-document pair, rank from 1, clicked or not."""

    pages: Any
    queries: Any
    docs: Any
    ranks: Any
    clicked: Any
    offsets: Any  # of pairs by query

    @classmethod
    def read(cls, path: Path) -> Log:
        from pyarrow import csv

        table = csv.read_csv(path)
        session, query, doc = (_numbered(table[name]) for name in ("session_id", "query_id", "doc_id"))
        pairs, docs = np.unique(query * (doc.max() + 1) + doc, return_inverse=True)
        per_query = np.bincount(pairs // (doc.max() + 1))
        rank, clicked = (table[name].to_numpy().astype(np.int64) for name in ("rank", "clicked"))
        _, pages = np.unique(session * (query.max() + 1) + query, return_inverse=True)
        return cls(pages, query, docs, rank, clicked, np.concatenate(([0], np.cumsum(per_query))))

    @property
    def n_pages(self) -> int:
        return int(self.pages.max()) + 1

    def counts(self, weights: Any = None) -> ClickCounts:
        """Counted, each page as often as `weights` says (once if None)."""
        times = np.ones(len(self.pages), np.int64) if weights is None else weights[self.pages]
        used = times > 0
        deepest = int(self.ranks.max())
        cells, place = np.unique(self.docs[used] * deepest + self.ranks[used] - 1, return_inverse=True)
        shown = np.bincount(place, times[used]).astype(np.int64)
        clicks = np.bincount(place, times[used] * self.clicked[used]).astype(np.int64)
        _, first = np.unique(self.pages, return_index=True)
        sessions = np.bincount(self.queries[first], times[first], len(self.offsets) - 1).astype(np.int64)
        return ClickCounts(
            SHOWN_ONLY + "benchmark", self.offsets, sessions, cells // deepest, cells % deepest + 1, shown, clicks
        )


def _numbered(column: Any) -> Any:
    return column.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)


def estimated(counts: ClickCounts, method: str, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExaminationWarning)
        return examination.estimate(counts, method=method, **options)


def curves(counts: ClickCounts, log: Log, seed: int) -> dict[str, Any]:
    """Each method's curve on all pages, with both kinds of intervals, and a bootstrap of pages within queries."""
    shown, clicked = counts.by_rank(counts.impressions), counts.by_rank(counts.clicks)
    found: dict[str, Any] = {"click rate": {"values": (clicked / shown).tolist()}}
    draws = [log.counts(_resampled_pages(log, seed + i)) for i in range(RESAMPLES)]
    for method in METHODS:
        one = estimated(counts, method, population="these-queries")
        logs = np.log([estimated(draw, method, population="these-queries").values for draw in draws])
        reach = 1.96 * logs.std(axis=0)
        found[method] = {
            "values": one.values.tolist(),
            "these_queries": one.intervals.tolist(),
            "queries": estimated(counts, method, population="queries").intervals.tolist(),
            "pages": np.stack([one.values * np.exp(-reach), one.values * np.exp(reach)], axis=1).tolist(),
            "n_documents": one.n_documents,
            "n_clicks": one.n_clicks,
            "warnings": list(estimated(counts, method).warnings),
        }
    return found


def _resampled_pages(log: Log, seed: int) -> Any:
    """How often each page is drawn, each query keeping its number of pages."""
    _, first = np.unique(log.pages, return_index=True)
    query = log.queries[first]
    order = np.argsort(query, kind="stable")
    sizes = np.bincount(query)
    starts = np.cumsum(sizes) - sizes
    draws = np.random.default_rng(seed).random(len(order))
    picked = starts[query[order]] + (draws * sizes[query[order]]).astype(np.int64)
    return np.bincount(order[picked], minlength=len(order))


def held_out(log: Log, seed: int) -> dict[str, Any]:
    """Log-likelihoods of clicks on a third of the pages, by models learned from the others."""
    drawn = np.random.default_rng(seed).permutation(log.n_pages)
    test = np.zeros(log.n_pages, np.int64)
    test[drawn[: log.n_pages // 3]] = 1
    train = 1 - test
    # a third of the training pages chooses the smoothing of each model
    inner = np.zeros(log.n_pages, np.int64)
    inner[drawn[log.n_pages // 3 : log.n_pages // 3 + (log.n_pages - log.n_pages // 3) // 3]] = 1
    rows: dict[str, Any] = {}
    strengths = {}
    for name in MODELS:
        strengths[name] = choose_strength(name, log, train - inner, inner, _curve(name, log, train - inner))
        rows[name] = log_likelihoods(name, log, train, test, _curve(name, log, train), strengths[name])
    return _summary(log, test, rows, strengths)


def _curve(name: str, log: Log, weights: Any) -> Any:
    method = MODELS[name]
    return estimated(log.counts(weights), method).values if method in METHODS else None


def _summary(log: Log, test: Any, rows: dict[str, Any], strengths: dict[str, float]) -> dict[str, Any]:
    used = test[log.pages] > 0
    ranks, pages, queries = log.ranks[used], log.pages[used], log.queries[used]
    result: dict[str, Any] = {"pages": int(test.sum()), "impressions": len(ranks), "models": {}}
    for name, values in rows.items():
        by_rank = np.bincount(ranks, values)[1:] / np.bincount(ranks)[1:]
        result["models"][name] = {
            "log_likelihood": float(values.mean()),
            "perplexity": float(np.exp(-by_rank).mean()),
            "perplexity_by_rank": np.exp(-by_rank).tolist(),
            "pseudo_impressions": strengths[name],
        }
    result["differences"] = {
        f"{one} - {other}": _difference(rows[one] - rows[other], pages, queries)
        | {"by_rank": _by_rank(rows[one] - rows[other], ranks)}
        for one in MODELS
        if one.startswith("position")
        for other in MODELS
        if one != other and (not other.startswith("position") or one < other)
    }
    return result


def _difference(values: Any, pages: Any, queries: Any) -> dict[str, Any]:
    """Per impression; the confidence interval is over pages (a ratio of sums, by linearisation)."""
    _, place, sizes = np.unique(pages, return_inverse=True, return_counts=True)
    mean = values.mean()
    off = np.bincount(place, values) - mean * sizes
    reach = 1.96 * np.sqrt((off**2).sum()) / sizes.sum()
    by_query = np.bincount(queries, values)
    present = np.bincount(queries) > 0
    return {
        "mean": float(mean),
        "interval": [float(mean - reach), float(mean + reach)],
        "queries_better": int((by_query[present] > 0.0).sum()),
        "queries": int(present.sum()),
    }


def _by_rank(values: Any, ranks: Any) -> list[list[float]]:
    """Mean and confidence interval for each rank, which a page has once."""
    found = []
    for rank in range(1, int(ranks.max()) + 1):
        own = values[ranks == rank]
        reach = 1.96 * own.std(ddof=1) / np.sqrt(len(own))
        found.append([float(own.mean()), float(own.mean() - reach), float(own.mean() + reach)])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.clicklog",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("log", type=Path, help="CSV, may be compressed")
    parser.add_argument("--out", type=Path, help="folder for figure and numbers")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts, log = read_log(options.log), Log.read(options.log)
    pages_of = np.bincount(log.queries[np.unique(log.pages, return_index=True)[1]])
    numbers = {
        "pages": log.n_pages,
        "queries": len(pages_of),
        "largest_query": float(pages_of.max() / pages_of.sum()),
        "documents": int(log.offsets[-1]),
        "clicks": int(log.clicked.sum()),
        "connected_ranks": examination.connected_ranks(counts),
        "curves": curves(counts, log, options.seed),
        "held_out": held_out(log, options.seed),
    }
    _show(numbers)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "numbers.json").write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
        write_figure(numbers, options.out / "curves")


def _show(numbers: dict[str, Any]) -> None:
    rates = np.array(numbers["curves"]["click rate"]["values"])
    print(f"{numbers['pages']:,} pages of {numbers['queries']} queries, {numbers['clicks']:,} clicks\n")
    heads = " | ".join(f"{method} | these queries | pages | queries" for method in METHODS)
    print(f"| rank | click rate | relative | {heads} |")
    print("|---:|---:|---:|" + "---:|---|---|---|" * len(METHODS))
    for i, rate in enumerate(rates):
        cells = [f"{i + 1}", f"{rate:.3f}", f"{rate / rates[0]:.3f}"]
        for method in METHODS:
            curve = numbers["curves"][method]
            cells.append(f"{curve['values'][i]:.3f}")
            cells += ["{:.3f} to {:.3f}".format(*curve[kind][i]) for kind in ("these_queries", "pages", "queries")]
        print("| " + " | ".join(cells) + " |")
    print("\n| model | log-likelihood per impression | perplexity | pseudo-impressions |\n|---|---:|---:|---:|")
    for name, row in numbers["held_out"]["models"].items():
        print(f"| {name} | {row['log_likelihood']:.5f} | {row['perplexity']:.4f} | {row['pseudo_impressions']:g} |")
    print("\n| difference in log-likelihood | per impression | 95 % confidence interval over pages | queries better |")
    print("|---|---:|---|---|")
    for name, row in numbers["held_out"]["differences"].items():
        ends = "{:+.5f} to {:+.5f}".format(*row["interval"])
        print(f"| {name} | {row['mean']:+.5f} | {ends} | {row['queries_better']} of {row['queries']} |")


if __name__ == "__main__":
    main()

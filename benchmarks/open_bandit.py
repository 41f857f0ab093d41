"""The uniform policy's click rate from another policy's log, against its own log, on the Open Bandit Dataset.

`python -m benchmarks.open_bandit random-all.csv.gz bts-all.csv.gz`: two files of impressions with the columns
`item_id`, `position`, `click` and `propensity_score`, the probability that this item was shown at this position. With
`--coverage` instead: coverage of the confidence intervals, on simulated impressions.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from counterrank.clicks.logs import DisplayedImpressions, LogOptions, read_display_probabilities
from counterrank.evaluation import ClickRate, click_rate, compare_click_rates

COLUMNS = {"doc_id": "item_id", "rank": "position", "clicked": "click", "display_probability": "propensity_score"}
ITEMS, RATE = 80, 0.004  # as in the data
SKEWS = (0.0, 0.5, 1.0, 1.5, 2.0)
SIZES = (10_000, 100_000)
REPEATS = 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.open_bandit", description=__doc__)
    parser.add_argument("files", nargs="*", help="the log of the uniform policy, then that of the other one")
    parser.add_argument("--coverage", action="store_true", help="coverage of intervals on simulated impressions")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="simulated logs of each kind")
    options = parser.parse_args()
    if options.coverage:
        show("Coverage of 95 % confidence intervals", coverage(options.repeats))
        return
    if len(options.files) != 2:
        parser.error("expected two files, or --coverage")
    show("The uniform policy's click rate, 95 % confidence intervals", study(*options.files))


def read(path: str) -> DisplayedImpressions:
    """Impressions and clicks by item, position and display probability."""
    return read_display_probabilities(path, LogOptions(columns=COLUMNS, impressions=True))


def study(uniform: str, other: str) -> list[dict[str, str]]:
    """A row for each estimate, the naive one among them, and for the differences to the uniform policy's own log."""
    own_log, log = read(uniform), read(other)
    own = _uniform(own_log)
    found = _uniform(log)
    plain = click_rate(log.clicks, log.impressions, log.display_probabilities, log.display_probabilities)
    apart = compare_click_rates(found, own)
    return [
        _row("its own log", own.ips, own.ips_interval, own),
        _row("the other log, ips", found.ips, found.ips_interval, found),
        _row("the other log, self-normalised", found.self_normalized, found.self_normalized_interval, found),
        _row("the other log as it is, biased", plain.ips, plain.ips_interval, plain),
        _row("ips - own", apart.ips, apart.ips_interval),
        _row("self-normalised - own", apart.self_normalized, apart.self_normalized_interval),
    ]


def _uniform(log: DisplayedImpressions) -> ClickRate:
    """The click rate of showing every item equally often at every position."""
    return click_rate(log.clicks, log.impressions, log.display_probabilities, 1.0 / ITEMS)


def _row(name: str, value: float, interval: tuple[float, float], about: ClickRate | None = None) -> dict[str, str]:
    row = {"estimate": name, "per 1,000": f"{1000 * value:.2f}"}
    row["interval"] = f"{1000 * interval[0]:.2f} to {1000 * interval[1]:.2f}"
    if about is None:
        return row | dict.fromkeys(("clicks", "effective clicks", "effective impressions"), "")
    row |= {"clicks": f"{about.n_clicks}", "effective clicks": f"{about.effective_sample_size:.1f}"}
    row |= {"effective impressions": f"{about.effective_impressions:,.0f}", "mean weight": f"{about.mean_weight:.3f}"}
    return row | {"largest weight": f"{about.largest_weight:.1f}", "largest share": f"{about.largest_share:.0%}"}


def coverage(repeats: int) -> list[dict[str, str]]:
    """Coverage of confidence intervals, by how far the logging policy is from uniform."""
    rows = []
    for skew in SKEWS:
        for size in SIZES:
            hits, sizes, clicks = [], [], []
            for truth, found in simulated(skew, size, repeats):
                ends = (found.ips_interval, found.self_normalized_interval)
                hits.append([low <= truth <= high for low, high in ends])
                sizes.append(found.effective_impressions)
                clicks.append(found.effective_sample_size)
            ips, normalized = np.mean(hits, axis=0)
            row = {"standard deviation of log odds": f"{skew:g}", "impressions": f"{size:,}"}
            row |= {"effective impressions": f"{np.median(sizes):,.0f}", "effective clicks": f"{np.median(clicks):.0f}"}
            rows.append(row | {"ips": f"{ips:.1%}", "self-normalised": f"{normalized:.1%}"})
    return rows


def simulated(skew: float, size: int, repeats: int, seed: int = 0) -> Iterator[tuple[float, ClickRate]]:
    """The true click rate of uniform display and its estimate from a log, again and again.

    The click rates of items vary around RATE; the logging policy is a softmax of normal numbers.
    """
    rng = np.random.default_rng(seed)
    for _ in range(repeats):
        rates = RATE * np.exp(0.5 * rng.standard_normal(ITEMS) - 0.125)
        odds = np.exp(skew * rng.standard_normal(ITEMS))
        chances = odds / odds.sum()
        shown = rng.multinomial(size, chances)
        yield rates.mean(), click_rate(rng.binomial(shown, rates), shown, chances, 1.0 / ITEMS)


def show(title: str, rows: list[dict[str, str]]) -> None:
    table = Table(title=title, title_justify="left")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*(row.get(name, "") for name in columns))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()

"""`counterrank demo`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from counterrank.cli.command import registry
from counterrank.cli.options import Json, Seed, Threads, option
from counterrank.cli.output import check_page, print_json, print_table, say
from counterrank.common.checks import check_choice, check_whole
from counterrank.common.errors import CounterrankError
from counterrank.common.progress import Stages

if TYPE_CHECKING:
    from counterrank.experiments.demo import DemoResult

_NEXT = (
    (
        "counterrank reproduce --data DATA --quick --out runs/mine",
        "All experiments of the paper on your own labelled queries (a fold folder), with a report.",
    ),
    (
        "counterrank train DATA --share 0.01 --loss arp-hinge --max-epochs 20 --validation none --out production\n"
        "counterrank simulate DATA --logger production --policy replace-last:k=5 --n-clicks 1e6 --out clicks\n"
        "counterrank train DATA --clicks clicks --k 5 --out ranker",
        "Step by step: a ranker, clicks on its pages, and a ranker learned from them, each in a folder of its own.",
    ),
    (
        "counterrank inspect LOG --data DATA --policy replace-last:k=5 --logger production --examination inverse-rank\n"
        "counterrank train DATA --log LOG --policy replace-last:k=5 --logger production --examination inverse-rank "
        "--k 5 --out ranker",
        "From your own click log, without any labels (docs/tutorials/guide-own-log.md): the policy is how your pages "
        "were made, examination the probability that users look at each rank.",
    ),
)


def demo(
    shape: Annotated[str, option("Built-in data: {shapes}.", "NAME")] = "mslr",
    queries: Annotated[int, option("Number of queries, in all parts together.", "N")] = 3000,
    out: Annotated[Path, option("The page to write; one of an earlier demo is replaced.", "PATH")] = Path(
        "counterrank-demo.html"
    ),
    seed: Seed = 0,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Show the library at work on built-in data: rankers learned from the same clicks in different ways.

    Example: counterrank demo
    """
    check_choice(shape, registry("shapes"), "shape")
    check_whole(queries, "queries", 20, also=", to have some in every part")
    _check_page(out)
    begin = time.perf_counter()
    with Stages() as stages:
        stages("starting")
        from counterrank.experiments.demo import run_demo
        from counterrank.report import write_demo_report

        _compile(shape, stages)
        result = run_demo(shape, queries, seed, threads, on_stage=stages)
        stages("writing the report")
        write_demo_report(_content(result, shape, seed), out)
    seconds = time.perf_counter() - begin
    if json:
        print_json(_summary(result, shape, queries, seconds, out))
        return
    _print(result)
    say(f"\nReport, in {seconds:.0f} s: {out.resolve().as_uri()}\n\nNext, with data of your own:")
    for command, what in _NEXT:
        say(f"\n{what}\n  " + command.replace("\n", "\n  "))


def _check_page(out: Path) -> None:
    """Refuse at once what could not be written at the end, and what is not a page of ours to replace."""
    if not out.absolute().parent.is_dir():
        raise CounterrankError(f"{out}: its folder does not exist; make it first")
    check_page(out, "counterrank demo", "demo.html")


def _compile(shape: str, stages: Stages) -> None:
    from counterrank.experiments.demo import warm_up

    jobs = done = 0

    def started(n: int) -> None:
        nonlocal jobs
        jobs = n
        stages("compiling, on the first run only")

    def advanced() -> None:
        nonlocal done
        done += 1
        stages.update(done, jobs)

    warm_up(shape, started, advanced)


def _print(result: DemoResult) -> None:
    from counterrank.experiments.demo import METRICS, K

    found, buried = result.comparison, result.buried
    shares, recovered = found.shares(), buried.shares(K)
    print_table(
        f"On {result.fold.test.n_queries:,} test queries (relevant = label 3 or 4)",
        ("ranker", *METRICS, "gap closed", "recovered"),
        [
            (name, *(values[metric] for metric in METRICS), _percent(shares.get(name)), _percent(recovered.get(name)))
            for name, values in result.metrics.items()
        ],
    )
    say(
        f"The production ranker learned from the labels of {found.production_queries} queries and made the pages; the "
        f"next three learned\nfrom {found.clicks.n_clicks:,} clicks on them, the last from the labels of all "
        f"{result.fold.train.n_queries:,} queries. Gap closed is the share of the\ndistance in dcg@5 from production "
        f"to full-information; recovered is the share of the {buried.documents:,} relevant\ndocuments below rank "
        f"{buried.beyond} of production that a ranker puts on the page of {K}; arp is better when lower."
    )


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"


def _summary(result: DemoResult, shape: str, queries: int, seconds: float, out: Path) -> dict[str, Any]:
    from counterrank.experiments.demo import K

    found, buried = result.comparison, result.buried
    return {
        "shape": shape,
        "queries": queries,
        "production_queries": found.production_queries,
        "sessions": found.clicks.n_sessions,
        "clicks": found.clicks.n_clicks,
        "validation_clicks": found.validation_clicks.n_clicks,
        "metrics": result.metrics,
        "gap_closed": found.shares(),
        "buried": {
            "beyond": buried.beyond,
            "documents": buried.documents,
            "queries": buried.queries,
            f"share_on_first_{K}": buried.shares(K),
            f"share_on_first_{buried.beyond}": buried.shares(buried.beyond),
        },
        "report": str(out),
        "seconds": seconds,
    }


def _content(result: DemoResult, shape: str, seed: int) -> dict[str, Any]:
    """What the page shows."""
    from counterrank.experiments.demo import K

    found, buried, fold = result.comparison, result.buried, result.fold
    shares = found.shares()
    return {
        "title": "What a page of five results hides",
        "lead": (
            f"A ranker trained on {found.production_queries} labelled queries decided which {K} documents users saw. "
            f"From the same {found.clicks.n_clicks:,} clicks on its pages, three rankers learned in different ways. "
            "What never had a fair chance of being seen has few clicks; only the policy-aware one allows for that."
        ),
        "page": K,
        "rankers": [
            {"name": name, "metrics": values, "gap_closed": shares[name]} for name, values in found.metrics.items()
        ],
        "buried": {
            "beyond": buried.beyond,
            "documents": buried.documents,
            "queries": buried.queries,
            "ranks": buried.ranks,
        },
        "facts": [
            ["Data", f"{shape}, built in, seed {seed}: {_sizes(fold)}"],
            ["Relevant", "label 3 or 4"],
            ["Production ranker", f"average rank with the hinge bound, labels of {found.production_queries} queries"],
            ["Pages", f"top {K}, the last place given to any of the other documents at random; rank r is examined "
             "with probability 1 / r"],
            ["Clicks", f"{found.clicks.n_clicks:,} in {found.clicks.n_sessions:,} sessions to learn from, "
             f"{found.validation_clicks.n_clicks:,} to stop early on; an examined document is clicked always if "
             "relevant, else one time in ten"],
            ["Learning", "linear ranker, LambdaLoss truncated at 5, learning rate searched by a race"],
            ["Equal scores", "in the order of the data where ranks are counted, averaged in the metrics"],
        ],
        "next": [list(step) for step in _NEXT],
    }  # fmt: skip


def _sizes(fold: Any) -> str:
    parts = (("train", fold.train), ("validation", fold.validation), ("test", fold.test))
    return ", ".join(f"{part.n_queries:,} {name} queries ({part.n_docs:,} documents)" for name, part in parts)

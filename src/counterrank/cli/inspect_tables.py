"""What `counterrank inspect` prints: the verdict, what to do about it, and the numbers as tables."""

from __future__ import annotations

from typing import Any

from counterrank.cli.output import print_table

_MARKS = {"good": "yes", "warning": "with care", "bad": "no"}
_RANKS = 30  # rows of the table; --json has all


def print_inspection(found: dict[str, Any]) -> None:
    """Tables for people, the verdict first."""
    verdict = [(item["about"], _MARKS[item["level"]], item["text"]) for item in found["verdict"]]
    print_table(f"{found['clicks']}: {found['headline']}", ("", "supported", "why"), verdict)
    if found["advice"]:
        print_table("What to change", ("", ""), [(str(i), text) for i, text in enumerate(found["advice"], 1)])
    print_read(found["read"])
    print_table("Overview", ("", "value"), [*_words(_overview(found)), *_pages(found)])
    rows = found["ranks"][:_RANKS]
    if rows:
        over = "over queries" if found["overview"]["queries_asked"] > 1 else "of independent impressions"
        print_table(f"By rank (95 % intervals {over})", tuple(rows[0]), [tuple(row.values()) for row in rows])
    for title, key in (("Weights of clicks (1 / propensity)", "weights"), ("Coverage of the candidates", "coverage")):
        if found[key]:
            print_table(title, ("", "value"), _words(found[key]))
    old = (found["coverage"] or {}).get("by_old_rank")
    if old:
        names = ("old rank", "candidates", "shown", "never shown", "could have been", "can never be")
        print_table("By rank under the logger", names, [(_span(row), *list(row.values())[2:]) for row in old])
    if found["policy_check"]:
        print_table("The log against the policy", ("", "value"), _words(found["policy_check"]))
    if found["remedies"]:
        _print_remedies(found["remedies"])
    if found["drift"]:
        periods = found["drift"]["periods"]
        print_table("Over time", tuple(periods[0]), [tuple(row.values()) for row in periods])


def print_read(read: dict[str, Any] | None) -> None:
    """What became of the rows of a log; nothing where all of them are used."""
    if read is None:
        return
    if read["unknown"]:
        rows = [(f"{each['unit']} that {each['kind']}", each["count"], each["example"]) for each in read["unknown"]]
        print_table("Rows that are left out", ("", "count", "example"), rows)
    if not read["faults"]:
        return
    rows = [(f"{fault['unit']} that {fault['kind']}", fault["count"], fault["example"]) for fault in read["faults"]]
    rows.append(("rows dropped", read["rows_dropped"], f"of {read['rows']:,}, with {read['pages_dropped']:,} pages"))
    print_table("What is wrong in the log", ("", "count", "example"), rows)


def _overview(found: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in found["overview"].items() if key != "policies"}
    kept["distinct_pages"] = "not kept" if kept["distinct_pages"] is None else kept["distinct_pages"]
    if found["overview"]["policies"]:
        kept["policies"] = ", ".join(found["overview"]["policies"])
    return kept


def _pages(found: dict[str, Any]) -> list[tuple[str, Any]]:
    groups = "; ".join(", ".join(map(str, group)) for group in found["connected"])
    return [("pages of one query", found["pages"]["looks_like"]), ("connected ranks", groups)]


def _words(values: dict[str, Any]) -> list[tuple[str, Any]]:
    """Plain values; tables within have one of their own."""
    plain = {key: value for key, value in values.items() if not isinstance(value, dict | list)}
    return [(key.replace("_", " "), str(value) if isinstance(value, bool) else value) for key, value in plain.items()]


def _span(row: dict[str, Any]) -> str:
    low, high = row["old_rank_from"], row["old_rank_to"]
    return str(low) if low == high else f"{low}-{high}"


def _print_remedies(table: dict[str, Any]) -> None:
    rows: list[tuple[Any, ...]] = []
    for family in table["families"].values():
        for row in (family["least"], family["best"]):
            if row is not None and row["policy"] not in [each[0] for each in rows]:
                moves = "yes" if row["learns_position_bias"] else "no"
                size, sessions = round(row["effective_sample_size"]), row["sessions_for_target"]
                rows.append((row["policy"], size, round(row["clicks"]), sessions, moves))
    names = ("policy", "effective sample size", "clicks", f"sessions for {table['target']:,}", "position bias")
    print_table(f"What other policies would bring in {table['sessions']:,} sessions", names, rows)

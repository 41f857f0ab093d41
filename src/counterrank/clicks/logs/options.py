"""How a click log is to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from counterrank.clicks._counts import check_policy_names
from counterrank.common.checks import check_choice
from counterrank.common.errors import CounterrankError

MEMORY = "1GB"
CLICK_ACTIONS = ("click",)


@dataclass(frozen=True)
class LogOptions:
    """How a log is to be read.

    Attributes:
        columns: for columns of the log that have another name in the files, that name.
        rank_base: the number of the first rank, 0 or 1.
        format: "parquet", "csv", "jsonl", "ubi" or "metarank"; "auto" goes by the names and first lines of the files.
        click_actions: which events of OpenSearch UBI (their action_name) or metarank (their type) are clicks.
        impressions: each row is a page of its own, session_id is not needed, and query_id is one constant if missing.
        only_policies: use the sessions of these policies only, by their names in the column `policy`; all if empty.
        on_error: "fail", or "skip" to drop the pages that have something wrong in them.
        strict: rows of queries that the data does not have, and of documents that are not candidates of their query,
            are faults too; else they are counted and left out.
        trust: do not check whether pages are whole and name each document once.
        memory: how much DuckDB may use, such as "500MB"; beyond it, it spills to the folder that TMPDIR names.
        threads: how many DuckDB may use.
        engine: "duckdb", or "spark" on the cluster that `master` names.
        master: "local[*]", "spark://HOST:PORT" or "sc://HOST:PORT"; or a SparkSession, which stays open.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    rank_base: int = 1
    format: str = "auto"
    click_actions: Sequence[str] = CLICK_ACTIONS
    impressions: bool = False
    only_policies: Sequence[str] = ()
    on_error: str = "fail"
    strict: bool = False
    trust: bool = False
    memory: str = MEMORY
    threads: int | None = None
    engine: str = "duckdb"
    master: Any = None

    def __post_init__(self) -> None:
        if self.only_policies is None or len(self.only_policies):
            check_policy_names(self.only_policies)
        check_choice(self.on_error, ("fail", "skip"), "on_error")
        check_choice(self.engine, ("duckdb", "spark"), "engine")
        if self.engine == "duckdb" and self.master is not None:
            raise CounterrankError(f"master={self.master!r}: of a Spark cluster; expected engine='spark' too")
        names = self.click_actions
        if isinstance(names, str) or not names or not all(isinstance(name, str) and name.strip() for name in names):
            raise CounterrankError(f"click_actions={names!r}: expected names of actions, such as ('click',)")

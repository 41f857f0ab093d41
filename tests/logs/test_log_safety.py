"""What stands in a click log, or in the names of its files, cannot change the query that reads it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import counterrank as cr
from counterrank.clicks import read_log
from tests.support import log_files

# each would write a file, if anything ever ran it
HOSTILE = (
    """x'); copy (select 42) to 'canary.csv'; --""",
    """x"; copy (select 42) to 'canary.csv'; --""",
    """"||(select 1)||" from raw; copy (select 42) to 'canary.csv'; select \"""",
    """'}, x = {'y': 'VARCHAR'}); copy (select 42) to 'canary.csv'; --""",
    """raw; drop table cells; copy (select 42) to 'canary.csv'""",
    """getenv('HOME')""",
    """read_text('secret.txt')""",
    """(select content from read_text('secret.txt'))""",
    """*/ copy (select 42) to 'canary.csv' /*""",
    """$$; copy (select 42) to 'canary.csv'; $$""",
    """\\'; copy (select 42) to 'canary.csv'; --""",
    """attach 'canary.db'""",
    """%s {0} {{x}} ${HOME}""",
)
ENDINGS = ("parquet", "csv", "jsonl")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("secret.txt").write_text("swordfish")
    yield
    found = [name for _, folders, names in os.walk(tmp_path) for name in (*folders, *names) if "canary" in name]
    assert [name for name in found if name.startswith("canary")] == []


def rows(session=1, query="q", docs=("a", "b"), **more):
    return [
        dict(zip(log_files.NAMES, (session, query, doc, i + 1, 1), strict=True)) | more for i, doc in enumerate(docs)
    ]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_names_of_columns(tmp_path, hostile, ending):
    renamed = [{hostile if name == "doc_id" else name: value for name, value in row.items()} for row in rows()]
    both = [row | {f"{hostile} 2": 7} for row in renamed]
    path = log_files.write(tmp_path / f"log.{ending}", both)
    counts = read_log(path, columns={"doc_id": hostile})
    assert (counts.n_impressions, counts.n_clicks, counts.n_docs) == (2, 2, 2)
    with pytest.raises(cr.CounterrankError, match="no column 'doc_id'") as error:
        read_log(path)
    assert "swordfish" not in str(error.value)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_names_in_options(tmp_path, hostile):
    path = log_files.write(tmp_path / "log.csv", rows())
    for options in ({"columns": {"rank": hostile}}, {"columns": {hostile: "rank"}}, {"memory": hostile}):
        with pytest.raises(cr.CounterrankError) as error:
            read_log(path, **options)
        assert "swordfish" not in str(error.value)
    for options in ({"format": hostile}, {"on_error": hostile}, {"engine": hostile}, {"threads": hostile}):
        with pytest.raises(cr.CounterrankError):
            read_log(path, **options)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_values(tmp_path, hostile, ending):
    hostile_rows = rows(hostile, hostile, (hostile, "a"), policy=hostile)
    path = log_files.write(tmp_path / f"log.{ending}", hostile_rows)
    data = cr.RankingData(np.zeros((2, 1)), [0, 2], query_ids=[hostile], doc_ids=["a", hostile])
    counts = read_log(path, data, displays=True)
    assert (counts.policy_names, counts.docs.tolist(), counts.ranks.tolist()) == ((hostile,), [0, 1], [2, 1])
    for name in ("rank", "clicked", "propensity"):
        wrong = [row | {name: hostile} for row in hostile_rows]
        path = log_files.write(tmp_path / f"wrong.{ending}", wrong)
        with pytest.raises(cr.CounterrankError, match=f"2 rows have a {name} ") as error:
            read_log(path, data)
        assert "swordfish" not in str(error.value)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("hostile", [each.replace("/", "_") for each in HOSTILE])
def test_names_of_files_and_folders(tmp_path, hostile, ending):
    path = log_files.write(tmp_path / "logs" / f"{hostile}.{ending}", rows())
    assert read_log(path).n_clicks == 2
    assert read_log(path.parent).n_clicks == 2
    path = log_files.write(tmp_path / hostile / f"policy={hostile}" / f"log.{ending}", rows())
    assert read_log(path).policies is None
    log_files.write(tmp_path / "keys" / f"{hostile}=1" / f"log.{ending}", rows())
    if "=" in hostile or "\\" in hostile:
        for folder in (tmp_path / hostile, tmp_path / "keys"):
            with pytest.raises(cr.CounterrankError, match="in it; expected one column and its value, such as policy=n"):
                read_log(folder)
    else:
        assert read_log(tmp_path / hostile).policy_names == (hostile,)
        assert read_log(tmp_path / "keys").n_clicks == 2


@pytest.mark.parametrize("name", ["s3://bucket/log.parquet", "https://localhost:9/log.csv", "sqlite:log.csv", "md:log"])
def test_nothing_but_files(name):
    with pytest.raises(FileNotFoundError, match="no such click log"):
        read_log(name)


def test_names_that_look_like_patterns(tmp_path):
    log_files.write(tmp_path / "log*[1]?{a}.parquet", rows())
    log_files.write(tmp_path / "log2.parquet", rows() + rows(2))
    assert read_log(tmp_path / "log*[1]?{a}.parquet").n_impressions == 2
    log_files.write(tmp_path / "~" / "log.csv", rows())
    assert read_log("~/log.csv").n_impressions == 2
    assert read_log("~").n_impressions == 2


@pytest.mark.parametrize("ending", ENDINGS)
def test_folders_are_columns_only_inside_the_log(tmp_path, ending):
    above = tmp_path / "rank=9" / "policy=above"
    for i, policy in enumerate(("new", "old")):
        log_files.write(above / f"policy={policy}" / f"day={i}" / f"log.{ending}", rows(i))
    assert read_log(above).policy_names == ("new", "old")
    assert read_log(above / "policy=*" / "*" / f"*.{ending}").policy_names == ("new", "old")
    assert read_log(above / "policy=new").policies is None
    assert read_log(above / "policy=new" / "day=0" / f"log.{ending}").policies is None


def test_texts_of_folders_stay_texts(tmp_path):
    for name in ("007", "7"):
        log_files.write(tmp_path / f"policy={name}" / "log.parquet", rows(name))
    assert read_log(tmp_path).policy_names == ("007", "7")

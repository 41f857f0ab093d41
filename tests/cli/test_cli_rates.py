"""`counterrank rates` on logs and on click counts."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import counterrank as cr
from counterrank import examination, simulation
from counterrank.evaluation.click_rates import COLUMNS
from tests.support.command import as_json, attempt, invoke

DATA = "synthetic:yahoo:queries=30,seed=1"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A log of pages that change, counts of it, a log of pages that do not, and a curve."""
    folder = tmp_path_factory.mktemp("rates")
    fixed = ("simulate", DATA, "--logger", "feature:1", "--n-sessions", 10_000, "--as-log")
    invoke(*fixed, "--policy", "uniform-insert:k=3", "--out", folder / "moving")
    invoke(*fixed, "--policy", "deterministic:k=3", "--out", folder / "fixed")
    invoke("aggregate", folder / "moving" / "train.parquet", "--out", folder / "counts")
    invoke("inspect", folder / "moving", "--examination-out", folder / "curve.json")
    return folder


def test_a_log_alone(place, tmp_path):
    out = tmp_path / "rates.parquet"
    result = invoke("rates", place / "moving", "--examination", place / "curve.json", "--out", out)
    table = pyarrow.parquet.read_table(out)
    assert table.column_names == list(COLUMNS)
    counts = cr.clicks.read_log(place / "moving" / "train.parquet")
    wanted = cr.click_rates(counts, examination.load_estimate(place / "curve.json"))
    assert table.equals(wanted.to_arrow())
    assert "debiased rate" in result.stdout
    assert f"The rates of {len(wanted):,} documents are in {out}" in result.stderr
    assert "Examination curve (as given): 1, " in result.stderr


def test_a_curve_that_is_estimated(place, tmp_path):
    found = as_json("rates", place / "moving", "--out", tmp_path / "rates.csv")
    assert found["examination_source"] == "estimated"
    assert found["examination"] == examination.load_estimate(place / "curve.json").values.tolist()
    assert "estimated from these clicks" in invoke("rates", place / "moving").stderr
    assert pyarrow.csv.read_csv(tmp_path / "rates.csv").num_rows == found["documents"]
    assert [row["query_id"] for row in found["top"]][:3] == [found["top"][0]["query_id"]] * 3


def test_counts_and_log_agree(place):
    curve = ("--examination", "inverse-rank:eta=1")
    log, counts = (as_json("rates", place / name, *curve) for name in ("moving", "counts"))
    assert log["top"] == counts["top"]
    assert log["log"] != counts["log"]


def test_with_data_only_its_documents_are_rated(place):
    curve = ("--examination", "inverse-rank:eta=1")
    alone, known = (as_json("rates", place / "fixed", *curve, *more) for more in ((), ("--data", DATA)))
    assert alone["candidates_never_shown"] == 0
    assert alone["documents"] == known["documents"]
    assert known["candidates_never_shown"] > 0


def test_simulated_counts_remember_their_curve(place, tmp_path):
    invoke("simulate", DATA, "--logger", "feature:1", "--policy", "replace-last:k=3", "--n-sessions", 500, "--out",
           tmp_path / "clicks")  # fmt: skip
    assert as_json("rates", tmp_path / "clicks")["examination_source"] == "simulation"


def test_columns_of_another_name_and_trust_bias(tmp_path):
    file = tmp_path / "log.csv"
    rows = [
        f"{s},lamp,{doc},{rank},{'Y' if s % 3 == rank else 'N'}"
        for s in range(30)
        for rank, doc in ((1, "red"), (2, "b c"))
    ]
    text = "\n".join(["page,query_id,sku,position,is_click", *rows]).replace("Y", "1").replace("N", "0")
    file.write_text(text + "\n")
    named = ("--map", "session_id=page,doc_id=sku,rank=position,clicked=is_click")
    found = as_json("rates", file, *named, "--alpha", "0.5,0.4", "--beta", "0.1,0.05", "--prior", "overall")
    rates = {row["doc_id"]: row["rate"] for row in found["top"]}
    low, high = -0.125, 1.8  # ends of relevance
    expected = {"red": (10 - 3) / 15, "b c": (10 - 1.5) / 12}
    assert rates == pytest.approx({name: (rate - low) / (high - low) for name, rate in expected.items()})
    assert found["beta"] == pytest.approx([0.1 + 0.5 * low, 0.0])


def test_rows_that_are_wrong(place, tmp_path):
    file = tmp_path / "log.csv"
    rows = [f"{s},q,{doc},{rank},{int(s % 2)}" for s in range(40) for rank, doc in ((1, "a"), (2, "b"))]
    file.write_text("\n".join(["session_id,query_id,doc_id,rank,clicked", *rows, "99,q,a,none,1"]) + "\n")
    curve = ("--examination", "1,0.5")
    with pytest.raises(cr.CounterrankError):
        attempt("rates", file, *curve)
    found = as_json("rates", file, *curve, "--on-error", "skip")
    assert found["impressions"] == 80


def test_a_curve_without_intervals_is_read_too(place, tmp_path):
    curve = tmp_path / "curve.json"
    curve.write_text(json.dumps({"format": "counterrank-examination", "version": 1, "values": [1.0, 0.5, 0.3]}))
    assert as_json("rates", place / "moving", "--examination", curve)["examination"] == [1.0, 0.5, 0.3]
    with pytest.raises(cr.CounterrankError, match="incomplete"):
        examination.load_estimate(curve)


BAD = {
    ("fixed",): "--examination: not given, and cannot be estimated from this log: ranks fall into 3 groups",
    ("moving", "--examination", "1,0.5"): "--examination: 0 at rank 3, where there are clicks",
    ("moving", "--examination", "steep"): "--examination steep: unknown",
    ("moving", "--alpha", "0.5"): "--alpha, --beta: expected both",
    ("moving", "--alpha", "0.5,0.2,0.1", "--beta", "0,0,0", "--examination", "1,0.5,0.2"): "--alpha takes its place",
    ("moving", "--prior", "none"): "--prior none: expected one of",
    ("moving", "--strength", "-1"): "--strength -1.0: expected a number of at least 0",
    ("moving", "--confidence", "95"): "--confidence 95.0: expected a number between 0 and 1",
    ("moving", "--top", "0"): "--top 0: expected a whole number of at least 1",
    ("moving", "--part", "all"): "part",
    ("moving", "--map", "label=grade"): "--map label=grade: of ranking data, and none is read; expected --data too",
    ("moving", "--split", "0.5,0.5"): "--split 0.5,0.5: of ranking data, and none is read; expected --data too",
    ("moving", "--map", "rank"): "--map rank: 'rank'; expected each column once, such as rank=position",
    ("moving", "--map", "rank=place"): "no column 'place'; the log has",
    ("moving", "--format", "xml"): "--format xml: expected one of",
    ("moving", "--only-policy", "v1"): "no column 'policy' to choose v1 by",
    ("nowhere",): "nowhere",
}


@pytest.mark.parametrize(("arguments", "message"), BAD.items())
def test_bad_input(place, tmp_path, arguments, message):
    with pytest.raises(cr.CounterrankError) as error:
        attempt("rates", place / arguments[0], *arguments[1:], "--out", tmp_path / "rates.csv")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_data_and_log_with_names_of_their_own(tmp_path):
    """The advice about a missing column renames that of the data or that of the log, and works."""
    (tmp_path / "data.csv").write_text("q,sku,price\nlamp,red,1\nlamp,blue,2\n")
    rows = [f"{s},lamp,{doc},{rank},{int(s % 3 == rank)}" for s in range(30) for rank, doc in ((1, "red"), (2, "blue"))]
    (tmp_path / "log.csv").write_text("\n".join(["session_id,q,item,rank,clicked", *rows]) + "\n")
    common = ("rates", tmp_path / "log.csv", "--data", tmp_path / "data.csv", "--examination", "1,0.5")
    with pytest.raises(cr.CounterrankError, match=r"data\.csv: no column 'item'; .* --map data:doc_id=NAME"):
        attempt(*common, "--map", "query_id=q,doc_id=item")
    with pytest.raises(
        cr.CounterrankError, match=r"log\.csv: no column 'sku'; the log has .* --map log:doc_id=item if that is it"
    ):
        attempt(*common, "--map", "query_id=q,doc_id=sku")
    assert as_json(*common, "--map", "query_id=q,doc_id=item,data:doc_id=sku")["documents"] == 2
    assert as_json(*common, "--map", "query_id=q,doc_id=sku,log:doc_id=item")["documents"] == 2


def test_a_ranker_is_no_log(tmp_path):
    invoke("train", DATA, "--max-epochs", 1, "--out", tmp_path / "ranker", "--relevance-threshold", 1)
    for command in ("rates", "inspect"):
        with pytest.raises(cr.CounterrankError, match="ranker is a ranker; expected a click log, or click counts"):
            attempt(command, tmp_path / "ranker")


def test_what_exists_is_kept(place, tmp_path):
    out = tmp_path / "rates.csv"
    out.write_text("mine")
    with pytest.raises(cr.CounterrankError, match="exists"):
        attempt("rates", place / "moving", "--out", out)
    assert out.read_text() == "mine"
    invoke("rates", place / "moving", "--out", out, "--force")
    assert out.read_text() != "mine"
    with pytest.raises(cr.CounterrankError, match=r"expected \.parquet, \.csv or \.tsv"):
        attempt("rates", place / "moving", "--out", tmp_path / "rates.txt")
    log = place / "moving" / "train.parquet"
    with pytest.raises(cr.CounterrankError, match="is an input"):
        attempt("rates", log, "--out", log, "--force")


def test_the_curve_is_that_of_the_users(place):
    """The estimate of the debiased rate of relevant documents is near 1, that of others near 0.1."""
    data = cr.data.sources.open_data(DATA).train
    counts = cr.clicks.read_log(place / "moving" / "train.parquet", data)
    found = cr.click_rates(counts, examination.inverse_rank(k=3))
    relevant = data.labels[np.flatnonzero(counts.by_document(counts.impressions) > 0)] >= 3
    weights = found.examinations
    means = [np.average(found.unclipped_rate[own], weights=weights[own]) for own in (relevant, ~relevant)]
    model = simulation.ClickModel()
    assert means == pytest.approx([model.relevant, model.other], rel=0.1)

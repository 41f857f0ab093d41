"""Scores of frames, for data whose rows were regrouped: aligned by ids, refused or warned about."""

import warnings

import numpy as np
import pytest

import counterrank as cr
from counterrank import evaluation, examination, policies, simulation
from counterrank.data import document_scores, in_data_order, read_scores

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

EXAM = examination.inverse_rank(3)


def frame_of(seed=0):
    """Rows of queries mixed."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "search": [f"search {i}" for i in np.repeat(np.arange(40), 6)],
            "sku": [f"SKU {i}" for i in np.tile(np.arange(6), 40)],
            "price": rng.random(240),
            "rating": rng.random(240),
            "grade": rng.integers(0, 5, 240),
        }
    )
    return frame.sample(frac=1.0, random_state=seed).reset_index(drop=True)


FRAME = frame_of()
DATA = cr.RankingData.from_frame(FRAME, query="search", document="sku", label="grade")
RANKER = cr.Ranker("arp-hinge", max_epochs=3).fit(DATA, DATA.labels)
CLICKS = simulation.simulate(DATA, DATA.features[:, 0], policies.UniformInsert(3), EXAM, sessions=4000, seed=0)
SCORED = FRAME[["search", "sku"]].assign(score=RANKER.predict(FRAME))
OTHER = FRAME[["search", "sku", "price"]]
TAKES = {
    "evaluate": lambda scores: evaluation.evaluate(scores, DATA, metrics=["dcg@3"])["dcg@3"],
    "estimate": lambda scores: evaluation.estimate(scores, DATA, CLICKS, metrics=["dcg@3"])["dcg@3"].ips,
    "compare": lambda scores: evaluation.compare(scores, OTHER, DATA, CLICKS, metrics=["dcg@3"])["dcg@3"].ips,
    "select": lambda scores: cr.select([scores, OTHER], DATA, CLICKS, metric="dcg@3").estimates[0].ips,
    "simulate": lambda scores: simulation.simulate(
        DATA, scores, policies.ReplaceLast(3), EXAM, sessions=50, seed=0
    ).docs.tolist(),
    "plan_logging": lambda scores: evaluation.plan_logging(
        DATA, scores, {"it": policies.ReplaceLast(3)}, EXAM, [1000], metric="dcg@3"
    )[0].summary(),
    "ranked_rows": lambda scores: cr.data.scores.ranked_rows(scores, DATA)["doc_id"].to_pylist(),
    "inspect_clicks": lambda scores: str(
        evaluation.inspect_clicks(CLICKS, data=DATA, policy=policies.UniformInsert(3), scores=scores).to_json()
    ),
}


def quietly(function, *given):
    """What a function returns; warnings about the order are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", cr.RegroupedWarning)
        return function(*given)


@pytest.mark.parametrize("name", TAKES)
def test_every_function_takes_frames_by_their_ids(name):
    take = TAKES[name]
    expected = quietly(take, RANKER.predict(DATA))
    shuffled = SCORED.sample(frac=1.0, random_state=3)
    kinds = (RANKER, SCORED, shuffled, pl.from_pandas(SCORED), pa.Table.from_pandas(SCORED, preserve_index=False))
    for given in (*kinds, shuffled.rename(columns={"search": "query_id", "sku": "doc_id", "score": "anything"})):
        assert quietly(take, given) == expected
    assert quietly(take, read_scores(SCORED, DATA)) == expected


@pytest.mark.parametrize("name", TAKES)
def test_no_function_takes_the_order_of_a_frame_silently(name):
    take = TAKES[name]
    column = SCORED["score"]
    for series in (column, pl.Series(column), pa.array(column), pa.chunked_array([column])):
        with pytest.raises(
            cr.CounterrankError, match=r"a column in the order of its frame.*\['search', 'sku', 'score'"
        ):
            quietly(take, series)
    for array in (column.to_numpy(), column.tolist(), RANKER.predict(FRAME), RANKER.predict(DATA) + 0.0):
        with pytest.raises(cr.RegroupedWarning, match=r"an array, taken in the order of data.*ranker.predict\(data\)"):
            quietly(take, array)
    assert quietly(take, in_data_order(RANKER.predict(DATA) + 0.0, DATA)) == quietly(take, RANKER)


def test_scores_known_to_be_in_the_order_of_the_data():
    for known in (
        DATA.features[:, 1],
        DATA.labels,
        RANKER.predict(DATA),
        read_scores(SCORED, DATA),
        in_data_order(list(range(DATA.n_docs)), DATA),
    ):
        quietly(document_scores, known, DATA)
    for unknown in (DATA.features[::-1, 1], DATA.features[:, 1] + 0.0, RANKER.predict(DATA).copy()):
        with pytest.warns(cr.RegroupedWarning):
            document_scores(unknown, DATA)
    test = DATA.split([0.5, 0.5]).test
    quietly(document_scores, RANKER.predict(test), test)
    with pytest.warns(cr.RegroupedWarning):
        document_scores(np.zeros(test.n_docs), test)


def test_the_warning_is_given_for_each_line():
    array = SCORED["score"].to_numpy()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        evaluation.evaluate(array, DATA)
        evaluation.evaluate(array, DATA)
    found = [each for each in caught if each.category is cr.RegroupedWarning]
    assert len(found) == 2
    assert all(each.filename == __file__ for each in found)


def test_data_that_kept_its_order_takes_columns():
    frame = FRAME.sort_values(["search", "sku"])
    data = cr.RankingData.from_frame(frame, query="search", document="sku", label="grade")
    assert not data.regrouped
    for given in (frame["price"], frame["price"].to_numpy(), frame["price"].tolist(), pl.Series(frame["price"])):
        assert quietly(document_scores, given, data).tolist() == frame["price"].tolist()


def test_scores_for_a_part_are_found_in_the_frame_of_all():
    test = DATA.split([0.6, 0.4]).test
    assert np.allclose(read_scores(SCORED, test), RANKER.predict(test))


def test_ids_of_other_types():
    frame = pd.DataFrame({"search": pd.Categorical(["b", "a", "b"]), "sku": [1.0, 1.0, 2.0], "price": [1, 2, 3]})
    data = cr.RankingData.from_frame(frame, query="search", document="sku")
    assert read_scores(frame, data).tolist() == [1.0, 3.0, 2.0]
    assert read_scores(frame.assign(sku=["1", "1", "2"]), data).tolist() == [1.0, 3.0, 2.0]
    wide = frame.assign(score=[True, False, True], other=0)
    assert read_scores(wide, data).tolist() == [1.0, 1.0, 0.0]


BAD = [
    (
        SCORED[["sku", "score"]],
        r"scores: no column 'search' or 'query_id' among 'sku', 'score'; expected a frame with ids",
    ),
    (SCORED.rename(columns={"sku": "product"}), r"scores: no column 'sku' or 'doc_id' among"),
    (SCORED[["search", "sku"]], r"scores: 0 columns that may be the score, none; expected"),
    (FRAME, r"scores: 3 columns that may be the score, 'price', 'rating', 'grade'; expected a frame with ids"),
    (SCORED.assign(score="high"), r"scores: column 'score' is (large_)?string; expected numbers"),
    (SCORED.iloc[5:], r"scores: no score for 5 of the 240 documents of the data, such as query"),
    (pd.concat([SCORED, SCORED.iloc[:2]]), r"scores: 2 documents have several scores, such as query"),
    (
        SCORED.assign(score=np.where(SCORED.index == 0, np.nan, SCORED["score"])),
        r"scores: 1 documents have a score that",
    ),
    (SCORED.iloc[:0], r"scores: no rows; expected"),
    (SCORED.assign(search="none"), r"scores: none of its 240 rows has a query of the data"),
    (pd.concat([SCORED, SCORED["sku"]], axis=1), r"scores: 2 columns 'sku'; expected one"),
    (
        SCORED.rename(columns={"score": "Rank"}),
        r"scores: column 'Rank' seems to be a rank, and a higher score ranks first",
    ),
    (object(), r"scores: object; expected a ranker \(an object with predict\), a frame with ids, or one score"),
    ({"a": 1.0}, r"scores: dict; expected a ranker"),
    (cr.Ranker, r"scores: type; expected a ranker"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_bad_scores(given, message):
    with pytest.raises(cr.CounterrankError, match=message) as caught:
        evaluation.estimate(given, DATA, CLICKS)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_select_takes_a_list_and_no_frame():
    with pytest.raises(cr.CounterrankError, match="rankers: DataFrame; expected a list of rankers"):
        cr.select(SCORED, DATA, CLICKS)


def test_documents_that_the_data_does_not_have():
    more = pd.concat([SCORED, pd.DataFrame({"search": ["search 0"], "sku": ["new"], "score": [1.0]})])
    with pytest.warns(UserWarning, match="scores: 1 of its rows have a document that the data does not have"):
        assert np.allclose(document_scores(more, DATA), RANKER.predict(DATA))


def test_columns_as_weights_and_propensities():
    column, rho = FRAME["price"], pd.Series(np.full(DATA.n_docs, 0.5))
    with pytest.raises(cr.CounterrankError, match=r"weights: Series, a column in the order of its frame.*read_scores"):
        cr.Ranker(max_epochs=1).fit(DATA, column)
    with pytest.raises(cr.CounterrankError, match="rho: Series, a column in the order of its frame"):
        evaluation.estimate(SCORED, DATA, CLICKS, rho)
    with pytest.raises(cr.CounterrankError, match="relevance: Series, a column in the order of its frame"):
        evaluation.estimate(SCORED, DATA, CLICKS, method="dr", relevance=rho)
    with pytest.raises(cr.CounterrankError, match="rho: Series, a column in the order of its frame"):
        cr.fit_ranker(DATA, cr.Evidence(CLICKS, rho=rho))
    cr.Ranker(max_epochs=1).fit(DATA, read_scores(OTHER, DATA))


def test_the_scores_of_a_policy_in_training():
    policy = policies.UniformInsert(3)
    ranker = cr.Ranker(k=3, max_epochs=2)
    expected = quietly(cr.fit_ranker, DATA, cr.Evidence(CLICKS, exam=EXAM, policy=policy, scores=DATA.features[:, 0]))
    found = quietly(cr.fit_ranker, DATA, cr.Evidence(CLICKS, exam=EXAM, policy=policy, scores=OTHER))
    assert np.allclose(found.ranker.predict(DATA), expected.ranker.predict(DATA))
    array = FRAME["price"].to_numpy()
    with pytest.raises(cr.RegroupedWarning):
        quietly(
            cr.fit_ranker, DATA, cr.Evidence(CLICKS, exam=EXAM, policy=policy, scores=array), "policy-aware", ranker
        )
    named = {"v1": (policy, OTHER)}
    assert isinstance(cr.Evidence(CLICKS, policy=named).for_data(DATA).policy["v1"][1], np.ndarray)


# single rows


def test_a_matrix_of_several_queries_is_not_scaled_as_one_silently():
    matrix = FRAME[["price", "rating"]].to_numpy()
    with pytest.warns(UserWarning, match="X: 240 rows without qid or group are taken as the documents of one query"):
        RANKER.predict(matrix)
    order = np.argsort(FRAME["search"], kind="stable")
    queries = np.unique(FRAME["search"], return_inverse=True)[1][order]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "data: the ranker has names of features")
        assert np.allclose(RANKER.predict(matrix[order], qid=queries), RANKER.predict(FRAME)[order])


def test_a_query_with_a_single_row_is_warned_about():
    one = FRAME.iloc[:1]
    with pytest.warns(UserWarning, match="frame: 1 query has a single row; this ranker scales features within each"):
        RANKER.predict(one)
    with pytest.warns(UserWarning, match="frame: 2 queries have a single row each"):
        RANKER.predict(FRAME.drop_duplicates("search").iloc[:2])
    with pytest.warns(UserWarning, match="X: 1 query has a single row"):
        RANKER.predict(one[["price", "rating"]].to_numpy())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RANKER.predict(FRAME)
        RANKER.predict(FRAME[(FRAME["search"] != "search 0") | (FRAME["sku"] == "SKU 0")])  # as one search may well be
        plain = cr.Ranker("arp-hinge", max_epochs=3, normalize="none").fit(DATA, DATA.labels)
        assert np.allclose(plain.predict(one), plain.predict(FRAME)[:1])


# frames in place of clicks


@pytest.mark.parametrize(
    "call",
    [
        lambda frame: evaluation.estimate(SCORED, DATA, frame),
        lambda frame: evaluation.compare(SCORED, OTHER, DATA, frame),
        lambda frame: cr.Ranker().fit(DATA, DATA.labels, clicks=frame),
        lambda frame: cr.fit_from_clicks(DATA, frame),
        lambda frame: cr.fit_ranker(DATA, cr.Evidence(frame)),
        lambda frame: cr.estimators.policy_aware(frame),
        lambda frame: examination.estimate(frame),
    ],
)
def test_a_frame_is_no_clicks(call):
    message = r"clicks: DataFrame; expected ClickCounts, as ClickCounts.from_frame\(frame, data, ...\) or read_log"
    with pytest.raises(cr.CounterrankError, match=message) as caught:
        call(FRAME)
    assert "\n" not in str(caught.value)

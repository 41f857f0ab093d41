"""Scores of documents: from frames and files by query and document id, or as arrays in the order of the data.

`document_scores` is the rule of every function that takes scores together with data. Rankings are written as files
(Parquet, CSV and TREC runs).
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.checks import FloatArray, check_cutoff, check_type, check_vector, is_two
from counterrank.common.errors import (
    CounterrankError,
    DataError,
    RegroupedWarning,
    brief,
    listed,
    printable,
    warn_caller,
)
from counterrank.common.files import PathLike, atomic_file, existing
from counterrank.data.feature_columns import ROLES, Columns, is_number
from counterrank.data.frames import ArrowColumns, frame_columns, is_column, is_frame, read_ids
from counterrank.data.ids import find_rows, query_of
from counterrank.data.parquet import parquet_errors
from counterrank.data.ranking_data import RankingData

SCORE = "score"
_RANK_NAMES = ("rank", "ranks", "ranking", "position", "pos", "place")  # of columns in which 1 is best
PARQUET, COMMA, TAB, NUMPY, TEXT = "parquet", "csv", "tsv", "npy", "text"
_ENDINGS = {".parquet": PARQUET, ".pq": PARQUET, ".csv": COMMA, ".tsv": TAB, ".npy": NUMPY}
_KEYED = "Parquet or CSV with the columns query_id, doc_id and score, or a TREC run"
_GZIP = b"\x1f\x8b"


def file_format(path: PathLike) -> str:
    """The format that a file's name stands for: Parquet, CSV, TSV, NumPy, or text of some kind.

    >>> file_format("scores.csv.gz"), file_format("run.trec")
    ('csv', 'text')
    """
    return _ENDINGS.get(Path(Path(path).name.lower().removesuffix(".gz")).suffix, TEXT)


def document_scores(given: Any, data: RankingData, name: str = "scores") -> FloatArray:
    """One score for each document, in the order of the data; used by all functions that take scores and data.

    Arguments:
        given: a ranker (an object with `predict`), which scores the data. A frame with the columns of query and
            document, and one of scores, matched by ids as in `read_scores`. Or an array or list with a score for each
            document, in the order of the data.
        data: the documents. If its rows were regrouped (`data.regrouped`), scores in the order of the frame or file
            that it came from would be those of other documents. So a column of a frame (a Series of pandas or polars,
            an Arrow array) is then an error. An array gives a `RegroupedWarning`, unless it is known to be in the order
            of the data: what `predict(data)`, `read_scores` or `in_data_order` returned, or a column of
            `data.features`.
        name: of the argument, for messages.

    >>> import pyarrow as pa
    >>> frame = pa.table({"query": ["tv", "radio", "tv"], "sku": [3, 3, 5], "price": [9.5, 2.0, 4.0]})
    >>> data = RankingData.from_frame(frame, query="query", document="sku")
    >>> data.regrouped, document_scores(frame, data).tolist()
    (True, [9.5, 4.0, 2.0])
    >>> document_scores(frame["price"], data)
    Traceback (most recent call last):
    ...
    counterrank.common.errors.DataError: scores: ChunkedArray, a column in the order of its frame, but data has \
another order, since its rows were regrouped (data.regrouped); expected a frame with ids, such as \
frame[['query', 'sku', 'score']], a ranker, or ranker.predict(data)
    """
    check_type(data, RankingData, "data")
    if not isinstance(given, np.ndarray | list | tuple):
        if is_frame(given):
            return _matched(_from_frame(given, data, name), data, name)
        if callable(getattr(given, "predict", None)) and not isinstance(given, type):
            return check_vector(given.predict(data), data.n_docs, name)
        refuse_column(given, data, name, f"{_frame_example(data)}, a ranker, or ranker.predict(data)")
        is_array = hasattr(given, "__len__") or hasattr(given, "__array__")
        if not is_array or isinstance(given, str | bytes | Mapping | type):
            raise CounterrankError(
                f"{name}: {type(given).__name__}; expected a ranker (an object with predict), a frame with ids, or one "
                "score per document"
            )
    checked = check_vector(given, data.n_docs, name)
    if data.regrouped and not _is_in_order(given, data):
        warn_caller(
            f"{name}: an array, taken in the order of data, which is not that of the frame or file it came from, since "
            f"its rows were regrouped (data.regrouped); pass {_frame_example(data)}, a ranker, or "
            "ranker.predict(data); or counterrank.data.in_data_order(scores, data), if they are in the order of data",
            RegroupedWarning,
        )
    return checked


def logging_scores(given: Any, data: RankingData, name: str = "scores") -> FloatArray:
    """What a logging policy ranked by: one score per document, as `document_scores` takes them.

    Of a list of two, which `policies.TeamDraft` interleaves, (2, n_docs).

    >>> data = RankingData([[1.0], [2.0]], [0, 2])
    >>> logging_scores([[2.0, 1.0], [1.0, 2.0]], data).shape
    (2, 2)
    """
    if not is_two(given):
        return document_scores(given, data, name)
    return np.stack([document_scores(given[i], data, f"{name}[{i}]") for i in range(2)])


def in_data_order(scores: ArrayLike, data: RankingData) -> FloatArray:
    """Mark scores as being in the order of the data's documents; using them gives no `RegroupedWarning`.

    For scores that you computed from `data.features`, say, where `data.regrouped`. It says so of the returned array
    only, not of others that are computed from it.

    >>> in_data_order([0.5, 0.25], RankingData([[1.0], [2.0]], [0, 2]))
    array([0.5 , 0.25])
    """
    array = check_vector(scores, data.n_docs, "scores")
    if data.regrouped:
        data._cached("scores_in_order", WeakValueDictionary)[id(array)] = array
    return array


def _is_in_order(given: Any, data: RankingData) -> bool:
    """Whether an array is known to be in the order of the data: `in_data_order`, or a view of features or labels."""
    if not isinstance(given, np.ndarray):
        return False
    known = data._cached("scores_in_order", WeakValueDictionary)
    own = [array for array in (data.features, data.labels) if array is not None]
    is_view = given.strides[0] > 0 and any(np.may_share_memory(given, array) for array in own)
    return known.get(id(given)) is given or is_view


def refuse_column(values: Any, data: RankingData, name: str, expected: str = "") -> None:
    """An error for a column of a frame, one number per document, where the order of the data is another.

    >>> refuse_column([0.5], RankingData([[1.0]], [0, 1]), "weights")
    """
    if data.regrouped and not isinstance(values, np.ndarray) and is_column(values):
        expected = expected or f"an array in the order of data, such as read_scores gives for {_frame_example(data)}"
        raise DataError(
            f"{name}: {type(values).__name__}, a column in the order of its frame, but data has another order, since "
            f"its rows were regrouped (data.regrouped); expected {expected}"
        )


def _frame_example(data: RankingData) -> str:
    known = {**ROLES, **(data.columns or {})}
    return f"a frame with ids, such as frame[[{known['query']!r}, {known['document']!r}, 'score']]"


def read_scores(path: Any, data: RankingData) -> FloatArray:
    """One score for each document of the data, from a file or a frame.

    A frame, or a file of Parquet (.parquet, .pq) or CSV (.csv, .tsv, plain or .gz), has the columns of query and
    document, with the names they have in the frame or file that the data was made from, or `query_id` and `doc_id`. The
    score is the column `score`; of a frame, also the only other one. A file may also be a TREC run (lines `query Q0
    document rank score tag`). Scores are matched by query and document id; a number and its text are one id. Rows of
    queries that the data does not have are ignored, so one file serves all parts of a fold. `counterrank rank --out`
    writes each of these formats.

    A plain list of numbers (.npy, or text with one number a line) is matched by its order. It is refused for data whose
    rows were regrouped when they were read (`data.regrouped`).

    Arguments:
        path: the file, or a frame of any kind that `RankingData.from_frame` takes.
        data: the documents to score. Each needs exactly one finite score. Documents of a known query that the data does
            not have are ignored with a warning.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "scores.csv"
    >>> _ = file.write_text("query_id,doc_id,score\\n7,b,0.5\\n7,a,1e-17\\n8,a,3\\n")
    >>> read_scores(file, RankingData([[1.0], [2.0]], [0, 2], query_ids=[7], doc_ids=["a", "b"])).tolist()
    [1e-17, 0.5]
    """
    check_type(data, RankingData, "data")
    if not isinstance(path, str | PurePath) and is_frame(path):
        return in_data_order(_matched(_from_frame(path, data, "frame"), data, "frame"), data)
    return in_data_order(_from_file(path, data), data)


def _from_file(path: PathLike, data: RankingData) -> FloatArray:
    file = existing(path, "scores")
    if file.is_dir():
        raise DataError(f"{path}: is a folder; expected one file of scores")
    kind = file_format(file)
    if kind == PARQUET:
        return _matched(_parquet(path, data), data, path)
    if kind in (COMMA, TAB):
        return _matched(_csv(path, data, "," if kind == COMMA else "\t"), data, path)
    if kind == NUMPY:
        return _in_order(_numpy(path), data, path)
    lines = _Lines.of(path)
    if lines.is_run():
        return _matched(_trec(lines), data, path)
    numbers = lines.without_comments()
    if len(numbers.first().split()) == 1:
        return _in_order(_numbers(numbers.texts, path, numbers.place, "one number a line"), data, path)
    raise DataError(
        f"{path}: {numbers.place(0)} is {_short(numbers.first())}; expected one number a line, or {_KEYED} "
        "(query Q0 document rank score tag)"
    )


class _Keyed(NamedTuple):
    """Scores with the ids of their queries and documents, as Arrow arrays; scores that are null are NaN."""

    query_ids: Any
    doc_ids: Any
    scores: FloatArray


def _from_frame(frame: Any, data: RankingData, name: str) -> _Keyed:
    """The scores of a frame with their ids."""
    columns = frame_columns(frame, name)
    return _keyed(columns, _score_columns(columns.names, data, name, in_frame=True))


def _score_columns(names: list[str], data: RankingData, name: PathLike, in_frame: bool = False) -> tuple[str, str, str]:
    """The columns of query, document and score; in a frame, the score may be the only other column."""
    own = {**ROLES, **(data.columns or {})}
    expected = f"{own['query']}, {own['document']} and {SCORE}, each once"
    expected = f"expected {_frame_example(data) if in_frame else expected}"
    ids = []
    for role in ("query", "document"):
        known = dict.fromkeys([own[role], ROLES[role]])
        found = [each for each in known if each in names]
        if not found:
            wanted = " or ".join(map(repr, known))
            raise DataError(f"{name}: no column {wanted} among {listed(names)}; {expected}")
        ids.append(found[0])
    others = [each for each in names if each not in ids]
    if SCORE not in others and not in_frame:
        raise DataError(f"{name}: no column {SCORE!r} among {listed(names)}; {expected}")
    score = SCORE if SCORE in others else others[0] if len(others) == 1 else None
    if score is None:
        raise DataError(f"{name}: {len(others)} columns that may be the score, {listed(others)}; {expected}")
    if score.casefold() in _RANK_NAMES:
        raise DataError(
            f"{name}: column {score!r} seems to be a rank, and a higher score ranks first; expected {SCORE!r}, "
            f"such as the negative of {score!r}"
        )
    for each in (*ids, score):
        if names.count(each) > 1:
            raise DataError(f"{name}: {names.count(each)} columns {each!r}; expected one")
    return ids[0], ids[1], score


def _keyed(columns: Columns, names: tuple[str, str, str]) -> _Keyed:
    """The columns of query, document and score."""
    import pyarrow as pa

    query, document, score = names
    column = columns.column(score)
    if not is_number(column.type):
        raise DataError(f"{columns.name}: column {score!r} is {column.type}; expected numbers")
    scores = column.cast(pa.float64(), safe=False).to_numpy()
    return _Keyed(read_ids(columns, query), read_ids(columns, document), scores)


def _matched(given: _Keyed, data: RankingData, path: PathLike) -> FloatArray:
    """The score of each document of the data."""
    queries = find_rows(given.query_ids, data.query_ids)
    rows = find_rows(given.doc_ids, data.doc_ids, queries, data.offsets)
    if not (queries >= 0).any():
        example = f", such as {_short(given.query_ids[0])}," if len(queries) else ""
        raise DataError(
            f"{path}: none of its {len(rows):,} rows has a query of the data; expected query ids{example} "
            f"as in the data, such as {_short(data.query_ids[0])}"
        )
    counts = np.bincount(rows[rows >= 0], minlength=data.n_docs)
    if (counts > 1).any():
        raise DataError(
            f"{path}: {np.count_nonzero(counts > 1):,} documents have several scores, such as "
            f"{_document(data, int(np.argmax(counts > 1)))}; expected one score for each document"
        )
    stray = np.flatnonzero((queries >= 0) & (rows < 0))
    unknown = f"{len(stray):,} of its rows have a document that the data does not have in a query that it has"
    if len(stray):
        unknown += f", such as query {_short(given.query_ids[stray[0]])}, document {_short(given.doc_ids[stray[0]])}"
    if not counts.all():
        missing = int(np.count_nonzero(counts == 0))
        raise DataError(
            f"{path}: no score for {missing:,} of the {data.n_docs:,} documents of the data, such as "
            f"{_document(data, int(np.argmin(counts)))}{'; ' + unknown if len(stray) else ''}; expected a score for "
            "each document (a run cut by rank --depth is not enough)"
        )
    scores = np.empty(data.n_docs)
    scores[rows[rows >= 0]] = given.scores[rows >= 0]
    finite = np.isfinite(scores)
    if not finite.all():
        row = int(np.argmin(finite))
        raise DataError(
            f"{path}: {np.count_nonzero(~finite):,} documents have a score that is not finite, such as "
            f"{_document(data, row)} with {scores[row]}; expected finite numbers"
        )
    if len(stray):
        warn_caller(f"{path}: {unknown}; these scores are not used")
    return scores


def _in_order(scores: NDArray[Any], data: RankingData, path: PathLike) -> FloatArray:
    """A plain list, if its order can be that of the data."""
    if data.regrouped:
        raise DataError(
            f"{path}: a plain list of scores, but the rows of a query were not contiguous in the data and were "
            f"regrouped when it was read, so the order of the list means nothing; expected {_KEYED}"
        )
    if scores.shape != (data.n_docs,):
        raise DataError(
            f"{path}: scores of shape {scores.shape}; expected one for each of {data.n_docs:,} rows, or {_KEYED}"
        )
    if scores.dtype.kind not in "fiu":
        raise DataError(f"{path}: scores of type {scores.dtype}; expected numbers")
    found: FloatArray = scores.astype(np.float64)
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        raise DataError(f"{path}: score {row} (from 0) is {found[row]}; expected finite numbers")
    return found


def _parquet(path: PathLike, data: RankingData) -> _Keyed:
    import pyarrow.parquet as pq

    with parquet_errors(path), pq.ParquetFile(Path(path)) as file:
        names = _score_columns(file.schema_arrow.names, data, path)
        table = file.read(columns=list(names))
    return _keyed(ArrowColumns(table, str(path)), names)


def _csv(path: PathLike, data: RankingData, delimiter: str) -> _Keyed:
    """Ids are read as texts, so that none of them changes on the way."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    content = file_bytes(path)
    start = content[: 1 << 20].tobytes().decode("utf-8-sig", "replace").splitlines()
    header = next(csv.reader(start, delimiter=delimiter), []) if start else []
    query, document, score = names = _score_columns(header, data, path)
    try:
        table = pa_csv.read_csv(
            pa.py_buffer(content),
            parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), include_columns=list(names)
            ),
        )
    except pa.ArrowException as error:
        raise DataError(f"{path}: not a CSV file that can be read ({printable(str(error))})") from None
    columns = ArrowColumns(table, str(path))
    scores = _numbers(table[score], path, lambda i: f"row {i}", f"a number in the column {score!r}")
    return _Keyed(read_ids(columns, query), read_ids(columns, document), scores)


def _numpy(path: PathLike) -> NDArray[Any]:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{path}: not scores that can be read ({printable(str(error))})") from None


class _Lines:
    """The lines of a text that hold something.

    Attributes:
        path: of the file.
        texts: the lines as Arrow texts, without white space around them.
        numbers: the number of each line in the file, from 1.
    """

    def __init__(self, path: PathLike, texts: Any, numbers: NDArray[np.int64]) -> None:
        self.path, self.texts, self.numbers = path, texts, numbers

    @classmethod
    def of(cls, path: PathLike) -> _Lines:
        import pyarrow as pa
        import pyarrow.compute as pc

        content = file_bytes(path)
        ends = pa.py_buffer(np.array([0, len(content)], np.int64))
        whole = pa.LargeStringArray.from_buffers(1, ends, pa.py_buffer(content))
        try:
            whole.validate(full=True)
        except pa.ArrowInvalid:
            raise DataError(f"{path}: not UTF-8 text; expected one number a line, or {_KEYED}") from None
        lines = pc.ascii_trim_whitespace(pc.split_pattern(whole, "\n").flatten())
        return cls(path, lines, np.arange(1, len(lines) + 1))._taken(pc.not_equal(lines, ""))

    def _taken(self, mask: Any) -> _Lines:
        import pyarrow.compute as pc

        if not pc.any(mask).as_py():  # `mask.true_count` crashes pyarrow 15
            raise DataError(f"{self.path}: no scores in it; expected one number a line, or {_KEYED}")
        return _Lines(self.path, self.texts.filter(mask), self.numbers[mask.to_numpy(zero_copy_only=False)])

    def without_comments(self) -> _Lines:
        """Without lines that begin with #."""
        import pyarrow.compute as pc

        return self._taken(pc.invert(pc.starts_with(self.texts, "#")))

    def is_run(self) -> bool:
        """Whether the first line is one of a TREC run."""
        words = self.first().encode().split()  # at ASCII white space alone
        return len(words) == 6 and words[1].upper() == b"Q0"

    def first(self) -> str:
        text: str = self.texts[0].as_py()
        return text

    def place(self, i: int) -> str:
        return f"line {self.numbers[i]}"


def file_bytes(path: PathLike) -> NDArray[np.uint8]:
    """The bytes of a file, unpacked if it is gzip, without a byte order mark."""
    try:
        content = Path(path).read_bytes()
        content = gzip.decompress(content) if content[:2] == _GZIP else content
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({printable(str(error))})") from None
    return np.frombuffer(content, np.uint8, offset=3 if content[:3] == b"\xef\xbb\xbf" else 0)


def _trec(lines: _Lines) -> _Keyed:
    import pyarrow.compute as pc

    fields = pc.ascii_split_whitespace(lines.texts)
    wrong = pc.list_value_length(fields).to_numpy(zero_copy_only=False) != 6
    if wrong.any():
        i = int(np.argmax(wrong))
        raise DataError(
            f"{lines.path}: {lines.place(i)} is {_short(lines.texts[i])}; expected a line of a TREC run: "
            "query Q0 document rank score tag"
        )
    query_ids, doc_ids, scores = (pc.list_element(fields, i) for i in (0, 2, 4))
    return _Keyed(query_ids, doc_ids, _numbers(scores, lines.path, lines.place, "a number as score"))


def _numbers(texts: Any, path: PathLike, place: Any, expected: str) -> FloatArray:
    """Texts as numbers; `place` names the place of an entry."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.ascii_trim_whitespace(texts)
    try:
        found: FloatArray = trimmed.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        number = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:nan|inf|infinity))$"
        i = int(np.argmin(pc.match_substring_regex(trimmed, number).to_numpy(zero_copy_only=False)))
        raise DataError(f"{path}: {place(i)} has {_short(texts[i])}; expected {expected}") from None
    return found


def _document(data: RankingData, row: int) -> str:
    return f"query {_short(data.query_ids[query_of(row, data.offsets)])}, document {_short(data.doc_ids[row])}"


def _short(value: Any) -> str:
    words = printable(str(value))
    return repr(words if len(words) <= 40 else words[:37] + "...") if not words.isdigit() else words


def ranked_rows(scores: Any, data: RankingData, depth: int | None = None) -> Any:
    """An Arrow table with `query_id`, `doc_id`, `rank` and `score`, by query and rank; equal scores in document order.

    >>> data = RankingData([[1.0], [2.0]], [0, 2], doc_ids=["a", "b"])
    >>> ranked_rows([0.5, 0.7], data).to_pydict()
    {'query_id': [0, 0], 'doc_id': ['b', 'a'], 'rank': [1, 2], 'score': [0.7, 0.5]}
    """
    import pyarrow as pa

    checked = document_scores(scores, data)
    cutoff = check_cutoff(depth, "depth")
    queries = np.repeat(np.arange(data.n_queries), data.lengths)
    order = np.lexsort((-checked, queries))  # stable, so document order settles ties
    ranks = np.arange(data.n_docs) - np.repeat(data.offsets[:-1], data.lengths) + 1
    if cutoff is not None:
        order, queries, ranks = order[ranks <= cutoff], queries[ranks <= cutoff], ranks[ranks <= cutoff]
    return pa.table(
        {
            "query_id": data.query_ids[queries],
            "doc_id": data.doc_ids[order],
            "rank": ranks,
            "score": checked[order],
        }
    )


def write_run(rows: Any, path: PathLike, tag: str = "counterrank") -> None:
    """Write ranked rows in the format of the file extension, compressed if it is .gz.

    Parquet (.parquet, .pq), CSV (.csv, .tsv), else a TREC run (query Q0 document rank score tag). `read_scores` reads
    the same scores back from each.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "run.trec"
    >>> data = RankingData([[1.0], [2.0]], [0, 2], doc_ids=["a", "b"])
    >>> write_run(ranked_rows([0.5, 0.7], data), file)
    >>> file.read_text()
    '0 Q0 b 1 0.7 counterrank\\n0 Q0 a 2 0.5 counterrank\\n'
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if not tag or len(tag.split()) != 1 or tag != tag.strip():
        raise CounterrankError(f"tag={brief(tag)}: expected one word without spaces")
    kind = file_format(path)
    if kind == NUMPY:
        raise CounterrankError(f"{path}: .npy holds no ids; expected .parquet, .csv, or another name for a TREC run")
    lines = _trec_lines(rows, tag) if kind == TEXT else None
    with atomic_file(path) as temporary:
        if kind == PARQUET:
            pa.parquet.write_table(rows, temporary)
            return
        packed = "gzip" if str(path).lower().endswith(".gz") else None
        with pa.output_stream(str(temporary), compression=packed) as stream:
            if lines is not None:
                stream.write(lines)
            else:
                # quoting "needed" is every text, so that blanks and line ends in ids are kept
                options = pa.csv.WriteOptions(delimiter="," if kind == COMMA else "\t", quoting_style="needed")
                pa.csv.write_csv(rows, stream, options)


def _trec_lines(rows: Any, tag: str) -> bytes:
    """The lines of a TREC run."""
    import pyarrow as pa
    import pyarrow.compute as pc

    n = rows.num_rows
    columns = [rows["query_id"], pa.repeat("Q0", n), rows["doc_id"], rows["rank"], rows["score"], pa.repeat(tag, n)]
    words = [_word(column) for column in columns]
    lines = pc.binary_join_element_wise(*words, pa.scalar(" ", pa.large_string()))
    whole = pa.ListArray.from_arrays(np.array([0, n], np.int32), lines.combine_chunks())
    text: bytes = pc.binary_join(whole, pa.scalar("\n", pa.large_string()))[0].as_buffer().to_pybytes()
    return text + b"\n"


def _word(column: Any) -> Any:
    """A column as texts; empty strings and white space would break a TREC run's columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = column.cast(pa.large_string())
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return texts
    spaced = pc.match_substring_regex(texts, r"^$|[\s\v]")
    if pc.any(spaced).as_py():
        example = pc.filter(texts, spaced)[0].as_py()
        raise CounterrankError(
            f"id {example!r}: nothing or white space breaks a TREC run; write .parquet or .csv instead"
        )
    return texts

"""Ranking data from flat files, Parquet and CSV with one column for each feature; of one file, or many as one."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common.errors import CounterrankError, DataError, did_you_mean, listed
from counterrank.common.files import PathLike
from counterrank.data.feature_columns import MISSING_TEXTS, ROLES, SHOWN, Columns, is_number, is_text
from counterrank.data.frames import BLOCK_ROWS, ArrowColumns, one_array, read_columns, shortened
from counterrank.data.parquet import parquet_errors, parquet_fields
from counterrank.data.ranking_data import RankingData
from counterrank.data.scores import COMMA, PARQUET, TAB, file_bytes, file_format

ENDINGS = (".parquet", ".pq", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
_DELIMITERS = ",;\t|"
_WHOLE = r"^(0|-?[1-9]\d{0,17})$"  # as they are usually written, so that the number says all that the text does
_NULLS = sorted({text for word in MISSING_TEXTS for text in (word, word.lower(), word.upper(), word.title())})
_BUFFER = 1 << 16  # bytes read at a time of each column; else all of a row group are in memory


def is_flat(path: PathLike) -> bool:
    """Whether a file is Parquet or CSV, by its name.

    >>> is_flat("data.csv.gz"), is_flat("train.txt")
    (True, False)
    """
    return file_format(path) in (PARQUET, COMMA, TAB)


def files_in(folder: PathLike) -> list[Path]:
    """All Parquet and CSV files in a folder and the folders in it, in the order of their names.

    Names that begin with a dot or an underscore are passed over.
    """
    found = []
    for path in sorted(Path(folder).rglob("*")):
        inside = path.relative_to(folder).parts
        if is_flat(path) and not any(part[0] in "._" for part in inside) and path.is_file():
            found.append(path)
    return found


def read_flat(
    path: PathLike,
    columns: Mapping[str, str] | None = None,
    features: Sequence[str] | None = None,
    exactly: bool = False,
) -> RankingData:
    """Ranking data from a Parquet or CSV file, or from all such files in a folder as one.

    Arguments:
        path: a file, or a folder of partitions. The keys of folders such as `day=2024-05-01` are not read.
        columns: other names for the columns `query_id`, `doc_id` and `label`, by these.
        features: the columns to use, in this order; all columns of numbers and booleans that are left if None.
        exactly: whether further columns of numbers are an error, as between the parts of a fold.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "data.csv"
    >>> _ = file.write_text("q,doc_id,price,title\\nred shoes,7,9.5,a\\nred shoes,8,,b\\n")
    >>> data = read_flat(file, columns={"query_id": "q"})
    >>> data.query_ids.tolist(), data.feature_names, data.features.ravel().tolist()
    (['red shoes'], ('price',), [9.5, nan])
    """
    renamed = check_columns(columns or {})
    if Path(path).is_dir():
        files = files_in(path)
        if not files:
            raise DataError(f"{path}: no Parquet or CSV files in it")
    else:
        files = [Path(path)]
    if lists := [file for file in files if has_lists(file)]:
        return _read_lists(path, files, lists, renamed, features)
    opened = [_opened(file, renamed) for file in files]
    source: Columns = opened[0] if len(opened) == 1 else JoinedColumns(str(path), opened)
    if source.n_rows == 0:
        raise DataError(f"{path}: no rows; expected at least one document")
    roles = _roles(source, renamed)
    if features is not None and exactly:
        _check_no_others(source, roles, features)
    return read_columns(source, roles, features, str(path))


def check_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """Names of columns by role, as `open_data` takes them."""
    for role, name in columns.items():
        if role not in ROLES.values():
            known = ", ".join(ROLES.values())
            raise CounterrankError(f"columns: no column {role!r} in ranking data; expected {known}")
        if not isinstance(name, str) or not name:
            raise CounterrankError(f"columns: {role!r} is {name!r}; expected the name of a column")
    return dict(columns)


def column_names(path: PathLike) -> list[str] | None:
    """The columns of a file, or of the first file in a folder; None where there are none, or they cannot be read."""
    found = Path(path)
    files = files_in(found) if found.is_dir() else [found] if found.is_file() and is_flat(found) else []
    if not files:
        return None
    try:
        if file_format(files[0]) == PARQUET:
            return list(_schema(files[0]).names)
        return CsvColumns(files[0], ()).header
    except CounterrankError:
        return None


def _opened(file: Path, renamed: Mapping[str, str]) -> Columns:
    if file_format(file) == PARQUET:
        return ParquetColumns(file)
    return CsvColumns(file, [renamed.get(role, role) for role in ("query_id", "doc_id")])


def _roles(source: Columns, renamed: Mapping[str, str]) -> dict[str, str]:
    """The column of each role; that of labels may be missing where it has its usual name."""
    roles = {role: renamed.get(usual, usual) for role, usual in ROLES.items()}
    if roles["label"] not in source.names and "label" not in renamed:
        del roles["label"]
    for role, name in roles.items():
        if name not in source.names:
            raise DataError(
                f"{source.name}: no column {name!r}; it has {listed(source.names, SHOWN)}; "
                f"columns={{{ROLES[role]!r}: NAME}} gives another name{did_you_mean(name, source.names)}"
            )
    return roles


def _check_no_others(source: Columns, roles: Mapping[str, str], features: Sequence[str]) -> None:
    known = {*roles.values(), *features}
    others = [name for name in source.names if name not in known and is_number(source.kind(name))]
    missing = [name for name in features if name not in source.names]
    if others or missing:
        parts = [f"no column {listed(missing, SHOWN)}"] if missing else []
        parts += [f"columns of numbers {listed(others, SHOWN)}"] if others else []
        raise DataError(f"{source.name}: {' and '.join(parts)}; expected the features of the training part")


def has_lists(file: Path) -> bool:
    """Whether a file has all features in one column, as `RankingData.save` writes them."""
    if file_format(file) != PARQUET:
        return False
    schema = _schema(file)
    place = schema.get_field_index("features")
    return place >= 0 and bool(schema.field(place).type.num_fields)


def _read_lists(
    path: PathLike, files: list[Path], lists: list[Path], renamed: Mapping[str, str], features: Sequence[str] | None
) -> RankingData:
    if len(files) > 1:
        raise DataError(
            f"{lists[0]}: a column 'features' of lists, in a folder of several files; expected one file, or a column "
            "for each feature"
        )
    if renamed:
        raise DataError(
            f"columns: {path} has a column 'features' of lists; expected it to have query_id, doc_id and label under "
            "these names"
        )
    data = RankingData._trusted(*parquet_fields(files[0]))
    if features is not None and tuple(features) != data.feature_names:
        raise DataError(f"features: {path} has a column 'features' of lists; expected files with a column a feature")
    return data


def _schema(file: Path) -> Any:
    import pyarrow.parquet as pq

    with parquet_errors(file):
        return pq.read_schema(file)


class ParquetColumns(Columns):
    """The columns of a Parquet file, read when they are needed, some rows at a time."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.path, self.name = path, str(path)
        with parquet_errors(path), pq.ParquetFile(path) as file:
            self.schema = file.schema_arrow
            self._n_rows: int = file.metadata.num_rows

    @property
    def names(self) -> list[str]:
        """See `Columns`."""
        return list(self.schema.names)

    @property
    def n_rows(self) -> int:
        """See `Columns`."""
        return self._n_rows

    def kind(self, name: str) -> Any:
        """See `Columns`."""
        return self.schema.field(self.names.index(name)).type

    def column(self, name: str) -> Any:
        """See `Columns`."""
        import pyarrow as pa

        parts = [arrays[0] for _, arrays in self.blocks([name])]
        return pa.chunked_array(parts, parts[0].type if parts else self.kind(name))

    def blocks(self, names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
        """See `Columns`."""
        import pyarrow.parquet as pq

        start = 0
        with parquet_errors(self.path), pq.ParquetFile(self.path, pre_buffer=False, buffer_size=_BUFFER) as file:
            for batch in file.iter_batches(batch_size=BLOCK_ROWS, columns=list(names)):
                yield start, [batch.column(batch.schema.get_field_index(name)) for name in names]
                start += batch.num_rows


class CsvColumns(Columns):
    """The columns of a CSV file with a header; ids are read as texts, so that none of them changes on the way."""

    typed = False

    def __init__(self, path: Path, ids: Sequence[str]) -> None:
        self.path, self.name, self.ids = path, str(path), tuple(ids)
        self._content = file_bytes(path)
        first = self._content[: 1 << 20].tobytes().decode("utf-8", "replace").splitlines(keepends=True)
        self.delimiter = "\t" if file_format(path) == TAB else _delimiter(first[0] if first else "")
        self.header: list[str] = next(csv.reader(first, delimiter=self.delimiter), [])
        if not self.header:
            raise DataError(f"{path}: empty; expected a line with the names of the columns")

    @cached_property
    def _table(self) -> ArrowColumns:
        import pyarrow as pa
        import pyarrow.csv as pa_csv

        try:
            table = pa_csv.read_csv(
                pa.py_buffer(self._content),
                parse_options=pa_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(self.ids, pa.string()), null_values=_NULLS
                ),
            )
        except pa.ArrowException as error:
            self._check_widths()
            raise DataError(f"{self.path}: not a CSV file that can be read ({shortened(error)})") from None
        return ArrowColumns(table, self.name)

    def _check_widths(self) -> None:
        """An error that names the first row with another number of cells than the header."""
        for line, cells in self._rows():
            if len(cells) != len(self.header):
                raise DataError(
                    f"{self.path}: line {line} has {len(cells)} cells; expected {len(self.header)}, as in the header"
                )

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """All rows below the header, each with the line it begins in; empty lines are none."""
        text = io.StringIO(self._content.tobytes().decode("utf-8", "replace"), newline="")
        reader = csv.reader(text, delimiter=self.delimiter)
        before, is_header = 0, True
        for cells in reader:
            if cells and not is_header:
                yield before + 1, cells
            is_header = is_header and not cells
            before = reader.line_num

    @property
    def names(self) -> list[str]:
        """See `Columns`."""
        return self._table.names

    @property
    def n_rows(self) -> int:
        """See `Columns`."""
        return self._table.n_rows

    def kind(self, name: str) -> Any:
        """See `Columns`."""
        return self._table.kind(name)

    def column(self, name: str) -> Any:
        """See `Columns`; ids that are all whole numbers as such."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self._table.column(name)
        if name not in self.ids:
            return column
        if pc.all(pc.match_substring_regex(column, _WHOLE)).as_py():
            return column.cast(pa.int64())
        # an empty cell is no id
        return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)

    def blocks(self, names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
        """See `Columns`."""
        return self._table.blocks(names)

    def place(self, row: int) -> str:
        """The line in which a row begins: cells may hold line ends, and empty lines are no rows."""
        line, _ = next(islice(self._rows(), row, None))
        return f"line {line}"


def _delimiter(header: str) -> str:
    """What separates the names in a header."""
    return max(_DELIMITERS, key=lambda each: len(next(csv.reader([header], delimiter=each), [])))


class JoinedColumns(Columns):
    """The columns of several files, one below the other; each column that is used must be in all of them."""

    def __init__(self, name: str, parts: Sequence[Columns]) -> None:
        self.name, self.parts = name, list(parts)
        self.typed = all(part.typed for part in parts)
        self._names = list(dict.fromkeys(each for part in parts for each in part.names))
        for part in parts:
            again = next((each for each in part.names if part.names.count(each) > 1), None)
            if again is not None:
                raise DataError(f"{part.name}: {part.names.count(again)} columns {again!r}; expected one")
        self.starts = np.cumsum([0, *(part.n_rows for part in parts)])

    @property
    def names(self) -> list[str]:
        """See `Columns`."""
        return self._names

    @property
    def n_rows(self) -> int:
        """See `Columns`."""
        return int(self.starts[-1])

    def kind(self, name: str) -> Any:
        """See `Columns`: numbers where it is numbers in some files and empty in all others."""
        kinds = self._kinds(name)
        filled = [kind for kind in kinds.values() if str(kind) != "null"]
        if not filled:
            return next(iter(kinds.values()))
        if len(kinds) < len(self.parts) and any(map(is_number, filled)):
            lacks = next(part.name for part in self.parts if part.name not in kinds)
            raise DataError(f"{lacks}: no column {name!r}; expected the same columns in all files")
        other = next((part for part, kind in kinds.items() if not (is_number(kind) or str(kind) == "null")), None)
        number = next((part for part, kind in kinds.items() if is_number(kind)), None)
        if other is not None and number is not None and self.typed:
            raise DataError(
                f"{other}: column {name!r} is {kinds[other]}; expected {kinds[number]}, as in {number} (features= "
                "chooses columns)"
            )
        return filled[0] if other is None else kinds[other]

    def _kinds(self, name: str) -> dict[str, Any]:
        return {part.name: part.kind(name) for part in self.parts if name in part.names}

    def column(self, name: str) -> Any:
        """See `Columns`: as whole numbers, numbers or texts, whichever can hold all."""
        import pyarrow as pa

        found = []
        for part in self.parts:
            if name not in part.names:
                raise DataError(f"{part.name}: no column {name!r}; expected the same columns in all files")
            column = part.column(name)
            found.append(column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column)
        kinds = [column.type for column in found if len(column)]
        if any(map(is_text, kinds)) and all(is_text(kind) or pa.types.is_integer(kind) for kind in kinds):
            common = pa.large_string()
        elif all(map(pa.types.is_integer, kinds)):
            common = pa.int64()
        elif all(map(is_number, kinds)):
            common = pa.float64()
        elif len(set(kinds)) == 1:
            common = kinds[0]
        else:
            raise DataError(f"{self.name}: column {name!r} is {listed(list(map(str, kinds)))}; expected one type")
        return pa.chunked_array([chunk.cast(common) for column in found for chunk in column.chunks], common)

    def blocks(self, names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
        """See `Columns`."""
        for first, part in zip(self.starts.tolist(), self.parts, strict=False):
            missing = [name for name in names if name not in part.names]
            if missing:
                raise DataError(
                    f"{part.name}: no column {listed(missing, SHOWN)}; expected the same columns in all files"
                )
            for start, arrays in part.blocks(names):
                yield first + start, [one_array(array) for array in arrays]

    def place(self, row: int) -> str:
        """See `Columns`."""
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        part = self.parts[number]
        return f"{part.name}, {part.place(row - int(self.starts[number]))}"

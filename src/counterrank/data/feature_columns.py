"""Which columns of a table become features, why others are left out, and numbers that are held as texts."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.errors import (
    CounterrankError,
    DataError,
    brief,
    did_you_mean,
    listed,
    plain_name,
    printable,
    warn_caller,
)
from counterrank.data.features import check_feature_names

ROLES = {"query": "query_id", "document": "doc_id", "label": "label"}  # the column of each role, unless named otherwise
# texts that stand for a missing value among numbers, in capitals or not
MISSING_TEXTS = ("", "NA", "N/A", "#N/A", "#NA", "<NA>", "NaN", "-NaN", "null", "None")
# what a column with labels may be called; blanks and signs in names count as _
_JUDGMENTS = ("judgment", "judgments", "judgement", "judgements", "qrel", "rel")
LABEL_NAMES = frozenset(
    ("label", "labels", "grade", "grades", "relevance", "relevance_label", "relevance_grade", "target", *_JUDGMENTS)
)
_GRADE_NAMES = frozenset({"rating", "ratings"})  # labels where they are whole numbers; averages of stars are none
_MOST_GRADE = 10
# what is known only after a page was shown, or differs between the pages that are to be learned from
OUTCOME_NAMES = frozenset(
    ("click", "clicks", "clicked", "n_clicks", "num_clicks", "click_count", "ctr", "click_rate", "position", "rank")
)
SHOWN = 20  # columns named by a message
_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity))$"
_LIKE_NUMBER = r"^[$€£]?\s*[+-]?[.,]?\d[\d.,' ]*([eE][+-]?\d+)?\s*[%$€£]?$"  # also 9,50 and $9.50
_MOSTLY, _SOME = 0.5, 0.1  # shares of numbers from which a column of texts is said to hold them
_LOOKED_AT = 1 << 14  # rows of a column that a frame or Parquet declares as text
_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+|")  # how files name the index of a pandas frame


class SourceColumns(dict[str, str]):
    """By role ("query", "document", "label") the column that data was made from, and what became of the others.

    Attributes:
        features: the columns that are features, in their order.
        left_out: by name of each other column, why it is no feature.

    >>> SourceColumns({"query": "search"}, features=["price"], left_out={"title": "text"}).left_out
    {'title': 'text'}
    """

    def __init__(
        self, roles: Mapping[str, str], features: Sequence[str] = (), left_out: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(roles)
        self.features, self.left_out = tuple(features), dict(left_out or {})


class Columns(ABC):
    """Named columns of one length, and how messages name them and their rows."""

    name: str
    typed = True  # whether columns have types of their own; those of CSV are inferred
    in_index: Sequence[str] = ()  # names in the index of a pandas frame, which are no columns

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The names of all columns."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of rows."""

    @abstractmethod
    def kind(self, name: str) -> Any:
        """The Arrow type of a column."""

    @abstractmethod
    def column(self, name: str) -> Any:
        """A column as a chunked array."""

    @abstractmethod
    def blocks(self, names: Sequence[str]) -> Iterator[tuple[int, list[Any]]]:
        """Some rows at a time: the number of the first, and the values of each of the columns as one array."""

    def place(self, row: int) -> str:
        """Where a row is."""
        return f"row {row}"

    def mapping(self, role: str, name: str) -> str:
        """The argument that gives a column a role."""
        return f"columns={{{ROLES[role]!r}: {name!r}}}"


def is_number(kind: Any) -> bool:
    """Whether an Arrow type can hold a feature."""
    import pyarrow.types as kinds

    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind))


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of texts."""
    return str(kind) in ("string", "large_string", "string_view")


def choose_features(
    columns: Columns, roles: Mapping[str, str], features: Sequence[str] | None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The columns that are features, and by name of the others that have no role, why they are left out.

    Features are those given, else all columns of numbers and booleans without a role.
    """
    if features is not None:
        names = _given(columns, roles, features)
        known = {*roles.values(), *names}
        return names, {name: "not in features" for name in columns.names if name not in known}
    chosen, left_out = [], dict.fromkeys(columns.in_index, "index of the frame")
    for name in columns.names:
        if name not in roles.values():
            reason = _reason(columns, name)
            if reason is None:
                chosen.append(name)
            else:
                left_out[name] = reason
    for name in chosen:
        check_once(columns, name)
    if not chosen:
        others = with_reasons(left_out)
        raise DataError(
            f"{columns.name}: no column of numbers to use as a feature; "
            + (f"left out: {others}" if others else f"it has {listed(columns.names, SHOWN)}")
        )
    _warn_of_leaks(columns, roles, chosen)
    return tuple(chosen), left_out


def with_reasons(left_out: Mapping[str, str]) -> str:
    """Columns that are left out, each with the reason; columns of one reason together.

    >>> with_reasons({"title": "text", "brand": "text", "day": "date or time"})
    "'title', 'brand' (text), 'day' (date or time)"
    """
    reasons = dict.fromkeys(left_out.values())
    return ", ".join(f"{listed(name for name in left_out if left_out[name] == why)} ({why})" for why in reasons)


def _given(columns: Columns, roles: Mapping[str, str], features: Sequence[str]) -> tuple[str, ...]:
    """The features as they were given, which must be columns of numbers, or of texts, which are parsed later."""
    if isinstance(features, str) or not isinstance(features, Sequence | np.ndarray) or not len(features):
        raise CounterrankError(f"features={brief(features)}: expected a list of names of columns")
    names = check_feature_names([str(name) for name in features], len(features), "features")
    for name in names:
        if name in roles.values():
            role = next(role for role in roles if roles[role] == name)
            raise DataError(f"features: {name!r} is the column of {role}; expected columns without a role")
    missing = [name for name in names if name not in columns.names]
    if missing:
        hint = did_you_mean(missing[0], (name for name in columns.names if name not in names))
        raise DataError(
            f"features: no column {listed(missing)}; {columns.name} has {listed(columns.names, SHOWN)}{hint}"
        )
    for name in names:
        check_once(columns, name)
        kind = columns.kind(name)
        if not (is_number(kind) or is_text(kind) or str(kind) == "null"):
            raise DataError(f"{columns.name}: feature {name!r} is {kind}; expected numbers: {_remedy(kind)}")
    return names


def check_once(columns: Columns, name: str) -> None:
    """An error where several columns have this name."""
    count = columns.names.count(name)
    if count > 1:
        raise DataError(f"{columns.name}: {count} columns {name!r}; expected one")


def _reason(columns: Columns, name: str) -> str | None:
    """Why a column without a role is no feature; None where it is one."""
    import pyarrow.types as kinds

    if _INDEX.fullmatch(name):
        warn_caller(
            f"{columns.name}: column {name!r} is left out, since it looks like the row numbers of a pandas frame; name "
            "the features to use it, or write files with index=False"
        )
        return "row numbers"
    kind = columns.kind(name)
    if is_number(kind):
        return None
    if is_text(kind):
        return _reason_of_texts(columns, name)
    if kinds.is_temporal(kind):
        return "date or time"
    if kinds.is_dictionary(kind):
        return "category"
    if kinds.is_null(kind):
        return "no values"
    return "list or struct" if kind.num_fields else str(kind)


def _reason_of_texts(columns: Columns, name: str) -> str | None:
    """The same of a column of texts: those of CSV may be numbers, and no column of numbers disappears unseen."""
    found = text_cells(columns, name, _LOOKED_AT if columns.typed else None)
    share = found.like_numbers / max(found.filled, 1)
    if not columns.typed:
        if found.filled == found.numbers:
            return None if found.numbers else "no values"
        if share >= _MOSTLY:
            raise DataError(
                f"{columns.name}: column {name!r} {found.fault(columns)}, but mostly numbers; expected numbers such as "
                "12.5, or an empty cell or NA for a missing value (features= chooses columns)"
            )
        if share >= _SOME:
            warn_caller(
                f"{columns.name}: column {name!r} is left out as text, though {found.like_numbers:,} of "
                f"{found.filled:,} cells are numbers; it {found.fault(columns)}"
            )
        return "text"
    if share < _MOSTLY:
        return "text"
    warn_caller(
        f"{columns.name}: column {name!r} holds numbers as text and is left out; cast it to numbers, or name it in "
        "features= to have it parsed"
    )
    return "numbers as text"


def _warn_of_leaks(columns: Columns, roles: Mapping[str, str], chosen: Sequence[str]) -> None:
    """Warn of features that are named as what should be learned, or what it is learned from."""
    plain = {name: plain_name(name) for name in chosen}
    if "label" not in roles and ROLES["label"] in chosen:
        raise DataError(
            f"{columns.name}: column 'label' would become a feature; expected {columns.mapping('label', 'label')}, or "
            "features by name"
        )
    labels = [name for name in chosen if plain[name] in LABEL_NAMES or _is_grade(columns, name, plain[name])]
    if labels:
        given = "" if "label" in roles else f"{columns.mapping('label', labels[0])} makes it the label; "
        warn_caller(
            f"{columns.name}: {_are(labels)}, though named as a label is, which a ranker must not see; "
            f"{given}features= chooses features"
        )
    outcomes = [name for name in chosen if plain[name] in OUTCOME_NAMES]
    if outcomes:
        warn_caller(
            f"{columns.name}: {_are(outcomes)}; where that is known only from the pages to learn from, it gives away "
            "their clicks; features= chooses features"
        )


def _are(names: Sequence[str]) -> str:
    return (
        f"column{'s' if len(names) > 1 else ''} {listed(names)} {'are features' if len(names) > 1 else 'is a feature'}"
    )


def _is_grade(columns: Columns, name: str, plain: str) -> bool:
    """Whether a column that may hold labels has few whole numbers, as labels have."""
    if plain not in _GRADE_NAMES:
        return False
    for start, (array,) in columns.blocks([name]):
        values = numbers(columns, name, start, array)
        values = values[~np.isnan(values)]
        if ((values != np.floor(values)) | (values < 0) | (values > _MOST_GRADE)).any():
            return False
    return True


def _remedy(kind: Any) -> str:
    """What to do about a column that is no number."""
    import pyarrow.types as kinds

    if kinds.is_temporal(kind):
        return "make it one, such as the age in days, or leave it out"
    if kind.num_fields:
        return "give each of its values a column of its own, or leave it out"
    return "encode it as numbers, such as a column of 0 and 1 for each value, or leave it out"


@dataclass(frozen=True)
class TextCells:
    """Cells of a column of texts, some of which are numbers.

    Attributes:
        filled: how many are no missing values.
        numbers, like_numbers: how many of them are numbers, and how many look like them (`9,50`, `$20`) or are.
        row, text: the first that is neither number nor missing, if any.
    """

    filled: int
    numbers: int
    like_numbers: int
    row: int
    text: str

    def fault(self, columns: Columns) -> str:
        """The first cell that is no number, where it is, and how many others there are."""
        text = printable(self.text)
        more = self.filled - self.numbers - 1
        shown = text if len(text) <= 40 else text[:37] + "..."
        return f"is {shown!r} in {columns.place(self.row)}{f' and {more:,} more are no numbers' if more else ''}"


def text_cells(columns: Columns, name: str, rows: int | None = None) -> TextCells:
    """What the cells of a column are, of the first `rows` rows at least, or of all."""
    filled = found = like = 0
    first, text = -1, ""
    for start, (array,) in columns.blocks([name]):
        if rows is not None and start >= rows:
            break
        if is_text(array.type):
            missing, number, alike = _cell_kinds(array)
        else:  # of another file
            missing = array.is_null().to_numpy(zero_copy_only=False)
            number = alike = ~missing & is_number(array.type)
        bad = ~missing & ~number
        if first < 0 and bad.any():
            first = start + int(np.argmax(bad))
            text = str(array[first - start].as_py())
        filled += int((~missing).sum())
        found += int(number.sum())
        like += int(alike.sum())
    return TextCells(filled, found, like, first, text)


def _cell_kinds(array: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Which texts are missing values, numbers, and numbers or like them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(array.cast(pa.large_string()))
    words = pa.array([word.lower() for word in MISSING_TEXTS], pa.large_string())
    missing = pc.or_(pc.is_in(pc.utf8_lower(trimmed), value_set=words), pc.is_null(array))
    number, like = (pc.match_substring_regex(trimmed, each).fill_null(False) for each in (_NUMBER, _LIKE_NUMBER))
    found = [each.to_numpy(zero_copy_only=False) for each in (missing, number, pc.or_(number, like))]
    return found[0], found[1], found[2]


def numbers(columns: Columns, name: str, start: int, array: Any, label: bool = False) -> NDArray[Any]:
    """Values of numbers, booleans or texts of numbers from row `start` on; NaN where they are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan, np.float32)
    if is_text(array.type):
        missing, number, _ = _cell_kinds(array)
        if not (missing | number).all():
            fault = text_cells(columns, name).fault(columns)
            if label:
                raise DataError(f"{columns.name}: column {name!r} {fault}; expected numbers as labels")
            raise DataError(f"{columns.name}: feature {name!r} {fault}; expected numbers: {_remedy(array.type)}")
        plain = pc.utf8_ltrim(pc.utf8_trim_whitespace(array.cast(pa.large_string())), "+")
        array = pc.if_else(pa.array(missing), pa.scalar(None, pa.large_string()), plain).cast(pa.float64())
    elif pa.types.is_boolean(array.type) or pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values

"""Tables of rows as hospitals have them: CSV of any dialect, and parquet."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..base import printable, warn_user
from ..messages import counting, listed
from ..steps import code_as_text
from ._dialects import Dialect, Layout, read_layout
from ._files import composed, needed

if TYPE_CHECKING:
    from pandas import DataFrame, Series

CSV_KINDS = (".csv", ".tsv")
# Of the cells of a column, how many have to be numbers for the others to look wrong.
_MOSTLY = 0.5
# Numbers whose thousands are set apart: by a mark, an apostrophe, or a blank.
_GROUPED = re.compile(
    r"[+-]?[1-9]\d{0,2}([.,'\u2019 \u00a0\u202f])\d{3}(\1\d{3})*(?!\1)([.,]\d+)?"
)
_DATE = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}( .*)?"
)
# Truth values as pandas writes and reads them.
_TRUTHS = {
    word: is_true
    for is_true, name in ((True, "true"), (False, "false"))
    for word in (name, name.title(), name.upper())
}


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of a file: columns of numbers or of texts, and labels as written there."""

    path: str
    frame: "DataFrame"  # of the features
    unused: list[str]  # columns that were not looked at, but for those to drop
    # Of columns of texts that are nearly all numbers: what is not, by name.
    odd_cells: dict[str, str]
    as_written: dict[str, list[str]]  # cells of labels and marks
    lines: Sequence[int] | None  # number of the line of each row, where there are lines
    decimal: str
    missing: frozenset[str]  # labels that are none
    # Reads columns again, by their names, as texts as they stand in the file.
    texts_of: Callable[[Sequence[str]], "DataFrame"]

    def first_text(self, name: str) -> str:
        """Return the first cell of a column that is no number, and its place."""
        column = self.frame[name]
        texts = column[[isinstance(cell, str) for cell in column]]
        others = texts[~_are_numbers(texts, self.decimal)]
        row, cell = next((others if len(others) else texts).items())
        return f"{cell!r} in {self.place(row)}"

    def with_texts(self, names: Sequence[str]) -> "Table":
        """Return the table with some columns as texts as they stand in the file."""
        odd_cells = {
            name: cell for name, cell in self.odd_cells.items() if name not in names
        }
        frame = self.frame.assign(**dict(self.texts_of(names).items()))
        return replace(self, frame=frame, odd_cells=odd_cells)

    def place(self, row: int) -> str:
        """Return where a row stands in the file, in words."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"


def read_table(
    path: str,
    dialect: Dialect,
    *,
    as_written: Sequence[str],
    as_text: Sequence[str] = (),
    drop: Sequence[str] = (),
    only: Collection[str] | None = None,
) -> Table:
    """Read a table; ValueError names the file, the column or line, and what to do.

    Columns ``as_written`` are labels and marks, as they stand there. Features
    ``as_text`` are texts, too, but for their gaps. Columns to ``drop``, and those not
    in ``only`` if it is given, are not looked at. What was guessed is printed.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    choice = _Choice(
        as_written=[name.strip() for name in as_written],
        as_text=[name.strip() for name in as_text],
        drop=[name.strip() for name in drop],
        only=only,
    )
    kind = Path(path).suffix.lower()
    if kind in CSV_KINDS:
        return _read_csv(path, dialect, choice)
    if kind == ".parquet":
        return _read_parquet(path, choice)
    raise ValueError(
        f"{path}: rows are read from files .csv, .tsv or .parquet. Save a sheet of "
        "Excel as CSV."
    )


@dataclass(frozen=True, kw_only=True)
class _Choice:
    """Columns that are read in some other way than as features, by name."""

    as_written: Sequence[str]
    as_text: Sequence[str]
    drop: Sequence[str]
    only: Collection[str] | None

    def has_feature(self, name: str) -> bool:
        """Report whether a column is a feature that is looked at."""
        is_wanted = self.only is None or name in self.only
        return is_wanted and name not in self.drop and name not in self.as_written

    def unused(self, names: Sequence[str]) -> list[str]:
        """Return columns that are not looked at, but for those to drop."""
        expected = {*self.as_written, *self.drop, ""}
        return [n for n in names if n not in expected and not self.has_feature(n)]

    def check(self, path: str, names: Sequence[str]) -> None:
        """Raise ValueError unless there are the columns that were named."""
        for column in (*self.as_written, *self.as_text, *self.drop):
            if column in names:
                continue
            text = (
                f"{path}: there is no column {column!r}; columns are "
                f"{listed(map(repr, names))}."
            )
            similar = [name for name in names if name.casefold() == column.casefold()]
            if similar:
                text += f" Did you mean {similar[0]!r}?"
            raise ValueError(text)


# ---- parquet ---------------------------------------------------------------------


def _read_parquet(path: str, choice: _Choice) -> Table:
    pandas = needed("pandas")
    try:
        frame = pandas.read_parquet(path)
    except ImportError:
        raise ImportError(
            f"{path}: .parquet needs the package pyarrow. Run pip install pyarrow, or "
            "give a .csv file."
        ) from None
    if not len(frame):
        raise ValueError(f"{path}: there are no rows.")
    frame = frame.rename(columns=lambda name: composed(str(name)))
    for name in frame.columns[[is_text(column) for _, column in frame.items()]]:
        frame[name] = frame[name].map(composed, na_action="ignore")
    names = list(frame.columns)
    choice.check(path, names)
    rows = frame[list(filter(choice.has_feature, names))].reset_index(drop=True)
    table = Table(
        path=path,
        frame=rows,
        unused=choice.unused(names),
        odd_cells={},
        as_written={column: _written(frame[column]) for column in choice.as_written},
        lines=None,
        decimal=".",
        missing=frozenset([""]),
        texts_of=lambda names: rows[names].map(code_as_text, na_action="ignore"),
    )
    return table.with_texts([name for name in choice.as_text if name in rows])


def _written(column: "Series") -> list[str]:
    pairs = zip(column, column.isna(), strict=True)
    return ["" if is_missing else str(value).strip() for value, is_missing in pairs]


# ---- CSV -------------------------------------------------------------------------


def _read_csv(path: str, dialect: Dialect, choice: _Choice) -> Table:
    layout = read_layout(path, dialect)
    choice.check(path, layout.names)
    places = _places(path, layout, choice)
    features = {name: k for name, k in places.items() if choice.has_feature(name)}
    na = dialect.na or ()
    texts_of = partial(_texts_of, layout, features, na)
    texts = texts_of(list(features))
    to_type = texts[texts.columns.difference(choice.as_text, sort=False)]
    decimal = dialect.decimal or "."
    typed = _typed(to_type, decimal, na)
    if dialect.decimal is None and (comma := _decimal_comma(typed)):
        layout.notes.append(f"the decimal mark is a comma, as in {comma}")
        decimal = ","
        typed = _typed(to_type, decimal, na)
    table = Table(
        path=path,
        frame=texts.assign(**typed),
        unused=choice.unused(layout.names),
        odd_cells={},
        as_written={name: layout.cells(places[name]) for name in choice.as_written},
        lines=layout.lines,
        decimal=decimal,
        missing=frozenset(["", *na]),
        texts_of=texts_of,
    )
    table = replace(table, odd_cells=_odd_cells(table, to_type))
    _print_notes(path, layout, choice)
    return table


def _print_notes(path: str, layout: Layout, choice: _Choice) -> None:
    notes = list(layout.notes)
    if not layout.names[0] and choice.has_feature(""):
        notes.append("the first column, which has no name, is left out")
    for note in notes:
        print(printable(f"{path}: {note}."))


def _places(path: str, layout: Layout, choice: _Choice) -> dict[str, int]:
    """Return the places of the columns that are looked at, by name.

    ValueError for two columns of one name, and for one without a name that is neither
    empty nor the number of the row.
    """
    places: dict[str, int] = {}
    for place, name in enumerate(layout.names):
        if not (name in choice.as_written or choice.has_feature(name)):
            continue
        if not name and _is_ignored(place, layout.cells(place)):
            continue
        if not name:
            raise ValueError(
                f"{path}: column {place + 1} has no name in line {layout.header_line}. "
                "Give it a name; if it is not a feature, leave it out with --drop."
            )
        if name in places:
            raise ValueError(
                f"{path}: line {layout.header_line} has two columns of the name "
                f"{name!r}, the columns {places[name] + 1} and {place + 1}. Rename one "
                f"of them, or leave both out with --drop {name!r}."
            )
        places[name] = place
    return places


def _is_ignored(place: int, cells: list[str]) -> bool:
    """Report whether a column without a name is empty, or the first and counts rows."""
    if place == 0 and cells[0] in ("0", "1"):
        first = int(cells[0])
        return cells == list(map(str, range(first, first + len(cells))))
    return not any(cells)


def _texts_of(
    layout: Layout, places: dict[str, int], na: Sequence[str], names: Sequence[str]
) -> "DataFrame":
    """Return columns as texts as they stand in the file, with NaN for gaps."""
    frame = layout.texts([places[name] for name in names], na_values=list(na))
    return frame.set_axis(list(names), axis="columns")


def _typed(frame: "DataFrame", decimal: str, na: Sequence[str]) -> "dict[str, Series]":
    """Return columns as numbers or truth values if all cells are, or as they are."""
    typed = {}
    gaps = _numbers(needed("pandas").Series(na, dtype=str), ".")
    for name, texts in frame.items():
        numbers = _numbers(texts, decimal)
        if numbers.isna().equals(texts.isna()):
            typed[name] = numbers.mask(numbers.isin(gaps))  # -9.0, too, of --na -9
        elif texts.dropna().isin(_TRUTHS).all():
            typed[name] = texts.astype(object).map(_TRUTHS).infer_objects()
        else:
            typed[name] = texts
    return typed


def _numbers(cells: "Series", decimal: str) -> "Series":
    """Return the numbers in cells with this decimal mark; NaN for other texts."""
    if decimal == ",":
        cells = cells.str.translate(str.maketrans(",.", ".,"))
    return needed("pandas").to_numeric(cells, errors="coerce")


def _are_numbers(cells: "Series", decimal: str) -> "Series":
    return _numbers(cells, decimal).notna()


def _are_grouped(cells: "Series") -> "Series":
    return cells.str.fullmatch(_GROUPED).astype(bool)


def _decimal_comma(columns: "dict[str, Series]") -> str | None:
    """Return a cell and its column, in words, if its mark is surely a comma."""
    for name, column in columns.items():
        if not is_text(column):
            continue
        cells = column.dropna()
        numbers = cells[_are_numbers(cells, ",")]
        with_comma = numbers[numbers.str.contains(",", regex=False).astype(bool)]
        surely = with_comma[~_are_grouped(with_comma)]
        if len(surely) and len(numbers) >= _MOSTLY * len(cells):
            return f"{surely.iloc[0]!r} of column {name!r}"
    return None


def _odd_cells(table: Table, names: Iterable[str]) -> dict[str, str]:
    """Return which cells are no numbers in columns where most are, by column."""
    texts = [name for name in names if is_text(table.frame[name])]
    odd_cells = {name: _odd_cell(table, name) for name in texts}
    return {name: cell for name, cell in odd_cells.items() if cell is not None}


def _odd_cell(table: Table, name: str) -> str | None:
    """Return the first cell that is no number, if most of a column are, in words.

    ValueError if texts are numbers that are written in another way.
    """
    cells = table.frame[name].dropna()
    are_numbers = _are_numbers(cells, table.decimal)
    other_mark = "," if table.decimal == "." else "."
    are_foreign = _are_numbers(cells, other_mark) | _are_grouped(cells)
    wrong = cells[are_foreign & ~are_numbers]
    if len(wrong) and (are_numbers | are_foreign).mean() >= _MOSTLY:
        raise ValueError(
            f"{table.path}: column {name!r} has {wrong.iloc[0]!r} in "
            f"{table.place(wrong.index[0])}, where thousands are separated or the "
            f"decimal mark is not that of the table, {table.decimal!r}. Write all "
            "numbers in one way, without separators of thousands. Name the decimal "
            f"mark with --decimal, or leave the column out with --drop {name!r}."
        )
    if are_numbers.mean() < _MOSTLY:
        return None
    return (
        f"{table.first_text(name)} is not a number, but {int(are_numbers.sum())} of "
        f"{len(cells)} cells are"
    )


def is_text(column) -> bool:
    """Report whether a column of a frame holds texts."""
    if column.dtype.kind in "biuf":
        return False
    return any(isinstance(cell, str) for cell in column)


def warn_of_texts(tables: Sequence[Table]) -> None:
    """Warn of columns that will be encoded, though they may not be meant as texts.

    There is one warning for each column, however many tables have it.
    """
    odd_cells: dict[str, list[tuple[str, str]]] = {}  # paths and cells, by column
    for table in tables:
        for name, odd in table.odd_cells.items():
            odd_cells.setdefault(name, []).append((table.path, odd))
    for name, cells in odd_cells.items():
        path, odd = cells[0]
        warn_user(
            f"{path}: column {name!r} is read as texts, since {odd}. "
            f"{_others_in_words(len(cells) - 1)}If such a cell has no value, name its "
            f"text with --na. If the column holds codes, add --as-text {name!r}."
        )
    dates_by_path = {table.path: _dates_in(table) for table in tables}
    with_dates = [(path, dates) for path, dates in dates_by_path.items() if dates]
    if with_dates:
        path, dates = with_dates[0]
        warn_user(
            f"{path}: the columns {listed(map(repr, dates))} hold dates, which are "
            "read as texts: each day is a category of its own. "
            f"{_others_in_words(len(with_dates) - 1)}Write what matters in them as "
            "numbers (an age, a month), or leave them out with --drop."
        )


def _others_in_words(n_tables: int) -> str:
    if not n_tables:
        return ""
    return f"So it is in {counting(n_tables, 'more table', 'more tables')}. "


def _dates_in(table: Table) -> list[str]:
    """Return the names of columns of texts that hold dates."""
    names = []
    for name, column in table.frame.items():
        cells = [cell for cell in column.dropna().head(20) if isinstance(cell, str)]
        if cells and all(_DATE.fullmatch(cell) for cell in cells):
            names.append(name)
    return names

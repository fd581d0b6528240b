"""Tables of rows as hospitals have them: CSV of any dialect, and parquet."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..base import warn_user
from ..federation import printable
from ..messages import counting, listed
from ..steps import code_as_text
from ._dialects import Dialect, Layout, decoded, layout_of
from ._files import composed, needed

if TYPE_CHECKING:
    from pandas import DataFrame, Series

CSV_KINDS = (".csv", ".tsv")
# Of the cells of a column, how many have to be numbers for the others to look wrong.
_MOSTLY = 0.5
# Cells that pandas takes for missing values, which it has no public name for.
_MISSING = frozenset(
    "|#N/A|#N/A N/A|#NA|-1.#IND|-1.#QNAN|-NaN|-nan|1.#IND|1.#QNAN|<NA>|N/A|NA|NULL|NaN|"
    "None|n/a|nan|null".split("|")
)
_NUMBERS = {
    ".": re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"),
    ",": re.compile(r"[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?"),
}
# Numbers whose thousands are set apart: by a mark, an apostrophe, or a blank.
_GROUPED = re.compile(
    r"[+-]?[1-9]\d{0,2}([.,'\u2019 \u00a0\u202f])\d{3}(\1\d{3})*(?!\1)([.,]\d+)?"
)
_DATE = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}( .*)?"
)


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
        """The first cell of a column that is a text and no number, and its place."""
        texts = [
            (row, cell)
            for row, cell in enumerate(self.frame[name])
            if isinstance(cell, str)
        ]
        number = _NUMBERS[self.decimal]
        others = [(row, cell) for row, cell in texts if not number.fullmatch(cell)]
        row, cell = (others or texts)[0]
        return f"{cell!r} in {self.place(row)}"

    def with_texts(self, names: Sequence[str]) -> "Table":
        """The table in which some columns are texts as they stand in the file."""
        odd_cells = {
            name: cell for name, cell in self.odd_cells.items() if name not in names
        }
        frame = self.frame.assign(**dict(self.texts_of(names).items()))
        return replace(self, frame=frame, odd_cells=odd_cells)

    def place(self, row: int) -> str:
        """Where a row stands in the file, in words."""
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
    kind = Path(path).suffix.lower()
    if kind in CSV_KINDS:
        read = _read_csv(
            path,
            dialect,
            as_written=as_written,
            as_text=as_text,
            drop=drop,
            only=only,
        )
    elif kind == ".parquet":
        read = _read_parquet(
            path, as_written=as_written, as_text=as_text, drop=drop, only=only
        )
    else:
        raise ValueError(
            f"{path}: rows are read from files .csv, .tsv or .parquet. Save a sheet of "
            "Excel as CSV."
        )
    return read


def _is_used(name: str, drop: Collection[str], only: Collection[str] | None) -> bool:
    return name not in drop and (only is None or name in only)


# ---- parquet ---------------------------------------------------------------------


def _read_parquet(
    path: str,
    *,
    as_written: Sequence[str],
    as_text: Sequence[str],
    drop: Sequence[str],
    only: Collection[str] | None,
) -> Table:
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
    frame = _with_composed_texts(frame)
    check_columns(path, list(frame.columns), [*as_written, *as_text, *drop])
    texts = {column: _written(frame[column]) for column in as_written}
    features = [name for name in frame.columns if name not in as_written]
    used = [name for name in features if _is_used(name, drop, only)]
    rows = frame[used].reset_index(drop=True)
    table = Table(
        path=path,
        frame=rows,
        unused=[name for name in features if name not in {*used, *drop}],
        odd_cells={},
        as_written=texts,
        lines=None,
        decimal=".",
        missing=frozenset([""]),
        texts_of=lambda names: rows[names].map(code_as_text, na_action="ignore"),
    )
    return table.with_texts([name for name in as_text if name in used])


def _with_composed_texts(frame: "DataFrame") -> "DataFrame":
    """A frame whose names and texts are in one normal form of Unicode."""
    frame = frame.rename(columns=lambda name: composed(str(name)))
    for name in frame.columns[[is_text(column) for _, column in frame.items()]]:
        frame[name] = [
            composed(cell) if isinstance(cell, str) else cell for cell in frame[name]
        ]
    return frame


def _written(column) -> list[str]:
    pairs = zip(column, column.isna(), strict=True)
    return ["" if is_missing else str(value) for value, is_missing in pairs]


def check_columns(path: str, columns: Sequence[str], needed_columns) -> None:
    """ValueError unless there are the columns that were named."""
    for column in needed_columns:
        if column in columns:
            continue
        text = (
            f"{path}: there is no column {column!r}; columns are "
            f"{listed(map(repr, columns))}."
        )
        similar = [name for name in columns if name.casefold() == column.casefold()]
        if similar:
            text += f" Did you mean {similar[0]!r}?"
        raise ValueError(text)


# ---- CSV -------------------------------------------------------------------------


def _read_csv(
    path: str,
    dialect: Dialect,
    *,
    as_written: Sequence[str],
    as_text: Sequence[str],
    drop: Sequence[str],
    only: Collection[str] | None,
) -> Table:
    text, notes = decoded(path, Path(path).read_bytes(), dialect.encoding)
    layout = layout_of(path, composed(text), dialect.sep)
    names = [name.strip() for name in layout.header]
    as_written = [name.strip() for name in as_written]
    as_text = [name.strip() for name in as_text]
    drop = [name.strip() for name in drop]
    check_columns(path, names, [*as_written, *as_text, *drop])
    columns = {
        place: name
        for place, name in enumerate(names)
        if name in as_written or _is_used(name, drop, only)
    }
    _check_names(path, columns, layout)
    parsed = _Parsed(
        path=path,
        layout=layout,
        columns=columns,
        as_written=as_written,
        as_text=as_text,
        missing=_MISSING | set(dialect.na or ()),
    )
    frame, decimal = parsed.in_numbers(dialect.decimal)
    for note in [*notes, *layout.notes, *parsed.notes]:
        print(printable(f"{path}: {note}."))
    frame = frame.rename(columns=columns)
    return Table(
        path=path,
        frame=frame.drop(columns=as_written),
        unused=[name for name in names if name not in {*columns.values(), *drop, ""}],
        odd_cells=parsed.odd_cells,
        as_written={name: frame[name].tolist() for name in as_written},
        lines=layout.lines,
        decimal=decimal,
        missing=frozenset(["", *(dialect.na or ())]),
        texts_of=parsed.texts_of,
    )


def _check_names(path: str, columns: dict[int, str], layout: Layout) -> None:
    """ValueError for two columns of one name."""
    first: dict[str, int] = {}
    for place, name in columns.items():
        if name and name in first:
            raise ValueError(
                f"{path}: line {layout.header_line} has two columns of the name "
                f"{name!r}, the columns {first[name] + 1} and {place + 1}. Rename one "
                f"of them, or leave both out with --drop {name!r}."
            )
        first[name] = place


def _counts_rows(column) -> bool:
    if column.dtype.kind not in "iu":
        return False
    steps = np.diff(column.to_numpy())
    return column.iloc[0] in (0, 1) and bool((steps == 1).all())


@dataclass(frozen=True, kw_only=True)
class _Parsed:
    """A table of text whose layout is known, to be read by pandas.

    ``columns`` are names by place; columns of the frames are places.
    """

    path: str
    layout: Layout
    columns: dict[int, str]
    as_written: Collection[str]
    as_text: Collection[str]
    missing: frozenset[str]
    # Of columns of texts that are nearly all numbers: what is not, by name.
    odd_cells: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # what to say of the table

    def in_numbers(self, decimal: str | None) -> tuple:
        """The frame, and the decimal mark, which is looked for if it is None."""
        frame = self.frame(decimal or ".")
        if decimal is None:
            decimal = "."
            place, cell = self._decimal_comma(frame)
            if place is not None:
                decimal = ","
                self.notes.append(
                    f"the decimal mark is a comma, as in {cell!r} of column "
                    f"{self.columns[place]!r}"
                )
                frame = self.frame(decimal)
        padded = []
        for place, column in self._texts(frame):
            if any(a != b for a, b in zip(column, frame[place], strict=True) if a == a):
                padded.append(self.columns[place])
            frame[place] = self._tidied(place, column, decimal)
        if padded:
            columns = listed(map(repr, padded))
            self.notes.append(
                f"blanks around the cells of the columns {columns} are ignored"
            )
        return self._without_unnamed(frame), decimal

    def texts_of(self, names: Sequence[str]) -> "DataFrame":
        """Columns as texts, as they stand in the file, without blanks around them."""
        columns = {place: name for place, name in self.columns.items() if name in names}
        # What is to be said of the table was said when it was read.
        parsed = replace(
            self, columns=columns, as_written=(), as_text=names, odd_cells={}, notes=[]
        )
        frame, _ = parsed.in_numbers(".")
        return frame.rename(columns=columns)

    def _without_unnamed(self, frame: "DataFrame") -> "DataFrame":
        """The frame without columns that have neither name nor say anything."""
        for place in list(frame.columns):
            if self.columns[place]:
                continue
            if frame[place].isna().all():
                self.notes.append(
                    f"column {place + 1}, which has no name and is empty, is left out: "
                    "separators at the ends of lines make such a column"
                )
            elif place == 0 and _counts_rows(frame[place]):
                self.notes.append(
                    "the first column, which has no name and counts rows, is left out"
                )
            else:
                raise ValueError(
                    f"{self.path}: column {place + 1} has no name in line "
                    f"{self.layout.header_line}. Give it a name; if it is not a "
                    "feature, leave it out with --drop."
                )
            frame = frame.drop(columns=place)
        return frame

    def frame(self, decimal: str) -> "DataFrame":
        """What pandas reads, where columns that are not all numbers are texts."""
        pandas = needed("pandas")
        # Before pandas 3, where this argument is deprecated, the default is not exact.
        exact = {} if pandas.__version__ >= "3" else {"float_precision": "round_trip"}
        missing = sorted(self.missing)
        read_as_written = [
            place for place, name in self.columns.items() if name in self.as_written
        ]
        read_as_text = [
            place for place, name in self.columns.items() if name in self.as_text
        ]
        try:
            frame = pandas.read_csv(
                StringIO(self.layout.body, newline=""),
                sep=self.layout.sep,
                header=None,
                names=range(len(self.layout.header)),
                usecols=list(self.columns),
                skipinitialspace=self.layout.sep != " ",
                decimal=decimal,
                keep_default_na=False,
                na_values={
                    place: missing
                    for place in self.columns
                    if place not in read_as_written
                },
                dtype=dict.fromkeys([*read_as_written, *read_as_text], str),
                low_memory=False,
                **exact,
            )
        except (pandas.errors.ParserError, pandas.errors.EmptyDataError) as exc:
            raise ValueError(
                f"{self.path}: it cannot be read as a table: {exc}"
            ) from None
        if len(frame) != len(self.layout.lines):
            raise ValueError(
                f"{self.path}: it has {len(self.layout.lines)} lines of rows, but "
                f"{len(frame)} rows were read. Is a quotation mark not closed?"
            )
        return frame

    def _texts(self, frame: "DataFrame") -> Iterator[tuple[int, "Series"]]:
        """Columns of texts by place, without blanks around them, gaps NaN."""
        for place in frame.columns:
            column = frame[place]
            if column.dtype.kind in "biuf" or self.columns[place] in self.as_written:
                continue
            if all(isinstance(value, bool) for value in column.dropna()):
                continue
            cells = column.astype(object).where(column.notna(), np.nan).str.strip()
            yield place, cells.mask(cells.isin(self.missing))

    def _decimal_comma(self, frame) -> tuple:
        """Place and cell of a column whose decimals are surely commas, or None."""
        doubtful = None
        for place, column in self._texts(frame):
            cells = column.dropna()
            if self.columns[place] in self.as_text:
                continue
            if _matches(cells, _is_surely_grouped).any():
                continue
            numbers = cells[_matches(cells, _NUMBERS[","].fullmatch)]
            commas = numbers[numbers.str.contains(",", regex=False)]
            if not len(commas) or len(numbers) < _MOSTLY * len(cells):
                continue
            sure = commas[~_matches(commas, _GROUPED.fullmatch)]
            if len(sure):
                return place, sure.iloc[0]
            doubtful = doubtful or (place, commas)
        if doubtful is not None:
            place, commas = doubtful
            raise ValueError(
                f"{self.path}: column {self.columns[place]!r} has {commas.iloc[0]!r} "
                f"in line {self._line(commas)}. If the comma is a decimal mark, add "
                "--decimal ','. If it separates thousands, remove these commas."
            )
        return None, None

    def _line(self, cells) -> int:
        return self.layout.lines[cells.index[0]]

    def _tidied(self, place: int, column: "Series", decimal: str) -> "Series":
        """A column of texts, as numbers where all cells are; ValueError if in doubt."""
        cells = column.dropna()
        name = self.columns[place]
        if name in self.as_text:
            return column
        are_numbers = _matches(cells, _NUMBERS[decimal].fullmatch)
        if are_numbers.all():  # blanks kept pandas from reading them
            return column.str.replace(decimal, ".", regex=False).astype(float)
        other = "," if decimal == "." else "."
        grouped = _matches(cells, _GROUPED.fullmatch) & ~are_numbers
        foreign = _matches(cells, _NUMBERS[other].fullmatch) & ~are_numbers
        if grouped.any() and (are_numbers | grouped | foreign).mean() >= _MOSTLY:
            wrong = cells[grouped]
            raise ValueError(
                f"{self.path}: column {name!r} has {wrong.iloc[0]!r} in line "
                f"{self._line(wrong)}, where thousands are separated. Remove the "
                "separators of thousands from the table, or leave the column out with "
                f"--drop {name!r}."
            )
        if foreign.any() and (are_numbers | foreign).mean() >= _MOSTLY:
            wrong = cells[foreign]
            raise ValueError(
                f"{self.path}: column {name!r} has {wrong.iloc[0]!r} in line "
                f"{self._line(wrong)}, but the decimal mark of this table is "
                f"{decimal!r}. Write all numbers with the same mark, name the mark "
                f"with --decimal, or leave the column out with --drop {name!r}."
            )
        if are_numbers.mean() >= _MOSTLY:
            wrong = cells[~are_numbers]
            self.odd_cells[name] = (
                f"{wrong.iloc[0]!r} in line {self._line(wrong)} is not a number, but "
                f"{int(are_numbers.sum())} of {len(cells)} cells are"
            )
        return column


def _matches(cells, matcher: Callable) -> np.ndarray:
    return np.array([bool(matcher(cell)) for cell in cells], dtype=bool)


def _is_surely_grouped(cell: str) -> bool:
    """Whether thousands are set apart, and no mark can be that of decimals."""
    if not _GROUPED.fullmatch(cell):
        return False
    return not any(number.fullmatch(cell) for number in _NUMBERS.values())


def is_text(column) -> bool:
    """Whether a column of a frame holds texts."""
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
    """Names of columns of texts that hold dates."""
    names = []
    for name, column in table.frame.items():
        cells = [cell for cell in column.dropna().head(20) if isinstance(cell, str)]
        if cells and all(_DATE.fullmatch(cell) for cell in cells):
            names.append(name)
    return names

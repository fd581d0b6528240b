"""How tables are written as text: encoding, separator, header, decimal mark, gaps."""

import argparse
import codecs
import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ._files import composed, needed

if TYPE_CHECKING:
    from pandas import DataFrame

_SEPARATORS = {
    "comma": ",",
    "semicolon": ";",
    "tab": "\t",
    "\\t": "\t",  # as it is typed in a shell
    "bar": "|",
}
# Lines by which the separator is guessed.
_N_GUESSED_BY = 200
# A first line by which Excel is told of the separator.
_EXCEL_LINE = re.compile(r"sep=(?P<sep>.)[ \t]*(\r\n?|\n)")
# Marks of encodings at the beginning of a file; one of UTF-32 begins as one of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a table is written; what is None is guessed, table by table."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    na: tuple[str, ...] | None = None

    @classmethod
    def of(cls, settings: Mapping) -> "Dialect":
        """Make one of typed or configured words; ValueError names one that is wrong."""
        dialect = cls(
            sep=_separator(settings.get("sep")),
            decimal=settings.get("decimal"),
            encoding=_encoding(settings.get("encoding")),
            na=_words_of_gaps(settings.get("na")),
        )
        if dialect.decimal not in (None, ".", ","):
            raise ValueError(f"decimal must be '.' or ',', got {dialect.decimal!r}.")
        if dialect.sep is not None and dialect.sep == dialect.decimal:
            raise ValueError(
                f"sep and decimal must differ, but both are {dialect.sep!r}."
            )
        return dialect


DIALECT_KEYS = tuple(setting.name for setting in fields(Dialect))


def _separator(word) -> str | None:
    if word is None:
        return None
    sep = _SEPARATORS.get(word, word)
    if not isinstance(sep, str) or len(sep) != 1:
        raise ValueError(
            "sep must be one character, or one of the words comma, semicolon, tab and "
            f"bar; got {sep!r}."
        )
    return sep


def _encoding(name) -> str | None:
    if name is None:
        return None
    try:
        return codecs.lookup(name).name
    except (LookupError, TypeError):
        raise ValueError(
            f"encoding: Python knows no encoding {name!r}. Common ones are utf-8, "
            "cp1252 (Windows), latin-1 and utf-16."
        ) from None


def _words_of_gaps(words) -> tuple[str, ...] | None:
    if words is None:
        return None
    listed = [words] if isinstance(words, str) else words
    if not isinstance(listed, list) or not all(
        isinstance(word, str) for word in listed
    ):
        raise ValueError(
            "na must be a list of texts that mark cells without a value; got "
            f"{words!r}."
        )
    return tuple(word.strip() for word in listed)


def dialect_of(args: argparse.Namespace, name: str) -> Dialect:
    """Return that of a node's table: what was typed, else what --config says of it."""
    shared = getattr(args, "dialects", {})
    settings = {key: shared.get(key) for key in DIALECT_KEYS}
    settings |= shared.get("tables", {}).get(name, {})
    for key in DIALECT_KEYS:
        if getattr(args, key) is not None:
            settings[key] = getattr(args, key)
    return Dialect.of(settings)


# ---- encodings -------------------------------------------------------------------


def _decoded(path: str, content: bytes, encoding: str | None) -> str:
    """Return the text of a file; ValueError names the file, and the line to look at."""
    marked = (name for mark, name in _MARKS.items() if content.startswith(mark))
    used = encoding or next(marked, "utf-8")
    if b"\x00" in content and not used.startswith(("utf-16", "utf-32")):
        raise ValueError(
            f"{path}: it has zero bytes, as UTF-16 has, but no mark of its encoding. "
            "Name the encoding, perhaps with --encoding utf-16-le, or save the table "
            "in UTF-8."
        )
    try:
        text = content.decode(used).removeprefix("\ufeff")
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        word = _word_at(content, exc.start)
        raise ValueError(
            f"{path}: line {line} is not written in {used}. Read as cp1252 (Windows) "
            f"it has the word {word!r}. If that is right, add --encoding cp1252. "
            "Otherwise name the encoding of the program that wrote the file."
        ) from None
    if not text.strip():
        raise ValueError(f"{path}: the file is empty.")
    return text


def _word_at(content: bytes, start: int) -> str:
    """Return the word around a byte, as Windows reads it."""
    before = re.split(rb'[\s,;|"]', content[max(start - 20, 0) : start])[-1]
    after = re.split(rb'[\s,;|"]', content[start : start + 20])[0]
    return (before + after).decode("cp1252", errors="replace")


# ---- separators and headers ------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Names and rows of a table, without the ways in which its text is written."""

    names: list[str]
    header_line: int
    # The rows in lines with tabs between cells, which have no blanks around them.
    body: str
    lines: list[int]  # number of the line of the file at which each row ends
    notes: list[str] = field(default_factory=list)  # what was guessed

    def texts(self, places: Sequence[int], **options) -> "DataFrame":
        """Return columns as texts; ``options`` of `pandas.read_csv` say what is NaN."""
        pandas = needed("pandas")
        if not places:
            return pandas.DataFrame(index=range(len(self.lines)))
        return pandas.read_csv(
            StringIO(self.body, newline=""),
            sep="\t",
            header=None,
            usecols=places,
            dtype=str,
            **options,
        )[list(places)]

    def cells(self, place: int) -> list[str]:
        """Return the cells of a column as they stand in the file."""
        return self.texts([place], na_filter=False)[place].tolist()


def read_layout(path: str, dialect: Dialect) -> Layout:
    """Find encoding, separator, names and rows; ValueError names what is wrong."""
    content = Path(path).read_bytes()
    text = composed(_decoded(path, content, dialect.encoding))
    sep = dialect.sep
    n_skipped = 0
    if declared := _EXCEL_LINE.match(text):
        text = text[declared.end() :]
        n_skipped = 1
        sep = sep or declared["sep"]
    try:
        used = sep or max(",;\t|", key=lambda sep: _n_cells_of_all(text, sep))
        layout = _rows_below_names(path, _records(text, used, n_skipped), used)
    except csv.Error as exc:
        raise ValueError(
            f"{path}: it cannot be read as a table: {exc}. Is a quotation mark not "
            "closed?"
        ) from None
    if sep is None and used != ",":
        layout.notes.append(f"columns are separated by {used!r}")
    return layout


def _rows_below_names(
    path: str, records: Iterator[tuple[int, list[str]]], sep: str
) -> Layout:
    header_line, header = next(records, (1, [""]))
    names = [name.strip() for name in header]
    while names and not names[-1]:  # separators at the end of the line
        names.pop()
    if len(header) == 1 or not names:
        raise ValueError(
            f"{path}: line {header_line}, {header[0].strip()[:60]!r}, has no {sep!r} "
            "between names of columns. Delete notes and comments above the names, or "
            "name the character between columns with --sep."
        )
    body = StringIO(newline="")
    writer = csv.writer(body, delimiter="\t")
    lines = []
    for line, cells in records:
        if len(cells) < len(names) or any(map(str.strip, cells[len(names) :])):
            raise ValueError(
                f"{path}: line {line} has {len(cells)} cells, but line {header_line} "
                f"has {len(names)} names. Delete lines that are no rows, such as notes "
                "above the names. Give each column a name, the first one too. A text "
                f"that has the separator {sep!r} within it must stand in quotation "
                "marks."
            )
        lines.append(line)
        writer.writerow(map(str.strip, cells[: len(names)]))
    if not lines:
        raise ValueError(f"{path}: there are no rows below line {header_line}.")
    return Layout(
        names=names, header_line=header_line, body=body.getvalue(), lines=lines
    )


def _records(
    text: str, sep: str, n_skipped: int = 0
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line that is not blank, and its cells."""
    stream = StringIO(text, newline="")
    reader = csv.reader(stream, delimiter=sep, skipinitialspace=sep != " ")
    for cells in reader:
        if len(cells) > 1 or (cells and cells[0].strip()):
            yield reader.line_num + n_skipped, cells


def _n_cells_of_all(text: str, sep: str) -> int:
    """Return the number of cells that each of the first lines has at least."""
    records = islice(_records(text, sep), _N_GUESSED_BY)
    return min((len(cells) for _, cells in records), default=0)

"""How tables are written as text: encoding, separator, header, decimal mark, gaps."""

import argparse
import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from io import StringIO
from itertools import islice

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
        """That of typed or configured words; ValueError names one that is wrong."""
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


DIALECT_KEYS = tuple(field.name for field in fields(Dialect))


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
    """That of the table of a node: what was typed, else what --config says of it."""
    shared = getattr(args, "dialects", {})
    settings = {key: shared.get(key) for key in DIALECT_KEYS}
    settings |= shared.get("tables", {}).get(name, {})
    for key in DIALECT_KEYS:
        if getattr(args, key) is not None:
            settings[key] = getattr(args, key)
    return Dialect.of(settings)


# ---- encodings -------------------------------------------------------------------


def decoded(path: str, content: bytes, encoding: str | None) -> tuple[str, list[str]]:
    """The text of a file, and what to say of it; ValueError names the file."""
    if not content.strip():
        raise ValueError(f"{path}: the file is empty.")
    if encoding is not None:
        text = _decoded_as(path, content, encoding)
        return text.removeprefix("\ufeff"), _doubts_of_encoding(content, encoding)
    for mark, marked in _MARKS.items():
        if content.startswith(mark):
            notes = [f"it is marked as {marked.upper()}, and is read as such"]
            return _decoded_as(
                path, content, marked
            ), notes if marked != "utf-8-sig" else []
    if b"\x00" in content:  # as half of the bytes of letters
        raise ValueError(
            f"{path}: it has zero bytes, as UTF-16 has. Add --encoding utf-16-"
            f"{'le' if content[0] else 'be'}, or save it in UTF-8."
        )
    try:
        return content.decode("utf-8"), []
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        word = _word_at(content, exc.start, "cp1252")
        raise ValueError(
            f"{path}: line {line} is not written in UTF-8. Read as cp1252 (Windows) it "
            f"has the word {word!r}. If that is right, add --encoding cp1252. "
            "Otherwise name the encoding of the program that wrote the file."
        ) from None


def _decoded_as(path: str, content: bytes, encoding: str) -> str:
    """The text under an encoding that was named, by somebody or by the file."""
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise ValueError(
            f"{path}: line {line} is not written in {encoding}. Name the encoding of "
            "the file with --encoding, or leave this option out."
        ) from None
    if "\x00" in text:
        raise ValueError(
            f"{path}: read as {encoding} it has zero bytes, which a text never has. "
            "Name another encoding, perhaps utf-16, or leave --encoding out."
        )
    return text


def _doubts_of_encoding(content: bytes, encoding: str) -> list[str]:
    """What to say where a file seems to be written in another encoding than typed."""
    if encoding.startswith("utf") or content.isascii():
        return []
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return []
    start = next(place for place, byte in enumerate(content) if byte > 127)
    word = _word_at(content, start, encoding)
    right = _word_at(content, start, "utf-8")
    return [
        f"it seems to be written in UTF-8, but is read as {encoding}, where the word "
        f"{right!r} is {word!r}"
    ]


def _word_at(content: bytes, start: int, encoding: str) -> str:
    """The word around a byte."""
    ends = b' \t\r\n,;|"'
    first = last = start
    while first > 0 and content[first - 1] not in ends and start - first < 20:
        first -= 1
    while last < len(content) and content[last] not in ends and last - start < 20:
        last += 1
    return content[first:last].decode(encoding, errors="replace")


# ---- separators and headers ------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where names and rows of a table stand in its text."""

    sep: str
    header: list[str]
    header_line: int
    body: str  # the text below the header
    lines: list[int]  # number of the line at which each row ends
    notes: list[str]


def layout_of(path: str, text: str, sep: str | None) -> Layout:
    """Find separator, header and rows; ValueError names the line that is wrong."""
    notes = []
    n_skipped = 0
    if declared := _EXCEL_LINE.match(text):
        text = text[declared.end() :]
        n_skipped = 1
        sep = sep or declared["sep"]
    if sep is None:
        sep = _guessed_separator(path, text)
        if sep != ",":
            notes.append(f"columns are separated by {sep!r}")
    stream = StringIO(text, newline="")
    try:
        records = _records(stream, sep, n_skipped)
        header_line, header = next(records, (1, [""]))
        end = stream.tell()
        rows = _Rows.read(records, len(header))
    except csv.Error as exc:
        raise ValueError(
            f"{path}: it cannot be read as a table: {exc}. Is a quotation mark not "
            "closed?"
        ) from None
    _check_separated(path, sep, header_line, header, rows)
    return Layout(
        sep=sep,
        header=_checked_header(path, header_line, header, rows, sep=sep),
        header_line=header_line,
        body=text[end:],
        lines=rows.lines,
        notes=[*notes, *_padding(text[:end], sep)],
    )


@dataclass(kw_only=True)
class _Rows:
    """The lines of rows, and how many cells they have."""

    lines: list[int]
    sizes: Counter  # numbers of rows, by their number of cells
    odd_line: int | None = None  # the first that has not as many as the header
    odd_cells: list[str] | None = None

    @classmethod
    def read(cls, records: Iterator[tuple[int, list]], n_names: int) -> "_Rows":
        rows = cls(lines=[], sizes=Counter())
        for line, cells in records:
            rows.lines.append(line)
            rows.sizes[len(cells)] += 1
            if rows.odd_line is None and len(cells) != n_names:
                rows.odd_line = line
                rows.odd_cells = cells
        return rows

    @property
    def size(self) -> int | None:
        """The number of cells of each row; None if they differ."""
        return next(iter(self.sizes)) if len(self.sizes) == 1 else None


def _check_separated(
    path: str, sep: str, header_line: int, header: list[str], rows: _Rows
) -> None:
    if len(header) == 1 and rows.size in (None, 1) and 1 in rows.sizes:
        _check_no_comment(path, header_line, header)
        raise ValueError(
            f"{path}: {sep!r} does not occur in line {header_line}, which is "
            f"{header[0][:60]!r}. Name the character between columns with --sep, or "
            "leave the option out to have it guessed."
        )
    if not rows.lines:
        raise ValueError(f"{path}: there are no rows below line {header_line}.")


def _padding(head: str, sep: str) -> list[str]:
    """What to say of blanks around names in the lines down to the header."""
    *_, names = csv.reader(StringIO(head, newline=""), delimiter=sep)
    padded = [name for name in names if name != name.strip()]
    if not padded:
        return []
    return [f"blanks around names of columns ({padded[0]!r}) are left out"]


def _records(stream: StringIO, sep: str, skipped: int) -> Iterator[tuple[int, list]]:
    """Cells of each line that is not blank, and its number."""
    # `iter` of readline, since `tell` of a stream that is iterated over is not exact.
    reader = csv.reader(
        iter(stream.readline, ""), delimiter=sep, skipinitialspace=sep != " "
    )
    for cells in reader:
        if len(cells) > 1 or (cells and cells[0].strip()):
            yield reader.line_num + skipped, cells


def _guessed_separator(path: str, text: str) -> str:
    """What separates the most lines into equally many cells, the comma if in doubt."""
    scores = {}
    for sep in (",", ";", "\t", "|"):
        try:
            records = _records(StringIO(text, newline=""), sep, 0)
            sizes = [len(cells) for _, cells in islice(records, _N_GUESSED_BY)]
        except csv.Error:
            continue
        size, count = Counter(sizes).most_common(1)[0]
        if size > 1:
            scores[sep] = (count / len(sizes), size)
    if not scores:
        first = text.strip().partition("\n")[0].strip()
        _check_no_comment(path, 1, [first])
        raise ValueError(
            f"{path}: no separator of columns was found; the first line is "
            f"{first[:60]!r}. Name the character between columns with --sep."
        )
    return max(scores, key=scores.get)


def _check_no_comment(path: str, line: int, header: list[str]) -> None:
    """ValueError for a first line that is a comment, as of R or of instruments."""
    if header[0].lstrip().startswith("#"):
        raise ValueError(
            f"{path}: line {line}, {header[0].strip()[:60]!r}, seems to be a comment. "
            "Delete all lines that begin with '#' above the names of the columns."
        )


def _check_no_note(path: str, line: int, header: list[str], *, is_short: bool) -> None:
    """ValueError for a first line of one or two cells, of more columns."""
    named = [name.strip() for name in header if name.strip()]
    if (len(header) > 2 and len(named) < 2) or (is_short and len(header) <= 2):
        raise ValueError(
            f"{path}: line {line}, {' '.join(named)[:60]!r}, does not have as many "
            "cells as the lines below. If it is a note, delete all lines above the "
            "names of the columns."
        )


def _checked_header(
    path: str, line: int, header: list[str], rows: _Rows, *, sep: str
) -> list[str]:
    """The header, as long as the rows are; ValueError where it cannot be theirs."""
    if rows.sizes.most_common(1)[0][0] != len(header):
        _check_no_comment(path, line, header)
    is_short = rows.size is not None and rows.size > len(header)
    _check_no_note(path, line, header, is_short=is_short)
    if rows.odd_line is None:
        return header
    if (
        rows.size is not None
        and rows.size < len(header)
        and not any(header[rows.size :])
    ):
        return header[: rows.size]  # separators at the end of the header alone
    if rows.size == len(header) + 1 and not rows.odd_cells[-1].strip():
        return [*header, ""]  # separators at the end of the rows alone
    if is_short:
        raise ValueError(
            f"{path}: lines have more cells ({rows.size}) than line {line} has names "
            f"({len(header)}). Give each column a name, the first one too."
        )
    raise ValueError(
        f"{path}: line {rows.odd_line} has {len(rows.odd_cells)} cells, but line "
        f"{line} has {len(header)} names. A text that has the separator {sep!r} within "
        "it must stand in quotation marks; lines that are no rows must be deleted."
    )

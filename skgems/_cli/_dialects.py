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

_SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
_SEPARATORS |= {"\\t": "\t"}  # as it is typed in a shell
# Lines by which the separator is guessed.
_N_GUESSED_BY = 200
# Marks of encodings at the beginning of a file; that of UTF-32 begins with one of 16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)


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
        sep = settings.get("sep")
        sep = _SEPARATORS.get(sep, sep)
        if sep is not None and (not isinstance(sep, str) or len(sep) != 1):
            raise ValueError(
                f"sep must be one character, or one of the words "
                f"{', '.join(list(_SEPARATORS)[:4])}; got {sep!r}."
            )
        decimal = settings.get("decimal")
        if decimal not in (None, ".", ","):
            raise ValueError(f"decimal must be '.' or ',', got {decimal!r}.")
        if sep is not None and sep == decimal:
            raise ValueError(f"sep and decimal must differ, both are {sep!r}.")
        encoding = settings.get("encoding")
        try:
            encoding = None if encoding is None else codecs.lookup(encoding).name
        except (LookupError, TypeError) as exc:
            raise ValueError(
                f"encoding: {encoding!r} is none that Python knows. Usual ones are "
                "utf-8, cp1252 (Windows), latin-1 and utf-16."
            ) from exc
        na = settings.get("na")
        na = [na] if isinstance(na, str) else na
        are_texts = isinstance(na, list) and all(isinstance(word, str) for word in na)
        if na is not None and not are_texts:
            raise ValueError(
                f"na must be texts, as they stand in cells without a value; got {na!r}."
            )
        words = None if na is None else tuple(word.strip() for word in na)
        return cls(sep=sep, decimal=decimal, encoding=encoding, na=words)


DIALECT_KEYS = tuple(field.name for field in fields(Dialect))


def dialect_of(args: argparse.Namespace, name: str) -> Dialect:
    """That of the table of a node: what was typed, else what --config says of it."""
    config = getattr(args, "dialects", {})
    own = config.get("tables", {}).get(name, {})
    settings = {}
    for key in DIALECT_KEYS:
        typed = getattr(args, key)
        shared = own.get(key, config.get(key))
        settings[key] = shared if typed is None else typed
    return Dialect.of(settings)


def decoded(path: str, data: bytes, encoding: str | None) -> tuple[str, list[str]]:
    """The text of a file, and what to say of it; ValueError names the file."""
    if not data.strip():
        raise ValueError(f"{path}: the file is empty.")
    mark = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    notes = []
    if encoding is not None:
        notes += _doubts_of_encoding(path, data, encoding)
    elif mark in ("utf-16", "utf-32"):
        notes.append(f"it is written in {mark.upper()}, and read as such")
    elif mark is None and b"\x00" in data:  # as half of the bytes of letters
        raise ValueError(
            f"{path}: it has zero bytes, as UTF-16 has. Add --encoding utf-16-"
            f"{'le' if data[0] else 'be'}, or save it in UTF-8."
        )
    try:
        text = data.decode(encoding or mark or "utf-8")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        if encoding is not None or mark is not None:
            raise ValueError(
                f"{path}: line {line} is not written in {encoding or mark}. Name the "
                "encoding of the file by --encoding, or leave that away."
            ) from exc
        word = _word_at(data, exc.start)
        raise ValueError(
            f"{path}: line {line} is not written in UTF-8. As cp1252 (latin-1, of "
            f"Windows) it has the word {word!r}: if that is right, add --encoding "
            "cp1252, else the encoding of the program that wrote it."
        ) from exc
    if "\x00" in text:
        raise ValueError(
            f"{path}: read as {encoding or mark} it has zero bytes, which no text has. "
            "Name another encoding, utf-16 perhaps, or none."
        )
    return text.removeprefix("\ufeff"), notes


def _doubts_of_encoding(path: str, data: bytes, encoding: str) -> list[str]:
    """What to say where a file seems to be written in another encoding than typed."""
    if encoding.startswith("utf") or data.isascii():
        return []
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return []
    start = next(place for place, byte in enumerate(data) if byte > 127)
    word = _word_at(data, start, encoding)
    right = _word_at(data, start, "utf-8")
    return [
        f"it seems to be written in UTF-8, but is read as {encoding}, where the word "
        f"{right!r} is {word!r}"
    ]


def _word_at(data: bytes, start: int, encoding: str = "cp1252") -> str:
    """The word around a byte."""
    ends = b' \t\r\n,;|"'
    first = last = start
    while first > 0 and data[first - 1] not in ends and start - first < 20:
        first -= 1
    while last < len(data) and data[last] not in ends and last - start < 20:
        last += 1
    return data[first:last].decode(encoding, errors="replace")


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
    first, _, rest = text.partition("\n")
    skipped = 0
    if declared := re.fullmatch(r"sep=(.)\s*", first):  # a line that Excel understands
        sep = declared[1] if sep is None else sep
        text, skipped = rest, 1
    if sep is None:
        sep = _guessed_separator(path, text)
        if sep != ",":
            notes.append(f"columns are separated by {sep!r}")
    stream = StringIO(text, newline="")
    try:
        records = _records(stream, sep, skipped)
        header_line, header = next(records)
        notes += _padding(text[: stream.tell()], sep)
        body = text[stream.tell() :]
        lines, sizes = [], Counter()
        odd = None  # the first line that has not as many cells as the header
        for line, cells in records:
            lines.append(line)
            sizes[len(cells)] += 1
            if odd is None and len(cells) != len(header):
                odd = line, cells
    except csv.Error as exc:
        raise ValueError(
            f"{path}: it is no table: {exc}. Is a quotation mark not closed?"
        ) from exc
    if len(header) == 1 and set(sizes) == {1}:
        raise ValueError(
            f"{path}: {sep!r} separates nothing in line {header_line}, which is "
            f"{header[0][:60]!r}. Name the character between columns by --sep, or "
            "leave that away to have it guessed."
        )
    if not lines:
        raise ValueError(f"{path}: there are no rows below line {header_line}.")
    header = _checked_header(path, header_line, header, sizes, sep=sep, odd=odd)
    return Layout(
        sep=sep,
        header=header,
        header_line=header_line,
        body=body,
        lines=lines,
        notes=notes,
    )


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
    best, best_score = ",", (0.0, 1)
    for sep in (",", ";", "\t", "|"):
        stream = StringIO(text, newline="")
        try:
            some = list(islice(_records(stream, sep, 0), _N_GUESSED_BY))
        except csv.Error:
            continue
        sizes = Counter(len(cells) for _, cells in some)
        (size, count), *_ = sizes.most_common(1) or [(1, 0)]
        score = (count / max(len(some), 1), size)
        if size > 1 and score > best_score:
            best, best_score = sep, score
    if best_score[1] == 1:
        first = text.strip().partition("\n")[0].strip()
        raise ValueError(
            f"{path}: nothing separates its lines into columns; the first line is "
            f"{first[:60]!r}. Name the character between columns by --sep."
        )
    return best


def _checked_header(
    path: str,
    line: int,
    header: list[str],
    sizes: Counter,
    *,
    sep: str,
    odd: tuple[int, list] | None,
) -> list[str]:
    """The header, as long as the rows are; ValueError where it cannot be theirs."""
    if odd is None:
        return header
    size, count = sizes.most_common(1)[0]
    odd_line, odd_cells = odd
    if len(sizes) == 1 and size < len(header) and not any(header[size:]):
        return header[:size]  # separators at the end of the header alone
    if len(sizes) == 1 and size == len(header) + 1 and not odd_cells[-1].strip():
        return [*header, ""]  # separators at the end of the rows alone
    if len(sizes) == 1 and size > len(header) and len(header) <= 2:
        raise ValueError(
            f"{path}: line {line}, {sep.join(header)[:60]!r}, does not have as many "
            f"cells as the lines below, which have {size}. If it is a note, delete all "
            "lines above the names of the columns."
        )
    if count == sum(sizes.values()) and size > len(header):
        raise ValueError(
            f"{path}: lines have more cells ({size}) than line {line} has names "
            f"({len(header)}). Give each column a name, the first one too."
        )
    raise ValueError(
        f"{path}: line {odd_line} has {len(odd_cells)} cells, but line {line} has "
        f"{len(header)} names. A text that has the separator {sep!r} within it must "
        "stand in quotation marks; lines that are no rows must be deleted."
    )

"""How results are shown: whole where they are printed, and as HTML in a notebook.

A class of results inherits `ResultMixin` and says what is on its `Page`: tables, what
their heads mean, sentences and lists. The same page becomes lines, HTML or Markdown.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from numbers import Real
from textwrap import fill

# Lines that the end of a cell or an error shows of a result at most: a screen.
MOST_LINES = 40
# Characters of a line of sentences, as many as lines of this code have.
WIDTH = 88
# Values of a list or dict that one cell shows.
_MOST_IN_CELL = 3
_NO_VALUE = "-"
_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?( ?%)?")

# Colors are those of the page that the view is in, so it is dark where the page is.
# Jupyter floats the terms of <dl>, so definitions are a list of another kind. What is
# wider than the page scrolls in a box of its own.
_STYLE = """<style>
.skgems-view {max-width: 100%; overflow-wrap: anywhere; color: inherit}
.skgems-view .box {max-width: 100%; max-height: 32em; overflow: auto; margin: 0.6em 0}
.skgems-view table {table-layout: auto; margin: 0; border-collapse: collapse;
  border: 0; font-size: 0.9em; color: inherit}
.skgems-view caption {caption-side: top; text-align: left; font-weight: 600;
  padding: 0.2em 0; color: inherit}
.skgems-view :is(th, td) {padding: 0.25em 0.7em; text-align: left;
  vertical-align: top; background: none; border: 0; overflow-wrap: normal;
  border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent)}
.skgems-view thead th {vertical-align: bottom; max-width: 8em; white-space: normal}
.skgems-view td {max-width: 30em; min-width: 3em}
.skgems-view :is(th, td).number {text-align: right}
.skgems-view td.number {white-space: nowrap; font-variant-numeric: tabular-nums}
.skgems-view td:first-child {white-space: pre-wrap}
.skgems-view .heading {font-weight: 600; margin: 0.8em 0 0.2em}
.skgems-view ul {margin: 0.2em 0; padding-left: 1.3em}
</style>"""


def printable(text: str) -> str:
    """Return a line that cannot steer a terminal, whoever chose the names in it."""
    return "".join(
        character if character.isprintable() else repr(character)[1:-1]
        for character in text
    )


def filled(sentence: str) -> str:
    """Return lines of a sentence, in which no word and no name is cut."""
    return fill(
        printable(sentence),
        width=WIDTH,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def cell_text(value: object) -> str:
    """Return a value of a table as text: numbers with four figures."""
    if value is None or value != value:  # NaN alone differs from itself
        return _NO_VALUE
    if isinstance(value, Mapping):
        return _listed([f"{key}: {cell_text(part)}" for key, part in value.items()])
    if isinstance(value, list | tuple):
        return _listed([cell_text(part) for part in value])
    if isinstance(value, Real):
        return _number_text(value)
    return printable(str(value))


def _number_text(value: Real) -> str:
    """Return a number with four figures, a whole one with all, and yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """Sentences that stand together."""

    text: str

    def lines(self) -> list[str]:
        return [filled(self.text)]

    def html(self) -> str:
        return f"<p>{escape(printable(self.text))}</p>"

    def markdown(self) -> str:
        return as_markdown(self.text)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of cells below their heads; cells hold values of any kind."""

    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""

    @classmethod
    def from_columns(
        cls, columns: Mapping[str, Iterable], *, caption: str = ""
    ) -> "Table":
        """Return the table of columns by their heads."""
        rows = list(zip(*columns.values(), strict=True))
        return cls(heads=list(columns), rows=rows, caption=caption)

    @classmethod
    def from_records(
        cls, records: Sequence[Mapping[str, object]], *, caption: str = ""
    ) -> "Table":
        """Return the table of dicts, one a row, without keys that have no value."""
        names = dict.fromkeys(name for record in records for name in record)
        heads = [
            name
            for name in names
            if any(cell_text(record.get(name)) != _NO_VALUE for record in records)
        ]
        rows = [[record.get(name) for name in heads] for record in records]
        return cls(
            heads=[_in_words(name) for name in heads], rows=rows, caption=caption
        )

    def _texts(self) -> list[list[str]]:
        return [[cell_text(value) for value in row] for row in self.rows]

    def _are_numbers(self) -> list[bool]:
        """Report for each column whether its cells are numbers, or empty."""
        texts = self._texts()
        if not texts:
            return [False] * len(self.heads)
        return [
            all(
                text in ("", _NO_VALUE) or _NUMBER.fullmatch(text) is not None
                for text in column
            )
            for column in zip(*texts, strict=True)
        ]

    def lines(self) -> list[str]:
        cells = [list(map(printable, self.heads)), *self._texts()]
        are_numbers = self._are_numbers()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [printable(self.caption)] if self.caption else []
        for row in cells:
            padded = [
                text.rjust(width) if is_number else text.ljust(width)
                for text, width, is_number in zip(row, widths, are_numbers, strict=True)
            ]
            lines.append("  ".join(padded).rstrip())
        return lines

    def html(self) -> str:
        classes = [
            ' class="number"' if is_number else "" for is_number in self._are_numbers()
        ]
        heads = "".join(
            f"<th{of_column}>{escape(printable(head))}</th>"
            for head, of_column in zip(self.heads, classes, strict=True)
        )
        body = ""
        for row in self._texts():
            cells = "".join(
                f"<td{of_column}>{escape(text)}</td>"
                for text, of_column in zip(row, classes, strict=True)
            )
            body += f"<tr>{cells}</tr>"
        caption = ""
        if self.caption:
            caption = f"<caption>{escape(printable(self.caption))}</caption>"
        return (
            f'<div class="box"><table>{caption}<thead><tr>{heads}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )

    def markdown(self) -> str:
        heads = [as_markdown(head) for head in self.heads]
        rules = ["--:" if is_number else "---" for is_number in self._are_numbers()]
        rows = [[as_markdown(text) for text in row] for row in self._texts()]
        table = "\n".join(f"| {' | '.join(row)} |" for row in [heads, rules, *rows])
        return f"{as_markdown(self.caption)}\n\n{table}" if self.caption else table


@dataclass(frozen=True, kw_only=True)
class Definitions:
    """What words of the page mean, below a heading of their own."""

    heading: str
    meanings: Mapping[str, str]

    def lines(self) -> list[str]:
        return [filled(f"{name}: {text}") for name, text in self.meanings.items()]

    def html(self) -> str:
        items = "".join(
            f"<li><strong>{escape(printable(name))}</strong>: "
            f"{escape(printable(text))}</li>"
            for name, text in self.meanings.items()
        )
        return _html_list(self.heading, items)

    def markdown(self) -> str:
        items = [
            f"- **{as_markdown(name)}**: {as_markdown(text)}"
            for name, text in self.meanings.items()
        ]
        return "\n".join([f"{as_markdown(self.heading)}:\n", *items])


@dataclass(frozen=True, kw_only=True)
class Points:
    """Sentences below a heading, each by itself."""

    heading: str
    sentences: Sequence[str]

    def lines(self) -> list[str]:
        return [filled(sentence) for sentence in self.sentences]

    def html(self) -> str:
        items = "".join(f"<li>{escape(printable(s))}</li>" for s in self.sentences)
        return _html_list(self.heading, items)

    def markdown(self) -> str:
        items = [f"- {as_markdown(sentence)}" for sentence in self.sentences]
        return "\n".join([f"{as_markdown(self.heading)}:\n", *items])


@dataclass(frozen=True, kw_only=True)
class Page:
    """All that is shown of a result, under a title if it is not empty."""

    title: str
    parts: Sequence[Paragraph | Table | Definitions | Points]

    @property
    def text(self) -> str:
        """Return the lines that are printed."""
        title = [printable(self.title)] if self.title else []
        blocks = [title, *(part.lines() for part in self.parts)]
        return "\n\n".join("\n".join(lines) for lines in blocks if lines)

    @property
    def html(self) -> str:
        """Return what a notebook shows."""
        title = ""
        if self.title:
            title = f'<p class="heading">{escape(printable(self.title))}</p>'
        parts = "".join(part.html() for part in self.parts)
        return f'{_STYLE}<div class="skgems-view">{title}{parts}</div>'

    @property
    def markdown(self) -> str:
        """Return the parts in Markdown, without the title."""
        return "\n\n".join(part.markdown() for part in self.parts)


class ResultMixin:
    """Mixin of results: a screen of lines at most, and tables in a notebook.

    A class has the method ``_page``. If it prints in a way of its own, it has
    ``__str__`` too. A dataclass needs ``repr=False``.
    """

    def _page(self) -> Page:
        """Return what is shown of the result."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self._page().text

    def __repr__(self) -> str:
        lines = str(self).splitlines()
        n_more = len(lines) - MOST_LINES + 1
        if n_more > 1:
            ending = f"... and {n_more} more lines, which print() shows."
            lines = [*lines[: MOST_LINES - 1], ending]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self._page().html


class Records(ResultMixin, list):
    """A list of dicts with the same keys, which shows as a table."""

    def __add__(self, others: Iterable[Mapping]) -> "Records":
        return Records([*self, *others])

    def _page(self) -> Page:
        noun = "entry" if len(self) == 1 else "entries"
        parts = [Table.from_records(self)] if self else []
        return Page(title=f"{len(self)} {noun}", parts=parts)


class Columns(ResultMixin, dict):
    """A dict of lists of the same length, which shows as a table."""

    def _page(self) -> Page:
        n_rows = max(map(len, self.values()), default=0)
        columns = {_in_words(name): column for name, column in self.items()}
        noun = "row" if n_rows == 1 else "rows"
        return Page(title=f"{n_rows} {noun}", parts=[Table.from_columns(columns)])


def _listed(texts: Sequence[str]) -> str:
    """Return the first texts of a cell, and how many more there are."""
    n_more = len(texts) - _MOST_IN_CELL
    listed = ", ".join(texts[:_MOST_IN_CELL]) or _NO_VALUE
    return printable(f"{listed} and {n_more} more" if n_more > 0 else listed)


def _in_words(name: object) -> str:
    """Return the key of a dict as the head of a column."""
    return str(name).replace("_", " ")


def _html_list(heading: str, items: str) -> str:
    return f'<p class="heading">{escape(printable(heading))}</p><ul>{items}</ul>'


def as_markdown(text: str) -> str:
    """Return text whose signs of Markdown and HTML are no commands."""
    text = escape(printable(text), quote=False)
    return "".join(f"\\{sign}" if sign in "\\`*[]|" else sign for sign in text)

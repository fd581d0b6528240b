"""The tables of a report: heads of columns, and cells in lines."""

from collections.abc import Iterable, Mapping

from ..base import Table, printable

# Columns of the table of nodes, in their order, with the two lines of their heads.
HEADS: Mapping[str, tuple[str, str]] = {
    "node": ("", "node"),
    "rows": ("", "rows"),
    "classes": ("classes of", "local model"),
    "local_accuracy": ("accuracy of", "local model"),
    "aggregate_accuracy": ("accuracy of", "aggregate"),
    "largest_class": ("share of", "largest class"),
    "gain": ("accuracy", "gain"),
    "log_loss": ("log-loss", "(nats)"),
    "in_good_enough_space": ("in good-", "enough space"),
    "min_rows": ("", "min_rows"),
    "bytes": ("sent", "(bytes)"),
    "counted": ("rows that", "count"),
    "spread": ("", "spread"),
    "far": ("", "far"),
    "shown": ("", "shown"),
    "left_out_by": ("left", "out by"),
    # Of the table of classes.
    "class": ("", "class"),
    "known_by": ("", "nodes that know it"),
}


def title_of_column(name: str) -> str:
    """The head of a column in one line."""
    first, second = HEADS[name]
    if not first or first.endswith("-"):
        return f"{first}{second}"
    return f"{first} {second}"


def _cell(value: object) -> str:
    """A value of a table as text that can be printed."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    return printable(f"{value}")


def _rows_of_cells(columns: Mapping[str, Iterable]) -> list[list[str]]:
    """The table row by row, with the row of titles first."""
    titles = [title_of_column(name) for name in columns]
    rows = zip(*columns.values(), strict=True)
    return [titles, *([_cell(value) for value in row] for row in rows)]


def table_of_columns(columns: Mapping[str, Iterable]) -> Table:
    """Return columns as the table that a notebook shows."""
    heads, *rows = _rows_of_cells(columns)
    return Table(heads=heads, rows=rows)


def lines_of_table(columns: Mapping[str, Iterable]) -> list[str]:
    heads = [list(lines) for lines in zip(*map(HEADS.get, columns), strict=True)]
    rows = [*heads, *_rows_of_cells(columns)[1:]]
    if not any(rows[0]):  # no head has two lines
        del rows[0]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(padded).rstrip())
    return lines

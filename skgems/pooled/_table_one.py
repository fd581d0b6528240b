"""Table 1 of a study: what the rows of each site are like, and how sites differ.

With means m and variances v of two sites, the standardized difference of a column is
|m_1 - m_2| / sqrt((v_1 + v_2) / 2). Of categories with shares p, and the mean S of the
two multinomial covariances diag(p) - p p', it is sqrt((p_1 - p_2)' S^+ (p_1 - p_2)).
Both are infinite where sites differ in what varies at neither of them, such as two
sites that share no category.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..base import Page, Points, ResultMixin, Table

if TYPE_CHECKING:  # pandas is an extra
    import pandas

# The column of differences, and that of all nodes.
SMD = "SMD"
OVERALL = "overall"
# The columns of the table that are of no node.
_HEADS = ("variable", "level", OVERALL, SMD)
_ALL_ROWS = "rows"
# Shares of rows, and of means, that are rounding.
_SMALLEST = 1e-12


@dataclass(frozen=True, kw_only=True, repr=False)
class TableOne(ResultMixin):
    """The first table of a study: the rows of each site, side by side.

    ``table_one`` of a :class:`Description` makes it.

    Attributes
    ----------
    nodes : list of str
        Names of the nodes, in the order of the columns.
    rows : list of dict
        One for each row of the table. It has a "variable", a "level" (a statistic or a
        category), and texts below "overall" and below each node. "SMD" is the largest
        standardized difference between two nodes, a number or None. A node that has the
        name of another column stands below "node " and its name.
    notes : tuple of str
        What the table rests on, in sentences.

    Examples
    --------
    >>> from skgems import describe
    >>> from skgems.datasets import load_penguins
    >>> birds, species, islands = load_penguins(as_frame=True)
    >>> table = describe(birds[["body_mass_g"]], species, islands).table_one()
    >>> row = table.rows[1]
    >>> row["variable"], row["level"], row["overall"], row["Biscoe"]
    ('(classes)', 'Gentoo, n (%)', '124 (36.0)', '124 (73.8)')
    """

    nodes: list[str]
    rows: list[dict]
    notes: tuple[str, ...] = ()

    def to_frame(self) -> "pandas.DataFrame":
        """Return the table as a pandas DataFrame, by variable and level."""
        import pandas as pd

        return pd.DataFrame(self.rows).set_index(["variable", "level"])

    def to_csv(self, path=None) -> str | None:
        """Write the table as CSV, or return it as text if there is no path.

        Parameters
        ----------
        path : str or os.PathLike, default=None
            Path of the file. An existing file is replaced.

        Returns
        -------
        text : str or None
        """
        stream = StringIO(newline="")
        writer = csv.writer(stream, lineterminator="\n")
        names = list(self.rows[0]) if self.rows else []
        writer.writerow(names)
        for row in self.rows:
            difference = row[SMD]
            cells = [row[name] for name in names if name != SMD]
            writer.writerow([*cells, "" if difference is None else f"{difference:.4g}"])
        if path is None:
            return stream.getvalue()
        Path(path).write_text(stream.getvalue(), encoding="utf-8", newline="")
        return None

    def _page(self) -> Page:
        names = [name for name in self.rows[0] if name != "level"] if self.rows else []
        rows = []
        previous = None
        for row in self.rows:
            begins = row["variable"] != previous
            previous = row["variable"]
            title = f"{row['variable']}, {row['level']}"
            if not begins:
                title = f"    {row['level']}"
            difference = row[SMD]
            cells = [row[name] for name in names if name not in ("variable", SMD)]
            rows.append(
                [title, *cells, "" if difference is None else f"{difference:.2f}"]
            )
        parts: list = [Table(heads=["", *names[1:]], rows=rows)]
        if self.notes:
            parts.append(Points(heading="Notes", sentences=self.notes))
        return Page(title="Table 1", parts=parts)


@dataclass(frozen=True, kw_only=True)
class ColumnOfNode:
    """What is known of a column at a node, or at all of them."""

    n_rows: int
    gaps: int
    mean: float | None
    std: float | None
    # Bounds of the quartiles and the median, each a pair; None where they are not told.
    quartiles: Sequence[tuple[float | None, float | None]] | None
    # Numbers of rows by category; None stands for all others.
    counts: Mapping[object, int]
    kind: str = "numbers"

    @property
    def n_known(self) -> int:
        return self.n_rows - self.gaps

    @property
    def is_of_numbers(self) -> bool:
        """Report whether it has a mean, and no categories that say more."""
        return self.mean is not None and not self.counts


def table_one_rows(
    columns: Mapping[str, Mapping[str | None, ColumnOfNode]], nodes: Sequence[str]
) -> list[dict]:
    """Return the rows of the table, given each column by node; None stands for all."""
    if not columns:
        return []
    n_rows: dict[str | None, int] = {}
    for by_node in columns.values():
        for node, column in by_node.items():
            n_rows[node] = max(n_rows.get(node, 0), column.n_rows)
    places = [None, *nodes]
    rows = [_row(_ALL_ROWS, "n", [str(n_rows.get(node, 0)) for node in places], nodes)]
    for name, by_node in columns.items():
        rows += _rows_of_column(name, by_node, nodes)
    return rows


def _rows_of_column(
    name: str, by_node: Mapping[str | None, ColumnOfNode], nodes: Sequence[str]
) -> list[dict]:
    """Return the rows of one column; the first has the difference between nodes."""
    told = [by_node.get(node) for node in (None, *nodes)]
    of_nodes = [column for column in told[1:] if column is not None]
    parts = [_part_of_categories(told, of_nodes), _part_of_numbers(told, of_nodes)]
    if not any(part.lines for part in parts):
        parts.append(_part_of_kinds(told, of_nodes))
    parts.append(_part_of_gaps(told, of_nodes))
    lines = [line for part in parts for line in part.lines]
    differences = [part.difference for part in parts if part.difference is not None]
    rows = [_row(name, level, cells, nodes) for level, cells in lines]
    if rows:
        rows[0][SMD] = max(differences, default=None)
    return rows


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Some rows of a column: levels and their cells, and a difference of nodes."""

    lines: Sequence[tuple[str, list[str]]] = ()
    difference: float | None = None


def _part_of_categories(
    told: Sequence[ColumnOfNode | None], of_nodes: Sequence[ColumnOfNode]
) -> _Part:
    # A few numbers of one node are no categories if other nodes have many.
    are_numbers = any(column.is_of_numbers for column in of_nodes)
    with_counts = [
        column
        for column in of_nodes
        if column.counts and not (are_numbers and column.mean is not None)
    ]
    levels = dict.fromkeys(level for column in with_counts for level in column.counts)
    if not levels:
        return _Part()
    lines = []
    # Rare values, which have no name, come last.
    for level in sorted(levels, key=lambda level: level is None):
        title = "other values" if level is None else str(level)
        cells = [_count(column, level) for column in told]
        lines.append((f"{title}, n (%)", cells))
    shares = [_shares(column, levels) for column in with_counts]
    return _Part(lines=lines, difference=_largest_difference(shares))


def _part_of_numbers(
    told: Sequence[ColumnOfNode | None], of_nodes: Sequence[ColumnOfNode]
) -> _Part:
    if not any(column.is_of_numbers for column in of_nodes):
        return _Part()
    lines = [
        ("mean (SD)", [_mean(column) for column in told]),
        ("median", [_quartiles(column, [1]) for column in told]),
        ("quartiles", [_quartiles(column, [0, 2]) for column in told]),
    ]
    moments = [
        (column.mean, column.std)
        for column in of_nodes
        if column.mean is not None and column.std is not None
    ]
    return _Part(lines=lines, difference=_largest_standardized(moments))


def _part_of_kinds(
    told: Sequence[ColumnOfNode | None], of_nodes: Sequence[ColumnOfNode]
) -> _Part:
    """Return how many values are known where none of them is told, as of dates."""
    if not any(column.n_known for column in of_nodes):
        return _Part()
    kinds = dict.fromkeys(column.kind for column in of_nodes if column.n_known)
    cells = [
        "" if column is None else _share(column.n_known, column.n_rows)
        for column in told
    ]
    return _Part(lines=[(f"{' or '.join(kinds)}, n (%)", cells)])


def _part_of_gaps(
    told: Sequence[ColumnOfNode | None], of_nodes: Sequence[ColumnOfNode]
) -> _Part:
    if not any(column.gaps for column in of_nodes):
        return _Part()
    cells = [
        "" if column is None else _share(column.gaps, column.n_rows) for column in told
    ]
    return _Part(lines=[("gaps, n (%)", cells)])


def _row(variable: str, level: str, cells: Sequence[str], nodes: Sequence[str]) -> dict:
    by_place = dict(zip((OVERALL, *_heads_of(nodes)), cells, strict=True))
    return {"variable": variable, "level": level, **by_place, SMD: None}


def _heads_of(nodes: Sequence[str]) -> list[str]:
    """Return a head for each node: its name, if no other column has it."""
    heads = []
    for node in nodes:
        head = node
        if node in _HEADS:
            head = f"node {node}"
            while head in nodes:
                head = f"node {head}"
        heads.append(head)
    return heads


# ---- cells ---------------------------------------------------------------------------


def _share(n: int, n_rows: int) -> str:
    return f"{n} ({n / n_rows:.1%})".replace("%)", ")") if n_rows else "-"


def _count(column: ColumnOfNode | None, level: object) -> str:
    if column is None or not column.counts:
        return ""
    return _share(column.counts.get(level, 0), column.n_known)


def _mean(column: ColumnOfNode | None) -> str:
    if column is None or column.mean is None:
        return "-"
    return f"{column.mean:.4g} ({column.std:.4g})"


def _quartiles(column: ColumnOfNode | None, which: Sequence[int]) -> str:
    """Return quartiles as intervals, which groups of rows are known to bound."""
    if column is None or column.quartiles is None:
        return "-"
    return "; ".join(_interval(*column.quartiles[k]) for k in which)


def _interval(lower: float | None, upper: float | None) -> str:
    if lower is None and upper is None:
        return "-"
    if lower is None:
        return f"up to {upper:.4g}"
    if upper is None:
        return f"from {lower:.4g}"
    if lower == upper:
        return f"{lower:.4g}"
    return f"{lower:.4g} to {upper:.4g}"


# ---- differences ---------------------------------------------------------------------


def _shares(column: ColumnOfNode, levels: Mapping) -> np.ndarray:
    """Return the share of each category among the known values: (n_levels,)."""
    counts = np.array([column.counts.get(level, 0) for level in levels], dtype=float)
    return counts / max(counts.sum(), 1.0)


def _largest_standardized(moments: Sequence[tuple[float, float]]) -> float | None:
    """Return the largest standardized difference of two means, if there are two."""
    differences = []
    for (mean, std), (other_mean, other_std) in combinations(moments, 2):
        scale = np.sqrt((std**2 + other_std**2) / 2.0)
        difference = abs(mean - other_mean)
        rounding = _SMALLEST * max(abs(mean), abs(other_mean))
        if scale > rounding:
            differences.append(difference / scale)
        else:
            differences.append(np.inf if difference > rounding else 0.0)
    return float(max(differences)) if differences else None


def _largest_difference(shares: Sequence[np.ndarray]) -> float | None:
    """Return the largest standardized difference of two distributions, if any."""
    differences = []
    for p, q in combinations(shares, 2):
        if not (p * q).any():  # the nodes share no category
            differences.append(np.inf)
            continue
        covariance = (np.diag(p + q) - np.outer(p, p) - np.outer(q, q)) / 2.0
        inverse = np.linalg.pinv(covariance, rcond=_SMALLEST, hermitian=True)
        differences.append(np.sqrt(max((p - q) @ inverse @ (p - q), 0.0)))
    return float(max(differences)) if differences else None

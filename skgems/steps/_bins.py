"""Bins of a front that hold few rows of a node, and which join a neighbor.

Steps such as KBinsDiscretizer and SplineTransformer lay edges into a column. A sum over
the rows in a bin is one of few rows where the bin is narrow, as those between two near
quantiles are, and an edge is where a server says that it is. So each bin that fewer
than `cell` rows of a sum are in joins a neighbor: its rows are taken at the middle of
the neighbor. As many columns come out as before.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ._columns import Columns, Table, numbers

# Code of a value that is missing, which is in no bin.
_IN_NO_BIN = -1


@dataclass(frozen=True, eq=False, kw_only=True)
class Bins:
    """Bins that a fitted step lays into the columns that enter it."""

    edges: list[np.ndarray]  # of each column, rising; the outer ones bound no values
    is_periodic: bool = False  # whether values beyond the outer edges begin anew

    def values_in(self, table: Table) -> np.ndarray:
        """Return numbers as the step compares them with its edges, (n_rows, d)."""
        dtype = np.dtype(Columns.from_table(table).dtype)
        values = numbers(table).astype(dtype)  # a copy, which may be changed
        if self.is_periodic:
            low = np.array([edges[0] for edges in self.edges])
            high = np.array([edges[-1] for edges in self.edges])
            values = (low + (values - low) % (high - low)).astype(dtype)
        return values

    def codes(self, values: np.ndarray) -> np.ndarray:
        """Return the bin of each value, (n_rows, n_columns)."""
        codes = np.empty(values.shape, dtype=np.intp)
        for j, edges in enumerate(self.edges):
            codes[:, j] = np.searchsorted(edges[1:-1], values[:, j], side="right")
        codes[np.isnan(values)] = _IN_NO_BIN
        return codes

    def values_of(self, column: int, joined: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return a value in each of some bins, (n,): the middle, where numbers have it.

        At an edge a spline that begins there would still be 0. Between edges that are
        next to each other, there is only the lower one.
        """
        edges = self.edges[column]
        middles = (0.5 * (edges[joined] + edges[joined + 1])).astype(dtype)
        inner_edges = edges[1:-1]
        is_inside = np.searchsorted(inner_edges, middles, side="right") == joined
        if is_inside.all():
            return middles
        lowest = inner_edges.astype(dtype)
        lowest = np.where(lowest < inner_edges, np.nextafter(lowest, np.inf), lowest)
        first = np.nextafter(lowest[:1], -np.inf)
        return np.where(is_inside, middles, np.concatenate([first, lowest])[joined])


@dataclass(frozen=True, eq=False, kw_only=True)
class Cells:
    """How many rows of one sum are in a bin at least, and which are summed together."""

    cell: int
    sums: np.ndarray  # (n_rows,), the sum that each row enters, such as its class
    # (n_rows,), rows that count as one, such as the visits of a patient; None: none do.
    units: np.ndarray | None = None

    def rows_by_sum(self) -> Iterator[tuple[Hashable, np.ndarray]]:
        """Yield each sum with the indices of its rows."""
        labels, codes = np.unique(self.sums, return_inverse=True)
        for k, label in enumerate(labels.tolist()):
            yield label, np.flatnonzero(codes == k)

    def counts(self, codes: np.ndarray, rows: np.ndarray, *, n_bins: int) -> np.ndarray:
        """Return how many of some rows are in each bin of a column, (n_bins,).

        ``codes``, (n_rows,), has the bins of all rows.
        """
        codes_of_rows = codes[rows]
        if self.units is not None:
            pairs = np.column_stack([codes_of_rows, self.units[rows]])
            codes_of_rows = np.unique(pairs, axis=0)[:, 0]
        is_in_bin = codes_of_rows != _IN_NO_BIN
        return np.bincount(codes_of_rows[is_in_bin], minlength=n_bins)


@dataclass(eq=False)
class JoinedBins:
    """Which bins join which, as the rows of all parts of a table have it.

    Parts are read one after the other. What a step joins changes the rows that enter
    the steps behind it, so that these are counted in a later pass.
    """

    cell: int
    # By path of a step, sum and column: how many rows are in each bin, (n_bins,).
    _counts: dict[str, dict[tuple[Hashable, int], np.ndarray]] = field(
        default_factory=dict
    )
    # By the same, the bin that each joins, (n_bins,); only where some do.
    _joined: dict[str, dict[tuple[Hashable, int], np.ndarray]] = field(
        default_factory=dict
    )

    def is_settled(self, path: str) -> bool:
        """Report whether it is known which bins of a step join which."""
        return path in self._joined

    @property
    def has_joined(self) -> bool:
        """Report whether any bin joined another."""
        return any(self._joined.values())

    def add(self, path: str, bins: Bins, table: Table, cells: Cells) -> None:
        """Count the rows of a part that enter a step."""
        counts = self._counts.setdefault(path, {})
        codes = bins.codes(bins.values_in(table))
        for label, rows in cells.rows_by_sum():
            for j, edges in enumerate(bins.edges):
                n_bins = max(len(edges) - 1, 1)
                added = cells.counts(codes[:, j], rows, n_bins=n_bins)
                counts[label, j] = counts.get((label, j), 0) + added

    def settle(self) -> bool:
        """Find which bins join which; report whether any were counted."""
        was_counted = bool(self._counts)
        for path, counts in self._counts.items():
            self._joined[path] = {
                place: joined_bins(counts_of_bins, self.cell)
                for place, counts_of_bins in counts.items()
                if np.any((counts_of_bins > 0) & (counts_of_bins < self.cell))
            }
        self._counts = {}
        return was_counted

    def table(self, path: str, bins: Bins, table: Table, cells: Cells) -> Table:
        """Return rows that enter a step, with each value in a bin that is joined."""
        joined = self._joined[path]
        if not joined:
            return table
        values = bins.values_in(table)
        codes = bins.codes(values)
        for label, rows in cells.rows_by_sum():
            for j in range(len(bins.edges)):
                if (label, j) not in joined:
                    continue
                codes_of_rows = codes[rows, j]
                joined_codes = joined[label, j][codes_of_rows]
                moves = (codes_of_rows != joined_codes) & (codes_of_rows != _IN_NO_BIN)
                values[rows[moves], j] = bins.values_of(
                    j, joined_codes[moves], values.dtype
                )
        if hasattr(table, "columns"):
            return type(table)(values, index=table.index, columns=table.columns)
        return values


def joined_bins(counts: np.ndarray, cell: int) -> np.ndarray:
    """Return the bin that each bin joins, so that none has between 1 and cell - 1 rows.

    Neighbors join from the lowest on until they have ``cell`` rows together; what is
    left at the end joins the last. The bin with the most rows stands for them.

    Parameters
    ----------
    counts : ndarray of shape (n_bins,)

    Returns
    -------
    joined : ndarray of shape (n_bins,)
    """
    groups: list[list[int]] = [[]]
    n_rows = 0
    for bin_ in np.flatnonzero(counts):
        if n_rows >= cell:
            groups.append([])
            n_rows = 0
        groups[-1].append(bin_)
        n_rows += counts[bin_]
    if n_rows < cell and len(groups) > 1:
        last = groups.pop()
        groups[-1] += last
    joined = np.arange(len(counts))
    for group in groups:
        if group:
            joined[group] = group[np.argmax(counts[group])]
    return joined

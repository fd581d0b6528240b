"""The nodes' side of boosting: histograms of gradients, hessians and rows."""

import numpy as np

from ._bins import N_BINS
from ._forest import Forest, leaves_of
from ._gradients import (
    N_SUMS,
    add_values,
    n_outputs,
    roots_of_iteration,
    scaled_gradients,
)
from ._histograms import Asked

# Bins of a feature; the last one has the rows without a value.
_N_CELLS = N_BINS + 1
# Rows that are summed at once, which fit into a processor's cache. Float64 holds sums
# of gradients of up to 2^23 rows exactly: |gradient| <= 2^30, and 2^30 * 2^23 = 2^53.
_ROWS_AT_ONCE = 2**15
# Rows for each cell of two features together, from which on these are summed at once.
_LEAST_ROWS_A_PAIRED_CELL = 1.0


class BoostedRows:
    """A node's rows while trees are boosted on them.

    What is kept from one message to the next saves time only. A new object gives the
    same histograms, to the bit, whichever message it begins with. An object serves one
    growth of trees, whose messages come in their order.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_features)
        Bins, see `bin_codes`.
    labels : ndarray of int of shape (n_rows,)
        Index of each row's class, among those of all nodes.
    n_classes : int
        The number of classes of all nodes.
    """

    def __init__(
        self, codes: np.ndarray, labels: np.ndarray, *, n_classes: int
    ) -> None:
        self._codes = np.ascontiguousarray(codes)
        # By column: rows of one feature are read one after the other.
        self._columns = np.ascontiguousarray(self._codes.T)
        self._paired_columns = _paired(self._columns)
        self._labels = labels
        self._n_outputs = n_outputs(n_classes)
        self._raw: np.ndarray | None = None  # (n_outputs, n_rows)
        self._n_finished = 0
        self._start_iteration(first_tree=0)

    def histograms(
        self,
        asked: Asked,
        *,
        forest: Forest,
        values: np.ndarray,
        baseline: np.ndarray,
        n_finished: int,
    ) -> np.ndarray:
        """The histograms of what a `BoostedGrowth` asks; all else is its attributes.

        Parameters
        ----------
        asked : Asked
            Leaves of trees of one iteration, and all features for each.
        forest : Forest
        values : ndarray of shape (n_vertices,)
            Leaf values.
        baseline : ndarray of shape (n_outputs,)
        n_finished : int
            The number of trees before those of this iteration.

        Returns
        -------
        histograms : ndarray of int64 of shape (n_asked, n_features, N_BINS + 1, 3)
        """
        if n_finished < self._n_finished:
            raise ValueError(
                f"The first {self._n_finished} trees were finished in an earlier "
                f"message, {n_finished} in this one. Use an object for each growth."
            )
        if self._raw is None:
            self._raw = np.repeat(baseline[:, None], len(self._codes), axis=1)
        while self._n_finished < n_finished:
            leaves = leaves_of(self._codes, forest, start=self._leaves)
            add_values(self._raw, leaves, values)
            self._start_iteration(first_tree=self._n_finished + self._n_outputs)
        if self._gradients is None:
            self._gradients = scaled_gradients(self._raw, self._labels)
        self._leaves = leaves_of(self._codes, forest, start=self._leaves)
        gradients, hessians = self._gradients
        return _histograms(
            self._columns,
            self._paired_columns,
            gradients=gradients,
            hessians=hessians,
            leaves=self._leaves,
            asked_leaves=asked.leaves,
        )

    def _start_iteration(self, first_tree: int) -> None:
        """Rows are at the roots of the trees from this one on."""
        self._n_finished = first_tree
        self._leaves = roots_of_iteration(
            first_tree, n_rows=len(self._codes), n_trees=self._n_outputs
        )
        self._gradients: tuple[np.ndarray, np.ndarray] | None = None


def _paired(columns: np.ndarray) -> np.ndarray:
    """The bins of two features as one number: (ceil(n_features / 2), n_rows).

    One count by both bins gives the histograms of two features, as the sums over its
    lines and over its columns. The last feature of an odd number is alone.
    """
    paired = columns[::2] * np.uint16(_N_CELLS)
    paired[: len(columns) // 2] += columns[1::2]
    return paired


def _histograms(
    columns: np.ndarray,
    paired_columns: np.ndarray,
    *,
    gradients: np.ndarray,
    hessians: np.ndarray,
    leaves: np.ndarray,
    asked_leaves: np.ndarray,
) -> np.ndarray:
    """Those of the leaves that are asked, which are sorted by tree.

    Parameters
    ----------
    columns : ndarray of uint8 of shape (n_features, n_rows)
    paired_columns : ndarray of uint16 of shape (n_pairs, n_rows)
    gradients, hessians : ndarray of shape (n_outputs, n_rows)
        Whole numbers.
    leaves : ndarray of shape (n_rows, n_outputs)
    asked_leaves : ndarray of shape (n_asked,)
    """
    # Sides of pairs are features, so there may be one too many.
    n_sides = 2 * len(paired_columns)
    histograms = np.zeros((N_SUMS, len(asked_leaves), n_sides, _N_CELLS), np.int64)
    most_vertices = max(leaves.max(initial=0), asked_leaves.max(initial=0)) + 1
    place_of_vertex = np.full(most_vertices, -1)
    place_of_vertex[asked_leaves] = np.arange(len(asked_leaves))
    for output, first in np.ndindex(len(gradients), -(-len(leaves) // _ROWS_AT_ONCE)):
        block = slice(first * _ROWS_AT_ONCE, (first + 1) * _ROWS_AT_ONCE)
        places = place_of_vertex.take(leaves[block, output])
        rows = np.flatnonzero(places >= 0)
        if not len(rows):
            continue
        places = places.take(rows)
        # Leaves that are asked of a tree stand side by side.
        first_place = places.min()
        asked = slice(first_place, places.max() + 1)
        n_paired_cells = (asked.stop - asked.start) * _N_CELLS**2
        are_paired = len(rows) >= _LEAST_ROWS_A_PAIRED_CELL * n_paired_cells
        add_rows = _add_rows_of_pairs if are_paired else _add_rows
        add_rows(
            histograms[:, asked],
            places=places - first_place,
            columns=_taken_rows(paired_columns if are_paired else columns, block, rows),
            weights=(
                gradients[output, block].take(rows),
                hessians[output, block].take(rows),
                None,
            ),
        )
    return np.ascontiguousarray(np.moveaxis(histograms, 0, 3)[:, : len(columns)])


def _taken_rows(columns: np.ndarray, block: slice, rows: np.ndarray) -> np.ndarray:
    """Some rows of a block of all: (n_columns, n_rows)."""
    columns = columns[:, block]
    return columns if len(rows) == columns.shape[1] else columns.take(rows, axis=1)


def _add_rows(
    histograms: np.ndarray,
    *,
    places: np.ndarray,
    columns: np.ndarray,
    weights: tuple[np.ndarray | None, ...],
) -> None:
    """Add some rows to histograms of leaves, in place.

    Parameters
    ----------
    histograms : ndarray of shape (3, n_leaves, n_sides, N_BINS + 1)
    places : ndarray of int of shape (n_rows,)
        Index of the leaf of each row.
    columns : ndarray of shape (n_features, n_rows)
    weights : three ndarrays of shape (n_rows,), or None for 1
    """
    n_leaves = histograms.shape[1]
    offsets = places * _N_CELLS
    for feature, codes in enumerate(columns):
        cells = offsets + codes
        for kind, weight in enumerate(weights):
            sums = np.bincount(cells, weight, n_leaves * _N_CELLS)
            histograms[kind, :, feature] += sums.astype(np.int64).reshape(n_leaves, -1)


def _add_rows_of_pairs(
    histograms: np.ndarray,
    *,
    places: np.ndarray,
    columns: np.ndarray,
    weights: tuple[np.ndarray | None, ...],
) -> None:
    """As `_add_rows`, with the bins of two features in each column, see `_paired`."""
    n_leaves = histograms.shape[1]
    offsets = places * _N_CELLS**2
    for pair, codes in enumerate(columns):
        cells = offsets + codes
        for kind, weight in enumerate(weights):
            sums = np.bincount(cells, weight, n_leaves * _N_CELLS**2)
            by_both = sums.reshape(n_leaves, _N_CELLS, _N_CELLS)
            of_second = by_both.sum(axis=1).astype(np.int64)
            histograms[kind, :, 2 * pair] += by_both.sum(axis=2).astype(np.int64)
            histograms[kind, :, 2 * pair + 1] += of_second


def joined_histograms(histograms: np.ndarray, least: int) -> np.ndarray:
    """Histograms whose bins have no rows, or at least so many.

    From the first bin on, rows wait until there are enough of them. They are then put
    into the bin of the last of them. Rows that are left over at the end join the last
    such bin. Rows without a value are left out where they are too few, and so is a leaf
    that has too few rows.

    Parameters
    ----------
    histograms : ndarray of int64 of shape (n_asked, n_features, N_BINS + 1, 3)
        The last of the three numbers is that of rows.
    least : int
    """
    joined = np.zeros_like(histograms)
    waiting = np.zeros_like(histograms[:, :, 0])
    last_bin = np.full(waiting.shape[:2], -1)
    for bin in range(N_BINS):
        waiting += histograms[:, :, bin]
        is_enough = waiting[..., 2] >= least
        joined[is_enough, bin] = waiting[is_enough]
        waiting[is_enough] = 0
        last_bin[is_enough] = bin
    leaf, feature = np.nonzero(last_bin >= 0)
    joined[leaf, feature, last_bin[leaf, feature]] += waiting[leaf, feature]
    missing = histograms[:, :, N_BINS]
    joined[:, :, N_BINS] = np.where(missing[..., 2:] >= least, missing, 0)
    return joined

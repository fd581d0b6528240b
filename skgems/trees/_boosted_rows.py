"""The nodes' side of boosting: histograms of gradients, hessians and rows."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from ._bins import N_BINS, NUMBERS_IN_CACHE
from ._forest import Forest, leaves_of
from ._gradients import (
    N_SUMS,
    add_values,
    n_outputs,
    roots_of_iteration,
    scaled_gradients,
)
from ._histograms import Asked, places_of_vertices


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
        # Histograms of the numbers of rows of each block, by its first row.
        self._counts_of_all: dict[int, np.ndarray] = {}
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
            self._descend(forest)
            add_values(self._raw, self._leaves.T, values)
            self._start_iteration(first_tree=self._n_finished + self._n_outputs)
        if self._gradients is None:
            self._gradients = scaled_gradients(self._raw, self._labels)
        self._descend(forest)
        return self._sums_at(asked.leaves)

    def _start_iteration(self, first_tree: int) -> None:
        """Rows are at the roots of the trees from this one on."""
        self._n_finished = first_tree
        roots = roots_of_iteration(
            first_tree, n_rows=len(self._codes), n_trees=self._n_outputs
        )
        # By tree: rows of one are read one after the other.
        self._leaves = np.array(roots.T, order="C")  # (n_outputs, n_rows)
        self._gradients: tuple[np.ndarray, np.ndarray] | None = None

    def _descend(self, forest: Forest) -> None:
        """Lead rows on to the leaves that they reach in the trees of the iteration."""
        for output, leaves in enumerate(self._leaves):
            reached = leaves_of(self._codes, forest, start=leaves[:, None])
            self._leaves[output] = reached[:, 0]

    def _sums_at(self, asked_leaves: np.ndarray) -> np.ndarray:
        """The histograms of the leaves that are asked, which are sorted by tree."""
        n_features, n_rows = self._columns.shape
        histograms = np.zeros(
            (N_SUMS, len(asked_leaves), n_features, N_BINS + 1), np.int64
        )
        place_of_vertex = places_of_vertices(self._leaves, asked_leaves)
        # Float64 holds sums of gradients of up to 2^23 rows exactly, since these are at
        # most 2^30 and 2^30 * 2^23 = 2^53.
        n_blocks = -(-n_rows // NUMBERS_IN_CACHE)
        for output, number in product(range(self._n_outputs), range(n_blocks)):
            block = slice(number * NUMBERS_IN_CACHE, (number + 1) * NUMBERS_IN_CACHE)
            asked = _AskedRows.from_places(
                place_of_vertex.take(self._leaves[output, block])
            )
            if asked is not None:
                histograms[:, asked.leaves] += self._sums_of_block(output, block, asked)
        return np.moveaxis(histograms, 0, 3)

    def _sums_of_block(
        self, output: int, block: slice, asked: "_AskedRows"
    ) -> np.ndarray:
        """Sums over rows of a block: (3, n_leaves, n_features, N_BINS + 1)."""
        gradients, hessians = self._gradients
        weights = [
            gradients[output, block].take(asked.rows),
            hessians[output, block].take(asked.rows),
            None,
        ]
        n_rows_of_block = len(self._codes[block])
        is_all = asked.n_leaves == 1 and len(asked.rows) == n_rows_of_block
        if is_all and block.start in self._counts_of_all:
            weights.pop()  # the same in each tree, and counted before
        if asked.are_paired():
            columns = _taken_rows(self._paired_columns, block, asked.rows)
            sum_rows = _sums_of_paired_rows
        else:
            columns = _taken_rows(self._columns, block, asked.rows)
            sum_rows = _sums_of_rows
        sums = sum_rows(columns, asked.places, weights, n_leaves=asked.n_leaves)
        sums = sums[:, :, : len(self._columns)].astype(np.int64)
        if not is_all:
            return sums
        counts = self._counts_of_all.setdefault(block.start, sums[2:])
        return np.concatenate([sums[:2], counts])


def _paired(columns: np.ndarray) -> np.ndarray:
    """The bins of two features as one number: (ceil(n_features / 2), n_rows).

    One count by both bins gives the histograms of two features, as the sums over its
    lines and over its columns. The last feature of an odd number is alone.
    """
    paired = columns[::2] * np.uint16(N_BINS + 1)
    paired[: len(columns) // 2] += columns[1::2]
    return paired


@dataclass(frozen=True, eq=False, kw_only=True)
class _AskedRows:
    """Rows of a block that are at leaves which are asked of one tree.

    Leaves that are asked of a tree stand side by side.
    """

    leaves: slice  # of those that are asked
    rows: np.ndarray  # (n_asked_rows,), indices within the block
    places: np.ndarray  # (n_asked_rows,), indices of leaves within the slice

    @classmethod
    def from_places(cls, places: np.ndarray) -> "_AskedRows | None":
        """Keep rows of asked leaves; ``places`` are their indices, -1: not asked."""
        rows = np.flatnonzero(places >= 0)
        if not len(rows):
            return None
        places = places.take(rows)
        first_place = places.min()
        return cls(
            leaves=slice(first_place, places.max() + 1),
            rows=rows,
            places=places - first_place,
        )

    @property
    def n_leaves(self) -> int:
        return self.leaves.stop - self.leaves.start

    def are_paired(self) -> bool:
        """Report whether two features are summed at once."""
        n_paired_cells = self.n_leaves * (N_BINS + 1) ** 2
        return len(self.rows) >= n_paired_cells


def _taken_rows(columns: np.ndarray, block: slice, rows: np.ndarray) -> np.ndarray:
    """Return some rows of a block of all: (n_columns, n_rows)."""
    columns = columns[:, block]
    return columns if len(rows) == columns.shape[1] else columns.take(rows, axis=1)


def _sums_of_rows(
    columns: np.ndarray, places: np.ndarray, weights: list, *, n_leaves: int
) -> np.ndarray:
    """Sums of weights by leaf, feature and bin, as whole numbers in float64.

    Parameters
    ----------
    columns : ndarray of shape (n_features, n_rows)
    places : ndarray of int of shape (n_rows,)
        Index of the leaf of each row.
    weights : list of ndarrays of shape (n_rows,), or None for 1

    Returns
    -------
    sums : ndarray of shape (n_weights, n_leaves, n_features, N_BINS + 1)
    """
    n_features, n_rows = columns.shape
    sums = np.empty((len(weights), n_leaves, n_features, N_BINS + 1))
    offsets = places * (N_BINS + 1)
    n_cells = n_leaves * (N_BINS + 1)
    # Few rows are summed for many features at once.
    n_at_once = max(1, NUMBERS_IN_CACHE // max(1, n_rows))
    for first in range(0, n_features, n_at_once):
        some = columns[first : first + n_at_once]
        starts = n_cells * np.arange(len(some))
        cells = (some + (offsets + starts[:, None])).ravel()
        for kind, weight in enumerate(weights):
            if weight is not None:
                weight = np.broadcast_to(weight, some.shape).ravel()
            counted = np.bincount(cells, weight, n_cells * len(some))
            by_feature = counted.reshape(len(some), n_leaves, N_BINS + 1)
            sums[kind, :, first : first + n_at_once] = by_feature.swapaxes(0, 1)
    return sums


def _sums_of_paired_rows(
    columns: np.ndarray, places: np.ndarray, weights: list, *, n_leaves: int
) -> np.ndarray:
    """Compute `_sums_of_rows` of columns with the bins of two features, see `_paired`.

    There may be one feature too many.
    """
    sums = np.empty((len(weights), n_leaves, 2 * len(columns), N_BINS + 1))
    offsets = places * (N_BINS + 1) ** 2
    n_cells = n_leaves * (N_BINS + 1) ** 2
    ones = np.ones(N_BINS + 1)
    for pair, codes in enumerate(columns):
        cells = offsets + codes
        for kind, weight in enumerate(weights):
            counted = np.bincount(cells, weight, n_cells)
            by_both = counted.reshape(n_leaves, N_BINS + 1, N_BINS + 1)
            # Products are quicker than sums over an axis, and as exact.
            sums[kind, :, 2 * pair] = by_both @ ones
            sums[kind, :, 2 * pair + 1] = ones @ by_both
    return sums


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

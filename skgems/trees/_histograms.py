"""Histograms of leaves: how many rows of each class lie in each bin of a feature.

Deep trees have many leaves of few rows each, so that nearly all cells of the histograms
are zero. Nodes therefore count and send the cells that hold rows (`Cells`).
"""

from dataclasses import dataclass

import numpy as np

from ._bins import N_BINS, NUMBERS_AT_ONCE

# The largest weight of a row in a bootstrap sample, of the type of weights.
_MOST_WEIGHT = np.iinfo(np.uint8).max
# Types of histograms that are summed over nodes. Most counts are small, and the largest
# histograms are as fast as memory is.
TYPES_OF_COUNTS = (np.int16, np.int32, np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Asked:
    """The leaves that histograms are asked of, and the features for each."""

    leaves: np.ndarray  # (n_asked,), int32, sorted by tree
    features: np.ndarray  # (n_asked, n_drawn), int32, sorted in each line

    def shape(self, n_classes: int) -> tuple[int, int, int, int]:
        """Return the histograms' shape: leaf, feature, bin (last: missing), class."""
        return (*self.features.shape, N_BINS + 1, n_classes)


@dataclass(frozen=True, eq=False, kw_only=True)
class Cells:
    """The cells of histograms that hold rows; all others are zero."""

    indices: np.ndarray  # (n_cells,), int64, sorted: in the flat histograms
    counts: np.ndarray  # (n_cells,), int64

    @classmethod
    def from_histograms(cls, histograms: np.ndarray) -> "Cells":
        """Keep the cells of histograms, of any shape, that are not zero."""
        flat = histograms.ravel()
        indices = np.flatnonzero(flat != 0)  # twice as fast as of the numbers
        return cls(indices=indices, counts=flat[indices].astype(np.int64, copy=False))

    @classmethod
    def side_by_side(cls, parts: "list[Cells]") -> "Cells":
        """Concatenate the cells of parts, each of which follows the one before."""
        if not parts:
            return cls.from_histograms(np.zeros(0, dtype=np.int64))
        return cls(
            indices=np.concatenate([part.indices for part in parts]),
            counts=np.concatenate([part.counts for part in parts]),
        )

    def select_range(self, first: int, last: int) -> "Cells":
        """Return the cells from one index up to another, counted from the first."""
        start, stop = np.searchsorted(self.indices, [first, last])
        return Cells(
            indices=self.indices[start:stop] - first, counts=self.counts[start:stop]
        )

    def shifted(self, first: int) -> "Cells":
        """Return these cells with so many cells in front of them."""
        return Cells(indices=self.indices + first, counts=self.counts)

    def added_to(self, histograms: np.ndarray) -> np.ndarray:
        """Histograms, which are contiguous, with these added: in place, if they fit.

        Otherwise they are a copy of a larger type.
        """
        sums = histograms.reshape(-1)[self.indices] + self.counts
        dtype = np.promote_types(histograms.dtype, _smallest_type(sums.max(initial=0)))
        histograms = histograms.astype(dtype, copy=False)
        histograms.reshape(-1)[self.indices] = sums
        return histograms


def _smallest_type(largest: int) -> np.dtype:
    """The first type of histograms that holds a number."""
    fitting = (d for d in TYPES_OF_COUNTS if largest <= np.iinfo(d).max)
    return np.dtype(next(fitting))


def class_cells(
    codes: np.ndarray,
    labels: np.ndarray,
    leaves: np.ndarray,
    asked: Asked,
    *,
    n_classes: int,
    weights: np.ndarray | None = None,
) -> Cells:
    """The cells of `class_histograms` that hold rows; the parameters are the same."""
    n_rows, n_trees = leaves.shape
    n_drawn = asked.features.shape[1]
    n_cells = np.prod(asked.shape(n_classes), dtype=np.int64)
    if n_cells <= n_rows * n_trees * n_drawn:  # of few leaves most cells hold rows
        return Cells.from_histograms(
            class_histograms(
                codes, labels, leaves, asked, n_classes=n_classes, weights=weights
            )
        )
    place_of_vertex = places_of_vertices(leaves, asked.leaves)
    trees_at_once = max(1, NUMBERS_AT_ONCE // max(1, n_rows * n_drawn))
    parts = []
    # Leaves that are asked of one tree stand side by side, before those of the next.
    for first in range(0, n_trees, trees_at_once):
        trees = slice(first, first + trees_at_once)
        parts.append(
            _sorted_cells(
                codes,
                labels,
                place_of_vertex.take(leaves[:, trees]),
                asked,
                n_classes=n_classes,
                weights=None if weights is None else weights[:, trees],
            )
        )
    return Cells.side_by_side(parts)


def _sorted_cells(
    codes: np.ndarray,
    labels: np.ndarray,
    places: np.ndarray,  # (n_rows, n_trees), of rows among the leaves; -1: none of them
    asked: Asked,
    *,
    n_classes: int,
    weights: np.ndarray | None,
) -> Cells:
    """The cells of some trees that hold rows, which are found by sorting."""
    is_counted = places >= 0
    if weights is not None:
        is_counted &= weights > 0
    # Four times as fast as np.nonzero.
    rows, trees = np.unravel_index(np.flatnonzero(is_counted), is_counted.shape)
    places = places[rows, trees]
    features = asked.features.take(places, axis=0)
    n_drawn = features.shape[1]
    # Where the cell of a row stands: by leaf, feature, bin and class.
    keys = places[:, None] * n_drawn + np.arange(n_drawn)
    keys *= N_BINS + 1
    keys += codes[rows[:, None], features]
    keys *= n_classes
    keys += labels.take(rows)[:, None]
    n_bits = 0
    if weights is not None:  # they stand in the last bits of keys, and are sorted along
        n_bits = int(weights.max(initial=0)).bit_length()
        keys <<= n_bits
        keys += weights[rows, trees][:, None]
    keys = np.sort(keys, axis=None)
    cells = keys >> n_bits
    first = np.flatnonzero(np.diff(cells, prepend=-1))
    if weights is None:
        counts = np.diff(first, append=len(cells))
    else:
        is_there = len(keys) > 0  # reduceat takes no empty arrays
        sorted_weights = keys & ((1 << n_bits) - 1)
        counts = np.add.reduceat(sorted_weights, first) if is_there else sorted_weights
    return Cells(indices=cells[first], counts=counts)


def places_of_vertices(leaves: np.ndarray, asked_leaves: np.ndarray) -> np.ndarray:
    """The place of each vertex among the leaves that are asked about; -1: none.

    There are as many as needed for ``leaves``, those of rows, of any shape.
    """
    n_vertices = max(leaves.max(initial=0), asked_leaves.max(initial=0)) + 1
    places = np.full(n_vertices, -1)
    places[asked_leaves] = np.arange(len(asked_leaves))
    return places


def class_histograms(
    codes: np.ndarray,
    labels: np.ndarray,
    leaves: np.ndarray,
    asked: Asked,
    *,
    n_classes: int,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Count the rows of the leaves in each bin, by class.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_features)
        Bins of the rows.
    labels : ndarray of int of shape (n_rows,)
        Index of each row's class.
    leaves : ndarray of shape (n_rows, n_trees)
        The leaf of each row in each tree.
    asked : Asked
    n_classes : int
    weights : ndarray of int of shape (n_rows, n_trees), default=None
        How often each tree counts each row. None: once.

    Returns
    -------
    histograms : ndarray of int64 of shape (n_asked, n_drawn, N_BINS + 1, n_classes)
    """
    shape = asked.shape(n_classes)
    histograms = np.zeros(shape, dtype=np.int64)
    if not len(asked.leaves):
        return histograms
    place_of_vertex = places_of_vertices(leaves, asked.leaves)
    n_cells_a_leaf = (N_BINS + 1) * n_classes
    n_features = codes.shape[1]
    flat_codes = codes.ravel()
    for tree in range(leaves.shape[1]):
        places = place_of_vertex.take(leaves[:, tree])
        rows = np.flatnonzero(places >= 0)
        if not len(rows):
            continue
        # The leaves that are asked of one tree stand side by side.
        places = places.take(rows)
        first = places.min()
        places -= first
        n_places = places.max() + 1
        tree_weights = None
        if weights is not None:
            tree_weights = weights[rows, tree].astype(np.float64)
        first_codes = rows * n_features
        first_cells = places * n_cells_a_leaf + labels.take(rows)
        features = asked.features[first : first + n_places].astype(np.intp)
        for drawn in range(shape[1]):
            values = flat_codes.take(first_codes + features[:, drawn].take(places))
            cells = first_cells + values.astype(np.intp) * n_classes
            counts = np.bincount(cells, tree_weights, n_places * n_cells_a_leaf)
            # Whole numbers, which float64 holds exactly.
            np.add(
                histograms[first : first + n_places, drawn],
                counts.reshape(n_places, N_BINS + 1, n_classes),
                out=histograms[first : first + n_places, drawn],
                casting="unsafe",
            )
    return histograms


def rounded_histograms(histograms: np.ndarray, step: int) -> np.ndarray:
    """Histograms whose counts up to each bin are multiples of a number of rows.

    Rows by class are rounded at each edge, and not in each cell. So an error at an edge
    is half a step at most, however many bins there are. The rows on either side of a
    split are those that the children are told to have.
    """
    up_to_bin = np.cumsum(histograms, axis=2)
    rounded = np.rint(up_to_bin / step).astype(np.int64) * step
    return np.diff(rounded, axis=2, prepend=0)


def rounded_cells(cells: Cells, shape: tuple[int, int, int, int], step: int) -> Cells:
    """The cells of `rounded_histograms` that hold rows, of histograms of a shape."""
    n_leaves, *shape_of_leaf = shape
    n_cells_a_leaf = int(np.prod(shape_of_leaf, dtype=np.int64))
    leaves_at_once = max(1, NUMBERS_AT_ONCE // max(1, n_cells_a_leaf))
    parts = []
    for first in range(0, n_leaves, leaves_at_once):
        last = min(first + leaves_at_once, n_leaves)
        histograms = np.zeros((last - first, *shape_of_leaf), dtype=np.int64)
        first_cell = first * n_cells_a_leaf
        cells_of_block = cells.select_range(first_cell, last * n_cells_a_leaf)
        histograms = cells_of_block.added_to(histograms)
        rounded = Cells.from_histograms(rounded_histograms(histograms, step))
        parts.append(rounded.shifted(first_cell))
    return Cells.side_by_side(parts)


def bootstrap_weights(n_rows: int, n_trees: int, secret: bytes) -> np.ndarray:
    """Draw how often each tree counts each row, as with replacement.

    Weights are Poisson with mean 1, which is what draws of as many rows as there are
    give each row, nearly. They follow from the secret alone, so that a node that is
    asked again draws the same rows: from two samples a server would learn more.

    Returns
    -------
    weights : ndarray of uint8 of shape (n_rows, n_trees)
    """
    seed = np.frombuffer(secret, dtype=np.uint32)
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed.tolist())))
    weights = np.empty((n_trees, n_rows), dtype=np.uint8)
    for tree in range(n_trees):  # so that the first trees are the same of more trees
        weights[tree] = np.minimum(rng.poisson(1.0, n_rows), _MOST_WEIGHT)
    return np.ascontiguousarray(weights.T)

"""Histograms of leaves: how many rows of each class lie in each bin of a feature."""

from dataclasses import dataclass

import numpy as np

from ._bins import N_BINS

# The largest weight of a row in a bootstrap sample: of 1e9 rows one has more.
_MOST_WEIGHT = 12


@dataclass(frozen=True, eq=False, kw_only=True)
class Asked:
    """The leaves that histograms are asked of, and the features for each."""

    leaves: np.ndarray  # (n_asked,), int32, sorted by tree
    features: np.ndarray  # (n_asked, n_drawn), int32, sorted in each line

    def shape(self, n_classes: int) -> tuple[int, int, int, int]:
        """That of the histograms: leaf, feature, bin (the last: missing), class."""
        return (*self.features.shape, N_BINS + 1, n_classes)


def class_histograms(
    codes: np.ndarray,
    labels: np.ndarray,
    leaves: np.ndarray,
    asked: Asked,
    *,
    n_classes: int,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """How many rows of the leaves lie in which bin, by class.

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
    place_of_vertex = np.full(max(leaves.max(initial=0), asked.leaves.max()) + 1, -1)
    place_of_vertex[asked.leaves] = np.arange(len(asked.leaves))
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


def bootstrap_weights(n_rows: int, n_trees: int, secret: bytes) -> np.ndarray:
    """How often each tree counts each row, as if rows were drawn with replacement.

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

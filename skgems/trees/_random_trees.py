"""Totally random trees: their splits are drawn from a seed, before any row is seen.

Each leaf draws one feature and one edge of its bins. Columns are supposed to be about
standard normal, so the edge is drawn where it parts the probability that the leaf still
has in this feature: between 20 and 80 percent of it. All trees have all their levels,
so that a leaf is known by its tree and its place: of the two children of a vertex, the
left one has all its leaves before those of the right one.

Nodes and server draw the same trees on any machine: the stream of numpy's RandomState
is fixed, and probabilities are whole numbers.
"""

import numpy as np
from scipy.special import ndtr

from ._bins import N_BINS, upper_edges
from ._forest import Forest, leaves_of
from ._rules import weights_of_classes

# Shares of the probability of a leaf that lie on the left of an edge. Trees of more
# unequal children need more levels; those of equal ones are too much alike.
_SHARES_ON_THE_LEFT = (0.2, 0.8)
# Probabilities of bins are counted in parts of this number.
_PROBABILITY = 1_000_000


def _probability_up_to_bin() -> np.ndarray:
    """Whole numbers: before each bin, and after the last: (N_BINS + 1,).

    Bins far from the mean have one part, so that each edge can be drawn.
    """
    probability = np.diff(ndtr(upper_edges()), prepend=0.0)
    parts = np.maximum(np.rint(_PROBABILITY * probability), 1).astype(np.int64)
    return np.concatenate([[0], np.cumsum(parts)])


def random_forest(
    *, n_trees: int, max_depth: int, n_features: int, random_state: int
) -> Forest:
    """Trees that nobody has chosen.

    The vertices of one level follow those of the level before, tree by tree and from
    the left to the right. The first trees are the same of more trees. Where a leaf has
    one bin of each feature left, all its rows go on to the left.
    """
    rng = np.random.RandomState(random_state)
    drawn = [_drawn_tree(max_depth, n_features, rng) for _ in range(n_trees)]
    n_leaves = n_trees * 2**max_depth
    n_split = n_trees * (2**max_depth - 1)
    leaf = np.full(n_leaves, -1, dtype=np.int32)
    columns = []  # feature, bin and side of missing values, of all vertices by level
    for k in range(3):
        by_level = [
            np.concatenate([levels[k][level] for levels in drawn])
            for level in range(max_depth)
        ]
        columns.append(np.concatenate(by_level))
    feature, bin, missing_left = columns
    # The children of all vertices follow the roots, in the order of their parents.
    left = n_trees + 2 * np.arange(n_split, dtype=np.int32)
    return Forest(
        n_trees=n_trees,
        feature=np.concatenate([feature.astype(np.int32), leaf]),
        bin=np.concatenate([bin.astype(np.int32), np.zeros(n_leaves, np.int32)]),
        missing_left=np.concatenate([missing_left, np.zeros(n_leaves, bool)]),
        left=np.concatenate([left, leaf]),
    )


def _drawn_tree(
    max_depth: int, n_features: int, rng: np.random.RandomState
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Feature, bin and side of missing values, for the vertices of each level."""
    up_to_bin = _probability_up_to_bin()
    # The first and the last bin of each feature that rows of a vertex may have, and how
    # many features have more than one.
    first = np.zeros((1, n_features), dtype=np.int8)
    last = np.full((1, n_features), N_BINS - 1, dtype=np.int8)
    n_available = np.array([n_features])
    features = []
    bins = []
    missing_left = []
    for level in range(max_depth):
        vertex = np.arange(2**level)
        uniform = rng.random_sample((3, len(vertex)))
        feature = (uniform[0] * n_available).astype(np.intp)
        has_fewer = np.flatnonzero(n_available < n_features)
        is_available = first[has_fewer] < last[has_fewer]
        n_up_to_feature = np.cumsum(is_available, axis=1)
        is_drawn = n_up_to_feature > feature[has_fewer, None]
        feature[has_fewer] = is_drawn.argmax(axis=1)
        lowest = first[vertex, feature].astype(np.intp)
        highest = last[vertex, feature].astype(np.intp)
        bin = _drawn_bins(lowest, highest, uniform[1], up_to_bin)
        is_left_over = n_available == 0
        bin[is_left_over] = N_BINS - 1
        features.append(feature)
        bins.append(bin)
        missing_left.append((uniform[2] < 0.5) | is_left_over)
        has_one_bin = np.stack([bin == lowest, bin + 1 == highest], axis=1)
        has_one_bin &= ~is_left_over[:, None]
        n_available = np.repeat(n_available, 2) - has_one_bin.ravel()
        first = np.repeat(first, 2, axis=0)
        last = np.repeat(last, 2, axis=0)
        is_split = ~is_left_over
        last[2 * vertex[is_split], feature[is_split]] = bin[is_split]
        first[2 * vertex[is_split] + 1, feature[is_split]] = bin[is_split] + 1
    return features, bins, missing_left


def _drawn_bins(
    lowest: np.ndarray, highest: np.ndarray, uniform: np.ndarray, up_to_bin: np.ndarray
) -> np.ndarray:
    """The last bin on the left, of vertices with these bins: (n_vertices,).

    ``uniform`` are numbers between 0 and 1, which draw a share of the probability; the
    edge that is the nearest to it is taken.
    """
    least, most = _SHARES_ON_THE_LEFT
    before = up_to_bin[lowest]
    probability = up_to_bin[highest + 1] - before
    share = least + (most - least) * uniform
    drawn = before + np.floor(share * probability).astype(np.int64)
    bin = np.searchsorted(up_to_bin, drawn, side="right") - 1
    is_nearer_below = drawn - up_to_bin[bin] < up_to_bin[bin + 1] - drawn
    bin -= is_nearer_below
    return np.clip(bin, lowest, np.maximum(highest - 1, lowest))


def leaf_counts(
    codes: np.ndarray, labels: np.ndarray, forest: Forest, *, n_classes: int
) -> np.ndarray:
    """Count the rows of each class in each leaf of a `random_forest`.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_features)
        Bins, see `bin_codes`.
    labels : ndarray of int of shape (n_rows,)
        Index of each row's class.
    forest : Forest
    n_classes : int

    Returns
    -------
    counts : ndarray of int32 of shape (n_trees, n_leaves, n_classes)
    """
    n_leaves = int(np.count_nonzero(forest.feature < 0)) // forest.n_trees
    first_leaf = forest.n_vertices - n_leaves * forest.n_trees
    leaves = leaves_of(codes, forest) - first_leaf
    shape = (forest.n_trees, n_leaves, n_classes)
    counts = np.empty(shape, dtype=np.int32)
    for tree, counts_of_tree in enumerate(counts):
        places = leaves[:, tree].astype(np.intp) - tree * n_leaves
        cells = places * n_classes + labels
        counts_of_tree[:] = np.bincount(cells, minlength=n_leaves * n_classes).reshape(
            n_leaves, n_classes
        )
    return counts


def rounded_leaf_counts(counts: np.ndarray, step: int) -> np.ndarray:
    """Counts of leaves that are multiples of a number of rows.

    The rows of a class up to each leaf, from the left to the right, are rounded. The
    leaves below a vertex stand side by side, so that the rows of each vertex are wrong
    by a step at most, however many leaves it has.
    """
    rounded = np.empty_like(counts)
    for tree, counts_of_tree in enumerate(counts):  # which takes less memory
        up_to_leaf = np.rint(np.cumsum(counts_of_tree, axis=0) / step) * step
        rounded[tree] = np.diff(up_to_leaf, axis=0, prepend=0)
    return rounded


class RandomTrees:
    """The trees of a `random_forest` that rows have been counted in, as they predict.

    A split that sends all rows to one side is left out, and so is one that leaves too
    few rows on a side, with all that is below it. Rows of one class are not split.

    Parameters
    ----------
    forest : Forest
        All levels of all trees.
    counts : ndarray of int of shape (n_trees, n_leaves, n_classes)
        Rows of all nodes by class, in each leaf.
    n_features : int
    min_samples_split, min_samples_leaf : int
        The fewest rows of a vertex that is split, and of either side.
    class_weights : ndarray of shape (n_classes,), "balanced" or None, default=None
        What counts of classes are multiplied by in predictions; None: 1.

    Attributes
    ----------
    forest : Forest
    counts : ndarray of int of shape (n_vertices, n_classes)
        Rows by class at each vertex.
    """

    def __init__(
        self,
        forest: Forest,
        counts: np.ndarray,
        *,
        n_features: int,
        min_samples_split: int = 2,
        min_samples_leaf: int = 1,
        class_weights: "np.ndarray | str | None" = None,
    ) -> None:
        self.n_features = n_features
        self.class_weights = class_weights
        complete_counts = _counts_of_vertices(counts)
        passed_on = _past_empty_sides(forest, complete_counts.sum(axis=1))
        grown = Forest.unsplit(forest.n_trees)
        # The vertex of the complete trees that each vertex stands for.
        origin = passed_on[: forest.n_trees]
        new_vertices = np.arange(forest.n_trees)
        depths = [np.zeros(forest.n_trees, dtype=np.int32)]
        trees = [np.arange(forest.n_trees)]
        origins = [origin]
        while len(new_vertices):
            is_split = _are_split(
                origin,
                forest=forest,
                counts=complete_counts,
                min_samples_split=min_samples_split,
                min_samples_leaf=min_samples_leaf,
            )
            parents = origin[is_split]
            n_before = grown.n_vertices
            grown = grown.split(
                new_vertices[is_split],
                feature=forest.feature[parents],
                bin=forest.bin[parents],
                missing_left=forest.missing_left[parents],
            )
            children = np.stack([forest.left[parents], forest.left[parents] + 1], 1)
            origin = passed_on[children.ravel()]
            new_vertices = np.arange(n_before, grown.n_vertices)
            depths.append(np.repeat(depths[-1][is_split] + 1, 2))
            trees.append(np.repeat(trees[-1][is_split], 2))
            origins.append(origin)
        self.forest = grown
        self.counts = complete_counts[np.concatenate(origins)]
        self._depths = np.concatenate(depths)
        self._trees = np.concatenate(trees)

    @property
    def class_weights_in_use(self) -> np.ndarray:
        """Return the weights of classes, which multiply counts: (n_classes,)."""
        return weights_of_classes(
            self.class_weights, self.counts[: self.forest.n_trees].sum(axis=0)
        )

    def vertices_of(self, tree: int) -> np.ndarray:
        """Indices of the vertices of a tree, sorted; the root comes first."""
        return np.flatnonzero(self._trees == tree)

    def depths_of(self, vertices: np.ndarray) -> np.ndarray:
        """Return how many splits lead to each of some vertices: (n_vertices,)."""
        return self._depths[vertices]


def _counts_of_vertices(counts: np.ndarray) -> np.ndarray:
    """Rows by class at all vertices of complete trees: (n_vertices, n_classes)."""
    n_trees, n_leaves, n_classes = counts.shape
    n_vertices = n_trees * (2 * n_leaves - 1)
    of_vertices = np.empty((n_vertices, n_classes), dtype=counts.dtype)
    last = n_vertices
    while counts.shape[1] > 1:
        first = last - n_trees * counts.shape[1]
        of_vertices[first:last] = counts.reshape(-1, n_classes)
        last = first
        counts = counts[:, 0::2] + counts[:, 1::2]
    of_vertices[:last] = counts[:, 0]
    return of_vertices


def _are_split(
    vertices: np.ndarray,
    *,
    forest: Forest,
    counts: np.ndarray,
    min_samples_split: int,
    min_samples_leaf: int,
) -> np.ndarray:
    """Report which vertices have enough rows, of several classes: (n_some,), bool.

    ``counts`` is (n_vertices, n_classes).
    """
    is_mixed = np.count_nonzero(counts[vertices], axis=1) > 1
    has_rows = counts[vertices].sum(axis=1) >= min_samples_split
    is_split = (forest.feature[vertices] >= 0) & is_mixed & has_rows
    left = forest.left[vertices]
    for side in (left, left + 1):
        is_split &= counts[side].sum(axis=1) >= min_samples_leaf  # any, of a leaf
    return is_split


def _past_empty_sides(forest: Forest, n_rows: np.ndarray) -> np.ndarray:
    """The first vertex from each on that has rows on both sides, or is a leaf."""
    passed_on = np.arange(forest.n_vertices)
    for vertices in reversed(list(forest.levels())):
        split = vertices[forest.feature[vertices] >= 0]
        left = forest.left[split]
        is_empty_left = n_rows[left] == 0
        is_empty = is_empty_left | (n_rows[left + 1] == 0)
        only_side = (left + is_empty_left)[is_empty]
        passed_on[split[is_empty]] = passed_on[only_side]
    return passed_on

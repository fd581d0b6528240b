"""Several trees as arrays, and the leaf that each row reaches in each of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from ._bins import N_BINS, NUMBERS_IN_CACHE


@dataclass(frozen=True, eq=False, kw_only=True)
class Forest:
    """Trees that split rows by their bins.

    The roots are the first ``n_trees`` vertices; children follow their parents. A
    vertex without a split is a leaf.
    """

    n_trees: int
    feature: np.ndarray  # (n_vertices,), int32; -1: a leaf
    bin: np.ndarray  # (n_vertices,), int32; rows of bins up to it go left
    missing_left: np.ndarray  # (n_vertices,), bool; whether rows without value do
    left: np.ndarray  # (n_vertices,), int32; the right child is the next vertex

    @classmethod
    def unsplit(cls, n_trees: int) -> "Forest":
        """Make trees that have not been split."""
        return cls(
            n_trees=n_trees,
            feature=np.full(n_trees, -1, dtype=np.int32),
            bin=np.zeros(n_trees, dtype=np.int32),
            missing_left=np.zeros(n_trees, dtype=bool),
            left=np.full(n_trees, -1, dtype=np.int32),
        )

    @property
    def n_vertices(self) -> int:
        return len(self.feature)

    @classmethod
    def from_content(cls, content: Mapping) -> "Forest":
        """The trees that fields of a message hold, among others."""
        return cls(**{field.name: content[field.name] for field in fields(cls)})

    @cached_property
    def is_split(self) -> np.ndarray:
        """Report which vertices are no leaves: (n_vertices,)."""
        return self.feature >= 0

    def as_content(self) -> dict[str, object]:
        """The fields of a message that hold these trees."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def levels(self) -> Iterator[np.ndarray]:
        """The vertices of each level, from the roots on."""
        vertices = np.arange(self.n_trees)
        while len(vertices):
            yield vertices
            parents = vertices[self.feature[vertices] >= 0]
            vertices = np.concatenate([self.left[parents], self.left[parents] + 1])

    @cached_property
    def trees(self) -> np.ndarray:
        """Return the tree of each vertex: (n_vertices,)."""
        trees = np.arange(self.n_vertices, dtype=np.int32)
        for vertices in self.levels():
            parents = vertices[self.feature[vertices] >= 0]
            trees[self.left[parents]] = trees[parents]
            trees[self.left[parents] + 1] = trees[parents]
        return trees

    def depth(self) -> int:
        """Return the number of splits that lead to the deepest leaf."""
        return sum(1 for _ in self.levels()) - 1

    def split(
        self,
        vertices: np.ndarray,
        *,
        feature: np.ndarray,
        bin: np.ndarray,
        missing_left: np.ndarray,
    ) -> "Forest":
        """These trees with some leaves split; two children are added for each."""
        n_new = 2 * len(vertices)
        new_feature = np.concatenate([self.feature, np.full(n_new, -1, np.int32)])
        new_bin = np.concatenate([self.bin, np.zeros(n_new, np.int32)])
        new_missing_left = np.concatenate([self.missing_left, np.zeros(n_new, bool)])
        new_left = np.concatenate([self.left, np.full(n_new, -1, np.int32)])
        new_feature[vertices] = feature
        new_bin[vertices] = bin
        new_missing_left[vertices] = missing_left
        new_left[vertices] = self.n_vertices + 2 * np.arange(len(vertices))
        return Forest(
            n_trees=self.n_trees,
            feature=new_feature,
            bin=new_bin,
            missing_left=new_missing_left,
            left=new_left,
        )


def leaves_of(
    codes: np.ndarray, forest: Forest, *, start: np.ndarray | None = None
) -> np.ndarray:
    """The leaf that each row reaches in each tree.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_features)
        Bins, see `bin_codes`.
    forest : Forest
    start : ndarray of shape (n_rows, n_ways), default=None
        Vertices on the rows' ways, as those that they reached before leaves were split.
        They may be of some of the trees only. None: the roots of all trees.

    Returns
    -------
    leaves : ndarray of int32 of shape (n_rows, n_ways)
    """
    n_rows = len(codes)
    if start is None:
        roots = np.arange(forest.n_trees, dtype=np.int32)
        start = np.broadcast_to(roots, (n_rows, forest.n_trees))
    leaves = np.empty(start.shape, dtype=np.int32)
    rows_at_once = max(1, NUMBERS_IN_CACHE // max(1, start.shape[1]))
    for first in range(0, n_rows, rows_at_once):
        block = slice(first, first + rows_at_once)
        leaves[block] = _descended(codes[block], forest, start[block])
    return leaves


def mean_values(codes: np.ndarray, forest: Forest, values: np.ndarray) -> np.ndarray:
    """The mean over trees of what the leaves that rows reach have as values.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_features)
        Bins, see `bin_codes`.
    forest : Forest
    values : ndarray of shape (n_vertices, n_values)

    Returns
    -------
    means : ndarray of float64 of shape (n_rows, n_values)
    """
    leaves = leaves_of(codes, forest)
    sums = np.zeros((len(codes), values.shape[1]))
    for tree in range(forest.n_trees):
        sums += values[leaves[:, tree]]
    return sums / forest.n_trees


def _descended(codes: np.ndarray, forest: Forest, start: np.ndarray) -> np.ndarray:
    """The leaves of a block of rows; only those that are not there yet go on."""
    n_ways = start.shape[1]
    n_features = codes.shape[1]
    vertices = start.ravel().copy()
    is_split = forest.is_split
    moving = np.flatnonzero(is_split.take(vertices))
    at = vertices.take(moving)
    # Where the codes of each row stand that is on its way.
    first_codes = (moving if n_ways == 1 else moving // n_ways) * n_features
    flat_codes = codes.ravel()
    while len(moving):
        values = flat_codes.take(first_codes + forest.feature.take(at))
        goes_left = values <= forest.bin.take(at)
        is_missing = values == N_BINS
        if is_missing.any():
            goes_left[is_missing] = forest.missing_left[at[is_missing]]
        at = forest.left.take(at) + ~goes_left
        vertices[moving] = at
        goes_on = np.flatnonzero(is_split.take(at))
        moving = moving.take(goes_on)
        first_codes = first_codes.take(goes_on)
        at = at.take(goes_on)
    return vertices.reshape(start.shape)

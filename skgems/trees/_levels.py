"""What all trees have in common that grow by a level at a time.

The histogram of a leaf is the sum of those of its two children, so only the smaller of
two siblings is asked for, and the larger one has what their parent had less this.
"""

import numpy as np

from ._forest import Forest
from ._histograms import Asked

# Numbers in histograms that are kept of parents (1 GB); of more, both siblings are
# asked for.
_MOST_KEPT = 2**27


class LevelGrowth:
    """Trees that grow by a level at a time; what a leaf is split by is left open.

    Parameters
    ----------
    n_trees : int
    n_sums : int
        How many numbers each bin of a histogram holds.
    subtracts : bool
        Whether histograms of siblings add up to that of their parent: those of the same
        features of all leaves do.

    Attributes
    ----------
    forest : Forest
    n_messages : int
        How often histograms were taken.
    asked : Asked
    """

    asked: Asked

    def __init__(self, *, n_trees: int, n_sums: int, subtracts: bool) -> None:
        self.subtracts = subtracts
        self.forest = Forest.unsplit(n_trees)
        self.n_messages = 0
        # The numbers of a bin, summed over all rows of each vertex.
        self._sums = np.zeros((n_trees, n_sums), dtype=np.int64)
        self._depths = np.zeros(n_trees, dtype=np.int32)
        self._trees = np.arange(n_trees, dtype=np.int32)
        # Leaves of which the histograms are wanted, sorted.
        self._open = np.empty(0, dtype=np.int32)
        # Of the smaller of two siblings: the histograms of the parent, and the larger
        # one, whose histograms follow.
        self._parents: dict[int, np.ndarray] = {}
        self._larger: dict[int, int] = {}
        # Whether nodes have left since vertices got their sums.
        self._has_lost_nodes = False

    @property
    def is_open(self) -> bool:
        """Report whether histograms are wanted."""
        return len(self._open) > 0

    def vertices_of(self, tree: int) -> np.ndarray:
        """Indices of the vertices of a tree, sorted; the root comes first."""
        return np.flatnonzero(self._trees == tree)

    def depths_of(self, vertices: np.ndarray) -> np.ndarray:
        """Return how many splits lead to each of some vertices: (n_vertices,)."""
        return self._depths[vertices]

    @property
    def histogram_shape(self) -> tuple[int, int, int, int]:
        """Return the shape of the histograms that are asked for."""
        return self.asked.shape(self._sums.shape[1])

    def lose_nodes(self) -> None:
        """Note that nodes did not answer what is `asked`, before it is taken.

        Their rows are in the histograms of parents, from which nothing can be taken any
        more. So larger siblings wait, and are asked about themselves.
        """
        self._parents.clear()
        self._larger.clear()
        self._has_lost_nodes = True

    def n_rows_of(self, vertices: np.ndarray) -> np.ndarray:
        """The number of rows at some vertices, of any shape."""
        raise NotImplementedError

    def _may_split(self, vertices: np.ndarray) -> np.ndarray:
        """Report which vertices' histograms may show a split: (n_vertices,), bool."""
        raise NotImplementedError

    def _ask(self, leaves: np.ndarray, features: np.ndarray) -> None:
        """Ask about some leaves, but for larger siblings.

        Parameters
        ----------
        leaves : ndarray of int of shape (n_leaves,)
            Sorted.
        features : ndarray of int of shape (n_leaves, n_drawn)
        """
        self._open = leaves.astype(np.int32)
        is_asked = ~np.isin(self._open, list(self._larger.values()))
        asked_leaves = self._open[is_asked]
        by_tree = np.argsort(self._trees[asked_leaves], kind="stable")
        self.asked = Asked(
            leaves=asked_leaves[by_tree], features=features[is_asked][by_tree]
        )

    def _taken(self, histograms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all leaves that may be split, sorted, and their histograms.

        ``histograms`` are those of what was asked: (n_asked, n_drawn, N_BINS + 1,
        n_sums). Each call counts as a message.
        """
        self.n_messages += 1
        asked_leaves = self.asked.leaves
        # Rounded histograms may have other sums than the split that made a leaf.
        has_new_sums = (asked_leaves < self.forest.n_trees) | self._has_lost_nodes
        # Any feature has each row in one of its bins.
        self._sums[asked_leaves[has_new_sums]] = histograms[has_new_sums, 0].sum(axis=1)
        leaves = list(asked_leaves)
        parts = [histograms]
        for place, leaf in enumerate(asked_leaves.tolist()):
            if leaf in self._larger:
                leaves.append(self._larger.pop(leaf))
                parts.append((self._parents.pop(leaf) - histograms[place])[None])
        if len(parts) > 1:
            histograms = np.concatenate(parts)
        order = np.argsort(leaves)
        sorted_leaves = np.array(leaves, dtype=np.int32)[order]
        # A smaller sibling may have been asked for the sake of the larger one alone.
        may_split = self._may_split(sorted_leaves)
        if may_split.all() and (np.diff(order) > 0).all():
            return sorted_leaves, histograms  # which are large, and not copied
        return sorted_leaves[may_split], histograms[order[may_split]]

    def _waiting(self) -> np.ndarray:
        """Leaves that are open, but for which nothing was asked or kept: (n_waiting,).

        They are the larger siblings that `lose_nodes` has left over.
        """
        is_known = np.isin(self._open, self.asked.leaves)
        is_known |= np.isin(self._open, list(self._larger.values()))
        return self._open[~is_known]

    def _split(
        self,
        leaves: np.ndarray,
        *,
        feature: np.ndarray,
        bin: np.ndarray,
        missing_left: np.ndarray,
        left_sums: np.ndarray,
        right_sums: np.ndarray,
    ) -> np.ndarray:
        """Split leaves; their children, (n_split, 2)."""
        n_before = self.forest.n_vertices
        self.forest = self.forest.split(
            leaves, feature=feature, bin=bin, missing_left=missing_left
        )
        sums = np.stack([left_sums, right_sums], axis=1)
        self._sums = np.concatenate([self._sums, sums.reshape(-1, sums.shape[2])])
        self._depths = np.append(self._depths, np.repeat(self._depths[leaves] + 1, 2))
        self._trees = np.append(self._trees, np.repeat(self._trees[leaves], 2))
        return np.arange(n_before, self.forest.n_vertices).reshape(-1, 2)

    def _keep_parents(
        self, children: np.ndarray, histograms: np.ndarray, is_split: np.ndarray
    ) -> None:
        """Keep histograms of those parents whose larger child may be split.

        ``children`` is (n_split, 2); ``histograms`` has an entry for each leaf, and
        ``is_split`` says which were split.
        """
        self._parents.clear()
        self._larger.clear()
        if not self.subtracts or histograms.size > _MOST_KEPT:
            return
        histograms = histograms[is_split]
        by_size = np.argsort(self.n_rows_of(children), axis=1, kind="stable")
        smaller, larger = np.take_along_axis(children, by_size, axis=1).T
        for pair in np.flatnonzero(self._may_split(larger)):
            self._parents[int(smaller[pair])] = histograms[pair]
            self._larger[int(smaller[pair])] = int(larger[pair])

    def _is_wanted(self, leaves: np.ndarray) -> np.ndarray:
        """Report for which leaves histograms help to split them or a sibling."""
        return self._may_split(leaves) | np.isin(leaves, list(self._larger))

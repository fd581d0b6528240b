"""The server's side of boosting: trees that grow one iteration after the other.

An iteration adds one tree for two classes, and one tree for each of more classes. Its
trees grow together, by a level at a time, as those of a `Growth` do. They are those of
scikit-learn's HistGradientBoostingClassifier without ``max_leaf_nodes``, on features
that have the bins of `bin_codes`.
"""

import numpy as np

from ._gradient_splits import (
    LEAST_HESSIAN,
    best_gradient_splits,
    leaf_losses,
    leaf_values,
)
from ._gradients import N_SUMS, baseline_of_counts, n_outputs
from ._levels import LevelGrowth
from ._rules import BoostingRules


class BoostedGrowth(LevelGrowth):
    """Boosted trees that grow; `take` is given the histograms of what is `asked`.

    Parameters
    ----------
    rules : BoostingRules
    n_features : int
    class_counts : ndarray of int of shape (n_classes,)
        Rows of each class, over all nodes.

    Attributes
    ----------
    forest : Forest
        The trees of all iterations; those that have not grown yet are roots. Tree t
        adds to output t % n_outputs.
    values : ndarray of float64 of shape (n_vertices,)
        Leaf values, times the learning rate. They are 0 for other vertices, and for all
        vertices of trees that still grow.
    baseline : ndarray of shape (n_outputs,)
        Raw predictions before the first tree.
    n_finished : int
        The number of trees, from the first one on, that do not grow any more.
    asked : Asked
    """

    def __init__(
        self, rules: BoostingRules, *, n_features: int, class_counts: np.ndarray
    ) -> None:
        self._n_outputs = n_outputs(len(class_counts))
        super().__init__(
            n_trees=rules.max_iter * self._n_outputs, n_sums=N_SUMS, subtracts=True
        )
        self.rules = rules
        self.n_features = n_features
        self.baseline = baseline_of_counts(np.asarray(class_counts))
        self.values = np.zeros(self.forest.n_trees)
        self.n_finished = 0
        self._has_missing = np.zeros(n_features, dtype=bool)
        self._ask_roots()

    def take(self, histograms: np.ndarray) -> None:
        """Split leaves by the histograms of what was `asked`, summed over nodes.

        ``histograms`` is (n_asked, n_features, N_BINS + 1, 3).
        """
        rules = self.rules
        if self.n_messages == 0:  # the roots have all rows
            self._has_missing = histograms[0, :, -1, -1] > 0
        leaves, histograms = self._taken(histograms)
        splits = best_gradient_splits(
            histograms,
            losses=self._losses(leaves),
            l2_regularization=rules.l2_regularization,
            min_samples_leaf=rules.min_samples_leaf,
            has_missing=self._has_missing,
        )
        is_split = splits.is_valid
        children = self._split(
            leaves[is_split],
            feature=splits.feature[is_split],
            bin=splits.bin[is_split],
            missing_left=splits.missing_left[is_split],
            left_sums=splits.left_sums[is_split],
            right_sums=splits.right_sums[is_split],
        )
        self.values = np.append(self.values, np.zeros(children.size))
        self._keep_parents(children, histograms, is_split)
        new_leaves = children.ravel()
        self._ask_all_features(new_leaves[self._is_wanted(new_leaves)])
        if not self.is_open:
            self._finish_iteration()

    def _losses(self, leaves: np.ndarray) -> np.ndarray:
        """The losses of leaves; a root has the value 0, and so loses nothing."""
        losses = leaf_losses(self._sums[leaves], self.rules.l2_regularization)
        return np.where(leaves < self.forest.n_trees, 0.0, losses)

    def _finish_iteration(self) -> None:
        """Give the leaves of this iteration their values, and ask for the next one."""
        is_leaf = (self.forest.feature < 0) & (self._trees >= self.n_finished)
        # A root without a split keeps 0, as in scikit-learn.
        new_leaves = np.flatnonzero(is_leaf & (self._depths > 0))
        self.values[new_leaves] = self.rules.learning_rate * leaf_values(
            self._sums[new_leaves], self.rules.l2_regularization
        )
        self.n_finished += self._n_outputs
        if len(new_leaves):  # else all further trees would be like these
            self._ask_roots()

    def _ask_roots(self) -> None:
        """Ask about the roots of the next iteration, if there is one."""
        next_roots = np.arange(self.n_finished, self.n_finished + self._n_outputs)
        self._ask_all_features(next_roots[next_roots < self.forest.n_trees])

    def _ask_all_features(self, leaves: np.ndarray) -> None:
        features = np.arange(self.n_features, dtype=np.int32)
        self._ask(leaves, np.broadcast_to(features, (len(leaves), self.n_features)))

    def n_rows_of(self, vertices: np.ndarray) -> np.ndarray:
        return self._sums[vertices, 2]

    def _may_split(self, vertices: np.ndarray) -> np.ndarray:
        """Report which vertices are not too deep, small or sure of their class."""
        is_shallow = self._depths[vertices] < self.rules.max_depth
        has_rows = self.n_rows_of(vertices) >= 2 * self.rules.min_samples_leaf
        is_unsure = self._sums[vertices, 1] >= 2 * LEAST_HESSIAN
        return is_shallow & has_rows & is_unsure

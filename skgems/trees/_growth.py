"""The server's side of growing trees: which histograms to ask for, and what they give.

All trees grow by a level at a time. Where every feature is looked at, only the smaller
of two siblings is asked for (see `LevelGrowth`).
"""

import numpy as np

from ._bins import NUMBERS_IN_CACHE
from ._levels import LevelGrowth
from ._rules import TreeRules, weights_of_classes
from ._splits import Splits, best_splits

# Share of a tree's rows by which a gain may be rounded, as in scikit-learn.
_ROUNDING = np.finfo(np.float64).eps


class Growth(LevelGrowth):
    """Trees that grow; `take` is given the histograms of what is `asked`.

    Parameters
    ----------
    rules : TreeRules
    n_trees, n_features, n_classes : int
    class_weights : ndarray of shape (n_classes,), "balanced" or None, default=None
        What counts of classes are multiplied by in scores; None: 1.
    subtracts : bool, default=True
        Whether histograms of siblings add up to that of their parent.
    random_state : int, default=0
        Source of the features, and bins, that are drawn.

    Attributes
    ----------
    forest : Forest
    asked : Asked
    """

    def __init__(
        self,
        rules: TreeRules,
        *,
        n_trees: int,
        n_features: int,
        n_classes: int,
        class_weights: "np.ndarray | str | None" = None,
        subtracts: bool = True,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            n_trees=n_trees,
            n_sums=n_classes,
            subtracts=subtracts and rules.max_features == n_features,
        )
        self.rules = rules
        self.n_features = n_features
        self.class_weights = class_weights
        self._rng = np.random.RandomState(random_state)
        self._reopen(
            np.arange(n_trees), excluded=np.zeros((n_trees, n_features), dtype=bool)
        )

    @property
    def counts(self) -> np.ndarray:
        """Rows by class at each vertex: (n_vertices, n_classes)."""
        return self._sums

    def take(self, histograms: np.ndarray) -> None:
        """Split leaves by the histograms of what was `asked`, summed over nodes.

        ``histograms`` is (n_asked, n_drawn, N_BINS + 1, n_classes).
        """
        waiting = self._waiting()
        excluded_of_waiting = self._excluded[np.searchsorted(self._open, waiting)]
        leaves, histograms = self._taken(histograms)
        places = np.searchsorted(self._open, leaves)
        features = self._drawn[places]
        class_weights = self.class_weights_in_use
        splits = best_splits(
            histograms,
            criterion=self.rules.criterion,
            class_weights=class_weights,
            min_samples_leaf=self.rules.min_samples_leaf,
            rng=self._rng if self.rules.draws_bins else None,
        )
        excluded = self._excluded[places]
        _exclude(excluded, features, splits)
        n_weighted = (self.counts[self._trees[leaves]] * class_weights).sum(axis=1)
        least_gain = self.rules.min_impurity_decrease * n_weighted
        is_split = splits.is_valid & (splits.gain + _ROUNDING * n_weighted > least_gain)
        split_leaf = np.flatnonzero(is_split)
        children = self._split(
            leaves[is_split],
            feature=features[split_leaf, splits.drawn[split_leaf]],
            bin=splits.bin[is_split],
            missing_left=splits.missing_left[is_split],
            left_sums=splits.left_counts[is_split],
            right_sums=splits.right_counts[is_split],
        )
        self._keep_parents(children, histograms, is_split)
        # Children, leaves that other features may split, and those that wait.
        candidates = np.concatenate(
            [children.ravel(), leaves[~splits.is_valid], waiting]
        )
        excluded = np.concatenate(
            [
                np.repeat(excluded[is_split], 2, axis=0),
                excluded[~splits.is_valid],
                excluded_of_waiting,
            ]
        )
        is_open = self._is_wanted(candidates) & ~excluded.all(axis=1)
        if self.n_messages >= self.rules.most_messages:
            is_open[:] = False
        self._reopen(candidates[is_open], excluded[is_open])

    @property
    def class_weights_in_use(self) -> np.ndarray:
        """Return the weights of classes, which multiply counts: (n_classes,)."""
        return weights_of_classes(
            self.class_weights, self.counts[: self.forest.n_trees].sum(axis=0)
        )

    def n_rows_of(self, vertices: np.ndarray) -> np.ndarray:
        return self.counts[vertices].sum(axis=-1)

    def _may_split(self, vertices: np.ndarray) -> np.ndarray:
        """Report which vertices are not too deep, too small or of one class."""
        rules = self.rules
        n_rows = self.n_rows_of(vertices)
        least_rows = max(rules.min_samples_split, 2 * rules.min_samples_leaf)
        is_mixed = np.count_nonzero(self.counts[vertices], axis=1) > 1
        is_shallow = self._depths[vertices] < rules.max_depth
        return is_shallow & is_mixed & (n_rows >= least_rows)

    def _reopen(self, leaves: np.ndarray, excluded: np.ndarray) -> None:
        """Ask next about some leaves.

        Parameters
        ----------
        leaves : ndarray of int of shape (n_leaves,)
        excluded : ndarray of bool of shape (n_leaves, n_features)
            The features that cannot split each of them.
        """
        order = np.argsort(leaves)
        # Of each leaf that is open; the features that are drawn for it.
        self._excluded = excluded[order]
        self._drawn = _drawn_features(
            self._excluded, self.rules.max_features, rng=self._rng
        )
        self._ask(leaves[order], self._drawn)


def _exclude(excluded: np.ndarray, features: np.ndarray, splits: Splits) -> None:
    """Note features that are constant in a leaf; all that were drawn in vain.

    Parameters
    ----------
    excluded : ndarray of bool of shape (n_leaves, n_features)
        Changed in place.
    features : ndarray of int of shape (n_leaves, n_drawn)
    splits : Splits
    """
    leaf, drawn = np.nonzero(splits.is_constant | ~splits.is_valid[:, None])
    excluded[leaf, features[leaf, drawn]] = True


def _drawn_features(
    excluded: np.ndarray, n_drawn: int, *, rng: np.random.RandomState
) -> np.ndarray:
    """Features for each leaf, sorted; excluded ones only where others do not suffice.

    Parameters
    ----------
    excluded : ndarray of bool of shape (n_leaves, n_features)
    n_drawn : int

    Returns
    -------
    features : ndarray of int32 of shape (n_leaves, n_drawn)
    """
    n_leaves, n_features = excluded.shape
    features = np.empty((n_leaves, n_drawn), dtype=np.int32)
    if n_drawn == n_features:
        features[:] = np.arange(n_features)
        return features
    for first in range(0, n_leaves, NUMBERS_IN_CACHE):
        block = slice(first, first + NUMBERS_IN_CACHE)
        keys = rng.random_sample(excluded[block].shape) + excluded[block]
        chosen = np.argpartition(keys, n_drawn - 1, axis=1)[:, :n_drawn]
        features[block] = np.sort(chosen, axis=1)
    return features

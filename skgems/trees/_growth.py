"""The server's side of growing trees: which histograms to ask for, and what they give.

All trees grow by a level at a time. Where every feature is looked at, only the smaller
of two siblings is asked for: the other has what their parent had less this.
"""

from dataclasses import dataclass

import numpy as np

from ._forest import Forest
from ._histograms import Asked
from ._splits import Splits, best_splits

# Numbers in histograms that are kept of parents (1 GB); of more, both siblings are
# asked for.
_MOST_KEPT = 2**27
# Leaves for which features are drawn at once.
_LEAVES_AT_ONCE = 4096
# Share of a tree's rows by which a gain may be rounded, as in scikit-learn.
_ROUNDING = np.finfo(np.float64).eps
# Messages beside those of the levels: a leaf whose drawn features cannot split it is
# asked about others.
N_MORE_LEVELS = 2


@dataclass(frozen=True, kw_only=True)
class TreeRules:
    """How trees grow: the parameters that scikit-learn's trees have, in numbers."""

    max_depth: int
    max_features: int  # that are drawn for each leaf
    criterion: str = "gini"
    draws_bins: bool = False  # as extremely randomised trees do
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_impurity_decrease: float = 0.0

    @property
    def most_messages(self) -> int:
        """How often nodes are asked at most."""
        return self.max_depth + N_MORE_LEVELS


class Growth:
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
    counts : ndarray of int64 of shape (n_vertices, n_classes)
        Rows by class at each vertex.
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
        self.rules = rules
        self.n_features = n_features
        self.class_weights = class_weights
        self.subtracts = subtracts and rules.max_features == n_features
        self.forest = Forest.of_roots(n_trees)
        self.counts = np.zeros((n_trees, n_classes), dtype=np.int64)
        self.n_messages = 0
        self._rng = np.random.RandomState(random_state)
        self._depths = np.zeros(n_trees, dtype=np.int32)
        self._trees = np.arange(n_trees, dtype=np.int32)
        # Leaves that may be split, and the features that cannot split each of them.
        self._open = np.arange(n_trees, dtype=np.int32)
        self._excluded = np.zeros((n_trees, n_features), dtype=bool)
        # Of the smaller of two siblings that are both open: the histograms of the
        # parent, and the larger one.
        self._parents: dict[int, np.ndarray] = {}
        self._larger: dict[int, int] = {}
        self.asked = self._next_asked()

    @property
    def is_open(self) -> bool:
        """Whether histograms are wanted."""
        return len(self._open) > 0

    def take(self, histograms: np.ndarray) -> None:
        """Split leaves by the histograms of what was `asked`, summed over nodes.

        ``histograms`` is (n_asked, n_drawn, N_BINS + 1, n_classes).
        """
        self.n_messages += 1
        leaves, histograms = self._with_siblings(histograms)
        places = np.searchsorted(self._open, leaves)
        features = self._drawn[places]
        if self.n_messages == 1:
            self.counts[leaves] = histograms[:, 0].sum(axis=1)
        class_weights = self.class_weights_in_use
        splits = best_splits(
            histograms,
            criterion=self.rules.criterion,
            class_weights=class_weights,
            min_samples_leaf=self.rules.min_samples_leaf,
            rng=self._rng if self.rules.draws_bins else None,
        )
        self._excluded = self._excluded[places]
        self._exclude(features, splits)
        n_weighted = (self.counts[self._trees[leaves]] * class_weights).sum(axis=1)
        least_gain = self.rules.min_impurity_decrease * n_weighted
        is_split = splits.is_valid & (splits.gain + _ROUNDING * n_weighted > least_gain)
        children = self._split(leaves[is_split], features[is_split], splits, is_split)
        self._keep_parents(children, histograms[is_split])
        is_retried = ~splits.is_valid & ~self._excluded.all(axis=1)
        self._reopen(
            np.concatenate([children.ravel(), leaves[is_retried]]),
            np.concatenate(
                [
                    np.repeat(self._excluded[is_split], 2, axis=0),
                    self._excluded[is_retried],
                ]
            ),
        )

    def _with_siblings(self, histograms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All open leaves, sorted, and their histograms: also those not asked for."""
        leaves = list(self.asked.leaves)
        parts = [histograms]
        for place, leaf in enumerate(self.asked.leaves.tolist()):
            if leaf in self._larger:
                leaves.append(self._larger.pop(leaf))
                parts.append((self._parents.pop(leaf) - histograms[place])[None])
        order = np.argsort(leaves)
        if len(parts) > 1:
            histograms = np.concatenate(parts)
        return np.array(leaves, dtype=np.int32)[order], histograms[order]

    @property
    def class_weights_in_use(self) -> np.ndarray:
        """What counts of classes are multiplied by: (n_classes,)."""
        n_classes = self.counts.shape[1]
        if self.class_weights is None:
            return np.ones(n_classes)
        if isinstance(self.class_weights, str):
            n_rows = self.counts[: self.forest.n_trees].sum(axis=0)
            return n_rows.sum() / (n_classes * np.maximum(n_rows, 1))
        return np.asarray(self.class_weights, dtype=np.float64)

    def _exclude(self, features: np.ndarray, splits: Splits) -> None:
        """Note features that are constant in a leaf; all that were drawn in vain."""
        leaf, drawn = np.nonzero(splits.is_constant | ~splits.is_valid[:, None])
        self._excluded[leaf, features[leaf, drawn]] = True

    def _split(
        self,
        leaves: np.ndarray,
        features: np.ndarray,
        splits: Splits,
        is_split: np.ndarray,
    ) -> np.ndarray:
        """Split leaves; their children, (n_split, 2)."""
        n_before = self.forest.n_vertices
        self.forest = self.forest.split(
            leaves,
            feature=features[np.arange(len(leaves)), splits.drawn[is_split]],
            bin=splits.bin[is_split],
            missing_left=splits.missing_left[is_split],
        )
        sides = [splits.left_counts[is_split], splits.right_counts[is_split]]
        new_counts = np.stack(sides, axis=1).reshape(-1, self.counts.shape[1])
        self.counts = np.concatenate([self.counts, new_counts])
        self._depths = np.append(self._depths, np.repeat(self._depths[leaves] + 1, 2))
        self._trees = np.append(self._trees, np.repeat(self._trees[leaves], 2))
        return np.arange(n_before, self.forest.n_vertices).reshape(-1, 2)

    def _keep_parents(self, children: np.ndarray, histograms: np.ndarray) -> None:
        """Keep histograms of parents of which both children may be split."""
        self._parents.clear()
        self._larger.clear()
        if not self.subtracts or histograms.size > _MOST_KEPT:
            return
        may_split = self._may_split(children.ravel()).reshape(-1, 2).all(axis=1)
        n_rows = self.counts[children].sum(axis=2)
        for pair, n_of_pair, parent in zip(
            children[may_split], n_rows[may_split], histograms[may_split], strict=True
        ):
            smaller, larger = pair[np.argsort(n_of_pair, kind="stable")].tolist()
            self._parents[smaller] = parent
            self._larger[smaller] = larger

    def _may_split(self, vertices: np.ndarray) -> np.ndarray:
        """Whether vertices are not too deep, too small or of one class."""
        rules = self.rules
        n_rows = self.counts[vertices].sum(axis=1)
        least_rows = max(rules.min_samples_split, 2 * rules.min_samples_leaf)
        is_mixed = np.count_nonzero(self.counts[vertices], axis=1) > 1
        is_shallow = self._depths[vertices] < rules.max_depth
        return is_shallow & is_mixed & (n_rows >= least_rows)

    def _reopen(self, leaves: np.ndarray, excluded: np.ndarray) -> None:
        """Ask next about those of some leaves that may be split."""
        is_open = self._may_split(leaves) & ~excluded.all(axis=1)
        if self.n_messages >= self.rules.most_messages:
            is_open[:] = False
        leaves = leaves[is_open].astype(np.int32)
        order = np.argsort(leaves)
        self._open = leaves[order]
        self._excluded = excluded[is_open][order]
        self.asked = self._next_asked()

    def _next_asked(self) -> Asked:
        """The open leaves but for larger siblings, and features drawn for each."""
        self._drawn = _drawn_features(
            self._excluded, self.rules.max_features, rng=self._rng
        )
        is_asked = ~np.isin(self._open, list(self._larger.values()))
        leaves = self._open[is_asked]
        by_tree = np.argsort(self._trees[leaves], kind="stable")
        return Asked(leaves=leaves[by_tree], features=self._drawn[is_asked][by_tree])


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
    for first in range(0, n_leaves, _LEAVES_AT_ONCE):
        block = slice(first, first + _LEAVES_AT_ONCE)
        keys = rng.random_sample(excluded[block].shape) + excluded[block]
        chosen = np.argpartition(keys, n_drawn - 1, axis=1)[:, :n_drawn]
        features[block] = np.sort(chosen, axis=1)
    return features

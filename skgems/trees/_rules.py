"""Rules by which trees grow: parameters of scikit-learn's trees, in numbers."""

from dataclasses import dataclass

import numpy as np

# Messages beside those of the levels: a leaf whose drawn features cannot split it is
# asked about others.
N_MORE_LEVELS = 2


@dataclass(frozen=True, kw_only=True)
class TreeRules:
    """How trees grow: the parameters that scikit-learn's trees have, in numbers."""

    max_depth: int
    max_features: int  # that are drawn for each leaf
    criterion: str = "gini"
    draws_bins: bool = False  # as extremely randomized trees do
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_impurity_decrease: float = 0.0

    @property
    def most_messages(self) -> int:
        """Return the largest number of messages to each node."""
        return self.max_depth + N_MORE_LEVELS


def weights_of_classes(
    class_weights: "np.ndarray | str | None", n_rows: np.ndarray
) -> np.ndarray:
    """Return the weights of classes, which multiply counts: (n_classes,).

    ``n_rows`` are the rows of each class, for "balanced" weights.
    """
    if class_weights is None:
        return np.ones(len(n_rows))
    if isinstance(class_weights, str):
        return n_rows.sum() / (len(n_rows) * np.maximum(n_rows, 1))
    return np.asarray(class_weights, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class BoostingRules:
    """How trees are boosted: parameters of HistGradientBoostingClassifier."""

    max_iter: int = 100
    max_depth: int
    learning_rate: float = 0.1
    l2_regularization: float = 0.0
    min_samples_leaf: int = 20

    @property
    def most_messages(self) -> int:
        """Return the largest number of messages to each node."""
        return self.max_iter * self.max_depth

"""Trees of scikit-learn that are made of ours: forests and boosted trees."""

from collections.abc import Callable

import numpy as np
from scipy.special import entr
from sklearn.base import ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

from ..compat import NODE_DTYPE, PREDICTOR_RECORD_DTYPE, Tree, TreePredictor
from ..trees import BoostedGrowth, Growth, RandomTrees, upper_edges
from ._forests import KINDS_OF_TREES, number_of_features


def fitted_forest(
    classifier: ClassifierMixin, growth: Growth | RandomTrees, classes: np.ndarray
) -> ClassifierMixin:
    """A fitted clone of a classifier, with the trees that were grown.

    Thresholds are upper edges of bins. Sums of scikit-learn's own fit, such as numbers
    of rows and impurities, are those of the counts.
    """
    fitted = clone(classifier)
    trees = [
        _fitted_tree(fitted, growth, tree=tree) for tree in range(growth.forest.n_trees)
    ]
    if isinstance(fitted, DecisionTreeClassifier):
        (fitted,) = trees
    else:
        fitted.estimator_ = clone(trees[0])
        fitted.estimators_ = trees
        fitted.n_outputs_ = 1
        fitted.n_features_in_ = growth.n_features
        fitted.n_classes_ = len(classes)
    fitted.classes_ = classes
    return fitted


def _fitted_tree(
    classifier: ClassifierMixin, growth: Growth | RandomTrees, *, tree: int
) -> ClassifierMixin:
    """Return one of the trees, as scikit-learn's forests hold it."""
    if isinstance(classifier, DecisionTreeClassifier):
        fitted = classifier
    else:
        tree_type = KINDS_OF_TREES[type(classifier)].tree_type
        names = classifier.estimator_params
        fitted = tree_type(**{name: getattr(classifier, name) for name in names})
    n_classes = growth.counts.shape[1]
    fitted.tree_ = _tree_of_arrays(growth, tree, criterion=classifier.criterion)
    fitted.n_features_in_ = growth.n_features
    fitted.n_outputs_ = 1
    fitted.n_classes_ = n_classes
    fitted.max_features_ = number_of_features(
        classifier.max_features, growth.n_features
    )
    # Trees within a forest know classes by their numbers.
    fitted.classes_ = np.arange(n_classes, dtype=np.float64)
    return fitted


def shares_of_classes(weighted_counts: np.ndarray) -> np.ndarray:
    """The share of each class at vertices; both are (n_vertices, n_classes)."""
    totals = weighted_counts.sum(axis=1, keepdims=True)
    return weighted_counts / np.maximum(totals, np.finfo(np.float64).tiny)


def _tree_of_arrays(growth: Growth | RandomTrees, tree: int, *, criterion: str) -> Tree:
    forest = growth.forest
    vertices = growth.vertices_of(tree)
    is_split = forest.feature[vertices] >= 0
    counts = growth.counts[vertices]
    weighted = counts * growth.class_weights_in_use
    totals = weighted.sum(axis=1)
    shares = shares_of_classes(weighted)
    nodes = np.zeros(len(vertices), dtype=NODE_DTYPE)
    left = forest.left[vertices]
    nodes["left_child"] = np.where(is_split, np.searchsorted(vertices, left), -1)
    nodes["right_child"] = np.where(is_split, np.searchsorted(vertices, left + 1), -1)
    nodes["feature"] = np.where(is_split, forest.feature[vertices], -2)
    edges = upper_edges()
    nodes["threshold"] = np.where(is_split, edges[forest.bin[vertices]], -2.0)
    nodes["missing_go_to_left"] = forest.missing_left[vertices]
    nodes["impurity"] = _IMPURITIES[criterion](shares)
    nodes["n_node_samples"] = counts.sum(axis=1)
    nodes["weighted_n_node_samples"] = totals
    n_classes = np.array([counts.shape[1]], dtype=np.intp)
    fitted = Tree(growth.n_features, n_classes, 1)
    fitted.__setstate__(
        {
            "max_depth": int(growth.depths_of(vertices).max()),
            "node_count": len(vertices),
            "nodes": nodes,
            "values": np.ascontiguousarray(shares[:, None, :]),
        }
    )
    return fitted


def _gini(shares: np.ndarray) -> np.ndarray:
    return 1.0 - np.square(shares).sum(axis=1)


def _entropy(shares: np.ndarray) -> np.ndarray:
    return entr(shares).sum(axis=1) / np.log(2)


def fitted_boosting(
    classifier: HistGradientBoostingClassifier,
    growth: BoostedGrowth,
    classes: np.ndarray,
) -> HistGradientBoostingClassifier:
    """A fitted classifier of scikit-learn, with the trees that were grown.

    What else a fitted classifier has is that of a fit to two rows of each class.
    """
    n_trees = len(growth.baseline)
    fitted = HistGradientBoostingClassifier(
        **{**classifier.get_params(), "max_iter": 1}
    )
    fitted.fit(np.zeros((2 * len(classes), growth.n_features)), np.tile(classes, 2))
    fitted.set_params(max_iter=classifier.max_iter)
    predictors = [_predictor(growth, tree) for tree in range(growth.n_finished)]
    fitted._predictors = [
        predictors[first : first + n_trees]
        for first in range(0, growth.n_finished, n_trees)
    ]
    fitted._baseline_prediction = growth.baseline.reshape(1, -1)
    return fitted


def _predictor(growth: BoostedGrowth, tree: int) -> TreePredictor:
    """Return one of the trees, as scikit-learn's boosting holds it."""
    forest = growth.forest
    vertices = growth.vertices_of(tree)
    is_split = forest.feature[vertices] >= 0
    left = forest.left[vertices]
    nodes = np.zeros(len(vertices), dtype=PREDICTOR_RECORD_DTYPE)
    nodes["value"] = growth.values[vertices]
    nodes["count"] = growth.n_rows_of(vertices)
    nodes["is_leaf"] = ~is_split
    nodes["depth"] = growth.depths_of(vertices)
    nodes["feature_idx"] = np.where(is_split, forest.feature[vertices], 0)
    edges = upper_edges()[forest.bin[vertices]]
    nodes["num_threshold"] = np.where(is_split, edges, 0.0)
    nodes["bin_threshold"] = np.where(is_split, forest.bin[vertices], 0)
    nodes["missing_go_to_left"] = forest.missing_left[vertices]
    nodes["left"] = np.where(is_split, np.searchsorted(vertices, left), 0)
    nodes["right"] = np.where(is_split, np.searchsorted(vertices, left + 1), 0)
    no_categories = np.zeros((0, 8), dtype=np.uint32)
    return TreePredictor(nodes, no_categories, no_categories)


# Impurities by the shares of classes, (n_vertices, n_classes).
_IMPURITIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gini": _gini,
    "entropy": _entropy,
    "log_loss": _entropy,
}

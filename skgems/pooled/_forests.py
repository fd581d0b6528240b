"""Trees and forests of scikit-learn: how theirs grow, and theirs made of ours."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import entr
from sklearn.base import ClassifierMixin, clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from ..compat import NODE_DTYPE, Tree
from ..tasks import DEEPEST
from ..trees import Growth, RandomTrees, TreeRules, upper_edges

# Parameters that have no meaning where trees grow level by level from histograms, and
# the values that they must have.
_UNUSED = {
    "max_leaf_nodes": None,
    "min_weight_fraction_leaf": 0.0,
    "ccp_alpha": 0.0,
    "monotonic_cst": None,
    "max_samples": None,
    "oob_score": False,
    "warm_start": False,
}
_COUNTS_OF_ROWS = ("min_samples_split", "min_samples_leaf")


@dataclass(frozen=True, kw_only=True)
class ForestKind:
    """What a class of scikit-learn's trees draws at random."""

    tree_type: type  # of one tree of a forest
    draws_bins: bool = False


KINDS_OF_TREES: dict[type, ForestKind] = {
    DecisionTreeClassifier: ForestKind(tree_type=DecisionTreeClassifier),
    RandomForestClassifier: ForestKind(tree_type=DecisionTreeClassifier),
    ExtraTreesClassifier: ForestKind(tree_type=ExtraTreeClassifier, draws_bins=True),
}


def check_can_grow(classifier: ClassifierMixin) -> None:
    """Raise ValueError for parameters without a meaning here, saying what to set."""
    kind = type(classifier).__name__
    classifier._validate_params()  # raises for values that scikit-learn does not take
    reasons = [*_reasons_of_values(classifier), *_reasons_of_class_weights(classifier)]
    if is_totally_random(classifier) and classifier.min_impurity_decrease:
        reasons.append(
            "min_impurity_decrease has no meaning with max_features=1 and "
            "bootstrap=False, where splits are drawn and not chosen. Set "
            "min_impurity_decrease=0.0."
        )
    if reasons:
        raise ValueError(f"pooled={kind}: {' '.join(reasons)}")


def _reasons_of_values(classifier: ClassifierMixin) -> Iterator[str]:
    """Yield why values of parameters have no meaning here, and what to set."""
    max_depth = classifier.max_depth
    if max_depth is None or max_depth > DEEPEST:
        yield (
            f"max_depth is {max_depth}, but trees grow by one level per message, so it "
            f"must be from 1 to {DEEPEST}. Set max_depth=10, for example."
        )
    for name, needed in _UNUSED.items():
        value = getattr(classifier, name, needed)
        if not np.array_equal(value, needed):
            yield (
                f"{name}={value!r} has no meaning for trees that grow from histograms. "
                f"Set {name}={needed!r}."
            )
    for name in _COUNTS_OF_ROWS:
        value = getattr(classifier, name)
        if not isinstance(value, int | np.integer):
            yield (
                f"{name}={value!r} is a share of the rows, of which nobody knows the "
                "number when it is agreed. Give a number of rows."
            )


def _reasons_of_class_weights(classifier: ClassifierMixin) -> Iterator[str]:
    """Yield why class weights cannot be used here, and what to set."""
    if isinstance(classifier.class_weight, list):
        yield (
            "class_weight is a list, which is for labels of several columns. Set "
            "class_weight to one dict."
        )
    elif classifier.class_weight == "balanced_subsample":
        yield (
            "class_weight='balanced_subsample' would need the classes of each tree's "
            "rows. Set class_weight='balanced'."
        )


def is_totally_random(classifier: ClassifierMixin) -> bool:
    """Report whether no row decides a split, so that one message is enough."""
    return draws_all_splits(type(classifier), classifier.get_params())


def draws_all_splits(classifier_type: type, params: Mapping) -> bool:
    """Report whether such trees draw one feature and one bin for each leaf."""
    max_features = params.get("max_features")
    return (
        classifier_type is ExtraTreesClassifier
        and isinstance(max_features, int | np.integer)  # 1.0 stands for all features
        and max_features == 1
        and not params.get("bootstrap", False)
    )


def agreed_seed(classifier: ClassifierMixin, random_state: object) -> int:
    """The seed of the classifier, else the aggregator's, else 0.

    ValueError for a generator, which nodes elsewhere do not have.
    """
    seed = classifier.random_state
    if seed is None:
        # All parties have to agree on the seed of totally random trees.
        seed = 0 if random_state is None else random_state
    if not isinstance(seed, int | np.integer):
        raise ValueError(
            f"pooled={type(classifier).__name__}: random_state is a "
            f"{type(seed).__name__}, but all nodes draw the trees from a seed that is "
            "agreed. Set random_state to a whole number."
        )
    return int(seed)


def number_of_trees(classifier: ClassifierMixin) -> int:
    """Return the number of trees that a classifier has."""
    return getattr(classifier, "n_estimators", 1)


def rules_of(classifier: ClassifierMixin, n_features: int) -> TreeRules:
    """The parameters of a classifier as numbers."""
    return TreeRules(
        max_depth=classifier.max_depth,
        max_features=number_of_features(classifier.max_features, n_features),
        criterion=classifier.criterion,
        draws_bins=(
            KINDS_OF_TREES[type(classifier)].draws_bins
            or getattr(classifier, "splitter", "best") == "random"
        ),
        min_samples_split=classifier.min_samples_split,
        min_samples_leaf=classifier.min_samples_leaf,
        min_impurity_decrease=classifier.min_impurity_decrease,
    )


def number_of_features(max_features: object, n_features: int) -> int:
    """Return the number of features that a leaf looks at, as in scikit-learn."""
    if max_features is None:
        return n_features
    if isinstance(max_features, str):
        root = {"sqrt": np.sqrt, "log2": np.log2}[max_features]
        return max(1, int(root(n_features)))
    if isinstance(max_features, int | np.integer):
        return min(int(max_features), n_features)
    return max(1, int(max_features * n_features))


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


# Impurities by the shares of classes, (n_vertices, n_classes).
_IMPURITIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gini": _gini,
    "entropy": _entropy,
    "log_loss": _entropy,
}

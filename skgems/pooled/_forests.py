"""Trees and forests of scikit-learn: by which rules they grow, in numbers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from ..tasks import DEEPEST
from ..trees import TreeRules

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

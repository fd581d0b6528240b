"""HistGradientBoostingClassifier: how its trees grow, and one made of ours."""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from ..compat import PREDICTOR_RECORD_DTYPE, TreePredictor
from ..trees import BoostedGrowth, BoostingRules, upper_edges

# Deeper trees ask for more messages and have more leaves, and were never better.
_DEEPEST = 6
# Parameters that have no meaning where trees grow level by level from histograms, and
# the values that they may have.
_UNUSED: dict[str, tuple] = {
    "early_stopping": (False,),
    "max_leaf_nodes": (None,),
    "max_features": (1.0,),
    "max_bins": (255,),
    "categorical_features": (None, "from_dtype"),
    "monotonic_cst": (None,),
    "interaction_cst": (None,),
    "class_weight": (None,),
    "warm_start": (False,),
}


def check_can_boost(classifier: HistGradientBoostingClassifier) -> None:
    """Raise ValueError for parameters without a meaning, saying what to set."""
    classifier._validate_params()  # raises for values that scikit-learn does not take
    max_depth = classifier.max_depth
    reasons = []
    if max_depth is None or max_depth > _DEEPEST:
        reasons.append(
            f"max_depth is {max_depth}, but trees grow by one level per message, so it "
            f"must be from 1 to {_DEEPEST}. Set max_depth=4, for example."
        )
    for name, allowed in _UNUSED.items():
        value = getattr(classifier, name, allowed[0])
        # Values may be arrays, which have no truth value.
        if not any(np.array_equal(value, other) for other in allowed):
            reasons.append(
                f"{name}={value!r} has no meaning for trees that grow from sums over "
                f"nodes. Set {name}={allowed[0]!r}."
            )
    if reasons:
        raise ValueError(f"pooled=HistGradientBoostingClassifier: {' '.join(reasons)}")


def boosting_rules(classifier: HistGradientBoostingClassifier) -> BoostingRules:
    """The parameters of a classifier as numbers."""
    return BoostingRules(
        max_iter=classifier.max_iter,
        max_depth=classifier.max_depth,
        learning_rate=classifier.learning_rate,
        l2_regularization=classifier.l2_regularization,
        min_samples_leaf=classifier.min_samples_leaf,
    )


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

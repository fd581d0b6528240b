"""HistGradientBoostingClassifier: by which rules its trees grow, in numbers."""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from ..trees import BoostingRules

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

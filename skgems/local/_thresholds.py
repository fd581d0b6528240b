"""Decision thresholds: from which probability on a binary classifier predicts a class.

A classifier with a threshold t predicts ``classes_[1]`` if its probability is at least
t. Thresholds of several classifiers are averaged as logits: of 0.2 and 0.5 comes 1/3.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import expit, logit
from sklearn.model_selection import (
    FixedThresholdClassifier,
    TunedThresholdClassifierCV,
)

from ..messages import ROUNDING
from ..networks import final_step


def has_threshold(estimator: object) -> bool:
    """Report whether a classifier predicts by a threshold of its own."""
    classifier = final_step(estimator)
    if isinstance(classifier, FixedThresholdClassifier):
        return not isinstance(classifier.threshold, str)  # "auto": that of any other
    return isinstance(classifier, TunedThresholdClassifierCV)


def decision_threshold(estimator: object) -> float | None:
    """Return the threshold on the probability of ``classes_[1]``.

    It is 0.5 for a classifier that has no threshold of its own. None is returned where
    a threshold on scores is none on probabilities.
    """
    if not has_threshold(estimator):
        return 0.5
    classifier = final_step(estimator)
    has_probabilities = hasattr(classifier, "predict_proba")
    if has_probabilities and classifier.response_method == "decision_function":
        return None
    if isinstance(classifier, FixedThresholdClassifier):
        threshold = classifier.threshold
        pos_label = classifier.pos_label
    else:
        threshold = classifier.best_threshold_
        pos_label = classifier._curve_scorer._get_pos_label()
    if not has_probabilities:  # its probabilities are those of scores as logits
        threshold = expit(threshold)
    is_of_first_class = pos_label is not None and pos_label == classifier.classes_[0]
    return float(1.0 - threshold if is_of_first_class else threshold)


def average_threshold(thresholds: Sequence[float], weights: np.ndarray) -> float:
    """Return the threshold whose logit is the weighted mean of those of others."""
    # Thresholds of 0 and 1, which a search may find, have no logit.
    logits = logit(np.clip(thresholds, ROUNDING, 1.0 - ROUNDING))
    return float(expit(np.average(logits, weights=weights)))

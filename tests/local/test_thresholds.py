# SPDX-License-Identifier: BSD-3-Clause
"""Thresholds of classifiers, as those on a probability."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skgems.local import (
    average_threshold,
    decision_threshold,
    has_threshold,
    local_model,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
Y = np.where(X[:, 0] + RNG.normal(size=200) > 1.0, "well", "ill")  # "well" is rare


@pytest.mark.parametrize(
    "classifier",
    [
        FixedThresholdClassifier(LogisticRegression(), threshold=0.2),
        FixedThresholdClassifier(LogisticRegression(), threshold=0.7, pos_label="ill"),
        FixedThresholdClassifier(LinearSVC(), threshold=-0.4),
        FixedThresholdClassifier(LinearSVC(), threshold=0.4, pos_label="ill"),
        TunedThresholdClassifierCV(LogisticRegression(), cv=3),
        make_pipeline(
            StandardScaler(),
            FixedThresholdClassifier(LogisticRegression(), threshold=0.3),
        ),
    ],
)
def test_labels_follow_from_the_threshold_and_the_probability(classifier):
    fitted = FrozenEstimator(classifier.fit(X, Y))
    assert has_threshold(fitted)
    proba = local_model(fitted, name="lyon").probabilities(X, np.array(["ill", "well"]))
    threshold = decision_threshold(fitted)
    clear = np.abs(proba[:, 1] - threshold) > 1e-9
    predicted = np.where(proba[:, 1] >= threshold, "well", "ill")
    np.testing.assert_array_equal(predicted[clear], fitted.predict(X)[clear])


def test_classifiers_without_a_threshold_have_one_half():
    for classifier in (
        LogisticRegression(),
        FixedThresholdClassifier(LogisticRegression()),
    ):
        fitted = classifier.fit(X, Y)
        assert not has_threshold(fitted)
        assert decision_threshold(fitted) == 0.5


def test_a_threshold_on_scores_is_none_on_probabilities():
    classifier = FixedThresholdClassifier(
        LogisticRegression(), threshold=1.0, response_method="decision_function"
    )
    assert decision_threshold(classifier.fit(X, Y)) is None


def test_thresholds_are_averaged_as_logits():
    assert average_threshold([0.2, 0.5], np.ones(2)) == pytest.approx(1 / 3)
    assert average_threshold([0.2, 0.5], np.array([1.0, 0.0])) == pytest.approx(0.2)
    assert 0.0 < average_threshold([0.0, 1.0], np.array([2.0, 1.0])) < 0.5

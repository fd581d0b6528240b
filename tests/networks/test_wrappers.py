# SPDX-License-Identifier: BSD-3-Clause
"""Wrappers around classifiers are opened."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.classifiers import rows_of_classes
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline

from skgems.networks import is_fitted, read_network


def test_the_classifier_within_wrappers_is_read():
    X, y = rows_of_classes(3)
    bare = LogisticRegression(C=0.1).fit(X, y)
    expected = read_network(bare).coefs[0]
    grid = GridSearchCV(LogisticRegression(), {"C": [0.1]}, cv=2).fit(X, y)
    randomized = RandomizedSearchCV(
        LogisticRegression(), {"C": [0.1]}, n_iter=1, cv=2
    ).fit(X, y)
    grid_of_pipelines = GridSearchCV(
        Pipeline([("clf", LogisticRegression())]), {"clf__C": [0.1]}, cv=2
    ).fit(X, y)
    wrapped = [
        FrozenEstimator(bare),
        FrozenEstimator(FrozenEstimator(bare)),
        grid,
        FrozenEstimator(grid),
        randomized,
        Pipeline([("clf", FrozenEstimator(bare))]),
        Pipeline([("none", "passthrough"), ("inner", Pipeline([("clf", bare)]))]),
        grid_of_pipelines,
    ]
    for estimator in wrapped:
        assert is_fitted(estimator)
        np.testing.assert_allclose(read_network(estimator).coefs[0], expected)


def test_the_error_about_a_search_without_refit_says_to_refit():
    X, y = rows_of_classes(2)
    search = GridSearchCV(LogisticRegression(), {"C": [1]}, cv=2, refit=False)
    with pytest.raises(TypeError, match="Node 'ward'.*refit=True"):
        read_network(search.fit(X, y), name="ward")

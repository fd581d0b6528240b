# SPDX-License-Identifier: BSD-3-Clause
"""Rows of few classes, and scikit-learn classifiers fitted to them."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.datasets import make_classification

LABELS = np.array(["cat", "dog", "eel", "fox"])


def rows_of_classes(n_classes, seed=0):
    """120 rows of seven features, and labels out of LABELS."""
    X, y = make_classification(
        n_samples=120,
        n_features=7,
        n_informative=5,
        n_classes=n_classes,
        class_sep=0.5,
        random_state=seed,
    )
    return X, LABELS[y]


def fit_quietly(estimator, X, y):
    """The estimator, fitted without warnings, as of few iterations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y)

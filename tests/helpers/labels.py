# SPDX-License-Identifier: BSD-3-Clause
"""Comparisons of predicted labels, but for rows whose labels rounding decides."""

from __future__ import annotations

import numpy as np

# Two classes whose probabilities differ by less tie, up to rounding.
TIE = 1e-9


def are_decided(classifier, X):
    """Mask of the rows of X whose label no last bit decides, (n_rows,)."""
    if hasattr(classifier, "predict_proba"):
        scores = np.asarray(classifier.predict_proba(X))
    else:
        scores = np.asarray(classifier.decision_function(X))
    if scores.ndim == 1:  # of the second class relative to the first
        return np.abs(scores) > TIE
    if scores.shape[1] == 1:
        return np.ones(len(scores), dtype=bool)
    second, first = np.sort(scores, axis=1)[:, -2:].T
    return first - second > TIE


def assert_same_labels(first, second, X, *, X_of_second=None):
    """Two classifiers predict the same labels of rows, but where classes tie.

    ``X_of_second`` are the same rows as the second classifier takes them.
    """
    __tracebackhide__ = True
    rows = are_decided(first, X)
    labels = second.predict(X if X_of_second is None else X_of_second)
    np.testing.assert_array_equal(first.predict(X)[rows], labels[rows])

# SPDX-License-Identifier: BSD-3-Clause
"""Fit any classifier to class probabilities instead of labels."""

from __future__ import annotations

import numpy as np
from scipy.sparse import issparse
from sklearn.dummy import DummyClassifier
from sklearn.utils.validation import has_fit_parameter

from ..local import fit_local

# Probabilities below are left out: a row is repeated for the classes that matter.
_NEGLIGIBLE = 1e-3
# Without sample weights: copies of a row, dealt to the classes.
_COPIES = 10


def fit_to_probabilities(
    student, X, proba: np.ndarray, classes: np.ndarray, seed: int | None = None
):
    """Fit and return a classifier of soft targets; of one class, a DummyClassifier.

    By ``sample_weight`` the loss is the cross-entropy to probabilities of 0.001 and
    more. A student without it sees ten copies of each row, labelled in proportion.
    """
    weighted = has_fit_parameter(student, "sample_weight")
    if weighted:
        kept = proba >= min(_NEGLIGIBLE, proba.max(axis=1).min())
        weights = np.where(kept, proba, 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
    else:
        weights = largest_remainders(proba, _COPIES)
    rows, columns = np.nonzero(weights)
    amounts = weights[rows, columns]
    if len(np.unique(columns)) == 1:
        return DummyClassifier(strategy="most_frequent").fit(X, classes[columns])
    if weighted:
        return student.fit(X[rows], classes[columns], sample_weight=amounts)
    rows, columns = np.repeat(rows, amounts), np.repeat(columns, amounts)
    # Copies of a row would otherwise share a batch, or a fold.
    order = np.random.RandomState(0).permutation(len(rows))
    X = X[rows[order]] if not issparse(X) else X[rows[order]].tocsr()
    return fit_local(student, X, classes[columns[order]], classes, seed)


def largest_remainders(proba: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers in proportion to probabilities, a row of which sums to ``total``.

    Rounded down, the rest dealt to the largest remainders.
    """
    exact = proba * total
    amounts = np.floor(exact).astype(np.int64)
    missing = total - amounts.sum(axis=1, keepdims=True)
    rank = np.argsort(np.argsort(amounts - exact, axis=1, kind="stable"), axis=1)
    return amounts + (rank < missing)

"""Fit any classifier to probabilities, which are more than labels say.

Where its ``fit`` takes ``sample_weight``, each row is repeated for each class c with
the weight p_c, so that its loss is the cross-entropy. Else each row has ten copies,
whose labels are dealt in proportion to p.
"""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.utils.validation import has_fit_parameter

from ..compat import safe_indexing
from ..local import fit_local

# Probabilities below are left out: a row is repeated for the classes that matter.
_NEGLIGIBLE = 1e-3
# Copies of a row where there are no weights: probabilities are rounded to tenths.
_COPIES = 10


def fit_to_probabilities(
    student: BaseEstimator,
    X,
    proba: np.ndarray,
    *,
    classes: np.ndarray,
    seed: int | None = None,
) -> BaseEstimator:
    """Fit and return a classifier of soft targets; of one class, a DummyClassifier.

    ``proba`` has the shape (n_rows, n_classes); the seed is for torch modules.
    """
    if has_fit_parameter(student, "sample_weight"):
        weights = _row_weights(proba)
        rows, columns = np.nonzero(weights)
        if len(np.unique(columns)) == 1:
            return _constant(X, classes[columns])
        return student.fit(
            safe_indexing(X, rows),
            classes[columns],
            sample_weight=weights[rows, columns],
        )
    copies = _numbers_of_copies(proba)
    rows, columns = np.nonzero(copies)
    if len(np.unique(columns)) == 1:
        return _constant(X, classes[columns])
    amounts = copies[rows, columns]
    rows = np.repeat(rows, amounts)
    columns = np.repeat(columns, amounts)
    # Copies of a row would otherwise share a batch, or a fold.
    order = np.random.RandomState(0).permutation(len(rows))
    X = safe_indexing(X, rows[order])
    return fit_local(student, X, classes[columns[order]], classes=classes, seed=seed)


def _constant(X, y: np.ndarray) -> DummyClassifier:
    return DummyClassifier(strategy="most_frequent").fit(X, y)


def _row_weights(proba: np.ndarray) -> np.ndarray:
    """Probabilities without those that are negligible; each row sums to 1."""
    kept = proba >= min(_NEGLIGIBLE, proba.max(axis=1).min())
    weights = np.where(kept, proba, 0.0)
    return weights / weights.sum(axis=1, keepdims=True)


def _numbers_of_copies(proba: np.ndarray) -> np.ndarray:
    """Copies of each row for each class: rounded by the largest remainders."""
    exact = proba * _COPIES
    copies = np.floor(exact).astype(np.int64)
    missing = _COPIES - copies.sum(axis=1, keepdims=True)
    order = np.argsort(copies - exact, axis=1, kind="stable")
    ranks = np.argsort(order, axis=1)  # 0 for the largest remainder
    return copies + (ranks < missing)

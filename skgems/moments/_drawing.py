# SPDX-License-Identifier: BSD-3-Clause
"""Rows that are nobody's, drawn from what rows came to in sums."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from ._class_moments import SHARED, ClassMoments


def draw_rows(
    moments: ClassMoments, n_rows: int, *, random_state=None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows from a mixture of Gaussians, one for each part.

    Each has its part's mean and the variances of its class within parts, and no
    covariances. Parts are drawn as often as they have rows.

    Parameters
    ----------
    moments : ClassMoments
    n_rows : int
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : ndarray of shape (n_rows, n_features), dtype float64
    y : ndarray of shape (n_rows,), int
        Class of each.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.moments import class_moments, draw_rows
    >>> X, y = np.array([[0.0], [2.0], [9.0], [9.0]]), np.array([0, 0, 1, 1])
    >>> X, y = draw_rows(class_moments(X, y), 1000, random_state=0)
    >>> bool(abs(X[y == 0].std() - 1.0) < 0.1), np.unique(X[y == 1])
    (True, array([9.]))
    """
    rng = check_random_state(random_state)
    parts = rng.choice(
        len(moments.counts), n_rows, p=moments.counts / moments.counts.sum()
    )
    classes, places = np.unique(moments.columns, return_inverse=True)
    deviations = np.sqrt(
        np.stack([_variances(moments, column) for column in classes.tolist()])
    )
    X = rng.standard_normal((n_rows, moments.n_features))
    X *= deviations[places[parts]]
    X += (moments.origin + moments.means)[parts]
    return X, moments.columns[parts]


def _variances(moments: ClassMoments, column: int) -> np.ndarray:
    """Of each feature within the parts of a class, or of all that have none told."""
    for group in (column, SHARED):
        own = np.flatnonzero(moments.groups == group)
        if len(own):
            scatter = moments.scatter[own[0]]
            if not moments.is_diagonal:
                scatter = scatter.diagonal()
            count = max(moments.group_counts[own[0]], 1.0)
            return np.maximum(scatter, 0.0) / count
    return np.zeros(moments.n_features)

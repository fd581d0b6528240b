# SPDX-License-Identifier: BSD-3-Clause
"""Rows that are nobody's, drawn from what rows came to in sums."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from ._class_moments import SHARED, ClassMoments


def draw_rows(
    moments: ClassMoments, n_rows: int, *, random_state=None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows and their classes from a mixture of Gaussians, one for each part.

    Each has its part's mean and the variances of its class within parts, and no
    covariances. Parts are drawn in proportion to their rows.
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
    """Of each feature within the parts of a class; shared if it has no scatter."""
    for group in (column, SHARED):
        own = np.flatnonzero(moments.groups == group)
        if len(own):
            scatter = moments.scatter[own[0]]
            if not moments.is_diagonal:
                scatter = scatter.diagonal()
            count = max(moments.group_counts[own[0]], 1.0)
            return np.maximum(scatter, 0.0) / count
    return np.zeros(moments.n_features)

# SPDX-License-Identifier: BSD-3-Clause
"""Parts of classes: those that lie close become one, and rows are drawn from them."""

import numpy as np
from sklearn.utils import check_random_state

from ._blocks import ratio
from ._class_moments import SHARED, ClassMoments
from ._k_means import k_means

_MAX_ITERATIONS = 10
# As where nodes divide their classes: rounding must not choose between parts.
_DIGITS = 6


def fewer_parts(moments: ClassMoments, most: int) -> ClassMoments:
    """Merge parts of each class by k-means of their means, to `most` of all classes.

    A class keeps at least one. Features count in units of their deviation within parts.
    Which parts become one does not depend on their order.
    """
    n_parts = len(moments.columns)
    if n_parts <= most:
        return moments
    within = moments.within()
    within = within if moments.is_diagonal else within.diagonal()
    inverse = ratio(1.0, np.sqrt(np.maximum(within, 0.0)))
    if not inverse.any():  # each part is one row, as often as it comes
        inverse = ratio(1.0, np.sqrt(moments.variances()))
    places = ((moments.means - moments.mean()) * inverse).round(_DIGITS)
    along = places @ np.random.RandomState(0).standard_normal(len(inverse))
    order = np.lexsort((along, moments.columns))
    labels, n_labels = np.empty(n_parts, dtype=np.intp), 0
    _, starts = np.unique(moments.columns[order], return_index=True)
    for own in np.split(order, starts[1:]):
        n_clusters = max(1, most * len(own) // n_parts)
        found = np.zeros(len(own), dtype=np.intp)
        if n_clusters > 1:
            found = k_means(
                places[own],
                n_clusters,
                weights=moments.counts[own],
                max_iter=_MAX_ITERATIONS,
                random_state=0,
            )
        labels[own] = n_labels + found
        n_labels = labels[own].max() + 1
    return moments.merged_parts(labels)


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

# SPDX-License-Identifier: BSD-3-Clause
"""Parts of many nodes that lie close together become one."""

from __future__ import annotations

import numpy as np

from ._class_moments import ClassMoments
from ._k_means import k_means

_MAX_ITERATIONS = 10
# As where nodes divide their classes: rounding must not choose between parts.
_DIGITS = 6


def fewer_parts(moments: ClassMoments, most: int) -> ClassMoments:
    """Merge parts of a class by k-means of their means, if there are too many.

    Features count in units of their deviation within parts. Which parts become one does
    not depend on their order.

    Parameters
    ----------
    moments : ClassMoments
    most : int
        Parts that may be left, of all classes together; a class keeps one at least.

    Returns
    -------
    moments : ClassMoments
        What lies between the merged parts joins the scatter of their class.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.moments import class_moments, fewer_parts
    >>> X, y = np.array([[0.0], [1.0], [8.0], [9.0]]), np.zeros(4, dtype=int)
    >>> told = fewer_parts(class_moments(X, y, parts=np.arange(4)), 2)
    >>> np.sort((told.origin + told.means).ravel()), told.scatter.ravel()
    (array([0.5, 8.5]), array([1.]))
    """
    n_parts = len(moments.columns)
    if n_parts <= most:
        return moments
    within = moments.within()
    within = within if moments.is_diagonal else within.diagonal()
    inverse = np.divide(
        1.0, np.sqrt(np.abs(within)), out=np.zeros_like(within), where=within > 0
    )
    if not inverse.any():  # each part is one row, as often as it comes
        spread = np.sqrt(moments.variances())
        inverse = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
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

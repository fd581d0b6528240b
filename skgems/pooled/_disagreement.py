"""What nodes claim in their sums, by which they are judged: class means, and spread."""

from collections.abc import Sequence

import numpy as np

from ..local import indices_of
from ..moments import ClassMoments, ClassSums, NodeClaim, claims_of_moments

# Divisor of sums over no rows, which are 0.
_TINY = np.finfo(np.float64).tiny


def claims_of_sums(
    sums_by_node: Sequence[ClassMoments] | Sequence[ClassSums],
    rows_by_class: Sequence[np.ndarray],
    classes: np.ndarray,
) -> tuple[list[NodeClaim], np.ndarray | None]:
    """Return what nodes claim in moments, or in sums of values or categories.

    ``rows_by_class`` has the rows of each node by class, whatever these weigh,
    (n_classes,) each. Second come variances, (n_features,), of nodes that do not say
    how far rows are from their means; None: they do. For counts of categories, or of
    rows above a threshold, variances follow from their share. Sums of values are taken
    for counts of events, as the classifiers take them that are made of such: their
    variance is their mean. All nodes say as much of them, however many rows they claim.
    """
    if not isinstance(sums_by_node[0], ClassSums):
        return claims_of_moments(sums_by_node, rows_by_class), None
    total = ClassSums.merged(sums_by_node)
    claims = [
        NodeClaim(
            columns=indices_of(sums.labels, classes),
            counts=sums.counts,
            # A class without rows has sums of 0, and so a mean of 0.
            means=total.widened(sums) / np.maximum(sums.counts, _TINY)[:, None],
        ).of_rows(n_rows)
        for sums, n_rows in zip(sums_by_node, rows_by_class, strict=True)
    ]
    average = np.mean(
        [claim.counts @ claim.means / claim.n_rows for claim in claims], axis=0
    )
    are_shares = bool((average <= 1.0).all()) and total.sizes is not None
    # Variance of a share p: p (1 - p); of a count of events: its mean.
    return claims, average * (1.0 - average) if are_shares else average

"""Groups of rows, such as those of one patient, which stay together.

Models that are judged by other rows of a patient whom they know look too good.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length, column_or_1d

from ._labels import missing_labels

# Weights of classes are whole numbers in this part of one: 1,024 tell shares apart that
# differ by a thousandth, and products with counts of 1e7 rows stay within int64.
_SCALE_OF_WEIGHTS = 1024


def as_groups(groups: ArrayLike | None, X) -> np.ndarray | None:
    """A number for the group of each row, (n_rows,); None where nobody gave groups."""
    if groups is None:
        return None
    groups = column_or_1d(groups)
    check_consistent_length(X, groups)
    n_missing = int(missing_labels(groups).sum())
    if n_missing:
        raise ValueError(
            f"groups has no entry (it is None, NaN or NA) for {n_missing} of its "
            f"{len(groups)} rows. Give each row the group that it belongs to, such as "
            "the patient; a row that belongs to none needs a group of its own."
        )
    numbers: dict = {}
    return np.array(
        [numbers.setdefault(group, len(numbers)) for group in groups.tolist()],
        dtype=np.intp,
    )


def parts_of_groups(
    groups: np.ndarray,
    y: np.ndarray,
    *,
    n_parts: int,
    rng: np.random.RandomState,
) -> np.ndarray:
    """The part of each row, so that all rows of a group are in the same: (n_rows,).

    Groups with many rows of few classes come first. Each goes to the part that has the
    least of the group's classes so far, and to the smallest of several such parts.
    """
    _, group_of_row = np.unique(groups, return_inverse=True)
    labels, class_of_row = np.unique(y, return_inverse=True)
    n_groups = group_of_row.max(initial=-1) + 1
    counts = np.zeros((n_groups, len(labels)), dtype=np.int64)
    np.add.at(counts, (group_of_row, class_of_row), 1)
    # Rare classes weigh more. Whole numbers, so that no rounding decides a tie.
    weights = _SCALE_OF_WEIGHTS * len(y) // np.maximum(counts.sum(axis=0), 1)
    order = rng.permutation(n_groups)
    spreads = len(labels) * (counts**2).sum(axis=1) - counts.sum(axis=1) ** 2
    order = order[np.argsort(-spreads[order], kind="stable")]
    totals = np.zeros((n_parts, len(labels)), dtype=np.int64)
    part_of_group = np.empty(n_groups, dtype=np.intp)
    first_part = rng.randint(n_parts)  # that gets the first of equal groups
    for group in order:
        excess = totals @ (weights * counts[group])
        sizes = totals.sum(axis=1)
        ranks = (np.arange(n_parts) - first_part) % n_parts
        part = np.lexsort((ranks, sizes, excess))[0]
        part_of_group[group] = part
        totals[part] += counts[group]
    return part_of_group[group_of_row]


def shuffled_by_class(codes: NDArray, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Indices of rows, class by class, in random order within each class."""
    shuffled = rng.permutation(len(codes))
    return shuffled[np.argsort(codes[shuffled], kind="stable")]

"""Which classes of a node whose rows come in chunks may tell of their clusters.

Where they may, each cluster has a count, a mean and squares beside the products of the
class. No leverage exceeds what the ends of each column within each cluster allow.
"""

import numpy as np

from ..disclosure import Disclosure, GroupSums
from ..moments import ClassMoments, class_moments, merge_moments
from ._chunk_rule import ChunkRule
from ._classifiers import Rows


class ClusterEnds:
    """Sums of parts by squared weights, and the ends of their columns.

    Rows are added with the residuals of the own model beside them, if its gradient is
    told.
    """

    def __init__(self) -> None:
        self.numbers = np.zeros(0, dtype=np.intp)  # (n_parts,), sorted
        self.sums: ClassMoments | None = None
        self._ends: dict[int, tuple] = {}  # by number: low, high, largest square

    def add(
        self, Z: Rows, columns: np.ndarray, numbers: np.ndarray, squares: np.ndarray
    ) -> None:
        """Add rows with their classes, parts and squared weights."""
        sums = class_moments(
            Z, columns, kind="diagonal", parts=numbers, weights=squares
        )
        self.sums = sums if self.sums is None else merge_moments([self.sums, sums])
        present = np.unique(numbers)
        all_numbers = np.append(self.numbers, present)
        order = np.argsort(all_numbers, kind="stable")
        self.sums = self.sums.some_parts(order).merged_parts(all_numbers[order])
        self.numbers = np.unique(all_numbers)
        for number in present.tolist():
            of_part = np.flatnonzero(numbers == number)
            rows = Z[of_part]
            low, high = (_dense_row(rows.min(axis=0)), _dense_row(rows.max(axis=0)))
            largest = squares[of_part].max()
            if number in self._ends:
                before = self._ends[number]
                low = np.minimum(low, before[0])
                high = np.maximum(high, before[1])
                largest = max(largest, before[2])
            self._ends[number] = (low, high, largest)

    def told_parts(
        self, merged_into: np.ndarray, *, told: ChunkRule, rule: Disclosure, kind: str
    ) -> np.ndarray:
        """For each part the one that it becomes one with, under the rule.

        Where clusters of a class may not be told, they all become one. ``merged_into``
        (n_parts,) says the same before the rule.
        """
        labels, part_of = np.unique(merged_into, return_inverse=True)
        sums = self.sums.merged_parts(merged_into)
        ends = [self._ends[number] for number in self.numbers.tolist()]
        low = np.full((len(labels), sums.n_features), np.inf)
        high = np.full((len(labels), sums.n_features), -np.inf)
        largest = np.zeros(len(labels))
        np.minimum.at(low, part_of, np.array([end[0] for end in ends]))
        np.maximum.at(high, part_of, np.array([end[1] for end in ends]))
        np.maximum.at(largest, part_of, np.array([end[2] for end in ends]))
        merged_into = merged_into.copy()
        for c in np.unique(sums.columns).tolist():
            parts = np.flatnonzero(sums.columns == c)
            may_tell = kind != "shared" and told.owns(kind)[c]
            may_tell = may_tell and (told.is_divided is None or told.is_divided[c])
            if len(parts) == 1 or (
                may_tell
                and _clusters_hold(
                    sums.some_parts(parts),
                    low=low[parts],
                    high=high[parts],
                    largest=largest[parts],
                    scatter=None if kind == "diagonal" else _scatter_of(told.sums, c),
                    bound=rule.leverage,
                )
            ):
                continue
            merged_into[np.isin(part_of, parts)] = labels[parts[0]]
        return merged_into


def _dense_row(row: Rows) -> np.ndarray:
    return np.ravel(row.toarray() if hasattr(row, "toarray") else row)


def _scatter_of(sums: ClassMoments, c: int) -> np.ndarray:
    """Return the scatter of a class."""
    return sums.scatter[int(np.flatnonzero(sums.groups == c)[0])]


def _clusters_hold(
    parts: ClassMoments,
    *,
    low: np.ndarray,
    high: np.ndarray,
    largest: np.ndarray,
    scatter: np.ndarray | None,
    bound: float,
) -> bool:
    """Report whether no row is most of a sum, with the clusters of one class told."""
    means = parts.origin + parts.means
    lengths = np.maximum(np.abs(high - means), np.abs(low - means)) ** 2
    of_counts = 1.0 / parts.counts[:, None]
    squares = np.maximum(parts.part_squares, np.finfo(float).tiny)
    shares = largest[:, None] * (of_counts + lengths / squares)
    if (np.where(high > low, shares, 0.0) >= bound).any():
        return False
    if scatter is None:
        return True
    # What is left of the scatter of the class within its clusters.
    mean = parts.counts @ means / parts.counts.sum()
    between = (parts.counts[:, None] * (means - mean)).T @ (means - mean)
    within = GroupSums(totals=parts.counts, means=means, scatter=scatter - between)
    units = 1.0 / np.sqrt(np.maximum(np.diag(within.scatter), np.finfo(float).tiny))
    units[(high == low).all(axis=0)] = 0.0
    least = within.least_eigenvalue(units)
    if least <= 0:
        return False
    of_rows = largest * (of_counts[:, 0] + (lengths @ units**2) / least)
    return bool(of_rows.max() < bound)

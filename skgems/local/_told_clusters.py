"""Which classes of a node whose rows come in chunks may tell of their clusters.

Where they may, each cluster has a count, a mean and squares beside the products of the
class. With the scatter S of a class and ``B'SB = 1``, rows are ``y = B'(x - m)``. Their
scatter within clusters is ``W = 1 - sum_p V_p m_p m_p'``, and a leverage is at most

    h <= v (1 / V_p + |y - m_p|^2 / l),    l the least eigenvalue of W.
"""

from dataclasses import dataclass

import numpy as np

from ..disclosure import Disclosure, GroupSums
from ..moments import ROUNDING_OF_SUMS, ClassMoments, class_moments, merge_moments
from ._chunk_rule import ChunkRule
from ._classifiers import Rows


@dataclass(eq=False, kw_only=True)
class _Ends:
    """The ends of columns in one part, and a sum over its rows."""

    low: np.ndarray  # (n_columns,)
    high: np.ndarray  # (n_columns,)
    total: np.ndarray  # (n_columns,), by squared weights

    @classmethod
    def from_rows(cls, rows: Rows, squares: np.ndarray) -> "_Ends":
        """Return the lowest and highest values of rows, and their weighted sum."""
        low, high = (_dense_row(rows.min(axis=0)), _dense_row(rows.max(axis=0)))
        return cls(low=low, high=high, total=_dense_row(squares @ rows))

    def add(self, other: "_Ends") -> None:
        """Add those of other rows."""
        np.minimum(self.low, other.low, out=self.low)
        np.maximum(self.high, other.high, out=self.high)
        self.total += other.total

    def lengths(self, total_square: float) -> np.ndarray:
        """Return the largest squared distances from the mean, (n_columns,)."""
        mean = self.total / total_square
        return np.maximum(np.abs(self.high - mean), np.abs(self.low - mean)) ** 2


@dataclass(eq=False, kw_only=True)
class _Part:
    """What is known of the rows of one part."""

    c: int  # its class
    total_square: float  # of squared weights
    largest_square: float
    columns: _Ends
    # In the directions of the scatter of the class, with the residuals; None: there is
    # no scatter.
    directions: _Ends | None

    def add(self, other: "_Part") -> None:
        """Add the rows of another part."""
        self.total_square += other.total_square
        self.largest_square = max(self.largest_square, other.largest_square)
        self.columns.add(other.columns)
        if self.directions is not None and other.directions is not None:
            self.directions.add(other.directions)


class ClusterEnds:
    """Sums of parts by squared weights, and the ends of their columns.

    Parameters
    ----------
    told : ChunkRule
    rule : Disclosure
    kind : {"class", "shared", "diagonal"}
        What is asked for.
    """

    def __init__(self, *, told: ChunkRule, rule: Disclosure, kind: str) -> None:
        self.rule = rule
        may_tell = told.owns(kind) & (kind != "shared")
        if told.is_divided is not None:
            may_tell &= told.is_divided
        self.may_tell = may_tell  # (n_classes,)
        self._tells_products = kind == "class"
        self._told = told
        self._parts: dict[int, _Part] = {}  # by number
        self._squares: ClassMoments | None = None  # of parts, in the order of numbers
        # By class: its mean and directions of its scatter.
        self._bases: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        if kind == "class":
            for c in np.flatnonzero(may_tell).tolist():
                self._bases[c] = _mean_and_directions(told.sums, c)

    def add(
        self,
        X: Rows,
        y: np.ndarray,
        weights: np.ndarray | None,
        *,
        codes: np.ndarray,
        numbers: np.ndarray,
    ) -> None:
        """Add rows, given the indices of their classes and the numbers of parts."""
        squares = np.ones(len(y)) if weights is None else weights**2
        numbers_before = np.array(sorted(self._parts), dtype=np.intp)
        for number in np.unique(numbers).tolist():
            rows = np.flatnonzero(numbers == number)
            part = self._part_of(
                X[rows],
                y[rows],
                None if weights is None else weights[rows],
                c=int(codes[rows[0]]),
                squares=squares[rows],
            )
            if number in self._parts:
                self._parts[number].add(part)
            else:
                self._parts[number] = part
        sums = class_moments(X, codes, kind="diagonal", parts=numbers, weights=squares)
        if self._squares is not None:
            sums = merge_moments([self._squares, sums])
        numbers_now = np.append(numbers_before, np.unique(numbers))
        order = np.argsort(numbers_now, kind="stable")
        self._squares = sums.some_parts(order).merged_parts(numbers_now[order])

    def _part_of(
        self,
        X: Rows,
        y: np.ndarray,
        weights: np.ndarray | None,
        *,
        c: int,
        squares: np.ndarray,
    ) -> _Part:
        directions = None
        if c in self._bases:
            mean, basis = self._bases[c]
            residuals = self._told.residuals
            Z = X if residuals is None else residuals.beside(X, y, weights)
            Z = Z.toarray() if hasattr(Z, "toarray") else Z
            directions = _Ends.from_rows((Z - mean) @ basis, squares)
        return _Part(
            c=c,
            total_square=float(squares.sum()),
            largest_square=float(squares.max()),
            columns=_Ends.from_rows(X, squares),
            directions=directions,
        )

    def told_parts(self, merged_into: np.ndarray) -> np.ndarray:
        """For each part the one that it becomes one with, under the rule.

        Where clusters of a class may not be told, they all become one. ``merged_into``
        (n_parts,) says the same before the rule.
        """
        squares = self._squares.merged_parts(merged_into).part_squares
        targets = np.unique(merged_into).tolist()
        numbers = sorted(self._parts)
        merged: dict[int, _Part] = {}
        for target, number in zip(merged_into.tolist(), numbers, strict=True):
            if target in merged:
                merged[target].add(self._parts[number])
            else:
                merged[target] = self._parts[number]
        merged_into = merged_into.copy()
        n_left = self._told.n_left
        for c in sorted({part.c for part in merged.values()}):
            of_class = [target for target in targets if merged[target].c == c]
            places = [targets.index(target) for target in of_class]
            if len(of_class) == 1:
                continue
            parts = [merged[target] for target in of_class]
            if (
                self.may_tell[c]
                and self._has_room(c, parts, n_left=n_left)
                and self._hold(
                    parts, squares=None if squares is None else squares[places]
                )
            ):
                n_left -= _n_numbers(parts)
            else:
                merged_into[np.isin(merged_into, of_class)] = of_class[0]
        return merged_into

    def _has_room(self, c: int, parts: list[_Part], *, n_left: float) -> bool:
        """Report whether a class may tell as many numbers as its clusters are."""
        if self._told.most_numbers is None:
            return True
        n_columns = len(parts[0].columns.low)
        n_products = n_columns * (n_columns + 1) / 2
        n_of_class = n_products if self._tells_products else 2 * n_columns
        n_numbers = 2 * len(parts) * n_columns + n_of_class
        return n_numbers <= self._told.most_numbers[c] and _n_numbers(parts) <= n_left

    def _hold(self, parts: list[_Part], *, squares: np.ndarray | None) -> bool:
        """Report whether no row is most of a sum, with clusters of one class told."""
        bound = self.rule.leverage
        if squares is None:
            return False
        for part, squares_of_part in zip(parts, squares, strict=True):
            lengths = part.columns.lengths(part.total_square)
            has_spread = part.columns.high > part.columns.low
            smallest = np.finfo(float).tiny
            shares = lengths / np.maximum(squares_of_part, smallest)
            shares = part.largest_square * (shares + 1.0 / part.total_square)
            if (shares[has_spread] >= bound).any():
                return False
        ends = [part.directions for part in parts if part.directions is not None]
        if len(ends) < len(parts):
            return True  # variances alone
        roots = np.array(
            [
                part.directions.total / np.sqrt(part.total_square)
                for part in parts
                if part.directions is not None
            ]
        )
        within = np.eye(roots.shape[1]) - roots.T @ roots
        least = np.linalg.eigvalsh(within).min(initial=1.0)
        if least < ROUNDING_OF_SUMS:
            return False
        for part, end in zip(parts, ends, strict=True):
            length = end.lengths(part.total_square).sum()
            if part.largest_square * (1 / part.total_square + length / least) >= bound:
                return False
        return True


def _n_numbers(parts: list[_Part]) -> int:
    """Return how many numbers clusters are beside the mean and products of a class."""
    return (2 * len(parts) - 1) * len(parts[0].columns.low)


def _dense_row(row: Rows) -> np.ndarray:
    return np.ravel(row.toarray() if hasattr(row, "toarray") else row).astype(float)


def _mean_and_directions(sums: ClassMoments, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of a class, and columns B with ``B'SB = 1`` of its scatter S."""
    (place,) = np.flatnonzero(sums.columns == c)
    (group,) = np.flatnonzero(sums.groups == c)
    mean = sums.origin + sums.means[place]
    of_class = GroupSums(
        totals=sums.counts[[place]], means=mean[None], scatter=sums.scatter[group]
    )
    return mean, of_class.directions()

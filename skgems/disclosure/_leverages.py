"""Leverages of rows, and weights of rows with which none of them is large.

What can be read linearly from ``Z'WZ``, with a line z of Z for each row and weights
w on the diagonal of W, is a sum ``u'Z`` with ``u = WZb`` for some b. By Cauchy and
Schwarz the share of a row in it is at most the row's leverage,

    u_i^2 / sum_j u_j^2 <= h_i = w_i^2 z_i' (Z' W^2 Z)^+ z_i.

With all h below 1/k each such sum depends on more than k rows.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from ._directions import ROUNDING, Directions
from ._group_sums import indicator

# Length of a direction without digits that is rounding, in deviations of columns.
NOTHING = 1e-12
# Deviations of a column up to this share of its size are rounding of equal numbers, as
# moments have it: 16 units in the last place.
CONSTANT = 16.0 * np.finfo(np.float64).eps
# A leverage of 1 but for rounding: the row alone has some direction. With two rows
# asked for, no row may have as much.
ALONE = 1.0 - 1e-6
# Leverages are below the bound by more than rounding.
BELOW = 1.0 - 1e-3
# Weights are lowered to a leverage this much below the bound, so that those of the
# other rows, which rise a little, stay below it, and a further sum may be told.
_MARGIN = 0.9
# Weights below this are 0: such a row adds no more than rounding to an average, and a
# row that is alone in a direction would be lowered for ever.
_LEAST_WEIGHT = 0.03
# Rounds of lowering weights, each of which takes one product of the rows concerned.
_MOST_ROUNDS = 100
# Rounds after which the logarithm of a factor on weights is twice what it was at first.
_PATIENCE = 5.0
# Labels that are whole numbers are counted where they are at most so many times as many
# as rows.
_LARGEST_LABEL = 4
# Share of the bound from which on a row is looked at in each round: the leverages of
# the others are computed at the end alone, and chunks do not keep these rows.
CONCERNED = 0.25


@dataclass(frozen=True, eq=False, kw_only=True)
class Design:
    """Columns of which products are told together, of rows in groups.

    The columns are the indicators of the groups and ``X``. Rows of one unit, such as a
    patient, count as one row: their leverages add up.
    """

    X: np.ndarray  # (n_rows, n_columns), float64
    groups: np.ndarray  # (n_rows,), numbers from 0
    units: np.ndarray  # (n_rows,), numbers from 0
    # Which one it is among those of a table; None: it is asked for once.
    name: Hashable = None

    def of_rows(self, rows: np.ndarray) -> "Design":
        """Return the design of some rows, by their indices."""
        _, groups = np.unique(self.groups[rows], return_inverse=True)
        _, units = np.unique(self.units[rows], return_inverse=True)
        return Design(X=self.X[rows], groups=groups, units=units)

    def of_columns(self, columns: np.ndarray) -> "Design":
        """Return the design of some columns, by their indices."""
        return replace(self, X=self.X[:, columns], name=None)


def numbered(labels: np.ndarray) -> np.ndarray:
    """Return numbers from 0, without gaps, in the order of the labels, (n_rows,).

    They are the inverse of np.unique, which sorts: that takes as long as a product.
    """
    if labels.dtype.kind in "iu" and len(labels) and labels.min() >= 0:
        if labels.max() <= _LARGEST_LABEL * len(labels):
            is_there = np.bincount(labels) > 0
            return (np.cumsum(is_there) - 1)[labels]
    return np.unique(labels, return_inverse=True)[1]


def centered(design: Design, weights: np.ndarray) -> np.ndarray:
    """Return the columns less their means by group, in units of their deviations.

    Weights are those of products of rows, ``w^2``. Columns without spread are 0.
    """
    X, groups = design.X, design.groups
    totals = np.bincount(groups, weights)
    means = (
        _sums_by_group(X, groups, weights) / np.where(totals > 0, totals, 1.0)[:, None]
    )
    X = X - (means if len(means) == 1 else means[groups])
    spread = np.sqrt(np.einsum("i,ij,ij->j", weights, X, X))
    size = np.abs(means).max(axis=0, initial=0.0) * np.sqrt(len(X))
    # Means are rounded: columns that hardly vary are about means of what is left.
    doubtful = np.flatnonzero(spread <= ROUNDING * size)
    if len(doubtful):
        rest = X[:, doubtful]
        further = _sums_by_group(rest, groups, weights)
        further /= np.where(totals > 0, totals, 1.0)[:, None]
        X[:, doubtful] -= further[groups]
        spread[doubtful] = np.sqrt(weights @ np.square(X[:, doubtful]))
    varies = spread > CONSTANT * size
    X *= np.where(varies, 1.0 / np.where(varies, spread, 1.0), 0.0)
    return X


def _sums_by_group(
    X: np.ndarray, groups: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return weighted sums of rows, (n_groups, n_columns)."""
    return indicator(groups, int(groups.max(initial=-1)) + 1, weights) @ X


def basis(design: Design, weights: np.ndarray) -> np.ndarray:
    """Return orthonormal columns that span those of weighted rows, (n_rows, rank).

    A group without weight has no column.
    """
    totals = np.bincount(design.groups, weights**2)
    has_weight = np.flatnonzero(totals > 0)
    indicators = (design.groups[:, None] == has_weight) / np.sqrt(totals[has_weight])
    X = centered(design, weights**2)
    if (weights != 1.0).any():
        X *= weights[:, None]
    directions = Directions.from_products(X.T @ X)
    small = X @ directions.doubtful
    Q = np.hstack([weights[:, None] * indicators, directions.lines(X)])
    small = _small_directions(small, Q)
    return np.hstack([Q, small]) if small.shape[1] else Q


def _small_directions(small: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Return the rest of a basis, of columns that are nearly combinations of others.

    Two columns may differ in one row alone, by little: their difference is that row.
    """
    small = small[:, np.linalg.norm(small, axis=0) > NOTHING]
    if not small.shape[1]:
        return small
    small = small - Q @ (Q.T @ small)
    small /= np.maximum(np.linalg.norm(small, axis=0), NOTHING)
    small = small - Q @ (Q.T @ small)
    values, vectors = np.linalg.eigh(small.T @ small)
    kept = values > ROUNDING
    return small @ (vectors[:, kept] / np.sqrt(values[kept]))


class KeptBases:
    """The last basis of each design of a table that has a name."""

    def __init__(self) -> None:
        self._bases: dict[Hashable, tuple[np.ndarray, np.ndarray]] = {}

    def of_design(self, design: Design, weights: np.ndarray) -> np.ndarray:
        """Return the basis of a design with weights of rows, which is not to change."""
        if design.name is None:
            return basis(design, weights)
        kept_weights, Q = self._bases.get(design.name, (weights, None))
        if Q is not None and not np.array_equal(kept_weights, weights):
            Q = _reweighted(Q, kept_weights, weights)
        if Q is None:
            Q = basis(design, weights)
        self._bases[design.name] = (weights, Q)
        return Q


def _reweighted(
    Q: np.ndarray, before: np.ndarray, weights: np.ndarray
) -> np.ndarray | None:
    """Return the basis with lower weights of a few rows; None: find it anew.

    With squared weights v, as shares of those before, it is ``Q L^-T`` with lines times
    the root of v, where ``LL' = Q'VQ = 1 - Q'(1 - V)Q``.
    """
    changed = np.flatnonzero(weights != before)
    if len(changed) > Q.shape[1] or (weights > before).any():
        return None
    shares = weights[changed] / before[changed]
    lost = (1.0 - shares**2)[:, None] * Q[changed]
    directions = Directions.from_products(np.eye(Q.shape[1]) - lost.T @ Q[changed])
    if directions.rank < Q.shape[1]:
        return None
    Q = directions.lines(Q)
    Q[changed] *= shares[:, None]
    return Q


def leverages(design: Design, weights: np.ndarray) -> np.ndarray:
    """Return the leverage of each unit under weights of rows, (n_units,)."""
    return leverages_by_basis(basis(design, weights), design.units)


def leverages_by_basis(Q: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return the leverage of each unit by an orthonormal basis, (n_units,)."""
    return np.bincount(units, np.einsum("ij,ij->i", Q, Q))


def lowered_weights(
    design: Design,
    start: np.ndarray,
    *,
    bound: float,
    least_share: float,
    bases: KeptBases | None = None,
) -> np.ndarray | None:
    """Return weights of rows with which each leverage is below a bound, (n_rows,).

    They are at most those of ``start``. None where less than a share of these would be
    left: the columns are too many for so few rows, or a few rows have directions for
    themselves. ``bases`` are those found before.
    """
    bases = KeptBases() if bases is None else bases
    squares = start**2  # those with which products of rows are summed
    least = least_share * start.sum()
    while True:
        kept = _rows_not_alone(
            design, start, squares, bound=bound, least=least, bases=bases
        )
        if kept is None:
            return None
        rows, units, Q = kept
        factors = lowered_of_basis(Q, units, bound=bound)
        if factors is None:
            return None
        if (factors == 1.0).all() and len(rows) == len(start):
            return start
        squares[rows] = factors * start[rows] ** 2
        if np.sqrt(squares).sum() < least:
            return None
        if (factors > 0).all():
            return np.sqrt(squares)
        # Rows that are gone had directions that the others may not have.
        squares[rows] = np.where(factors > 0, start[rows] ** 2, 0.0)


def _rows_not_alone(
    design: Design,
    start: np.ndarray,
    squares: np.ndarray,
    *,
    bound: float,
    least: float,
    bases: KeptBases,
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return indices of rows of which none has a direction alone, units, and a basis.

    They are among those of squared weights above 0, and the ``squares`` of all others
    become 0. None where they weigh less than ``least``, or are too few for so many
    directions.
    """
    while True:
        rows = np.flatnonzero(squares)
        if start[rows].sum() < least:
            return None
        some = design if len(rows) == len(start) else design.of_rows(rows)
        Q = bases.of_design(some, start[rows])
        if Q.shape[1] > bound * (some.units.max() + 1):
            return None  # the leverages sum to the rank
        is_alone = np.einsum("ij,ij->i", Q, Q) > ALONE
        if not is_alone.any():
            return rows, some.units, Q
        squares[rows[is_alone]] = 0.0


def lowered_of_basis(
    Q: np.ndarray, units: np.ndarray, *, bound: float
) -> np.ndarray | None:
    """Return factors on squared weights of rows of an orthonormal basis, or None.

    It stops at the first rows whose weight becomes 0. Leverages of rows that are not
    small are computed in each round, those of the others at the end.
    """
    squares = np.ones(len(Q))
    h = np.einsum("ij,ij->i", Q, Q)
    limit = bound * BELOW
    if np.bincount(units, h).max() <= limit:
        return squares
    is_concerned = (np.bincount(units, h) > CONCERNED * bound)[units]
    for n_rounds in range(_MOST_ROUNDS):
        concerned = np.flatnonzero(is_concerned)
        now = np.zeros(len(Q))
        lighter = _LighterRows(Q, squares)
        now[concerned] = squares[concerned] * lighter.leverages(Q[concerned])
        of_units = np.bincount(units, now)
        if of_units.max(initial=0.0) > limit:
            # Two rows that share a direction stay near 1/2 each: they go faster later.
            power = 1.0 + n_rounds / _PATIENCE
            factors = (_MARGIN * bound / np.maximum(of_units, limit)) ** power
            factors[of_units <= limit] = 1.0
            squares *= factors[units]
            squares[squares < _LEAST_WEIGHT**2] = 0.0
            if (squares == 0).any():
                return squares
            continue
        others = np.flatnonzero(~is_concerned)
        now[others] = lighter.leverages(Q[others])
        of_units = np.bincount(units, now)
        if of_units.max() <= limit:
            return squares
        is_concerned |= (of_units > CONCERNED * bound)[units]
    return None


class _LighterRows:
    """Leverages by an orthonormal basis, some rows of which weigh less than others.

    With ``Q_l`` these rows and D = 1 - v on the diagonal, their squared weights v, the
    leverage of a line q of the basis, before its weight, is

        q' (1 - Q_l' D Q_l)^-1 q = |q|^2 + q' Q_l' (1 - D K)^-1 D Q_l q,  K = Q_l Q_l'.

    Parameters
    ----------
    Q : ndarray of shape (n_rows, rank)
    squares : ndarray of shape (n_rows,)
        Squared weights, of most rows 1.
    """

    def __init__(self, Q: np.ndarray, squares: np.ndarray) -> None:
        rows = np.flatnonzero(squares < 1.0)
        lost = 1.0 - squares[rows]
        self._Q = Q[rows]
        self._inner: np.ndarray | None = None  # (n_rows, n_rows), (1 - D K)^-1 D
        self._inverse: np.ndarray | None = None  # (rank, rank)
        rank = Q.shape[1]
        if 2 * len(rows) < rank:
            matrix = np.eye(len(rows)) - lost[:, None] * (self._Q @ self._Q.T)
            self._inner = np.linalg.solve(matrix, np.diag(lost))
        else:
            matrix = np.eye(rank) - (lost[:, None] * self._Q).T @ self._Q
            self._inverse = np.linalg.inv(matrix)

    def leverages(self, lines: np.ndarray) -> np.ndarray:
        """Return leverages of lines of the basis before their weights, (n_lines,)."""
        if self._inner is None:
            return np.einsum("ij,ij->i", lines @ self._inverse, lines)
        T = lines @ self._Q.T
        h = np.einsum("ij,ij->i", lines, lines)
        return h + np.einsum("ij,ij->i", T @ self._inner, T)


def columns_lowered(design: Design, start: np.ndarray, *, bound: float) -> np.ndarray:
    """Return weights with which no row has a large leverage in any column alone."""
    squares = start**2
    for n_rounds in range(_MOST_ROUNDS):
        h = _column_leverages(design, squares).max(axis=1, initial=0.0)
        is_high = (h > bound * BELOW)[design.units] & (squares > 0)
        if not is_high.any():
            break
        power = 1.0 + n_rounds / _PATIENCE
        factors = (_MARGIN * bound / h[design.units[is_high]]) ** power
        lower = squares[is_high] * factors
        lower[lower < (_LEAST_WEIGHT * start[is_high]) ** 2] = 0.0
        squares[is_high] = lower
    return np.sqrt(squares)


def means_lowered(design: Design, start: np.ndarray, *, bound: float) -> np.ndarray:
    """Return weights with which no unit is most of the mean of a group.

    Weights that rows had before may differ by any factor. A group of fewer units than
    the bound asks for stays as it is.
    """
    squares = start**2
    n_in_unit = np.bincount(design.units).max(initial=1)
    for group in np.unique(design.groups).tolist():
        rows = np.flatnonzero(design.groups == group)
        of_rows = squares[rows]
        if n_in_unit * of_rows.max() <= _MARGIN * bound * of_rows.sum():
            continue
        _, units = np.unique(design.units[rows], return_inverse=True)
        of_units = np.bincount(units, squares[rows])
        cap = _largest_cap(of_units, share=_MARGIN * bound)
        is_high = (of_units > cap)[units]
        squares[rows[is_high]] *= cap / of_units[units[is_high]]
    return np.sqrt(squares)


def _largest_cap(sizes: np.ndarray, *, share: float) -> float:
    """Return the largest cap on sizes that is at most a share of their sum.

    With k capped sizes and the sum r of the others it is ``c = share (r + k c)``.
    """
    ordered = np.sort(sizes)[::-1]
    if ordered[0] <= share * ordered.sum():
        return ordered[0]
    for k in range(1, len(ordered)):
        if k * share >= 1:  # so many equal sizes have less than the share each
            return ordered[k]
        cap = share * ordered[k:].sum() / (1.0 - k * share)
        if ordered[k] <= cap:
            return cap
    return np.inf


def largest_of_means(design: Design, weights: np.ndarray) -> float:
    """Return the largest leverage of a unit in the means of groups alone."""
    squares = weights**2
    totals = np.bincount(design.groups, squares)[design.groups]
    h = squares / np.where(totals > 0, totals, 1.0)
    return float(np.bincount(design.units, h).max())


def largest_in_columns(design: Design, weights: np.ndarray) -> np.ndarray:
    """Return the largest leverage of a unit in each column alone, (n_columns,)."""
    return _column_leverages(design, weights**2).max(axis=0)


def _column_leverages(design: Design, squares: np.ndarray) -> np.ndarray:
    """Return the leverage of each unit in each column alone, (n_units, n_columns).

    Of a column there are the sums by group and the squares about these means, summed
    over all groups. With squared weights v, their totals V in a group and the sum S of
    squares it is ``h = v (1 / V + (x - m)^2 / S)``. It is 0 in a column without spread.
    """
    X = centered(design, squares)
    totals = np.bincount(design.groups, squares)[design.groups]
    of_groups = squares / np.where(totals > 0, totals, 1.0)
    h = of_groups[:, None] * X.any(axis=0) + squares[:, None] * np.square(X)
    if len(h) == design.units.max() + 1:
        return h
    return _sums_by_group(h, design.units, np.ones(len(h)))

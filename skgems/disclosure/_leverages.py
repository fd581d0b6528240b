"""Leverages of rows, and weights of rows with which none of them is large.

What can be read linearly from ``Z'WZ``, with a line z of Z for each row and weights
w on the diagonal of W, is a sum ``u'Z`` with ``u = WZb`` for some b. By Cauchy and
Schwarz the share of a row in it is at most the row's leverage,

    u_i^2 / sum_j u_j^2 <= h_i = w_i^2 z_i' (Z' W^2 Z)^+ z_i.

With all h below 1/k each such sum depends on more than k rows.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

# Eigenvalues of correlations below this have no digits: their directions are looked at
# again, since the sums that are told have more digits than that.
ROUNDING = 1e-10
# Length of such a direction that is rounding, in deviations of columns.
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

    def of_rows(self, rows: np.ndarray) -> "Design":
        """Return the design of some rows, by their indices."""
        _, groups = np.unique(self.groups[rows], return_inverse=True)
        _, units = np.unique(self.units[rows], return_inverse=True)
        return Design(X=self.X[rows], groups=groups, units=units)

    def of_columns(self, columns: np.ndarray) -> "Design":
        """Return the design of some columns, by their indices."""
        return replace(self, X=self.X[:, columns])


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
    return _indicator(groups, weights) @ X


def _indicator(groups: np.ndarray, weights: np.ndarray) -> sparse.csr_matrix:
    """Return the weights of the rows of each group, (n_groups, n_rows)."""
    n_rows = len(groups)
    shape = (int(groups.max(initial=-1)) + 1, n_rows)
    return sparse.csr_matrix((weights, (groups, np.arange(n_rows))), shape=shape)


def basis(design: Design, weights: np.ndarray) -> np.ndarray:
    """Return columns Q with ``Q'VQ = 1`` that span those of a design, (n_rows, rank).

    V has the ``weights`` of products of rows, ``w^2``, on the diagonal. A group without
    weight has no column.
    """
    totals = np.bincount(design.groups, weights)
    has_weight = totals > 0
    roots = np.sqrt(np.where(has_weight, totals, 1.0))
    indicators = (design.groups[:, None] == np.flatnonzero(has_weight)) / roots[
        has_weight
    ]
    X = centered(design, weights)
    rooted = np.sqrt(weights)[:, None] * X
    values, vectors = np.linalg.eigh(rooted.T @ rooted)
    kept = values > ROUNDING * max(values.max(initial=0.0), 1.0)
    Q = np.hstack([indicators, X @ (vectors[:, kept] / np.sqrt(values[kept]))])
    return np.hstack([Q, _small_directions(X @ vectors[:, ~kept], Q, weights)])


def _small_directions(
    small: np.ndarray, Q: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return the rest of a basis, of columns that are nearly combinations of others.

    Two columns may differ in one row alone, by little: their difference is that row.
    """
    roots = np.sqrt(weights)[:, None]
    small = small[:, np.linalg.norm(roots * small, axis=0) > NOTHING]
    if not small.shape[1]:
        return small
    small = small - Q @ (Q.T @ (weights[:, None] * small))
    small /= np.maximum(np.linalg.norm(roots * small, axis=0), NOTHING)
    small = small - Q @ (Q.T @ (weights[:, None] * small))
    values, vectors = np.linalg.eigh((roots * small).T @ (roots * small))
    kept = values > ROUNDING
    return small @ (vectors[:, kept] / np.sqrt(values[kept]))


def leverages(design: Design, weights: np.ndarray) -> np.ndarray:
    """Return the leverage of each unit under weights w of rows, (n_units,)."""
    Q = basis(design, weights**2)
    return np.bincount(design.units, weights**2 * np.einsum("ij,ij->i", Q, Q))


def largest_leverage_bound(design: Design, weights: np.ndarray) -> float:
    """Return what no leverage exceeds, from eigenvalues of correlations alone.

    It takes one product of the rows, and no more passes over them. With centered and
    scaled rows x and the least eigenvalue l of their products, h <= 1 / n + |x|^2 / l.
    """
    squares = weights**2
    X = centered(design, squares)
    X *= weights[:, None]
    values, vectors = np.linalg.eigh(X.T @ X)
    kept = values > ROUNDING * max(values.max(initial=0.0), 1.0)
    if (np.linalg.norm(X @ vectors[:, ~kept], axis=0) > NOTHING).any():
        return 1.0
    least = values[kept].min(initial=np.inf)
    lengths = np.einsum("ij,ij->i", X, X)
    totals = np.bincount(design.groups, squares)[design.groups]
    of_groups = squares / np.where(totals > 0, totals, 1.0)
    return float(np.bincount(design.units, of_groups + lengths / least).max())


def lowered_weights(
    design: Design, start: np.ndarray, *, bound: float, least_share: float
) -> np.ndarray | None:
    """Return weights of rows with which each leverage is below a bound, (n_rows,).

    They are at most those of ``start``. None where less than a share of these would be
    left: the columns are too many for so few rows, or a few rows have directions for
    themselves.
    """
    if largest_leverage_bound(design, start) < bound:
        return start
    squares = start**2  # those with which products of rows are summed
    least = least_share * start.sum()
    while True:
        rows = np.flatnonzero(squares)
        if start[rows].sum() < least:
            return None
        some = design.of_rows(rows)
        Q = basis(some, start[rows] ** 2) * start[rows, None]
        if Q.shape[1] > bound * (some.units.max() + 1):
            return None  # the leverages sum to the rank
        h = np.einsum("ij,ij->i", Q, Q)
        is_alone = h > ALONE
        if is_alone.any():
            squares[rows[is_alone]] = 0.0
            continue
        factors = lowered_of_basis(Q, some.units, bound=bound)
        if factors is None:
            return None
        squares[rows] = factors * start[rows] ** 2
        if np.sqrt(squares).sum() < least:
            return None
        if (factors > 0).all():
            return np.sqrt(squares)
        # Rows that are gone had directions that the others may not have.
        squares[rows] = np.where(factors > 0, start[rows] ** 2, 0.0)


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
        v = squares[concerned]
        inverse = _InverseProducts.of(Q[concerned], v)
        now = np.zeros(len(Q))
        now[concerned] = v * inverse.leverages()
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
        now[others] = inverse.leverages_of(Q[others])
        of_units = np.bincount(units, now)
        if of_units.max() <= limit:
            return squares
        is_concerned |= (of_units > CONCERNED * bound)[units]
    return None


@dataclass(frozen=True, eq=False, kw_only=True)
class _InverseProducts:
    """The inverse of ``1 - Q_c' D Q_c``, with D = 1 - v on the diagonal.

    These are products of all rows of an orthonormal basis, where the lines Q_c of some
    have the weights v. The leverages of lines q are ``v q' (1 - Q_c' D Q_c)^-1 q``.
    """

    Q: np.ndarray  # (n_rows, rank), Q_c
    lost: np.ndarray  # (n_rows,), 1 - v
    # (rank, rank), the inverse; or where rows are fewer than columns (n_rows, n_rows),
    # (1 - D K)^-1 with K = Q_c Q_c'.
    inverse: np.ndarray
    kernel: np.ndarray | None  # (n_rows, n_rows), K; None where it is not needed

    @classmethod
    def of(cls, Q: np.ndarray, v: np.ndarray) -> "_InverseProducts":
        """Return the inverse of some rows, (n_rows, rank), and their weights."""
        n_rows, rank = Q.shape
        lost = 1.0 - v
        if rank < n_rows:
            inverse = np.linalg.inv(np.eye(rank) - (lost[:, None] * Q).T @ Q)
            return cls(Q=Q, lost=lost, inverse=inverse, kernel=None)
        K = Q @ Q.T
        identity = np.eye(n_rows)
        inverse = np.linalg.solve(identity - lost[:, None] * K, identity)
        return cls(Q=Q, lost=lost, inverse=inverse, kernel=K)

    def leverages(self) -> np.ndarray:
        """Return the leverages of these rows before their weights, (n_rows,)."""
        if self.kernel is None:
            return self.leverages_of(self.Q)
        return np.einsum("ij,ji->i", self.kernel, self.inverse)

    def leverages_of(self, lines: np.ndarray) -> np.ndarray:
        """Return the leverages of lines of the basis, (n_lines,)."""
        if self.kernel is None:
            return np.einsum("ij,ij->i", lines @ self.inverse, lines)
        # (1 - Q_c' D Q_c)^-1 = 1 + Q_c' (1 - D K)^-1 D Q_c
        T = lines @ self.Q.T
        h = np.einsum("ij,ij->i", lines, lines)
        return h + np.einsum("ij,ij->i", T @ self.inverse.T * self.lost, T)


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

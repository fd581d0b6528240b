"""Columns that are combinations of others, whose coefficients nothing decides.

The columns of a category sum to 1, as the intercept does. One of them is then left out:
it is the reference, and the coefficients of the others are differences from it. With a
null vector n of the design, ``z'n = 0`` in all rows, and the models theta and
``theta - theta_j n / n_j`` are the same. The second has no weight on column j.
"""

from dataclasses import dataclass

import numpy as np

# Share of a column's variance that others leave, below which it is a combination of
# them: sums of float64 have some ten digits after means were taken out.
_NOTHING_LEFT = 1e-9
# Share of a column's mean square that is variance, below which it is constant.
_CONSTANT = 1e-13
# Least weight of a column in a null vector, in units of the column's deviation.
_IN_COMBINATION = 1e-4


@dataclass(frozen=True, eq=False, kw_only=True)
class Dependence:
    """Which columns are left out, and what takes their weight.

    Attributes
    ----------
    left_out : list of int
        Columns whose coefficients are zero.
    combined_with : list of list of int
        For each of them the other columns of which it is a combination; an empty list
        for a column that is constant.
    vectors : ndarray of shape (n_left_out, n_params)
        Null vectors, 1 at the column that is left out.
    """

    left_out: list[int]
    combined_with: list[list[int]]
    vectors: np.ndarray

    def drop_left_out(self, params: np.ndarray) -> np.ndarray:
        """Return the same model without weights on columns that are left out."""
        moved = params.copy()
        for column, vector in zip(self.left_out, self.vectors, strict=True):
            moved -= params[..., [column]] * vector
        moved[..., self.left_out] = 0.0
        return moved


def dependence_of(products: np.ndarray, n_columns: int) -> Dependence:
    """Find columns that are combinations of earlier and later ones.

    Parameters
    ----------
    products : ndarray of shape (n_params, n_params)
        Sums of products of the columns, then of the intercepts, with any weights above
        zero.
    n_columns : int
        How many of these are columns and not intercepts.

    Returns
    -------
    dependence : Dependence
        The first column of each combination is left out.
    """
    columns = slice(0, n_columns)
    intercepts = slice(n_columns, len(products))
    # Each row has one of the intercepts, so that their products are diagonal. They are
    # zero where no row is undecided: nothing can be said of columns then.
    weights = np.diag(products)[intercepts]
    if not weights.any():
        return Dependence(
            left_out=[], combined_with=[], vectors=np.zeros((0, len(products)))
        )
    slopes = (products[intercepts, columns].T / np.where(weights > 0, weights, 1.0)).T
    within = products[columns, columns] - products[columns, intercepts] @ slopes
    squares = np.diag(products)[:n_columns]
    variances = np.diag(within)
    is_constant = variances <= _CONSTANT * squares
    scale = np.where(is_constant, 1.0, np.sqrt(np.where(is_constant, 1.0, variances)))
    correlations = within / np.outer(scale, scale)
    correlations[is_constant] = 0.0
    correlations[:, is_constant] = 0.0
    values, vectors = np.linalg.eigh(correlations)
    null_vectors = vectors[:, values <= _NOTHING_LEFT].T
    pivots, reduced = _reduced(null_vectors)
    reduced = reduced / scale
    if len(pivots):
        reduced /= reduced[np.arange(len(pivots)), pivots][:, None]
    of_intercepts = -reduced @ slopes.T
    others = [
        [j for j in np.flatnonzero(reduced[i] * scale).tolist() if j != pivot]
        for i, pivot in enumerate(pivots)
    ]
    return Dependence(
        left_out=pivots,
        combined_with=others,
        vectors=np.hstack([reduced, of_intercepts]),
    )


def _reduced(vectors: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Return the first column of each of some vectors, and the vectors in echelon form.

    Each has 1 in its own first column, and 0 in those of the others.
    """
    rows = vectors.copy()
    pivots: list[int] = []
    for j in range(rows.shape[1]):
        n_found = len(pivots)
        if n_found == len(rows):
            break
        largest = n_found + int(np.argmax(np.abs(rows[n_found:, j])))
        if abs(rows[largest, j]) <= _IN_COMBINATION:
            continue
        rows[[n_found, largest]] = rows[[largest, n_found]]
        rows[n_found] /= rows[n_found, j]
        for i in range(len(rows)):
            if i != n_found:
                rows[i] -= rows[i, j] * rows[n_found]
        pivots.append(j)
    rows[np.abs(rows) <= _IN_COMBINATION] = 0.0
    return pivots, rows[: len(pivots)]

"""Penalized logistic regression from a start, and the choice of its penalty.

For rows x_i of a start with logits z_i, the change V of weights is the minimum of

    mean_i log-loss(z_i + V' x_i, y_i)  +  s ||V||^2,

for several strengths s of the penalty, from "the rows change next to nothing" down to
"the start is forgotten"; rows that did not train say which.
"""

from collections.abc import Callable

import numpy as np
from scipy import linalg, sparse
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.utils.extmath import safe_sparse_dot

from ..moments import REMEMBERED_STEPS, directions, log_losses

# Mean losses, in nats a row, no further apart are equal: where a penalty hardly lets
# the model move, rounding would decide.
TIE = 1e-4

Folds = list[tuple[np.ndarray, np.ndarray]]  # indices of rows that train, and that test
Rows = np.ndarray | sparse.csr_array | sparse.csr_matrix
TurnBack = Callable[[np.ndarray], np.ndarray]


def deal_folds(
    y: np.ndarray,
    n_splits: int,
    rng: np.random.RandomState,
    *,
    groups: np.ndarray | None = None,
) -> Folds | None:
    """Return training and test rows, stratified if they can be; None for too few rows.

    Rows of one of the ``groups``, (n_rows,), are in the same fold.
    """
    n_splits = min(n_splits, len(y) if groups is None else len(np.unique(groups)))
    if n_splits < 2:
        return None
    can_stratify = np.bincount(y)[np.unique(y)].min() >= n_splits
    if groups is None:
        splitter = StratifiedKFold if can_stratify else KFold
    else:
        splitter = StratifiedGroupKFold if can_stratify else GroupKFold
    folds = splitter(n_splits, shuffle=True, random_state=rng.randint(2**31 - 1))
    return list(folds.split(np.zeros(len(y)), y, groups))


def rose_twice(losses: np.ndarray) -> bool:
    """Report whether each of the last two losses is larger than the one before it."""
    return bool(np.all(np.diff(losses[-3:]) > TIE))


def first_within_one_error(row_losses: np.ndarray) -> int:
    """Return the index of the first loss within a standard error of the smallest.

    ``row_losses`` has the shape (n_strengths, n_rows).
    """
    best = int(np.argmin(row_losses.mean(axis=1)))
    # Paired differences: the same rows are hard at every strength.
    excess = row_losses[: best + 1] - row_losses[best]
    errors = excess.std(axis=1, ddof=1) / np.sqrt(row_losses.shape[1])
    return int(np.argmax(excess.mean(axis=1) <= errors + TIE))


def scaled_beside(X, scale: np.ndarray, further_columns: np.ndarray) -> Rows:
    """Rows (n, d) times a scale of each column, and further columns beside them."""
    if sparse.issparse(X):
        scaled = X.multiply(scale)
        return sparse.hstack([scaled, further_columns], "csr", dtype=np.float64)
    return np.hstack([X * scale, further_columns])


def mean_squares(X) -> np.ndarray:
    """Mean square of each column, (n_columns,)."""
    squares = X.multiply(X) if sparse.issparse(X) else X * X
    return np.asarray(squares.mean(axis=0)).ravel()


def uncorrelated(rows: Rows) -> tuple[Rows, TurnBack]:
    """Rows turned to uncorrelated entries, in their span; what turns weights back.

    A search in uncorrelated entries takes fewer steps; the penalty is the same in them.
    """
    n_rows, n_columns = rows.shape
    if n_rows >= n_columns:
        if sparse.issparse(rows):
            return rows, lambda change: change
        vectors = linalg.eigh(rows.T @ rows)[1]
        return rows @ vectors, lambda change: vectors @ change
    kernel = safe_sparse_dot(rows, rows.T, dense_output=True)
    roots, vectors = directions(kernel)

    def to_entries(change: np.ndarray) -> np.ndarray:
        dual = (vectors / roots) @ change
        return safe_sparse_dot(rows.T, dual, dense_output=True)

    return vectors * roots, to_entries


def fit_rows(
    rows: Rows,
    y: np.ndarray,
    offset: np.ndarray,
    *,
    strength: float,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Return the change of weights, (n_columns, n_classes), of one strength, by L-BFGS.

    ``offset``, (n_rows, n_classes), are the logits before the change; ``start`` is a
    change to begin the search at, None for none.
    """
    if start is None:
        start = np.zeros((rows.shape[1], offset.shape[1]))
    # In units of the curvature of each column the search takes fewer steps.
    probabilities = softmax(offset + rows @ start, axis=1)
    curvature = mean_squares(rows) * np.mean(probabilities * (1 - probabilities))
    unit = 1 / np.sqrt(curvature + 2 * strength)[:, None]

    def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        change = unit * flat.reshape(start.shape)
        losses, residuals = log_losses(offset + rows @ change, y)
        gradient = unit * (rows.T @ residuals / len(y) + 2 * strength * change)
        return losses.mean() + strength * np.vdot(change, change), gradient.ravel()

    solution = minimize(
        loss_and_gradient,
        (start / unit).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxcor": REMEMBERED_STEPS, "ftol": np.finfo(float).eps, "gtol": 0.0},
    )
    return unit * solution.x.reshape(start.shape)

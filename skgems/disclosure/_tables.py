"""Weights with which several tables of the same rows may be told beside each other.

The columns of all tables together are one design, each once: sums of a table whose
columns are all in a wider one are among those of the wider one. Columns of the first
table may be told by class as well, each class then has them for itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import qr

from ._leverages import Design, basis, leverages, lowered_weights
from ._rule import Disclosure
from ._told import LEAST_SHARE, MOST_ROUNDS, Rows, factors_beside_known

# Rounding of what is left of a column that is a combination of others, in lengths of
# the last digit of its largest value: equal columns in two units leave as much.
_ROUNDING = 1e3
# Weights of all rows are drawn between this and 1 where some are lowered. With 0.7, as
# where there is one table, a row that is left out was a fifth of what 276 rows differ
# by from sums of columns that were told before; with 0.5 it is a tenth.
_LEAST_FACTOR = 0.5
# Numbers of a design at most, of which there are several copies (200 MB each).
_MOST_NUMBERS = 2.5e7


@dataclass(frozen=True, eq=False, kw_only=True)
class Span:
    """All combinations of some columns and a constant."""

    Q: np.ndarray  # (n_rows, rank), orthonormal, each of mean 0

    @classmethod
    def of_constants(cls, n_rows: int) -> "Span":
        """Return the span of no columns."""
        return cls(Q=np.zeros((n_rows, 0)))

    def with_columns(self, X: np.ndarray) -> tuple["Span", np.ndarray]:
        """Return the span of further columns as well, and indices of those it needs.

        Columns of ``X``, (n_rows, n_columns), that are combinations of others are not
        needed.
        """
        n_rows = len(X)
        last_digit = np.finfo(X.dtype if X.dtype.kind == "f" else np.float64).eps
        rounding = _ROUNDING * last_digit * np.abs(X).max(axis=0, initial=0.0)
        rounding *= np.sqrt(n_rows)
        rest = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
        lengths = np.linalg.norm(rest, axis=0)
        varies = np.flatnonzero(lengths > rounding)
        rest = rest[:, varies] / lengths[varies]
        for _ in range(2):  # the first leaves rounding of columns that are alike
            rest -= self.Q @ (self.Q.T @ rest)
        if not rest.shape[1]:
            return self, varies
        Q, R, order = qr(rest, mode="economic", pivoting=True)
        order = varies[order][: len(R)]
        is_new = (
            np.abs(R.diagonal()) > (rounding / np.maximum(lengths, rounding))[order]
        )
        return Span(Q=np.hstack([self.Q, Q[:, is_new]])), np.sort(order[is_new])


def weights_of_tables(
    rows: Rows,
    rule: Disclosure,
    *,
    n_own: int,
    n_unknowns: int,
    seed: Callable[[], int],
    n_told_before: float = 0.0,
) -> np.ndarray | None:
    """Return weights with which all columns are told over all classes, or None.

    Parameters
    ----------
    rows : Rows
        Their columns are all different, and their weights those of sums of columns that
        are told already.
    rule : Disclosure
    n_own : int
        How many of the first columns are told by class, too; 0: none are.
    n_unknowns : int
        How many numbers a row is, before any front.
    seed : callable
        Returns what the weights are drawn by if some are lowered.
    n_told_before : float
        How many numbers earlier messages have told of the rows.

    Returns
    -------
    weights : ndarray of shape (n_rows,), or None
        None where not all may be told. If some are lower than those of the rows, all
        are, unevenly: no sum without these weights differs from one with them by a few
        rows.
    """
    n_numbers_left = rule.unknowns * len(rows.codes) * n_unknowns - n_told_before
    if _n_numbers(rows, n_own) > n_numbers_left:
        return None
    if n_own and not _are_few_by_class(rows, rule, n_own=n_own, n_unknowns=n_unknowns):
        return None
    n_units = len(np.unique(rows.units))
    n_classes = len(np.unique(rows.codes))
    n_columns = rows.X.shape[1] - n_own + n_own * (n_classes if n_own else 1)
    # Leverages sum to the columns, and rows of less weight have less of them.
    is_wide = n_columns + n_classes > LEAST_SHARE * rule.leverage * n_units
    if is_wide or n_columns * len(rows.codes) > _MOST_NUMBERS:
        return None
    design = _design(rows, n_own)
    if leverages(design, rows.weights).max() < rule.leverage:
        return rows.weights
    factors = np.random.default_rng(seed()).uniform(_LEAST_FACTOR, 1.0, len(rows.codes))
    weights = lowered_weights(
        design,
        factors * rows.weights,
        bound=rule.leverage,
        least_share=LEAST_SHARE,
    )
    if weights is None:
        return None
    return _lowered_beside(design, weights, before=rows.weights, rule=rule)


def _are_few_by_class(
    rows: Rows, rule: Disclosure, *, n_own: int, n_unknowns: int
) -> bool:
    """Report whether each class tells few enough numbers of its own columns."""
    sizes = np.unique(rows.codes, return_counts=True)[1]
    return n_own * (n_own + 3) / 2 <= rule.unknowns * sizes.min() * n_unknowns


def _n_numbers(rows: Rows, n_own: int) -> float:
    """Return how many numbers are told of all classes together."""
    n_classes = len(np.unique(rows.codes))
    n_columns = rows.X.shape[1]
    # Of the columns that each class tells, the sum over the classes follows.
    n_more_by_class = (n_classes - 1) * n_own * (n_own + 1) / 2
    return n_columns * (n_columns + 1) / 2 + n_more_by_class + n_classes * n_columns


def _design(rows: Rows, n_own: int) -> Design:
    """Return the design in which each class has the first columns for itself."""
    design = rows.design(rows.codes, np.arange(rows.X.shape[1]))
    if not n_own:
        return design
    own = design.X[:, :n_own]
    by_class = [own * (design.groups == c)[:, None] for c in np.unique(design.groups)]
    return replace(design, X=np.hstack([*by_class, design.X[:, n_own:]]))


def _lowered_beside(
    design: Design, weights: np.ndarray, *, before: np.ndarray, rule: Disclosure
) -> np.ndarray | None:
    """Return weights with which no row is most of a sum, also less one from before.

    Means of columns were told with the weights before, such as for fronts. None where
    the rows would weigh too little.
    """
    least = LEAST_SHARE * weights.sum()
    for _ in range(MOST_ROUNDS):
        Q = basis(design, weights)
        rest = before - Q @ (Q.T @ before)
        shares = rest**2 / max(rest @ rest, np.finfo(float).tiny)
        of_before = np.bincount(design.units, shares)
        of_told = np.bincount(design.units, np.einsum("ij,ij->i", Q, Q))
        is_high = of_told + of_before >= rule.leverage
        if not is_high.any():
            return weights
        factors = factors_beside_known(
            of_told, of_before, is_high=is_high, bound=rule.leverage
        )
        if factors is None:
            return None
        weights = weights * factors[design.units]
        if weights.sum() < least:
            return None
    return None

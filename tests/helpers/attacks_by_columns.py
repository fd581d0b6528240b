# SPDX-License-Identifier: BSD-3-Clause
"""Rows that follow from sums since one row alone has some combination of columns.

Let u be the values of a combination a of the columns Z, u = Z a. If one row alone has
u != 0, then Z'Z a = u z is that row, times a number. A reader sees it where

    (sum u)^2 = sum u^2,

which holds for no other columns but by accident. Each row is taken off once it is
known, so that the next one may be alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from scipy.linalg import qr

from helpers.attacked_exchanges import GroupSums
from helpers.lattices import reduced_basis

# Relative difference of sums of equal size, beyond which they are not equal.
_EQUAL = 1e-7
# Share of the largest square below which a column is rounding.
_NOTHING = 1e-9
# How far rounding takes sums of whole numbers.
_WHOLE = 1e-4
# Weights of 1, of a column and of another one: one column, all but one row, nested and
# paired columns, disjoint columns and what is left beside them.
_COMBINATIONS = (
    (0, 1, 0),
    (1, -1, 0),
    (0, 1, -1),
    (0, 1, 1),
    (1, -1, -1),
    (-1, 1, 1),
)


def rows_of_columns(group: GroupSums) -> np.ndarray:
    """Return rows of a group that one or two columns show, (n_claims, n_features)."""
    return _peeled_rows(group, _combinations_of_two)


def rows_of_short_combinations(group: GroupSums) -> np.ndarray:
    """Return rows of whole numbers that any combination of columns shows.

    With whole numbers in Z and in a, a'Z'Za is 1 only if one row alone has +1 or -1. A
    vector of such a length is a shortest one of the lattice with these products, and
    one of a few more is short, too.
    """
    return _peeled_rows(group, _short_combinations)


def _peeled_rows(
    group: GroupSums, combinations_of: Callable[..., Iterable[np.ndarray]]
) -> np.ndarray:
    """Return rows that combinations show, each taken off before the next is found."""
    product = group.product.copy()
    n_features = len(product) - group.n_parts
    rows: list[np.ndarray] = []
    if not np.isfinite(product).all():  # only variances
        return np.zeros((0, n_features))
    is_whole = bool(np.abs(product - np.rint(product)).max() < _WHOLE)
    while len(rows) < group.n_rows:
        for combination in combinations_of(product, group.ones):
            total = group.ones @ product @ combination
            length = combination @ product @ combination
            row = product @ combination / total
            # A row of other numbers comes of sums that are equal by accident.
            if not is_whole or np.abs(row - np.rint(row)).max() < _WHOLE:
                break
        else:
            break
        rows.append(row[group.n_parts :])
        product = product - total**2 / length * np.outer(row, row)
    return np.array(rows).reshape(-1, n_features)


def _combinations_of_two(product: np.ndarray, ones: np.ndarray) -> Iterator[np.ndarray]:
    """Yield combinations of 1 and two columns that one row alone has."""
    n_rows = ones @ product @ ones
    sums = ones @ product
    squares = np.diag(product)
    smallest = _NOTHING * max(squares.max(), n_rows)
    # Differences may have equal sums by accident, but not those of columns of 0 and 1.
    is_binary = np.abs(sums - squares) <= _EQUAL * squares
    are_binary = np.logical_and.outer(is_binary, is_binary)
    is_whole = bool(np.abs(product - np.rint(product)).max() < _WHOLE)
    # Sums of numbers with few decimal places are equal by accident, too.
    hundreds = 100.0 * product
    is_rounded = bool(np.abs(hundreds - np.rint(hundreds)).max() < _WHOLE)
    for of_one, of_first, of_second in _COMBINATIONS:
        totals = of_one * n_rows + of_first * sums[:, None] + of_second * sums
        lengths = (
            of_one**2 * n_rows
            + of_first**2 * squares[:, None]
            + of_second**2 * squares
            + 2 * of_one * (of_first * sums[:, None] + of_second * sums)
            + 2 * of_first * of_second * product
        )
        is_one_row = np.abs(lengths - totals**2) <= _EQUAL * totals**2
        is_one_row &= lengths > smallest
        if of_one or of_second:
            is_proven = np.where(
                are_binary, np.abs(lengths - 1.0) < _WHOLE, is_whole or not is_rounded
            )
            is_one_row &= is_proven
        for first, second in np.argwhere(is_one_row):
            combination = of_one * ones
            combination[first] += of_first
            combination[second] += of_second
            yield combination


def _short_combinations(product: np.ndarray, ones: np.ndarray) -> Iterator[np.ndarray]:
    """Yield short combinations by whole numbers that one row alone has."""
    # A part without rows has no columns any more.
    R, order = qr(product, mode="r", pivoting=True)
    sizes = np.abs(np.diag(R))
    chosen = np.sort(order[sizes > 1e-6 * max(sizes[0], 1.0)])
    if not len(chosen):
        return
    eigenvalues, vectors = np.linalg.eigh(product[np.ix_(chosen, chosen)])
    root = vectors * np.sqrt(np.maximum(eigenvalues, 1e-12))
    basis = reduced_basis(np.eye(len(chosen)), lambda combinations: combinations @ root)
    for short in basis:
        combination = np.zeros(len(product))
        combination[chosen] = short
        length = combination @ product @ combination
        total = ones @ product @ combination
        if abs(length - total**2) <= _EQUAL * total**2 and length > 0.5:
            yield combination

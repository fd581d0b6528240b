# SPDX-License-Identifier: BSD-3-Clause
"""Rows of whole numbers from their covariances, by short vectors of lattices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import qr

from skgems.moments import ClassMoments

# The squared length of a difference of two rows, in the metric of the inverse scatter.
_LENGTH_OF_DIFFERENCE = 2.0
# Swaps after which a lattice is left as it is; those of 40 rows take some 10,000.
_MOST_SWAPS = 12000


def rows_of_lattices(moments: ClassMoments) -> np.ndarray:
    """Rows of whole numbers, of scatters that have fewer rows than features.

    Rows are known but for a rotation among them, and few rotations make whole numbers
    of all. Differences of rows are the shortest vectors of a lattice.
    """
    guesses = [np.zeros((0, moments.n_features))]
    if moments.is_diagonal:
        return guesses[0]
    means = moments.means + moments.origin
    for group, scatter in zip(moments.groups, moments.scatter, strict=True):
        of_group = (moments.columns == group) | (group < 0)
        counts = moments.counts[of_group]
        rank = round(counts.sum()) - len(counts)
        if 0 < rank < moments.n_features:
            differences, unit = _short_differences(scatter, rank)
            guesses += _rows_of_differences(
                differences, unit, counts=counts, means=means[of_group]
            )
    return np.concatenate(guesses)


def _short_differences(scatter: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of whole numbers that are in the range of a scatter, and short.

    They are as long as differences of two rows, in the unit that is returned, too: the
    root of the inverse of the scatter.
    """
    eigenvalues, vectors = np.linalg.eigh(scatter)
    unit = vectors[:, -rank:] / np.sqrt(np.maximum(eigenvalues[-rank:], 1e-300))
    if eigenvalues[-rank] < 1e-9 * eigenvalues[-1]:  # rows that depend on each other
        return np.zeros((0, len(scatter))), unit
    order = qr(vectors[:, -rank:].T, pivoting=True)[2]
    # A vector is known by its numbers at as many features as the rank says; those at
    # some further ones tell whether all are whole.
    pivots = order[:rank]
    tests = order[rank : rank + int(0.6 * rank) + 4]
    to_all = vectors[:, -rank:] @ np.linalg.inv(vectors[pivots, -rank:])
    # How much a number that is not whole counts against a length of about one.
    sharpness = 1e6

    def places_of(basis: np.ndarray) -> np.ndarray:
        at_pivots = basis[:, :rank]
        missed = at_pivots @ to_all[tests].T - basis[:, rank:]
        return np.hstack([at_pivots @ (to_all.T @ unit), sharpness * missed])

    basis = np.eye(rank + len(tests))
    basis[:rank, rank:] = np.rint(to_all[tests].T)
    short = np.rint(reduced_basis(basis, places_of)[:, :rank] @ to_all.T)
    lengths = np.square(short @ unit).sum(axis=1)
    short = short[np.abs(lengths - _LENGTH_OF_DIFFERENCE) < 0.1]
    return _with_sums(short, unit, most=rank * (rank + 1)), unit


def reduced_basis(
    basis: np.ndarray, places_of: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """A basis of short vectors of a lattice (Lenstra, Lenstra and Lovasz)."""
    R = np.linalg.qr(places_of(basis).T, mode="r")
    k = 1
    n_swaps = 0
    while k < len(basis) and n_swaps < _MOST_SWAPS:
        for j in range(k - 1, -1, -1):
            times = np.rint(R[j, k] / R[j, j])
            basis[k] -= times * basis[j]
            R[:, k] -= times * R[:, j]
        if R[k, k] ** 2 + R[k - 1, k] ** 2 >= 0.99 * R[k - 1, k - 1] ** 2:
            k += 1
            continue
        basis[[k - 1, k]] = basis[[k, k - 1]]
        R[:, [k - 1, k]] = R[:, [k, k - 1]]
        c, s = R[[k - 1, k], k - 1] / np.hypot(*R[[k - 1, k], k - 1])
        R[[k - 1, k]] = np.array([[c, s], [-s, c]]) @ R[[k - 1, k]]
        n_swaps += 1
        k = max(k - 1, 1)
        if n_swaps % 200 == 0:  # rounding adds up
            R = np.linalg.qr(places_of(basis).T, mode="r")
    return basis


def _with_sums(short: np.ndarray, unit: np.ndarray, *, most: int) -> np.ndarray:
    """Vectors and their negatives, and those sums of two of them that are as short."""
    all_short = {tuple(sign * vector) for vector in short for sign in (1, -1)}
    new = list(all_short)
    while new and len(all_short) <= most:
        first = np.array(new)
        second = np.array(list(all_short))
        # |a + b|^2 = 2 + 2 + 2 ab is 2 again where ab is -1.
        i, j = np.nonzero(np.abs(first @ unit @ (second @ unit).T + 1.0) < 0.05)
        new = list({tuple(vector) for vector in first[i] + second[j]} - all_short)
        all_short |= set(new)
    return np.array(sorted(all_short)).reshape(-1, len(unit))


def _rows_of_differences(
    differences: np.ndarray, unit: np.ndarray, *, counts: np.ndarray, means: np.ndarray
) -> list[np.ndarray]:
    """Rows of each cluster, from all differences between two of its rows."""
    products = np.rint((differences @ unit) @ (differences @ unit).T)
    unused = np.ones(len(differences), dtype=bool)
    rows_by_cluster = []
    while unused.any():
        cluster = _connected_to(int(np.argmax(unused)), products)
        unused &= ~cluster
        # Differences of one row from all others have products of 1 with each other.
        star = [int(np.argmax(cluster))]
        neighbors = np.flatnonzero(cluster & (products[star[0]] == 1))
        if len(neighbors):
            second = neighbors[0]
            star += [second, *neighbors[products[second, neighbors] == 1]]
        size = len(star) + 1
        for mean in means[np.rint(counts) == size]:
            # Differences and their negatives are alike: try both signs.
            for from_first in (differences[star], -differences[star]):
                first = mean + from_first.sum(axis=0) / size
                rows = np.vstack([first, first - from_first])
                if np.abs(rows - rows.round()).max() < 0.2:
                    rows_by_cluster.append(rows.round())
    return rows_by_cluster


def _connected_to(start: int, products: np.ndarray) -> np.ndarray:
    """Which differences hang together with one: those of the rows of one cluster."""
    connected = np.arange(len(products)) == start
    while True:
        larger = (products[connected] != 0).any(axis=0) | connected
        if larger.sum() == connected.sum():
            return connected
        connected = larger

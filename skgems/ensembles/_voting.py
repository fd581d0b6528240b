# SPDX-License-Identifier: BSD-3-Clause
"""Combine the votes or probabilities of several models, on plain arrays."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix, issparse

# Of one vote: enough to break ties, too little to count.
_TIE = 1e-6


def weighted_mean(probabilities, weights: np.ndarray) -> np.ndarray:
    """Mean of class probabilities, weighted by model and class.

    Parameters
    ----------
    probabilities : iterable of ndarray of shape (n_samples, n_classes)
        One per model; zero for classes that it does not know.
    weights : ndarray of shape (n_models, n_classes)
        Not negative.

    Returns
    -------
    proba : ndarray of shape (n_samples, n_classes)
        Rows sum to one; uniform where every model gives every class nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.ensembles._voting import weighted_mean
    >>> weighted_mean([np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])], np.ones((2, 2)))
    array([[0.75, 0.25]])
    """
    total = 0.0
    for proba, weight in zip(probabilities, weights, strict=True):
        total = total + weight * proba
    size = total.sum(axis=1, keepdims=True)
    silent = ~(size > 0)
    return np.where(silent, 1 / total.shape[1], total / np.where(silent, 1.0, size))


def vote_shares(
    votes, weights: np.ndarray, n_classes: int, ties: np.ndarray
) -> np.ndarray:
    """Share of the votes that each class has, ties broken by given numbers.

    Parameters
    ----------
    votes : iterable of ndarray of shape (n_samples,), int
        The class that each model votes for.
    weights : ndarray of shape (n_models, n_classes)
        What a model's vote for a class counts.
    n_classes : int
    ties : ndarray of shape (n_samples, n_classes)
        Numbers in [0, 1); of classes with equal votes the one with the largest wins.

    Returns
    -------
    shares : ndarray of shape (n_samples, n_classes)
        Rows sum to one. Off by at most a millionth, which is what breaks ties.
    """
    counts = np.zeros(ties.shape)
    rows = np.arange(len(counts))
    for vote, weight in zip(votes, weights, strict=True):
        counts[rows, vote] += weight[vote]
    # Rounding, so that sums of unequal weights that should tie do.
    total = np.maximum(counts.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    shares = np.round(counts / total, 9) + _TIE * ties
    return shares / shares.sum(axis=1, keepdims=True)


def row_noise(X, n_columns: int, seed: int) -> np.ndarray:
    """Random numbers that depend on a row's values and the seed, on nothing else.

    A tie broken by them falls the same way wherever among other rows the row comes,
    alone or not, dense or sparse.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Rows, or an array of more dimensions.
    n_columns : int
        Numbers for each row.
    seed : int

    Returns
    -------
    noise : ndarray of shape (n_samples, n_columns)
        Uniform on [0, 1).

    Notes
    -----
    A sum of the bits of the row's numbers times random 64-bit integers, modulo 2^64
    (multilinear hashing), scrambled by the finalizer of splitmix64.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.ensembles._voting import row_noise
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])
    >>> noise = row_noise(X, 3, seed=0)
    >>> np.array_equal(noise[0], noise[2]), np.array_equal(noise[0], noise[1])
    (True, False)
    """
    rng = np.random.default_rng(seed)
    X = X if issparse(X) else np.reshape(X, (len(X), -1))
    factors = rng.integers(2**64, size=(X.shape[1], 1), dtype=np.uint64)
    offsets = rng.integers(2**64, size=n_columns, dtype=np.uint64)
    if issparse(X):
        bits = csr_matrix((_bits(X.data), X.indices, X.indptr), shape=X.shape)
    else:
        bits = _bits(np.ascontiguousarray(X))
    mixed = np.asarray(bits @ factors).reshape(-1, 1) + offsets
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)) * 2.0**-53


def _bits(values):
    # Adding zero turns -0.0, which is no stored entry of a sparse row, into 0.0.
    return (values.astype(np.float64) + 0.0).view(np.uint64)

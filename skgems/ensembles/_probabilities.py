# SPDX-License-Identifier: BSD-3-Clause
"""Class probabilities of several models: combined, and learned by a classifier."""

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.dummy import DummyClassifier
from sklearn.utils.validation import has_fit_parameter

from ..local import fit_local

# Of one vote: enough to break ties, too little to count.
_TIE = 1e-6
# Probabilities below are left out: a row is repeated for the classes that matter.
_NEGLIGIBLE = 1e-3
# Without sample weights: copies of a row, dealt to the classes.
_COPIES = 10


def weighted_mean(probabilities, weights: np.ndarray) -> np.ndarray:
    """Mean by weights (n_models, n_classes); uniform where all give nothing."""
    total = 0.0
    for proba, weight in zip(probabilities, weights, strict=True):
        total = total + weight * proba
    size = total.sum(axis=1, keepdims=True)
    silent = ~(size > 0)
    return np.where(silent, 1 / total.shape[1], total / np.where(silent, 1.0, size))


def vote_shares(votes, weights: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """Share of the votes that each class has, ties broken by given numbers.

    ``ties`` (n_samples, n_classes) are in [0, 1): of equal classes, the largest wins.
    Shares sum to one, off by at most a millionth, which breaks ties.
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
    """Uniform numbers that depend on a row's values and the seed, on nothing else.

    So a tie falls the same way whatever rows come with it, dense or sparse. Multilinear
    hashing of the bits modulo 2^64, scrambled by the finalizer of splitmix64.
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


def fit_to_probabilities(
    student, X, proba: np.ndarray, classes: np.ndarray, seed: int | None = None
):
    """Fit and return a classifier of soft targets; of one class, a DummyClassifier.

    By ``sample_weight`` the loss is the cross-entropy to probabilities of 0.001 and
    more. A student without it sees ten copies of each row, labelled in proportion.
    """
    weighted = has_fit_parameter(student, "sample_weight")
    if weighted:
        kept = proba >= min(_NEGLIGIBLE, proba.max(axis=1).min())
        weights = np.where(kept, proba, 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
    else:  # rounded down, and what is missing dealt to the largest remainders
        exact = proba * _COPIES
        weights = np.floor(exact).astype(np.int64)
        missing = _COPIES - weights.sum(axis=1, keepdims=True)
        order = np.argsort(weights - exact, axis=1, kind="stable")
        weights += np.argsort(order, axis=1) < missing
    rows, columns = np.nonzero(weights)
    amounts = weights[rows, columns]
    if len(np.unique(columns)) == 1:
        return DummyClassifier(strategy="most_frequent").fit(X, classes[columns])
    if weighted:
        return student.fit(X[rows], classes[columns], sample_weight=amounts)
    rows, columns = np.repeat(rows, amounts), np.repeat(columns, amounts)
    # Copies of a row would otherwise share a batch, or a fold.
    order = np.random.RandomState(0).permutation(len(rows))
    X = X[rows[order]] if not issparse(X) else X[rows[order]].tocsr()
    return fit_local(student, X, classes[columns[order]], classes, seed)

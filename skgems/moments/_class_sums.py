"""Sums of values, or counts of categories, by class."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.preprocessing import binarize
from sklearn.utils.extmath import safe_sparse_dot

from ._rows import indicator

# Categories of all features together, at most.
MOST_CATEGORIES = 2**20


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Sums over rows by class, which add up over nodes."""

    labels: list
    counts: np.ndarray  # (n_classes,), rows of each class, or their weight
    sums: np.ndarray = field(repr=False)  # (n_classes, n_features), or all categories
    sizes: np.ndarray | None = None  # (n_features,), categories; None: of values

    @classmethod
    def of(cls, X, y, *, of, threshold=None, weights=None) -> "ClassSums":
        """Of rows: "values", those "above" a threshold, or numbers of "categories"."""
        labels, codes = np.unique(y, return_inverse=True)
        one_hot = indicator(codes, len(labels), weights)
        counts, sizes = np.bincount(codes, weights).astype(float), None
        if of == "above":
            X = binarize(X, threshold=threshold)
        elif (X.data if issparse(X) else X).min(initial=0.0) < 0:
            raise ValueError("Negative values in data: it takes amounts or categories")
        if of == "categories":
            X, sizes = _one_of_each(X)
        sums = safe_sparse_dot(one_hot, X.astype(np.float64), dense_output=True)
        return cls(labels.tolist(), counts, sums, sizes)

    @classmethod
    def merged(cls, several: "Iterable[ClassSums]") -> "ClassSums":
        """Those of all rows; a node may lack classes, and the highest categories."""
        total: ClassSums | None = None
        for own in several:
            total = own if total is None else total._and(own)
        if total is None:
            raise ValueError("There are no sums to merge.")
        return total

    def places_of(self, other: "ClassSums") -> np.ndarray:
        """Sums of some of these rows, with columns for all features or categories."""
        if self.sizes is None:
            return other.sums
        widened = np.zeros((len(other.labels), self.sums.shape[1]))
        widened[:, _places(other.sizes, self.sizes)] = other.sums
        return widened

    def _and(self, other: "ClassSums") -> "ClassSums":
        labels, sizes = sorted({*self.labels, *other.labels}), self.sizes
        if sizes is not None:
            sizes = np.maximum(sizes, other.sizes)
        n = self.sums.shape[1] if sizes is None else sizes.sum()
        if sizes is not None and n > MOST_CATEGORIES:
            raise ValueError(f"Nodes have {n} categories, more than {MOST_CATEGORIES}.")
        counts, sums = np.zeros(len(labels)), np.zeros((len(labels), n))
        for own in (self, other):
            rows = [labels.index(label) for label in own.labels]
            counts[rows] += own.counts
            columns = np.arange(n) if sizes is None else _places(own.sizes, sizes)
            sums[np.ix_(rows, columns)] += own.sums
        return ClassSums(labels, counts, sums, sizes)


def _places(own: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Places of the categories that features have, among so many of each."""
    starts = np.cumsum(sizes) - sizes
    return np.repeat(starts - (np.cumsum(own) - own), own) + np.arange(own.sum())


def _one_of_each(X) -> tuple:
    if issparse(X):
        raise TypeError("categories are numbers of dense rows, got sparse ones")
    n_categories = np.sum(X.max(axis=0, initial=0.0) + 1.0, dtype=np.float64)
    if n_categories > MOST_CATEGORIES:
        raise ValueError(
            f"there are {n_categories:g} categories, more than {MOST_CATEGORIES}: give "
            "the categories of a feature the numbers 0, 1, 2 and so on"
        )
    codes = X.astype(np.int64)  # as CategoricalNB
    sizes = codes.max(axis=0, initial=0) + 1
    flat = (codes + (np.cumsum(sizes) - sizes)).ravel()
    ends, shape = np.arange(len(X) + 1) * X.shape[1], (len(X), int(sizes.sum()))
    return csr_matrix((np.ones(len(flat)), flat, ends), shape), sizes

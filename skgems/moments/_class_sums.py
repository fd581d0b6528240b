"""Sums of values, or counts of categories, by class.

For each class c and feature j there is ``sum w x_j`` over its rows, with w = 1 unless
rows have weights; where features are categories, there is a column for each category k
of each feature, with ``sum w [x_j = k]``. Naive Bayes classifiers are made of these.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.preprocessing import binarize
from sklearn.utils.extmath import safe_sparse_dot

from ..disclosure import indicator
from ._rows import Rows

# Categories of all features together, at most: 8 MB a class. A feature of large whole
# numbers, which is no category, would otherwise take the memory of as many columns.
MOST_CATEGORIES = 2**20


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassSums:
    """Sums over rows by class, which add up over nodes."""

    labels: list
    counts: np.ndarray  # (n_classes,), rows of each class, or their weight
    sums: np.ndarray = field(repr=False)  # (n_classes, n_features), or all categories
    sizes: np.ndarray | None = None  # (n_features,), categories; None: of values

    @classmethod
    def from_rows(
        cls,
        X: Rows,
        y: np.ndarray,
        *,
        of: str,
        threshold: float | None = None,
        weights: np.ndarray | None = None,
    ) -> "ClassSums":
        """Sum ``of`` over the rows of each class.

        These are "values", those "above" a threshold as ones, or "categories", whose
        rows hold the number of a category of each feature.
        """
        labels, codes = np.unique(y, return_inverse=True)
        one_hot = indicator(codes, len(labels), weights)
        counts = np.bincount(codes, weights).astype(float)
        sizes = None
        if of == "above":
            X = binarize(X, threshold=threshold)
        elif (X.data if issparse(X) else X).min(initial=0.0) < 0:
            raise ValueError(
                "Negative values in data: the classifier takes amounts, or numbers of "
                "categories, which are at least 0. Scale features to [0, 1], for "
                "example with MinMaxScaler, or choose a classifier for values of both "
                "signs."
            )
        if of == "categories":
            X, sizes = _one_hot_categories(X)
        sums = safe_sparse_dot(one_hot, X.astype(np.float64), dense_output=True)
        return cls(labels=labels.tolist(), counts=counts, sums=sums, sizes=sizes)

    @classmethod
    def merged(cls, several: "Iterable[ClassSums]") -> "ClassSums":
        """Add up sums of nodes, which may lack classes or the highest categories."""
        total: ClassSums | None = None
        for sums in several:
            total = sums if total is None else total._plus(sums)
        if total is None:
            raise ValueError(
                "There are no sums to merge. Pass those of at least one node."
            )
        return total

    def select_features(self, is_kept: np.ndarray) -> "ClassSums":
        """Return the sums of some features alone, by a mask of shape (n_features,)."""
        if self.sizes is None:
            return replace(self, sums=self.sums[:, is_kept])
        has_category = np.repeat(is_kept, self.sizes)
        return replace(self, sums=self.sums[:, has_category], sizes=self.sizes[is_kept])

    def widened(self, other: "ClassSums") -> np.ndarray:
        """Sums of some of these rows, with columns for all features or categories."""
        if self.sizes is None:
            return other.sums
        widened = np.zeros((len(other.labels), self.sums.shape[1]))
        widened[:, _columns_of_categories(other.sizes, self.sizes)] = other.sums
        return widened

    def _plus(self, other: "ClassSums") -> "ClassSums":
        """Sums over the rows of both."""
        labels = sorted({*self.labels, *other.labels})
        if self.sizes is None:
            sizes = None
            n_columns = self.sums.shape[1]
        else:
            sizes = np.maximum(self.sizes, other.sizes)
            n_columns = sizes.sum()
            if n_columns > MOST_CATEGORIES:
                raise ValueError(
                    f"All nodes together have {n_columns} categories, more than "
                    f"{MOST_CATEGORIES}. Give the categories of a feature the numbers "
                    "0, 1, 2 and so on, the same at all nodes."
                )
        counts = np.zeros(len(labels))
        total_sums = np.zeros((len(labels), n_columns))
        for addend in (self, other):
            rows = [labels.index(label) for label in addend.labels]
            counts[rows] += addend.counts
            if sizes is None:
                columns = np.arange(n_columns)
            else:
                columns = _columns_of_categories(addend.sizes, sizes)
            total_sums[np.ix_(rows, columns)] += addend.sums
        return ClassSums(labels=labels, counts=counts, sums=total_sums, sizes=sizes)


def _columns_of_categories(sizes: np.ndarray, all_sizes: np.ndarray) -> np.ndarray:
    """Columns of categories where each feature has `all_sizes` of them, (sizes.sum(),).

    Both are (n_features,). With sizes [1, 2] and all sizes [3, 2], whose columns start
    at 0 and 3, they are [0, 3, 4].
    """
    starts = np.cumsum(all_sizes) - all_sizes
    compact_starts = np.cumsum(sizes) - sizes
    return np.repeat(starts - compact_starts, sizes) + np.arange(sizes.sum())


def _one_hot_categories(X: np.ndarray) -> tuple[csr_matrix, np.ndarray]:
    """A column of 0 and 1 for each category of each feature; categories of features.

    Their number is checked first, as a float: int64 overflows with huge numbers.
    """
    if issparse(X):
        raise TypeError(
            "categories are numbers of dense rows, got sparse ones. Convert them with "
            "X.toarray()."
        )
    n_categories = np.sum(X.max(axis=0, initial=0.0) + 1.0, dtype=np.float64)
    if n_categories > MOST_CATEGORIES:
        raise ValueError(
            f"there are {n_categories:g} categories, more than {MOST_CATEGORIES}: give "
            "the categories of a feature the numbers 0, 1, 2 and so on"
        )
    codes = X.astype(np.int64)  # as CategoricalNB
    sizes = codes.max(axis=0, initial=0) + 1
    starts = np.cumsum(sizes) - sizes
    columns = (codes + starts).ravel()
    row_ends = np.arange(len(X) + 1) * X.shape[1]
    one_hot = csr_matrix(
        (np.ones(len(columns)), columns, row_ends), (len(X), int(sizes.sum()))
    )
    return one_hot, sizes

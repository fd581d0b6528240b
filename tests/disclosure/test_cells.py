# SPDX-License-Identifier: BSD-3-Clause
"""A value that few rows of a class have becomes the commonest one of the class."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from skgems.disclosure import clamped

any_cells = st.tuples(
    st.integers(0, 2**32 - 1),
    st.integers(1, 50),  # rows
    st.integers(1, 4),  # columns
    st.integers(1, 3),  # classes
    st.booleans(),  # groups of rows
    st.integers(1, 5),  # cell
    st.sampled_from([np.float64, np.float32, np.int64, np.bool_]),
)


def rows_of(case):
    """Return rows with few values a column, their classes and groups, and the cell."""
    seed, n_rows, n_columns, n_classes, has_groups, cell, dtype = case
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(4, 0.2))
    X = rng.choice([0.0, 1.0, -2.0, 7.5], size=(n_rows, n_columns), p=shares)
    codes = rng.integers(0, n_classes, n_rows)
    groups = rng.integers(0, max(n_rows // 2, 1), n_rows) if has_groups else None
    return X.astype(dtype), codes, groups, cell


def clamped_by_definition(X, codes, groups, cell) -> np.ndarray:
    """Return the same column by column and class by class."""
    groups = np.arange(len(codes)) if groups is None else groups
    changed = X.copy()
    for c in np.unique(codes[codes >= 0]):
        for j in range(X.shape[1]):
            rows = np.flatnonzero(codes == c)
            commonest = most_of(X[rows, j])
            if commonest is None:
                continue
            others = rows[X[rows, j] != commonest]
            if len(set(groups[others])) < cell:
                changed[others, j] = commonest
    return changed


def most_of(values):
    """Return the value that more than half of all values are, or None."""
    unique, counts = np.unique(values, return_counts=True)
    return unique[counts.argmax()] if counts.max() > len(values) / 2 else None


@settings(max_examples=150, deadline=None)
@given(case=any_cells)
def test_few_groups_never_differ_from_the_commonest_value(case):
    X, codes, groups, cell = rows_of(case)
    given_X = X.copy()
    changed = clamped(X, codes, groups, cell=cell)
    expected = clamped_by_definition(X, codes, groups, cell)
    np.testing.assert_array_equal(changed, expected)
    assert changed.dtype == X.dtype
    np.testing.assert_array_equal(X, given_X)
    assert (changed is X) == (expected == X).all()


@settings(max_examples=150, deadline=None)
@given(case=any_cells)
def test_few_groups_of_sparse_rows_never_differ_from_the_commonest_value(case):
    X, codes, groups, cell = rows_of(case)
    rows = sparse.csr_matrix(X)
    changed = clamped(rows, codes, groups, cell=cell)
    expected = clamped_by_definition(X, codes, groups, cell)
    np.testing.assert_array_equal(changed.toarray(), expected)
    assert changed.dtype == X.dtype
    np.testing.assert_array_equal(rows.toarray(), X)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_cells_follow_the_rows_whatever_their_order(container):
    rng = np.random.default_rng(0)
    X = (rng.random((90, 12)) < 0.04).astype(float)
    codes = np.arange(90) % 2
    order = rng.permutation(90)
    changed = clamped(container(X), codes, None, cell=3)
    moved = clamped(container(X[order]), codes[order], None, cell=3)
    assert changed is not X
    dense = changed.toarray() if sparse.issparse(changed) else changed
    moved = moved.toarray() if sparse.issparse(moved) else moved
    np.testing.assert_array_equal(moved, dense[order])


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_rows_of_no_class_stay_as_they_are(container):
    X = np.zeros((20, 2))
    X[[0, 19], 0] = 1.0
    codes = np.where(np.arange(20) < 10, 0, -1)
    changed = clamped(container(X), codes, None, cell=3)
    dense = changed.toarray() if sparse.issparse(changed) else changed
    assert dense[0, 0] == 0.0
    assert dense[19, 0] == 1.0


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_a_group_counts_once_however_many_rows_it_has(container):
    X = np.zeros((30, 1))
    X[:6] = 1.0
    one_patient = np.maximum(np.arange(30) - 5, 0)
    codes = np.zeros(30, dtype=int)
    apart = clamped(container(X), codes, None, cell=3)
    together = clamped(container(X), codes, one_patient, cell=3)
    assert apart.sum() == 6
    assert together.sum() == 0

# SPDX-License-Identifier: BSD-3-Clause
"""Means and covariances of rows keep their digits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context

from skgems.moments import mean_squares, row_moments


def exact_mean_and_covariance(X):
    """Both in more digits than a double has."""
    X = X.astype(np.longdouble)
    deviations = X - X.mean(axis=0)
    return X.mean(axis=0), deviations.T @ deviations / len(X)


@pytest.mark.parametrize(
    ("mean", "tolerance"), [(0.0, 1e-13), (1e3, 1e-12), (1e6, 1e-9)]
)
def test_digits_are_kept_where_means_are_far_from_zero(mean, tolerance):
    rng = np.random.default_rng(0)
    X = mean + rng.standard_normal((500, 4)) @ rng.standard_normal((4, 4))
    moments = row_moments(X)
    expected_mean, expected_covariance = exact_mean_and_covariance(X)
    np.testing.assert_allclose(
        moments.mean, expected_mean.astype(float), rtol=1e-13, atol=1e-13
    )
    scale = float(np.abs(expected_covariance).max())
    error = np.abs(moments.covariance - expected_covariance.astype(float)).max()
    assert error <= tolerance * scale
    with config_context(working_memory=1e-3):
        moments_in_blocks = row_moments(np.tile(X, (200, 1)))
    np.testing.assert_allclose(
        moments_in_blocks.covariance,
        moments.covariance,
        rtol=1e-8,
        atol=tolerance * scale,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_have_the_moments_of_dense_ones_in_float64(dtype):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((60, 5)) * (rng.random((60, 5)) < 0.4)).astype(dtype)
    of_dense = row_moments(X)
    of_sparse = row_moments(sparse.csr_matrix(X))
    assert of_dense.covariance.dtype == of_sparse.covariance.dtype == np.float64
    np.testing.assert_allclose(of_sparse.mean, of_dense.mean, rtol=1e-12)
    np.testing.assert_allclose(of_sparse.covariance, of_dense.covariance, atol=1e-14)
    second_moments = of_dense.covariance + np.outer(of_dense.mean, of_dense.mean)
    X_float64 = X.astype(float)
    np.testing.assert_allclose(second_moments, X_float64.T @ X_float64 / 60, atol=1e-12)


def test_constant_features_have_no_variance_at_all():
    X = np.random.default_rng(0).standard_normal((50, 3))
    X[:, 1] = 0.1
    for rows in (X, X.astype(np.float32), sparse.csr_matrix(X)):
        moments = row_moments(rows)
        assert not moments.covariance[1].any() and not moments.covariance[:, 1].any()
        assert moments.covariance[0, 0] > 0.1


def test_mean_squares_are_weighted_and_include_the_intercept():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    weights = rng.random((30, 2))
    expected = np.column_stack([X, np.ones(30)]).T ** 2 @ weights / 30
    np.testing.assert_allclose(mean_squares(X, weights), expected)
    np.testing.assert_allclose(mean_squares(sparse.csr_matrix(X), weights), expected)


def test_there_are_no_moments_of_no_rows():
    with pytest.raises(ValueError, match="no rows"):
        row_moments(np.empty((0, 3)))

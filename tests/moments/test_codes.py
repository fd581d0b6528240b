# SPDX-License-Identifier: BSD-3-Clause
"""Products of two columns of codes are told with noise of one row."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from skgems.moments import ToldSums, class_moments

# Columns 0 to 2 are codes, of which one has other values than 0 and 1; 3 is a number.
N_CODES = 3


def clinic(n=40, seed=0):
    rng = np.random.default_rng(seed)
    codes = (rng.random((n, N_CODES)) < 0.4) * [1.0, 1.0, 5.0]
    return np.column_stack([codes, rng.normal(size=n)]), np.arange(n) % 2


def scatter_with_noise(X, y):
    return class_moments(X, y, told=ToldSums(block=None)).scatter


def noise_in_rows(X, y):
    """Return by how many rows products differ, (n_groups, n_codes, n_codes)."""
    noise = scatter_with_noise(X, y) - class_moments(X, y).scatter
    units = X.max(axis=0) - X.min(axis=0)
    return (noise / np.outer(units, units))[:, :N_CODES, :N_CODES]


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_only_products_of_two_codes_have_noise_of_one_row(container):
    units = np.outer([1.0, 1.0, 5.0], [1.0, 1.0, 5.0])
    noises = set()
    for seed in range(8):
        X, y = clinic(seed=seed)
        exact = class_moments(X, y).scatter
        noise = scatter_with_noise(container(X), y) - exact
        np.testing.assert_allclose(noise[:, N_CODES], 0.0, atol=1e-9)
        np.testing.assert_allclose(noise, noise.transpose(0, 2, 1), atol=1e-9)
        in_rows = noise[:, :N_CODES, :N_CODES] / units
        off_diagonal = in_rows[:, ~np.eye(N_CODES, dtype=bool)]
        np.testing.assert_allclose(off_diagonal, off_diagonal.round(), atol=1e-9)
        noises |= set(off_diagonal.round().ravel().tolist())
    assert noises == {-1.0, 0.0, 1.0}


def test_noise_is_the_same_in_other_units_and_beside_other_columns():
    X, y = clinic(n=400)  # so many that all matrices stay definite
    noise = noise_in_rows(X, y)
    assert np.abs(noise).max() > 0.5
    others, _ = clinic(n=400, seed=1)
    other = np.hstack([X * [-3.0, 0.1, 1.0, 2.0] + 7.0, others])
    signs = np.array([-1.0, 1.0, 1.0])
    told = noise_in_rows(other, y) * np.outer(signs, signs)
    np.testing.assert_allclose(told, noise, atol=1e-6)


def test_noise_beside_that_of_classes_is_their_sum():
    X, y = clinic()
    of_classes = noise_in_rows(X, y)
    told = ToldSums(block=None, has_classes_beside=True)
    shared = class_moments(X, y, kind="shared", told=told).scatter
    exact = class_moments(X, y, kind="shared").scatter
    units = np.outer([1.0, 1.0, 5.0], [1.0, 1.0, 5.0])
    noise = (shared - exact)[0, :N_CODES, :N_CODES] / units
    np.testing.assert_allclose(noise, of_classes.sum(axis=0), atol=1e-6)


def test_products_stay_definite():
    """Codes of one column sum to 1, and noise alone would make a variance negative."""
    y = np.zeros(60, dtype=int)
    for seed in range(8):
        X = np.eye(6)[np.random.default_rng(seed).integers(0, 6, 60)]
        assert np.linalg.eigvalsh(class_moments(X, y).scatter[0])[0] < 1e-9
        values = np.linalg.eigvalsh(scatter_with_noise(X, y)[0])
        assert values[0] > -1e-9 * values[-1]

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


def scatter_with_noise(X, y, *, seed):
    told = ToldSums(block=None, seed=lambda: seed)
    return class_moments(X, y, told=told).scatter


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_only_products_of_two_codes_have_noise_of_one_row(container):
    X, y = clinic()
    exact = class_moments(X, y).scatter
    units = np.outer([1.0, 1.0, 5.0], [1.0, 1.0, 5.0])
    noises = set()
    for seed in range(8):
        noise = scatter_with_noise(container(X), y, seed=seed) - exact
        np.testing.assert_allclose(noise[:, N_CODES], 0.0, atol=1e-9)
        np.testing.assert_allclose(noise, noise.transpose(0, 2, 1), atol=1e-9)
        in_rows = noise[:, :N_CODES, :N_CODES] / units
        off_diagonal = in_rows[:, ~np.eye(N_CODES, dtype=bool)]
        np.testing.assert_allclose(off_diagonal, off_diagonal.round(), atol=1e-9)
        noises |= set(off_diagonal.round().ravel().tolist())
    assert noises == {-1.0, 0.0, 1.0}


def test_a_seed_always_has_the_same_noise_and_another_has_another():
    X, y = clinic()
    first = scatter_with_noise(X, y, seed=1)
    np.testing.assert_array_equal(first, scatter_with_noise(X, y, seed=1))
    assert np.abs(first - scatter_with_noise(X, y, seed=2)).max() >= 1.0


def test_products_stay_definite():
    """Codes of one column sum to 1, and noise alone would make a variance negative."""
    rng = np.random.default_rng(0)
    X = np.eye(6)[rng.integers(0, 6, 60)]
    y = np.zeros(60, dtype=int)
    assert np.linalg.eigvalsh(class_moments(X, y).scatter[0])[0] < 1e-9
    for seed in range(8):
        values = np.linalg.eigvalsh(scatter_with_noise(X, y, seed=seed)[0])
        assert values[0] > -1e-9 * values[-1]

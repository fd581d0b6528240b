# SPDX-License-Identifier: BSD-3-Clause
"""Moments that rows could have are made of sums with noise."""

from __future__ import annotations

import numpy as np

from skgems.private import NoisySums, mend


def sums_of(Z, y, *, sigma=0.0, seed=0):
    """Sums over rows z with the noise of a seed, and its deviations."""
    n_columns = Z.shape[1]
    rng = np.random.default_rng(seed)
    deviations = tuple(sigma / np.sqrt((0.02, 0.88, 0.10)))
    noise = np.triu(rng.standard_normal((n_columns, n_columns)), 1) / np.sqrt(2)
    noise = noise + noise.T + np.diag(rng.standard_normal(n_columns))
    one_hot = np.eye(2)[y]
    return NoisySums(
        counts=one_hot.sum(axis=0) + deviations[0] * rng.standard_normal(2),
        sums=one_hot.T @ Z + deviations[1] * rng.standard_normal((2, n_columns)),
        products=(Z.T @ Z + deviations[2] * noise)[None],
        deviations=deviations,
    )


def some_rows(n_rows=400, n_columns=6):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n_rows)
    Z = 0.1 * rng.normal(size=(n_rows, n_columns)) + 0.2 * y[:, None]
    return Z, y


def test_sums_without_noise_become_the_moments_of_the_rows():
    Z, y = some_rows()
    mended = mend(sums_of(Z, y))
    means = np.array([Z[y == c].mean(axis=0) for c in (0, 1)])
    np.testing.assert_allclose(mended.counts, np.bincount(y))
    np.testing.assert_allclose(mended.means, means, rtol=1e-12)
    within = Z - means[y]
    np.testing.assert_allclose(
        mended.covariances[0], within.T @ within / len(y), rtol=1e-9
    )


def test_moments_are_in_units_of_the_columns():
    Z, y = some_rows()
    scale = np.array([1.0, 10.0, 0.1, 2.0, 5.0, 3.0])
    middle = np.arange(6.0)
    X = middle + scale * Z
    moments = mend(sums_of(Z, y)).as_moments(middle=middle, scale=scale)
    total = moments.total()
    np.testing.assert_allclose(total.covariance, np.cov(X.T, bias=True), rtol=1e-9)
    np.testing.assert_allclose(
        moments.origin + moments.means, [X[y == c].mean(axis=0) for c in (0, 1)]
    )


def test_moments_of_mere_noise_could_be_of_rows():
    """However small epsilon is, counts, means and covariance are possible ones."""
    Z, y = some_rows()
    for seed in range(5):
        mended = mend(sums_of(Z, y, sigma=1e4, seed=seed))
        assert np.all(mended.counts >= 2e4)
        assert np.all(np.linalg.norm(mended.means, axis=1) <= 1.0 + 1e-12)
        assert np.linalg.eigvalsh(mended.covariances[0]).min() > 0.0


def test_eigenvalues_of_noise_become_one_number():
    """No direction that is noise alone has less variance than another."""
    mended = mend(sums_of(np.zeros((400, 30)), np.arange(400) % 2, sigma=3.0))
    eigenvalues = np.linalg.eigvalsh(mended.covariances[0])
    np.testing.assert_allclose(eigenvalues[:-2], eigenvalues[0], rtol=1e-9)


def test_an_eigenvalue_beyond_the_noise_is_moved_back():
    """One direction of large variance: noise moves its eigenvalue out by E^2 / 4 l."""
    rng = np.random.default_rng(0)
    Z = np.zeros((4000, 40))
    Z[:, 3] = 0.5 * rng.choice([-1.0, 1.0], 4000)
    errors = []
    for seed in range(40):
        noisy = sums_of(Z, np.zeros(4000, dtype=int), sigma=20.0, seed=seed)
        mended = mend(noisy)
        of_means = np.sum(noisy.deviations[1] ** 2 / mended.counts)
        n_rows = mended.counts.sum()
        largest = np.linalg.eigvalsh(mended.covariances[0])[-1] * n_rows - of_means
        raw = np.linalg.eigvalsh(noisy.products[0])[-1]
        errors.append((largest - 1000.0, raw - 1000.0))
    mean_error, mean_raw_error = np.abs(np.mean(errors, axis=0))
    assert mean_error < mean_raw_error / 2


def test_covariances_may_be_of_each_class():
    """Without noise they are those of the rows of the class."""
    Z, y = some_rows()
    one_hot = np.eye(2)[y]
    sums = NoisySums(
        counts=one_hot.sum(axis=0),
        sums=one_hot.T @ Z,
        products=np.stack([Z[y == c].T @ Z[y == c] for c in (0, 1)]),
        deviations=(0.0, 0.0, 0.0),
    )
    mended = mend(sums)
    for c in (0, 1):
        of_rows = np.cov(Z[y == c].T, bias=True)
        np.testing.assert_allclose(mended.covariances[c], of_rows, rtol=1e-9)
    moments = mended.as_moments(middle=np.zeros(6), scale=np.ones(6))
    np.testing.assert_allclose(
        moments.total().covariance, np.cov(Z.T, bias=True), rtol=1e-9
    )

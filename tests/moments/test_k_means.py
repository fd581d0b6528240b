# SPDX-License-Identifier: BSD-3-Clause
"""k-means by products of rows with each other."""

import numpy as np
import pytest
from scipy import sparse

import skgems.moments._fewer
from skgems.moments import k_means


def blobs(n_blobs=5, per_blob=40, n_features=60, spread=1.0, seed=0):
    rng = np.random.default_rng(seed)
    centers = 8.0 * rng.standard_normal((n_blobs, n_features))
    labels = rng.permutation(np.repeat(np.arange(n_blobs), per_blob))
    noise = spread * rng.standard_normal((len(labels), n_features))
    return centers[labels] + noise, labels


def same_parts(one, other):
    pairs = np.unique(np.stack([one, other]), axis=1)
    return pairs.shape[1] == len(np.unique(one)) == len(np.unique(other))


def test_what_lies_apart_is_found():
    rows, blob_of_row = blobs()
    assert same_parts(k_means(rows, 5, random_state=0), blob_of_row)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_row_is_in_the_cluster_of_the_nearest_mean(weighted):
    rows, _ = blobs(spread=9.0)
    weights = np.random.default_rng(1).uniform(0.1, 5.0, len(rows))
    weights = weights if weighted else None
    labels = k_means(rows, 12, weights=weights, max_iter=200, random_state=0)
    np.testing.assert_array_equal(np.unique(labels), np.arange(labels.max() + 1))
    assert labels.max() > 7
    means = np.stack(
        [
            np.average(
                rows[labels == k],
                axis=0,
                weights=None if weights is None else weights[labels == k],
            )
            for k in range(labels.max() + 1)
        ]
    )
    distances = np.square(rows[:, None] - means).sum(axis=2)
    np.testing.assert_array_equal(np.argmin(distances, axis=1), labels)


def test_centers_far_from_each_other_are_drawn():
    """Seven rows far from two hundred are found before any step is made."""
    rows, blob_of_row = blobs(n_blobs=8, per_blob=200, spread=0.1)
    first = np.unique(blob_of_row, return_index=True)[1]
    chosen = np.union1d(np.flatnonzero(blob_of_row == 0), first)
    labels = k_means(rows[chosen], 8, max_iter=0, random_state=3)
    assert same_parts(labels, blob_of_row[chosen])


def test_equal_rows_are_one_cluster():
    rows = np.repeat(np.array([[0.1, 7.0], [0.3, -2.0], [1e6, 0.0]]), 5, axis=0)
    labels = k_means(rows, 9, random_state=0)
    assert same_parts(labels, np.repeat(np.arange(3), 5))
    assert not k_means(np.ones((4, 3)), 2, random_state=0).any()


def test_it_is_the_same_whether_products_are_held_or_rows_sparse(monkeypatch):
    rows, _ = blobs(spread=9.0)
    labels = k_means(rows, 7, random_state=0)
    np.testing.assert_array_equal(
        k_means(sparse.csr_matrix(rows), 7, random_state=0), labels
    )
    monkeypatch.setattr(skgems.moments._fewer, "_MOST_HELD", 0)
    np.testing.assert_array_equal(k_means(rows, 7, random_state=0), labels)
    np.testing.assert_array_equal(
        k_means(sparse.csr_matrix(rows), 7, random_state=0), labels
    )

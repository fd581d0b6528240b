# SPDX-License-Identifier: BSD-3-Clause
"""k-means, by the products of rows with each other."""

import numpy as np
import pytest
from scipy import sparse

import skgems.moments._fewer
from skgems.moments import k_means


def blobs(n_blobs=5, *, per_blob=40, n_features=60, spread=1.0):
    """Rows about some centers, in any order, and the center of each row."""
    rng = np.random.default_rng(0)
    centers = 8.0 * rng.standard_normal((n_blobs, n_features))
    labels = rng.permutation(np.repeat(np.arange(n_blobs), per_blob))
    noise = spread * rng.standard_normal((len(labels), n_features))
    return centers[labels] + noise, labels


def are_same_clusters(labels, other_labels):
    """Whether two clusterings differ only in the numbers of their clusters."""
    pairs = np.unique(np.stack([labels, other_labels]), axis=1)
    n_clusters = len(np.unique(labels))
    return pairs.shape[1] == n_clusters == len(np.unique(other_labels))


def test_blobs_that_lie_apart_are_clusters():
    rows, blob_of_row = blobs()
    assert are_same_clusters(k_means(rows, 5, random_state=0), blob_of_row)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_row_is_in_the_cluster_of_the_nearest_mean(weighted):
    rows, _ = blobs(spread=9.0)
    weights = None
    if weighted:
        weights = np.random.default_rng(1).uniform(0.1, 5.0, len(rows))
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


def test_the_first_centers_are_far_from_each_other():
    """Seven far rows are among the first centers, though there are 200 others."""
    rows, blob_of_row = blobs(n_blobs=8, per_blob=200, spread=0.1)
    first = np.unique(blob_of_row, return_index=True)[1]
    chosen = np.union1d(np.flatnonzero(blob_of_row == 0), first)
    labels = k_means(rows[chosen], 8, max_iter=0, random_state=3)
    assert are_same_clusters(labels, blob_of_row[chosen])


def test_equal_rows_are_one_cluster():
    rows = np.repeat(np.array([[0.1, 7.0], [0.3, -2.0], [1e6, 0.0]]), 5, axis=0)
    labels = k_means(rows, 9, random_state=0)
    assert are_same_clusters(labels, np.repeat(np.arange(3), 5))
    assert not k_means(np.ones((4, 3)), 2, random_state=0).any()


def test_clusters_do_not_depend_on_whether_products_are_held_or_rows_are_sparse(
    monkeypatch,
):
    rows, _ = blobs(spread=9.0)
    labels = k_means(rows, 7, random_state=0)
    np.testing.assert_array_equal(
        k_means(sparse.csr_matrix(rows), 7, random_state=0), labels
    )
    monkeypatch.setattr(skgems.moments._fewer, "MOST_OF_SQUARE", 0)
    np.testing.assert_array_equal(k_means(rows, 7, random_state=0), labels)
    np.testing.assert_array_equal(
        k_means(sparse.csr_matrix(rows), 7, random_state=0), labels
    )

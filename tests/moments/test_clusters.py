# SPDX-License-Identifier: BSD-3-Clause
"""Clusters of the rows of each class, whatever the units and the zero of features."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.clumps import LABELS, clumps, rows_of

from skgems.moments import cluster_classes


def same(one, other):
    """Whether two clusterings are the same but for numbers."""
    pairs = set(zip(one.tolist(), other.tolist(), strict=True))
    return len(pairs) == len(set(one)) == len(set(other))


def test_clumps_are_found_in_each_class():
    X, places = clumps()
    y = np.repeat([0, 1], 20)
    parts = cluster_classes(X, y, 2, 4, random_state=0)
    assert same(parts, places)
    assert len(np.unique(cluster_classes(X, y, 1, 4, random_state=0))) == 2


def test_small_clusters_are_dissolved():
    """Rows of a clump that is too small go to the nearest of the others."""
    X, places = clumps()
    X, places = np.vstack([X, X[:2] + 1000.0]), np.append(places, [4, 4])
    # The two are nearest to this clump.
    centers = [X[places == p].mean(axis=0) for p in range(4)]
    nearest = np.argmin([np.linalg.norm(X[-1] - c) for c in centers])
    parts = cluster_classes(X, np.zeros(42, dtype=int), 5, 4, random_state=0)
    sizes = np.bincount(parts)
    assert sizes.min() >= 4
    assert parts[-1] == parts[-2] == parts[np.flatnonzero(places == nearest)[0]]
    # Where two rows are enough they are a cluster.
    parts = cluster_classes(X, np.zeros(42, dtype=int), 5, 2, random_state=0)
    assert parts[-1] == parts[-2] and (parts == parts[-1]).sum() == 2


def test_equal_rows_are_one_cluster():
    X, y = np.ones((20, 2)), np.zeros(20, dtype=int)
    assert len(np.unique(cluster_classes(X, y, 4, 4, random_state=0))) == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_units_and_zero_of_features_change_no_cluster(dtype):
    X, y = rows_of(n=300)
    codes = np.searchsorted(LABELS, y)
    reference = cluster_classes(X.astype(dtype), codes, 8, 4, random_state=0)
    assert len(np.unique(reference)) > 15
    for a, b in ((64.0, 0.0), (1.0, 1000.0), (np.array([0.01, 1, 50, 3000]), -70.0)):
        if dtype == np.float32 and not np.isscalar(a):
            continue  # single rows change sides by rounding
        if dtype == np.float32 and b:
            b = 8.0
        scaled = (X * a + b).astype(dtype)
        parts = cluster_classes(scaled, codes, 8, 4, random_state=0)
        if dtype == np.float32 and b:
            # Rounding of single rows.
            agree = np.mean(parts == reference)
            assert agree > 0.98
        else:
            assert same(parts, reference)


def test_features_count_in_deviations_within_classes():
    """A feature of large units and no clumps hides none of the clumps of another."""
    rng = np.random.RandomState(0)
    places = np.arange(80) % 2
    X = np.column_stack(
        [1e5 * rng.normal(size=80), places + 0.05 * rng.normal(size=80)]
    )
    parts = cluster_classes(X, np.zeros(80, dtype=int), 2, 4, random_state=0)
    agree = np.mean(parts == places)
    assert max(agree, 1 - agree) > 0.6
    X[:, 0] = 7.0  # a constant feature is in no cluster's way
    assert same(
        cluster_classes(X, np.zeros(80, dtype=int), 2, 4, random_state=0), places
    )


def test_clusters_of_many_rows_are_those_of_a_sample():
    X, places = clumps(n=4000)
    parts = cluster_classes(X, np.zeros(4000, dtype=int), 4, 4, random_state=0)
    assert same(parts, places)

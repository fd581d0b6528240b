# SPDX-License-Identifier: BSD-3-Clause
"""Clusters of the rows of each class do not depend on the units of features."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.clumps import LABELS, labelled_rows, rows_in_clumps

from skgems.moments import Centers, cluster_classes


def are_same_clusters(labels, other_labels):
    """Whether two clusterings differ only in the numbers of their clusters."""
    pairs = set(zip(labels.tolist(), other_labels.tolist(), strict=True))
    return len(pairs) == len(set(labels)) == len(set(other_labels))


def test_each_clump_of_a_class_is_a_cluster():
    X, places = rows_in_clumps()
    y = np.repeat([0, 1], 20)
    parts = cluster_classes(X, y, 2, 4, random_state=0)
    assert are_same_clusters(parts, places)
    assert len(np.unique(cluster_classes(X, y, 1, 4, random_state=0))) == 2


def test_rows_of_clusters_that_are_too_small_join_the_nearest_others():
    """Rows of a clump that is too small go to the nearest of the others."""
    X, places = rows_in_clumps()
    X = np.vstack([X, X[:2] + 1000.0])
    places = np.append(places, [4, 4])
    centers = [X[places == p].mean(axis=0) for p in range(4)]
    nearest = np.argmin([np.linalg.norm(X[-1] - c) for c in centers])
    parts = cluster_classes(X, np.zeros(42, dtype=int), 5, 4, random_state=0)
    sizes = np.bincount(parts)
    assert sizes.min() >= 4
    assert parts[-1] == parts[-2] == parts[np.flatnonzero(places == nearest)[0]]
    # They are a cluster where two rows are enough for one.
    parts = cluster_classes(X, np.zeros(42, dtype=int), 5, 2, random_state=0)
    assert parts[-1] == parts[-2] and (parts == parts[-1]).sum() == 2


def test_equal_rows_are_one_cluster():
    X = np.ones((20, 2))
    y = np.zeros(20, dtype=int)
    assert len(np.unique(cluster_classes(X, y, 4, 4, random_state=0))) == 1


def clusters_in_units(unit, zero, *, dtype=np.float64):
    """Clusters of 300 rows whose features are ``unit * X + zero``."""
    X, y = labelled_rows(n=300)
    codes = np.searchsorted(LABELS, y)
    rows = (X * unit + zero).astype(dtype)
    return cluster_classes(rows, codes, 8, 4, random_state=0)


@pytest.mark.parametrize(
    ("unit", "zero"),
    [(64.0, 0.0), (1.0, 1000.0), (np.array([0.01, 1, 50, 3000]), -70.0)],
)
def test_units_and_zero_of_features_change_no_cluster(unit, zero):
    reference = clusters_in_units(1.0, 0.0)
    assert len(np.unique(reference)) > 15
    assert are_same_clusters(clusters_in_units(unit, zero), reference)


def test_units_of_float32_rows_change_no_cluster():
    reference = clusters_in_units(1.0, 0.0, dtype=np.float32)
    assert len(np.unique(reference)) > 15
    assert are_same_clusters(clusters_in_units(64.0, 0.0, dtype=np.float32), reference)


def test_another_zero_of_float32_rows_moves_only_single_rows():
    """Those that are nearly as far from two clusters, as the sums round."""
    reference = clusters_in_units(1.0, 0.0, dtype=np.float32)
    parts = clusters_in_units(1.0, 8.0, dtype=np.float32)
    assert np.mean(parts == reference) > 0.98


def two_clumps_in_the_second_feature():
    """Rows whose first feature has large units and no clumps."""
    rng = np.random.RandomState(0)
    places = np.arange(80) % 2
    X = np.column_stack(
        [1e5 * rng.normal(size=80), places + 0.05 * rng.normal(size=80)]
    )
    return X, places


def test_a_feature_in_large_units_does_not_hide_the_clumps_of_another():
    X, places = two_clumps_in_the_second_feature()
    parts = cluster_classes(X, np.zeros(80, dtype=int), 2, 4, random_state=0)
    # Clusters have no order, so that they may agree as 0 with 1, and 1 with 0.
    agreement = np.mean(parts == places)
    assert max(agreement, 1 - agreement) > 0.6


def test_a_constant_feature_does_not_disturb_clusters():
    X, places = two_clumps_in_the_second_feature()
    X[:, 0] = 7.0
    assert are_same_clusters(
        cluster_classes(X, np.zeros(80, dtype=int), 2, 4, random_state=0), places
    )


def test_many_rows_are_clustered_as_well_as_few():
    X, places = rows_in_clumps(n=4000)
    parts = cluster_classes(X, np.zeros(4000, dtype=int), 4, 4, random_state=0)
    assert are_same_clusters(parts, places)


def test_a_center_is_the_weighted_mean_of_its_rows():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((30, 2))
    weights = rng.randint(1, 9, 30).astype(float)
    centers = Centers(X, 1, np.ones(2), seed=0, weights=weights)
    expected = np.average(X, axis=0, weights=weights)
    # Rows are rounded before clusters are sought.
    np.testing.assert_allclose(centers.zero + centers.centers[0], expected, atol=1e-5)


def test_clusters_have_rows_of_several_groups():
    """A mean over rows of one patient alone would be told of this patient."""
    X, places = rows_in_clumps()
    y = np.zeros(40, dtype=int)
    apart = np.arange(40)
    assert are_same_clusters(
        cluster_classes(X, y, 4, 4, random_state=0, groups=apart), places
    )
    patient = np.where(places == 1, 99, apart)  # one clump is of one patient
    parts = cluster_classes(X, y, 4, 4, random_state=0, groups=patient)
    for part in np.unique(parts):
        assert len(np.unique(patient[parts == part])) >= 4
    assert len(np.unique(parts)) == 3

# SPDX-License-Identifier: BSD-3-Clause
"""One class, feature or part more changes little, or a warning says what it does."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from skgems import GEMSLogisticAggregator
from skgems.asking import SharedCovarianceWarning
from skgems.gems import Moments
from skgems.moments import ClassMoments, GaussianLoss, class_moments

ONE_CLUSTER = Moments(n_components=1)


def rows(n_classes, *, n_rows, n_features=4, seed=0):
    """Rows of classes that differ in place and in how features vary together."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    means = 2.0 * rng.normal(size=(n_classes, n_features))
    shapes = rng.normal(size=(n_classes, n_features, n_features)) / n_features**0.5
    noise = np.einsum("ij,ijk->ik", rng.normal(size=(n_rows, n_features)), shapes[y])
    return means[y] + noise, y


def fit(X, y, nodes, **parameters):
    """The aggregate of nodes with rows alone, and the texts of one warning."""
    names = [f"n{k}" for k in range(nodes.max() + 1)]
    agg = GEMSLogisticAggregator([(name, None) for name in names], random_state=0)
    agg.set_params(**parameters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agg.fit(X, y, nodes=np.array(names)[nodes])
    texts = [
        str(warning.message)
        for warning in caught
        if warning.category is SharedCovarianceWarning
    ]
    return agg, texts


def loss_of(n_classes, *, n_parts=1):
    X, y = rows(n_classes, n_rows=20 * n_parts * n_classes, n_features=2)
    parts = y * n_parts + np.arange(len(y)) // n_classes % n_parts
    return GaussianLoss(class_moments(X, y, kind="class", parts=parts), n_classes)


# ---- classes -----------------------------------------------------------------------


def test_classes_that_are_too_many_for_covariances_of_their_own_are_said():
    few, many = (loss_of(n_classes) for n_classes in (100, 140))
    assert not few.shares_one_covariance and many.shares_one_covariance
    X, y = rows(140, n_rows=140 * 12, n_features=2)
    nodes = np.arange(len(y)) // 140 % 2
    _, texts = fit(X, y, nodes, moments=ONE_CLUSTER)
    (text,) = texts
    assert text.startswith("With 140 classes,") and "n_rounds=5" in text
    X, y = rows(20, n_rows=20 * 12, n_features=2)
    assert not fit(X, y, np.arange(len(y)) // 20 % 2, moments=ONE_CLUSTER)[1]


def test_clusters_lose_their_own_variances_one_class_at_a_time():
    def n_of_parts(n_classes):
        loss = loss_of(n_classes, n_parts=2)
        everywhere = np.ones(n_classes, dtype=bool)
        moves, _ = loss.moves(np.zeros((3, n_classes)), everywhere, n_points=256)
        return len(moves)

    # 64 in all as long as two are left for some class, and one a class at least.
    assert n_of_parts(20) == 40
    assert n_of_parts(32) == 64
    assert [n_of_parts(n) for n in (33, 40, 63, 64, 65)] == [64, 64, 64, 64, 65]


# ---- features ----------------------------------------------------------------------


def test_features_that_are_too_many_for_matrices_of_classes_are_said():
    rng = np.random.default_rng(0)
    # 40 classes would have 8.5 million numbers.
    X = rng.normal(size=(680, 650))
    y = np.arange(680) % 40
    agg = GEMSLogisticAggregator(moments=ONE_CLUSTER, random_state=0)
    with pytest.warns(SharedCovarianceWarning, match="of 40 classes .* 650 features"):
        summary = agg.summarize(None, X, y, name="lyon")
    (answer,) = summary.message.content["answers"].values()
    sums = ClassMoments.from_content(answer["reply"]["moments"])
    assert sums.groups.tolist() == [-1]
    with warnings.catch_warnings():
        warnings.simplefilter("error", SharedCovarianceWarning)
        agg.set_params(moments=Moments("shared", n_components=1))
        agg.summarize(None, X, y, name="lyon")


@pytest.mark.parametrize(
    ("n_features", "n_constant"),
    [
        (500, 11),  # products of matrices take fewer digits from 512 features on
        (500, 12),
        (500, 40),
    ],
)
def test_constant_features_change_no_loss(n_features, n_constant):
    X, y = rows(3, n_rows=60, n_features=n_features)
    W = np.random.default_rng(1).normal(size=(n_features + 1, 3)) / n_features**0.5
    plain = GaussianLoss(class_moments(X, y, kind="class"), 3)
    value, gradient = plain.value_and_gradient(W)
    wide = np.hstack([X, np.ones((len(X), n_constant))])
    of_wide = GaussianLoss(class_moments(wide, y, kind="class"), 3)
    W = np.vstack([W[:-1], np.zeros((n_constant, 3)), W[-1:]])
    # Rows are counted from a point of their own.
    W[-1] += (of_wide.moments.origin[:n_features] - plain.moments.origin) @ W[
        :n_features
    ]
    wide_value, wide_gradient = of_wide.value_and_gradient(W)
    assert wide_value == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(
        wide_gradient[:n_features],
        gradient[:n_features],
        atol=1e-4 * np.abs(gradient).max(),
    )


# ---- parts -------------------------------------------------------------------------


def test_nodes_with_more_clusters_than_are_kept_change_little():
    X, y = rows(2, n_rows=6000)
    X_test, _ = rows(2, n_rows=500)
    # Of 16 clusters a class and node, 480, 512 and 544 in all.
    proba = [
        fit(X, y, np.arange(len(y)) // 2 % n_nodes)[0].predict_proba(X_test)
        for n_nodes in (15, 16, 17)
    ]
    steps = [np.abs(proba[k + 1] - proba[k]).mean() for k in range(2)]
    assert max(steps) < 0.01

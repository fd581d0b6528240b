# SPDX-License-Identifier: BSD-3-Clause
"""Units and zero of features do not matter where nodes scale theirs."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.estimators import fit_once
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.datasets import partition_by_label
from skgems.gems import Moments, Spaces

X, Y = load_digits(return_X_y=True)
TRAIN, TEST = slice(0, 600), slice(1200, None)
NODES = partition_by_label(Y[TRAIN], 3)
STD = X.std(axis=0).mean()
LOCALS = {
    GEMSLogisticAggregator: LogisticRegression(max_iter=1000, tol=1e-10),
    GEMSMLPAggregator: MLPClassifier(
        12, solver="lbfgs", alpha=0.5, max_iter=30, random_state=0
    ),
}


def fit(kind, rows, **parameters):
    clfs = [
        fit_once(
            make_pipeline(StandardScaler(), LOCALS[kind]),
            rows[TRAIN][NODES == k],
            Y[TRAIN][NODES == k],
        )
        for k in range(3)
    ]
    agg = kind(clfs, random_state=0, **parameters)
    return agg.fit(rows[TRAIN], Y[TRAIN], nodes=NODES)


def moved(view):
    """The same rows with other zeros or other units."""
    rng = np.random.default_rng(0)
    shift = 100 * STD * rng.standard_normal(X.shape[1])
    if view == "100 standard deviations":
        return X + shift
    return X * 10.0 ** rng.uniform(-3, 3, X.shape[1])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("kind", "settings", "view"),
    [
        (
            GEMSLogisticAggregator,
            {"moments": Moments(n_components=2)},
            "100 standard deviations",
        ),
        (GEMSLogisticAggregator, {"intersection": "consensus"}, "other units"),
        (
            GEMSMLPAggregator,
            {"last_layer": GEMSLogisticAggregator(moments=Moments(n_components=2))},
            "100 standard deviations",
        ),
    ],
)
def test_zero_and_units_of_features_do_not_matter(kind, settings, view):
    plain = fit(kind, X, **settings)
    expected = plain.predict_proba(X[TEST])
    assert plain.score(X[TEST], Y[TEST]) > 0.8
    rows = moved(view)
    moved_aggregate = fit(kind, rows, **settings)
    np.testing.assert_allclose(
        moved_aggregate.predict_proba(rows[TEST]), expected, atol=1e-4
    )
    np.testing.assert_array_equal(
        moved_aggregate.predict(rows[TEST]), plain.predict(X[TEST])
    )


# Each of these has logits that are squares of features, and so as small or large.
CENTROIDS = {
    "plain": NearestCentroid(),
    "shrunk": NearestCentroid(shrink_threshold=0.5),
    "shrunk to one point": NearestCentroid(shrink_threshold=30.0),
}


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        *[("plain", 1e-24), ("plain", 1e20), ("shrunk", 1e-15), ("shrunk", 1e8)],
        *[("shrunk to one point", 1e-24), ("shrunk to one point", 1e20)],
    ],
)
def test_units_of_centroids_do_not_matter(name, unit):
    rng = np.random.default_rng(1)
    y = np.arange(150) % 3
    nodes = np.arange(150) // 3 % 2
    rows = rng.standard_normal((150, 4)) + 1.5 * np.eye(3, 4)[y]

    def probabilities(rows):
        members = [
            clone(CENTROIDS[name]).fit(rows[nodes == k], y[nodes == k])
            for k in range(2)
        ]
        agg = GEMSLogisticAggregator(members, random_state=0)
        return agg.fit(rows, y, nodes=nodes).predict_proba(rows)

    np.testing.assert_allclose(
        probabilities(unit * rows), probabilities(rows), atol=1e-3
    )


@pytest.mark.parametrize(
    ("intersection", "view"),
    [
        pytest.param("likelihood", "other units", marks=pytest.mark.slow),
        ("consensus", "100 standard deviations"),
    ],
)
def test_public_rows_tune_alike_whatever_zero_and_units(intersection, view):
    public = TEST.start + np.arange(100)
    rest = X[TEST][100:]
    settings = {"intersection": intersection}
    tuned = fit(GEMSLogisticAggregator, X, **settings)
    tuned.fine_tune(X[public], Y[public])
    expected = tuned.predict_proba(rest)
    rows = moved(view)
    moved_aggregate = fit(GEMSLogisticAggregator, rows, **settings)
    moved_aggregate.fine_tune(rows[public], Y[public])
    # A search ends where it gains little, which rounding moves on a few rows.
    probabilities = moved_aggregate.predict_proba(rows[TEST][100:])
    assert np.abs(probabilities - expected).mean() < 2e-3
    assert np.mean(probabilities.argmax(axis=1) == expected.argmax(axis=1)) > 0.98


@pytest.mark.parametrize(
    ("value", "intersection"), [(2.0, "likelihood"), (0.0, "consensus")]
)
def test_what_a_node_cannot_see_does_not_depend_on_other_units(value, intersection):
    # The last feature is constant at node 0, and says all at node 1.
    rng = np.random.default_rng(0)
    n = 300
    rows = rng.standard_normal((2 * n, 3))
    y = (rows[:, 0] + 2 * rows[:, 2] > 0).astype(int)
    nodes = np.repeat([0, 1], n)
    rows[:n, 2] = value
    y[:n] = rows[:n, 0] > 0
    coefs = []
    for unit in (1.0, 1e5):
        scaled = rows * np.array([1.0, unit, 1.0])
        clfs = [
            make_pipeline(StandardScaler(), LogisticRegression()).fit(
                scaled[nodes == k], y[nodes == k]
            )
            for k in range(2)
        ]
        agg = GEMSLogisticAggregator(clfs, intersection=intersection, random_state=0)
        agg.fit(scaled, y, nodes=nodes)
        coefs.append(agg.coef_[0] * np.array([1.0, unit, 1.0]))
        np.testing.assert_allclose(coefs[-1], coefs[0], rtol=1e-4)
        if value == 0 and intersection == "consensus":
            # Node 0 has no say in it: the weight is node 1's, on its scale.
            np.testing.assert_allclose(
                agg.intersection_.point[2], agg.spaces_[1].center[2], rtol=0.02
            )


def test_a_feature_that_no_node_shows_keeps_the_mean_of_its_weights():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200, 3))
    y = rng.integers(0, 2, 200)
    rows[:, 2] = 5.0
    nodes = np.repeat([0, 1], 100)
    clfs = [LogisticRegression().fit(rows[nodes == k], y[nodes == k]) for k in range(2)]
    expected = []
    for k, clf in enumerate(clfs):
        # Logits on all rows stay the same, as the feature is 5 in each.
        clf.coef_[0, 2] = k + 1.0
        clf.intercept_[0] -= 5.0 * (k + 1)
        expected.append(clf.coef_[0, 2])
    agg = GEMSLogisticAggregator(
        clfs,
        intersection="consensus",
        spaces=Spaces(scale_logits=False),
        random_state=0,
    )
    agg.fit(rows, y, nodes=nodes)
    point = agg.intersection_.point
    assert (point[2, 1] - point[2, 0]) == pytest.approx(np.mean(expected))

# SPDX-License-Identifier: BSD-3-Clause
"""One model fitted to what an ensemble says."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.estimators import federated
from helpers.labels import assert_same_labels
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

from skgems import DistillationAggregator, EnsembleAggregator


def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16, y[:600], X[600:1200] / 16, X[1200:] / 16, y[1200:]


def trees(X, y, n=7):
    models = [DecisionTreeClassifier(random_state=k) for k in range(n)]
    return [m.fit(X[k::n], y[k::n]) for k, m in enumerate(models)]


def test_rows_need_no_labels():
    X, y, X_free, X_test, y_test = digits()
    members = trees(X, y)
    student = LogisticRegression(max_iter=500)
    aggregate = DistillationAggregator(members, student=student).fit(X_free)
    ensemble = EnsembleAggregator(members).fit()
    assert aggregate.score(X_test, y_test) > ensemble.score(X_test, y_test) - 0.05
    assert aggregate.agreement_ > 0.8
    assert not hasattr(student, "coef_")
    # Labels that are given say nothing to the student.
    wrong = np.random.RandomState(0).permutation(np.arange(len(X_free)) % 10)
    labeled = clone(aggregate).fit(X_free, wrong)
    np.testing.assert_allclose(
        labeled.predict_proba(X_test), aggregate.predict_proba(X_test)
    )


def test_a_student_with_weights_learns_the_probabilities():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 2))
    teacher = LogisticRegression(C=0.5).fit(X, (X[:, 0] + rng.normal(size=60)) > 0)
    aggregate = DistillationAggregator(
        [teacher], student=LogisticRegression(C=1e8, tol=1e-10)
    ).fit(X)
    np.testing.assert_allclose(
        aggregate.predict_proba(X), teacher.predict_proba(X), atol=1e-3
    )


def test_a_student_without_weights_learns_them_in_tenths():
    X = np.array([[0.0], [1.0]])
    teacher = LogisticRegression().fit([[0.0], [1.0], [0.2], [0.9]], [0, 1, 1, 0])
    student = KNeighborsClassifier(10)
    aggregate = DistillationAggregator([teacher], student=student).fit(X)
    expected = teacher.predict_proba(X)
    np.testing.assert_allclose(aggregate.predict_proba(X), expected, atol=0.051)
    assert aggregate.student_.n_samples_fit_ == 10 * len(X)
    assert np.abs(expected - 0.5).max() < 0.5


def test_the_default_student_is_a_network():
    X, y, X_free, X_test, y_test = digits()
    X_free = X_free[:100]
    aggregate = DistillationAggregator(trees(X, y, 2), random_state=0).fit(X_free)
    assert isinstance(aggregate.student_, MLPClassifier)
    assert aggregate.score(X_test, y_test) > 0.5
    again = clone(aggregate).fit(X_free)
    np.testing.assert_array_equal(
        again.predict_proba(X_test), aggregate.predict_proba(X_test)
    )


def test_nodes_with_different_classes():
    X, y, X_free, X_test, y_test = digits()
    members = [
        DecisionTreeClassifier(random_state=0).fit(X[rows], y[rows])
        for rows in (y < 6, y > 3)
    ]
    aggregate = DistillationAggregator(
        members, student=DecisionTreeClassifier(random_state=0)
    ).fit(X_free)
    np.testing.assert_array_equal(aggregate.classes_, np.arange(10))
    assert aggregate.predict_proba(X_test).shape == (len(X_test), 10)


def test_public_rows_are_what_the_student_sees_in_simulation():
    X, y, _, _, _ = digits()
    nodes = np.arange(len(y)) % 3 - 1
    seen = []

    class Watched(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            seen.append({row.tobytes() for row in X})
            return super().fit(X, y, sample_weight=sample_weight)

    DistillationAggregator(
        DecisionTreeClassifier(max_depth=4), student=Watched(max_iter=300)
    ).fit(X, y, nodes=nodes)
    assert seen == [{row.tobytes() for row in X[nodes == -1]}]


def test_one_class_makes_a_constant_student():
    X = np.arange(6.0).reshape(-1, 1)
    teacher = DecisionTreeClassifier().fit(X, X[:, 0] > 2)
    aggregate = DistillationAggregator([teacher]).fit(X[:2])
    np.testing.assert_array_equal(aggregate.predict(X), np.zeros(6, dtype=bool))


def test_errors():
    X, y, X_free, _, _ = digits()
    members = trees(X, y)
    with pytest.raises(ValueError, match="fitted on 64 features"):
        DistillationAggregator(members).fit(X_free[:, :10])
    with pytest.raises(ValueError, match="requires y"):
        DistillationAggregator(DecisionTreeClassifier()).fit(X_free)
    with pytest.raises(ValueError, match="needs the number of rows"):
        DistillationAggregator(members, node_weight="class_counts").fit(X_free)


def test_rows_held_out_are_not_learned_and_measure_the_agreement():
    dataset = federated("overlapping")
    teacher = LogisticRegression(max_iter=1000)
    student = DecisionTreeClassifier(random_state=0)
    locals_ = dataset.fitted(teacher)
    held_out = np.arange(len(dataset.y)) % 3 == 0
    agg = DistillationAggregator(locals_, student=student, random_state=0)
    agg.fit(dataset.X, held_out=held_out)
    fitted_without_them = clone(agg).fit(dataset.X[~held_out])
    assert_same_labels(agg, fitted_without_them, dataset.X_test)
    # A tree agrees with all that it has learned.
    ensemble = EnsembleAggregator(locals_).fit()
    expected_agreement = np.mean(
        agg.predict(dataset.X[held_out]) == ensemble.predict(dataset.X[held_out])
    )
    assert agg.agreement_ == expected_agreement < fitted_without_them.agreement_
    with pytest.raises(ValueError, match="held_out marks all rows"):
        clone(agg).fit(dataset.X, held_out=np.ones(len(dataset.y), dtype=bool))

# SPDX-License-Identifier: BSD-3-Clause
"""DistillationAggregator: what exactly the student is shown, and with which seed."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from skgems import DistillationAggregator, EnsembleAggregator


class Teacher:
    """Gives row i the i-th probabilities; rows hold their number."""

    _estimator_type = "classifier"
    n_features_in_ = 1

    def __init__(self, classes, table):
        self.classes_, self.table = np.array(classes), np.array(table)

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return self.table[X[:, 0].astype(int)]

    def predict(self, X):
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


class Weighted(LogisticRegression):
    """Keeps what it is shown."""

    def fit(self, X, y, sample_weight=None):
        self.shown_ = X[:, 0].copy(), y.copy(), sample_weight.copy()
        return super().fit(X, y, sample_weight=sample_weight)


class Unweighted(KNeighborsClassifier):
    """Keeps what it is shown; takes no weights."""

    def fit(self, X, y):
        self.shown_ = X[:, 0].copy(), y.copy()
        return super().fit(X, y)


def numbered(n_rows):
    return np.arange(float(n_rows))[:, None]


def shown(student, n_rows, classes):
    """Weight of each class for each row that the student was fitted on."""
    rows, labels, *weight = student.shown_
    amounts = weight[0] if weight else np.ones(len(rows))
    table = np.zeros((n_rows, len(classes)))
    np.add.at(table, (rows.astype(int), np.searchsorted(classes, labels)), amounts)
    return table


# ---- soft targets -------------------------------------------------------------


def test_a_weighted_student_sees_each_class_by_its_probability():
    table = [[0.9, 0.1, 0.0], [0.05, 0.94, 0.01], [0.3, 0.3, 0.4]]
    aggregate = DistillationAggregator(
        [Teacher(["a", "b", "c"], table)], student=Weighted()
    ).fit(numbered(3))
    seen = shown(aggregate.student_, 3, aggregate.classes_)
    np.testing.assert_allclose(seen, table)


def test_what_is_left_out_as_negligible_leaves_rows_of_equal_weight():
    table = [[0.9991, 0.0009, 0.0], [0.0008, 0.0008, 0.9984]]
    aggregate = DistillationAggregator(
        [Teacher([0, 1, 2], table)], student=Weighted()
    ).fit(numbered(2))
    seen = shown(aggregate.student_, 2, aggregate.classes_)
    np.testing.assert_allclose(seen, [[1, 0, 0], [0, 0, 1]])


def test_a_row_is_shown_however_little_each_of_its_classes_matters():
    class Stump(DecisionTreeClassifier):
        def fit(self, X, y, sample_weight=None):
            self.shown_ = X[:, 0].copy(), y.copy(), sample_weight.copy()
            return super().fit(X, y, sample_weight=sample_weight)

    table = np.full((3, 1250), 1 / 1250)
    aggregate = DistillationAggregator(
        [Teacher(np.arange(1250), table)], student=Stump(max_depth=1)
    ).fit(numbered(3))
    seen = shown(aggregate.student_, 3, aggregate.classes_)
    np.testing.assert_allclose(seen, table)


def test_another_student_sees_ten_copies_of_each_row_in_proportion():
    table = [[0.58, 0.37, 0.05], [0.26, 0.26, 0.48], [0.0, 0.0, 1.0]]
    aggregate = DistillationAggregator(
        [Teacher([0, 1, 2], table)], student=Unweighted(3)
    ).fit(numbered(3))
    seen = shown(aggregate.student_, 3, aggregate.classes_)
    # Rounded down, then up where most is missing.
    np.testing.assert_array_equal(seen[[0, 2]], [[6, 4, 0], [0, 0, 10]])
    assert sorted(seen[1]) == [2, 3, 5]


def test_copies_of_a_row_are_mixed_with_others():
    table = np.full((20, 2), 0.5)
    aggregate = DistillationAggregator(
        [Teacher([0, 1], table)], student=Unweighted(3)
    ).fit(numbered(20))
    rows, labels = aggregate.student_.shown_
    assert np.mean(np.diff(rows) == 0) < 0.2
    # Each copy has kept its own label.
    np.testing.assert_array_equal(
        shown(aggregate.student_, 20, aggregate.classes_), np.full((20, 2), 5)
    )


@pytest.mark.parametrize("weights", [[1.0, 3.0], [5.0, 1.0]])
def test_weights_of_nodes_are_those_of_the_ensemble(weights):
    members = [
        Teacher([0, 1], [[0.8, 0.2], [0.4, 0.6]]),
        Teacher([1, 2], [[0.5, 0.5], [0.1, 0.9]]),
    ]
    aggregate = DistillationAggregator(members, student=Weighted(), weights=weights)
    seen = shown(aggregate.fit(numbered(2)).student_, 2, np.arange(3))
    a, b = weights
    said = np.array(
        [
            [0.8 * a, 0.2 * a + 0.5 * b, 0.5 * b],
            [0.4 * a, 0.6 * a + 0.1 * b, 0.9 * b],
        ]
    )
    np.testing.assert_allclose(seen, said / (a + b))


def test_votes_are_counted_where_asked():
    members = [
        Teacher([0, 1], [[0.6, 0.4], [0.1, 0.9]]),
        Teacher([0, 1], [[0.6, 0.4], [0.6, 0.4]]),
        Teacher([0, 1], [[0.0, 1.0], [0.6, 0.4]]),
    ]
    aggregate = DistillationAggregator(members, student=Weighted(), voting="hard")
    seen = shown(aggregate.fit(numbered(2)).student_, 2, np.arange(2))
    np.testing.assert_allclose(seen, [[2 / 3, 1 / 3]] * 2, atol=2e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_ties_fall_as_in_the_ensemble_of_the_same_seed(seed):
    X = numbered(200)
    members = [Teacher([0, 1], np.eye(2)[np.full(200, k)]) for k in (0, 1)]
    options = {"voting": "hard", "random_state": seed}
    ensemble = EnsembleAggregator(members, **options).fit()
    aggregate = DistillationAggregator(members, student=Weighted(), **options).fit(X)
    # Half a vote each, but for what breaks the tie.
    seen = shown(aggregate.student_, 200, np.arange(2))
    np.testing.assert_array_equal(seen.argmax(axis=1), ensemble.predict(X))


def test_agreement_is_the_share_of_rows_with_the_ensembles_label():
    table = [[0.9, 0.1]] * 5 + [[0.2, 0.8]] * 3
    # A stump of one leaf says class 0 of all rows.
    student = DecisionTreeClassifier(min_samples_leaf=8)
    X = np.zeros((8, 1))

    class ByOrder(Teacher):
        def predict_proba(self, X):
            return self.table[: len(X)]

    aggregate = DistillationAggregator([ByOrder([0, 1], table)], student=student)
    assert aggregate.fit(X).agreement_ == 5 / 8


# ---- the student --------------------------------------------------------------


def soft_rows():
    table = np.random.RandomState(0).dirichlet([1, 1], size=40)
    return Teacher([0, 1], table), numbered(40)


@pytest.mark.parametrize("nested", [False, True])
def test_the_students_seed_comes_from_the_random_state(nested):
    teacher, X = soft_rows()
    student = ExtraTreeClassifier(max_depth=3)
    if nested:
        student = make_pipeline(StandardScaler(), student)

    def told(seed):
        aggregate = DistillationAggregator([teacher], student=student)
        aggregate.set_params(random_state=seed)
        return aggregate.fit(X).predict_proba(X)

    np.testing.assert_array_equal(told(3), told(3))
    assert not np.array_equal(told(3), told(4))


def test_a_seed_of_the_students_own_is_kept():
    teacher, X = soft_rows()
    student = ExtraTreeClassifier(max_depth=3, random_state=7)
    told = [
        DistillationAggregator([teacher], student=student, random_state=seed).fit(X)
        for seed in (0, 1)
    ]
    assert told[0].student_.random_state == 7
    np.testing.assert_array_equal(told[0].predict_proba(X), told[1].predict_proba(X))


def test_warnings_of_ones_own_student_are_heard():
    teacher, X = soft_rows()
    student = MLPClassifier((2,), max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning):
        DistillationAggregator([teacher], student=student).fit(X)


def test_a_module_has_an_output_for_classes_the_student_was_not_shown():
    torch = pytest.importorskip("torch")
    table = [[0.9, 0.0, 0.1], [0.1, 0.0, 0.9]]
    aggregate = DistillationAggregator(
        [Teacher([0, 1, 2], table)], student=LogisticRegression()
    ).fit(numbered(2))
    logits = aggregate.to_module()(torch.tensor(numbered(2))).detach().numpy()
    known = logits[:, [0, 2]]
    proba = np.exp(known) / np.exp(known).sum(axis=1, keepdims=True)
    assert logits.shape == (2, 3)
    np.testing.assert_allclose(
        proba, aggregate.predict_proba(numbered(2))[:, [0, 2]], rtol=1e-6
    )

# SPDX-License-Identifier: BSD-3-Clause
"""DistillationAggregator: what exactly the student is shown, and with which seed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
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
        self.classes_ = np.array(classes)
        self.table = np.array(table)

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return self.table[X[:, 0].astype(int)]

    def predict(self, X):
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


class WeightedStudent(LogisticRegression):
    """A classifier that notes the rows, labels and weights that it is fitted on."""

    def fit(self, X, y, sample_weight=None):
        self.rows_ = X[:, 0].copy()
        self.labels_ = y.copy()
        self.weights_ = sample_weight.copy()
        return super().fit(X, y, sample_weight=sample_weight)


class WeightedStump(DecisionTreeClassifier):
    """The same as a tree, which takes any number of classes."""

    def fit(self, X, y, sample_weight=None):
        self.rows_ = X[:, 0].copy()
        self.labels_ = y.copy()
        self.weights_ = sample_weight.copy()
        return super().fit(X, y, sample_weight=sample_weight)


class UnweightedStudent(KNeighborsClassifier):
    """A classifier that takes no weights, and notes rows and labels."""

    def fit(self, X, y):
        self.rows_ = X[:, 0].copy()
        self.labels_ = y.copy()
        self.weights_ = np.ones(len(y))
        return super().fit(X, y)


def numbered_rows(n_rows):
    return np.arange(float(n_rows))[:, None]


def weights_seen_by(student, n_rows, classes):
    """The weight of each class for each row that the student was fitted on."""
    weights = np.zeros((n_rows, len(classes)))
    columns = np.searchsorted(classes, student.labels_)
    np.add.at(weights, (student.rows_.astype(int), columns), student.weights_)
    return weights


def distill(teachers, student, n_rows, **params):
    """An aggregate that was fitted on numbered rows."""
    aggregate = DistillationAggregator(teachers, student=student, **params)
    return aggregate.fit(numbered_rows(n_rows))


def weights_of_soft_targets(teachers, student, n_rows, **params):
    """The weights that the student sees for each numbered row and class."""
    aggregate = distill(teachers, student, n_rows, **params)
    return weights_seen_by(aggregate.student_, n_rows, aggregate.classes_)


# ---- soft targets -------------------------------------------------------------


def test_a_weighted_student_sees_each_class_by_its_probability():
    table = [[0.9, 0.1, 0.0], [0.05, 0.94, 0.01], [0.3, 0.3, 0.4]]
    teacher = Teacher(["a", "b", "c"], table)
    weights = weights_of_soft_targets([teacher], WeightedStudent(), 3)
    np.testing.assert_allclose(weights, table)


def test_rows_have_equal_weights_where_negligible_classes_are_left_out():
    table = [[0.9991, 0.0009, 0.0], [0.0008, 0.0008, 0.9984]]
    teacher = Teacher([0, 1, 2], table)
    weights = weights_of_soft_targets([teacher], WeightedStudent(), 2)
    np.testing.assert_allclose(weights, [[1, 0, 0], [0, 0, 1]])


def test_a_row_is_shown_however_little_each_of_its_classes_matters():
    table = np.full((3, 1250), 1 / 1250)
    teacher = Teacher(np.arange(1250), table)
    weights = weights_of_soft_targets([teacher], WeightedStump(max_depth=1), 3)
    np.testing.assert_allclose(weights, table)


def test_a_student_without_weights_sees_ten_copies_of_each_row_in_proportion():
    table = [[0.58, 0.37, 0.05], [0.26, 0.26, 0.48], [0.0, 0.0, 1.0]]
    teacher = Teacher([0, 1, 2], table)
    copies = weights_of_soft_targets([teacher], UnweightedStudent(3), 3)
    # Rounded down, then up where most is missing.
    np.testing.assert_array_equal(copies[[0, 2]], [[6, 4, 0], [0, 0, 10]])
    assert sorted(copies[1]) == [2, 3, 5]


def test_copies_of_a_row_are_mixed_with_others():
    teacher = Teacher([0, 1], np.full((20, 2), 0.5))
    student = distill([teacher], UnweightedStudent(3), 20).student_
    assert np.mean(np.diff(student.rows_) == 0) < 0.2
    # Each copy has its own label still.
    copies = weights_seen_by(student, 20, [0, 1])
    np.testing.assert_array_equal(copies, np.full((20, 2), 5))


@pytest.mark.parametrize(("first", "second"), [(1.0, 3.0), (5.0, 1.0)])
def test_weights_of_nodes_are_those_of_the_ensemble(first, second):
    teachers = [
        Teacher([0, 1], [[0.8, 0.2], [0.4, 0.6]]),
        Teacher([1, 2], [[0.5, 0.5], [0.1, 0.9]]),
    ]
    weights = weights_of_soft_targets(
        teachers, WeightedStudent(), 2, node_weight=[first, second]
    )
    sums = np.array(
        [
            [0.8 * first, 0.2 * first + 0.5 * second, 0.5 * second],
            [0.4 * first, 0.6 * first + 0.1 * second, 0.9 * second],
        ]
    )
    np.testing.assert_allclose(weights, sums / (first + second))


def test_a_hard_vote_counts_votes():
    teachers = [
        Teacher([0, 1], [[0.6, 0.4], [0.1, 0.9]]),
        Teacher([0, 1], [[0.6, 0.4], [0.6, 0.4]]),
        Teacher([0, 1], [[0.0, 1.0], [0.6, 0.4]]),
    ]
    weights = weights_of_soft_targets(teachers, WeightedStudent(), 2, voting="hard")
    np.testing.assert_allclose(weights, [[2 / 3, 1 / 3]] * 2, atol=2e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_ties_fall_as_in_the_ensemble_of_the_same_seed(seed):
    teachers = [Teacher([0, 1], np.eye(2)[np.full(200, k)]) for k in (0, 1)]
    ensemble = EnsembleAggregator(teachers, voting="hard", random_state=seed).fit()
    weights = weights_of_soft_targets(
        teachers, WeightedStudent(), 200, voting="hard", random_state=seed
    )
    # Half a vote each, but for what breaks the tie.
    expected = ensemble.predict(numbered_rows(200))
    np.testing.assert_array_equal(weights.argmax(axis=1), expected)


def test_agreement_is_the_share_of_rows_with_the_ensembles_label():
    table = [[0.9, 0.1]] * 5 + [[0.2, 0.8]] * 3
    # A stump of one leaf predicts class 0 for all rows.
    student = DecisionTreeClassifier(min_samples_leaf=8)
    X = np.zeros((8, 1))

    class TeacherOfEqualRows(Teacher):
        """Gives the i-th row the i-th probabilities, whatever the row holds."""

        def predict_proba(self, X):
            return self.table[: len(X)]

    teacher = TeacherOfEqualRows([0, 1], table)
    aggregate = DistillationAggregator([teacher], student=student)
    assert aggregate.fit(X).agreement_ == 5 / 8


# ---- the student --------------------------------------------------------------


def teacher_and_rows():
    """A teacher that is sure of nothing, and its rows."""
    table = np.random.RandomState(0).dirichlet([1, 1], size=40)
    return Teacher([0, 1], table), numbered_rows(40)


@pytest.mark.parametrize("nested", [False, True])
def test_the_students_seed_comes_from_the_random_state(nested):
    teacher, X = teacher_and_rows()
    student = ExtraTreeClassifier(max_depth=3)
    if nested:
        student = make_pipeline(StandardScaler(), student)

    def predict_with(seed):
        aggregate = DistillationAggregator([teacher], student=student)
        aggregate.set_params(random_state=seed)
        return aggregate.fit(X).predict_proba(X)

    np.testing.assert_array_equal(predict_with(3), predict_with(3))
    assert not np.array_equal(predict_with(3), predict_with(4))


def test_a_student_with_a_seed_keeps_it():
    teacher, X = teacher_and_rows()
    student = ExtraTreeClassifier(max_depth=3, random_state=7)
    first, second = (
        DistillationAggregator([teacher], student=student, random_state=seed).fit(X)
        for seed in (0, 1)
    )
    assert first.student_.random_state == 7
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))


def test_warnings_of_a_student_reach_the_user():
    teacher, X = teacher_and_rows()
    student = MLPClassifier((2,), max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning):
        DistillationAggregator([teacher], student=student).fit(X)


def test_a_module_has_an_output_for_classes_the_student_was_not_shown():
    torch = pytest.importorskip("torch")
    table = [[0.9, 0.0, 0.1], [0.1, 0.0, 0.9]]
    aggregate = DistillationAggregator(
        [Teacher([0, 1, 2], table)], student=LogisticRegression()
    ).fit(numbered_rows(2))
    logits = aggregate.to_module()(torch.tensor(numbered_rows(2))).detach().numpy()
    assert logits.shape == (2, 3)
    # The student was shown the classes 0 and 2.
    proba = softmax(logits[:, [0, 2]], axis=1)
    np.testing.assert_allclose(
        proba, aggregate.predict_proba(numbered_rows(2))[:, [0, 2]], rtol=1e-6
    )

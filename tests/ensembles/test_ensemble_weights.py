# SPDX-License-Identifier: BSD-3-Clause
"""EnsembleAggregator: what each kind of classifier says, and how much it counts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.svm import LinearSVC

from skgems import EnsembleAggregator


class Votes:
    """A classifier that can only predict, and always predicts the same."""

    _estimator_type = "classifier"
    n_features_in_ = 1

    def __init__(self, classes, vote):
        self.classes_ = np.array(classes)
        self.vote = vote

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.repeat(self.vote, len(X))


class Says(Votes):
    """A classifier that always gives the same probabilities."""

    def __init__(self, classes, proba):
        super().__init__(classes, classes[np.argmax(proba)])
        self.proba = np.array(proba)

    def predict_proba(self, X):
        return np.tile(self.proba, (len(X), 1))


X_ONE = np.zeros((1, 1))


def fit(members, **parameters):
    """An ensemble that is fitted without rows."""
    return EnsembleAggregator(members, random_state=0, **parameters).fit()


# ---- classifiers without probabilities ----------------------------------------


def test_scores_of_two_classes_count_by_their_sigmoid():
    X = np.array([[-2.0], [-1.0], [1.0], [2.5]])
    model = RidgeClassifier().fit(X, ["no", "no", "yes", "yes"])
    proba = fit([model, Says(["no", "yes"], [0.9, 0.1])]).predict_proba(X)
    expected = (expit(model.decision_function(X)) + 0.1) / 2
    np.testing.assert_allclose(proba[:, 1], expected)


def test_scores_of_more_classes_count_by_their_softmax():
    X = np.array([[-2.0], [0.0], [2.5]])
    model = LinearSVC(random_state=0).fit(X, ["a", "b", "d"])
    # The other node knows a class that this one does not.
    proba = fit([model, Says(["a", "c"], [0.4, 0.6])]).predict_proba(X)
    softmax_of_scores = softmax(model.decision_function(X), axis=1)
    expected = np.insert(softmax_of_scores, 2, 0.0, axis=1) + [0.4, 0.0, 0.6, 0.0]
    np.testing.assert_allclose(proba, expected / 2)


def test_a_classifier_that_only_predicts_is_sure():
    proba = fit([Votes([0, 1, 2], 2), Says([0, 1], [0.4, 0.6])]).predict_proba(X_ONE)
    np.testing.assert_allclose(proba, [[0.2, 0.3, 0.5]])


def test_a_class_of_no_weight_in_a_constant_model_is_not_seen():
    constant = DummyClassifier().fit(
        np.zeros((3, 1)), ["a", "b", "z"], sample_weight=[1.0, 3.0, 0.0]
    )
    aggregate = fit([constant, Says(["a", "b"], [0.5, 0.5])])
    assert aggregate.classes_.tolist() == ["a", "b"]
    np.testing.assert_allclose(aggregate.weights_, 1.0)


# ---- weights ------------------------------------------------------------------


def test_logits_are_those_of_the_probabilities_centred_over_classes():
    members = [Says([0, 1, 2], [0.7, 0.2, 0.1]), Says([0, 1, 2], [0.1, 0.6, 0.3])]
    logs = np.log([0.4, 0.4, 0.2])
    np.testing.assert_allclose(
        fit(members).decision_function(X_ONE)[0], logs - logs.mean()
    )


def weighted_by_class_counts(members, counts, **parameters):
    """An ensemble of nodes with so many rows of each class, (n_nodes, n_classes)."""
    y = np.concatenate(
        [np.repeat(np.arange(len(node_counts)), node_counts) for node_counts in counts]
    )
    nodes = np.repeat(np.arange(len(counts)), np.sum(counts, axis=1))
    aggregate = EnsembleAggregator(members, node_weight="class_counts", **parameters)
    return aggregate.fit(np.zeros((len(y), 1)), y, nodes=nodes)


def test_a_vote_counts_by_the_rows_of_the_class_that_it_is_for():
    members = [Says([0, 1], [0.2, 0.8]), Says([0, 1], [0.9, 0.1])]
    aggregate = weighted_by_class_counts(
        members, [[7, 2], [3, 1]], voting="hard", random_state=0
    )
    # Two of three rows of class 1 speak for node 0's vote, three of ten for node 1's.
    votes = np.array([3 / 10, 2 / 3])
    np.testing.assert_allclose(
        aggregate.predict_proba(X_ONE)[0], votes / votes.sum(), atol=2e-6
    )


def test_where_nothing_counts_all_classes_are_as_probable():
    members = [Says([0, 1], [1.0, 0.0]), Says([0, 1], [0.0, 1.0])]
    aggregate = weighted_by_class_counts(members, [[0, 5], [3, 0]])
    np.testing.assert_allclose(aggregate.predict_proba(X_ONE), [[0.5, 0.5]])


def test_a_node_has_no_weight_for_classes_it_does_not_know_whatever_its_rows():
    members = [Says([0, 1], [0.5, 0.5]), Says([1, 2], [0.5, 0.5])]
    aggregate = weighted_by_class_counts(members, [[2, 3, 4], [5, 1, 6]])
    np.testing.assert_allclose(aggregate.weights_, [[1, 0.75, 0], [0, 0.25, 1]])


def test_a_class_without_rows_counts_once_at_all_who_know_it():
    members = [Says([0, 1], [0.5, 0.5]), Says([1, 2], [0.5, 0.5])]
    # Nobody who knows class 2 has rows of it.
    aggregate = weighted_by_class_counts(members, [[2, 3, 4], [5, 1, 0]])
    np.testing.assert_allclose(aggregate.weights_, [[1, 0.75, 0], [0, 0.25, 1]])


# ---- ties ---------------------------------------------------------------------


def test_sums_of_unequal_weights_that_are_equal_tie():
    assert 0.1 + 0.2 != 0.3  # but for rounding
    members = [Votes([0, 1], 0), Votes([0, 1], 0), Votes([0, 1], 1)]
    aggregate = fit(members, voting="hard", node_weight=[0.1, 0.2, 0.3])
    labels = aggregate.predict(np.random.RandomState(0).normal(size=(200, 1)))
    assert 60 < np.sum(labels) < 140


def test_a_vote_more_wins_however_small_its_weight():
    members = [Votes([0, 1], 0), Votes([0, 1], 1), Votes([0, 1], 1)]
    aggregate = fit(members, voting="hard", node_weight=[1.0, 1.0, 1e-4])
    X = np.random.RandomState(0).normal(size=(200, 1))
    assert set(aggregate.predict(X)) == {1}


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_rows_without_a_node_do_not_count(voting):
    members = [Says([0, 1], [1.0, 0.0]), Says([0, 1], [0.0, 1.0])]
    y = np.array([0, 1, 1, 0, 0, 0])
    nodes = np.array([0, 1, 1, -1, -1, -1])
    aggregate = EnsembleAggregator(members, node_weight="n_samples", voting=voting)
    aggregate.fit(np.zeros((6, 1)), y, nodes=nodes)
    np.testing.assert_allclose(
        aggregate.predict_proba(X_ONE), [[1 / 3, 2 / 3]], atol=2e-6
    )

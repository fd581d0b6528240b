# SPDX-License-Identifier: BSD-3-Clause
"""Votes of classifiers of any kind, whichever classes they know."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.labels import assert_same_labels
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skgems import DistillationAggregator, EnsembleAggregator


class Says:
    """A classifier that always says the same."""

    _estimator_type = "classifier"

    def __init__(self, classes, proba):
        self.classes_, self.proba = np.array(classes), np.array(proba)
        self.n_features_in_ = 1

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return np.tile(self.proba, (len(X), 1))

    def predict(self, X):
        return np.repeat(self.classes_[np.argmax(self.proba)], len(X))


X_ONE = np.zeros((1, 1))


def test_probabilities_of_different_classes_are_aligned():
    members = [Says(["a", "c"], [0.8, 0.2]), Says(["b", "c"], [0.4, 0.6])]
    aggregate = EnsembleAggregator(members).fit()
    np.testing.assert_array_equal(aggregate.classes_, ["a", "b", "c"])
    np.testing.assert_allclose(aggregate.predict_proba(X_ONE), [[0.4, 0.2, 0.4]])


def test_votes_count_by_the_weights_of_nodes():
    members = [Says([0, 1], [1.0, 0.0]), Says([0, 1], [0.0, 1.0])]
    aggregate = EnsembleAggregator(members, node_weight=[1.0, 3.0]).fit()
    np.testing.assert_allclose(aggregate.predict_proba(X_ONE), [[0.25, 0.75]])


def test_votes_count_by_the_rows_of_each_class_at_a_node():
    members = [Says([0, 1], [0.6, 0.4]), Says([0, 1], [0.6, 0.4])]
    # Of class 0 node 0 has three rows and node 1 one, of class 1 one and three.
    y = np.array([0, 0, 0, 1, 0, 1, 1, 1])
    nodes = np.repeat([0, 1], 4)
    X = np.zeros((8, 1))
    members[1].proba = np.array([0.0, 1.0])
    aggregate = EnsembleAggregator(members, node_weight="class_counts")
    aggregate.fit(X, y, nodes=nodes)
    expected = np.array([3 * 0.6 + 1 * 0.0, 1 * 0.4 + 3 * 1.0])
    expected /= expected.sum()
    np.testing.assert_allclose(aggregate.predict_proba(X_ONE)[0], expected)
    with pytest.raises(ValueError, match="needs the number of rows"):
        EnsembleAggregator(members, node_weight="class_counts").fit()


def test_the_majority_wins_a_hard_vote_and_the_mean_a_soft_one():
    members = [Says([0, 1], p) for p in ([0.6, 0.4], [0.6, 0.4], [0.0, 1.0])]
    soft = EnsembleAggregator(members).fit()
    hard = EnsembleAggregator(members, voting="hard").fit()
    assert soft.predict(X_ONE) == [1] and hard.predict(X_ONE) == [0]
    np.testing.assert_allclose(hard.predict_proba(X_ONE), [[2 / 3, 1 / 3]], atol=1e-5)


def test_ties_are_random_and_repeatable():
    members = [Says([0, 1], [1.0, 0.0]), Says([1, 2], [0.0, 1.0])]
    X = np.random.RandomState(0).normal(size=(2000, 3))
    for member in members:
        member.n_features_in_ = 3

    def votes(seed):
        return EnsembleAggregator(members, voting="hard", random_state=seed).fit()

    predicted = votes(0).predict(X)
    share = np.mean(predicted == 0)
    assert set(predicted) == {0, 2} and 0.45 < share < 0.55
    # The same for a row wherever it is, and dense or sparse.
    order = np.random.RandomState(1).permutation(len(X))
    np.testing.assert_array_equal(votes(0).predict(X[order]), predicted[order])
    np.testing.assert_array_equal(votes(0).predict(X[:7]), predicted[:7])
    again = votes(1).predict(X)
    assert 0.4 < np.mean(again == predicted) < 0.6


def test_ties_of_sparse_rows_fall_as_those_of_dense_ones():
    X, y = load_iris(return_X_y=True)
    X = np.where(X < 1, 0.0, X)
    members = [
        LogisticRegression(max_iter=2000).fit(X[rows], y[rows])
        for rows in (y < 2, y > 0, y != 1)
    ]
    aggregate = EnsembleAggregator(members, voting="hard", random_state=0).fit()
    np.testing.assert_array_equal(
        aggregate.predict(X), aggregate.predict(sparse.csr_matrix(X))
    )
    # Zero has two signs.
    np.testing.assert_array_equal(aggregate.predict(X), aggregate.predict(-1 * (-X)))


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_any_classifiers_whatever_they_know(voting):
    X, y = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[y]
    rest = ~np.isin(y, ["setosa"])
    members = [
        ("tree", DecisionTreeClassifier(random_state=0).fit(X, y)),
        ("frozen", FrozenEstimator(GaussianNB().fit(X[rest], y[rest]))),
        ("svm", LinearSVC(random_state=0).fit(X[rest], y[rest])),
        ("logistic", LogisticRegression(max_iter=1000).fit(X, y)),
        ("constant", DummyClassifier().fit(X[:3], y[:3])),
    ]
    aggregate = EnsembleAggregator(members, voting=voting, random_state=0).fit()
    np.testing.assert_array_equal(aggregate.classes_, np.unique(y))
    assert aggregate.score(X, y) > 0.8
    np.testing.assert_allclose(aggregate.predict_proba(X).sum(axis=1), 1)


def test_steps_that_take_columns_by_name():
    pandas = pytest.importorskip("pandas")

    X, y = load_iris(return_X_y=True, as_frame=True)
    assert isinstance(X, pandas.DataFrame)
    scale = make_column_transformer((StandardScaler(), [X.columns[3], X.columns[2]]))
    models = [make_pipeline(scale, LogisticRegression()).fit(X, y) for _ in range(2)]
    aggregate = EnsembleAggregator(models).fit()
    np.testing.assert_allclose(
        aggregate.predict_proba(X), models[0].predict_proba(X), atol=1e-12
    )
    with pytest.raises(ValueError, match="feature names"):
        aggregate.predict(X.rename(columns={X.columns[0]: "other"}))


def test_trees_in_simulation_and_nodes_of_one_class():
    X, y = load_iris(return_X_y=True)
    nodes = np.where(y == 0, 0, np.where(np.arange(len(y)) % 2, 1, 2))
    local = DecisionTreeClassifier(max_depth=3)
    aggregate = EnsembleAggregator(local, node_weight="class_counts", random_state=0)
    aggregate.fit(X, y, nodes=nodes)
    assert len(aggregate.estimators_) == 3
    np.testing.assert_array_equal(aggregate.classes_, [0, 1, 2])


# ---- scores of pairs ----------------------------------------------------------


def classifiers_by_pairs_and_by_classes(n_classes):
    """Support vectors that say scores of pairs, and the same with those of classes."""
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    X = X / 16
    parts = [(X[k:300:3], y[k:300:3]) for k in range(3)]
    shapes = [
        [SVC(gamma=0.05, decision_function_shape=shape).fit(*part) for part in parts]
        for shape in ("ovo", "ovr")
    ]
    return *shapes, X[300:], y[300:]


@pytest.mark.parametrize("n_classes", [3, 4, 10])
@pytest.mark.parametrize("wrap", [lambda m: m, FrozenEstimator, make_pipeline])
def test_scores_of_pairs_count_as_scores_of_classes(n_classes, wrap):
    by_pairs, by_classes, X, y = classifiers_by_pairs_and_by_classes(n_classes)
    X, y = X[:100], y[:100]
    members = [wrap(member) for member in by_pairs]
    ensemble = EnsembleAggregator(members).fit()
    np.testing.assert_allclose(
        ensemble.predict_proba(X),
        EnsembleAggregator(by_classes).fit().predict_proba(X),
    )
    assert ensemble.score(X, y) > 0.8
    assert all(m.decision_function_shape == "ovo" for m in by_pairs)
    student = LogisticRegression(max_iter=500)
    distilled = DistillationAggregator(members, student=student).fit(X)
    assert distilled.score(X, y) > 0.8


def test_scores_of_pairs_are_found_in_what_wraps_a_classifier():
    by_pairs, _, X, _ = classifiers_by_pairs_and_by_classes(3)
    rows = X[:60]
    labels = by_pairs[0].predict(rows)
    chosen = [
        RFE(SVC(kernel="linear", **shape), n_features_to_select=30).fit(rows, labels)
        for shape in ({"decision_function_shape": "ovo"}, {})
    ]
    np.testing.assert_allclose(
        *(EnsembleAggregator([m]).fit().predict_proba(X[:50]) for m in chosen)
    )


class Scores(Says):
    """Scores in place of probabilities."""

    predict_proba = property()  # as if it had none

    def __init__(self, classes, proba, scores):
        super().__init__(classes, proba)
        self.scores = scores

    def decision_function(self, X):
        return np.tile(self.scores, (len(X), 1))


def test_what_is_predicted_counts_where_scores_are_not_one_per_class():
    member = Scores(["a", "b", "c"], [0.0, 0.0, 1.0], [0.0, 9.0, 0.0, 0.0, 0.0])
    aggregate = EnsembleAggregator([member]).fit()
    np.testing.assert_allclose(aggregate.predict_proba(X_ONE), [[0, 0, 1]], atol=1e-9)


# ---- votes are predictions ----------------------------------------------------


@pytest.mark.parametrize("labels", [[0, 1], ["no", "yes"]])
def test_a_vote_is_what_the_member_predicts(labels):
    X, y = make_classification(400, random_state=0)
    cautious = FixedThresholdClassifier(
        LogisticRegression(), threshold=0.95, response_method="predict_proba"
    ).fit(X, np.array(labels)[y])
    members = [cautious] * 3
    ensemble = EnsembleAggregator(members, voting="hard").fit()
    assert_same_labels(ensemble, cautious, X)
    student = KNeighborsClassifier(1)
    distilled = DistillationAggregator(members, student=student, voting="hard").fit(X)
    assert_same_labels(distilled, cautious, X)


class Other(Says):
    """Predicts what it never said that it knows."""

    def predict(self, X):
        return np.where(np.arange(len(X)) % 2, self.classes_[0], "z")


def test_who_predicts_what_no_node_knows_votes_for_its_most_probable_class():
    aggregate = EnsembleAggregator([Other(["a", "b"], [0.4, 0.6])], voting="hard").fit()
    assert aggregate.predict(np.zeros((4, 1))).tolist() == ["b", "a", "b", "a"]


def test_votes_by_names_of_columns():
    pandas = pytest.importorskip("pandas")

    X, y = load_iris(return_X_y=True, as_frame=True)
    assert isinstance(X, pandas.DataFrame)
    scale = make_column_transformer((StandardScaler(), [X.columns[3], X.columns[2]]))
    model = make_pipeline(scale, LogisticRegression()).fit(X, y)
    aggregate = EnsembleAggregator([model], voting="hard").fit()
    assert_same_labels(aggregate, model, X)


def test_votes_of_nets_are_labels_of_their_columns():
    nets = pytest.importorskip("helpers.nets")
    X, y, nodes, X_test, _ = nets.digits()
    labels = ["ant", "bee", "cat"]
    members = nets.fit_nets(nets.make_net(classes=labels), X, y, nodes)[:1]
    aggregate = EnsembleAggregator(members, voting="hard").fit()
    assert set(aggregate.predict(X_test)) <= set(labels)
    columns = members[0].predict(X_test.astype(np.float32))
    np.testing.assert_array_equal(aggregate.predict(X_test), np.array(labels)[columns])


# ---- weights by counts --------------------------------------------------------


@pytest.mark.parametrize("kind", [EnsembleAggregator, DistillationAggregator])
def test_weights_by_counts_are_shares_of_each_class(kind):
    members = [Says([0, 1], [0.6, 0.4]), Says([0, 1], [0.3, 0.7]), Says([1, 2], [1, 0])]
    # Node 2 knows class 2 by hearsay: of that no node has a row.
    y, nodes = np.array([0] * 30 + [1] * 4), np.array([0] * 20 + [1] * 13 + [2])
    aggregate = kind(members, node_weight="class_counts").fit(
        np.zeros((34, 1)), y, nodes=nodes
    )
    np.testing.assert_allclose(
        aggregate.weights_, [[2 / 3, 0, 0], [1 / 3, 0.75, 0], [0, 0.25, 1]]
    )


def test_the_commoner_class_does_not_win_by_being_common():
    sure = [Says([0, 1], [1.0, 0.0]), Says([0, 1], [0.0, 1.0])]
    y, nodes = np.array([0] * 90 + [1] * 10), np.array([0, 1] * 50)
    X = np.random.RandomState(0).normal(size=(100, 1))
    hard = EnsembleAggregator(sure, voting="hard", node_weight="class_counts")
    hard.fit(X, y, nodes=nodes)
    share = np.mean(hard.predict(X) == 0)
    assert 0.3 < share < 0.7  # a tie, which falls either way
    soft = clone(hard).set_params(voting="soft").fit(X, y, nodes=nodes)
    np.testing.assert_allclose(soft.predict_proba(X), 0.5)


# ---- errors name the node -----------------------------------------------------


class Fails(Says):
    """Raises where it is asked."""

    def __init__(self, error):
        super().__init__([0, 1], [0.5, 0.5])
        self.error = error

    def predict(self, X):
        raise self.error

    predict_proba = predict


@pytest.mark.parametrize("voting", ["soft", "hard"])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("too small"), ValueError),
        (TypeError("too small"), TypeError),
        (NotFittedError("too small"), NotFittedError),
        (KeyError("too small"), RuntimeError),
    ],
)
def test_what_a_member_raises_names_its_node(error, kind, voting):
    members = [("north", Says([0, 1], [0.5, 0.5])), ("south", Fails(error))]
    aggregate = EnsembleAggregator(members, voting=voting).fit()
    expected = r"Node 'south': Fails cannot predict the rows .*too small"
    with pytest.raises(kind, match=expected) as raised:
        aggregate.predict(X_ONE)
    assert raised.value.__cause__ is error
    with pytest.raises(kind, match=expected):
        DistillationAggregator(members, voting=voting).fit(X_ONE)


# ---- numbers that are not finite ----------------------------------------------


def spoilt(kind):
    """A classifier with a NaN, and what the error says of it."""
    X, y = load_iris(return_X_y=True)
    if kind == "says":
        return Says([0, 1, 2], [0.5, np.nan, 0.5]), "probabilities are not finite"
    if kind == "scores":
        return Scores([0, 1], [0.5, 0.5], [np.inf]), "scores are not finite"
    if kind == "bayes":
        model = GaussianNB().fit(X, y)
        model.theta_[1, 2] = np.nan
        return model, "theta_ has 1 values"
    if kind == "network":
        model = MLPClassifier((3,), max_iter=2).fit(X, y)
        model.intercepts_[1][0] = np.inf
        return make_pipeline(StandardScaler().fit(X), model), r"intercepts_\[1\] has 1"
    if kind == "scaled":
        model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
        model[0].mean_[0] = np.nan
        return FrozenEstimator(model), "LogisticRegression cannot predict .* NaN"
    model = LogisticRegression(max_iter=1000).fit(X, y)
    model.coef_[0, :2] = np.nan
    return model, "coef_ has 2 values that are not finite"


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("voting", ["soft", "hard"])
@pytest.mark.parametrize("kind", ["linear", "bayes", "network", "scaled", "says"])
def test_what_is_not_finite_is_an_error_that_names_its_node(kind, voting):
    if kind == "says" and voting == "hard":
        pytest.skip("it predicts, and no one asks for its probabilities")
    X, y = load_iris(return_X_y=True)
    bad, message = spoilt(kind)
    if kind == "says":
        bad.n_features_in_ = 4
    good = LogisticRegression(max_iter=1000).fit(X, y)
    members = [("north", good), ("south", bad)]
    with pytest.raises(ValueError, match=f"Node 'south': .*{message}"):
        EnsembleAggregator(members, voting=voting).fit().predict(X)
    with pytest.raises(ValueError, match=f"Node 'south': .*{message}"):
        DistillationAggregator(members, voting=voting).fit(X)


def test_scores_that_are_not_finite_are_an_error():
    bad, message = spoilt("scores")
    aggregate = EnsembleAggregator([("south", bad)]).fit()
    with pytest.raises(ValueError, match=f"Node 'south': .*{message}"):
        aggregate.predict(X_ONE)

# SPDX-License-Identifier: BSD-3-Clause
"""ModelAveragingAggregator: whose parameters count how much, at once and in rounds."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier

from skgems import ModelAveragingAggregator
from skgems.networks import Layers, to_logistic_regression, to_mlp_classifier


def linear(coef, intercept, classes, **parameters):
    model = to_logistic_regression(
        np.array(coef, dtype=float), np.array(intercept, dtype=float), classes
    )
    return model.set_params(**parameters)


def start_of(n_classes, n_features=2, **parameters):
    """A model where nodes may start: LogisticRegression trains without chance."""
    n_rows = 1 if n_classes == 2 else n_classes
    coef = np.arange(n_rows * n_features).reshape(n_rows, -1) / 10
    return linear(coef, np.zeros(n_rows), np.arange(n_classes), **parameters)


def rows_of(counts, seed):
    """As many rows of each class as counts say."""
    y = np.repeat(np.arange(len(counts)), counts)
    X = np.random.RandomState(seed).normal(size=(len(y), 2)) + y[:, None]
    return X, y


def stacked(parts):
    """The rows, labels and nodes of several parts of rows."""
    X = np.vstack([X for X, _ in parts])
    y = np.concatenate([y for _, y in parts])
    nodes = np.repeat(np.arange(len(parts)), [len(y) for _, y in parts])
    return X, y, nodes


def train_at_one_node(model, X, y, *, local_epochs=1):
    """The weights and intercepts that one node makes of a model in a round."""
    aggregate = ModelAveragingAggregator(
        [model], n_rounds=1, local_epochs=local_epochs, random_state=0
    )
    aggregate.fit(X, y)
    return aggregate.coef_, aggregate.intercept_


def train_together(models, parts, *, local_epochs=1, **params):
    """The weights and intercepts that several nodes make of their models in a round."""
    X, y, nodes = stacked(parts)
    aggregate = ModelAveragingAggregator(
        models, n_rounds=1, local_epochs=local_epochs, random_state=0
    )
    aggregate.set_params(**params).fit(X, y, nodes=nodes)
    return aggregate.coef_, aggregate.intercept_


# ---- rounds -------------------------------------------------------------------


def test_one_output_for_two_classes_counts_by_the_rarer_of_them():
    start = start_of(2)
    # The rarer class has one row at the first node, and three at the second.
    parts = [rows_of([9, 1], 0), rows_of([3, 4], 1)]
    coef_1, intercept_1 = train_at_one_node(start, *parts[0])
    coef_2, intercept_2 = train_at_one_node(start, *parts[1])
    coef, intercept = train_together([start] * 2, parts, node_weight="class_counts")
    np.testing.assert_allclose(coef, (1 * coef_1 + 3 * coef_2) / 4, rtol=1e-6)
    expected = (1 * intercept_1 + 3 * intercept_2) / 4
    np.testing.assert_allclose(intercept, expected, rtol=1e-6)


def test_in_rounds_a_class_counts_by_its_rows_where_asked():
    start = start_of(3)
    counts = np.array([[5, 1, 2], [1, 6, 2]])
    parts = [rows_of(counts[0], 0), rows_of(counts[1], 1)]
    coef_1, intercept_1 = train_at_one_node(start, *parts[0])
    coef_2, intercept_2 = train_at_one_node(start, *parts[1])
    coef, intercept = train_together([start] * 2, parts, node_weight="class_counts")
    share_1, share_2 = counts / counts.sum(axis=0)
    np.testing.assert_allclose(
        coef, share_1[:, None] * coef_1 + share_2[:, None] * coef_2
    )
    np.testing.assert_allclose(intercept, share_1 * intercept_1 + share_2 * intercept_2)


def test_in_rounds_a_class_counts_at_all_nodes_with_other_weights():
    # Node 1 knows two of the classes only, but trains the third from round 1 on.
    models = [start_of(3), linear([[0.3, 0.1]], [0.0], np.array([1, 2]))]
    parts = [rows_of([4, 4, 4], 0), rows_of([0, 3, 3], 1)]
    merged = ModelAveragingAggregator(models, node_weight=[1.0, 3.0]).fit()
    start = linear(merged.coef_, merged.intercept_, np.arange(3))
    coef_1, _ = train_at_one_node(start, *parts[0])
    coef_2, _ = train_at_one_node(start, *parts[1])
    coef, _ = train_together(models, parts, node_weight=[1.0, 3.0])
    np.testing.assert_allclose(coef, (coef_1 + 3 * coef_2) / 4, rtol=1e-6, atol=1e-9)


def test_in_rounds_every_node_trains_with_the_parameters_of_its_own_model():
    weak, strong = start_of(3, C=0.01), start_of(3, C=100.0)
    parts = [rows_of([4, 4, 4], 0), rows_of([3, 5, 4], 1)]
    coef_1, _ = train_at_one_node(weak, *parts[0], local_epochs=5)
    coef_2, _ = train_at_one_node(strong, *parts[1], local_epochs=5)
    coef, _ = train_together([weak, strong], parts, local_epochs=5)
    np.testing.assert_allclose(coef, (coef_1 + coef_2) / 2, rtol=1e-6)
    # With the other penalty the first node would have other weights.
    of_other_penalty, _ = train_at_one_node(strong, *parts[0], local_epochs=5)
    assert not np.allclose(of_other_penalty, coef_1, rtol=0.1)


def test_rows_of_one_class_at_every_node_count_as_rows():
    # No node has rows of both classes, so the rarer one counts nothing anywhere.
    start = SGDClassifier(
        loss="log_loss", alpha=0.0, learning_rate="constant", eta0=0.01
    ).partial_fit(np.eye(2), [0, 1], classes=[0, 1])
    start.coef_[:] = 0.5
    start.intercept_[:] = 0.0
    # Equal rows: their order, which the seed draws, does not matter.
    parts = [
        (np.full((2, 2), [1.0, 0.5]), np.zeros(2, dtype=int)),
        (np.full((6, 2), [0.2, 2.0]), np.ones(6, dtype=int)),
    ]

    def descend(X, y, rate=0.01):
        """Stochastic gradient descent of the logistic loss, by hand."""
        w = np.full(2, 0.5)
        b = 0.0
        for x, label in zip(X, y, strict=True):
            slope = 1 / (1 + np.exp(-(x @ w + b))) - label
            w = w - rate * slope * x
            b = b - rate * slope
        return w

    coef, _ = train_together(
        [start] * 2, parts, node_weight="class_counts", schedule="constant"
    )
    expected = (2 * descend(*parts[0]) + 6 * descend(*parts[1])) / 8
    np.testing.assert_allclose(coef[0], expected)


def test_the_loss_of_a_round_is_the_mean_over_the_rows_trained_on():
    start = start_of(3)
    parts = [rows_of([4, 4, 4], 0), rows_of([2, 2, 2], 1)]
    X, y, nodes = stacked(parts)
    aggregate = ModelAveragingAggregator(
        [("a", start), ("b", start)], n_rounds=1, local_epochs=2
    ).fit(X, y, nodes=np.array(["a", "b"])[nodes])
    for name, (X_node, y_node) in zip("ab", parts, strict=True):
        coef, intercept = train_at_one_node(start, X_node, y_node, local_epochs=2)
        trained = linear(coef, intercept, np.arange(3))
        proba = trained.predict_proba(X_node)[np.arange(len(y_node)), y_node]
        loss = aggregate.history_[0]["loss"][name]
        assert loss == pytest.approx(-np.log(proba).mean())


def test_rounds_start_at_the_average_of_aligned_units():
    rng = np.random.RandomState(0)
    coefs = [rng.normal(size=(2, 5)), rng.normal(size=(5, 3))]
    biases = [rng.normal(size=5), rng.normal(size=3)]
    layers = Layers(coefs, biases, "tanh")
    order = np.roll(np.arange(5), 2)
    shuffled = Layers(
        [coefs[0][:, order], coefs[1][order]], [biases[0][order], biases[1]], "tanh"
    )
    models = [to_mlp_classifier(net, np.arange(3)) for net in (layers, shuffled)]
    X, y = rows_of([4, 4, 4], 0)
    # At a rate of next to nothing the start is what comes back.
    aggregate = ModelAveragingAggregator(
        models, n_rounds=1, align="permutation", learning_rate=1e-12
    ).fit(X, y, nodes=np.arange(12) % 2)
    np.testing.assert_allclose(aggregate.coefs_[0], coefs[0], atol=1e-6)
    np.testing.assert_allclose(aggregate.coefs_[1], coefs[1], atol=1e-6)


# ---- at once ------------------------------------------------------------------


def test_weights_stay_with_their_nodes_where_one_is_constant():
    classes = np.arange(3)
    constant = DummyClassifier(strategy="most_frequent").fit(np.eye(2), [1, 1])
    first = start_of(3)
    second = linear(np.eye(3)[:, :2], np.ones(3), classes)
    aggregate = ModelAveragingAggregator(
        [constant, first, second], node_weight=[50.0, 1.0, 3.0]
    ).fit()
    np.testing.assert_allclose(aggregate.coef_, (first.coef_ + 3 * second.coef_) / 4)


def average_by_class_counts(counts, classes=((0, 1, 2), (0, 1, 2))):
    """The coefficient of each class, 1 at the first node and 2 at the second, averaged.

    ``counts`` has the rows of the classes 0, 1 and 2 at both nodes, ``classes`` those
    that the nodes' models know.
    """
    models = []
    for coefficient, labels in zip((1.0, 2.0), classes, strict=True):
        coef = np.full((len(labels), 1), coefficient)
        models.append(linear(coef, np.zeros(len(labels)), np.array(labels)))
    y = np.concatenate([np.repeat(np.arange(3), n_rows) for n_rows in counts])
    nodes = np.repeat([0, 1], np.sum(counts, axis=1))
    aggregate = ModelAveragingAggregator(models, node_weight="class_counts")
    return aggregate.fit(np.zeros((len(y), 1)), y, nodes=nodes).coef_[:, 0]


def test_a_class_without_rows_is_averaged_with_equal_weights():
    coef = average_by_class_counts([[3, 1, 0], [1, 1, 0]])
    np.testing.assert_allclose(coef, [(3 + 2) / 4, 1.5, 1.5])


def test_rows_of_a_class_that_a_node_does_not_know_do_not_count():
    classes = ((0, 1, 2), (0, 3, 4))
    coef = average_by_class_counts([[1, 1, 1], [3, 9, 9]], classes)
    np.testing.assert_allclose(coef, [(1 + 6) / 4, 1.0, 1.0, 2.0, 2.0])


def test_a_class_with_rows_only_where_its_model_lacks_it_is_of_those_that_know_it():
    # Class 2 is known to node 0, but only node 1 has rows of it.
    classes = ((0, 1, 2), (0, 1, 3))
    coef = average_by_class_counts([[2, 2, 0], [2, 2, 5]], classes)
    np.testing.assert_allclose(coef, [1.5, 1.5, 1.0, 2.0])


def test_hidden_units_count_by_all_rows_of_a_node_where_classes_are_counted():
    models = [
        to_mlp_classifier(
            Layers(
                [np.full((1, 1), 1.0 + k), np.full((1, 3), 1.0 + k)],
                [np.zeros(1), np.zeros(3)],
                "relu",
            ),
            np.arange(3),
        )
        for k in range(2)
    ]
    y = np.array([0, 1, 2, 2, 0, 0, 0, 1])
    nodes = np.array([0] * 2 + [1] * 6)
    aggregate = ModelAveragingAggregator(models, node_weight="class_counts")
    aggregate.fit(np.zeros((8, 1)), y, nodes=nodes)
    assert aggregate.coefs_[0][0, 0] == pytest.approx((2 * 1 + 6 * 2) / 8)
    by_class = [(1 * 1 + 3 * 2) / 4, (1 * 1 + 1 * 2) / 2, 2.0]
    np.testing.assert_allclose(aggregate.coefs_[1][0], by_class)


def test_public_rows_count_for_no_node():
    models = [start_of(3), deepcopy(start_of(3))]
    models[1].coef_ = models[0].coef_ + 1.0
    y = np.array([0, 1, 2, 0, *[2] * 5])
    nodes = np.array([0, 1, 1, 1, *[-1] * 5])
    aggregate = ModelAveragingAggregator(models, node_weight="n_samples")
    aggregate.fit(np.zeros((9, 2)), y, nodes=nodes)
    np.testing.assert_allclose(aggregate.coef_, models[0].coef_ + 0.75)


def test_the_average_of_one_model_has_its_probabilities():
    model = start_of(3)
    aggregate = ModelAveragingAggregator([model]).fit()
    X = np.array([[1.0, -2.0], [3.0, 0.5]])
    np.testing.assert_allclose(aggregate.predict_proba(X), model.predict_proba(X))
    assert isinstance(aggregate.to_estimator(), LogisticRegression)

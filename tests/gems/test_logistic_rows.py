# SPDX-License-Identifier: BSD-3-Clause
"""GEMSLogisticAggregator: which rows, classes and options reach which computation."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers.parts import in_parts
from helpers.references import minimum_of_penalized_loss
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.networks import to_logistic_regression

# Defaults of the geometries: axes of an ellipsoid, weight of classes never seen.
FLOOR, DAMPING, UNSEEN_WEIGHT = 0.1, 1.0, 0.2


def gems(estimators, **parameters):
    defaults = {
        "intersection": "consensus",
        "n_directions": 20,
        "on_empty": "ignore",
        "random_state": 0,
    }
    return GEMSLogisticAggregator(estimators, **in_parts({**defaults, **parameters}))


def linear(coef, intercept, classes):
    return to_logistic_regression(
        np.array(coef, dtype=float), np.array(intercept, dtype=float), classes
    )


def squared_costs(space):
    """Squared distance of a step of 1 in each parameter alone."""
    n_params, n_classes = space.center.shape
    costs = np.empty((n_params, n_classes))
    for j in range(n_params):
        for c in range(n_classes):
            W = space.center.copy()
            W[j, c] += 1.0
            costs[j, c] = space.distance(W) ** 2
    return costs


# ---- the rows of a node -------------------------------------------------------


def node_with_rows_of_a_class_it_does_not_know():
    """Node 0 has three of four rows of its classes right, and six rows of "c"."""
    one = linear([[1.0]], [0.0], np.array(["a", "b"]))
    two = linear([[1.0]], [-3.0], np.array(["b", "c"]))
    X = np.array([-2.0, -1.0, 0.5, 2.0, *[3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 2.0, 4.0])
    y = np.array(["a", "a", "a", "b", *["c"] * 6, "b", "c"])
    nodes = np.array([0] * 10 + [1] * 2)
    return [one, two], X[:, None], y, nodes


@pytest.mark.parametrize("geometry", ["gram", "ellipsoid", "ball"])
def test_rows_of_classes_that_a_node_does_not_know_judge_no_model(geometry):
    models, X, y, nodes = node_with_rows_of_a_class_it_does_not_know()
    aggregate = gems(models, geometry=geometry).fit(X, y, nodes=nodes)
    assert aggregate.node_scores_["local"] == [0.75, 1.0]
    assert aggregate.node_scores_["epsilon"] == [0.375, 0.5]


def test_rows_of_classes_that_a_node_does_not_know_do_not_count_in_its_loss():
    models, X, y, nodes = node_with_rows_of_a_class_it_does_not_know()
    aggregate = gems(models, geometry="ball", criterion="log_loss")
    aggregate.fit(X, y, nodes=nodes)
    proba = models[0].predict_proba(X[:4])
    loss = -np.mean(np.log(proba[np.arange(4), [0, 0, 0, 1]]))
    assert aggregate.node_scores_["local"][0] == pytest.approx(loss)


def test_rows_of_classes_that_a_node_does_not_know_shape_its_metric():
    models, X, y, nodes = node_with_rows_of_a_class_it_does_not_know()
    space = gems(models).fit(X, y, nodes=nodes).spaces_[0]
    moved_center = space.center.copy()
    moved_center[:, 0] += 1.0
    cost = squared_costs(space)
    # The mixed term is the mean of x times 1: the ridge is on the diagonal only.
    mixed = (space.distance(moved_center) ** 2 - cost[0, 0] - cost[1, 0]) / 2
    assert mixed == pytest.approx(X[nodes == 0].mean())


# ---- geometries ---------------------------------------------------------------


def three_classes(n_rows=30, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n_rows, 2)) * [1.0, 2.0] + [0.5, 0.0]
    models = [
        linear(rng.normal(size=(3, 2)) * 2, rng.normal(size=3), np.arange(3))
        for _ in range(2)
    ]
    y = np.concatenate([model.predict(X) for model in models])
    return models, np.vstack([X, X]), y, np.repeat([0, 1], n_rows)


@pytest.mark.parametrize("scale_logits", [True, False])
def test_axes_of_an_ellipsoid_are_those_of_the_nodes_own_probabilities(scale_logits):
    models, X, y, nodes = three_classes()
    models[0].coef_ *= 3.0  # far from logits of size 1
    aggregate = gems(models, geometry="ellipsoid", scale_logits=scale_logits)
    aggregate.fit(X, y, nodes=nodes)
    for k, model in enumerate(models):
        rows = np.column_stack([X[nodes == k], np.ones(np.sum(nodes == k))])
        proba = model.predict_proba(X[nodes == k])
        fisher = (rows**2).T @ (proba * (1 - proba)) / len(rows)
        fisher += DAMPING * fisher.mean()
        expected = np.maximum(fisher.min() / fisher, FLOOR) ** -2.0
        np.testing.assert_allclose(squared_costs(aggregate.spaces_[k]), expected)


def test_a_ball_leaves_classes_that_its_node_never_saw_free():
    models = [
        linear([[1.0, 0.0]], [0.0], np.array([0, 1])),
        linear([[0.0, 1.0]], [0.0], np.array([1, 2])),
    ]
    X = np.array([[-1.0, 0.0], [1.0, -1.0], [0.0, 1.0]])
    aggregate = gems(models, geometry="ball").fit(X, np.array([0, 1, 2]))
    np.testing.assert_allclose(squared_costs(aggregate.spaces_[0]), [[1, 1, 0]] * 3)
    np.testing.assert_allclose(squared_costs(aggregate.spaces_[1]), [[0, 1, 1]] * 3)


def test_logits_of_classes_never_seen_weigh_less():
    models = [
        linear([[1.0, 0.0]], [0.0], np.array([0, 1])),
        linear([[0.0, 1.0]], [0.0], np.array([1, 2])),
    ]
    X = np.array([[-1.0, 0.5], [1.0, -1.0], [0.3, 1.0]])
    aggregate = gems(models).fit(X, np.array([0, 1, 2]), nodes=[0, 0, 1])
    costs = squared_costs(aggregate.spaces_[0])
    np.testing.assert_allclose(costs[:, 1], costs[:, 0])
    np.testing.assert_allclose(costs[:, 2], UNSEEN_WEIGHT * costs[:, 0])


def test_the_loss_of_a_scaled_model_is_that_of_its_own_probabilities():
    models, X, y, nodes = three_classes()
    aggregate = gems(models, criterion="log_loss", scale_logits=True)
    aggregate.fit(X, y, nodes=nodes)
    for k, model in enumerate(models):
        of_node = nodes == k
        proba = model.predict_proba(X[of_node])
        loss = -np.mean(np.log(proba[np.arange(of_node.sum()), y[of_node]]))
        assert aggregate.node_scores_["local"][k] == pytest.approx(loss)


def test_a_constant_node_says_nothing_of_the_size_of_logits():
    # Both others have small logits of one size, so they stay as they are.
    small = [linear([[0.1, 0.02 * k]], [0.05], np.array([0, 1])) for k in (1, 2)]
    constant = DummyClassifier(strategy="most_frequent").fit(np.eye(2), [1, 1])
    X = np.array([[-1.0, 0.0], [1.0, 0.5]] * 2 + [[0.5, 1.0]])
    aggregate = gems([*small, constant], geometry="ball")
    aggregate.fit(X, np.array([0, 1, 0, 1, 1]), nodes=[0, 0, 1, 1, 2])
    for model, space in zip(small, aggregate.spaces_, strict=False):
        expected = np.append(model.coef_[0], model.intercept_)
        np.testing.assert_allclose(np.diff(space.center)[:, 0], expected)


# ---- public rows --------------------------------------------------------------


@pytest.mark.parametrize(
    ("intersection", "epsilon"),
    [("consensus", 0.0), ("consensus", [0.4, 0.95]), ("deepest", [0.4, 0.95])],
)
def test_public_rows_move_cheap_weights_first(intersection, epsilon):
    models, X, y, nodes = three_classes()
    # Node 1 has other units, and a much smaller space.
    X[nodes == 1] *= [0.1, 3.0]
    y[nodes == 1] = models[1].predict(X[nodes == 1])
    aggregate = gems(
        models, geometry="ellipsoid", intersection=intersection, epsilon=epsilon
    ).fit(X, y, nodes=nodes)
    W = np.vstack([aggregate.coef_.T, aggregate.intercept_])
    weights = aggregate.intersection_.weights
    assert aggregate.intersection_.found == (epsilon == 0.0)
    if epsilon != 0.0:  # the deepest point weighs distances by the radii
        radii = np.array([space.radius for space in aggregate.spaces_])
        weights = weights / radii**2
    costs = sum(
        weight * squared_costs(space).mean(axis=1)
        for weight, space in zip(weights, aggregate.spaces_, strict=True)
    )
    assert costs.max() > 2 * costs.min()
    rng = np.random.RandomState(1)
    X_public = rng.normal(size=(60, 2))
    y_public = (X_public @ rng.normal(size=(2, 3))).argmax(axis=1)
    aggregate.fine_tune(X_public, y_public)
    strength = aggregate.fine_tuning_.strength
    assert np.isfinite(strength)
    expected = minimum_of_penalized_loss(X_public, y_public, W, costs, strength)
    rows = np.column_stack([X, np.ones(len(X))])
    np.testing.assert_allclose(
        aggregate.predict_proba(X), softmax(rows @ expected, axis=1), atol=2e-3
    )


def adam(X, y, W, n_steps, rate=1e-2):
    """Steps of Adam on the mean log-loss of all rows."""
    rows = np.column_stack([X, np.ones(len(X))])
    W = W.copy()
    first = np.zeros_like(W)  # the mean of gradients
    second = np.zeros_like(W)  # the mean of their squares
    for t in range(1, n_steps + 1):
        residuals = softmax(rows @ W, axis=1) - np.eye(W.shape[1])[y]
        gradient = rows.T @ residuals / len(rows)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        step = rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        W -= step * first / (np.sqrt(second) + 1e-8)
    return W


@pytest.mark.parametrize(("copies", "n_batches"), [(10, 1), (32, 2)])
def test_plain_fine_tuning_is_five_epochs_of_adam_in_batches_of_32(copies, n_batches):
    models, X, y, nodes = three_classes()
    aggregate = gems(models, fine_tuning="plain").fit(X, y, nodes=nodes)
    W = np.vstack([aggregate.coef_.T, aggregate.intercept_])
    # Equal rows: whichever are in a batch, its gradient is the same. Weights of the
    # second feature have none: nothing else, as regularization, moves them.
    X_public = np.full((2 * copies, 2), [1.0, 0.0])
    y_public = np.full(2 * copies, 2)
    expected = adam(X_public, y_public, W, 5 * n_batches)
    aggregate.fine_tune(X_public, y_public)
    np.testing.assert_allclose(aggregate.coef_, expected[:-1].T, atol=1e-7)
    np.testing.assert_allclose(aggregate.intercept_, expected[-1], atol=1e-7)


# ---- local models that are read in another way --------------------------------


def test_discriminants_of_constant_features():
    X, y = load_digits(return_X_y=True)
    X = (X - X.mean(axis=0)) / (X.std(axis=0) + 0.1)
    X_test, y_test = X[900:], y[900:]
    X, y = X[:900], y[:900]
    nodes = y % 5
    locals_ = [
        LinearDiscriminantAnalysis().fit(X[nodes == k], y[nodes == k]) for k in range(5)
    ]
    assert max(np.abs(model.coef_).max() for model in locals_) > 1e17
    agg = GEMSLogisticAggregator(locals_, random_state=0).fit(X, y, nodes=nodes)
    assert agg.score(X_test, y_test) > 0.85


def test_one_linear_model_for_each_class():
    X, y = load_digits(n_class=6, return_X_y=True)
    X = X / 16
    nodes = np.where(y[:400] == 5, 3, np.arange(400) % 3)  # node 3 knows one class
    locals_ = []
    for k in range(4):
        local = make_pipeline(
            StandardScaler(), OneVsRestClassifier(LogisticRegression())
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the one class
            rows = nodes == k
            locals_.append(local.fit(X[:400][rows], y[:400][rows]))
    locals_[1:3] = [FrozenEstimator(local) for local in locals_[1:3]]
    agg = GEMSLogisticAggregator(locals_, random_state=0)
    agg.fit(X[:400], y[:400], nodes=nodes)
    assert agg.score(X[400:], y[400:]) > 0.8
    average = ModelAveragingAggregator(locals_[:3]).fit()
    assert average.score(X[400:], y[400:]) > 0.75
    ensemble = EnsembleAggregator(locals_).fit()
    assert ensemble.score(X[400:], y[400:]) > 0.75
    with pytest.raises(TypeError, match="is a linear model; PFNMAggregator"):
        PFNMAggregator(locals_).fit()

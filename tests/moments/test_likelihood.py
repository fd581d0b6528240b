# SPDX-License-Identifier: BSD-3-Clause
"""The likeliest model for sums: what it is made of, and which model it finds."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.linear_model import LogisticRegression

from skgems.moments import (
    Likelihood,
    NodeLoss,
    class_moments,
    log_losses,
    share_of_gradient,
)
from skgems.moments._likelihood import Coordinates, _as_sure_as_likely

KINDS = ["class", "shared", "diagonal"]


def rows_of(n=600, n_classes=3, d=3, mean=0.0, scale=1.0, seed=0):
    """Rows that are no Gaussians: with tails, skewed and of unequal shapes."""
    rng = np.random.default_rng(seed)
    y = np.append(np.arange(n_classes), rng.integers(n_classes, size=n - n_classes))
    X = rng.standard_t(4, size=(n, d)) + rng.exponential(size=(n, 1)) * (y[:, None] + 1)
    X += 1.2 * rng.standard_normal((n_classes, d))[y]
    return X * scale + mean, y


def node_of(X, y, columns, W, kind="class"):
    """What a node tells whose model, on rows as they are, is W."""
    moments = class_moments(X, y, kind=kind)
    rows = np.column_stack([X - moments.origin, np.ones(len(X))])
    W = np.vstack([W[:-1], W[-1] + moments.origin @ W[:-1]])
    is_known = np.isin(y, columns)
    known_columns = np.searchsorted(columns, y[is_known])
    gradient = rows[is_known].T @ log_losses(rows[is_known] @ W, known_columns)[1]
    return NodeLoss(moments, columns, W, gradient)


def nodes_of(X, y, owners, kind="class", seed=3):
    """Nodes of some classes each, with models of no special merit."""
    rng, nodes = np.random.default_rng(seed), []
    for owner in np.unique(owners):
        in_node = owners == owner
        columns = np.unique(y[in_node])
        W = 0.5 * rng.standard_normal((X.shape[1] + 1, len(columns)))
        node = node_of(X[in_node], y[in_node], columns, W, kind)
        if len(columns) == 1:
            node = NodeLoss(node.moments, columns)
        nodes.append(node)
    return nodes


def centred(W):
    return W - W.mean(axis=1, keepdims=True)


def on_rows(likelihood, W):
    return centred(likelihood.to_rows(W))


def fitted(model):
    """Weights of a LogisticRegression, one column a class."""
    W = np.vstack([model.coef_.T, model.intercept_])
    return W * [-0.5, 0.5] if W.shape[1] == 1 else centred(W)


def pooled(X, y, C):
    """LogisticRegression(C) on features of unit variance, told on rows as they are."""
    scale = X.std(axis=0)
    scale[scale == 0] = 1.0
    center = X.mean(axis=0)
    model = LogisticRegression(C=C, tol=1e-10, max_iter=10_000)
    W = fitted(model.fit((X - center) / scale, y))
    W[:-1] /= scale[:, None]
    W[-1] -= center @ W[:-1]
    return W


# ---- what it is a sum of ------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [[0, 1, 2], [0, 2]])
def test_with_share_1_the_gradient_at_a_nodes_model_is_that_of_its_rows(kind, columns):
    """Rows of a class that its model does not know say nothing of the model."""
    X, y = rows_of(mean=50.0)
    columns = np.array(columns)
    W = np.random.default_rng(1).standard_normal((4, len(columns)))
    node = node_of(X, y, columns, W, kind)
    likelihood = Likelihood.of([node], 3, share=1.0, C=2.0)
    wide_W = np.zeros((4, 3))
    wide_W[:, columns] = W
    if len(columns) < 3:
        # Where the others are never likely the softmax goes over the node's classes.
        wide_W[-1, 1] = -1e3
    centred_W = likelihood.from_rows(wide_W)
    gradient = likelihood.value_and_gradient(centred_W)[1]
    penalty = np.zeros_like(centred_W)
    penalty[:-1] = X.var(axis=0)[:, None] * centred_W[:-1] / 2.0
    is_known = np.isin(y, columns)
    logits = X[is_known] @ W[:-1] + W[-1]
    residuals = softmax(logits, axis=1)
    residuals[np.arange(is_known.sum()), np.searchsorted(columns, y[is_known])] -= 1.0
    extended_rows = np.column_stack([X - X.mean(axis=0), np.ones(len(X))])
    true_gradient = np.zeros_like(gradient)
    true_gradient[:, columns] = extended_rows[is_known].T @ residuals
    if len(columns) < 3:
        # What is left of the node is its linear term, of its own classes only.
        assert (likelihood.slope[:, 1] == 0).all()
        expected = likelihood.loss.value_and_gradient(
            centred_W, parts=np.array([0, 2]), outputs=np.array([True, False, True])
        )[1]
        corrected = likelihood.slope + expected
        np.testing.assert_allclose(
            corrected[:, columns],
            extended_rows[is_known].T @ residuals,
            atol=1e-8 * np.abs(corrected).max(),
        )
        return
    np.testing.assert_allclose(
        gradient - penalty, true_gradient, atol=1e-9 * np.abs(likelihood.slope).max()
    )


@pytest.mark.parametrize("share", [0.0, 0.25, None])
def test_the_share_of_what_is_corrected(share):
    X, y = rows_of()
    node = node_of(X, y, np.arange(3), np.ones((4, 3)) * [0.2, -0.1, 0.4])
    whole_slope = Likelihood.of([node], 3, share=1.0).slope
    slope = Likelihood.of([node], 3, share=share).slope
    factor = 600 / (600 + 3 * 3) if share is None else share
    np.testing.assert_allclose(slope, factor * whole_slope, rtol=1e-12)
    assert np.abs(whole_slope).max() > 1.0


def test_the_share_by_rows_features_and_classes():
    assert share_of_gradient(100.0, 25, 4, diagonal=False) == 0.5
    assert share_of_gradient(100.0, 25, 4, diagonal=True) == 100 / 108
    X, y = rows_of()
    node = node_of(X, y, np.arange(3), np.ones((4, 3)) * [0.2, -0.1, 0.4], "diagonal")
    whole_slope = Likelihood.of([node], 3, share=1.0).slope
    np.testing.assert_allclose(
        Likelihood.of([node], 3).slope, 600 / 606 * whole_slope, rtol=1e-12
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_the_value(kind):
    X, y = rows_of(mean=5.0)
    likelihood = Likelihood.of(nodes_of(X, y, y // 2, kind), 3, C=0.1)
    W = np.random.default_rng(0).standard_normal((4, 3))
    gradient, step = likelihood.value_and_gradient(W)[1], 1e-5
    for index in np.ndindex(*W.shape):
        move = np.zeros_like(W)
        move[index] = step
        ahead, behind = (likelihood.value_and_gradient(W + h * move) for h in (1, -1))
        slope = (ahead[0] - behind[0]) / (2 * step)
        assert gradient[index] == pytest.approx(
            slope, abs=1e-5 * np.abs(gradient).max()
        )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_penalty_is_that_of_logistic_regression(n_classes):
    """With two classes (-w/2, w/2) costs what w does."""
    X, y = rows_of(n_classes=n_classes, scale=np.array([1.0, 7.0, 0.1]))
    node = NodeLoss(class_moments(X, y), np.arange(n_classes))
    W = centred(np.random.default_rng(0).standard_normal((4, n_classes)))
    weak, strong = (Likelihood.of([node], n_classes, C=C) for C in (1e12, 0.5))
    penalty = strong.value_and_gradient(W)[0] - weak.value_and_gradient(W)[0]
    coef = W[:-1, 1:] - W[:-1, :1] if n_classes == 2 else W[:-1]
    expected = 0.5 * np.sum((X.std(axis=0)[:, None] * coef) ** 2) / 0.5
    assert penalty == pytest.approx(expected, rel=1e-6)


def test_models_on_rows_and_about_the_origin():
    X, y = rows_of(mean=30.0)
    likelihood = Likelihood.of([NodeLoss(class_moments(X, y), np.arange(3))], 3)
    W = np.random.default_rng(0).standard_normal((4, 3))
    inside = likelihood.from_rows(W)
    about = X - likelihood.loss.moments.origin
    np.testing.assert_allclose(
        about @ inside[:-1] + inside[-1], X @ W[:-1] + W[-1], rtol=1e-9
    )
    np.testing.assert_allclose(likelihood.to_rows(inside), W, rtol=1e-12)
    np.testing.assert_allclose(likelihood.loss.moments.origin, X.mean(axis=0))


# ---- the minimum ----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_the_gradient_at_the_minimum_is_about_zero(kind, C):
    X, y = rows_of(mean=100.0, scale=np.array([1.0, 20.0, 0.05]))
    likelihood = Likelihood.of(nodes_of(X, y, y % 2, kind), 3, C=C)
    W = likelihood.minimize()
    value, gradient = likelihood.value_and_gradient(W)
    # In units of the features: nats a row that a move of one logit could still gain.
    unit = np.append(likelihood.scales, 1.0)[:, None]
    assert np.abs(gradient / unit).max() < 2e-3 * likelihood.n_rows
    # From far away the same is found, but for what no row would notice.
    distant_start = 3.0 * np.random.default_rng(1).standard_normal((4, 3)) / unit
    other = likelihood.minimize(distant_start)
    other_value = likelihood.value_and_gradient(other)[0]
    assert other_value == pytest.approx(value, abs=2e-4 * likelihood.n_rows)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_minimum_is_that_of_another_search(kind, n_classes):
    X, y = rows_of(n_classes=n_classes)
    likelihood = Likelihood.of(nodes_of(X, y, np.arange(600) % 2, kind), n_classes)
    shape = 4, n_classes

    def loss_of_flat(z):
        value, gradient = likelihood.value_and_gradient(z.reshape(shape))
        return value, gradient.ravel()

    other = minimize(loss_of_flat, np.zeros(4 * n_classes), jac=True, method="BFGS").x
    minimum = likelihood.minimize()
    # The search ends where it gains no more: 1e-7 nats a row are 1e-3 of a logit.
    np.testing.assert_allclose(
        X @ on_rows(likelihood, minimum)[:-1] + on_rows(likelihood, minimum)[-1],
        X @ on_rows(likelihood, other.reshape(shape))[:-1]
        + on_rows(likelihood, other.reshape(shape))[-1],
        atol=0.02,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_nodes_own_best_model_is_the_best(kind, C, n_classes):
    """Whatever its rows are: the corrected gradient there is that of its rows."""
    X, y = rows_of(n_classes=n_classes, mean=20.0, scale=np.array([1.0, 9.0, 0.1]))
    W = pooled(X, y, C)
    node = node_of(X, y, np.arange(n_classes), W, kind)
    likelihood = Likelihood.of([node], n_classes, C=C, share=1.0)
    centred_W = likelihood.from_rows(W)
    unit = np.append(likelihood.scales, 1.0)[:, None]
    gradient = likelihood.value_and_gradient(centred_W)[1] / unit
    assert np.abs(gradient).max() < 1e-5 * len(X)
    minimum = on_rows(likelihood, likelihood.minimize())
    gap = (X @ minimum[:-1] + minimum[-1]) - (X @ W[:-1] + W[-1])
    assert np.abs(gap).max() < 0.02


def test_without_the_correction_it_is_another():
    X, y = rows_of()
    W = pooled(X, y, 1.0)
    node = node_of(X, y, np.arange(3), W)
    likelihood = Likelihood.of([node], 3, share=0.0)
    minimum = on_rows(likelihood, likelihood.minimize())
    assert np.abs((minimum - W)[:-1] * X.std(axis=0)[:, None]).max() > 0.1


@pytest.mark.parametrize("C", [1e-3, 0.03, 1.0, 100.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_regression_is_recovered_where_classes_are_gaussian(n_classes, C):
    """Of unequal covariances, where no linear model is the truth, too."""
    rng, n, d = np.random.default_rng(n_classes), 60_000, 3
    y = rng.integers(n_classes, size=n)
    shapes = rng.standard_normal((n_classes, d, d))
    X = np.einsum("ij,ijk->ik", rng.standard_normal((n, d)), shapes[y])
    X += rng.standard_normal((n_classes, d))[y]
    X = X * [1e-3, 1.0, 50.0] + [3.0, -40.0, 1e4]
    owners = rng.integers(4, size=n)
    nodes = [
        NodeLoss(class_moments(X[owners == k], y[owners == k]), np.arange(n_classes))
        for k in range(4)
    ]
    likelihood = Likelihood.of(nodes, n_classes, C=C)
    minimum, W = on_rows(likelihood, likelihood.minimize()), pooled(X, y, C)
    # Standard errors of the rows' model, in units of the features. Sums of Gaussian
    # rows know as much as the rows, so the two differ by at most about as much; the
    # search and the points that stand for Gaussians add some 0.005 logits.
    center, unit = X.mean(axis=0), np.append(X.std(axis=0), 1.0)[:, None]
    errors = standard_errors((X - center) / X.std(axis=0), X @ W[:-1] + W[-1], C)
    scaled_minimum, scaled_W = (
        unit * np.vstack([V[:-1], V[-1] + center @ V[:-1]]) for V in (minimum, W)
    )
    assert (np.abs(scaled_minimum - scaled_W) < 3 * errors + 0.005).all()
    assert errors.max() < 0.05
    assert np.abs(scaled_W[:-1]).max() > 0.3


def standard_errors(X, logits, C):
    """Of a penalized softmax regression's weights, each column less their mean."""
    rows, proba = np.column_stack([X, np.ones(len(X))]), softmax(logits, axis=1)
    size, n_classes = rows.shape[1], proba.shape[1]
    information = np.zeros((n_classes, size, n_classes, size))
    for i, j in itertools.product(range(n_classes), repeat=2):
        weights = proba[:, i] * ((i == j) - proba[:, j])
        information[i, :, j] = rows.T @ (weights[:, None] * rows)
        if i == j:
            penalty = 2.0 if n_classes == 2 else 1.0
            information[i, :-1, i, :-1] += penalty / C * np.eye(size - 1)
    flat = information.reshape(size * n_classes, -1)
    # What is common to all columns is 0 in both, so its variance is taken out.
    covariance = np.linalg.pinv(flat, rcond=1e-10, hermitian=True)
    project = np.kron(np.eye(n_classes) - 1.0 / n_classes, np.eye(size))
    variances = (project @ covariance @ project).diagonal()
    return np.sqrt(variances).reshape(n_classes, size).T


def test_the_recovered_models_differ_by_C():
    X, y = rows_of(3000)
    node = NodeLoss(class_moments(X, y), np.arange(3))
    sizes = []
    for C in (1e-4, 1e-3, 1e-2, 1.0):
        likelihood = Likelihood.of([node], 3, C=C)
        minimum = on_rows(likelihood, likelihood.minimize())[:-1]
        weights = pooled(X, y, C)[:-1]
        sizes.append(np.linalg.norm(minimum))
        assert sizes[-1] == pytest.approx(np.linalg.norm(weights), rel=0.1)
    assert sizes[0] < 0.5 * sizes[1] < 0.5 * sizes[2]


# ---- invariances ----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_nodes_does_not_matter(kind):
    X, y = rows_of(mean=10.0)
    nodes = nodes_of(X, y, y + 3 * (np.arange(600) % 2), kind)
    reference = Likelihood.of(nodes, 3)
    W = reference.minimize()
    for order in itertools.islice(
        itertools.permutations(range(len(nodes))), 1, 700, 99
    ):
        likelihood = Likelihood.of([nodes[k] for k in order], 3)
        np.testing.assert_allclose(
            likelihood.slope, reference.slope, atol=1e-9 * np.abs(reference.slope).max()
        )
        np.testing.assert_allclose(likelihood.minimize(), W, atol=1e-6)


def test_units_and_zero_of_features_do_not_matter():
    X, y = rows_of()
    a, b = np.array([1e-3, 10.0, 400.0]), np.array([5.0, -300.0, 1e4])
    logits = []
    for rows, scale in ((X, np.ones(3)), (X * a + b, a)):
        rng = np.random.default_rng(0)
        nodes = []
        for k in range(2):
            in_node = np.arange(600) % 2 == k
            W = rng.standard_normal((4, 3))
            W[:-1] /= scale[:, None]
            W[-1] -= (b if scale is a else np.zeros(3)) @ W[:-1]
            nodes.append(node_of(rows[in_node], y[in_node], np.arange(3), W))
        likelihood = Likelihood.of(nodes, 3)
        W = on_rows(likelihood, likelihood.minimize())
        logits.append(rows @ W[:-1] + W[-1])
    np.testing.assert_allclose(logits[1], logits[0], atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_twice_the_weight_is_half_the_penalty(n_classes):
    X, y = rows_of(n_classes=n_classes)
    nodes = nodes_of(X, y, np.arange(600) % 2)
    twice = Likelihood.of([n.weighted(2.0) for n in nodes], n_classes, C=0.5, share=1.0)
    once = Likelihood.of(nodes, n_classes, C=1.0, share=1.0)
    W = np.random.default_rng(0).standard_normal((4, n_classes))
    one, slope = once.value_and_gradient(W)
    other, double = twice.value_and_gradient(W)
    assert other == pytest.approx(2 * one, rel=1e-12)
    np.testing.assert_allclose(double, 2 * slope, atol=1e-9)
    np.testing.assert_allclose(twice.minimize(), once.minimize(), atol=1e-3)


def test_a_node_of_weight_2_is_that_node_told_of_twice():
    X, y = rows_of()
    one, two = nodes_of(X, y, np.arange(600) % 2)
    heavy = Likelihood.of([one.weighted(2.0), two], 3, share=1.0)
    twins = Likelihood.of([one, one, two], 3, share=1.0)
    W = np.random.default_rng(0).standard_normal((4, 3))
    one, slope = heavy.value_and_gradient(W)
    other, same = twins.value_and_gradient(W)
    assert one == pytest.approx(other, rel=1e-12)
    np.testing.assert_allclose(slope, same, atol=1e-9 * np.abs(slope).max())


# ---- what is missing ------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_constant_features_get_no_weight(kind):
    X, y = rows_of(d=4, n_classes=3)
    X[:, 1] = 7.3
    likelihood = Likelihood.of(nodes_of(X, y, np.arange(600) % 2, kind), 3)
    W = likelihood.minimize()
    assert (W[1] == 0).all() and (np.abs(W[[0, 2, 3]]) > 1e-3).all()
    X_varying = np.delete(X, 1, axis=1)
    nodes = [
        NodeLoss(n.moments, n.columns, np.delete(n.W, 1, axis=0), None)
        for n in nodes_of(X, y, np.arange(600) % 2, kind)
    ]
    assert all(n.gradient is None for n in nodes)
    without_constant = Likelihood.of(
        [NodeLoss(class_moments(X_varying, y, kind=kind), np.arange(3))], 3
    )
    with_constant = Likelihood.of(
        [NodeLoss(class_moments(X, y, kind=kind), np.arange(3))], 3
    )
    np.testing.assert_allclose(
        np.delete(with_constant.minimize(), 1, axis=0),
        without_constant.minimize(),
        atol=1e-5,
    )


def test_a_class_that_nothing_is_told_of_is_never_likely():
    X, y = rows_of(n_classes=2)
    node = NodeLoss(class_moments(X, 2 * y), np.array([0, 2]))
    likelihood = Likelihood.of([node], 4)
    assert likelihood.seen.tolist() == [True, False, True, False]
    W = likelihood.to_rows(likelihood.minimize())
    distant_rows = 100.0 * np.random.default_rng(0).standard_normal((1000, 3))
    logits = np.vstack([X, distant_rows]) @ W[:-1] + W[-1]
    proba = softmax(logits, axis=1)
    assert proba[:, [1, 3]].max() < 1e-12
    # The others are as if it were not there, but for the penalty of two classes.
    alone = Likelihood.of([NodeLoss(class_moments(X, y), np.arange(2))], 2, C=2.0)
    two = on_rows(alone, alone.minimize())
    np.testing.assert_allclose(centred(W[:, [0, 2]]), two, atol=1e-3)


def test_a_class_of_too_few_rows_in_the_gradient_alone():
    """A node's gradient speaks of a class that is too small to be told of."""
    X, y = rows_of(400)
    small = np.flatnonzero(y == 2)[:3]
    chosen = np.append(np.flatnonzero(y < 2), small)
    X, y = X[chosen], y[chosen]
    W = np.random.default_rng(0).standard_normal((4, 3))
    node = node_of(X, y, np.arange(3), W)
    moments = class_moments(X, y, min_cluster_size=5)
    # What is told starts from rows of larger classes.
    shift = node.moments.origin - moments.origin
    moved_W, gradient = node.W.copy(), node.gradient.copy()
    moved_W[-1] -= shift @ node.W[:-1]
    gradient[:-1] += np.outer(shift, gradient[-1])
    node = NodeLoss(moments, node.columns, moved_W, gradient)
    likelihood = Likelihood.of([node], 3)
    minimum = likelihood.minimize()
    assert likelihood.seen.tolist() == [True, True, False]
    # What is common to all outputs is not driven anywhere.
    assert np.abs(minimum[:, :2]).max() < 50
    two = Likelihood.of([NodeLoss(moments, np.arange(2))], 3)
    proba = [
        softmax((X @ V[:-1] + V[-1])[:, :2], axis=1)
        for V in (on_rows(likelihood, minimum), on_rows(two, two.minimize()))
    ]
    assert np.abs(proba[0] - proba[1]).mean() < 0.1


def test_one_node_of_one_class_each():
    """Nodes without models of their own: means and scatter tell all."""
    X, y = rows_of(3000)
    nodes = nodes_of(X, y, y)
    assert all(node.W is None or node.gradient is None for node in nodes)
    likelihood = Likelihood.of(nodes, 3)
    together = Likelihood.of([NodeLoss(class_moments(X, y), np.arange(3))], 3)
    minimum = on_rows(likelihood, likelihood.minimize())
    np.testing.assert_allclose(
        minimum, on_rows(together, together.minimize()), atol=1e-6
    )
    accuracy = np.mean(np.argmax(X @ minimum[:-1] + minimum[-1], axis=1) == y)
    W = pooled(X, y, 1.0)
    assert accuracy > np.mean(np.argmax(X @ W[:-1] + W[-1], axis=1) == y) - 0.01


# ---- its other methods ----------------------------------------------------------


def test_what_is_added_is_minimised_with_it():
    X, y = rows_of()
    likelihood = Likelihood.of([NodeLoss(class_moments(X, y), np.arange(3))], 3)
    target = np.random.default_rng(0).standard_normal((4, 3))

    def heavy(W):
        return 1e7 * np.sum((W - target) ** 2), 2e7 * (W - target)

    np.testing.assert_allclose(likelihood.minimize(None, heavy), target, atol=1e-2)
    # Rows that are added are as good as told.
    added_rows, labels = rows_of(seed=9)
    extended_rows = np.column_stack(
        [added_rows - likelihood.loss.moments.origin, np.ones(600)]
    )

    def loss_of_added_rows(W):
        losses, residuals = log_losses(extended_rows @ W, labels)
        return losses.sum(), extended_rows.T @ residuals

    W = likelihood.minimize(None, loss_of_added_rows)
    gradient = likelihood.value_and_gradient(W)[1] + loss_of_added_rows(W)[1]
    assert np.abs(gradient).max() < 2e-3 * 1200


@pytest.mark.parametrize("factor", [0.01, 3.0, 200.0])
def test_the_temperature_is_found_whatever_the_size_of_logits(factor):
    X, y = rows_of(6000)
    likelihood = Likelihood.of([NodeLoss(class_moments(X, y), np.arange(3))], 3)
    W = likelihood.from_rows(pooled(X, y, 1.0))
    best = likelihood.inverse_temperature(W)
    assert likelihood.inverse_temperature(factor * W) == pytest.approx(
        best / factor, rel=1e-3
    )
    # Rows agree that these are the probabilities.
    assert 0.8 < best < 1.25
    assert likelihood.inverse_temperature(np.zeros((4, 3))) == 1.0

    def loss(f):
        return likelihood.loss.value_and_gradient(f * W)[0]

    assert loss(best) <= min(loss(0.97 * best), loss(1.03 * best))


@pytest.mark.parametrize("kind", KINDS)
def test_the_discriminant_analysis(kind):
    X, y = rows_of(mean=10.0, scale=np.array([1.0, 9.0, 0.1]))
    likelihood = Likelihood.of(
        [NodeLoss(class_moments(X, y, kind=kind), np.arange(3))], 3
    )
    W = likelihood.discriminant_analysis()
    about = X - X.mean(axis=0)
    means = np.stack([about[y == c].mean(axis=0) for c in range(3)])
    within = sum(
        (about[y == c] - means[c]).T @ (about[y == c] - means[c]) for c in range(3)
    )
    within = within / len(X)
    if kind == "diagonal":
        within = np.diag(within.diagonal())
    within += 1e-3 * np.diag(X.var(axis=0))
    weights = np.linalg.solve(within, means.T)
    levels = np.log(np.bincount(y) / len(y)) - 0.5 * np.einsum(
        "ij,ji->i", means, weights
    )
    np.testing.assert_allclose(W[:-1], weights, rtol=1e-9)
    np.testing.assert_allclose(W[-1], levels, rtol=1e-9)


def test_the_loss_of_rows_that_are_gaussian_is_that_of_the_rows():
    rng, n = np.random.default_rng(0), 100_000
    y = rng.integers(3, size=n)
    X = (
        rng.standard_normal((n, 2)) * [1.0, 2.0]
        + np.array([[0, 0], [2, 1], [-1, 3]])[y]
    )
    likelihood = Likelihood.of([NodeLoss(class_moments(X, y), np.arange(3))], 3, C=1e9)
    W = rng.standard_normal((3, 3))
    logits = X @ W[:-1] + W[-1]
    losses = logsumexp(logits, axis=1) - logits[np.arange(n), y]
    value = likelihood.value_and_gradient(likelihood.from_rows(W))[0]
    assert abs(value - losses.sum()) < 4 * losses.std() * np.sqrt(n)


def test_corrections_stop_where_they_promise_a_loss_below_zero():
    X, y = rows_of(300)
    node = NodeLoss(class_moments(X, y, kind="diagonal"), np.arange(3))
    plain = Likelihood.of([node], 3, C=1e4)
    bounded, W = plain.bounded()
    assert bounded is plain
    np.testing.assert_array_equal(W, plain.minimize())
    # Along one direction every step promises more than there is to gain.
    slope = np.zeros_like(plain.slope)
    slope[0] = 4.0 * plain.n_rows * np.array([1.0, -1.0, 0.0])
    wrong = replace(plain, slope=slope)
    endless = wrong.minimize()
    assert wrong.value_and_gradient(endless)[0] < wrong.penalty(endless)[0]
    bounded, W = wrong.bounded()
    value, _ = bounded.value_and_gradient(W)
    assert value >= bounded.penalty(W)[0]
    factor = bounded.slope[0, 0] / slope[0, 0]
    assert factor in (0.5, 0.25, 0.125, 0.0)
    if factor:
        twice = replace(plain, slope=2.0 * bounded.slope)
        endless_of_twice = twice.minimize()
        assert (
            twice.value_and_gradient(endless_of_twice)[0]
            < twice.penalty(endless_of_twice)[0]
        )


def test_a_search_can_end_where_a_loss_is_low_enough():
    X, y = rows_of(300)
    like = Likelihood.of([NodeLoss(class_moments(X, y), np.arange(3))], 3)

    def loss(W):
        return (like.value_and_gradient(W)[0] - like.penalty(W)[0]) / like.n_rows

    lowest, start = loss(like.minimize()), like.slope
    level = (lowest + loss(start)) / 2
    assert lowest < loss(like.minimize(start, least=level)) < level
    np.testing.assert_array_equal(
        like.minimize(start, least=0.99 * lowest), like.minimize(start)
    )


@pytest.mark.parametrize("kind", ["class", "diagonal"])
def test_the_search_goes_by_other_coordinates_of_the_same_models(kind):
    X, y = rows_of(300)
    X[:, 1] = 7.0  # is not looked for
    like = Likelihood.of([NodeLoss(class_moments(X, y, kind=kind), np.arange(3))], 4)
    rng = np.random.default_rng(0)
    W = rng.standard_normal((4, 4)) * like.seen
    W[1] = 0.0
    coordinates = Coordinates(like, W, curvature=0.0)
    z, gradient = coordinates.place(W), rng.standard_normal(W.shape)
    np.testing.assert_allclose(coordinates.weights(z), W, atol=1e-9)
    other_z = rng.standard_normal(z.shape)
    other_W = coordinates.weights(other_z)
    assert np.vdot(other_W, gradient) == pytest.approx(
        other_z @ coordinates.gradient(gradient), rel=1e-9
    )


def test_the_search_is_as_steep_in_all_outputs():
    """Two classes that are confused, and two that are not."""
    rng, n = np.random.default_rng(0), 4000
    y = rng.integers(4, size=n)
    X = rng.standard_normal((n, 6)) + np.array([[0.0], [0.6], [9.0], [18.0]])[y]
    like = Likelihood.of([NodeLoss(class_moments(X, y), np.arange(4))], 4)
    W = like.minimize()
    coordinates = Coordinates(like, W, curvature=0.0)
    assert coordinates.between[0, 0] > 2 * coordinates.between[3, 3]
    np.testing.assert_allclose(
        coordinates.between @ coordinates.apart, np.eye(4), atol=1e-12
    )
    # What all outputs have in common is not bent.
    np.testing.assert_allclose(coordinates.between @ np.ones(4), np.ones(4), rtol=1e-9)


def test_variances_keep_more_parts_than_matrices():
    """What lies between merged means is a covariance, which variances do not tell."""
    rng = np.random.default_rng(0)
    means = rng.standard_normal((700, 3))
    X, y = means + 1e-3 * rng.standard_normal(means.shape), np.arange(700) % 2
    parts = np.arange(700)
    for kind, most in (("diagonal", 700), ("shared", 512)):
        moments = class_moments(X, y, kind=kind, parts=parts)
        likelihood = Likelihood.of([NodeLoss(moments, np.arange(2))], 2)
        n_parts = len(likelihood.loss.moments.counts)
        assert n_parts == most if kind == "diagonal" else n_parts <= most


@pytest.mark.parametrize("C", [0.001, 0.1, 10.0])
def test_the_search_begins_no_worse_than_at_no_model(C):
    # Classes that hardly vary: a discriminant analysis that is far too sure of them.
    rng = np.random.default_rng(0)
    means, y = rng.normal(size=(15, 30)), np.arange(60) % 15
    X = means[y] + 0.01 * rng.normal(size=(60, 30))
    moments, W = class_moments(X, y, kind="class"), np.zeros((31, 15))
    likelihood = Likelihood.of([NodeLoss(moments, np.arange(15), W)], 15, C=C)
    loss = likelihood.value_and_gradient
    start = _as_sure_as_likely(likelihood.discriminant_analysis(), loss)
    assert loss(start)[0] <= loss(W)[0]
    assert loss(likelihood.minimize())[0] < loss(W)[0]

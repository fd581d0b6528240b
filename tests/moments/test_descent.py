# SPDX-License-Identifier: BSD-3-Clause
"""Directions of descent, by the curvature of moments and by former gradients."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skgems.moments import Descent, Likelihood, NodeLoss, class_moments, log_losses
from skgems.moments import _descent as descent_module

N_CLASSES = 3  # of the rows that are drawn


def skewed_rows(seed=0, n_rows=300):
    """Rows far from Gaussian, so that the loss of moments is not that of the rows."""
    rng = np.random.default_rng(seed)
    y = rng.integers(N_CLASSES, size=n_rows)
    X = rng.exponential(size=(n_rows, 4)) * rng.choice([-1, 2], size=(n_rows, 4))
    return X + np.eye(N_CLASSES, 4)[y], y


def likelihood_of(X, y, *, kind="class", n_classes=N_CLASSES):
    """The likelihood of one node that sends the moments of these rows."""
    node = NodeLoss(
        moments=class_moments(X, y, kind=kind), columns=np.arange(n_classes)
    )
    return Likelihood.from_nodes([node], n_classes, C=1.0, scaled=False)


def loss_of_rows(X, y, likelihood):
    """The penalized loss of the rows themselves, as a function of the weights."""
    shifted = np.column_stack([X - likelihood.loss.moments.origin, np.ones(len(X))])

    def loss(W):
        losses, residuals = log_losses(shifted @ W, y)
        penalty, penalty_gradient = likelihood.penalty(W)
        return losses.sum() + penalty, shifted.T @ residuals + penalty_gradient

    return loss


def drawn_model(seed=1):
    """Weights (5, 3), whose mean over outputs is 0."""
    W = np.random.default_rng(seed).normal(size=(5, N_CLASSES))
    return W - W.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
def test_twelve_gradients_lead_to_logistic_regression(kind):
    X, y = skewed_rows()
    likelihood = likelihood_of(X, y, kind=kind)
    loss = loss_of_rows(X, y, likelihood)
    descent = Descent(likelihood)
    W = likelihood.minimize()
    W -= W.mean(axis=1, keepdims=True)
    first_value, gradient = loss(W)
    for _ in range(12):
        direction = descent.direction(W, gradient)
        steps = [length * direction for length in (0.25, 0.5, 1.0, 2.0)]
        step = min(steps, key=lambda step: loss(W + step)[0])
        value, next_gradient = loss(W + step)
        descent = descent.add_step(step, next_gradient - gradient)
        W = W + step
        gradient = next_gradient
    pooled = LogisticRegression(tol=1e-10, max_iter=5000).fit(X, y)
    best = likelihood.from_rows(np.vstack([pooled.coef_.T, pooled.intercept_]))
    assert loss(best)[0] < first_value - 0.1
    assert value == pytest.approx(loss(best)[0], rel=1e-6)
    np.testing.assert_allclose(
        W, best - best.mean(axis=1, keepdims=True), rtol=0, atol=0.01
    )


def test_the_first_direction_is_newtons_step_of_the_likelihood():
    X, y = skewed_rows()
    likelihood = likelihood_of(X, y)
    W = 0.3 * drawn_model()
    gradient = likelihood.value_and_gradient(W)[1]
    step = Descent(likelihood).direction(W, gradient)
    gradient_change = likelihood.value_and_gradient(W + 1e-4 * step)[1]
    gradient_change -= likelihood.value_and_gradient(W - 1e-4 * step)[1]
    # The Hessian times Newton's step is minus the gradient.
    gap = gradient_change / 2e-4 + gradient
    gap -= gap.mean(axis=1, keepdims=True)
    assert np.linalg.norm(gap) < 0.05 * np.linalg.norm(gradient)


def test_the_last_change_is_explained_by_the_last_step():
    X, y = skewed_rows()
    W = 0.3 * drawn_model()
    descent = Descent(likelihood_of(X, y))
    for seed in range(3):
        step = drawn_model(seed + 5)
        change = 50 * step + 5 * drawn_model(seed + 9)
        descent = descent.add_step(step, change)
    # The secant equation of quasi-Newton methods, whatever the curvature before.
    np.testing.assert_allclose(descent.direction(W, change), -step, atol=1e-9)


def test_steps_along_which_the_gradient_does_not_grow_are_not_taken_in():
    X, y = skewed_rows()
    descent = Descent(likelihood_of(X, y))
    step = drawn_model()
    assert descent.add_step(step, -step) is descent
    assert descent.add_step(step, 0 * step) is descent


def test_only_the_last_steps_are_held(monkeypatch):
    monkeypatch.setattr(descent_module, "REMEMBERED_STEPS", 2)
    X, y = skewed_rows()
    descent = Descent(likelihood_of(X, y))
    step = drawn_model()
    for scale in (1.0, 2.0, 3.0):
        descent = descent.add_step(scale * step, scale * step)
    scales_of_steps = [float(past[0, 0] / step[0, 0]) for past in descent.steps]
    scales_of_changes = [float(past[0, 0] / step[0, 0]) for past in descent.changes]
    assert scales_of_steps == [2.0, 3.0]
    assert scales_of_changes == [2.0, 3.0]


def test_classes_without_rows_and_constant_features_do_not_move():
    X, y = skewed_rows()
    X[:, 2] = 7.0
    likelihood = likelihood_of(X, y, n_classes=N_CLASSES + 1)
    W = np.column_stack([drawn_model(), np.zeros(5)])
    gradient = np.random.default_rng(0).normal(size=W.shape)
    step = Descent(likelihood).direction(W, gradient)
    assert not step[:, -1].any() and not step[2].any()
    assert step[[0, 1, 3, 4], :-1].all()
    assert np.vdot(step[:, :-1], gradient[:, :-1]) < 0


def test_a_likelihood_can_be_given_its_gradient_at_a_model_by_a_linear_term():
    X, y = skewed_rows()
    likelihood = likelihood_of(X, y)
    W = drawn_model()
    gradient = drawn_model(3)
    steeper = likelihood.with_gradient(W, gradient)
    np.testing.assert_allclose(steeper.value_and_gradient(W)[1], gradient, atol=1e-9)
    # The gradient of a linear term is the same everywhere.
    V = drawn_model(4)
    gap = steeper.value_and_gradient(V)[1] - likelihood.value_and_gradient(V)[1]
    expected = gradient - likelihood.value_and_gradient(W)[1]
    np.testing.assert_allclose(gap, expected, atol=1e-9)


def two_node_losses():
    """Losses of two nodes, with drawn models and gradients."""
    X, y = skewed_rows()
    nodes = []
    for in_node in (slice(0, 120), slice(120, None)):
        moments = class_moments(X[in_node], y[in_node])
        nodes.append(
            NodeLoss(
                moments=moments,
                columns=np.arange(3),
                W=drawn_model(in_node.start),
                gradient=drawn_model(9),
            )
        )
    return nodes


def test_slopes_of_nodes_add_up():
    nodes = two_node_losses()
    likelihood = Likelihood.from_nodes(nodes, 3)
    slopes = [likelihood.slope_of_own_model(k, node) for k, node in enumerate(nodes)]
    np.testing.assert_allclose(likelihood.slope, sum(slopes), atol=1e-12)
    assert all(np.abs(slope).max() > 0.1 for slope in slopes)


def test_expected_losses_of_nodes_add_up():
    likelihood = Likelihood.from_nodes(two_node_losses(), 3)
    W = drawn_model(7)
    loss_of_all = likelihood.loss.value_and_gradient(W)[0]
    losses = [likelihood.expected(W, [k])[0] for k in range(2)]
    assert loss_of_all == pytest.approx(sum(losses))
    assert likelihood.expected(W, [1, 0])[0] == pytest.approx(loss_of_all)
    of_two_outputs = likelihood.expected(W, [0], np.array([True, True, False]))[0]
    assert of_two_outputs < losses[0]


def test_the_expected_loss_of_a_node_depends_on_the_moments_of_the_others():
    """A class has one covariance, which is that of its rows at all nodes."""
    nodes = two_node_losses()
    likelihood = Likelihood.from_nodes(nodes, 3)
    W = drawn_model(7)
    alone = Likelihood.from_nodes(nodes[1:], 3)
    shift = alone.loss.moments.origin - likelihood.loss.moments.origin
    W_about_origin_of_one = np.vstack([W[:-1], W[-1] + shift @ W[:-1]])
    alone_value = alone.loss.value_and_gradient(W_about_origin_of_one)[0]
    assert alone_value != pytest.approx(likelihood.expected(W, [1])[0])

# SPDX-License-Identifier: BSD-3-Clause
"""Directions down a loss by the curvature of moments and what gradients have shown."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skgems.moments import Descent, Likelihood, NodeLoss, class_moments, log_losses
from skgems.moments import _descent as descent_module

N_CLASSES = 3


def rows(seed=0, n_rows=300):
    """Far from Gaussian, so that moments miss something of the loss."""
    rng = np.random.default_rng(seed)
    y = rng.integers(N_CLASSES, size=n_rows)
    X = rng.exponential(size=(n_rows, 4)) * rng.choice([-1, 2], size=(n_rows, 4))
    return X + np.eye(N_CLASSES, 4)[y], y


def likelihood(X, y, kind="class", C=1.0, n_classes=N_CLASSES):
    node = NodeLoss(class_moments(X, y, kind=kind), np.arange(n_classes))
    return Likelihood.of([node], n_classes, C=C, scaled=False)


def true_loss(X, y, like):
    """Of rows less the origin, with the penalty."""
    shifted = np.column_stack([X - like.loss.moments.origin, np.ones(len(X))])

    def loss(W):
        losses, residuals = log_losses(shifted @ W, y)
        value, gradient = like.penalty(W)
        return losses.sum() + value, shifted.T @ residuals + gradient

    return loss


def model(seed=1, n_features=4):
    W = np.random.default_rng(seed).normal(size=(n_features + 1, N_CLASSES))
    return W - W.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
def test_few_gradients_lead_to_logistic_regression(kind):
    X, y = rows()
    like = likelihood(X, y, kind)
    loss, descent, W = true_loss(X, y, like), Descent(like), like.minimize()
    W -= W.mean(axis=1, keepdims=True)
    value, gradient = loss(W)
    first = value
    for _ in range(12):
        step = descent.direction(W, gradient)
        trials = [
            (length, *loss(W + length * step)) for length in (0.25, 0.5, 1.0, 2.0)
        ]
        length, value, next_gradient = min(trials, key=lambda trial: trial[1])
        descent = descent.after(length * step, next_gradient - gradient)
        W, gradient = W + length * step, next_gradient
    pooled = LogisticRegression(tol=1e-10, max_iter=5000).fit(X, y)
    best = like.from_rows(np.vstack([pooled.coef_.T, pooled.intercept_]))
    assert loss(best)[0] < first - 0.1
    assert value == pytest.approx(loss(best)[0], rel=1e-6)
    np.testing.assert_allclose(
        W, best - best.mean(axis=1, keepdims=True), rtol=0, atol=0.01
    )


def test_the_first_direction_is_newtons_for_the_likelihood():
    X, y = rows()
    like, W = likelihood(X, y), 0.3 * model()
    gradient = like.value_and_gradient(W)[1]
    step = Descent(like).direction(W, gradient)
    gradient_change = like.value_and_gradient(W + 1e-4 * step)[1]
    gradient_change -= like.value_and_gradient(W - 1e-4 * step)[1]
    gap = gradient_change / 2e-4 + gradient
    gap -= gap.mean(axis=1, keepdims=True)
    assert np.linalg.norm(gap) < 0.05 * np.linalg.norm(gradient)


def test_the_last_change_is_explained_by_the_last_step():
    X, y = rows()
    like, W = likelihood(X, y), 0.3 * model()
    descent = Descent(like)
    for seed in range(3):
        step = model(seed + 5)
        change = 50 * step + 5 * model(seed + 9)
        descent = descent.after(step, change)
    # The secant equation of quasi-Newton methods, whatever the curvature before.
    np.testing.assert_allclose(descent.direction(W, change), -step, atol=1e-9)


def test_what_is_not_convex_or_long_ago_is_forgotten(monkeypatch):
    like = likelihood(*rows())
    descent, step = Descent(like), model()
    assert descent.after(step, -step) is descent
    assert descent.after(step, 0 * step) is descent
    monkeypatch.setattr(descent_module, "_MOST_PAIRS", 2)
    for scale in (1.0, 2.0, 3.0):
        descent = descent.after(scale * step, scale * step)
    assert [float(one[0, 0] / step[0, 0]) for one in descent.steps] == [2.0, 3.0]
    assert [float(one[0, 0] / step[0, 0]) for one in descent.changes] == [2.0, 3.0]


def test_nothing_moves_that_nothing_is_told_of():
    X, y = rows()
    X[:, 2] = 7.0
    like = likelihood(X, y, n_classes=N_CLASSES + 1)
    W = np.column_stack([model(), np.zeros(5)])
    gradient = np.random.default_rng(0).normal(size=W.shape)
    step = Descent(like).direction(W, gradient)
    assert not step[:, -1].any() and not step[2].any()
    assert step[[0, 1, 3, 4], :-1].all()
    assert np.vdot(step[:, :-1], gradient[:, :-1]) < 0


def test_a_likelihood_can_be_as_steep_as_one_likes():
    X, y = rows()
    like, W, gradient = likelihood(X, y), model(), model(3)
    other = like.with_gradient(W, gradient)
    np.testing.assert_allclose(other.value_and_gradient(W)[1], gradient, atol=1e-9)
    # Only by a linear term.
    V = model(4)
    gap = other.value_and_gradient(V)[1] - like.value_and_gradient(V)[1]
    expected = gradient - like.value_and_gradient(W)[1]
    np.testing.assert_allclose(gap, expected, atol=1e-9)


def test_terms_of_nodes_add_up():
    X, y = rows()
    halves = [slice(0, 120), slice(120, None)]
    nodes = []
    for in_node in halves:
        moments = class_moments(X[in_node], y[in_node])
        nodes.append(NodeLoss(moments, np.arange(3), model(in_node.start), model(9)))
    like = Likelihood.of(nodes, 3)
    slopes = [like.at_own_model(k, node)[0] for k, node in enumerate(nodes)]
    np.testing.assert_allclose(like.slope, sum(slopes), atol=1e-12)
    assert all(np.abs(slope).max() > 0.1 for slope in slopes)
    W = model(7)
    loss_of_all = like.loss.value_and_gradient(W)[0]
    losses = [like.expected(W, [k])[0] for k in range(2)]
    assert loss_of_all == pytest.approx(sum(losses))
    assert like.expected(W, [1, 0])[0] == pytest.approx(loss_of_all)
    alone = Likelihood.of(nodes[1:], 3)
    shift = alone.loss.moments.origin - like.loss.moments.origin
    W_about_origin_of_one = np.vstack([W[:-1], W[-1] + shift @ W[:-1]])
    alone_value = alone.loss.value_and_gradient(W_about_origin_of_one)[0]
    assert alone_value != pytest.approx(losses[1])
    of_two_outputs = like.expected(W, [0], np.array([True, True, False]))[0]
    assert of_two_outputs < losses[0]

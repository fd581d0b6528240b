# SPDX-License-Identifier: BSD-3-Clause
"""The likelihood of nodes' sums: its terms, and the model that minimizes it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.node_losses import labelled_rows, node_of, nodes_of
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

KINDS = ["class", "shared", "diagonal"]


def centered(W):
    """Weights less their mean over outputs, which changes no probability."""
    return W - W.mean(axis=1, keepdims=True)


def on_rows(likelihood, W):
    """Weights for rows as they are, of those for rows less the origin."""
    return centered(likelihood.to_rows(W))


def weights_of_logistic_regression(model):
    """Weights of a fitted LogisticRegression, one column a class."""
    W = np.vstack([model.coef_.T, model.intercept_])
    return W * [-0.5, 0.5] if W.shape[1] == 1 else centered(W)


def pooled_logistic_regression(X, y, C):
    """LogisticRegression of standardized features, as weights for rows as they are."""
    scale = X.std(axis=0)
    scale[scale == 0] = 1.0
    center = X.mean(axis=0)
    model = LogisticRegression(C=C, tol=1e-10, max_iter=10_000)
    W = weights_of_logistic_regression(model.fit((X - center) / scale, y))
    W[:-1] /= scale[:, None]
    W[-1] -= center @ W[:-1]
    return W


# ---- the terms of the loss ------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [[0, 1, 2], [0, 2]])
def test_with_share_1_the_gradient_at_a_nodes_model_is_that_of_its_rows(kind, columns):
    """Rows of a class that its model does not have are left out of it."""
    X, y = labelled_rows(mean=50.0)
    columns = np.array(columns)
    W = np.random.default_rng(1).standard_normal((4, len(columns)))
    node = node_of(X, y, columns, W, kind=kind)
    likelihood = Likelihood.from_nodes([node], 3, share=1.0, C=2.0)
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
        # The node's linear term is of the classes only that its model has.
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
def test_the_slope_is_the_share_of_the_whole_correction(share):
    X, y = labelled_rows()
    node = node_of(X, y, np.arange(3), np.ones((4, 3)) * [0.2, -0.1, 0.4])
    whole_slope = Likelihood.from_nodes([node], 3, share=1.0).slope
    slope = Likelihood.from_nodes([node], 3, share=share).slope
    factor = 600 / (600 + 3 * 3) if share is None else share
    np.testing.assert_allclose(slope, factor * whole_slope, rtol=1e-12)
    assert np.abs(whole_slope).max() > 1.0


def test_the_share_is_larger_where_variances_alone_are_sent():
    assert share_of_gradient(100.0, 25, 4, diagonal=False) == 0.5
    assert share_of_gradient(100.0, 25, 4, diagonal=True) == 100 / 108
    X, y = labelled_rows()
    node = node_of(
        X, y, np.arange(3), np.ones((4, 3)) * [0.2, -0.1, 0.4], kind="diagonal"
    )
    whole_slope = Likelihood.from_nodes([node], 3, share=1.0).slope
    np.testing.assert_allclose(
        Likelihood.from_nodes([node], 3).slope, 600 / 606 * whole_slope, rtol=1e-12
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_the_derivative_of_the_value(kind):
    X, y = labelled_rows(mean=5.0)
    likelihood = Likelihood.from_nodes(nodes_of(X, y, y // 2, kind=kind), 3, C=0.1)
    W = np.random.default_rng(0).standard_normal((4, 3))
    gradient = likelihood.value_and_gradient(W)[1]
    step = 1e-5
    for index in np.ndindex(*W.shape):
        move = np.zeros_like(W)
        move[index] = step
        ahead = likelihood.value_and_gradient(W + move)[0]
        behind = likelihood.value_and_gradient(W - move)[0]
        slope = (ahead - behind) / (2 * step)
        assert gradient[index] == pytest.approx(
            slope, abs=1e-5 * np.abs(gradient).max()
        )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_penalty_is_that_of_logistic_regression(n_classes):
    """With two classes (-w/2, w/2) costs what w does."""
    X, y = labelled_rows(n_classes=n_classes, scale=np.array([1.0, 7.0, 0.1]))
    node = NodeLoss(moments=class_moments(X, y), columns=np.arange(n_classes))
    W = centered(np.random.default_rng(0).standard_normal((4, n_classes)))
    weak, strong = (Likelihood.from_nodes([node], n_classes, C=C) for C in (1e12, 0.5))
    penalty = strong.value_and_gradient(W)[0] - weak.value_and_gradient(W)[0]
    coef = W[:-1, 1:] - W[:-1, :1] if n_classes == 2 else W[:-1]
    expected = 0.5 * np.sum((X.std(axis=0)[:, None] * coef) ** 2) / 0.5
    assert penalty == pytest.approx(expected, rel=1e-6)


def test_models_have_the_same_logits_on_rows_and_about_the_origin():
    X, y = labelled_rows(mean=30.0)
    likelihood = Likelihood.from_nodes(
        [NodeLoss(moments=class_moments(X, y), columns=np.arange(3))], 3
    )
    W = np.random.default_rng(0).standard_normal((4, 3))
    inside = likelihood.from_rows(W)
    about = X - likelihood.loss.moments.origin
    np.testing.assert_allclose(
        about @ inside[:-1] + inside[-1], X @ W[:-1] + W[-1], rtol=1e-9
    )
    np.testing.assert_allclose(likelihood.to_rows(inside), W, rtol=1e-12)
    np.testing.assert_allclose(likelihood.loss.moments.origin, X.mean(axis=0))


# ---- the minimum ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "C"),
    [("class", 0.01), ("class", 100.0), ("shared", 1.0), ("diagonal", 100.0)],
)
def test_the_gradient_at_the_minimum_is_about_zero(kind, C):
    X, y = labelled_rows(mean=100.0, scale=np.array([1.0, 20.0, 0.05]))
    likelihood = Likelihood.from_nodes(nodes_of(X, y, y % 2, kind=kind), 3, C=C)
    W = likelihood.minimize()
    value, gradient = likelihood.value_and_gradient(W)
    # In units of the features: nats a row that a move of one logit could still gain.
    unit = np.append(likelihood.scales, 1.0)[:, None]
    assert np.abs(gradient / unit).max() < 2e-3 * likelihood.n_rows
    # A search from far away ends at as small a loss, to 2e-4 nats a row.
    distant_start = 3.0 * np.random.default_rng(1).standard_normal((4, 3)) / unit
    other = likelihood.minimize(distant_start)
    other_value = likelihood.value_and_gradient(other)[0]
    assert other_value == pytest.approx(value, abs=2e-4 * likelihood.n_rows)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_minimum_is_that_of_scipys_bfgs(kind, n_classes):
    X, y = labelled_rows(n_classes=n_classes)
    nodes = nodes_of(X, y, np.arange(600) % 2, kind=kind)
    likelihood = Likelihood.from_nodes(nodes, n_classes)
    shape = (4, n_classes)

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


@pytest.mark.parametrize(
    ("kind", "C", "n_classes"),
    [
        ("class", 0.01, 2),
        ("class", 1.0, 4),
        ("shared", 0.01, 4),
        ("shared", 1.0, 2),
        ("diagonal", 0.01, 2),
        ("diagonal", 1.0, 4),
    ],
)
def test_the_logistic_regression_of_a_single_node_is_the_minimum(kind, C, n_classes):
    """Whether its rows are Gaussian or not, as the corrected gradient is theirs."""
    X, y = labelled_rows(
        n_classes=n_classes, mean=20.0, scale=np.array([1.0, 9.0, 0.1])
    )
    W = pooled_logistic_regression(X, y, C)
    node = node_of(X, y, np.arange(n_classes), W, kind=kind)
    likelihood = Likelihood.from_nodes([node], n_classes, C=C, share=1.0)
    centred_W = likelihood.from_rows(W)
    unit = np.append(likelihood.scales, 1.0)[:, None]
    gradient = likelihood.value_and_gradient(centred_W)[1] / unit
    assert np.abs(gradient).max() < 1e-5 * len(X)
    minimum = on_rows(likelihood, likelihood.minimize())
    gap = (X @ minimum[:-1] + minimum[-1]) - (X @ W[:-1] + W[-1])
    assert np.abs(gap).max() < 0.02


def test_without_the_correction_the_minimum_is_another_model():
    X, y = labelled_rows()
    W = pooled_logistic_regression(X, y, 1.0)
    node = node_of(X, y, np.arange(3), W)
    likelihood = Likelihood.from_nodes([node], 3, share=0.0)
    minimum = on_rows(likelihood, likelihood.minimize())
    assert np.abs((minimum - W)[:-1] * X.std(axis=0)[:, None]).max() > 0.1


@pytest.mark.parametrize(
    ("n_classes", "C"), [(2, 1e-3), (3, 0.03), (2, 1.0), (3, 100.0)]
)
def test_logistic_regression_is_recovered_where_classes_are_gaussian(n_classes, C):
    """Their covariances are unequal, so that no linear model is the true one."""
    rng = np.random.default_rng(n_classes)
    n = 60_000
    d = 3
    y = rng.integers(n_classes, size=n)
    shapes = rng.standard_normal((n_classes, d, d))
    X = np.einsum("ij,ijk->ik", rng.standard_normal((n, d)), shapes[y])
    X += rng.standard_normal((n_classes, d))[y]
    X = X * [1e-3, 1.0, 50.0] + [3.0, -40.0, 1e4]
    owners = rng.integers(4, size=n)
    nodes = [
        NodeLoss(
            moments=class_moments(X[owners == k], y[owners == k]),
            columns=np.arange(n_classes),
        )
        for k in range(4)
    ]
    likelihood = Likelihood.from_nodes(nodes, n_classes, C=C)
    minimum = on_rows(likelihood, likelihood.minimize())
    W = pooled_logistic_regression(X, y, C)
    # Standard errors of the rows' model, in units of the features. Sums of Gaussian
    # rows know as much as the rows, so the two differ by at most about as much; the
    # search and the points that stand for Gaussians add some 0.005 logits.
    center = X.mean(axis=0)
    unit = np.append(X.std(axis=0), 1.0)[:, None]
    errors = standard_errors((X - center) / X.std(axis=0), X @ W[:-1] + W[-1], C)

    def on_scaled_features(V):
        return unit * np.vstack([V[:-1], V[-1] + center @ V[:-1]])

    scaled_minimum = on_scaled_features(minimum)
    scaled_W = on_scaled_features(W)
    assert (np.abs(scaled_minimum - scaled_W) < 3 * errors + 0.005).all()
    assert errors.max() < 0.05
    assert np.abs(scaled_W[:-1]).max() > 0.3


def standard_errors(X, logits, C):
    """Those of weights of a penalized softmax regression, less their mean by row."""
    rows = np.column_stack([X, np.ones(len(X))])
    proba = softmax(logits, axis=1)
    size = rows.shape[1]
    n_classes = proba.shape[1]
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


def test_a_smaller_C_recovers_a_smaller_model():
    X, y = labelled_rows(3000)
    node = NodeLoss(moments=class_moments(X, y), columns=np.arange(3))
    sizes = []
    for C in (1e-4, 1e-3, 1e-2, 1.0):
        likelihood = Likelihood.from_nodes([node], 3, C=C)
        minimum = on_rows(likelihood, likelihood.minimize())[:-1]
        weights = pooled_logistic_regression(X, y, C)[:-1]
        sizes.append(np.linalg.norm(minimum))
        assert sizes[-1] == pytest.approx(np.linalg.norm(weights), rel=0.1)
    assert sizes[0] < 0.5 * sizes[1] < 0.5 * sizes[2]


# ---- invariances ----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_nodes_does_not_matter(kind):
    X, y = labelled_rows(mean=10.0)
    nodes = nodes_of(X, y, y + 3 * (np.arange(600) % 2), kind=kind)
    reference = Likelihood.from_nodes(nodes, 3)
    W = reference.minimize()
    for order in itertools.islice(
        itertools.permutations(range(len(nodes))), 1, 700, 233
    ):
        likelihood = Likelihood.from_nodes([nodes[k] for k in order], 3)
        np.testing.assert_allclose(
            likelihood.slope, reference.slope, atol=1e-9 * np.abs(reference.slope).max()
        )
        np.testing.assert_allclose(likelihood.minimize(), W, atol=1e-6)


def test_units_and_zero_of_features_do_not_matter():
    X, y = labelled_rows()

    def likeliest_logits(unit, zero):
        """Logits of all rows where features are ``unit * X + zero``."""
        rows = X * unit + zero
        rng = np.random.default_rng(0)
        nodes = []
        for k in range(2):
            in_node = np.arange(600) % 2 == k
            W = rng.standard_normal((4, 3))
            W[:-1] /= unit[:, None]
            W[-1] -= zero @ W[:-1]
            nodes.append(node_of(rows[in_node], y[in_node], np.arange(3), W))
        likelihood = Likelihood.from_nodes(nodes, 3)
        W = on_rows(likelihood, likelihood.minimize())
        return rows @ W[:-1] + W[-1]

    logits = likeliest_logits(unit=np.ones(3), zero=np.zeros(3))
    units = np.array([1e-3, 10.0, 400.0])
    zero = np.array([5.0, -300.0, 1e4])
    logits_in_units = likeliest_logits(unit=units, zero=zero)
    np.testing.assert_allclose(logits_in_units, logits, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_twice_the_weight_of_nodes_is_half_the_penalty(n_classes):
    X, y = labelled_rows(n_classes=n_classes)
    nodes = nodes_of(X, y, np.arange(600) % 2)
    heavy_nodes = [node.weighted(2.0) for node in nodes]
    heavy = Likelihood.from_nodes(heavy_nodes, n_classes, C=0.5, share=1.0)
    plain = Likelihood.from_nodes(nodes, n_classes, C=1.0, share=1.0)
    W = np.random.default_rng(0).standard_normal((4, n_classes))
    value, gradient = plain.value_and_gradient(W)
    heavy_value, heavy_gradient = heavy.value_and_gradient(W)
    assert heavy_value == pytest.approx(2 * value, rel=1e-12)
    np.testing.assert_allclose(heavy_gradient, 2 * gradient, atol=1e-9)
    np.testing.assert_allclose(heavy.minimize(), plain.minimize(), atol=1e-3)


def test_a_node_of_weight_2_counts_as_two_equal_nodes():
    X, y = labelled_rows()
    one, two = nodes_of(X, y, np.arange(600) % 2)
    heavy = Likelihood.from_nodes([one.weighted(2.0), two], 3, share=1.0)
    twins = Likelihood.from_nodes([one, one, two], 3, share=1.0)
    W = np.random.default_rng(0).standard_normal((4, 3))
    value, gradient = heavy.value_and_gradient(W)
    twins_value, twins_gradient = twins.value_and_gradient(W)
    assert value == pytest.approx(twins_value, rel=1e-12)
    np.testing.assert_allclose(
        gradient, twins_gradient, atol=1e-9 * np.abs(gradient).max()
    )


# ---- what is missing ------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_constant_features_get_no_weight(kind):
    X, y = labelled_rows(d=4, n_classes=3)
    X[:, 1] = 7.3
    nodes = nodes_of(X, y, np.arange(600) % 2, kind=kind)
    W = Likelihood.from_nodes(nodes, 3).minimize()
    assert (W[1] == 0).all() and (np.abs(W[[0, 2, 3]]) > 1e-3).all()


@pytest.mark.parametrize("kind", KINDS)
def test_constant_features_do_not_change_the_weights_of_others(kind):
    X, y = labelled_rows(d=4, n_classes=3)
    X[:, 1] = 7.3
    X_varying = np.delete(X, 1, axis=1)
    without_constant = Likelihood.from_nodes(
        [
            NodeLoss(
                moments=class_moments(X_varying, y, kind=kind), columns=np.arange(3)
            )
        ],
        3,
    )
    with_constant = Likelihood.from_nodes(
        [NodeLoss(moments=class_moments(X, y, kind=kind), columns=np.arange(3))], 3
    )
    np.testing.assert_allclose(
        np.delete(with_constant.minimize(), 1, axis=0),
        without_constant.minimize(),
        atol=1e-5,
    )


def test_a_class_without_rows_at_any_node_is_never_likely():
    X, y = labelled_rows(n_classes=2)
    node = NodeLoss(moments=class_moments(X, 2 * y), columns=np.array([0, 2]))
    likelihood = Likelihood.from_nodes([node], 4)
    assert likelihood.seen.tolist() == [True, False, True, False]
    W = likelihood.to_rows(likelihood.minimize())
    distant_rows = 100.0 * np.random.default_rng(0).standard_normal((1000, 3))
    logits = np.vstack([X, distant_rows]) @ W[:-1] + W[-1]
    proba = softmax(logits, axis=1)
    assert proba[:, [1, 3]].max() < 1e-8
    # The others have the model of two classes, whose penalty is half as large.
    alone = Likelihood.from_nodes(
        [NodeLoss(moments=class_moments(X, y), columns=np.arange(2))], 2, C=2.0
    )
    two = on_rows(alone, alone.minimize())
    np.testing.assert_allclose(centered(W[:, [0, 2]]), two, atol=1e-3)


def test_a_class_that_only_gradients_have_does_not_disturb_the_others():
    """A class of too few rows is not in a node's moments, but in its gradient."""
    X, y = labelled_rows(400)
    small = np.flatnonzero(y == 2)[:3]
    chosen = np.append(np.flatnonzero(y < 2), small)
    X, y = X[chosen], y[chosen]
    W = np.random.default_rng(0).standard_normal((4, 3))
    node = node_of(X, y, np.arange(3), W)
    moments = class_moments(X, y, min_cluster_size=5)
    # Without the small class the moments have another origin.
    shift = node.moments.origin - moments.origin
    gradient = node.gradient.copy()
    moved_W = node.W.copy()
    moved_W[-1] -= shift @ node.W[:-1]
    gradient[:-1] += np.outer(shift, gradient[-1])
    node = NodeLoss(moments=moments, columns=node.columns, W=moved_W, gradient=gradient)
    likelihood = Likelihood.from_nodes([node], 3)
    minimum = likelihood.minimize()
    assert likelihood.seen.tolist() == [True, True, False]
    # The slope has a part that is common to all outputs. It must not drive weights.
    assert np.abs(minimum[:, :2]).max() < 50
    two = Likelihood.from_nodes([NodeLoss(moments=moments, columns=np.arange(2))], 3)

    def proba_of_first_two(V):
        return softmax((X @ V[:-1] + V[-1])[:, :2], axis=1)

    proba = proba_of_first_two(on_rows(likelihood, minimum))
    proba_of_two = proba_of_first_two(on_rows(two, two.minimize()))
    assert np.abs(proba - proba_of_two).mean() < 0.1


def test_nodes_of_one_class_each_make_the_model_of_all_rows():
    """Such nodes have no model, so that there are only means and scatters."""
    X, y = labelled_rows(3000)
    nodes = nodes_of(X, y, y)
    assert all(node.W is None or node.gradient is None for node in nodes)
    likelihood = Likelihood.from_nodes(nodes, 3)
    together = Likelihood.from_nodes(
        [NodeLoss(moments=class_moments(X, y), columns=np.arange(3))], 3
    )
    minimum = on_rows(likelihood, likelihood.minimize())
    np.testing.assert_allclose(
        minimum, on_rows(together, together.minimize()), atol=1e-6
    )
    accuracy = np.mean(np.argmax(X @ minimum[:-1] + minimum[-1], axis=1) == y)
    W = pooled_logistic_regression(X, y, 1.0)
    assert accuracy > np.mean(np.argmax(X @ W[:-1] + W[-1], axis=1) == y) - 0.01


# ---- other methods --------------------------------------------------------------


def test_an_added_loss_is_minimised_too():
    X, y = labelled_rows()
    likelihood = Likelihood.from_nodes(
        [NodeLoss(moments=class_moments(X, y), columns=np.arange(3))], 3
    )
    target = np.random.default_rng(0).standard_normal((4, 3))

    def heavy(W):
        return 1e7 * np.sum((W - target) ** 2), 2e7 * (W - target)

    np.testing.assert_allclose(likelihood.minimize(None, heavy), target, atol=1e-2)


def test_the_loss_of_rows_at_the_server_can_be_added():
    X, y = labelled_rows()
    likelihood = Likelihood.from_nodes(
        [NodeLoss(moments=class_moments(X, y), columns=np.arange(3))], 3
    )
    added_rows, labels = labelled_rows(seed=9)
    extended_rows = np.column_stack(
        [added_rows - likelihood.loss.moments.origin, np.ones(600)]
    )

    def loss_of_added_rows(W):
        losses, residuals = log_losses(extended_rows @ W, labels)
        return losses.sum(), extended_rows.T @ residuals

    W = likelihood.minimize(None, loss_of_added_rows)
    gradient = likelihood.value_and_gradient(W)[1] + loss_of_added_rows(W)[1]
    # 2e-3 nats for each of the 600 rows of the node and the 600 at the server.
    assert np.abs(gradient).max() < 2e-3 * 1200


@pytest.mark.parametrize("factor", [0.01, 3.0, 200.0])
def test_the_temperature_makes_up_for_the_size_of_logits(factor):
    X, y = labelled_rows(6000)
    likelihood = Likelihood.from_nodes(
        [NodeLoss(moments=class_moments(X, y), columns=np.arange(3))], 3
    )
    W = likelihood.from_rows(pooled_logistic_regression(X, y, 1.0))
    best = likelihood.inverse_temperature(W)
    assert likelihood.inverse_temperature(factor * W) == pytest.approx(
        best / factor, rel=1e-3
    )
    # These are about the probabilities that logistic regression has.
    assert 0.8 < best < 1.25
    assert likelihood.inverse_temperature(np.zeros((4, 3))) == 1.0

    def loss(f):
        return likelihood.loss.value_and_gradient(f * W)[0]

    assert loss(best) <= min(loss(0.97 * best), loss(1.03 * best))


@pytest.mark.parametrize("kind", KINDS)
def test_the_discriminant_analysis_is_that_of_all_rows(kind):
    X, y = labelled_rows(mean=10.0, scale=np.array([1.0, 9.0, 0.1]))
    likelihood = Likelihood.from_nodes(
        [NodeLoss(moments=class_moments(X, y, kind=kind), columns=np.arange(3))], 3
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


def test_for_gaussian_rows_the_value_is_the_loss_of_these_rows():
    rng = np.random.default_rng(0)
    n = 100_000
    y = rng.integers(3, size=n)
    X = (
        rng.standard_normal((n, 2)) * [1.0, 2.0]
        + np.array([[0, 0], [2, 1], [-1, 3]])[y]
    )
    likelihood = Likelihood.from_nodes(
        [NodeLoss(moments=class_moments(X, y), columns=np.arange(3))], 3, C=1e9
    )
    W = rng.standard_normal((3, 3))
    logits = X @ W[:-1] + W[-1]
    losses = logsumexp(logits, axis=1) - logits[np.arange(n), y]
    value = likelihood.value_and_gradient(likelihood.from_rows(W))[0]
    # Four standard errors of the sum over n rows.
    assert abs(value - losses.sum()) < 4 * losses.std() * np.sqrt(n)


def test_variances_keep_more_parts_than_matrices():
    """What lies between merged means is a covariance, which variances cannot hold."""
    rng = np.random.default_rng(0)
    means = rng.standard_normal((700, 3))
    X = means + 1e-3 * rng.standard_normal(means.shape)
    y = np.arange(700) % 2

    def number_of_parts(kind):
        moments = class_moments(X, y, kind=kind, parts=np.arange(700))
        likelihood = Likelihood.from_nodes(
            [NodeLoss(moments=moments, columns=np.arange(2))], 2
        )
        return len(likelihood.loss.moments.counts)

    assert number_of_parts("diagonal") == 700
    assert number_of_parts("shared") <= 512


@pytest.mark.parametrize(
    ("C", "n_parameters"), [(1e6, 4.0), (1e-9, 1.0)], ids=["weak", "strong"]
)
def test_the_penalty_decides_how_many_parameters_count(C, n_parameters):
    """Of two classes all weights and the intercept do, or the intercept alone."""
    X, y = labelled_rows(mean=50.0)
    X, y = X[y < 2], y[y < 2]
    likelihood = Likelihood.from_nodes(
        [node_of(X, y, np.arange(2), np.zeros((4, 2)))], 2, C=C
    )
    W = likelihood.minimize()
    assert X.shape[1] == 3
    assert likelihood.n_parameters(W) == pytest.approx(n_parameters, abs=0.01)

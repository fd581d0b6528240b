# SPDX-License-Identifier: BSD-3-Clause
"""Newton steps from sums of nodes, and covariances."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.odds import pooled_regression, with_intercept

from skgems.evaluation import (
    NodeSums,
    SingularError,
    inverse_of,
    newton_step,
    robust_covariance,
    score_sums,
    site_covariance,
)


def rows(n_classes=3, n_rows=240):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 2))
    return X, rng.integers(n_classes, size=n_rows)


def nodes_at(theta, X, codes, parts):
    """Sums of each part of the rows at a model."""
    n_inputs = X.shape[1] + 1
    W = np.column_stack([np.zeros(n_inputs), theta.reshape(-1, n_inputs).T])
    nodes = []
    for part in parts:
        sums = score_sums(X[part], codes[part], W)
        nodes.append(
            NodeSums(
                gradient=sums.gradient,
                information=sums.information,
                middle=sums.middle,
            )
        )
    return nodes


@pytest.mark.parametrize("n_classes", [2, 3])
def test_steps_from_parts_of_rows_end_at_the_pooled_regression(n_classes):
    X, codes = rows(n_classes)
    n_params = 3 * (n_classes - 1)
    theta = np.zeros(n_params)
    parts = [np.arange(k, len(X), 3) for k in range(3)]
    for _ in range(8):
        nodes = nodes_at(theta, X, codes, parts)
        step = newton_step(nodes, [np.arange(n_params)] * 3, start=theta)
        theta = step.params
    expected, covariance, robust = pooled_regression(with_intercept(X), codes)
    np.testing.assert_allclose(theta, expected, atol=1e-8)
    np.testing.assert_allclose(step.model_covariance, covariance, rtol=1e-6, atol=1e-9)
    places = [np.arange(n_params)] * 3
    np.testing.assert_allclose(
        robust_covariance(step, nodes, places), robust, rtol=1e-6, atol=1e-9
    )
    units = np.arange(len(X)) % 3
    _, _, by_site = pooled_regression(with_intercept(X), codes, units=units)
    np.testing.assert_allclose(
        site_covariance(step, nodes, places), by_site * 3 / 2, rtol=1e-5, atol=1e-8
    )


def test_parameters_of_nodes_have_places_among_all():
    """Each of two nodes has an intercept of its own."""
    X, codes = rows(2)
    parts = [np.arange(0, len(X), 2), np.arange(1, len(X), 2)]
    places = [np.array([0, 1, 2]), np.array([0, 1, 3])]
    theta = np.zeros(4)
    for _ in range(8):
        nodes = [
            nodes_at(theta[of_node], X, codes, [part])[0]
            for of_node, part in zip(places, parts, strict=True)
        ]
        theta = newton_step(nodes, places, start=theta).params
    levels = (np.arange(len(X)) % 2)[:, None] == np.arange(2)
    expected, _, _ = pooled_regression(np.column_stack([X, levels]), codes)
    np.testing.assert_allclose(theta, expected, atol=1e-8)


def test_a_penalty_takes_part_in_the_step():
    X, codes = rows(2)
    penalty = np.diag([1e6, 1e6, 0.0])
    (node,) = nodes_at(np.zeros(3), X, codes, [np.arange(len(X))])
    step = newton_step([node], [np.arange(3)], start=np.zeros(3), penalty=penalty)
    assert np.abs(step.params[:2]).max() < 1e-3
    assert step.model_covariance[0, 0] < 1e-8


def test_what_is_not_decided_is_named():
    matrix = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    with pytest.raises(SingularError) as caught:
        inverse_of(matrix)
    assert caught.value.params == [0, 1]
    with pytest.raises(SingularError) as caught:
        inverse_of(np.diag([1.0, 0.0]))
    assert caught.value.params == [1]
    # Sizes of columns do not matter.
    scale = np.array([1e-6, 1.0, 1e6])
    matrix = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 3.0]])
    scaled = matrix * np.outer(scale, scale)
    np.testing.assert_allclose(
        inverse_of(scaled) * np.outer(scale, scale),
        np.linalg.inv(matrix),
        atol=1e-12,
    )

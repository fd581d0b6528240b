# SPDX-License-Identifier: BSD-3-Clause
"""The search for the likeliest model: where it starts and ends, and its coordinates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.node_losses import labelled_rows

from skgems.moments import Likelihood, NodeLoss, class_moments
from skgems.moments import _likelihood_search as search
from skgems.moments._likelihood_search import Coordinates, as_sure_as_likely


def likelihood_of_variances():
    """A likelihood of one node, without corrections and nearly without penalty."""
    X, y = labelled_rows(300)
    node = NodeLoss(moments=class_moments(X, y, kind="diagonal"), columns=np.arange(3))
    return Likelihood.from_nodes([node], 3, C=1e4)


def test_corrections_that_promise_no_loss_below_zero_are_not_bounded():
    plain = likelihood_of_variances()
    bounded, W = plain.bounded()
    assert bounded is plain
    np.testing.assert_array_equal(W, plain.minimize())


def test_corrections_that_promise_a_loss_below_zero_are_halved_until_they_do_not():
    plain = likelihood_of_variances()
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


def test_a_search_ends_where_no_step_leads_down():
    likelihood = likelihood_of_variances()
    n_evaluations = 0

    def wrong_gradient(W):
        # Every step along it leads up.
        nonlocal n_evaluations
        n_evaluations += 1
        value, gradient = likelihood.value_and_gradient(W)
        return 0.0, -2.0 * gradient

    start = likelihood.discriminant_analysis()
    W = likelihood.minimize(start, wrong_gradient)
    np.testing.assert_allclose(W, start, atol=1e-6 * np.abs(start).max())
    assert n_evaluations < 100


def test_a_search_can_end_where_the_loss_is_low_enough():
    X, y = labelled_rows(300)
    likelihood = Likelihood.from_nodes(
        [NodeLoss(moments=class_moments(X, y), columns=np.arange(3))], 3
    )

    def loss(W):
        return (
            likelihood.value_and_gradient(W)[0] - likelihood.penalty(W)[0]
        ) / likelihood.n_rows

    lowest = loss(likelihood.minimize())
    start = likelihood.slope
    level = (lowest + loss(start)) / 2
    assert lowest < loss(likelihood.minimize(start, least=level)) < level
    np.testing.assert_array_equal(
        likelihood.minimize(start, least=0.99 * lowest), likelihood.minimize(start)
    )


def test_no_model_is_evaluated_twice():
    likelihood = likelihood_of_variances()
    models = []

    def recorded(W):
        models.append(W.tobytes())
        return 0.0, np.zeros_like(W)

    likelihood.minimize(None, recorded, tol=1e-10)
    assert len(models) > search._FIRST_STEPS  # so that it began anew
    assert len(set(models)) == len(models)


@pytest.mark.parametrize("zero_row", [None, np.ones(3)], ids=["intercept", "lever"])
@pytest.mark.parametrize(
    ("kind", "most_bytes"),
    [("class", 2**22), ("class", 0), ("diagonal", 0)],
    ids=["own", "shared", "diagonal"],
)
def test_gradients_in_coordinates_are_those_of_their_models(
    monkeypatch, kind, most_bytes, zero_row
):
    monkeypatch.setattr(search, "MOST_BLOCK_BYTES", most_bytes)
    X, y = labelled_rows(300)
    X[:, 1] = 1.0  # constant, and 0 of the rows less the one without logits
    likelihood = Likelihood.from_nodes(
        [NodeLoss(moments=class_moments(X, y, kind=kind), columns=np.arange(3))],
        4,  # there are no rows of one class
        zero_row=zero_row,
    )
    rng = np.random.default_rng(0)
    coordinates = Coordinates(likelihood, np.zeros((4, 4)), curvature=0.0)
    n_weights = 2 if zero_row is not None else 3
    z = rng.standard_normal(3 * n_weights)
    gradient = rng.standard_normal((4, 4))
    W = coordinates.weights(z)
    assert np.vdot(W, gradient) == pytest.approx(
        z @ coordinates.gradient(gradient), rel=1e-9
    )
    assert not W[1].any() and not W[:, 3].any() and W[0, :3].all()
    np.testing.assert_allclose(likelihood.with_zero_row(W), W)
    # Coordinates leave nothing out: a model of zeros has no other coordinates.
    basis = np.stack([coordinates.weights(unit).ravel() for unit in np.eye(len(z))])
    assert np.linalg.matrix_rank(basis) == len(z)


def confused_classes():
    """Two of the classes are confused with each other, and two are not."""
    rng = np.random.default_rng(0)
    n = 4000
    y = rng.integers(4, size=n)
    X = rng.standard_normal((n, 6)) + np.array([[0.0], [0.6], [9.0], [18.0]])[y]
    return Likelihood.from_nodes(
        [NodeLoss(moments=class_moments(X, y), columns=np.arange(4))], 4
    )


def test_coordinates_make_the_loss_as_steep_for_all_outputs():
    likelihood = confused_classes()
    W = likelihood.minimize()
    coordinates = Coordinates(likelihood, W, curvature=0.0)
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((20, 7, 4))
    directions[np.arange(20), :, np.arange(20) % 4] *= 1e9  # of one output each
    curvatures = []
    for direction in directions / 1e9:
        z = direction.ravel() / np.linalg.norm(direction)
        step = 1e-4 * coordinates.weights(z) / np.linalg.norm(coordinates.weights(z))
        gradients = [likelihood.value_and_gradient(W + s * step)[1] for s in (-1, 1)]
        length = 1e-4 / np.linalg.norm(coordinates.weights(z))
        slope = coordinates.gradient(gradients[1] - gradients[0]) / (2 * length)
        curvatures.append(z @ slope)
    assert 0.3 < min(curvatures) <= max(curvatures) < 1.5


def test_shared_coordinates_make_the_loss_less_steep_between_confused_outputs():
    likelihood = confused_classes()
    W = likelihood.minimize()
    variances, between = likelihood.loss.label_variances(W, likelihood.seen)
    apart = search._inverse_root_between(between)
    assert apart[0, 0] < apart[3, 3] / 2
    # A term that all outputs have in common keeps its size.
    np.testing.assert_allclose(apart @ np.ones(4), np.ones(4), rtol=1e-9)
    np.testing.assert_allclose(variances.sum(axis=0), between.diagonal())


def test_curvatures_by_output_have_the_mean_of_all():
    likelihood = confused_classes()
    loss = likelihood.loss
    W = likelihood.minimize()
    variances, _ = loss.label_variances(W, likelihood.seen)
    of_outputs = loss.curvature_by_output(variances)
    mean = loss.curvature_in_weights(variances)
    np.testing.assert_allclose(of_outputs.mean(axis=0), mean, rtol=1e-9, atol=1e-9)
    of_second = loss.curvature_in_weights(variances[:, [1]])
    np.testing.assert_allclose(of_outputs[1], of_second, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("C", [0.001, 10.0])
def test_the_search_starts_no_worse_than_from_weights_of_zero(C):
    # Rows hardly vary within classes: a discriminant analysis is far too sure of them.
    rng = np.random.default_rng(0)
    means = rng.normal(size=(8, 16))
    y = np.arange(32) % 8
    X = means[y] + 0.01 * rng.normal(size=(32, 16))
    moments = class_moments(X, y, kind="class")
    no_model = np.zeros((17, 8))
    likelihood = Likelihood.from_nodes(
        [NodeLoss(moments=moments, columns=np.arange(8), W=no_model)], 8, C=C
    )
    loss = likelihood.value_and_gradient
    start = as_sure_as_likely(likelihood.discriminant_analysis(), loss)
    assert start.value == loss(start.W)[0]
    assert start.value <= loss(no_model)[0]
    assert loss(likelihood.minimize())[0] < loss(no_model)[0]

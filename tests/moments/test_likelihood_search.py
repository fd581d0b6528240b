# SPDX-License-Identifier: BSD-3-Clause
"""The search for the likeliest model: where it starts and ends, and its coordinates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.node_losses import labelled_rows

from skgems.moments import Likelihood, NodeLoss, class_moments
from skgems.moments._likelihood import Coordinates, _as_sure_as_likely


def likelihood_of_variances():
    """A likelihood of one node, without corrections and nearly without penalty."""
    X, y = labelled_rows(300)
    node = NodeLoss(moments=class_moments(X, y, kind="diagonal"), columns=np.arange(3))
    return Likelihood.of([node], 3, C=1e4)


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
    likelihood = Likelihood.of(
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


@pytest.mark.parametrize("kind", ["class", "diagonal"])
def test_coordinates_of_the_search_stand_for_the_same_models(kind):
    X, y = labelled_rows(300)
    X[:, 1] = 7.0  # a constant feature has no weight to search for
    likelihood = Likelihood.of(
        [NodeLoss(moments=class_moments(X, y, kind=kind), columns=np.arange(3))], 4
    )
    rng = np.random.default_rng(0)
    W = rng.standard_normal((4, 4)) * likelihood.seen
    W[1] = 0.0
    coordinates = Coordinates(likelihood, W, curvature=0.0)
    z = coordinates.place(W)
    gradient = rng.standard_normal(W.shape)
    np.testing.assert_allclose(coordinates.weights(z), W, atol=1e-9)
    other_z = rng.standard_normal(z.shape)
    other_W = coordinates.weights(other_z)
    assert np.vdot(other_W, gradient) == pytest.approx(
        other_z @ coordinates.gradient(gradient), rel=1e-9
    )


def test_coordinates_make_the_loss_as_steep_for_all_outputs():
    """Two of the classes are confused with each other, and two are not."""
    rng = np.random.default_rng(0)
    n = 4000
    y = rng.integers(4, size=n)
    X = rng.standard_normal((n, 6)) + np.array([[0.0], [0.6], [9.0], [18.0]])[y]
    likelihood = Likelihood.of(
        [NodeLoss(moments=class_moments(X, y), columns=np.arange(4))], 4
    )
    W = likelihood.minimize()
    coordinates = Coordinates(likelihood, W, curvature=0.0)
    assert coordinates.between[0, 0] > 2 * coordinates.between[3, 3]
    np.testing.assert_allclose(
        coordinates.between @ coordinates.apart, np.eye(4), atol=1e-12
    )
    # A term that all outputs have in common keeps its size.
    np.testing.assert_allclose(coordinates.between @ np.ones(4), np.ones(4), rtol=1e-9)


@pytest.mark.parametrize("C", [0.001, 10.0])
def test_the_search_starts_no_worse_than_from_weights_of_zero(C):
    # Rows hardly vary within classes: a discriminant analysis is far too sure of them.
    rng = np.random.default_rng(0)
    means = rng.normal(size=(8, 16))
    y = np.arange(32) % 8
    X = means[y] + 0.01 * rng.normal(size=(32, 16))
    moments = class_moments(X, y, kind="class")
    no_model = np.zeros((17, 8))
    likelihood = Likelihood.of(
        [NodeLoss(moments=moments, columns=np.arange(8), W=no_model)], 8, C=C
    )
    loss = likelihood.value_and_gradient
    start = _as_sure_as_likely(likelihood.discriminant_analysis(), loss)
    assert loss(start)[0] <= loss(no_model)[0]
    assert loss(likelihood.minimize())[0] < loss(no_model)[0]

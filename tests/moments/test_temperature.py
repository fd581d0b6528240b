# SPDX-License-Identifier: BSD-3-Clause
"""Logits of linear models, and temperatures by which they become probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array, csr_matrix
from scipy.special import softmax
from sklearn.metrics import log_loss

from skgems.moments import (
    LARGEST,
    TemperatureSearch,
    fit_inverse_temperature,
    mean_log_loss,
)
from skgems.moments._temperature import factor_by_grids, factor_by_steps
from skgems.networks import linear_logits


@pytest.fixture
def model():
    rng = np.random.RandomState(0)
    return rng.standard_normal((40, 5)), rng.standard_normal((6, 4))


@pytest.mark.parametrize("convert", [np.asarray, csr_matrix, csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_linear_logits(model, convert, dtype):
    X, W = model
    logits = linear_logits(convert(X.astype(dtype)), W)
    assert isinstance(logits, np.ndarray) and logits.dtype == dtype
    np.testing.assert_allclose(logits, X @ W[:-1] + W[-1], rtol=1e-4, atol=1e-5)


def test_mean_log_loss(model):
    X, W = model
    y = np.arange(40) % 4
    logits = linear_logits(X, W)
    expected = log_loss(y, softmax(logits, axis=1))
    assert mean_log_loss(logits, y) == pytest.approx(expected)
    # No overflow.
    assert mean_log_loss(np.array([[1e5, 0.0]]), np.array([1])) == pytest.approx(1e5)


@pytest.mark.parametrize("factor", [0.03, 1.0, 40.0])
def test_the_factor_of_logits_that_were_divided_is_fitted(factor):
    rng = np.random.RandomState(0)
    truth = 2.0 * rng.standard_normal((4000, 3))
    y = np.array([rng.choice(3, p=p) for p in softmax(truth, axis=1)])
    # An offset of a row changes nothing.
    divided = truth / factor + rng.standard_normal((4000, 1))
    fitted = fit_inverse_temperature(divided, y)
    assert fitted == pytest.approx(factor, rel=0.1)
    best = minimize_scalar(
        lambda f: mean_log_loss(f * divided, y),
        bounds=(0, 3 * factor),
        method="bounded",
    )
    assert fitted == pytest.approx(best.x, rel=0.01)


def test_temperature_is_finite_whatever_the_rows():
    y = np.arange(20) % 2
    separable = np.eye(2)[y]
    for logits in (separable, -separable, 1e9 * separable, 1e-9 * separable):
        factor = fit_inverse_temperature(logits, y)
        assert 0 < factor < np.inf
        confidence = softmax(factor * logits, axis=1).max(axis=1)
        assert np.all(confidence < 1)


def test_the_factor_of_separable_rows_grows_with_their_number():
    y = np.arange(20) % 2
    separable = np.eye(2)[y]
    factor_of_copies = fit_inverse_temperature(
        np.tile(separable, (20, 1)), np.tile(y, 20)
    )
    assert factor_of_copies > fit_inverse_temperature(separable, y)


def test_the_factor_is_one_where_no_two_logits_differ():
    assert fit_inverse_temperature(np.zeros((5, 3)), np.zeros(5, int)) == 1.0
    assert fit_inverse_temperature(np.ones((5, 1)), np.zeros(5, int)) == 1.0


@pytest.mark.parametrize("level", [1.0, 1e30])
def test_logits_that_differ_by_rounding_alone_have_no_temperature(level):
    # The mean of three equal numbers is often another number.
    logits = np.repeat(level * np.random.RandomState(0).uniform(1, 2, 50), 3)
    logits = logits.reshape(50, 3)
    assert (logits - logits.mean(axis=1, keepdims=True)).any()
    assert fit_inverse_temperature(logits, np.arange(50) % 3) == 1.0


@pytest.mark.parametrize("size", [1e-120, 1e-60, 1e-40])
def test_factors_on_small_logits_are_those_that_a_message_may_hold(size):
    rng = np.random.RandomState(0)
    y = np.arange(60) % 3
    logits = rng.standard_normal((60, 3)) + np.eye(3)[y]
    factor = fit_inverse_temperature(size * logits, y)
    at_one = fit_inverse_temperature(logits, y)
    expected = min(at_one / size, LARGEST**2)
    assert factor == pytest.approx(expected)
    search = TemperatureSearch(size=size, n_rows=60)
    assert search.factors.max() <= LARGEST**2


def search_after(search, loss):
    """The search after losses that are a function of the logarithm of a factor."""
    return search.narrow(np.array([loss(u) for u in np.log(search.factors)]))


@pytest.mark.parametrize("lowest", [-6.3, -0.4, 0.0, 2.9, 6.5])
def test_a_grid_is_followed_by_one_about_its_best(lowest):
    search = TemperatureSearch(size=1.0, n_rows=1e9)
    steps = []
    while not search.done:
        previous = search
        search = search_after(search, lambda u: abs(u - lowest))
        # Two steps of the last grid, unless its best is an end.
        steps.append((search.high - search.low) / (previous.high - previous.low))
        assert search.low <= lowest <= search.high
    assert len(steps) == 3
    assert all(np.isclose(step, 1 / 8) or np.isclose(step, 1 / 16) for step in steps)
    assert np.isclose(steps[0], 1 / 8) == (abs(lowest) < 6.4)


@pytest.mark.parametrize("size", [1.0, 30.0])
@pytest.mark.parametrize("lowest", [-1.2, 0.3, 2.0])
def test_the_lowest_point_of_a_parabola_is_reached_in_one_step(lowest, size):
    n_rows = 50.0

    def loss(u):  # without the prior
        return (u - lowest) ** 2 - size * np.exp(u) / n_rows / 10

    search = search_after(TemperatureSearch(size=size, n_rows=n_rows), loss)
    np.testing.assert_allclose(np.log(search.best), lowest, atol=1e-9)


@pytest.mark.parametrize("n_rows", [10.0, 1000.0])
def test_one_row_that_is_a_coin_toss_keeps_factors_finite(n_rows):
    """Of losses exp(-f) it is lowest where exp(-f) is 1 / (10 n)."""
    search = TemperatureSearch(size=1.0, n_rows=n_rows)
    while not search.done:
        search = search_after(search, lambda u: np.exp(-np.exp(u)))
    np.testing.assert_allclose(search.best, np.log(10 * n_rows), rtol=0.01)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_grids_find_what_a_search_of_factors_finds(scale):
    def curve(factors):
        return np.log1p(np.exp(-factors / scale)) + (factors / scale) ** 1.5

    search = TemperatureSearch(size=1 / scale, n_rows=1e12)
    n_factors = 0
    while not search.done:
        n_factors += len(search.factors)
        search = search.narrow(curve(search.factors))
    fine = np.geomspace(search.best / 1.05, search.best * 1.05, 100001)
    assert search.best == pytest.approx(fine[np.argmin(curve(fine))], rel=2e-4)
    assert n_factors == 3 * 17


@pytest.mark.parametrize("edge", [1e-3, 1e3])
def test_factors_stay_within_bounds(edge):
    search = TemperatureSearch(size=2.0, n_rows=1e300)
    while not search.done:
        search = search.narrow(search.factors * (1.0 if edge < 1 else -1.0))
    assert search.best == pytest.approx(edge / 2.0)


@pytest.mark.parametrize("lowest", [-9.0, -3.2, 0.1, 4.4, 9.0])
@pytest.mark.parametrize("size", [0.02, 1.0, 50.0])
def test_grids_and_steps_find_one_factor_in_one_range(lowest, size):
    def loss(factor):  # as flat on one side as a log-loss is
        return np.log1p(np.exp(lowest) / (size * factor)) + 1e-3 * size * factor

    by_grids = factor_by_grids(loss, size=size, n_rows=1e300)
    by_steps = factor_by_steps(loss, size=size)
    assert by_grids == pytest.approx(by_steps, rel=1e-3)
    assert 1e-3 / size <= by_steps <= 1e3 / size

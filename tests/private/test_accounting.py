# SPDX-License-Identifier: BSD-3-Clause
"""What noise spends, against an accountant of others and against exact sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skgems.private import Charge, NoisyPart, Spent, whole_number_epsilon
from skgems.private._accounting import (
    combined_sigma,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
    zcdp_epsilon,
    zcdp_rho,
)

# Twenty points, of epsilon and of delta.
POINTS = [
    (epsilon, delta)
    for epsilon in (0.1, 0.5, 1.0, 4.0, 8.0)
    for delta in (1e-3, 1e-5, 1e-7, 1e-9)
]


@pytest.mark.parametrize(("epsilon", "delta"), POINTS)
def test_epsilon_and_sigma_are_those_of_dp_accounting(epsilon, delta):
    dp = pytest.importorskip("dp_accounting")
    sigma = gaussian_sigma(epsilon, delta)
    assert_allclose(sigma, dp.get_sigma_gaussian(epsilon, delta), rtol=1e-4)
    assert_allclose(
        gaussian_epsilon(sigma, delta), dp.get_epsilon_gaussian(sigma, delta), rtol=1e-4
    )
    assert_allclose(gaussian_epsilon(sigma, delta), epsilon, rtol=1e-9)
    assert_allclose(gaussian_delta(epsilon, sigma), delta, rtol=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), POINTS[::3])
def test_epsilon_of_rho_is_that_of_dp_accounting(epsilon, delta):
    dp = pytest.importorskip("dp_accounting")
    sigma = gaussian_sigma(epsilon, delta)
    orders = 1 + np.geomspace(1e-2, 1e4, 5000)
    accountant = dp.rdp.RdpAccountant(orders)
    accountant.compose(dp.GaussianDpEvent(sigma))
    assert_allclose(
        zcdp_epsilon(zcdp_rho(sigma), delta), accountant.get_epsilon(delta), rtol=1e-4
    )


def test_the_figures_of_the_page():
    sigma = gaussian_sigma(1.0, 1e-5)
    assert f"{sigma:.2f}" == "3.73"
    assert f"{zcdp_rho(sigma):.4f}" == "0.0359"
    assert f"{zcdp_epsilon(zcdp_rho(sigma), 1e-5):.2f}" == "1.09"


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 50.0, 1e4])
@pytest.mark.parametrize("delta", [1e-15, 0.5])
def test_far_from_what_is_usual_a_sigma_is_found(epsilon, delta):
    sigma = gaussian_sigma(epsilon, delta)
    assert_allclose(gaussian_delta(epsilon, sigma), delta, rtol=1e-6)


def test_without_bounds_an_epsilon_has_the_least_noise_or_none_is_enough():
    assert gaussian_sigma(1e300, 1e-5) == gaussian_sigma(1e200, 1e-5) < 1e-4
    with pytest.raises(ValueError, match="No noise is large enough"):
        gaussian_sigma(1e-30, 1e-300)


def test_messages_add_up_as_one_of_less_noise():
    dp = pytest.importorskip("dp_accounting")
    sigmas = [3.0, 4.0, 12.0]
    assert_allclose(combined_sigma([4.0, 4.0, 4.0, 4.0]), 2.0)
    accountant = dp.pld.PLDAccountant(value_discretization_interval=1e-3)
    for sigma in sigmas:
        accountant.compose(dp.GaussianDpEvent(sigma))
    spent = Spent([Charge(sigma=sigma, delta=1e-5) for sigma in sigmas])
    assert_allclose(spent.epsilon, accountant.get_epsilon(1e-5), rtol=2e-3)
    assert_allclose(spent.rho, sum(zcdp_rho(sigma) for sigma in sigmas))
    assert spent.epsilon < spent.epsilon_of_rho


def test_a_person_at_two_nodes_is_charged_for_both():
    charge = Charge.from_epsilon(1.0, 1e-5)
    twice = Spent([charge, charge])
    assert_allclose(twice.epsilon, gaussian_epsilon(charge.sigma / math.sqrt(2), 1e-5))
    assert 1.0 < twice.epsilon < 2.0
    assert_allclose(Spent([charge]).epsilon, 1.0)


def test_rows_of_one_person_are_charged_together():
    charge = Charge.from_epsilon(1.0, 1e-5, rows_of_one=3)
    assert_allclose(charge.sigma, 3 * gaussian_sigma(1.0, 1e-5))
    assert_allclose(Spent([charge]).epsilon, 1.0)
    # The same noise, for people who have a single row.
    one_row = Charge(sigma=charge.sigma, delta=1e-5)
    assert Spent([one_row]).epsilon < 0.4


def test_what_is_left_can_be_spent():
    spent = Spent([Charge.from_epsilon(1.0, 1e-5)])
    left = spent.epsilon_left(1.5)
    both = Spent([*spent.charges, Charge.from_epsilon(left, 1e-5)])
    assert_allclose(both.epsilon, 1.5)
    assert spent.epsilon_left(0.9) == 0.0
    assert_allclose(Spent([]).epsilon_left(2.0), 2.0)


def test_nothing_is_spent_without_messages():
    spent = Spent([])
    assert (spent.epsilon, spent.rho, spent.epsilon_of_rho) == (0.0, 0.0, 0.0)


def test_messages_are_judged_at_the_smallest_delta():
    hidden = Charge.from_epsilon(0.1, 0.5)
    spent = Spent([Charge.from_epsilon(1.0, 1e-5), hidden])
    assert spent.delta == 1e-5
    assert spent.epsilon > 5
    assert Spent([hidden]).delta == 1e-5


def exact_delta(epsilon, deviations, steps):
    """Delta of discrete Gaussian noise on two numbers that one row moves by steps."""
    losses = 0.0
    chances = 1.0
    for axis, (deviation, step) in enumerate(zip(deviations, steps, strict=True)):
        k = np.arange(-40 * int(deviation), 40 * int(deviation) + 1)
        chance = np.exp(-0.5 * (k / deviation) ** 2)
        loss = ((k - step) ** 2 - k**2) / (2 * deviation**2)
        shape = [-1 if axis == i else 1 for i in range(2)]
        chances = chances * (chance / chance.sum()).reshape(shape)
        losses = losses + loss.reshape(shape)
    return float((chances * -np.expm1(np.minimum(epsilon - losses, 0))).sum())


@pytest.mark.parametrize("deviation", [5.0, 20.0])
def test_the_bound_for_whole_numbers_holds_for_exact_sums(deviation):
    # A row moves two numbers by one whole unit each, by sqrt(2) in all.
    sigma = deviation / math.sqrt(2)
    parts = [
        NoisyPart(share=0.5, deviation=deviation, n_numbers=1),
        NoisyPart(share=0.5, deviation=deviation, n_numbers=1),
    ]
    delta = 1e-5
    bound = whole_number_epsilon(parts, sigma=sigma, delta=delta)
    exact = exact_delta(bound, [deviation] * 2, [1, 1])
    assert exact <= delta
    # And it is close: at the epsilon of continuous noise delta is nearly right.
    epsilon = gaussian_epsilon(sigma, delta)
    assert_allclose(exact_delta(epsilon, [deviation] * 2, [1, 1]), delta, rtol=0.1)
    assert epsilon < bound < 1.06 * epsilon


def test_at_our_scales_whole_numbers_spend_what_continuous_ones_do():
    sigma = gaussian_sigma(1.0, 1e-5)
    unit = 2**15 - 1
    parts = [
        NoisyPart(share=0.02, deviation=sigma / math.sqrt(0.02), n_numbers=10),
        NoisyPart(share=0.88, deviation=sigma * unit / math.sqrt(0.88), n_numbers=7840),
        NoisyPart(
            share=0.10, deviation=sigma * unit**2 / math.sqrt(0.1), n_numbers=307_720
        ),
    ]
    bound = whole_number_epsilon(parts, sigma=sigma, delta=1e-5)
    assert 1.0 <= bound < 1.0 + 1e-4


def test_noise_of_a_few_whole_units_is_refused():
    part = NoisyPart(share=1.0, deviation=2.0, n_numbers=1)
    with pytest.raises(ValueError, match="too coarse"):
        whole_number_epsilon([part], sigma=2.0, delta=1e-5)

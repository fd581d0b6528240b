# SPDX-License-Identifier: BSD-3-Clause
"""Learning rates and epochs of rounds, against schedules worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.asking import learning_rates, relative_change


def test_cyclical_rates_decay_anew_in_each_round():
    # 0.01 * (1/4)^(j/4), j = 1..4: each epoch divides by the square root of 2.
    by_hand = [0.0070710678, 0.005, 0.0035355339, 0.0025]
    np.testing.assert_allclose(learning_rates(0.01, 4), by_hand, rtol=1e-8)
    again = learning_rates(0.01, 4, epochs_before=4, epochs_planned=8)
    np.testing.assert_allclose(again, by_hand, rtol=1e-8)


def test_exponential_rates_decay_once_over_all_rounds():
    options = {"decay": 0.01, "schedule": "exponential", "epochs_planned": 4}
    first = learning_rates(1.0, 2, **options)
    second = learning_rates(1.0, 2, epochs_before=2, **options)
    late = learning_rates(1.0, 2, epochs_before=4, **options)
    by_hand = 10.0 ** np.array([-0.5, -1, -1.5, -2, -2.5, -3])
    np.testing.assert_allclose(np.concatenate([first, second, late]), by_hand)


def test_constant_rates_stay():
    np.testing.assert_array_equal(
        learning_rates(0.3, 3, schedule="constant"), [0.3, 0.3, 0.3]
    )


def test_unknown_schedule():
    with pytest.raises(ValueError, match="schedule must be"):
        learning_rates(0.1, 2, schedule="linear")


def test_relative_change_is_over_all_arrays_and_leaves_counters_out():
    before = [np.array([[3.0, 0.0]]), np.array([4.0]), np.array([7])]
    after = [np.array([[3.0, 0.3]]), np.array([4.4]), np.array([900])]
    assert relative_change(after, before) == pytest.approx(0.1)
    zeros = [np.zeros(2)]
    assert relative_change(zeros, zeros) == 0
    assert relative_change([np.ones(2)], zeros) == np.inf

# SPDX-License-Identifier: BSD-3-Clause
"""Sums with noise keep what their epsilon promises, against the strongest readers."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.attacked_tables import attacked_table, judge_claims
from helpers.attacks_on_noise import (
    messages_along,
    rows_of_noisy_lattices,
    shown_epsilon,
)

from skgems import Privacy
from skgems.private import Charge

pytest.importorskip("opendp")


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_reader_who_knows_all_others_shows_at_most_epsilon(epsilon):
    privacy = Privacy(classes=["ill", "well"], low=[-1], high=[1], epsilon=epsilon)
    n_draws = 2_000
    # A row in a corner is as long as a row may be.
    present, without = messages_along(privacy, np.ones(1), "ill", n_draws=n_draws)
    assert shown_epsilon(present, without, delta=privacy.delta) <= epsilon
    # The row stands out by 1 / sigma of the noise, but for six standard errors.
    noise = np.concatenate([present - 1.0, without])
    sigma = Charge.from_epsilon(epsilon, privacy.delta).sigma
    assert abs(noise.std() / sigma - 1.0) < 6 / np.sqrt(4 * n_draws)


def test_a_tenth_of_the_noise_would_show_more_than_epsilon():
    privacy = Privacy(classes=["ill", "well"], low=[-1], high=[1], epsilon=4.0)
    present, without = messages_along(privacy, np.ones(1), "ill", n_draws=1_000)
    present = 1.0 + 0.1 * (present - 1.0)
    assert shown_epsilon(present, 0.1 * without, delta=privacy.delta) > 4.0


def test_lattices_find_no_row_at_epsilon_8():
    table = attacked_table("digits").first_of_each_class(10)
    X = table.X[table.y == "c2"]
    assert judge_claims(X, rows_of_noisy_lattices(X, None)).n_found == 10
    privacy = Privacy(classes=["c1", "c2"], low=[0] * 64, high=[16] * 64, epsilon=8.0)
    assert judge_claims(X, rows_of_noisy_lattices(X, privacy)).n_found == 0

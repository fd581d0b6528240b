# SPDX-License-Identifier: BSD-3-Clause
"""How much public rows count beside what nodes tell."""

from __future__ import annotations

import numpy as np

from skgems.moments import Likelihood, NodeLoss, class_moments
from skgems.tuning import tune_likelihood

CENTERS = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]])


def draw(seed, n_rows):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n_rows)
    return rng.standard_normal((n_rows, 4)) + CENTERS[y], y


def told():
    X, y = draw(100, 3000)
    likelihood = Likelihood.of([NodeLoss(class_moments(X, y), np.arange(3))], 3)
    return likelihood, likelihood.to_rows(likelihood.minimize())


def test_rows_like_those_of_the_nodes_count_for_no_more():
    """By chance some lower their own loss: half of these draws do."""
    likelihood, W = told()
    by_chance = 0
    for seed in range(8):
        found = tune_likelihood(likelihood, *draw(seed, 60), W, random_state=0)
        assert found.strength in (0.0, 1.0)
        by_chance += np.argmin(found.losses) > 1
    assert by_chance > 2


def test_rows_of_another_world_count_for_more():
    likelihood, W = told()
    X, y = draw(0, 300)
    assert tune_likelihood(likelihood, X, (y + 1) % 3, W, random_state=0).strength > 10

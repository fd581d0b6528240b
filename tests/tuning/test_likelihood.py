# SPDX-License-Identifier: BSD-3-Clause
"""How much public rows count beside what nodes tell."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.moments import Likelihood, NodeLoss, class_moments, mean_log_loss
from skgems.networks import linear_logits
from skgems.tuning import tune_likelihood
from skgems.tuning._likelihood import FEW_ROWS, RATIOS, best_if_sure_of_more
from skgems.tuning._penalised import TIE

CENTERS = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]])


def draw(seed, n_rows):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n_rows)
    return rng.standard_normal((n_rows, 4)) + CENTERS[y], y


def told(shift=0.0):
    X, y = draw(100, 3000)
    X = X + shift
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
    found = tune_likelihood(likelihood, X, (y + 1) % 3, W, random_state=0)
    assert found.strength > 10
    assert np.isclose(found.strength, RATIOS * 3000 / 300).any()


@pytest.mark.parametrize("n_rows", [1, FEW_ROWS])
def test_few_rows_count_as_what_they_are(n_rows):
    likelihood, W = told(shift=3.0)
    X, y = draw(0, n_rows)
    X, y = X + 3.0, (y + 1) % 3
    found = tune_likelihood(likelihood, X, y, W, random_state=0)
    assert found.strength == 1.0 and found.losses.size == 0

    def total(W):
        value, _ = likelihood.value_and_gradient(likelihood.from_rows(W))
        return value + n_rows * mean_log_loss(linear_logits(X, W), y)

    assert total(found.W) < total(W)
    rng = np.random.default_rng(0)
    for _ in range(5):
        step = 0.01 * rng.standard_normal(W.shape)
        slope = total(found.W + step) - total(found.W - step)
        curvature = total(found.W + step) + total(found.W - step) - 2 * total(found.W)
        assert abs(slope) < curvature


def test_losses_of_the_start_and_of_each_strength():
    likelihood, W = told()
    X, y = draw(0, 60)
    found = tune_likelihood(likelihood, X, y, W, random_state=0)
    assert found.losses[0] == pytest.approx(mean_log_loss(linear_logits(X, W), y))
    assert len(found.losses) == 2 + np.sum(RATIOS * 3000 / 60 > 1)
    # Next to 3,000 rows 40 of their kind move little; what counts for more, more.
    moved = np.abs(found.losses[1:] - found.losses[0])
    assert moved[0] < 0.02 < 0.1 < moved.max()


def test_rows_count_for_more_if_they_are_sure():
    rows = 0.1 * np.random.RandomState(0).rand(100)
    losses = 1.0 + np.tile(rows, (4, 1))
    assert best_if_sure_of_more(losses) == 0
    losses[1] -= TIE / 2
    assert best_if_sure_of_more(losses) == 0
    losses[1] -= TIE
    assert best_if_sure_of_more(losses) == 1
    losses[3] -= 0.01
    assert best_if_sure_of_more(losses) == 3
    losses[3, ::2] += 0.2  # lower on half of the rows only
    assert best_if_sure_of_more(losses) == 1
    losses[2] = losses[1]
    losses[2, :2] -= 1.0  # 0.02, of two rows: less than two errors
    assert best_if_sure_of_more(losses) == 1
    losses[2] -= 0.05
    assert best_if_sure_of_more(losses) == 2

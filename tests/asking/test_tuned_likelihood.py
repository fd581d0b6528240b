# SPDX-License-Identifier: BSD-3-Clause
"""How much public rows count beside what nodes tell."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.asking import tune_likelihood
from skgems.asking._penalised import TIE
from skgems.asking._tuned_likelihood import FEW_ROWS, RATIOS, best_if_sure_of_more
from skgems.moments import Likelihood, NodeLoss, class_moments, mean_log_loss
from skgems.networks import linear_logits

CENTERS = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]])


def draw(seed, n_rows):
    """Rows of three normal classes, and their labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n_rows)
    return rng.standard_normal((n_rows, 4)) + CENTERS[y], y


def likelihood_and_minimum(shift=0.0):
    """The likelihood of one node of 3,000 rows, and the weights that minimize it."""
    X, y = draw(100, 3000)
    X = X + shift
    likelihood = Likelihood.from_nodes(
        [NodeLoss(moments=class_moments(X, y), columns=np.arange(3))], 3
    )
    return likelihood, likelihood.to_rows(likelihood.minimize())


def test_rows_like_those_of_the_nodes_count_for_no_more():
    """Though by chance half of these draws lower their own loss."""
    likelihood, W = likelihood_and_minimum()
    n_lower_by_chance = 0
    for seed in range(8):
        X, y = draw(seed, 60)
        tuned = tune_likelihood(likelihood, X, y, W, random_state=0)
        assert tuned.strength in (0.0, 1.0)
        n_lower_by_chance += np.argmin(tuned.losses) > 1
    assert n_lower_by_chance > 2


def test_rows_of_other_labels_count_for_more():
    likelihood, W = likelihood_and_minimum()
    X, y = draw(0, 300)
    tuned = tune_likelihood(likelihood, X, (y + 1) % 3, W, random_state=0)
    assert tuned.strength > 10
    assert np.isclose(tuned.strength, RATIOS * 3000 / 300).any()


@pytest.mark.parametrize("n_rows", [1, FEW_ROWS])
def test_few_rows_count_as_what_they_are(n_rows):
    likelihood, W = likelihood_and_minimum(shift=3.0)
    X, y = draw(0, n_rows)
    X = X + 3.0
    y = (y + 1) % 3
    tuned = tune_likelihood(likelihood, X, y, W, random_state=0)
    assert tuned.strength == 1.0
    assert tuned.losses.size == 0

    def total(W):
        value, _ = likelihood.value_and_gradient(likelihood.from_rows(W))
        return value + n_rows * mean_log_loss(linear_logits(X, W), y)

    assert total(tuned.W) < total(W)
    rng = np.random.default_rng(0)
    for _ in range(5):
        step = 0.01 * rng.standard_normal(W.shape)
        slope = total(tuned.W + step) - total(tuned.W - step)
        curvature = total(tuned.W + step) + total(tuned.W - step) - 2 * total(tuned.W)
        assert abs(slope) < curvature


def test_losses_of_the_start_and_of_each_strength():
    likelihood, W = likelihood_and_minimum()
    X, y = draw(0, 60)
    tuned = tune_likelihood(likelihood, X, y, W, random_state=0)
    assert tuned.losses[0] == pytest.approx(mean_log_loss(linear_logits(X, W), y))
    assert len(tuned.losses) == 2 + np.sum(RATIOS * 3000 / 60 > 1)
    # Next to 3,000 rows 40 of their kind move little; what counts for more, more.
    changes = np.abs(tuned.losses[1:] - tuned.losses[0])
    assert changes[0] < 0.02
    assert changes.max() > 0.1


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

# SPDX-License-Identifier: BSD-3-Clause
"""Rays along which rows are followed: how many rows, and which draws."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.profiled import make_node, mean_loss, right_rows
from scipy import sparse
from sklearn import config_context

from skgems.spaces import (
    MOST_ROWS,
    AccuracyProfile,
    GramMetric,
    accuracy_profile,
    ball_metric,
    loss_profile,
)
from skgems.spaces import _margins as margins_module
from skgems.spaces import _radii as radii_module
from skgems.spaces._margins import Rays

# ---- rays -----------------------------------------------------------------


@pytest.mark.parametrize("n_compared", [2, 8])
def test_parameters_of_outputs_not_compared_count_in_the_length(n_compared):
    # The squared length of a normal direction is chi-squared over all parameters.
    metric = ball_metric(5, np.ones(8, dtype=bool))
    rays = Rays(
        np.zeros((1, 4)),
        metric=metric,
        columns=np.arange(n_compared),
        n_outputs=8,
        n_directions=4000,
        random_state=0,
    )
    squared = np.concatenate([scale**-2.0 for _, scale, _ in rays.chunks()])
    assert abs(squared.mean() - 40) < 5 * np.sqrt(80 / 4000)
    assert abs(squared.var() - 80) < 15


@pytest.mark.parametrize("memory", [1, 64])
def test_rays_of_one_seed_are_drawn_once_for_all_nodes(monkeypatch, memory):
    # More outputs than are compared, a constant feature, and chunks of a few rays.
    rng = np.random.default_rng(0)
    monkeypatch.setattr(margins_module, "MOST_BLOCK_BYTES", 2**14)
    draws = []
    draw = margins_module._normals

    def counted_draw(*args):
        draws.append(args)
        return draw(*args)

    monkeypatch.setattr(margins_module, "_normals", counted_draw)
    rows_of_nodes = rng.standard_normal((3, 20, 4))

    def changes_and_number_of_draws(n_shared):
        monkeypatch.setattr(margins_module, "MOST_NUMBERS", n_shared)
        margins_module._shared.cache_clear()
        draws.clear()
        changes = []
        with config_context(working_memory=memory):
            for rows in rows_of_nodes:
                X = np.column_stack([rows, np.full(20, 2.0)])
                scatter = np.cov(X.T) + np.diag([0.2, 0.2, 0.2, 0.2, 0.0])
                rays = Rays(
                    X,
                    metric=GramMetric(scatter=scatter, mean=X.mean(axis=0)),
                    columns=np.arange(3),
                    n_outputs=4,
                    n_directions=50,
                    random_state=7,
                )
                for _, scale, parts in rays.chunks():
                    unscaled = np.concatenate([part for _, part in parts], axis=2)
                    changes.append(unscaled * scale[:, None, None])
        return np.concatenate(changes), len(draws)

    changes_of_shared, n_draws_of_shared = changes_and_number_of_draws(2**23)
    changes_of_chunks, n_draws_of_chunks = changes_and_number_of_draws(0)
    np.testing.assert_array_equal(changes_of_shared, changes_of_chunks)
    assert n_draws_of_shared == 1 < 3 < n_draws_of_chunks
    # What all nodes see is nobody's to alter.
    directions = margins_module._shared(
        7, n_other_params=0, n_directions=5, shape=(1, 2)
    )
    assert not directions.flags.writeable


# ---- many rows -------------------------------------------------------------------


@pytest.fixture
def numbers_of_rows(monkeypatch):
    """How many rows rays are followed on, each time."""
    numbers = []
    init = Rays.__init__

    def counted_init(self, X, **options):
        numbers.append(X.shape[0])
        init(self, X, **options)

    monkeypatch.setattr(Rays, "__init__", counted_init)
    return numbers


PROFILES = {"accuracy": accuracy_profile, "loss": loss_profile}


def thinned_profile(profile, X, y, center, metric):
    """A profile of three rays."""
    return PROFILES[profile](X, y, center, metric, n_directions=3, random_state=0)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("sparse_rows", [False, True])
def test_rays_are_followed_on_so_many_rows_at_most(
    profile, sparse_rows, numbers_of_rows
):
    X, y, center, metric = make_node("gram", n_rows=2 * MOST_ROWS + 7, n_outputs=2)
    rows = sparse.csr_matrix(X) if sparse_rows else X
    thinned = thinned_profile(profile, rows, y, center, metric)
    assert set(numbers_of_rows) == {MOST_ROWS} and thinned.n_rows == len(y)
    assert_start_is_of_all_rows(thinned, X, y, center)
    # The order of the rows does not choose among them.
    order = np.random.RandomState(0).permutation(len(y))
    shuffled = thinned_profile(profile, rows[order], y[order], center, metric)
    for distance in (0.3, 0.6):
        level = pytest.approx(thinned.level(distance), rel=1e-6)
        assert shuffled.level(distance) == level


def assert_start_is_of_all_rows(thinned, X, y, center):
    """The score of the model itself, where rays begin, counts every row."""
    if isinstance(thinned, AccuracyProfile):
        right = right_rows(X, y, center)
        assert thinned.score == right.mean()
        assert thinned.may_lose[0] == 0 and thinned.may_lose[-1] == right.sum()
        assert (np.diff(thinned.may_lose) >= 1).all()
    else:
        assert thinned.score == pytest.approx(mean_loss(X, y, center))
        assert thinned.losses[0] == thinned.score


@pytest.mark.parametrize("profile", PROFILES)
def test_a_thousand_rows_stand_for_all(profile, monkeypatch):
    X, y, center, metric = make_node("gram", n_rows=4000, n_outputs=3)
    profile_of = PROFILES[profile]
    options = {"n_directions": 20, "random_state": 0}
    of_all = profile_of(X, y, center, metric, **options)
    for module in (margins_module, radii_module):
        monkeypatch.setattr(module, "MOST_ROWS", 1000)
    of_1000 = profile_of(X, y, center, metric, **options)
    assert of_1000.score == of_all.score
    for distance in np.geomspace(0.1, 10.0, 9):
        level = pytest.approx(of_all.level(distance), rel=0.05, abs=0.02)
        assert of_1000.level(distance) == level


def test_a_node_of_so_many_rows_has_the_profile_of_all_of_them(monkeypatch):
    X, y, center, metric = make_node("ball", n_rows=400)
    options = {"n_directions": 20, "random_state": 0}
    monkeypatch.setattr(radii_module, "MOST_ROWS", 400)
    monkeypatch.setattr(margins_module, "MOST_ROWS", 400)
    at_the_limit = accuracy_profile(X, y, center, metric, **options)
    monkeypatch.undo()
    below_it = accuracy_profile(X, y, center, metric, **options)
    np.testing.assert_array_equal(at_the_limit.radii, below_it.radii)
    n_radii = len(below_it.radii)
    np.testing.assert_array_equal(below_it.may_lose, np.arange(n_radii + 1))

# SPDX-License-Identifier: BSD-3-Clause
"""Rays along which rows are followed: how many rows, and which draws."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.profiled import make_node, mean_loss, right_rows
from scipy import sparse
from sklearn import config_context

from skgems.spaces import GramMetric, accuracy_profile, ball_metric, loss_profile
from skgems.spaces import _margins as margins_module
from skgems.spaces import _radii as radii_module
from skgems.spaces._margins import MOST_ROWS, Rays

# ---- rays -----------------------------------------------------------------


@pytest.mark.parametrize("n_compared", [2, 8])
def test_parameters_of_outputs_not_compared_count_in_the_length(n_compared):
    # The squared length of a normal direction is chi-squared over all parameters.
    metric = ball_metric(5, np.ones(8, dtype=bool))
    rays = Rays(np.zeros((1, 4)), metric, np.arange(n_compared), 8, 4000, 0)
    squared = np.concatenate([scale**-2.0 for _, scale, _ in rays.chunks()])
    assert abs(squared.mean() - 40) < 5 * np.sqrt(80 / 4000)
    assert abs(squared.var() - 80) < 15


@pytest.mark.parametrize("memory", [1, 64])
def test_rays_of_one_seed_are_drawn_once_for_all_nodes(monkeypatch, memory):
    # More outputs than are compared, a constant feature, and chunks of a few rays.
    rng = np.random.default_rng(0)
    monkeypatch.setattr(margins_module, "_CHUNK_BYTES", 2**14)
    drawn = []
    draw = margins_module._normals

    def counted(*args):
        drawn.append(args)
        return draw(*args)

    monkeypatch.setattr(margins_module, "_normals", counted)

    def radii(most):
        monkeypatch.setattr(margins_module, "_SHARED_BYTES", most)
        margins_module._shared.cache_clear()
        drawn.clear()
        with config_context(working_memory=memory):
            found = []
            for k in range(3):
                X = np.column_stack([rng_rows[k], np.full(20, 2.0)])
                scatter = np.cov(X.T) + np.diag([0.2, 0.2, 0.2, 0.2, 0.0])
                metric = GramMetric(scatter, X.mean(axis=0))
                rays = Rays(X, metric, np.arange(3), 4, 50, 7)
                for _, scale, parts in rays.chunks():
                    changes = np.concatenate([part for _, part in parts], axis=2)
                    found.append(changes * scale[:, None, None])
        return np.concatenate(found), len(drawn)

    rng_rows = rng.standard_normal((3, 20, 4))
    shared, once = radii(2**25)
    alone, often = radii(0)
    np.testing.assert_array_equal(shared, alone)
    assert once == 1 < 3 < often
    # What all nodes see is nobody's to alter.
    assert not margins_module._shared(7, 0, 5, (1, 2)).flags.writeable


# ---- many rows -------------------------------------------------------------------


@pytest.fixture
def seen(monkeypatch):
    """How many rows rays are followed on."""
    sizes, init = [], Rays.__init__

    def listening(self, X, *args):
        sizes.append(X.shape[0])
        init(self, X, *args)

    monkeypatch.setattr(Rays, "__init__", listening)
    return sizes


PROFILES = {"accuracy": accuracy_profile, "loss": loss_profile}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("sparse_rows", [False, True])
def test_rays_are_followed_on_so_many_rows_at_most(profile, sparse_rows, seen):
    X, y, center, metric = make_node("gram", n_rows=2 * MOST_ROWS + 7, n_outputs=2)
    options = {"n_directions": 3, "random_state": 0}
    given = sparse.csr_matrix(X) if sparse_rows else X
    found = PROFILES[profile](given, y, center, metric, **options)
    assert set(seen) == {MOST_ROWS} and found.n_rows == len(y)
    # What is told of the model itself is of all rows.
    right = right_rows(X, y, center)
    if profile == "accuracy":
        assert found.score == right.mean()
        assert found.may_lose[0] == 0 and found.may_lose[-1] == right.sum()
        assert (np.diff(found.may_lose) >= 1).all()
    else:
        assert found.score == pytest.approx(mean_loss(X, y, center))
        assert found.losses[0] == found.score
    # The order of the rows does not choose among them.
    order = np.random.RandomState(0).permutation(len(y))
    again = PROFILES[profile](given[order], y[order], center, metric, **options)
    for level in (0.3, 0.6):
        reached = found.level(level)
        assert again.level(level) == pytest.approx(reached, rel=1e-6)


@pytest.mark.parametrize("profile", PROFILES)
def test_those_rows_stand_for_all(profile, monkeypatch):
    X, y, center, metric = make_node("gram", n_rows=4000, n_outputs=3)
    find = PROFILES[profile]
    options = {"n_directions": 20, "random_state": 0}
    whole = find(X, y, center, metric, **options)
    for module in (margins_module, radii_module):
        monkeypatch.setattr(module, "MOST_ROWS", 1000)
    few = find(X, y, center, metric, **options)
    assert few.score == whole.score
    for distance in np.geomspace(0.1, 10.0, 9):
        level = whole.level(distance)
        assert few.level(distance) == pytest.approx(level, rel=0.05, abs=0.02)


def test_a_node_of_so_many_rows_has_the_profile_of_all_of_them(monkeypatch):
    X, y, center, metric = make_node("ball", n_rows=400)
    options = {"n_directions": 20, "random_state": 0}
    monkeypatch.setattr(radii_module, "MOST_ROWS", 400)
    monkeypatch.setattr(margins_module, "MOST_ROWS", 400)
    one = accuracy_profile(X, y, center, metric, **options)
    monkeypatch.undo()
    other = accuracy_profile(X, y, center, metric, **options)
    np.testing.assert_array_equal(one.radii, other.radii)
    np.testing.assert_array_equal(other.may_lose, np.arange(len(other.radii) + 1))

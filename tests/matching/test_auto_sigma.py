# SPDX-License-Identifier: BSD-3-Clause
"""The sigma that is found from neurons alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from skgems.matching import match_layer
from skgems.matching._auto_sigma import explained_share, match_at_auto_sigma


def match_with(groups, sigma, max_units=None):
    n_numbers = groups[0].shape[1]
    return match_layer(
        groups,
        [np.array([sigma**-2.0])] * len(groups),
        n_shared=n_numbers,
        prior_precision=sigma**-2.0,
        gamma0=1.0,
        max_units=max_units,
        random_state=0,
    )


def neurons(noise, scale=1.0, n_groups=8, width=10, n_numbers=40):
    """Noisy copies of common atoms, the noise as a share of an atom's norm."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((width, n_numbers))
    return [
        scale * (atoms + noise * rng.standard_normal(atoms.shape))
        for _ in range(n_groups)
    ]


def median_norm(groups):
    return np.median(np.linalg.norm(np.vstack(groups), axis=1))


def test_what_atoms_explain():
    V = np.array([[3.0, 4.0], [0.0, 1.0]])
    copies = match_with([V, V[::-1]], 0.1)
    assert explained_share([V, V[::-1]], copies) == pytest.approx(1)
    # Two neurons at a right angle in one atom: half of their squares is left.
    pair = [np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])]
    forced = match_with(pair, 1.0, max_units=1)
    assert len(forced.atoms) == 1
    assert explained_share(pair, forced) == pytest.approx(0.5)
    assert explained_share([0 * V], match_with([0 * V], 1.0)) == 1


def test_equal_neurons_have_the_largest_sigma():
    groups = neurons(noise=0.05)
    sigma, match = match_at_auto_sigma(partial(match_with, groups), groups)
    assert sigma == pytest.approx(0.23 * median_norm(groups))
    assert len(match.atoms) == 10


def test_sigma_is_lowered_until_the_atoms_explain_the_neurons():
    groups = neurons(noise=1.0)
    largest = 0.23 * median_norm(groups)
    assert explained_share(groups, match_with(groups, largest)) < 2 / 3
    sigma, match = match_at_auto_sigma(partial(match_with, groups), groups)
    assert 0.5 * largest < sigma < largest
    assert explained_share(groups, match) >= 2 / 3
    assert explained_share(groups, match_with(groups, sigma / 0.9)) < 2 / 3
    # With a cap that binds, a lower sigma would not open atoms.
    capped, match = match_at_auto_sigma(
        partial(match_with, groups, max_units=10), groups, 10
    )
    assert capped == pytest.approx(largest)
    assert len(match.atoms) == 10


def test_the_scale_of_weights_does_not_matter():
    results = []
    for scale in (1.0, 1000.0):
        groups = neurons(noise=1.0, scale=scale)
        sigma, match = match_at_auto_sigma(partial(match_with, groups), groups)
        results.append((sigma / scale, np.concatenate(match.assignments)))
    assert results[0][0] == pytest.approx(results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])

# SPDX-License-Identifier: BSD-3-Clause
"""Sigma and the mass that are found from neurons alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from skgems.pfnm import match_layer
from skgems.pfnm._layer import (
    DEEP_EXPLAINED,
    DEEP_PRICES,
    EXPLAINED,
    EXPLAINED_OUTGOING,
    PRICES,
    auto_sigma,
    explained_share,
    match_at_auto_gamma0,
)


def match_with(groups, gamma0, sigma=None, max_units=None, least_share=0.0):
    n_numbers = groups[0].shape[1]
    sigma = auto_sigma(groups) if sigma is None else sigma
    return match_layer(
        groups,
        [np.array([sigma**-2.0])] * len(groups),
        n_shared=n_numbers,
        prior_precision=sigma**-2.0,
        gamma0=gamma0,
        max_units=max_units,
        least_share=least_share,
        random_state=0,
    )


def matched(groups, max_units=None, n_sharing=None):
    return match_at_auto_gamma0(
        partial(match_with, groups, max_units=max_units),
        groups,
        sigma=auto_sigma(groups),
        n_sharing=n_sharing or len(groups),
        max_units=max_units,
    )


def masses():
    """What prices are at a tenth of the median norm."""
    return [pytest.approx(np.exp(-50 * price)) for price in PRICES]


def neurons(noise, scale=1.0, n_groups=8, width=10, n_numbers=40):
    """Noisy copies of common atoms, the noise as a share of an atom's norm."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((width, n_numbers))
    return [
        scale * (atoms + noise * rng.standard_normal(atoms.shape))
        for _ in range(n_groups)
    ]


def test_what_atoms_explain():
    V = np.array([[3.0, 4.0], [0.0, 1.0]])
    copies = match_with([V, V[::-1]], 1.0, sigma=0.1)
    assert explained_share([V, V[::-1]], copies.assignments) == pytest.approx(1)
    # Two neurons at a right angle in one atom: half of their squares is left.
    pair = [np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])]
    forced = match_with(pair, 1.0, sigma=1.0, max_units=1)
    assert len(forced.atoms) == 1
    assert explained_share(pair, forced.assignments) == pytest.approx(0.5)
    assert explained_share([0 * V], [np.array([0, 1])]) == 1
    # By precisions: 3 times 3 and 1 times 1 make 2.5 of weight 4, whose square is 6.25.
    numbers = [np.array([[3.0]]), np.array([[1.0]])]
    share = explained_share(
        numbers, [np.array([0])] * 2, precisions=[np.array([3.0]), np.array([1.0])]
    )
    assert share == pytest.approx(4 * 6.25 / (3 * 9 + 1))


def test_sigma_is_a_tenth_of_the_median_norm():
    groups = [np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([[0.0, -7.0]])]
    assert auto_sigma(groups) == pytest.approx(0.5)
    assert auto_sigma([np.zeros((2, 3))]) > 0


def test_equal_neurons_have_the_smallest_mass():
    gamma0, match = matched(neurons(noise=0.05))
    assert gamma0 == masses()[0]
    assert len(match.atoms) == 10


def test_the_mass_grows_until_the_atoms_explain_the_neurons():
    groups = neurons(noise=1.2)
    gamma0, match = matched(groups)
    chosen = masses().index(gamma0)
    assert 0 < chosen < len(PRICES) - 1
    # Eight groups: an eighth is explained where nothing is alike.
    least = 1 / 8 + 7 / 8 * EXPLAINED
    assert explained_share(groups, match.assignments) >= least
    before = match_with(groups, np.exp(-50 * PRICES[chosen - 1]))
    assert explained_share(groups, before.assignments) < least
    # With a cap that binds, a larger mass would not open atoms.
    capped, match = matched(groups, max_units=10)
    assert capped == masses()[0]
    assert len(match.atoms) == 10


def test_in_deep_networks_atoms_explain_more_and_may_cost_more():
    def match_deep(groups):
        sigma = auto_sigma(groups)
        return match_at_auto_gamma0(
            partial(
                match_layer,
                groups,
                [np.array([sigma**-2.0])] * len(groups),
                n_shared=groups[0].shape[1],
                # It draws next to nothing to zero.
                prior_precision=(10 * sigma) ** -2.0,
                random_state=0,
            ),
            groups,
            sigma=sigma,
            n_sharing=len(groups),
            is_deep=True,
        )

    gamma0, match = match_deep(neurons(noise=0.05))
    assert gamma0 == pytest.approx(np.exp(-50 * DEEP_PRICES[0]))
    assert len(match.atoms) == 10
    groups = neurons(noise=1.0)
    gamma0, match = match_deep(groups)
    assert np.exp(-50 * DEEP_PRICES[0]) < gamma0 < np.exp(-50 * DEEP_PRICES[-1])
    least = 1 / 8 + 7 / 8 * DEEP_EXPLAINED
    assert explained_share(groups, match.assignments) >= least


def test_a_search_that_explains_too_little_ends_after_the_first_sweep():
    groups = neurons(noise=1.2)
    gamma0 = np.exp(-50 * PRICES[0])
    match = match_with(groups, gamma0)
    share = explained_share(groups, match.assignments)
    assert match.n_iter > 1
    short = match_with(groups, gamma0, least_share=0.99)
    assert short.n_iter == 1 and not short.converged
    np.testing.assert_array_equal(short.objective, match.objective[:2])
    # One that explains enough, and one whose cap forbids more, goes on.
    for settings in ({"least_share": share - 0.1}, {"max_units": 11}):
        whole = match_with(groups, gamma0, **{"least_share": 0.99} | settings)
        assert whole.n_iter > 1
    # A group without neurons, and no neuron at all.
    assert len(match_with([groups[0], groups[0][:0]], 1.0, least_share=0.99).atoms)
    assert not len(match_with([groups[0][:0]], 1.0, sigma=1.0, least_share=0.99).atoms)


def test_where_few_nodes_share_a_class_atoms_explain_more():
    groups = neurons(noise=1.2)
    many, few = (matched(groups, n_sharing=n_sharing) for n_sharing in (8, 1.2))
    assert explained_share(groups, many[1].assignments) < explained_share(
        groups, few[1].assignments
    )
    assert len(many[1].atoms) < len(few[1].atoms)


def test_units_that_are_alike_but_lead_elsewhere_stay_apart():
    # As of networks that started from one seed, of nodes that know other classes.
    incoming = neurons(noise=0.1, n_groups=4)
    rng = np.random.default_rng(1)
    groups = [np.hstack([V, rng.standard_normal((10, 4))]) for V in incoming]
    sigma = auto_sigma(groups)
    apart, alike = (
        match_at_auto_gamma0(
            partial(
                match_layer,
                groups,
                [np.full(1 + n_outgoing, sigma**-2.0)] * 4,
                n_shared=44 - n_outgoing,
                prior_precision=sigma**-2.0,
                random_state=0,
            ),
            groups,
            sigma=sigma,
            n_sharing=4,
        )
        for n_outgoing in (4, 0)
    )
    # Of all their numbers the atoms explain most.
    assert alike[0] < 1 and len(alike[1].atoms) == 10
    assert alike[1].explained > 1 / 4 + 3 / 4 * EXPLAINED
    assert apart[0] > 1 and len(apart[1].atoms) > 10
    assert apart[1].explained_outgoing > 1 / 4 + 3 / 4 * EXPLAINED_OUTGOING


def test_a_large_or_tiny_sigma_has_a_mass_too():
    groups = neurons(noise=0.05)
    for sigma in (1e-9, 1e9):
        gamma0, match = match_at_auto_gamma0(
            partial(match_with, groups, sigma=sigma),
            groups,
            sigma=sigma,
            n_sharing=len(groups),
        )
        assert 0 < gamma0 <= 1
        assert len(match.atoms) == 10


def test_the_scale_of_weights_does_not_matter():
    results = []
    for scale in (1.0, 1024.0):
        groups = neurons(noise=1.0, scale=scale)
        gamma0, match = matched(groups)
        results.append((gamma0, np.concatenate(match.assignments)))
        assert auto_sigma(groups) == pytest.approx(scale * auto_sigma(neurons(1.0)))
    assert results[0][0] == pytest.approx(results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])

# SPDX-License-Identifier: BSD-3-Clause
"""Products of units with sums of units, from the sums and from pairs of units."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context

from skgems.pfnm import _sums, match_layer
from skgems.pfnm._sums import PairSums, SumTable, Units


def random_groups(widths=(4, 0, 7, 3), n_numbers=6, dtype=np.float64):
    rng = np.random.RandomState(0)
    return [rng.standard_normal((width, n_numbers)).astype(dtype) for width in widths]


@pytest.mark.parametrize("panel_units", [1, 5, 400])
def test_products_of_all_pairs_whatever_the_panels(panel_units, monkeypatch):
    monkeypatch.setattr(_sums, "_PANEL_UNITS", panel_units)
    groups = random_groups()
    units = Units.from_groups(groups, 4)
    units.make_pair_products()
    all_units = np.vstack(groups)[:, :4]
    for V, table in zip(groups, units.pair_products, strict=True):
        np.testing.assert_allclose(table, all_units @ V[:, :4].T)


def test_both_sums_have_the_same_products_as_groups_come_and_go():
    groups = random_groups()
    units = Units.from_groups(groups, 4)
    units.make_pair_products()
    weights = np.array([0.5, 1.0, 2.0, 3.0])
    table = SumTable(units, weights, np.zeros((0, 4)))
    table.make_room(20)
    rows = {0: np.arange(4), 2: np.array([3, 1, 9, 8, 5, 0, 6])}
    table.add(0, rows[0])
    pairs = PairSums(units, weights, [rows[0], None, None, None], n_rows=3)
    assert pairs.products(1, np.arange(3)).shape == (3, 0)
    pairs.make_room(20)
    sums = np.zeros((20, 4))
    sums[rows[0]] = 0.5 * groups[0][:, :4]
    for group, sign in [(2, 1), (0, -1), (0, 1), (2, -1)]:
        for kind in (table, pairs):
            (kind.add if sign > 0 else kind.remove)(group, rows[group])
        sums[rows[group]] += sign * weights[group] * groups[group][:, :4]
        for atoms in (np.arange(12), np.array([1, 3, 9]), np.arange(0)):
            expected = sums[atoms] @ groups[3][:, :4].T
            for kind in (table, pairs):
                products = kind.products(3, atoms)
                np.testing.assert_allclose(products, expected, atol=1e-12)


def test_where_no_group_is_sums_are_those_of_earlier_steps_to_the_bit():
    units = Units.from_groups(random_groups(), 4)
    base = np.random.RandomState(1).standard_normal((2, 4))
    table = SumTable(units, np.full(4, 1 / 3), base)
    table.make_room(8)
    rows = np.array([1, 0, 4, 5])
    table.add(0, rows)
    table.remove(0, rows)
    assert not np.array_equal(table.sums[:2], base)
    table.clear(rows)
    np.testing.assert_array_equal(table.sums[:2], base)
    np.testing.assert_array_equal(table.sums[2:], 0.0)


def test_pairs_pay_after_some_steps_if_they_fit_into_memory():
    groups = random_groups(widths=(20, 20), n_numbers=1000)
    for working_memory, pays in [(1024, True), (1e-3, False)]:
        with config_context(working_memory=working_memory):
            units = Units.from_groups(groups, 1000)
            paid = [units.pairs_have_paid(0, 8) for _ in range(20)]
        assert not paid[0] and paid[-1] == pays
    # Sums of few numbers are multiplied faster than pairs are added.
    units = Units.from_groups(groups, 5)
    assert not any(units.pairs_have_paid(0, 40) for _ in range(1000))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("new_atom_cost", ["exchangeable", "paper"])
def test_searches_of_the_same_units_find_the_same_either_way(dtype, new_atom_cost):
    rng = np.random.RandomState(0)
    atoms = rng.standard_normal((30, 300))
    groups = [
        (atoms[rng.permutation(30)[:20]] + rng.standard_normal((20, 300))).astype(dtype)
        for _ in range(6)
    ]
    precisions = rng.uniform(0.5, 1.5, (6, 11)).astype(dtype)
    settings = {
        "n_shared": 290,
        "prior_precision": 1.0,
        "new_atom_cost": new_atom_cost,
        "random_state": 0,
    }
    units = Units.from_groups(groups, 290)
    for gamma0 in (1e-20, 1e-3):
        with config_context(working_memory=1e-3):
            direct = match_layer(groups, precisions, gamma0=gamma0, **settings)
        match = match_layer(units, precisions, gamma0=gamma0, **settings)
        assert units.pair_products is not None
        for found, expected in zip(match.assignments, direct.assignments, strict=True):
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(match.atoms.linear, direct.atoms.linear)
        np.testing.assert_allclose(match.objective, direct.objective, rtol=1e-5)
        assert len(match.atoms) < 120


def test_float32_and_subnormal_numbers():
    V = np.array([[1e-42, 1.0, -1e-30]], dtype=np.float32)
    units = Units.from_groups([V], 2)
    np.testing.assert_array_equal(units.groups[0], [[0.0, 1.0, 0.0]])
    assert units.dtype == np.float32 and units.squares[0].dtype == np.float32

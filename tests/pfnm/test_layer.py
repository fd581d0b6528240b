# SPDX-License-Identifier: BSD-3-Clause
"""One layer: every step against all assignments, and the objective over sweeps."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln

from skgems.pfnm import Atoms, History, match_layer
from skgems.pfnm._layer import (
    _columns_at_rising_price,
    _Matcher,
    _Search,
    canonical_order,
    evidence_gains,
    first_evidence,
    neuron_factors,
)
from skgems.pfnm._sums import PairSums, Units, squares


def problem(seed, n_groups=3, n_neurons=4, n_numbers=5, n_shared=3, noise=0.3):
    """Noisy subsets of common atoms, precisions that differ by group and number."""
    rng = np.random.RandomState(seed)
    atoms = rng.standard_normal((6, n_numbers))
    groups = []
    for _ in range(n_groups):
        width = rng.randint(1, n_neurons + 1)
        chosen = rng.permutation(6)[:width]
        groups.append(atoms[chosen] + noise * rng.standard_normal((width, n_numbers)))
    precisions = rng.uniform(0.5, 3, size=(n_groups, 1 + n_numbers - n_shared))
    precisions[0, -1] = 0.0
    return groups, list(precisions)


def spread(precision, n_shared):
    """One precision per number."""
    return np.concatenate([np.full(n_shared, precision[0]), precision[1:]])


def log_posterior(groups, precisions, assignments, *, n_shared, s0, gamma0):
    """Straight from the formula: one atom after the other."""
    total = 0.0
    J = len(groups)
    for atom in {a for atoms in assignments for a in atoms}:
        linear = 0.0
        precision = np.full(groups[0].shape[1], s0)
        n_users = 0
        for V, p, atoms in zip(groups, precisions, assignments, strict=True):
            p_all = spread(p, n_shared)
            for v, a in zip(V, atoms, strict=True):
                if a == atom:
                    linear = linear + p_all * v
                    precision = precision + p_all
                    n_users += 1
        total += 0.5 * np.sum(linear**2 / precision)
        total += np.log(gamma0) + gammaln(J - n_users + 1)
        total += gammaln(n_users) - gammaln(J + 1)
    return total


def price_of_order(choice, used_by_others):
    """The paper's cost of new atoms: the log of i for the i-th of a group."""
    return gammaln(1 + sum(atom not in used_by_others for atom in choice))


def best_by_hand(groups, precisions, assignments, group, *, ordered=False, **model):
    """The best value over all assignments of one group, the others fixed."""
    used_by_others = {
        a for j, atoms in enumerate(assignments) if j != group for a in atoms
    }
    width = len(groups[group])
    fresh = [f"new {i}" for i in range(width)]
    objectives = []
    for choice in permutations([*used_by_others, *fresh], width):
        changed = list(assignments)
        changed[group] = list(choice)
        value = log_posterior(groups, precisions, changed, **model)
        objectives.append(value - ordered * price_of_order(choice, used_by_others))
    return max(objectives)


@pytest.mark.parametrize(
    ("seed", "gamma0"), [(0, 0.1), (0, 1.0), (1, 1.0), (1, 20.0), (2, 0.1), (3, 20.0)]
)
def test_no_group_has_a_better_assignment(seed, gamma0):
    groups, precisions = problem(seed, n_neurons=3)
    model = {"n_shared": 3, "s0": 0.7, "gamma0": gamma0}
    match = match_layer(
        groups,
        precisions,
        n_shared=3,
        prior_precision=0.7,
        gamma0=gamma0,
        random_state=seed,
    )
    assert match.converged
    assignments = [atoms.tolist() for atoms in match.assignments]
    value = log_posterior(groups, precisions, assignments, **model)
    assert match.objective[-1] == pytest.approx(value)
    for group in range(len(groups)):
        best = best_by_hand(groups, precisions, assignments, group, **model)
        assert best == pytest.approx(value)
        assert len(set(assignments[group])) == len(assignments[group])


@pytest.mark.parametrize(
    ("seed", "gamma0"),
    [(0, 0.1), (1, 1.0), (2, 20.0), (3, 0.1), (4, 1.0), (5, 20.0), (0, 20.0)],
)
@pytest.mark.parametrize("ordered", [False, True], ids=["equal", "rising"])
@pytest.mark.parametrize("by_pairs", [False, True])
def test_every_step_is_the_best_of_all_assignments(
    seed, gamma0, by_pairs, ordered, monkeypatch
):
    if by_pairs:  # from the first step that has atoms
        monkeypatch.setattr(Units, "pairs_have_paid", lambda self, group, n: n > 0)
    groups, precisions = problem(seed, n_neurons=3, noise=1.0)
    model = {"n_shared": 3, "s0": 0.7, "gamma0": gamma0}
    matcher = _Matcher(
        units=Units.from_groups(groups, 3),
        precisions=precisions,
        prior_precision=0.7,
        gamma0=gamma0,
        ordered_prior=ordered,
    )
    # From a first pass to where steps have changed others' atoms.
    for group in (0, 1, 2, 1, 0, 2):
        matcher.step(group)
        assignments = [[] if rows is None else rows.tolist() for rows in matcher.rows]
        # Groups that had no step have no neurons at an atom yet.
        placed = [V[: len(rows)] for V, rows in zip(groups, assignments, strict=True)]
        value = log_posterior(placed, precisions, assignments, **model)
        assert matcher.objective() == pytest.approx(value)
        best = best_by_hand(
            placed, precisions, assignments, group, ordered=ordered, **model
        )
        others = {a for j, atoms in enumerate(assignments) if j != group for a in atoms}
        price = ordered * price_of_order(assignments[group], others)
        assert value - price == pytest.approx(best)
    assert isinstance(matcher.sums, PairSums) == by_pairs


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("max_units", [None, 9])
def test_no_sweep_lowers_the_objective(seed, max_units):
    groups, precisions = problem(seed, n_groups=9, n_neurons=6, noise=1.0)
    match = match_layer(
        groups,
        precisions,
        n_shared=3,
        prior_precision=0.3,
        gamma0=2.0,
        max_units=max_units,
        random_state=seed,
    )
    assert len(match.objective) == match.n_iter + 1
    assert np.all(np.diff(match.objective) >= -1e-9)
    assert max_units is None or len(match.atoms) <= max_units


def test_gains_are_those_of_the_formula():
    rng = np.random.RandomState(0)
    V = rng.standard_normal((4, 6))
    linear = rng.standard_normal((5, 6))
    p = rng.uniform(0, 2, 4)
    q = rng.uniform(0.5, 2, (5, 4))
    of_neuron, of_atom = rng.standard_normal(4), rng.standard_normal(5)
    gains = evidence_gains(
        linear[:, :3] @ V[:, :3].T,
        p,
        factors=neuron_factors(
            V, p, n_shared=3, neuron_squares=squares(V, 3), neuron_terms=of_neuron
        ),
        atoms=linear[:, 3:],
        atom_precision=q,
        atom_squares=squares(linear, 3),
        atom_terms=of_atom,
    )
    p_all = spread(p, 3)
    for i in range(5):
        q_all = spread(q[i], 3)
        for j in range(4):
            after = (linear[i] + p_all * V[j]) ** 2 / (q_all + p_all)
            expected = np.sum(after) - np.sum(linear[i] ** 2 / q_all)
            expected += of_neuron[j] + of_atom[i]
            assert gains[i, j] == pytest.approx(expected)
    first = first_evidence(squares(V, 3), p, prior_precision=0.5)
    np.testing.assert_allclose(first, np.sum((p_all * V) ** 2 / (0.5 + p_all), axis=1))


def test_atoms_are_the_modes_of_the_posterior():
    groups, precisions = problem(3)
    match = match_layer(
        groups, precisions, n_shared=3, prior_precision=0.7, gamma0=1.0, random_state=0
    )
    for atom, mean in enumerate(match.atoms.mean):
        linear = np.zeros(5)
        precision = np.full(5, 0.7)
        for V, p, atoms in zip(groups, precisions, match.assignments, strict=True):
            for v in V[atoms == atom]:
                linear = linear + spread(p, 3) * v
                precision = precision + spread(p, 3)
        np.testing.assert_allclose(mean, linear / precision)
    users = np.bincount(np.concatenate(match.assignments))
    np.testing.assert_array_equal(match.popularity, users)


def test_copies_are_matched_unit_by_unit():
    rng = np.random.RandomState(0)
    V = rng.standard_normal((7, 5))
    orders = [rng.permutation(7) for _ in range(4)]
    match = match_layer(
        [V[order] for order in orders],
        [np.full(3, 2.0)] * 4,
        n_shared=3,
        prior_precision=0.5,
        gamma0=1.0,
        random_state=0,
    )
    assert len(match.atoms) == 7
    for order, atoms in zip(orders, match.assignments, strict=True):
        # Four copies of precision 2, shrunk by the prior's 0.5.
        np.testing.assert_allclose(match.atoms.mean[atoms], V[order] * 8 / 8.5)


@pytest.mark.parametrize("gamma0", [1e-30, 1e30])
def test_the_mass_decides_whether_neurons_match(gamma0):
    groups, precisions = problem(1, n_groups=4)
    match = match_layer(
        groups, precisions, n_shared=3, prior_precision=0.7, gamma0=gamma0
    )
    sizes = [len(V) for V in groups]
    assert len(match.atoms) == (max(sizes) if gamma0 < 1 else sum(sizes))


def multiset(match):
    """Atoms in an order of their own."""
    mean = match.atoms.mean
    return mean[np.lexsort(np.round(mean, 6).T)]


@pytest.mark.parametrize("new_atom_cost", ["exchangeable", "ordered", "paper"])
def test_order_of_units_and_groups_does_not_matter(new_atom_cost):
    rng = np.random.RandomState(0)
    groups, precisions = problem(5, n_groups=6, n_neurons=6, noise=0.5)
    settings = {
        "n_shared": 3,
        "prior_precision": 0.4,
        "gamma0": 1.0,
        "new_atom_cost": new_atom_cost,
        "random_state": 3,
    }
    straight = match_layer(groups, precisions, **settings)
    order = rng.permutation(6)
    shuffled = match_layer(
        [groups[j][rng.permutation(len(groups[j]))] for j in order],
        [precisions[j] for j in order],
        **settings,
    )
    np.testing.assert_allclose(multiset(straight), multiset(shuffled))
    np.testing.assert_allclose(straight.objective, shuffled.objective)


def test_the_papers_cost_opens_fewer_atoms():
    groups, precisions = problem(2, n_groups=8, n_neurons=6, noise=1.5)
    sizes = {}
    for cost in ("exchangeable", "paper"):
        match = match_layer(
            groups,
            precisions,
            n_shared=3,
            prior_precision=0.3,
            gamma0=5.0,
            new_atom_cost=cost,
            random_state=0,
        )
        sizes[cost] = len(match.atoms)
    assert sizes["paper"] < sizes["exchangeable"]


def worth_by_equation_9(groups, assignments, group, *, s, s0, gamma0, odds_factor):
    """Costs of one group's units at the atoms of the others and at new ones."""
    others = [j for j in range(len(groups)) if j != group]
    used = np.unique(np.concatenate([assignments[j] for j in others]))
    V = groups[group]
    columns = []
    for atom in used:
        units = [groups[j][assignments[j] == atom] for j in others]
        m = sum(map(len, units))
        a = s * np.vstack(units).sum(axis=0)
        q = s0 + s * m
        fit = np.sum((a + s * V) ** 2, axis=1) / (q + s) - a @ a / q
        columns.append(fit + odds_factor * np.log(m / (len(groups) - m)))
    for i in range(1, len(V) + 1):
        fit = np.sum((s * V) ** 2, axis=1) / (s0 + s)
        columns.append(fit - 2 * np.log(i) + 2 * np.log(gamma0 / len(groups)))
    return np.transpose(columns), used


@pytest.mark.parametrize(
    ("new_atom_cost", "odds_factor"), [("paper", 1), ("ordered", 2)]
)
def test_units_are_where_the_costs_of_equation_9_are_best(new_atom_cost, odds_factor):
    rng = np.random.RandomState(0)
    atoms = rng.standard_normal((10, 6))
    groups = [atoms + 1.4 * rng.standard_normal(atoms.shape) for _ in range(7)]
    s, s0, gamma0 = 2.0, 0.5, 1.0
    match = match_layer(
        groups,
        [np.array([s])] * 7,
        n_shared=6,
        prior_precision=s0,
        gamma0=gamma0,
        new_atom_cost=new_atom_cost,
        random_state=0,
    )
    # The last state is the best that was visited.
    assert match.converged and match.objective[-1] == match.objective.max()
    losses = {1: 0.0, 2: 0.0}  # by factors on the log odds, over all groups
    for group, atoms_of_group in enumerate(match.assignments):
        for factor in losses:
            table, used = worth_by_equation_9(
                groups,
                match.assignments,
                group,
                s=s,
                s0=s0,
                gamma0=gamma0,
                odds_factor=factor,
            )
            is_new = ~np.isin(atoms_of_group, used)
            columns = np.searchsorted(used, atoms_of_group)
            columns[is_new] = len(used) + np.arange(is_new.sum())
            rows, best = linear_sum_assignment(table, maximize=True)
            losses[factor] += table[rows, best].sum() - table[rows, columns].sum()
    assert losses[odds_factor] == pytest.approx(0, abs=1e-6)
    assert losses[3 - odds_factor] > 0.1


@pytest.mark.parametrize("typical_gain", [-8.0, -3.0, 0.0, 3.0])
def test_a_smaller_table_has_an_assignment_worth_as_much(typical_gain):
    rng = np.random.RandomState(0)
    gains = typical_gain + 2.0 * rng.standard_normal((30, 20))  # (atoms, units)
    gains[:, ::3] -= 10.0  # these match nothing
    prices = 2.0 * np.log(np.arange(1, 21))

    def worth(columns):
        units = np.flatnonzero(columns < 30)
        return gains[columns[units], units].sum() - prices[: 20 - len(units)].sum()

    columns = _columns_at_rising_price(gains)
    whole = np.hstack([gains.T, np.tile(-prices, (20, 1))])
    _, best = linear_sum_assignment(whole, maximize=True)
    assert len(np.unique(columns)) == 20
    assert worth(columns) == pytest.approx(worth(best))


@pytest.mark.parametrize("new_atom_cost", ["exchangeable", "ordered", "paper"])
def test_units_that_match_nothing_stay_out_of_the_assignment(
    new_atom_cost, monkeypatch
):
    """Many equal rows of costs take scipy seconds for 2,000 units."""
    sizes = []

    def assign(table, **kwargs):
        sizes.append(table.size)
        return linear_sum_assignment(table, **kwargs)

    monkeypatch.setattr("skgems.pfnm._layer.linear_sum_assignment", assign)
    # Each unit has a direction of its own, but for one that two groups share.
    units = np.eye(79)
    groups = [units[:40], units[39:]]
    match = match_layer(
        groups,
        [np.array([100.0])] * 2,
        n_shared=79,
        prior_precision=100.0,
        gamma0=1e-4,
        new_atom_cost=new_atom_cost,
        random_state=0,
    )
    assert len(match.atoms) == 79
    assert match.assignments[0][39] == match.assignments[1][0]
    assert max(sizes) <= 2


def alike(noise, share, n_groups=8):
    """Noisy copies of the same atoms, and settings with sigma a share of their norm."""
    rng = np.random.RandomState(0)
    atoms = rng.standard_normal((15, 40))
    groups = [atoms + noise * rng.standard_normal(atoms.shape) for _ in range(n_groups)]
    size = np.median(np.linalg.norm(np.vstack(groups), axis=1))
    precision = (share * size) ** -2.0
    settings = {"n_shared": 40, "prior_precision": precision, "gamma0": 1.0}
    return groups, [np.array([precision])] * n_groups, settings


@pytest.mark.parametrize("noise, share", [(1.4, 0.3), (1.8, 0.4)])
def test_the_search_goes_on_from_the_better_start(noise, share):
    groups, precisions, settings = alike(noise, share)
    search = _Search(
        _Matcher(
            units=Units.from_groups(groups, settings["n_shared"]),
            precisions=precisions,
            prior_precision=settings["prior_precision"],
            gamma0=settings["gamma0"],
        ),
        order=canonical_order(groups),
        rng=np.random.RandomState(0),
    )
    alone = search.run(max_iter=100, tol=0.0).best_match()
    match = match_layer(groups, precisions, random_state=0, **settings)
    assert match.converged
    assert match.objective[-1] > alone.objective[-1] + 5
    assert len(match.atoms) < len(alone.atoms)
    # Where the ordered cost would lead to worse, it is not taken.
    groups, precisions, settings = alike(1.8, 0.2)
    ordered = match_layer(
        groups, precisions, new_atom_cost="ordered", random_state=0, **settings
    )
    match = match_layer(groups, precisions, random_state=0, **settings)
    assert match.objective[-1] > ordered.objective.max() + 5


def test_the_best_state_visited_is_returned():
    groups, precisions, settings = alike(1.8, 0.2)
    match = match_layer(
        groups, precisions, new_atom_cost="ordered", random_state=0, **settings
    )
    # The ordered cost goes on until nothing changes, here to a worse state.
    assert match.converged and match.objective[-1] < match.objective.max() - 1e-3
    value = log_posterior(
        groups,
        precisions,
        [atoms.tolist() for atoms in match.assignments],
        n_shared=40,
        s0=settings["prior_precision"],
        gamma0=1.0,
    )
    assert value == pytest.approx(match.objective.max())


def test_float32_and_subnormal_numbers():
    groups, precisions = problem(4, n_groups=4)
    settings = {"n_shared": 3, "prior_precision": 0.7, "gamma0": 1.0}
    double = match_layer(groups, precisions, random_state=0, **settings)
    single = [V.astype(np.float32) for V in groups]
    single[0][0, 0] = 1e-42
    groups[0][0, 0] = 0.0
    double = match_layer(groups, precisions, random_state=0, **settings)
    match = match_layer(
        single, [p.astype(np.float32) for p in precisions], random_state=0, **settings
    )
    assert match.atoms.linear.dtype == np.float32
    np.testing.assert_allclose(match.atoms.mean, double.atoms.mean, atol=1e-5)


def test_an_earlier_posterior_is_the_prior_of_a_stream():
    # One group, seen twice: the second step's atoms are the posterior of both.
    rng = np.random.RandomState(0)
    V = 3 * rng.standard_normal((4, 5))
    settings = {"n_shared": 3, "prior_precision": 0.5, "gamma0": 1.0}
    p = [np.full(3, 2.0)]
    first = match_layer([V], p, **settings)
    history = History(atoms=first.atoms, counts=np.ones((1, 4), dtype=int), n_steps=1)
    again = match_layer([V[::-1]], p, history=history, **settings)
    assert len(again.atoms) == 4
    np.testing.assert_array_equal(again.assignments[0], first.assignments[0][::-1])
    np.testing.assert_allclose(again.atoms.mean[again.assignments[0]], V[::-1] / 1.125)
    # Other neurons open atoms of their own; the old ones stay as they were.
    other = match_layer([-V], p, history=history, **settings)
    assert len(other.atoms) == 8
    np.testing.assert_array_equal(other.atoms.mean[:4], first.atoms.mean)
    np.testing.assert_array_equal(other.popularity, [0] * 4 + [1] * 4)


@pytest.mark.parametrize("seed", range(4))
def test_a_step_of_a_stream_is_the_best_of_all_assignments(seed):
    rng = np.random.RandomState(seed)
    base = Atoms(
        linear=rng.standard_normal((3, 5)),
        precision=rng.uniform(1, 3, (3, 3)),
        n_shared=3,
    )
    groups, precisions = problem(seed, n_groups=2, n_neurons=3)
    counts = rng.randint(0, 3, size=(2, 3))
    n_steps = 2
    match = match_layer(
        groups,
        precisions,
        n_shared=3,
        prior_precision=0.7,
        gamma0=1.0,
        history=History(atoms=base, counts=counts, n_steps=n_steps),
        random_state=seed,
    )

    def objective(assignments):
        total = 0.0
        for atom in {a for atoms in assignments for a in atoms}:
            linear = np.zeros(5)
            precision = np.full(5, 0.7)
            if atom < 3:
                linear = base.linear[atom].copy()
                precision = spread(base.precision[atom], 3)
                total -= 0.5 * np.sum(linear**2 / precision)
            users = [j for j, atoms in enumerate(assignments) if atom in atoms]
            for j in users:
                p = spread(precisions[j], 3)
                linear = linear + p * groups[j][assignments[j].index(atom)]
                precision = precision + p
            total += 0.5 * np.sum(linear**2 / precision)
            if atom < 3:
                for j in users:
                    m = counts[j, atom]
                    total += np.log((1 + m) / (n_steps + 1 - m))
            else:
                total += np.log(1.0 / ((n_steps + 1) * 2))
                total -= (len(users) - 1) * np.log(n_steps + 1)
        return total

    assignments = [atoms.tolist() for atoms in match.assignments]
    assert match.objective[-1] == pytest.approx(objective(assignments))
    for group in range(2):
        atoms_without_it = range(max(3, 1 + max(assignments[1 - group])))
        fresh = range(100, 100 + len(groups[group]))
        for choice in permutations([*atoms_without_it, *fresh], len(groups[group])):
            changed = list(assignments)
            changed[group] = list(choice)
            assert objective(changed) <= match.objective[-1] + 1e-9

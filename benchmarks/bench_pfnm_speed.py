# SPDX-License-Identifier: BSD-3-Clause
"""Time of PFNM's matching against its plain form and against its floor.

The plain form has one broadcast expression of all atoms per neuron, as published
programs do; the floor is two matrix products and one linear assignment of the sizes
of each step. Both are timed in this run, on neurons that are noisy copies of common
atoms. One thread each if OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import resource
from argparse import ArgumentParser
from time import perf_counter

import numpy as np
from scipy.optimize import linear_sum_assignment

from skgems.matching import match_layer
from skgems.matching._layer import canonical_order

SWEEPS = 3
# Nodes, units a node, numbers a unit.
SIZES = [(10, 100, 795), (25, 100, 795), (10, 100, 3183), (10, 400, 795)]


def neurons(J: int, width: int, numbers: int, seed: int = 0) -> list[np.ndarray]:
    """Each node's noisy copies of a random subset of 4 * width atoms."""
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((4 * width, numbers))
    return [
        atoms[rng.permutation(4 * width)[:width]]
        + 0.5 * rng.standard_normal((width, numbers))
        for _ in range(J)
    ]


def plain(groups, sigma: float, sigma0: float, gamma0: float, seed: int):
    """The same algorithm, one broadcast expression a neuron."""
    s, s0, J = sigma**-2, sigma0**-2, len(groups)
    owner = [None] * J
    linear, users = np.zeros((0, groups[0].shape[1])), np.zeros(0, dtype=int)
    order = canonical_order(groups)
    rng = np.random.RandomState(seed)
    steps = []
    for sweep in range(SWEEPS + 1):
        for j in order if sweep == 0 else order[rng.permutation(J)]:
            V = groups[j]
            if owner[j] is not None:
                linear[owner[j]] -= s * V
                users[owner[j]] -= 1
                kept = users > 0
                place = np.cumsum(kept) - 1
                owner = [None if a is None else place[a] for a in owner]
                linear, users = linear[kept], users[kept]
            old = np.sum(linear**2, axis=1) / (s0 + s * users)
            odds = 2 * np.log(users / (J - users))
            cost = np.empty((len(V), len(users) + len(V)))
            for row, v in zip(cost, V, strict=True):
                new = np.sum((linear + s * v) ** 2, axis=1) / (s0 + s * (users + 1))
                row[: len(users)] = new - old + odds
                alone = np.sum((s * v) ** 2) / (s0 + s)
                row[len(users) :] = alone + 2 * np.log(gamma0 / J)
            chosen = linear_sum_assignment(cost, maximize=True)[1]
            steps.append((len(V), len(users)))
            fresh = chosen >= len(users)
            atoms = np.where(fresh, len(users) + np.cumsum(fresh) - 1, chosen)
            linear = np.vstack([linear, np.zeros((fresh.sum(), V.shape[1]))])
            users = np.append(users, np.zeros(fresh.sum(), dtype=int))
            linear[atoms] += s * V
            users[atoms] += 1
            owner[j] = atoms
    return owner, len(users), steps


def floor(steps, numbers: int) -> float:
    """Seconds of two products and one assignment for each step."""
    rng = np.random.default_rng(0)
    total = 0.0
    for width, n_atoms in steps:
        V, A = rng.standard_normal((width, numbers)), rng.standard_normal(
            (n_atoms, numbers)
        )  # fmt: skip
        start = perf_counter()
        cost = V @ A.T + V @ A.T
        linear_sum_assignment(np.hstack([cost, np.zeros((width, width))]), True)
        total += perf_counter() - start
    return total


def groups_of_equals(assignments) -> set:
    """The atoms as sets of (node, unit), whatever their numbers."""
    sets = {}
    for node, own in enumerate(assignments):
        for unit, atom in enumerate(own):
            sets.setdefault(atom, set()).add((node, unit))
    return {frozenset(members) for members in sets.values()}


def match(groups, sigma, sigma0, gamma0, seed, max_iter=SWEEPS):
    """Ours, on groups of equal precision."""
    precisions = np.full((len(groups), 1), sigma**-2, dtype=groups[0].dtype)
    return match_layer(
        groups,
        precisions,
        n_shared=groups[0].shape[1],
        prior_precision=sigma0**-2,
        gamma0=gamma0,
        max_iter=max_iter,
        random_state=seed,
    )


def best_of(function, repeats: int = 5):
    """Result and shortest time."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        result = function()
        times.append(perf_counter() - start)
    return result, min(times)


def main() -> None:
    """Print the table."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="J=100 too")
    options = parser.parse_args()
    print(
        f"{'nodes x units x numbers':24} {'plain':>8} {'ours':>8} {'ratio':>7} "
        f"{'float32':>8} {'floor':>8} {'x floor':>8}  atoms  same"
    )
    for J, width, numbers in SIZES:
        groups = neurons(J, width, numbers)
        settings = (0.25 * np.sqrt(numbers), 0.25 * np.sqrt(numbers), 1.0, 0)
        ours, fast = best_of(lambda g=groups, a=settings: match(g, *a))
        single = [V.astype(np.float32) for V in groups]
        _, short = best_of(lambda g=single, a=settings: match(g, *a))
        (owner, n_atoms, steps), slow = best_of(
            lambda g=groups, a=settings: plain(g, *a), 1
        )
        steps = steps[: J * (1 + ours.n_iter)]
        least = min(floor(steps, numbers) for _ in range(3))
        same = groups_of_equals(ours.assignments) == groups_of_equals(owner)
        # Ours stops where nothing changes: compare what both did.
        slow *= len(steps) / (J * (1 + SWEEPS))
        print(
            f"{J:5} x {width:4} x {numbers:5}     {slow:8.2f} {fast:8.3f} "
            f"{slow / fast:7.1f} {short:8.3f} {least:8.3f} {fast / least:8.2f}  "
            f"{n_atoms:5}  {same}",
            flush=True,
        )
    if options.large:
        groups = neurons(100, 100, 795)
        start = perf_counter()
        result = match(groups, 7.0, 7.0, 1.0, 0, 100)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"  100 x  100 x   795: {perf_counter() - start:.1f} s, "
            f"{len(result.atoms)} atoms, {result.n_iter} sweeps, converged: "
            f"{result.converged}, peak memory {peak:.2f} GB"
        )


if __name__ == "__main__":
    main()

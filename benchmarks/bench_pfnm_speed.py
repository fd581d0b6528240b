# SPDX-License-Identifier: BSD-3-Clause
"""Time of PFNM's matching against its plain form and against its floor, on MNIST.

The plain form has one broadcast expression of all atoms per neuron, as published
programs do, and makes three sweeps. The floor is what must be computed: for each step
of our search one product of the neurons with the atoms, and the assignment of the very
table that the step made. All are timed in this run, on networks that were trained as
`_networks.py` says, homogeneous. Times are of the processor, as machines are shared;
one thread each if OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import resource
from argparse import ArgumentParser
from time import process_time

import numpy as np
from _networks import node_networks
from _protocol import DATA_VARIABLE, add_arguments, load_mnist
from _quick import note_figure, parse_with_quick
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln

from skgems import PFNMAggregator
from skgems.matching import _layer, match_layer
from skgems.networks import read_network

SWEEPS = 3
TOL = 1e-3  # PFNMAggregator's


def node_units(
    J: int, width: int, train_rows: tuple, cache: str | None
) -> tuple[list[np.ndarray], list]:
    """Each node's units, with all their weights, and the networks."""
    estimators, _, _ = node_networks(
        "homogeneous", J, (width,), 0, train_rows, cache_dir=cache
    )
    networks = [read_network(estimator) for estimator in estimators]
    groups = [
        np.hstack([net.coefs[0].T, net.intercepts[0][:, None], net.coefs[1]])
        for net in networks
    ]
    return groups, estimators


def plain(groups, sigma: float, gamma0: float):
    """The same steps, one broadcast expression a neuron; the log-posterior too."""
    s = sigma**-2  # the precision of a weight about its unit
    J = len(groups)
    owner = [None] * J
    linear, users = np.zeros((0, groups[0].shape[1])), np.zeros(0, dtype=int)
    rng = np.random.RandomState(0)
    for _ in range(SWEEPS + 1):
        for j in rng.permutation(J):
            V = groups[j]
            if owner[j] is not None:
                linear[owner[j]] -= s * V
                users[owner[j]] -= 1
                is_used = users > 0
                place = np.cumsum(is_used) - 1
                owner = [None if a is None else place[a] for a in owner]
                linear, users = linear[is_used], users[is_used]
            old = np.sum(linear**2, axis=1) / (s + s * users)
            odds = 2 * np.log(users / (J - users))
            cost = np.empty((len(V), len(users) + len(V)))
            for row, v in zip(cost, V, strict=True):
                new = np.sum((linear + s * v) ** 2, axis=1) / (s + s * (users + 1))
                row[: len(users)] = new - old + odds
                alone = np.sum((s * v) ** 2) / (2 * s)
                row[len(users) :] = alone + 2 * np.log(gamma0 / J)
            chosen = linear_sum_assignment(cost, maximize=True)[1]
            fresh = chosen >= len(users)
            atoms = np.where(fresh, len(users) + np.cumsum(fresh) - 1, chosen)
            linear = np.vstack([linear, np.zeros((fresh.sum(), V.shape[1]))])
            users = np.append(users, np.zeros(fresh.sum(), dtype=int))
            linear[atoms] += s * V
            users[atoms] += 1
            owner[j] = atoms
    fits = np.sum(np.sum(linear**2, axis=1) / (s + s * users)) / 2
    counts = gammaln(J - users + 1) + gammaln(users) - gammaln(J + 1)
    return fits + len(users) * np.log(gamma0) + np.sum(counts), len(users)


class Floor:
    """Adds up the time of products and assignments while a match is made."""

    def __init__(self):
        self.seconds = 0.0

    def timed(self, function, *args, **kwargs):
        start = process_time()
        returned = function(*args, **kwargs)
        self.seconds += process_time() - start
        return returned

    def of(self, function) -> float:
        """Seconds of what must be computed in a call."""
        gains = _layer.evidence_gains
        assign = _layer.linear_sum_assignment

        def with_product(V, precision, *, linear, **atoms):
            self.timed(lambda: V @ linear.T)
            return gains(V, precision, linear=linear, **atoms)

        def timed_assign(*args, **kwargs):
            return self.timed(assign, *args, **kwargs)

        _layer.evidence_gains = with_product
        _layer.linear_sum_assignment = timed_assign
        try:
            function()
        finally:
            _layer.evidence_gains = gains
            _layer.linear_sum_assignment = assign
        return self.seconds


def match(groups, sigma, gamma0, tol=TOL):
    """Ours, on groups of equal precision."""
    return match_layer(
        groups,
        [np.full(1, sigma**-2, dtype=groups[0].dtype)] * len(groups),
        n_shared=groups[0].shape[1],
        prior_precision=sigma**-2,
        gamma0=gamma0,
        tol=tol,
        random_state=0,
    )


def best_of(function, repeats: int = 3):
    """Result and shortest time."""
    times = []
    for _ in range(repeats):
        start = process_time()
        returned = function()
        times.append(process_time() - start)
    return returned, min(times)


def main() -> None:
    """Print the tables."""
    parser = add_arguments(ArgumentParser(description=__doc__))
    parser.add_argument("--nodes", type=int, nargs="*", default=[10, 25])
    parser.add_argument("--large", type=int, nargs="*", default=[])
    parser.add_argument("--width", type=int, default=100)
    options = parse_with_quick(
        parser, quick={"nodes": [10]}, needs={"data": DATA_VARIABLE}
    )
    train_rows = load_mnist(options.data)
    print(
        f"{'nodes x units':14} {'plain':>8} {'ours':>8} {'ratio':>6} {'float64':>8} "
        f"{'floor':>8} {'x floor':>8}  atoms (plain)  objective (plain)"
    )
    for J in options.nodes:
        groups, _ = node_units(J, options.width, train_rows, options.cache)
        sigma = 0.1 * float(np.median(np.linalg.norm(np.vstack(groups), axis=1)))
        gamma0 = float(np.exp(-8))
        ours, fast = best_of(lambda g=groups, s=sigma, m=gamma0: match(g, s, m))
        double = [V.astype(np.float64) for V in groups]
        _, longer = best_of(lambda g=double, s=sigma, m=gamma0: match(g, s, m), 1)
        least = Floor().of(lambda g=groups, s=sigma, m=gamma0: match(g, s, m))
        note_figure(f"seconds, {J} nodes", fast)
        (value, n_atoms), slow = best_of(
            lambda g=groups, s=sigma, m=gamma0: plain(g, s, m), 1
        )
        print(
            f"{J:5} x {options.width:4}   {slow:8.2f} {fast:8.2f} {slow / fast:6.1f} "
            f"{longer:8.2f} {least:8.2f} {fast / least:8.2f}  {len(ours.atoms):5} "
            f"({n_atoms})  {ours.objective[-1]:.0f} ({value:.0f})",
            flush=True,
        )
    for J in options.large:
        _, estimators = node_units(J, options.width, train_rows, options.cache)
        for max_units in (4 * options.width, None):
            aggregate = PFNMAggregator(estimators, max_units=max_units, random_state=0)
            start = process_time()
            aggregate.fit()
            seconds = process_time() - start
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(
                f"{J:5} x {options.width:4}, max_units {max_units}: {seconds:.1f} s, "
                f"{aggregate.n_units_[0]} atoms, {aggregate.n_iter_} sweeps, peak "
                f"memory {peak:.2f} GB",
                flush=True,
            )


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""Time of PFNM's matching beside that of published programs, on MNIST.

The plain form stands for these: one broadcast expression of all atoms per neuron, and
the paper's cost of new atoms. With ``--published`` and the folder of a clone of
github.com/IBM/probabilistic-federated-neural-matching that program is timed as well.
All make a first pass and three sweeps over the same networks in this run, with a
variance of 1 and a mass of 1, that program's defaults; "auto" chooses its own.
Networks are trained as `_networks.py` says, homogeneous. Times are of the processor,
as machines are shared; one thread each if OMP_NUM_THREADS=1.

``--wide 500 1000 2000`` matches two networks of so many units with all defaults. Each
was trained by scikit-learn on a half of its digits.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import resource
import warnings
from argparse import ArgumentParser
from pathlib import Path
from time import process_time

import numpy as np
from _networks import class_counts, node_networks
from _protocol import DATA_VARIABLE, add_arguments, load_mnist
from _quick import note_figure, parse_with_quick
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from skgems import PFNMAggregator
from skgems.networks import read_network
from skgems.pfnm import Matching

SWEEPS = 3
# What our ways differ in.
WAYS = {
    "paper": {
        "sigma": 1.0,
        "gamma0": 1.0,
        "matching": Matching(new_atom_cost="ordered", max_iter=SWEEPS, tol=0.0),
    },
    "exchangeable": {
        "sigma": 1.0,
        "gamma0": 1.0,
        "matching": Matching(max_iter=SWEEPS, tol=0.0),
    },
    "auto": {"matching": Matching(max_iter=SWEEPS)},
}


def node_units(estimators: list) -> list[np.ndarray]:
    """Each node's units, with all their weights."""
    networks = [read_network(estimator) for estimator in estimators]
    return [
        np.hstack([net.coefs[0].T, net.intercepts[0][:, None], net.coefs[1]])
        for net in networks
    ]


def plain(groups: list[np.ndarray], sigma: float, gamma0: float) -> int:
    """One broadcast expression a neuron; how many atoms there are at the end."""
    s = sigma**-2  # the precision of a weight about its unit, and of an atom
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
            precision = s + s * users[:, None]
            odds = 2 * np.log(users / (J - users))
            gains = np.empty((len(V), len(users) + len(V)))
            for row, v in zip(gains, V, strict=True):
                joined = np.sum((linear + s * v) ** 2 / (precision + s), axis=1)
                before = np.sum(linear**2 / precision, axis=1)
                row[: len(users)] = joined - before + odds
                alone = np.sum((s * v) ** 2 / (2 * s))
                price = 2 * np.log(np.arange(1, len(V) + 1))
                row[len(users) :] = alone + 2 * np.log(gamma0 / J) - price
            chosen = linear_sum_assignment(-gains)[1]
            fresh = chosen >= len(users)
            atoms = np.where(fresh, len(users) + np.cumsum(fresh) - 1, chosen)
            linear = np.vstack([linear, np.zeros((fresh.sum(), V.shape[1]))])
            users = np.append(users, np.zeros(fresh.sum(), dtype=int))
            linear[atoms] += s * V
            users[atoms] += 1
            owner[j] = atoms
    return len(users)


def published(folder: str, estimators: list, counts: np.ndarray) -> int:
    """The program of the paper's authors; how many atoms there are at the end."""
    path = Path(folder) / "matching" / "pfnm.py"
    spec = importlib.util.spec_from_file_location("published_pfnm", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    weights = [
        [
            array
            for pair in zip(net.coefs_, net.intercepts_, strict=True)
            for array in pair
        ]
        for net in estimators
    ]
    np.random.seed(0)  # noqa: NPY002, its own source of numbers
    with contextlib.redirect_stdout(io.StringIO()):
        merged = program.layer_group_descent(
            weights, list(counts.astype(float)), 1.0, 1.0, 1.0, SWEEPS
        )
    return merged[0].shape[1]


def shortest(function, repeats: int):
    """Result and shortest time."""
    times = []
    for _ in range(repeats):
        start = process_time()
        returned = function()
        times.append(process_time() - start)
    return returned, min(times)


def compare(J: int, options, train_rows: tuple) -> None:
    """Print a row for each way to match the networks of J nodes."""
    estimators, rows, nodes = node_networks(
        "homogeneous",
        J,
        (options.width,),
        0,
        train_rows,
        cache_dir=options.cache,
        glorot=options.glorot,
    )
    counts = class_counts(train_rows[1][rows], nodes, J)
    groups = [V.astype(options.dtype) for V in node_units(estimators)]
    n_atoms, plain_seconds = shortest(lambda: plain(groups, 1.0, 1.0), 1)
    results = {"plain": (n_atoms, plain_seconds)}
    if options.published:
        results["published"] = shortest(
            lambda: published(options.published, estimators, counts), 1
        )
    for way, settings in WAYS.items():
        matching = Matching(
            **settings["matching"].get_params() | {"dtype": options.dtype}
        )
        aggregate = PFNMAggregator(
            estimators, random_state=0, **settings | {"matching": matching}
        )
        fitted, seconds = shortest(lambda a=aggregate: a.fit(n_class_samples=counts), 3)
        results[way] = fitted.n_units_[0], seconds
    base = results.get("published", results["plain"])[1]
    for way, (n_atoms, seconds) in results.items():
        note_figure(f"{way}, {J} nodes, times faster", base / seconds)
        print(
            f"{J:5} x {options.width:4}  {way:12} {n_atoms:6} {seconds:8.3f} s "
            f"{base / seconds:7.1f}",
            flush=True,
        )


def match_wide(width: int) -> None:
    """Print the time to match two wide networks of digits."""
    X, y = load_digits(return_X_y=True)
    estimators = [
        MLPClassifier((width,), max_iter=30, random_state=k).fit(X[k::2] / 16, y[k::2])
        for k in range(2)
    ]
    aggregate = PFNMAggregator(estimators, random_state=0)
    fitted, seconds = shortest(aggregate.fit, 1)
    print(f"    2 x {width:4}: {seconds:.2f} s, {fitted.n_units_[0]} atoms", flush=True)


def main() -> None:
    """Print the tables."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    parser = add_arguments(ArgumentParser(description=__doc__))
    parser.add_argument("--nodes", type=int, nargs="*", default=[10, 25])
    parser.add_argument("--large", type=int, nargs="*", default=[])
    parser.add_argument("--wide", type=int, nargs="*", default=[])
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--glorot", action="store_true", help="usual first weights")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--published", help="folder of the published program")
    options = parse_with_quick(
        parser, quick={"nodes": [10]}, needs={"data": DATA_VARIABLE}
    )
    for width in options.wide:
        match_wide(width)
    train_rows = load_mnist(options.data)
    faster_than = "published" if options.published else "plain"
    print(f"nodes x units  way           atoms       time   faster than {faster_than}")
    for J in options.nodes:
        compare(J, options, train_rows)
    for J in options.large:
        estimators, _, _ = node_networks(
            "homogeneous",
            J,
            (options.width,),
            0,
            train_rows,
            cache_dir=options.cache,
            glorot=options.glorot,
        )
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

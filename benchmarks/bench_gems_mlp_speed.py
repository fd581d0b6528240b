# SPDX-License-Identifier: BSD-3-Clause
"""Time and memory of neuron spaces, merging and a whole fit, on random layers.

The floor of a sampled radius search is drawing the directions and one product of the
rows with them for each node; the goal is four times that for all neurons. The
authors' program takes 350-390 s for its 250 neurons, and 55 s for intersections.

With ``--many`` whole fits of 10 to 200 networks of 30 units, at most 60 in the
aggregate, each in a process of its own: time in seconds of the processor, which other
work on the machine disturbs less, its growth from the line before as a power of the
number of nodes (goal: at most 1.5 to 50 nodes), and memory (goal: 2 GiB at 200).
"""

from __future__ import annotations

import resource
import subprocess
import sys
import warnings
from argparse import ArgumentParser
from time import perf_counter, process_time

import numpy as np

from skgems import GEMSMLPAggregator
from skgems.local import clear_cache
from skgems.networks import Layers, to_mlp_classifier
from skgems.spaces import build_neuron_spaces, merge_neurons

GEOMETRIES = ("gram", "ellipsoid", "ball")


def nodes(n_nodes, n_neurons, n_inputs, n_rows, noise=None, seed=0):
    """Rows and neurons of each node; a fifth of the inputs is not 0, as in images.

    With `noise` all nodes have the same neurons, in another order and with that
    relative noise, so that many spaces meet.
    """
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n_nodes):
        X = rng.random((n_rows, n_inputs), dtype=np.float32)
        X *= rng.random((n_rows, n_inputs), dtype=np.float32) < 0.2
        W = rng.normal(0, 0.05, (n_inputs + 1, n_neurons)).astype(np.float32)
        if noise is not None and made:
            order = rng.permutation(n_neurons)
            W = made[0][1][:, order] + np.float32(noise) * W
        made.append((X, W))
    return made


def floor(federation, n_directions=500):
    """Seconds to draw the directions of all nodes and multiply the rows by them."""
    start = perf_counter()
    for X, W in federation:
        generator = np.random.Generator(np.random.SFC64(0))
        draw = generator.standard_normal((n_directions, len(W)), dtype=np.float32)
        draw[:, :-1] @ X.T
    return perf_counter() - start


def build(federation, **options):
    """Spaces of all nodes, and the seconds they take."""
    start = perf_counter()
    spaces = [
        build_neuron_spaces(X, W, "relu", random_state=0, max_radius=4000.0, **options)
        for X, W in federation
    ]
    return spaces, perf_counter() - start


def print_spaces(federation, repeats) -> None:
    """Times of all kinds of spaces, beside floors taken in between."""
    floor(federation)
    print(f"  {'floor: 500 directions, one product a node':40}", end="")
    print(f"{min(floor(federation) for _ in range(repeats)):9.3f} s")
    for epsilon in (0.05, 0.3):
        for construction in ("certified", "sampled"):
            for geometry in GEOMETRIES:
                given = {"geometry": geometry, "construction": construction}
                times, floors = [], []
                for _ in range(repeats):
                    floors.append(floor(federation))
                    times.append(build(federation, epsilon=epsilon, **given)[1])
                what = f"{geometry}, {construction}, epsilon {epsilon}"
                ratio = min(times) / min(floors)
                print(f"  {what:40}{min(times):9.3f} s {ratio:6.1f} x floor")


def print_merging(federation, what) -> None:
    """Times of merging, spaces excluded."""
    for epsilon, max_units in ((0.05, None), (0.05, 100), (0.2, None), (0.4, None)):
        spaces, _ = build(federation, epsilon=epsilon)
        start = perf_counter()
        layer = merge_neurons(spaces, homogeneous=True, max_units=max_units)
        seconds = perf_counter() - start
        label = f"{what}, epsilon {epsilon}, max_units {max_units}"
        print(f"  {label:40}{seconds:9.3f} s {layer.n_units:6} units")


def networks(federation, own_classes=True):
    """Networks on the layers, and rows that they label; every node has two classes."""
    rng = np.random.default_rng(0)
    locals_, X, y, owners = [], [], [], []
    for k, (rows, W) in enumerate(federation):
        V = rng.normal(0, 0.1, (W.shape[1], 2))
        first = 2 * k if own_classes else 2 * (k % 5)
        layers = Layers(
            [W[:-1].astype(float), V], [W[-1].astype(float), np.zeros(2)], "relu"
        )
        locals_.append(to_mlp_classifier(layers, np.array([first, first + 1])))
        X.append(rows)
        y.append(locals_[-1].predict(rows))
        owners.append(np.full(len(rows), k))
    return locals_, (np.vstack(X), np.concatenate(y), np.concatenate(owners))


def print_fit(federation) -> None:
    """Times of a whole fit without retraining."""
    locals_, data = networks(federation)
    for options in (
        {},
        {"max_units": 100},
        {"max_units": 100, "construction_hidden": "sampled"},
        {"max_units": 100, "geometry": "ball", "geometry_hidden": "ball"},
        {"epsilon_hidden": 0.4},
    ):
        clear_cache()
        start = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            agg = GEMSMLPAggregator(
                locals_, retrain_epochs=0, random_state=0, **options
            )
            agg.fit(*data)
        seconds = perf_counter() - start
        n_units = agg.layer_report_[0]["n_units"]
        told = {k.split("_h")[0]: v for k, v in options.items()}
        label = ", ".join(f"{k} {v}" for k, v in told.items())
        print(f"  fit, {label or 'defaults':35}{seconds:9.3f} s {n_units:6} units")


def print_large() -> None:
    """Time and memory of 10 nodes with 1000 neurons each on 2000 inputs."""
    federation = nodes(10, 1000, 2000, 500)
    print("10 nodes x 1000 neurons, 2000 inputs, 500 rows a node", flush=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = perf_counter()
    for what in ("spaces", "merging"):
        if what == "spaces":
            spaces, _ = build(federation, epsilon=0.05)
        else:
            layer = merge_neurons(spaces, homogeneous=True, max_units=2000)
        more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        seconds = perf_counter() - start
        print(f"  after {what:33}{seconds:9.0f} s {more / 2**20:6.2f} GiB", flush=True)
    print(f"  {layer.n_units} units")


def print_many_of(n_nodes) -> None:
    """Seconds and GiB of one fit of many nodes, 10 classes in all."""
    locals_, data = networks(nodes(n_nodes, 30, 784, 200), own_classes=False)
    agg = GEMSMLPAggregator(locals_, max_units=60, retrain_epochs=0, random_state=0)
    start = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agg.fit(*data)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(process_time() - start, peak, agg.layer_report_[0]["n_units"])


def print_many() -> None:
    """Time and memory by the number of nodes."""
    print(f"{'nodes':>6}{'CPU s':>9}{'power':>8}{'GiB':>8}{'units':>7}")
    before = None
    for n_nodes in (10, 20, 50, 200):
        command = [sys.executable, __file__, "--many-of", str(n_nodes)]
        told = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds, peak, n_units = map(float, told.stdout.split())
        power = ""
        if before is not None:
            power = f"{np.log(seconds / before[1]) / np.log(n_nodes / before[0]):.2f}"
        print(
            f"{n_nodes:6}{seconds:9.1f}{power:>8}{peak:8.2f}{n_units:7.0f}", flush=True
        )
        before = n_nodes, seconds


def main() -> None:
    """Print the times."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="only the large case")
    parser.add_argument("--many", action="store_true", help="only many nodes")
    parser.add_argument("--many-of", type=int, help="one line of --many, bare")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if options.large:
        print_large()
        return
    if options.many_of:
        print_many_of(options.many_of)
        return
    if options.many:
        print_many()
        return
    print("5 nodes x 50 neurons, 784 inputs, 1000 rows a node")
    federation = nodes(5, 50, 784, 1000)
    alike = nodes(5, 50, 784, 1000, noise=0.1)
    print_spaces(federation, options.repeats)
    print_merging(federation, "merging")
    print_merging(alike, "alike")
    print_fit(federation)
    print_fit(alike)


if __name__ == "__main__":
    main()

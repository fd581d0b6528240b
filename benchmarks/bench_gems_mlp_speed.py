# SPDX-License-Identifier: BSD-3-Clause
"""Time and memory of neuron spaces and of merging, on random layers.

The floor of a sampled radius search is drawing the directions and one product of the
rows with them for each node; the goal is four times that for all neurons. The
authors' program takes 350-390 s for its 250 neurons, and 55 s for intersections.
"""

from __future__ import annotations

import resource
from argparse import ArgumentParser
from time import perf_counter

import numpy as np

from skgems.spaces._merging import merge_neurons
from skgems.spaces._neurons import build_neuron_spaces


def nodes(n_nodes, n_neurons, n_inputs, n_rows, seed=0):
    """Rows and neurons of each node; a fifth of the inputs is not 0, as in images."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n_nodes):
        X = rng.random((n_rows, n_inputs), dtype=np.float32)
        X *= rng.random((n_rows, n_inputs), dtype=np.float32) < 0.2
        W = rng.normal(0, 0.05, (n_inputs + 1, n_neurons)).astype(np.float32)
        made.append((X, W))
    return made


def floor(federation, n_directions):
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
        build_neuron_spaces(X, W, "relu", random_state=0, **options)
        for X, W in federation
    ]
    return spaces, perf_counter() - start


def main() -> None:
    """Print the times."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="10 nodes x 1000 neurons")
    options = parser.parse_args()
    federation = nodes(5, 50, 784, 1000)
    floor(federation, 500)
    base = min(floor(federation, 500) for _ in range(3))
    print("5 nodes x 50 neurons, 784 inputs, 1000 rows a node")
    print(f"  {'floor: 500 directions, one product a node':52}{base:8.3f} s")
    for geometry in ("gram", "ellipsoid", "ball"):
        for construction in ("certified", "sampled"):
            given = {"geometry": geometry, "construction": construction}
            times = [
                build(federation, epsilon=0.3, max_radius=4000.0, **given)[1]
                for _ in range(3)
            ]
            what = f"{geometry}, {construction}"
            ratio = min(times) / base
            print(f"  {what:52}{min(times):8.3f} s  {ratio:5.1f} x floor")
    for epsilon, max_units in ((0.05, None), (0.05, 100), (0.5, 100)):
        spaces, _ = build(federation, epsilon=epsilon)
        start = perf_counter()
        layer = merge_neurons(spaces, homogeneous=True, max_units=max_units)
        seconds = perf_counter() - start
        what = f"merging, epsilon {epsilon}, max_units {max_units}"
        print(f"  {what:52}{seconds:8.3f} s  {layer.n_units} units")
    if not options.large:
        return
    federation = nodes(10, 1000, 2000, 500)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = perf_counter()
    spaces, _ = build(federation, epsilon=0.05)
    layer = merge_neurons(spaces, homogeneous=True, max_units=2000)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"10 nodes x 1000 neurons, 2000 inputs: {perf_counter() - start:.0f} s, "
        f"{(after - before) / 2**20:.2f} GiB more memory, {layer.n_units} units"
    )


if __name__ == "__main__":
    main()

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
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np
from _quick import parse_with_quick

from skgems import GEMSMLPAggregator
from skgems.gems import HiddenLayers
from skgems.local import clear_cache
from skgems.networks import Layers, to_mlp_classifier
from skgems.spaces import build_neuron_spaces, merge_neurons

GEOMETRIES = ("gram", "ellipsoid", "ball")


# Rows and first layer of a node: (n_rows, n_inputs), (n_inputs + 1, n_neurons).
NodeLayer = tuple[np.ndarray, np.ndarray]


def make_nodes(
    n_nodes: int,
    *,
    n_neurons: int,
    n_inputs: int,
    n_rows: int,
    noise: float | None = None,
) -> list[NodeLayer]:
    """Rows and neurons of each node; a fifth of the inputs is not 0, as in images.

    With `noise` all nodes have the same neurons, in another order and with that
    relative noise, so that many spaces meet.
    """
    rng = np.random.default_rng(0)
    layers: list[NodeLayer] = []
    for _ in range(n_nodes):
        X = rng.random((n_rows, n_inputs), dtype=np.float32)
        X *= rng.random((n_rows, n_inputs), dtype=np.float32) < 0.2
        W = rng.normal(0, 0.05, (n_inputs + 1, n_neurons)).astype(np.float32)
        if noise is not None and layers:
            order = rng.permutation(n_neurons)
            W = layers[0][1][:, order] + np.float32(noise) * W
        layers.append((X, W))
    return layers


def time_floor(layers: list[NodeLayer], n_directions: int = 500) -> float:
    """Seconds to draw the directions of all nodes and multiply the rows by them."""
    start = perf_counter()
    for X, W in layers:
        generator = np.random.Generator(np.random.SFC64(0))
        draw = generator.standard_normal((n_directions, len(W)), dtype=np.float32)
        draw[:, :-1] @ X.T
    return perf_counter() - start


def build_spaces(layers: list[NodeLayer], **options) -> tuple[list, float]:
    """Spaces of all nodes, and the seconds they take."""
    start = perf_counter()
    spaces = [
        build_neuron_spaces(X, W, "relu", random_state=0, max_radius=4000.0, **options)
        for X, W in layers
    ]
    return spaces, perf_counter() - start


def print_spaces(layers: list[NodeLayer], repeats: int) -> None:
    """Times of all kinds of spaces, beside floors taken in between."""
    time_floor(layers)
    least = min(time_floor(layers) for _ in range(repeats))
    print(f"  {'floor: 500 directions, one product a node':40}{least:9.3f} s")
    for epsilon in (0.05, 0.3):
        for geometry in GEOMETRIES:
            times = []
            floors = []
            for _ in range(repeats):
                floors.append(time_floor(layers))
                _, seconds = build_spaces(
                    layers, epsilon=epsilon, geometry=geometry, n_directions=500
                )
                times.append(seconds)
            title = f"{geometry}, epsilon {epsilon}"
            ratio = min(times) / min(floors)
            print(f"  {title:40}{min(times):9.3f} s {ratio:6.1f} x floor")


def print_merging(layers: list[NodeLayer], title: str) -> None:
    """Times of merging, spaces excluded."""
    for epsilon, max_units in ((0.05, None), (0.05, 100), (0.2, None), (0.4, None)):
        spaces, _ = build_spaces(layers, epsilon=epsilon)
        start = perf_counter()
        layer = merge_neurons(spaces, homogeneous=True, max_units=max_units)
        seconds = perf_counter() - start
        label = f"{title}, epsilon {epsilon}, max_units {max_units}"
        print(f"  {label:40}{seconds:9.3f} s {layer.n_units:6} units")


@dataclass(kw_only=True)
class Federation:
    """Networks of nodes, and the rows of all."""

    networks: list
    X: np.ndarray
    y: np.ndarray
    nodes: np.ndarray


def label_rows(layers: list[NodeLayer], *, classes_differ: bool = True) -> Federation:
    """Networks on the layers, and rows that they label; every node has two classes."""
    rng = np.random.default_rng(0)
    networks = []
    labels = []
    for k, (X, W) in enumerate(layers):
        V = rng.normal(0, 0.1, (W.shape[1], 2))
        first_class = 2 * k if classes_differ else 2 * (k % 5)
        network = to_mlp_classifier(
            Layers(
                [W[:-1].astype(float), V], [W[-1].astype(float), np.zeros(2)], "relu"
            ),
            np.array([first_class, first_class + 1]),
        )
        networks.append(network)
        labels.append(network.predict(X))
    return Federation(
        networks=networks,
        X=np.vstack([X for X, _ in layers]),
        y=np.concatenate(labels),
        nodes=np.repeat(np.arange(len(layers)), [len(X) for X, _ in layers]),
    )


def fit_quietly(
    aggregator: GEMSMLPAggregator, federation: Federation
) -> GEMSMLPAggregator:
    """Fit without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return aggregator.fit(federation.X, federation.y, federation.nodes)


def print_fit(layers: list[NodeLayer]) -> None:
    """Times of a whole fit without retraining."""
    federation = label_rows(layers)
    for options in (
        {},
        {"hidden_layers__max_units": 100},
        {"hidden_layers__max_units": 100, "hidden_layers__construction": "sampled"},
        {
            "hidden_layers__max_units": 100,
            "hidden_layers__geometry": "ball",
            "last_layer__spaces__geometry": "ball",
        },
        {"hidden_layers__epsilon": 0.4},
    ):
        clear_cache()
        aggregator = GEMSMLPAggregator(
            federation.networks, n_common_units=0, local_epochs=0, random_state=0
        )
        aggregator.set_params(**options)
        start = perf_counter()
        fit_quietly(aggregator, federation)
        seconds = perf_counter() - start
        n_units = aggregator.layer_report_[0]["n_units"]
        # Hidden layers and the last have the same names; one of both is enough.
        settings = {
            name.rpartition("__")[2]: setting for name, setting in options.items()
        }
        title = ", ".join(f"{name} {setting}" for name, setting in settings.items())
        print(f"  fit, {title or 'defaults':35}{seconds:9.3f} s {n_units:6} units")


def print_large() -> None:
    """Time and memory of 10 nodes with 1000 neurons each on 2000 inputs."""
    layers = make_nodes(10, n_neurons=1000, n_inputs=2000, n_rows=500)
    print("10 nodes x 1000 neurons, 2000 inputs, 500 rows a node", flush=True)
    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = perf_counter()

    def print_after(stage: str) -> None:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before
        seconds = perf_counter() - start
        gibibytes = f"{memory / 2**20:6.2f} GiB"
        print(f"  after {stage:33}{seconds:9.0f} s {gibibytes}", flush=True)

    spaces, _ = build_spaces(layers, epsilon=0.05)
    print_after("spaces")
    layer = merge_neurons(spaces, homogeneous=True, max_units=2000)
    print_after("merging")
    print(f"  {layer.n_units} units")


def print_many_of(n_nodes: int) -> None:
    """Seconds and GiB of one fit of many nodes, 10 classes in all."""
    layers = make_nodes(n_nodes, n_neurons=30, n_inputs=784, n_rows=200)
    federation = label_rows(layers, classes_differ=False)
    aggregator = GEMSMLPAggregator(
        federation.networks,
        hidden_layers=HiddenLayers(max_units=60),
        local_epochs=0,
        random_state=0,
    )
    start = process_time()
    fit_quietly(aggregator, federation)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(process_time() - start, peak, aggregator.layer_report_[0]["n_units"])


def print_many() -> None:
    """Time and memory by the number of nodes."""
    print(f"{'nodes':>6}{'CPU s':>9}{'power':>8}{'GiB':>8}{'units':>7}")
    n_nodes_before = None
    seconds_before = None
    for n_nodes in (10, 20, 50, 200):
        command = [sys.executable, __file__, "--many-of", str(n_nodes)]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds, peak, n_units = map(float, run.stdout.split())
        power = ""
        if n_nodes_before is not None:
            growth = np.log(seconds / seconds_before)
            power = f"{growth / np.log(n_nodes / n_nodes_before):.2f}"
        print(
            f"{n_nodes:6}{seconds:9.1f}{power:>8}{peak:8.2f}{n_units:7.0f}", flush=True
        )
        n_nodes_before = n_nodes
        seconds_before = seconds


def main() -> None:
    """Print the times."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="only the large case")
    parser.add_argument("--many", action="store_true", help="only many nodes")
    parser.add_argument("--many-of", type=int, help="one line of --many, bare")
    parser.add_argument("--repeats", type=int, default=5)
    options = parse_with_quick(parser, quick={"repeats": 1})
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
    layers = make_nodes(5, n_neurons=50, n_inputs=784, n_rows=1000)
    layers_alike = make_nodes(5, n_neurons=50, n_inputs=784, n_rows=1000, noise=0.1)
    print_spaces(layers, options.repeats)
    print_merging(layers, "merging")
    print_merging(layers_alike, "alike")
    print_fit(layers)
    if not options.quick:
        print_fit(layers_alike)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""Published programs that merge networks, beside ours, on PFNM's cells.

Nodes train networks of one hidden layer on their rows of MNIST or digits, each from its
own first weights (`_networks.py`). All methods get the same networks, which have an
output for each class, as those of the programs do. Test accuracy, megabytes from a
node, and processor seconds to merge, of all nodes and the server. The programs are
OT-fusion (``--otfusion`` names a copy of github.com/sidak/otfusion) and the package
rebasin; what is not there is left out. `_programs.py` says how they are called. The
table of `benchmarks/README.md`, "Published programs, on equal splits", is made by it.
"""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from _federations import MNIST, Split, load_data_set, split_rows
from _networks import EPOCHS, PARTITIONS, class_counts, partition, train
from _programs import (
    OTFUSION,
    REBASIN,
    merge_by_otfusion,
    merge_by_rebasin,
    n_bytes_of_network,
    without_missing,
)
from _protocol import load_mnist, split
from _records import ANY, Key, Records
from _side_by_side import (
    Outcome,
    add_options,
    measure_missing,
    print_defeats,
    print_table,
    run_and_print,
)
from sklearn.neural_network import MLPClassifier

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.gems import HiddenLayers

DIGITS = "digits"
DEFAULT_PARTITIONS = ("homogeneous", "Dirichlet 0.2")
# Passes over a node's rows. Ten nodes have 125 rows each of digits, or four batches.
EPOCHS_OF = {MNIST: EPOCHS, DIGITS: 10 * EPOCHS}
# Of the pixels.
LARGEST = {DIGITS: 16}
# OT-fusion's flags. Those of activations are its README's for MNIST, those of weights
# its README's for VGG11. Outputs of all nodes stand for the same classes. That README
# nevertheless transports them, which mixes up classes where nodes have unequal shares;
# with --skip-last-layer it does not.
OF_ACTIVATIONS = (
    "--gpu-id -1 --model-name mlpnet --exact --correction --ground-metric euclidean "
    "--weight-stats --activation-histograms --activation-mode raw "
    "--geom-ensemble-type acts --act-num-samples 200 --ground-metric-normalize none "
    "--activation-seed 21 --prelu-acts --past-correction --not-squared "
    "--dist-normalize --print-distances"
)
OF_WEIGHTS = (
    "--gpu-id -1 --model-name mlpnet --exact --correction --ground-metric euclidean "
    "--weight-stats --geom-ensemble-type wts --ground-metric-normalize none "
    "--ground-metric-eff --activation-seed 21 --prelu-acts --past-correction "
    "--not-squared --normalize-wts"
)
SKIP_LAST = " --skip-last-layer"
# Rows that OT-fusion reads activations of, as in its README.
N_PUBLIC_ROWS = 200


@dataclass(kw_only=True)
class Cell:
    """Rows dealt to nodes, and a network of each."""

    split: Split
    nodes: np.ndarray  # (n_rows,), numbers from 0
    n_units: int
    n_epochs: int
    seed: int
    otfusion: str | None  # folder of the program

    @property
    def n_nodes(self) -> int:
        """How many nodes there are."""
        return int(self.nodes.max()) + 1

    @cached_property
    def classes(self) -> np.ndarray:
        """Sorted labels."""
        return np.unique(self.split.y)

    def train_network(self, mask: np.ndarray | slice, node: int) -> MLPClassifier:
        """A network of some rows, with an output for each class."""
        seed = np.random.SeedSequence([self.seed, self.n_nodes, node])
        return train(
            self.split.X[mask],
            self.split.y[mask],
            (self.n_units,),
            int(seed.generate_state(1)[0]),
            epochs=self.n_epochs,
            classes=self.classes,
        )

    @cached_property
    def networks(self) -> list[MLPClassifier]:
        """The network of each node."""
        return [
            self.train_network(self.nodes == node, node) for node in range(self.n_nodes)
        ]

    @cached_property
    def counts(self) -> np.ndarray:
        """Rows of each class at each node, (n_nodes, 10)."""
        return class_counts(self.split.y, self.nodes, self.n_nodes)


# Methods: function(cell) -> Outcome --------------------------------------------------


def run_pooled(cell: Cell) -> Outcome:
    """A network of all rows in one place, of as many units as a node's."""
    return Outcome(cell.train_network(slice(None), 0), None)


def run_on_networks(cell: Cell, make: Callable) -> Outcome:
    """An aggregate that is made of networks alone."""
    model = make(cell.networks).fit()
    return Outcome(model, n_bytes_of_network(cell.networks[0]))


def run_weighted_vote(cell: Cell) -> Outcome:
    """The vote that weights each class by the node's share of its rows."""
    vote = EnsembleAggregator(cell.networks, node_weight="class_counts")
    vote.fit(cell.split.X, cell.split.y, cell.nodes)
    return Outcome(vote, n_bytes_of_network(cell.networks[0]))


def run_pfnm(cell: Cell, make: Callable = PFNMAggregator) -> Outcome:
    """PFNM of networks and counts of classes."""
    aggregator = make(cell.networks, random_state=cell.seed)
    aggregator.fit(n_class_samples=cell.counts)
    return Outcome(aggregator, n_bytes_of_network(cell.networks[0]))


def run_with_rows(cell: Cell, make: Callable) -> Outcome:
    """An aggregate for which nodes also send sums over their rows."""
    aggregator = make(cell.networks, random_state=cell.seed)
    aggregator.fit(cell.split.X, cell.split.y, cell.nodes)
    n_bytes = sum(message["bytes_received"] for message in aggregator.history_)
    return Outcome(
        aggregator, n_bytes / cell.n_nodes + n_bytes_of_network(cell.networks[0])
    )


def run_small_pfnm(cell: Cell) -> Outcome:
    """PFNM that keeps as many units as a node has, as the programs do."""
    return run_pfnm(cell, partial(PFNMAggregator, max_units=cell.n_units))


def run_small_gems(cell: Cell) -> Outcome:
    """GEMS that keeps as many units as a node has."""
    hidden_layers = HiddenLayers(max_units=cell.n_units)
    return run_with_rows(
        cell, partial(GEMSMLPAggregator, hidden_layers=hidden_layers, n_common_units=0)
    )


def run_rebasin(cell: Cell) -> Outcome:
    """MergeMany of the package rebasin."""
    merged = merge_by_rebasin(cell.networks, cell.seed)
    return Outcome(merged, n_bytes_of_network(cell.networks[0]))


def run_otfusion(cell: Cell, flags: str) -> Outcome:
    """OT-fusion, aligned with the network of the node that has most rows.

    Where it reads activations, these are of rows of all nodes, as in its program.
    """
    chosen = np.random.default_rng(cell.seed).permutation(len(cell.split.y))
    merged, seconds = merge_by_otfusion(
        cell.networks,
        cell.split.X[chosen[:N_PUBLIC_ROWS]],
        reference=int(np.argmax(np.bincount(cell.nodes))),
        folder=cell.otfusion,
        flags=flags,
    )
    return Outcome(merged, n_bytes_of_network(cell.networks[0]), seconds)


POOLED = "network of all rows"
AVERAGE = "averaging"
SOFT_VOTE = "soft vote"
PFNM_WITH_MOMENTS = partial(PFNMAggregator, last_layer=GEMSLogisticAggregator())
METHODS: dict[str, Callable[[Cell], Outcome]] = {
    POOLED: run_pooled,
    AVERAGE: partial(run_on_networks, make=ModelAveragingAggregator),
    "averaging, aligned": partial(
        run_on_networks, make=partial(ModelAveragingAggregator, align="permutation")
    ),
    SOFT_VOTE: partial(run_on_networks, make=EnsembleAggregator),
    "vote by classes": run_weighted_vote,
    REBASIN: run_rebasin,
    "OT-fusion, README": partial(run_otfusion, flags=OF_ACTIVATIONS),
    "OT-fusion, activations": partial(run_otfusion, flags=OF_ACTIVATIONS + SKIP_LAST),
    "OT-fusion, weights": partial(run_otfusion, flags=OF_WEIGHTS + SKIP_LAST),
    "PFNM, a node's size": run_small_pfnm,
    "GEMS, a node's size": run_small_gems,
    "PFNM": run_pfnm,
    "PFNM and moments": partial(run_with_rows, make=PFNM_WITH_MOMENTS),
    "GEMS": partial(run_with_rows, make=GEMSMLPAggregator),
}
OURS = (
    "averaging, aligned",
    "PFNM, a node's size",
    "GEMS, a node's size",
    "PFNM",
    "PFNM and moments",
    "GEMS",
)
PROGRAM_OF = {
    method: program
    for method in METHODS
    for program in (REBASIN, OTFUSION)
    if method.startswith(program)
}


# Cells -------------------------------------------------------------------------------


class Place(NamedTuple):
    """One data set, split once, and dealt to so many nodes of so many units."""

    data_set: str
    n_train: int
    seed: int
    partition: str
    n_nodes: int
    n_units: int
    n_epochs: int


def key_of(place: Place, method: str) -> Key:
    """The network of all rows is trained once."""
    units = f"{place.n_units} units, {place.n_epochs} epochs"
    is_pooled = method == POOLED
    return Key(
        data=place.data_set,
        n_train=place.n_train,
        seed=place.seed,
        partition=ANY if is_pooled else place.partition,
        kind=units if is_pooled else f"{place.n_nodes} nodes, {units}",
        method=method,
    )


def load_split(data_set: str, seed: int, options: Namespace) -> Split:
    """Training and test rows: of MNIST those of the papers' tables."""
    if data_set == MNIST:
        X, y = load_mnist(options.mnist)
        rows = split(seed, len(X))[0][: options.max_rows]
        return Split(X[rows], y[rows], *load_mnist(options.mnist, test=True))
    X, y = load_data_set(data_set, options)
    X = (X / LARGEST[data_set]).astype(np.float32)
    max_rows = options.max_rows or len(y)
    return split_rows(X, y, seed, max_rows=max_rows, standardize=False)


def cells_of(options: Namespace) -> Iterator[tuple[Place, Cell]]:
    """The cells asked for."""
    for seed in range(options.seeds):
        for data_set in options.data_sets:
            rows = load_split(data_set, seed, options)
            n_epochs = options.epochs or EPOCHS_OF[data_set]
            for n_units in options.units:
                for name in options.partitions:
                    for n_nodes in options.nodes:
                        cell = Cell(
                            split=rows,
                            nodes=partition(rows.y, name, n_nodes, seed),
                            n_units=n_units,
                            n_epochs=n_epochs,
                            seed=seed,
                            otfusion=options.otfusion,
                        )
                        place = Place(
                            data_set=data_set,
                            n_train=len(rows.y),
                            seed=seed,
                            partition=name,
                            n_nodes=n_nodes,
                            n_units=n_units,
                            n_epochs=n_epochs,
                        )
                        yield place, cell


def run_cells(records: Records, options: Namespace) -> list[Place]:
    """Run what is missing of the cells asked for; returns these."""
    methods = without_missing(options.methods, PROGRAM_OF, options.otfusion)
    places = []
    for place, cell in cells_of(options):
        places.append(place)
        makers = [
            (key_of(place, method), partial(METHODS[method], cell))
            for method in methods
        ]
        if any(records.get(key) is None for key, _ in makers):
            # The networks are trained before the clock of a method starts.
            _ = cell.networks
        measure_missing(records, makers, cell.split, verbose=options.verbose)
    return places


# Tables ------------------------------------------------------------------------------


def keys_of(method: str, places: list[Place]) -> list[Key]:
    """Those of one column."""
    return [key_of(place, method) for place in places]


def print_tables(records: Records, places: list[Place], options: Namespace) -> None:
    """A table for each data set and number of units."""
    by_table: dict[tuple[str, int], dict] = {}
    for place in places:
        columns = by_table.setdefault((place.data_set, place.n_units), {})
        heads = (place.partition, f"{place.n_nodes} nodes")
        columns.setdefault(heads, []).append(place)
    for (data_set, n_units), places_by_heads in by_table.items():
        columns = {
            heads: partial(keys_of, places=places_of_column)
            for heads, places_of_column in places_by_heads.items()
        }
        title = f"{data_set}, {n_units} units, means of {options.seeds} seeds"
        accuracies = print_table(records, columns, options.methods, title)
        print_defeats(accuracies, OURS, (AVERAGE, SOFT_VOTE))


def parse_options(arguments: list[str] | None = None) -> Namespace:
    """Options, with what was not given filled in."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, METHODS)
    parser.add_argument("--otfusion", help="folder of a copy of sidak/otfusion")
    parser.add_argument("--data-sets", nargs="+", choices=[DIGITS, MNIST])
    parser.add_argument(
        "--partitions", nargs="+", choices=PARTITIONS, default=DEFAULT_PARTITIONS
    )
    parser.add_argument("--nodes", nargs="+", type=int, default=[2, 5, 10])
    parser.add_argument("--units", nargs="+", type=int, default=[50])
    parser.add_argument("--epochs", type=int, help="of a node's training")
    options = parser.parse_args(arguments)
    # All is compared with these.
    asked = {POOLED, AVERAGE, SOFT_VOTE, *(options.methods or METHODS)}
    options.methods = [method for method in METHODS if method in asked]
    if options.data_sets is None:
        options.data_sets = [DIGITS, MNIST] if options.mnist else [DIGITS]
    return options


def main() -> None:
    """Run what is missing and print the tables."""
    run_and_print(parse_options(), run_cells, print_tables)


if __name__ == "__main__":
    main()

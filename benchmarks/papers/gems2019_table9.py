# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2019, Tables 3 and 9: the size of the network against its accuracy, five nodes.

The numbers of clusters and the deviations of hidden neurons are the paper's, and all
rows have our default last layer. The majority vote keeps all 250 units. "Tuned" means
on 1,000 public rows.

Equation 3 bounds the norm of a neuron's changes on a node's n rows, divided by n.
"Units by Equation 3" are made of balls by that bound, neuron by neuron. It has the unit
of activations. On MNIST it is wider than the neurons themselves, so that neurons of a
cluster have zero in common, and the clusters decide, as they do in the paper. "GEMS"
has deviations relative to each neuron's size.

``--of cifar10`` uses features of CIFAR-10 (``--data features.npz``) and hidden layers
of 100 units, as in Tables 3 and 10. There too the bound of Equation 3 is wider than the
neurons. The paper has more units than clusters, so its neurons were larger than ours.
One factor of 3, for the root of n over a neuron's size in the paper, takes its four
deviations to relative ones that have its units within a tenth. It was chosen by these
four numbers of units, as the nearest of 2.3, 2.6, 2.8, 3.0 and 3.2, so that they do not
confirm it. In one trial they were 152, 245, 374 and 372, and 150, 150, 200 and 100 by
Equation 3 to the letter. The paper has 163, 246, 380 and 386.

``--of NAME`` uses features of any ten classes.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator

import numpy as np
from _common import (
    CIFAR,
    CLASSES,
    MNIST,
    Cell,
    PaperFigures,
    Program,
    Trial,
    baselines,
    protocol,
)
from gems2019_table6 import FACTOR_OF_CIFAR, aggregate, rows_and_public, tuned_copy

from skgems.gems import HiddenLayers
from skgems.networks import linear_logits, read_network
from skgems.spaces._neuron_merging import merge_neurons
from skgems.spaces._neuron_metrics import metric_of_neurons
from skgems.spaces._neuron_spaces import NeuronSpaces, sampled_radii

# Nodes of two digits each.
K = 5
# The paper's accuracy and units by clusters and deviation of hidden neurons.
FIGURES = {
    MNIST: {
        (75, 0.5): (0.872, 74),
        (100, 1.0): (0.886, 99),
        (50, 1.0): (0.862, 49),
        (75, 1.0): (0.867, 79),
    },
    CIFAR: {
        (150, 0.7): (0.454, 163),
        (150, 0.5): (0.492, 246),
        (200, 0.3): (0.502, 380),
        (100, 0.3): (0.501, 386),
    },
}
# Relative deviations, as a multiple of the paper's. On MNIST all of 1 and more do.
FACTORS = {MNIST: 1.0, CIFAR: FACTOR_OF_CIFAR}
BY_LETTER = "units by Equation 3"
# The paper's accuracy and units of the ensemble, which keeps all.
ENSEMBLE = {MNIST: (0.210, 250), CIFAR: (0.194, 500)}


def setting_of(n_clusters: int, epsilon: float) -> str:
    """The title of the paper's way with these settings."""
    return f"{n_clusters} clusters, epsilon {epsilon}"


def figures_of_paper(data_set: str) -> PaperFigures:
    """Accuracy tuned on the last layer, and units."""
    table: PaperFigures = {}
    for (n_clusters, epsilon), (accuracy, n_units) in FIGURES[data_set].items():
        setting = setting_of(n_clusters, epsilon)
        table[setting, "GEMS, last layer tuned", "accuracy"] = accuracy
        table[setting, "GEMS, all tuned", "accuracy"] = accuracy
        table[setting, "GEMS", "units"] = n_units
        table[setting, BY_LETTER, "units"] = n_units
    accuracy, n_units = ENSEMBLE[data_set]
    table["all nodes", "majority vote", "accuracy"] = accuracy
    table["all nodes", "majority vote", "units"] = n_units
    return table


def hidden_layers_by_setting(
    data_set: str, sizes: list[int]
) -> dict[str, HiddenLayers]:
    """How hidden layers are merged, as in the paper and by the largest size."""
    factor = FACTORS.get(data_set, 1.0)
    hidden_layers = {
        setting_of(n_clusters, epsilon): HiddenLayers(
            "ball", n_clusters=n_clusters, epsilon=factor * epsilon, max_units=None
        )
        for n_clusters, epsilon in FIGURES.get(data_set, FIGURES[MNIST])
    }
    for size in [*sizes, None]:
        hidden_layers[f"max_units={size}"] = HiddenLayers(max_units=size)
    return hidden_layers


def units_by_equation_3(
    models: list, rows: protocol.Rows, *, n_clusters: int, epsilon: float
) -> int:
    """Units of balls by Equation 3 to the letter, for neurons of any size."""
    spaces = []
    for k, model in enumerate(models):
        layers = read_network(model)
        W = np.vstack([layers.coefs[0], layers.intercepts[0]]).astype(np.float64)
        X = rows.X_val[rows.nodes == k].astype(np.float64)
        precision = np.ones(len(W))
        radii = sampled_radii(
            X,
            linear_logits(X, W),
            activation="relu",
            bounds=np.full(W.shape[1], epsilon * np.sqrt(len(X))),
            metric=metric_of_neurons(precision),
            n_directions=100,
            max_radius=1e4,
            rng=np.random.RandomState(0),
        )
        sizes = np.ones(W.shape[1])  # none is left out
        spaces.append(
            NeuronSpaces(centers=W, precision=precision, radii=radii, sizes=sizes)
        )
    return merge_neurons(spaces, n_clusters=n_clusters, random_state=0).n_units


def measure_cells(trial: Trial) -> Iterator[Cell]:
    """The cells of one trial."""
    options = trial.options
    models = trial.local_models("hidden", K, width=trial.width)
    pooled = trial.pooled_model("hidden", width=trial.width)
    rows, public = rows_and_public(trial, K, options.n_rows)
    averaged = baselines.average(models, CLASSES)
    yield Cell("all nodes", "majority vote", trial.accuracy_of_vote(models))
    yield Cell("all nodes", "majority vote", trial.width * K, "units")
    yield Cell("all nodes", "averaged", trial.accuracy_of_layers(averaged))
    yield Cell("all nodes", "pooled", trial.score(pooled))
    for n_clusters, epsilon in FIGURES.get(options.of, FIGURES[MNIST]):
        n_units = units_by_equation_3(
            models, rows, n_clusters=n_clusters, epsilon=epsilon
        )
        yield Cell(setting_of(n_clusters, epsilon), BY_LETTER, n_units, "units")
    hidden_layers = hidden_layers_by_setting(options.of, options.sizes)
    for setting, hidden_layers_of_setting in hidden_layers.items():
        aggregator = aggregate(models, rows, hidden_layers=hidden_layers_of_setting)
        yield Cell(setting, "GEMS", trial.score(aggregator))
        last_tuned = tuned_copy(aggregator, public, layers="last")
        yield Cell(setting, "GEMS, last layer tuned", trial.score(last_tuned))
        all_tuned = tuned_copy(aggregator, public, layers="all")
        yield Cell(setting, "GEMS, all tuned", trial.score(all_tuned))
        yield Cell(setting, "GEMS", aggregator.layer_report_[0]["n_units"], "units")


def add_options(parser: ArgumentParser) -> None:
    """Add rows, and bounds on the size of the network."""
    parser.add_argument("--n-rows", type=int, help="of the nodes' training rows")
    parser.add_argument("--sizes", type=int, nargs="*", default=[50, 75, 100, 150])


PROGRAM = Program(
    name="gems2019_table9",
    title="GEMS 2019, Tables 3 and 9: size of the network, K=5",
    measure_cells=measure_cells,
    ours=("GEMS, last layer tuned", "GEMS, all tuned"),
    paper=figures_of_paper(MNIST),
    others={CIFAR: figures_of_paper(CIFAR)},
    add_options=add_options,
    quick={"sizes": [50]},
)

if __name__ == "__main__":
    PROGRAM.main()

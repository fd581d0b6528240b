# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2019, Tables 3 and 9: the size of the network against its accuracy, five nodes.

The numbers of clusters and the deviations of hidden neurons are the paper's. Its
deviation has other units, but at these values the clusters decide in both. The rows
with ``max_units`` have our default last layer. The majority vote keeps all 250 units.
"Tuned" means on 1,000 public rows.

``--of cifar10`` uses features of CIFAR-10 (``--data features.npz``) and hidden layers
of 100 units, as in Tables 3 and 10. ``--of NAME`` uses features of any ten classes.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator

from _common import (
    CIFAR,
    CLASSES,
    MNIST,
    Cell,
    PaperFigures,
    Program,
    Trial,
    baselines,
)
from gems2019_table6 import aggregate, rows_and_public, tuned_copy

from skgems.gems import HiddenLayers

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
    accuracy, n_units = ENSEMBLE[data_set]
    table["all nodes", "majority vote", "accuracy"] = accuracy
    table["all nodes", "majority vote", "units"] = n_units
    return table


def hidden_layers_by_setting(
    data_set: str, sizes: list[int]
) -> dict[str, HiddenLayers]:
    """How hidden layers are merged, as in the paper and by the largest size."""
    hidden_layers = {
        setting_of(n_clusters, epsilon): HiddenLayers(
            n_clusters=n_clusters, epsilon=epsilon, max_units=None
        )
        for n_clusters, epsilon in FIGURES.get(data_set, FIGURES[MNIST])
    }
    for size in [*sizes, None]:
        hidden_layers[f"max_units={size}"] = HiddenLayers(max_units=size)
    return hidden_layers


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

# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2019, Figures 3 and 4: what so many public rows make of each model, five nodes.

Softmax regressions (Figure 3) and networks of 50 units (Figure 4) are fitted to the
first rows of the validation set, and tuned on them. Averages and local models are tuned
by five epochs of Adam. For networks this changes only the last layer, as in the paper.
"Public rows alone" is a logistic regression. For networks there is also a network that
is trained on the public rows for 50 epochs.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
from _common import (
    CLASSES,
    Cell,
    PaperFigures,
    Program,
    Rows,
    Trial,
    baselines,
)
from gems2019_table5 import AS_PAPER, epsilon_of_paper
from gems2019_table6 import as_paper

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator

# Nodes of two digits each.
K = 5
KINDS = {"softmax": "softmax regressions", "hidden": "networks"}
ABOVE = "GEMS, tuned, above {}"
# The mean over three data sets: percentage points that 100 public rows gain by GEMS.
GAINS = {
    "public rows alone": 0.226,
    "averaged, tuned": 0.151,
    "local (mean), tuned": 0.268,
}


def figures_of_paper() -> PaperFigures:
    """What the text says of Figure 4; the figures' curves have no numbers."""
    return {
        ("networks", ABOVE.format(name), "gain"): gain for name, gain in GAINS.items()
    }


@dataclass(kw_only=True)
class Models:
    """What one kind of local model gives, before any public row is seen."""

    kind: str  # a key of KINDS
    layers: list[baselines.Layers]  # of each node
    averaged: baselines.Layers
    gems: GEMSLogisticAggregator | GEMSMLPAggregator
    literal: GEMSLogisticAggregator | GEMSMLPAggregator  # as in the paper

    @property
    def are_networks(self) -> bool:
        """Whether there is a hidden layer, which may stay as it is."""
        return self.kind == "hidden"


def unfitted_aggregators(kind: str, models: list, options: Namespace) -> tuple:
    """Ours, and the paper's way."""
    if kind == "softmax":
        epsilon = epsilon_of_paper(options.of)
        return (
            GEMSLogisticAggregator(models, random_state=0),
            GEMSLogisticAggregator(models, random_state=0, epsilon=epsilon, **AS_PAPER),
        )
    return (
        GEMSMLPAggregator(models, n_common_units=0, random_state=0),
        GEMSMLPAggregator(models, random_state=0, **as_paper(K, options.of)),
    )


def tuned_copy(aggregator, public: Rows, layers: str | None):
    """A copy, tuned on these rows; softmax regressions have no layers to choose."""
    X, y = public
    if layers is None:
        return deepcopy(aggregator).fine_tune(X, y)
    return deepcopy(aggregator).fine_tune(X, y, layers=layers)


def measure_tuned(
    trial: Trial, models: Models, public: Rows
) -> Iterator[tuple[str, float]]:
    """Names and accuracies of what is tuned on, or made of, the public rows."""
    X, y = public

    def accuracy_of_tuned(layers: baselines.Layers) -> float:
        tuned = baselines.tune(
            layers,
            X,
            y,
            CLASSES,
            last_only=models.are_networks,
            random_state=trial.number,
        )
        return trial.accuracy_of_layers(tuned)

    yield "averaged, tuned", accuracy_of_tuned(models.averaged)
    local = [accuracy_of_tuned(layers) for layers in models.layers]
    yield "local (mean), tuned", np.mean(local)
    yield "public rows alone", trial.score(baselines.public_alone(X, y))
    if models.are_networks:
        start = baselines.random_layers((784, 50, 10), trial.number)
        # At the rate of local training, since it starts from nothing.
        alone = baselines.tune(start, X, y, CLASSES, epochs=50, learning_rate=1e-3)
        yield "network of public rows alone", trial.accuracy_of_layers(alone)
    all_layers = "all" if models.are_networks else None
    gems = tuned_copy(models.gems, public, all_layers)
    yield "GEMS, tuned", trial.score(gems)
    last_layer = "last" if models.are_networks else None
    literal = tuned_copy(models.literal, public, last_layer)
    yield "GEMS as in the paper, tuned", trial.score(literal)


def measure_cells(trial: Trial) -> Iterator[Cell]:
    """The cells of one trial."""
    rows = trial.rows(K)
    for kind in trial.options.kinds:
        setting = KINDS[kind]
        local_models = trial.local_models(kind, K)
        gems, literal = unfitted_aggregators(kind, local_models, trial.options)
        gems.fit(rows.X_val, rows.y_val, nodes=rows.nodes)
        literal.fit(rows.X_val, rows.y_val, nodes=rows.nodes)
        models = Models(
            kind=kind,
            layers=[baselines.layers_of(model, CLASSES) for model in local_models],
            averaged=baselines.average(local_models, CLASSES),
            gems=gems,
            literal=literal,
        )
        untuned = {
            "majority vote": trial.accuracy_of_vote(local_models),
            "averaged, untuned": trial.accuracy_of_layers(models.averaged),
            "GEMS, untuned": trial.score(gems),
        }
        if not trial.options.no_pooled:
            untuned["pooled"] = trial.score(trial.pooled_model(kind))
        for n in trial.options.rows:
            chosen = rows.public[:n]
            public = (rows.X_val[chosen], rows.y_val[chosen])
            accuracies = untuned | dict(measure_tuned(trial, models, public))
            for name, accuracy in accuracies.items():
                yield Cell(setting, name, accuracy, x=n)
            if n == 100 and models.are_networks:  # what the paper's text is about
                for name in GAINS:
                    gain = accuracies["GEMS, tuned"] - accuracies[name]
                    yield Cell(setting, ABOVE.format(name), gain, "gain", x=n)


def add_options(parser: ArgumentParser) -> None:
    """Add kinds of local models, and numbers of public rows."""
    rows = [20, 50, 100, 200, 500, 1000]
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rows", type=int, nargs="*", default=rows)
    parser.add_argument("--no-pooled", action="store_true", help="it takes longest")


PROGRAM = Program(
    name="gems2019_figures3_4",
    title="GEMS 2019, Figures 3 and 4: fine-tuning, K=5",
    measure_cells=measure_cells,
    ours=("GEMS, tuned", *map(ABOVE.format, GAINS)),
    paper=figures_of_paper(),
    x_label="public rows",
    logarithmic=True,
    note="The paper's gains are means over three data sets, and one of them is MNIST. "
    "Here cross-validation chooses the penalty of the logistic regression of public "
    "rows alone.",
    add_options=add_options,
    quick={"rows": [20, 100, 500]},
)

if __name__ == "__main__":
    PROGRAM.main()
